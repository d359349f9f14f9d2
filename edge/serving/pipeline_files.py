"""The description of an application in a model repository: `models/<name>/model.yaml` with `platform: pipeline`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from edge.core.application_sources import SOURCE_INPUTS, ApplicationSource, AttributeOutput
from edge.core.applications import (
    MOST_STAGES,
    Alternative,
    Application,
    ApplicationOutput,
    Crop,
    CropBoxes,
    Feed,
    Grey,
    Normalise,
    Operation,
    Resize,
    Stage,
    ValueSource,
)
from edge.core.errors import InvalidValue, InvalidValues, NotFound
from edge.core.oip import TensorSpec

_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,62}$")]
_ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]
_Source = Annotated[str, Field(min_length=1, max_length=200)]
_Size = Annotated[int, Field(ge=1, le=8192)]


class _PipelineFilePart(BaseModel):
    """Unknown keys fail; values do not change after they were checked."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PipelineTensor(_PipelineFilePart):
    """An input of the application."""

    name: _Name
    datatype: str
    shape: tuple[int, ...] = Field(min_length=1, max_length=8)


class AttributeFile(_PipelineFilePart):
    """See edge.core.application_sources.AttributeOutput."""

    labels: tuple[Annotated[str, Field(min_length=1, max_length=64)], ...] = Field((), max_length=1024)
    min_score: float = Field(0.0, ge=0, le=1)
    softmax: bool = Field(False, description="the output has logits, not scores")


class SourceFile(_PipelineFilePart):
    """The camera that asks the application, with each of its answers."""

    camera: _Name
    classes: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(
        (), max_length=1024, description="the camera's classes whose objects are taken; absent: all"
    )
    min_score: float = Field(0.0, ge=0, le=1, description="objects with less are left out")
    most: int = Field(32, ge=1, le=1024, description="the likeliest so many objects of an answer")
    max_rate: float | None = Field(None, gt=0, le=240, description="requests per second at most; absent: no limit")


class PipelineOutput(_PipelineFilePart):
    """An output of the application, and where it comes from."""

    model_config = ConfigDict(populate_by_name=True)

    name: _Name
    datatype: str
    shape: tuple[int, ...] = Field(min_length=1, max_length=8)
    source: _Source = Field(alias="from", description="STAGE.OUTPUT, or an input's name")
    attribute: AttributeFile | None = Field(None, description="an attribute of the camera's objects, too")


class NormaliseFile(_PipelineFilePart):
    """(value / 255 - mean) / std, per channel."""

    mean: tuple[float, ...] = Field(min_length=1, max_length=4)
    std: tuple[Annotated[float, Field(gt=0)], ...] = Field(min_length=1, max_length=4)


class CropBoxesFile(_PipelineFilePart):
    """See edge.core.applications.CropBoxes."""

    boxes: _Source
    size: tuple[_Size, _Size] = Field(description="height and width of every cut-out, in pixels")
    most: int = Field(1, ge=1, le=1024)
    scores: _Source | None = None
    above: float = 0.0
    labels: _Source | None = None
    classes: tuple[int, ...] = ()
    pixels_of: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = Field(
        None, description="boxes are pixels of a picture of this height and width; absent: fractions"
    )
    margin: float = Field(1.0, ge=0.1, le=10, description="a box is cut out with its sides times this")
    square: bool = Field(False, description="cut out the square of the longer side, so that proportions stay")


class OperationFile(_PipelineFilePart):
    """One operation: exactly one of the keys."""

    crop: tuple[float, float, float, float] | None = Field(None, description="left, top, right, bottom in fractions")
    resize: tuple[_Size, _Size] | None = Field(None, description="height and width in pixels")
    grey: Literal[True] | None = None
    normalise: NormaliseFile | None = None
    crop_boxes: CropBoxesFile | None = None

    @model_validator(mode="after")
    def _one(self) -> OperationFile:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of {', '.join(type(self).model_fields)} is wanted, got {given or 'none'}")
        return self

    def operation(self) -> Operation:
        """As a value. Raises InvalidValue."""
        if self.crop is not None:
            return Crop(*self.crop)
        if self.resize is not None:
            return Resize(*self.resize)
        if self.normalise is not None:
            return Normalise(self.normalise.mean, self.normalise.std)
        if (cut := self.crop_boxes) is not None:
            return CropBoxes(
                boxes=ValueSource.from_text(cut.boxes),
                height=cut.size[0],
                width=cut.size[1],
                most=cut.most,
                scores=None if cut.scores is None else ValueSource.from_text(cut.scores),
                above=cut.above,
                labels=None if cut.labels is None else ValueSource.from_text(cut.labels),
                classes=cut.classes,
                scale=cut.pixels_of,
                margin=cut.margin,
                square=cut.square,
            )
        return Grey()


class FeedFile(_PipelineFilePart):
    """The feed of an input of a stage's model: `from` and what to `do` with it; a plain name passes the value
    through."""

    model_config = ConfigDict(populate_by_name=True)

    source: _Source = Field(alias="from")
    do: tuple[OperationFile, ...] = Field((), max_length=16)

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        return {"from": value} if isinstance(value, str) else value

    @field_validator("do", mode="before")
    @classmethod
    def _words(cls, value: Any) -> Any:
        return [{"grey": True} if step == "grey" else step for step in value] if isinstance(value, list) else value

    def feed(self) -> Feed:
        """As a value. Raises InvalidValue."""
        return Feed(ValueSource.from_text(self.source), tuple(step.operation() for step in self.do))


class AlternativeFile(_PipelineFilePart):
    """Another model that may answer a stage."""

    model: _ModelName
    accuracy: float = Field(gt=0, le=1, description="part of its answers that are right")


