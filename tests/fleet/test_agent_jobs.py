"""The agent's part of the fleet's jobs: who keeps them, when the engine's process is there, and what survives."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from edge.core.clock import ManualClock
from edge.core.errors import Conflict, InvalidValue, NotFound, StoreError, Unavailable
from edge.core.fleet_jobs import JobsAsk, JobSubmission, JobWithdrawal
from edge.core.fleet_links import FleetAgreement, FleetBeat, FleetMember
from edge.fleet import engine_messages as msg
from edge.fleet.agent_jobs import AgentJobs, OfficeView
from edge.fleet.folder import FleetFolder
from edge.fleet.links import Links
from edge.settings import FleetSettings, parse

MEMBERS = tuple(FleetMember(name, f"https://{name}:8470", n) for n, name in enumerate(("b1", "b2")))
RAY = {"address": "192.0.2.1", "token": "env:RAY", "certificate": "c", "key": "k", "authority": "a", "folder": "/run/r"}
HEAD = OfficeView("b1", True)


def given(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "demand": {"cpu": 1}, "duration_s": 5.0} | fields


class FakeProcess:
    """The owner's end of a process that does nothing by itself."""

    def __init__(self, on_message: Callable[[Any], None], exited: Callable[[int], None]) -> None:
        self.on_message, self.exited = on_message, exited
        self.pid = 1
        self.sent: list[Any] = []
        self.ended = False

    def send(self, message: Any) -> bool:
        self.sent.append(message)
        self.ended = self.ended or isinstance(message, msg.EngineStop)
        return not self.ended

    def join(self, timeout_s: float) -> bool:
        return self.ended

    def kill(self) -> None:
        self.ended = True

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.sent if isinstance(message, kind)]


class Box:
    """A box's part with a clock that is moved by hand; rounds are made by `look`."""

    def __init__(self, folder: Path, name: str = "b1", **settings: Any) -> None:
        self.clock, self.processes = ManualClock(), list[FakeProcess]()
        self.folder = FleetFolder(folder)
        self.settings = parse(FleetSettings, {"name": name, "token": "env:X"} | settings)
        self.jobs = self.again()

    def again(self) -> AgentJobs:
        """The agent begins anew."""
        agreement = FleetAgreement(members=MEMBERS)
        links = Links(self.folder.path)

        def start(log: Path, on_message: Callable[[Any], None], exited: Callable[[int], None]) -> FakeProcess:
            self.processes.append(FakeProcess(on_message, exited))
            return self.processes[-1]

        self.jobs = AgentJobs(self.settings, self.folder, links, lambda: agreement, self.clock, start)
        return self.jobs

    async def look(self, view: OfficeView = HEAD, after_s: float = 0.0) -> None:
        self.clock.advance(after_s)
        self.jobs.saw(view)
        await self.jobs.look()

    async def heard(self, *messages: Any) -> None:
        """The process that runs sends messages, and the agent makes a round."""
        for message in messages:
            self.processes[-1].on_message(message)
        await asyncio.sleep(0)
        await self.look()

    async def submit(self, job: dict[str, Any]) -> Any:
        return (await self.jobs.submit(JobSubmission(job, "ada"), "b1")).job

    async def rows(self) -> dict[str, Any]:
        return {job.id: job for job in (await self.jobs.report(JobsAsk(), "b1")).jobs}


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path, jobs={"queues": [{"name": "line"}], "tenants": [{"name": "night"}]})


