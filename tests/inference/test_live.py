"""Live students: answers, stand-ins, swaps, proposals."""

from __future__ import annotations

import threading
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from edge.core.accuracy import box_iou
from edge.core.configs import StudentSpec
from edge.core.errors import InvalidValue, WeightsError
from edge.core.vision import Detections, Frame
from edge.core.ways import Ways, gone_on
from edge.inference import LiveStudent, ProposalFinder, measure_cost, prepare
from edge.inference.live import _one_per_object
from edge.students import Student, build, save_weights

CLASSES = ("car", "person")
DETECTOR = StudentSpec("detection", "ssdlite_mobilenet_v3", CLASSES, (64, 96), 0.35)
NAMER = StudentSpec("classification", "shufflenet_v2", CLASSES, (32, 32), 0.5)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def frame(number: int, picture: np.ndarray | None = None) -> Frame:
    if picture is None:
        picture = np.random.default_rng(number).integers(0, 255, (72, 128, 3), dtype=np.uint8)
    return Frame("gate", number, number / 10, 1_700_000_000 + number / 10, picture)


def talkative(spec: StudentSpec, seed: int = 0) -> Student:
    """A detector that answers something."""
    student = Student(spec, build(spec, seed))
    with torch.no_grad():
        if spec.task == "detection":
            student.module.class_out.bias.view(-1, 3)[:, seed % 2] = 6.0  # type: ignore[union-attr, operator, index]
        else:
            student.module.out.bias[seed % 2] = 6.0  # type: ignore[union-attr, operator, index]
    return student


def test_a_skipped_frame_is_answered_by_the_last_answer() -> None:
    live = LiveStudent(talkative(DETECTOR), "v1", "gate")
    before = live.skip(frame(0))
    assert before.stale
    assert len(before.detections) == 0
    fresh = live.answer(frame(1))
    assert not fresh.stale
    assert len(fresh.detections) > 0
    assert fresh.inference_s > 0
    stale = live.skip(frame(4))
    assert stale.stale
    assert stale.detections is fresh.detections
    assert (stale.frame_number, stale.monotonic_s, stale.answered_at_s) == (4, 0.4, 0.1)
    assert live.skip_time(5, 0.5, 1.0).model_version == "v1"
    assert live.recorded_answer(fresh) == (fresh.detections, None)
    assert live.recorded_answer(stale) == (fresh.detections, None)


def test_the_objects_of_a_stale_answer_go_on_where_their_way_is_known() -> None:
    times: list[float] = []

    def follow(answer: Detections, at_s: float) -> Ways | None:
        times.append(at_s)
        return None if at_s < 0.15 else np.tile(np.array([[0.1, 0.0, 0.0]], np.float32), (len(answer), 1))

    live = LiveStudent(talkative(DETECTOR), "v1", "gate", follow=follow)
    unknown = live.answer(frame(1))
    assert live.skip(frame(2)).detections is unknown.detections
    fresh = live.answer(frame(3))
    stale = live.skip(frame(7))
    assert times == [0.1, 0.3]
    expected = gone_on(fresh.detections, fresh.ways, 0.4)
    assert np.array_equal(stale.detections.boxes, expected.boxes)
    assert not np.array_equal(stale.detections.boxes, fresh.detections.boxes)
    answer, going = live.recorded_answer(stale)
    assert answer is stale.detections
    assert going is not None
    assert going.answer is fresh.detections
    assert live.recorded_answer(fresh) == (fresh.detections, None), "a fresh answer is where its objects are"


def test_resolution_and_score_change_what_is_answered() -> None:
    student = talkative(DETECTOR)
    assert len(LiveStudent(student, "v", "gate", score=0.9999).answer(frame(1)).detections) == 0
    live = LiveStudent(student, "v", "gate")
    assert live.answer(frame(1), 0.5).resolution == 0.5
    with pytest.raises(InvalidValue, match="score_threshold"):
        LiveStudent(student, "v", "gate", score=1.5)


def test_swap_between_two_frames_loses_none() -> None:
    live = LiveStudent(talkative(DETECTOR, 0), "v1", "gate")
    ready = threading.Event()
    other = talkative(DETECTOR, 1).for_inference()

    def swap_soon() -> None:
        ready.wait(10)
        live.swap(other, "v2")

    thread = threading.Thread(target=swap_soon)
    thread.start()
    seen = []
    for n in range(12):
        if n == 5:
            ready.set()
            thread.join()
        seen.append(live.answer(frame(n)))
    assert [o.frame_number for o in seen] == list(range(12))
    assert [o.model_version for o in seen] == ["v1"] * 5 + ["v2"] * 7
    # The answers are really the version's that they name.
    assert all(set(o.detections.classes) == {0 if o.model_version == "v1" else 1} for o in seen)
    assert live.version == "v2"


