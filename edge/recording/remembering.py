"""Takes a closed window's frames into a camera's memories: exemplars to train on, held-out frames to judge by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core.labels import LabelledFrame, LabelledWindow
from edge.recording.exemplars import ExemplarMemory
from edge.recording.kept_out import keep_out

#: Held-out pictures that are kept however few exemplars are: students are judged on them.
LEAST_KEPT_OUT = 64


@dataclass(frozen=True)
class MemoryFolders:
    """Where a camera's exemplars lie, at most `max_frames` of them, and its kept-out frames (None: none are kept)."""

    exemplars: Path
    max_frames: int
    kept_out: Path | None = None


def remember(
    folders: MemoryFolders, data: LabelledWindow, frames: Sequence[LabelledFrame], features: NDArray[np.floating[Any]]
) -> int:
    """Take the window `data` in; exemplars are picked of `frames` by their `features` (N, D). The exemplars kept now.

    Raises: those of `keep_out` and of `ExemplarMemory.update`.
    """
    if folders.kept_out is not None:
        keep_out(folders.kept_out, data.held_out, max(folders.max_frames, LEAST_KEPT_OUT))
    memory = ExemplarMemory(folders.exemplars, folders.max_frames)
    return len(memory.update(frames, features) if frames else memory.frames())


def remember_by_labels(folders: MemoryFolders, data: LabelledWindow) -> int:
    """`remember` where there is no time to look at the pictures: labels tell which frames are typical."""
    return remember(folders, data, data.train, label_features(data.train, len(data.classes)))


def label_features(frames: Sequence[LabelledFrame], classes: int) -> NDArray[np.float64]:
    """(N, 6 * classes): of each class how many objects a frame has, and the mean and spread of their places and sizes.

    Counts are logarithms, places and sizes parts of the picture.
    """
    out = np.zeros((len(frames), classes, 6))
    for row, frame in zip(out, frames, strict=True):
        labels = frame.labels
        for klass in np.unique(labels.classes):
            boxes = np.asarray(labels.boxes[labels.classes == klass], np.float64)
            size = np.sqrt(np.maximum(0.0, (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])))
            x, y = (boxes[:, 0] + boxes[:, 2]) / 2, (boxes[:, 1] + boxes[:, 3]) / 2
            row[int(klass)] = np.log1p(len(boxes)), x.mean(), y.mean(), size.mean(), x.std(), y.std()
    return out.reshape(len(frames), classes * 6)
