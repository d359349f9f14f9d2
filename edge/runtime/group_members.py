"""Other cameras that a retraining is for too, opened in its worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from edge.core.errors import LabelError, WeightsError
from edge.core.labels import LabelledWindow
from edge.runtime import messages as m
from edge.students import load_student
from edge.students.published import PublishedStudent
from edge.students.weights import AnyStudent
from edge.training.published import PublishedExamples

#: Pictures of all members together that are trained on, and kept-out pictures of earlier windows that each is judged
#: by: both bound the memory and the time of a group of 12.
MOST_PICTURES, MOST_KEPT_OUT = 480, 24

T = TypeVar("T")


@dataclass(frozen=True)
class MemberInMemory:
    """A member of the group with its student in force and its pictures in memory."""

    camera: str
    parent: PublishedStudent
    examples: PublishedExamples
    output: Path


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
            examples = PublishedExamples(of_few(one.data, MOST_PICTURES // len(job.members)), begun, one.region)
        except (WeightsError, LabelError):
            continue
        if isinstance(parent, PublishedStudent) and parent.spec == begun.spec:
            members.append(MemberInMemory(one.camera, parent, examples, one.output))
    return members


def of_few(data: LabelledWindow, pictures: int) -> LabelledWindow:
    """A window with at most `pictures` to train on, its own before exemplars, and the latest kept-out ones."""
    train = _spread(data.train, pictures)
    exemplars = _spread(data.exemplars, pictures - len(train))
    return replace(data, train=train, exemplars=exemplars, kept_out=data.kept_out[-MOST_KEPT_OUT:])


def _spread(values: Sequence[T], most: int) -> tuple[T, ...]:
    """At most so many, evenly over all."""
    every = max(1.0, len(values) / most) if most > 0 else 1.0
    return tuple(values[int(n * every)] for n in range(min(len(values), max(0, most))))