async def test_the_engine_local_adds_no_process_and_no_thread_while_no_job_is_there(box: Box) -> None:
    threads, children = threading.active_count(), psutil.Process().children(recursive=True)
    for _ in range(3):
        await box.look(after_s=5.0)
    assert box.processes == []
    assert (await box.jobs.report(JobsAsk(), "b1")).engine.phase == "off"
    assert threading.active_count() == threads
    assert psutil.Process().children(recursive=True) == children
    await box.submit(given("one"))
    await box.look()
    assert len(box.processes) == 1
    await box.heard(msg.EngineUp(), msg.EngineAnswered("one", 0, "b1", {"held_s": 5.0}), msg.EngineJobOver("one"))
    await box.look(after_s=60.0)
    assert box.processes[0].ended, "nothing of it is left a moment after the last job"
    assert (await box.rows())["one"].phase == "ended"
    await box.submit(given("two"))
    await box.look()
    assert len(box.processes) == 2


async def test_a_job_is_kept_run_and_reported(box: Box) -> None:
    await box.look()
    assert (await box.submit(given("one", tasks=2))).phase == "waiting"
    await box.look()
    (process,) = box.processes
    begin, boxes, job = process.sent
    assert (begin.head_at, begin.fleet["name"]) == ("", "b1")
    assert boxes == msg.EngineBoxes(
        [{"name": "b1", "resources": {"cpu": 1.0}, "labels": {}, "node": "", "drained": False}]
    )
    assert job == msg.EngineJob(given("one", tasks=2), {}, {}, False)
    await box.submit(given("two", after=["one"]))
    assert process.of(msg.EngineJob)[-1].job["id"] == "two"
    waits = {"two": {"code": "signal", "names": ["one"], "wanted": None, "possible": None}}
    row = {"tenant": "night", "resource": "cpu", "wanted": 2.0, "share": 1.0, "used": 1.0}
    await box.heard(msg.EngineUp(), msg.EngineNow(["b1"], {"one": {"0": "b1"}}, waits, [row]))
    report = await box.jobs.report(JobsAsk(), "b1")
    assert (report.head, report.engine.phase, report.engine.boxes) == ("b1", "up", ("b1",))
    assert [t.used for t in report.tenants] == [1.0]
    one, two = report.jobs
    assert (one.phase, one.running, two.phase) == ("running", {0: "b1"}, "waiting")
    assert two.why is not None
    assert two.why.words() == "it begins after one"
    await box.heard(msg.EngineRaised("one", 1, 2, "no such file"))
    assert (await box.rows())["one"].raised[1].why == "no such file"
    written = box.folder.read_json("jobs_report.json")
    assert [job["id"] for job in written["jobs"]] == ["one", "two"]
    refusal = {"code": "full", "names": [], "wanted": 1.0, "possible": 0.0}
    await box.heard(msg.EngineRefused("two", refusal))
    assert (await box.rows())["two"].phase == "refused"


async def test_a_job_that_cannot_be_is_refused_by_its_field(box: Box) -> None:
    await box.look()
    for more, path in (
        ({"queue": "none"}, "queue"),
        ({"tenant": "none"}, "tenant"),
        ({"work": {"program": "none"}}, "work.program"),
        ({"work": {"program": "wait", "arguments": {"seconds": -1}}}, "work.arguments.seconds"),
        ({"after": ["none"]}, "after[0]"),
        ({"colour": "red"}, "colour"),
    ):
        with pytest.raises(InvalidValue) as caught:
            await box.submit(given("one") | more)  # type: ignore[operator]
        assert caught.value.path == path
    assert await box.rows() == {}
    await box.submit(given("one", queue="line", tenant="night"))
    with pytest.raises(Conflict):
        await box.submit(given("one"))
    with pytest.raises(NotFound):
        await box.jobs.withdraw(JobWithdrawal("none", "ada"), "b1")


