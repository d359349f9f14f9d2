"""Jobs of a fleet as people submit them."""

from __future__ import annotations

from typing import Any

import pytest

from edge.core.engine import EngineWork
from edge.core.errors import InvalidValue
from edge.core.fleet import Avoidance, SpatialRule
from edge.core.fleet_job_file import MOST_TASKS, submitted_job

JOB: dict[str, Any] = {"id": "labels@north", "demand": {"cpu": 2}, "duration_s": 30}


def test_a_job_of_a_scenario_waits_for_its_duration() -> None:
    asked = submitted_job(JOB | {"checkpoints": True, "tasks": 3, "zone": {"site": ["yard"]}, "avoid": {"group": "g"}})
    assert asked.work == EngineWork("wait", {"seconds": 30, "checkpoint_s": 5.0})
    assert asked.job.rule == SpatialRule({"site": ("yard",)}, (), Avoidance("g"))
    assert submitted_job(JOB | {"duration_s": None}).work.arguments == {"seconds": None}
    work = {"program": "look", "arguments": {"deep": [1]}}
    assert submitted_job(JOB | {"work": work}).work == EngineWork("look", {"deep": [1]})


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"colour": "red"}, "colour"),
        ({"t": 3}, "t"),
        ({"infeasible": True}, "infeasible"),
        ({"id": "a/b"}, "id"),
        ({"id": 7}, "id"),
        ({"demand": {"cpu": -1}}, "demand.cpu"),
        ({"demand": {"at:x": 1}}, "demand.at:x"),
        ({"demand": {"cpu": "1"}}, "demand.cpu"),
        ({"duration_s": "long"}, "duration_s"),
        ({"tasks": MOST_TASKS + 1}, "tasks"),
        ({"tasks": 1.5}, "tasks"),
        ({"tenant": ["a"]}, "tenant"),
        ({"queue": ""}, "queue"),
        ({"gang": "yes"}, "gang"),
        ({"prefer": [{}, {"tenant": "a"}]}, "prefer[1].tenant"),
        ({"work": "wait"}, "work"),
        ({"work": {"arguments": {}}}, "work.program"),
        ({"work": {"program": "wait", "more": 1}}, "work.more"),
        ({"work": {"program": "../x"}}, "work.program"),
        ({"work": {"program": "wait", "arguments": [1]}}, "work.arguments"),
    ],
)
def test_the_field_that_cannot_be_is_named(more: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        submitted_job(JOB | more)
    assert caught.value.path == path


def test_a_hidden_character_and_what_is_no_object_are_refused() -> None:
    hidden = "\u200b"
    zone, work = {"zone": {hidden: ["x"]}}, {"work": {"program": "wait", "arguments": {"a": hidden}}}
    for value in ([], "job", JOB | zone, JOB | work):
        with pytest.raises(InvalidValue):
            submitted_job(value)
    without = {key: value for key, value in JOB.items() if key != "duration_s"}
    with pytest.raises(InvalidValue, match="required"):
        submitted_job(without)
