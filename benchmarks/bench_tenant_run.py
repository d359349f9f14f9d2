"""Tenants for real: two with served models and one with two demo cameras, on CPU shares of this machine.

    python -m benchmarks.bench_tenant_run [--minutes 20] [--window 100] [--rounds 1] [--table FILE]

One model takes 1.6 times as long as its table says: the table that the appliance gets has its measured latencies
divided by that. Each way to share has a box of its own, one after the other, which begins with nothing learned and with
first students. In each box the load moves from one serving tenant to the other half-way, and the cameras show the same
streets from the beginning of the same day, with the demo's pace and task (`magpie demo`: a day of 24 windows,
detection): both ways to share see the same pictures. With --rounds 2 they take turns forth and back, in halves of half
the length. Counted are whole retraining windows, from the third of each box on: the first two are for its start and for
cameras' first data.

learned: shares by what came of them. planned: no tenants, shares by the recorded table alone, as an offline profile
gives them; serving plans more for a model that misses its objective, as always. watched (--arms): no tenants, shares by
the table as live batches correct it, which is how Magpie plans without tenants. Reported for each: the utility of the
worst tenant with its spread over halves, whether a tenant was below its floor, requests that were lost, and budgets
that moved; by window what cameras did, beside their frozen first students on the same frames; and what was learned by
the end of a half. Each box is asked to label as many frames of a camera (`LABELS`), and a camera's window counts where
it was measured in all boxes.

The load and the cameras' encoders are no part of a box: the appliance may use three quarters of the cores, the rest is
theirs; how late the load was sent is told (`client_kept_up`: 99 % within 5 ms; `lag_p99_ms`).
Without --table the latencies are measured first (3 min). Results: benchmarks/results/tenant_run.json.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import secrets
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from benchmarks.bench_faults import camera_process
from benchmarks.bench_serving_run import (
    WARM_UP_S,
    all_serve,
    counted,
    during,
    load,
    make_models,
    measured,
    served,
)
from benchmarks.waiting import until_async
from edge.appliance.appliance import Appliance
from edge.commands.front_process import front_process
from edge.core.serving import DeviceTable, ServedModel
from edge.core.tenants import TenantObjective
from edge.demo.cameras import PASSWORD_VARIABLE, USER
from edge.demo.site import demo_site, scene_cameras
from edge.runtime.serving_tables import keep_table, read_table
from edge.settings import MachineSettings, ServingPlanning, ServingSettings, SharingSettings, TenantSettings, parse
from scheduler.gpulets.fitting import Capacity, fit
from scheduler.gpulets.follow import plan_function
from scheduler.gpulets.rates import RateSettings, planned_rate

RESULTS = Path(__file__).parent / "results" / "tenant_run.json"
#: The tenants' models; the second one is slower than its table.
MODELS = {"entrance": "vehicles", "office": "shufflenet"}
SLOWER = 1.6
SLO_MS = 250.0
#: As the demo has them: its streets' day has so many windows.
WINDOW_S, DAY_WINDOWS = 100.0, 24
#: The first window that counts. As the first one ends there are frames to label and to retrain on.
FIRST_COUNTED = 3
#: The load: so much of the largest rate that the true table holds in MOST_SHARE, head-room included, wherever the load
#: lies. The control process, the front under this load, labels and measuring take 0.4 of the box, and cameras have a
#: floor of 0.1: the models want what is left, so there is less than the tenants want together. With 0.3 there is
#: nothing to decide, and by 0.6 both ways to share were short of everything.
PART, MOST_SHARE = 0.9, 0.5
#: Frames that the teacher labels, by camera and window. By itself one box chose 8, and another 31: what cameras achieve
#: was compared by how lucky the frames were.
LABELS = 24
#: Budgets move by small steps: the table has shares that are closer than those that are measured by default.
SHARES = (5, 8, 11, 14, 17, 20, 23, 26, 30, 35, 40, 50, 60, 80, 100)
#: Part of the cores that stands for a box.
BOX_PART = 0.75
ARMS = ("learned", "planned", "watched")
HEAVY, LIGHT = 0.75, 0.25
#: Reached: the worst tenant's utility is so much higher.
GAIN = 0.1
#: What is wanted for cameras (about what a box that begins plans for its first students; 0.6, as it was, is beyond any
#: share of a box of one core), and for served models.
STREETS, SERVED = TenantObjective("accuracy", 0.45), TenantObjective("within_slo", 0.95)
TENANTS: tuple[dict[str, Any], ...] = (
    {"id": "entrance", "models": ["vehicles"], "floor": 0.05, "objective": {"goal": SERVED.goal}},
    {"id": "office", "models": ["shufflenet"], "floor": 0.05, "objective": {"goal": SERVED.goal}},
)


def cameras_tenant(cameras: list[str]) -> dict[str, Any]:
    return {"id": "streets", "cameras": cameras, "floor": 0.1, "objective": asdict(STREETS)}


def as_recorded(true: DeviceTable) -> DeviceTable:
    """The table as it was recorded before one model became slower: also the times that live batches are compared
    with."""
    slow = MODELS["office"]

    def before(models: Mapping[str, Mapping[Any, Sequence[float]]]) -> dict[str, dict[Any, tuple[float, ...]]]:
        return {
            model: {share: tuple(ms / (SLOWER if model == slow else 1.0) for ms in row) for share, row in rows.items()}
            for model, rows in models.items()
        }

    times = {k: before(v) for k, v in true.details.items() if k in ("run_ms", "typical_ms")}
    return replace(true, latency_ms=before(true.latency_ms), details={**true.details, **times})


@asynccontextmanager
async def appliance(
    folder: Path, table: Path, seed: int, name: str, window_s: float, cores: float
) -> AsyncIterator[Appliance]:
    """A box that shares in the way `name`: it has learned nothing, and its cameras' day begins."""
    folder.mkdir()
    described = scene_cameras(2, seed, DAY_WINDOWS * window_s)
    os.environ[PASSWORD_VARIABLE] = secrets.token_urlsafe(12)
    with camera_process(described, folder) as (_, port):
        site = demo_site(
            described, f"rtsp://127.0.0.1:{port}", USER, f"env:{PASSWORD_VARIABLE}", folder / "run",
            window_s=window_s, policy="relay", task="detection", teacher=None, classes=(), class_map={}, port=0,
            overrides={"a_min": 0.1, "label_budget": LABELS},
        )  # fmt: skip
        asked = {m: {"slo_ms": SLO_MS} for m in MODELS.values()}
        serving = ServingSettings.model_validate(
            {
                "folder": str(folder.parent / "models"), "http": {"port": 0}, "grpc": {"port": 0},
                "load": list(MODELS.values()), "tables": [str(table)], "measure": False,
                "planning": {
                    "max_share": 0.6, "shrink_dwell_s": 10.0, "models": asked,
                    "latencies": "measured" if name == "planned" else "watched",
                },
            }
        )  # fmt: skip
        change: dict[str, Any] = {"serving": serving, "machine": MachineSettings(cores=cores)}
        if name == "learned":
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


