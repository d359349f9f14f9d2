"""A window's end: its sample is closed, labelled, remembered, kept and measured. A real label queue, journal notes and
files; of the worker, the teacher and the profilers only what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leaf_kit import UNASKED, ignored, leaf_parts
from runtime_kit import until
from test_label_queue import answer, frame

from edge.core import events as ev
from edge.core.clock import ManualClock
from edge.core.configs import RetrainingConfig, StudentSpec
from edge.core.labels import LabelledWindow
from edge.core.learning import Cost, LearningFacts
from edge.core.models import ModelVersion
from edge.core.profiles import Estimate, RetrainingProfile
from edge.core.shares import ideal_caps
from edge.recording.exemplars import read_exemplars
from edge.recording.labelled_windows import read_manifest
from edge.runtime import messages as m
from edge.runtime.boundary import Boundary
from edge.runtime.camera import CameraRuntime, assumed_profile
from edge.runtime.labelling import LabelQueue
from edge.runtime.tasks import BackgroundTasks
from edge.settings import CameraSettings, RetrainingSettings

SPEC = StudentSpec("detection", "ssdlite_mobilenet_v3", ("car",), (64, 64), 0.25)
PROFILE = RetrainingProfile(RetrainingConfig(4), 0.5, Estimate.exact(0.7), Estimate.exact(10.0))


class Profilers:
    """Stands where the profilers are: jobs wait, or are at work already."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.waiting: list[Any] = []

    def ask(self, job: Any) -> None:
        self.asked.append(job)
        self.waiting.append(job)

    def withdraw(self, wanted: Callable[[Any], bool]) -> list[Any]:
        taken = [job for job in self.waiting if wanted(job)]
        self.waiting = [job for job in self.waiting if not wanted(job)]
        return taken

    def begin(self) -> None:
        self.waiting.clear()

    def speed(self, thread: float) -> float:
        return 0.5 * thread

    def of(self, kind: type) -> list[Any]:
        return [job for job in self.asked if isinstance(job, kind)]


class Box:
    """One camera at the end of its window, and what its boundary did. `worker()`: whether the camera's worker is there
    to begin the next sample."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, ManualClock()
        self.events: list[Any] = []
        self.notes: list[tuple[str, str, int]] = []
        self.rows: list[tuple[int, str, dict[str, Any]]] = []
        self.complaints: list[str] = []
        self.looks: list[str] = []
        self.closed: list[tuple[int, int]] = []
        self.profilers = Profilers()
        self.labels = LabelQueue(self._label)
        self.labels.set_classes("a", ("car",), {})
        self.worker: Callable[[], bool] = lambda: True
        first = ModelVersion("a-first", "a", "", SPEC, 1.0, window=1)
        given = CameraSettings(id="a", name="a", url="rtsp://127.0.0.1/x", classes=["car"], task="detection")
        self.camera = CameraRuntime(given, first, first, assumed_profile(given.inference, 1.0), worker_up=True)
        self.camera.profiles = {PROFILE.config.id: PROFILE}
        self.cameras = {"a": self.camera}
        self.settings = RetrainingSettings(window_s=100.0)

        async def parent(version: ModelVersion) -> None: ...

        self.parts = leaf_parts(
            folder, self.settings, replace(ideal_caps(), units=2.0), clock=self.clock, cameras=self.cameras,
            golden=SimpleNamespace(labels=self.labels), profilers=self.profilers,
            store=SimpleNamespace(
                windows=SimpleNamespace(put_camera_window=self._row), blobs=SimpleNamespace(path=folder.joinpath)
            ),
            records=SimpleNamespace(write=lambda do, *given, **more: do(*given, **more)),
            complaints=SimpleNamespace(add=lambda code, words, camera: self.complaints.append(code)),
            learning=SimpleNamespace(
                budget=None, late_labels_used=0, seen=ignored, correction=ignored, facts=LearningFacts()
            ),
        )  # fmt: skip
        self.preparation: Any = SimpleNamespace(share=ignored, thread=0.5)
        self.workers: Any = SimpleNamespace(next_window=self._next, look=lambda camera: self.looks.append(camera.id))
        self.versions: Any = SimpleNamespace(parent=parent)
        self.tasks = BackgroundTasks(lambda code, words: pytest.fail(words))
        self.boundary = self.made()

    def made(self, close_s: float = 60.0) -> Boundary:
        return Boundary(
            self.parts,
            self.preparation,
            self.workers,
            self.versions,
            UNASKED,
            self.events.append,
            lambda kind, camera=None, window=None, data=None: self.notes.append((kind, camera or "", window or 0)),
            self.tasks.spawn,
            close_s,
        )

    def _label(self, asked: m.Label) -> bool:
        """The teacher labels at once."""
        for one in asked.frames:
            asyncio.get_running_loop().call_soon(self.labels.received, answer(one))
        return True

    def _next(self, camera: CameraRuntime, window: int, following: int) -> bool:
        self.closed.append((window, following))
        return self.worker()

    def _row(self, window: int, camera: str, **more: Any) -> None:
        self.rows.append((window, camera, more))

    def sampled(self, count: int, window: int = 1) -> None:
        for number in range(count):
            one = frame(self.folder, number, window=window)
            one.path.write_bytes(f"picture {window}-{number}".encode())
            self.labels.add(one)

    async def close(self, window: int = 1, last: int = 0) -> None:
        """To the boundary's end; the worker hands `last` frames over that it had not sent yet."""
        self.boundary.close(ev.CloseSample("a", window))
        if self.worker():
            await until(lambda: (window, window + 1) in self.closed)
            rest = tuple(frame(self.folder, 100 + n, window=window) for n in range(last))
            self.boundary.sample_closed("a", window, rest)
        await self.ended()

    async def ended(self) -> None:
        await until(lambda: any(isinstance(e, ev.SampleLabelled) for e in self.events), "its sample is labelled")

    def labelled(self) -> ev.SampleLabelled:
        (event,) = [e for e in self.events if isinstance(e, ev.SampleLabelled)]
        return event


