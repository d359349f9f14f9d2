"""The site configuration: every field with its range, its default and what it means; unknown keys fail.

The same models check the YAML file, REST bodies and what the store kept, so a value is refused in one place only.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from edge.core.alarms import Rule, RuleKind, Severity
from edge.core.configs import (
    CLASSIFICATION_ARCHITECTURES,
    DETECTION_ARCHITECTURES,
    WHOLE,
    InferenceConfig,
    Region,
    RetrainingConfig,
    StudentSpec,
    check_region,
)
from edge.core.errors import InvalidValue, InvalidValues, MagpieError
from edge.core.hours import SPAN_PATTERN, inside
from edge.core.zones import MAX_POINTS, MIN_POINTS, Zone, check_polygon

_IDENTIFIER = r"^[a-z0-9][a-z0-9_-]{0,62}$"
Identifier = Annotated[str, Field(pattern=_IDENTIFIER, description="lower-case name")]


class Settings(BaseModel):
    """Base: unknown keys fail, values do not change after they were checked."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True, allow_inf_nan=False)


def _reference(value: str) -> str:
    if value and not re.fullmatch(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+|secret:[A-Za-z0-9][A-Za-z0-9_.-]*", value):
        raise ValueError("env:NAME, file:/path[#key] or secret:NAME")
    return value


SecretReference = Annotated[str, Field(max_length=1000), AfterValidator(_reference)]


Fraction = Annotated[float, Field(ge=0, le=1)]


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
    """What a camera may ask for itself."""

    enabled: bool = True
    every_kth_window: int = Field(1, ge=1, le=1000)
    label_budget: int | None = Field(None, ge=4, le=5000, description="labelled frames per window; empty: the site's")


QuietHours = tuple[Annotated[str, Field(pattern=SPAN_PATTERN)], ...]


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
        try:
            check_polygon("polygon", value)
        except InvalidValue as error:
            raise ValueError(f"{error.allowed} (here: {error.given})") from None
        return value

    def zone(self) -> Zone:
        """As the tracker takes it."""
        return Zone(self.name, self.polygon, self.classes)


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
    zones: tuple[ZoneSettings, ...] = Field((), max_length=32, description="named parts of the picture, for rules")

    @field_validator("url")
    @classmethod
    def _no_password_in_url(cls, value: str) -> str:
        if re.match(r"^[a-z]+://[^/@]*:[^/@]*@", value):
            raise ValueError("a password does not belong into the url: use username and password_from")
        if "://" in value and not re.match(r"^(rtsp|rtsps|file)://", value):
            raise ValueError("rtsp://, rtsps://, file:// or a path")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> CameraSettings:
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes: each class once")
        for name in self.class_map:
            if name not in self.classes:
                raise ValueError(f"class_map.{name}: one of the camera's classes {', '.join(self.classes)}")
        names = [z.name for z in self.zones]
        for number, zone in enumerate(self.zones):
            if names.index(zone.name) != number:
                raise ValueError(f"zones[{number}].name: {zone.name!r} is there twice; each name once")
            for name in zone.classes:
                if name not in self.classes:
                    raise ValueError(
                        f"zones[{number}].classes: {name!r} is none of the camera's classes {', '.join(self.classes)}"
                    )
        if self.student.model and self.task != "detection":
            raise ValueError("student.model: a published detector needs task detection")
        for name in self.student.class_map:
            if name not in self.classes:
                raise ValueError(f"student.class_map.{name}: one of the camera's classes {', '.join(self.classes)}")
        allowed = DETECTION_ARCHITECTURES if self.task == "detection" else CLASSIFICATION_ARCHITECTURES
        if self.student.architecture is not None and self.student.architecture not in allowed:
            raise ValueError(f"student.architecture: one of {', '.join(allowed)} for task {self.task}")
        return self

    def drawn_spec(self) -> StudentSpec:
        """The specification of a student of our own architectures, with their usual sizes filled in."""
        s = self.student
        if self.task == "detection":
            architecture, size = s.architecture or "ssdlite_mobilenet_v3", (192, 320)
        else:
            architecture, size = s.architecture or "shufflenet_v2", (64, 64)
        size = (s.input_height or size[0], s.input_width or size[1])
        return StudentSpec(self.task, architecture, self.classes, size, s.width, s.last_layer_width)


class ConfigurationSpace(Settings):
    """The space of retraining configurations gamma: the product of the lists (thesis section 2.3.1)."""

    epochs: tuple[Annotated[int, Field(ge=1, le=1000)], ...] = Field((4, 10, 20), min_length=1)
    batch_sizes: tuple[Annotated[int, Field(ge=1, le=1024)], ...] = Field((8,), min_length=1)
    layers: tuple[Literal["head", "last_stage", "all"], ...] = Field(("head", "last_stage", "all"), min_length=1)
    data_fractions: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field((0.5, 1.0), min_length=1)
    learning_rates: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field((2e-3,), min_length=1)
    last_layer_widths: tuple[Annotated[int, Field(ge=0, le=4096)], ...] = Field((0,), min_length=1)

    def configs(self) -> tuple[RetrainingConfig, ...]:
        """Every configuration of the space."""
        return tuple(
            RetrainingConfig(e, b, y, d, r, w)
            for e, b, y, d, r, w in itertools.product(
                self.epochs, self.batch_sizes, self.layers, self.data_fractions, self.learning_rates,
                self.last_layer_widths,
            )
        )  # fmt: skip


class RetrainingSettings(Settings):
    """Retraining windows: changeable by REST at run time, in force from the next boundary."""

    enabled: bool = True
    window_s: float = Field(200.0, ge=10, le=86400, description="length of a retraining window in seconds")
    policy: Literal[
        "relay", "exact", "thief", "uniform", "uniform-heavy", "no-retraining", "fixed-resources", "fixed-config"
    ] = "relay"
    a_min: float | None = Field(None, ge=0, le=1, description="floor of the momentary inference accuracy")
    delta: float = Field(0.05, gt=0, le=1, description="quantum of shares")
    space: ConfigurationSpace = ConfigurationSpace()
    published_space: ConfigurationSpace = Field(
        ConfigurationSpace(
            epochs=(2, 4, 8),
            batch_sizes=(4,),
            layers=("last_stage", "all"),
            data_fractions=(1.0,),
            learning_rates=(1e-3,),
        ),
        description="the same for students that began as a published detector; learning rates are relative",
    )
    label_budget: int | None = Field(
        None, ge=4, le=5000, description="frames per camera and window that the teacher labels; empty: finds itself"
    )
    held_out: float = Field(0.3, ge=0.1, le=0.5, description="latest part of the labelled frames, kept for the gate")
    golden_share: float | None = Field(
        None, ge=0.01, le=0.9, description="share of the device that labelling may use; empty: finds itself"
    )
    evaluation_share: float = Field(0.05, ge=0.01, le=0.5, description="share for measuring windows and exemplars")
    profiling_budget: float | None = Field(
        None, gt=0, le=0.5, description="part of a window's device time for profiling; empty: finds itself"
    )
    exemplars: int = Field(64, ge=0, le=5000, description="older frames kept per camera so that nothing is forgotten")
    groups: bool = Field(True, description="cameras that look alike may be retrained as one, where a plan gains by it")
    gate_tolerance: float = Field(0.0, ge=0, le=0.2, description="a candidate may be so much worse and still pass")
    rollback_margin: float = Field(0.05, ge=0, le=1, description="live accuracy so far under its parent rolls back")
    quiet_hours: QuietHours = Field((), description="HH:MM-HH:MM in the box's time zone: nothing is retrained then")

    def configs(self, published: bool) -> tuple[RetrainingConfig, ...]:
        """The space of a camera's student: one that began as a published detector, or one of our own architectures."""
        return (self.published_space if published else self.space).configs()

    def retraining_allowed(self, minute_of_day: int) -> bool:
        """False inside quiet hours. `minute_of_day` 0-1439 in the box's time zone."""
        return self.enabled and not inside(self.quiet_hours, minute_of_day)


class RecordingSettings(Settings):
    """The bounded sample on disk."""

    max_frames: int = Field(400, ge=8, le=100000, description="per camera and window")
    max_mb: float = Field(200, gt=0, le=1e6, description="per camera, all windows together")
    keep_windows: int = Field(6, ge=2, le=10000)


class RuleSettings(Settings):
    """When to raise an alarm: changeable by REST at run time, in force at once."""

    id: Identifier
    name: str = Field("", max_length=120, description="for people; empty: the id")
    kind: RuleKind
    enabled: bool = True
    cameras: tuple[Identifier, ...] = Field((), max_length=1000, description="empty: all")
    classes: tuple[Annotated[str, Field(min_length=1, max_length=60)], ...] = Field(
        (), max_length=200, description="object: of these classes; empty: all"
    )
    zones: tuple[Identifier, ...] = Field(
        (), max_length=100, description="object: in one of these zones; empty: anywhere in the picture"
    )
    dwell_s: float = Field(0.0, ge=0, le=86400, description="object: there for so long")
    below: float | None = Field(
        None, ge=0, le=1,
        description="accuracy: of a window (required); disk: free part (empty: 0.05); "
        "slo: part of requests within their objective (empty: 0.95)",
    )  # fmt: skip
    after_s: float | None = Field(
        None, ge=0, le=86400, description="camera_lost (empty: 60), slo (empty: 10): it must be so for so long"
    )
    severity: Severity = "warning"
    quiet_hours: QuietHours = Field(
        (), max_length=24, description="HH:MM-HH:MM in the box's time zone: no new alarm then"
    )
    min_interval_s: float = Field(
        0.0, ge=0, le=604800, description="no new alarm of this rule and camera sooner after the one before"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> RuleSettings:
        if self.kind == "accuracy" and self.below is None:
            raise ValueError("below: a number from 0 to 1: alarms when a window's accuracy is below it")
        used = {
            "cameras": ("object", "accuracy", "camera_lost", "roll_back"),
            "classes": ("object",),
            "zones": ("object",),
            "dwell_s": ("object",),
            "below": ("accuracy", "disk", "slo"),
            "after_s": ("camera_lost", "slo"),
        }
        for name, kinds in used.items():
            if getattr(self, name) and self.kind not in kinds:
                raise ValueError(f"{name}: only with kind {', '.join(kinds)}")
        return self

    def rule(self) -> Rule:
        """As decisions take it."""
        return Rule(**self.model_dump())


DEFAULT_RULES = (
    RuleSettings(id="camera-lost", name="Camera lost", kind="camera_lost", severity="critical"),
    RuleSettings(id="disk-low", name="Disk nearly full", kind="disk", severity="critical"),
    RuleSettings(id="model-rolled-back", name="Model rolled back", kind="roll_back", severity="warning"),
)


class RetentionSettings(Settings):
    """How long history is kept: every limit holds, the oldest goes first."""

    days: float = Field(30, gt=0, le=3650, description="pictures, events, windows, models that are not needed")
    max_gb: float = Field(10, gt=0, le=1e5, description="pictures and models together")
    max_events: int = Field(1_000_000, ge=100, le=10**9, description="journal entries")
    max_events_mb: float = Field(500, gt=0, le=1e6, description="journal entries, in MB")
    max_objects: int = Field(200_000, ge=100, le=10**9, description="records of objects, and as many of alarms")
    max_object_pictures_mb: float = Field(1000, gt=0, le=1e6, description="pictures of objects and alarms, in MB")


class AccessSettings(Settings):
    """Who may come in by REST and the page."""

    enabled: bool = Field(True, description="off: everybody who reaches the port is an admin")
    session_hours: float = Field(12, gt=0, le=8760, description="a login ends after so long")
    idle_minutes: float = Field(240, ge=1, le=525600, description="a login ends when it is not used for so long")
    secret_references: tuple[Annotated[str, Field(pattern=r"^(env:[A-Za-z0-9_]+|file:/.*|secret:.*)$")], ...] = Field(
        ("secret:", "file:/run/secrets/"),
        description="what a password reference that comes by REST may begin with; this file may name any",
    )


class TlsSettings(Settings):
    """Files in PEM form; read again when they change."""

    certificate: str = Field(min_length=1, description="the certificate and those between it and the root")
    key: str = Field(min_length=1, description="its private key, without a passphrase")


def local_host(host: str) -> str:
    """The host of an address at which this machine reaches a port that it opened on `host` itself."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"[{reached}]" if ":" in reached and not reached.startswith("[") else reached


class WebSettings(Settings):
    """Where REST and the page listen."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    access: AccessSettings = AccessSettings()
    tls: TlsSettings | None = Field(None, description="https; empty: http")
    hosts: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")], ...] = Field(
        (),
        description="names that the page may be asked for by, beside addresses, localhost and the machine's own; "
        "empty: any name where people log in",
    )

    def page(self, port: int | None = None) -> str:
        """The page's address on this machine; `port` is the one that was opened where 0 was asked for."""
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{local_host(self.host)}:{self.port if port is None else port}/"


_MODEL_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"
ModelName = Annotated[str, Field(pattern=_MODEL_NAME, description="a model's name")]


class ModelDemand(Settings):
    """What is asked of one served model; what is not given here is that of its model.yaml."""

    rate: float | None = Field(None, ge=0, le=1e6, description="requests per second to expect now; traffic corrects it")
    min_rate: float | None = Field(None, ge=0, le=1e6, description="requests per second that are always planned for")
    slo_ms: float | None = Field(None, gt=0, le=3.6e6, description="each request is answered within it")
    priority: int | None = Field(None, ge=-1000, le=1000, description="lower yields first")


class ServingPlanning(Settings):
    """How served models share the box: changeable by REST at run time, in force at once."""

    policy: Literal["mosaic", "elastic", "elastic-no-interference", "squishy", "guided-self-tuning", "ideal"] = "mosaic"
    max_share: float = Field(1.0, ge=0, le=1, description="share of the device that all models together may take")
    cameras_priority: int = Field(
        0, ge=-1000, le=1000, description="models below it get only what cameras leave at their best"
    )
    half_life_s: float = Field(20.0, gt=0, le=3600, description="of the moving average of rates, when they fall")
    rise_half_life_s: float = Field(4.0, gt=0, le=3600, description="of the moving average of rates, when they rise")
    headroom: float = Field(1.1, ge=1, le=10, description="rates are planned higher by this factor")
    grow_dwell_s: float = Field(2.0, ge=0, le=3600, description="least time before a plan for more requests")
    shrink_dwell_s: float = Field(20.0, ge=0, le=86400, description="least time before a plan for fewer requests")
    models: dict[ModelName, ModelDemand] = Field(default_factory=dict, description="rate, SLO, priority by model")


class HttpSettings(Settings):
    """Where the Open Inference Protocol is listened for by HTTP."""

    host: str = Field("127.0.0.1", min_length=1, max_length=255)
    port: int = Field(8000, ge=0, le=65535, description="0: any free one")


class GrpcSettings(Settings):
    """Where it is listened for by gRPC."""

    host: str = Field("127.0.0.1", min_length=1, max_length=255)
    port: int = Field(8001, ge=0, le=65535, description="0: any free one")


class ServingSettings(Settings):
    """Models served by the Open Inference Protocol beside the cameras; without this section none are."""

    folder: str = Field("models", min_length=1, description="the model repository: NAME/model.yaml, NAME/VERSION/")
    http: HttpSettings = HttpSettings()
    grpc: GrpcSettings = GrpcSettings()
    tables: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (), max_length=64, description="recorded device tables (JSON); a later one replaces models of an earlier one"
    )
    measure: bool = Field(True, description="measure models that the tables do not have, or that are off from them")
    measure_s: float = Field(170, ge=5, le=86400, description="time for measuring models that are new, together")
    load: tuple[ModelName, ...] | None = Field(
        None, max_length=512, description="models to serve; empty: all there are"
    )
    access: Literal["token", "open"] | None = Field(
        None, description="whether clients need an API token; empty: open if it listens on this machine only"
    )
    front_share: float = Field(0.05, ge=0, le=0.5, description="kept for the process that takes requests (CPU only)")
    max_body_mb: float = Field(64, gt=0, le=4096, description="larger requests are refused")
    uploads: bool = Field(False, description="clients may bring model files with a load request")
    max_upload_mb: float = Field(256, gt=0, le=65536)
    planning: ServingPlanning = ServingPlanning()


