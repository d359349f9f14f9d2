"""torchvision's SSDLite as a student: the same answers, at any shape, from random weights."""

from __future__ import annotations

import json
import os
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
import torch
import yaml
from detectors.tiny_detectors import street

from edge.core.detectors import StudentDetector
from edge.core.errors import InvalidValue, WeightsError
from edge.detectors import ssdlite
from edge.detectors.decoding import Rows, decode, default_boxes
from edge.detectors.description import published_spec, read_detector
from edge.detectors.session import DetectorSession
from edge.students.graph import GraphNet
from edge.students.published import PublishedStudent, check_trainable

CLASSES = ("person", "car", "truck", "dog", "cat")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def lively_network(classes: int, seed: int = 0) -> torch.nn.Module:
    """torchvision's network with BatchNorms that matter and answers that differ from each other."""
    torch.manual_seed(seed)
    network = ssdlite._network(classes + 1)
    for name, module in network.named_modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-0.2, 0.2)
            module.running_var.uniform_(0.5, 1.5)
            module.weight.data.uniform_(0.8, 1.2)
        elif isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight)
            if name.startswith("head."):
                module.weight.data.mul_(0.3)  # logits of a size as trained ones have
    return network.eval()


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ssdlite") / "mine.pth"
    torch.save(lively_network(len(CLASSES)).state_dict(), path)
    return path


def described(folder: Path, **fields: object) -> Path:
    path = folder / "mine.yaml"
    value = {"kind": "torchvision", "model": ssdlite.MODEL, "weights": "mine.pth", "classes": list(CLASSES), **fields}
    path.write_text(yaml.safe_dump({k: v for k, v in value.items() if v is not None}), encoding="utf-8")
    return path


def test_the_graph_answers_as_torchvision(weights: Path) -> None:
    network = ssdlite.read_network(weights, len(CLASSES))
    content = ssdlite.graph_bytes(network)
    session = DetectorSession(content, "ssdlite", ssdlite.INPUT, ssdlite.output_spec())
    picture = cv2.resize(street(1)[0], (320, 320))
    x = ((picture.transpose(2, 0, 1)[None] / 255.0 - 0.5) / 0.5).astype(np.float32)
    mine = session.outputs(x, (320, 320))
    with torch.inference_mode():
        wanted = network.head(list(network.backbone(torch.from_numpy(x)).values()))
    assert np.abs(mine["logits"] - wanted["cls_logits"].numpy()).max() < 1e-3
    assert np.abs(mine["offsets"] - wanted["bbox_regression"].numpy()).max() < 1e-3
    # Decoded as torchvision decodes it.
    from torchvision.models.detection.image_list import ImageList

    image = torch.from_numpy(x)
    boxes = network.anchor_generator(ImageList(image, [(320, 320)]), list(network.backbone(image).values()))[0]
    decoded = network.box_coder.decode_single(wanted["bbox_regression"][0], boxes).numpy()
    shares = wanted["cls_logits"][0].softmax(-1).numpy()[:, 1:]
    found = decode(mine, ssdlite.output_spec(), (320, 320), Rows.build(range(5)), 0.0)
    assert len(found.scores) == len(boxes) == 3234
    assert np.abs(found.boxes - decoded).max() < 0.05
    assert np.abs(found.scores - shares.max(1)).max() < 1e-3


def test_detections_are_torchvisions(weights: Path, tmp_path: Path) -> None:
    """The whole way: resizing, normalising, softmax, boxes, suppression."""
    network = ssdlite.read_network(weights, len(CLASSES))
    network.score_thresh = 0.3
    spec = read_detector(described(weights.parent), {})
    session = DetectorSession(spec.file.read_bytes(), "ssdlite", spec.input, spec.output)
    picture = cv2.resize(street(2)[0], (320, 320))
    with torch.inference_mode():
        wanted = network([torch.from_numpy(picture).permute(2, 0, 1) / 255.0])[0]
    found = session.find(picture, Rows.build(range(5)), 0.3, spec.nms_iou, 300, (320, 320))
    assert len(found) > 3
    # torchvision lets one box answer for several classes; the best of each is among its answers.
    for box, score, klass in zip(found.boxes * 320, found.scores, found.classes, strict=True):
        same = wanted["labels"].numpy() == klass + 1
        near = np.abs(wanted["boxes"].numpy()[same] - box).max(1) < 0.1
        assert np.abs(wanted["scores"].numpy()[same][near] - score).min() < 1e-3


