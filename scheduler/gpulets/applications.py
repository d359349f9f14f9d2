"""What an application asks of the models behind it: its rate and its objective, stage by stage, for the planner.

The objective is split evenly over the stages on the longest way through a stage; cleverer splits are another matter.
(gpu-lets, section 5: `game` puts 95 ms on each of its parallel models; `traffic` half of its 136 ms on each phase.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from edge.core import checks
from edge.core.applications import Application
from edge.core.serving import ServedModel


def expand(application: Application, rate: float) -> tuple[ServedModel, ...]:
    """The demand of `rate` requests per second on each of its models, in the order of the stages.

    A model that several stages ask is one demand: their rates added up, the strictest of their objectives. Raises
    InvalidValue for a rate that is negative or not finite.
    """
    checks.in_range(f"{application.name}.rate", rate, 0.0, 1e9)
    return merge(
        ServedModel(s.model, rate * s.per_request, application.budget_ms(s.name), application.priority)
        for s in application.stages
    )


def merge(demands: Iterable[ServedModel]) -> tuple[ServedModel, ...]:
    """One demand per model, in the order of their first mention: rates added up, the strictest objective, the highest
    priority. A demand of rate 0 puts its objective on nobody else's requests."""
    merged: dict[str, ServedModel] = {}
    for demand in demands:
        known = merged.get(demand.name)
        if known is None or (known.rate == 0 < demand.rate):
            priority = demand.priority if known is None else max(known.priority, demand.priority)
            merged[demand.name] = replace(demand, priority=priority)
        elif demand.rate > 0 or known.rate == 0:
            merged[demand.name] = ServedModel(
                demand.name,
                known.rate + demand.rate,
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
