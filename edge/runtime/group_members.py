"""Other cameras that a retraining is for too, opened in its worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge.core.box_groups import CameraOfBox
from edge.core.errors import LabelError, WeightsError
from edge.runtime import messages as m
from edge.runtime.few_pictures import of_few
from edge.students import load_student
from edge.students.published import PublishedStudent
from edge.students.weights import AnyStudent
from edge.training.published import PublishedExamples

#: Pictures of all members together that are trained on: it bounds the memory and the time of a group of 12.
MOST_PICTURES = 480


@dataclass(frozen=True)
class MemberInMemory:
    """A member of the group with its student in force and its pictures in memory."""

    camera: str
    parent: PublishedStudent
    examples: PublishedExamples
    output: Path


@dataclass(frozen=True)
class GuestInMemory:
    """A camera of another box with its pictures in memory."""

    camera: CameraOfBox
    examples: PublishedExamples


def open_members(
    job: m.RetrainingJob, begun: AnyStudent, breathe: Callable[[], object] = lambda: None
) -> list[MemberInMemory]:
    """The members whose student is of the same specification and whose pictures can be read; the others are passed
    over: the retraining goes on without them, and they keep what they have. `breathe` is called between members."""
    if not isinstance(begun, PublishedStudent):
        return []
    members = []
    for one in job.members:
        breathe()
        try:
            parent = load_student(one.parent.path, begun.device)
            examples = PublishedExamples(of_few(one.data, pictures_each(job)), begun, one.region)
        except (WeightsError, LabelError):
            continue
        if isinstance(parent, PublishedStudent) and parent.spec == begun.spec:
            members.append(MemberInMemory(one.camera, parent, examples, one.output))
    return members


def open_guests(
    job: m.RetrainingJob, begun: AnyStudent, breathe: Callable[[], object] = lambda: None
) -> list[GuestInMemory]:
    """The cameras of other boxes whose pictures can be read; the others are passed over."""
    if not isinstance(begun, PublishedStudent):
        return []
    guests = []
    for one in job.guests:
        breathe()
        if one.data.classes != begun.spec.classes:
            continue
        try:
            examples = PublishedExamples(of_few(one.data, pictures_each(job)), begun, one.region)
        except LabelError:
            continue
        guests.append(GuestInMemory(one.camera, examples))
    return guests


def pictures_each(job: m.RetrainingJob) -> int:
    """Pictures of each camera beside the leader that are trained on at most."""
    return MOST_PICTURES // (len(job.members) + len(job.guests))