class ModelCandidate(Settings):
    """A model whose admission is asked: what it would be asked for, and its latencies if the appliance has none."""

    name: ModelName
    rate: float = Field(gt=0, le=1e6, description="requests per second")
    slo_ms: float = Field(gt=0, le=3.6e6, description="each request is answered within it")
    priority: int = Field(0, ge=-1000, le=1000, description="lower yields first")
    table: dict[str, Any] | None = Field(None, description="gpulet-device/1 with the model's latencies on this device")


class AdmissionCamera(Settings):
    """A camera whose admission is asked."""

    id: Identifier
    like: Identifier | None = Field(None, description="a camera that it will be like; empty: an average one")
    inference: InferenceSettings = InferenceSettings()
    accuracy: float = Field(0.5, ge=0, le=1, description="of its first model, where no other camera tells")


class AdmissionRequest(Settings):
    """Would this fit, and what would it cost the others? Either a camera or a model."""

    camera: AdmissionCamera | None = None
    model: ModelCandidate | None = None

    @model_validator(mode="after")
    def _one(self) -> AdmissionRequest:
        if (self.camera is None) == (self.model is None):
            raise ValueError("either a camera or a model")
        return self


def _topic_levels(value: str) -> str:
    levels = value.split("/")
    if any(not level or not re.fullmatch(r"[A-Za-z0-9_.-]+", level) for level in levels):
        raise ValueError("levels of letters, digits, _, - and ., with / between them")
    return value


