"""Labelled pictures of a camera as another box gets them, and as they are read there.

A picture goes as it was stored, black where the camera's masks cover it, and without the student's answer. Only
pictures that students of the camera are trained on go: those that its gate judges by stay.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edge.core import checks
from edge.core.box_groups import MOST_SHARED, GroupGuest, SharedCamera, SharedManifest
from edge.core.configs import Region, check_region
from edge.core.errors import InvalidValue
from edge.core.labels import LabelledFrame, LabelledWindow, SampledFrame
from edge.core.vision import Detections
from edge.files import store_whole
from edge.runtime.box_groups_folder import BoxGroupsFolder
from edge.runtime.few_pictures import of_few
from edge.runtime.lent_labels import objects_of
from edge.runtime.lent_work import WorkPacking


@dataclass(frozen=True)
class PackedPictures:
    """The description (its SHA-256) of so many pictures, all bytes, and the path of each file by its SHA-256."""

    manifest: str
    pictures: int
    size: int
    paths: Mapping[str, str]


def packed_pictures(data: LabelledWindow, region: Region, folder: Path) -> PackedPictures:
    """The pictures of a window that students are trained on; the description is written to `folder`. Blocks. Raises
    InvalidValue where no picture is left or they are too large, OSError, StoreError."""
    packing = WorkPacking()
    few = replace(of_few(data, MOST_SHARED), held_out=(), kept_out=())
    window = packing.window(replace(few, train=_without_answers(few.train), exemplars=_without_answers(few.exemplars)))
    manifest = SharedManifest(window, region, dict(packing.sizes))
    document = {"window": manifest.window, "region": manifest.region, "sizes": manifest.sizes}
    content = json.dumps(document, sort_keys=True).encode()
    digest = hashlib.sha256(content).hexdigest()
    path = folder / digest
    store_whole(path, content, durable=False, mode=0o600, folder_mode=0o700)
    size = len(content) + sum(packing.sizes.values())
    return PackedPictures(digest, len(packing.sizes), size, {**packing.paths, digest: str(path.absolute())})


def _without_answers(frames: Sequence[LabelledFrame]) -> tuple[LabelledFrame, ...]:
    bare = {"answer": Detections.empty(), "answer_version": "", "answer_age_s": 0.0, "going": None}
    return tuple(replace(f, frame=replace(f.frame, **bare)) for f in frames)  # type: ignore[arg-type]


def read_guest(camera: SharedCamera, folder: BoxGroupsFolder) -> GroupGuest | None:
    """A camera of another box with its labelled pictures; None: they are not here. Blocks. Raises InvalidValue for what
    is no labelled window."""
    manifest = folder.manifest(camera.manifest)
    if manifest is None:
        return None
    name, value = camera.of_box.name, manifest.window
    try:
        classes = tuple(str(c) for c in value["classes"])
        given = [("train", list(value["train"])), ("exemplars", list(value["exemplars"]))]
        checks.in_range("frames", sum(len(frames) for _, frames in given), 1, MOST_SHARED)

        def frame(number: int, one: Mapping[str, Any]) -> LabelledFrame:
            digest = one["frame"]["path"]
            checks.one_of("frame.path", digest, manifest.sizes)
            path = folder.guest_blob(camera.manifest, digest)
            return _frame(one, SampledFrame(name, camera.window, number, 0.0, path, Detections.empty(), ""), classes)

        frames = {part: tuple(frame(n, one) for n, one in enumerate(listed)) for part, listed in given}
        data = LabelledWindow(name, camera.window, "detection", classes, frames["train"], (), frames["exemplars"])
        return GroupGuest(camera.of_box, data, check_region("region", manifest.region))
    except InvalidValue:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidValue("window", type(error).__name__, f"a labelled window: {error}") from None


def _frame(value: Mapping[str, Any], frame: SampledFrame, classes: Sequence[str]) -> LabelledFrame:
    """Nothing is clipped or rounded into what it should be."""
    weight = value["weight"]
    checks.in_range("weight", weight, 0.0, 100.0)
    unsure = objects_of(value["unsure"], len(classes))
    labels = objects_of(value["labels"], len(classes))
    return LabelledFrame(frame, labels, "another box", float(weight), len(unsure), None, unsure)
