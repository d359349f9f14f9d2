"""`model.yaml` of a served model: every field with its range and its default; unknown keys fail, with their path."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from edge.core.errors import InvalidValue, InvalidValues
from edge.core.front_messages import ServedVersion
from edge.core.oip import DATATYPES, TensorSpec

#: A model's name is a folder's name and a part of URLs.
MODEL_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"
#: A version's name: a number without leading zeros, so that each version has one name.
VERSION_NAME = r"^[1-9][0-9]{0,17}$"
#: A file of a version.
FILE_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"

#: The file of a version where model.yaml names none; an empty name: the platform has no file.
FILES: Mapping[str, str] = {
    "torchscript": "model.pt",
    "torch_export": "model.pt2",
    "onnx": "model.onnx",
    "torchvision": "model.safetensors",
    "builtin": "model.safetensors",
    "identity": "",
}
_LARGEST_YAML = 2**20

_TensorName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:/\[\]-]{0,127}$")]
_Version = Annotated[str, Field(pattern=VERSION_NAME)]


class _ModelFilePart(BaseModel):
    """Unknown keys fail; values do not change after they were checked; numbers are not made from text."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _tuples(cls, value: Any) -> Any:
        """YAML and JSON have lists only; strict tuples would refuse them."""
        if isinstance(value, Mapping):
            return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        return value


