"""Other cameras that a retraining is for too, opened in its worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edge.core.errors import LabelError, WeightsError
from edge.runtime import messages as m
from edge.students import load_student
from edge.students.published import PublishedStudent
from edge.students.weights import AnyStudent
from edge.training.published import PublishedExamples


@dataclass(frozen=True)
class MemberInMemory:
    """A member of the group with its student in force and its pictures in memory."""

    camera: str
    parent: PublishedStudent
    examples: PublishedExamples
    output: Path


def open_members(job: m.RetrainingJob, begun: AnyStudent) -> list[MemberInMemory]:
    """The members whose student is of the same specification and whose pictures can be read; the others are passed
    over: the retraining goes on without them, and they keep what they have."""
    if not isinstance(begun, PublishedStudent):
        return []
    members = []
    for one in job.members:
        try:
            parent = load_student(one.parent.path, begun.device)
            examples = PublishedExamples(one.data, begun, one.region)
        except (WeightsError, LabelError):
            continue
        if isinstance(parent, PublishedStudent) and parent.spec == begun.spec:
            members.append(MemberInMemory(one.camera, parent, examples, one.output))
    return members
