"""Worker processes by what they do and for which camera. No code parses it out of a name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from edge.core.shares import Role

WorkerKind = Literal["camera", "retrain", "lent", "golden", "profiler", "executor", "serving_profiler", "front"]
#: The purpose of a worker's share of the device.
Activity = Literal["inference", "retraining", "golden", "profiling", "serving", "front"]
#: Why a worker is gone: it had more memory than it may (or the system refused it more), was silent, was ended with all
#: of a sick device, failed with an error, was ended by a signal, or none of these.
LossCause = Literal["memory", "hung", "device", "error", "signal", "other"]

_ROLES: Final[Mapping[WorkerKind, Role]] = {
    "camera": "inference",
    "retrain": "retraining",
    "lent": "retraining",
    "golden": "golden",
    "profiler": "profiling",
    "executor": "inference",
    "serving_profiler": "inference",
    "front": "inference",
}
_ACTIVITIES: Final[Mapping[WorkerKind, Activity]] = {
    **_ROLES,
    "executor": "serving",
    "serving_profiler": "profiling",
    "front": "front",
}

#: Bounded by what they take from clients, and not by a limit of their own.
_UNLIMITED: Final[frozenset[WorkerKind]] = frozenset({"front"})


@dataclass(frozen=True)
class Worker:
    """`name` is unique among those that run; `camera` is the one that it works for alone."""

    name: str
    kind: WorkerKind
    camera: str | None = None

    @classmethod
    def of_camera(cls, camera: str) -> Worker:
        """The worker that reads a camera and answers its frames."""
        return cls(f"camera-{camera}", "camera", camera)

    @classmethod
    def trainer_of(cls, camera: str) -> Worker:
        """The worker that retrains a camera's student."""
        return cls(f"retrain-{camera}", "retrain", camera)

    @classmethod
    def profiler(cls, number: int) -> Worker:
        """One of the micro-profiler's and evaluation's workers."""
        return cls(f"profiler-{number}", "profiler")

    @property
    def role(self) -> Role:
        """How its share is enforced."""
        return _ROLES[self.kind]

    @property
    def memory_limited(self) -> bool:
        """Whether it may have only so much memory."""
        return self.kind not in _UNLIMITED

    @property
    def activity(self) -> Activity:
        """The activity that its share is for, as recorded and shown."""
        return _ACTIVITIES[self.kind]


GOLDEN: Final = Worker("golden", "golden")
FRONT: Final = Worker("front", "front")
#: Retrains for another box.
LENT: Final = Worker("lent", "lent")
