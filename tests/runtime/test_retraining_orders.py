"""Retrainings, the gate and roll-backs under orders, results and deaths as they may come, over a real store.

The store's thread, the trainers and the camera workers do one step when a rule says so: nothing here depends on time.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from examples_kit import tried
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from leaf_kit import UNASKED, ignored
from test_sibling_starts import SPEC

from edge.core import events as ev
from edge.core.clock import ManualClock, SystemClock
from edge.core.configs import RetrainingConfig
from edge.core.errors import MagpieError
from edge.core.labels import Accuracy
from edge.core.models import ModelVersion
from edge.core.profiles import Estimate, RetrainingProfile
from edge.core.roll_backs import AUTOMATIC, RollBackReason
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime, assumed_profile
from edge.runtime.camera_workers import CameraWorkers
from edge.runtime.judging import Gate
from edge.runtime.retrainings import Retrainings
from edge.runtime.versions import Versions
from edge.settings import CameraSettings
from edge.store.retention import DAY_S, RetentionLimits
from edge.store.store import Store, default_url

CONFIG = RetrainingConfig(epochs=4)
PROFILE = RetrainingProfile(CONFIG, 0.5, Estimate.exact(0.7), Estimate.exact(10.0))
CAMERAS = st.sampled_from(["a", "b"])
UNDER = RollBackReason("under_parent", 0.4, 0.7, 100, 0.05)


class Behind:
    """Stands where the store's thread is: calls wait in their order, and `step` makes the next one."""

    def __init__(self) -> None:
        self.calls: deque[tuple[Callable[[], Any], asyncio.Future[Any] | None]] = deque()
        self.ended: Counter[str] = Counter()

    async def ask(self, call: Callable[..., Any], *args: Any, **more: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.calls.append((partial(call, *args, **more), future))
        return await future

    def write(self, call: Callable[..., Any], *args: Any, **more: Any) -> None:
        if call.__name__ == "end_job":
            self.ended[args[0]] += 1
        self.calls.append((partial(call, *args, **more), None))

    def step(self) -> None:
        call, future = self.calls.popleft()
        try:
            found = call()
        except MagpieError as error:
            if future is None:
                raise AssertionError(f"a write failed: {error}") from error
            future.set_exception(error)
        else:
            if future is not None:
                future.set_result(found)


class Trainer:
    """A camera's training process."""

    def __init__(self, job: m.RetrainingJob, says: Callable[[Any], None], given_up: Callable[[str], None]) -> None:
        self.job, self.says, self.given_up = job, says, given_up
        self.handed_over = False
        self.stopped = False
        self.gone = asyncio.Event()


class Workers:
    """Stands where the supervisor is: a trainer lives until it has answered, fails, or is stopped; a camera's worker
    until it is stopped."""

    def __init__(self) -> None:
        self.alive: dict[str, Trainer] = {}
        #: Of each camera's worker the switches that it was asked for.
        self.swaps: dict[str, deque[m.Swap]] = {}

    def has(self, name: str) -> bool:
        return name in self.alive

    def start(self, worker: Any, share: float, main: Any, job: Any, says: Any, *, on_given_up: Any, **_: Any) -> None:
        assert worker.name not in self.alive, "two trainers of one camera"
        self.alive[worker.name] = Trainer(job(), says, on_given_up)

    def resize(self, name: str, share: float) -> None: ...

    def send(self, name: str, message: m.FinishNow) -> bool:
        return name in self.alive and not self.alive[name].stopped

    async def stop(self, name: str, *rest: Any) -> None:
        await asyncio.sleep(0)
        self.swaps.pop(name, None)
        trainer = self.alive.get(name)
        if trainer is not None:
            trainer.stopped = True
            await trainer.gone.wait()

    def end(self, name: str) -> None:
        self.alive.pop(name).gone.set()


class Box:
    """Two cameras with data of window 1; retrainings, gate and versions over a real store."""

    def __init__(self, store: Store, folder: Path, clock: ManualClock) -> None:
        self.store, self.folder, self.clock = store, folder, clock
        store.windows.open_window(clock.utc(), 100.0, "relay", number=2)
        self.records, self.trainers = Behind(), Workers()
        self.cameras: dict[str, CameraRuntime] = {}
        #: Kinds of the journal's entries about each camera since it was added last.
        self.notes: dict[str, list[str]] = {}
        self.events: list[Any] = []
        self.errors: list[BaseException] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.versions = Versions(
            store, self.records, self._send, self.cameras, self.note, lambda fact: None,  # type: ignore[arg-type]
            lambda: 2, lambda camera, what: None,
        )  # fmt: skip
        gate = Gate(store, clock, self.records.ask, self.versions.put_in_force, lambda code, words, camera: None)

        async def no_judge(*_: Any) -> None: ...

        parts: Any = SimpleNamespace(
            cameras=self.cameras, clock=clock, supervisor=self.trainers, store=store, fact=ignored,
            site=SimpleNamespace(data_dir=folder), records=self.records,
            student=lambda version: None, download=lambda camera: None,
            controller=SimpleNamespace(state=SimpleNamespace(window=2)), camera=self.cameras.__getitem__,
            learning=SimpleNamespace(unprofiled_retrainings=0, forget=ignored),
            golden=SimpleNamespace(labels=SimpleNamespace(forget_camera=ignored)),
            window=SimpleNamespace(settings=SimpleNamespace(gate_tolerance=0.0)),
            shares=SimpleNamespace(
                cores=2.0, quantized=lambda share: share,
                partitioner=SimpleNamespace(caps=SimpleNamespace(min_share=0.01, resize="live")),
            ),
        )  # fmt: skip
        preparation: Any = SimpleNamespace(retrained=ignored)
        siblings: Any = SimpleNamespace(starts=lambda camera: (), forget=ignored)
        groups: Any = SimpleNamespace(members=lambda order: (), judge=no_judge)
        borrowing: Any = SimpleNamespace(has=lambda job: False, judges=lambda job: False)
        self.retrainings = Retrainings(
            parts, preparation, siblings, groups, UNASKED, borrowing, gate, self.events.append, self.note, self.spawn
        )
        self.camera_workers = CameraWorkers(
            parts, self.versions, siblings, self.retrainings.forget_camera, ignored, self.events.append, self.note,
            ignored, ignored,
        )  # fmt: skip

    def note(self, kind: str, *, camera: str, **_: Any) -> None:
        self.notes[camera].append(kind)

    def join(self, name: str) -> None:
        """A camera is added, or comes back: the version in force is the recorded one."""
        found = self.store.versions.promoted(name)
        if found is None:
            first = ModelVersion(f"{name}-first", name, "", SPEC, self.clock.utc(), window=1)
            found = self.store.versions.promote(self.store.add_model(first, f"{name}-first".encode()).id, "test", "")
        given = CameraSettings(id=name, name=name, url="rtsp://127.0.0.1/x", classes=["car"])
        camera = CameraRuntime(given, found, found, assumed_profile(given.inference, 1.0), worker_up=True)
        camera.closed, camera.profiles = {1: "data"}, {CONFIG.id: PROFILE}  # type: ignore[dict-item]
        self.cameras[name], self.notes[name], self.trainers.swaps[camera.worker] = camera, [], deque()

    async def remove(self, name: str) -> None:
        """As the appliance does."""
        await self.camera_workers.remove(name)
        self.notes[name].append("camera.removed")

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, MagpieError):
            self.errors.append(error)

    def _send(self, worker: str, message: m.Swap) -> bool:
        down = any(camera.worker == worker and not camera.worker_up for camera in self.cameras.values())
        if down or worker not in self.trainers.swaps:
            return False
        self.trainers.swaps[worker].append(message)
        return True

    async def goes_on(self, until: Callable[[], Any]) -> None:
        """The store does all that it is asked for; no worker answers."""
        for _ in range(500):
            if until():
                return
            await asyncio.sleep(0)
            if self.records.calls:
                self.records.step()
        raise AssertionError("it waits for ever")

    @property
    def switching(self) -> list[CameraRuntime]:
        """Cameras whose worker was asked to switch."""
        return [camera for camera in self.cameras.values() if self.trainers.swaps.get(camera.worker)]


