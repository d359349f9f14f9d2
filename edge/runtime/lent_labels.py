"""Pictures to label as another box gets them, and their labels back, as JSON.

A picture goes as it was stored: black where the camera's masks cover it, and without the student's answer. Labels are
matched to frames by the SHA-256 of the picture.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from edge.core import checks
from edge.core.configs import WHOLE
from edge.core.errors import InvalidValue
from edge.core.labels import SampledFrame, TeacherAnswer
from edge.core.lending import LentLabelling, LentLabels, LentWork
from edge.core.vision import Detections
from edge.runtime import messages as m
from edge.runtime.golden_worker import GoldenWorkerSpec
from edge.runtime.lending_folder import WorkFolders, WorkInput
from edge.runtime.lent_work import WorkPacking

#: A file of labels has at most so many bytes, and a picture so many objects.
LARGEST_LABELS: Final = 16 << 20
MOST_OBJECTS: Final = 2000


def packed_labelling(
    name: str,
    frames: Sequence[SampledFrame],
    choice: LentLabels,
    classes: tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]],
    teacher: str,
    hand_in_s: float,
    cpu_s: float,
    place: int,
) -> tuple[LentWork, WorkInput, dict[str, str]]:
    """Frames of a camera for another box to label, and the SHA-256 of the picture of each frame by its id; frames whose
    pictures are gone are left out. Blocks. Raises InvalidValue where nothing is left or they are too large."""
    packing = WorkPacking()
    digests = {}
    for frame in frames:
        try:
            digests[frame.id] = packing.named(frame.path)
        except OSError:
            continue
    labelling = LentLabelling(classes[0], classes[1], tuple(dict.fromkeys(digests.values())), teacher, hand_in_s)
    work = LentWork(
        name, choice.camera, choice.share, {}, "", "", {}, {}, WHOLE, 0, packing.sizes, cpu_s=cpu_s, place=place,
        labelling=labelling,
    )  # fmt: skip
    return work, WorkInput(choice.box, packing.paths), digests


def unpacked_labelling(
    work: LentWork, name: str, folders: WorkFolders, age_s: float, teacher: GoldenWorkerSpec
) -> m.LentLabel:
    """The labelling on the lender, whose golden model is `teacher`, `age_s` seconds after it was asked for. Raises
    InvalidValue for what is none, and where another golden model is asked for."""
    asked = work.labelling
    if asked is None:
        raise InvalidValue("labelling", None, "the pictures to label")
    checks.one_of("labelling.teacher", asked.teacher, (teacher.content,))
    pictures = {digest: folders.blob(name, digest) for digest in asked.pictures}
    left_s = max(0.0, asked.hand_in_s - age_s)
    return m.LentLabel(name, work.camera, teacher.teacher, asked.classes, asked.class_map, pictures, left_s)


def packed_labels(done: m.LentLabelDone) -> bytes:
    """Labels for the borrower."""
    labels = {
        digest: {"labels": one.labels.to_json(), "unsure": one.unsure.to_json(), "agreement": one.agreement}
        for digest, one in done.labels.items()
    }
    return json.dumps({"labels": labels, "open_s": done.open_s}).encode()


def read_labels(path: Path, pictures: Collection[str], classes: int) -> tuple[dict[str, TeacherAnswer], float]:
    """The labels of a file of another box, by picture, and the CPU seconds that opening its golden model took. Only
    some of `pictures`, the SHA-256s that it was asked for, may be there. Blocks. Raises OSError, and InvalidValue for
    what is no answer to that: pictures that were not asked for, boxes outside of the picture, scores that are none,
    classes that are none of the camera's, of which there are `classes`."""
    size = path.stat().st_size
    checks.in_range("labels", size, 0, LARGEST_LABELS)
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        given: dict[str, Any] = dict(found["labels"])
        open_s = found["open_s"]
        labels = {digest: _checked(digest, given[digest], pictures, classes) for digest in given}
    except InvalidValue:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidValue("labels", type(error).__name__, f"labels of pictures: {error}") from None
    checks.in_range("open_s", open_s, 0.0, 1e6)
    return labels, float(open_s)


def _checked(digest: str, value: Mapping[str, Any], pictures: Collection[str], classes: int) -> TeacherAnswer:
    checks.one_of("labels", digest, pictures)
    agreement = value["agreement"]
    if agreement is not None:
        checks.in_range("agreement", agreement, 0.0, 1.0)
        agreement = float(agreement)
    return TeacherAnswer(objects_of(value["labels"], classes), objects_of(value["unsure"], classes), agreement)


def objects_of(value: Mapping[str, Any], classes: int) -> Detections:
    """Objects as they were sent: nothing is clipped or rounded into what it should be."""
    boxes = np.asarray(value["boxes"], np.float64).reshape(-1, 4)
    scores, kinds = np.asarray(value["scores"], np.float64), np.asarray(value["classes"], np.float64)
    checks.in_range("objects", len(boxes), 0, MOST_OBJECTS)
    if scores.shape != (len(boxes),) or kinds.shape != (len(boxes),):
        raise InvalidValue("scores", (scores.shape, kinds.shape), f"one score and one class for {len(boxes)} boxes")
    # Written so that NaN fails.
    if not bool(np.all((boxes >= 0.0) & (boxes <= 1.0))) or not bool(np.all(boxes[:, :2] <= boxes[:, 2:])):
        raise InvalidValue("boxes", value["boxes"][:3], "left, top, right, bottom inside of the picture, 0 to 1")
    if not bool(np.all((scores >= 0.0) & (scores <= 1.0))):
        raise InvalidValue("scores", value["scores"][:3], "0 to 1")
    if not bool(np.all((kinds >= 0) & (kinds < classes) & (kinds == np.floor(kinds)))):
        raise InvalidValue("classes", value["classes"][:3], f"whole numbers below {classes}")
    return Detections.build(boxes, scores, kinds)