TopicPrefix = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_topic_levels)]


class QueueSettings(Settings):
    """How much may wait for an output that cannot be reached; beyond, the oldest is lost, and counted."""

    max_messages: int = Field(100_000, ge=10, le=10_000_000, description="messages")
    max_mb: float = Field(100, gt=0, le=1e5, description="all of them together, in MB")
    max_age_h: float = Field(48, gt=0, le=8760, description="hours since they were made")


class MqttSettings(Settings):
    """An MQTT broker (protocol 3.1.1) that gets states, events and alarms, and may switch retraining."""

    enabled: bool = True
    host: str = Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9_.:-]+$", description="name or address")
    port: int = Field(1883, ge=1, le=65535, description="usually 1883, with TLS 8883")
    tls: bool = False
    ca_file: str = Field("", max_length=1000, description="certificates to trust (PEM); empty: the system's")
    username: str = Field("", max_length=200)
    password_from: SecretReference = Field("", description="env:NAME, file:/path[#key] or secret:NAME")
    client_id: str = Field("", max_length=128, pattern=r"^[A-Za-z0-9_.-]*$", description="empty: magpie-SITE")
    prefix: TopicPrefix = Field("magpie", description="first levels of every topic")
    keepalive_s: int = Field(30, ge=5, le=3600)
    objects: bool = Field(True, description="send events of objects, not only alarms")
    discovery: bool = Field(True, description="tell Home Assistant what there is")
    discovery_prefix: TopicPrefix = Field("homeassistant", description="Home Assistant's own setting of that name")
    queue: QueueSettings = QueueSettings()


