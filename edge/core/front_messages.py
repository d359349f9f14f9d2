"""Messages between the control process and the serving front: where each model is served, and its traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edge.core.application_sources import ExpectCamera
from edge.core.applications import Application
from edge.core.oip import RepositoryEntry, TensorSpec
from edge.core.serving import Gpulet
from edge.core.serving_reasons import Refusal


@dataclass(frozen=True)
class ServedVersion:
    """A model version as the front must know it: its tensors (the first dimension is the batch), its SLO, its limits.

    `folder` is that of the version in the model repository; `digest` names its files' content. `depth` bounds the
    queue in requests. `file` (in `folder`), `architecture` and `num_classes` say what to load; `examples` an input's
    shape without the batch, where dimensions are free; `rate` the requests per second to expect at the start.
    """

    model: str
    version: str
    folder: str
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    slo_ms: float
    digest: str = ""
    priority: int = 0
    max_batch: int = 32
    depth: int = 1024
    file: str = ""
    architecture: str = ""
    num_classes: int = 0
    examples: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    rate: float = 0.0

    @property
    def key(self) -> str:
        """`model/version`."""
        return f"{self.model}/{self.version}"


@dataclass(frozen=True)
class Route:
    """An executor process and the gpu-let that it holds. `versions` names the version of each of its models;
    `batch_ms` the planned execution time of each model's batch here (interference included). Executors with the same
    `group` (empty: none) hold alike gpu-lets, n of them: they begin a duty cycle each n-th part of one."""

    executor: str
    gpulet: Gpulet
    versions: Mapping[str, str]
    batch_ms: Mapping[str, float] = field(default_factory=dict)
    group: str = ""


@dataclass(frozen=True)
class Layout:
    """All routes in force from now on; the numbers rise. Executors not named here are drained, then reported so."""

    number: int
    routes: tuple[Route, ...]
    models: tuple[ServedVersion, ...]
    refused: Mapping[str, Refusal] = field(default_factory=dict)  # model -> why it is not served
    applications: tuple[Application, ...] = ()  # pipelines of the models above, answered by the front


@dataclass(frozen=True)
class ModelTraffic:
    """One model's counts in a period. Every request that arrived ends as answered (in time or late), dropped (could
    not meet its deadline), rejected (queue full), failed (an executor was lost) or cancelled (its client went away);
    the rest is queued or running. `rows` are those of the requests that arrived."""

    model: str
    arrived: int = 0
    answered: int = 0
    late: int = 0  # of the answered
    dropped: int = 0
    rejected: int = 0
    failed: int = 0
    queued: int = 0
    running: int = 0
    latency_ms: tuple[float, ...] = ()  # p50, p90, p99 of the answered
    cancelled: int = 0
    rows: int = 0

    @property
    def violations(self) -> int:
        """Requests that missed their SLO: late, dropped, rejected or failed."""
        return self.late + self.dropped + self.rejected + self.failed


@dataclass(frozen=True)
class StageTraffic:
    """One stage of an application in a period: requests of the application that reached it, those of them that its
    model answered, those answered later than allowed (`over`), rows that the model was asked for, and rows per row of
    the application's request (`fan_out`, the mean over rows, and the p99 over requests). `of_rows`: rows of the
    requests that reached it. `took_ms`: p50, p99 of the answered; `budget_ms` 0: none planned.
    """

    application: str
    stage: str
    model: str
    requests: int = 0
    answered: int = 0
    over: int = 0
    rows: int = 0
    fan_out: float = 0.0
    fan_out_p99: float = 0.0
    took_ms: tuple[float, ...] = ()
    budget_ms: float = 0.0
    of_rows: int = 0


@dataclass(frozen=True)
class BatchTraffic:
    """One model's batches on one executor in a period: how many, rows in them, seconds that they ran (`busy_s`) and
    that they waited for the executor's share before (`waited_s`)."""

    model: str
    batches: int
    rows: int
    busy_s: float
    waited_s: float = 0.0


@dataclass(frozen=True)
class ExecutorTraffic:
    """One executor in a period: batches, requests in them, seconds spent in them, and whether it is connected."""

    executor: str
    batches: int
    requests: int
    busy_s: float
    connected: bool
    models: tuple[BatchTraffic, ...] = ()


@dataclass(frozen=True)
class TrafficReport:
    """From the front, once a second: the counts of the last `period_s` seconds under layout `layout`."""

    at_s: float
    period_s: float
    layout: int
    models: tuple[ModelTraffic, ...]
    executors: tuple[ExecutorTraffic, ...]
    applications: tuple[ModelTraffic, ...] = ()  # from end to end; their stages' requests count in `models`, too
    stages: tuple[StageTraffic, ...] = ()
    turned_away: int = 0  # messages and streams by gRPC that had no room, or came too slowly: no model's yet


@dataclass(frozen=True)
class ExecutorConnected:
    """From the front: this executor has loaded and warmed its models and can be routed to."""

    executor: str


@dataclass(frozen=True)
class ExecutorDrained:
    """From the front: nothing of this executor is outstanding and no route names it; it may be stopped."""

    executor: str


@dataclass(frozen=True)
class ExecutorGone:
    """From the front: the connection ended; its outstanding requests were answered with an error and counted."""

    executor: str
    failed: int


@dataclass(frozen=True)
class RepositoryCommand:
    """From the front, on behalf of a client: "load", "unload" or "index"; answered with RepositoryAnswer. `by` and
    `address`: the requester's name and address.
    """

    number: int
    action: str
    model: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    by: str = ""
    address: str | None = None


@dataclass(frozen=True)
class RepositoryAnswer:
    """To the front: `error` empty if done. `code` is that of the error (edge.core.errors)."""

    number: int
    error: str = ""
    code: str = ""
    index: tuple[RepositoryEntry, ...] = ()


@dataclass(frozen=True)
class ExpectExecutor:
    """To the front: let this executor in when it shows `token`. To be sent before it is started; an executor that is
    started again keeps its token. `arena_bytes` None: the front's own size."""

    executor: str
    token: str
    arena_bytes: int | None = None


@dataclass(frozen=True)
class ForgetExecutor:
    """To the front: this executor was stopped and does not come again."""

    executor: str


@dataclass(frozen=True)
class FrontListening:
    """From the front: clients are answered at these ports (`grpc_port` None: no gRPC)."""

    http_port: int
    grpc_port: int | None = None


@dataclass(frozen=True)
class FrontSpec:
    """The settings that the front process starts with. `expect` are the executors that may come, `cameras` the workers
    of cameras; port 0 takes any free one.

    `max_queued_bytes` bounds the tensors of all requests that wait or run, and what each transport holds of requests
    that come in; `max_body_bytes` one request. `keys` is the file of the API tokens that clients need; empty: they need
    none. `hosts` are the names by which clients may ask by HTTP, beside addresses and the machine's own; None: any
    name. `certificate` and `key` are files (PEM) for TLS on both ports; empty: no TLS.
    """

    socket: str
    expect: tuple[ExpectExecutor, ...] = ()
    http_host: str = "127.0.0.1"
    http_port: int = 8000
    grpc_host: str = "127.0.0.1"
    grpc_port: int | None = 8001
    max_body_bytes: int = 64 * 2**20
    max_queued_bytes: int = 512 * 2**20
    arena_bytes: int = 256 * 2**20
    report_s: float = 1.0
    keys: str = ""
    hosts: tuple[str, ...] | None = None
    certificate: str = ""
    key: str = ""
    cameras: tuple[ExpectCamera, ...] = ()
