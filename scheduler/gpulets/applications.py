"""An application's demand on its models: its rate and its objective, stage by stage, for the planner.

Budgets are those of the plan in force. Where nothing is planned yet, and for comparison, the objective is split evenly
over the stages on the longest way through a stage (gpu-lets, section 5: `game` puts 95 ms on each of its parallel
models, `traffic` half of its 136 ms on each phase).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from edge.core import checks
from edge.core.applications import Application
from edge.core.serving import MOST_RATE, ServedModel


def expand(application: Application, rate: float) -> tuple[ServedModel, ...]:
    """The demand of `rate` requests per second on each of its models, in the order of the stages.

    A model that several stages ask is one demand: their rates added up, the strictest of their objectives. Raises
    InvalidValue for a rate that is negative or not finite.
    """
    checks.in_range(f"{application.name}.rate", rate, 0.0, MOST_RATE)
    budgets = application.budgets or even_budgets(application)
    return merge(
        ServedModel(s.model, min(MOST_RATE, rate * s.per_request), budgets[s.name], application.priority)
        for s in application.stages
    )


def even_budgets(application: Application) -> dict[str, float]:
    """Milliseconds of each stage: the objective over the number of stages on the longest way through it."""
    after = {s.name: s.after for s in sorted(application.stages, key=lambda s: application.depths[s.name])}
    counted = longest_through(after, dict.fromkeys(after, 1.0))
    return {s.name: application.slo_ms / counted[s.name] for s in application.stages}


def longest_through(after: Mapping[str, Collection[str]], took: Mapping[str, float]) -> dict[str, float]:
    """Stage -> the longest way through it, where each stage takes what `took` has. `after`: the stages that each waits
    for, in an order in which each comes behind these."""
    until: dict[str, float] = {}
    for name, before in after.items():
        until[name] = took[name] + max((until[b] for b in before), default=0.0)
    behind = dict.fromkeys(after, 0.0)
    for name in reversed(until):
        for earlier in after[name]:
            behind[earlier] = max(behind[earlier], behind[name] + took[name])
    return {name: until[name] + behind[name] for name in after}


def merge(demands: Iterable[ServedModel]) -> tuple[ServedModel, ...]:
    """One demand per model, in the order of their first mention: rates added up to `MOST_RATE`, which no device
    serves; the strictest objective, the highest priority. A demand of rate 0 puts its objective on no other requests.
    """
    merged: dict[str, ServedModel] = {}
    for demand in demands:
        known = merged.get(demand.name)
        if known is None or (known.rate == 0 < demand.rate):
            priority = demand.priority if known is None else max(known.priority, demand.priority)
            merged[demand.name] = replace(demand, priority=priority)
        elif demand.rate > 0 or known.rate == 0:
            merged[demand.name] = ServedModel(
                demand.name,
                min(MOST_RATE, known.rate + demand.rate),
                min(known.slo_ms, demand.slo_ms),
                max(known.priority, demand.priority),
            )
        else:
            merged[demand.name] = replace(known, priority=max(known.priority, demand.priority))
    return tuple(merged.values())


def with_applications(
    models: Iterable[ServedModel], applications: Iterable[tuple[Application, float]]
) -> tuple[ServedModel, ...]:
    """The demand of models that clients ask directly, and of applications with their rates, together."""
    return merge([*models, *(demand for application, rate in applications for demand in expand(application, rate))])


def groups(application: Application) -> dict[str, int]:
    """Model -> rows that one row of the application asks it for at the same instant, at most.

    Stages that are as deep in the graph begin together; a stage that cuts boxes asks for as many as it may find.
    """
    together: dict[tuple[str, int], int] = {}
    for stage in application.stages:
        key = stage.model, application.depths[stage.name]
        together[key] = together.get(key, 0) + (1 if stage.cut is None else stage.cut.most)
    return {model: max(n for (m, _), n in together.items() if m == model) for model in application.models}


def for_groups(demand: ServedModel, group: int) -> ServedModel:
    """The demand to plan for instead of `demand` whose requests come `group` at the same instant: a plan for single
    requests may run batches of one, and the last of a group waits for one duty cycle after another.

    A plan for rate r and objective s has duty cycles D with batches b so that b / D >= r and D + latency(b) <= s. The
    last of a group is answered after at most ceil(group / b) D + latency(b) <= s + (group - 1) / r. So the objective
    is taken stricter by (group - 1) / r; or, where that were more than half of it, by half, and the rate as high as
    that needs. Raises InvalidValue for a group under 1.
    """
    checks.in_range(f"{demand.name}.group", group, 1, 1e6)
    if group == 1 or demand.rate == 0:
        return demand
    rate = max(demand.rate, (group - 1) * 2000 / demand.slo_ms)
    if rate > MOST_RATE:
        return replace(demand, rate=MOST_RATE, slo_ms=demand.slo_ms / 2)
    return replace(demand, rate=rate, slo_ms=demand.slo_ms - (group - 1) * 1000 / rate)
