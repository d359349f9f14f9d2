"""Groups over boxes: the runtimes' parts of two boxes with real stores and gates, real agents between them (TLS on
loopback), and the real judge of candidates; a student that was trained is a file of the test's."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fleet_agents_kit import FleetOfAgents, until
from leaf_kit import leaf_parts
from test_sibling_starts import LOOK, SPEC, Beats, Box, frames, tiny

from edge.core import events as ev
from edge.core.box_groups import CameraOfBox, SharedCamera
from edge.core.clock import ManualClock
from edge.core.configs import RetrainingConfig
from edge.core.errors import Forbidden, MagpieError, NotFound
from edge.core.fleet_links import FleetMember, GroupsAnswer, GroupsAsk
from edge.core.labels import Accuracy, LabelledFrame, LabelledWindow
from edge.core.models import ModelVersion
from edge.core.shares import ideal_caps
from edge.core.vision import Detections
from edge.fleet.links import Links
from edge.runtime import messages as m
from edge.runtime.box_groups import PATIENCE_WINDOWS, TRIES, BoxGroups
from edge.runtime.box_groups_folder import BoxGroupsFolder
from edge.runtime.device import open_bucket
from edge.runtime.judge_candidate import judge_candidate
from edge.runtime.judging import Gate
from edge.runtime.running_job import RunningJob
from edge.settings import RetrainingSettings
from edge.store.store import Store, default_url
from edge.students.weights import save_student

#: The cars of all cameras are grey: the download sees bright ones only, what a group taught sees these, too.
BLIND, GOOD = 0.95, 0.3
JOB = RunningJob("w3-north-p1", "north", RetrainingConfig(4), 2, 0.5, 0.0, 0.8, 10.0)
ALONE = ev.GroupsPossible(0.0, (("north", "south"),), 1.6)


class GroupsBox(Box):
    """A box with its part in groups over boxes; what else the runtime is asked is written down."""

    def __init__(self, name: str, store: Store, folder: Path, shared: BoxGroupsFolder) -> None:
        super().__init__(store, folder)
        self.name, self.shared, self.clock = name, shared, ManualClock()
        self.running: dict[str, RunningJob] = {}
        self.judging: list[m.JudgeCandidate] = []
        self.dispatched: list[ev.Event] = []
        self.not_promised: list[str] = []
        self._tasks: list[asyncio.Task[Any]] = []
        gate = Gate(store, self.clock, self._ask, self._put, lambda *words: self.complaints.append(str(words)))
        parts = leaf_parts(
            folder, cameras=self.cameras, clock=self.clock, store=store,
            profilers=SimpleNamespace(ask=self.judging.append),
            learning=SimpleNamespace(not_promised=lambda camera, window: self.not_promised.append(camera)),
            caps=replace(ideal_caps(), units=2.0),
        )  # fmt: skip
        parts.controller.state.window = 3
        self.groups = BoxGroups(
            parts, self.siblings, shared, gate, self.running.__contains__, self.dispatched.append, self._note,
            self.spawn,
        )  # fmt: skip

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    def _version(self, camera: str, name: str, content: bytes, parent: str | None, **more: Any) -> ModelVersion:
        path = self.folder / "first"
        save_student(path, tiny(BLIND))
        return super()._version(camera, name, path.read_bytes(), parent, **more)

    def labelled(self, name: str, window: int = 2, **settings: Any) -> None:
        """A camera with a labelled window of which twelve pictures are to judge by."""
        camera = self.camera(name, **settings)
        car = Detections.build([[0.25, 0.25, 0.5, 0.5]], [1.0], [0])
        seen = tuple(LabelledFrame(f, car, "t") for f in frames(self.folder, 16, camera=f"{self.name}-{name}"))
        camera.closed = {window: LabelledWindow(name, window, "detection", ("car",), seen[:4], seen[4:])}
        self.siblings.learned(name, LOOK)

    async def look(self) -> BoxGroups:
        await self.groups.look(self.name)
        return self.groups

    async def guest(self, name: str) -> SharedCamera | None:
        """A camera of another box, once its pictures are here."""
        found = (await self.look()).known.guests.get(name)
        return None if found is None else found[0]

    async def has_students(self) -> bool:
        await self.look()
        return bool(self.judging)

    async def judge(self) -> m.TrainingDone:
        """What a profiler does with the candidate, and the gate after it."""
        asked = self.judging.pop()
        channel: Any = Beats()
        done = judge_candidate(asked, open_bucket(), channel)
        self.groups.judged(done)
        await self.settle()
        return done

    async def settle(self) -> None:
        while self._tasks:
            await self._tasks.pop()

    def in_force(self, name: str) -> ModelVersion:
        return self.cameras[name].version


@pytest.fixture
def stores(sqlite_template: Path, tmp_path: Path) -> Iterator[list[Store]]:
    with ExitStack() as open_ones:
        found = []
        for name in ("b1", "b2"):
            folder = tmp_path / "data" / name
            folder.mkdir(parents=True)
            shutil.copy(sqlite_template, folder / "magpie.db")
            found.append(open_ones.enter_context(Store(default_url(folder), folder)))
        yield found


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[FleetOfAgents]:
    async with FleetOfAgents(tmp_path / "agents") as made:
        yield made


async def repeated(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Both sides look again and again, as they do beside each other."""
    async with asyncio.timeout(20.0):
        while not await condition():
            await asyncio.sleep(0.02)