class WebhookSettings(Settings):
    """An HTTP receiver that gets alarms, or objects, as signed POSTs."""

    id: Identifier
    enabled: bool = True
    url: str = Field(min_length=1, max_length=2000, description="http:// or https://; redirects are not followed")
    kinds: tuple[Literal["alarm", "object"], ...] = Field(("alarm",), min_length=1, max_length=2)
    phases: tuple[Literal["new", "update", "end"], ...] = Field((), max_length=3, description="empty: all")
    cameras: tuple[Identifier, ...] = Field((), max_length=1000, description="empty: all")
    severities: tuple[Severity, ...] = Field((), max_length=3, description="of alarms; empty: all")
    secret_from: SecretReference = Field("", description="signs each POST; env:NAME, file:/path[#key] or secret:NAME")
    ca_file: str = Field("", max_length=1000, description="certificates to trust (PEM); empty: the system's")
    timeout_s: float = Field(10.0, ge=0.5, le=120, description="for one POST with its answer")
    max_tries: int = Field(20, ge=1, le=1000, description="of a message that is answered with an error")
    queue: QueueSettings = QueueSettings()

    @field_validator("url")
    @classmethod
    def _plain_address(cls, value: str) -> str:
        match = re.fullmatch(r"https?://([^/?#\s]+)[^\s#]*", value)
        if match is None:
            raise ValueError("http://HOST/... or https://HOST/..., without #")
        if "@" in match[1]:
            raise ValueError("no user or password in the url: the receiver checks the signature (secret_from)")
        return value