class Orders(RuleBasedStateMachine):
    """Any order in which the controller, trainers, workers, the store, retention and operators may come."""

    def __init__(self, template: Path) -> None:
        super().__init__()
        self.held = tempfile.TemporaryDirectory()
        folder = Path(self.held.name)
        shutil.copy(template, folder / "magpie.db")
        # A day ahead of the files: retention spares a blob that was written this minute.
        self.clock = ManualClock(utc_offset_s=SystemClock().utc() + DAY_S)
        self.store = Store(default_url(folder), folder, clock=self.clock)
        self.loop = asyncio.new_event_loop()
        self.box: Box = self.run(lambda: Box(self.store, folder, self.clock))
        self.run(lambda: [self.box.join(name) for name in ("a", "b")])
        self.wanted: dict[str, str] = {}
        self.ordered: list[ev.StartRetraining] = []

    def run(self, do: Callable[[], Any]) -> Any:
        """Do it on the loop, and let everything run that needs no more than that."""

        async def done() -> Any:
            found = do()
            for _ in range(12):
                await asyncio.sleep(0)
            return found

        return self.loop.run_until_complete(done())

    # -- the controller

    @rule(camera=CAMERAS, keep=st.booleans())
    def order(self, camera: str, keep: bool) -> None:
        self.clock.advance(1.0)
        number = len(self.ordered)
        job = ev.StartRetraining(camera, f"job {number}", CONFIG.id, 0.4, 1, plan=number)

        def give() -> None:
            if camera in self.wanted:
                self.stop_order(camera, self.wanted[camera], keep)
            self.box.retrainings.start(job)

        self.run(give)
        self.ordered.append(job)
        self.wanted[camera] = job.job

    @rule(camera=CAMERAS, keep=st.booleans())
    def stop(self, camera: str, keep: bool) -> None:
        if camera in self.wanted:
            self.run(lambda: self.stop_order(camera, self.wanted.pop(camera), keep))

    def stop_order(self, camera: str, job: str, keep: bool) -> None:
        self.box.retrainings.stop(ev.StopRetraining(camera, job, "the window is over", keep))

    # -- trainers

    @precondition(lambda self: self.box.trainers.alive)
    @rule(number=st.integers(0, 1), gain=st.sampled_from([0.3, -0.3, 7.0]))
    def hand_over(self, number: int, gain: float) -> None:
        """A better student, a worse one, or one that cannot be judged."""
        trainer = self.trainer(number)
        path = self.box.folder / f"{trainer.job.job}.candidate"
        path.write_bytes(trainer.job.job.encode())
        held_out = Accuracy(0.5 + gain, 100, 300), Accuracy(0.5, 100, 300)
        trainer.handed_over = True
        self.run(lambda: trainer.says(m.TrainingDone(trainer.job.job, path, *held_out, 3.0, 1.0, 6, SPEC)))

    @precondition(lambda self: any(not t.handed_over for t in self.box.trainers.alive.values()))
    @rule()
    def drop(self) -> None:
        trainer = next(t for t in self.box.trainers.alive.values() if not t.handed_over)
        trainer.handed_over = True
        self.run(lambda: trainer.says(m.TrainingDropped(trainer.job.job)))

    @precondition(lambda self: self.box.trainers.alive)
    @rule(number=st.integers(0, 1))
    def give_up(self, number: int) -> None:
        trainer = self.trainer(number)
        self.run(lambda: self.end(trainer, trainer.handed_over or trainer.stopped))

    def trainer(self, number: int) -> Trainer:
        alive = list(self.box.trainers.alive.values())
        return alive[number % len(alive)]

    def end(self, trainer: Trainer, as_it_should: bool) -> None:
        """Its process is gone; the supervisor gives one up that was neither stopped nor done."""
        self.box.trainers.end(next(n for n, t in self.box.trainers.alive.items() if t is trainer))
        if not as_it_should:
            trainer.given_up("it was killed three times")

    # -- the store and the cameras' workers

    @precondition(lambda self: self.box.records.calls)
    @rule(most=st.sampled_from([1, 2, 20]))
    def store_steps(self, most: int) -> None:
        for _ in range(min(most, len(self.box.records.calls))):
            self.run(self.box.records.step)

    @precondition(lambda self: self.box.switching)
    @rule(how=st.sampled_from(["switched", "switched", "fails", "dies"]))
    def worker_answers(self, how: str) -> None:
        camera = self.box.switching[0]
        swap = self.box.trainers.swaps[camera.worker].popleft()
        camera.worker_up = how != "dies"
        good = m.Swapped(swap.version, 0.04, 0)
        self.run(
            lambda: self.box.versions.switched(camera.id, good if how == "switched" else MagpieError("does not load"))
        )

    @rule(camera=CAMERAS)
    def worker_is_back(self, camera: str) -> None:
        if camera in self.box.cameras:
            self.box.cameras[camera].worker_up = True

    # -- operators, the boundary and retention

    @rule(camera=CAMERAS, number=st.none() | st.integers(0, 5), automatic=st.booleans())
    def roll_back(self, camera: str, number: int | None, automatic: bool) -> None:
        if camera not in self.box.cameras:
            return
        found, known = self.box.cameras[camera], self.store.versions.newest(camera)
        roll_back = partial(self.box.versions.roll_back, found)
        if automatic:
            back = roll_back(None, AUTOMATIC, UNDER, judged=found.version.id)
        else:
            to = None if number is None else known[number % len(known)].id
            back = roll_back(to, "olga", RollBackReason.asked("it misses buses"))
        self.run(lambda: self.box.spawn(back, f"roll back {camera}"))

    @rule(camera=CAMERAS, number=st.integers(0, 5), pinned=st.booleans())
    def pin(self, camera: str, number: int, pinned: bool) -> None:
        known = self.store.versions.newest(camera)
        work = self.box.versions.pin(known[number % len(known)].id, pinned, "olga")
        self.run(lambda: self.box.spawn(work, "pin"))

    @rule(days=st.sampled_from([0.0, 40.0]))
    def retain(self, days: float) -> None:
        """Keep as little as can be: a version goes as soon as nothing protects it."""
        self.clock.advance(days * DAY_S)
        self.store.retention.retain(RetentionLimits(days=30.0, max_bytes=0))

    @rule(camera=CAMERAS)
    def leave_or_join(self, camera: str) -> None:
        if camera not in self.box.cameras:
            left = any(task.get_name() == f"remove {camera}" for task in self.box.tasks)
            if not left:
                self.run(lambda: self.box.join(camera))
            return
        self.wanted.pop(camera, None)
        self.run(lambda: self.box.spawn(self.box.remove(camera), f"remove {camera}"))

    # -- always

    @invariant()
    def the_version_in_force_is_recorded_and_its_file_is_there(self) -> None:
        assert self.box.errors == []
        for name in ("a", "b"):
            recorded = self.store.versions.promoted(name)
            assert recorded is not None
            assert recorded.blob_kept
            assert self.store.blobs.has(recorded.blob)

    @invariant()
    def nothing_is_journaled_of_a_camera_that_is_removed(self) -> None:
        for notes in self.box.notes.values():
            after = notes[notes.index("camera.removed") + 1 :] if "camera.removed" in notes else []
            assert set(after) <= {"model.pinned", "model.unpinned"}, notes

    @invariant()
    def each_job_has_one_trainer_and_one_end(self) -> None:
        jobs = [trainer.job.job for trainer in self.box.trainers.alive.values()]
        assert len(set(jobs)) == len(jobs)
        assert set(self.box.records.ended.values()) <= {1}
        ends = (ev.RetrainingCompleted, ev.RetrainingFailed)
        answers = Counter(e.job for e in self.box.events if isinstance(e, ends))
        assert set(answers.values()) <= {1}, "the controller has one answer of each"

    def teardown(self) -> None:
        try:
            self.settle()
            assert {j.id: j.state for j in self.store.windows.jobs(limit=1000) if j.state == "running"} == {}
            assert {j.id for j in self.store.windows.jobs(limit=1000)} == set(self.box.records.ended)
            for name, camera in self.box.cameras.items():
                recorded = self.store.versions.promoted(name)
                assert recorded is not None
                assert camera.version.id == recorded.id
                self.store.blobs.verify(recorded.blob)
        finally:
            for task in self.box.tasks:
                task.cancel()
            self.run(lambda: None)
            self.loop.close()
            self.store.close()
            self.held.cleanup()

    def settle(self) -> None:
        """The controller stops what runs, and all others do what they were asked."""
        for camera in list(self.wanted):
            self.stop(camera, False)
        box = self.box
        while box.records.calls or box.switching or box.trainers.alive:
            if box.records.calls:
                self.store_steps(20)
            if box.switching:
                self.worker_answers("switched")
            if box.trainers.alive:
                self.give_up(0)
            self.the_version_in_force_is_recorded_and_its_file_is_there()
            self.each_job_has_one_trainer_and_one_end()
        assert box.tasks == set(), "nothing waits for ever"
        assert box.retrainings.running == {}


