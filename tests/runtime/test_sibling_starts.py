"""A new camera begins with its sibling's student; a retraining may. Real database and files, a tiny real detector."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge.core.camera_look import CameraLook
from edge.core.clock import SystemClock
from edge.core.configs import InferenceConfig, RetrainingConfig, StudentSpec
from edge.core.detectors import InputSpec, OutputSpec, StudentDetector
from edge.core.errors import MagpieError
from edge.core.labels import LabelledFrame, LabelledWindow, SampledFrame
from edge.core.models import ModelVersion
from edge.core.vision import Detections
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime, assumed_profile
from edge.runtime.device import open_bucket
from edge.runtime.looking import look, look_at
from edge.runtime.process import Channel
from edge.runtime.siblings import FIRST_PICTURES, Hands, Siblings
from edge.runtime.starts import best_start
from edge.settings import CameraSettings
from edge.store.store import Store, default_url
from edge.students.published import PublishedStudent
from edge.students.weights import save_student

SIDE = 64
DETECTOR = StudentDetector(
    "tiny", InputSpec(SIDE, SIDE, fit="corner"), OutputSpec("grid", (16,)), ("car",), (0,), licence="Apache-2.0"
)
SPEC = StudentSpec("detection", "onnx", ("car",), (SIDE, SIDE), detector=DETECTOR)
LOOK = CameraLook("tiny", 4, (1.0,), (1.0,), -2.0, 0.4, 2.0, (0.5, 0.6), 0.4, 1.78)
FAR = replace(LOOK, features=(90.0,))


def tiny(bright: float) -> PublishedStudent:
    """A detector of one convolution: each cell of 16 pixels that is `bright` (0-1) or more is a car of its size."""
    weight = np.zeros((6, 3, 16, 16), np.float32)
    weight[4:] = 20.0 / (3 * 256 * 255)
    bias = np.array([0.5, 0.5, 0, 0, -20 * bright, -20 * bright], np.float32)
    shape = np.array([1, 6, -1], np.int64)
    rest = [numpy_helper.from_array(v, n) for v, n in ((weight, "w"), (bias, "b"), (shape, "s"))]
    rest += [numpy_helper.from_array(np.array(v, np.int64), f"i{n}") for n, v in enumerate(([0], [4], [1], [99]))]
    nodes = [
        helper.make_node("Conv", ["images", "w", "b"], ["rows"], kernel_shape=[16, 16], strides=[16, 16]),
        helper.make_node("Slice", ["rows", "i0", "i1", "i2"], ["boxes"]),
        helper.make_node("Slice", ["rows", "i1", "i3", "i2"], ["logits"]),
        helper.make_node("Sigmoid", ["logits"], ["scores"]),
        helper.make_node("Concat", ["boxes", "scores"], ["joined"], axis=1),
        helper.make_node("Reshape", ["joined", "s"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["output"], perm=[0, 2, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 16, 6])],
        rest,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return PublishedStudent(SPEC, model.SerializeToString())


def written(folder: Path, student: PublishedStudent, name: str) -> m.StudentFile:
    save_student(folder / name, student)
    return m.StudentFile(name, folder / name)


def frames(folder: Path, count: int, value: int = 120, camera: str = "new") -> tuple[SampledFrame, ...]:
    """Pictures with one square of `value` on black, at the second cell."""
    out = []
    for n in range(count):
        picture = np.zeros((SIDE, SIDE, 3), np.uint8)
        picture[16:32, 16:32] = value
        path = folder / f"{camera}-{n}.jpg"
        assert cv2.imwrite(str(path), picture)
        out.append(SampledFrame(camera, 1, n, float(n), path, Detections.empty(), "v"))
    return tuple(out)


# what the workers do


class Beats:
    """The use of a worker's channel here; a real one ends its process when the other end is gone."""

    def __init__(self) -> None:
        self.count = 0

    def beat(self) -> None:
        self.count += 1

    def beating(self) -> bool:
        self.beat()
        return False


@pytest.fixture
def channel() -> Any:
    return Beats()


def test_a_worker_says_what_a_camera_looks_like(tmp_path: Path, channel: Channel) -> None:
    download = written(tmp_path, tiny(0.4), "download")
    job = m.Look(m.CameraSeen("new", 7, frames(tmp_path, 4)), download)
    done = look(job, open_bucket(), channel)
    assert (done.camera, done.window) == ("new", 7)
    assert done.look is not None
    assert done.look.pictures == 4
    assert done.look.detector == "tiny"
    assert done.look.crowd == pytest.approx(np.log(2), abs=1e-5), "one car per picture"
    assert done.look.place == pytest.approx((0.375, 0.375), abs=0.05)
    assert done.look.brightness == pytest.approx(120 / 255 / 16, abs=0.01)


