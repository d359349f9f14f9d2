"""A made-up past of a street camera, for pictures of pages that show days: a box that runs for some minutes has none.

Written into the data folder of an appliance that has never run: ten days of counts by the hour, as long a journal, and
the objects, alarms and outages of today. The appliance itself corrects the counts, compares them with the week before
and finds the outages.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.bench_counts_store import fill
from edge.core.alarms import Alarm
from edge.core.counts import CLUSTER_S
from edge.core.tracks import TrackedObject
from edge.store import tables as t
from edge.store.store import Store
from edge.store.values import NewEvent
from scheduler.counts.report_days import day_bounds

DAYS: Final = 10
HOUR_S, QUARTER_S = 3600, CLUSTER_S["hour"]
#: Tens of objects of an hour of the day, at a line and in one direction, and classes with their part of them.
TRAFFIC: Final = (2, 1, 1, 1, 2, 6, 18, 34, 41, 30, 24, 25, 29, 27, 26, 29, 35, 44, 38, 24, 15, 10, 6, 4)
PARTS: Final = {"car": 0.62, "truck": 0.12, "bicycle": 0.12, "person": 0.14}
#: Seconds after midnight of today, how long, the state of the camera's stream, and its fault.
OUTAGES: Final = ((11_520, 840, "camera.reconnecting", "unreachable"), (45_300, 420, "camera.stalled", "frozen"))
#: Seconds after midnight of today, and how long.
ALARMS: Final = ((29_400, 50.0), (50_820, 35.0), (60_300, 65.0))
#: Kind, name and way of the places, with their part of the traffic.
Places = Sequence[tuple[str, str, str, float]]


def places(line: str, west: str, east: str) -> Places:
    """The places of a camera with one line and two zones beside each other."""
    return (
        ("line", line, "forward", 1.0), ("line", line, "backward", 0.8),
        ("movement", west, east, 0.5), ("movement", east, west, 0.4),
        ("zone", west, "", 0.9), ("zone", east, "", 0.7),
    )  # fmt: skip


def write_past(data: Path, camera: str, where: Places, now: float) -> None:
    """Write the past of `camera`, counted at `where`, up to `now` (UTC epoch seconds)."""
    rng = random.Random(11)
    midnight = day_bounds(datetime.fromtimestamp(now).date(), None)[0]
    first, hour = int(midnight) - DAYS * 86_400, int(now) // HOUR_S * HOUR_S
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with Store(None, data) as store:
        lost = {int(midnight + at) // HOUR_S * HOUR_S: seconds for at, seconds, *_ in OUTAGES}
        fill(store, t.counts, _counts(camera, where, first, hour, rng))
        fill(store, t.count_watched, _watched(camera, first, hour, lost))
        fill(store, t.count_check_sums, _checks(camera, where, max(first, hour - 3 * 86_400), hour, rng))
        store.alarms.put_objects(list(_objects(camera, midnight, now, rng)))
        store.alarms.put_alarms(
            [
                Alarm(n, "buses", "Bus on the road", "object", "info", camera, str(n), "end", midnight + at,
                      "bus", value=seconds, object=n, ended_utc_s=midnight + at + seconds)
                for n, (at, seconds) in enumerate(ALARMS, 1)
                if midnight + at + seconds < now
            ]
        )  # fmt: skip
        store.journal.append_events(sorted(_journal(camera, first, midnight, now), key=lambda e: e.at_utc_s))


def _hour_of(start_s: int) -> int:
    return datetime.fromtimestamp(start_s).hour


def _counts(camera: str, where: Places, first: int, end: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    for start in range(first, end, HOUR_S):
        for kind, name, way, busy in where:
            for of_class, part in PARTS.items():
                mean = 10 * TRAFFIC[_hour_of(start)] * busy * part
                objects = max(0, round(rng.gauss(mean, mean**0.5)))
                seconds = objects * rng.uniform(6.0, 14.0) if kind == "zone" else 0.0
                yield {
                    "camera": camera, "step_s": HOUR_S, "start_s": start, "kind": kind, "name": name, "way": way,
                    "class_name": of_class, "objects": objects, "seconds": seconds, "standing_s": 0.4 * seconds,
                    "most": min(objects, 1 + objects // 8) if kind == "zone" else 0, "settled": 0,
                    "corrected": None, "low": None, "high": None,
                }  # fmt: skip


def _watched(camera: str, first: int, end: int, lost: dict[int, int]) -> Iterator[dict[str, Any]]:
    for start in range(first, end, HOUR_S):
        seconds = float(HOUR_S - lost.get(start, 0))
        yield {"camera": camera, "step_s": HOUR_S, "start_s": start, "seconds": seconds, "answers": int(4 * seconds)}


def _checks(camera: str, where: Places, first: int, end: int, rng: random.Random) -> Iterator[dict[str, Any]]:
    """A teacher that sees about a fifth more than was followed."""
    for start in range(first, end, QUARTER_S):
        for kind, name, way, busy in where:
            if kind == "movement":
                continue
            for of_class, part in PARTS.items():
                there = round(10 * TRAFFIC[_hour_of(start)] * busy * part * rng.uniform(0.2, 0.4))
                same = sum(rng.random() < 0.78 for _ in range(there))
                yield {
                    "camera": camera, "step_s": QUARTER_S, "start_s": start, "kind": kind, "name": name, "way": way,
                    "class_name": of_class, "frames": 3, "followed": same + (rng.random() < 0.05 * there),
                    "there": there, "same": same,
                }  # fmt: skip


def _objects(camera: str, midnight: float, now: float, rng: random.Random) -> Iterator[TrackedObject]:
    """The objects of today, outages left out, in the order of time."""
    began: list[float] = []
    for start in range(int(midnight), int(now), HOUR_S):
        for _ in range(20 * TRAFFIC[_hour_of(start)]):
            at = start + rng.uniform(0.0, HOUR_S)
            gone = any(0 <= at - midnight - from_s <= seconds for from_s, seconds, *_ in OUTAGES)
            if at < now - 60.0 and not gone:
                began.append(at)
    for number, at in enumerate(sorted(began), 1):
        (of_class,) = rng.choices(list(PARTS), list(PARTS.values()))
        stay = rng.uniform(4.0, 30.0)
        yield TrackedObject(
            number, camera, of_class, rng.uniform(0.4, 0.95), (0.4, 0.4, 0.5, 0.6), at, at + stay, stay, 20,
            ended_utc_s=at + stay,
        )  # fmt: skip


def _journal(camera: str, first: float, midnight: float, now: float) -> Iterator[NewEvent]:
    yield NewEvent(first, "appliance.started", None, None, {})
    yield NewEvent(first + 5.0, "camera.live", camera, None, {})
    for at, seconds, kind, fault in OUTAGES:
        if midnight + at + seconds < now:
            yield NewEvent(midnight + at, kind, camera, None, {"fault": fault})
            yield NewEvent(midnight + at + seconds, "camera.live", camera, None, {})
    # The box was alive until shortly before the run begins.
    yield NewEvent(now - 5.0, "camera.live", camera, None, {})
