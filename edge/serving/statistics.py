"""Counts at the front: every request once, every batch once.

Two views of it: the protocol's statistics (cumulative, per version, nanoseconds) and the traffic report to the control
process (per period, per model).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from edge.core.front_messages import BatchTraffic, ExecutorTraffic, ModelTraffic

Outcome = Literal["answered", "dropped", "rejected", "failed", "cancelled"]

#: Latencies kept of one period and model: beyond that the oldest of the period are forgotten (counts are not).
_LATENCIES = 16384


@dataclass
class Duration:
    """How often, and how long in all."""

    count: int = 0
    seconds: float = 0.0

    def add(self, count: int, seconds: float) -> None:
        """`count` times, `seconds` in all."""
        self.count += count
        self.seconds += seconds

    def to_json(self) -> dict[str, int]:
        """{"count", "ns"}."""
        return {"count": self.count, "ns": round(self.seconds * 1e9)}


@dataclass
class _BatchSize:
    input: Duration = field(default_factory=Duration)
    infer: Duration = field(default_factory=Duration)
    output: Duration = field(default_factory=Duration)


@dataclass
class VersionStatistics:
    """One version's cumulative counts, as the protocol's statistics extension has them.

    A request's queue time ends when its first batch is formed; its compute times are those of its batches.
    """

    model: str
    version: str
    rows: int = 0
    batches: int = 0
    last_utc_ms: int = 0
    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    queue: Duration = field(default_factory=Duration)
    input: Duration = field(default_factory=Duration)
    infer: Duration = field(default_factory=Duration)
    output: Duration = field(default_factory=Duration)
    sizes: dict[int, _BatchSize] = field(default_factory=dict)

    def batch(self, rows: int, input_s: float, infer_s: float, output_s: float) -> None:
        """A batch of `rows` was computed."""
        self.batches += 1
        self.rows += rows
        size = self.sizes.get(rows)
        if size is None:
            size = self.sizes[rows] = _BatchSize()
        size.input.add(1, input_s)
        size.infer.add(1, infer_s)
        size.output.add(1, output_s)

    def answered(self, total_s: float, queue_s: float, input_s: float, infer_s: float, output_s: float) -> None:
        """A request was answered."""
        self.success.add(1, total_s)
        self.queue.add(1, queue_s)
        self.input.add(1, input_s)
        self.infer.add(1, infer_s)
        self.output.add(1, output_s)

    def to_json(self) -> dict[str, Any]:
        """An entry of "model_stats"."""
        return {
            "name": self.model,
            "version": self.version,
            "last_inference": self.last_utc_ms,
            "inference_count": self.rows,
            "execution_count": self.batches,
            "inference_stats": {
                "success": self.success.to_json(),
                "fail": self.fail.to_json(),
                "queue": self.queue.to_json(),
                "compute_input": self.input.to_json(),
                "compute_infer": self.infer.to_json(),
                "compute_output": self.output.to_json(),
                "cache_hit": {"count": 0, "ns": 0},
                "cache_miss": {"count": 0, "ns": 0},
            },
            "batch_stats": [
                {
                    "batch_size": rows,
                    "compute_input": size.input.to_json(),
                    "compute_infer": size.infer.to_json(),
                    "compute_output": size.output.to_json(),
                }
                for rows, size in sorted(self.sizes.items())
            ],
        }


class ModelCounts:
    """One model's requests since the front started. Each is counted once when it arrives and once when it ends:
    `arrived` is always the sum of all outcomes and of what is `open` (waits or runs)."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.arrived = self.rows = 0
        self.answered = self.late = self.dropped = self.rejected = self.failed = self.cancelled = 0
        self._latencies_ms: list[float] = []
        self._seen = 0
        self._reported = ModelTraffic(model)

    @property
    def open(self) -> int:
        """Requests that wait or run."""
        return self.arrived - self.answered - self.dropped - self.rejected - self.failed - self.cancelled

    def end(self, outcome: Outcome) -> None:
        """A request ended so."""
        setattr(self, outcome, getattr(self, outcome) + 1)

    def latency(self, seconds: float, late: bool) -> None:
        """How long an answered request took."""
        self.late += late
        if len(self._latencies_ms) < _LATENCIES:
            self._latencies_ms.append(seconds * 1000.0)
        else:
            self._latencies_ms[self._seen % _LATENCIES] = seconds * 1000.0
        self._seen += 1

    def period(self, queued: int) -> ModelTraffic:
        """The counts since the last call; of the open requests `queued` have begun in no batch."""
        before = self._reported
        self._reported = ModelTraffic(
            self.model,
            self.arrived,
            self.answered,
            self.late,
            self.dropped,
            self.rejected,
            self.failed,
            cancelled=self.cancelled,
            rows=self.rows,
        )
        ordered = sorted(self._latencies_ms)
        self._latencies_ms, self._seen = [], 0
        return ModelTraffic(
            self.model,
            self.arrived - before.arrived,
            self.answered - before.answered,
            self.late - before.late,
            self.dropped - before.dropped,
            self.rejected - before.rejected,
            self.failed - before.failed,
            queued,
            self.open - queued,
            tuple(quantile(ordered, q) for q in (0.5, 0.9, 0.99)) if ordered else (),
            cancelled=self.cancelled - before.cancelled,
            rows=self.rows - before.rows,
        )


class ExecutorCounts:
    """One executor's batches since the last report."""

    def __init__(self) -> None:
        self.requests = 0
        self._models: dict[str, list[float]] = {}  # batches, rows, busy, waited

    def batch(self, model: str, requests: int, rows: int, busy_s: float, waited_s: float) -> None:
        """A batch ended."""
        self.requests += requests
        counts = self._models.setdefault(model, [0, 0, 0.0, 0.0])
        counts[0] += 1
        counts[1] += rows
        counts[2] += busy_s
        counts[3] += waited_s

    def period(self, executor: str, connected: bool) -> ExecutorTraffic:
        """The counts since the last call."""
        models = tuple(BatchTraffic(m, int(c[0]), int(c[1]), c[2], c[3]) for m, c in self._models.items())
        requests, self.requests, self._models = self.requests, 0, {}
        batches, busy_s = sum(m.batches for m in models), sum(m.busy_s for m in models)
        return ExecutorTraffic(executor, batches, requests, busy_s, connected, models)


def quantile(ordered: list[float], q: float) -> float:
    """The smallest value that at least a part `q` of the (not empty, ascending) values does not exceed."""
    return ordered[min(len(ordered) - 1, max(0, -int(-q * len(ordered) // 1) - 1))]
