"""How long requests take at most under a plan: alike gpu-lets in turn, and requests that come at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_gpulets_applications import GAME

from edge.core.serving import DeviceTable, Gpulet, ModelBatch, QueueId, ServedModel, ServingPlan, ServingProblem
from scheduler.gpulets.pipelines import PipelineDemand
from scheduler.gpulets.stage_times import bursts_ms, planned_ms
from scheduler.joint.demand import JointProblem
from scheduler.joint.law import joint_verdict
from scheduler.joint.reach import load_of

DEMAND = PipelineDemand(GAME, 20.0)
OWN = (ServedModel("lenet", 120.0, 500.0), ServedModel("resnet50", 20.0, 500.0))
TABLE = DeviceTable("by hand", {"lenet": {20: (4.0, 6.0)}, "resnet50": {50: (10.0,)}}, {})
TWO = [Gpulet(0, 0.2, 12.0, (ModelBatch("lenet", 2),))] * 2
PLAN = ServingPlan(True, (*TWO, Gpulet(0, 0.5, 25.0, (ModelBatch("resnet50", 1),))))


def test_the_planner_and_the_answers_to_people_have_one_law() -> None:
    problem = JointProblem((load_of(DEMAND),))
    judged = joint_verdict(problem, TABLE, PLAN).worst_ms
    found = planned_ms(problem.served({}), TABLE, PLAN, OWN, [DEMAND])
    assert {queue.model: took for queue, took in found.items()} == pytest.approx(judged)
    # Two in turn: 6 + 12 / 2 ms; the last of six at once 5 / 120 s later.
    assert found[QueueId("lenet")] == pytest.approx(12.0 + 5000 / 120)
    assert found[QueueId("resnet50")] == pytest.approx(35.0)


def test_a_second_queue_has_the_bursts_of_its_own_requests() -> None:
    apart = replace(DEMAND, application=replace(GAME, queues={f"digit{n}": 1 for n in range(6)}))
    own = (replace(OWN[0], rate=200.0), OWN[1])
    found = bursts_ms(own, [apart])
    assert found[QueueId("lenet")] == 0.0, "80 requests/s of clients, one at a time"
    assert found[QueueId("lenet", 1)] == pytest.approx(5000 / 120)
    assert bursts_ms(own, [replace(DEMAND, rate=0.0)]) == dict.fromkeys((QueueId("lenet"), QueueId("resnet50")), 0.0)


def test_a_model_without_a_gpulet_takes_no_time() -> None:
    problem = ServingProblem(OWN)
    assert planned_ms(problem, TABLE, ServingPlan(False), OWN, [DEMAND]) == {}
