"""torchvision's heavy models as teachers: detectors with COCO weights, classifiers with ImageNet weights."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
import torchvision
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from edge.core.errors import InvalidValue, LabelError, WeightsError
from edge.core.model_files import models_folder
from edge.core.vision import Detections
from edge.detectors.files import check_file
from golden.spec import TorchvisionSpec

_NOT_A_CLASS = ("__background__", "N/A")
_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)


def offered(spec: TorchvisionSpec) -> tuple[str, ...]:
    """The class names of a spec: its own, or those of the published weights (no download)."""
    names = spec.classes or tuple(_published(spec).meta["categories"])
    return tuple(dict.fromkeys(n for n in names if n not in _NOT_A_CLASS))


def published_file(spec: TorchvisionSpec) -> tuple[str, Path]:
    """The download address of the published weights and the file they are kept in: in the models folder where
    `magpie models pull` put them, else in torch's hub folder."""
    url = str(_published(spec).url)
    name = url.rsplit("/", 1)[-1]
    pulled = models_folder(os.environ) / name
    return url, pulled if pulled.is_file() else Path(torch.hub.get_dir()) / "checkpoints" / name


def check_weights(spec: TorchvisionSpec, timeout_s: float = 10.0) -> None:
    """The weights are there, or can be downloaded (asked, not fetched).

    Raises:
        WeightsError: naming the file or address and what to do.
    """
    if isinstance(spec.weights, Path):
        check_file(spec.weights, spec.sha256)
        if spec.weights.suffix not in (".pth", ".pt", ".safetensors"):
            raise WeightsError(f"{spec.weights}: not a weight file", "a .pth or .safetensors file is needed")
        return
    url, file = published_file(spec)
    if file.is_file():
        check_file(file, spec.sha256)
        return
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=timeout_s):
            return
    except (urllib.error.URLError, OSError) as error:
        raise _unreachable(spec, url, file, error) from error


def fetch_weights(spec: TorchvisionSpec) -> Path:
    """The weight file, downloaded first where it is published and not there yet (checked against the hash in its name).

    Raises:
        WeightsError: it is missing, damaged or cannot be downloaded.
    """
    if isinstance(spec.weights, Path):
        check_file(spec.weights, spec.sha256)
        return spec.weights
    url, file = published_file(spec)
    if not file.is_file():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(url, str(file), hash_prefix=file.stem.rsplit("-", 1)[-1], progress=False)
        except (urllib.error.URLError, OSError, RuntimeError) as error:
            raise _unreachable(spec, url, file, error) from error
    check_file(file, spec.sha256)
    return file


class TorchvisionTeacher:
    """A detector. Labels are made at the model's own test settings, in float32."""

    def __init__(self, spec: TorchvisionSpec, threads: int = 1, device: str = "cpu") -> None:
        """Raises: WeightsError (missing, damaged, does not fit), InvalidValue (a classifier was given)."""
        if spec.is_classifier:
            raise InvalidValue("teacher.model", spec.model, "a detector")
        self.spec, self.name = spec, spec.name
        self.classes = offered(spec)
        raw = spec.classes or tuple(_published(spec).meta["categories"])
        # A file with its own classes counts the background as class 0, as torchvision's detectors do.
        names = ("__background__", *raw) if spec.classes else raw
        self._table = np.array([self.classes.index(n) if n in self.classes else -1 for n in names], np.int64)
        more: dict[str, Any] = {} if spec.min_size is None else {"min_size": spec.min_size}
        torch.set_num_threads(threads)
        self._device = torch.device(device)
        network = torchvision.models.get_model(
            spec.model, weights=None, weights_backbone=None, num_classes=len(names), **more
        )
        self._network = _loaded(network, spec).to(self._device).eval()

    def label(self, picture: NDArray[np.uint8]) -> Detections:
        """Objects on a uint8 RGB picture (H, W, 3), best first, above the spec's score; classes index `classes`."""
        height, width = picture.shape[:2]
        pixels = torch.from_numpy(np.ascontiguousarray(picture)).to(self._device)
        with torch.inference_mode():
            found = self._network([pixels.permute(2, 0, 1).float() / 255.0])[0]
        boxes = found["boxes"].cpu().numpy() / np.array([width, height] * 2, np.float32)
        scores, names = found["scores"].cpu().numpy(), self._table[found["labels"].cpu().numpy()]
        keep = np.flatnonzero((scores >= self.spec.min_score) & (names >= 0))
        keep = keep[np.argsort(-scores[keep], kind="stable")][: self.spec.max_objects]
        return Detections.build(boxes[keep], scores[keep], names[keep])