@pytest.fixture
async def box(tmp_path: Path) -> Any:
    made = Box(tmp_path)
    yield made
    await made.tasks.end()


def held(window: int) -> LabelledWindow:
    """A labelled window that the camera was retrained on."""
    return LabelledWindow("a", window, "detection", ("car",), (), ())


async def test_the_frames_that_the_worker_still_had_are_in_the_windows_data(box: Box) -> None:
    box.sampled(8)
    await box.close(last=2)
    await until(lambda: box.profilers.of(m.Evaluate), "the window is to be measured")
    data = box.camera.closed[1]
    assert [f.frame.number for f in data.all_sampled] == [*range(8), 100, 101]
    assert len(data.held_out) == 3, "the latest 30 %"
    assert box.closed == [(1, 2)], "the worker has begun the next sample"
    kept = read_manifest(box.folder, "a", 1)
    assert kept is not None
    assert kept.to_json() == data.to_json()
    event = box.labelled()
    assert (event.window, event.train_frames, event.held_out_frames) == (1, 7, 3)
    assert event.realised_accuracy == 0.0, "the student had answered nothing where the teacher saw a car"
    (number, camera, row) = box.rows[0]
    assert (number, camera, row["frames_labelled"], row["objects_labelled"]) == (1, "a", 10, 10)
    assert row["model_version"] == "a-first"
    assert box.camera.profiles == {}, "those of the window before hold no longer"
    assert box.looks == ["a"]
    assert box.boundary.measured == {}, "it is measured in shadow first"


async def test_the_window_is_measured_with_the_student_and_the_look_that_answered_it(box: Box) -> None:
    box.sampled(10)
    looked = box.camera.inference = box.camera.settings.inference.space()[1]
    box.workers.look = lambda camera: setattr(camera, "inference", None)
    await box.close()
    await until(lambda: box.profilers.of(m.Evaluate))
    (asked,) = box.profilers.of(m.Evaluate)
    assert asked.data is box.camera.closed[1]
    assert (asked.frozen.version, asked.current.version, asked.parent) == ("a-first", "a-first", None)
    assert asked.inference == looked, "of the window past, not of the next one"
    assert asked.baseline is None, "it did not begin as a published detector"


async def test_a_worker_that_does_not_answer_costs_its_last_frames_alone(box: Box) -> None:
    box.boundary = box.made(close_s=0.01)
    box.sampled(10)
    box.boundary.close(ev.CloseSample("a", 1))
    await box.ended()
    assert ("sample.not_closed", "a", 1) in box.notes
    assert len(box.camera.closed[1].all_sampled) == 10
    box.boundary.sample_closed("a", 1, (frame(box.folder, 200),))  # late: no boundary waits for it


async def test_a_camera_without_a_worker_is_closed_at_once(box: Box) -> None:
    box.worker = lambda: False
    box.sampled(10)
    await box.close()
    assert [kind for kind, _, _ in box.notes] == []
    assert len(box.camera.closed[1].all_sampled) == 10