class OutputsSettings(Settings):
    """Where events and alarms go: changeable by REST at run time, in force at once."""

    mqtt: MqttSettings | None = None
    webhooks: tuple[WebhookSettings, ...] = Field((), max_length=50)

    @model_validator(mode="after")
    def _distinct(self) -> OutputsSettings:
        ids = [w.id for w in self.webhooks]
        for number, webhook in enumerate(ids):
            if ids.index(webhook) != number:
                raise ValueError(f"webhooks[{number}].id: {webhook!r} is there twice; each id once")
        return self


class SiteSettings(Settings):
    """The whole appliance."""

    site: Identifier = "site"
    data_dir: str = Field("data", min_length=1)
    database_url: str = Field("", description="empty: SQLite in data_dir; else postgresql+psycopg://...")
    teacher: str = Field(
        "", description="the golden model: a shipped name (traffic_ensemble) or a YAML file; empty: the demo's own"
    )
    student: str = Field(
        "", description="what cameras start from: a shipped name (yolox_nano) or a YAML file; empty: the demo's own"
    )
    demo: bool = Field(False, description="the demo's drawn streets: there the demo's own models are right")
    device: str = Field("auto", description="auto, cpu, or a GPU's UUID")
    cores: float | None = Field(None, gt=0, le=1024, description="CPU cores Magpie may use; empty: all")
    share_kind: Literal["auto", "cgroup", "coop", "mps", "mps+green"] = "auto"
    control_share: float = Field(0.08, ge=0, le=0.5, description="kept for the control process itself")
    web: WebSettings = WebSettings()
    retraining: RetrainingSettings = RetrainingSettings()
    recording: RecordingSettings = RecordingSettings()
    retention: RetentionSettings = RetentionSettings()
    serving: ServingSettings | None = None
    rules: tuple[RuleSettings, ...] = Field(DEFAULT_RULES, max_length=200, description="when to raise alarms")
    outputs: OutputsSettings = OutputsSettings()
    cameras: tuple[CameraSettings, ...] = ()

    @model_validator(mode="after")
    def _distinct_cameras(self) -> SiteSettings:
        ids = [c.id for c in self.cameras]
        for camera in ids:
            if ids.count(camera) > 1:
                raise ValueError(f"cameras[].id: {camera!r} is there twice; each id once")
        rules = [r.id for r in self.rules]
        for number, rule in enumerate(rules):
            if rules.index(rule) != number:
                raise ValueError(f"rules[{number}].id: {rule!r} is there twice; each id once")
        return self

    def database(self) -> str:
        """The database URL with the default filled in."""
        return self.database_url or f"sqlite:///{Path(self.data_dir).absolute() / 'magpie.db'}"


