"""Tenants for real: two with served models and one with two demo cameras, on CPU shares of this machine.

    python -m benchmarks.bench_tenant_run [--minutes 20] [--table FILE]

One model takes 1.6 times as long as its table says: the table that the appliance gets has its measured latencies
divided by that. The load moves from one tenant to the other half-way. Within each half the ways to share have a block
each, by turns in one run of one appliance, so that all see the same box. What is counted of a block are whole
retraining windows. Each way to share goes on where it stopped, as if it had the box alone: it has its own students (the
first ones at first), put in force once the retrainings of another's last window are judged, and what was learned of
tenants is kept. Before its counted windows it has one window to warm up, with the load of the first half: the load
moves as the counted windows of its second block begin.

learned: shares by what came of them; nothing is known as the first block begins to warm up. planned: no tenants, shares
by the recorded table alone, as an offline profile gives them; serving plans more for a model that misses its objective,
as always. watched (--arms): no tenants, shares by the table as live batches correct it, which is how Magpie plans
without tenants. Reported for each: the utility of the worst tenant with its spread over blocks, whether a tenant was
below its floor, requests that were lost, and budgets that moved; by window what cameras did, beside their frozen first
students on the same frames; and what was learned by the end of a block.

The load and the cameras' encoders are no part of a box: the appliance may use 70 % of the cores, the rest is theirs.
The cameras' streets have two blocks as their day, windows to warm up included: each way to share has either half of it
once, and light changes as slowly as a student can follow. Without --table the
latencies are measured first (3 min). Results: benchmarks/results/tenant_run.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import secrets
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from benchmarks.bench_faults import camera_process
from benchmarks.bench_serving_run import (
    WARM_UP_S,
    all_serve,
    box_cores,
    counted,
    during,
    load,
    make_models,
    measured,
    served,
)
from edge.appliance.appliance import Appliance
from edge.commands.front_process import front_process
from edge.core.serving import DeviceTable
from edge.demo.cameras import PASSWORD_VARIABLE, USER
from edge.demo.site import demo_site, scene_cameras
from edge.runtime.running_job import RunningJob
from edge.runtime.serving_tables import keep_table, read_table
from edge.settings import MachineSettings, ServingSettings, SharingSettings, TenantSettings, parse
from scheduler.gpulets.fitting import Capacity, fit
from scheduler.gpulets.follow import plan_function
from scheduler.gpulets.rates import RateSettings, planned_rate

RESULTS = Path(__file__).parent / "results" / "tenant_run.json"
#: The tenants' models; the second one is slower than its table.
MODELS = {"entrance": "vehicles", "office": "shufflenet"}
SLOWER = 1.6
SLO_MS = 250.0
WINDOW_S, SETTLE_S = 100.0, 30.0
#: A block's load begins so long before the windows that are counted; the load before it ends END_S earlier, since its
#: report and the next process take a while.
LEAD_S, END_S = WARM_UP_S + 2.0, 5.0
#: A block's load ends LEAD_S and so much before its last window does: the report of 60,000 requests takes a while.
REPORT_S = 15.0
#: At a boundary retrainings hand over what they have, and it is judged: so long that is waited for, looked at so often.
JUDGED_S, LOOK_S = 10.0, 0.2
#: The load: so much of the largest rate that the true table holds in MOST_SHARE, head-room included, wherever the load
#: lies. It is scarce for three tenants: with little load everybody's goal is met by planned shares.
PART, MOST_SHARE = 0.9, 0.6
#: Budgets move by small steps: the table has shares that are closer than those that are measured by default.
SHARES = (5, 8, 11, 14, 17, 20, 23, 26, 30, 35, 40, 50, 60, 80, 100)
ARMS = ("learned", "planned", "watched")
#: The version in force of each camera.
Students = dict[str, str]
HEAVY, LIGHT = 0.75, 0.25
#: Reached: the worst tenant's utility is so much higher.
GAIN = 0.1
CAMERA_GOAL, SERVED_GOAL = 0.6, 0.95
TENANTS: tuple[dict[str, Any], ...] = (
    {"id": "entrance", "models": ["vehicles"], "floor": 0.05, "objective": {"goal": SERVED_GOAL}},
    {"id": "office", "models": ["shufflenet"], "floor": 0.05, "objective": {"goal": SERVED_GOAL}},
)


def cameras_tenant(cameras: list[str]) -> dict[str, Any]:
    goal = {"metric": "accuracy", "goal": CAMERA_GOAL, "utility": "sqrt"}
    return {"id": "streets", "cameras": cameras, "floor": 0.1, "objective": goal}


def recorded(folder: Path, true: DeviceTable) -> Path:
    """The table as it was recorded before one model became slower."""
    slow = MODELS["office"]
    rows = {
        model: {share: tuple(ms / SLOWER for ms in row) if model == slow else row for share, row in shares.items()}
        for model, shares in true.latency_ms.items()
    }
    kept = {k: v for k, v in true.details.items() if k not in ("run_ms", "typical_ms")}
    path = folder / "recorded.json"
    keep_table(path, replace(true, latency_ms=rows, details=kept))
    return path


@asynccontextmanager
async def appliance(folder: Path, table: Path, seed: int, day_s: float) -> AsyncIterator[Appliance]:
    described = scene_cameras(2, seed, day_s)
    os.environ[PASSWORD_VARIABLE] = secrets.token_urlsafe(12)
    with camera_process(described, folder) as (_, port):
        site = demo_site(
            described, f"rtsp://127.0.0.1:{port}", USER, f"env:{PASSWORD_VARIABLE}", folder / "run",
            window_s=WINDOW_S, policy="relay", task="mixed", teacher=None, classes=(), class_map={}, port=0,
            overrides={"a_min": 0.1},
        )  # fmt: skip
        asked = {m: {"slo_ms": SLO_MS} for m in MODELS.values()}
        serving = ServingSettings.model_validate(
            {
                "folder": str(folder / "models"), "http": {"port": 0}, "grpc": {"port": 0},
                "load": list(MODELS.values()), "tables": [str(table)], "measure": False,
                "planning": {"max_share": 0.6, "shrink_dwell_s": 10.0, "models": asked},
            }
        )  # fmt: skip
        change: dict[str, Any] = {"serving": serving, "machine": MachineSettings(cores=box_cores())}
        given = [*TENANTS, cameras_tenant([c.id for c in site.cameras])]
        change["tenants"] = tuple(parse(TenantSettings, t) for t in given)
        change["sharing"] = SharingSettings(largest_step=0.1)
        async with Appliance(site.model_copy(update=change), front_process) as box:
            await all_serve(box)
            yield box


def parts(rate: float, heavy_first: bool) -> dict[str, float]:
    """The rates of the models, in requests per second: the load lies with the first one or with the second."""
    both = (HEAVY, LIGHT) if heavy_first else (LIGHT, HEAVY)
    return {m: 2 * rate * p for m, p in zip(MODELS.values(), both, strict=True)}


def largest(box: Appliance, table: DeviceTable) -> float:
    """The mean rate of a model, so that plans by this table hold both loads in MOST_SHARE of the device."""
    runtime = served(box)
    models = runtime.box()[0]
    plan, rates = plan_function(runtime.planning.policy), RateSettings(headroom=runtime.planning.headroom)

    def holds(rate: float) -> bool:
        for heavy_first in (True, False):
            asked = [replace(m, rate=planned_rate(parts(rate, heavy_first)[m.name], rates)) for m in models]
            found = fit(asked, table, Capacity(MOST_SHARE, MOST_SHARE), plan)
            if found.capped or found.refused:
                return False
        return True

    low, high = 0.0, 1.0
    while holds(high) and high < 1e4:
        low, high = high, high * 2
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def plan_now(box: Appliance) -> dict[str, float]:
    """The shares of the partitions that answer each model; a partition of several models counts for each of them."""
    view = served(box).planner.view
    out: dict[str, float] = {}
    for g in () if view.plan is None else view.plan.gpulets:
        for b in g.models:
            out[b.model] = round(out.get(b.model, 0.0) + g.share, 3)
    return out


async def watch(box: Appliance, rows: list[dict[str, Any]], cameras: list[float]) -> None:
    """Each second: budgets, shares given and floors of the tenants, and the share that cameras have."""
    while True:
        cameras.append(round(box.runtime.controller.state.num_gpus, 4))
        if box.services.tenants.all().active:
            rows.append(
                {
                    t.id: {
                        "held": t.share.held,
                        "given": t.share.given,
                        "floor": t.settings.floor,
                        "plan_floor": t.share.floor,
                    }
                    for t in box.services.tenants.all().tenants
                }
            )
        await asyncio.sleep(1.0)


def to_boundary(box: Appliance) -> float:
    """Seconds until the next window begins."""
    state = box.runtime.controller.state
    return state.window_start_s + state.settings.window_s - box.runtime.clock.monotonic()


def earlier(running: Iterable[RunningJob], window: int) -> list[str]:
    """The cameras whose retrainings of a window before `window` are not judged yet; a retraining is on data of the
    window before its own."""
    return sorted(job.camera for job in running if job.window < window - 1)


def in_force(box: Appliance) -> Students:
    """The students of the cameras now."""
    return {c.id: box.runtime.camera(c.id).version.id for c in box.services.cameras.all()}


@dataclass
class Change:
    """Cameras whose retrainings of the window before were judged late, and those whose retraining of this window had
    begun from a student of the other way to share."""

    late: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


async def change_students(
    box: Appliance,
    own: dict[str, Students],
    before: str,
    name: str,
    look_s: float = LOOK_S,
    judged_s: float = JUDGED_S,
) -> Change:
    """As the next window begins, put the students that the arm `name` has of its `own` in force, and keep those of the
    arm `before`; once what was trained before is judged, which is still the work of that one, or after `judged_s`."""
    change = Change()
    await asyncio.sleep(max(0.0, to_boundary(box)) + look_s)
    ends = time.monotonic() + judged_s
    runtime = box.runtime
    while left := earlier(runtime.students.retrainings.running.values(), runtime.controller.state.window):
        if time.monotonic() >= ends:
            change.late = left
            break
        await asyncio.sleep(look_s)
    there = in_force(box)
    own[before] = there
    others = {camera: version for camera, version in own[name].items() if there[camera] != version}
    for camera, version in others.items():
        await box.services.models.roll_back(camera, version, "benchmark", f"students of {name}")
    window = runtime.controller.state.window
    begun = {job.camera for job in runtime.students.retrainings.running.values() if job.window == window - 1}
    change.foreign = sorted(begun & set(others))
    return change


async def warm_up(
    box: Appliance, folder: Path, rates: dict[str, float], seed: int, own: dict[str, Students], before: str, name: str
) -> Change:
    """The arm `name` in place of `before`, not counted: until LEAD_S before the end of the next whole window."""
    await arm(box, name, list(own[name]))
    ends = time.monotonic() + to_boundary(box) + WINDOW_S - LEAD_S
    _, change = await asyncio.gather(
        load(box, rates, ends - time.monotonic() - END_S, None, seed, folder),
        change_students(box, own, before, name),
    )
    await asyncio.sleep(max(0.0, ends - time.monotonic()))
    return change


def knowledge(box: Appliance) -> dict[str, Any]:
    """The curve that was learned of each tenant, and why it has its share."""
    out = {}
    for tenant in box.services.tenants.all().tenants:
        curve = box.services.tenants.one(tenant.id).curve
        out[tenant.id] = {
            "reason": tenant.reason.code, "source": tenant.source, "demand": tenant.demand.share,
            "reports": tenant.learned.reports, "changes": tenant.learned.changes,
            "curve": [(p.share, p.performance, p.low, p.high) for p in curve.points[5::5]],
        }  # fmt: skip
    return out


async def arm(box: Appliance, name: str, cameras: list[str]) -> None:
    """Tenants share by what they learned, or there are none and shares are planned."""
    learned = name == "learned"
    latencies = "measured" if name == "planned" else "watched"
    await box.services.served.change({"latencies": latencies}, "benchmark")
    service = box.services.tenants
    there = {t.id for t in service.all().tenants if not t.implicit}
    for settings in [*TENANTS, cameras_tenant(cameras)]:
        if learned and settings["id"] not in there:
            await service.add(settings, "benchmark")
        elif not learned and settings["id"] in there:
            await service.remove(str(settings["id"]), "benchmark")


def with_cameras(box: Appliance, found: list[dict[str, Any]]) -> None:
    """Give each block its windows, and the realised accuracy in them; it is known a window later."""
    windows = sorted(box.services.windows.recent(500, None), key=lambda w: w.id)
    for one in found:
        mine = [w for w in windows if one["first_window"] <= w.id < one["first_window"] + one["windows"]]
        values = [c.realised.value for w in mine for c in w.cameras if c.realised is not None]
        frozen = [c.frozen.value for w in mine for c in w.cameras if c.frozen is not None]
        if values:
            one["utility"]["streets"] = round(min(1.0, statistics.fmean(values) / CAMERA_GOAL) ** 0.5, 4)
        if frozen:
            one["frozen_streets"] = round(min(1.0, statistics.fmean(frozen) / CAMERA_GOAL) ** 0.5, 4)
        one["cameras"] = [
            {
                c.camera: (
                    c.realised and round(c.realised.value, 4),
                    c.frozen and round(c.frozen.value, 4),
                    c.frames_labelled,
                )
                for c in w.cameras
            }
            for w in mine
        ]
        jobs = [j for w in mine for j in box.services.windows.one(w.id).jobs]
        one["retrainings"] = {"all": len(jobs), "promoted": sum(j.promoted for j in jobs)}


async def block(
    box: Appliance, folder: Path, name: str, rates: dict[str, float], windows: int, seed: int
) -> dict[str, Any]:
    """The way to share that is in force, over so many windows, from LEAD_S before the first of them on."""
    rows: list[dict[str, Any]] = []
    given: list[float] = []
    counted_from = box.runtime.controller.state.window + 1
    moved = len(box.services.events.recent(2000, None, None, "tenants.moved"))
    load_s = windows * WINDOW_S - REPORT_S
    report = await during(load(box, rates, load_s, None, seed, folder), watch(box, rows, given))
    below, below_plan = (
        sum(s["held"] < s[kind] - 1e-3 for row in rows for s in row.values()) for kind in ("floor", "plan_floor")
    )
    return {
        "arm": name,
        "rates": {m: round(r, 2) for m, r in rates.items()},
        "first_window": counted_from,
        "windows": windows,
        "utility": {
            tenant: round(min(1.0, (1.0 - m["violation_ratio"]) / SERVED_GOAL), 4)
            for tenant, model in MODELS.items()
            for m in report["models"]
            if m["model"] == model
        },
        "held": rows[-1] if rows else {},
        "held_each_20_s": [{t: round(x["held"], 3) for t, x in row.items()} for row in rows[::20]],
        "cameras_share_each_20_s": given[::20],
        "plan": plan_now(box),
        "known": knowledge(box) if rows else {},
        "below_floor_s": below,
        "below_plan_floor_s": below_plan,
        "moves": len(box.services.events.recent(2000, None, None, "tenants.moved")) - moved,
        **counted(report),
    }


def block_windows(minutes: float, arms: Sequence[str]) -> int:
    """The windows of a block that are counted."""
    return max(1, round(minutes * 60.0 / (2 * len(arms)) / WINDOW_S))


async def blocks(
    box: Appliance,
    folder: Path,
    minutes: float,
    seed: int,
    rate: float,
    arms: Sequence[str],
    measured_s: float = WINDOW_S / 2,
) -> list[dict[str, Any]]:
    """Each way to share twice, with the accuracies of its windows; the last one is measured `measured_s` after it."""
    windows = block_windows(minutes, arms)
    own, before = {name: in_force(box) for name in ("watched", *arms)}, "watched"
    # The first request comes in no arm's block.
    await arm(box, before, list(own[before]))
    await load(box, parts(rate, True), SETTLE_S, None, seed, folder)
    out: list[dict[str, Any]] = []
    # Forth and back, so that none of them always follows the same.
    for n, name in enumerate((*arms, *reversed(arms))):
        change = await warm_up(box, folder, parts(rate, True), seed + n, own, before, name)
        before = name
        found = await block(box, folder, name, parts(rate, n < len(arms)), windows, seed + n)
        out.append(found | {"late_retrainings": change.late, "foreign_retrainings": change.foreign})
        shown = {k: out[-1][k] for k in ("rates", "utility", "plan", "held", "lost", "moves")}
        print(f"{name}: {json.dumps(shown)}", flush=True)
    await asyncio.sleep(measured_s)
    await asyncio.to_thread(with_cameras, box, out)
    return out


def summed(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The arms in few numbers."""
    out = {}
    for name in dict.fromkeys(b["arm"] for b in found):
        mine = [b for b in found if b["arm"] == name]
        worst = [min(b["utility"].values()) for b in mine]
        out[name] = {
            "worst_tenant": round(statistics.fmean(worst), 4),
            "by_tenant": {
                t: round(statistics.fmean(b["utility"][t] for b in mine if t in b["utility"]), 4)
                for t in sorted({t for b in mine for t in b["utility"]})
            },
            "worst_tenant_by_block": [round(w, 4) for w in worst],
            "spread": round(statistics.pstdev(worst), 4),
            "requests": sum(b["requests"] for b in mine),
            "lost": sum(b["lost"] for b in mine),
            "below_floor_s": sum(b["below_floor_s"] for b in mine),
            "below_plan_floor_s": sum(b["below_plan_floor_s"] for b in mine),
            "moves": sum(b["moves"] for b in mine),
        }
    return out


