"""Served models. Times in milliseconds, rates in requests per second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from edge.appliance.answers.marks import Message, OfCamera, Shown, answer
from edge.appliance.answers.read import by_name, read
from edge.core.admission_reasons import AdmissionReasonCode
from edge.core.model_reasons import ModelReasonCode
from edge.settings import ServingPlanning

if TYPE_CHECKING:
    from edge.runtime.serving import ServingStatus
    from edge.runtime.serving_status import ServedStatus


@answer
class AddressAnswer:
    """Where the front listens; `port` null: it does not listen yet."""

    host: Shown[str]
    port: Shown[int | None]


@answer
class FrontAnswer:
    """The front of the served models. `turned_away`: messages and streams by gRPC for which there was no room, or that
    came too slowly."""

    up: Shown[bool]
    http: Shown[AddressAnswer]
    grpc: Shown[AddressAnswer]
    turned_away: Shown[int]


@answer
class ServingShare:
    """Shares of the device: `reserved` of it for models, what the plan takes, the `most` there may be, what is left
    `beside_cameras`, what is measured with, and what the front takes beyond its share."""

    reserved: Shown[float]
    planned: Shown[float]
    most: Shown[float]
    beside_cameras: Shown[float]
    measuring: Shown[float]
    front_more: Shown[float]


@answer
class RequestTotals:
    """Requests since the start, by what became of them."""

    arrived: Shown[int]
    answered: Shown[int]
    late: Shown[int]
    dropped: Shown[int]
    rejected: Shown[int]
    failed: Shown[int]
    cancelled: Shown[int]


@answer
class QueueStageAnswer:
    """A stage of an application."""

    application: Shown[str]
    stage: Shown[str]


@answer
class QueueAnswer:
    """One of a model's two queues as planned: its budget, its rate in rows per second, the share of its gpu-lets
    together, and the stages that ask it (users of some cameras are not shown them). Queue 0 is also that of clients'
    own requests."""

    number: Shown[int]
    budget_ms: Shown[float]
    rate: Shown[float]
    share: Shown[float]
    stages: tuple[QueueStageAnswer, ...]


@answer
class TwoQueuesAnswer:
    """A model whose requests wait in two queues, and why: the plan takes less share than with one ("less_share"), or
    with one queue not all is served ("fits"; `one_share` is null then)."""

    model: Shown[str]
    reason: Shown[Literal["less_share", "fits"]]
    share: Shown[float]
    one_share: Shown[float | None]
    queues: Shown[tuple[QueueAnswer, ...]]


@answer
class ModelReasonAnswer:
    """Why a model or application does not do more. `numbers` depend on the code (edge.core.model_reasons)."""

    code: Shown[ModelReasonCode]
    numbers: Shown[Mapping[str, float]]
    message: Shown[str]


@answer
class ServedModelAnswer:
    """A model or application: its demand, its work, and why it does not do more (`reason` null: nothing hinders it).
    `camera` asks the application (null: clients do). `latency_ms`: p50, p90, p99 of the last second with answers, empty
    before; `served_part` and `violations_recent` are 0-1. `two_queues` null: its requests wait in one queue."""

    camera: OfCamera[str | None]

    name: Shown[str]
    kind: Shown[Literal["model", "application"]]
    state: Shown[Literal["waiting", "checking", "measuring", "starting", "serving", "capped", "refused", "failed"]]
    reason: Shown[ModelReasonAnswer | None]
    version: Shown[str | None]
    slo_ms: Shown[float | None]
    priority: Shown[int]
    rate: Shown[float]
    planned_rate: Shown[float]
    held_rate: Shown[float]
    served_part: Shown[float]
    latency_ms: Shown[tuple[float, ...]]
    violations_recent: Shown[float]
    total: Shown[RequestTotals]
    queued: Shown[int]
    running: Shown[int]
    two_queues: Shown[TwoQueuesAnswer | None] = None


@answer
class StageOptionAnswer:
    """A model that may answer a stage, and the part of its answers that are right."""

    model: Shown[str]
    accuracy: Shown[float]


@answer
class ApplicationStageAnswer:
    """A stage of an application. `budget_ms` of the plan in force (null: none yet) beside that of the even split;
    `planned_ms`: the longest that a request to its model takes under the plan (null: it has no gpu-let), on gpu-lets of
    `share` devices together (those that models share in time count whole); `rate` in rows per second, `planned_rate`
    with head-room;
    `latency_ms`: p50, p99 of the last second with answers; counts since the start: requests of the application that
    reached it, those that its model answered, those answered later than its budget's part of the time left, and rows;
    `fan_out`: rows per row of a request in the last second (mean, p99), beside the expected one. `model` answers now,
    with `accuracy` if its file says one; `options` are the models that may, the most accurate first (none: no
    other). `queue`: the number of the model's queue that it asks."""

    name: Shown[str]
    model: Shown[str]
    queue: Shown[int]
    accuracy: Shown[float | None]
    options: Shown[tuple[StageOptionAnswer, ...]]
    after: Shown[tuple[str, ...]]
    budget_ms: Shown[float | None]
    even_ms: Shown[float]
    planned_ms: Shown[float | None]
    rate: Shown[float]
    planned_rate: Shown[float]
    share: Shown[float]
    latency_ms: Shown[tuple[float, ...]]
    requests: Shown[int]
    answered: Shown[int]
    over: Shown[int]
    rows: Shown[int]
    fan_out: Shown[float]
    fan_out_p99: Shown[float]
    expected_fan_out: Shown[float]


