"""The serving runtime's status: the reorganiser's state for people, counts of requests, states in words."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from edge.core.application_sources import SourceFault
from edge.core.applications import Application
from edge.core.front_messages import Layout, ModelTraffic, Route, TrafficReport
from edge.core.model_reasons import ModelReason
from edge.core.oip import RepositoryEntry
from edge.core.serving import DeviceTable, QueueId, ServingPlan, ServingProblem
from edge.core.serving_reasons import Refusal, ServingReason
from edge.runtime.serving_demand import Offer
from edge.serving.repository import StoredVersion
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.pipelines import PipelineDemand, TwoQueues
from scheduler.gpulets.rates import planned_rate
from scheduler.gpulets.reorganiser import Reorganiser
from scheduler.gpulets.verdict import Stretch, stretch_beside

_RECENT = 60


#: An application waits for its models, or for its camera.
ModelState = Literal["waiting", "checking", "measuring", "starting", "serving", "capped", "refused", "failed"]
_UP: frozenset[ModelState] = frozenset(["serving", "capped"])


@dataclass(frozen=True)
class PlannedModel:
    """A model as the reorganiser knows it: rates in requests per second (measured, planned for, held); `version` None:
    no gpu-let has it yet."""

    rate: float
    planned_rate: float
    held_rate: float
    version: str | None
    slo_ms: float
    priority: int


@dataclass(frozen=True)
class KnownExecutor:
    """An executor as the reorganiser knows it; `models`: the version of each that it has."""

    id: str
    state: str
    share: float
    models: Mapping[str, str]


@dataclass(frozen=True)
class View:
    """The reorganiser's state between two events, which may be read while the next event is decided on.

    `held` is the rate that is planned for by model, in requests per second, before it was capped; `table` the
    latencies that the plan reckons with.
    `applications` have the budgets in force, `application_rates` their measured and planned rates in rows per second,
    `pipelines` are they as they are planned for, `split_reasons` say why the objectives are split so,
    `two_queues` which models have two queues. `planned_ms` is the longest that a request to each queue takes under the
    plan.
    """

    models: Mapping[str, PlannedModel] = field(default_factory=dict)
    executors: tuple[KnownExecutor, ...] = ()
    problem: ServingProblem | None = None
    plan: ServingPlan | None = None
    capped: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    capacity: Capacity = field(default_factory=lambda: Capacity(0.0, 0.0))
    reserved: float = 0.0
    in_flight: bool = False
    held: Mapping[str, float] = field(default_factory=dict)
    table: DeviceTable | None = None
    applications: tuple[Application, ...] = ()
    application_rates: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    split_reasons: tuple[ServingReason, ...] = ()
    pipelines: tuple[PipelineDemand, ...] = ()
    two_queues: tuple[TwoQueues, ...] = ()
    planned_ms: Mapping[QueueId, float] = field(default_factory=dict)

    def share(self, queue: QueueId) -> float:
        """The devices that the gpu-lets of a queue take together as planned; one that models share in time counts
        whole."""
        gpulets = () if self.plan is None else self.plan.gpulets
        return sum(g.share for g in gpulets if any(part.queue_id == queue for part in g.models))

    @property
    def unfed(self) -> Mapping[str, SourceFault]:
        """Application -> why its camera gives it nothing, of those whose camera does not."""
        return {a.name: a.unfed for a in self.applications if a.unfed is not None}


def look(reorganiser: Reorganiser) -> View:
    """The reorganiser's state now."""
    s, layout = reorganiser.state, reorganiser.routes.layout
    pipelines = reorganiser.pipelines.demands(s.applications, reorganiser.settings.rates)
    routed = {b.model for route in (layout.routes if layout else ()) for b in route.gpulet.models}
    models = {
        m.name: PlannedModel(
            rate=m.estimate.rate,
            planned_rate=planned_rate(m.estimate.rate, reorganiser.settings.rates),
            held_rate=m.held,
            version=m.serving.version if m.serving and m.name in routed else None,
            slo_ms=_objective(m.demand, pipelines),
            priority=m.demand.version.priority,
        )
        for m in reorganiser.demands.models.values()
    }
    executors = tuple(
        KnownExecutor(e.id, e.state, e.share, {n: v.version for n, v in sorted(e.versions.items())})
        for e in sorted(reorganiser.partitions.executors.values(), key=lambda e: e.id)
    )
    return View(
        models, executors, s.problem, s.plan, dict(s.capped), dict(s.refused), s.capacity, s.reserved,
        reorganiser.partitions.in_flight, {m.name: m.held for m in reorganiser.demands.models.values()}, s.table,
        s.applications,
        {d.application.name: (reorganiser.pipelines.estimates[d.application.name].rate, d.rate)
         for d in pipelines},
        s.split_reasons, pipelines, s.two_queues, s.planned_ms,
    )  # fmt: skip