def test_each_retraining_ends_once_and_the_version_in_force_is_there_whatever_comes_when(sqlite_template: Path) -> None:
    limits = settings(
        max_examples=tried(12, 300), stateful_step_count=tried(30, 50), suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),  # to shrink a failure takes minutes
    )  # fmt: skip
    run_state_machine_as_test(lambda: Orders(sqlite_template), settings=limits)


@pytest.mark.parametrize("how_far", ["recorded", "switching"])
async def test_a_camera_that_is_removed_while_it_is_judged_comes_back_with_what_was_promoted(
    sqlite_template: Path, tmp_path: Path, how_far: str
) -> None:
    shutil.copy(sqlite_template, tmp_path / "magpie.db")
    with Store(default_url(tmp_path), tmp_path) as store:
        box = Box(store, tmp_path, ManualClock(utc_offset_s=SystemClock().utc()))
        box.join("a")
        box.retrainings.start(ev.StartRetraining("a", "job 1", CONFIG.id, 0.4, 1))
        path = tmp_path / "candidate"
        path.write_bytes(b"candidate")
        (trainer,) = box.trainers.alive.values()
        held_out = Accuracy(0.8, 100, 300), Accuracy(0.5, 100, 300)
        trainer.says(m.TrainingDone("job 1", path, *held_out, 3.0, 1.0, 6, SPEC))
        box.trainers.end(box.cameras["a"].trainer)
        await box.goes_on(lambda: box.switching if how_far == "switching" else len(store.versions.newest("a")) == 2)
        box.spawn(box.remove("a"), "remove a")
        for _ in range(20):  # the store is slow
            await asyncio.sleep(0)
        await box.goes_on(lambda: not box.tasks and not box.records.calls)
        assert box.notes["a"] == ["retraining.started", "model.promoted", "camera.removed"]
        box.join("a")
        promoted = store.versions.promoted("a")
        assert promoted is not None
        assert (box.cameras["a"].version.id, promoted.parent) == (promoted.id, "a-first")
        (job,) = store.windows.jobs()
        assert (job.state, job.promoted) == ("completed", True)
