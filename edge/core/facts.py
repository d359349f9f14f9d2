"""Facts of the runtime, for alarms and counts, sent by the code that acts. The journal is for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edge.core.alarms import AccuracyMeasured, Promoted, RolledBack
from edge.core.clips import ClipFailed, ClipMade
from edge.core.labels import LabelledFrame, SampledFrame
from edge.core.workers import LossCause, WorkerKind

#: The outcome of one retraining's worker; its student's outcome is another fact.
RetrainingStep = Literal["started", "stopped", "failed"]


@dataclass(frozen=True)
class RetrainingStepped:
    """A retraining of a camera was started, was ended early, or failed."""

    camera: str
    step: RetrainingStep


@dataclass(frozen=True)
class StudentRejected:
    """A retrained student was not put in force; its retraining took `device_seconds`."""

    camera: str
    version: str
    device_seconds: float


@dataclass(frozen=True)
class WorkerLost:
    """A worker process is gone without having been asked to end."""

    kind: WorkerKind
    cause: LossCause = "other"


@dataclass(frozen=True)
class FrameSampled:
    """A frame was kept for the teacher."""

    frame: SampledFrame


@dataclass(frozen=True)
class FrameLabelled:
    """The teacher has labelled a frame."""

    labelled: LabelledFrame


RuntimeFact = (
    AccuracyMeasured
    | Promoted
    | RolledBack
    | RetrainingStepped
    | StudentRejected
    | WorkerLost
    | FrameSampled
    | FrameLabelled
    | ClipMade
    | ClipFailed
)