def test_default_boxes_keep_their_size_when_the_input_gets_another_shape() -> None:
    spec = ssdlite.output_spec()
    centres, sizes, strides = default_boxes(spec, (384, 224))
    assert len(centres) == 6 * sum(-(-384 // s) * -(-224 // s) for s in ssdlite.STRIDES)
    assert (
        set(map(tuple, np.round(sizes, 3)))
        == {(round(w, 3), round(h, 3)) for w, h in np.float32(np.concatenate(spec.anchors)).tolist()}
        or np.isin(np.round(sizes[:, 0]), np.round(np.concatenate(spec.anchors)[:, 0])).all()
    )
    assert (centres > 0).all()
    assert (centres < [384, 224]).all()
    assert centres[0].tolist() == [8.0, 8.0]
    assert strides[0] == 16


@pytest.mark.parametrize("size", [(320, 320), (224, 384), (64, 96)])
def test_torch_and_onnxruntime_agree_at_other_shapes(weights: Path, size: tuple[int, int]) -> None:
    content = ssdlite.graph_bytes(ssdlite.read_network(weights, len(CLASSES)))
    session = DetectorSession(content, "ssdlite", ssdlite.INPUT, ssdlite.output_spec())
    x = np.random.default_rng(0).uniform(-1, 1, (1, 3, *size)).astype(np.float32)
    with torch.inference_mode():
        ours = GraphNet(content, "ssdlite")(torch.from_numpy(x))
    theirs = session.outputs(x, size)
    for name, value in theirs.items():
        assert np.allclose(ours[name].numpy(), value, rtol=1e-3, atol=3e-3)
    assert len(decode(theirs, ssdlite.output_spec(), size[::-1], Rows.build(range(5)), 0.0).scores) == len(
        theirs["logits"][0]
    )


def test_parts_of_the_network() -> None:
    net = GraphNet(ssdlite.graph_bytes(lively_network(3)), "ssdlite")
    names = {id(p): n for n, p in zip(net.weight_names, net.weights, strict=True)}
    head = {names[id(p)] for p in net.parts("head")}
    last = {names[id(p)] for p in net.parts("last_stage")}
    assert all(n in head for n in net.weight_names if n.startswith(("logits.", "offsets.")))
    assert not any(n.startswith("backbone.0") for n in last)
    assert all(n in last for n in net.weight_names if n.startswith("backbone.2"))
    assert head < last < set(net.weight_names)


def test_a_student_made_of_it_is_trainable(weights: Path) -> None:
    spec = read_detector(described(weights.parent), {})
    student = PublishedStudent(
        published_spec(spec, ("car", "person"), {"car": ("car", "truck")}), spec.file.read_bytes()
    )
    assert student.input_shape((360, 640)) == (224, 448) or student.input_shape((360, 640))[0] % 32 == 0
    check_trainable(student)
    (found,) = student.detect([street(3)[0]], score=0.2)
    assert set(found.classes) <= {0, 1}
    assert StudentDetector.from_json(json.loads(json.dumps(student.detector.to_json()))) == student.detector
    assert student.features([street(3)[0]]).shape == (1, 672)


def test_the_graph_is_made_once_and_anew_for_other_weights(weights: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.pth"
    mine.write_bytes(weights.read_bytes())
    spec = read_detector(described(tmp_path), {})
    assert spec.file == tmp_path / "mine.onnx"
    first = spec.file.read_bytes()
    os.utime(spec.file, ns=(1, 1))
    read_detector(described(tmp_path), {})
    assert spec.file.stat().st_mtime_ns == 1  # not written again
    spec.file.write_bytes(first[:1000])
    read_detector(described(tmp_path), {})
    assert spec.file.read_bytes() == first  # a damaged one is made anew
    torch.save(lively_network(len(CLASSES), 1).state_dict(), mine)
    read_detector(described(tmp_path), {})
    metadata = {p.key: p.value for p in onnx.load(spec.file).metadata_props}
    assert spec.file.read_bytes() != first
    assert metadata[ssdlite.SOURCE_KEY].startswith(f"{ssdlite.VERSION}:5:")


def test_bad_descriptions_and_files_are_named(weights: Path, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"models pull|not in the models folder"):
        read_detector(described(tmp_path, weights="published", classes=None), {"MAGPIE_MODELS": str(tmp_path)})
    with pytest.raises(InvalidValue, match="classes"):
        read_detector(described(tmp_path, weights="published"), {"MAGPIE_MODELS": str(tmp_path)})
    with pytest.raises(WeightsError, match=r"mine\.pth: the model file is missing"):
        read_detector(described(tmp_path), {})
    (tmp_path / "mine.pth").write_bytes(b"no weights at all, but some bytes")
    with pytest.raises(WeightsError, match="damaged"):
        read_detector(described(tmp_path), {})
    (tmp_path / "mine.pth").write_bytes(weights.read_bytes())
    with pytest.raises(InvalidValue, match="classes"):
        read_detector(described(tmp_path, classes=None), {})
    with pytest.raises(WeightsError, match="does not fit"):
        read_detector(described(tmp_path, classes=["person"]), {})
    with pytest.raises(WeightsError, match="SHA-256"):
        read_detector(described(tmp_path, sha256="0" * 64), {})
    with pytest.raises(InvalidValue, match="model"):
        read_detector(described(tmp_path, model="ssd300_vgg16"), {})
    with pytest.raises(InvalidValue, match="tiling"):
        read_detector(described(tmp_path, tiling={"columns": 2}), {})


def test_the_published_weights_are_found_where_pull_puts_them(tmp_path: Path) -> None:
    classes = ssdlite.published_classes()
    assert len(classes) == len(set(classes)) == 90
    assert classes[:3] == ("person", "bicycle", "car")
    name = ssdlite.published_address().rsplit("/", 1)[-1]
    torch.save(ssdlite._network(91).state_dict(), tmp_path / name)
    shipped = Path(__file__).resolve().parents[2] / "configs" / "students" / "ssdlite320.yaml"
    spec = read_detector(shipped, {"MAGPIE_MODELS": str(tmp_path)})
    assert spec.file == (tmp_path / name).with_suffix(".onnx")
    assert spec.licence == "BSD-3-Clause"
    assert spec.classes == classes
