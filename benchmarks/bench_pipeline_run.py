"""An application for real: `night`, a chain of three stages with a fan-out, on CPU shares of this machine beside two
cameras.

    python -m benchmarks.bench_pipeline_run [split] [replan] [--minutes 10] [--table FILE]

split: Poisson arrivals whose rate is a wave up to the planned head-room; minutes under the joint split of the objective
and under the even split by turns, in one run of one appliance. Reported for each: requests that missed the objective
(late, dropped, rejected, failed), the planned share, and stages' answers within their budgets.
replan: a change in the middle of a minute: another objective, another version of a stage's model, the rate doubled.
The load comes from a process of its own (`magpie load`), with pictures of a street that no camera shows. It and the
cameras' encoders are no part of a box: the appliance may use 70 % of the cores (--cores), the rest is theirs.
Without --table the latencies are measured first (3 min). Results: benchmarks/results/pipeline_run.json; a part that is
not run keeps its last result there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.bench_faults import camera_process
from benchmarks.bench_serving_run import WARM_UP_S, all_serve, box_cores, counted, during, load, measured, served
from edge.appliance.appliance import Appliance
from edge.commands.front_process import front_process
from edge.demo.cameras import PASSWORD_VARIABLE, USER
from edge.demo.scene import Scene, SceneSpec
from edge.demo.site import demo_site, scene_cameras
from edge.settings import ServingSettings

RESULTS = Path(__file__).parent / "results" / "pipeline_run.json"
NAME = "night"
#: Reached: so much of the requests missed at most, so much of a stage's answers within their budget at least.
MISSED, WITHIN = 0.01, 0.99
#: Seconds of each block, warm-up aside; the wave goes up and down once in it, as far as the planned head-room.
BLOCK_S, DEPTH = 60.0, 0.2
#: Part of the largest rate that is admitted under both splits which is sent on average; before a rate is doubled.
PART, PART_BEFORE_DOUBLED = 0.6, 0.3
#: The street of the pictures; cameras are drawn from other seeds.
STREET_SEED, PICTURES = 90_417, 16
PARTS = ("split", "replan")


def make_files(folder: Path) -> None:
    """Models, the application and the pictures. Models are written in a process of its own: this one never loads
    torch."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.make_applications",
        str(folder / "models"),
        "--set",
        "night",
        "--batch",
        "8",
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    scene = Scene(SceneSpec(seed=STREET_SEED, character=1, day_s=600.0))
    pictures = np.stack([np.asarray(scene.render(200.0 + 3.0 * n)[0], np.uint8) for n in range(PICTURES)])
    np.save(folder / "pictures.npy", pictures)


def serving(models: Path, table: Path, share: float) -> ServingSettings:
    return ServingSettings.model_validate(
        {
            "folder": str(models),
            "http": {"port": 0},
            "grpc": {"port": 0},
            "load": ["lightener", "finder", "namer", NAME],
            "tables": [str(table)],
            "planning": {"max_share": share, "shrink_dwell_s": 10.0},
        }
    )


@asynccontextmanager
async def appliance(
    folder: Path, part: str, table: Path, seed: int, share: float, cores: float
) -> AsyncIterator[tuple[Appliance, Path]]:
    """The appliance with two demo cameras and the application, and the folder of its models."""
    described = scene_cameras(2, seed, 600.0)
    os.environ[PASSWORD_VARIABLE] = secrets.token_urlsafe(12)
    models = folder / f"models-{part}"
    shutil.copytree(folder / "models", models)
    with camera_process(described, folder) as (_, port):
        site = demo_site(
            described, f"rtsp://127.0.0.1:{port}", USER, f"env:{PASSWORD_VARIABLE}", folder / part,
            window_s=120.0, policy="relay", task="mixed", teacher=None, classes=(), class_map={}, port=0,
            overrides={"a_min": 0.1},
        )  # fmt: skip
        machine = site.machine.model_copy(update={"cores": cores})
        site = site.model_copy(update={"serving": serving(models, table, share), "machine": machine})
        async with Appliance(site, front_process) as box:
            await all_serve(box)
            yield box, models


async def largest_rate(box: Appliance, split: str) -> float:
    """Requests per second of the application that admission holds for under a split, head-room included, after some
    load: the table was measured with nothing beside it."""
    rate = 320.0
    while rate > 0.1:
        found = await box.services.served.admission({"pipeline": {"name": NAME, "rate": rate}, "split": split})
        if found.admitted or found.most_rate:
            return rate if found.admitted else found.most_rate or 0.0
        rate /= 16.0  # the answer looks no further down than a 32nd of what is asked
    raise RuntimeError(f"no rate of the application fits with the {split} split: raise --share")


