"""Labelled windows on disk, as people look at them: where student and teacher disagree, and the pictures.

No part of a request ever becomes a path: a camera is one that runs, a window and a frame are numbers that stand in a
manifest which the appliance wrote.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edge.appliance.service import Json
from edge.core.disagreements import Verdict, class_counts, compare
from edge.core.errors import NotFound
from edge.core.labels import LabelledFrame, LabelledWindow
from edge.core.vision import Detections
from edge.recording.labelled_windows import described_windows, picture_folder, read_manifest

#: The recorder keeps pictures of a few windows only; so many manifests are read in search of them at most.
_SEARCHED = 12


def windows_newest_first(data_dir: Path, camera: str, limit: int) -> Iterator[LabelledWindow]:
    """The newest `limit` labelled windows of a camera that can be read."""
    for number in described_windows(data_dir, camera)[:limit]:
        found = read_manifest(data_dir, camera, number)
        if found is not None:
            yield found


def disagreements(data_dir: Path, camera: str, limit: int) -> list[Json]:
    """Pictures whose labels and answers differ, newest first; shape as `LabelledService.disagreements`. Pictures that
    retention deleted are left out."""
    out: list[Json] = []
    for window in windows_newest_first(data_dir, camera, _SEARCHED):
        for frame in sorted(window.all_sampled, key=lambda f: (f.frame.utc_s, f.frame.number), reverse=True):
            found = compare(window.task, frame.frame.answer, frame.labels)
            size = jpeg_size(_picture(data_dir, frame)) if found.kinds else None
            if size is None:
                continue
            out.append(
                {
                    "window": window.window,
                    "frame": frame.frame.number,
                    "utc_s": frame.frame.utc_s,
                    "model_version": frame.frame.answer_version,
                    "answer_age_s": frame.frame.answer_age_s,
                    "width": size[0],
                    "height": size[1],
                    "student": _objects(frame.frame.answer, window.classes, found.student),
                    "teacher": _objects(frame.labels, window.classes, found.teacher),
                    "kinds": list(found.kinds),
                }
            )
            if len(out) == limit:
                return out
    return out


def picture(data_dir: Path, camera: str, window: int, frame: int) -> bytes:
    """JPEG of a labelled frame. Raises NotFound: it was never there, or retention deleted it."""
    found = read_manifest(data_dir, camera, window)
    for labelled in found.all_sampled if found is not None else ():
        if labelled.frame.number == frame:
            try:
                return _picture(data_dir, labelled).read_bytes()
            except OSError:
                break
    raise NotFound(f"there is no picture of frame {frame} in window {window} of camera {camera} (any more)")


def classes(data_dir: Path, camera: str, limit: int) -> list[Json]:
    """Objects of teacher and student per window, newest first; shape as `LabelledService.classes` without the start."""
    out: list[Json] = []
    for window in windows_newest_first(data_dir, camera, limit):
        frames = window.all_sampled
        none = np.zeros(0, np.int64)
        out.append(
            {
                "window": window.window,
                "start_utc_s": min((f.frame.utc_s for f in frames), default=None),
                "frames": len(frames),
                "teacher": class_counts(window.classes, np.concatenate([none, *(f.labels.classes for f in frames)])),
                "student": class_counts(
                    window.classes, np.concatenate([none, *(f.frame.answer.classes for f in frames)])
                ),
            }
        )
    return out


def jpeg_size(path: Path) -> tuple[int, int] | None:
    """(width, height) in pixels from a JPEG's head; None if there is no such file or it is not a JPEG."""
    try:
        with path.open("rb") as file:
            if file.read(2) != b"\xff\xd8":
                return None
            while True:
                marker, length = struct.unpack(">HH", file.read(4))
                if 0xFFC0 <= marker <= 0xFFCF and marker not in (0xFFC4, 0xFFC8, 0xFFCC):  # start of frame
                    _, height, width = struct.unpack(">BHH", file.read(5))
                    return width, height
                if not 0xFFC0 <= marker <= 0xFFFE or marker == 0xFFDA or length < 2:  # the picture began without a size
                    return None
                file.seek(length - 2, 1)
    except (OSError, struct.error):
        return None


def _picture(data_dir: Path, labelled: LabelledFrame) -> Path:
    """Under the data folder of now, which a restored back-up may have moved."""
    frame = labelled.frame
    return picture_folder(data_dir, frame.camera, frame.window) / Path(frame.path).name


def _objects(found: Detections, names: tuple[str, ...], verdicts: tuple[Verdict, ...]) -> list[Json]:
    values = found.to_json()
    return [
        {
            "box": box,
            "class": names[index] if 0 <= index < len(names) else "none of these",
            "score": score,
            "verdict": verdict,
        }
        for box, score, index, verdict in zip(
            values["boxes"], values["scores"], values["classes"], verdicts, strict=True
        )
    ]