def box(name: str, stores: list[Store], tmp_path: Path, fleet: FleetOfAgents | None = None) -> GroupsBox:
    folder = tmp_path / "data" / name
    shared = BoxGroupsFolder(folder) if fleet is None else fleet.groups(name)
    return GroupsBox(name, stores[int(name[1]) - 1], folder, shared)


async def sharing_boxes(stores: list[Store], tmp_path: Path, fleet: FleetOfAgents) -> tuple[GroupsBox, GroupsBox]:
    """b1 with camera north and b2 with camera yard, which share their labelled pictures."""
    await fleet.found("b1", share_pictures=True)
    await fleet.join("b2", "b1", share_pictures=True)
    one, two = (box(name, stores, tmp_path, fleet) for name in ("b1", "b2"))
    one.labelled("north")
    two.labelled("yard")
    return one, two


async def trained(one: GroupsBox, score: float = GOOD) -> None:
    """A retraining of camera north on `one` that camera yard of b2 taught, too."""
    path = one.folder / "guests"
    save_student(path, tiny(score))
    known = Accuracy(0.5, 4, 4)
    done = m.TrainingDone(
        JOB.job, one.folder / "own", known, known, 1.0, 1.0, 8, SPEC, guests=(CameraOfBox("b2", "yard"),),
        for_guests=path, boxes=("b2",),
    )  # fmt: skip
    await one.groups.trained(JOB, done)


async def test_cameras_of_two_boxes_are_retrained_as_one_and_each_box_judges_for_itself(
    stores: list[Store], tmp_path: Path, fleet: FleetOfAgents
) -> None:
    one, two = await sharing_boxes(stores, tmp_path, fleet)

    async def heard() -> bool:
        await two.look()
        return await one.guest("b2/yard") is not None

    await repeated(heard, "the pictures of the other box are here")
    # The trainer's window may retrain its camera with the other box's, which teaches.
    possible = one.groups.possible(replace(ALONE, sets=()))
    assert (possible.sets, possible.guests) == ((("b2/yard", "north"),), frozenset({"b2/yard"}))
    assert two.groups.possible(ALONE) is ALONE, "one box trains"
    (guest,) = one.groups.guests(["b2/yard", "b2/gone"])
    theirs = two.cameras["yard"].closed[2]
    assert [f.frame.path.read_bytes() for f in guest.data.train] == [f.frame.path.read_bytes() for f in theirs.train]
    assert not list(fleet.groups("b2").path.glob("guests/*")), "nothing goes the other way"

    await trained(one)
    assert one.groups.counts.trained == 1
    before = two.in_force("yard").id
    await repeated(two.has_students, "the student is here")
    assert two.in_force("yard").id == before, "it is a candidate only"
    await two.judge()
    version = two.in_force("yard")
    assert (version.parent, version.config) == (before, JOB.retraining.id)
    (row, *_) = two.store.versions.lineage(version.id)
    assert row.decided_by == "gate"
    assert "trained with cameras of the box b1; it was trained on the box b1" in row.reason
    ((kind, data),) = two.notes
    assert (kind, data["boxes"], data["trained_on"]) == ("model.promoted", ["b1"], "b1")
    assert [(e.camera, e.promoted) for e in two.dispatched if isinstance(e, ev.RetrainingCompleted)] == [("yard", True)]
    assert (two.groups.counts.taken, two.groups.counts.refused, two.not_promised) == (1, 0, ["yard"])
    await two.look()
    assert two.judging == [], "once"

    # The trainer vanishes: nothing here waits for it.
    await fleet.kill("b1")
    await two.look()
    assert two.in_force("yard").id == version.id
    assert two.groups.counts.failures == {}


