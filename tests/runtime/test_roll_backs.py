"""Roll-backs and failed switches, from who asks for them to what answers: real store, boundary, gate and hot swap.

Of the camera's worker only its student and its loop are stood in for."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Awaitable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leaf_kit import UNASKED, ignored, leaf_parts
from runtime_kit import until
from test_versions import Site

from edge.core.clock import SystemClock
from edge.core.errors import Conflict, MagpieError, WeightsError
from edge.core.labels import Accuracy
from edge.core.roll_backs import RollBackReason
from edge.runtime import messages as m
from edge.runtime.boundary import Boundary
from edge.runtime.hot_swap import HotSwap
from edge.runtime.judging import Gate
from edge.runtime.tasks import BackgroundTasks
from edge.settings import RetrainingSettings
from edge.store.store import Store, default_url


class Live:
    """A student that is prepared from a file unless the file is `bad`; `answering` is what frames are answered with."""

    def __init__(self, answering: str) -> None:
        self.answering = answering
        self.bad: set[str] = set()
        self.held: threading.Event | None = None

    def prepare(self, path: Path) -> str:
        if self.held is not None:
            assert self.held.wait(20)
        version = path.read_bytes().decode()
        if version in self.bad:
            raise WeightsError(f"{version}: does not load")
        return version

    def swap(self, student: str, version: str) -> None:
        self.answering = version


class Box(Site):
    """A site whose camera's worker is a real hot swap, with the boundary and the gate beside it."""

    def __init__(self, store: Store, folder: Path) -> None:
        super().__init__(store)
        self.folder = folder
        self.a = self.camera()
        self.live = Live("a-first")
        self.complaints: list[str] = []
        self.tasks = BackgroundTasks(lambda code, words: self.complaints.append(words))
        self._swap = HotSwap(self.live, self._answered, lambda: False)  # type: ignore[arg-type]
        self.gate = Gate(
            store, SystemClock(), self.records.ask, self.versions.put_in_force,
            lambda code, words, camera: self.complaints.append(words),
        )  # fmt: skip
        parts = leaf_parts(
            folder, RetrainingSettings(rollback_margin=0.05), store=store, records=self.records, cameras=self.cameras
        )
        siblings: Any = SimpleNamespace(learned=ignored)
        self.boundary = Boundary(parts, UNASKED, UNASKED, self.versions, siblings, ignored, ignored, self.tasks.spawn)

    def _answered(self, message: m.Swapped | m.SwapFailed) -> None:
        result = MagpieError(message.reason) if isinstance(message, m.SwapFailed) else message
        self.versions.switched("a", result)

    def _send(self, worker: str, message: m.Swap) -> bool:
        if not self.a.worker_up:
            return False
        self.swaps.append(message)
        self._swap.begin(message)

        async def frames() -> None:
            while self._swap.under_way:
                self._swap.switch_if_ready()
                await asyncio.sleep(0.001)

        self.tasks.spawn(frames(), "the worker's loop")
        return True

    async def promoted(self, version: str = "a-2", parent: str = "a-first") -> None:
        await self.put(self.a, self.made(version, "a", parent))
        assert self.live.answering == self.in_force() == version

    def evaluated(self, live: float, parent: float, version: str = "a-2", frames: int = 100) -> m.Evaluated:
        self.store.windows.open_window(0.0, 100.0, "relay", number=3)
        return m.Evaluated("a", 3, version, None, None, *(Accuracy(x, frames, 300) for x in (live, parent)))

    async def quiet(self) -> None:
        """Wait until each task has asked the store and ordered its switch."""
        for _ in range(5):
            await self.records.ask(self.store.versions.version, "a-first")

    def state(self, version: str) -> str:
        return next(v.state for v in self.store.versions.newest("a") if v.id == version)

    def settled(self, version: str) -> bool:
        """Record, state and answering version are one, and nothing is under way."""
        return self.in_force() == self.a.version.id == self.live.answering == version and not self._swap.under_way


@pytest.fixture
def store(sqlite_template: Path, tmp_path: Path) -> Iterator[Store]:
    shutil.copy(sqlite_template, tmp_path / "magpie.db")
    with Store(default_url(tmp_path), tmp_path) as made:
        yield made


@pytest.fixture
async def box(store: Store, tmp_path: Path) -> Box:
    return Box(store, tmp_path)


async def test_an_operator_rolls_back_and_the_older_student_answers(box: Box) -> None:
    await box.promoted()
    await box.versions.roll_back(box.a, None, "olga", RollBackReason.asked("it misses buses"))
    assert box.settled("a-first")
    assert box.state("a-2") == "rolled_back"
    assert box.changed == [("a", "camera_rolled_back")]


async def test_a_student_far_worse_than_its_parent_is_rolled_back_by_itself(box: Box) -> None:
    await box.promoted()
    box.boundary.evaluated(box.evaluated(0.40, 0.70))
    await until(lambda: box.settled("a-first"), "the parent answers again")
    await until(lambda: any(kind == "model.rolled_back" for kind, _, _ in box.notes), "the journal says so")
    assert box.state("a-2") == "rolled_back"
    ((camera, said),) = [(camera, said) for kind, camera, said in box.notes if kind == "model.rolled_back"]
    assert (camera, said["version"], said["by"]) == ("a", "a-first", "automatic roll-back")
    assert "under its parent" in said["reason"]
    assert box.boundary.measured[3] == {"a"}


