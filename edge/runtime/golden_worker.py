"""Worker main of the golden model, and its check before anything starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge.detectors.classes import ClassMap
from edge.runtime import messages as m
from edge.runtime.device import host_threads, open_bucket
from edge.runtime.labelling import keep_label
from edge.runtime.one_off import run_once
from edge.runtime.process import Channel, Retire, Stop
from golden.content import teacher_content
from golden.labelling import Labeller
from golden.spec import read_teacher
from golden.teacher import check_teacher, open_teacher

#: A picture of nothing: rows, columns, colours.
_BLANK = (360, 640, 3)


@dataclass(frozen=True)
class GoldenWorkerSpec:
    """The teacher's description: a YAML file, and what a check of it found (empty: not checked yet): its name, the
    digest of what it says, and that of its content (golden/content.py), which is the same on boxes that have its files
    elsewhere."""

    teacher: Path
    name: str = ""
    digest: str = ""
    content: str = ""


@dataclass(frozen=True)
class TeacherOffer:
    """A checked teacher's offer, and the digests of its description and of its content."""

    name: str
    classes: tuple[str, ...]
    digest: str
    content: str

    def check(self, camera: str, classes: Sequence[str], class_map: Mapping[str, Sequence[str]]) -> None:
        """Raises LabelError or InvalidValue if the teacher cannot produce a camera's classes."""
        ClassMap.build(classes, self.classes, class_map, f"cameras.{camera}.class_map")


def check_golden(spec: GoldenWorkerSpec, limit_bytes: int | None = None) -> TeacherOffer:
    """Files, hashes, downloads and classes; an ONNX graph is opened, in at most `limit_bytes` of memory (None: as
    for workers without a setting). Blocks; raises WeightsError, MemoryLimitExceeded, LabelError, InvalidValue,
    Unavailable."""
    found = run_once("check-golden", _check, spec, f"teacher {spec.teacher}", limit_bytes)
    assert isinstance(found, TeacherOffer)
    return found


def _check(channel: Channel, spec: GoldenWorkerSpec) -> None:
    described = read_teacher(spec.teacher)
    facts = check_teacher(described)
    digest = hashlib.sha256(repr(described).encode()).hexdigest()
    channel.send(TeacherOffer(facts.name, facts.classes, digest, teacher_content(described)))


def golden_worker(channel: Channel, spec: GoldenWorkerSpec) -> None:
    """Takes m.Label, answers each frame with m.Labelled; labels are kept beside the pictures for a restart."""
    share = open_bucket()
    described = read_teacher(spec.teacher)
    with share.batch(stop=channel.beating):
        teacher = open_teacher(described, host_threads(share.device), share.device)
        # An opened model's first answer takes several times a later one: it would be taken for a label's cost, and a
        # box that has just begun would starve its cameras for labels that it does not need.
        teacher.label(np.zeros(_BLANK, np.uint8))
    channel.ready()
    labellers: dict[tuple[tuple[str, ...], str], Labeller] = {}
    while True:
        channel.beat()
        order = channel.receive(0.25)
        if isinstance(order, Stop):
            return
        if isinstance(order, Retire):  # frames sent before it have been labelled by now
            channel.retired()
            return
        if not isinstance(order, m.Label):
            continue
        key = (order.classes, json.dumps(order.class_map, sort_keys=True))
        if key not in labellers:
            class_map = ClassMap.build(
                order.classes, teacher.classes, order.class_map, f"cameras.{order.camera}.class_map"
            )
            labellers[key] = Labeller(teacher, class_map, described.label_score)
        for frame in order.frames:
            began = share.worked_s()
            with share.batch(stop=channel.beating):
                labelled = labellers[key].label(frame)
            if labelled is not None:
                keep_label(labelled)
            channel.send(m.Labelled(order.camera, frame.id, labelled, share.worked_s() - began))
