"""Stages that several models may answer: the choice with the best total accuracy that holds every objective.

The total accuracy of a choice is the mean of the applications' accuracies (the product over their stages), weighted by
their rates. A choice that is more accurate than the one in force is taken only if it also holds at higher rates, and
one that some application loses by only if it gains clearly: neither a rate at the limit nor rates that cross change
the models to and fro.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from edge.core.applications import Stage
from edge.core.serving import MOST_RATE, DeviceTable, ServedModel
from edge.core.serving_reasons import ServingReason
from scheduler.gpulets.fitting import LEAST_RATE, Capacity, PlanFunction
from scheduler.gpulets.pipelines import FitFunction, FittedPipelines, PipelineDemand, asked_rows, evenly_split

#: Choices that are planned at most; of more, these many that are spread over all accuracies.
MOST_CHOICES = 8
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

    def __init__(self, fit: FitFunction) -> None:
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
        measured = {m.name for m in own if table is not None and m.name in table.latency_ms}
        in_force = chosen(pipelines)
        accuracy = total_accuracy(pipelines)
        best: tuple[tuple[float, float], FittedPipelines] | None = None
        for candidate in candidates(pipelines, measured):
            mine = of_choice(pipelines, candidate)
            changed = candidate != in_force
            total = total_accuracy(mine)
            asked = _with_rates(own, _rates(own, pipelines, mine, options))
            found = self._planned(models, asked, mine, options, table, capacity, plan, max_gpulets)
            part = _least_part(found, measured)
            if part >= 1.0 and changed and total > accuracy + 1e-12:
                more = _with_rates(own, _rates(own, pipelines, mine, options, MARGIN))
                strained = self._planned(models, more, mine, options, table, capacity, plan, max_gpulets)
                part = min(part, _least_part(strained, measured))
            rates = {m.name: m.rate for m in asked if m.name in options}
            answer = replace(
                found, choices=candidate, rates=rates, reasons=(*less_accurate(mine, part), *found.reasons)
            )
            if part >= 1.0:
                return answer
            if best is None or (part, total) > best[0]:
                best = (part, total), answer
        assert best is not None
        return best[1]

    def _planned(
        self,
        models: Sequence[ServedModel],
        own: Sequence[ServedModel],
        pipelines: Sequence[PipelineDemand],
        options: frozenset[str],
        table: DeviceTable | None,
        capacity: Capacity,
        plan: PlanFunction,
        max_gpulets: int | None,
    ) -> FittedPipelines:
        """As `fit` plans it, with `own` demands; of the others the even split's are as given in `models`."""
        even = {m.name: m for m in evenly_split(own, pipelines)}
        given = [even[m.name] if m.name in options else m for m in models]
        return self._fit(given, own, pipelines, table, capacity, plan, max_gpulets)


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


def _least_part(found: FittedPipelines, measured: set[str]) -> float:
    """The least part of its rate that a measured model is served at: 1, all are served whole."""
    if found.fitted.refused.keys() & measured:
        return 0.0
    return min(found.fitted.capped.values(), default=1.0)


def less_accurate(pipelines: Sequence[PipelineDemand], part: float = 1.0) -> tuple[ServingReason, ...]:
    """The stages that a less accurate model answers. `part`: the least part of its rate that some model is served
    at."""
    found = []
    for pipeline in pipelines:
        name = pipeline.application.name
        for stage in pipeline.application.stages:
            best = next(iter(stage.options), None)
            own = stage.accuracy or 0.0
            if best is not None and best.accuracy > own:
                accuracies = {"accuracy": own, "other_accuracy": best.accuracy}
                numbers = {**accuracies, "holds": float(part >= 1.0)}
                found.append(ServingReason("less_accurate", stage.model, name, stage.name, best.model, numbers=numbers))
    return tuple(found)
