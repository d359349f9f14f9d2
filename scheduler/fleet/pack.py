"""Packing: the box that is fullest already, so that others stay empty and may sleep."""

from __future__ import annotations

from scheduler.fleet.matcher import Demand, Matcher
from scheduler.fleet.spread import Rank, Ranking


def packing(matcher: Matcher, demand: Demand) -> Ranking:
    """Ranks boxes for one more task with the demand: beside its like, then by load, the largest first."""

    def rank(box: str, alike: int, place: int) -> Rank:
        return 0.0 if alike else 1.0, -matcher.load_with(box, demand), place

    return rank
