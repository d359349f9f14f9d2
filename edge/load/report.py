"""The report of a load run, as values, as JSON ("magpie-load/1") and as a table.

Latencies count from the instant at which a request was due, not from when the client got round to sending it
(otherwise a slow server would hide its own queue); the client's own losses are reported apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT = "magpie-load/1"
QUANTILES = (50.0, 90.0, 99.0, 99.9)
#: A request sent later than this after its time was late by the client's fault.
LATE_SEND_MS = 5.0


class RequestOutcome(IntEnum):
    """How a request ended."""

    ANSWERED = 0
    DROPPED = 1  # the server answered that it could not be in time
    REJECTED = 2  # the server's queue was full
    FAILED = 3  # any other error, a lost connection among them
    GAVE_UP = 4  # no answer within `give_up_s`
    UNSENT = 5  # too many were under way: the client's loss, not the server's


@dataclass(frozen=True, eq=False)
class RequestTrace:
    """All requests of one model: when each was due, sent and done (seconds from the run's begin; NaN: never), and its
    RequestOutcome (uint8)."""

    due_s: NDArray[np.float64]
    sent_s: NDArray[np.float64]
    done_s: NDArray[np.float64]
    outcome: NDArray[np.uint8]

    @property
    def latency_ms(self) -> NDArray[np.float64]:
        """From when it was due (or sent, if that was earlier by the timer's grain) to its end."""
        return (self.done_s - np.minimum(self.due_s, self.sent_s)) * 1000

    @property
    def lag_ms(self) -> NDArray[np.float64]:
        """How long after its time each was sent."""
        return np.maximum(0.0, (self.sent_s - self.due_s) * 1000)


@dataclass(frozen=True)
class Second:
    """The requests that were due in one second. `latency_ms`: p50 and p99 of the answered, None without any."""

    second: int
    offered: int
    answered: int
    violations: int
    dropped: int
    rejected: int
    failed: int
    latency_ms: tuple[float, float] | None


@dataclass(frozen=True)
class RequestCounts:
    """Requests by how they ended. Every offered request is answered, dropped, rejected, failed, given up or unsent.

    `violations`: answered later than the objective, dropped, rejected, failed or given up. `late_by_client` of the late
    answers would have been in time had they been sent on time.
    """

    offered: int
    answered: int
    late: int
    late_by_client: int
    dropped: int
    rejected: int
    failed: int
    gave_up: int
    unsent: int
    violations: int

    @property
    def sent(self) -> int:
        """Requests that the server had a chance to answer."""
        return self.offered - self.unsent


@dataclass(frozen=True)
class ModelReport:
    """One model. `violation_ratio` is of the requests sent; rates are requests per second of the run."""

    model: str
    slo_ms: float | None
    rows: int
    counts: RequestCounts
    violation_ratio: float
    offered_rate: float
    answered_rate: float
    good_rate: float  # answered in time, per second
    latency_ms: Mapping[str, float]  # "p50" ... "p99.9", "mean", "max" of the answered
    lag_ms: Mapping[str, float]  # "p50", "p99", "max" of the client's lateness
    late_sends: int
    errors: Mapping[str, int] = field(default_factory=dict)  # message -> how often, the most frequent ones
    timeline: tuple[Second, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """An entry of "models" in "magpie-load/1", where the counts stand among the other keys."""
        value: dict[str, Any] = {}
        for key, part in asdict(self).items():
            value |= part if key == "counts" else {key: part}
        value["violation_ratio"] = round(self.violation_ratio, 6)
        return value


@dataclass(frozen=True)
class LoadReport:
    """One run. `client_kept_up`: nothing unsent, and 99 % of the requests sent within 5 ms of their time; otherwise the
    numbers say as much about the client as about the server."""

    url: str
    server: str
    started_utc: str
    duration_s: float
    warm_up_s: float
    seed: int
    models: tuple[ModelReport, ...]
    client_cpu_s: float
    client_kept_up: bool
    interrupted: bool = False

    @property
    def violation_ratio(self) -> float:
        """Of all models' requests together."""
        sent = sum(m.counts.sent for m in self.models)
        return sum(m.counts.violations for m in self.models) / sent if sent else 0.0

    def to_json(self) -> dict[str, Any]:
        """Write "magpie-load/1"."""
        value = asdict(self) | {"models": [m.to_json() for m in self.models]}
        value["violation_ratio"] = round(self.violation_ratio, 6)
        return {"format": FORMAT, **value}

    def table(self) -> str:
        """For people: a line per model, the errors, and whether the client kept up."""
        head = ["model", "offered/s", "answered/s", "in time/s", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "SLO ms"]
        head += ["violated", "late", "dropped", "rejected", "failed", "unsent"]
        rows = [head]
        for m in self.models:
            c = m.counts
            quantiles = [f"{m.latency_ms[_name(q)]:.1f}" if m.counts.answered else "-" for q in QUANTILES]
            rows.append(
                [
                    m.model, f"{m.offered_rate:.1f}", f"{m.answered_rate:.1f}", f"{m.good_rate:.1f}", *quantiles,
                    "-" if m.slo_ms is None else f"{m.slo_ms:g}", f"{100 * m.violation_ratio:.2f} %",
                    *(str(n) for n in (c.late, c.dropped, c.rejected, c.failed + c.gave_up, c.unsent)),
                ]
            )  # fmt: skip
        widths = [max(len(row[n]) for row in rows) for n in range(len(head))]
        lines = [
            "  ".join(c.ljust(w) if n == 0 else c.rjust(w) for n, (c, w) in enumerate(zip(row, widths, strict=True)))
            for row in rows
        ]
        lines.append("")
        total = sum(m.counts.offered for m in self.models)
        lines.append(
            f"{total} requests in {self.duration_s:g} s; {100 * self.violation_ratio:.2f} % violated; the client used "
            f"{self.client_cpu_s:.1f} s of CPU"
        )
        for m in self.models:
            lines += [f"{m.model}: {count} x {message}" for message, count in m.errors.items()]
        if self.interrupted:
            lines.append("The run was ended early.")
        if not self.client_kept_up:
            late, unsent = sum(m.late_sends for m in self.models), sum(m.counts.unsent for m in self.models)
            lines.append(
                f"The client did not keep up: {late} requests were sent more than {LATE_SEND_MS:g} ms late, {unsent} "
                "not at all. Ask for less, or from a machine with a free core."
            )
        return "\n".join(lines)


def model_report(
    name: str,
    slo_ms: float | None,
    rows: int,
    trace: RequestTrace,
    duration_s: float,
    errors: Mapping[str, int] | None = None,
) -> ModelReport:
    """Sum up the requests of one model that were due in [0, `duration_s`)."""
    outcome = trace.outcome
    answered = outcome == RequestOutcome.ANSWERED
    latency, lag = trace.latency_ms, trace.lag_ms
    late = answered & (latency > slo_ms) if slo_ms is not None else np.zeros_like(answered)
    served_ms = (trace.done_s - trace.sent_s) * 1000
    by_client = late & (served_ms <= slo_ms) if slo_ms is not None else late
    unsent = outcome == RequestOutcome.UNSENT
    violated = late | (~answered & ~unsent)
    ended = {o: int(np.count_nonzero(outcome == o)) for o in RequestOutcome}
    counts = RequestCounts(
        offered=len(outcome),
        answered=ended[RequestOutcome.ANSWERED],
        late=int(np.count_nonzero(late)),
        late_by_client=int(np.count_nonzero(by_client)),
        dropped=ended[RequestOutcome.DROPPED],
        rejected=ended[RequestOutcome.REJECTED],
        failed=ended[RequestOutcome.FAILED],
        gave_up=ended[RequestOutcome.GAVE_UP],
        unsent=ended[RequestOutcome.UNSENT],
        violations=int(np.count_nonzero(violated)),
    )
    return ModelReport(
        model=name,
        slo_ms=slo_ms,
        rows=rows,
        counts=counts,
        violation_ratio=counts.violations / counts.sent if counts.sent else 0.0,
        offered_rate=counts.offered / duration_s,
        answered_rate=counts.answered / duration_s,
        good_rate=(counts.answered - counts.late) / duration_s,
        latency_ms=_quantiles(latency[answered], QUANTILES, mean=True),
        lag_ms=_quantiles(lag[~unsent], (50.0, 99.0)),
        late_sends=int(np.count_nonzero(lag[~unsent] > LATE_SEND_MS)),
        errors=dict(errors or {}),
        timeline=_timeline(trace, violated, duration_s),
    )


def kept_up(models: Sequence[ModelReport]) -> bool:
    """See LoadReport."""
    offered = sum(m.counts.offered for m in models)
    return not any(m.counts.unsent for m in models) and sum(m.late_sends for m in models) <= 0.01 * offered


def _timeline(trace: RequestTrace, violated: NDArray[np.bool_], duration_s: float) -> tuple[Second, ...]:
    seconds = max(1, math.ceil(duration_s))
    second = np.minimum(trace.due_s.astype(np.int64), seconds - 1)
    answered = trace.outcome == RequestOutcome.ANSWERED

    def per_second(which: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(second[which], minlength=seconds)

    columns = [
        per_second(which)
        for which in (
            np.ones_like(answered),
            answered,
            violated,
            trace.outcome == RequestOutcome.DROPPED,
            trace.outcome == RequestOutcome.REJECTED,
            (trace.outcome == RequestOutcome.FAILED) | (trace.outcome == RequestOutcome.GAVE_UP),
        )
    ]
    latency, of = trace.latency_ms[answered], second[answered]
    starts = np.searchsorted(of, np.arange(seconds + 1))
    out = []
    for n in range(seconds):
        part = latency[starts[n] : starts[n + 1]]
        quantiles = np.percentile(part, (50, 99), method="higher") if len(part) else None
        pair = None if quantiles is None else (round(float(quantiles[0]), 3), round(float(quantiles[1]), 3))
        offered, done, bad, dropped, rejected, failed = (int(c[n]) for c in columns)
        out.append(Second(n, offered, done, bad, dropped, rejected, failed, pair))
    return tuple(out)


def _quantiles(values: NDArray[np.float64], wanted: Sequence[float], mean: bool = False) -> dict[str, float]:
    """Each quantile is a value that occurred, the next higher one."""
    if not len(values):
        return {}
    found = np.percentile(values, wanted, method="higher")
    out = {_name(q): round(float(v), 3) for q, v in zip(wanted, found, strict=True)}
    if mean:
        out["mean"] = round(float(values.mean()), 3)
    return {**out, "max": round(float(values.max()), 3)}


def _name(quantile: float) -> str:
    return f"p{quantile:g}"