@pytest.mark.parametrize(("live", "parent", "frames"), [(0.66, 0.70, 100), (0.70, 0.40, 100), (0.0, 1.0, 4)])
async def test_one_that_is_not_clearly_worse_stays(box: Box, live: float, parent: float, frames: int) -> None:
    await box.promoted()
    box.boundary.evaluated(box.evaluated(live, parent, frames=frames))
    await box.quiet()
    assert box.settled("a-2")
    assert len(box.swaps) == 1


async def test_a_pinned_one_and_one_that_is_no_longer_in_force_are_not_rolled_back(box: Box) -> None:
    await box.promoted()
    box.boundary.evaluated(box.evaluated(0.1, 0.9, version="a-first"))
    await box.versions.pin("a-2", True, "olga")
    box.boundary.evaluated(m.Evaluated("a", 3, "a-2", None, None, Accuracy(0.1, 100, 300), Accuracy(0.9, 100, 300)))
    await box.quiet()
    assert box.settled("a-2")
    assert box.complaints == []


async def test_what_comes_into_force_meanwhile_is_not_rolled_back_in_its_place(box: Box) -> None:
    await box.promoted()
    async with box.a.judging:
        box.boundary.evaluated(box.evaluated(0.1, 0.9))
        await box.promoted("a-3", "a-2")
    await until(lambda: not box.a.judging.locked())
    await box.quiet()
    assert box.settled("a-3")
    assert box.state("a-2") == "retired"


def done(box: Box) -> m.TrainingDone:
    path = box.folder / "candidate"
    path.write_bytes(b"candidate")
    good, before = Accuracy(0.9, 100, 300), Accuracy(0.4, 100, 300)
    return m.TrainingDone("job", path, good, before, 0.0, 1.0, 6, box.a.version.spec)


async def test_a_better_student_that_does_not_load_is_reported_and_not_promoted(box: Box) -> None:
    box.live.bad = {"candidate"}
    judged = await box.gate.judge(box.a, done(box), "head", 3, 0.0, "p1")
    assert not judged.promoted
    assert "does not load" in judged.reason
    assert box.settled("a-first")
    assert box.state(judged.version) == "rolled_back"
    assert ["could not be put in force" in words for words in box.complaints] == [True]
    assert not (box.folder / "candidate").exists()
    box.live.bad = set()
    judged = await box.gate.judge(box.a, done(box), "head", 4, 0.0, "p2")
    assert judged.promoted, "the next one is judged as ever"
    assert box.settled(judged.version)


@pytest.mark.parametrize("asked", ["operator", "boundary"])
async def test_a_roll_back_whose_switch_fails_leaves_what_answers_in_force(box: Box, asked: str) -> None:
    await box.promoted()
    box.live.bad = {"a-first"}
    if asked == "operator":
        with pytest.raises(MagpieError, match="does not load"):
            await box.versions.roll_back(box.a, None, "olga", RollBackReason.asked(""))
    else:
        box.boundary.evaluated(box.evaluated(0.1, 0.9))
        await until(lambda: box.complaints, "it is reported")
        assert "does not load" in box.complaints[0]
    assert box.settled("a-2")
    assert box.state("a-first") == "retired"
    assert "model.rolled_back" not in [kind for kind, _, _ in box.notes]
    assert box.changed == []
    box.live.bad = set()
    await box.versions.roll_back(box.a, None, "olga", RollBackReason.asked("again"))
    assert box.settled("a-first")


@pytest.mark.parametrize("dies", ["before", "meanwhile"])
async def test_a_worker_that_is_not_there_starts_with_the_older_student(box: Box, dies: str) -> None:
    await box.promoted()
    if dies == "before":
        box.a.worker_up = False
        await box.versions.roll_back(box.a, None, "olga", RollBackReason.asked(""))
    else:
        box.live.held = threading.Event()
        back = asyncio.create_task(box.versions.roll_back(box.a, None, "olga", RollBackReason.asked("")))
        await until(lambda: len(box.swaps) == 2)
        await asyncio.sleep(0)
        box.a.worker_up = False
        box.versions.switched("a", MagpieError("its worker died while the model was switched"))
        await back
        box.live.held.set()
    assert box.in_force() == box.a.version.id == "a-first"
    assert box.notes[-1][0] == "model.rolled_back"


async def test_a_roll_back_waits_for_what_is_being_judged(box: Box) -> None:
    await box.promoted()
    order: list[str] = []

    async def noting(name: str, work: Awaitable[Any]) -> None:
        await work
        order.append(name)

    box.live.held = threading.Event()
    judging = asyncio.create_task(noting("gate", box.gate.judge(box.a, done(box), "head", 3, 0.0, "p1")))
    await until(lambda: len(box.swaps) == 2, "the gate switches")
    asked = box.versions.roll_back(box.a, None, "olga", RollBackReason.asked(""))
    back = asyncio.create_task(noting("operator", asked))
    await box.quiet()
    assert len(box.swaps) == 2
    box.live.held.set()
    await asyncio.gather(judging, back)
    assert order == ["gate", "operator"]
    assert box.in_force() == box.a.version.id == "a-2"
    with pytest.raises(Conflict, match="in force already"):
        await box.versions.roll_back(box.a, "a-2", "olga", RollBackReason.asked(""))