async def settle(box: Appliance, folder: Path, seed: int, splits: Sequence[str]) -> float:
    """The largest rate that holds under each split, once the appliance has seen what batches take under load."""
    for _ in range(2):
        rate = PART_BEFORE_DOUBLED * await largest_rate(box, splits[0])
        await sent(box, folder, rate, 20.0, None, seed)
    return min([await largest_rate(box, split) for split in splits])


async def sent(
    box: Appliance, folder: Path, rate: float, seconds: float, wave: dict[str, Any] | None, seed: int
) -> dict[str, Any]:
    fields = {"inputs": {"picture": str(folder / "pictures.npy")}}
    return await load(box, {NAME: rate}, seconds, wave, seed, folder, fields)


def stages(box: Appliance) -> dict[str, tuple[int, int]]:
    """Answers of each stage since the start, and how many of them came after their budget."""
    found = next(a for a in served(box).status().applications if a.name == NAME)
    return {s.name: (s.answered, s.over) for s in found.stages}


async def watch(box: Appliance, shares: list[float], seen: list[dict[str, tuple[int, int]]]) -> None:
    """Each second after the warm-up: the planned share, and the counts of stages."""
    await asyncio.sleep(WARM_UP_S)
    while True:
        shares.append(served(box).status().share.planned)
        seen.append(stages(box))
        await asyncio.sleep(1.0)


def within(seen: list[dict[str, tuple[int, int]]]) -> dict[str, float]:
    """The part of each stage's answers that came within its budget."""
    out = {}
    for stage, (answered, over) in seen[-1].items():
        before = seen[0].get(stage, (0, 0))
        out[stage] = round(1.0 - (over - before[1]) / max(1, answered - before[0]), 5)
    return out


async def split(folder: Path, table: Path, minutes: float, seed: int, share: float, cores: float) -> dict[str, Any]:
    """Blocks under the joint and the even split by turns: joint, even, even, joint, ..."""
    count = max(2, 2 * round(minutes * 30.0 / BLOCK_S))
    order = [("joint", "even", "even", "joint")[n % 4] for n in range(count)]
    blocks = []
    async with appliance(folder, "split", table, seed, share, cores) as (box, _):
        rate = PART * await settle(box, folder, seed, ("joint", "even"))
        wave = {"kind": "sine", "period_s": BLOCK_S, "depth": DEPTH, "phase": -0.25}
        for n, name in enumerate(order):
            await box.services.served.change({"split": name}, "benchmark")
            shares: list[float] = []
            seen: list[dict[str, tuple[int, int]]] = []
            report = await during(sent(box, folder, rate, BLOCK_S, wave, seed + n), watch(box, shares, seen))
            application = next(a for a in served(box).status().applications if a.name == NAME)
            blocks.append(
                {
                    "split": name,
                    "share": round(statistics.fmean(shares), 4),
                    "budget_ms": {s.name: s.budget_ms for s in application.stages},
                    "within_budget": within(seen),
                    **counted(report),
                }
            )
            print(f"split {name}: {json.dumps(blocks[-1])}", flush=True)
        objective = application.slo_ms
    return {"rate": round(rate, 2), "slo_ms": objective, "by_split": summed(blocks), "blocks": blocks}


