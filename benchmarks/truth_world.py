"""Stills of traffic cameras with a teacher's and a student's answers, as windows of labelled frames.

The detectors run once per picture; their answers are kept in a cache file outside the repository.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from benchmarks.shared_data import shared_folder
from edge.core.vision import Detections
from edge.detectors.classes import ClassMap
from edge.detectors.pictures import read_picture
from golden.labelling import Labeller
from golden.spec import read_teacher
from golden.teacher import open_teacher

REPO = Path(__file__).resolve().parent.parent
SHARED = shared_folder()
STILLS = SHARED / "data" / "images" / "lta_cctv_2021"
#: Of the people's classes car, lorry, van, bike, bus: all but bikes are vehicles.
_VEHICLES = (0, 1, 2, 4)
TEACHER, STUDENT = "traffic_ensemble", "yolox_nano"
_CAMERA_CLASSES = {TEACHER: ["vehicle"], STUDENT: ["car", "truck", "bus", "train"]}


@dataclass(frozen=True)
class Still:
    """One picture: people's boxes (truth), the student's answer, the teacher's labels; class 0 is "vehicle"."""

    path: Path
    truth: Detections
    student: Detections
    teacher: Detections
    ambiguous: int


def people(picture: Path) -> Detections:
    """Vehicles that people marked (YOLO text beside the picture)."""
    labels = picture.with_suffix(".txt")
    rows = np.loadtxt(labels, ndmin=2).reshape(-1, 5) if labels.stat().st_size else np.zeros((0, 5))
    rows = rows[np.isin(rows[:, 0].astype(int), _VEHICLES)]
    boxes = np.concatenate([rows[:, 1:3] - rows[:, 3:5] / 2, rows[:, 1:3] + rows[:, 3:5] / 2], 1)
    return Detections.build(boxes, np.ones(len(rows)), np.zeros(len(rows), np.int64))


def cameras() -> list[str]:
    """Ids of the cameras, in order."""
    return sorted(p.name for p in STILLS.iterdir() if p.is_dir())


def stills(camera: str, cache: Path) -> list[Still]:
    """Labelled pictures of a camera in time order. Asks both detectors where the cache has no answers."""
    pictures = sorted(p for p in (STILLS / camera).glob("*.jpg") if p.with_suffix(".txt").is_file())
    answers = _answers(camera, pictures, cache)
    return [
        Still(
            p,
            people(p),
            Detections.from_json(answers[p.name][STUDENT]),
            Detections.from_json(answers[p.name][TEACHER]),
            int(answers[p.name]["ambiguous"]),
        )
        for p in pictures
    ]


def windows(found: list[Still], count: int = 4) -> Iterator[list[Still]]:
    """The camera's pictures cut into `count` runs in time order, of equal numbers."""
    edges = [round(n * len(found) / count) for n in range(count + 1)]
    for low, high in itertools.pairwise(edges):
        yield found[low:high]


def _answers(camera: str, pictures: list[Path], cache: Path) -> dict[str, Any]:
    file = cache / f"{camera}.json"
    kept: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    due = [p for p in pictures if p.name not in kept]
    if not due:
        return kept
    cv2.setNumThreads(1)
    labellers = {name: _labeller(name) for name in (TEACHER, STUDENT)}
    for path in due:
        picture = read_picture(path)
        if picture is None:
            raise SystemExit(f"{path.name} cannot be read")
        teacher = labellers[TEACHER].label_picture(picture)
        student = labellers[STUDENT].label_picture(picture)
        kept[path.name] = {
            TEACHER: teacher.labels.to_json(), STUDENT: student.labels.to_json(), "ambiguous": len(teacher.unsure),
        }  # fmt: skip
    cache.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(kept))
    temporary.replace(file)
    return kept


def _labeller(name: str) -> Labeller:
    environment = {"MAGPIE_MODELS": str(SHARED / "data" / "models")}
    spec = read_teacher(REPO / "configs" / "teachers" / f"{name}.yaml", environment)
    teacher = open_teacher(spec, threads=1)
    mapping = ClassMap.build(("vehicle",), teacher.classes, {"vehicle": _CAMERA_CLASSES[name]})
    return Labeller(teacher, mapping, spec.label_score)