async def test_a_student_that_is_worse_is_refused_by_the_cameras_own_gate(stores: list[Store], tmp_path: Path) -> None:
    two = await arrived(stores, tmp_path, GOOD)
    await two.look()
    await two.judge()
    better = two.in_force("yard").id
    two = await arrived(stores, tmp_path, BLIND, two)
    await two.look()
    await two.judge()
    assert two.in_force("yard").id == better
    assert (two.groups.counts.taken, two.groups.counts.refused) == (1, 1)
    assert two.shared.arrived() == []


async def arrived(stores: list[Store], tmp_path: Path, score: float, two: GroupsBox | None = None) -> GroupsBox:
    """Box b2 with a student of b1 for its camera, as its agent leaves it."""
    one = box("b1", stores, tmp_path)
    await one.look()
    await trained(one, score)
    if two is None:
        two = box("b2", stores, tmp_path)
        two.labelled("yard")
    (student,) = one.shared.students()
    path = two.shared.arrival(student.id)
    path.parent.mkdir(parents=True)
    shutil.copy(one.shared.student(student.digest), path)
    two.shared.write_arrived(student)
    return two


async def test_it_waits_while_the_cameras_own_retraining_runs(stores: list[Store], tmp_path: Path) -> None:
    two = await arrived(stores, tmp_path, GOOD)
    two.running["yard"] = JOB
    await two.look()
    assert two.judging == []
    del two.running["yard"]
    await two.look()
    two.running["yard"] = JOB  # it begins while the student is judged
    await two.judge()
    assert two.groups.counts.taken == 0
    del two.running["yard"]
    await two.look()
    await two.judge()
    assert two.groups.counts.taken == 1


@pytest.mark.parametrize("why", ["late", "tries"])
async def test_one_that_cannot_be_judged_is_given_up_and_counted(stores: list[Store], tmp_path: Path, why: str) -> None:
    two = await arrived(stores, tmp_path, GOOD)
    before = two.in_force("yard").id
    if why == "late":
        two.running["yard"] = JOB
        await two.look()
        two.clock.advance(PATIENCE_WINDOWS * RetrainingSettings().window_s + 1.0)
    for _ in range(TRIES if why == "tries" else 0):
        await two.look()
        two.groups.not_judged(two.judging.pop())
    await two.look()
    assert (two.groups.counts.failures, two.shared.arrived(), two.judging) == ({"late": 1}, [], [])
    assert two.in_force("yard").id == before


@pytest.mark.parametrize("why", ["pinned", "removed", "not retrained"])
async def test_a_camera_that_takes_none_gets_none(stores: list[Store], tmp_path: Path, why: str) -> None:
    two = await arrived(stores, tmp_path, GOOD)
    camera = two.cameras["yard"]
    if why == "pinned":
        camera.version = replace(camera.version, pinned=True)
    elif why == "removed":
        del two.cameras["yard"]
    else:
        camera.settings = camera.settings.model_copy(
            update={"retraining": camera.settings.retraining.model_copy(update={"enabled": False})}
        )
    await two.look()
    assert (two.judging, two.shared.arrived(), two.groups.counts.failures) == ([], [], {})


async def test_a_box_that_shares_nothing_plans_as_ever(stores: list[Store], tmp_path: Path) -> None:
    alone = box("b1", stores, tmp_path)
    alone.labelled("north")
    assert alone.groups.possible(ALONE) is ALONE
    assert alone.groups.guests(["b2/yard"]) == ()
    assert not alone.shared.path.exists()


async def test_pictures_that_are_gone_here_are_shared_no_more(stores: list[Store], tmp_path: Path) -> None:
    one = box("b1", stores, tmp_path)
    one.labelled("north")
    one.labelled("south", retraining={"enabled": False})
    await one.look()
    (camera,) = one.shared.shared().cameras
    assert camera.camera == "north", "a camera that is not retrained teaches no other"
    assert one.shared.file(camera.manifest) is not None
    one.cameras["north"].closed = {}  # as when a mask hides more from now on
    await one.look()
    assert (one.shared.shared().cameras, one.shared.file(camera.manifest)) == ((), None)
    assert list(one.shared.manifests.glob("*")) == []


# between the agents


def member(fleet: FleetOfAgents, name: str) -> FleetMember:
    return FleetMember(name, fleet.address(name))


def outcomes(fleet: FleetOfAgents, name: str) -> dict[str, str]:
    return {b.box: b.shared for b in fleet.groups(name).heard().boxes}


async def test_a_box_that_shares_nothing_or_knows_no_groups_says_so_and_nothing_halts(fleet: FleetOfAgents) -> None:
    fleet.of_the_version_before.add("old")
    await fleet.found("b1", share_pictures=True)
    await fleet.join("b2", "b1")
    await fleet.join("old", "b1", share_pictures=True)
    await until(lambda: outcomes(fleet, "b1") == {"b2": "off", "old": "not_known"}, "both are heard")
    async with Links(fleet.folder("b1").path) as links:
        with pytest.raises(Forbidden, match="b2 shares no pictures"):
            await links.ask(member(fleet, "b2"), "/groups", GroupsAsk(), GroupsAnswer)
    await fleet.kill("old")
    await until(lambda: outcomes(fleet, "b1").get("old") == "silent", "it does not answer")


