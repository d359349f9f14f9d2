"""A published detector run by onnxruntime: a picture in, objects out, at any input shape that its graph allows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import onnxruntime
from numpy.typing import NDArray

from edge.core.detectors import STRIDED, InputSpec, OutputSpec, knows_one_shape
from edge.core.errors import WeightsError
from edge.core.input_shapes import camera_shape
from edge.core.vision import Detections
from edge.detectors.boxes import suppress
from edge.detectors.decoding import Rows, decode, pair_of
from edge.detectors.shapes import ResizableGraph

Picture = NDArray[np.uint8]
#: Input tensor (1, 3, h, w) -> outputs by name.
Runner = Callable[[NDArray[Any]], dict[str, NDArray[Any]]]

#: Opened sessions that are kept, one per input shape.
KEPT_SESSIONS = 6
#: Output layouts whose cells follow from the input's shape. Others are used at the shape that they were exported for.
_SHAPED = STRIDED


class DetectorSession:
    """One graph, opened once per input shape. Calls come from one thread at a time.

    `shape` is (height, width) as exported. Raises WeightsError if the file is not an ONNX graph, or has other inputs
    than its description says.
    """

    def __init__(
        self,
        content: bytes,
        name: str,
        given: InputSpec,
        output: OutputSpec,
        threads: int = 1,
        device: str = "cpu",
        runner: Runner | None = None,
    ) -> None:
        """`runner` computes the outputs instead of onnxruntime (on a GPU that onnxruntime was not built for)."""
        self._runner = runner
        self.name, self._given, self._output = name, given, output
        self._threads, self._device = threads, device
        self._content = content
        self.shape = (given.height, given.width)
        self._fixed = knows_one_shape(given, output)
        self._graph = ResizableGraph(content, name)
        inputs = self._graph.inputs()
        self._input = _picture_input(name, given, inputs)
        self._size_input = _size_input(name, given, list(inputs), self._input)
        self._outputs = [o.name for o in self._graph.model.graph.output]
        self._sessions: OrderedDict[tuple[int, int], Any] = OrderedDict()

    def open(self) -> DetectorSession:
        """Open the graph at the exported shape now. Raises WeightsError if onnxruntime cannot."""
        self._session(self.shape)
        return self

    @property
    def content(self) -> bytes:
        """The file as it was given."""
        return self._content

    def shape_for(self, picture: tuple[int, int], scale: float = 1.0) -> tuple[int, int]:
        """(height, width) of the input for pictures of shape `picture` (height, width): the camera's own proportions,
        at `scale` (0-1] of the exported sides, so at no more pixels. A graph that knows one shape only keeps it."""
        if self._fixed:
            return self.shape
        return camera_shape(round(self.shape[0] * self.shape[1] * scale * scale), picture)

    def scaled(self, scale: float) -> tuple[int, int]:
        """The exported shape at `scale` (0-1], for a caller that does not want the camera's."""
        if self._fixed or scale >= 1.0:
            return self.shape
        return (
            max(32, round(self.shape[0] * scale / 32) * 32),
            max(32, round(self.shape[1] * scale / 32) * 32),
        )

    def find(
        self,
        picture: Picture,
        rows: Rows,
        score: float,
        nms_iou: float,
        most: int,
        shape: tuple[int, int] | None = None,
    ) -> Detections:
        """Objects on a uint8 RGB picture (H, W, 3) with at least `score`, best first, at most `most`, in the classes
        that `rows` says, merged before suppression. `shape` (height, width) of the input; None: as exported.

        Raises WeightsError if the graph refuses the input or answers in another layout.
        """
        height, width = picture.shape[:2]
        sides = shape or self.shape
        tensor, placed = to_tensor(picture, self._given, sides)
        feed: dict[str, Any] = {self._input: tensor}
        if self._size_input:
            size = (width, height) if self._given.size_order == "wh" else (height, width)
            feed[self._size_input] = np.array([size], np.int64)
        values = self._run(feed, sides)
        found = decode(values, self._output, (sides[1], sides[0]), rows, score)
        x, y, w, h = placed
        if found.units == "normalised":
            x, y, w, h = 0.0, 0.0, 1.0, 1.0
        elif found.units == "picture":
            x, y, w, h = 0.0, 0.0, float(width), float(height)
        moved = (found.boxes - np.array([x, y, x, y], np.float32)) / np.array([w, h, w, h], np.float32)
        boxes: NDArray[np.float32] = np.clip(moved, 0.0, 1.0).astype(np.float32)
        solid = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        boxes, scores, classes = boxes[solid], np.clip(found.scores[solid], 0, 1), found.classes[solid]
        keep = suppress(boxes, scores, classes, nms_iou, most)
        return Detections.build(boxes[keep], scores[keep], classes[keep])

    def outputs(self, tensor: NDArray[Any], shape: tuple[int, int]) -> dict[str, NDArray[Any]]:
        """Raw outputs by name for an input tensor (1, 3, *shape)."""
        return self._run({self._input: tensor}, shape)

    def _run(self, feed: dict[str, Any], shape: tuple[int, int]) -> dict[str, NDArray[Any]]:
        if self._runner is not None:
            return self._runner(feed[self._input])
        session = self._session(shape)
        try:
            return dict(zip(self._outputs, session.run(self._outputs, feed), strict=True))
        except Exception as error:  # onnxruntime raises its own classes, one per cause
            raise WeightsError(f"{self.name}: the model refuses its input ({first_line(error)})") from error

    def settled_shapes(self) -> str:
        """See `ResizableGraph.settled`; empty where only the exported shape was used."""
        return self._graph.settled()

    def _session(self, shape: tuple[int, int]) -> Any:
        if shape in self._sessions:
            self._sessions.move_to_end(shape)
            return self._sessions[shape]
        content = self._graph.plain() if shape == self.shape else self._graph.at(shape, self._input)
        session = open_session(content, self.name, self._threads, self._device)
        self._sessions[shape] = session
        if len(self._sessions) > KEPT_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def fix_shape_if_needed(self) -> str:
        """Try another shape once; a graph that cannot is used as exported from then on. Returns why, or ""."""
        if self._fixed:
            return "" if self._output.kind in _SHAPED else f"output.kind {self._output.kind}"
        try:
            height, width = self.shape
            other = (max(32, height // 64 * 32), width)
            tensor = np.zeros((1, 3, *other), np.float32)
            values = self._run({self._input: tensor}, other)
            decode(values, self._output, (other[1], other[0]), Rows.build([-1] * _class_count(values, self._output)), 1)
        except WeightsError as error:
            self._fixed = True
            return str(error)
        return ""


def _class_count(values: dict[str, NDArray[Any]], output: OutputSpec) -> int:
    """How many classes the outputs of a shaped layout have."""
    if output.kind == "grid":
        return int(next(iter(values.values())).shape[-1]) - 5
    if output.kind == "anchors":
        return int(values[pair_of(values)[0]].shape[-1]) - 1
    widths = sorted({v.shape[-1] for v in values.values()})
    return int(next((w for w in widths if w % 4), widths[-1]))


def gpu_providers() -> list[str]:
    """The providers of this onnxruntime for an NVIDIA GPU, the fastest first; empty for the plain CPU build."""
    available = onnxruntime.get_available_providers()
    return [p for p in ("TensorrtExecutionProvider", "CUDAExecutionProvider") if p in available]


def open_session(content: bytes | str, name: str, threads: int, device: str) -> Any:
    """An onnxruntime session. Raises WeightsError if onnxruntime cannot open it as a model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Spinning threads would burn the share of the students between two pictures.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    providers = [*(gpu_providers() if device.startswith("cuda") else ()), "CPUExecutionProvider"]
    try:
        return onnxruntime.InferenceSession(content, options, providers=providers)
    except Exception as error:  # onnxruntime raises its own classes, one per cause
        raise WeightsError(f"{name}: not a model that onnxruntime can open ({first_line(error)})") from error


def to_tensor(
    picture: Picture, spec: InputSpec, shape: tuple[int, int] | None = None
) -> tuple[NDArray[Any], tuple[float, float, float, float]]:
    """The network's input at `shape` (height, width; None: as described), and where the picture lies in it: x, y,
    width, height in input pixels."""
    high, wide = shape or (spec.height, spec.width)
    image, placed = placed_picture(picture, spec, (high, wide))
    if spec.colour == "bgr":
        image = image[..., ::-1]
    if spec.layout == "nchw":
        image = image.transpose(2, 0, 1)
    if spec.type == "uint8":
        return np.ascontiguousarray(image[None]), placed
    value = np.ascontiguousarray(image[None], np.float32)
    if spec.scale != 1.0:
        value *= np.float32(spec.scale)
    sides = (1, 3, 1, 1) if spec.layout == "nchw" else (1, 1, 1, 3)
    if any(spec.mean):
        value -= np.asarray(spec.mean, np.float32).reshape(sides)
    if any(v != 1.0 for v in spec.std):
        value /= np.asarray(spec.std, np.float32).reshape(sides)
    return value, placed


def placed_picture(
    picture: Picture, spec: InputSpec, shape: tuple[int, int]
) -> tuple[Picture, tuple[float, float, float, float]]:
    """The picture brought into an input of `shape` (height, width) as `spec.fit` says, uint8 RGB, and where it lies."""
    high, wide = shape
    height, width = picture.shape[:2]
    if spec.fit == "stretch":
        image = cv2.resize(picture, (wide, high), interpolation=cv2.INTER_LINEAR)
        return np.asarray(image, np.uint8), (0.0, 0.0, float(wide), float(high))
    ratio = min(wide / width, high / height)
    w, h = max(1, round(width * ratio)), max(1, round(height * ratio))
    x, y = ((wide - w) // 2, (high - h) // 2) if spec.fit == "letterbox" else (0, 0)
    small = cv2.resize(picture, (w, h), interpolation=cv2.INTER_LINEAR)
    if (h, w) == (high, wide):
        return np.asarray(small, np.uint8), (0.0, 0.0, float(w), float(h))
    image = np.full((high, wide, 3), spec.pad, np.uint8)
    image[y : y + h, x : x + w] = small
    return np.asarray(image, np.uint8), (float(x), float(y), float(w), float(h))


def _picture_input(file: str, spec: InputSpec, inputs: dict[str, list[int | str]]) -> str:
    name = spec.name or next(iter(inputs), "")
    if name not in inputs:
        raise WeightsError(f"{file}: has no input {name!r}", "inputs: " + ", ".join(inputs))
    w, h = spec.width, spec.height
    wanted = (1, 3, h, w) if spec.layout == "nchw" else (1, h, w, 3)
    shape = inputs[name]
    fits = len(shape) == 4 and all(not isinstance(n, int) or n == m for n, m in zip(shape, wanted, strict=True))
    if not fits:
        raise WeightsError(f"{file}: its input has shape {shape}, the description says {list(wanted)}")
    return name


def _size_input(file: str, spec: InputSpec, names: list[str], picture: str) -> str:
    rest = [n for n in names if n != picture]
    wanted = spec.size_name
    if wanted and wanted not in rest:
        raise WeightsError(f"{file}: has no input {wanted!r} for the picture's size", "inputs: " + ", ".join(names))
    others = [n for n in rest if n != wanted]
    if others:
        raise WeightsError(f"{file}: needs more inputs: {', '.join(others)}", "name the size with input.size_name")
    return wanted


def first_line(error: Exception) -> str:
    """The first line of an error of another library, or its class."""
    text = str(error).strip().splitlines()
    return text[0][:200] if text else type(error).__name__
