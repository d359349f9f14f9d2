"""Settings of one camera: its source, student, inference configurations, zones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator

from edge.core.configs import (
    CLASSIFICATION_ARCHITECTURES,
    DETECTION_ARCHITECTURES,
    WHOLE,
    InferenceConfig,
    Region,
    StudentSpec,
    check_region,
)
from edge.core.counts import CountLine, check_line
from edge.core.errors import InvalidValue
from edge.core.masks import MOST_MASKS, Mask
from edge.core.zones import MAX_POINTS, MIN_POINTS, Zone, check_polygon
from edge.settings.base import FieldProblem, Fraction, Identifier, SecretReference, Settings
from edge.settings.clips import CameraClips

#: Height and width in pixels of the usual input of a detector of our own architectures.
DRAWN_INPUT: Final = (192, 320)


class StudentSettings(Settings):
    """The camera's small model."""

    architecture: Literal["ssdlite_mobilenet_v3", "resnet18", "mobilenet_v2", "shufflenet_v2"] | None = None
    input_height: int = Field(0, ge=0, le=1080, description="pixels; 0: the architecture's usual size")
    input_width: int = Field(0, ge=0, le=1920, description="pixels; 0: the architecture's usual size")
    width: float = Field(0.5, ge=0.1, le=4.0, description="channel multiplier where the architecture allows it")
    last_layer_width: int = Field(0, ge=0, le=4096, description="hidden layer before the output; 0: none")
    weights: str = Field("", description="file of a student to start from; empty: as published, or random weights")
    model: str = Field("", description="a shipped name (yolox_nano) or a YAML file; empty: the site's student")
    class_map: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="camera class -> classes of the published detector; not named: as in the camera's class_map",
    )


def check_student(student: StudentSettings, task: Literal["detection", "classification"]) -> None:
    """Raises FieldProblem if a camera of this task cannot have such a student."""
    if student.model and task != "detection":
        raise FieldProblem("student.model", "a published detector needs task detection")
    allowed = DETECTION_ARCHITECTURES if task == "detection" else CLASSIFICATION_ARCHITECTURES
    if student.architecture is not None and student.architecture not in allowed:
        raise FieldProblem("student.architecture", f"one of {', '.join(allowed)} for task {task}")


class InferenceSettings(Settings):
    """The space of inference configurations lambda = (frame rate, resolution, region, shape)."""

    frame_rates: tuple[Annotated[float, Field(gt=0, le=60)], ...] = Field((5.0, 2.5, 1.0), min_length=1)
    resolutions: tuple[Annotated[float, Field(ge=0.25, le=1)], ...] = Field((1.0,), min_length=1)
    score_threshold: float | None = Field(
        None, gt=0, lt=1, description="detections below it are not answered; empty: chosen on past labels"
    )
    region: str = Field(
        "auto",
        max_length=60,
        description="the part of the picture that is looked at: auto (learned from labels), off (all of it), or "
        "left,top,right,bottom in fractions, e.g. 0,0.2,1,1; published detectors only",
    )
    shape: Literal["camera", "model"] = Field(
        "camera", description="proportions of the input: the camera's, or those that the model was published with"
    )

    @field_validator("region")
    @classmethod
    def _holds_something(cls, value: str) -> str:
        if value not in ("auto", "off"):
            try:
                check_region("region", [float(v) for v in value.split(",")])
            except InvalidValue as error:
                raise ValueError(f"auto, off, or left,top,right,bottom: {error.allowed} (here: {value})") from None
            except ValueError:
                raise ValueError("auto, off, or left,top,right,bottom in fractions, e.g. 0,0.2,1,1") from None
        return value

    def fixed_region(self) -> Region | None:
        """The region that is asked for; None where it is learned."""
        if self.region == "auto":
            return None
        return WHOLE if self.region == "off" else check_region("region", [float(v) for v in self.region.split(",")])

    def space(self, region: Region = WHOLE) -> tuple[InferenceConfig, ...]:
        """All combinations for one region, the dearest first."""
        return tuple(
            InferenceConfig(f, r, region, self.shape)
            for r in sorted(set(self.resolutions), reverse=True)
            for f in sorted(set(self.frame_rates), reverse=True)
        )


class CameraRetraining(Settings):
    """A camera's own settings of retraining."""

    enabled: bool = True
    every_kth_window: int = Field(1, ge=1, le=1000)
    label_budget: int | None = Field(None, ge=4, le=5000, description="labelled frames per window; empty: the site's")


