"""Endurance of the whole appliance: `make soak MINUTES=60`, or `python -m benchmarks.soak --minutes 60 [--seed 1]`.

`magpie run` in processes of its own on drawn RTSP cameras, with served models and an application under load, a broker,
a webhook, PostgreSQL and a small disk; its REST polled as by the page. Faults follow a seeded schedule; invariants are
checked on all that was seen. Writes benchmarks/results/soak.json and a summary; ends with 1 if an invariant broke or
was never checked.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.soak import report as rp
from benchmarks.soak.acts import Acts, longest_s
from benchmarks.soak.invariants import not_looked_for, sent_again
from benchmarks.soak.place import LOAD, MODELS_MB, RECORDED_MB, WINDOW_S, Place, opened
from benchmarks.soak.schedule import CALM_S, KINDS, Step, steps
from benchmarks.soak.values import FaultDone, RecordedEvent
from benchmarks.soak.watching import Watcher

RESULTS = Path(__file__).parents[1] / "results" / "soak.json"
#: Without faults at the end, before the last kill: this part of the time.
_CALM_PART = 0.15
#: A webhook's receiver that was away is tried again after 5 minutes at the latest.
_DRAIN_S = 330.0
#: Beside pictures and models: the clips' and objects' pictures, logs, a database's own files.
_OTHER_MB = 150.0


async def soak(
    minutes: float, seed: int, cameras: int, folder: Path, print_line: Callable[[str], None]
) -> dict[str, Any]:
    """Run it and return the report. Raises MagpieError, TimeoutError where the place cannot be made."""
    began = time.monotonic()

    def now() -> float:
        return time.monotonic() - began

    async with opened(folder, cameras, now) as place:
        print_line(
            f"{now():.0f} s: the appliance is up at {place.box.url}; "
            f"not possible here: {dict(place.missing) or 'nothing'}"
        )
        watcher = Watcher(place, now)
        acts = Acts(place, watcher, now)
        watching = asyncio.create_task(watcher.run())
        try:
            if not await acts.well(180.0):
                raise TimeoutError("not everything answers in the beginning")
            first_s, load_began = now(), os.getloadavg()[1]
            print_line(f"{first_s:.0f} s: all answers; {minutes:g} minutes begin")
            planned = steps(seed, place.cameras, 20, place.possible)
            doing = asyncio.create_task(_faults(acts, planned, first_s + minutes * 60.0, now, print_line))
            await asyncio.wait({doing, watching}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():  # the watch has ended: what was done since says nothing
                doing.cancel()
                await watching
            await doing
            kept = await _drained(place, watcher, now)
            ended_s = now()
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
            (folder / "appliance.log").write_text(place.box.output, encoding="utf-8")
        return _report(place, watcher, acts, kept, (first_s, ended_s), minutes, seed, load_began)


async def _faults(
    acts: Acts, planned: tuple[Step, ...], end_s: float, now: Callable[[], float], print_line: Callable[[str], None]
) -> None:
    """The steps until the calm at the end, the calm, and one last kill of everything."""
    begin_s = now()
    faults_end_s = end_s - _CALM_PART * (end_s - begin_s) - KINDS["kill_all"].back_s / 2
    for step in planned:
        if now() + min(longest_s(step), 60.0) > faults_end_s:
            break
        _print_fault(await acts.step(step), now, print_line)
    last_s = end_s - 60.0
    print_line(f"{now():.0f} s: calm until {last_s:.0f} s")
    while now() < last_s:
        await asyncio.sleep(1.0)
    _print_fault(await acts.step(Step(len(acts.done) + 1, "kill_all", "", 0.0, CALM_S)), now, print_line)


def _print_fault(done: FaultDone, now: Callable[[], float], print_line: Callable[[str], None]) -> None:
    print_line(f"{done.began_s:.0f} s: {done.number} {done.fault} {done.camera} {done.note} (on at {now():.0f} s)")


async def _drained(place: Place, watcher: Watcher, now: Callable[[], float]) -> list[RecordedEvent]:
    """The records there are, once all messages of that time were sent."""
    kept = await watcher.kept()
    since_s = now()
    while now() < since_s + _DRAIN_S:
        look = watcher.seen.looks[-1]
        if look.at_s > since_s + 10.0 and look.waiting and not any(look.waiting.values()):
            break
        await asyncio.sleep(1.0)
    await asyncio.sleep(3.0)
    return kept


def _report(
    place: Place, watcher: Watcher, acts: Acts, kept: list[RecordedEvent], span_s: tuple[float, float], minutes: float,
    seed: int, load_began: float,
) -> dict[str, Any]:  # fmt: skip
    seen, heard = watcher.seen, list(place.listener.heard)
    disk_mb = MODELS_MB + 2 * RECORDED_MB * len(place.cameras) + _OTHER_MB
    checked, found, rows = rp.check_all(
        seen, acts.done, kept, heard, place.destinations, acts.kills_utc_s, span_s, disk_mb, LOAD
    )  # fmt: skip
    return {
        "benchmark": "soak",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": {"before": round(load_began, 2), "after": round(os.getloadavg()[1], 2)},
        "minutes": minutes,
        "seconds_watched": round(span_s[1] - span_s[0]),
        "seed": seed,
        "cameras": list(place.cameras),
        "window_s": WINDOW_S,
        "load_per_s": dict(LOAD),
        "faults_done": sum(f.tried for f in acts.done),
        "not_possible": dict(place.missing),
        "broken": sum(bool(c.breaks) for c in checked),
        "never_checked": rp.never_checked(checked),
        "invariants": rp.checked_rows(checked),
        "gaps": rp.longest_gaps(found, acts.done),
        "faults": rp.back_after(acts.done, found),
        "growth": rows,
        "memory_not_judged": rp.memory_not_judged(rows),
        "not_looked_for": not_looked_for(seen.looks, acts.done),
        "disk_mb": {"first": seen.disk_mb[0][1], "most": max(mb for _, mb in seen.disk_mb), "limit": disk_mb},
        "promotions": len(seen.in_force),
        "events": {"kept": len(kept), "heard": len(heard), "sent_again": sent_again(heard)},
        "requests": {model: dict(counts) for model, counts in sorted(seen.outcomes.items())},
    }


async def _until_ended(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """The work's result; SIGTERM and SIGINT cancel it, so that everything is ended and unmounted."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


def _print_line(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    """0: every invariant was checked, and none broke."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the schedule of faults (default 1)")
    parser.add_argument("--cameras", type=int, default=3, help="drawn cameras (default 3)")
    parser.add_argument("--no-write", action="store_true", help="print only; runs of less than an hour always do")
    parser.add_argument("--folder", type=Path, help="keep everything here, for a look afterwards")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = args.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="magpie-soak-")))
        folder.mkdir(parents=True, exist_ok=True)
        made = asyncio.run(_until_ended(soak(args.minutes, args.seed, args.cameras, folder, _print_line)))
    if args.folder is not None:
        (args.folder / "soak.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    if not args.no_write and args.minutes >= 60:
        RESULTS.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(rp.summary(made))
    return 1 if made["broken"] or made["never_checked"] else 0


if __name__ == "__main__":
    sys.exit(main())