@answer
class SourceAnswer:
    """A camera as the source of an application: the answers per second that it asks with, at most `max_rate` (null: no
    limit); objects of these `classes` (empty: all) with at least `min_score`, the likeliest `most` of each answer.
    `lost`: answers of the camera that no application got, since its worker started. `fault`: why it gives nothing."""

    fault: Shown[Literal["unknown_camera", "camera_off", "unknown_class"] | None]
    rate: Shown[float]
    max_rate: Shown[float | None]
    classes: Shown[tuple[str, ...]]
    min_score: Shown[float]
    most: Shown[int]
    lost: Shown[int]


@answer
class ApplicationAnswer:
    """An application: its objective, its rates in rows per second, and its stages. `longest_ms`: the largest sum of
    budgets on a way through it; `reasons` say why the objectives are split so (empty: evenly) and which stages a less
    accurate model answers; `accuracy`: the part of requests that all stages answer right, as far as their files say.
    `camera` asks it as `source` says (null: clients do)."""

    name: Shown[str]
    camera: OfCamera[str | None]
    source: Shown[SourceAnswer | None]
    slo_ms: Shown[float]
    accuracy: Shown[float | None]
    rate: Shown[float]
    planned_rate: Shown[float]
    longest_ms: Shown[float | None]
    stages: Shown[tuple[ApplicationStageAnswer, ...]]
    reasons: Shown[tuple[str, ...]]


@answer
class BatchAnswer:
    """One model's part of a gpu-let's cycle: at most `batch` requests of its `queue`, which take `batch_ms`."""

    name: Shown[str]
    batch: Shown[int]
    batch_ms: Shown[float | None]
    queue: Shown[int] = 0


@answer
class GpuletAnswer:
    """A partition of a device and what runs in it."""

    device: Shown[int]
    share: Shown[float]
    duty_cycle_ms: Shown[float]
    models: Shown[tuple[BatchAnswer, ...]]


@answer
class ExecutorAnswer:
    """A process that runs models (name: version); `batches` and `busy_s` of the last second."""

    id: Shown[str]
    state: Shown[str]
    share: Shown[float]
    models: Shown[Mapping[str, str]]
    gpulet: Shown[GpuletAnswer | None]
    connected: Shown[bool]
    batches: Shown[int]
    busy_s: Shown[float]
    pid: Shown[int | None]


@answer
class PairAnswer:
    """How much longer a batch is predicted to take `beside` another gpu-let; null: beside all of them."""

    gpulet: Shown[str]
    model: Shown[str]
    batch: Shown[int]
    beside: Shown[str | None]
    factor: Shown[float]


@answer
class InterferenceAnswer:
    """The prediction for partitions side by side; `measured` false: none was measured."""

    measured: Shown[bool]
    pairs: Shown[tuple[PairAnswer, ...]]


@answer
class PlannedBatch:
    """At most `batch` requests of a model's `queue` in each cycle."""

    name: Shown[str]
    batch: Shown[int]
    queue: Shown[int] = 0


@answer
class PlannedGpulet:
    """A partition as planned."""

    device: Shown[int]
    share: Shown[float]
    duty_cycle_ms: Shown[float]
    models: Shown[tuple[PlannedBatch, ...]]


@answer
class ServingPlanAnswer:
    """The file format "gpulet-plan/1". `decision_seconds` null: not measured. Users of some cameras are not shown
    `reasons`, which may name applications of other cameras."""

    format: Shown[str]
    policy: Shown[str]
    schedulable: Shown[bool]
    gpulets: Shown[tuple[PlannedGpulet, ...]]
    reasons: tuple[str, ...]
    unplaced: Shown[tuple[str, ...]]
    decision_seconds: Shown[float | None] = None


@answer
class ServingDemand:
    """A model's demand as it is planned for, or that of one `queue` of it."""

    name: Shown[str]
    rate: Shown[float]
    slo_ms: Shown[float]
    priority: Shown[int]
    queue: Shown[int] = 0