def test_two_buffers_take_turns(tmp_path: Path) -> None:
    paths = []
    for n in range(2):
        paths.append(tmp_path / f"{n}.safetensors")
        save_weights(paths[n], talkative(DETECTOR, n).module, DETECTOR)
    live = LiveStudent(prepare(paths[0]), "v0", "gate")
    used = []
    for n in range(1, 6):
        answering = live._force[0]
        student = live.prepare(paths[n % 2], breathe=lambda: None)
        assert student is not answering
        # Until the swap the old one answers, unharmed.
        assert set(live.answer(frame(n)).detections.classes) == {(n - 1) % 2}
        live.swap(student, f"v{n}")
        assert set(live.answer(frame(n)).detections.classes) == {n % 2}
        used.append(id(student))
    assert len(set(used)) == 2
    (tmp_path / "bad.safetensors").write_bytes(b"bad")
    with pytest.raises(WeightsError, match="damaged"):
        live.prepare(tmp_path / "bad.safetensors")
    live.swap(live.prepare(paths[0]), "v6")
    other = StudentSpec("detection", "ssdlite_mobilenet_v3", CLASSES, (64, 96), 0.35, last_layer_width=24)
    save_weights(paths[0], talkative(other, 1).module, other)
    live.swap(live.prepare(paths[0]), "v7")
    assert set(live.answer(frame(9)).detections.classes) == {1}


def test_what_does_not_fit_is_not_swapped_in() -> None:
    live = LiveStudent(talkative(DETECTOR), "v1", "gate")
    with pytest.raises(InvalidValue, match=r"student\.task"):
        live.swap(Student(NAMER), "v2")
    fewer = StudentSpec("detection", "ssdlite_mobilenet_v3", ("car",), (64, 96), 0.35)
    with pytest.raises(InvalidValue, match=r"student\.classes"):
        live.swap(Student(fewer), "v2")
    assert live.answer(frame(1)).model_version == "v1"