class TensorFile(_ModelFilePart):
    """An input or output. The first dimension is the batch, -1; other dimensions of any size are -1, too."""

    name: _TensorName
    datatype: str
    shape: tuple[Annotated[int, Field(ge=-1, le=2**31)], ...] = Field(min_length=1, max_length=16)

    @field_validator("datatype")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in DATATYPES:
            raise ValueError("one of " + ", ".join(DATATYPES))
        return value

    @field_validator("shape")
    @classmethod
    def _batch_first(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if value[0] != -1:
            raise ValueError("-1 first: the first dimension is the batch")
        if 0 in value:
            raise ValueError("sizes of 1 or more, or -1 for any size")
        return value

    def spec(self) -> TensorSpec:
        return TensorSpec(self.name, self.datatype, self.shape)


class InputFile(TensorFile):
    """An input; `example` is a shape without the batch for which the model can be tried out."""

    example: tuple[Annotated[int, Field(ge=1, le=2**31)], ...] | None = None

    @model_validator(mode="after")
    def _example_fits(self) -> InputFile:
        free = -1 in self.shape[1:]
        if self.example is None:
            if free:
                raise ValueError("example: a shape without the batch is needed, because dimensions beyond it are free")
            return self
        if len(self.example) != len(self.shape) - 1 or any(
            known not in (-1, size) for known, size in zip(self.shape[1:], self.example, strict=True)
        ):
            raise ValueError(f"example: {list(self.example)} is no shape of {list(self.shape[1:])}")
        return self


class VersionsFile(_ModelFilePart):
    """Which versions are served: exactly one of the keys."""

    latest: int | None = Field(None, ge=1, le=64, description="the newest so many")
    named: tuple[_Version, ...] | None = Field(None, min_length=1, max_length=64)

    @field_validator("named", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(str(v) if isinstance(v, int) and not isinstance(v, bool) else v for v in value)
        return value

    @model_validator(mode="after")
    def _one(self) -> VersionsFile:
        if (self.latest is None) == (self.named is None):
            raise ValueError("either latest or named")
        return self


class ModelFile(_ModelFilePart):
    """`model.yaml`."""

    platform: Literal["torchscript", "torch_export", "onnx", "torchvision", "builtin", "identity"]
    file: Annotated[str, Field(pattern=FILE_NAME)] | None = Field(None, description="in each version's folder")
    architecture: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")] | None = Field(
        None, description="torchvision's name of the network, or lenet (builtin)"
    )
    num_classes: int | None = Field(None, ge=1, le=1_000_000)
    inputs: tuple[InputFile, ...] = Field(min_length=1, max_length=64)
    outputs: tuple[TensorFile, ...] = Field(min_length=1, max_length=64)
    slo_ms: float = Field(gt=0, le=3_600_000, strict=False, description="each request is answered within it")
    rate: float = Field(0.0, ge=0, le=1e6, strict=False, description="requests per second to expect at the start")
    priority: int = Field(0, ge=-1000, le=1000, description="lower yields first")
    max_batch: int = Field(32, ge=1, le=1024, description="rows in one batch at most")
    queue_depth: int = Field(1024, ge=1, le=1_000_000, description="requests that may wait")
    versions: VersionsFile = VersionsFile(latest=1)

    @field_validator("slo_ms", "rate", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        if isinstance(value, (str, bool)):
            raise ValueError("a number")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> ModelFile:
        for where, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            names = [t.name for t in tensors]
            if len(set(names)) != len(names):
                raise ValueError(f"{where}: each name once")
        named = self.platform in ("torchvision", "builtin")
        if named != (self.architecture is not None):
            raise ValueError(
                f"architecture: {'needed' if named else 'not used'} by platform {self.platform}"
                + (" (a network by its name)" if named else "")
            )
        if self.num_classes is not None and not named:
            raise ValueError(f"num_classes: not used by platform {self.platform}")
        if self.platform == "identity":
            if self.file is not None:
                raise ValueError("file: platform identity has none")
            if [(i.datatype, i.shape) for i in self.inputs] != [(o.datatype, o.shape) for o in self.outputs]:
                raise ValueError("outputs: datatypes and shapes as the inputs', for platform identity")
        elif "BYTES" in {t.datatype for t in (*self.inputs, *self.outputs)} and self.platform != "onnx":
            raise ValueError(f"datatype: platform {self.platform} has no BYTES")
        return self

    def version(self, model: str, version: str, folder: str, digest: str = "") -> ServedVersion:
        """A version of the model as a value."""
        return ServedVersion(
            model=model,
            version=version,
            folder=folder,
            platform=self.platform,
            inputs=tuple(i.spec() for i in self.inputs),
            outputs=tuple(o.spec() for o in self.outputs),
            slo_ms=float(self.slo_ms),
            digest=digest,
            priority=self.priority,
            max_batch=self.max_batch,
            depth=self.queue_depth,
            file=FILES[self.platform] if self.file is None else self.file,
            architecture=self.architecture or "",
            num_classes=self.num_classes or 0,
            examples={i.name: i.example for i in self.inputs if i.example is not None},
            rate=float(self.rate),
        )


def parse_model(value: Any, where: str) -> ModelFile:
    """Check the content of a model.yaml. Raises InvalidValues with each problem's path below `where`."""
    if not isinstance(value, Mapping):
        raise InvalidValue(where, value, "fields, platform among them")
    try:
        return ModelFile.model_validate(value)
    except ValidationError as error:
        problems = []
        for e in error.errors(include_url=False):
            path = ".".join(str(p) for p in e["loc"])
            given = None if e["type"] == "missing" else e["input"]
            problems.append(InvalidValue(f"{where}: {path}" if path else where, given, _allowed(e)))
        raise InvalidValues(problems) from None


def parse_yaml(text: str, where: str) -> Any:
    """Plain values of a YAML text. Raises InvalidValue."""
    if len(text) > _LARGEST_YAML:
        raise InvalidValue(where, f"{len(text)} characters", f"at most {_LARGEST_YAML}")
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidValue(where, text[:60], f"YAML ({str(error).splitlines()[0]})") from error


def parse_override(text: Any) -> Mapping[str, Any]:
    """The fields of model.yaml in a load request's `config` (a JSON text). Raises InvalidValue."""
    if not isinstance(text, str) or len(text) > _LARGEST_YAML:
        raise InvalidValue("parameters.config", text, f"a JSON text of at most {_LARGEST_YAML} characters")
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InvalidValue("parameters.config", text, f"a JSON object ({error})") from None
    if not isinstance(value, dict):
        raise InvalidValue("parameters.config", value, "a JSON object")
    return value


#: Platforms and backends by the names that Triton's configurations have.
_PLATFORMS: Mapping[str, str] = {
    "onnxruntime_onnx": "onnx",
    "onnxruntime": "onnx",
    "pytorch_libtorch": "torchscript",
    "pytorch": "torchscript",
    "identity": "identity",
}
#: Fields of such a configuration that only it has.
_PROTOCOL = frozenset(
    (
        *("name", "backend", "max_batch_size", "input", "output", "version_policy", "default_model_filename"),
        *("dynamic_batching", "parameters"),
    )
)


def from_protocol(model: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fields of model.yaml out of a model configuration as clients of the protocol write it (JSON of Triton's
    ModelConfig); fields in our own words stay. Raises InvalidValue for what has no counterpart here.
    """
    where = "parameters.config"
    made = {key: value for key, value in given.items() if key not in _PROTOCOL}
    if given.get("name", model) != model:
        raise InvalidValue(f"{where}.name", given["name"], f"{model}, the model that is to be loaded")
    named = given.get("platform") or given.get("backend")
    if isinstance(named, str) and named:
        made["platform"] = _PLATFORMS.get(named, named)
    if "max_batch_size" in given:
        if given["max_batch_size"] == 0:
            raise InvalidValue(f"{where}.max_batch_size", 0, "1 or more: the first dimension is the batch")
        made["max_batch"] = given["max_batch_size"]
    if "default_model_filename" in given:
        made["file"] = given["default_model_filename"]
    for ours, theirs in (("inputs", "input"), ("outputs", "output")):
        if theirs in given:
            tensors = given[theirs]
            if not isinstance(tensors, list) or not all(isinstance(t, Mapping) for t in tensors):
                raise InvalidValue(f"{where}.{theirs}", tensors, "a list of objects")
            made[ours] = [_protocol_tensor(t, f"{where}.{theirs}[{n}]") for n, t in enumerate(tensors)]
    if "version_policy" in given:
        made["versions"] = _protocol_versions(given["version_policy"], f"{where}.version_policy")
    return {**_protocol_limits(given, where), **made}


def _protocol_tensor(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    datatype, dims = given.get("data_type"), given.get("dims")
    if not isinstance(datatype, str) or not datatype.startswith("TYPE_"):
        raise InvalidValue(f"{where}.data_type", datatype, "TYPE_FP32, TYPE_STRING, ...")
    if not isinstance(dims, list):
        raise InvalidValue(f"{where}.dims", dims, "a list of sizes, without the batch")
    kept = {key: value for key, value in given.items() if key not in ("data_type", "dims")}
    name = datatype.removeprefix("TYPE_")
    return {**kept, "datatype": "BYTES" if name == "STRING" else name, "shape": [-1, *dims]}


def _protocol_limits(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """SLO, queue and priority, from where the front's own answer to a request for the configuration has them."""
    made: dict[str, Any] = {}
    batching = given.get("dynamic_batching") or {}
    policy = batching.get("default_queue_policy") or {} if isinstance(batching, Mapping) else None
    if not isinstance(policy, Mapping):
        raise InvalidValue(f"{where}.dynamic_batching", given["dynamic_batching"], "an object")
    timeout = policy.get("default_timeout_microseconds")
    if isinstance(timeout, (int, float)) and timeout > 0:
        made["slo_ms"] = timeout / 1000.0
    if policy.get("max_queue_size"):
        made["queue_depth"] = policy["max_queue_size"]
    parameters = given.get("parameters") or {}
    if not isinstance(parameters, Mapping):
        raise InvalidValue(f"{where}.parameters", parameters, "an object")
    for key, kind in (("slo_ms", float), ("priority", int)):
        value = parameters.get(key)
        if isinstance(value, Mapping):
            try:
                made[key] = kind(value.get("string_value", ""))
            except (TypeError, ValueError):
                raise InvalidValue(f"{where}.parameters.{key}", value, "a number as string_value") from None
    return made


def _protocol_versions(given: Any, where: str) -> dict[str, Any]:
    if isinstance(given, Mapping) and len(given) == 1:
        ((kind, value),) = given.items()
        if kind == "latest" and isinstance(value, Mapping):
            return {"latest": value.get("num_versions", 1)}
        if kind == "specific" and isinstance(value, Mapping):
            return {"named": value.get("versions")}
    raise InvalidValue(where, given, '{"latest": {"num_versions": N}} or {"specific": {"versions": [...]}}')


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not allowed")


def _allowed(error: Mapping[str, Any]) -> str:
    """pydantic's words, as the rest of a sentence that begins with "allowed:"."""
    if error["type"] == "extra_forbidden":
        return "no such field; the fields are " + ", ".join(ModelFile.model_fields)
    if error["type"] == "missing":
        return "a value (the field is required)"
    message = str(error["msg"])
    for prefix in ("Value error, ", "Input should be "):
        message = message.removeprefix(prefix)
    return message


def rows_bytes(version: ServedVersion, rows: int) -> int | None:
    """Bytes of the outputs of `rows` rows, or None where sizes are free or the datatype's size is."""
    total = 0
    for spec in version.outputs:
        if spec.datatype == "BYTES" or -1 in spec.shape[1:]:
            return None
        total += DATATYPES[spec.datatype].itemsize * math.prod(spec.shape[1:]) * rows
    return total
