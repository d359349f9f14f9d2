"""Recorded plans made again, to show that the replayed plans are those that were followed.

Works on the plain documents that the store and `GET /api/v1/windows/N` give, as edge.simulation.record does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edge.core.errors import InvalidValue
from edge.core.plan_basis import PlanBasis
from edge.core.plan_causes import PlanCause
from edge.core.window import WindowPlan, WindowProblem
from scheduler.follow import made_again


@dataclass(frozen=True)
class ReplayedPlan:
    """A recorded plan and the one that is made of the same values now. `again` is None, and `differs` empty, where the
    record does not say what the plan was made from (windows of versions that did not keep it); else `differs` names
    the fields of "retrain-infer-plan/1" that are not as recorded."""

    window: int
    id: int
    cause: str
    policy: str
    objective: float
    again: WindowPlan | None
    differs: tuple[str, ...] = ()


def replayed(detail: Mapping[str, Any]) -> tuple[ReplayedPlan, ...]:
    """The plans of one window (a document of edge.store's WindowDetail), the oldest first. Raises InvalidValue for
    anything but such a document.
    """
    try:
        return tuple(_replayed(record) for record in detail["plans"])
    except (KeyError, TypeError) as error:
        raise InvalidValue("(file)", str(error), "a window as GET /api/v1/windows/N gives it") from None


def _replayed(record: Mapping[str, Any]) -> ReplayedPlan:
    number, policy, objective = int(record["id"]), str(record["policy"]), float(record["objective"])
    again: WindowPlan | None = None
    differs: tuple[str, ...] = ()
    basis = record.get("basis")
    if basis is not None:
        again = made_again(WindowProblem.from_json(record["problem"]), PlanBasis.from_json(basis))
        differs = _differences(record["plan"], again)
    cause = PlanCause.recorded(str(record["cause"]), record.get("cause_camera")).words
    return ReplayedPlan(int(record["window"]), number, cause, policy, objective, again, differs)


def _differences(recorded: Mapping[str, Any], again: WindowPlan) -> tuple[str, ...]:
    """Fields that are not as recorded; how long the decision took is no part of it."""
    now = json.loads(json.dumps(again.to_json()))
    fields = recorded.keys() - {"decision_seconds"}  # a later version may tell more
    for words, values in (("reasons", "reason_values"), ("faults", "fault_values")):
        if values in recorded:  # its words may be put otherwise by now
            fields -= {words}
    return tuple(sorted(f for f in fields if recorded.get(f) != now.get(f)))