def largest_rate(models: Sequence[ServedModel], table: DeviceTable, planning: ServingPlanning) -> float:
    """The mean rate of a model, so that plans by this table hold both loads in MOST_SHARE of the device."""
    plan, rates = plan_function(planning.policy), RateSettings(headroom=planning.headroom)

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


def answering(box: Appliance) -> dict[str, Any]:
    """The share that cameras have, and of each the share of its inference, and answers per second."""
    found: dict[str, Any] = {"share": round(box.runtime.controller.state.num_gpus, 4)}
    for camera in box.services.cameras.all():
        known = box.runtime.camera(camera.id)
        per_s = 0.0 if known.report is None else known.report.answers_per_s
        found[camera.id] = (round(known.share, 4), round(per_s, 2))
    return found


async def watch(box: Appliance, rows: list[dict[str, Any]], cameras: list[dict[str, Any]]) -> None:
    """Each second: budgets, shares given and floors of the tenants, and what cameras have and do."""
    while True:
        cameras.append(answering(box))
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


def is_measured(box: Appliance, window: int) -> bool:
    """Whether the realised accuracy of each camera in this window is known."""
    found = [c for w in box.services.windows.recent(500, None) if w.id == window for c in w.cameras]
    return bool(found) and all(c.realised is not None for c in found)


async def last_measured(box: Appliance, window: int, times: Times) -> None:
    """Wait until the accuracies of this window, which has just ended, are known, for a window at most."""
    with contextlib.suppress(TimeoutError):
        await until_async(lambda: is_measured(box, window), "accuracies", times.window_s, 2.0)


