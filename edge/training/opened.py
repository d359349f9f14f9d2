"""The retraining that fits a student's kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from edge.core.configs import WHOLE, Region, RetrainingConfig
from edge.core.labels import Accuracy, LabelledWindow
from edge.students import Student
from edge.students.published import PublishedStudent
from edge.students.weights import AnyStudent
from edge.training.kept_download import PARTS
from edge.training.progress import Progress
from edge.training.published import PublishedExamples, PublishedRetraining
from edge.training.retraining import Retraining


class RunningRetraining(Protocol):
    """The common interface of both kinds; see `Retraining`."""

    total_steps: int

    @property
    def resumed(self) -> bool: ...

    @property
    def cpu_seconds(self) -> float: ...

    @property
    def train_frames(self) -> int: ...

    def steps(self) -> Iterator[Progress]: ...

    def result(self) -> AnyStudent: ...

    def held_out(self) -> Accuracy: ...

    def keep_checkpoint(self) -> None: ...

    def discard_checkpoint(self) -> None: ...


def open_retraining(
    parent: AnyStudent,
    data: LabelledWindow,
    config: RetrainingConfig,
    seed: int = 0,
    checkpoint: Path | None = None,
    *,
    download: AnyStudent | None = None,
    region: Region = WHOLE,
    members: Sequence[PublishedExamples] = (),
    work: float = 1.0,
    clock: Callable[[], float] | None = None,
) -> RunningRetraining:
    """A retraining of `parent`; `download`, `region` and `members` (the pictures of other cameras that it is for too)
    are for students that began as a published detector. With members it makes `work` times the picture visits that
    `config` makes on the window's own pictures.

    Raises as the retraining of its kind does.
    """
    if isinstance(parent, Student):
        return Retraining(parent, data, config, seed, checkpoint, clock=clock)
    kept = download if isinstance(download, PublishedStudent) else None
    examples = PublishedExamples(data, parent, region)
    if members:
        own = len(examples.train_frames)
        examples.join(members)
        visits, every = config.epochs * config.data_fraction * own * work, len(examples.train_frames)
        epochs = max(1, round(visits / every))
        config = replace(config, epochs=epochs, data_fraction=min(1.0, visits / (epochs * every)))
    # A part that is best for the leader need not be for its members. Each held-out measurement costs as much as dozens
    # of steps: only at the end.
    return PublishedRetraining(
        parent, examples, config, seed, checkpoint, download=kept, parts=() if members else PARTS, held_out_every=0,
        clock=clock,
    )  # fmt: skip
