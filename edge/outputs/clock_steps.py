"""How old messages are on a box whose clock is set while they wait."""

from __future__ import annotations

from edge.core.clock import Clock

_CLOCK_SET_S = 60.0  # UTC that goes ahead of the steady clock by more was set


class ClockSteps:
    """Remembers when UTC was set forward. `oldest_utc_s` is asked often enough to see each step by itself."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_s = clock.utc() - clock.monotonic()
        self._steps: list[tuple[float, float]] = []  # when UTC was set forward (steady clock), and by how much

    def oldest_utc_s(self, age_s: float) -> float:
        """When a message that is `age_s` old now was made, as it was dated then. A box without a clock of its own
        begins in the past and is set right later: waiting messages have not become older by that."""
        steady, now = self._clock.monotonic(), self._clock.utc()
        ahead, self._ahead_s = now - steady - self._ahead_s, now - steady
        if ahead > _CLOCK_SET_S:
            self._steps = [*self._steps[-9:], (steady, ahead)]
        return now - age_s - sum(by for at, by in self._steps if steady - at < age_s)