class TorchvisionClassifier:
    """Names cut-outs of a picture. With `groups`, its classes are the groups (shares of their members added up)."""

    def __init__(self, spec: TorchvisionSpec, threads: int = 1, device: str = "cpu", margin: float = 0.1) -> None:
        """`margin`: how much is added around a box, in parts of its sides.

        Raises:
            WeightsError: the weights are missing, damaged or do not fit.
            InvalidValue: a detector was given.
            LabelError: a group names a class that the model does not know.
        """
        if not spec.is_classifier:
            raise InvalidValue("teacher.model", spec.model, "a classifier")
        self.spec, self.name, self._margin = spec, spec.name, margin
        names = offered(spec)
        self.classes, self._table = check_groups(spec, names)
        torch.set_num_threads(threads)
        self._device = torch.device(device)
        network = torchvision.models.get_model(spec.model, weights=None, num_classes=len(names))
        self._network = _loaded(network, spec).to(self._device).eval()

    def identify(self, picture: NDArray[np.uint8], boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probability share of each class for each box (N, 4) on a uint8 RGB picture: float32 (N, len(classes))."""
        if len(boxes) == 0:
            return np.zeros((0, len(self.classes)), np.float32)
        crops = np.stack([cut_out(picture, box, self._margin, 224) for box in boxes])
        mean, std = np.asarray(_IMAGENET_MEAN, np.float32), np.asarray(_IMAGENET_STD, np.float32)
        pixels = (crops.astype(np.float32) / 255 - mean) / std
        batch = torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))).to(self._device)
        with torch.inference_mode():
            shares = torch.softmax(self._network(batch), 1).cpu().numpy()
        out: NDArray[np.float32] = (shares @ self._table).astype(np.float32)
        return out


def check_groups(spec: TorchvisionSpec, names: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """The classes that a classifier's `groups` make of `names`, and the 0/1 table (len(names), classes)."""
    groups: Mapping[str, tuple[str, ...]] = spec.groups or {n: (n,) for n in names}
    table = np.zeros((len(names), len(groups)), np.float32)
    for column, (group, members) in enumerate(groups.items()):
        for member in members:
            if member not in names:
                raise LabelError(f"teacher.groups.{group}: {spec.model} knows no class {member!r}")
            table[names.index(member), column] = 1.0
    return tuple(groups), table


def cut_out(picture: NDArray[np.uint8], box: NDArray[np.float32], margin: float, side: int) -> NDArray[np.uint8]:
    """A square uint8 (side, side, 3) around a normalised box with `margin`, moved inside the picture if it fits."""
    height, width = picture.shape[:2]
    x0, y0, x1, y1 = (float(v) for v in box * np.array([width, height] * 2, np.float32))
    length = max(x1 - x0, y1 - y0, 2.0) * (1 + 2 * margin)
    wide, high = min(length, width), min(length, height)
    left = min(max((x0 + x1 - wide) / 2, 0.0), width - wide)
    top = min(max((y0 + y1 - high) / 2, 0.0), height - high)
    part = picture[int(top) : max(int(top) + 1, round(top + high)), int(left) : max(int(left) + 1, round(left + wide))]
    return np.asarray(cv2.resize(part, (side, side), interpolation=cv2.INTER_LINEAR), np.uint8)


def _published(spec: TorchvisionSpec) -> Any:
    return torchvision.models.get_model_weights(spec.model).DEFAULT


def _loaded(network: nn.Module, spec: TorchvisionSpec) -> nn.Module:
    file = fetch_weights(spec)
    try:
        if file.suffix == ".safetensors":
            state: Any = load_file(file)
        else:
            state = torch.load(file, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, KeyError, SafetensorError) as error:
        raise WeightsError(f"{file}: damaged, or no weight file ({_first_line(error)})") from error
    except Exception as error:  # pickle.UnpicklingError and friends of a file that is not a pickle
        raise WeightsError(f"{file}: holds more than weights, or is damaged ({_first_line(error)})") from error
    if not isinstance(state, Mapping):
        raise WeightsError(f"{file}: holds a {type(state).__name__}, not a table of tensors")
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise WeightsError(f"{file}: does not fit {spec.model} ({_first_line(error, 2)})") from error
    return network


def _unreachable(spec: TorchvisionSpec, url: str, file: Path, error: Exception) -> WeightsError:
    return WeightsError(
        f"the published weights of {spec.model} are not on this machine and cannot be downloaded ({error})",
        f"fetch {url} elsewhere, put it at {file}, or name a local file with `weights`",
    )


def _first_line(error: Exception, lines: int = 1) -> str:
    text = [line.strip() for line in str(error).strip().splitlines()[:lines]]
    return " ".join(text)[:240] if text else type(error).__name__
