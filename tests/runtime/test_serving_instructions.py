"""The reorganiser's instructions: each is carried out by the part that it concerns."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from serving_parts import CAPS, Supervised, Written, layout, table, version

from edge.core.clock import ManualClock
from edge.core.serving import Gpulet, ModelBatch, ServedModel, ServingPlan, ServingProblem
from edge.core.serving_reasons import Refusal, ServingReason
from edge.runtime.executor_worker import SetVersions
from edge.runtime.serving_instructions import ServingInstructions
from edge.runtime.serving_shares import ServingShares
from edge.runtime.serving_tables import DeviceTables, read_table
from scheduler.gpulets import reorganiser_events as r


class Called:
    """Takes the place of a part: the calls that it got."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda given: self.calls.append((name, given))


class Box:
    def __init__(self, folder: Path) -> None:
        self.written, self.supervisor = Written(), Supervised()
        self.reserved: list[float] = []
        self.executors, self.front, self.loader = Called(), Called(), Called()
        shares = ServingShares(ManualClock(), self.written.events.append, self.reserved.append)
        tables = DeviceTables(folder, CAPS, self.written.complain)
        self.instructions = ServingInstructions(
            self.supervisor, shares, self.executors, self.front, self.loader, tables, lambda: table("a"),  # type: ignore[arg-type]
            self.written.note, self.written.complain,
        )  # fmt: skip


def test_every_instruction_is_known(tmp_path: Path) -> None:
    dispatch = ServingInstructions.__dict__["do"].dispatcher
    unknown = dispatch.dispatch(object)
    assert [kind for kind in get_args(r.Instruction) if dispatch.dispatch(kind) is unknown] == []
    with pytest.raises(TypeError, match="no way to carry out int"):
        Box(tmp_path).instructions.do(3)  # type: ignore[arg-type]


def test_shares_executors_and_routes(tmp_path: Path) -> None:
    box = Box(tmp_path)
    start, routes = r.StartExecutor("executor-0", 0.2, (version("a"),)), layout(version("a"))
    for order in (
        r.ReserveShare(0.2), start, r.ResizeExecutor("executor-0", 0.3), r.SetLayout(routes),
        r.TrimExecutor("executor-0", (version("a"),)), r.StopExecutor("executor-0"),
    ):  # fmt: skip
        box.instructions.do(order)
    assert box.reserved == [0.2]
    assert box.executors.calls == [("start", start), ("stop", "executor-0")]
    assert box.front.calls == [("route", routes)]
    assert box.supervisor.resized == [("executor-0", 0.3)]
    assert box.supervisor.sent == [("executor-0", SetVersions((version("a"),)))]


MORE = ServingReason("more", "a", numbers={"before": 1.0, "now": 2.0})


def test_a_plan_is_recorded_with_the_table_that_it_was_made_from(tmp_path: Path) -> None:
    box = Box(tmp_path)
    plan = ServingPlan(True, (Gpulet(0, 0.2, 50.0, (ModelBatch("a", 1),)),), "toy")
    box.instructions.do(r.RecordServingPlan(ServingProblem((ServedModel("a", 1.0, 100.0, 0),), 1, 1.0), plan, (MORE,)))
    ((kind, data),) = box.written.notes
    assert (kind, data["cause"], data["policy"], data["share"]) == (
        "serving.plan",
        "more requests: a 1 -> 2/s",
        "toy",
        0.2,
    )
    numbers = {"before": 1.0, "now": 2.0}
    assert data["reasons"] == [{"code": "more", "model": "a", "numbers": numbers}]
    assert read_table(Path(data["problem"]["device_file"])) == table("a")


def test_versions_and_notes(tmp_path: Path) -> None:
    box = Box(tmp_path)
    two, three = version("a", "2"), version("a", "3")
    served, failed = r.VersionServed(two), r.VersionFailed(three, "no memory", two)
    for order in (
        served,
        failed,
        r.CappedNote("a", 0.5),
        r.RefusedNote(Refusal("not_measured", "b")),
        r.ExecutorNote("executor_lost", "e1", ("a", "b"), "SIGKILL"),
        r.ExecutorNote("executor_failed", "e1", ("a",), "no memory"),
    ):
        box.instructions.do(order)
    capped = "a is served at 50 % of the rate that is asked: the rest of the share is taken"
    refused = "b: its latencies on this device are not measured yet"
    lost, given_up = "e1 (a, b) was lost: SIGKILL; it is started again", "e1 (a) was given up: no memory"
    assert box.loader.calls == [("served", served), ("version_failed", failed)]
    assert box.written.notes == [
        ("serving.version", {"model": "a", "version": "2"}),
        ("serving.model_capped", {"message": capped, "model": "a", "part": 0.5}),
        ("serving.model_refused", {"message": refused, "model": "b", "code": "not_measured"}),
        ("serving.executor_lost", {"message": lost, "executor": "e1", "reason": "SIGKILL"}),
        ("serving.executor_failed", {"message": given_up, "executor": "e1", "reason": "no memory"}),
    ]
    complaints = [("model_capped", capped), ("model_refused", refused), ("executor_failed", given_up)]
    assert box.written.complaints == complaints, "one that is started again is for the journal alone"
