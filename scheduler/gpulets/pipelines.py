"""Applications as the reorganiser plans them: their measured rates and fan-outs, and the budgets of their stages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Protocol

from edge.core.applications import Application, Stage
from edge.core.front_messages import StageTraffic, TrafficReport
from edge.core.serving import DeviceTable, ServedModel
from edge.core.serving_reasons import ServingReason
from scheduler.gpulets.applications import even_budgets, for_groups, groups
from scheduler.gpulets.fitting import Capacity, Fitted, PlanFunction, fit
from scheduler.gpulets.rates import RateEstimate, RateSettings, planned_rate

#: A known fan-out counts as so many rows at least: one request is chance.
_LEAST_ROWS = 20.0
#: Rows per row that a stage is planned for at least: one that asks for nothing now begins again by chance.
LEAST_FAN_OUT = 0.01


@dataclass(frozen=True)
class PipelineDemand:
    """An application that gets `rate` rows per second. `fan_out`: measured rows of a stage per row of a request; of a
    stage that is missing there the application's own figure counts."""

    application: Application
    rate: float
    fan_out: Mapping[str, float] = field(default_factory=dict)

    def rows_per_row(self, stage: Stage) -> float:
        """Rows that `stage` asks for per row of a request."""
        return max(LEAST_FAN_OUT, self.fan_out.get(stage.name, stage.per_request))


class QueueStage(NamedTuple):
    """A stage of an application."""

    application: str
    stage: str


@dataclass(frozen=True)
class PlannedQueue:
    """One of a model's two queues: answered within `budget_ms`, planned for `rate` rows per second, on gpu-lets of
    `share` devices together. `stages` ask it; queue 0 is also that of clients."""

    number: int
    budget_ms: float
    rate: float
    share: float
    stages: tuple[QueueStage, ...]


@dataclass(frozen=True)
class TwoQueues:
    """A model with two queues, and why: the plan takes less share ("less_share", `one_share` devices with one queue),
    or with one queue not all is served ("fits", `one_share` None)."""

    model: str
    reason: Literal["less_share", "fits"]
    share: float
    one_share: float | None
    queues: tuple[PlannedQueue, ...]

    def to_json(self) -> dict[str, Any]:
        """{"model", "reason", "share", "one_share", "queues": [{"number", "budget_ms", "rate", "share", "stages"}]}."""
        queues = [
            {
                "number": q.number,
                "budget_ms": q.budget_ms,
                "rate": q.rate,
                "share": q.share,
                "stages": [{"application": application, "stage": stage} for application, stage in q.stages],
            }
            for q in self.queues
        ]
        answer = {"model": self.model, "reason": self.reason, "share": self.share, "one_share": self.one_share}
        return {**answer, "queues": queues}

    @property
    def why(self) -> ServingReason:
        """The reason as a value."""
        one = {} if self.one_share is None else {"other_share": self.one_share}
        return ServingReason("two_queues", self.model, numbers={"share": self.share} | one)


@dataclass(frozen=True)
class SplitSearch:
    """The search for budgets took `steps`, of which each may try a plan; where it is not `complete` it was cut short at
    `most`, and the plan is the best that it had found."""

    steps: int
    most: int
    complete: bool

    @property
    def why(self) -> ServingReason:
        """It as a value that is shown to people."""
        numbers = {"steps": float(self.steps), "most": float(self.most), "complete": float(self.complete)}
        return ServingReason("search", numbers=numbers)


