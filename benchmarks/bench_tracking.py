"""The tracker on the demo's drawn streets, where it is known which object is which.

    python -m benchmarks.bench_tracking [--seconds 120] [--seeds 3] [--no-student]

Two kinds of answers: the truth made worse (some objects missed, boxes jittered, wrong names, false boxes), by seed; and
those of the demo's own first student on the drawn pictures. The tracker's numbers were chosen on some streets;
"held_out" are others, which nobody looked at while choosing. For each rate of answers it tells, of the objects that
were answered often enough to be found: how many were found, how many objects each of them became (1 is right), how many
objects of the tracker mixed several true ones, objects without a true one, changes of identity per 1000 answers of an
object, and what a step costs in CPU milliseconds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from edge.core.tracks import Seen
from edge.core.vision import Detections
from edge.demo.scene import CHARACTERS, CLASSES, Scene, SceneObject, SceneSpec
from edge.demo.site import first_weights
from edge.inference import prepare
from edge.tracking import TrackerState, live, step

RESULTS = Path(__file__).resolve().parent / "results" / "tracking.json"
FPS = 5.0
#: Answers taken of those at FPS, for each rate.
EVERY = {5.0: 1, 2.5: 2, 1.0: 5}
#: Of the truth: part of answers in which an object is missed, boxes shifted by part of their size, wrong names, false
#: boxes per answer.
MISSED, JITTER, WRONG_NAME, FALSE = 0.15, 0.06, 0.05, 0.15
#: First seeds of the streets that the tracker's numbers were chosen on, and of those that were held out.
STREETS = {"": 300, "_held_out": 900}
#: An object counts if it was answered so often at this rate, over so many seconds.
LEAST_ANSWERS, LEAST_S = 3, 0.7


@dataclass
class Picture:
    """What is on one picture, and what was answered; `source` of each answered box is the true object's id or None."""

    at_s: float
    truth: list[SceneObject]
    boxes: list[tuple[float, ...]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    source: list[int | None] = field(default_factory=list)


def worse(pictures: Sequence[Picture], seed: int) -> list[Picture]:
    """The truth as a mediocre student would answer it."""
    rng = np.random.default_rng(seed)
    out = []
    for p in pictures:
        made = Picture(p.at_s, p.truth)
        for thing in p.truth:
            if rng.random() < MISSED:
                continue
            x0, y0, x1, y1 = thing.box
            shift = rng.normal(0, JITTER, 4) * np.array([x1 - x0, y1 - y0, x1 - x0, y1 - y0])
            box = np.clip(np.array(thing.box) + shift, 0, 1)
            if box[2] - box[0] < 0.005 or box[3] - box[1] < 0.005:
                continue
            made.boxes.append(tuple(float(v) for v in box))
            made.scores.append(float(rng.uniform(0.45, 0.95)))
            other = CLASSES[int(rng.integers(len(CLASSES)))]
            made.names.append(other if rng.random() < WRONG_NAME else thing.class_name)
            made.source.append(thing.track_id)
        for _ in range(int(rng.poisson(FALSE))):
            x, y = rng.uniform(0, 0.9), rng.uniform(0.3, 0.85)
            w, h = rng.uniform(0.03, 0.15), rng.uniform(0.04, 0.2)
            made.boxes.append((x, y, min(1.0, x + w), min(1.0, y + h)))
            made.scores.append(float(rng.uniform(0.4, 0.6)))
            made.names.append(CLASSES[int(rng.integers(len(CLASSES)))])
            made.source.append(None)
        out.append(made)
    return out


def answered(picture: Picture, found: Detections) -> Picture:
    """A student's answer; each box is of the true object that it overlaps most (at least 0.4)."""
    made = Picture(picture.at_s, picture.truth)
    for box, score, label in zip(found.boxes, found.scores, found.classes, strict=True):
        best = max(picture.truth, key=lambda t: overlap(t.box, box), default=None)
        source = best.track_id if best is not None and overlap(best.box, box) >= 0.4 else None
        made.boxes.append(tuple(float(v) for v in box))
        made.scores.append(float(score))
        made.names.append(CLASSES[int(label)])
        made.source.append(source)
    return made


def overlap(a: Sequence[float], b: Any) -> float:
    """Intersection over union."""
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    return float(w * h / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h))


