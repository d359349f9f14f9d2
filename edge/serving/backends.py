"""Backends of model versions: TorchScript, torch.export, ONNX, networks by name with safetensors, and `identity`.

Model files are untrusted: no pickle is ever loaded (edge/serving/torch_files.py), ONNX Runtime gets no custom
operators and keeps external data inside the version's folder, safetensors hold numbers only. See
docs/serving-models.md for what that leaves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from edge.core import checks
from edge.core.errors import InvalidValue, MagpieError, NotFound, Unavailable, WeightsError
from edge.core.front_messages import ServedVersion
from edge.core.oip import DATATYPES, TensorSpec
from edge.serving.architectures import Detector, build_architecture, is_detector, load_weights
from edge.serving.repository import files_digest
from edge.serving.torch_files import first_line, fuse, load_exported, load_script, tensors_bytes

__all__ = ["MemoryEstimate", "Model", "ModelFailed", "OutOfMemory", "build_architecture", "example_inputs", "load"]

Arrays = Mapping[str, NDArray[Any]]


class ModelFailed(MagpieError):
    """A model raised, or gave what its model.yaml does not say. Only the batch that it ran is lost."""

    code = "model_failed"


class DeviceFailed(ModelFailed):
    """The device refuses this process from now on; another process can use it."""


class OutOfMemory(MagpieError):
    """There was not enough memory to load a model or to run a batch."""

    code = "out_of_memory"


@dataclass(frozen=True)
class MemoryEstimate:
    """A model's need of memory. `weights_bytes` on the device; `peak_bytes` above them while a batch of `rows` ran (0:
    not measured)."""

    weights_bytes: int
    peak_bytes: int = 0
    rows: int = 0

    @property
    def total_mb(self) -> float:
        """Both, in MB."""
        return (self.weights_bytes + self.peak_bytes) / 1e6


class _Runner(Protocol):
    """Inputs in the order of the version's, outputs in the order of its outputs or by name."""

    weights_bytes: int

    def __call__(self, inputs: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]] | Arrays: ...


