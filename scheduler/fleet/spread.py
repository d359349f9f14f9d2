"""Spreading: the box with the fewest tasks of the same shape, then the least loaded one. The matcher sees all boxes, so
this is exact where halving a demand step by step is right within a factor of two."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.fleet.matcher import Demand, Matcher

#: Smaller is better.
Rank = tuple[float, float, int]
#: (box, tasks of the same shape on it, place of the box among all) -> its rank.
Ranking = Callable[[str, int, int], Rank]


def spreading(matcher: Matcher, demand: Demand) -> Ranking:
    """Ranks boxes for one more task with the demand."""

    def rank(box: str, alike: int, place: int) -> Rank:
        return alike, matcher.load_with(box, demand), place

    return rank