def with_cameras(box: Appliance, found: list[dict[str, Any]]) -> None:
    """Give each block its windows, and the realised accuracy in them."""
    windows = sorted(box.services.windows.recent(500, None), key=lambda w: w.id)
    for one in found:
        mine = [w for w in windows if one["first_window"] <= w.id < one["first_window"] + one["windows"]]
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


def with_streets(found: Sequence[dict[str, Any]]) -> None:
    """Give each block the utility of the cameras' tenant, over the windows of a camera that are measured in all blocks
    of the same windows; without one there is none."""
    for one in found:
        others = [b for b in found if b["first_window"] == one["first_window"] and b["windows"] == one["windows"]]
        there = [
            {(n, camera) for n, w in enumerate(b["cameras"]) for camera, row in w.items() if None not in row[:2]}
            for b in others
        ]
        counts = set.intersection(*there)
        one["camera_windows"] = len(counts)
        if counts:
            realised, frozen = (statistics.fmean(one["cameras"][n][c][k] for n, c in counts) for k in (0, 1))
            one["utility"]["streets"] = round(STREETS.utility_of(realised), 4)
            one["frozen_streets"] = round(STREETS.utility_of(frozen), 4)


@dataclass
class Half:
    """One half of a box's counted windows, under one load. `ended` is what the box had as the half ended."""

    rates: dict[str, float]
    first_window: int
    windows: int
    report: asyncio.Task[dict[str, Any]]
    ended: dict[str, Any] = field(default_factory=dict)

    async def result(self, name: str) -> dict[str, Any]:
        """All of it, once the load has reported."""
        report = await self.report
        return {
            "arm": name,
            "rates": {m: round(r, 2) for m, r in self.rates.items()},
            "first_window": self.first_window,
            "windows": self.windows,
            "utility": {
                tenant: round(SERVED.utility_of(1.0 - m["violation_ratio"]), 4)
                for tenant, model in MODELS.items()
                for m in report["models"]
                if m["model"] == model
            },
            **self.ended,
            **counted(report),
        }


@dataclass(frozen=True)
class Times:
    """Seconds of a window; how long before its windows a half's load begins, and before that the last one has ended:
    the next process takes a while; and how long a load is sent before it is counted."""

    window_s: float
    lead_s: float = WARM_UP_S + 2.0
    end_s: float = 5.0
    warm_up_s: float = WARM_UP_S

    def load_s(self, seconds: float) -> float:
        """What is left to count of a load that is sent for so many seconds, less the pause before the next one."""
        return seconds - self.warm_up_s - self.end_s


async def half(box: Appliance, folder: Path, rates: dict[str, float], windows: int, times: Times, seed: int) -> Half:
    """So many windows under these rates, from `lead_s` before the first of them to `lead_s` before the end of the last:
    the next half's load begins then. The load reports later."""
    rows: list[dict[str, Any]] = []
    given: list[dict[str, Any]] = []
    events = box.services.events
    moved = len(events.recent(2000, None, None, "tenants.moved"))
    seconds = windows * times.window_s
    report = asyncio.ensure_future(load(box, rates, times.load_s(seconds), None, seed, folder))
    found = Half(rates, box.runtime.controller.state.window + 1, windows, report)
    await during(asyncio.sleep(seconds), watch(box, rows, given))
    below, below_plan = (
        sum(s["held"] < s[kind] - 1e-3 for row in rows for s in row.values()) for kind in ("floor", "plan_floor")
    )
    found.ended = {
        "held": rows[-1] if rows else {},
        "held_each_20_s": [{t: round(x["held"], 3) for t, x in row.items()} for row in rows[::20]],
        "cameras_each_20_s": given[::20],
        "plan": plan_now(box),
        "known": knowledge(box) if rows else {},
        "below_floor_s": below,
        "below_plan_floor_s": below_plan,
        "moves": len(events.recent(2000, None, None, "tenants.moved")) - moved,
    }
    return found


def half_windows(minutes: float, boxes: int, window_s: float) -> int:
    """The windows of a half that are counted."""
    return max(1, round(minutes * 60.0 / (2 * boxes) / window_s))


