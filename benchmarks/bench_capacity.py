"""How right capacity forecasts are: `python -m benchmarks.bench_capacity` (about 22 minutes per change).

A box of the demo's drawn cameras learns for a day of theirs and until enough windows in a row are alike; the change
is forecast from those, then it is made (a camera of the kind of the first is added, and asked about as such; the device
is halved; windows are halved), and the windows after it are compared with the forecast, as the appliance does it. The
cameras' light and weather come round once in the windows that count on each side, so that both sides see all of it, as
days do. Target: within 4 points per camera; a change that misses it, cannot be compared, or waits three times as long
as its windows last, gives exit status 1. `--kept DIR` compares kept windows again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.demo_windows import write_result
from edge.appliance.appliance import Appliance
from edge.appliance.capacity import last_budget
from edge.commands.front_process import front_process
from edge.core.capacity import BoxChange, CapacityForecast
from edge.core.learning import BudgetProblem
from edge.demo.cameras import PASSWORD_VARIABLE, USER, serve_cameras
from edge.demo.site import demo_site, scene_cameras
from edge.settings import SiteSettings
from edge.simulation.capacity import CapacityQuestion, box_windows, forecast, usable
from scheduler.capacity.compared import outcome

TARGET_POINTS = 4.0
#: A wait ends after so many times as long as its windows last.
PATIENCE = 3.0
#: The changes that are made, and what is asked about each.
CHANGES = {
    "camera": BoxChange.of("camera", camera="overpass"),
    "share": BoxChange.of("device", 0.5),
    "window": BoxChange.of("window"),
}
Details = list[dict[str, Any]]


@dataclass(frozen=True)
class Run:
    """What was recorded before and after a change, and what a forecast knows besides."""

    change: str
    before: Details
    after: Details
    budget: dict[str, Any] | None
    golden: float

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def make_site(
    described: list[dict[str, Any]], port: int, data: Path, window_s: float, cores: float | None
) -> SiteSettings:
    site = demo_site(
        described, f"rtsp://127.0.0.1:{port}", USER, f"env:{PASSWORD_VARIABLE}", data, window_s=window_s,
        policy="relay", task="detection", teacher=None, classes=(), class_map={}, port=0, overrides={},
    )  # fmt: skip
    if cores is None:
        return site
    return site.model_copy(update={"machine": site.machine.model_copy(update={"cores": cores})})


def recorded(box: Appliance, first: int) -> Details:
    """The closed windows of number `first` and later."""
    numbers = [r.id for r in box.store.windows.newest(100) if not r.open and r.id >= first]
    return [box.store.windows.window(n).to_json() for n in sorted(numbers)]


def whole(found: Details) -> Details:
    """Those that are complete and measured for each camera."""
    return [
        d
        for d in found
        if d["plans"]
        and d["window"]["outcome"] == "completed"
        and all(r["realised"] is not None for r in d["window"]["cameras"])
    ]


async def alike(box: Appliance, count: int, first: int, window_s: float) -> Details:
    """Wait until the last window from `first` on is measured and `count` are in a row that a forecast can use; give the
    newest `count` of them. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE * (first + count) * window_s):
        while True:
            found = await asyncio.to_thread(recorded, box, first)
            numbers = [w.number for w in usable(box_windows(found))][-count:]
            if whole(found[-1:]) and len(numbers) == count:
                return [d for d in found if d["window"]["id"] in numbers]
            await asyncio.sleep(1.0)