def _simple_polygon(value: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    try:
        check_polygon("polygon", value)
    except InvalidValue as error:
        raise ValueError(f"{error.allowed} (here: {error.given})") from None
    return value


class ZoneSettings(Settings):
    """A named part of a camera's picture."""

    name: Identifier
    polygon: tuple[tuple[Fraction, Fraction], ...] = Field(
        min_length=MIN_POINTS, max_length=MAX_POINTS, description="[x, y] in fractions of the picture; closed by itself"
    )
    classes: tuple[Annotated[str, Field(min_length=1, max_length=60)], ...] = Field(
        (), max_length=200, description="only objects of these classes count; empty: all"
    )

    @field_validator("polygon")
    @classmethod
    def _simple(cls, value: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        return _simple_polygon(value)

    def zone(self) -> Zone:
        """As the tracker takes it."""
        return Zone(self.name, self.polygon, self.classes)


class LineSettings(Settings):
    """A line on a camera's picture that objects are counted at."""

    name: Identifier
    start: tuple[Fraction, Fraction] = Field(description="[x, y] in fractions of the picture")
    end: tuple[Fraction, Fraction] = Field(
        description="[x, y]; crossing to the right, as seen from start to end, is forward"
    )
    classes: tuple[Annotated[str, Field(min_length=1, max_length=60)], ...] = Field(
        (), max_length=200, description="only objects of these classes count; empty: all"
    )

    @model_validator(mode="after")
    def _long_enough(self) -> LineSettings:
        try:
            check_line("line", self.start, self.end)
        except InvalidValue as error:
            raise FieldProblem("end", f"{error.allowed} (here: {error.given})") from None
        return self

    def line(self) -> CountLine:
        """As it is counted at."""
        return CountLine(self.name, self.start, self.end, self.classes)


class MaskSettings(Settings):
    """A part of a camera's picture that must not be seen."""

    name: Identifier
    polygon: tuple[tuple[Fraction, Fraction], ...] = Field(
        min_length=MIN_POINTS, max_length=MAX_POINTS, description="[x, y] in fractions of the picture; closed by itself"
    )

    @field_validator("polygon")
    @classmethod
    def _simple(cls, value: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        return _simple_polygon(value)


class CameraSettings(Settings):
    """One camera and its student."""

    id: Identifier
    name: str = Field("", max_length=120)
    url: str = Field(min_length=1, max_length=2000, description="rtsp://, rtsps://, or a file or folder path")
    transport: Literal["tcp", "udp"] = "tcp"
    username: str = Field("", max_length=200)
    password_from: SecretReference = Field(
        "", description="env:NAME, file:/path[#key] or secret:NAME; the password itself is never stored"
    )
    stall_timeout_s: float = Field(5.0, ge=0.5, le=300)
    max_fps: float | None = Field(None, gt=0, le=120)
    seconds_per_picture: float = Field(1.0, gt=0, le=86400, description="for a folder of stills")
    enabled: bool = True
    task: Literal["detection", "classification"] = "detection"
    classes: tuple[Annotated[str, Field(min_length=1, max_length=60)], ...] = Field(min_length=1, max_length=200)
    class_map: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="camera class -> teacher classes; a class not named maps to its own name"
    )
    student: StudentSettings = StudentSettings()
    inference: InferenceSettings = InferenceSettings()
    retraining: CameraRetraining = CameraRetraining()
    zones: tuple[ZoneSettings, ...] = Field(
        (), max_length=32, description="named parts of the picture, for rules and counts"
    )
    lines: tuple[LineSettings, ...] = Field((), max_length=32, description="lines that objects are counted at")
    clips: CameraClips = CameraClips()
    masks: tuple[MaskSettings, ...] = Field(
        (), max_length=MOST_MASKS, description="parts of the picture that are blacked out before anybody sees them"
    )

    @field_validator("url")
    @classmethod
    def _no_password_in_url(cls, value: str) -> str:
        if re.match(r"^[a-z]+://[^/@]*:[^/@]*@", value):
            raise ValueError("a password does not belong into the url: use username and password_from")
        if "://" in value and not re.match(r"^(rtsp|rtsps|file)://", value):
            raise ValueError("rtsp://, rtsps://, file:// or a path")
        if "://" not in value and re.match(r"^[A-Za-z][A-Za-z0-9+.-]*[:,]", value):
            raise ValueError("rtsp://, rtsps://, file:// or a path: this begins as another protocol")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> CameraSettings:
        if len(set(self.classes)) != len(self.classes):
            raise FieldProblem("classes", "each class once")
        for name in self.class_map:
            if name not in self.classes:
                raise FieldProblem(f"class_map.{name}", f"one of the camera's classes {', '.join(self.classes)}")
        self._check_named("zones", self.zones)
        self._check_named("lines", self.lines)
        self._check_named("masks", self.masks)
        check_student(self.student, self.task)
        for name in self.student.class_map:
            if name not in self.classes:
                raise FieldProblem(
                    f"student.class_map.{name}", f"one of the camera's classes {', '.join(self.classes)}"
                )
        return self

    def _check_named(self, field: str, parts: Sequence[ZoneSettings | LineSettings | MaskSettings]) -> None:
        """Each name once, and only classes of the camera."""
        names = [part.name for part in parts]
        for number, part in enumerate(parts):
            if names.index(part.name) != number:
                raise FieldProblem(f"{field}[{number}].name", f"{part.name!r} is there twice; each name once")
            for name in () if isinstance(part, MaskSettings) else part.classes:
                if name not in self.classes:
                    raise FieldProblem(
                        f"{field}[{number}].classes",
                        f"{name!r} is none of the camera's classes {', '.join(self.classes)}",
                    )

    def places(self) -> tuple[tuple[float, float], ...]:
        """The corners of its lines and zones: the student must see what passes there."""
        corners = [point for line in self.lines for point in (line.start, line.end)]
        return (*corners, *(point for zone in self.zones for point in zone.polygon))

    def all_masks(self) -> tuple[Mask, ...]:
        """The masks, as pictures are blacked out by."""
        return tuple(Mask(m.name, m.polygon) for m in self.masks)

    def drawn_spec(self) -> StudentSpec:
        """The specification of a student of our own architectures, with their usual sizes filled in."""
        s = self.student
        if self.task == "detection":
            architecture, size = s.architecture or "ssdlite_mobilenet_v3", DRAWN_INPUT
        else:
            architecture, size = s.architecture or "shufflenet_v2", (64, 64)
        size = (s.input_height or size[0], s.input_width or size[1])
        return StudentSpec(self.task, architecture, self.classes, size, s.width, s.last_layer_width)
