"""The models that shall be served and the traffic on each: which rate to plan for, and which of them miss their
objective."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from edge.core import checks
from edge.core.front_messages import ServedVersion, TrafficReport
from edge.core.serving import MOST_RATE, ServedModel
from edge.core.serving_reasons import Refusal
from scheduler.gpulets.applications import for_groups
from scheduler.gpulets.rates import RateEstimate, RateSettings, planned_rate
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings
from scheduler.gpulets.versions import loads_alike

#: How much faster than planned a model that misses its objective is planned for, each time, and at most.
_BOOST, _BOOST_MOST = 1.15, 2.0
_BOOST_HALF_LIFE_S = 120.0


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
        checks.in_range(f"{self.version.model}.rate", self.rate, 0.0, MOST_RATE)
        checks.in_range(f"{self.version.model}.min_rate", self.min_rate, 0.0, MOST_RATE)
        if self.slo_ms is not None:
            checks.positive(f"{self.version.model}.slo_ms", self.slo_ms)
        checks.in_range(f"{self.version.model}.group", self.group, 1, 1e6)

    @property
    def served(self) -> ServedModel:
        """The demand at `rate`."""
        slo_ms = self.version.slo_ms if self.slo_ms is None else min(self.version.slo_ms, self.slo_ms)
        return ServedModel(self.version.model, self.rate, slo_ms, self.version.priority)

    def own(self, rate: float) -> ServedModel:
        """The demand at `rate` with the version's own objective, without those of other clients."""
        return ServedModel(self.version.model, rate, self.version.slo_ms, self.version.priority)

    def planned(self, rate: float) -> ServedModel:
        """The demand that the planner holds for `rate` requests per second."""
        return for_groups(replace(self.served, rate=rate), self.group)


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
    failing: Refusal | None = None
    retry_s: float = 0.0
    #: Rates that stages and clients ask for now, as they are planned for, where a stage has alternatives or a camera is
    #: the source: on a change of models or of that camera's rate the traffic seen comes too late. None: the estimate
    #: counts.
    known_rate: float | None = None

    @property
    def name(self) -> str:
        return self.demand.version.model

    def boost_at(self, at_s: float) -> float:
        """How much faster than its rate it is planned for: at least 1, less with the time since it was raised."""
        left = float(0.5 ** (max(0.0, at_s - self.boosted_s) / _BOOST_HALF_LIFE_S))
        return 1.0 + (self.boost - 1.0) * left

    def raise_boost(self, at_s: float) -> None:
        """It misses its objective: plan it faster."""
        self.boost = min(_BOOST_MOST, self.boost_at(at_s) * _BOOST)
        self.boosted_s = at_s

    def need(self, at_s: float, rates: RateSettings) -> float:
        """Requests per second to plan for now."""
        rate = planned_rate(self.estimate.rate, rates) if self.known_rate is None else self.known_rate
        return max(self.demand.min_rate, min(MOST_RATE, rate * self.boost_at(at_s)))


class Demands:
    """The models that shall be served, by name, each with its traffic. Changed by the reorganiser only."""

    def __init__(self) -> None:
        self.models: dict[str, ModelView] = {}
        self._counted_s = 0.0

    def change(self, wanted: Iterable[Demand]) -> None:
        """These shall be served from now on, and no others. A changed rate is the rate that is expected now; a version
        with other content may be tried at once, despite earlier failures.
        """
        asked = {d.version.model: d for d in wanted}
        for name in [n for n in self.models if n not in asked]:
            del self.models[name]
        for name, demand in asked.items():
            known = self.models.get(name)
            if known is None:
                self.models[name] = ModelView(demand, RateEstimate.starting(demand.rate))
                continue
            if demand.rate != known.demand.rate:
                known.estimate = RateEstimate.starting(demand.rate)
            if not loads_alike(demand.version, known.demand.version):
                known.failing = None
            known.demand = demand

    def count(self, report: TrafficReport, rates: RateSettings, settled: bool) -> None:
        """Take a report of the front in. `settled`: it is of the routes in force, so missed objectives count."""
        for traffic in report.models:
            model = self.models.get(traffic.model)
            if model is None:
                continue
            # Batches are of rows: a request may bring several.
            model.estimate = model.estimate.seen(max(traffic.arrived, traffic.rows), report.period_s, rates)
            if settled:
                model.finished += traffic.answered + traffic.dropped + traffic.rejected + traffic.failed
                model.violated += traffic.violations

    def recount(self, at_s: float) -> None:
        """A new plan is in force: requests are counted against it from here on."""
        self._counted_s = at_s
        for model in self.models.values():
            model.finished = model.violated = 0

    def missing(self, at_s: float, rules: ReorganiserSettings, excused: Collection[str]) -> list[ModelView]:
        """Models that missed more than they may in the last period, which ends here if it is over. Those `excused`
        (capped, refused) cannot do better, nor can those that are planned as fast as may be."""
        if at_s - self._counted_s < rules.slo_period_s:
            return []
        self._counted_s = at_s
        out = []
        for m in self.models.values():
            m.violation = m.violated / m.finished if m.finished else 0.0
            late = m.violated >= 3 and m.violation > rules.violations
            if late and m.name not in excused and m.boost < _BOOST_MOST:
                out.append(m)
            m.finished = m.violated = 0
        return out

    def over(self, at_s: float, rules: ReorganiserSettings) -> list[ModelView]:
        """Models that need more than they are planned for, by more than `grow`."""
        return [m for m in self.models.values() if m.need(at_s, rules.rates) > m.held * (1 + rules.grow) + 1e-9]

    def under(self, at_s: float, rules: ReorganiserSettings) -> list[ModelView]:
        """Models that need less than they are planned for, by more than `shrink`."""
        return [m for m in self.models.values() if m.need(at_s, rules.rates) < m.held * (1 - rules.shrink) - 1e-9]
