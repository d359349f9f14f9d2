"""Where something moves: boxes for a classification student to name, between the teacher's labels.

A mixture-of-Gaussians background model (OpenCV's MOG2: Zivkovic 2004) on a small picture whose brightness is levelled
first, so that clouds, dusk and a camera's exposure control are not motion. Rain, snow and noise are small and
everywhere: a median removes them, and places that flicker all the time become part of the background model. An object
that stops is kept as long as its place looks the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edge.core.accuracy import box_iou

Picture = NDArray[np.uint8]

WORKING_WIDTH = 320
SPECK_PX = 5
LEAST_FILLED = 0.2
# A standing object melts into the background after about a tenth of this time.
MEMORY_S = 240.0
LEARNING_FRAMES = 20
VARIANCE_THRESHOLD = 7.0
# More moving pixels than this are no motion but a change of light or a moved camera.
MOST_MOVING = 0.4
MIN_HEIGHT, MIN_AREA, MAX_AREA = 0.035, 0.0006, 0.35
MAX_PROPOSALS = 32
SAME_PLACE_IOU, NEARLY_THE_SAME_IOU = 0.3, 0.7
KEEP_S, LOOKS_THE_SAME = 60.0, 14.0
CLOSE_GAPS_PX = (3, 13)


@dataclass
class _Standing:
    """An object that was seen moving: its box, how it looked (small patch), and when it last moved."""

    box: NDArray[np.float32]
    look: NDArray[np.float32]
    moved_s: float


class ProposalFinder:
    """Finds moving and just stopped objects in the pictures of one fixed camera, given in order of time."""

    def __init__(self, max_proposals: int = MAX_PROPOSALS, keep_s: float = KEEP_S) -> None:
        self._max = max_proposals
        self._keep_s = keep_s
        self._shape: tuple[int, int] | None = None
        self._last_s = 0.0
        self._frames = 0
        self._level = 0.0
        self._standing: list[_Standing] = []
        self._model = self._new_model()
        self._small: NDArray[np.float32] = np.zeros((1, 1, 3), np.float32)

    @staticmethod
    def _new_model() -> cv2.BackgroundSubtractorMOG2:
        return cv2.createBackgroundSubtractorMOG2(500, VARIANCE_THRESHOLD, True)

    def find(self, picture: Picture, time_s: float) -> NDArray[np.float32]:
        """Boxes (N, 4) normalised xyxy, largest first, at most `max_proposals`; `time_s` monotonic seconds.

        The first pictures only teach the background. After a sudden change of the whole view it is learned anew.
        """
        passed = max(0.0, time_s - self._last_s) if self._frames else 0.0
        small = self._levelled(picture, passed)
        if self._shape != small.shape[:2]:
            self._shape, self._frames, self._standing = (small.shape[0], small.shape[1]), 0, []
            self._model = self._new_model()
        self._last_s = time_s
        rate = max(
            1.0 - math.exp(-passed / MEMORY_S), 1.0 / (self._frames + 1) if self._frames < LEARNING_FRAMES else 0
        )
        mask = self._model.apply(small, learningRate=rate)
        self._frames += 1
        self._small = small.astype(np.float32)
        moving = (mask == 255).astype(np.uint8)  # 127 marks shadows
        if self._frames == 1:
            return np.zeros((0, 4), np.float32)
        if moving.mean() > MOST_MOVING:
            self._frames, self._standing = 0, []
            self._model = self._new_model()
            self._model.apply(small, learningRate=1.0)
            self._frames = 1
            return np.zeros((0, 4), np.float32)
        boxes = self._boxes(moving)
        boxes = self._with_standing(boxes, time_s)
        order = np.argsort(-((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])), kind="stable")
        return boxes[order[: self._max]]

    def confirm(self, boxes: NDArray[np.float32], are_objects: NDArray[np.bool_], time_s: float) -> None:
        """Take the student's answers to the last picture's boxes: only objects are kept when they stop."""
        kept = []
        previous = self._standing
        for box in boxes[are_objects]:
            known = [s for s in previous if float(box_iou(box[None], s.box[None])[0, 0]) > 0.999]
            if known:
                kept.append(known[0])
            else:
                kept.append(_Standing(box, self._look(box), time_s))
        self._standing = kept

    def _levelled(self, picture: Picture, passed_s: float) -> Picture:
        """The small picture with its median brightness brought to that of the background."""
        height, width = picture.shape[:2]
        size = (WORKING_WIDTH, max(16, round(height * WORKING_WIDTH / width)))
        small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        # Flakes, drops and noise are smaller than half of this window; edges of objects stay.
        small = cv2.medianBlur(small, SPECK_PX)
        median = float(np.median(small[::4, ::4]))
        if self._frames == 0:
            self._level = median
        gain = float(np.clip((self._level + 10.0) / (median + 10.0), 0.4, 2.5))
        # The level follows more slowly than the background learns, or its change would be motion.
        self._level += (1.0 - math.exp(-passed_s / (2 * MEMORY_S))) * (median - self._level)
        return np.asarray(cv2.LUT(small, _brightness_table(gain)), np.uint8)

    def _boxes(self, moving: Picture) -> NDArray[np.float32]:
        """Connected parts of what moves, once with small gaps closed and once with wide ones: a dark car at night is
        two lamps, two people in a row are one blob. The student says which cut shows an object."""
        moving = np.asarray(cv2.morphologyEx(moving, cv2.MORPH_OPEN, np.ones((2, 2), np.uint8)), np.uint8)
        height, width = moving.shape
        found = []
        for gap in CLOSE_GAPS_PX:
            closed = cv2.morphologyEx(moving, cv2.MORPH_CLOSE, np.ones((gap, gap), np.uint8))
            count, _, stats, _ = cv2.connectedComponentsWithStats(closed, connectivity=8)
            for x, y, w, h, area in stats[1:count]:
                whole = w * h / (width * height)
                if h / height >= MIN_HEIGHT and MIN_AREA <= whole <= MAX_AREA and area >= LEAST_FILLED * w * h:
                    found.append((x / width, y / height, (x + w) / width, (y + h) / height))
        return _thinned(np.array(found, np.float32).reshape(-1, 4))

    def _with_standing(self, boxes: NDArray[np.float32], time_s: float) -> NDArray[np.float32]:
        kept = []
        for one in self._standing:
            if len(boxes) and _most_covered(one.box, boxes) > SAME_PLACE_IOU:
                continue
            if time_s - one.moved_s > self._keep_s:
                continue
            if float(np.abs(self._look(one.box) - one.look).mean()) <= LOOKS_THE_SAME:
                kept.append(one)
        self._standing = kept
        return np.concatenate([boxes, *(s.box[None] for s in kept)]) if kept else boxes

    def _look(self, box: NDArray[np.float32]) -> NDArray[np.float32]:
        height, width = self._small.shape[:2]
        x0, y0 = int(box[0] * width), int(box[1] * height)
        x1, y1 = max(x0 + 2, round(float(box[2]) * width)), max(y0 + 2, round(float(box[3]) * height))
        patch = self._small[max(0, y0 - 1) : y1, max(0, x0 - 1) : x1]
        reduced = np.asarray(cv2.resize(patch, (16, 16), interpolation=cv2.INTER_AREA), np.float32)
        # Light may change while an object stands.
        return np.asarray(reduced - reduced.mean(), np.float32)


def _brightness_table(gain: float) -> Picture:
    """Multiplies by `gain` and takes the square root: the same contrast of an object counts alike by day and night."""
    return np.asarray(np.clip(np.sqrt(np.arange(256) * gain) * 16.0, 0, 255), np.uint8)


def _most_covered(box: NDArray[np.float32], boxes: NDArray[np.float32]) -> float:
    """The largest part of `box` that one of `boxes` covers."""
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    both = np.prod(np.clip(high - low, 0, None), axis=1)
    return float(both.max() / max(1e-9, float(np.prod(box[2:] - box[:2]))))


def _thinned(boxes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Largest first, without those that nearly coincide with one that is kept."""
    order = np.argsort(-((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])), kind="stable")
    kept: list[NDArray[np.float32]] = []
    for box in boxes[order]:
        if not kept or box_iou(box[None], np.stack(kept)).max() < NEARLY_THE_SAME_IOU:
            kept.append(box)
    return np.stack(kept) if kept else np.zeros((0, 4), np.float32)
