"""The tracker on real clips whose vehicles and people were counted by hand.

    python -m benchmarks.bench_tracking_clips [--teacher DESCRIPTION.yaml | --student WEIGHTS] [--score 0.35]

benchmarks/clips_counted.json names each counted object with its path (seconds, and its middle in fractions of the
picture, read off a grid by eye). A detector answers five times a second; its classes are merged to vehicle, person and
two_wheeler before suppression. An object that the tracker tells belongs to the counted one that it is on most of the
time. For each clip: how many counted objects have one of their own, how many each has (1 is right), how many reported
ones are on none though they are in the counted area, and the same with the unsure answers and the looks that a worker
may send beside the sure ones. Needs the developers' shared data (MAGPIE_SHARED, or the folder `../shared`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from benchmarks.demo_windows import write_result
from benchmarks.shared_data import shared_clips
from edge.core.tracks import Seen
from edge.core.vision import Detections
from edge.core.zones import Zone
from edge.detectors.boxes import suppress
from edge.inference.looks import looks
from edge.tracking import TrackerState, live, step

Detector = Callable[[NDArray[np.uint8]], tuple[Detections, tuple[str, ...]]]
"""Answers of a picture (RGB) and the names of its classes."""

REPO = Path(__file__).resolve().parent.parent
COUNTED = Path(__file__).resolve().parent / "clips_counted.json"
FPS = 5.0
#: Of everyday classes, those that a traffic camera asks for.
MERGED = {
    "vehicle": ("vehicle", "car", "truck", "bus", "train"),
    "person": ("person",),
    "two_wheeler": ("two_wheeler", "bicycle", "motorcycle", "bike"),
}
MERGED_IOU, MOST = 0.6, 100
#: Answers with a score of so much of the threshold are sent as unsure ones; a path goes on for so long at its ends; a
#: counted object is within so many half boxes of a reported one's middle.
UNSURE, PATH_ENDS_S, NEAR = 0.5, 0.35, 1.3


def counted_clips(shared: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The clips that were counted by hand: file and what was counted. Raises SystemExit for another file."""
    for clip in json.loads(COUNTED.read_text(encoding="utf-8"))["clips"]:
        file = shared / "videos" / clip["file"]
        if hashlib.sha256(file.read_bytes()).hexdigest() != clip["sha256"]:
            raise SystemExit(f"{file.name} is not the clip that was counted")
        yield file, clip


def pictures(file: Path) -> Iterator[tuple[float, NDArray[np.uint8]]]:
    """Seconds and RGB pictures of a clip, FPS a second."""
    with av.open(str(file)) as clip:
        stream, due = clip.streams.video[0], 0.0
        for n, frame in enumerate(clip.decode(stream)):
            at_s = frame.time if frame.time is not None else n / float(stream.average_rate or 25)
            if at_s >= due - 1e-6:
                yield at_s, np.ascontiguousarray(frame.to_ndarray(format="rgb24"), np.uint8)
                due += 1 / FPS


def merged(found: Detections, names: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any], tuple[str, ...]]:
    """Boxes, scores and merged classes, suppressed once more as merged."""
    of = {name: k for k, whole in enumerate(MERGED.values()) for name in whole}
    kept = [n for n, c in enumerate(found.classes) if names[int(c)] in of]
    boxes, scores = np.asarray(found.boxes)[kept], np.asarray(found.scores)[kept]
    classes = np.array([of[names[int(found.classes[n])]] for n in kept], np.int64)
    left = suppress(boxes, scores, classes, MERGED_IOU, MOST)
    return boxes[left], scores[left], tuple(tuple(MERGED)[int(c)] for c in classes[left])


def by_teacher(description: Path, least: float) -> Detector:
    """A described detector, left as it is published. Raises WeightsError."""
    from golden.spec import OnnxSpec, read_teacher
    from golden.teacher import open_teacher

    spec = read_teacher(description)
    teacher = open_teacher(replace(spec, min_score=least) if isinstance(spec, OnnxSpec) else spec)
    return lambda picture: (teacher.label(picture), teacher.classes)


def by_student(file: Path, least: float) -> Detector:
    """A student of this product. Raises WeightsError."""
    from edge.inference import prepare

    student = prepare(file)
    return lambda picture: (student.detect([picture], 1.0, least)[0], student.spec.classes)


def answers_of(file: Path, detect: Detector) -> list[tuple[float, NDArray[Any], NDArray[Any], tuple[str, ...], Any]]:
    """Per picture: seconds, boxes, scores, classes, looks."""
    out = []
    for at_s, picture in pictures(file):
        boxes, scores, classes = merged(*detect(picture))
        out.append((at_s, boxes, scores, classes, looks(picture, boxes)))
    return out


