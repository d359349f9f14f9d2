"""Students that began as a published detector, in the real workers: first student, shadow, retraining, gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from detectors.tiny_detectors import describe, in_file, street_frames, tiny_distribution, tiny_grid
from runtime_kit import Bench, until

from edge.core.baseline import Baseline
from edge.core.box_groups import CameraOfBox, GroupGuest
from edge.core.configs import WHOLE, InferenceConfig, RetrainingConfig
from edge.core.errors import InvalidValue, LabelError, MemoryLimitExceeded, WeightsError
from edge.core.labels import LabelledWindow
from edge.core.models import ModelVersion
from edge.recording.kept_out import read_kept_out
from edge.recording.remembering import MemoryFolders
from edge.runtime import messages as m
from edge.runtime.process import Ready
from edge.runtime.profiler_worker import profiler_worker
from edge.runtime.promotion import decide
from edge.runtime.students import first_student, student_of
from edge.runtime.training_worker import training_worker
from edge.settings import CameraSettings
from edge.students import load_student
from edge.students.published import PublishedStudent
from edge.students.weights import save_student
from edge.training.kept_download import PARTS
from edge.training.published import PublishedExamples, with_best_score
from scheduler.contenders import WHO

Make = Callable[..., Bench]
CLASSES = ("car", "person")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    content, spec = tiny_grid()
    return describe(tmp_path_factory.mktemp("models"), spec, content)


def settings(model: Path | str, **more: Any) -> CameraSettings:
    return CameraSettings.model_validate(
        {"id": "cam", "url": "rtsp://192.0.2.1/a", "classes": list(CLASSES), "student": {"model": str(model)}} | more
    )


@pytest.fixture(scope="module")
def download(described: Path, tmp_path_factory: pytest.TempPathFactory) -> m.StudentFile:
    path = tmp_path_factory.mktemp("first") / "first.onnx"
    spec, words = first_student(settings(described), "", path)
    assert spec.detector is not None
    assert "as published" in words
    return m.StudentFile("first", path)


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> LabelledWindow:
    folder = tmp_path_factory.mktemp("pictures")
    train, held = street_frames(folder, range(70)), street_frames(folder, range(100, 112))
    return LabelledWindow("cam", 1, "detection", CLASSES, train, held, (), street_frames(folder, range(120, 123), 0))


def of(b: Bench, kind: type) -> list[Any]:
    return [s for s in b.said if isinstance(s, kind)]


def test_the_first_student_answers_as_the_download(described: Path, download: m.StudentFile) -> None:
    student = load_student(download.path)
    assert isinstance(student, PublishedStudent)
    assert student.spec == student_of(settings(described), "")[0]
    assert student.spec.classes == CLASSES
    assert student.spec.name == "tiny_grid"


def test_a_camera_takes_the_sites_student_unless_it_names_its_own(described: Path) -> None:
    own = settings(described)
    plain = own.model_copy(update={"student": own.student.model_copy(update={"model": ""})})
    assert student_of(plain, str(described))[0].detector is not None
    assert student_of(plain, "")[0].architecture == "ssdlite_mobilenet_v3"
    drawn = plain.model_copy(
        update={"student": plain.student.model_copy(update={"architecture": "ssdlite_mobilenet_v3"})}
    )
    assert student_of(drawn, str(described))[1] is None


def test_a_first_student_has_no_more_memory_than_a_worker(described: Path, tmp_path: Path) -> None:
    with pytest.raises(MemoryLimitExceeded, match=r"\.onnx: .*machine\.worker_memory_mb: 64 MiB"):
        first_student(settings(described), "", tmp_path / "out.onnx", 64 * 2**20)


def test_a_class_that_the_detector_lacks_is_named(described: Path) -> None:
    with pytest.raises(LabelError, match=r"student cannot produce class 'zebra'.*tiny|'zebra'"):
        student_of(settings(described, classes=["zebra"]), "")
    mapped = settings(described, classes=["mover"], class_map={"mover": ["car", "truck", "person"]})
    spec = student_of(mapped, "")[0]
    assert spec.detector is not None
    assert [n for n, k in enumerate(spec.detector.table) if k == 0] == [0, 2, 3]


def test_a_file_that_is_gone_or_swapped_is_refused_before_the_camera_starts(described: Path, tmp_path: Path) -> None:
    content, spec = tiny_grid()
    path = describe(tmp_path, spec, content)
    in_file(spec, tmp_path).file.unlink()
    with pytest.raises(WeightsError, match="missing"):
        first_student(settings(path), "", tmp_path / "out.onnx")
    other = describe(tmp_path, spec, tiny_distribution()[0])
    with pytest.raises(WeightsError, match="outputs do not fit"):
        first_student(settings(other), "", tmp_path / "out.onnx")
    with pytest.raises(InvalidValue, match="readable YAML"):
        first_student(settings(tmp_path / "no.yaml"), "", tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


async def test_the_download_is_measured_in_shadow_and_a_region_is_learned(
    bench: Make, window: LabelledWindow, download: m.StudentFile, tmp_path: Path
) -> None:
    # A part of the pictures says the same: all of them are answered six times.
    window = replace(window, train=window.train[:24])
    b = bench()
    b.start("profiler-0", profiler_worker, 2.0, share=1.0)
    await until(lambda: of(b, Ready))
    look = InferenceConfig(5.0)
    b.supervisor.send("profiler-0", m.Evaluate(window, download, download, None, 2.0, look, Baseline(), True))
    await until(lambda: of(b, m.Evaluated))
    (evaluated,) = of(b, m.Evaluated)
    assert evaluated.download is not None
    assert evaluated.download.frames == len(window.all_sampled)
    baseline = evaluated.baseline
    record = baseline.download
    assert record.whole.objects == sum(len(f.labels) for f in window.all_sampled)
    assert record.region == WHOLE or record.part.objects == record.whole.objects
    assert baseline.student is None, "the download is in force"
    # The learned least score is that of the next window, and adds up.
    b.said.clear()
    b.supervisor.send("profiler-0", m.Evaluate(window, download, download, None, 2.0, look, baseline, False))
    await until(lambda: of(b, m.Evaluated))
    again = of(b, m.Evaluated)[0]
    assert again.baseline.download.whole.objects > record.whole.objects
    assert again.download.value >= evaluated.download.value - 1e-9, "the best score on these very frames"
    assert again.download_whole == again.download
    # Where the student looks at a part, the download left alone is still measured at the whole picture.
    b.said.clear()
    look = InferenceConfig(5.0, region=(0.0, 0.0, 0.3, 1.0))
    b.supervisor.send("profiler-0", m.Evaluate(window, download, download, None, 2.0, look, baseline, False))
    await until(lambda: of(b, m.Evaluated))
    part = of(b, m.Evaluated)[0]
    assert part.download_whole == again.download
    # A retrained student in force has a record of its own.
    b.said.clear()
    published = load_student(download.path)
    assert isinstance(published, PublishedStudent)
    other = m.StudentFile("second", tmp_path / "second.onnx")
    save_student(other.path, PublishedStudent(published.spec, published.content, {"steps": 5}))
    b.supervisor.send("profiler-0", m.Evaluate(window, download, other, None, 2.0, look, baseline, True))
    await until(lambda: of(b, m.Evaluated))
    own = of(b, m.Evaluated)[0].baseline
    assert own.student is not None
    assert of(b, m.Evaluated)[0].looked == look
    assert own.student.region == own.download.region
    assert own.student.whole.objects == record.whole.objects
    assert own.student.part.objects == (0 if own.student.region == WHOLE else record.whole.objects)


async def test_profiles_exemplars_and_kept_out_frames(
    bench: Make, window: LabelledWindow, download: m.StudentFile, tmp_path: Path
) -> None:
    b = bench()
    b.start("profiler-0", profiler_worker, 2.0, share=1.0)
    await until(lambda: of(b, Ready))
    space = (RetrainingConfig(2, 4, "all", 1.0, 1e-2), RetrainingConfig(4, 4, "all", 1.0, 1e-2))
    b.supervisor.send("profiler-0", m.Profile(window, download, space, 60.0, None, 2.0, 1, download))
    await until(lambda: of(b, m.ProfileDone))
    done = of(b, m.ProfileDone)[0]
    student = load_student(download.path)
    assert isinstance(student, PublishedStudent)
    examples = PublishedExamples(window, student, WHOLE)
    assert len(examples.new_frames) == len(window.train)
    expected = with_best_score(student.copy(), examples, examples.new_frames)[0].score
    assert (done.version, done.score) == ("first", pytest.approx(expected)), "the least score comes with the profile"
    profiles = done.profiles
    assert {p.config for p in profiles} <= set(space)
    assert profiles
    b.supervisor.send(
        "profiler-0", m.Remember(window, download, MemoryFolders(tmp_path / "ex", 4, tmp_path / "kept"), 2.0)
    )
    await until(lambda: of(b, m.Remembered))
    assert of(b, m.Remembered)[0].frames == 4
    kept = read_kept_out(tmp_path / "kept")
    assert [f.frame.number for f in kept] == [f.frame.number for f in window.held_out], "however few exemplars are kept"
    assert b.lost == []


async def test_a_retraining_is_judged_beside_its_parent_and_the_download(
    bench: Make, window: LabelledWindow, download: m.StudentFile, tmp_path: Path
) -> None:
    b = bench()
    parent = load_student(download.path)
    assert isinstance(parent, PublishedStudent)
    job = m.RetrainingJob(
        "w2-cam", "cam", window, download, RetrainingConfig(4, 4, "all", 1.0, 2e-2), parent.spec, 1,
        tmp_path / "a.ckpt", tmp_path / "a.onnx", 2.0, download,
    )  # fmt: skip
    b.start("retrain-cam", training_worker, job, role="retraining", share=1.0, finishes=True)
    await until(lambda: of(b, m.TrainingDone))
    (done,) = of(b, m.TrainingDone)
    student = load_student(done.path)
    assert isinstance(student, PublishedStudent)
    assert student.content != parent.content
    assert student.info["kept_of_download"] in (*PARTS, pytest.approx(0.605)), "one that is tried, or the usual one"
    assert 0.05 <= student.score <= 0.9
    who = [c.who for c in done.contenders]
    assert who == ["new", "in_force"], "the parent is the download here: it is no third contender"
    assert set(who) <= set(WHO)
    assert {len(c.frames) for c in done.contenders} == {15}
    assert {c.latest for c in done.contenders} == {12}
    in_force = ModelVersion("first", "cam", "", parent.spec, 0.0)
    assert done.candidate.value > done.parent.value, "it learned the drawn street"
    assert decide(done, in_force, 0.0, 1).outcome == "new"
    assert decide(done, replace(in_force, pinned=True), 0.0, 1).outcome == "in_force"
    # The next retraining starts from it: now the download is a contender of its own.
    b.said.clear()
    again = replace(job, job="w3-cam", parent=m.StudentFile("second", done.path), output=tmp_path / "b.onnx",
                    config=RetrainingConfig(1, 4, "all", 1.0, 1e-3))  # fmt: skip
    b.start("retrain-cam-2", training_worker, again, role="retraining", share=1.0, finishes=True)
    await until(lambda: of(b, m.TrainingDone))
    (third,) = of(b, m.TrainingDone)
    assert [c.who for c in third.contenders] == ["new", "in_force", "download"]
    assert third.download_path is not None
    assert isinstance(load_student(third.download_path), PublishedStudent)
    assert b.lost == []


async def test_a_group_is_retrained_once_and_each_camera_is_judged_on_its_own_pictures(
    bench: Make, window: LabelledWindow, download: m.StudentFile, tmp_path: Path
) -> None:
    b = bench()
    parent = load_student(download.path)
    assert isinstance(parent, PublishedStudent)
    other = LabelledWindow("north", 1, "detection", CLASSES, window.train[35:], window.held_out[:5])
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"nothing that can be read")
    members = (
        m.GroupMember("north", other, download, (0.0, 0.0, 1.0, 1.0), tmp_path / "north.onnx"),
        m.GroupMember("lost", other, m.StudentFile("gone", damaged), (0.0, 0.0, 1.0, 1.0), tmp_path / "lost.onnx"),
    )
    # Two cameras of another box: of one no picture can be read.
    gone = replace(window.train[0], frame=replace(window.train[0].frame, path=tmp_path / "gone.jpg"))
    yard = LabelledWindow("b2/yard", 4, "detection", CLASSES, window.train[25:35], (), ())
    guests = tuple(
        GroupGuest(CameraOfBox("b2", name), data, WHOLE)
        for name, data in (("yard", yard), ("gate", replace(yard, train=(gone,))))
    )
    own = replace(window, train=window.train[:25])
    job = m.RetrainingJob(
        "w2-cam", "cam", own, download, RetrainingConfig(4, 4, "all", 1.0, 2e-2), parent.spec, 1,
        tmp_path / "a.ckpt", tmp_path / "a.onnx", 2.0, download, members=members, guests=guests,
    )  # fmt: skip
    b.start("retrain-cam", training_worker, job, role="retraining", share=1.0, finishes=True)
    await until(lambda: of(b, m.TrainingDone))
    (done,) = of(b, m.TrainingDone)
    assert done.train_frames == 70, "the pictures of all teach"
    assert done.taught_with == ("north", "b2/yard"), "who cannot be read is left out"
    assert (done.guests, done.boxes) == ((CameraOfBox("b2", "yard"),), ("b2",))
    assert done.group[0].latest == len(window.held_out) + 5, "the kept-out pictures of both"
    assert done.group == done.members[0][1].group
    ((name, theirs),) = done.members
    assert (name, theirs.job, theirs.taught_with) == ("north", "w2-cam", ("cam", "b2/yard"))
    assert theirs.device_seconds == 0.0 < done.device_seconds, "paid for once"
    assert (theirs.candidate.frames, done.candidate.frames) == (5, 12)
    assert {c.latest for c in theirs.contenders} == {5}
    assert theirs.candidate.value > theirs.parent.value
    ours, north = load_student(done.path), load_student(theirs.path)
    assert isinstance(ours, PublishedStudent)
    assert isinstance(north, PublishedStudent)
    one, two = ours.network(), north.network()
    assert done.for_guests is not None
    for_guests = load_student(done.for_guests)
    assert isinstance(for_guests, PublishedStudent)
    for same in (two, for_guests.network()):
        assert all(torch.equal(x, y) for x, y in zip(one.weights, same.weights, strict=True)), "one student for all"
    promotion = decide(theirs, ModelVersion("first", "north", "", parent.spec, 0.0), 0.0, 1)
    assert promotion.outcome == "new"
    assert "retrained as one with 2 other cameras; trained with cameras of the box b2" in promotion.reason
    assert b.lost == []
