"""The cost of durability: transactions a second of the store, with SQLite's synchronous=FULL against NORMAL.

`python -m benchmarks.bench_store [--url postgresql://...] [--seconds S]` prints a table and writes
benchmarks/results/store.json. The ratios compare runs on the same disk, alternating, so that its speed cancels out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from edge.core.configs import StudentSpec
from edge.core.models import ModelVersion
from edge.core.plan_causes import PlanCause
from edge.core.profiles import InferenceProfile
from edge.core.window import Segment, StreamAllocation, StreamProblem, WindowPlan, WindowProblem
from edge.store.journal import JournalBuffer
from edge.store.store import Store

RESULTS = Path(__file__).parent / "results" / "store.json"
ROUNDS = 5
WEIGHTS = bytes(range(256)) * 40_000  # 10 MB, as a large student
CAMERAS = 10


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="also measure this PostgreSQL database (it gets our tables)")
    parser.add_argument("--seconds", type=float, default=0.4, help="per measurement (default 0.4)")
    arguments = parser.parse_args()
    speeds: dict[str, dict[str, list[float]]] = {}
    for _ in range(ROUNDS):
        kinds: list[tuple[str, str | None, bool]] = [("sqlite FULL", None, True), ("sqlite NORMAL", None, False)]
        if arguments.url:
            kinds.append(("postgresql", arguments.url, True))
        for kind, url, full in kinds:
            for what, rate in _measure(url, full, arguments.seconds).items():
                speeds.setdefault(what, {}).setdefault(kind, []).append(rate)
    rows = {what: {kind: _spread(rates) for kind, rates in by.items()} for what, by in speeds.items()}
    for what, by in rows.items():
        print(what)
        for kind, row in by.items():
            print(f"  {kind:14s} {row['median']:10.1f}/s   ({row['least']:.1f} to {row['most']:.1f})")
        ratios = [a / b for a, b in zip(speeds[what]["sqlite FULL"], speeds[what]["sqlite NORMAL"], strict=True)]
        print(f"  FULL / NORMAL  {statistics.median(ratios):10.2f}     ({min(ratios):.2f} to {max(ratios):.2f})")
        by["FULL / NORMAL"] = _spread(ratios)
    RESULTS.parent.mkdir(exist_ok=True)
    made = {"benchmark": "store", "date": time.strftime("%Y-%m-%d"), "rounds": ROUNDS, "per_second": rows}
    RESULTS.write_text(json.dumps(made, indent=1) + "\n")


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 3),
        "least": round(min(values), 3),
        "most": round(max(values), 3),
    }


def _measure(url: str | None, full: bool, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name, Store(url, Path(name)) as store:
        if not full:
            sa.event.listen(
                store.database.engine, "connect", lambda c, _: c.execute("PRAGMA synchronous = NORMAL").close()
            )
            store.database.close()
        run = f"{time.time_ns()}"
        window = store.windows.open_window(time.time(), 60.0, "relay")
        (problem, plan), cause = _plan(), PlanCause("prepared")
        spec = StudentSpec("classification", "resnet18", ("car", "bus"), (64, 64))
        buffer = JournalBuffer(store.journal)

        def add_model(n: int) -> None:
            version = ModelVersion(f"{run}-{n}", run, "", spec, time.time())
            store.add_model(version, WEIGHTS + str(n).encode())
            store.versions.promote(version.id, "bench", "always")

        def buffered(n: int) -> None:
            for _ in range(500):
                buffer.append("note", camera="gate", window=window, data={"n": n})
            buffer.flush()

        return {
            "events, one by one": _rate(seconds, lambda n: store.journal.append("note", data={"n": n})),
            "events, through the buffer": _rate(seconds, buffered) * 500,
            f"plans of {CAMERAS} cameras": _rate(
                seconds, lambda n: store.windows.add_plan(window, problem, plan, cause)
            ),
            "10 MB models kept and promoted": _rate(seconds, add_model),
            "reads of the open window": _rate(seconds, lambda n: store.windows.open_window_state()),
        }


def _rate(seconds: float, work: Callable[[int], object]) -> float:
    begin, n = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        work(n)
        n += 1
    return n / (time.perf_counter() - begin)


def _plan() -> tuple[WindowProblem, WindowPlan]:
    streams = tuple(StreamProblem(f"c{n}", 0.5, InferenceProfile("linear", 0.3)) for n in range(CAMERAS))
    shares = {s.id: StreamAllocation(0.1) for s in streams}
    segments = tuple(Segment(6.0 * n, shares) for n in range(CAMERAS))
    return WindowProblem("bench", 1.0, 60.0, streams), WindowPlan("relay", "bench", 0.5, segments)


if __name__ == "__main__":
    main()
