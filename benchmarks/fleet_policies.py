"""Scenarios for each scheduling policy that ESCHER names, drawn from a seed; a log that breaks a rule of one is refused
by the fleet's own checker."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

Value = dict[str, Any]


def _scenario(name: str, jobs: list[Value], boxes: int = 8, cpu: float = 4, **more: Any) -> Value:
    made = [
        {
            "name": f"b{n}",
            "resources": {"cpu": cpu, "gpu": 1} if n % 4 == 0 else {"cpu": cpu},
            "labels": {"rack": f"r{n % 4}", "accel": "none" if n % 4 else "gpu"},
        }
        for n in range(boxes)
    ]
    jobs = sorted(jobs, key=lambda job: job["t"])
    return {"format": "fleet-scenario/1", "name": name, "boxes": made, "jobs": jobs} | more


def _job(name: str, at_s: float, duration_s: float | None, **more: Any) -> Value:
    return {"id": name, "t": round(at_s, 3), "demand": {"cpu": 1}, "duration_s": duration_s} | more


def affinity(rng: random.Random) -> Value:
    """Companions run where their service runs."""
    jobs = [_job(f"s{n}", 0.1 * n, None) for n in range(8)]
    jobs += [_job(f"c{n}", rng.uniform(2, 30), rng.uniform(1, 5), near=[f"s{rng.randrange(8)}"]) for n in range(40)]
    return _scenario("affinity", jobs)


def anti_affinity(rng: random.Random) -> Value:
    """Replicas on different boxes or racks."""
    jobs = [
        _job(f"r{n}", rng.uniform(0, 30), rng.uniform(2, 8), tasks=3, avoid={"group": f"g{n}", "per": per})
        for n in range(20)
        for per in [rng.choice(["box", "rack"])]
    ]
    return _scenario("anti-affinity", jobs)


def gang(rng: random.Random) -> Value:
    """All tasks or none."""
    jobs = [
        _job(f"g{n}", rng.uniform(0, 20), rng.uniform(1, 3), tasks=rng.choice([4, 12, 20]), gang=True)
        for n in range(20)
    ]
    return _scenario("gang", jobs)


def graph(rng: random.Random) -> Value:
    """Tasks after others."""
    jobs = []
    for n in range(40):
        after = sorted({f"d{rng.randrange(n)}" for _ in range(rng.randrange(3))}) if n else []
        jobs.append(_job(f"d{n}", rng.uniform(0, 5), rng.uniform(0.5, 2), after=after))
    return _scenario("graph", jobs)


def queue(rng: random.Random) -> Value:
    """A few at a time, in order of arrival or by priority."""
    queues = [
        {"name": "fifo", "slots": 2, "discipline": "fifo"},
        {"name": "first", "slots": 2, "discipline": "priority"},
    ]
    jobs = [
        _job(
            f"q{n}",
            rng.uniform(0, 10),
            rng.uniform(0.5, 2),
            queue=rng.choice(["fifo", "first"]),
            priority=rng.randrange(3),
        )
        for n in range(40)
    ]
    return _scenario("queue", jobs, queues=queues)


def soft(rng: random.Random) -> Value:
    """A GPU's box if it has room within 5 s, else any."""
    prefer = [{"zone": {"accel": ["gpu"]}}, {}]
    jobs = [_job(f"s{n}", rng.uniform(0, 10), rng.uniform(3, 9), prefer=prefer, relax_after_s=5) for n in range(30)]
    return _scenario("soft", jobs)


def balance(rng: random.Random) -> Value:
    """Equal services spread evenly."""
    jobs = [_job(f"l{n}", 0.1 * n + rng.uniform(0, 0.05), None) for n in range(20)]
    return _scenario("balance", jobs, expect={"balance": [{"jobs": "l", "at": 10, "most": 1}]})


def packing(rng: random.Random) -> Value:
    """Equal services on as few boxes as hold them."""
    jobs = [_job(f"p{n}", 0.1 * n + rng.uniform(0, 0.05), None) for n in range(12)]
    return _scenario("packing", jobs, placement="pack", expect={"pack": [{"jobs": "p", "at": 10, "most": 3}]})


def pairs(rng: random.Random) -> Value:
    """Pairs together, the pairs spread: two policies joined."""
    jobs = [_job(f"predict{n}", 0.2 * n + rng.uniform(0, 0.05), None) for n in range(16)]
    jobs += [_job(f"board{n}", 4 + 0.2 * n, 10.0, near=[f"predict{n}"]) for n in range(16)]
    return _scenario("pairs", jobs, expect={"balance": [{"jobs": "predict", "at": 3.9, "most": 1}]})


def gang_on_racks(rng: random.Random) -> Value:
    """A gang of which no two tasks share a rack: two policies joined."""
    jobs = [
        _job(
            f"g{n}", rng.uniform(0, 20), rng.uniform(1, 3), tasks=4, gang=True, avoid={"group": f"g{n}", "per": "rack"}
        )
        for n in range(20)
    ]
    return _scenario("gang on racks", jobs)


#: Policy -> what draws a scenario of it.
POLICIES: Mapping[str, Callable[[random.Random], Value]] = {
    "affinity": affinity,
    "anti-affinity (box, rack)": anti_affinity,
    "gang scheduling": gang,
    "order in a graph": graph,
    "queues (first come, priority)": queue,
    "soft constraints": soft,
    "load balancing": balance,
    "bin packing": packing,
    "composed: pairs together, pairs spread": pairs,
    "composed: gangs over racks": gang_on_racks,
}


def shares_of_a_tree(seed: int, boxes: int = 100) -> Value:
    """Figure 4.5(c): A and B (weights 2:3) in one part of an organisation, C in the other; they begin at 0, 60, 120 s
    and have more tasks than fit until 180 s."""
    rng = random.Random(f"tree {seed}")
    tenants = [
        {"name": "org1", "weight": 1},
        {"name": "org2", "weight": 1},
        {"name": "A", "weight": 2, "parent": "org1"},
        {"name": "B", "weight": 3, "parent": "org1"},
        {"name": "C", "weight": 1, "parent": "org2"},
    ]
    jobs = [
        _job(f"{who}{n}", begin, rng.choice([2.0, 3.0, 4.0]), tasks=40, tenant=who)
        for who, begin, count in (("A", 0, 90), ("B", 60, 55), ("C", 120, 35))
        for n in range(count)
    ]
    hfs = {"resource": "cpu", "from": 10, "to": 180, "max_error": 1.0}
    return _scenario("shares", jobs, boxes, 1, tenants=tenants, expect={"hfs": hfs})
