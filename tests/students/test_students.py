"""Students: building, answering, storing."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from safetensors.torch import load_file, save_file

from edge.core.configs import StudentSpec
from edge.core.errors import InvalidValue, WeightsError
from edge.core.vision import Detections
from edge.students import (
    DetectionNet,
    Student,
    build,
    cut_outs,
    detection_loss,
    input_size_at,
    load_student,
    match_targets,
    pictures_to_tensor,
    refill,
    resize_last_layer,
    resize_picture,
    save_weights,
    start_from,
)

CLASSES = ("car", "truck", "person")
DETECTOR = StudentSpec("detection", "ssdlite_mobilenet_v3", CLASSES, (96, 160), 0.35)
CLASSIFIERS = [
    StudentSpec("classification", "resnet18", CLASSES, (32, 32), 0.25),
    StudentSpec("classification", "mobilenet_v2", CLASSES, (32, 32), 0.35, last_layer_width=24),
    StudentSpec("classification", "shufflenet_v2", CLASSES, (32, 32), 0.5),
    StudentSpec("classification", "shufflenet_v2", CLASSES, (40, 32), 0.4),
]
ALL = [DETECTOR, *CLASSIFIERS]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def lively(spec: StudentSpec, seed: int = 1) -> Student:
    """A student whose BatchNorms have statistics that matter."""
    student = Student(spec, build(spec, seed))
    generator = torch.Generator().manual_seed(seed)
    for module in student.module.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.uniform_(-0.2, 0.2, generator=generator)
            module.running_var.uniform_(0.05, 0.6, generator=generator)
    return student


def picture(seed: int = 0, size: tuple[int, int] = (108, 192)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (*size, 3), dtype=np.uint8)


@pytest.mark.parametrize("spec", ALL, ids=lambda s: f"{s.architecture}-{s.width}")
def test_stages_make_up_the_whole_network(spec: StudentSpec) -> None:
    net = lively(spec).module
    x = pictures_to_tensor([picture(n, input_size_at(spec)) for n in range(2)])
    with torch.inference_mode():
        whole = net(x)
        staged = net.run_head(net.run_last_stage(net.run_stem(x)))
    assert all(torch.equal(a, b) for a, b in zip(whole, staged, strict=True))
    assert float(whole[0].std()) > 1e-6


@pytest.mark.parametrize("spec", ALL, ids=lambda s: f"{s.architecture}-{s.width}")
def test_inference_copy_answers_the_same_with_batch_norms_folded(spec: StudentSpec) -> None:
    student = lively(spec)
    x = pictures_to_tensor([picture(3, input_size_at(spec))])
    fast = student.for_inference()
    assert not [m for m in fast.module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    with torch.inference_mode():
        for a, b in zip(student.module(x), fast.module(x), strict=True):
            assert float((a - b).abs().max()) < 1e-3 * max(1.0, float(a.abs().max()))


@pytest.mark.parametrize("layers", ["head", "last_stage", "all"])
@pytest.mark.parametrize("spec", [DETECTOR, CLASSIFIERS[2]], ids=lambda s: s.architecture)
def test_freezing_trains_only_the_named_parts(spec: StudentSpec, layers: str) -> None:
    net = build(spec)
    chosen = net.freeze_all_but(layers)  # type: ignore[arg-type]
    assert {id(p) for p in net.parameters() if p.requires_grad} == {id(p) for p in chosen}
    frozen_training = [
        m for m in net.modules()
        if isinstance(m, torch.nn.BatchNorm2d) and m.training and m.weight is not None and not m.weight.requires_grad
    ]  # fmt: skip
    assert frozen_training == []
    everything = len(list(net.parameters()))
    assert 0 < len(chosen) < everything if layers != "all" else len(chosen) == everything


@pytest.mark.parametrize("resolution", [1.0, 0.8, 0.75, 0.5, 0.33])
@pytest.mark.parametrize("size", [(192, 320), (180, 320), (128, 96)])
def test_one_anchor_per_answer_at_every_resolution(size: tuple[int, int], resolution: float) -> None:
    spec = StudentSpec("detection", "ssdlite_mobilenet_v3", CLASSES, size, 0.35)
    net = build(spec)
    assert isinstance(net, DetectionNet)
    height, width = input_size_at(spec, resolution)
    with torch.inference_mode():
        logits, deltas = net(torch.zeros(1, 3, height, width))
    assert logits.shape[1] == deltas.shape[1] == len(net.anchors((height, width)))
    # An odd size rounds to the grid, but proportions stay within a step.
    assert abs(height / width - size[0] / size[1]) < 0.17


def test_matching_gives_each_object_an_anchor_and_decoding_inverts_it() -> None:
    net = build(DETECTOR)
    assert isinstance(net, DetectionNet)
    size = (96, 160)
    # The first is only 4 % of the picture high.
    labels = Detections.build(
        [[0.5, 0.5, 0.53, 0.54], [0.1, 0.1, 0.3, 0.35], [0.7, 0.2, 0.78, 0.6]], [0.9, 0.5, 1.0], [0, 1, 2]
    )
    matched = match_targets(net, size, labels)
    assert set(matched.classes.tolist()) == {0, 1, 2}
    anchors = len(net.anchors(size))
    logits = torch.full((1, anchors, 4), -20.0)
    logits[..., 3] = 20.0
    logits[0, matched.index, 3] = -20.0
    logits[0, matched.index, matched.classes] = 20.0
    deltas = torch.zeros(1, anchors, 4)
    deltas[0, matched.index] = matched.deltas
    (found,) = net.decode((logits, deltas), size, 0.5)
    assert len(found) == 3
    for box, klass in zip(labels.boxes, labels.classes, strict=True):
        nearest = int(np.abs(found.boxes - box).sum(1).argmin())
        assert np.abs(found.boxes[nearest] - box).max() < 0.01
        assert found.classes[nearest] == klass


def test_loss_is_small_for_the_right_answer_and_large_for_the_wrong_one() -> None:
    net = build(DETECTOR)
    assert isinstance(net, DetectionNet)
    size = (96, 160)
    matched = match_targets(net, size, Detections.build([[0.1, 0.1, 0.3, 0.35]], [1.0], [1]))
    empty = match_targets(net, size, Detections.empty())
    anchors = len(net.anchors(size))
    logits = torch.full((2, anchors, 4), -10.0)
    logits[..., 3] = 10.0
    deltas = torch.zeros(2, anchors, 4)
    wrong = float(detection_loss((logits, deltas), [matched, empty]))
    logits[0, matched.index, 3], logits[0, matched.index, 1] = -10.0, 10.0
    deltas[0, matched.index] = matched.deltas
    right = float(detection_loss((logits, deltas), [matched, empty]))
    assert right < 0.01 < 5 < wrong


def test_a_detector_learns_one_picture_by_heart() -> None:
    net = build(DETECTOR, seed=3)
    assert isinstance(net, DetectionNet)
    p = np.full((96, 160, 3), 90, np.uint8)
    p[30:60, 40:90] = (220, 30, 30)
    p[20:70, 120:136] = (20, 200, 60)
    labels = Detections.build([[0.25, 30 / 96, 90 / 160, 60 / 96], [0.75, 20 / 96, 0.85, 70 / 96]], [1, 1], [0, 2])
    x = pictures_to_tensor([p, p])
    target = match_targets(net, (96, 160), labels)
    optimiser = torch.optim.AdamW(net.freeze_all_but("all"), lr=3e-3)
    for _ in range(60):
        optimiser.zero_grad()
        loss = detection_loss(net(x), [target, target])
        loss.backward()
        optimiser.step()
    # Few steps leave the running statistics behind: take them from the picture itself.
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
            module.reset_running_stats()
    net.train()
    with torch.no_grad():
        net(x)
    (found,) = Student(DETECTOR, net).detect([p])
    # The two best answers are the two objects, in whichever order.
    order = np.argsort(found.classes[:2])
    assert found.classes[:2][order].tolist() == [0, 2]
    overlap = torchvision.ops.box_iou(torch.from_numpy(found.boxes[:2][order]), torch.from_numpy(labels.boxes))
    assert float(overlap.diagonal().min()) > 0.5


def test_wrong_task_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"student\.task"):
        Student(CLASSIFIERS[0]).detect([picture()])
    with pytest.raises(InvalidValue, match=r"student\.task"):
        Student(DETECTOR).name(picture(), np.zeros((1, 4), np.float32))


def test_answers_leave_no_autograd_and_empty_input_is_fine() -> None:
    student = lively(CLASSIFIERS[2])
    boxes = np.array([[0.0, 0.0, 0.1, 0.2], [0.9, 0.9, 1.0, 1.0]], np.float32)
    classes, scores = student.name(picture(), boxes)
    assert classes.dtype == np.int64
    assert ((classes >= 0) & (classes <= student.background)).all()
    assert ((scores > 0) & (scores <= 1)).all()
    assert student.name(picture(), boxes[:0])[0].shape == (0,)
    assert Student(DETECTOR).detect([]) == []
    assert all(p.grad is None for p in student.module.parameters())
    assert student.features([picture(), picture(1)]).shape[0] == 2


def test_cut_outs_keep_proportions_and_repeat_the_edge() -> None:
    p = np.zeros((100, 200, 3), np.uint8)
    p[40:60, 90:110] = 255
    cut = cut_outs(p, np.array([[0.45, 0.4, 0.55, 0.6]], np.float32), (48, 48))[0]
    white = (cut[..., 0] > 127).nonzero()
    assert abs(np.ptp(white[0]) - np.ptp(white[1])) <= 1
    assert abs(np.ptp(white[0]) + 1 - 40) <= 2  # 20 of 24 pixels
    p[:, :5] = 200
    edge = cut_outs(p, np.array([[0.0, 0.3, 0.02, 0.9]], np.float32), (32, 32))[0]
    assert (edge[:, :10] == 200).all()


def test_resizing_is_the_identity_at_the_own_size() -> None:
    p = picture()
    assert np.array_equal(resize_picture(p, p.shape[:2]), p)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("spec", ALL[:3], ids=lambda s: s.architecture)
def test_weights_round_trip(spec: StudentSpec, half: bool, tmp_path: Path) -> None:
    student = lively(spec)
    path = tmp_path / "deep" / "s.safetensors"
    save_weights(path, student.module, spec, {"scores": {"f1": 0.5}}, half=half)
    again = load_student(path)
    assert again.spec == spec
    assert again.info == {"scores": {"f1": 0.5}}
    x = pictures_to_tensor([picture(3, input_size_at(spec))])
    with torch.inference_mode():
        a, b = student.module(x)[0], again.module(x)[0]
    assert float((a - b).abs().max()) <= (0.02 * float(a.abs().max()) + 1e-3 if half else 0.0)
    assert [f.name for f in path.parent.iterdir()] == ["s.safetensors"]


@pytest.mark.parametrize("spec", ALL, ids=lambda s: f"{s.architecture}-{s.width}")
def test_refilling_a_spare_is_loading_and_folding(spec: StudentSpec, tmp_path: Path) -> None:
    old, new = lively(spec, 1), lively(spec, 2)
    path = tmp_path / "new.safetensors"
    save_weights(path, new.module, spec, {"n": 2}, half=True)
    spare = old.for_inference()
    breaths: list[int] = []
    assert refill(spare, path, lambda: breaths.append(1))
    assert len(breaths) > 5
    assert spare.info == {"n": 2}
    x = pictures_to_tensor([picture(3, input_size_at(spec))])
    expected = load_student(path).for_inference()
    with torch.inference_mode():
        for a, b in zip(expected.module(x), spare.module(x), strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-5 * max(1.0, float(a.abs().max())))


def test_refilling_refuses_what_does_not_fit_and_leaves_the_spare(tmp_path: Path) -> None:
    spec = CLASSIFIERS[0]
    student = lively(spec)
    spare = student.for_inference()
    before = {k: v.clone() for k, v in spare.module.state_dict().items()}
    path = tmp_path / "x.safetensors"
    save_weights(path, lively(CLASSIFIERS[2]).module, CLASSIFIERS[2])
    assert not refill(spare, path)
    save_weights(path, student.module, spec)
    assert not refill(student, path)  # no inference copy
    tensors = load_file(path)
    tensors["stem.bn1.running_var"][0] = float("inf")
    metadata = {"format": "magpie-student/1", "extra": "{}", "spec": json.dumps(spec.to_json())}
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(WeightsError, match="not finite"):
        refill(spare, path)
    del tensors["stem.bn1.running_var"]
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(WeightsError, match=r"lacks 1, e\.g\. stem\.bn1\.running_var"):
        refill(spare, path)
    assert all(torch.equal(v, before[k]) for k, v in spare.module.state_dict().items())


def test_bad_weight_files_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"none\.safetensors does not exist"):
        load_student(tmp_path / "none.safetensors")
    noise = tmp_path / "noise.safetensors"
    noise.write_bytes(b"\x00" * 999)
    with pytest.raises(WeightsError, match=r"noise\.safetensors is damaged"):
        load_student(noise)
    good = tmp_path / "good.safetensors"
    student = Student(CLASSIFIERS[2])
    save_weights(good, student.module, student.spec)
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(good.read_bytes()[:-100])
    with pytest.raises(WeightsError, match="damaged"):
        load_student(cut)
    foreign = tmp_path / "foreign.safetensors"
    save_file({"a": torch.zeros(1)}, foreign)
    with pytest.raises(WeightsError, match="no student"):
        load_student(foreign)
    metadata = {"format": "magpie-student/1", "extra": "{}"}
    other = tmp_path / "other.safetensors"
    wrong = student.spec.to_json() | {"width": 1.0}
    save_file(load_file(good), other, metadata=metadata | {"spec": json.dumps(wrong)})
    with pytest.raises(WeightsError, match="other shapes"):
        load_student(other)
    save_file(load_file(good), other, metadata=metadata | {"spec": json.dumps(wrong | {"colour": 1})})
    with pytest.raises(WeightsError, match=r"student\.colour"):
        load_student(other)
    tensors = load_file(good)
    tensors["out.bias"][0] = float("nan")
    save_file(tensors, other, metadata=metadata | {"spec": json.dumps(student.spec.to_json())})
    with pytest.raises(WeightsError, match=r"out\.bias holds numbers that are not finite"):
        load_student(other)


def test_published_backbones_are_taken_over(tmp_path: Path) -> None:
    from torchvision.models import mobilenet_v3_large, resnet18, shufflenet_v2_x0_5

    cases = [
        (StudentSpec("classification", "resnet18", CLASSES, (32, 32)), resnet18(weights=None)),
        (StudentSpec("classification", "shufflenet_v2", CLASSES, (32, 32), 0.5), shufflenet_v2_x0_5(weights=None)),
        (StudentSpec("detection", "ssdlite_mobilenet_v3", CLASSES, (64, 64)), mobilenet_v3_large(weights=None)),
    ]
    for spec, published in cases:
        path = tmp_path / f"{spec.architecture}.pth"
        torch.save(published.state_dict(), path)
        student = Student(spec, build(spec, seed=5))
        before = {k: v.clone() for k, v in student.module.state_dict().items() if v.ndim == 4}
        taken = start_from(student, path)
        after = student.module.state_dict()
        changed = [k for k, v in before.items() if not torch.equal(v, after[k])]
        backbone = [k for k in before if k.startswith(("features.", "stem.", "last."))]
        assert set(changed) == set(backbone)
        # All but the published classifier's own tensors fit.
        assert taken >= len(published.state_dict()) - 4
    wrong = Student(StudentSpec("classification", "resnet18", CLASSES, (32, 32), 0.5))
    with pytest.raises(WeightsError, match="fits"):
        start_from(wrong, tmp_path / "resnet18.pth")
    (tmp_path / "x.pth").write_bytes(b"nothing")
    with pytest.raises(WeightsError, match="cannot be read"):
        start_from(wrong, tmp_path / "x.pth")


@pytest.mark.parametrize("spec", [DETECTOR, CLASSIFIERS[1]], ids=lambda s: s.architecture)
def test_resizing_the_last_layer_keeps_the_rest(spec: StudentSpec) -> None:
    net = build(spec, seed=4)
    other = resize_last_layer(net, 40)
    assert other.spec.last_layer_width == 40
    first = next(iter(net.state_dict()))
    assert torch.equal(net.state_dict()[first], other.state_dict()[first])
    x = pictures_to_tensor([picture(3, input_size_at(spec))])
    with torch.inference_mode():
        assert other(x)[0].shape == net(x)[0].shape


@pytest.mark.parametrize("again", ["load_student", "refill"])
def test_a_student_that_is_read_again_and_again_leaves_nothing_in_memory(again: str, tmp_path: Path) -> None:
    """safetensors' own reading of a file loses two objects for each tensor."""
    path = tmp_path / "student.safetensors"
    student = Student(DETECTOR)
    save_weights(path, student.module, DETECTOR)
    spare = student.for_inference()
    read: Callable[[], object] = (
        (lambda: load_student(path)) if again == "load_student" else lambda: refill(spare, path)
    )

    def objects_after(times: int) -> int:
        for _ in range(times):
            read()
        gc.collect()
        return sys.getallocatedblocks()

    warm = objects_after(4)
    assert (objects_after(8) - warm) / 8 < len(load_file(path)) / 2
