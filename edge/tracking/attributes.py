"""Attributes of followed objects: which object an answer's description is of, and the values over several answers.

An object's label is voted for by all answers, each with its score, as its class is; its number is their mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from edge.core.accuracy import best_pairs
from edge.core.application_sources import AttributeValue, DescribedObject
from edge.core.zones import Box
from edge.tracking import boxes as bx

#: A description is of the object whose box it overlaps by at least so much (intersection over union).
_SAME = 0.5
#: How much of earlier votes is kept with each answer.
_KEEP_VOTES = 0.9
#: A number that differs by a smaller part is the same: no news.
_SAME_NUMBER = 0.05


@dataclass(frozen=True)
class AttributeVotes:
    """The votes of `answers` answers on one attribute: scores by label, or the mean of numbers."""

    labels: Mapping[str, float] = field(default_factory=dict)
    weight: float = 0.0
    number: float = 0.0
    answers: int = 0

    def with_value(self, given: AttributeValue) -> AttributeVotes:
        """With one answer more."""
        answers = self.answers + 1
        if not isinstance(given.value, str):
            return replace(self, number=self.number + (given.value - self.number) / answers, answers=answers)
        labels = {label: _KEEP_VOTES * votes for label, votes in self.labels.items()}
        labels[given.value] = labels.get(given.value, 0.0) + (given.score or 0.0)
        return replace(self, labels=labels, weight=_KEEP_VOTES * self.weight + 1.0, answers=answers)

    @property
    def value(self) -> AttributeValue:
        """The value now. A label's score is its part of the votes that there could be."""
        if not self.labels:
            return AttributeValue(self.number, None, self.answers)
        best = max(sorted(self.labels), key=lambda label: self.labels[label])
        return AttributeValue(best, min(1.0, self.labels[best] / self.weight), self.answers)


Attributes = Mapping[str, AttributeVotes]


def matched(boxes: Sequence[Box], described: Iterable[DescribedObject]) -> dict[int, DescribedObject]:
    """Place of an object -> its description: of the same part of the picture, each once, the best fit first. Where two
    descriptions are of one object, as of a detector that names it twice, one of them counts."""
    said = list(described)
    if not boxes or not said:
        return {}
    overlaps = bx.iou(np.array(boxes, np.float64), np.array([s.box for s in said], np.float64))
    return {n: said[other] for n, other in best_pairs(overlaps, _SAME)}


def with_description(known: Attributes, said: DescribedObject) -> Attributes:
    """An object's attributes with one description more."""
    return {**known, **{name: known.get(name, AttributeVotes()).with_value(v) for name, v in said.attributes.items()}}


def are_news(before: Mapping[str, AttributeValue], now: Mapping[str, AttributeValue]) -> bool:
    """Whether a value is another one: a label, or a number that differs by more than chance."""
    if before.keys() != now.keys():
        return True
    return any(_differ(before[name].value, now[name].value) for name in now)


def _differ(before: str | float, now: str | float) -> bool:
    if isinstance(before, str) or isinstance(now, str):
        return before != now
    return abs(now - before) > _SAME_NUMBER * max(abs(before), abs(now))
