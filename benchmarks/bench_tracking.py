"""The tracker on the demo's drawn streets, where it is known which object is which.

    python -m benchmarks.bench_tracking [--seconds 60] [--seeds 3] [--no-student] [--no-retrained] [--keep FOLDER]

Three kinds of answers: the truth made worse (some objects missed, boxes jittered, wrong names, false boxes), by seed;
those of the demo's own first student on the drawn pictures; and those of that student after it was retrained on this
street as the demo would (benchmarks/tracked_streets.py), in the window after: with the sure answers only, with the
looks that may be sent beside them, and with the unsure answers, too. The tracker's numbers were chosen on some streets;
"held_out" are others, not looked at while choosing. The figures of each run: `measure` in
benchmarks/tracked_streets.py. `--keep` keeps the retrained students' answers for the next time (they cost a quarter of
an hour of a core).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tracked_streets import FPS, Picture, answered, measure, retrained_answers, true_objects
from edge.demo.scene import CHARACTERS, CLASSES, Scene, SceneSpec
from edge.demo.site import first_weights
from edge.inference import prepare

RESULTS = Path(__file__).resolve().parent / "results" / "tracking.json"
#: Answers taken of those at FPS, for each rate.
EVERY = {5.0: 1, 2.5: 2, 1.0: 5}
#: Of the truth: part of answers in which an object is missed, boxes shifted by part of their size, wrong names, false
#: boxes per answer.
MISSED, JITTER, WRONG_NAME, FALSE = 0.15, 0.06, 0.05, 0.15
#: First seeds of the streets that the tracker's numbers were chosen on, and of those that were held out.
STREETS = {"": 300, "_held_out": 900}
#: Of the retrained ones: a score from which answers are sure, as cameras are set by default, and from which unsure.
SURE, UNSURE = 0.4, 0.2
#: First seeds of the streets with a retrained student that the numbers were chosen on, and that were held out.
RETRAINED = {"": (300, 600), "_held_out": (900,)}


def worse(pictures: Sequence[Picture], seed: int) -> list[Picture]:
    """The truth as a mediocre student would answer it."""
    rng = np.random.default_rng(seed)
    out = []
    for p in pictures:
        made = Picture(p.at_s, p.truth)
        for true_object in p.truth:
            if rng.random() < MISSED:
                continue
            x0, y0, x1, y1 = true_object.box
            shift = rng.normal(0, JITTER, 4) * np.array([x1 - x0, y1 - y0, x1 - x0, y1 - y0])
            box = np.clip(np.array(true_object.box) + shift, 0, 1)
            if box[2] - box[0] < 0.005 or box[3] - box[1] < 0.005:
                continue
            made.boxes.append(tuple(float(v) for v in box))
            made.scores.append(float(rng.uniform(0.45, 0.95)))
            other = CLASSES[int(rng.integers(len(CLASSES)))]
            made.names.append(other if rng.random() < WRONG_NAME else true_object.class_name)
            made.source.append(true_object.number)
        for _ in range(int(rng.poisson(FALSE))):
            x, y = rng.uniform(0, 0.9), rng.uniform(0.3, 0.85)
            w, h = rng.uniform(0.03, 0.15), rng.uniform(0.04, 0.2)
            made.boxes.append((x, y, min(1.0, x + w), min(1.0, y + h)))
            made.scores.append(float(rng.uniform(0.4, 0.6)))
            made.names.append(CLASSES[int(rng.integers(len(CLASSES)))])
            made.source.append(None)
        out.append(made)
    return out


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


def _retrained(
    seeds: Sequence[int], seconds: float, keep: Path | None
) -> list[tuple[float, str, list[dict[str, float]]]]:
    """Rate, kind of answers, a run per street and seed."""
    streets = [pictures for seed in seeds for pictures in retrained_answers(seed, seconds, keep).values()]
    kinds = {
        "retrained": (SURE, SURE, False),
        "retrained_looks": (SURE, SURE, True),
        "retrained_looks_unsure": (SURE, UNSURE, True),
    }
    return [
        (rate, kind, [measure(pictures[::every], *how) for pictures in streets])
        for rate, every in EVERY.items()
        for kind, how in kinds.items()
    ]


def main() -> int:
    """Writes benchmarks/results/tracking.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--no-student", action="store_true", help="the worsened truth only")
    parser.add_argument("--no-retrained", action="store_true", help="no retrained students")
    parser.add_argument("--keep", type=Path, help="keep the retrained students' answers in this folder, or take them")
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
                rgb, objects = scene.render(n / FPS)
                picture = Picture(n / FPS, true_objects(objects))
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
        if not args.no_retrained:
            for rate, kind, runs in _retrained(RETRAINED[which], args.seconds, args.keep):
                kinds.setdefault(f"{kind}{which}", {})[f"{rate:g}"] = spread(runs)
    result = {
        "utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()},
        "seconds": args.seconds,
        "seeds": args.seeds,
        "streets": list(CHARACTERS),
        "first_seeds": {which.strip("_") or "chosen_on": seed for which, seed in STREETS.items()},
        "first_seeds_retrained": {which.strip("_") or "chosen_on": seeds for which, seeds in RETRAINED.items()},
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