def _objective(demand: Demand, pipelines: Iterable[PipelineDemand]) -> float:
    """The time in which a model must answer: the least of its own objective and the budgets in force of the stages that
    ask it; before there are any, of the even split's."""
    asking = [p.application for p in pipelines if p.rate > 0 and demand.version.model in p.application.models]
    if not all(a.budgets for a in asking):
        return demand.served.slo_ms
    budgets = (a.budgets[s.name] for a in asking for s in a.stages if s.model == demand.version.model)
    return min(demand.version.slo_ms, *budgets, math.inf)


@dataclass(frozen=True)
class RequestEnds:
    """Requests since the start, by what became of them."""

    arrived: int = 0
    answered: int = 0
    late: int = 0
    dropped: int = 0
    rejected: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(frozen=True)
class ServedStatus:
    """A model or application: its demand (rates in requests per second, its objective in ms), its work, and why it does
    not do more. `latency_ms`: p50, p90, p99 of the last second with answers; `served_part` and `violations_recent`
    are 0-1."""

    name: str
    kind: Literal["model", "application"]
    camera: str | None
    state: ModelState
    reason: ModelReason | None
    version: str | None
    slo_ms: float | None
    priority: int
    rate: float
    planned_rate: float
    held_rate: float
    served_part: float
    latency_ms: tuple[float, ...]
    violations_recent: float
    total: RequestEnds
    queued: int
    running: int
    two_queues: TwoQueues | None


@dataclass(frozen=True)
class BatchStatus:
    """At most `batch` requests of a model's `queue` in a duty cycle, which take `batch_ms` (None: not known)."""

    name: str
    batch: int
    batch_ms: float | None
    queue: int


@dataclass(frozen=True)
class GpuletStatus:
    """A partition of a device, and the models that run in it."""

    device: int
    share: float
    duty_cycle_ms: float
    models: tuple[BatchStatus, ...]


@dataclass(frozen=True)
class ExecutorStatus:
    """An executor with its gpu-let; `models`: the version of each; `batches` and `busy_s` of the last second."""

    id: str
    state: str
    share: float
    models: Mapping[str, str]
    gpulet: GpuletStatus | None
    connected: bool
    batches: int
    busy_s: float
    pid: int | None


@dataclass(frozen=True)
class InterferenceStatus:
    """The prediction for partitions side by side; `measured` False: the table knows of none."""

    measured: bool
    pairs: tuple[Stretch, ...] = ()


@dataclass(frozen=True)
class NotServing:
    """Why served models make the box less than ready. `part`: that of the rate at which `model` is served; `state`: of
    a model that is not there yet; `why`: why it does not do more, where that is known."""

    code: Literal["serving_front", "model_refused", "model_failed", "model_capped", "model_source", "model_loading"]
    model: str = ""
    camera: str | None = None
    part: float = 1.0
    state: ModelState | None = None
    why: ModelReason | None = None

    def words(self) -> str:
        """The reason as a sentence without a full stop."""
        if self.code == "serving_front":
            return "the serving front is starting or being started again"
        if self.code == "model_capped":
            return f"{self.model} is served at {100 * self.part:.0f} % of the rate that is asked"
        if self.code == "model_loading":
            return f"{self.model}: {self.state}"
        if self.why is None:
            return f"{self.model} is not served"
        return f"{self.model}: {self.why.words()}" if self.code == "model_source" else self.why.words()


#: The counts of each model since the start.
_TOTALS = tuple(f.name for f in fields(RequestEnds))


