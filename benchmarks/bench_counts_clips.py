"""Counts at lines on two real clips whose vehicles were counted by hand.

    python -m benchmarks.bench_counts_clips [--detector DESCRIPTION.yaml] [--teacher DESCRIPTION.yaml]

benchmarks/clips_counted.json has the path of each vehicle, read off by eye, and two lines for each clip: where a path
cuts a line is the truth, with the number of the frame. A detector, left as published, answers five times a second; its
classes are merged. The product's own tracker, counting, checks and correction take the answers, with the teacher's
labels of as many pictures as in the demo (48 in each window of 75 s), and with those of each picture: the clips are so
short that a box has too few. Told for each line and direction: counted by hand, raw, corrected with its 90 % interval.
Needs the developers' shared data (MAGPIE_SHARED, or the folder `../shared`). Results:
benchmarks/results/counts_clips.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np

from benchmarks.bench_tracking_clips import FPS, REPO, by_teacher, counted_clips, merged, pictures
from benchmarks.counted_again import counted_again
from benchmarks.demo_windows import write_result
from benchmarks.shared_data import shared_clips
from edge.core.counts import Counted, CountLine, Place
from edge.core.tracks import Seen, TrackedObject
from edge.inference.looks import looks
from edge.tracking import TrackerState, live, step
from scheduler.counts.checks import CheckIndex
from scheduler.counts.correction import corrected
from scheduler.counts.near import NamedBox, as_checks, checked_place
from scheduler.counts.passing import CountingState, crossed
from scheduler.counts.passing import step as count

#: Answers are sure from this score on; labels in a window of so many seconds; so far off may corrected counts be.
SURE, LABELS, WINDOW_S, MOST_ERROR = 0.35, 48, 75.0, 0.1
CLASS = "vehicle"

Labels = dict[int, list[NamedBox]]


def lines_of(clip: dict[str, Any]) -> tuple[CountLine, ...]:
    """The lines of a counted clip."""
    return tuple(CountLine(line["name"], tuple(line["start"]), tuple(line["end"])) for line in clip["lines"])


def by_hand(clip: dict[str, Any], lines: Sequence[CountLine], rate: float) -> list[dict[str, Any]]:
    """Where the paths cut the lines: line, direction, the vehicle and the number of the frame."""
    out = []
    for line in lines:
        for vehicle in clip["objects"]:
            path = vehicle["path"]
            for before, after in pairwise(path):
                way = crossed(line, (before[1], before[2]), (after[1], after[2]))
                if way is not None and vehicle["class"] == CLASS:
                    frame = round(rate * (before[0] + after[0]) / 2)
                    out.append({"line": line.name, "way": way, "vehicle": vehicle["name"], "frame": frame})
    return out


def seen_on(file: Path, detector: Path, teacher: Path) -> tuple[list[Seen], Labels, float]:
    """The answers, the labels by number of the answer, and the clip's frames per second."""
    answer, label = by_teacher(detector, SURE), by_teacher(teacher, SURE)
    seen: list[Seen] = []
    labels: Labels = {}
    for n, (at_s, picture) in enumerate(pictures(file)):
        boxes, scores, classes = merged(*answer(picture))
        shown = np.asarray(looks(picture, boxes), np.float32) if len(boxes) else None
        given = np.asarray(boxes, np.float32).reshape(-1, 4), np.asarray(scores, np.float32)
        seen.append(Seen(at_s, at_s, *given, classes, SURE, shown))
        kept, _, names = merged(*label(picture))
        labels[n] = [
            NamedBox((float(b[0]), float(b[1]), float(b[2]), float(b[3])), name)
            for b, name in zip(kept, names, strict=True)
        ]
    with av.open(str(file)) as clip:
        return seen, labels, float(clip.streams.video[0].average_rate or 25)


def as_a_box(labels: Labels) -> Labels:
    """Those that a box would have."""
    every = WINDOW_S * FPS / LABELS
    return {n: objects for n, objects in labels.items() if n == round(round(n / every) * every)}