@pytest.mark.parametrize("spec", [DETECTOR, NAMER], ids=["detection", "classification"])
def test_prepare_loads_and_warms(spec: StudentSpec, tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    student = talkative(spec)
    save_weights(path, student.module, spec)
    ready = prepare(path, resolutions=(1.0, 0.5))
    assert ready.spec == spec
    assert not [m for m in ready.module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    with pytest.raises(WeightsError, match="does not exist"):
        prepare(tmp_path / "absent.safetensors")
    cost = measure_cost(ready, (1.0, 0.5), frame(1).picture, repeats=3)
    assert set(cost) == {1.0, 0.5}
    assert min(cost.values()) > 0


def test_probes_compare_resolutions() -> None:
    live = LiveStudent(talkative(DETECTOR), "v", "gate", probe_resolutions=(1.0, 0.75, 0.5), probe_every=2)
    probes = [probe for n in range(8) if (probe := live.answer(frame(n)).probe) is not None]
    assert sorted(p.resolution for p in probes) == [0.5, 0.5, 0.75, 0.75]
    assert all(0 <= p.agreement <= 1 and p.seconds > 0 for p in probes)


# proposals


def street(seed: int, time_s: float, light: float = 1.0, noise: float = 0.0, stop_at: float = 99.0) -> np.ndarray:
    """A textured street with a car that drives from left to right (0.12 of the width per second) and may stop."""
    rng = np.random.default_rng(seed)
    base = cv2.GaussianBlur(rng.integers(60, 140, (180, 320, 3), dtype=np.uint8), (7, 7), 0).astype(np.float32)
    x = int(min(time_s, stop_at) * 0.12 * 320)
    if 0 <= x < 300:
        base[90:115, x : x + 45] = (200, 60, 40)
        base[94:103, x + 8 : x + 30] = (40, 50, 60)
    picture = base * light
    if noise:
        drops = np.random.default_rng(int(time_s * 1000) + 100_000)
        for row, column in drops.integers(0, (178, 318), (int(noise), 2)):
            picture[row : row + 3, column : column + 2] += 90
        picture += drops.normal(0, 4, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def car_box(time_s: float, stop_at: float = 99.0) -> np.ndarray:
    x = int(min(time_s, stop_at) * 0.12 * 320)
    return np.array([[x / 320, 90 / 180, min(1.0, (x + 45) / 320), 115 / 180]], np.float32)


def hit(boxes: np.ndarray, truth: np.ndarray) -> bool:
    return len(boxes) > 0 and float(box_iou(boxes, truth).max()) >= 0.5


@pytest.mark.parametrize("noise", [0, 120], ids=["dry", "rain"])
def test_what_moves_is_found(noise: float) -> None:
    finder = ProposalFinder()
    found, other = 0, 0
    for n in range(-20, 28):
        t = n * 0.25
        boxes = finder.find(street(1, t, noise=noise), t)
        if 4 <= n < 28:
            found += hit(boxes, car_box(t))
            other += sum(
                not hit(b[None], car_box(t)) and float(box_iou(b[None], car_box(t)).max()) < 0.1 for b in boxes
            )
    assert found >= 22
    assert other <= 24 * (1 if noise else 0.2)


def test_changes_of_light_are_no_motion() -> None:
    finder = ProposalFinder()
    for n in range(30):
        finder.find(street(1, -9, noise=1), n * 0.25)
    counts = [len(finder.find(street(1, -9, light=1.0 + 0.01 * n, noise=1), 8 + n * 0.25)) for n in range(30)]
    assert max(counts) <= 1
    sudden = [len(finder.find(street(1, -9, light=0.5, noise=1), 16 + n * 0.25)) for n in range(12)]
    assert max(sudden[2:]) <= 1


def test_an_object_that_stops_is_kept_while_it_stands_and_given_up_when_gone() -> None:
    finder = ProposalFinder()
    stop = 4.0
    kept = []
    for n in range(-20, 200):
        t = n * 0.25
        gone = t > 40
        picture = street(1, -9, noise=1) if gone else street(1, t, noise=1, stop_at=stop)
        boxes = finder.find(picture, t)
        truth = car_box(t, stop)
        finder.confirm(boxes, np.array([hit(b[None], truth) for b in boxes], bool), t)
        if stop + 1 <= t <= 40:
            kept.append(hit(boxes, truth))
        if t > 45:
            assert not hit(boxes, truth)
    assert np.mean(kept) > 0.95


def test_proposals_are_bounded_and_start_over_after_a_new_view() -> None:
    rng = np.random.default_rng(0)
    finder = ProposalFinder(max_proposals=5)
    for n in range(20):
        picture = street(1, -9)
        for row, column in rng.integers(0, (160, 300), (12, 2)):
            picture[row : row + 14, column : column + 16] = 255
        assert len(finder.find(picture, n * 0.25)) <= 5
    view = rng.integers(0, 255, (180, 320, 3), dtype=np.uint8)
    finder.find(view, 6.0)
    assert len(finder.find(view, 6.25)) == 0
    assert len(finder.find(np.zeros((90, 160, 3), np.uint8), 6.5)) == 0


def test_classification_names_what_moves_and_records_backgrounds_too() -> None:
    student = talkative(NAMER, 1)
    live = LiveStudent(student, "v", "gate")
    for n in range(30):
        t = n * 0.25
        observation = live.answer(Frame("gate", n, t, t, street(1, t - 1)))
    assert set(observation.detections.classes) == {1}
    assert hit(observation.detections.boxes, car_box(29 * 0.25 - 1))
    with torch.no_grad():
        student.module.out.bias[2] = 99.0  # type: ignore[union-attr, operator, index]
    later = live.answer(Frame("gate", 31, 7.6, 7.6, street(1, 6.6)))
    assert len(later.detections) == 0
    kept, going = live.recorded_answer(later)
    assert set(kept.classes) == {2}
    assert going is None


def test_one_answer_per_object() -> None:
    boxes = [[0.1, 0.1, 0.5, 0.5], [0.12, 0.12, 0.2, 0.2], [0.1, 0.1, 0.52, 0.5], [0.7, 0.7, 0.9, 0.9]]
    named = Detections.build(boxes, [0.8, 0.6, 0.9, 0.5], [0, 0, 1, 0])
    # The part of the same class goes, the same box with the weaker name goes.
    assert _one_per_object(named.select(np.array([0, 1]))).boxes.tolist() == named.boxes[:1].tolist()
    assert _one_per_object(named).scores.tolist() == pytest.approx([0.6, 0.9, 0.5])
    assert len(_one_per_object(Detections.empty())) == 0
