"""The worth of an answer for the frames after it: left where it was, and moved on as the product does.

    python -m benchmarks.bench_stale_answers --clips DIR [--seconds 30] [--teacher DESCRIPTION.yaml]

A detector (YOLOX-nano as published) answers ten frames a second of each clip. Of these answers so many a second are
taken as a camera's; the others are what the frames between should have been answered with: F1 at IoU 0.5, after a
third of the clip. Writes benchmarks/results/stale_answers.json. Without `--clips` it plays the developers' shared clips
(MAGPIE_SHARED, or the folder `../shared`).
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from benchmarks.demo_windows import write_result
from benchmarks.shared_data import shared_folder
from edge.core.accuracy import Counts, count
from edge.core.vision import Detections
from edge.core.ways import gone_on
from edge.tracking.tracker import TrackerState
from edge.tracking.ways import WaysState, with_answer
from golden.spec import read_teacher
from golden.teacher import open_teacher

REPO = Path(__file__).resolve().parent.parent
FPS = 10.0
RATES = (0.8, 1.0, 1.5, 2.5, 4.0)
VIDEOS = (".mp4", ".avi", ".mkv", ".mov")
Answers = list[tuple[float, Detections]]


def clips_of(folder: Path | None) -> list[Path] | None:
    """The clips of `folder`, or, without one, of the developers' shared data, whose models are used then; None: that is
    absent, and it is said so."""
    shared = shared_folder() / "data"
    folder = folder or shared / "videos"
    if not folder.is_dir():
        print("no clips: the developers' shared data folder is absent (give --clips, or set MAGPIE_SHARED)")
        return None
    os.environ.setdefault("MAGPIE_MODELS", str(shared / "models"))
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in VIDEOS)


def looked_at(clip: Path, seconds: float) -> Iterator[tuple[float, NDArray[np.uint8]]]:
    """(seconds, picture) of ten frames a second."""
    taken = 0
    with av.open(str(clip)) as container:
        for frame in container.decode(video=0):
            at_s = float(frame.time or 0.0)
            if at_s > seconds:
                return
            if at_s + 1e-6 >= taken / FPS:
                taken += 1
                yield at_s, frame.to_ndarray(format="rgb24")


def answered(clip: Path, teacher: Any, seconds: float) -> Answers:
    """(seconds, answer) of ten frames a second."""
    return [(at_s, teacher.label(picture)) for at_s, picture in looked_at(clip, seconds)]


def at_rate(answers: Answers, rate: float) -> set[int]:
    """The places of the answers that a camera of this rate has."""
    kept, due_s = set(), 0.0
    for place, (at_s, _) in enumerate(answers):
        if at_s + 1e-6 >= due_s:
            kept.add(place)
            due_s = max(due_s, at_s - 1.0 / rate) + 1.0 / rate
    return kept


def compare(answers: Answers, rate: float, names: Sequence[str]) -> dict[str, Any]:
    """F1 of both ways of standing in, and CPU milliseconds of following one answer."""
    kept, state, kept_s = at_rate(answers, rate), WaysState(TrackerState("clip")), 0.0
    held, moved, followed = Counts(), Counts(), []
    for place, (at_s, answer) in enumerate(answers):
        if place in kept:
            kept_s, began = at_s, time.process_time()
            state = with_answer(state, answer, names, at_s)
            followed.append(time.process_time() - began)
        elif at_s >= answers[-1][0] / 3 and state.last is not None:
            held += count(state.last, answer, 0.5)
            ways = state.ways if state.right else None
            moved += count(gone_on(state.last, ways, at_s - kept_s), answer, 0.5)
    return {
        "stays": round(100 * held.f1, 1),
        "moves_on": round(100 * moved.f1, 1),
        "follow_ms": round(1000 * statistics.median(followed), 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--teacher", type=Path, default=REPO / "configs" / "teachers" / "yolox_nano.yaml")
    args = parser.parse_args()
    clips = clips_of(args.clips)
    if clips is None:
        return 0
    teacher = open_teacher(read_teacher(args.teacher))
    rows: dict[str, dict[str, Any]] = {}
    for clip in clips:
        answers = answered(clip, teacher, args.seconds)
        if len(answers) < 2 or sum(len(a) for _, a in answers) < len(answers):
            print(f"{clip.stem:36} less than one object a picture: left out")
            continue
        rows[clip.stem] = {f"{rate:g}": compare(answers, rate, teacher.classes) for rate in RATES}
        by_rate = "  ".join(f"{r}/s {x['stays']:.0f} -> {x['moves_on']:.0f}" for r, x in rows[clip.stem].items())
        print(f"{clip.stem:36} {by_rate}", flush=True)
    if not rows:
        print("no clip with objects")
        return 1
    gains = {
        f"{rate:g}": [r[f"{rate:g}"]["moves_on"] - r[f"{rate:g}"]["stays"] for r in rows.values()] for rate in RATES
    }
    summary = {
        rate: {"least": min(g), "mean": round(statistics.fmean(g), 2), "most": max(g)} for rate, g in gains.items()
    }
    for rate, s in summary.items():
        print(f"{rate} answers a second: {s['mean']:+.1f} points (mean of {len(rows)} clips; least {s['least']:+.1f})")
    made = {"made": time.strftime("%Y-%m-%d"), "machine": platform.machine(), "seconds": args.seconds}
    write_result("stale_answers.json", {**made, "summary": summary, "clips": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
