"""The last windows of a lender: the share that it could lend, and the pause after a boundary. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduler.fleet.lending import LEAST_SHARE

#: Windows before the present one that count.
_WINDOWS, _PAUSES = 2, 3


@dataclass(frozen=True)
class LentWindows:
    """`lowest` is the smallest share that could be lent in `window` since its first one (0: none yet), `before` that of
    the windows before it, `pauses` the seconds from a boundary until there was a share to lend."""

    window: int = 0
    lowest: float = 0.0
    before: tuple[float, ...] = ()
    pauses: tuple[float, ...] = ()

    def planned(self, window: int, after_s: float, share: float) -> LentWindows:
        """After a plan of `window`, `after_s` seconds from its start, left `share` to lend."""
        if window == self.window:
            return replace(self, lowest=min(self.lowest, share if share >= LEAST_SHARE else 0.0))
        if share < LEAST_SHARE:
            return self
        if self.window == 0:  # it is not known what a boundary takes here
            return LentWindows(window, share)
        before = (*self.before, self.lowest)[-_WINDOWS:]
        return LentWindows(window, share, before, (*self.pauses, max(0.0, after_s))[-_PAUSES:])

    @property
    def share(self) -> float:
        """The share that there was in each of the last windows; 0: none, or no whole window is known."""
        return min(self.lowest, *self.before) if self.before else 0.0

    @property
    def pause_s(self) -> float:
        """The longest of the last pauses."""
        return max(self.pauses, default=0.0)