async def test_a_job_is_withdrawn_where_it_runs_and_at_once_where_nothing_runs(box: Box) -> None:
    await box.look()
    await box.submit(given("one"))
    await box.look()
    await box.heard(msg.EngineUp(), msg.EngineNow(["b1"], {"one": {"0": "b1"}}, {}, []))
    answer = await box.jobs.withdraw(JobWithdrawal("one", "bea"), "b1")
    assert (answer.job.phase, answer.job.withdrawn_by) == ("stopping", "bea")
    assert box.processes[0].sent[-1] == msg.EngineWithdraw("one")
    await box.heard(msg.EngineJobOver("one"))
    assert (await box.rows())["one"].phase == "withdrawn"
    await box.look(after_s=60.0)
    await box.submit(given("two"))
    await box.jobs.withdraw(JobWithdrawal("two", "bea"), "b1")
    box.again()
    await box.look(OfficeView("b2"))
    await box.look(HEAD)
    assert (await box.rows())["two"].phase == "withdrawn"


async def test_jobs_survive_the_engine_and_the_agent(box: Box) -> None:
    await box.look()
    for name, more in (("one", {}), ("half", {"tasks": 3}), ("gone", {})):
        await box.submit(given(name, **more))
    await box.look()
    await box.heard(
        msg.EngineUp(), msg.EngineAnswered("one", 0, "b1", 1), msg.EngineJobOver("one"),
        msg.EngineAnswered("half", 0, "b1", {"n": 1}), msg.EngineCheckpoint("half", 1, {"done_s": 2.0}),
    )  # fmt: skip
    await box.jobs.withdraw(JobWithdrawal("gone", "bea"), "b1")
    box.processes[0].on_message(msg.EngineFailed("the link to Ray ended"))
    box.processes[0].exited(3)
    await asyncio.sleep(0)
    await box.look()
    report = await box.jobs.report(JobsAsk(), "b1")
    assert (report.engine.phase, report.engine.why) == ("failed", "the link to Ray ended")
    assert len(box.processes) == 1, "not at once"
    box.again()
    for _ in range(2):
        await box.look(after_s=30.0)
    process = box.processes[-1]
    assert len(box.processes) == 2
    assert process.of(msg.EngineJob) == [
        msg.EngineJob(given("one"), {"0": "b1"}, {}, False),
        msg.EngineJob(given("half", tasks=3), {"0": "b1"}, {"1": {"done_s": 2.0}}, False),
        msg.EngineJob(given("gone"), {}, {}, True),
    ]
    for old in box.processes[:-1]:
        old.on_message(msg.EngineJobOver("half"))
    await asyncio.sleep(0)
    assert (await box.rows())["half"].phase == "waiting", "an earlier process is not heard any more"
    await box.heard(
        msg.EngineUp(), *(msg.EngineAnswered("half", n, "b1", n) for n in (1, 2)), msg.EngineJobOver("half")
    )
    assert (await box.rows())["half"].phase == "ended"


async def test_the_newest_jobs_that_are_over_are_kept(tmp_path: Path) -> None:
    box = Box(tmp_path, jobs={"keep": 1})
    await box.look()
    for name in ("one", "two"):
        await box.submit(given(name))
    await box.look()
    for name in ("one", "two"):
        box.clock.advance(1.0)
        await box.heard(msg.EngineAnswered(name, 0, "b1", 1), msg.EngineJobOver(name))
    assert list(await box.rows()) == ["two"]
    assert box.processes[0].of(msg.EngineForget) == [msg.EngineForget("one")]


async def test_a_process_that_ends_begins_again_after_growing_pauses(box: Box) -> None:
    await box.look()
    await box.submit(given("one"))
    for ended in range(1, 4):
        await box.look(after_s=300.0)
        assert len(box.processes) == ended
        box.processes[-1].exited(1)
        await asyncio.sleep(0)
        await box.look(after_s=1.0)
        assert len(box.processes) == ended, "it pauses"


