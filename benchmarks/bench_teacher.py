"""How good and how dear the shipped ONNX teachers are: `python -m benchmarks.bench_teacher`.

Two labelled sets of the developers' shared folder: COCO images with people or road vehicles, and stills of traffic
cameras (vehicles only, partly labelled, class-agnostic, so low in absolute terms). Per teacher: AP at IoU 0.5, F1 and
precision at the teacher's label score, and CPU milliseconds per picture (process time of one thread, with pre- and
post-processing; median, and quartiles as the spread; also as a ratio to the cheapest teacher in the same run).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from benchmarks.shared_data import ABSENT, shared_folder
from edge.core.vision import Detections
from edge.detectors.boxes import iou_matrix
from edge.detectors.classes import ClassMap
from edge.detectors.pictures import read_picture
from golden.ensemble import Teacher
from golden.spec import read_teacher
from golden.teacher import open_teacher

REPO = Path(__file__).resolve().parent.parent
TEACHERS = (
    "fastestdet",
    "deimv2_atto",
    "yolox_nano",
    "deimv2_femto",
    "nanodet_m",
    "picodet_s",
    "coco_ensemble",
    "traffic_ensemble",
)
VEHICLES = ("car", "motorcycle", "bus", "truck", "bicycle", "train", "vehicle", "two_wheeler")
_COCO_VEHICLES = (2, 3, 5, 7)


@dataclass(frozen=True)
class Labelled:
    """A picture and its boxes: classes 0 person, 1 vehicle."""

    path: Path
    truth: Detections


def read_yolo(picture: Path, labels: Path, names: dict[int, int]) -> Labelled:
    """`names`: class id in the file -> 0 or 1; other ids are left out."""
    rows = np.loadtxt(labels, ndmin=2).reshape(-1, 5) if labels.stat().st_size else np.zeros((0, 5))
    rows = rows[[int(r[0]) in names for r in rows]] if len(rows) else rows
    boxes = np.concatenate([rows[:, 1:3] - rows[:, 3:5] / 2, rows[:, 1:3] + rows[:, 3:5] / 2], 1)
    classes = [names[int(r[0])] for r in rows]
    return Labelled(picture, Detections.build(boxes, np.ones(len(rows)), classes))


def coco_set(shared: Path) -> list[Labelled]:
    """People and road vehicles of 81 COCO validation images."""
    root = shared / "data" / "images" / "coco128_val"
    names = {0: 0} | dict.fromkeys(_COCO_VEHICLES, 1)
    return [
        read_yolo(p, root / "labels" / f"{p.stem}.txt", names)
        for p in sorted((root / "images").glob("*.jpg"))
        if (root / "labels" / f"{p.stem}.txt").is_file()
    ]


def traffic_set(shared: Path, count: int) -> list[Labelled]:
    """Every k-th labelled still of the traffic cameras, all hours."""
    root = shared / "data" / "images" / "lta_cctv_2021"
    pictures = [p for p in sorted(root.rglob("*.jpg")) if p.with_suffix(".txt").is_file()]
    step = max(1, len(pictures) // count)
    return [read_yolo(p, p.with_suffix(".txt"), dict.fromkeys(range(5), 1)) for p in pictures[::step][:count]]


def hits(answer: Detections, truth: Detections) -> list[tuple[float, bool]]:
    """(score, right) of each answer, best first; each true box is found once, at IoU 0.5."""
    out = []
    free = np.ones(len(truth), bool)
    overlap = iou_matrix(answer.boxes, truth.boxes)
    for i in np.argsort(-answer.scores, kind="stable"):
        row = np.where(free, overlap[i], 0.0) if len(truth) else np.zeros(1)
        best = int(row.argmax())
        right = bool(row[best] >= 0.5)
        if right:
            free[best] = False
        out.append((float(answer.scores[i]), right))
    return out


def average_precision(rows: Sequence[tuple[float, bool]], positives: int) -> float:
    """Area under the precision-recall curve, precision made monotone (all points)."""
    if not rows or not positives:
        return 0.0
    right = np.cumsum([r for _, r in sorted(rows, key=lambda r: -r[0])])
    recall = right / positives
    precision = np.maximum.accumulate((right / np.arange(1, len(right) + 1))[::-1])[::-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


@dataclass(frozen=True)
class Answered:
    """A teacher's answers on a set, in the set's order."""

    answers: list[Detections]
    seconds: list[float]


def ask(teacher: Teacher, pictures: Sequence[Labelled]) -> Answered:
    """Label each picture once; CPU seconds of each."""
    answers, seconds = [], []
    for labelled in pictures:
        picture = read_picture(labelled.path)
        if picture is None:
            raise SystemExit(f"{labelled.path} cannot be read")
        began = time.process_time()
        answers.append(teacher.label(picture))
        seconds.append(time.process_time() - began)
    return Answered(answers, seconds)


def score(
    answered: Answered, label_score: float, pictures: Sequence[Labelled], klass: int, offered: Sequence[str]
) -> dict[str, float]:
    """Scores on one class (0 person, 1 vehicle)."""
    names = [c for c in offered if (c == "person") == (klass == 0) and c in (*VEHICLES, "person")]
    class_map = ClassMap.build(("it",), offered, {"it": names})
    rows: list[tuple[float, bool]] = []
    positives = 0
    for labelled, answer in zip(pictures, answered.answers, strict=True):
        truth = labelled.truth.select(labelled.truth.classes == klass)
        positives += len(truth)
        rows += hits(_once(class_map.apply(answer)), truth)
    sure = [r for s, r in rows if s >= label_score]
    right = sum(sure)
    best = _best_f1(rows, positives)
    return {
        "ap50": average_precision(rows, positives),
        "f1": 2 * right / max(1, len(sure) + positives),
        "precision": right / max(1, len(sure)),
        "recall": right / max(1, positives),
        "best_f1": best[0],
        "best_score": best[1],
        "objects": float(positives),
    }


def _once(found: Detections) -> Detections:
    """Several vehicle names for one object are one answer (the set is scored without telling kinds apart)."""
    kept: list[int] = []
    for i in np.argsort(-found.scores, kind="stable"):
        if not kept or iou_matrix(found.boxes[[i]], found.boxes[kept])[0].max() < 0.7:
            kept.append(int(i))
    return found.select(np.asarray(kept, np.int64))


def _best_f1(rows: Sequence[tuple[float, bool]], positives: int) -> tuple[float, float]:
    ordered = sorted(rows, key=lambda r: -r[0])
    right = np.cumsum([r for _, r in ordered])
    f1 = 2 * right / (np.arange(1, len(right) + 1) + positives) if len(ordered) else np.zeros(1)
    best = int(f1.argmax())
    return float(f1[best]), float(ordered[best][0]) if ordered else 0.0


def main() -> None:
    """Prints the table and writes benchmarks/results/teacher.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traffic", type=int, default=162, help="number of traffic stills")
    parser.add_argument("--coco", type=int, default=81, help="number of COCO images")
    parser.add_argument("--only", nargs="*", default=TEACHERS, help="names of shipped teachers")
    parser.add_argument("--out", type=Path, default=REPO / "benchmarks" / "results" / "teacher.json")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    shared = shared_folder()
    if not (shared / "data" / "models").is_dir():
        raise SystemExit(ABSENT)
    environment = {"MAGPIE_MODELS": str(shared / "data" / "models")}
    coco, traffic = coco_set(shared)[: args.coco], traffic_set(shared, args.traffic)
    results = {}
    print(f"{len(coco)} COCO images, {len(traffic)} traffic stills, one thread, load {os.getloadavg()[0]:.1f}")
    print(
        f"{'teacher':18}{'CPU ms':>8} (quartiles)  | COCO AP50 person vehicle |"
        " traffic AP50    F1  prec   rec  (best F1 at score)"
    )
    for name in args.only:
        spec = read_teacher(REPO / "configs" / "teachers" / f"{name}.yaml", environment)
        teacher = open_teacher(spec, threads=1)
        first, second = ask(teacher, coco), ask(teacher, traffic)
        person, vehicle = (score(first, spec.label_score, coco, k, teacher.classes) for k in (0, 1))
        road = score(second, spec.label_score, traffic, 1, teacher.classes)
        low, middle, high = np.percentile(1000 * np.array(first.seconds + second.seconds), [25, 50, 75])
        results[name] = {
            "cpu_ms": {"median": middle, "q25": low, "q75": high},
            "label_score": spec.label_score,
            "coco_person": person,
            "coco_vehicle": vehicle,
            "traffic_vehicle": road,
        }
        print(
            f"{name:18}{middle:8.1f} ({low:5.1f}-{high:6.1f}) | {person['ap50']:16.3f} {vehicle['ap50']:7.3f} |"
            f" {road['ap50']:12.3f} {road['f1']:5.2f} {road['precision']:5.2f} {road['recall']:5.2f}"
            f"  ({road['best_f1']:.2f} at {road['best_score']:.2f})",
            flush=True,
        )
    cheapest = min(r["cpu_ms"]["median"] for r in results.values())
    for r in results.values():
        r["cpu_ratio_to_cheapest"] = r["cpu_ms"]["median"] / cheapest
    args.out.parent.mkdir(parents=True, exist_ok=True)
    value = {"coco_images": len(coco), "traffic_images": len(traffic), "teachers": results}
    args.out.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