class ServedCounts:
    """Requests of each model since the start, and its last minute of reports."""

    def __init__(self) -> None:
        self._totals: dict[str, ModelTraffic] = {}
        self._recent: dict[str, deque[ModelTraffic]] = {}
        #: Requests that gRPC turned away before their model was known.
        self.turned_away = 0

    def add(self, report: TrafficReport) -> None:
        """Add a report of the front."""
        self.turned_away += report.turned_away
        for m in (*report.models, *report.applications):
            total = self.total(m.model)
            summed = {key: getattr(total, key) + getattr(m, key) for key in _TOTALS}
            self._totals[m.model] = replace(m, **summed)
            self._recent.setdefault(m.model, deque(maxlen=_RECENT)).append(m)

    def lost(self, last: TrafficReport) -> int:
        """Count the open requests of the front's last report as failed: they died with it. Returns how many requests
        (one of an application counts once for each model that it had asked)."""
        for m in (*last.models, *last.applications):
            total = self.total(m.model)
            self._totals[m.model] = replace(total, failed=total.failed + m.queued + m.running)
        return sum(m.queued + m.running for m in last.models)

    def total(self, model: str) -> ModelTraffic:
        """Since the start; of a model without reports: zeros."""
        return self._totals.get(model, ModelTraffic(model))

    def requests(self, model: str) -> RequestEnds:
        """Its requests since the start."""
        total = self.total(model)
        return RequestEnds(*(getattr(total, key) for key in _TOTALS))

    def recent(self, model: str) -> tuple[ModelTraffic, ...]:
        """The last reports, the oldest first."""
        return tuple(self._recent.get(model, ()))


def repository_index(
    stored: Iterable[StoredVersion], offers: Mapping[str, Offer], view: View, layout: Layout | None
) -> tuple[RepositoryEntry, ...]:
    """Every version in the repository."""
    in_force = {} if layout is None else {m.model: m.version for m in layout.models}
    routed = {} if layout is None else {b.model for route in layout.routes for b in route.gpulet.models}
    out = []
    for entry in stored:
        name, version = entry.name, entry.version
        offer, reason = offers.get(name), entry.fault
        state: Literal["READY", "LOADING", "UNAVAILABLE"] = "UNAVAILABLE"
        if offer is None:
            reason = reason or "unloaded"
        elif offer.name in view.unfed:
            reason = ModelReason(view.unfed[offer.name]).words()
        elif offer.application is not None:
            state = "READY"
        elif name in view.refused:
            reason = view.refused[name].words()
        elif in_force.get(name) == version and name in routed:
            state = "READY"
        elif offer.state == "failed":
            reason = reason if offer.reason is None else offer.reason.words()
        elif offer.version is None or offer.version.version == version:
            state, reason = "LOADING", offer.state
        out.append(RepositoryEntry(name, version, state, reason))
    return tuple(out)


def is_up(offer: Offer, offers: Mapping[str, Offer], view: View) -> bool:
    """Its requests are answered, perhaps not all."""
    return state_of(offer, offers, view) in _UP


def state_of(offer: Offer, offers: Mapping[str, Offer], view: View) -> ModelState:
    """How far the model or application is."""
    if offer.application is not None:
        if offer.name in view.unfed:
            return "waiting"
        # An application asks models only, no further application. One of a stage's models is enough.
        asked = [[s.model, *(a.model for a in s.alternatives)] for s in offer.application.stages]
        up = {
            name: is_up(offers[name], offers, view)
            for name in offer.application.every_model
            if name in offers and offers[name].application is None
        }
        return "serving" if all(any(up.get(name, False) for name in names) for names in asked) else "waiting"
    if offer.name in view.refused and offer.state == "offered":
        return "refused"
    known = view.models.get(offer.name)
    if known is not None and known.version is not None:
        return "capped" if offer.name in view.capped else "serving"
    return "starting" if offer.state == "offered" else offer.state


