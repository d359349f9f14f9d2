"""Pauses between tries that failed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RetryPace:
    """Pauses between tries: `first_s`, then twice as long each time, up to `most_s`; each is shortened by chance, by up
    to the part `spread`, so that many senders do not come back at the same instant."""

    first_s: float
    most_s: float
    spread: float = 0.25

    def pause_s(self, failures: int, chance: float) -> float:
        """The pause after `failures` (>= 1) tries in a row; `chance` 0-1 shortens it."""
        doubled = self.first_s * 2.0 ** min(max(failures, 1) - 1, 60)
        return float(min(doubled, self.most_s) * (1.0 - self.spread * chance))
