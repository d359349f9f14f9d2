"""Counts of a camera's answers: how many, how old, how dear."""

from __future__ import annotations

from collections import deque

from edge.core.vision import Observation

#: Answers per second are those of so many seconds.
_RATE_S = 5.0


class AnswerCounts:
    """Times are monotonic seconds."""

    def __init__(self) -> None:
        #: Fresh answers; frames that got the last answer again; frames that were due and went without.
        self.answers = self.stale = self.unanswered = 0
        self.last_utc_s = 0.0
        #: Seconds of device time in answers, probes included.
        self.answering_s = 0.0
        self._times: deque[float] = deque(maxlen=600)
        self._costs: deque[float] = deque(maxlen=30)

    def answered(self, observation: Observation, converting_s: float, now_s: float) -> None:
        """One fresh answer; its frame took `converting_s` to convert."""
        self.answers += 1
        self._times.append(now_s)
        self._costs.append(observation.inference_s + converting_s)
        probing_s = 0.0 if observation.probe is None else observation.probe.seconds
        self.answering_s += observation.inference_s + probing_s
        self.last_utc_s = observation.utc_s

    def rate(self, now_s: float) -> float:
        """Answers per second, lately."""
        return sum(now_s - t <= _RATE_S for t in self._times) / _RATE_S

    def mean_ms(self) -> float:
        """The mean cost of a late answer with its conversion, in milliseconds."""
        return 1000 * sum(self._costs) / max(1, len(self._costs))

    def expect(self, wanted: float, now_s: float) -> None:
        """`wanted` answers per second are due: those that clearly went missing in the last second are counted."""
        rate = self.rate(now_s)
        if self.answers > 5 and rate < 0.8 * wanted:
            self.unanswered += round(wanted - rate)
