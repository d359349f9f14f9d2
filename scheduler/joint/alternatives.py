"""Stages that several models may answer: the choice with the best total accuracy that holds every objective.

A choice is judged by the applications that have one, then by what it leaves to models of the same or a higher priority.
The total accuracy of a choice is the mean of the applications' accuracies (the product over their stages), weighted by
their rates. A choice that is more accurate than the one in force is taken only if it also holds at higher rates, and
one that some application loses by only if it gains clearly: neither a rate at the limit nor rates that cross change
the models to and fro.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edge.core.applications import Stage
from edge.core.serving import MOST_RATE, DeviceTable, ServedModel
from edge.core.serving_reasons import ServingReason
from scheduler.gpulets.fitting import LEAST_RATE, Capacity, PlanFunction
from scheduler.gpulets.pipelines import (
    FittedPipelines,
    PipelineDemand,
    SearchFunction,
    SplitSearch,
    asked_rows,
    evenly_split,
)

#: Choices that are planned at most; of more, these many that are spread over all accuracies.
MOST_CHOICES = 8
#: Steps of the search for budgets that all choices may take together: four plans', of which two choices need no more.
MOST_STEPS = 32_000
#: Combinations of models that are looked at, all of them if there are not more.
MOST_COMBINED = 4096
#: Total accuracy (0-1) by which a choice that some application loses by must be better than the one in force.
TRADE_GAIN = 0.01
#: A more accurate choice must hold for so many times the rates of the stages with alternatives.
MARGIN = 1.1

Choice = Mapping[str, Mapping[str, str]]


class FitAlternatives:
    """A FitFunction that chooses the models of stages with alternatives, each choice planned by `fit`. The models in
    the pipelines' stages are those in force. Without alternatives it is `fit`."""

    def __init__(self, fit: SearchFunction) -> None:
        self._fit = fit

    def __call__(
        self,
        models: Sequence[ServedModel],
        own: Sequence[ServedModel],
        pipelines: Sequence[PipelineDemand],
        table: DeviceTable | None,
        capacity: Capacity,
        plan: PlanFunction,
        max_gpulets: int | None = None,
    ) -> FittedPipelines:
        """See FitFunction; `choices` and `rates` of the answer say which models answer."""
        options = choosable(pipelines)
        if not options:
            return self._fit(models, own, pipelines, table, capacity, plan, max_gpulets)
        measured = frozenset(m.name for m in own if table is not None and m.name in table.latency_ms)
        choosing = _Choosing(
            self._fit, models, own, pipelines, options, measured, table, capacity, plan, max_gpulets
        )  # fmt: skip
        return choosing.best()


@dataclass(frozen=True, order=True)
class _Served:
    """How much a choice serves; the larger is the better. `mine`: by falling priority of the applications with
    alternatives, the sum over them of the least part of its rate that a model of theirs is served at. `others`: the sum
    of the parts of all models that yield with them or after them."""

    mine: tuple[float, ...]
    others: float
    mine_whole: bool = field(compare=False)
    whole: bool = field(compare=False)


