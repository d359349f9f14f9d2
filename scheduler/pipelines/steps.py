"""Counted steps: every search of a planner takes them, and stops where none is left."""

from __future__ import annotations


class CountedSteps:
    """At most `limit` steps. A search that finds none left returns the best that it has; the plan then says that it is
    not complete."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self._cut = False

    def take(self, steps: int = 1) -> bool:
        """Count `steps`; whether the limit leaves room for them."""
        self.taken += steps
        return self.taken <= self.limit

    @property
    def spent(self) -> bool:
        """More steps were asked for than the limit allows, or something was left out."""
        return self._cut or self.taken > self.limit

    def left_out(self) -> None:
        """Record that something was left out, so that a search ends: it is not complete."""
        self._cut = True
        self.taken += 1
