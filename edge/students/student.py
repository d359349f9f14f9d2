"""A student: a network with its specification, ready to answer pictures."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from edge.core.configs import WHOLE, InputShape, Region, StudentSpec
from edge.core.errors import InvalidValue
from edge.core.vision import Detections
from edge.students.building import build
from edge.students.classifier import ClassificationNet
from edge.students.detector import DetectionNet
from edge.students.exported import open_exported
from edge.students.network import Activations, StudentNet
from edge.students.pictures import (
    cropped,
    cut_outs,
    from_region,
    input_size_at,
    pictures_to_tensor,
    resize_picture,
)

#: An object with at least this score is answered, unless a camera's settings say otherwise.
ANSWER_SCORE = 0.4
#: Opening a student in onnxruntime takes as long as it saves in so many answers.
FEW_ANSWERS = 12


@dataclass(frozen=True)
class Fold:
    """A BatchNorm `norm` that was folded into the convolution `conv` (names of modules in the network)."""

    conv: str
    norm: str
    eps: float


class Student:
    """`spec` and `module` belong together; `info` is what was stored beside the weights (JSON-able); `folds` is what
    `for_inference` folded together (empty for a student that can be trained).

    Inference runs without autograd; the module is in eval mode after every call that needs it.
    """

    def __init__(
        self,
        spec: StudentSpec,
        module: StudentNet | None = None,
        info: dict[str, Any] | None = None,
        folds: tuple[Fold, ...] = (),
    ) -> None:
        self.spec = spec
        self.module: StudentNet = build(spec) if module is None else module
        self.info: dict[str, Any] = dict(info or {})
        self.folds = folds
        self._net: Callable[[Tensor], Activations] | None = None

    @property
    def device(self) -> str:
        return str(next(self.module.parameters()).device)

    @property
    def background(self) -> int:
        """The class index with which `name` says "no object of the camera's classes"."""
        return len(self.spec.classes)

    def copy(self) -> Student:
        """An independent copy (weights included)."""
        return Student(self.spec, copy.deepcopy(self.module), copy.deepcopy(self.info), self.folds)

    def for_inference(self, answers: int = FEW_ANSWERS) -> Student:
        """A copy that only answers, and the same, faster: BatchNorm folded into the convolutions, channels last, and on
        a CPU by onnxruntime. For fewer `answers` than FEW_ANSWERS that is not worth its making."""
        module = copy.deepcopy(self.module).eval()
        folds = self.folds + tuple(_fold_batch_norms(module))
        for parameter in module.parameters():
            parameter.requires_grad_(False)
        student = Student(self.spec, module.to(memory_format=torch.channels_last), self.info, folds)
        if answers >= FEW_ANSWERS:
            student.answer_with_present_weights()
        return student

    def answer_with_present_weights(self) -> None:
        """Of an inference copy whose weights were replaced: they answer from now on."""
        self._net = open_exported(self.spec, self.module) if self.device == "cpu" else None

    def detect(
        self,
        pictures: Sequence[NDArray[np.uint8]],
        resolution: float = 1.0,
        score: float | None = None,
        region: Region = WHOLE,
        shape: InputShape = "camera",
    ) -> list[Detections]:
        """Objects in each picture (uint8 RGB (H, W, 3), any sizes) with a score of at least `score` (None: 0.4), best
        first. Only `region` is looked at. `resolution` (0-1] scales the input size, whose shape is the student's own.

        Raises InvalidValue if the student is not a detector.
        """
        if not isinstance(self.module, DetectionNet):
            raise InvalidValue("student.task", self.spec.task, "detection, to find objects in a whole picture")
        if not pictures:
            return []
        size = input_size_at(self.spec, resolution)
        self.module.eval()
        with torch.inference_mode():
            x = pictures_to_tensor([resize_picture(cropped(p, region), size) for p in pictures], self.device)
            found = self.module.decode(self._output(x), size, ANSWER_SCORE if score is None else score)
        return [from_region(f, region) for f in found]

    def name(
        self, picture: NDArray[np.uint8], boxes: NDArray[np.float32], resolution: float = 1.0
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Names for each of `boxes` (N, 4) of one picture: classes (N,) and scores (N,).

        Class `background` (one past the last class) means that no object of the camera's classes is there.
        Raises InvalidValue if the student is not a classifier.
        """
        if not isinstance(self.module, ClassificationNet):
            raise InvalidValue("student.task", self.spec.task, "classification, to name cut-outs")
        if len(boxes) == 0:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        self.module.eval()
        with torch.inference_mode():
            cuts = cut_outs(picture, boxes, input_size_at(self.spec, resolution))
            scores, classes = self._output(pictures_to_tensor(cuts, self.device))[0].float().softmax(-1).max(-1)
        return classes.cpu().numpy().astype(np.int64), scores.cpu().numpy().astype(np.float32)

    def _output(self, x: Tensor) -> Activations:
        return self.module(x) if self._net is None else self._net(x)

    def features(self, pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """One feature vector per picture, (N, D): deepest activations, averaged over the picture. For exemplars."""
        if not pictures:
            return np.zeros((0, 0), np.float32)
        self.module.eval()
        size = input_size_at(self.spec)
        with torch.inference_mode():
            x = pictures_to_tensor([resize_picture(p, size) for p in pictures], self.device)
            deepest = self.module.run_last_stage(self.module.run_stem(x))[-1]
            vectors = deepest if deepest.ndim == 2 else deepest.mean((2, 3))
        return vectors.float().cpu().numpy()


def _fold_batch_norms(module: nn.Module, name: str = "") -> list[Fold]:
    """Folds each BatchNorm that directly follows a convolution into it; registration order is order of execution in
    all our blocks (conv, bn in sequences; conv1, bn1, conv2, bn2 in residual blocks). Returns what was folded."""
    folds = []
    for child_name, child in module.named_children():
        folds += _fold_batch_norms(child, f"{name}{child_name}.")
    for first, second in itertools.pairwise(list(module._modules)):
        conv, norm = module._modules[first], module._modules[second]
        if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
            module._modules[first] = fuse_conv_bn_eval(conv, norm)
            module._modules[second] = nn.Identity()
            folds.append(Fold(name + first, name + second, norm.eps))
    return folds