@dataclass(frozen=True)
class _Choosing:
    """One decision; the fields are as in FitFunction, `options` are the models that may be chosen."""

    fit: SearchFunction
    models: Sequence[ServedModel]
    own: Sequence[ServedModel]
    pipelines: Sequence[PipelineDemand]
    options: frozenset[str]
    measured: frozenset[str]
    table: DeviceTable | None
    capacity: Capacity
    plan: PlanFunction
    max_gpulets: int | None

    def best(self) -> FittedPipelines:
        """The first choice that serves everything that any choice can, else the one that serves most. Applications with
        alternatives count first: a model beside them decides only where they are served alike."""
        in_force, accuracy = chosen(self.pipelines), total_accuracy(self.pipelines)
        best: tuple[_Served, FittedPipelines] | None = None
        tried = candidates(self.pipelines, self.measured)
        took, complete = 0, True
        for number, candidate in enumerate(tried):
            # Each choice may be planned twice; steps that one leaves are for those behind it.
            most = max(0, MOST_STEPS - took) // (2 * (len(tried) - number))
            mine = of_choice(self.pipelines, candidate)
            asked = self._asked(mine)
            found = self._planned(asked, mine, most)
            searches, served = [found.search], self._served(found, mine)
            if candidate != in_force and served.mine_whole and total_accuracy(mine) > accuracy + 1e-12:
                strained = self._planned(self._asked(mine, MARGIN), mine, most)
                searches.append(strained.search)
                served = min(served, self._served(strained, mine))
            took += sum(s.steps for s in searches if s is not None)
            complete = complete and all(s is None or s.complete for s in searches)
            if best is None or served > best[0]:
                rates = {m.name: m.rate for m in asked if m.name in self.options}
                reasons = (*less_accurate(mine, served.mine_whole), *found.reasons)
                best = served, replace(found, choices=candidate, rates=rates, reasons=reasons)
            if served.whole:
                break
        assert best is not None
        found, search = best[1], SplitSearch(took, MOST_STEPS, complete)
        # It stands for those of all choices.
        return found if found.search is None else found.with_search(search)

    def _asked(self, pipelines: Sequence[PipelineDemand], times: float = 1.0) -> list[ServedModel]:
        """The models' own demands once the pipelines ask so, at `times` the rates of the stages with alternatives."""
        return _with_rates(self.own, _rates(self.own, self.pipelines, pipelines, self.options, times))

    def _planned(
        self, own: Sequence[ServedModel], pipelines: Sequence[PipelineDemand], most_steps: int
    ) -> FittedPipelines:
        """As `fit` plans it, with `own` demands; of the others the even split's are as given in `models`."""
        even = {m.name: m for m in evenly_split(own, pipelines)}
        given = [even[m.name] if m.name in self.options else m for m in self.models]
        return self.fit(given, own, pipelines, self.table, self.capacity, self.plan, self.max_gpulets, most_steps)

    def _served(self, found: FittedPipelines, pipelines: Sequence[PipelineDemand]) -> _Served:
        choosing = [p.application for p in pipelines if p.application.choice]
        levels = sorted({a.priority for a in choosing}, reverse=True)
        parts = {m.name: _part(found, m.name) for m in self.own if m.name in self.measured}
        least = [(a.priority, min((parts[m] for m in a.models if m in parts), default=1.0)) for a in choosing]
        mine = tuple(sum(part for priority, part in least if priority == level) for level in levels)
        beside = [m for m in self.own if m.name in parts and (m.priority in levels or m.priority > levels[0])]
        # No choice of models helps one that cannot be served on its own.
        others = [1.0 if _hopeless(found, m.name) else parts[m.name] for m in beside]
        whole = min((part for _, part in least), default=1.0) >= 1.0
        return _Served(mine, sum(others), whole, whole and min(others, default=1.0) >= 1.0)


def choosable(pipelines: Sequence[PipelineDemand]) -> frozenset[str]:
    """The models that stages with alternatives may ask."""
    return frozenset(o.model for p in pipelines for s in p.application.stages for o in s.options)


def chosen(pipelines: Sequence[PipelineDemand]) -> Choice:
    """The choice in force, of the applications that have one."""
    return {p.application.name: p.application.choice for p in pipelines if p.application.choice}


def of_choice(pipelines: Sequence[PipelineDemand], choice: Choice) -> tuple[PipelineDemand, ...]:
    """The pipelines with these models."""
    return tuple(replace(p, application=p.application.choosing(choice.get(p.application.name, {}))) for p in pipelines)


def total_accuracy(pipelines: Sequence[PipelineDemand]) -> float:
    """The mean accuracy of the applications that have one, weighted by their rates (equal weights without requests)."""
    known = [(p.application.accuracy, p.rate) for p in pipelines if p.application.accuracy is not None]
    weight = sum(rate for _, rate in known)
    if not known:
        return 0.0
    if weight <= 0:
        return sum(accuracy for accuracy, _ in known) / len(known)
    return sum(accuracy * rate for accuracy, rate in known) / weight