def test_damaged_pictures_are_passed_over(tmp_path: Path, channel: Channel) -> None:
    download = written(tmp_path, tiny(0.4), "download")
    seen = [f.path for f in frames(tmp_path, 3)]
    seen[1].write_bytes(b"no picture")
    found = look_at(download, seen, open_bucket(), channel)
    assert found is not None
    assert found.pictures == 2
    assert look_at(download, [tmp_path / "gone.png"], open_bucket(), channel) is None


def job_of(
    tmp_path: Path, siblings: tuple[m.StudentFile, ...], parent: m.StudentFile, held_out: int = 6
) -> m.RetrainingJob:
    """On pictures whose cars are grey: who answers only to bright ones misses them all."""
    box = Detections.build([[0.25, 0.25, 0.5, 0.5]], [1.0], [0])
    labelled = tuple(LabelledFrame(f, box, "t") for f in frames(tmp_path, held_out + 1))
    data = LabelledWindow("new", 1, "detection", ("car",), labelled[:1], labelled[1:])
    return m.RetrainingJob(
        "job", "new", data, parent, RetrainingConfig(1), SPEC, 0, tmp_path / "c", tmp_path / "o", 1.0,
        download=parent, siblings=siblings,
    )  # fmt: skip


def test_a_retraining_begins_with_a_sibling_that_is_better(tmp_path: Path) -> None:
    blind, good = tiny(0.95), tiny(0.3)
    job = job_of(tmp_path, (written(tmp_path, good, "good"),), written(tmp_path, blind, "blind"))
    version, student = best_start(job, blind, blind)
    assert version == "good"
    assert isinstance(student, PublishedStudent)
    assert len(student.detect([cv2.imread(str(job.data.train[0].frame.path))], score=0.25)[0]) == 1


def test_a_retraining_begins_with_the_student_in_force_where_a_sibling_is_worse(tmp_path: Path) -> None:
    blind, good = tiny(0.95), tiny(0.3)
    job = job_of(tmp_path, (written(tmp_path, blind, "blind"),), written(tmp_path, good, "good"))
    assert best_start(job, good, good) == ("good", good)


def test_without_kept_out_pictures_or_siblings_nothing_changes(tmp_path: Path) -> None:
    blind, good = tiny(0.95), tiny(0.3)
    parent = written(tmp_path, blind, "blind")
    assert best_start(job_of(tmp_path, (written(tmp_path, good, "g"),), parent, 0), blind, blind) == ("blind", blind)
    assert best_start(job_of(tmp_path, (), parent), blind, blind) == ("blind", blind)


def test_a_sibling_of_another_kind_is_passed_over(tmp_path: Path) -> None:
    blind, good = tiny(0.95), tiny(0.3)
    other = PublishedStudent(replace(SPEC, classes=("van",)), good.content)
    job = job_of(tmp_path, (written(tmp_path, other, "van"),), written(tmp_path, blind, "blind"))
    assert best_start(job, blind, blind) == ("blind", blind)


def test_a_damaged_sibling_is_passed_over(tmp_path: Path) -> None:
    blind = tiny(0.95)
    (tmp_path / "damaged").write_bytes(b"nothing that can be read")
    job = job_of(tmp_path, (m.StudentFile("damaged", tmp_path / "damaged"),), written(tmp_path, blind, "blind"))
    assert best_start(job, blind, blind) == ("blind", blind)


# what the control process does