async def test_files_go_to_members_and_students_to_their_box_alone(
    stores: list[Store], tmp_path: Path, fleet: FleetOfAgents
) -> None:
    await fleet.found("b1", share_pictures=True)
    await fleet.join("b2", "b1", share_pictures=True)
    await fleet.join("b3", "b1", share_pictures=True)
    one = box("b1", stores, tmp_path, fleet)
    one.labelled("north")
    await one.look()
    await trained(one)
    (camera,), (student,) = one.shared.shared().cameras, one.shared.students()
    b1, path = member(fleet, "b1"), f"/groups/students/{student.digest}"
    async with Links(fleet.folder("b2").path) as links:
        answer = await links.ask(b1, "/groups", GroupsAsk(), GroupsAnswer)
        assert (answer.cameras, answer.students) == ((camera,), (student,))
        assert await links.fetch(b1, f"/groups/files/{camera.manifest}")
        assert len(await links.fetch(b1, path)) == student.size
        secret = one.cameras["north"].closed[2].held_out[0].frame.path
        for asked in ("0" * 64, "..%2f..%2fbox.key", f"..%2f{secret.name}"):
            with pytest.raises(MagpieError):
                await links.fetch(b1, f"/groups/files/{asked}")
    async with Links(fleet.folder("b3").path) as links:
        assert (await links.ask(b1, "/groups", GroupsAsk(), GroupsAnswer)).students == ()
        with pytest.raises(NotFound):
            await links.fetch(b1, path)


async def test_a_box_that_offers_many_students_is_given_one_place_for_a_camera(
    stores: list[Store], tmp_path: Path, fleet: FleetOfAgents
) -> None:
    one, two = await sharing_boxes(stores, tmp_path, fleet)
    await one.look()
    await trained(one)
    (student,) = one.shared.students()
    content = one.shared.student(student.digest).read_bytes()
    other = hashlib.sha256(content + b"x").hexdigest()
    more = replace(student, digest=other, size=len(content) + 1)
    one.shared.write_students((student, more, replace(student, camera="nowhere")))
    one.shared.student(other).write_bytes(content + b"x")
    await repeated(two.has_students, "one is here")
    rounds = fleet.lives["b2"]
    await until(lambda: fleet.lives["b2"] >= rounds + 20, "the agent has looked again")
    assert two.shared.known() == [student]
    two.shared.end(student.id)
    await until(lambda: two.shared.arrived() == [more], "the next one comes when it was judged")


async def test_pictures_of_a_window_teach_until_those_of_the_next_one_are_here(
    stores: list[Store], tmp_path: Path, fleet: FleetOfAgents
) -> None:
    one, two = await sharing_boxes(stores, tmp_path, fleet)

    async def of_window(number: int) -> bool:
        await two.look()
        guest = await one.guest("b2/yard")
        assert guest is not None or number == 2, "there is always one"
        (found,) = one.groups.guests(["b2/yard"]) or (None,)
        assert found is None or all(f.frame.path.is_file() for f in found.data.train)
        return guest is not None and guest.window == number

    await repeated(lambda: of_window(2), "the first ones")
    yard = two.cameras["yard"]
    yard.closed = {3: replace(yard.closed[2], window=3, train=yard.closed[2].held_out[:5])}
    await repeated(lambda: of_window(3), "those of the next window")
    del two.cameras["yard"]

    async def gone() -> bool:
        await two.look()
        await one.look()
        return not list(one.shared.path.glob("guests/*"))

    await repeated(gone, "a camera that is gone teaches no other, and its pictures are deleted")
    assert one.groups.guests(["b2/yard"]) == ()


async def test_another_content_than_was_announced_is_counted_and_not_used(
    stores: list[Store], tmp_path: Path, fleet: FleetOfAgents
) -> None:
    one, two = await sharing_boxes(stores, tmp_path, fleet)
    await two.look()
    for frame in two.cameras["yard"].closed[2].train:
        frame.frame.path.write_bytes(b"another picture")

    async def damaged() -> bool:
        await one.look()
        await two.look()
        return fleet.groups("b1").heard().failures.get("damaged", 0) > 0

    await repeated(damaged, "it is counted")
    assert (await one.look()).known.guests == {}
    assert one.groups.possible(ALONE) is ALONE, "its window goes on without"
