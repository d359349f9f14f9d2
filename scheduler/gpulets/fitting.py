"""Demands cut until they fit: models of low priority yield first, those of equal priority by equal parts.

A model is served whole, capped (a part of its rate; the rest is turned away and counted) or refused, with the
reason. Cameras have a priority too: models below it get only what cameras leave at their best, the others what
cameras leave at their floor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edge.core import checks
from edge.core.serving import DeviceTable, ServedModel, ServingPlan, ServingProblem
from edge.core.serving_reasons import Refusal
from scheduler.gpulets.policies import least_percent

#: The smallest plan for a problem: the least total share that holds every objective.
PlanFunction = Callable[[ServingProblem, DeviceTable], ServingPlan]

#: Parts of its rate that a model is tried with, in this order, when the whole does not fit.
PARTS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.35, 0.2, 0.1)
#: A model that cannot be served at this rate (requests per second) cannot be served at all.
LEAST_RATE = 0.5
_EPS = 1e-6


@dataclass(frozen=True)
class Capacity:
    """Shares of the device that serving may take: `most` with cameras at their floor, `beside` with cameras at their
    best; `cameras_priority` decides which of the two counts for a model."""

    most: float
    beside: float
    cameras_priority: int = 0

    def __post_init__(self) -> None:
        checks.in_range("capacity.most", self.most, 0.0, 1.0)
        checks.in_range("capacity.beside", self.beside, 0.0, 1.0)

    def of(self, priority: int) -> float:
        """The share for models of this priority and all above it together."""
        return self.most if priority >= self.cameras_priority else min(self.most, self.beside)

    def less(self, share: float) -> Capacity:
        """With `share` taken off."""
        return replace(self, most=max(0.0, self.most - share), beside=max(0.0, self.beside - share))


@dataclass(frozen=True)
class Fitted:
    """A plan that holds every objective of what is served: `problem` is what it answers (capped rates), `capped` the
    part of its rate that a model is served at, `refused` why a model is not served."""

    problem: ServingProblem
    plan: ServingPlan
    capped: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, Refusal] = field(default_factory=dict)


def fit(
    models: Sequence[ServedModel],
    table: DeviceTable | None,
    capacity: Capacity,
    plan: PlanFunction,
    max_gpulets: int | None = None,
) -> Fitted:
    """The plan of as much as fits, on one device."""
    unmeasured: dict[str, Refusal] = {}
    wanted = []
    for model in sorted(models, key=lambda m: (-m.priority, m.name)):
        if table is None or model.name not in table.latency_ms:
            unmeasured[model.name] = Refusal("not_measured", model.name)
        else:
            wanted.append(model)
    problem = ServingProblem(tuple(wanted), 1, round(capacity.most, 6), max_gpulets)
    nothing = ServingPlan(True, (), "", ("nothing is to be served",))
    if not wanted or table is None:
        return Fitted(problem, nothing, {}, unmeasured)
    trial = _Trial(table, capacity, plan, max_gpulets)
    held = trial.held(wanted)
    if held is not None:
        return Fitted(*held, {}, unmeasured)
    selection = _Selection(trial, trial.problem((), wanted), nothing, unmeasured)
    for priority in sorted({m.priority for m in wanted}, reverse=True):
        selection.add_priority([m for m in wanted if m.priority == priority], wanted)
    return Fitted(selection.problem, selection.plan, selection.capped, selection.refused)


@dataclass(frozen=True)
class _Trial:
    """Plans any choice of models on one device."""

    table: DeviceTable
    capacity: Capacity
    plan: PlanFunction
    max_gpulets: int | None

    def problem(self, chosen: Sequence[ServedModel], beside: Sequence[ServedModel] = ()) -> ServingProblem:
        """The problem of these models, on what they and those `beside` may take."""
        allowed = min((self.capacity.of(m.priority) for m in (*chosen, *beside)), default=self.capacity.most)
        return ServingProblem(tuple(chosen), 1, round(allowed, 6), self.max_gpulets)

    def attempt(self, chosen: Sequence[ServedModel]) -> ServingPlan:
        """The plan of these models; one that is not schedulable says why."""
        asked = self.problem(chosen)
        if asked.capacity <= 0:
            return ServingPlan(False, (), "", ("no share of the device is left to models",))
        return self.plan(asked, self.table)

    def held(self, chosen: Sequence[ServedModel]) -> tuple[ServingProblem, ServingPlan] | None:
        """The schedulable plan of these models, and the problem that it answers; None if there is none."""
        asked = self.problem(chosen)
        # A problem that needs more than there is, is not planned: a search in vain takes longest.
        if least_percent(asked, self.table) > 100 * asked.capacity + _EPS:
            return None
        plan = self.attempt(chosen)
        return (asked, plan) if plan.schedulable else None


@dataclass
class _Selection:
    """The models taken in so far, in the order of their priorities, with the plan that holds them all."""

    trial: _Trial
    problem: ServingProblem
    plan: ServingPlan
    refused: dict[str, Refusal]
    capped: dict[str, float] = field(default_factory=dict)
    served: list[ServedModel] = field(default_factory=list)

    def add_priority(self, models: Sequence[ServedModel], everyone: Sequence[ServedModel]) -> None:
        """Take the models of one priority in, as far as they fit. The plan of `everyone` gives the reason why not."""
        group = []
        for model in models:
            # A model that cannot be served at all must not take the others of its priority down.
            alone = self.trial.attempt([*self.served, replace(model, rate=min(model.rate, LEAST_RATE))])
            if alone.schedulable:
                group.append(model)
            else:
                self._refuse(model, alone, bool(self.served))
        if not group or self._add(group):
            return
        whole: ServingPlan | None = None
        for model in sorted(group, key=lambda m: (m.rate, m.name)):
            if not self._add([model]):
                whole = whole or self.trial.attempt(everyone)
                self._refuse(model, whole, True)

    def _add(self, group: Sequence[ServedModel]) -> bool:
        """Take these models in by the largest part that fits; False if none does."""
        for part in (1.0, *PARTS):
            chosen = [replace(m, rate=max(min(m.rate, LEAST_RATE), m.rate * part)) for m in group]
            held = self.trial.held([*self.served, *chosen])
            if held is not None:
                self.problem, self.plan = held
                self.served.extend(chosen)
                self.capped.update({m.name: part for m in group if part < 1.0})
                return True
        return False

    def _refuse(self, model: ServedModel, plan: ServingPlan, others: bool) -> None:
        self.refused[model.name] = _why(model, self.trial.capacity.of(model.priority), plan, others)


def _why(model: ServedModel, capacity: float, plan: ServingPlan, others: bool) -> Refusal:
    """To four digits of the rate: a rate that differs by less is no other reason."""
    said = "; ".join(r for r in plan.reasons if r)
    rate = float(f"{model.rate:.4g}")
    return Refusal("no_room", model.name, rate, model.slo_ms, round(capacity, 2), others, said)