class Box:
    """Siblings over a real store; the rest of the runtime writes down what it was asked."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.cameras: dict[str, CameraRuntime] = {}
        self.asked: list[m.Look] = []
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.complaints: list[str] = []
        self.changed: list[tuple[str, str]] = []
        self.work: list[Awaitable[Any]] = []
        self.refuse = False
        self.switch = asyncio.Event()
        self.switch.set()
        self.siblings = Siblings(
            Hands(
                store, SystemClock(), lambda: self.cameras, self._student, self._ask, lambda call, *a: call(*a),
                self.asked.append, self._put, lambda c, what: self.changed.append((c.id, what)),
                lambda work, name: self.work.append(work), self._note,
                lambda code, message, camera: self.complaints.append(message),
            )
        )  # fmt: skip

    def _student(self, version: ModelVersion) -> m.StudentFile:
        return m.StudentFile(version.id, self.store.blobs.path(version.blob))

    async def _ask(self, call: Callable[..., Any], *args: Any) -> Any:
        return call(*args)

    async def _put(self, camera: CameraRuntime, version: ModelVersion, by: str, reason: str, scores: Any) -> None:
        await self.switch.wait()
        if self.refuse:
            raise MagpieError("the worker is gone")
        camera.version = self.store.versions.promote(version.id, by, reason, scores=scores)

    def _note(self, kind: str, **more: Any) -> None:
        self.notes.append((kind, more["data"]))

    def camera(self, name: str, retrained: bool = False, config: str = "all", **settings: Any) -> CameraRuntime:
        """A camera whose first version is the download."""
        first = self._version(name, f"{name}-first-1", b"download", None)
        given = CameraSettings(id=name, name=name, url="rtsp://127.0.0.1/x", classes=["car"], **settings)
        camera = CameraRuntime(given, first, first, assumed_profile(given.inference, 1.0))
        camera.inference = InferenceConfig(1.0)
        self.cameras[name] = camera
        if retrained:
            camera.version = self._version(name, f"{name}-w3-x", name.encode(), first.id, window=3, config=config)
        return camera

    def _version(self, camera: str, name: str, content: bytes, parent: str | None, **more: Any) -> ModelVersion:
        made = self.store.add_model(ModelVersion(name, camera, "", SPEC, 1.0, parent=parent, **more), content)
        return self.store.versions.promote(made.id, "test", "")

    def show(self, camera: CameraRuntime, count: int = FIRST_PICTURES) -> None:
        for n in range(count):
            self.siblings.sampled(
                camera, SampledFrame(camera.id, 1, n, 0.0, Path("x.jpg"), Detections.empty(), camera.version.id)
            )

    async def looked(self, camera: CameraRuntime, seen: CameraLook | None) -> None:
        self.siblings.looked(m.Looked(camera.id, 1, seen))
        for work in self.work:
            await work
        self.work.clear()


@pytest.fixture
def box(sqlite_template: Path, tmp_path: Path) -> Iterator[Box]:
    shutil.copy(sqlite_template, tmp_path / "magpie.db")
    with Store(default_url(tmp_path), tmp_path) as store:
        yield Box(store, tmp_path)


async def test_a_new_camera_begins_with_the_student_of_the_camera_that_looks_most_alike(box: Box) -> None:
    old, far, new = box.camera("old", retrained=True), box.camera("far", retrained=True), box.camera("new")
    box.siblings.learned("old", LOOK)
    box.siblings.learned("far", FAR)
    box.show(new, FIRST_PICTURES - 1)
    assert box.asked == []
    box.show(new)
    assert len(box.asked) == 1
    assert len(box.asked[0].data.frames) == FIRST_PICTURES
    assert box.asked[0].download.version == "new-first-1"
    await box.looked(new, replace(LOOK, crowd=2.5))
    version = box.store.versions.promoted("new")
    assert version is not None
    assert version == new.version
    assert version.blob == old.version.blob != far.version.blob
    assert (version.parent, version.config, version.decided_by) == ("new-first-1", "sibling", "sibling")
    assert "looks most alike" in version.reason
    assert "old" not in version.reason, "a user of the new camera may not see the other"
    assert 0 < version.scores["sibling_distance"] < 1
    kind, data = box.notes[-1]
    assert kind == "model.from_sibling"
    assert (data["sibling"], data["sibling_version"], data["version"]) == ("old", old.version.id, version.id)
    assert [v.id for v in box.store.versions.lineage(version.id)] == [version.id, "new-first-1"]
    assert box.changed == [("new", "camera_from_sibling")]
    assert box.store.settings.get_settings("look/new") is not None


async def test_without_a_camera_alike_the_download_stays(box: Box) -> None:
    box.camera("far", retrained=True)
    new = box.camera("new")
    box.siblings.learned("far", FAR)
    box.show(new)
    await box.looked(new, LOOK)
    assert new.version.id == "new-first-1"
    assert box.notes == [("sibling.none", {"cameras": 1})]


async def test_a_camera_without_a_readable_picture_keeps_the_download(box: Box) -> None:
    box.camera("old", retrained=True)
    new = box.camera("new")
    box.siblings.learned("old", LOOK)
    await box.looked(new, None)
    assert new.version.id == "new-first-1"
    assert box.store.settings.get_settings("look/new") is None


@pytest.mark.parametrize("why", ["labelled", "retraining is off", "weights were given", "retrained"])
def test_only_a_new_camera_that_is_to_learn_begins_with_a_sibling(box: Box, why: str) -> None:
    box.camera("old", retrained=True)
    box.siblings.learned("old", LOOK)
    more: dict[str, Any] = {}
    if why == "retraining is off":
        more = {"retraining": {"enabled": False}}
    if why == "weights were given":
        more = {"student": {"model": "yolox_nano", "weights": "given.onnx"}}
    new = box.camera("new", retrained=why == "retrained", **more)
    if why == "labelled":
        new.closed[1] = LabelledWindow("new", 1, "detection", ("car",), (), ())
    box.show(new)
    assert box.asked == []


@pytest.mark.parametrize("config", ["download", "sibling"])
def test_a_camera_that_has_not_learned_of_its_own_pictures_is_no_sibling(box: Box, config: str) -> None:
    box.camera("old", retrained=True, config=config)
    new = box.camera("new")
    box.siblings.learned("old", LOOK)
    box.show(new)
    assert box.asked == []


async def test_a_camera_that_was_judged_before_a_restart_keeps_its_student(box: Box) -> None:
    box.camera("old", retrained=True)
    new = box.camera("new")
    box.siblings.learned("old", LOOK)
    judged = box.store.add_model(ModelVersion("new-w1-x", "new", "", SPEC, 2.0, parent="new-first-1", window=1), b"x")
    box.store.versions.reject(judged.id, "gate", "worse")
    box.show(new)
    await box.looked(new, LOOK)
    assert new.version.id == "new-first-1"


async def test_a_switch_that_fails_is_reported(box: Box) -> None:
    box.camera("old", retrained=True)
    new = box.camera("new")
    box.siblings.learned("old", LOOK)
    box.show(new)
    box.refuse = True
    await box.looked(new, LOOK)
    assert box.complaints == ["new: the student of old was not put in force: the worker is gone"]
    assert box.changed == []


async def test_a_camera_is_judged_or_removed_after_its_switch_to_a_sibling_s_student(box: Box) -> None:
    box.camera("old", retrained=True)
    new = box.camera("new")
    box.siblings.learned("old", LOOK)
    box.switch.clear()
    begins = asyncio.create_task(box.looked(new, LOOK))
    for _ in range(5):
        await asyncio.sleep(0)
    assert new.judging.locked()
    box.switch.set()
    async with new.judging:
        assert box.notes[-1][0] == "model.from_sibling"
        assert box.changed == [("new", "camera_from_sibling")]
    await begins


async def test_a_camera_that_was_removed_meanwhile_begins_with_nothing(box: Box) -> None:
    box.camera("old", retrained=True)
    new = box.camera("new")
    box.siblings.learned("old", LOOK)
    async with new.judging:
        begins = asyncio.create_task(box.looked(new, LOOK))
        await asyncio.sleep(0)
        del box.cameras["new"]
    await begins
    assert [v.id for v in box.store.versions.newest("new")] == ["new-first-1"]
    assert (box.notes, box.complaints) == ([], [])


def test_a_retraining_is_offered_the_most_alike_camera_s_student(box: Box) -> None:
    old, new = box.camera("old", retrained=True), box.camera("new", retrained=True)
    box.camera("far", retrained=True)
    assert box.siblings.starts(new) == (), "nothing is known of how it looks yet"
    for name, seen in (("old", LOOK), ("far", FAR), ("new", LOOK)):
        box.siblings.learned(name, seen)
    assert [s.version for s in box.siblings.starts(new)] == [old.version.id]
    new.version = replace(new.version, blob=old.version.blob)
    assert box.siblings.starts(new) == (), "it is the same student"


def test_looks_outlive_a_restart_and_are_forgotten_with_their_camera(box: Box) -> None:
    old, new = box.camera("old", retrained=True), box.camera("new", retrained=True)
    box.siblings.learned("old", LOOK)
    box.siblings.learned("new", LOOK)
    again = Box(box.store, box.folder)
    again.cameras = box.cameras
    for name in ("old", "new", "never"):
        again.siblings.known(name, box.store.settings.get_settings(f"look/{name}"))
    assert [s.version for s in again.siblings.starts(new)] == [old.version.id]
    again.siblings.forget("old")
    assert again.siblings.starts(new) == ()