async def measured(
    box: Appliance, wanted: Callable[[dict[str, Any]], bool], count: int, first: int, window_s: float
) -> Details:
    """Wait until `count` closed windows from number `first` on that are `wanted` were measured; give all from there.
    Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE * (1 + count) * window_s):
        while True:
            found = await asyncio.to_thread(recorded, box, first)
            if len([d for d in whole(found) if wanted(d)]) >= count:
                return found
            await asyncio.sleep(1.0)


async def run_change(name: str, given: argparse.Namespace, folder: Path) -> Run:
    """One box, before and after the change."""
    length_s = given.window_seconds
    cycle_s = given.windows * length_s
    # The demo has four kinds of street: the fifth camera's is the first's, with traffic of its own.
    scenes = scene_cameras(5, given.seed, cycle_s)
    described = [*scenes[: given.cameras], scenes[-1]]
    with serve_cameras(described, folder) as port:
        data = folder / "data"
        first = make_site(described[:-1], port, data, length_s, None)
        with_new = make_site(described, port, data, length_s, None)
        async with Appliance(first, front_process) as box:
            # The first window of those that are alike does not count, neither before nor after.
            before = await alike(box, given.windows + 1, given.warm_up + 1, length_s)
            budget = await asyncio.to_thread(last_budget, box.store)
            golden, last = box.runtime.shares.golden, max(d["window"]["id"] for d in before)
            # A forecast sees how students learned until then, as the appliance's own does.
            before = [d for d in await asyncio.to_thread(recorded, box, 1) if d["window"]["id"] <= last]
            after_count = given.after + 1
            if name == "camera":
                new = with_new.cameras[-1].model_dump(mode="json")
                await box.services.cameras.add(new, "benchmark")
                names = len(with_new.cameras)
                after = await measured(
                    box, lambda d: len(d["window"]["cameras"]) == names, after_count, last + 1, length_s
                )
            elif name == "window":
                await box.services.retraining.change({"window_s": length_s / 2}, "benchmark")
                count = 2 * given.after + 1
                after = await measured(
                    box, lambda d: bool(d["window"]["length_s"] < 0.75 * length_s), count, last + 1, length_s / 2
                )
        if name == "share":
            halved = make_site(described[:-1], port, data, length_s, first.machine.cores / 2)
            async with Appliance(halved, front_process) as box:
                # Windows that the restart cut short are not counted.
                after = await measured(box, lambda d: True, after_count, last + 2, length_s)
    return Run(name, before, after, None if budget is None else budget.to_json(), golden)


def compared(run: Run, horizon: int) -> dict[str, Any]:
    """The forecast from the part before the change, beside what came."""
    change = CHANGES[run.change]
    budget = None if run.budget is None else BudgetProblem.from_json(run.budget)
    began = time.monotonic()
    found: CapacityForecast = forecast(CapacityQuestion(change, tuple(run.before), budget, run.golden))
    took_s = time.monotonic() - began
    came = outcome(found, box_windows([*run.before, *run.after]), horizon=horizon)
    about = {"change": change.words, "windows": found.windows, "seconds": round(took_s, 2)}
    about |= {"share_now": round(found.share_now, 4), "share_then": round(found.share_then, 4)}
    about["forecast"] = {c.camera: {"now": c.now, **c.then.to_json()} for c in found.cameras}
    if came is None:
        return about | {"outcome": None}
    worst = max(abs(c.forecast - c.came) for c in came.cameras)
    return about | {"outcome": came.to_json(), "error_points": 100 * came.error, "worst_points": 100 * worst}


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", nargs="+", choices=list(CHANGES), default=list(CHANGES))
    parser.add_argument("--warm-up", type=int, help="windows of learning before recorded ones (default: a day)")
    parser.add_argument("--windows", type=int, default=6, help="that count before the change")
    parser.add_argument("--after", type=int, default=6, help="windows of the first length that are compared")
    parser.add_argument("--window-seconds", type=float, default=60.0)
    parser.add_argument("--cameras", type=int, choices=(1, 2, 3), default=3, help="before the change")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the windows of each run here, as CHANGE.json")
    parser.add_argument("--kept", type=Path, metavar="DIR", help="no runs: compare what --keep kept")
    parser.add_argument("--out", default="capacity.json")
    given = parser.parse_args(arguments)
    given.warm_up = given.windows if given.warm_up is None else given.warm_up
    results = []
    for name in given.changes:
        if given.kept is not None:
            run = Run(**json.loads((given.kept / f"{name}.json").read_text(encoding="utf-8")))
        else:
            try:
                with tempfile.TemporaryDirectory() as folder:
                    run = asyncio.run(run_change(name, given, Path(folder)))
            except TimeoutError:
                print(f"{CHANGES[name].words}: not compared, its windows were not measured in time")
                results.append({"change": CHANGES[name].words, "outcome": None})
                continue
        if given.keep is not None:
            given.keep.mkdir(parents=True, exist_ok=True)
            (given.keep / f"{name}.json").write_text(json.dumps(run.to_json()), encoding="utf-8")
        result = compared(run, given.after)
        results.append(result)
        print(f"{result['change']}: forecast from {result['windows']} windows in {result['seconds']} s")
        came = result["outcome"]
        for c in [] if came is None else came["cameras"]:
            held = "held" if c["held"] else "outside its interval"
            print(f"  {c['camera']}: {100 * c['forecast']:.1f} % forecast, {100 * c['came']:.1f} % came ({held})")
        print(
            "  not compared: the change was not found alone"
            if came is None
            else f"  error {result['error_points']:.1f} points on average, {result['worst_points']:.1f} at worst"
        )
    out = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": platform.processor() or platform.machine(),
        "command": "python -m benchmarks.bench_capacity " + " ".join(sys.argv[1:] if arguments is None else arguments),
        "target_points": TARGET_POINTS,
        "changes": results,
    }
    print(write_result(given.out, out))
    return 0 if all(r["outcome"] is not None and r["worst_points"] <= TARGET_POINTS for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