class Model:
    """A loaded model version. Used from one thread at a time; made by `load`."""

    def __init__(self, version: ServedVersion, device: str, runner: _Runner) -> None:
        self.version, self.device = version, device
        self.memory = MemoryEstimate(runner.weights_bytes)
        self._runner = runner
        self._specs = tuple((s.name, s.datatype, DATATYPES[s.datatype], s.shape) for s in version.outputs)

    def run(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """Outputs for a batch: arrays (rows, ...) of the datatypes' numpy types, in the order of the version's outputs.

        Raises InvalidValue (an input is missing), ModelFailed (the model raised; an output has another name, type or
        shape than model.yaml says; DeviceFailed: the device can no longer be used), OutOfMemory.
        """
        try:
            given = [inputs[spec.name] for spec in self.version.inputs]
        except KeyError as error:
            raise InvalidValue("inputs", sorted(inputs), f"{error.args[0]} among them") from None
        try:
            outputs = self._runner(given)
        except MagpieError:
            raise
        except Exception as error:  # any error of a model is its own failure, and is answered to the client
            raise _failure(error, self.version.key, self.device) from error
        return self._checked(outputs, given[0].shape[0])

    def warm(self, batches: Sequence[int] | None = None, breathe: Callable[[], None] = lambda: None) -> None:
        """Run examples of these sizes (None: 1 and the largest), so that the first request is answered like the
        hundredth, and see that the model does what its model.yaml says. Measures the memory of the largest.

        Raises ModelFailed, OutOfMemory.
        """
        sizes = sorted({1, self.version.max_batch} if batches is None else set(batches))
        for rows in sizes:
            inputs = example_inputs(self.version, rows)
            with _peak(self.device) as peak:
                try:
                    # TorchScript specialises itself in its first two runs.
                    for _ in range(3):
                        breathe()
                        self.run(inputs)
                except ModelFailed as error:
                    if rows == sizes[0]:
                        raise
                    raise ModelFailed(
                        f"{error.message} (with {rows} rows at once; {sizes[0]} went well)",
                        "export the model with a free first dimension, or set max_batch",
                    ) from error
            self.memory = MemoryEstimate(self._runner.weights_bytes, peak(), rows)

    def _checked(self, outputs: Sequence[NDArray[Any]] | Arrays, rows: int) -> dict[str, NDArray[Any]]:
        key = self.version.key
        if not isinstance(outputs, Mapping):
            if len(outputs) != len(self._specs):
                raise ModelFailed(f"{key} gave {len(outputs)} outputs, its model.yaml names {len(self._specs)}")
            outputs = {spec[0]: array for spec, array in zip(self._specs, outputs, strict=True)}
        found = {}
        for name, datatype, dtype, shape in self._specs:
            array = outputs.get(name)
            if array is None:
                raise ModelFailed(f"{key} gave no output {name}; it gave {', '.join(map(str, outputs))}")
            if array.dtype != dtype:
                raise ModelFailed(f"{key} gave {name} as {array.dtype}, its model.yaml says {datatype}")
            if array.ndim != len(shape) or array.shape[0] != rows or not _fits(array.shape, shape):
                raise ModelFailed(
                    f"{key} gave {name} as {list(array.shape)} for {rows} rows, its model.yaml says {list(shape)}"
                )
            found[name] = array
        return found


def load(version: ServedVersion, device: str = "cpu") -> Model:
    """Load a version for `device` ("cpu" or "cuda"); not warm yet.

    Raises WeightsError (missing, damaged, changed or refused files), InvalidValue (an unknown architecture),
    OutOfMemory, Unavailable (the device cannot run it), ModelFailed (a library fails on its files).
    """
    checks.one_of("platform", version.platform, _LOADERS)
    try:
        changed = bool(version.digest) and files_digest(Path(version.folder)) != version.digest
    except OSError as error:
        raise WeightsError(f"the files of {version.key} cannot be read: {error.strerror or error}") from error
    if changed:
        raise WeightsError(f"the files of {version.key} have changed since they were looked at", "load the model again")
    try:
        return Model(version, device, _LOADERS[version.platform](version, device))
    except WeightsError as error:
        raise WeightsError(f"{version.key}: {error.message}", error.hint) from error
    except MagpieError:
        raise
    except Exception as error:  # any error that a file causes in a library is this model's failure, and no other's
        raise _failure(error, version.key, device) from error


def example_inputs(version: ServedVersion, rows: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Inputs of `rows` rows that a version takes: uniform numbers 0-1, small whole numbers, or short byte strings."""
    rng = np.random.default_rng(seed)
    return {spec.name: _example(spec, version.examples.get(spec.name), rows, rng) for spec in version.inputs}


def _example(spec: TensorSpec, example: tuple[int, ...] | None, rows: int, rng: np.random.Generator) -> NDArray[Any]:
    shape = (rows, *(spec.shape[1:] if example is None else example))
    if -1 in shape:
        raise InvalidValue(f"inputs.{spec.name}.example", None, "a shape, because dimensions beyond the batch are free")
    dtype = DATATYPES[spec.datatype]
    if spec.datatype == "BYTES":
        return np.full(shape, b"example", dtype=object)
    if spec.datatype == "BF16":
        return (rng.random(shape, dtype=np.float32).view(np.uint32) >> 16).astype(dtype)
    if dtype.kind == "f":
        return rng.random(shape, dtype=np.float32).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)


def _fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    return all(w in (-1, s) for s, w in zip(shape[1:], wanted[1:], strict=True))


def _failure(error: BaseException, key: str, device: str) -> MagpieError:
    """An exception of a model or of its library in our words."""
    text = str(error)
    exhausted = ("can't allocate memory", "bad_alloc", "Failed to allocate", "out of memory", "BFCArena")
    if (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or any(t in text for t in exhausted)
    ):
        return OutOfMemory(f"{key} ran out of memory: {first_line(error)}", "a smaller max_batch, or more memory")
    # A TorchScript model wraps the device's error in its own, with the text.
    broken = type(error).__name__ == "AcceleratorError" or "CUDA error" in text
    kind = DeviceFailed if device == "cuda" and broken else ModelFailed
    return kind(f"{key} failed: {type(error).__name__}: {_said(text) or first_line(error)}")


def _said(text: str) -> str:
    """The message itself, out of TorchScript's traceback."""
    lines = [line.strip() for line in text.splitlines() if "Error: " in line]
    return lines[-1].partition("Error: ")[2][:300] if lines and "TorchScript" in text else ""


@contextlib.contextmanager
def _peak(device: str) -> Any:
    """Yields a function that tells the most memory taken inside, above that at the start, in bytes."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        yield lambda: max(0, torch.cuda.max_memory_allocated() - before)
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the kernel's high-water mark begins anew
    before = _status("VmRSS")
    yield lambda: max(0, _status("VmHWM") - before)


def _status(field: str) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


# -- platforms


class _Torch:
    """A module: tensors in, one tensor, several, or a mapping by name out."""

    def __init__(self, module: torch.nn.Module, device: str, bf16: Sequence[bool], weights_bytes: int = 0) -> None:
        self._module, self._device, self._bf16 = module, device, tuple(bf16)
        self.weights_bytes = weights_bytes or tensors_bytes(module)

    def __call__(self, inputs: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]] | Arrays:
        with torch.inference_mode():
            out = self._module(*self.tensors(inputs))
            if isinstance(out, torch.Tensor):
                return (_array(out),)
            if isinstance(out, Mapping):
                return {str(name): _array(value) for name, value in out.items()}
            return tuple(_array(value) for value in out)

    def tensors(self, inputs: Sequence[NDArray[Any]]) -> list[torch.Tensor]:
        """Inputs where the module is; on a CPU without a copy."""
        tensors = []
        for array, bf16 in zip(inputs, self._bf16, strict=True):
            tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
            tensor = tensor.view(torch.bfloat16) if bf16 else tensor
            tensors.append(tensor if self._device == "cpu" else tensor.to(self._device))
        return tensors

    def fuse(self, version: ServedVersion) -> _Torch:
        """The same network, faster where it can be traced."""
        one, two = (
            self.tensors([example_inputs(version, rows)[spec.name] for spec in version.inputs])
            for rows in (1, min(2, version.max_batch))
        )
        self._module = fuse(self._module, one, two)
        return self


def _array(value: Any) -> NDArray[Any]:
    if not isinstance(value, torch.Tensor):
        raise ModelFailed(f"the model gave {type(value).__name__} among its outputs, where tensors are served")
    value = value.detach().cpu()
    if value.dtype == torch.bfloat16:
        value = value.view(torch.uint16)
    array: NDArray[Any] = value.contiguous().numpy()
    return array


def _torch(version: ServedVersion, module: torch.nn.Module, device: str, weights_bytes: int = 0) -> _Torch:
    return _Torch(module, device, [spec.datatype == "BF16" for spec in version.inputs], weights_bytes)


def _content(version: ServedVersion) -> bytes:
    try:
        return Path(version.folder, version.file).read_bytes()
    except OSError as error:
        raise NotFound(f"{version.key}: {version.file} cannot be read: {error.strerror}") from error


def _load_torchscript(version: ServedVersion, device: str) -> _Runner:
    content = _content(version)
    # Frozen weights are constants of the graph, which nothing lists; the file is hardly more than they.
    return _torch(version, load_script(content, device), device, len(content))


def _load_exported(version: ServedVersion, device: str) -> _Runner:
    return _torch(version, load_exported(_content(version), device), device).fuse(version)


def _load_named(version: ServedVersion, device: str) -> _Runner:
    net = build_architecture(version.architecture, version.num_classes)
    load_weights(net, Path(version.folder, version.file))
    net = net.eval()
    if is_detector(version.architecture):
        by_name = {spec.name: spec for spec in version.outputs}
        if not by_name.keys() <= {"boxes", "scores", "labels"} or "scores" not in by_name:
            raise InvalidValue("outputs", sorted(by_name), "boxes, scores and labels, for a detector of torchvision")
        most = by_name["scores"].shape[1]
        if most < 1:
            raise InvalidValue("outputs.scores.shape", list(by_name["scores"].shape), "[-1, detections per picture]")
        return _torch(version, Detector(net, most).eval().requires_grad_(False).to(device), device)
    if version.architecture.startswith(("fcn_", "deeplabv3_", "lraspp_")) and version.outputs[0].name != "out":
        raise InvalidValue("outputs", [spec.name for spec in version.outputs], "out, for a segmentation of torchvision")
    return _torch(version, net.requires_grad_(False).to(device), device).fuse(version)


class _Onnx:
    """An ONNX Runtime session with one thread: shares are kept by processes of one thread each."""

    def __init__(self, version: ServedVersion, device: str) -> None:
        import onnxruntime as ort

        provider = "CUDAExecutionProvider" if device == "cuda" else "CPUExecutionProvider"
        if provider not in ort.get_available_providers():
            raise Unavailable(f"ONNX Runtime here cannot use the GPU for {version.key}", "pip install onnxruntime-gpu")
        path = Path(version.folder, version.file)
        if not path.is_file():
            raise WeightsError(f"{version.file} does not exist")
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            # By its path: external data is then confined to the version's folder by the runtime itself.
            self._session = ort.InferenceSession(str(path), options, providers=[provider])
        except Exception as error:  # onnxruntime's errors have no common base but this
            raise WeightsError(f"the ONNX file cannot be loaded: {_plain(error)}") from error
        if any(spec.datatype == "BF16" for spec in (*version.inputs, *version.outputs)):
            raise InvalidValue("datatype", "BF16", "another one: ONNX models have no BF16 here")
        self._inputs = [spec.name for spec in version.inputs]
        self._texts = {spec.name for spec in version.inputs if spec.datatype == "BYTES"}
        self._outputs = [spec.name for spec in version.outputs]
        for what, wanted, there in (
            ("inputs", self._inputs, [i.name for i in self._session.get_inputs()]),
            ("outputs", self._outputs, [o.name for o in self._session.get_outputs()]),
        ):
            unknown = set(wanted) - set(there) or (set(there) - set(wanted) if what == "inputs" else set())
            if unknown:
                raise InvalidValue(what, sorted(wanted), f"the names in the ONNX file: {', '.join(there)}")
        self.weights_bytes = sum(p.stat().st_size for p in path.parent.rglob("*") if p.is_file())

    def __call__(self, inputs: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        feed = dict(zip(self._inputs, inputs, strict=True))
        for name in self._texts:
            feed[name] = np.frompyfunc(_text, 1, 1)(feed[name])
        found = self._session.run(self._outputs, feed)
        return [np.frompyfunc(_encoded, 1, 1)(out) if out.dtype == object else out for out in map(np.asarray, found)]


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidValue("inputs", value, "UTF-8 text in BYTES, for ONNX models") from None


def _encoded(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _plain(error: Exception) -> str:
    """ONNX Runtime's message without its prefix of numbers and paths of its own sources."""
    return first_line(error).rpartition(" : ")[2]


class _Identity:
    """Gives its inputs back: for measuring what everything else costs."""

    weights_bytes = 0

    def __call__(self, inputs: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        return inputs


_LOADERS: Mapping[str, Callable[[ServedVersion, str], _Runner]] = {
    "torchscript": _load_torchscript,
    "torch_export": _load_exported,
    "onnx": _Onnx,
    "torchvision": _load_named,
    "builtin": _load_named,
    "identity": lambda version, device: _Identity(),
}
