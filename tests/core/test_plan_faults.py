"""Faults of plans are values; their sentences are those that files, journal and page have always had."""

from __future__ import annotations

import json

import numpy as np
import pytest

from edge.core.plan_faults import PlanFault
from edge.core.window import Segment, StreamAllocation, WindowPlan

UNREACHABLE = (
    "gate: the floor of 0.55 cannot be kept; the best at the start is 0.500, with 0.25 of a device for inference"
)
UNDER = "yard: accuracy falls to 0.412 in this plan, under the floor of 0.50"


def test_a_floor_out_of_reach_is_put_into_words() -> None:
    fault = PlanFault.unreachable("gate", 0.55, 0.5, 0.25)
    assert (fault.code, fault.camera, fault.floor, fault.accuracy, fault.share) == (
        "floor_unreachable", "gate", 0.55, 0.5, 0.25,
    )  # fmt: skip
    assert fault.words == UNREACHABLE


def test_a_fall_under_the_floor_is_put_into_words() -> None:
    fault = PlanFault.under("yard", 0.5, 0.41234)
    assert (fault.code, fault.camera, fault.floor, fault.accuracy) == ("under_floor", "yard", 0.5, 0.41234)
    assert fault.words == UNDER


def test_numbers_are_kept_as_plain_floats() -> None:
    fault = PlanFault.unreachable("gate", 0.55, np.float64(0.5), np.float64(0.25))
    assert {type(fault.floor), type(fault.accuracy), type(fault.share)} == {float}


def test_the_camera_is_not_read_out_of_a_recorded_sentence() -> None:
    fault = PlanFault.recorded(UNREACHABLE)
    assert (fault.code, fault.camera, fault.words) == ("recorded", None, UNREACHABLE)


@pytest.mark.parametrize("fault", [PlanFault.unreachable("gate", 0.55, 0.5, 0.25), PlanFault.under("yard", 0.5, 0.412)])
def test_a_plan_is_written_with_sentences_and_values_and_read_back_with_the_same(fault: PlanFault) -> None:
    plan = WindowPlan("relay", "w", 0.5, (Segment(0.0, {"gate": StreamAllocation(0.5)}),), faults=(fault,))
    written = json.loads(json.dumps(plan.to_json()))
    assert written["faults"] == [fault.words]
    read = WindowPlan.from_json(written)
    assert read.faults == (fault,)
    assert read.to_json() == written
    del written["fault_values"]
    assert WindowPlan.from_json(written).faults == (PlanFault.recorded(fault.words),), "as earlier versions wrote it"


def test_a_fault_that_this_version_does_not_know_is_kept_by_its_sentence() -> None:
    value = WindowPlan("relay", "w", 0.5, ()).to_json()
    del value["fault_values"]
    assert WindowPlan.from_json(value | {"faults": ["too bad: gate"]}).faults[0].words == "too bad: gate"
    del value["faults"]
    assert WindowPlan.from_json(value).faults == ()
