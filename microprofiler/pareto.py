"""Pareto front of (device seconds, accuracy) and pruning over windows (thesis section 2.4.4, point 3).

All configurations are tried in the first window; after every second window a fixed fraction of the worst is dropped.
The paper stops there. A scene changes, so here a dropped configuration returns after some windows, and all return when
the student's accuracy moved far from the last window's; configurations near the front are never dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edge.core import checks

#: One unit of distance is this much accuracy, or this factor of cost.
ACCURACY_UNIT = 0.1
COST_FACTOR_UNIT = 10.0


def pareto_front(points: Sequence[tuple[float, float]]) -> tuple[bool, ...]:
    """For each (cost, accuracy) whether no other point is at least as cheap and as accurate, and better in one."""
    return tuple(not any(_dominates(q, p) for q in points) for p in points)


def front_distances(points: Sequence[tuple[float, float]]) -> tuple[float, ...]:
    """Distance of each (cost, accuracy) to the nearest point of the front that dominates it; 0 on the front.

    Both axes count: accuracy given away in units of 10 points, cost in factors of ten.
    """
    front = [p for p, on in zip(points, pareto_front(points), strict=True) if on]
    return tuple(min((_distance(f, p) for f in front if _dominates(f, p)), default=0.0) for p in points)


def _dominates(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a[0] <= b[0] and a[1] >= b[1] and a != b


def _distance(a: tuple[float, float], b: tuple[float, float]) -> float:
    cost = math.log(max(b[0], 1e-9) / max(a[0], 1e-9)) / math.log(COST_FACTOR_UNIT)
    return math.hypot((a[1] - b[1]) / ACCURACY_UNIT, cost)


@dataclass(frozen=True)
class PruningSettings:
    """After every `every` windows the worst `fraction` of the configurations in use is dropped, but never under
    `keep` of them, and only those whose mean distance to the front is above `far`. A dropped one returns after
    `return_after` windows; all return when accuracy moved by more than `drift` between two windows."""

    every: int = 2
    fraction: float = 0.25
    keep: int = 4
    far: float = 0.1
    return_after: int = 6
    drift: float = 0.15

    def __post_init__(self) -> None:
        checks.in_range("pruning.every", self.every, 1, 1000)
        checks.in_range("pruning.fraction", self.fraction, 0.0, 1.0)
        checks.in_range("pruning.keep", self.keep, 1, 1000)
        checks.in_range("pruning.far", self.far, 0.0, 1000.0)
        checks.in_range("pruning.return_after", self.return_after, 1, 10_000)
        checks.in_range("pruning.drift", self.drift, 0.0, 1.0, low_open=True)


@dataclass(frozen=True)
class PruningState:
    """The memory of one camera's configurations, by id. `distances` are exponential means over windows;
    `dropped` holds the count of windows seen when each was dropped."""

    windows: int = 0
    since_drop: int = 0
    distances: Mapping[str, float] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    last_accuracy: float | None = None

    def to_json(self) -> dict[str, Any]:
        out = {k: getattr(self, k) for k in self.__dataclass_fields__}
        return out | {"distances": dict(self.distances), "dropped": dict(self.dropped)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> PruningState:
        """Raises InvalidValue on unknown keys."""
        checks.known_keys("pruning_state", value.keys(), PruningState.__dataclass_fields__.keys())
        return PruningState(**value)


def begin_window(
    state: PruningState, settings: PruningSettings, ids: Sequence[str], start_accuracy: float | None
) -> tuple[PruningState, dict[str, str]]:
    """The configurations to leave out of this window: the state with returns done, and {id: reason} of what stays
    dropped."""
    moved = (
        start_accuracy is not None
        and state.last_accuracy is not None
        and abs(start_accuracy - state.last_accuracy) > settings.drift
    )
    if moved:
        state = replace(state, dropped={}, since_drop=0)
    else:
        due = {i for i, at in state.dropped.items() if state.windows - at >= settings.return_after}
        if due:
            # Its old distance is forgotten, or it would be dropped again before it was tried.
            state = replace(
                state,
                dropped={i: at for i, at in state.dropped.items() if i not in due},
                distances={i: d for i, d in state.distances.items() if i not in due},
            )
    reasons = {
        i: f"{state.distances.get(i, 0.0):.2f} from the Pareto front in earlier windows; tried again in "
        f"{settings.return_after - (state.windows - state.dropped[i])} windows"
        for i in ids
        if i in state.dropped
    }
    return state, reasons


def end_window(
    state: PruningState,
    settings: PruningSettings,
    points: Mapping[str, tuple[float, float]],
    start_accuracy: float | None,
) -> PruningState:
    """After a window in which the configurations `points` {id: (device seconds, accuracy)} were profiled."""
    ids = list(points)
    distances = dict(state.distances)
    for i, d in zip(ids, front_distances([points[i] for i in ids]), strict=True):
        distances[i] = d if i not in distances else 0.5 * distances[i] + 0.5 * d
    state = replace(
        state,
        windows=state.windows + 1,
        since_drop=state.since_drop + 1,
        distances=distances,
        last_accuracy=state.last_accuracy if start_accuracy is None else start_accuracy,
    )
    if state.since_drop < settings.every:
        return state
    room = max(0, len(ids) - settings.keep)
    count = min(room, math.floor(settings.fraction * len(ids)))
    worst = sorted((i for i in ids if distances[i] > settings.far), key=lambda i: (-distances[i], i))[:count]
    return replace(state, since_drop=0, dropped=dict(state.dropped) | dict.fromkeys(worst, state.windows))