def candidates(pipelines: Sequence[PipelineDemand], measured: frozenset[str] | set[str]) -> list[Choice]:
    """Choices among the measured models in the order in which they are tried, with the one in force if it is one: the
    best total accuracy first, but trades that gain little come behind the one in force. A stage none of whose models
    is measured keeps its own."""
    stages = [(p.application.name, s) for p in pipelines for s in p.application.stages if s.alternatives]
    offered = [[o.model for o in s.options if o.model in measured] or [s.model] for _, s in stages]
    in_force = tuple(s.model for _, s in stages)
    now = of_choice(pipelines, _choice(stages, in_force))
    found: list[tuple[tuple[int, float, int], Choice]] = []
    also = (in_force,) if all(model in o for model, o in zip(in_force, offered, strict=True)) else ()
    for models in dict.fromkeys((*also, *_combined(offered))):
        choice = _choice(stages, models)
        differs = sum(model != own for model, own in zip(models, in_force, strict=True))
        then = of_choice(pipelines, choice)
        place = 1 if not differs else 0 if _worth_a_change(now, then) else 2
        found.append(((place, -total_accuracy(then), differs), choice))
    found.sort(key=lambda f: f[0])
    if len(found) <= MOST_CHOICES:
        return [choice for _, choice in found]
    kept = {round(n * (len(found) - 1) / (MOST_CHOICES - 1)) for n in range(MOST_CHOICES)}
    kept |= {n for n, ((_, _, differs), _) in enumerate(found) if not differs}
    return [found[n][1] for n in sorted(kept)]


def _choice(stages: Sequence[tuple[str, Stage]], models: Sequence[str]) -> dict[str, dict[str, str]]:
    choice: dict[str, dict[str, str]] = {name: {} for name, _ in stages}
    for (name, stage), model in zip(stages, models, strict=True):
        choice[name][stage.name] = model
    return choice


def _combined(offered: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """All combinations; where there are too many, those in which the stages step down together, level by level."""
    if math.prod(len(o) for o in offered) <= MOST_COMBINED:
        yield from itertools.product(*offered)
        return
    for level in range(max(len(o) for o in offered)):
        for first in range(len(offered)):  # stages before it have stepped down to this level already
            yield tuple(o[min(level + (n < first), len(o) - 1)] for n, o in enumerate(offered))


def _worth_a_change(now: Sequence[PipelineDemand], then: Sequence[PipelineDemand]) -> bool:
    """More accurate in all, and in each application at least as accurate; or, where some lose what others gain, by so
    much more that rates which cross do not change the models to and fro."""
    gain = total_accuracy(then) - total_accuracy(now)
    traded = any(
        (b.application.accuracy or 0.0) < (a.application.accuracy or 0.0) for a, b in zip(now, then, strict=True)
    )
    return gain > (TRADE_GAIN if traded else 1e-12)


def _rates(
    own: Sequence[ServedModel],
    before: Sequence[PipelineDemand],
    after: Sequence[PipelineDemand],
    options: frozenset[str],
    times: float = 1.0,
) -> dict[str, float]:
    """Rows per second of the models in `options` once the pipelines ask as in `after`; clients' own requests stay."""
    was, shall = asked_rows(before), asked_rows(after)
    rates = {}
    for model in own:
        if model.name in options:
            direct = max(0.0, model.rate - was.get(model.name, 0.0))
            # One that nothing asks stays loaded, ready to take over.
            least = min(model.rate, LEAST_RATE)
            rates[model.name] = min(MOST_RATE, round(max(least, direct + times * shall.get(model.name, 0.0)), 3))
    return rates


def _with_rates(own: Sequence[ServedModel], rates: Mapping[str, float]) -> list[ServedModel]:
    return [replace(m, rate=rates.get(m.name, m.rate)) for m in own]


def _part(found: FittedPipelines, model: str) -> float:
    """The part of its rate that a model is served at."""
    return 0.0 if model in found.fitted.refused else found.fitted.capped.get(model, 1.0)


def _hopeless(found: FittedPipelines, model: str) -> bool:
    """It is refused although nothing stands beside it."""
    refusal = found.fitted.refused.get(model)
    return refusal is not None and not refusal.beside


def less_accurate(pipelines: Sequence[PipelineDemand], holds: bool = True) -> tuple[ServingReason, ...]:
    """The stages that a less accurate model answers. `holds`: with it the applications with alternatives are served
    whole."""
    found = []
    for pipeline in pipelines:
        name = pipeline.application.name
        for stage in pipeline.application.stages:
            best = next(iter(stage.options), None)
            own = stage.accuracy or 0.0
            if best is not None and best.accuracy > own:
                accuracies = {"accuracy": own, "other_accuracy": best.accuracy}
                numbers = {**accuracies, "holds": float(holds)}
                found.append(ServingReason("less_accurate", stage.model, name, stage.name, best.model, numbers=numbers))
    return tuple(found)
