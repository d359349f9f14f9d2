"""Running means of what labels, trials and retrainings cost and bring."""

from __future__ import annotations

from dataclasses import replace

from edge.core import checks
from edge.core.learning import Cost, LearningFacts

#: Weight of a new measurement once there are many; the first few are averaged evenly.
WEIGHT = 0.2
#: Spread that one measurement alone is taken to have, as a part of it.
FIRST_SPREAD = 0.25


def observed(cost: Cost | None, measured: float) -> Cost:
    """`cost` after one more measurement. Raises InvalidValue for a number that is not finite."""
    checks.in_range("measured", measured, -1e9, 1e9)
    if cost is None or cost.samples == 0:
        return Cost(measured, FIRST_SPREAD * abs(measured), 1)
    weight = max(WEIGHT, 1.0 / (cost.samples + 1))
    off = abs(measured - cost.value)
    return Cost(
        (1.0 - weight) * cost.value + weight * measured,
        (1.0 - weight) * cost.spread + weight * off,
        cost.samples + 1,
    )


def learned(facts: LearningFacts, **measured: float) -> LearningFacts:
    """`facts` after measurements by field name. Raises InvalidValue for an unknown field."""
    checks.known_keys("learning_facts", measured.keys(), LearningFacts.__dataclass_fields__.keys())
    return replace(facts, **{name: observed(getattr(facts, name), value) for name, value in measured.items()})