def model_status(offer: Offer, offers: Mapping[str, Offer], view: View, counts: ServedCounts) -> ServedStatus:
    """One model or application: the requests for it, its answers, and why not more."""
    known, refusal = view.models.get(offer.name), view.refused.get(offer.name)
    recent = counts.recent(offer.name)
    ended = sum(m.answered + m.dropped + m.rejected + m.failed for m in recent)
    missed = sum(m.violations for m in recent)
    last = next((m for m in reversed(recent) if m.latency_ms), None)
    app, version = offer.application, offer.version
    rates = (0.0, 0.0, 0.0) if known is None else (known.rate, known.planned_rate, known.held_rate)
    slo_ms = known.slo_ms if known is not None else None if version is None else version.slo_ms
    return ServedStatus(
        name=offer.name,
        kind="model" if app is None else "application",
        camera=app.source.camera if app and app.source else None,
        state=state_of(offer, offers, view),
        reason=_reason(offer, view),
        version=app.version if app else None if known is None else known.version,
        slo_ms=app.slo_ms if app else slo_ms,
        priority=app.priority if app else 0 if known is None else known.priority,
        rate=round(rates[0], 3),
        planned_rate=round(rates[1], 3),
        held_rate=round(rates[2], 3),
        served_part=0.0 if refusal is not None else view.capped.get(offer.name, 1.0),
        latency_ms=tuple(last.latency_ms) if last else (),
        violations_recent=missed / ended if ended else 0.0,
        total=counts.requests(offer.name),
        queued=recent[-1].queued if recent else 0,
        running=recent[-1].running if recent else 0,
        two_queues=next((two for two in view.two_queues if two.model == offer.name), None),
    )


def _reason(offer: Offer, view: View) -> ModelReason | None:
    refusal, fault = view.refused.get(offer.name), view.unfed.get(offer.name)
    if refusal is not None:
        return ModelReason.of_refusal(refusal)
    return offer.reason if fault is None else ModelReason(fault)


def executors_status(
    view: View, layout: Layout | None, traffic: TrafficReport | None, pid: Callable[[str], int | None]
) -> tuple[ExecutorStatus, ...]:
    """Each executor with its gpu-let and its work in the last second."""
    now = {e.executor: e for e in (traffic.executors if traffic else ())}
    routes = {route.executor: route for route in (layout.routes if layout else ())}
    executors = []
    for e in view.executors:
        route, seen = routes.get(e.id), now.get(e.id)
        executors.append(
            ExecutorStatus(
                id=e.id,
                state=e.state,
                share=e.share,
                models=e.models,
                gpulet=None if route is None else _gpulet(route),
                connected=bool(seen and seen.connected),
                batches=seen.batches if seen else 0,
                busy_s=round(seen.busy_s, 4) if seen else 0.0,
                pid=pid(e.id),
            )
        )
    return tuple(executors)


def _gpulet(route: Route) -> GpuletStatus:
    g = route.gpulet
    models = tuple(BatchStatus(b.model, b.batch, route.batch_ms.get(b.model), b.queue) for b in g.models)
    return GpuletStatus(g.device, g.share, round(g.duty_cycle_ms, 3), models)


def interference(table: DeviceTable | None, layout: Layout | None) -> InterferenceStatus:
    """The predicted interference of partitions side by side."""
    if table is None or layout is None:
        return InterferenceStatus(False)
    gpulets = {route.executor: route.gpulet for route in layout.routes}
    return InterferenceStatus(any(table.interference[:4]), stretch_beside(table, gpulets))


def reasons(offers: Mapping[str, Offer], view: View, front_up: bool) -> tuple[NotServing, ...]:
    """The reasons for `/readyz`."""
    out = [] if front_up else [NotServing("serving_front")]
    for offer in offers.values():
        state = state_of(offer, offers, view)
        if state == "capped":
            out.append(NotServing("model_capped", offer.name, part=view.capped[offer.name]))
        elif state == "refused":
            out.append(NotServing("model_refused", offer.name, why=_reason(offer, view)))
        elif state == "failed":
            out.append(NotServing("model_failed", offer.name, why=_reason(offer, view)))
        elif offer.name in view.unfed:
            source = None if offer.application is None else offer.application.source
            camera = None if source is None else source.camera
            out.append(NotServing("model_source", offer.name, camera, why=_reason(offer, view)))
        elif state != "serving":
            out.append(NotServing("model_loading", offer.name, state=state))
    return tuple(out)