async def test_another_head_ends_it_here_and_reports_what_it_does_not_have(box: Box, tmp_path: Path) -> None:
    await box.look()
    await box.submit(given("one"))
    await box.look()
    await box.look(OfficeView("b1", False), 5.0)
    assert not box.processes[0].ended, "it may hear enough boxes again in a moment"
    await box.look(OfficeView("b2", False))
    assert box.processes[0].ended
    assert box.jobs.open_jobs == 1
    assert not (box.folder.path / "jobs_report.json").exists()
    with pytest.raises(Conflict, match="the head is b2"):
        await box.jobs.report(JobsAsk(), "b3")

    other = Box(tmp_path / "other", "b2")
    await other.look(OfficeView("b1", False, open_jobs=3))
    await other.look(OfficeView("b2", True))
    report = await other.jobs.report(JobsAsk(), "b2")
    assert (report.jobs, report.elsewhere) == ((), {"b1": 3}), "as b1 reported last"
    await other.look(OfficeView("b2", True, {"b1": FleetBeat("b1", 2, "boot", open_jobs=box.jobs.open_jobs)}))
    assert (await other.jobs.report(JobsAsk(), "b2")).elsewhere == {"b1": 1}
    assert other.processes == []
    await box.look(HEAD)
    assert [m.job["id"] for m in box.processes[1].of(msg.EngineJob)] == ["one"]


async def test_without_a_head_nothing_is_promised(box: Box) -> None:
    with pytest.raises(Unavailable, match="no head is known"):
        await box.submit(given("one"))
    await box.look(OfficeView("b1", False))
    with pytest.raises(Unavailable, match="less than half"):
        await box.submit(given("one"))
    assert box.processes == []


async def test_a_damaged_file_is_put_aside_and_reported(box: Box) -> None:
    await box.look()
    await box.submit(given("one"))
    (box.folder.path / "jobs.json").write_text("{")
    box.again()
    await box.look()
    report = await box.jobs.report(JobsAsk(), "b1")
    assert (report.damaged, report.jobs) == (True, ())
    assert (box.folder.path / "jobs.json.bak").read_text() == "{"


async def test_with_ray_every_box_is_a_part_and_the_head_hears_of_all(tmp_path: Path) -> None:
    engine = {"kind": "ray", "ray": RAY, "amounts": {"cpu": 2}}
    box = Box(tmp_path / "b1", engine=engine)
    assert (box.jobs.engine_at, box.jobs.amounts) == ("192.0.2.1:8471", {"cpu": 2.0})
    await box.look()
    (process,) = box.processes
    assert process.of(msg.EngineBegin)[0].head_at == ""
    beat = FleetBeat("b2", 1, "boot", amounts={"cpu": 8.0}, labels={"rack": "r"})
    strange = FleetBeat("b3", 1, "boot", amounts={"cpu": 8.0})
    await box.look(OfficeView("b1", True, {"b2": beat, "b3": strange}))
    assert process.of(msg.EngineBoxes)[-1].boxes[1:] == [
        {"name": "b2", "resources": {"cpu": 8.0}, "labels": {"rack": "r"}, "node": "", "drained": False}
    ], "a box that is no member takes nothing"
    bad = FleetBeat("b2", 1, "boot", amounts={"cpu": -1.0})
    await box.look(OfficeView("b1", True, {"b2": bad}))
    assert process.of(msg.EngineBoxes)[-1].boxes[1]["resources"] == {}
    await box.heard(msg.EngineUp(), msg.EngineCost(9, 612.0, 1.9))
    assert box.folder.read("engine_cost.json", msg.EngineCost) == msg.EngineCost(9, 612.0, 1.9)

    # After a power cut the other box is up later: jobs that need it must not be refused for good meanwhile.
    await box.look(OfficeView("b1", True, {"b2": beat}))
    box.again()
    await box.look(OfficeView("b1", True, {}))
    assert box.processes[-1].of(msg.EngineBoxes)[-1].boxes[1]["resources"] == {"cpu": 8.0}
    (box.folder.path / "job_boxes.json").write_text("[")
    box.again()
    await box.look(OfficeView("b1", True, {}))
    assert [row["name"] for row in box.processes[-1].of(msg.EngineBoxes)[-1].boxes] == ["b1"]

    member = Box(tmp_path / "b2", "b2", engine=engine)
    await member.look(OfficeView("b1", False, engine_at="192.0.2.1:8471"))
    assert member.processes[0].sent == [
        msg.EngineBegin(member.settings.model_dump(mode="json"), "192.0.2.1:8471", str(member.folder.path))
    ]
    await member.look(OfficeView(None, False))
    assert not member.processes[0].ended, "Ray ends a part without a head by itself"
    await member.look(OfficeView("b2", True))
    assert member.processes[0].ended
    assert member.processes[1].of(msg.EngineBegin)[0].head_at == ""


