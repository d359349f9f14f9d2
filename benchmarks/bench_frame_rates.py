"""What a lower frame rate costs a camera, as its inference profile says and as labels say.

    python -m benchmarks.bench_frame_rates --clips DIR [--seconds 12] [--teacher DESCRIPTION.yaml]

A student (YOLOX-nano as published) looks at ten frames a second of each clip. Of these it keeps five a second, as a
camera would; from them the inference profile estimates which part of its accuracy 5, 2.5 and 1.25 answers a second
keep. The truth beside it: F1 at IoU 0.5 against the teacher's labels of every second frame, of the answers that would
have stood in there, over that of fresh answers. Writes benchmarks/results/frame_rates.json. Without `--clips` it plays
the developers' shared clips (MAGPIE_SHARED, or the folder `../shared`).
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench_stale_answers import REPO, Answers, at_rate, clips_of, looked_at
from benchmarks.demo_windows import write_result
from edge.core.accuracy import Counts, count
from edge.core.vision import Detections, Observation
from edge.core.ways import gone_on
from edge.inference import staleness_factors
from edge.runtime.answer_ways import AnswerWays
from golden.spec import read_teacher
from golden.teacher import open_teacher

RATES = (5.0, 2.5, 1.25)
#: A clip with fewer labelled objects says nothing; seconds before the first label: the tracker has to know the scene.
FEWEST_OBJECTS, WARM_S = 60, 3.0
#: The clips on which the overlap that counts as one object at age 0 was chosen; the others are held out.
CHOSEN_ON = (
    "arterial_thailand", "hwy_calgary_720p", "tfl_cromwell_rd", "urban_arterial_china", "people_storefront_cctv",
    "street_residential", "hwy_m6_day", "intersection_crosswalk", "top_lanes_dusk", "people_vtest_480",
)  # fmt: skip


def true_factor(answers: Answers, labels: dict[int, Detections], rate: float, names: Sequence[str]) -> float:
    """F1 of what stands in at `rate` over F1 of fresh answers, at the labelled frames (by their places)."""
    kept, ways = at_rate(answers, rate), AnswerWays("clip", names)
    stood_in, fresh = Counts(), Counts()
    last_s, last, known = 0.0, Detections.empty(), None
    for place, (at_s, answer) in enumerate(answers):
        if place in kept:
            last_s, last, known = at_s, answer, ways.after(answer, at_s)
        if place in labels:
            stood_in += count(gone_on(last, known, at_s - last_s), labels[place], 0.5)
            fresh += count(answer, labels[place], 0.5)
    return stood_in.f1 / max(fresh.f1, 1e-6)


def estimated_factors(answers: Answers, names: Sequence[str]) -> dict[float, float]:
    """By rate, as the inference profile of a camera of five answers a second has them."""
    kept, ways = at_rate(answers, RATES[0]), AnswerWays("clip", names)
    seen = [
        Observation("clip", n, s, s, "", answer, False, 0.01, ways=ways.after(answer, s))
        for n, (s, answer) in enumerate(answers)
        if n in kept
    ]
    return staleness_factors(seen, RATES, follower=lambda: AnswerWays("clip", names, trusted=True).after)


def row(clip: Path, student: Any, teacher: Any, seconds: float) -> dict[str, Any] | None:
    """One clip's factors by rate, estimated and true; None: too few objects."""
    answers: Answers = []
    labels: dict[int, Detections] = {}
    for place, (at_s, picture) in enumerate(looked_at(clip, seconds)):
        answers.append((at_s, student.label(picture)))
        if at_s >= WARM_S and place % 2:
            labels[place] = teacher.label(picture)
    if sum(len(found) for found in labels.values()) < FEWEST_OBJECTS:
        return None
    estimated = estimated_factors(answers, student.classes)
    factors = {
        f"{rate:g}": {
            "estimated": round(estimated[rate], 3),
            "true": round(true_factor(answers, labels, rate, student.classes), 3),
        }
        for rate in RATES
    }
    return {"held_out": clip.stem not in CHOSEN_ON, "factors": factors}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """By rate: by how much estimates are off in the mean, in points, with their sign and without."""
    out = {}
    for rate in (f"{rate:g}" for rate in RATES):
        off = [100 * (r["factors"][rate]["estimated"] - r["factors"][rate]["true"]) for r in rows]
        out[rate] = {"bias": round(statistics.fmean(off), 1), "off": round(statistics.fmean(map(abs, off)), 1)}
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=Path)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--teacher", type=Path, default=REPO / "configs" / "teachers" / "coco_ensemble.yaml")
    args = parser.parse_args()
    clips = clips_of(args.clips)
    if clips is None:
        return 0
    student = open_teacher(read_teacher(REPO / "configs" / "teachers" / "yolox_nano.yaml"))
    teacher = open_teacher(read_teacher(args.teacher))
    rows: dict[str, dict[str, Any]] = {}
    for clip in clips:
        found = row(clip, student, teacher, args.seconds)
        if found is None:
            print(f"{clip.stem:36} fewer than {FEWEST_OBJECTS} labelled objects: left out")
            continue
        rows[clip.stem] = found
        by_rate = "  ".join(f"{r}/s {f['estimated']:.2f} (true {f['true']:.2f})" for r, f in found["factors"].items())
        print(f"{clip.stem:36} {by_rate}", flush=True)
    if not rows:
        print("no clip with objects")
        return 1
    held_out = [r for r in rows.values() if r["held_out"]]
    sums = {"all": summary(list(rows.values()))} | ({"held_out": summary(held_out)} if held_out else {})
    for name, found_off in sums.items():
        parts = ", ".join(f"{rate}/s {s['off']:.1f} off ({s['bias']:+.1f})" for rate, s in found_off.items())
        print(f"{name} ({len(rows) if name == 'all' else len(held_out)} clips): {parts} points")
    made = {"made": time.strftime("%Y-%m-%d"), "machine": platform.machine(), "seconds": args.seconds}
    write_result("frame_rates.json", {**made, "teacher": args.teacher.stem, "summary": sums, "clips": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
