"""Other luck in a recorded run: the same for the same seed, and no other verdict of a gate that is on record."""

from __future__ import annotations

import json

import pytest

from edge.core.errors import InvalidValue
from edge.core.profiles import InferenceProfile
from edge.simulation.chance import varied
from edge.simulation.trace import RecordedCamera, RecordedOutcome, RecordedWindow, Trace

START = 0.6
SEEDS = range(1, 41)


def trace(**outcomes: RecordedOutcome) -> Trace:
    window = RecordedWindow(START, outcomes=outcomes)
    camera = RecordedCamera("gate", InferenceProfile("linear", 0.1), {1: 0.5, 2: 0.5}, {2: window})
    return Trace("one", 60.0, 1.0, (camera,), 2)


def test_other_luck_changes_how_good_a_student_is_and_not_what_the_gate_said() -> None:
    known = trace(
        refused=RecordedOutcome(START - 0.001, 4.0, {2: 0.55}, promoted=False),
        accepted=RecordedOutcome(START, 4.0, {2: 0.65}, promoted=True),
        unknown=RecordedOutcome(START, 4.0, {2: 0.55}),
    )
    lucky = [varied(known, seed).cameras[0].windows[2].outcomes for seed in SEEDS]
    for name, said in (("refused", False), ("accepted", True), ("unknown", None)):
        assert {made[name].promoted for made in lucky} == {said}
        assert (min(made[name].accuracy for made in lucky) < START) is (said is not True)
        assert (max(made[name].accuracy for made in lucky) > START) is (said is not False)
        assert len({made[name].live[2] for made in lucky}) == len(SEEDS)


def test_the_same_seed_is_the_same_luck_and_seed_0_is_the_record() -> None:
    known = trace(a=RecordedOutcome(0.7, 4.0, {2: 0.65}, promoted=True))
    assert varied(known, 0) == known
    assert varied(known, 3) == varied(known, 3) != varied(known, 4)


def test_the_verdict_is_in_the_file_where_it_is_known_and_nothing_but_a_verdict_is_taken_for_one() -> None:
    known = trace(a=RecordedOutcome(0.7, 4.0, promoted=True), b=RecordedOutcome(0.7, 4.0))
    value = json.loads(json.dumps(known.to_json()))
    outcomes = value["cameras"][0]["windows"]["2"]["outcomes"]
    assert outcomes["a"]["promoted"] is True
    assert "promoted" not in outcomes["b"]
    assert Trace.from_json(value).cameras[0].windows == known.cameras[0].windows
    for wrong in ("yes", 0, 1.0):
        outcomes["a"]["promoted"] = wrong
        with pytest.raises(InvalidValue) as error:
            Trace.from_json(value)
        assert error.value.path == "cameras[0].windows[2].outcomes[a].promoted"