async def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    make_models(folder / "models")
    path = arguments.table or measured(folder / "models", box_cores(), folder / "true.json", SHARES)
    true = read_table(path)
    table = recorded(folder, true)
    day_s = 2 * (block_windows(arguments.minutes, arguments.arms) + 1) * WINDOW_S
    async with appliance(folder, table, arguments.seed, day_s) as box:
        rate = arguments.part * largest(box, true)
        await asyncio.sleep(WARM_UP_S)
        found = await blocks(box, folder, arguments.minutes, arguments.seed, rate, arguments.arms)
    about = {"rate": round(rate, 2), "part": arguments.part, "slower": SLOWER}
    return about | {"by_arm": summed(found), "blocks": found}


def as_meant(found: Sequence[dict[str, Any]]) -> bool:
    """Each block followed the one before it after one window of warming up, and no arm's students were mixed."""
    begins = [b["first_window"] for b in found]
    each = [b["windows"] + 1 for b in found]
    one_window = all(later - first == n for first, later, n in zip(begins, begins[1:], each, strict=False))
    return one_window and not any(b["late_retrainings"] or b["foreign_retrainings"] for b in found)


def judged(results: dict[str, Any]) -> dict[str, bool]:
    """The targets, and whether they were reached."""
    learned, planned = (results["by_arm"][name] for name in ("learned", "planned"))
    better = learned["worst_tenant"] - planned["worst_tenant"]
    return {
        "each way to share had one window to warm up and students of its own": as_meant(results["blocks"]),
        f"the worst tenant gains {100 * GAIN:g} points over shares by the recorded table": better >= GAIN,
        "no tenant was below its floor": learned["below_floor_s"] == 0,
        "no request was lost": learned["lost"] == 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="of load, all arms together")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS[:2], help="default: %(default)s")
    parser.add_argument("--table", type=Path, help="a device table that is true now instead of measuring")
    parser.add_argument("--part", type=float, default=PART, help="of the largest load that the true table holds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS, help="results (%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = asyncio.run(run(arguments, Path(folder)))
    about = {"date": time.strftime("%Y-%m-%d"), "machine": platform.machine(), "cpus": psutil.cpu_count(),
             "load_at_end": round(psutil.getloadavg()[0], 2)}  # fmt: skip
    results = about | results | {"reached": judged(results)}
    out: Path = arguments.out
    out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for words, good in results["reached"].items():
        print(f"{'reached' if good else 'NOT reached'}: {words}")


if __name__ == "__main__":
    main()
