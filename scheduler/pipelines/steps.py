"""Counted steps: every search of a planner takes them, and stops where none is left."""

from __future__ import annotations


class CountedSteps:
    """At most `limit` steps. A search that finds none left returns the best that it has; the plan then says that it is
    not complete."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    def take(self, steps: int = 1) -> bool:
        """Count `steps`; whether the limit leaves room for them."""
        self.taken += steps
        return self.taken <= self.limit

    @property
    def spent(self) -> bool:
        """More steps were asked for than the limit allows."""
        return self.taken > self.limit
