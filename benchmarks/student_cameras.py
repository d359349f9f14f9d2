"""Cameras for `bench_students`: a folder with one sub-folder of time-ordered stills per camera, or video files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import cv2
import numpy as np

from edge.core.labels import LabelledFrame, SampledFrame
from edge.core.vision import Detections
from edge.detectors.pictures import read_picture
from golden.ensemble import Teacher

#: Windows per camera and pictures per window (the note's protocol).
WINDOWS, PICTURES = 4, 24
VIDEOS = (".mp4", ".avi", ".mkv", ".mov")
STILLS = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class BenchCamera:
    """A camera's pictures in order of time, the teacher's labels on them, and people's vehicles where there are any."""

    name: str
    frames: tuple[LabelledFrame, ...]
    people: tuple[Detections | None, ...]

    @property
    def windows(self) -> list[list[int]]:
        """Indices of the frames of each window."""
        return [[int(i) for i in part] for part in np.array_split(np.arange(len(self.frames)), WINDOWS)]


def camera_names(folder: Path) -> list[Path]:
    """Sub-folders with stills, and video files, by name."""
    out = [p for p in sorted(folder.iterdir()) if p.is_dir() and any(f.suffix.lower() in STILLS for f in p.iterdir())]
    return out + [p for p in sorted(folder.iterdir()) if p.suffix.lower() in VIDEOS]


def read_camera(
    path: Path,
    teacher: Teacher,
    label_score: float,
    bikes: Sequence[int],
    scratch: Path,
    cache: Path,
    most: int = WINDOWS * (PICTURES + 1),
) -> BenchCamera:
    """Label a camera's pictures, at most `most` (4 windows of 25) evenly spaced in time. Labels are kept in `cache` by
    what the picture and the teacher are. `bikes`: classes of people's labels that are no vehicles of class 0."""
    stills = _stills(path) if path.is_dir() else _from_video(path, scratch / path.stem)
    if len(stills) > most:
        stills = [stills[int(i)] for i in np.linspace(0, len(stills) - 1, most)]
    known = cache / f"{path.stem}-{teacher.name}.json"
    labels: dict[str, dict[str, object]] = json.loads(known.read_text()) if known.is_file() else {}
    frames, people, fresh = [], [], False
    for number, still in enumerate(stills):
        key = hashlib.sha256(still.read_bytes()).hexdigest()
        if key not in labels:
            picture = read_picture(still)
            if picture is None:
                raise SystemExit(f"{still}: not a readable picture")
            labels[key], fresh = teacher.label(picture).to_json(), True
        found = Detections.from_json(labels[key])  # type: ignore[arg-type]
        sure = found.scores >= label_score - 1e-6
        frame = SampledFrame(path.stem, 0, number, float(number), still, Detections.empty(), "")
        frames.append(LabelledFrame(frame, found.select(sure), teacher.name, unsure=found.select(~sure)))
        people.append(_people(still.with_suffix(".txt"), bikes))
    if fresh:
        cache.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(labels))
    return BenchCamera(path.stem, tuple(frames), tuple(people))


def _stills(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in STILLS)


def _from_video(path: Path, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    with av.open(str(path)) as container:
        total = sum(1 for _ in container.decode(video=0))
    wanted = set(np.linspace(0, total - 1, min(total, WINDOWS * PICTURES)).astype(int).tolist())
    out = []
    with av.open(str(path)) as container:
        for number, frame in enumerate(container.decode(video=0)):
            if number in wanted:
                file = folder / f"{number:06d}.jpg"
                cv2.imwrite(str(file), frame.to_ndarray(format="bgr24"), [cv2.IMWRITE_JPEG_QUALITY, 95])
                out.append(file)
    return out


def _people(path: Path, bikes: Sequence[int]) -> Detections | None:
    """People's vehicles (class 0) from YOLO labels: class, centre x, centre y, width, height per line."""
    if not path.is_file():
        return None
    rows = [line.split() for line in path.read_text().splitlines() if line.strip()]
    kept = np.array([[float(v) for v in r[1:5]] for r in rows if int(r[0]) not in bikes], np.float32).reshape(-1, 4)
    boxes = np.concatenate([kept[:, :2] - kept[:, 2:] / 2, kept[:, :2] + kept[:, 2:] / 2], 1)
    return Detections.build(boxes, np.ones(len(boxes)), np.zeros(len(boxes)))