async def test_on_kubernetes_the_head_opens_the_engine_and_reports_what_it_waits_for(tmp_path: Path) -> None:
    place = {"fleet": "yard", "namespace": "n", "node": "n1.yard", "image": "i:1"}
    engine = {"kind": "kubernetes", "amounts": {"cpu": 2}, "kubernetes": place}
    box = Box(tmp_path / "b1", engine=engine)
    assert (box.jobs.node, box.jobs.engine_at, box.jobs.amounts) == ("n1.yard", "", {"cpu": 2.0})
    await box.look(OfficeView("b1", True, {"b2": FleetBeat("b2", 1, "boot", amounts={"cpu": 4.0}, node="n2.yard")}))
    (process,) = box.processes
    assert [(row["name"], row["node"]) for row in process.of(msg.EngineBoxes)[-1].boxes] == [
        ("b1", "n1.yard"), ("b2", "n2.yard"),
    ]  # fmt: skip
    for silent in (OfficeView("b1", False, {}), OfficeView("b1", True, {})):
        await box.look(silent)
        assert len(process.of(msg.EngineBoxes)[-1].boxes) == 2, "pods run on while their box is not heard"
    await box.heard(msg.EngineWaits("the lease is held by b9"))
    written = box.folder.read_json("jobs_report.json")["engine"]
    assert (written["phase"], written["why"]) == ("starting", "the lease is held by b9")
    await box.heard(msg.EngineUp())
    assert box.folder.read_json("jobs_report.json")["engine"]["why"] == ""
    await box.heard(msg.EngineWaits("one/0 has not begun on b2: ErrImagePull"))
    process.exited(1)
    await asyncio.sleep(0)
    assert (await box.jobs.report(JobsAsk(), "b1")).engine.why == "its process ended with code 1"
    with pytest.raises(InvalidValue) as caught:
        await box.submit(given("one", demand={"gpu": 0.5}))
    assert caught.value.path == "demand.gpu"
    member = Box(tmp_path / "b2", "b2", engine=engine)
    await member.look(OfficeView("b1", False))
    assert member.processes == [], "a node needs no process"


async def test_a_job_that_cannot_be_kept_is_not_taken(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    await box.look()

    def full(name: str, message: Any) -> None:
        raise StoreError("no space left on the disk")

    monkeypatch.setattr(box.folder, "write", full)
    with pytest.raises(StoreError):
        await box.submit(given("one"))
    assert await box.rows() == {}
    monkeypatch.undo()
    await box.submit(given("one"))


async def test_a_process_that_cannot_be_started_is_tried_again(box: Box) -> None:
    tries: list[Path] = []

    def none_left(log: Path, on_message: Callable[[Any], None], exited: Callable[[int], None]) -> FakeProcess:
        tries.append(log)
        raise OSError("no memory")

    jobs = AgentJobs(box.settings, box.folder, Links(box.folder.path), FleetAgreement, box.clock, none_left)
    box.jobs = jobs
    await box.look()
    await box.submit(given("one"))
    for _ in range(3):
        await box.look()
    report = await jobs.report(JobsAsk(), "b1")
    assert (report.engine.phase, len(tries)) == ("failed", 1)
    assert "no memory" in report.engine.why
    await box.look(after_s=60.0)
    assert len(tries) == 2
