"""The operator's settings as the reorganiser takes them; the plan of a policy by its name."""

from __future__ import annotations

import pytest

from edge.core.errors import InvalidValue
from edge.core.serving import DeviceTable, ServedModel, ServingProblem
from edge.settings import ServingPlanning
from scheduler.gpulets.follow import plan_function, reorganiser_settings


def test_settings_reach_the_reorganiser() -> None:
    planning = ServingPlanning(half_life_s=11, rise_half_life_s=3, headroom=1.5, grow_dwell_s=4, shrink_dwell_s=40)
    found = reorganiser_settings(planning)
    assert (found.rates.half_life_s, found.rates.rise_half_life_s, found.rates.headroom) == (11, 3, 1.5)
    assert (found.grow_dwell_s, found.shrink_dwell_s) == (4, 40)


def test_the_smallest_plan_is_made() -> None:
    # Twice as long as the objective on 10 %, well within it on 20 %: more is not needed.
    table = DeviceTable("t", {"a": {10: (200.0,), 20: (20.0,), 100: (4.0,)}}, {})
    plan = plan_function("elastic")(ServingProblem((ServedModel("a", 1.0, 100.0, 0),), 1, 1.0), table)
    assert plan.schedulable
    assert plan.total_share == pytest.approx(0.2)


def test_an_unknown_policy_is_refused_before_anything_is_planned() -> None:
    with pytest.raises(InvalidValue, match="nowhere"):
        plan_function("nowhere")