def track(
    answers: Sequence[Any], sure: float, unsure: float, with_looks: bool, stepped: Callable[..., Any] = step
) -> dict[int, list[tuple[float, Any]]]:
    """The announced objects: when and where each was seen."""
    state, number = TrackerState("clip"), 1
    paths: dict[int, list[tuple[float, Any]]] = defaultdict(list)
    for at_s, boxes, scores, classes, shown in answers:
        kept = [n for n, s in enumerate(scores) if s >= unsure]
        look = np.asarray(shown[kept], np.float32) if with_looks and kept else None
        given = np.asarray(boxes[kept], np.float32).reshape(-1, 4), np.asarray(scores[kept], np.float32)
        seen = Seen(at_s, at_s, *given, tuple(classes[n] for n in kept), sure, look)
        done = stepped(state, seen, next_id=number)
        state, number = done.state, done.next_id
        for followed in live(state):
            if followed.seen_utc_s == at_s:
                paths[followed.id].append((at_s, followed.box))
    return paths


def place(path: Sequence[Sequence[float]], at_s: float) -> tuple[float, float] | None:
    """Where a counted object is, None when it is not there."""
    times = [p[0] for p in path]
    if not times[0] - PATH_ENDS_S <= at_s <= times[-1] + PATH_ENDS_S:
        return None
    return float(np.interp(at_s, times, [p[1] for p in path])), float(np.interp(at_s, times, [p[2] for p in path]))


def compare(seen_boxes: dict[int, list[tuple[float, Any]]], counted: dict[str, Any]) -> dict[str, Any]:
    """The announced objects against the counted ones."""
    paths = [o["path"] for o in counted["objects"]]
    region = Zone("counted", tuple(tuple(p) for p in counted["region"]))  # type: ignore[misc]
    own: dict[int, list[int]] = defaultdict(list)
    identities: dict[int, set[int]] = defaultdict(set)
    nowhere = []
    for number, seen in seen_boxes.items():
        votes: dict[int, int] = defaultdict(int)
        inside = 0
        for at_s, box in seen:
            x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
            inside += region.contains((x, y))
            w, h = max(1e-6, box[2] - box[0]), max(1e-6, box[3] - box[1])
            near = []
            for k, path in enumerate(paths):
                there = place(path, at_s)
                if there is not None and w * h < 0.5:
                    away = max(abs(there[0] - x) / (w / 2), abs(there[1] - y) / (h / 2))
                    near += [(away, k)] if away <= NEAR else []
            if near:
                votes[min(near)[1]] += 1
        for k, n in votes.items():
            if n >= 2:
                identities[k].add(number)
        if 2 * sum(votes.values()) > len(seen):
            own[max(votes, key=lambda k: votes[k])].append(number)
        elif inside:
            nowhere.append(number)
    found, of_own = len(own), sum(map(len, own.values()))
    return {
        "counted": len(paths),
        "with_one_of_its_own": found,
        "told_per_true_object": round(of_own / max(1, found), 4),
        "objects_per_true_object": round(sum(map(len, identities.values())) / max(1, len(identities)), 4),
        "told_on_none": len(nowhere),
        "told_in_all_per_counted": round((of_own + len(nowhere)) / len(paths), 4),
        "missing": [o["name"] for k, o in enumerate(counted["objects"]) if k not in own],
    }


def main() -> int:
    """Writes benchmarks/results/tracking_clips.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teacher", type=Path, default=REPO / "configs" / "teachers" / "yolox_nano.yaml")
    parser.add_argument("--student", type=Path, help="weights of a student of this product, instead of the teacher")
    parser.add_argument("--score", type=float, default=0.35, help="answers below it are not sure")
    args = parser.parse_args()
    shared = shared_clips()
    if shared is None:
        return 0
    unsure = UNSURE * args.score
    detect = by_student(args.student, unsure) if args.student else by_teacher(args.teacher, unsure)
    rows: dict[str, Any] = {}
    for file, clip in counted_clips(shared):
        answers = answers_of(file, detect)
        rows[clip["file"]] = {
            "sure_answers": compare(track(answers, args.score, args.score, False), clip),
            "with_looks": compare(track(answers, args.score, args.score, True), clip),
            "with_unsure_ones_and_looks": compare(track(answers, args.score, unsure, True), clip),
        }
        for how, row in rows[clip["file"]].items():
            print(clip["file"], how, json.dumps(row))
    result = {
        "utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "answers_per_s": FPS,
        "score": args.score,
        "detector": (args.student or args.teacher).stem,
        "clips": rows,
    }
    write_result("tracking_clips.json", result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