async def settled(
    box: Appliance, folder: Path, rates: dict[str, float], seconds: float, times: Times, seed: int
) -> None:
    """Load that does not count, where there is time for it."""
    if times.load_s(seconds) > times.lead_s:
        await load(box, rates, times.load_s(seconds), None, seed, folder)


async def halves(
    box: Appliance, folder: Path, name: str, rate: float, windows: int, times: Times, seed: int
) -> list[dict[str, Any]]:
    """Both halves of a box that has just begun to serve, with the accuracies of their windows."""
    left = FIRST_COUNTED - 1 - box.runtime.controller.state.window
    early_s = to_boundary(box) + left * times.window_s - times.lead_s
    early = asyncio.ensure_future(settled(box, folder, parts(rate, True), early_s, times, seed))
    # A box that took longer to begin is late: its windows tell (`as_meant`).
    await asyncio.sleep(early_s if early_s > 0 else max(0.0, to_boundary(box) - times.lead_s))
    done = [await half(box, folder, parts(rate, first), windows, times, seed) for first in (True, False)]
    await asyncio.gather(asyncio.sleep(to_boundary(box) + 1.0), early)
    await last_measured(box, done[-1].first_window + done[-1].windows - 1, times)
    found = [await one.result(name) for one in done]
    await asyncio.to_thread(with_cameras, box, found)
    return found


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


def turns(arms: Sequence[str], rounds: int) -> list[str]:
    """The ways to share by turns, forth and back, so that none of them always follows the same."""
    return [name for n in range(rounds) for name in (arms if n % 2 == 0 else arms[::-1])]


async def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    make_models(folder / "models")
    cores = arguments.cores or BOX_PART * (psutil.cpu_count() or 1)
    path = arguments.table or measured(folder / "models", cores, folder / "true.json", SHARES)
    true = read_table(path)
    table, window_s = folder / "recorded.json", arguments.window
    keep_table(table, as_recorded(true))
    order = turns(tuple(arguments.arms), arguments.rounds)
    windows = half_windows(arguments.minutes, len(order), window_s)
    rate, found = 0.0, []
    for n, name in enumerate(order):
        async with appliance(folder / f"box-{n + 1}", table, arguments.seed, name, window_s, cores) as box:
            rate = rate or arguments.part * largest_rate(served(box).box()[0], true, served(box).planning)
            found += await halves(box, folder, name, rate, windows, Times(window_s), arguments.seed)
        for row in found[-2:]:
            shown = {k: row[k] for k in ("rates", "utility", "plan", "held", "lost", "cameras")}
            print(f"{name}: {json.dumps(shown)}", flush=True)
    with_streets(found)
    about = {"rate": round(rate, 2), "part": arguments.part, "slower": SLOWER, "window_s": window_s, "cores": cores}
    return about | {"by_arm": summed(found), "blocks": found}


def as_meant(found: Sequence[dict[str, Any]]) -> bool:
    """The halves of each box followed one another, from the same window on."""
    pairs = zip(found[::2], found[1::2], strict=True)
    return all(
        one["first_window"] == FIRST_COUNTED and other["first_window"] == FIRST_COUNTED + one["windows"]
        for one, other in pairs
    )


def judged(results: dict[str, Any]) -> dict[str, bool]:
    """The targets, and whether they were reached."""
    arms = results["by_arm"]
    found = {"both halves of each box were counted from the same window on": as_meant(results["blocks"])}
    found["of each half, half of the cameras' windows were measured in all boxes"] = all(
        b["camera_windows"] >= b["windows"] for b in results["blocks"]
    )
    if {"learned", "planned"} <= arms.keys():
        better = arms["learned"]["worst_tenant"] - arms["planned"]["worst_tenant"]
        found[f"the worst tenant gains {100 * GAIN:g} points over shares by the recorded table"] = better >= GAIN
    if "learned" in arms:
        found["no tenant was below its floor"] = arms["learned"]["below_floor_s"] == 0
    return found | {"no request was lost": all(arm["lost"] == 0 for arm in arms.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="that count, all ways to share together")
    parser.add_argument("--window", type=float, default=WINDOW_S, help="seconds of a retraining window (%(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each way to share has its turn (%(default)s)")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS[:2], help="default: %(default)s")
    parser.add_argument("--cores", type=float, default=0.0, help="of the box (default: three quarters of all)")
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
