"""How long batches take on one executor: as planned, corrected by what is seen."""

from __future__ import annotations

#: Weight of a new batch time in the moving mean; times of a size that was not seen for so long are forgotten.
_ALPHA, _FORGET_S = 0.15, 10.0
#: A mean that is longer than planned by this part is surely so: from there on the whole margin counts.
_SURELY = 0.1


class BatchTimes:
    """Expected time of a batch of n rows on one lane: as planned, then as measured.

    Seen is from handing over to the answer, with nothing before it in the executor: mean plus twice the mean
    deviation. Where that is more than planned, but the mean is not, the plan is believed: on a CPU share a batch after
    a pause is quick and one in steady use is as slow as planned, which makes the deviation large. Between a mean as
    planned and one that is a tenth longer, what is seen beyond the plan counts in proportion, so that the margin does
    not jump; never less than the mean. Before anything was seen a smaller batch than planned for is taken to be faster
    in proportion: a hopeful guess is corrected by the first batch, a gloomy one would never be tried.
    """

    def __init__(self, batch: int, planned_s: float) -> None:
        self.batch, self.planned_s = batch, planned_s
        self._seen: dict[int, list[float]] = {}  # rows -> mean, mean deviation, count, when
        self.upper_s: tuple[float, ...] = self._uppers()

    def saw(self, rows: int, seconds: float, now_s: float) -> None:
        """A batch of `rows` took `seconds`."""
        rows = min(rows, self.batch)
        known = self._seen.get(rows)
        if known is None:
            self._seen[rows] = [seconds, 0.1 * seconds, 1.0, now_s]
            self.upper_s = self._uppers()
            return
        weight = max(_ALPHA, 1.0 / (known[2] + 1.0))
        known[1] += weight * (abs(seconds - known[0]) - known[1])
        known[0] += weight * (seconds - known[0])
        known[2] += 1.0
        known[3] = now_s
        upper_s = self.upper_s[rows - 1]
        if abs(self._upper(known) - upper_s) > 0.05 * upper_s:
            self.upper_s = self._uppers()

    def forget(self, now_s: float) -> None:
        """Drop what was not seen for long: a hiccup must not keep a lane idle for ever."""
        old = [rows for rows, known in self._seen.items() if now_s - known[3] > _FORGET_S]
        for rows in old:
            del self._seen[rows]
        if old:
            self.upper_s = self._uppers()

    def _upper(self, known: list[float]) -> float:
        mean, seen = known[0], known[0] + 2.0 * known[1]
        over = mean - self.planned_s
        if over <= 0.0:
            return min(seen, self.planned_s)
        surely = _SURELY * self.planned_s
        return seen if over >= surely else max(mean, self.planned_s + (seen - self.planned_s) * over / surely)

    def _uppers(self) -> tuple[float, ...]:
        known = sorted((rows, self._upper(v)) for rows, v in self._seen.items())
        if not known:
            return tuple(self.planned_s * n / self.batch for n in range(1, self.batch + 1))
        least, most = known[0], known[-1]
        out: list[float] = []
        at = 0
        for n in range(1, self.batch + 1):
            if n <= least[0]:
                value = least[1] * n / least[0]
            elif n >= most[0]:
                value = max(most[1], self.planned_s * n / self.batch if n > most[0] else 0.0)
            else:
                while known[at + 1][0] < n:
                    at += 1
                (r0, t0), (r1, t1) = known[at], known[at + 1]
                value = t0 + (t1 - t0) * (n - r0) / (r1 - r0)
            out.append(max(value, out[-1] if out else 0.0))
        return tuple(out)
