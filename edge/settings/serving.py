"""Settings of served models: their planning, and the addresses of the Open Inference Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from edge.settings.base import Settings
from scheduler.gpulets.policies import DEFAULT_SERVING_POLICY, SERVING_POLICIES
from scheduler.joint.split_policies import DEFAULT_SPLIT_POLICY, SPLIT_POLICIES

if TYPE_CHECKING:
    ServingPolicyName = str
    SplitPolicyName = str
else:
    ServingPolicyName = Literal[tuple(SERVING_POLICIES)]
    SplitPolicyName = Literal[tuple(SPLIT_POLICIES)]

#: Whether plans follow what live batches take.
Latencies = Literal["watched", "measured"]

MODEL_NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$"
ModelName = Annotated[str, Field(pattern=MODEL_NAME_PATTERN, description="a model's name")]


class ModelDemand(Settings):
    """The demand on one served model; its model.yaml gives the rest."""

    rate: float | None = Field(None, ge=0, le=1e6, description="requests per second to expect now; traffic corrects it")
    min_rate: float | None = Field(None, ge=0, le=1e6, description="requests per second that are always planned for")
    slo_ms: float | None = Field(None, gt=0, le=3.6e6, description="each request is answered within it")
    priority: int | None = Field(None, ge=-1000, le=1000, description="lower yields first")


class ServingPlanning(Settings):
    """How served models share the box: changeable by REST at run time, in force at once."""

    policy: ServingPolicyName = DEFAULT_SERVING_POLICY
    split: SplitPolicyName = Field(
        DEFAULT_SPLIT_POLICY, description="of applications' objectives over their stages; even: for comparison"
    )
    latencies: Latencies = Field(
        "watched",
        description="that plans reckon with; watched: as live batches take them where the table is off; measured: as "
        "the table has them, for comparison",
    )
    max_share: float = Field(1.0, ge=0, le=1, description="share of the device that all models together may take")
    cameras_priority: int = Field(
        0, ge=-1000, le=1000, description="models below it get only what cameras leave at their best"
    )
    half_life_s: float = Field(20.0, gt=0, le=3600, description="of the moving average of rates, when they fall")
    rise_half_life_s: float = Field(4.0, gt=0, le=3600, description="of the moving average of rates, when they rise")
    headroom: float = Field(1.2, ge=1, le=10, description="rates are planned higher by this factor")
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
    tls: bool = Field(False, description="https, and gRPC over TLS, with the certificate of web.tls")
    front_share: float = Field(0.05, ge=0, le=0.5, description="kept for the process that takes requests (CPU only)")
    max_body_mb: float = Field(64, gt=0, le=4096, description="larger requests are refused")
    max_held_mb: float = Field(
        512,
        gt=0,
        le=1048576,
        description="of requests that come in, wait or run, by each of HTTP, gRPC and the queues; open gRPC streams "
        "have as much again. One of the largest is always taken",
    )
    uploads: bool = Field(False, description="clients may bring model files with a load request")
    max_upload_mb: float = Field(256, gt=0, le=65536)
    planning: ServingPlanning = ServingPlanning()
