"""The dynamic reorganiser: a state machine that turns traffic into gpu-lets. It reads no clock and calls nobody.

A new plan is made when rates have changed enough, when an objective is missed, or when shares are wasted (gpu-lets,
section 4.5). It is carried out make before break: what is missing is started, loaded and warmed beside what serves;
then the routes are switched; then what is not needed any more is drained and stopped. Gpu-lets whose models stay are
resized live where the share kind can. The models that change partitions together are switched together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod
from typing import Any

from edge.core import checks
from edge.core.applications import Application
from edge.core.layout import Layout, Route, ServedVersion, TrafficReport
from edge.core.serving import DeviceTable, Gpulet, ServedModel, ServingPlan, ServingProblem
from scheduler.gpulets.applications import for_groups
from scheduler.gpulets.fitting import Capacity, PlanFunction, fit
from scheduler.gpulets.rates import RateEstimate, RateSettings, planned_rate
from scheduler.gpulets.verdict import times

_EPS = 1e-6
#: Fields of a version that are not loaded: they are in force at once.
_LIMITS = ("slo_ms", "priority", "depth", "max_batch", "rate")
#: A model whose executor was given up is tried again after so many seconds.
RETRY_S = 30.0
#: How much faster than planned a model that misses its objective is planned for, each time, and at most.
_BOOST, _BOOST_MOST = 1.15, 2.0
_BOOST_HALF_LIFE_S = 120.0


@dataclass(frozen=True)
class ReorganiserSettings:
    """When to plan anew. Ratios are of the rate planned for; times are elapsed seconds.

    More than `grow` above the plan, or more than `violations` of the requests of `slo_period_s` seconds missed: a new
    plan, at most every `grow_dwell_s`. More than `shrink` below it, or `waste` (share) could be saved: a new plan, at
    most every `shrink_dwell_s`. `warm_share` is kept free so that new partitions can be warmed beside the old ones.
    """

    rates: RateSettings = field(default_factory=RateSettings)
    grow: float = 0.1
    shrink: float = 0.2
    violations: float = 0.01
    waste: float = 0.05
    grow_dwell_s: float = 2.0
    shrink_dwell_s: float = 20.0
    slo_period_s: float = 5.0
    warm_share: float = 0.05
    max_gpulets: int | None = None

    def __post_init__(self) -> None:
        checks.in_range("reorganiser.grow", self.grow, 0.0, 10.0)
        checks.in_range("reorganiser.shrink", self.shrink, 0.0, 0.99)
        checks.in_range("reorganiser.violations", self.violations, 0.0, 1.0)
        checks.in_range("reorganiser.waste", self.waste, 0.0, 1.0)
        checks.in_range("reorganiser.grow_dwell_s", self.grow_dwell_s, 0.0, 1e6)
        checks.in_range("reorganiser.shrink_dwell_s", self.shrink_dwell_s, 0.0, 1e6)
        checks.positive("reorganiser.slo_period_s", self.slo_period_s)
        checks.in_range("reorganiser.warm_share", self.warm_share, 0.0, 0.5)


@dataclass(frozen=True)
class ShareKindLimits:
    """Of the share kind in force: `live` resize, the smallest share, and whether shares may add up to more than the
    device for the time of a switch."""

    live: bool = True
    min_share: float = 0.01
    oversubscribe: bool = True


@dataclass(frozen=True)
class Demand:
    """A model version to be served. `rate` is what is expected at first, `min_rate` the least that is planned for
    (requests per second). `slo_ms` is planned for where it is stricter than the version's own (an application asks it
    for an answer within its part of the time). `group`: as many requests may come at the same instant (an application
    that asks the model several times at once)."""

    version: ServedVersion
    rate: float = 1.0
    min_rate: float = 1.0
    slo_ms: float | None = None
    group: int = 1

    def __post_init__(self) -> None:
        checks.in_range(f"{self.version.model}.rate", self.rate, 0.0, 1e9)
        checks.in_range(f"{self.version.model}.min_rate", self.min_rate, 0.0, 1e9)
        if self.slo_ms is not None:
            checks.positive(f"{self.version.model}.slo_ms", self.slo_ms)
        checks.in_range(f"{self.version.model}.group", self.group, 1, 1e6)

    @property
    def served(self) -> ServedModel:
        """What is asked, at `rate`."""
        slo_ms = self.version.slo_ms if self.slo_ms is None else min(self.version.slo_ms, self.slo_ms)
        return ServedModel(self.version.model, self.rate, slo_ms, self.version.priority)

    def planned(self, rate: float) -> ServedModel:
        """What the planner is asked to hold for `rate` requests per second."""
        return for_groups(replace(self.served, rate=rate), self.group)


# events


@dataclass(frozen=True)
class TrafficMeasured:
    """The front's report of the last second or so."""

    at_s: float
    report: TrafficReport