M = TypeVar("M", bound=Settings)


def _problems(error: ValidationError, prefix: str, model: type[BaseModel]) -> list[InvalidValue]:
    out = []
    for e in error.errors():
        path = prefix
        for part in e["loc"]:
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
        given = e.get("input")
        if e["type"] == "extra_forbidden":
            allowed = "no such field; known: " + ", ".join(sorted(_fields_at(model, e["loc"])))
            given = e["loc"][-1]
        elif e["type"] == "missing":
            allowed, given = "a value (the field is required)", None
        else:
            allowed = _allowed(e["type"], e["msg"], e.get("ctx", {}))
        if "password" in path.lower() or path.endswith("secret_from"):
            given = "(not shown)"
        elif isinstance(given, str):
            given = re.sub(r"(//[^/:@\s]*):[^@/\s]*@", r"\1:***@", given)
        out.append(InvalidValue(path or "(body)", given, allowed))
    return out


#: What a pattern lets through, for people.
_PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        _IDENTIFIER: "small letters, digits, - and _, beginning with a letter or digit, at most 63",
        _MODEL_NAME: "letters, digits, _ . and -, not beginning with . or -, at most 128",
        SPAN_PATTERN: "HH:MM-HH:MM, as 22:00-06:00",
    }
)


def _allowed(kind: str, message: str, context: Mapping[str, Any]) -> str:
    """What may come, in words, of one of pydantic's errors."""
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], f"text that matches {context['pattern']}")
    for end, words, key in (("too_short", "at least", "min_length"), ("too_long", "at most", "max_length")):
        if kind in (end, f"string_{end}"):
            number = context[key]
            what = "character" if kind.startswith("string_") else "item"
            return f"{words} {number} {what}{'' if number == 1 else 's'}"
    return message.removeprefix("Value error, ").removeprefix("Input should be ")


