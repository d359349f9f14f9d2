"""The dynamic reorganiser: a state machine that turns traffic into gpu-lets. It reads no clock and calls no other
component.

A new plan is made when rates have changed enough, when an objective is missed, or when shares are wasted (gpu-lets,
section 4.5). It is carried out make before break: missing executors are started, loaded and warmed beside those that
serve; then the routes are switched; then executors that are needed no more are drained and stopped. Gpu-lets whose
models stay are resized live where the share kind can. The models that change partitions together are switched together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod
from typing import Literal

from edge.core.applications import Application
from edge.core.front_messages import ServedVersion
from edge.core.serving import DeviceTable, QueueId, ServedModel, ServingPlan, ServingProblem
from edge.core.serving_reasons import Refusal, ServingReason
from scheduler.gpulets.choices import linked, other_models, other_queues, taken_over, with_choice
from scheduler.gpulets.demand import Demands, ModelView
from scheduler.gpulets.fitting import Capacity, Fitted, PlanFunction
from scheduler.gpulets.partitions import Partitions
from scheduler.gpulets.pipelines import (
    FitFunction,
    FittedPipelines,
    PipelineDemand,
    PipelineRates,
    TwoQueues,
    fit_evenly,
)
from scheduler.gpulets.reorganiser_events import (
    CappedNote,
    Event,
    ExecutorEmptied,
    ExecutorFailed,
    ExecutorLost,
    ExecutorNote,
    ExecutorReady,
    ExecutorStopped,
    FrontLost,
    Instruction,
    ModelsChanged,
    RecordServingPlan,
    RefusedNote,
    ReserveShare,
    ServingCapacityChanged,
    ServingRulesChanged,
    SetLayout,
    StagesDrifted,
    TableChanged,
    TrafficMeasured,
    VersionFailed,
    VersionServed,
)
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings, ShareKindLimits
from scheduler.gpulets.routes import ServingRoutes
from scheduler.gpulets.stage_drift import slowed
from scheduler.gpulets.stage_times import planned_ms
from scheduler.gpulets.versions import loads_alike

_EPS = 1e-6
#: A model whose executor was given up is tried again after so many seconds.
RETRY_S = 30.0
#: A plan that saves shares is looked for again once a rate is lower by this part than when there was none.
_LOWER = 0.05


@dataclass(frozen=True)
class PlanGrounds:
    """The grounds of a plan; `rates` of models and applications in requests and rows per second."""

    table: DeviceTable | None
    room: Capacity
    settings: ReorganiserSettings
    slower: Mapping[str, float]
    rates: Mapping[str, float]

    def no_less_than(self, other: PlanGrounds) -> bool:
        """The same but for rates, and none of these is clearly lower: a plan for them saves nothing more."""
        alike = self.table is other.table and replace(self, table=None, rates={}) == replace(
            other, table=None, rates={}
        )
        return (
            alike
            and self.rates.keys() == other.rates.keys()
            and all(rate >= (1 - _LOWER) * other.rates[name] for name, rate in self.rates.items())
        )


@dataclass
class ReorganiserState:
    """The last decision and its grounds; touched by `Reorganiser.handle` only. `capped` and `refused` are as in
    `Fitted`; `two_queues` are the models that have two; `planned_ms` is the longest that a request to each queue takes
    under the plan by the table as measured; `slower` are models to plan as so many times slower than
    measured; `planned_s` is when the plan was made, `looked_s` when another was last tried; `reserved` is the share
    that belongs to serving; `cut` is as in `FittedPipelines`; `in_vain` are the grounds on which a plan that saves
    shares was last looked for and not found (None: not since the plan in force)."""

    capacity: Capacity
    table: DeviceTable | None
    applications: tuple[Application, ...] = ()
    split_reasons: tuple[ServingReason, ...] = ()
    two_queues: tuple[TwoQueues, ...] = ()
    planned_ms: Mapping[QueueId, float] = field(default_factory=dict)
    problem: ServingProblem | None = None
    plan: ServingPlan | None = None
    slower: dict[str, float] = field(default_factory=dict)
    capped: dict[str, float] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    planned_s: float = 0.0
    looked_s: float = 0.0
    reserved: float = 0.0
    cut: bool = False
    in_vain: PlanGrounds | None = None


class Reorganiser:
    """`handle(event) -> instructions`, to be carried out in order. `plan` is a pure function.

    `demands`, `pipelines`, `partitions` and `routes` are the requests of models and of applications, the executors that
    hold gpu-lets, and the layout that the front has; only `handle` changes them. `fit_all` chooses the budgets of
    applications' stages together with the plan.
    """

    def __init__(
        self,
        plan: PlanFunction,
        settings: ReorganiserSettings,
        capacity: Capacity,
        table: DeviceTable | None = None,
        shares: ShareKindLimits | None = None,
        fit_all: FitFunction = fit_evenly,
    ) -> None:
        self.state = ReorganiserState(capacity, table)
        self.settings = settings
        self._plan, self._kind, self._fit_all = plan, shares or ShareKindLimits(), fit_all
        self.pipelines = PipelineRates()
        self.demands, self.partitions, self.routes = Demands(), Partitions(self._kind), ServingRoutes()

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event in; returns what must be done, in order."""
        return self._handle(event)

    @singledispatchmethod
    def _handle(self, event: Event) -> list[Instruction]:
        raise TypeError(f"the reorganiser does not know {type(event).__name__}")

    # -- demand

    @_handle.register
    def _(self, event: ModelsChanged) -> list[Instruction]:
        s = self.state
        self.pipelines.change(s.applications, event.applications)
        known = {a.name: a.choice for a in s.applications}
        s.applications = tuple(with_choice(a, known.get(a.name, {})) for a in event.applications)
        s.table = event.table or s.table
        self.demands.change(event.models)
        return self._replan(event.at_s, *event.other_rates or (ServingReason("models_changed"),))

    @_handle.register
    def _(self, event: TableChanged) -> list[Instruction]:
        self.state.table = event.table
        return self._replan(event.at_s, ServingReason("measured"))

    @_handle.register
    def _(self, event: StagesDrifted) -> list[Instruction]:
        if self.state.slower == event.factors:
            return []
        self.state.slower = dict(event.factors)
        return self._replan(event.at_s, *event.reasons or (ServingReason("stage_in_time"),))

    @_handle.register
    def _(self, event: ServingRulesChanged) -> list[Instruction]:
        self.settings, self._plan = event.settings, event.plan
        self._fit_all = event.fit_all or self._fit_all
        return self._replan(event.at_s, event.cause)

    @_handle.register
    def _(self, event: ServingCapacityChanged) -> list[Instruction]:
        s = self.state
        before, s.capacity = s.capacity, event.capacity
        if before == event.capacity:
            return []
        planned = 0.0 if s.plan is None else s.plan.total_share
        short = planned > self._room().most + _EPS or planned > self._room().beside + _EPS
        wanting = bool(s.capped or s.refused or s.cut)
        return self._replan(event.at_s, ServingReason("capacity")) if short or wanting else []

    @_handle.register
    def _(self, event: TrafficMeasured) -> list[Instruction]:
        s, rules, demands = self.state, self.settings, self.demands
        layout = self.routes.layout
        self.pipelines.count(event.report, rules.rates)
        self._count_known()
        demands.count(event.report, rules.rates, layout is not None and event.report.layout == layout.number)
        since = event.at_s - s.planned_s
        if any(m.failing is not None and event.at_s >= m.retry_s for m in demands.models.values()):
            return self._replan(event.at_s, ServingReason("retried"))
        over = demands.over(event.at_s, rules)
        if over and since >= rules.grow_dwell_s:
            return self._replan(event.at_s, *self._asked("more", over, event.at_s))
        missing = demands.missing(event.at_s, rules, {*s.capped, *s.refused})
        # While partitions are on their way there is nothing to add.
        if missing and not self.partitions.in_flight and since >= rules.grow_dwell_s:
            missed = [ServingReason("missed", m.name, numbers={"part": m.violation}) for m in missing]
            for m in missing:
                m.raise_boost(event.at_s)
            return self._replan(event.at_s, *missed)
        if since >= rules.shrink_dwell_s:
            under = demands.under(event.at_s, rules)
            if under:
                return self._replan(event.at_s, *self._asked("fewer", under, event.at_s))
            if event.at_s - s.looked_s >= rules.shrink_dwell_s:
                return self._replan(event.at_s, ServingReason("wasted"), only_if_saves=rules.waste)
        return []

    def _asked(self, code: Literal["more", "fewer"], models: Iterable[ModelView], at_s: float) -> list[ServingReason]:
        rates = self.settings.rates
        return [ServingReason(code, m.name, numbers={"before": m.held, "now": m.need(at_s, rates)}) for m in models]

    # -- executors

    @_handle.register
    def _(self, event: ExecutorReady) -> list[Instruction]:
        return self._reconcile() if self.partitions.connected(event.executor) else []

    @_handle.register
    def _(self, event: ExecutorLost) -> list[Instruction]:
        executor = self.partitions.executors.get(event.executor)
        if executor is None or executor.state != "connected":
            return []
        executor.state = "lost"
        if executor.draining:
            return self._reconcile()
        return [ExecutorNote("executor_lost", event.executor, tuple(executor.versions), event.reason)]

    @_handle.register
    def _(self, event: ExecutorEmptied) -> list[Instruction]:
        return self._reconcile() if self.partitions.drained(event.executor) else []

    @_handle.register
    def _(self, event: ExecutorStopped) -> list[Instruction]:
        return self._reconcile() if self.partitions.stopped(event.executor) else []

    @_handle.register
    def _(self, event: FrontLost) -> list[Instruction]:
        return self.partitions.front_lost() + self._reconcile()

    @_handle.register
    def _(self, event: ExecutorFailed) -> list[Instruction]:
        """It is given up: its new versions are taken back, and those it served are tried again later."""
        executor = self.partitions.executors.pop(event.executor, None)
        if executor is None or executor.state == "stopping":
            return [] if executor is None else self._reconcile()
        out: list[Instruction] = []
        for name, version in executor.versions.items():
            if not event.models or name in event.models:
                out += self._version_failed(name, version, event)
        out.append(ExecutorNote("executor_failed", event.executor, tuple(executor.versions), event.reason))
        return out + self._replan(event.at_s, ServingReason("given_up", executor=event.executor))

    def _version_failed(self, name: str, version: ServedVersion, event: ExecutorFailed) -> list[Instruction]:
        """A model's version was in an executor that is given up: the version before it goes on, if there is one."""
        model = self.demands.models.get(name)
        if model is None or not loads_alike(model.demand.version, version):
            return []
        before = model.serving
        fresh = before is None or not loads_alike(before, version)
        if fresh and before is not None:
            model.demand = replace(model.demand, version=before)
            return [VersionFailed(version, event.reason, before)]
        if not any(e.state == "connected" for e in self.partitions.executors.values() if e.routes(name)):
            model.failing, model.retry_s = Refusal("failing", name, said=event.reason), event.at_s + RETRY_S
        return [VersionFailed(version, event.reason)] if fresh else []

    # -- planning

    @property
    def _warm(self) -> float:
        """The share that is kept free to warm new partitions in."""
        return max(self.settings.warm_share, self._kind.min_share)

    def _room(self) -> Capacity:
        return self.state.capacity.less(self._warm)

    def _count_known(self) -> None:
        """Models whose demand is known before it is seen are planned for it (PipelineRates.known_rates)."""
        rates = self.settings.rates
        known: dict[str, float] = {}
        if any(a.choice or a.source is not None for a in self.state.applications):
            pipelines = self.pipelines.demands(self.state.applications, rates)
            known = self.pipelines.known_rates(pipelines, rates)
        for model in self.demands.models.values():
            model.known_rate = known.get(model.name)

    def _replan(self, at_s: float, *cause: ServingReason, only_if_saves: float | None = None) -> list[Instruction]:
        s, rules = self.state, self.settings
        s.looked_s = at_s
        self._count_known()
        held: dict[str, float] = {}
        models: list[ServedModel] = []
        own: list[ServedModel] = []
        for model in self.demands.models.values():
            need = model.need(at_s, rules.rates)
            # A little less than planned for is no reason to give shares away.
            near = need <= model.held and need >= model.held * (1 - rules.shrink)
            keep = near and only_if_saves is None and model.known_rate is None
            held[model.name] = model.held if keep else need
            if model.failing is not None and at_s < model.retry_s:
                continue
            model.failing = None
            models.append(model.demand.planned(round(held[model.name], 3)))
            own.append(model.demand.own(round(held[model.name], 3)))
        pipelines = self.pipelines.demands(s.applications, rules.rates)
        rates = held | {f"application {p.application.name}": p.rate for p in pipelines}
        grounds = PlanGrounds(s.table, self._room(), rules, dict(s.slower), rates)
        if only_if_saves is not None and s.in_vain is not None and grounds.no_less_than(s.in_vain):
            return []
        split = self._fitted(models, own, pipelines)
        found = split.fitted
        total = 0.0 if s.plan is None else s.plan.total_share
        if only_if_saves is not None and (
            s.plan is None or found.capped or found.refused or found.plan.total_share > total - only_if_saves
        ):
            s.in_vain = grounds
            return []
        s.planned_s, s.in_vain = at_s, None
        before = {a.name: a.choice for a in s.applications}
        s.applications = tuple(
            replace(
                with_choice(a, split.choices.get(a.name, {})),
                budgets=split.budgets[a.name],
                queues=split.queues.get(a.name, {}),
            )
            for a in s.applications
        )
        cause += (*other_models(before, s.applications), *other_queues(s.two_queues, split.two_queues))
        s.split_reasons, s.two_queues, s.cut = split.reasons, split.two_queues, split.cut
        s.planned_ms = (
            {} if s.table is None else planned_ms(found.problem, s.table, found.plan, own, split.planned(pipelines))
        )
        for model in self.demands.models.values():
            model.held = max(split.rates.get(model.name, held[model.name]), model.demand.min_rate)
        self._count_known()
        self.demands.recount(at_s)
        out = self._accept(found, cause)
        versions = {m.name: m.demand.version for m in self.demands.models.values()}
        self.partitions.match(found.plan.gpulets, versions)
        return out + self._reconcile()

    def _fitted(
        self, models: Sequence[ServedModel], own: Sequence[ServedModel], pipelines: Sequence[PipelineDemand]
    ) -> FittedPipelines:
        """The plan, with stages that left their budgets taken for slower: but not where less would be served then."""
        s, room, most = self.state, self._room(), self.settings.max_gpulets
        if s.slower and s.table is not None:
            split = self._fit_all(models, own, pipelines, slowed(s.table, s.slower), room, self._plan, most)
            if not split.fitted.capped and not split.fitted.refused:
                return split
        return self._fit_all(models, own, pipelines, s.table, room, self._plan, most)

    def _accept(self, found: Fitted, cause: tuple[ServingReason, ...]) -> list[Instruction]:
        """The plan is the one to carry out; record what it changes."""
        s = self.state
        refused = dict(found.refused)
        refused |= {m.name: m.failing for m in self.demands.models.values() if m.failing is not None}
        same = s.plan is not None and s.plan.gpulets == found.plan.gpulets
        news = [refusal for name, refusal in refused.items() if s.refused.get(name) != refusal]
        recorded = s.capped == dict(found.capped) and not news
        s.problem, s.plan, s.capped, s.refused = found.problem, found.plan, dict(found.capped), refused
        out: list[Instruction] = []
        if not same or not recorded:
            out.append(RecordServingPlan(found.problem, found.plan, cause, s.two_queues, s.split_reasons))
        out += [RefusedNote(refusal) for refusal in news]
        return out + [CappedNote(name, part) for name, part in found.capped.items()]

    # -- from what is to what shall be

    def _reconcile(self) -> list[Instruction]:
        """The next steps from the executors that there are to the plan in force."""
        s, partitions, models = self.state, self.partitions, self.demands.models
        partitions.keep_only({n for n in models if n not in s.refused})
        last = self.routes.layout.applications if self.routes.layout is not None else ()
        partitions.linked = linked(last, s.applications)
        switched = self._served(partitions.switch())
        applications = taken_over(last, s.applications, partitions)
        slo_ms = {} if s.problem is None else {m.queue_id: m.slo_ms for m in s.problem.models}
        layout = self.routes.update(partitions.active, models.values(), s.refused, applications, s.table, slo_ms)
        stops = partitions.stop_idle()
        # An executor that grows gets its share before its routes, as far as there is share; one that shrinks keeps all
        # of its share until its routes are gone; then the rest moves.
        grows = partitions.grow(s.capacity.most)
        peak = partitions.total_share
        shrinks = partitions.shrink()
        regrows = partitions.grow(s.capacity.most) if shrinks else []
        reserved: list[Instruction] = []
        wanted = max(peak, self._reservation())
        if wanted > s.reserved + _EPS:
            s.reserved = wanted
            reserved = [ReserveShare(wanted)]
        routes: list[Instruction] = [] if layout is None else [SetLayout(layout)]
        out = [*reserved, *grows, *routes, *shrinks, *regrows, *switched, *stops, *partitions.trim(models)]
        if not partitions.in_flight and self._reservation() < s.reserved - _EPS:
            s.reserved = self._reservation()
            out.append(ReserveShare(s.reserved))
        return out

    def _served(self, switched: Iterable[tuple[str, ServedVersion]]) -> list[Instruction]:
        """Models whose requests go to these versions from now on; an instruction for each that is another one."""
        out: list[Instruction] = []
        for name, version in switched:
            model = self.demands.models.get(name)
            if model is None:
                continue
            if model.serving is None or not loads_alike(model.serving, version):
                out.append(VersionServed(version))
            model.serving = version
        return out

    def _reservation(self) -> float:
        """The share that belongs to serving: shares that executors hold or shall hold, and room to warm new ones."""
        total = self.partitions.total_share
        if not self.demands.models:
            return 0.0 if not self.partitions.executors else total
        shall = sum(e.target.share for e in self.partitions.executors.values() if e.target is not None)
        return round(max(total, min(self.state.capacity.most, max(total, shall) + self._warm)), 6)