@dataclass(frozen=True)
class FittedPipelines:
    """`fitted` is followed; `budgets`: application -> stage -> milliseconds; `reasons` say why this split. `choices`:
    application -> stage -> the model that answers, of stages with alternatives; `rates`: those planned for the
    models that these stages may ask, in rows per second. `queues`: application -> stage -> the number of its model's
    queue, where that is not 0; `two_queues`: the models that have two. `search` None: nothing was searched for. `cut`:
    tenants' budgets are more than there was, so that with more there the plan would be another one."""

    fitted: Fitted
    budgets: Mapping[str, Mapping[str, float]]
    reasons: tuple[ServingReason, ...] = ()
    choices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    queues: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    two_queues: tuple[TwoQueues, ...] = ()
    search: SplitSearch | None = None
    cut: bool = False

    def planned(self, pipelines: Iterable[PipelineDemand]) -> tuple[PipelineDemand, ...]:
        """The pipelines with the models that answer their stages, and the queues that these ask."""
        out = []
        for pipeline in pipelines:
            name, application = pipeline.application.name, pipeline.application
            if self.choices.get(name):
                application = application.choosing(self.choices[name])
            out.append(replace(pipeline, application=replace(application, queues=self.queues.get(name, {}))))
        return tuple(out)

    def with_search(self, search: SplitSearch) -> FittedPipelines:
        """With `search` in place of all searches that it is made of."""
        reasons = (*(reason for reason in self.reasons if reason.code != "search"), search.why)
        return replace(self, search=search, reasons=reasons)


class FitFunction(Protocol):
    """Plans `models` (with the even split's objectives) and `pipelines` that ask some of them, as much as fits. `own`
    are the same models with the objectives of their own."""

    def __call__(
        self,
        models: Sequence[ServedModel],
        own: Sequence[ServedModel],
        pipelines: Sequence[PipelineDemand],
        table: DeviceTable | None,
        capacity: Capacity,
        plan: PlanFunction,
        max_gpulets: int | None = None,
    ) -> FittedPipelines: ...


class SearchFunction(FitFunction, Protocol):
    """A FitFunction whose search for budgets takes at most so many steps."""

    def __call__(
        self,
        models: Sequence[ServedModel],
        own: Sequence[ServedModel],
        pipelines: Sequence[PipelineDemand],
        table: DeviceTable | None,
        capacity: Capacity,
        plan: PlanFunction,
        max_gpulets: int | None = None,
        most_steps: int = ...,
    ) -> FittedPipelines: ...


def fit_evenly(
    models: Sequence[ServedModel],
    own: Sequence[ServedModel],
    pipelines: Sequence[PipelineDemand],
    table: DeviceTable | None,
    capacity: Capacity,
    plan: PlanFunction,
    max_gpulets: int | None = None,
    most_steps: int = 0,
) -> FittedPipelines:
    """Every objective is split evenly: the comparison, which searches for nothing."""
    budgets = {p.application.name: even_budgets(p.application) for p in pipelines}
    return FittedPipelines(fit(models, table, capacity, plan, max_gpulets), budgets)


def evenly_split(own: Sequence[ServedModel], pipelines: Sequence[PipelineDemand]) -> tuple[ServedModel, ...]:
    """The demands `own`, which have the models' own objectives, as they are planned for under the even split of these
    pipelines' objectives: stricter where a stage has less time, or where requests come several at once."""
    strict: dict[str, float] = {}
    together: dict[str, int] = {}
    for pipeline in pipelines:
        budgets = even_budgets(pipeline.application)
        for stage in pipeline.application.stages:
            strict[stage.model] = min(strict.get(stage.model, budgets[stage.name]), budgets[stage.name])
        for model, group in groups(pipeline.application).items():
            together[model] = max(together.get(model, 1), group)
    return tuple(
        for_groups(replace(m, slo_ms=min(m.slo_ms, strict.get(m.name, m.slo_ms))), together.get(m.name, 1)) for m in own
    )


def asked_rows(pipelines: Iterable[PipelineDemand]) -> dict[str, float]:
    """Model -> rows per second that these pipelines ask of it."""
    rates: dict[str, float] = {}
    for pipeline in pipelines:
        for stage in pipeline.application.stages:
            rates[stage.model] = rates.get(stage.model, 0.0) + pipeline.rate * pipeline.rows_per_row(stage)
    return rates