@dataclass(frozen=True)
class ModelsChanged:
    """All models that shall be served from now on, and applications of them. A changed `rate` is taken for the rate
    that is expected now. `table` replaces the one that is known, if given."""

    at_s: float
    models: tuple[Demand, ...]
    applications: tuple[Application, ...] = ()
    table: DeviceTable | None = None


@dataclass(frozen=True)
class ExecutorConnected:
    """An executor has loaded and warmed its models."""

    at_s: float
    executor: str


@dataclass(frozen=True)
class ExecutorDrained:
    """Nothing of an executor that has no route any more is outstanding."""

    at_s: float
    executor: str


@dataclass(frozen=True)
class ExecutorLost:
    """An executor's process or connection ended; it is being started again."""

    at_s: float
    executor: str
    reason: str


@dataclass(frozen=True)
class ExecutorFailed:
    """An executor is not started again. `models` are those at fault, where that is known."""

    at_s: float
    executor: str
    reason: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExecutorStopped:
    """An executor that was stopped is gone; its share is free."""

    at_s: float
    executor: str


@dataclass(frozen=True)
class FrontLost:
    """The front ended. A new one knows no executor until they connect again."""

    at_s: float


@dataclass(frozen=True)
class CapacityChanged:
    """What serving may take of the device has changed (cameras came, went, or have another floor)."""

    at_s: float
    capacity: Capacity


@dataclass(frozen=True)
class TableChanged:
    """Latencies were measured (anew)."""

    at_s: float
    table: DeviceTable


@dataclass(frozen=True)
class RulesChanged:
    """The operator wants other settings, or another policy."""

    at_s: float
    settings: ReorganiserSettings
    plan: PlanFunction


Event = (
    TrafficMeasured
    | ModelsChanged
    | ExecutorConnected
    | ExecutorDrained
    | ExecutorLost
    | ExecutorFailed
    | ExecutorStopped
    | FrontLost
    | CapacityChanged
    | TableChanged
    | RulesChanged
)


# instructions


@dataclass(frozen=True)
class ReserveShare:
    """From here on `share` of the device belongs to serving: others yield before what follows is done."""

    share: float


@dataclass(frozen=True)
class StartExecutor:
    """Start an executor under `share`, with these versions loaded and warm; routes come later."""

    executor: str
    share: float
    versions: tuple[ServedVersion, ...]


@dataclass(frozen=True)
class ResizeExecutor:
    """Change an executor's share while it runs."""

    executor: str
    share: float


@dataclass(frozen=True)
class SetLayout:
    """Tell the front the routes that are in force from now on."""

    layout: Layout


@dataclass(frozen=True)
class StopExecutor:
    """End an executor that has nothing to do any more."""

    executor: str


@dataclass(frozen=True)
class TrimExecutor:
    """Let go of all models that this executor has loaded but these: nobody asks for the others any more."""

    executor: str
    versions: tuple[ServedVersion, ...]


@dataclass(frozen=True)
class RecordPlan:
    """Keep the problem, its plan, and what it was made for."""

    problem: ServingProblem
    plan: ServingPlan
    cause: str


@dataclass(frozen=True)
class VersionServed:
    """All requests of a model go to this version now."""

    model: str
    version: str


@dataclass(frozen=True)
class VersionFailed:
    """This version cannot be served; `serving` is the version that goes on (empty: none)."""

    model: str
    version: str
    reason: str
    serving: str = ""


@dataclass(frozen=True)
class Note:
    """Something that people should know. `kind` is short, for the journal."""

    kind: str
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)