def measure(pictures: Iterable[Picture]) -> dict[str, float]:
    """Run the tracker over answers in order."""
    state, number = TrackerState("bench"), 1
    given: dict[int, list[tuple[float, int | None]]] = defaultdict(list)
    mixed: dict[int, dict[int | None, int]] = defaultdict(lambda: defaultdict(int))
    costs, boxes = [], 0
    for p in pictures:
        seen = Seen(
            p.at_s, p.at_s, np.array(p.boxes, np.float32).reshape(-1, 4), np.array(p.scores, np.float32), tuple(p.names)
        )
        boxes += len(p.boxes)
        began = time.thread_time()
        done = step(state, seen, next_id=number)
        costs.append(1000 * (time.thread_time() - began))
        state, number = done.state, done.next_id
        now = [t for t in live(state) if t.seen_utc_s == p.at_s]
        for box, source in zip(p.boxes, p.source, strict=True):
            mine = next((t.id for t in now if max(abs(a - b) for a, b in zip(t.box, box, strict=True)) < 1e-5), None)
            if source is not None:
                given[source].append((p.at_s, mine))
            if mine is not None:
                mixed[mine][source] += 1
    counted = {
        who: [mine for _, mine in seen]
        for who, seen in given.items()
        if len(seen) >= LEAST_ANSWERS and seen[-1][0] - seen[0][0] >= LEAST_S
    }
    told = {who: [m for m in mine if m is not None] for who, mine in counted.items()}
    found = {who: mine for who, mine in told.items() if mine}
    switches = sum(a != b for mine in found.values() for a, b in itertools.pairwise(mine))
    answers = sum(len(mine) for mine in found.values())
    several = sum(sum(n >= 2 for who, n in of.items() if who is not None) > 1 for of in mixed.values())
    nobody = sum(set(of) == {None} for of in mixed.values())
    return {
        "true_objects": len(counted),
        "found_part": len(found) / max(1, len(counted)),
        "objects_per_true_object": sum(len(set(mine)) for mine in found.values()) / max(1, len(found)),
        "mixed_part": several / max(1, len(mixed)),
        "false_objects_part": nobody / max(1, len(mixed)),
        "switches_per_1000_answers": 1000 * switches / max(1, answers),
        "boxes_per_answer": boxes / max(1, len(costs)),
        "step_ms_median": statistics.median(costs),
        "step_ms_p95": sorted(costs)[int(0.95 * len(costs))],
    }


def spread(runs: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Mean, least and most over runs."""
    return {
        key: {
            "mean": round(statistics.fmean(r[key] for r in runs), 4),
            "min": round(min(r[key] for r in runs), 4),
            "max": round(max(r[key] for r in runs), 4),
        }
        for key in runs[0]
    }


def main() -> int:
    """Writes benchmarks/results/tracking.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--no-student", action="store_true", help="the worsened truth only")
    args = parser.parse_args()
    student = None if args.no_student else prepare(first_weights("detection")[0])
    kinds: dict[str, dict[str, Any]] = {}
    for which, first_seed in STREETS.items():
        truth: dict[str, list[Picture]] = {}
        by_student: dict[str, list[Picture]] = {}
        for character, name in enumerate(CHARACTERS):
            spec = SceneSpec(seed=first_seed + character, character=character, fps=FPS, day_s=240.0, start_phase=0.0)
            scene = Scene(spec)
            truth[name], by_student[name] = [], []
            for n in range(int(args.seconds * FPS)):
                rgb, things = scene.render(n / FPS)
                picture = Picture(n / FPS, things)
                truth[name].append(picture)
                if student is not None:
                    by_student[name].append(answered(picture, student.detect([rgb], 1.0, 0.4)[0]))
        for rate, every in EVERY.items():
            runs = [
                measure(worse(pictures[::every], 1000 * seed + k))
                for seed in range(args.seeds)
                for k, pictures in enumerate(truth.values())
            ]
            kinds.setdefault(f"worsened_truth{which}", {})[f"{rate:g}"] = spread(runs)
            if student is not None:
                runs = [measure(pictures[::every]) for pictures in by_student.values()]
                kinds.setdefault(f"first_student{which}", {})[f"{rate:g}"] = spread(runs)
    result = {
        "utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "seconds": args.seconds,
        "seeds": args.seeds,
        "streets": list(CHARACTERS),
        "first_seeds": {which.strip("_") or "chosen_on": seed for which, seed in STREETS.items()},
        "worsened_by": {"missed": MISSED, "jitter": JITTER, "wrong_name": WRONG_NAME, "false_per_answer": FALSE},
        "answers_per_s": kinds,
    }
    for kind, rates in kinds.items():
        for per_s, values in rates.items():
            shown = "  ".join(f"{k} {v['mean']:.3f} ({v['min']:.3f}-{v['max']:.3f})" for k, v in values.items())
            print(f"{kind} at {per_s}/s: {shown}")
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