@answer
class ServingProblemAnswer:
    """The file format "gpulet-problem/1". `max_gpulets` null: any number."""

    format: Shown[str]
    devices: Shown[int]
    capacity: Shown[float]
    models: Shown[tuple[ServingDemand, ...]]
    max_gpulets: Shown[int | None] = None


@answer
class Serving:
    """The served models: where, how fast, and those that cannot be served."""

    front: Shown[FrontAnswer]
    settings: Shown[ServingPlanning]
    share: Shown[ServingShare]
    reorganising: Shown[bool]
    models: Shown[tuple[ServedModelAnswer, ...]]
    applications: Shown[tuple[ApplicationAnswer, ...]]
    executors: Shown[tuple[ExecutorAnswer, ...]]
    interference: Shown[InterferenceAnswer]
    plan: Shown[ServingPlanAnswer | None]
    problem: Shown[ServingProblemAnswer | None]


def serving_answer(status: ServingStatus) -> Serving:
    """The serving runtime's status as an answer."""
    plan, problem = status.plan, status.problem
    return Serving(
        front=by_name(FrontAnswer, status.front),
        settings=status.settings,
        share=by_name(ServingShare, status.share),
        reorganising=status.reorganising,
        models=tuple(_model(m) for m in status.models),
        applications=by_name(tuple[ApplicationAnswer, ...], status.applications),
        executors=by_name(tuple[ExecutorAnswer, ...], status.executors),
        interference=by_name(InterferenceAnswer, status.interference),
        plan=None if plan is None else read(ServingPlanAnswer, plan.to_json()),
        problem=None if problem is None else read(ServingProblemAnswer, problem.to_json()),
    )


def _model(status: ServedStatus) -> ServedModelAnswer:
    reason = None if status.reason is None else status.reason.to_json()
    return by_name(ServedModelAnswer, status, reason=reason)


@answer
class ModelEffectAnswer:
    """The effect of an admission on a model: its worst latency and the part of its rate that is served."""

    model: Shown[str]
    slo_ms: Shown[float]
    rate: Shown[float]
    priority: Shown[int]
    before_ms: Shown[float | None]
    after_ms: Shown[float | None]
    before_part: Shown[float]
    after_part: Shown[float]


@answer
class CameraEffectAnswer:
    """The effect of an admission on a camera's predicted accuracy."""

    camera: OfCamera[str]
    before: Shown[float | None]
    after: Shown[float | None]
    loss: Shown[float]


@answer
class StageBudgetAnswer:
    """The time of a stage in the plan that would be, beside that of the even split."""

    stage: Shown[str]
    model: Shown[str]
    budget_ms: Shown[float]
    even_ms: Shown[float]


@answer
class TenantLossAnswer:
    """The share that a tenant would lose of what it holds."""

    tenant: str
    held: float
    loses: float


@answer
class TenantAdmissionAnswer:
    """Where there is room in the candidate's tenant: inside its entitlement, with what others leave (`spare`), or not
    (`none`). `share_after`: the share that the tenant would have; `room`: the most that it may have; `losses`: the
    tenants that would lose something."""

    tenant: str
    within: Literal["entitlement", "spare", "none"]
    entitlement: float
    held: float
    share_after: float
    room: float
    losses: tuple[TenantLossAnswer, ...]


@answer
class AdmissionReasonAnswer:
    """Why a candidate fits or not, or what it costs another: of a model (or the candidate), a camera or a tenant, where
    it is about one. `numbers` depend on the code (edge.core.admission_reasons)."""

    code: Shown[AdmissionReasonCode]
    model: Shown[str | None]
    camera: OfCamera[str | None]
    tenant: str | None
    numbers: Shown[Mapping[str, float]]
    message: Message


@answer
class AdmissionAnswer:
    """The effect of adding a camera, model or application. `reasons`: why it fits or not; `yields`: the losses of
    models of lower priority, and of other tenants. `most_rate`, `rate` and `planned_rate` (with head-room) are a
    model's or an application's, `budgets` an application's. `tenants` null: one tenant has the box."""

    candidate: Shown[str]
    kind: Shown[Literal["model", "camera", "pipeline"]]
    admitted: Shown[bool]
    reasons: Shown[tuple[AdmissionReasonAnswer, ...]]
    yields: Shown[tuple[AdmissionReasonAnswer, ...]]
    models: Shown[tuple[ModelEffectAnswer, ...]]
    cameras: Shown[tuple[CameraEffectAnswer, ...]]
    serving_share_before: Shown[float]
    serving_share_after: Shown[float]
    cameras_share_before: Shown[float]
    cameras_share_after: Shown[float]
    most_rate: Shown[float | None]
    budgets: Shown[tuple[StageBudgetAnswer, ...]] = ()
    rate: Shown[float | None] = None
    planned_rate: Shown[float | None] = None
    tenants: TenantAdmissionAnswer | None = None
