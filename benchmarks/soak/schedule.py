"""Which faults happen, to whom, in which order and for how long: all of it follows from a seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

FaultName = Literal[
    "kill_camera", "kill_golden", "kill_profiler", "kill_retrain", "kill_executor", "kill_front", "kill_control",
    "kill_all", "camera_gone", "camera_frozen", "camera_password", "camera_damaged", "database_away", "broker_away",
    "receiver_away", "disk_full", "clock_ahead", "clock_back", "teacher_hung", "overloaded",
]  # fmt: skip
#: Whose answers a fault may stop: those of its own camera, of all cameras, of served models, of REST.
Stopped = Literal["camera", "cameras", "models", "page"]


@dataclass(frozen=True)
class FaultKind:
    """How long the fault lasts (least and most, seconds; 0: an instant), whose answers may stop meanwhile, and how long
    after its end they must be back (seconds)."""

    lasts_s: tuple[float, float]
    stops: frozenset[Stopped]
    back_s: float


_ALL: Final = frozenset[Stopped](("cameras", "models", "page"))
_CAMERA: Final = frozenset[Stopped](("camera",))
_MODELS: Final = frozenset[Stopped](("models",))
_NONE: Final = frozenset[Stopped]()
#: Bounds are for two cores that others use as well. On a quiet machine the times are a third of them
#: (benchmarks/results/faults.json).
KINDS: Final[Mapping[FaultName, FaultKind]] = {
    "kill_camera": FaultKind((0, 0), _CAMERA, 45.0),
    "kill_golden": FaultKind((0, 0), _NONE, 90.0),
    "kill_profiler": FaultKind((0, 0), _NONE, 60.0),
    "kill_retrain": FaultKind((0, 0), _NONE, 60.0),
    "kill_executor": FaultKind((0, 0), _MODELS, 90.0),
    "kill_front": FaultKind((0, 0), _MODELS, 60.0),
    "kill_control": FaultKind((0, 0), _ALL, 150.0),
    "kill_all": FaultKind((0, 0), _ALL, 150.0),
    "camera_gone": FaultKind((15, 30), _CAMERA, 60.0),
    "camera_frozen": FaultKind((15, 30), _CAMERA, 45.0),
    "camera_password": FaultKind((15, 30), _CAMERA, 90.0),
    "camera_damaged": FaultKind((15, 30), _CAMERA, 45.0),
    "database_away": FaultKind((15, 30), frozenset[Stopped](("page",)), 45.0),
    "broker_away": FaultKind((15, 30), _NONE, 60.0),
    "receiver_away": FaultKind((15, 30), _NONE, 60.0),
    "disk_full": FaultKind((20, 30), _NONE, 60.0),
    "clock_ahead": FaultKind((0, 0), _NONE, 30.0),
    "clock_back": FaultKind((0, 0), _NONE, 30.0),
    "teacher_hung": FaultKind((35, 50), _NONE, 120.0),
    "overloaded": FaultKind((20, 30), _ALL, 45.0),
}
#: No camera, model or page is without an answer for longer than this while no fault is the reason.
CALM_S: Final = 20.0
#: A model's results may be absent for so much longer: on two busy cores all requests of a window may be too late.
RESULTS_LATER_S: Final = 100.0
OF_ONE_CAMERA: Final = frozenset[FaultName](
    ("kill_camera", "camera_gone", "camera_frozen", "camera_password", "camera_damaged")
)
#: These begin every series of measurements anew: they come early, so that memory is seen over a long time, and once
#: more at the very end.
OF_THE_WHOLE: Final = frozenset[FaultName](("kill_control", "kill_all"))


@dataclass(frozen=True)
class Step:
    """One fault: of `camera` (empty: of no single one), for `lasts_s`, and `pause_s` of calm after all is well."""

    number: int
    fault: FaultName
    camera: str
    lasts_s: float
    pause_s: float


def steps(
    seed: int, cameras: Sequence[str], rounds: int, possible: frozenset[FaultName] | None = None
) -> tuple[Step, ...]:
    """`rounds` times each of the `possible` faults (empty: all), shuffled anew each time; those of the whole appliance
    in the first round only. The clock goes an hour ahead before it goes back. Raises ValueError without cameras."""
    if not cameras:
        raise ValueError("cameras: none are given; at least one is needed")
    rng = random.Random(seed)
    names = [n for n in KINDS if possible is None or n in possible]
    made: list[Step] = []
    for turn in range(rounds):
        order = [n for n in names if turn == 0 or n not in OF_THE_WHOLE]
        rng.shuffle(order)
        for fault in _clock_in_order(order):
            camera = rng.choice(cameras) if fault in OF_ONE_CAMERA else ""
            lasts_s = round(rng.uniform(*KINDS[fault].lasts_s), 1)
            made.append(Step(len(made) + 1, fault, camera, lasts_s, round(rng.uniform(4.0, 10.0), 1)))
    return tuple(made)


def _clock_in_order(order: Sequence[FaultName]) -> list[FaultName]:
    """The same faults, `clock_ahead` at the first place of the two."""
    clock = [n for n in ("clock_ahead", "clock_back") if n in order]
    waiting = iter(clock)
    return [next(waiting) if n in clock else n for n in order]