async def test_a_window_without_labels_keeps_the_data_of_before_and_is_not_measured(box: Box) -> None:
    before = box.camera.closed = {}
    await box.close()
    assert ("window.no_labels", "a", 1) in box.notes
    assert box.camera.closed is before
    assert box.boundary.measured == {1: {"a"}}
    event = box.labelled()
    assert (event.train_frames, event.held_out_frames, event.realised_accuracy) == (0, 0, None)
    assert box.profilers.asked == []


async def test_too_few_labels_are_complained_of_and_train_nothing(box: Box) -> None:
    box.sampled(2)
    await box.close()
    assert len(box.complaints) == 1
    assert box.camera.closed == {}
    assert box.rows[0][2]["frames_labelled"] == 2


async def test_exemplars_are_picked_of_the_window_before_while_labels_come(box: Box) -> None:
    box.camera.closed = {1: held(1)}
    box.sampled(10, window=2)
    box.boundary.close(ev.CloseSample("a", 2))
    await until(lambda: box.closed)
    box.boundary.sample_closed("a", 2, ())
    await until(lambda: box.profilers.of(m.Remember))
    (asked,) = box.profilers.of(m.Remember)
    assert (asked.data.window, asked.folders.exemplars, asked.folders.max_frames) == (
        1,
        box.folder / "exemplars" / "a",
        64,
    )
    assert (asked.student.version, asked.folders.kept_out) == ("a-first", None)
    await asyncio.sleep(0)
    assert box.events == [], "the next training data must not name pictures that the memory lets go"
    box.boundary.remembered("a")
    await box.ended()
    assert set(box.camera.closed) == {2}


async def test_nothing_is_remembered_where_no_exemplars_are_kept(box: Box) -> None:
    box.parts.window.settings = RetrainingSettings(exemplars=0)
    box.camera.closed = {1: held(1)}
    box.sampled(10, window=2)
    await box.close(2)
    assert box.profilers.of(m.Remember) == []


async def test_where_nobody_looks_in_time_exemplars_are_picked_by_labels_and_trained_on_at_once(box: Box) -> None:
    box.parts.window.settings = RetrainingSettings.model_construct(**dict(box.settings) | {"window_s": 0.2})
    box.sampled(10)
    await box.close()
    assert read_exemplars(box.folder / "exemplars" / "a") == ()
    box.events.clear()
    box.sampled(10, window=2)
    await box.close(2)
    assert ("exemplars.late", "a", 1) in box.notes
    kept = {f.frame.id for f in read_exemplars(box.folder / "exemplars" / "a")}
    assert len(kept) == 7, "all that window 1 trained on"
    assert {f.frame.id for f in box.camera.closed[2].exemplars} == kept


async def test_where_nobody_could_look_exemplars_are_picked_by_labels(box: Box) -> None:
    box.sampled(10)
    await box.close()
    box.events.clear()
    box.sampled(10, window=2)
    box.boundary.close(ev.CloseSample("a", 2))
    await until(lambda: (2, 3) in box.closed)
    box.boundary.sample_closed("a", 2, ())
    await until(lambda: box.profilers.of(m.Remember))
    box.boundary.remembered("a", looked=False)
    await box.ended()
    assert len(read_exemplars(box.folder / "exemplars" / "a")) == 7


async def test_of_a_camera_whose_classes_changed_meanwhile_nothing_is_remembered(box: Box) -> None:
    box.sampled(10)
    await box.close()
    box.events.clear()
    box.sampled(10, window=2)
    box.boundary.close(ev.CloseSample("a", 2))
    await until(lambda: (2, 3) in box.closed)
    box.boundary.sample_closed("a", 2, ())
    await until(lambda: box.profilers.of(m.Remember))
    box.camera.closed = {}
    box.boundary.remembered("a", looked=False)
    await box.ended()
    assert read_exemplars(box.folder / "exemplars" / "a") == ()