class StageFile(_PipelineFilePart):
    """One stage."""

    name: _Name
    model: _ModelName
    accuracy: float | None = Field(None, gt=0, le=1, description="part of the model's answers that are right")
    alternatives: tuple[AlternativeFile, ...] = Field(
        (),
        max_length=7,
        description="models with the same inputs and outputs; the best that holds answers",
    )
    version: Annotated[str, Field(pattern=r"^[0-9]{1,18}$")] | None = None
    per_request: float = Field(1.0, gt=0, le=1e6, description="rows asked for per row of the application, on average")
    inputs: dict[str, FeedFile] = Field(min_length=1, max_length=64)

    @field_validator("version", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class PipelineFile(_PipelineFilePart):
    """`model.yaml` of an application. Errors come with the field's path."""

    platform: Literal["pipeline"]
    slo_ms: float = Field(gt=0, le=3_600_000, description="from the application's request to its answer")
    rate: float = Field(0.0, ge=0, le=1e9, description="expected requests per second to start with")
    priority: int = Field(0, ge=-1000, le=1000)
    source: SourceFile | None = Field(None, description="the camera that asks it; absent: clients do")
    inputs: tuple[PipelineTensor, ...] = Field((), max_length=64, description="with a source: those of the camera")
    outputs: tuple[PipelineOutput, ...] = Field(min_length=1, max_length=256)
    stages: tuple[StageFile, ...] = Field(min_length=1, max_length=MOST_STAGES)

    def application(self, name: str, version: str = "1", digest: str = "") -> Application:
        """As a value, its graph checked. Raises InvalidValue."""
        stages = tuple(
            Stage(
                s.name,
                s.model,
                {name: feed.feed() for name, feed in s.inputs.items()},
                s.version,
                s.per_request,
                s.accuracy,
                tuple(Alternative(a.model, a.accuracy) for a in s.alternatives),
            )
            for s in self.stages
        )
        return Application(
            name,
            self.slo_ms,
            self._inputs(),
            tuple(
                ApplicationOutput(
                    TensorSpec(o.name, o.datatype, o.shape), ValueSource.from_text(o.source), _attribute(o.attribute)
                )
                for o in self.outputs
            ),
            stages,
            version,
            self.priority,
            self.rate,
            digest,
            source=self._source(),
        )

    def _source(self) -> ApplicationSource | None:
        s = self.source
        if s is None:
            return None
        if self.rate:
            raise InvalidValue("rate", self.rate, "no rate: the source's camera answers at its own")
        return ApplicationSource(s.camera, s.classes, s.min_score, s.most, s.max_rate)

    def _inputs(self) -> tuple[TensorSpec, ...]:
        given = tuple(TensorSpec(i.name, i.datatype, i.shape) for i in self.inputs)
        if self.source is None:
            return given
        known = {spec.name: spec for spec in SOURCE_INPUTS}
        for n, spec in enumerate(given):
            if spec.name not in known:
                raise InvalidValue(f"inputs[{n}].name", spec.name, f"an input of a camera: {', '.join(known)}")
            own = known[spec.name]
            if spec.datatype != own.datatype:
                raise InvalidValue(f"inputs[{n}].datatype", spec.datatype, f"{own.datatype}, as a camera gives it")
            if tuple(spec.shape) != own.shape:
                raise InvalidValue(f"inputs[{n}].shape", list(spec.shape), f"{list(own.shape)}, as a camera gives it")
        return SOURCE_INPUTS


def _attribute(given: AttributeFile | None) -> AttributeOutput | None:
    return None if given is None else AttributeOutput(given.labels, given.min_score, given.softmax)


def parse_application(name: str, value: Any, version: str = "1", digest: str = "") -> Application:
    """An application from the content of its YAML. Raises InvalidValues with each problem's path, or InvalidValue."""
    if not isinstance(value, Mapping):
        raise InvalidValue(f"{name}: model.yaml", value, "fields, platform: pipeline among them")
    try:
        return PipelineFile.model_validate(value).application(name, version, digest)
    except ValidationError as error:
        problems = [
            InvalidValue(
                ".".join(str(p) for p in e["loc"]) or "model.yaml",
                None if e["type"] == "missing" else e["input"],
                e["msg"],
            )
            for e in error.errors(include_url=False)
        ]
        raise InvalidValues(problems) from None


def described_application(name: str, value: Any, path: str) -> Application:
    """As `parse_application`, with problems at `path` and below. Raises InvalidValues, InvalidValue."""
    try:
        return parse_application(name, value)
    except InvalidValues as error:
        raise InvalidValues([InvalidValue(f"{path}.{p.path}", p.given, p.allowed) for p in error.problems]) from None
    except InvalidValue as error:
        raise InvalidValue(f"{path}.{error.path}", error.given, error.allowed) from None


def read_application(path: Path, name: str | None = None) -> Application:
    """An application from its YAML file; its name is `name`, else that of the folder (of `model.yaml`) or the file.

    Raises NotFound, InvalidValue, InvalidValues.
    """
    named, value = read_description(path)
    return parse_application(name or named, value)


def read_description(path: Path) -> tuple[str, Any]:
    """Name (of the folder of a `model.yaml`, else of the file) and content of an application's YAML file, not checked.

    Raises NotFound, InvalidValue.
    """
    try:
        text = path.read_text(encoding="utf-8")
        value = yaml.safe_load(text)
    except OSError as error:
        raise NotFound(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValue(str(path), "text that cannot be read", f"YAML ({str(error).splitlines()[0]})") from error
    return path.absolute().parent.name if path.stem == "model" else path.stem, value
