"""Fleets for the benchmark: scenarios of many boxes with every kind of job, lost boxes, a head that is away."""

from __future__ import annotations

import random
from typing import Any

#: Parts of the jobs by kind; the rest is plain.
_KINDS = (("near", 0.08), ("zone", 0.14), ("gang", 0.14), ("soft", 0.10), ("apart", 0.08))


def fleet_of(number: int, jobs_per_box: float = 3.0, seed: int = 1, cameras_per_box: float = 0.4) -> dict[str, Any]:
    """A scenario of `number` boxes in sites of 25, with cameras, and jobs that arrive over 300 s; every fiftieth box is
    lost for a minute."""
    rng = random.Random(seed)
    sites = max(1, number // 25)
    boxes = [
        {
            "name": f"b{n}",
            "resources": {"cpu": rng.choice([2, 4, 8]), "mem_gb": 16} | ({"gpu": 1} if n % 10 == 0 else {}),
            "labels": {"site": f"s{n % sites}", "rack": f"r{n % (4 * sites)}", "accel": "none" if n % 10 else "gpu"},
        }
        for n in range(number)
    ]
    jobs: list[dict[str, Any]] = []
    cameras = int(number * cameras_per_box)
    for n in range(cameras):
        zone = {"site": [f"s{rng.randrange(sites)}"]}
        jobs.append(
            {"id": f"cam{n}", "t": round(n * 5 / max(1, cameras), 3), "demand": {"cpu": 0.5}, "duration_s": None}
        )
        jobs[-1] |= {"zone": zone, "overlap": "allowed"}
    jobs += [_job(rng, n, sites, cameras) for n in range(int(number * jobs_per_box))]
    lost = rng.sample(range(number), number // 50)
    faults = [{"t": 150, "kind": "head_down"}, {"t": 165, "kind": "head_up"}]
    for n in lost:
        at_s = round(rng.uniform(20, 270), 1)
        faults += [{"t": at_s, "kind": "box_down", "box": f"b{n}"}, {"t": at_s + 60, "kind": "box_up", "box": f"b{n}"}]
    tenants: list[dict[str, Any]] = [{"name": f"org{n}", "weight": 1 + n % 3} for n in range(4)]
    tenants += [{"name": f"t{n}{k}", "weight": 1 + k, "parent": f"org{n}"} for n in range(4) for k in range(3)]
    return {
        "format": "fleet-scenario/1",
        "name": f"{number} boxes",
        "boxes": boxes,
        "tenants": tenants,
        "jobs": sorted(jobs, key=lambda job: job["t"]),
        "faults": sorted(faults, key=lambda fault: fault["t"]),
        "expect": {"replace_s": 60, "max_gap_s": 60, "detect_s": 15, "deadline_s": 2000},
    }


def _job(rng: random.Random, number: int, sites: int, cameras: int) -> dict[str, Any]:
    job: dict[str, Any] = {
        "id": f"j{number}", "t": round(rng.uniform(5, 300), 2), "demand": {"cpu": rng.choice([0.5, 1, 2])},
        "duration_s": round(rng.uniform(5, 80), 1), "checkpoints": True,
        "tenant": f"t{rng.randrange(4)}{rng.randrange(3)}",
    }  # fmt: skip
    chosen = rng.random()
    for kind, part in _KINDS:
        chosen -= part
        if chosen < 0:
            more: dict[str, Any] = {
                "near": {"near": [f"cam{rng.randrange(max(1, cameras))}"], "demand": {"cpu": 0.5}},
                "zone": {"zone": {"site": [f"s{rng.randrange(sites)}", f"s{rng.randrange(sites)}"]}},
                "gang": {"gang": True, "tasks": rng.choice([4, 8, 16]), "demand": {"cpu": 1}},
                "soft": {"prefer": [{"zone": {"accel": ["gpu"]}}, {}], "relax_after_s": 10},
                "apart": {"avoid": {"group": f"g{number}", "per": "rack"}, "tasks": 3},
            }[kind]
            return job | more
    return job
