"""Any ONNX detector as a teacher, run by onnxruntime after a small description (`OnnxSpec`)."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import onnxruntime
from numpy.typing import NDArray

from edge.core.errors import WeightsError
from edge.core.vision import Detections
from golden.decoding import decode
from golden.files import check_file
from golden.geometry import suppress
from golden.spec import InputSpec, OnnxSpec


class OnnxTeacher:
    """A detector; `label` may be called from one thread at a time."""

    def __init__(self, spec: OnnxSpec, threads: int = 1, device: str = "cpu") -> None:
        """Loads the model and runs it once on a grey picture, so that a wrong description is seen here.

        Raises:
            WeightsError: the file is missing, damaged, or does not fit its description.
        """
        self.spec, self.name, self.classes = spec, spec.name, spec.classes
        self._session, self._input, self._size_input = _opened(spec, threads, device)
        self._outputs = [o.name for o in self._session.get_outputs()]
        self.label(np.full((72, 128, 3), 128, np.uint8))

    def label(self, picture: NDArray[np.uint8]) -> Detections:
        """Objects on a uint8 RGB picture (H, W, 3), best first, above the spec's score; classes index `classes`."""
        s = self.spec
        height, width = picture.shape[:2]
        tensor, placed = to_tensor(picture, s.input)
        feed: dict[str, Any] = {self._input: tensor}
        if self._size_input:
            size = (width, height) if s.input.size_order == "wh" else (height, width)
            feed[self._size_input] = np.array([size], np.int64)
        try:
            values = self._session.run(self._outputs, feed)
        except Exception as error:  # onnxruntime raises its own classes, one per cause
            raise WeightsError(f"{s.file}: the model refuses its input ({_first_line(error)})") from error
        outputs = dict(zip(self._outputs, values, strict=True))
        found = decode(outputs, s.output, (s.input.width, s.input.height), len(s.classes), s.min_score)
        x, y, w, h = placed
        if found.units == "normalised":
            x, y, w, h = 0.0, 0.0, 1.0, 1.0
        elif found.units == "picture":
            x, y, w, h = 0.0, 0.0, float(width), float(height)
        moved = (found.boxes - np.array([x, y, x, y], np.float32)) / np.array([w, h, w, h], np.float32)
        boxes: NDArray[np.float32] = np.clip(moved, 0.0, 1.0).astype(np.float32)
        solid = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        boxes, scores, classes = boxes[solid], np.clip(found.scores[solid], 0, 1), found.classes[solid]
        keep = suppress(boxes, scores, classes, s.nms_iou, s.max_objects)
        return Detections.build(boxes[keep], scores[keep], classes[keep])


def check_model(spec: OnnxSpec) -> None:
    """The file is there, is the right one, can be opened and has the inputs that its description says.

    Raises WeightsError.
    """
    _opened(spec, 1, "cpu")


def to_tensor(picture: NDArray[np.uint8], spec: InputSpec) -> tuple[NDArray[Any], tuple[float, float, float, float]]:
    """The network's input, and where the picture lies in it: x, y, width, height in input pixels."""
    height, width = picture.shape[:2]
    if spec.fit == "stretch":
        image = cv2.resize(picture, (spec.width, spec.height), interpolation=cv2.INTER_LINEAR)
        placed = (0.0, 0.0, float(spec.width), float(spec.height))
    else:
        ratio = min(spec.width / width, spec.height / height)
        w, h = max(1, round(width * ratio)), max(1, round(height * ratio))
        x, y = ((spec.width - w) // 2, (spec.height - h) // 2) if spec.fit == "letterbox" else (0, 0)
        image = np.full((spec.height, spec.width, 3), spec.pad, np.uint8)
        image[y : y + h, x : x + w] = cv2.resize(picture, (w, h), interpolation=cv2.INTER_LINEAR)
        placed = (float(x), float(y), float(w), float(h))
    if spec.colour == "bgr":
        image = image[..., ::-1]
    if spec.type == "float32":
        value: NDArray[Any] = image.astype(np.float32) * np.float32(spec.scale)
        value = (value - np.asarray(spec.mean, np.float32)) / np.asarray(spec.std, np.float32)
    else:
        value = image
    if spec.layout == "nchw":
        value = value.transpose(2, 0, 1)
    return np.ascontiguousarray(value[None]), placed


def _opened(spec: OnnxSpec, threads: int, device: str) -> tuple[Any, str, str]:
    """(session, name of the picture input, name of the size input or "")."""
    check_file(spec.file, spec.sha256)
    session = _open_session(spec, threads, device)
    inputs = {i.name: i for i in session.get_inputs()}
    picture = _picture_input(spec, list(inputs.values()))
    return session, picture, _size_input(spec, list(inputs), picture)


def _open_session(spec: OnnxSpec, threads: int, device: str) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Spinning threads would burn the share of the students between two pictures.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    wanted = (
        ["CUDAExecutionProvider", "CPUExecutionProvider"] if device.startswith("cuda") else ["CPUExecutionProvider"]
    )
    providers = [p for p in wanted if p in onnxruntime.get_available_providers()]
    try:
        return onnxruntime.InferenceSession(str(spec.file), options, providers=providers)
    except Exception as error:  # onnxruntime raises its own classes, one per cause
        raise WeightsError(f"{spec.file}: not a model that onnxruntime can open ({_first_line(error)})") from error


def _picture_input(spec: OnnxSpec, inputs: list[Any]) -> str:
    name = spec.input.name or inputs[0].name
    found = [i for i in inputs if i.name == name]
    if not found:
        raise WeightsError(f"{spec.file}: has no input {name!r}", "inputs: " + ", ".join(i.name for i in inputs))
    w, h = spec.input.width, spec.input.height
    wanted = (1, 3, h, w) if spec.input.layout == "nchw" else (1, h, w, 3)
    shape = list(found[0].shape)
    fits = len(shape) == 4 and all(not isinstance(n, int) or n == m for n, m in zip(shape, wanted, strict=True))
    if not fits:
        raise WeightsError(f"{spec.file}: its input has shape {shape}, the description says {list(wanted)}")
    return name


def _size_input(spec: OnnxSpec, names: list[str], picture: str) -> str:
    rest = [n for n in names if n != picture]
    wanted = spec.input.size_name
    if wanted and wanted not in rest:
        raise WeightsError(
            f"{spec.file}: has no input {wanted!r} for the picture's size", "inputs: " + ", ".join(names)
        )
    others = [n for n in rest if n != wanted]
    if others:
        raise WeightsError(f"{spec.file}: needs more inputs: {', '.join(others)}", "name the size with input.size_name")
    return wanted


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0][:200] if text else type(error).__name__