class PipelineRates:
    """Applications' rates by name: an estimate of rows per second, and of each stage's rows per row. `direct`: rows
    per second that clients ask of a model themselves."""

    def __init__(self) -> None:
        self.estimates: dict[str, RateEstimate] = {}
        self.fan_out: dict[tuple[str, str], float] = {}
        self._expected: dict[tuple[str, str], float] = {}
        self._weight: dict[tuple[str, str], float] = {}
        self.direct: dict[str, RateEstimate] = {}

    def change(self, before: Iterable[Application], wanted: Iterable[Application]) -> None:
        """These applications are served from now on. A changed rate is the rate that is expected now."""
        known = {a.name: a for a in before}
        asked = {a.name: a for a in wanted}
        for name in [n for n in self.estimates if n not in asked]:
            del self.estimates[name]
        for name, application in asked.items():
            old = known.get(name)
            if old is None or old.rate != application.rate or name not in self.estimates:
                self.estimates[name] = RateEstimate.starting(application.rate)
        self._expected = {(a.name, s.name): s.per_request for a in asked.values() for s in a.stages}
        self.fan_out = {key: value for key, value in self.fan_out.items() if key in self._expected}
        self._weight = {key: self._weight[key] for key in self.fan_out}

    def count(self, report: TrafficReport, rates: RateSettings) -> None:
        """Take a report of the front in."""
        for traffic in report.applications:
            known = self.estimates.get(traffic.model)
            if known is not None:
                rows = max(traffic.arrived, traffic.rows)
                self.estimates[traffic.model] = known.seen(rows, report.period_s, rates)
        of_stages: dict[str, int] = {}
        for stage in report.stages:
            of_stages[stage.model] = of_stages.get(stage.model, 0) + stage.rows
        for model in report.models:
            rows = max(0, max(model.arrived, model.rows) - of_stages.get(model.model, 0))
            before = self.direct.get(model.model, RateEstimate.starting(0.0))
            self.direct[model.model] = before.seen(rows, report.period_s, rates)
        for stage in report.stages:
            self._count_fan_out(stage, report.period_s, rates)

    def _count_fan_out(self, stage: StageTraffic, period_s: float, rates: RateSettings) -> None:
        """An average in which each row of a request counts alike, and half as much after `half_life_s`. It begins at
        what the application says, with the weight of the rows that are expected in that time."""
        key = stage.application, stage.stage
        if not stage.requests or key not in self._expected:
            return
        if key not in self.fan_out:
            expected = self.estimates[stage.application].rate * rates.half_life_s / math.log(2)
            self.fan_out[key], self._weight[key] = self._expected[key], expected
        kept = max(_LEAST_ROWS, self._weight[key] * 0.5 ** (period_s / rates.half_life_s))
        rows = max(stage.of_rows, stage.requests)
        self._weight[key] = kept + rows
        self.fan_out[key] += (stage.fan_out - self.fan_out[key]) * rows / self._weight[key]

    def known_rates(self, pipelines: Sequence[PipelineDemand], rates: RateSettings) -> dict[str, float]:
        """Rows per second to plan for, of each model whose demand is known before its traffic is seen: those that a
        stage with alternatives may ask, and those that an application asks whose source is a camera. Requests of the
        stages in force and of clients count."""
        asked = asked_rows(pipelines)
        names = {o.model for p in pipelines for s in p.application.stages for o in s.options}
        names |= {m for p in pipelines if p.application.source is not None for m in p.application.models}
        nothing = RateEstimate.starting(0.0)
        return {
            name: round(asked.get(name, 0.0) + planned_rate(self.direct.get(name, nothing).rate, rates), 3)
            for name in sorted(names)
        }

    def demands(self, applications: Iterable[Application], rates: RateSettings) -> tuple[PipelineDemand, ...]:
        """The demands to plan for now. A camera asks as often as it answers, which is known; the rate of others is
        measured."""
        return tuple(
            PipelineDemand(
                a,
                round(planned_rate(self.estimates[a.name].rate if a.source is None else a.rate, rates), 3),
                {s.name: self.fan_out[a.name, s.name] for s in a.stages if (a.name, s.name) in self.fan_out},
            )
            for a in applications
        )