Instruction = (
    ReserveShare
    | StartExecutor
    | ResizeExecutor
    | SetLayout
    | StopExecutor
    | TrimExecutor
    | RecordPlan
    | VersionServed
    | VersionFailed
    | Note
)


# state


@dataclass
class ModelView:
    """A model and its traffic. `serving` is the version that requests go to; `held` the rate planned for, before it
    was capped."""

    demand: Demand
    estimate: RateEstimate
    serving: ServedVersion | None = None
    held: float = 0.0
    boost: float = 1.0
    boosted_s: float = 0.0
    finished: int = 0
    violated: int = 0
    violation: float = 0.0
    failing: str = ""
    retry_s: float = 0.0

    @property
    def name(self) -> str:
        return self.demand.version.model


@dataclass
class ExecutorView:
    """An executor process. `share` is what it was given, `target` the gpu-let it shall hold, `gpulet` the one it holds
    in the layout in force."""

    id: str
    versions: dict[str, ServedVersion]
    share: float
    state: str = "planned"  # planned | starting | connected | lost | stopping
    target: Gpulet | None = None
    gpulet: Gpulet | None = None
    routed: bool = False  # requests were ever sent to it
    drained: bool = False  # and all are answered, since it has no route

    @property
    def exists(self) -> bool:
        """A process holds (or is being given) its share."""
        return self.state != "planned"

    @property
    def draining(self) -> bool:
        """It had routes, has none any more, and is not stopped yet."""
        return self.routed and self.gpulet is None and self.target is None and self.state != "stopping"


@dataclass
class ReorganiserState:
    """All volatile state; touched by `Reorganiser.handle` only."""

    capacity: Capacity
    table: DeviceTable | None
    models: dict[str, ModelView] = field(default_factory=dict)
    applications: tuple[Application, ...] = ()
    executors: dict[str, ExecutorView] = field(default_factory=dict)
    problem: ServingProblem | None = None
    plan: ServingPlan | None = None
    capped: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    layout: Layout | None = None
    planned_s: float = 0.0
    looked_s: float = 0.0
    counted_s: float = 0.0
    reserved: float = 0.0
    started: int = 0

    @property
    def total_share(self) -> float:
        """Shares of all executor processes."""
        return round(sum(e.share for e in self.executors.values() if e.exists), 9)