def counted_on(
    answers: Sequence[Seen], labels: Labels, lines: Sequence[CountLine]
) -> tuple[Counter[Place], CheckIndex]:
    """Vehicles at each line and direction, and what the labels say of them."""
    state, number, counting = TrackerState("clip"), 1, CountingState()
    seen: list[tuple[float, tuple[TrackedObject, ...]]] = []
    found: list[Counted] = []
    for answer in answers:
        done = step(state, answer, next_id=number)
        state, number = done.state, done.next_id
        seen.append((answer.utc_s, live(state)))
        counting, more = count(counting, live(state), lines, answer.utc_s)
        found += more
    frames = counted_again(labels, seen, found, lines, FPS)
    raw = Counter(c.place for c in found if c.place.kind == "line" and c.class_name == CLASS)
    return raw, CheckIndex(list(as_checks("clip", frames)))


def rows_of(
    true: Sequence[dict[str, Any]], raw: Counter[Place], checks: CheckIndex, lines: Sequence[CountLine], ends_s: float
) -> list[dict[str, Any]]:
    """Each line and direction in which anything was counted or there."""
    out = []
    for place in [Place("line", line.name, way) for line in lines for way in ("forward", "backward")]:
        there = sum((t["line"], t["way"]) == (place.name, place.way) for t in true)
        if not (there or raw[place]):
            continue
        sums = checks.around(checked_place(place), CLASS, 0.0, ends_s, raw[place])
        found = corrected(raw[place], raw[place], *sums)
        row = {"line": place.name, "way": place.way, "by_hand": there, "raw": raw[place]}
        out.append(row | {"corrected": None if found is None else found.to_json()})
    return out


def summed(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All lines of a clip: how far off, and how many intervals hold what was counted by hand."""
    known = [r for r in rows if r["corrected"] is not None]
    there = max(1, sum(r["by_hand"] for r in known))
    return {
        "by_hand": sum(r["by_hand"] for r in rows),
        "unknown": len(rows) - len(known),
        "raw_error": round(sum(abs(r["raw"] - r["by_hand"]) for r in known) / there, 4),
        "corrected_error": round(sum(abs(r["corrected"]["value"] - r["by_hand"]) for r in known) / there, 4),
        "intervals_hold": sum(r["corrected"]["low"] <= r["by_hand"] <= r["corrected"]["high"] for r in known),
        "intervals": len(known),
    }


def main() -> int:
    """Writes benchmarks/results/counts_clips.json."""
    teachers = REPO / "configs" / "teachers"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--detector", type=Path, default=teachers / "yolox_nano.yaml")
    parser.add_argument("--teacher", type=Path, default=teachers / "traffic_ensemble.yaml")
    args = parser.parse_args()
    shared = shared_clips()
    if shared is None:
        return 0
    clips: dict[str, Any] = {}
    for file, clip in counted_clips(shared):
        lines = lines_of(clip)
        answers, labels, rate = seen_on(file, args.detector, args.teacher)
        true = by_hand(clip, lines, rate)
        clips[clip["file"]] = {"truth": true}
        for kind, some in (("as_a_box", as_a_box(labels)), ("each_picture", labels)):
            rows = rows_of(true, *counted_on(answers, some, lines), lines, answers[-1].utc_s)
            clips[clip["file"]][kind] = summed(rows) | {"labels": len(some), "lines": rows}
            print(clip["file"], kind, len(some), json.dumps(summed(rows)), json.dumps(rows))
    reached = {}
    for kind in ("as_a_box", "each_picture"):
        mine = [clip[kind] for clip in clips.values()]
        known = not any(c["unknown"] for c in mine)
        near = all(c["corrected_error"] <= MOST_ERROR for c in mine)
        reached[f"{kind}: corrected within {MOST_ERROR:.0%} on each clip, each interval holds"] = (
            known and near and all(c["intervals_hold"] == c["intervals"] for c in mine)
        )
    for words, good in reached.items():
        print(f"{'reached' if good else 'NOT reached'}: {words}")
    about = {"utc": datetime.now(UTC).isoformat(timespec="seconds"), "answers_per_s": FPS, "score": SURE}
    names = {"detector": args.detector.stem, "teacher": args.teacher.stem}
    write_result("counts_clips.json", about | names | {"reached": reached, "clips": clips})
    return 0


if __name__ == "__main__":
    sys.exit(main())