@pytest.mark.parametrize(("memory_s", "looks", "asked"), [(1.2, True, 1), (1.3, True, 0), (1.2, False, 0)])
async def test_nobody_is_asked_to_look_where_there_is_no_time_for_it(
    box: Box, memory_s: float, looks: bool, asked: int
) -> None:
    """A quarter of the device for 5 % of 100 s is 1.25 device seconds; or the window's budget has no time for it."""
    box.parts.learning.facts = LearningFacts(memory_s=Cost(memory_s))
    box.parts.learning.budget = SimpleNamespace(looks=looks)
    box.sampled(10)
    await box.close()
    box.events.clear()
    box.sampled(10, window=2)
    if asked:
        box.boundary.close(ev.CloseSample("a", 2))
        await until(lambda: len(box.closed) == 2)
        box.boundary.sample_closed("a", 2, ())
        await until(lambda: box.profilers.of(m.Remember))
        box.boundary.remembered("a")
        await box.ended()
    else:
        await box.close(2)
        assert len(read_exemplars(box.folder / "exemplars" / "a")) == 7
    assert len(box.profilers.of(m.Remember)) == asked
    assert "exemplars.late" not in [kind for kind, _, _ in box.notes], "it was decided, not missed"


async def test_a_memory_that_cannot_be_written_is_said_and_the_window_goes_on(box: Box) -> None:
    (box.folder / "exemplars").write_text("no folder", encoding="utf-8")
    box.parts.window.settings = RetrainingSettings.model_construct(**dict(box.settings) | {"window_s": 0.2})
    box.sampled(10)
    await box.close()
    box.events.clear()
    box.sampled(10, window=2)
    await box.close(2)
    assert box.complaints[0] == "store"
    assert set(box.camera.closed) == {2}


@pytest.mark.parametrize("begun", [False, True])
async def test_exemplars_that_are_late_are_left_or_awaited_where_they_have_begun(box: Box, begun: bool) -> None:
    box.parts.window.settings = RetrainingSettings.model_construct(**dict(box.settings) | {"window_s": 0.2})
    box.camera.closed = {1: held(1)}
    box.sampled(10, window=2)
    box.boundary.close(ev.CloseSample("a", 2))
    await until(lambda: box.closed)
    box.boundary.sample_closed("a", 2, ())
    await until(lambda: box.profilers.of(m.Remember))
    if begun:
        box.profilers.begin()
        await asyncio.sleep(0.05)
        assert box.events == [], "it lets pictures go at this moment"
        box.boundary.remembered("a")
    await box.ended()
    assert (("exemplars.late", "a", 1) in box.notes) is not begun
    assert box.profilers.withdraw(lambda job: isinstance(job, m.Remember)) == []


async def test_a_late_look_that_fails_is_made_up_for_by_labels(box: Box) -> None:
    box.parts.window.settings = RetrainingSettings.model_construct(**dict(box.settings) | {"window_s": 0.2})
    box.sampled(10)
    await box.close()
    box.events.clear()
    box.sampled(10, window=2)
    box.boundary.close(ev.CloseSample("a", 2))
    await until(lambda: (2, 3) in box.closed)
    box.profilers.ask = lambda job: box.profilers.asked.append(job)  # it begins at once
    box.boundary.sample_closed("a", 2, ())
    await until(lambda: box.profilers.of(m.Remember))
    await asyncio.sleep(0.05)
    box.boundary.remembered("a", looked=False)
    await box.ended()
    assert len(read_exemplars(box.folder / "exemplars" / "a")) == 7
    assert "exemplars.late" not in [kind for kind, _, _ in box.notes]


async def test_a_measurement_that_never_began_is_left_for_the_new_one(box: Box) -> None:
    student = m.StudentFile("a-first", Path("a"))
    box.profilers.ask(m.Evaluate(held(0), student, student, None))
    box.sampled(10)
    await box.close()
    await until(lambda: len(box.profilers.of(m.Evaluate)) == 2)
    assert [job.data.window for job in box.profilers.waiting] == [1]
    assert box.boundary.measured == {0: {"a"}}
    assert box.complaints == ["measuring_late"]


async def test_a_camera_that_was_removed_meanwhile_is_left_alone(box: Box) -> None:
    box.sampled(10)
    box.boundary.close(ev.CloseSample("a", 1))
    await until(lambda: box.closed)
    del box.cameras["a"]
    box.boundary.sample_closed("a", 1, ())
    await until(lambda: box.rows)
    await asyncio.sleep(0)
    assert (box.events, box.profilers.asked, box.camera.closed) == ([], [], {})


def test_of_long_past_windows_nothing_is_remembered(tmp_path: Path) -> None:
    box = Box(tmp_path)
    for window in range(1, 103):
        box.boundary.not_measured(window, "a")
    box.boundary.not_measured(102, "b")
    assert min(box.boundary.measured) == 2
    assert box.boundary.measured[102] == {"a", "b"}
