"""The real worker mains in real processes, on a few drawn pictures and small students."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import pytest
import torch
import worker_mains
from runtime_kit import Bench, until
from video_clips import make_clips

import configs
from edge.core.configs import InferenceConfig, RetrainingConfig, StudentSpec
from edge.core.labels import LabelledFrame, LabelledWindow, SampledFrame
from edge.core.vision import Detections
from edge.demo.scene import CLASSES, Scene, SceneSpec
from edge.recording.remembering import MemoryFolders
from edge.runtime import messages as m
from edge.runtime.camera_worker import camera_worker
from edge.runtime.golden_worker import GoldenWorkerSpec, golden_worker
from edge.runtime.labelling import label_path
from edge.runtime.process import Ready, Retire, Stop, TakeOver
from edge.runtime.profiler_worker import profiler_worker
from edge.runtime.training_worker import training_worker
from edge.settings import CameraSettings, RecordingSettings
from edge.students import Student, load_student, save_weights

Make = Callable[..., Bench]
SPEC = StudentSpec("detection", "ssdlite_mobilenet_v3", CLASSES, (64, 112), 0.25)
TEACHER = Path(configs.__file__).parent / "teachers" / "demo.yaml"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> m.StudentFile:
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("student") / "v0.safetensors"
    save_weights(path, Student(SPEC).module, SPEC)
    return m.StudentFile("v0", path)


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> LabelledWindow:
    """Ten drawn pictures with their truth as labels."""
    root = tmp_path_factory.mktemp("pictures")
    scene = Scene(SceneSpec(7, 1, 256, 144))
    frames = []
    for n in range(10):
        picture, objects = scene.render(40.0 + 3.0 * n)
        path = root / f"{n:08d}.jpg"
        cv2.imwrite(str(path), picture[..., ::-1])
        labels = Detections.build(
            [o.box for o in objects], [0.9] * len(objects), [CLASSES.index(o.class_name) for o in objects]
        )
        sample = SampledFrame("a", 1, n, 1000.0 + n, path, labels, "v0")
        frames.append(LabelledFrame(sample, labels, "truth"))
    assert sum(len(f.labels) for f in frames) > 5
    return LabelledWindow("a", 1, "detection", CLASSES, tuple(frames[:6]), tuple(frames[6:]))


def of(b: Bench, kind: type) -> list[Any]:
    return [s for s in b.said if isinstance(s, kind)]


async def test_the_golden_worker_labels_keeps_and_hands_over(bench: Make, window: LabelledWindow) -> None:
    b = bench()
    b.start("golden", golden_worker, GoldenWorkerSpec(TEACHER), role="golden", share=1.0)
    await until(lambda: of(b, Ready), "loaded")
    frames = [f.frame for f in window.train[:2]]
    lost = replace(frames[0], number=77, path=frames[0].path.with_name("gone.jpg"))
    for f in (*frames, lost):
        b.supervisor.send("golden", m.Label("a", CLASSES, {}, (f,)))
    b.supervisor.send("golden", Retire())
    await until(lambda: len(of(b, m.Labelled)) == 3)
    first, second, third = of(b, m.Labelled)
    assert (first.frame_id, second.frame_id) == (frames[0].id, frames[1].id)
    assert first.labelled.teacher == "demo"
    assert first.seconds > 0
    assert third.labelled is None, "its picture is gone"
    kept = label_path(frames[0].path)
    assert LabelledFrame.from_json(json.loads(kept.read_text())).frame.id == frames[0].id
    kept.unlink()
    label_path(frames[1].path).unlink()


def test_the_golden_model_answers_once_before_labels_are_timed(
    monkeypatch: pytest.MonkeyPatch, window: LabelledWindow
) -> None:
    frames = tuple(f.frame for f in window.train[:2])
    done: list[str] = []

    class NotesWhatItDoes:
        """A teacher, and the other end of the channel."""

        name, classes = "demo", CLASSES

        def __init__(self) -> None:
            self.orders: list[Any] = [m.Label("a", CLASSES, {}, frames), Stop()]

        def label(self, picture: Any) -> Detections:
            done.append("answer")
            return Detections.empty()

        def receive(self, timeout_s: float) -> Any:
            return self.orders.pop(0)

        def send(self, message: Any) -> None:
            done.append(type(message).__name__)

        def ready(self) -> None:
            done.append("ready")

        def beat(self) -> None:
            pass

        def beating(self) -> bool:
            return False

    both = NotesWhatItDoes()
    monkeypatch.setattr("edge.runtime.golden_worker.open_teacher", lambda *_: both)
    golden_worker(both, GoldenWorkerSpec(TEACHER))
    assert done == ["answer", "ready", "answer", "Labelled", "answer", "Labelled"]
    for frame in frames:
        label_path(frame.path).unlink()


async def test_the_profiler_evaluates_profiles_and_remembers(
    bench: Make, window: LabelledWindow, student: m.StudentFile, tmp_path: Path
) -> None:
    b = bench()
    b.start("profiler-0", profiler_worker, 2.0, share=1.0)
    await until(lambda: of(b, Ready))
    b.supervisor.send("profiler-0", m.Evaluate(window, student, student, None))
    await until(lambda: of(b, m.Evaluated))
    (evaluated,) = of(b, m.Evaluated)
    assert evaluated.realised.value == 1.0, "the recorded answers are the truth here"
    assert evaluated.frozen.frames == 10
    assert evaluated.frozen.value < 1.0
    space = (RetrainingConfig(1, 4, "head"), RetrainingConfig(2, 4, "head"))
    b.supervisor.send("profiler-0", m.Profile(window, student, space, 30.0, None, 2.0, 1))
    await until(lambda: of(b, m.ProfileDone))
    (done,) = of(b, m.ProfileDone)
    assert {p.config for p in done.profiles} <= set(space)
    assert done.profiles
    assert all(p.throughput[-1] == (1.0, 0.5) for p in done.profiles), "one thread: half of two cores"
    b.supervisor.send("profiler-0", m.Remember(window, student, MemoryFolders(tmp_path / "exemplars", 4)))
    await until(lambda: of(b, m.Remembered))
    assert of(b, m.Remembered)[0].frames == 4
    nowhere = m.StudentFile("v9", tmp_path / "missing.safetensors")
    b.supervisor.send("profiler-0", m.Evaluate(window, nowhere, student, None))
    await until(lambda: of(b, m.JobFailed))
    assert "missing.safetensors" in of(b, m.JobFailed)[0].reason
    assert b.lost == [], "a job that fails costs no worker"


async def test_a_profiler_hands_in_what_it_has(bench: Make, window: LabelledWindow, student: m.StudentFile) -> None:
    """The share is so small that the trials would take minutes: no caller could wait for them."""
    b = bench()
    b.start("profiler-0", profiler_worker, 2.0, share=1.0)
    await until(lambda: of(b, Ready))
    space = tuple(RetrainingConfig(2, 4, "all", learning_rate=rate) for rate in (1e-3, 2e-3, 3e-3, 4e-3, 5e-3, 6e-3))
    first = m.Profile(window, student, space[:1], 30.0, None, 2.0, 1)
    b.supervisor.send("profiler-0", first)
    await until(lambda: of(b, m.ProfileDone))
    known = of(b, m.ProfileDone)[0]
    assert (known.trials, known.handed_in) == (1, False)
    assert known.history["known"][space[0].id]["seconds_per_frame"] > 0
    b.supervisor.send("profiler-0", m.HandInProfile("a", 7))  # of another window: nothing is meant by it any more
    b.supervisor.resize("profiler-0", 0.01)
    b.supervisor.send("profiler-0", m.Profile(window, student, space, 300.0, known.history, 2.0, 2))
    b.supervisor.send("profiler-0", m.HandInProfile("a", 1))
    b.supervisor.send("profiler-0", m.Evaluate(window, None, student, None))
    await until(lambda: len(of(b, m.ProfileDone)) == 2)
    done = of(b, m.ProfileDone)[1]
    assert done.handed_in
    assert done.trials < len(space)
    by_id = {p.config.id: p for p in done.profiles}
    assert set(done.history["known"]) >= {space[0].id}
    assert all(by_id[p].profiled or p == space[0].id for p in by_id), "only what was known is offered without a trial"
    await until(lambda: of(b, m.Evaluated))
    assert b.lost == [], "no profiler is ended, and orders that came meanwhile are carried out"


def job_of(window: LabelledWindow, student: m.StudentFile, folder: Path, epochs: int = 3) -> m.RetrainingJob:
    config = RetrainingConfig(epochs, 4, "head")
    return m.RetrainingJob(
        "w2-a", "a", window, student, config, SPEC, 1, folder / "a.ckpt", folder / "a.safetensors", 2.0
    )


async def test_a_retraining_reports_and_hands_over_a_candidate(
    bench: Make, window: LabelledWindow, student: m.StudentFile, tmp_path: Path
) -> None:
    b = bench()
    job = job_of(window, student, tmp_path)
    b.start("retrain-a", worker_mains.trains, job, role="retraining", share=1.0, finishes=True)
    await until(lambda: of(b, m.TrainingDone))
    await until(lambda: not b.supervisor.has("retrain-a"))
    (done,) = of(b, m.TrainingDone)
    progress = of(b, m.TrainingProgress)
    assert [p.fraction for p in progress] == sorted(p.fraction for p in progress)
    assert progress[-1].fraction == 1.0
    assert done.device_seconds >= progress[-1].device_seconds
    assert (done.candidate.frames, done.train_frames, done.spec) == (4, 6, SPEC)
    assert load_student(done.path).spec == SPEC
    assert not (tmp_path / "a.ckpt").exists()
    assert b.lost == []
    assert b.words("compiler") == [False], "torch's compiler costs each retraining two seconds"


async def test_a_retraining_that_retires_goes_on_at_the_same_step(
    bench: Make, window: LabelledWindow, student: m.StudentFile, tmp_path: Path
) -> None:
    b = bench()
    job = job_of(window, student, tmp_path, epochs=400)
    b.start("retrain-a", training_worker, job, role="retraining", share=1.0, finishes=True)
    await until(lambda: any(p.epoch >= 2 for p in of(b, m.TrainingProgress)))
    b.supervisor.send("retrain-a", Retire())
    await until(lambda: any(p.resumed for p in of(b, m.TrainingProgress)))
    before = [p for p in of(b, m.TrainingProgress) if not p.resumed][-1]
    after = next(p for p in of(b, m.TrainingProgress) if p.resumed)
    assert after.fraction >= before.fraction, "nothing is trained twice"
    assert after.device_seconds >= before.device_seconds
    b.supervisor.send("retrain-a", m.FinishNow(keep=False))
    await until(lambda: not b.supervisor.has("retrain-a"))
    assert of(b, m.TrainingDropped)
    assert not job.checkpoint.exists(), "what was dropped leaves nothing"


async def test_a_retraining_ended_early_keeps_what_it_has_if_asked(
    bench: Make, window: LabelledWindow, student: m.StudentFile, tmp_path: Path
) -> None:
    b = bench()
    job = job_of(window, student, tmp_path, epochs=400)
    b.start("retrain-a", training_worker, job, role="retraining", share=1.0, finishes=True)
    await until(lambda: of(b, m.TrainingProgress))
    b.supervisor.send("retrain-a", m.FinishNow(keep=True))
    await until(lambda: of(b, m.TrainingDone))
    assert of(b, m.TrainingDone)[0].fraction < 1.0
    await until(lambda: not b.supervisor.has("retrain-a"))
    b.start("retrain-a", training_worker, replace(job, finish=True), role="retraining", share=1.0, finishes=True)
    await until(lambda: len(of(b, m.TrainingDone)) == 2)
    assert of(b, m.TrainingDone)[1].fraction < 0.1, "the order came before: the next process does not train on"


# -- a camera


def camera_spec(root: Path, clip: Path, student: m.StudentFile, window: int = 1) -> m.CameraWorkerSpec:
    settings = CameraSettings.model_validate(
        {
            "id": "a",
            "url": str(clip),
            "classes": list(CLASSES),
            "student": {"input_height": 64, "input_width": 112, "width": 0.25},
            "inference": {"frame_rates": [8.0, 2.0]},
        }
    )
    return m.CameraWorkerSpec(
        settings=settings,
        student=student,
        inference=InferenceConfig(8.0),
        record_root=root / "records",
        recording=RecordingSettings(),
        window=window,
        window_left_s=6.0,
        target_frames=12,
        cores=2.0,
        watch_fps=0.0,
    )


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clips(tmp_path_factory.mktemp("clips")).h264


def answered(b: Bench) -> int:
    reports = of(b, m.CameraReport)
    return reports[-1].answers if reports else 0


async def test_a_camera_answers_records_and_swaps(
    bench: Make, clip: Path, student: m.StudentFile, tmp_path: Path
) -> None:
    b = bench()
    b.start("camera-a", camera_worker, camera_spec(tmp_path, clip, student), role="inference", share=1.0)
    await until(lambda: answered(b) > 3 and of(b, m.Sampled))
    assert of(b, m.CameraReport)[-1].status.state == "live"
    torch.manual_seed(4)
    better = tmp_path / "v1.safetensors"
    save_weights(better, Student(SPEC).module, SPEC)
    b.supervisor.send("camera-a", m.Swap("v1", better))
    await until(lambda: of(b, m.Swapped))
    assert of(b, m.Swapped)[0].version == "v1"
    b.supervisor.send("camera-a", m.Swap("v2", tmp_path / "missing.safetensors"))
    await until(lambda: of(b, m.SwapFailed))
    b.supervisor.send("camera-a", m.Watch(4.0, 64))
    await until(lambda: of(b, m.Preview))
    assert of(b, m.Preview)[0].jpeg.startswith(b"\xff\xd8")
    b.supervisor.send("camera-a", m.NextWindow(1, 2, 6.0, 6))
    await until(lambda: of(b, m.SampleClosed))
    (closed,) = of(b, m.SampleClosed)
    assert closed.window == 1
    assert {f.id for f in closed.frames} == {s.frame.id for s in of(b, m.Sampled) if s.frame.window == 1}
    assert all(f.path.is_file() for f in closed.frames)
    await until(lambda: any(s.frame.window == 2 for s in of(b, m.Sampled)))


async def test_a_camera_that_stands_by_is_silent_until_it_takes_over(
    bench: Make, clip: Path, student: m.StudentFile, tmp_path: Path
) -> None:
    b = bench()
    spec = camera_spec(tmp_path, clip, student)
    b.start("camera-a", camera_worker, spec, role="inference", share=0.9)
    await until(lambda: of(b, m.Sampled))
    worker = b.supervisor._workers["camera-a"]
    old = worker.seat
    assert old is not None
    b.supervisor._replacements.respawn(worker, old)
    await until(lambda: worker.replacement.count == 1 and b.supervisor.ready("camera-a"))
    assert b.supervisor.pid("camera-a") != (old.process.pid if old.process else 0)
    mark = len(of(b, m.CameraReport))
    await until(lambda: len(of(b, m.CameraReport)) > mark and of(b, m.CameraReport)[-1].answers > 0)
    b.supervisor.send("camera-a", m.NextWindow(1, 2, 60.0, 6))
    await until(lambda: of(b, m.SampleClosed))
    (closed,) = of(b, m.SampleClosed)
    ids = [f.id for f in closed.frames]
    assert len(ids) == len(set(ids))
    assert set(ids) == {s.frame.id for s in of(b, m.Sampled) if s.frame.window == 1}, "none lost, none twice"
    on_disk = {p.name for p in (tmp_path / "records").rglob("window-00000001/*.jpg") if p.name.count(".") == 1}
    assert on_disk == {f.path.name for f in closed.frames}
    assert b.lost == []
    assert not of(b, TakeOver), "orders are not echoed"


async def test_a_worker_that_starts_imports_no_module_of_ours(bench: Make) -> None:
    """What the server of workers has not loaded costs each worker that it starts."""
    b = bench()
    b.start("w", worker_mains.loads_every_main, finishes=True)
    await until(lambda: b.words("loaded anew") != [])
    assert {"camera_worker", "training_worker"} <= set(b.words("main"))
    assert b.words("loaded anew") == [[]]