def summed(blocks: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Both splits in few numbers, with the spread over blocks."""
    out = {}
    for name in ("joint", "even"):
        mine = [b for b in blocks if b["split"] == name]
        requests = sum(b["requests"] for b in mine)
        out[name] = {
            "requests": requests,
            "missed": round(sum(b["violation_ratio"] * b["requests"] for b in mine) / max(1, requests), 5),
            "missed_by_block": [round(b["violation_ratio"], 5) for b in mine],
            "lost": sum(b["lost"] for b in mine),
            "share": round(statistics.fmean(b["share"] for b in mine), 4),
            "share_by_block": [b["share"] for b in mine],
            "within_budget": {
                stage: round(statistics.fmean(b["within_budget"][stage] for b in mine), 5)
                for stage in mine[0]["within_budget"]
            },
        }
    return out


async def replan(folder: Path, table: Path, minutes: float, seed: int, share: float, cores: float) -> dict[str, Any]:
    """Another objective, another version of a stage's model, and twice the rate, each in a minute of its own."""
    out = []
    async with appliance(folder, "replan", table, seed, share, cores) as (box, models):
        rate = PART_BEFORE_DOUBLED * await settle(box, folder, seed, ("joint",))
        objective = next(a for a in served(box).status().applications if a.name == NAME).slo_ms

        async def longer() -> None:
            # Where no plan holds a shorter one at this rate, the application would be refused, as it should be.
            await box.services.served.change({"models": {NAME: {"slo_ms": 1.25 * objective}}}, "benchmark")

        async def replaced() -> None:
            shutil.copytree(models / "namer" / "1", models / "namer" / "2")
            await served(box).loader.load("namer", {})

        async def nothing() -> None:
            return

        doubled = {"kind": "steps", "steps": [[0.0, 1.0], [WARM_UP_S + BLOCK_S / 3, 2.0]]}
        changes: tuple[tuple[str, Callable[[], Awaitable[None]], dict[str, Any] | None], ...] = (
            ("objective changed", longer, None),
            ("stage replaced", replaced, None),
            ("rate doubled", nothing, doubled),
        )
        for name, change, wave in changes:

            async def later(change: Callable[[], Awaitable[None]] = change) -> None:
                await asyncio.sleep(WARM_UP_S + BLOCK_S / 3)
                await change()
                await asyncio.sleep(3600)

            report = await during(sent(box, folder, rate, BLOCK_S, wave, seed), later())
            out.append({"change": name, **counted(report)})
            print(
                f"replan, {name}: {out[-1]['lost']} lost, {100 * out[-1]['violation_ratio']:.2f} % missed", flush=True
            )
    return {"rate": round(rate, 2), "slo_ms": objective, "changes": out}


def judged(results: dict[str, Any]) -> dict[str, bool]:
    """The targets, and whether they were reached."""
    out = {}
    if "split" in results:
        joint, even = (results["split"]["by_split"][name] for name in ("joint", "even"))
        out[f"joint split: at most {100 * MISSED:g} % missed"] = joint["missed"] <= MISSED
        out["joint split: no request lost"] = joint["lost"] == 0
        out[f"joint split: at least {100 * WITHIN:g} % of stages' answers within budget"] = all(
            part >= WITHIN for part in joint["within_budget"].values()
        )
        out["joint split: less share at no more misses, or fewer misses at no more share"] = (
            joint["share"] < even["share"] and joint["missed"] <= max(even["missed"], MISSED)
        ) or (joint["missed"] < even["missed"] and joint["share"] <= even["share"])
    if "replan" in results:
        changes = results["replan"]["changes"]
        out["replan: no request lost"] = all(c["lost"] == 0 for c in changes)
        out[f"replan: at most {100 * MISSED:g} % missed in that minute"] = all(
            c["violation_ratio"] <= MISSED for c in changes
        )
    return out


async def run(arguments: argparse.Namespace, folder: Path) -> None:
    make_files(folder)
    table = arguments.table or measured(folder / "models", arguments.cores, folder / "table.json")
    if arguments.keep_table is not None:
        shutil.copyfile(table, arguments.keep_table)
    for part in arguments.parts or PARTS:
        work = split if part == "split" else replan
        fields = (arguments.minutes, arguments.seed, arguments.share, arguments.cores)
        kept(arguments.out, part, {"cores": arguments.cores, **await work(folder, table, *fields)})


def kept(out: Path, part: str, found: dict[str, Any]) -> None:
    """Write a part's results as soon as they are there, beside those of the other part."""
    results = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    about = {"date": time.strftime("%Y-%m-%d"), "machine": platform.machine(), "cpus": psutil.cpu_count(),
             "load_at_end": round(psutil.getloadavg()[0], 2)}  # fmt: skip
    results[part] = about | found
    results["reached"] = judged({k: v for k, v in results.items() if k in PARTS})
    out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for what, good in judged({part: found}).items():
        print(f"{'reached' if good else 'NOT reached'}: {what}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="default: all")
    parser.add_argument("--minutes", type=float, default=10.0, help="of load, both splits together")
    parser.add_argument("--table", type=Path, help="a recorded device table instead of measuring")
    parser.add_argument("--keep-table", type=Path, help="where the table is copied to, for --table")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.65, help="of the device, for models: cameras have the rest")
    parser.add_argument("--cores", type=float, default=box_cores(), help="that the appliance may use; see above")
    parser.add_argument("--out", type=Path, default=RESULTS, help="results (%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(arguments, Path(folder)))


if __name__ == "__main__":
    main()