def _fields_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """Field names of the (nested) model that holds the last part of `loc`."""
    current: Any = model
    for part in loc[:-1]:
        if isinstance(part, int):
            continue
        info = current.model_fields.get(part) if hasattr(current, "model_fields") else None
        if info is None:
            break
        current = info.annotation
        for inner in getattr(current, "__args__", ()):
            if hasattr(inner, "model_fields"):
                current = inner
    return list(getattr(current, "model_fields", {}))


def parse(model: type[M], value: Any, path: str = "") -> M:
    """Check `value` against `model`. Raises InvalidValues with every problem's path, value and what is allowed."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidValues(_problems(error, path, model)) from None


def site_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of the site configuration. What depends on several fields is checked on reading."""
    schema = SiteSettings.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema | {"title": "Magpie site configuration"}


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """JSON merge patch (RFC 7396) of plain dicts: null removes, objects merge, everything else replaces."""
    out = dict(base)
    for key, value in patch.items():
        if value is None:
            out[key] = None
        elif isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
            out[key] = merge(out[key], value)
        else:
            out[key] = value
    return out


def read_site(path: Path) -> SiteSettings:
    """Read a site configuration. Relative paths inside are taken from the file's folder.

    Raises MagpieError (unreadable, not YAML) or InvalidValues.
    """
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MagpieError(f"{path}: cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise MagpieError(f"{path}: not a YAML file: {str(error).splitlines()[0]}") from None
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise InvalidValue(str(path), type(value).__name__, "a mapping of settings")
    folder = path.absolute().parent

    def absolute(text: str) -> str:
        text = os.path.expandvars(text)
        return text if not text or "://" in text or os.path.isabs(text) else str(folder / text)

    def file_or_name(text: str) -> str:
        # A bare name is that of a shipped description.
        return absolute(text) if "/" in text or text.endswith((".yaml", ".yml")) or "$" in text else text

    if isinstance(value.get("data_dir"), str):
        value["data_dir"] = absolute(value["data_dir"])
    for key in ("teacher", "student"):
        if isinstance(value.get(key), str):
            value[key] = file_or_name(value[key])
    for camera in value["cameras"] if isinstance(value.get("cameras"), list) else ():
        student = camera.get("student") if isinstance(camera, dict) else None
        if isinstance(student, dict) and isinstance(student.get("model"), str):
            student["model"] = file_or_name(student["model"])
    site = parse(SiteSettings, value)
    if site.web.tls is not None:
        tls = TlsSettings(certificate=absolute(site.web.tls.certificate), key=absolute(site.web.tls.key))
        site = site.model_copy(update={"web": site.web.model_copy(update={"tls": tls})})
    if "outputs" in site.model_fields_set:
        mqtt = site.outputs.mqtt
        if mqtt is not None:
            mqtt = mqtt.model_copy(update={"ca_file": absolute(mqtt.ca_file)})
        hooks = tuple(w.model_copy(update={"ca_file": absolute(w.ca_file)}) for w in site.outputs.webhooks)
        site = site.model_copy(update={"outputs": OutputsSettings(mqtt=mqtt, webhooks=hooks)})
    if site.serving is not None:
        tables = tuple(absolute(t) for t in site.serving.tables)
        serving = site.serving.model_copy(update={"folder": absolute(site.serving.folder), "tables": tables})
        site = site.model_copy(update={"serving": serving})
    cameras = []
    for camera in site.cameras:
        student = camera.student.model_copy(update={"weights": absolute(camera.student.weights)})
        cameras.append(camera.model_copy(update={"url": absolute(camera.url), "student": student}))
    return site.model_copy(update={"cameras": tuple(cameras)})
