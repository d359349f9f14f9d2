"""Cameras for `bench_students`: a folder with one sub-folder of time-ordered stills per camera, or video files."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
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
#: With fewer pictures a window has too few to train on and to judge by.
FEWEST = 4 * WINDOWS
VIDEOS = (".mp4", ".m4v", ".avi", ".mkv", ".mov", ".webm", ".ts")
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


class UnusableCamera(SystemExit):
    """A camera's pictures cannot be read, or are too few; says why. A benchmark that does not go on without it ends."""


def cameras_in(folder: Path) -> dict[str, Path]:
    """Sub-folders with stills, then video files, by the camera's name: of a video without its ending, where no other
    camera has that name. Raises UnusableCamera where the folder cannot be read."""
    try:
        there = sorted(folder.iterdir())
        stills = [p for p in there if p.is_dir() and any(f.suffix.lower() in STILLS for f in p.iterdir())]
    except OSError as error:
        raise UnusableCamera(f"{folder}: {error.strerror or error}") from error
    out = {p.name: p for p in stills}
    videos = [p for p in there if p.is_file() and p.suffix.lower() in VIDEOS]
    stems = Counter(p.stem for p in videos)
    for path in videos:
        alone = stems[path.stem] == 1 and path.stem not in out
        out[path.stem if alone else path.name] = path
    return out


def read_camera(
    name: str,
    path: Path,
    teacher: Teacher,
    label_score: float,
    bikes: Sequence[int],
    scratch: Path,
    cache: Path,
    most: int = WINDOWS * (PICTURES + 1),
) -> BenchCamera:
    """Label a camera's pictures, at most `most` (4 windows of 25) evenly spaced in time. Labels are kept in `cache` (a
    folder for each teacher) by the contents of the picture. `bikes`: classes of people's labels that are no vehicles
    of class 0. Raises UnusableCamera."""
    stills = in_time(path) if path.is_dir() else _from_video(path, scratch / name)
    if len(stills) < FEWEST:
        raise UnusableCamera(f"{len(stills)} pictures: at least {FEWEST} are needed")
    if len(stills) > most:
        stills = [stills[int(i)] for i in np.linspace(0, len(stills) - 1, most)]
    known = cache / f"{name}.json"
    labels: dict[str, dict[str, object]] = json.loads(known.read_text()) if known.is_file() else {}
    frames, people, fresh = [], [], False
    for number, still in enumerate(stills):
        key = hashlib.sha256(still.read_bytes()).hexdigest()
        if key not in labels:
            picture = read_picture(still)
            if picture is None:
                raise UnusableCamera(f"{still}: not a readable picture")
            labels[key], fresh = teacher.label(picture).to_json(), True
        found = Detections.from_json(labels[key])  # type: ignore[arg-type]
        sure = found.scores >= label_score - 1e-6
        frame = SampledFrame(name, 0, number, float(number), still, Detections.empty(), "")
        frames.append(LabelledFrame(frame, found.select(sure), teacher.name, unsure=found.select(~sure)))
        people.append(_people(still.with_suffix(".txt"), bikes))
    if fresh:
        cache.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(labels))
    return BenchCamera(name, tuple(frames), tuple(people))


def in_time(folder: Path) -> list[Path]:
    """The stills in the order of their names, numbers in them by value: `f_2.jpg` comes before `f_10.jpg`."""

    def key(path: Path) -> list[tuple[bool, int, str]]:
        parts = re.split(r"(\d+)", path.name)
        return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]

    return sorted((p for p in folder.iterdir() if p.suffix.lower() in STILLS), key=key)


def _from_video(path: Path, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    try:
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
    except (av.FFmpegError, IndexError, OSError) as error:
        raise UnusableCamera(f"{path}: not a readable video ({error})") from error


def _people(path: Path, bikes: Sequence[int]) -> Detections | None:
    """People's vehicles (class 0) from YOLO labels: class, centre x, centre y, width, height per line. None: nobody
    labelled the picture. Raises UnusableCamera for a line that is none."""
    if not path.is_file():
        return None
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableCamera(f"{path}: {error}") from error
    kept = []
    for number, line in enumerate(lines, 1):
        row = line.split()
        try:
            if row and int(row[0]) not in bikes:
                kept.append([float(v) for v in row[1:5]])
                if len(row) < 5:
                    raise ValueError("five numbers are wanted")
        except ValueError as error:
            raise UnusableCamera(f"{path}, line {number}: {error}") from error
    found = np.array(kept, np.float32).reshape(-1, 4)
    boxes = np.concatenate([found[:, :2] - found[:, 2:] / 2, found[:, :2] + found[:, 2:] / 2], 1)
    return Detections.build(boxes, np.ones(len(boxes)), np.zeros(len(boxes)))