class Reorganiser:
    """`handle(event) -> instructions`, to be carried out in order. `plan` is a pure function."""

    def __init__(
        self,
        plan: PlanFunction,
        settings: ReorganiserSettings,
        capacity: Capacity,
        table: DeviceTable | None = None,
        shares: ShareKindLimits | None = None,
    ) -> None:
        self.state = ReorganiserState(capacity, table)
        self.settings = settings
        self._plan, self._kind = plan, shares or ShareKindLimits()
        self._warm = max(settings.warm_share, self._kind.min_share)

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
        wanted = {d.version.model: d for d in event.models}
        s.applications = event.applications
        s.table = event.table or s.table
        out: list[Instruction] = []
        for name in [n for n in s.models if n not in wanted]:
            del s.models[name]
        for name, demand in wanted.items():
            known = s.models.get(name)
            if known is None:
                s.models[name] = ModelView(demand, RateEstimate.starting(demand.rate))
                continue
            if demand.rate != known.demand.rate:
                known.estimate = RateEstimate.starting(demand.rate)
            if not loads_alike(demand.version, known.demand.version):
                known.failing = ""
            known.demand = demand
        return out + self._replan(event.at_s, "the models to serve changed")

    @_handle.register
    def _(self, event: TableChanged) -> list[Instruction]:
        self.state.table = event.table
        return self._replan(event.at_s, "latencies were measured")

    @_handle.register
    def _(self, event: RulesChanged) -> list[Instruction]:
        self.settings, self._plan = event.settings, event.plan
        self._warm = max(event.settings.warm_share, self._kind.min_share)
        return self._replan(event.at_s, "the settings changed")

    @_handle.register
    def _(self, event: CapacityChanged) -> list[Instruction]:
        s = self.state
        before, s.capacity = s.capacity, event.capacity
        if before == event.capacity:
            return []
        planned = 0.0 if s.plan is None else s.plan.total_share
        short = planned > self._room().most + _EPS or planned > self._room().beside + _EPS
        wanting = bool(s.capped or s.refused)
        return self._replan(event.at_s, "the share left to models changed") if short or wanting else []

    @_handle.register
    def _(self, event: TrafficMeasured) -> list[Instruction]:
        s, rules = self.state, self.settings
        self._count(event)
        since = event.at_s - s.planned_s
        if any(m.failing and event.at_s >= m.retry_s for m in s.models.values()):
            return self._replan(event.at_s, "a model that failed is tried again")
        over = [m for m in s.models.values() if self._need(m, event.at_s) > m.held * (1 + rules.grow) + 1e-9]
        if over and since >= rules.grow_dwell_s:
            return self._replan(event.at_s, "more requests: " + self._words(over, event.at_s))
        missing = self._missing(event.at_s)
        if missing and since >= rules.grow_dwell_s:
            words = ", ".join(f"{m.name} {100 * m.violation:.1f} %" for m in missing)
            for m in missing:
                m.boost = min(_BOOST_MOST, self._boost(m, event.at_s) * _BOOST)
                m.boosted_s = event.at_s
            return self._replan(event.at_s, f"objectives missed: {words}")
        under = [m for m in s.models.values() if self._need(m, event.at_s) < m.held * (1 - rules.shrink) - 1e-9]
        if since >= rules.shrink_dwell_s:
            if under:
                return self._replan(event.at_s, "fewer requests: " + self._words(under, event.at_s))
            if event.at_s - s.looked_s >= rules.shrink_dwell_s:
                return self._replan(event.at_s, "shares are wasted", only_if_saves=rules.waste)
        return []

    def _count(self, event: TrafficMeasured) -> None:
        s, report = self.state, event.report
        settled = s.layout is not None and report.layout == s.layout.number
        for traffic in report.models:
            model = s.models.get(traffic.model)
            if model is None:
                continue
            model.estimate = model.estimate.seen(traffic.arrived, report.period_s, self.settings.rates)
            if settled:
                model.finished += traffic.answered + traffic.dropped + traffic.rejected + traffic.failed
                model.violated += traffic.violations

    def _missing(self, at_s: float) -> list[ModelView]:
        """Models that missed more than they may in the last period; those that are capped cannot do better."""
        s, rules = self.state, self.settings
        if at_s - s.counted_s < rules.slo_period_s:
            return []
        s.counted_s = at_s
        out = []
        for m in s.models.values():
            m.violation = m.violated / m.finished if m.finished else 0.0
            late = m.violated >= 3 and m.violation > rules.violations
            if late and m.name not in s.capped and m.name not in s.refused and m.boost < _BOOST_MOST:
                out.append(m)
            m.finished = m.violated = 0
        # While partitions are on their way there is nothing to add.
        return [] if self.in_flight() else out

    def _boost(self, model: ModelView, at_s: float) -> float:
        left = float(0.5 ** (max(0.0, at_s - model.boosted_s) / _BOOST_HALF_LIFE_S))
        return 1.0 + (model.boost - 1.0) * left

    def _need(self, model: ModelView, at_s: float) -> float:
        """Requests per second to plan for now."""
        rate = planned_rate(model.estimate.rate, self.settings.rates) * self._boost(model, at_s)
        return max(model.demand.min_rate, rate)

    def _words(self, models: Iterable[ModelView], at_s: float) -> str:
        return ", ".join(f"{m.name} {m.held:.4g} -> {self._need(m, at_s):.4g}/s" for m in models)

    # -- executors

    @_handle.register
    def _(self, event: ExecutorConnected) -> list[Instruction]:
        executor = self.state.executors.get(event.executor)
        if executor is None or executor.state not in ("starting", "lost"):
            return []
        executor.state = "connected"
        return self._reconcile(event.at_s)

    @_handle.register
    def _(self, event: ExecutorLost) -> list[Instruction]:
        executor = self.state.executors.get(event.executor)
        if executor is None or executor.state != "connected":
            return []
        executor.state = "lost"
        if executor.draining:
            return self._reconcile(event.at_s)
        message = f"{event.executor} ({', '.join(executor.versions)}) was lost: {event.reason}; it is started again"
        return [Note("executor_lost", message, {"executor": event.executor, "reason": event.reason})]

    @_handle.register
    def _(self, event: ExecutorDrained) -> list[Instruction]:
        executor = self.state.executors.get(event.executor)
        if executor is None or executor.gpulet is not None:
            return []
        executor.drained = True
        return self._reconcile(event.at_s)

    @_handle.register
    def _(self, event: ExecutorStopped) -> list[Instruction]:
        executor = self.state.executors.get(event.executor)
        if executor is None or executor.state != "stopping":
            return []
        del self.state.executors[event.executor]
        return self._reconcile(event.at_s)

    @_handle.register
    def _(self, event: FrontLost) -> list[Instruction]:
        out: list[Instruction] = []
        for executor in list(self.state.executors.values()):
            if executor.draining:
                out += self._stop(executor)
            elif executor.state == "connected":
                executor.state = "lost"
        return out + self._reconcile(event.at_s)

    @_handle.register
    def _(self, event: ExecutorFailed) -> list[Instruction]:
        """It is given up: what it brought newly is taken back, what it served is tried again later."""
        s = self.state
        executor = s.executors.pop(event.executor, None)
        if executor is None or executor.state == "stopping":
            return [] if executor is None else self._reconcile(event.at_s)
        out: list[Instruction] = []
        for name, version in executor.versions.items():
            model = s.models.get(name)
            if event.models and name not in event.models:
                continue
            if model is None or not loads_alike(model.demand.version, version):
                continue
            before = model.serving
            fresh = before is None or not loads_alike(before, version)
            if fresh and before is not None:
                model.demand = replace(model.demand, version=before)
                out.append(VersionFailed(name, version.version, event.reason, before.version))
                continue
            others = [e for e in s.executors.values() if e.gpulet is not None and name in _names(e.gpulet)]
            if not any(e.state == "connected" for e in others):
                model.failing, model.retry_s = event.reason, event.at_s + RETRY_S
            if fresh:
                out.append(VersionFailed(name, version.version, event.reason))
        message = f"{event.executor} ({', '.join(executor.versions)}) was given up: {event.reason}"
        out.append(Note("executor_failed", message, {"executor": event.executor, "reason": event.reason}))
        return out + self._replan(event.at_s, f"{event.executor} was given up")

    # -- planning

    def _room(self) -> Capacity:
        return self.state.capacity.less(self._warm)

    def _replan(self, at_s: float, cause: str, only_if_saves: float | None = None) -> list[Instruction]:
        s, rules = self.state, self.settings
        s.looked_s = at_s
        held: dict[str, float] = {}
        models = []
        for model in s.models.values():
            need = self._need(model, at_s)
            # A little less than planned for is no reason to give shares away.
            keep = need <= model.held and need >= model.held * (1 - rules.shrink) and only_if_saves is None
            held[model.name] = model.held if keep else need
            if model.failing and at_s < model.retry_s:
                continue
            model.failing = ""
            models.append(model.demand.planned(round(held[model.name], 3)))
        found = fit(models, s.table, self._room(), self._plan, rules.max_gpulets)
        total = 0.0 if s.plan is None else s.plan.total_share
        if only_if_saves is not None and (
            s.plan is None or found.capped or found.refused or found.plan.total_share > total - only_if_saves
        ):
            return []
        s.planned_s = at_s
        for model in s.models.values():
            model.held = held[model.name]
            model.finished = model.violated = 0
        s.counted_s = at_s
        refused = dict(found.refused)
        refused |= {m.name: f"{m.name}: {m.failing}" for m in s.models.values() if m.failing}
        same = s.plan is not None and s.plan.gpulets == found.plan.gpulets
        news = [reason for name, reason in refused.items() if s.refused.get(name) != reason]
        told = s.capped == dict(found.capped) and not news
        s.problem, s.plan, s.capped, s.refused = found.problem, found.plan, dict(found.capped), refused
        out: list[Instruction] = []
        if not same or not told:
            out.append(RecordPlan(found.problem, found.plan, cause))
        out += [Note("model_refused", reason) for reason in news]
        for name, part in found.capped.items():
            words = f"{name} is served at {100 * part:.0f} % of the rate that is asked: the rest of the share is taken"
            out.append(Note("model_capped", words, {"model": name, "part": part}))
        self._match(found.plan.gpulets)
        return out + self._reconcile(at_s)

    def _match(self, gpulets: Sequence[Gpulet]) -> None:
        """Give each gpu-let of the plan an executor: one that has its models loaded, else a new one."""
        s = self.state
        for executor in s.executors.values():
            executor.target = None
        free = {e.id: e for e in s.executors.values() if e.state != "stopping" and not e.draining}
        pairs = []
        for n, gpulet in enumerate(gpulets):
            for executor in free.values():
                cost = self._cost(executor, gpulet)
                if cost is not None:
                    pairs.append((cost, n, executor.id))
        given: dict[int, str] = {}
        for _, n, name in sorted(pairs):
            if n not in given and name in free:
                given[n] = name
                free.pop(name).target = gpulets[n]
        for n, gpulet in enumerate(gpulets):
            if n not in given:
                s.started += 1
                versions = {b.model: s.models[b.model].demand.version for b in gpulet.models}
                new = ExecutorView(f"executor-{s.started}", versions, 0.0, target=gpulet)
                s.executors[new.id] = new

    def _cost(self, executor: ExecutorView, gpulet: Gpulet) -> tuple[float, ...] | None:
        """How unlike they are; None if the executor cannot hold the gpu-let as it is."""
        for batch in gpulet.models:
            wanted, has = self.state.models[batch.model].demand.version, executor.versions.get(batch.model)
            if has is None or not loads_alike(has, wanted):
                return None
        if not self._kind.live and executor.exists and abs(executor.share - gpulet.share) > _EPS:
            return None
        unlike = len(executor.versions) - len(gpulet.models)
        wait = {"connected": 0, "starting": 1, "lost": 2}.get(executor.state, 3)
        return (unlike, wait, abs(executor.share - gpulet.share))

    # -- from what is to what shall be

    def in_flight(self) -> bool:
        """True while partitions are started, switched or drained."""
        return any(
            e.state in ("planned", "starting", "stopping") or e.gpulet != e.target or e.draining
            for e in self.state.executors.values()
        )

    def _reconcile(self, at_s: float) -> list[Instruction]:
        """The next steps from the executors that there are to the plan in force."""
        s = self.state
        self._drop_unasked()
        switched = self._switch()
        layout = self._layout()
        stops: list[Instruction] = []
        for executor in list(s.executors.values()):
            idle = executor.target is None and executor.gpulet is None and executor.state != "stopping"
            if idle and (executor.state == "lost" or executor.drained or not executor.routed):
                stops += self._stop(executor)
        # What takes has its share before its routes, as far as there is share; what gives goes on with all of it until
        # its routes are gone; then the rest moves.
        grows = self._grows()
        peak = s.total_share
        shrinks = self._shrinks()
        regrows = self._grows() if shrinks else []
        reserved: list[Instruction] = []
        wanted = max(peak, self._reservation())
        if wanted > s.reserved + _EPS:
            s.reserved = wanted
            reserved = [ReserveShare(wanted)]
        routes: list[Instruction] = [] if layout is None else [SetLayout(layout)]
        out = [*reserved, *grows, *routes, *shrinks, *regrows, *switched, *stops, *self._trims()]
        if not self.in_flight() and self._reservation() < s.reserved - _EPS:
            s.reserved = self._reservation()
            out.append(ReserveShare(s.reserved))
        return out

    def _drop_unasked(self) -> None:
        """Take models that are not served any more out of all gpu-lets. The plan may still name them: the policy may
        have failed when they were unloaded."""
        executors = self.state.executors
        for executor in list(executors.values()):
            executor.gpulet = self._still_asked(executor.gpulet)
            executor.target = self._still_asked(executor.target)
            if executor.state == "planned" and executor.target is None:
                del executors[executor.id]

    def _still_asked(self, gpulet: Gpulet | None) -> Gpulet | None:
        """A gpu-let without the models that are not served any more; None if none is left."""
        if gpulet is None:
            return None
        s = self.state
        kept = tuple(b for b in gpulet.models if b.model in s.models and b.model not in s.refused)
        if len(kept) == len(gpulet.models):
            return gpulet
        return replace(gpulet, models=kept) if kept else None

    def _reservation(self) -> float:
        """The share that belongs to serving: what executors hold or shall hold, and room to warm new ones."""
        s = self.state
        if not s.models:
            return 0.0 if not s.executors else s.total_share
        shall = sum(e.target.share for e in s.executors.values() if e.target is not None)
        return round(max(s.total_share, min(s.capacity.most, max(s.total_share, shall) + self._warm)), 6)

    def _groups(self) -> list[tuple[set[str], list[ExecutorView]]]:
        """Models that share a partition, now or in the plan, with the executors that hold them."""
        groups: list[tuple[set[str], list[ExecutorView]]] = []
        for executor in self.state.executors.values():
            if executor.state == "stopping":
                continue
            models = {b.model for g in (executor.target, executor.gpulet) if g is not None for b in g.models}
            if not models:
                continue
            touched = [g for g in groups if g[0] & models]
            groups = [g for g in groups if not g[0] & models]
            groups.append((models.union(*(g[0] for g in touched)), [*(e for g in touched for e in g[1]), executor]))
        return groups

    def _switch(self) -> list[Instruction]:
        """Put the plan in force for each group of models whose new partitions are all warm."""
        s = self.state
        out: list[Instruction] = []
        for models, executors in self._groups():
            targets = [e for e in executors if e.target is not None]
            up = {name for e in targets if e.target and e.state == "connected" for name in _names(e.target)}
            shall = {name for e in targets if e.target for name in _names(e.target)}
            # A partition that died in use and is coming back holds nobody up, if others have its models meanwhile.
            if shall - up or any(e.gpulet is None and e.state != "connected" for e in targets):
                continue
            for executor in executors:
                executor.gpulet = executor.target
                if executor.gpulet is not None:
                    executor.routed, executor.drained = True, False
            for name in sorted(models):
                model = s.models.get(name)
                version = next((e.versions[name] for e in executors if e.gpulet and name in _names(e.gpulet)), None)
                if model is None or version is None:
                    continue
                changed = model.serving is None or not loads_alike(model.serving, version)
                model.serving = version
                if changed:
                    out.append(VersionServed(name, version.version))
        return out

    def _layout(self) -> Layout | None:
        """The routes in force, if they have changed."""
        s = self.state
        routes = []
        active = [e for e in s.executors.values() if e.gpulet is not None]
        for executor in sorted(active, key=lambda e: e.id):
            assert executor.gpulet is not None
            versions = {b.model: executor.versions[b.model].version for b in executor.gpulet.models}
            routes.append(Route(executor.id, executor.gpulet, versions, self._batch_ms(executor, active)))
        named = [m for name, m in sorted(s.models.items()) if name not in s.refused]
        models = tuple(m.serving or m.demand.version for m in named)
        # What changed of a version without its files (objective, priority, queue) is in force at once.
        models = tuple(_with_limits(v, s.models[v.model].demand.version) for v in models)
        now = (tuple(routes), models, dict(s.refused), s.applications)
        last = s.layout
        if last is not None and now == (last.routes, last.models, dict(last.refused), last.applications):
            return None
        s.layout = Layout(1 if last is None else last.number + 1, *now)
        return s.layout

    def _batch_ms(self, executor: ExecutorView, active: Sequence[ExecutorView]) -> dict[str, float]:
        """Planned execution times, beside the partitions that are in force with it."""
        table, gpulet = self.state.table, executor.gpulet
        assert gpulet is not None
        if table is None or not all(
            e.gpulet.percent in table.latency_ms.get(b.model, {})
            and b.batch <= table.max_batch(b.model, e.gpulet.percent)
            for e in active
            if e.gpulet is not None
            for b in e.gpulet.models
        ):
            return {}
        timed = times(table, [e.gpulet for e in active if e.gpulet is not None])
        mine = timed[[e.id for e in active].index(executor.id)]
        return {b.model: round(ms, 4) for b, ms in zip(gpulet.models, mine.execution_ms, strict=True)}

    def _shrinks(self) -> list[Instruction]:
        out: list[Instruction] = []
        for e in self.state.executors.values():
            shrinks = e.target is not None and e.target == e.gpulet and e.target.share < e.share - _EPS
            if shrinks and e.exists and e.state != "stopping" and self._kind.live:
                assert e.target is not None
                e.share = e.target.share
                out.append(ResizeExecutor(e.id, e.share))
        return out

    def _grows(self) -> list[Instruction]:
        """Starts and enlargements, as far as there is share."""
        s, kind = self.state, self._kind
        out: list[Instruction] = []
        taking = [e for e in s.executors.values() if e.target is not None and e.state != "stopping"]
        for e in taking:
            assert e.target is not None
            if e.exists and kind.live and e.target.share > e.share + _EPS:
                more = min(e.target.share - e.share, self._free())
                if more > _EPS:
                    e.share = round(e.share + more, 6)
                    out.append(ResizeExecutor(e.id, e.share))
        waiting = sorted((e for e in taking if e.state == "planned"), key=lambda e: e.id)
        for n, e in enumerate(waiting):
            assert e.target is not None
            free = self._free()
            # The others that wait must find something too.
            part = min(e.target.share, free - kind.min_share * (len(waiting) - n - 1))
            if not kind.live:
                # Its share is fixed while it lives: it starts with all of it, if need be beside the old ones.
                fits = e.target.share <= free + _EPS
                part = e.target.share if fits or kind.oversubscribe or not self._others_move(e) else 0.0
            if part < kind.min_share - _EPS and not self._others_move(e):
                part = self._make_room(e, out)
            if part >= kind.min_share - _EPS and part > 0:
                e.share, e.state = round(part, 6), "starting"
                # While it waited it may have been meant for more models; its process loads these only.
                e.versions = {b.model: e.versions[b.model] for b in e.target.models}
                out.append(StartExecutor(e.id, e.share, tuple(e.versions.values())))
        return out

    def _trims(self) -> list[Instruction]:
        """Models that are unloaded are let go of by the executors that stay; a version that is replaced has its own."""
        s = self.state
        out: list[Instruction] = []
        for e in s.executors.values():
            gone = [n for n in e.versions if n not in s.models]
            if gone and e.state == "connected" and e.gpulet is not None and not set(gone) & _names(e.gpulet):
                for name in gone:
                    del e.versions[name]
                out.append(TrimExecutor(e.id, tuple(e.versions.values())))
        return out

    def _free(self) -> float:
        return max(0.0, round(self.state.capacity.most - self.state.total_share, 9))

    def _others_move(self, me: ExecutorView) -> bool:
        """True if something is under way that will free a share."""
        return any(
            e.state in ("starting", "stopping") or e.draining for e in self.state.executors.values() if e is not me
        )

    def _make_room(self, newcomer: ExecutorView, out: list[Instruction]) -> float:
        """The last resort: the partition with most to spare gives the newcomer the least share that it can start
        with, so that a full device is no deadlock."""
        s, least = self.state, self._kind.min_share
        if not self._kind.live:
            return 0.0
        givers = [e for e in s.executors.values() if e.exists and e is not newcomer and e.share > 2 * least]
        if not givers:
            return 0.0
        giver = max(givers, key=lambda e: (e.share - (0.0 if e.target is None else e.target.share), e.share, e.id))
        missing = max(0.0, least - self._free())
        giver.share = round(giver.share - missing, 6)
        out.append(ResizeExecutor(giver.id, giver.share))
        return least

    def _stop(self, executor: ExecutorView) -> list[Instruction]:
        executor.state, executor.target, executor.gpulet = "stopping", None, None
        return [StopExecutor(executor.id)]


def _names(gpulet: Gpulet) -> set[str]:
    return {b.model for b in gpulet.models}


def loads_alike(one: ServedVersion, other: ServedVersion) -> bool:
    """True if a process that has loaded one of them can serve the other: they differ in limits only."""
    return _with_limits(one, other) == other


def _with_limits(serving: ServedVersion, demanded: ServedVersion) -> ServedVersion:
    """With the limits of the other, which need no loading."""
    return replace(serving, **{name: getattr(demanded, name) for name in _LIMITS})
