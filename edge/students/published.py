"""A student that began as a published detector: the download's own graph with weights of its own.

It answers by onnxruntime with the download's operators, at the download's speed, also after a retraining; `network` is
the same graph as a torch module, made when it is trained (or to answer on a GPU that onnxruntime cannot use).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray

from edge.core.configs import PUBLISHED_DETECTOR, WHOLE, InputShape, Region, StudentSpec
from edge.core.detectors import StudentDetector
from edge.core.errors import InvalidValue, WeightsError
from edge.core.vision import Detections
from edge.detectors.decoding import Rows
from edge.detectors.session import DetectorSession, first_line, gpu_providers, to_tensor
from edge.detectors.shapes import SHAPES_KEY
from edge.students.detector_loss import Decoder
from edge.students.graph import GraphNet, written_back
from edge.students.pictures import cropped, from_region

Picture = NDArray[np.uint8]

FORMAT = "magpie-student/2"
#: Least score of an answer until one was chosen on labels: of a download, and of a student that was retrained.
DOWNLOAD_SCORE, RETRAINED_SCORE = 0.25, 0.5
#: Torch and onnxruntime must agree so far on raw outputs, or the graph is not trained.
SAME = 1e-3
_FORMAT_KEY, _SPEC_KEY, _EXTRA_KEY, _NOTICE_KEY = "magpie.format", "magpie.spec", "magpie.extra", "magpie.notice"


class PublishedStudent:
    """`spec`, the graph's `content` and `info` (JSON-able; "score": the least score that is answered) belong together.

    Nothing changes after it is made; calls come from one thread at a time. Raises WeightsError if the graph does not
    fit its description.
    """

    #: As of drawn students: nothing is folded here, so a spare of the same spec cannot be refilled.
    folds: tuple[Any, ...] = ()

    def __init__(
        self, spec: StudentSpec, content: bytes, info: dict[str, Any] | None = None, device: str = "cpu"
    ) -> None:
        if spec.detector is None:
            raise InvalidValue("student.architecture", spec.architecture, PUBLISHED_DETECTOR)
        self.spec, self.content, self.device = spec, content, device
        self.info: dict[str, Any] = dict(info or {})
        self.detector: StudentDetector = spec.detector
        self._rows = Rows.build(self.detector.table)
        self._network: GraphNet | None = None
        # The plain build of onnxruntime knows no GPU: there the same graph answers as a torch module.
        runner = self._by_torch if device.startswith("cuda") and not gpu_providers() else None
        d = self.detector
        self._session = DetectorSession(content, d.name, d.input, d.output, device=device, runner=runner)

    @property
    def score(self) -> float:
        """The least score that is answered: chosen on past labels, or the usual one."""
        return float(self.info.get("score", self.usual_score))

    @property
    def usual_score(self) -> float:
        """The least score to begin with: soft targets raise it, the kept part of the download lowers it."""
        if not self.retrained:
            return DOWNLOAD_SCORE
        kept = float(self.info.get("kept_of_download", 0.0))
        return kept * DOWNLOAD_SCORE + (1.0 - kept) * RETRAINED_SCORE

    @property
    def retrained(self) -> bool:
        """Whether it was ever trained further than the download."""
        return bool(self.info.get("steps"))

    @property
    def background(self) -> int:
        """One past the last class, as of all students."""
        return len(self.spec.classes)

    def copy(self) -> PublishedStudent:
        """An independent copy."""
        return PublishedStudent(self.spec, self.content, dict(self.info), self.device)

    def for_inference(self, answers: int = 1) -> PublishedStudent:
        """Itself: it answers as fast as it can already, however few `answers` are wanted."""
        return self

    def input_shape(
        self, picture: tuple[int, int], resolution: float = 1.0, region: Region = WHOLE, shape: InputShape = "camera"
    ) -> tuple[int, int]:
        """(height, width) of the input for pictures of shape `picture` (height, width)."""
        if shape == "model":
            return self._session.scaled(resolution)
        part = (
            max(1, round(picture[0] * (region[3] - region[1]))),
            max(1, round(picture[1] * (region[2] - region[0]))),
        )
        return self._session.shape_for(part, resolution)

    def detect(
        self,
        pictures: Sequence[Picture],
        resolution: float = 1.0,
        score: float | None = None,
        region: Region = WHOLE,
        shape: InputShape = "camera",
    ) -> list[Detections]:
        """Objects in each picture (uint8 RGB (H, W, 3)) with a score of at least `score` (None: its own), best first.

        Only `region` is looked at. `resolution` (0-1] scales the input's sides; with `shape` "camera" the input has the
        proportions of what is looked at, at no more pixels than the model was published with.
        """
        least = self.score if score is None else score
        out = []
        for picture in pictures:
            part = cropped(picture, region)
            size = self.input_shape(picture.shape[:2], resolution, region, shape)
            d = self.detector
            found = self._session.find(part, self._rows, least, d.nms_iou, d.max_objects, size)
            out.append(from_region(found, region))
        return out

    def name(
        self, picture: Picture, boxes: NDArray[np.float32], resolution: float = 1.0
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Raises InvalidValue: it is a detector."""
        raise InvalidValue("student.task", self.spec.task, "classification, to name cut-outs")

    def features(self, pictures: Sequence[Picture]) -> NDArray[np.float32]:
        """One feature vector per picture, (N, D): the deepest map, averaged over the picture. For exemplars."""
        if not pictures:
            return np.zeros((0, 0), np.float32)
        rows = []
        with torch.inference_mode():
            for picture in pictures:
                size = self.input_shape(picture.shape[:2])
                x, _ = to_tensor(picture, self.detector.input, size)
                network = self.network().to(self.device)
                deepest = network.deepest(torch.from_numpy(x).to(self.device))
                rows.append(deepest.mean((2, 3))[0].float().cpu().numpy())
        return np.stack(rows)

    def _by_torch(self, tensor: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Outputs by name, computed on the student's device."""
        network = self.network().to(self.device)
        with torch.inference_mode():
            values = network(torch.from_numpy(np.ascontiguousarray(tensor, np.float32)).to(self.device))
        return {name: value.float().cpu().numpy() for name, value in values.items()}

    def raw(self, tensor: NDArray[np.float32], size: tuple[int, int]) -> dict[str, NDArray[Any]]:
        """onnxruntime's outputs by name for an input (1, 3, *size)."""
        return self._session.outputs(tensor, size)

    def network(self) -> GraphNet:
        """The graph as a torch module, made once. Raises WeightsError if it cannot be trained."""
        if self._network is None:
            self._network = GraphNet(self.content, self.detector.name, self.detector.input.name)
        return self._network

    def with_weights(self, network: GraphNet, info: dict[str, Any]) -> PublishedStudent:
        """The same student with the weights of `network` (its own, trained)."""
        weights = {
            n: p.detach().float().cpu().numpy() for n, p in zip(network.weight_names, network.weights, strict=True)
        }
        return PublishedStudent(self.spec, written_back(self.content, weights, {}), info, self.device)

    def file_bytes(self, extra: dict[str, Any] | None = None) -> bytes:
        """The student as a file: the graph, with what must be known of it as its metadata."""
        notice = f"Retrained from {self.detector.name}; modified."
        if self.detector.licence:
            notice += f" Licence of the original: {self.detector.licence}."
        properties = {
            _FORMAT_KEY: FORMAT,
            _SPEC_KEY: json.dumps(self.spec.to_json(), sort_keys=True),
            _EXTRA_KEY: json.dumps(self.info if extra is None else extra, sort_keys=True),
            _NOTICE_KEY: notice,
        }
        shapes = self._session.settled_shapes()
        if shapes:
            properties[SHAPES_KEY] = shapes  # the next to open it need not work them out again
        return written_back(self.content, {}, properties)


def read_published(path: Path, device: str = "cpu") -> PublishedStudent:
    """Read a student's file. Raises WeightsError if it is damaged, or no student."""
    try:
        content = path.read_bytes()
        properties = {p.key: p.value for p in onnx.load_from_string(content).metadata_props}
    except Exception as error:  # protobuf raises its own classes
        raise WeightsError(f"weight file {path} is damaged or no ONNX file: {first_line(error)}") from error
    if properties.get(_FORMAT_KEY) != FORMAT:
        raise WeightsError(f"weight file {path} holds no student (format {properties.get(_FORMAT_KEY)!r})")
    try:
        spec = StudentSpec.from_json(json.loads(properties[_SPEC_KEY]))
        extra = json.loads(properties.get(_EXTRA_KEY, "{}"))
    except (KeyError, TypeError, ValueError, InvalidValue) as error:
        raise WeightsError(f"weight file {path} has an unreadable specification: {error}") from error
    return PublishedStudent(spec, content, extra, device)


def is_published(path: Path) -> bool:
    """Whether a file is a student of this kind, by its first bytes (safetensors: a length, then a JSON text)."""
    try:
        with path.open("rb") as file:
            head = file.read(9)
    except OSError:
        return False
    return len(head) == 9 and head[8:9] != b"{"


def distance(outputs: Iterable[tuple[NDArray[Any], NDArray[Any]]]) -> float:
    """The largest difference of pairs of outputs, of values above 1 as a part of them; NaN where one of them is."""
    return float(np.max([(np.abs(a - b) / np.maximum(1.0, np.abs(b))).max() for a, b in outputs]))


def check_trainable(student: PublishedStudent) -> None:
    """One picture through torch and onnxruntime, in a batch of two and at two sizes: they must agree.

    Raises WeightsError naming the unknown operator, the misfit, or how far they are apart.
    """
    network = student.network()
    Decoder(student.detector.output, student.detector.table, len(student.spec.classes))
    rng = np.random.default_rng(0)
    for picture in ((360, 640), (480, 480)):
        size = student.input_shape(picture)
        pictures = rng.integers(0, 255, (2, *picture, 3), dtype=np.uint8)
        tensors = np.concatenate([to_tensor(p, student.detector.input, size)[0] for p in pictures])
        try:
            with torch.inference_mode():
                ours = network(torch.from_numpy(tensors))
        except (LookupError, ValueError, TypeError, RuntimeError) as error:
            words = f"{student.detector.name}: cannot be trained: torch cannot answer at {size[1]}x{size[0]} ({error})"
            raise WeightsError(words, "it can still be a teacher") from error
        for n in range(2):
            theirs = student.raw(tensors[n : n + 1], size)
            apart = distance((ours[k][n : n + 1].numpy(), v) for k, v in theirs.items())
            if not apart <= SAME:
                raise WeightsError(
                    f"{student.detector.name}: cannot be trained: torch and onnxruntime differ by {apart:.2g} at "
                    f"{size[1]}x{size[0]} (at most {SAME:g})",
                    "it can still be a teacher",
                )
