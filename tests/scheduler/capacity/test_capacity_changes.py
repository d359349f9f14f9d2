"""Changes that can be asked about, their effect on learning, and on served models."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edge.core.capacity import CHANGE_KINDS, BoxChange
from edge.core.capacity_notes import CapacityNote
from edge.core.errors import InvalidValue
from edge.core.learning import BudgetProblem, Cost, LearningFacts
from edge.core.serving import DeviceTable, ServedModel
from edge.core.shares import ideal_caps
from scheduler.admission import Box
from scheduler.capacity.learning import LearningEffect, learning_effect
from scheduler.capacity.serving import ServedBox, served_effect

BUDGET = BudgetProblem(100.0, 2, 0.9, 0.3, LearningFacts(label_s=Cost(0.2, 0.02, 50)))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (("camera", 2.0, None), "factor"),
        (("window", 0.25, None), "factor"),
        (("device", 1.0, None), "factor"),
        (("device", 9.0, None), "factor"),
        (("frame_rate", 0.5, None), "factor"),
        (("box", 1.0, "gate"), "camera"),
        (("wall", None, None), "kind"),
    ],
)
def test_a_bad_change_names_its_field(given: tuple[str, float | None, str | None], field: str) -> None:
    with pytest.raises(InvalidValue) as error:
        BoxChange.of(*given)  # type: ignore[arg-type]
    assert error.value.path == field


def test_every_change_has_words() -> None:
    assert len({BoxChange.of(kind).words for kind in CHANGE_KINDS}) == len(CHANGE_KINDS)
    assert BoxChange.of("device", 0.5).words == "half the device"
    assert "like gate" in CapacityNote("new_camera", "gate").words


def test_with_a_fixed_number_of_labels_more_cameras_and_shorter_windows_need_more_labelling() -> None:
    fixed = replace(BUDGET, labels=16)
    more = learning_effect(fixed, BoxChange.of("camera"), 2, 3)
    half = learning_effect(fixed, BoxChange.of("window"), 2, 2)
    assert more.golden == pytest.approx(1.5, abs=0.01)
    assert half.golden == pytest.approx(2.0, abs=0.01)
    assert (more.work, more.gain) == (1.0, 1.0)
    assert learning_effect(fixed, BoxChange.of("box"), 2, 1).golden == pytest.approx(0.5, abs=0.01)


def test_a_budget_that_gives_fewer_labels_gains_less_by_less_work() -> None:
    half = learning_effect(BUDGET, BoxChange.of("window"), 2, 2)
    assert half.work < 1.0
    assert half.gain < 1.0


def test_what_comes_before_the_trials_does_not_shrink_with_them() -> None:
    facts = LearningFacts(label_s=Cost(0.02, 0.01, 50), trial_s=Cost(0.3, 0.1, 20))
    half, change = BudgetProblem(400.0, 4, 0.9, 0.3, facts, families=6, ready=0.3), BoxChange.of("window")
    bare = learning_effect(half, change, 4, 4)
    facts = replace(facts, setup_s=Cost(2.0, 0.1, 20))
    with_setup = learning_effect(replace(half, facts=facts), change, 4, 4)
    assert bare.profiling < 1.0
    assert bare.profiling < with_setup.profiling <= 1.0


def test_without_a_budget_labels_wait_longer_with_more_cameras_and_on_less() -> None:
    assert learning_effect(None, BoxChange.of("camera"), 2, 3) == LearningEffect(labelling=1.5)
    assert learning_effect(None, BoxChange.of("device", 0.5), 2, 2) == LearningEffect(golden=0.5, labelling=2.0)


TABLE = DeviceTable("box", {"plates": {20: (20.0, 34.0), 50: (9.0, 15.0), 100: (5.0, 8.0)}}, {})


def served(rate: float = 20.0, measured: float | None = 12.0) -> ServedBox:
    box = Box(0.9, (ServedModel("plates", rate, 80.0),), TABLE)
    return ServedBox(box, "elastic", "even", "relay", ideal_caps(), {} if measured is None else {"plates": measured})


def test_a_models_forecast_begins_at_what_was_measured_and_lies_in_its_interval() -> None:
    box = served()
    found = served_effect(box, box.planned(box.box), BoxChange.of("device", 0.5), -0.4, (), None)
    (model,) = found.models
    assert model.now_ms == 12.0
    assert model.then_ms is not None
    assert model.then_ms.low <= model.then_ms.value <= model.then_ms.high
    assert model.then_ms.high >= 5.0
    assert found.share_then <= 0.5 + 1e-6


def test_a_model_without_room_is_not_served() -> None:
    box = served(rate=120.0)
    found = served_effect(box, box.planned(box.box), BoxChange.of("device", 0.25), -0.88, (), None)
    (model,) = found.models
    assert model.now_part == 1.0
    assert model.then_part < 1.0
    assert found.share_then <= 0.02 + 1e-6
