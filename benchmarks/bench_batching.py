"""Batching rules on simulated minutes: `python -m benchmarks.bench_batching [--seconds 60] [--seeds 3]`.

One model on one gpu-let, and the same on two unequal ones; Poisson arrivals at a part of the planned rate. The rules of
`scheduler.gpulets.batching` are compared with (a) running all waiting requests as soon as the executor is free,
dropping nothing, and (b) the rule of the gpu-let paper's front: a batch goes when it is full or a duty cycle has
passed, and heads that cannot be answered in time are dropped. No clock is involved: the result is the same on every
machine. Writes benchmarks/results/batching.json.
"""

from __future__ import annotations

import argparse
import heapq
import json
import platform
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edge.core.batching import Lane
from scheduler.gpulets.batching import DeadlineBatching

RESULTS = Path(__file__).parent / "results" / "batching.json"
LOADS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.1, 1.5, 2.0)


@dataclass(frozen=True)
class SimulatedRequest:
    """A request of the simulation."""

    deadline_s: float
    rows: int = 1
    kind: int = 0
    alone: bool = False


def lane(name: str = "e", batch: int = 8, one_s: float = 0.01, more_s: float = 0.002, free_s: float = 0.0) -> Lane:
    """A lane whose batch takes `one_s` and `more_s` for every row beyond the first."""
    times = tuple(one_s + more_s * n for n in range(batch))
    return Lane(name, batch, times, free_s, times[-1])


@dataclass
class Outcome:
    """The fates of all requests; rows and batches per lane."""

    in_time: int = 0
    late: int = 0
    dropped: int = 0
    rows: tuple[int, ...] = ()
    batches: tuple[int, ...] = ()
    latencies_s: list[float] = field(default_factory=list)

    @property
    def missed(self) -> float:
        """Part of all requests that was not answered in time."""
        return 1.0 - self.in_time / max(1, self.in_time + self.late + self.dropped)

    def latency_s(self, q: float) -> float:
        """Quantile of the latencies of what was answered."""
        return sorted(self.latencies_s)[int(q * (len(self.latencies_s) - 1))]


def simulate(executors: Sequence[Lane], arrivals_s: Sequence[float], slo_s: float, admit: bool = True) -> Outcome:
    """Requests of one model on some lanes, as the front does it: a lane asks for work when it is free."""
    rules = DeadlineBatching()
    waiting: list[SimulatedRequest] = []
    free = [0.0] * len(executors)
    rows, batches = [0] * len(executors), [0] * len(executors)
    out = Outcome()
    events: list[tuple[float, int]] = [(at, -1) for at in arrivals_s]
    heapq.heapify(events)

    def seen(now_s: float) -> list[Lane]:
        return [one._replace(free_s=max(now_s, at)) for one, at in zip(executors, free, strict=True)]

    while events:
        now_s, who = heapq.heappop(events)
        if who == -1:
            asked = SimulatedRequest(now_s + slo_s)
            if admit and rules.hopeless(len(waiting), 1, asked.deadline_s, seen(now_s), now_s):
                out.dropped += 1
            else:
                waiting.append(asked)
        for n in range(len(executors)):
            if free[n] > now_s or not waiting:
                continue
            every = seen(now_s)
            formed = rules.form(waiting, every[n], every[:n] + every[n + 1 :], now_s)
            for index in reversed(formed.drop):
                out.dropped += 1
                waiting.pop(index)
            taken = [index - sum(d < index for d in formed.drop) for index, _ in formed.take]
            if taken:
                took_s = executors[n].times_s[len(taken) - 1]
                free[n] = now_s + took_s
                for index in reversed(taken):
                    deadline_s = waiting.pop(index).deadline_s
                    ok = deadline_s >= free[n] - 1e-9
                    out.latencies_s.append(free[n] - deadline_s + slo_s)
                    out.in_time += ok
                    out.late += not ok
                rows[n] += len(taken)
                batches[n] += 1
                heapq.heappush(events, (free[n], n))
            elif formed.again_s is not None:
                heapq.heappush(events, (formed.again_s, n))
    out.dropped += len(waiting)
    out.rows, out.batches = tuple(rows), tuple(batches)
    return out


def poisson(rate: float, seconds: float, seed: int = 7) -> list[float]:
    rng = random.Random(seed)
    at, out = 0.0, []
    while (at := at + rng.expovariate(rate)) < seconds:
        out.append(at)
    return out


def served_without_deadlines(only: Lane, arrivals_s: Sequence[float], slo_s: float) -> Outcome:
    """Serve requests in order of arrival as soon as the lane is free, and drop none."""
    now_s, at, out, batches = 0.0, 0, Outcome(), 0
    while at < len(arrivals_s):
        now_s = max(now_s, arrivals_s[at])
        end = at
        while end < len(arrivals_s) and end - at < only.batch and arrivals_s[end] <= now_s:
            end += 1
        now_s += only.times_s[end - at - 1]
        out.latencies_s += [now_s - a for a in arrivals_s[at:end]]
        at, batches = end, batches + 1
    out.in_time = sum(latency <= slo_s for latency in out.latencies_s)
    out.late = len(arrivals_s) - out.in_time
    out.rows, out.batches = (len(arrivals_s),), (batches,)
    return out


def full_or_cycle(only: Lane, arrivals_s: Sequence[float], slo_s: float) -> Outcome:
    """The paper's rule: a batch goes when it is full, or when a duty cycle has passed since the last one went."""
    cycle_s = only.times_s[-1]
    now_s, last_s, at, out, rows, batches = 0.0, 0.0, 0, Outcome(), 0, 0
    waiting: list[float] = []
    while at < len(arrivals_s) or waiting:
        if not waiting:
            now_s = max(now_s, arrivals_s[at])
        while at < len(arrivals_s) and arrivals_s[at] <= now_s:
            waiting.append(arrivals_s[at])
            at += 1
        if len(waiting) < only.batch and now_s < last_s + cycle_s:
            coming_s = arrivals_s[at] if at < len(arrivals_s) else last_s + cycle_s
            now_s = min(max(now_s, coming_s), last_s + cycle_s)
            continue
        while waiting and waiting[0] + slo_s < now_s + only.time_s(len(waiting)):
            waiting.pop(0)
            out.dropped += 1
        taken, waiting = waiting[: only.batch], waiting[only.batch :]
        if taken:
            last_s = now_s
            now_s += only.times_s[len(taken) - 1]
            out.latencies_s += [now_s - a for a in taken]
            out.in_time += sum(now_s - a <= slo_s + 1e-9 for a in taken)
            rows, batches = rows + len(taken), batches + 1
    out.late = len(out.latencies_s) - out.in_time
    out.rows, out.batches = (rows,), (batches,)
    return out


Rule = Callable[[Sequence[float]], Outcome]


def _row(rule: Rule, rate: float, seconds: float, seeds: int) -> dict[str, Any]:
    found = [rule(poisson(rate, seconds, seed)) for seed in range(seeds)]
    missed = [f.missed for f in found]
    lanes = len(found[0].rows)
    return {
        "missed": statistics.fmean(missed),
        "missed_spread": max(missed) - min(missed),
        "p50_ms": 1000 * statistics.fmean(f.latency_s(0.5) for f in found),
        "p99_ms": 1000 * statistics.fmean(f.latency_s(0.99) for f in found),
        "rows_per_batch": statistics.fmean(sum(f.rows) / max(1, sum(f.batches)) for f in found),
        "shares": [round(statistics.fmean(f.rows[n] / sum(f.rows) for f in found), 3) for n in range(lanes)],
    }


def main() -> None:
    """Print the table and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    big = lane("big", batch=16, one_s=0.008, more_s=0.001)  # full: 23 ms
    small = lane("small", batch=4, one_s=0.012, more_s=0.004)  # full: 24 ms
    slo_s = 0.060
    one_rate, two_rate = 16 / 0.023, 16 / 0.023 + 4 / 0.024
    cases: dict[str, tuple[float, Rule]] = {
        "one gpu-let, magpie": (one_rate, lambda a: simulate([big], a, slo_s)),
        "one gpu-let, nothing dropped": (one_rate, lambda a: served_without_deadlines(big, a, slo_s)),
        "one gpu-let, full or duty cycle": (one_rate, lambda a: full_or_cycle(big, a, slo_s)),
        "two gpu-lets 4:1, magpie": (two_rate, lambda a: simulate([small, big], a, slo_s)),
    }
    rows = []
    print(f"{'rule':34} {'load':>5} {'missed':>8} {'least':>7} {'p50 ms':>7} {'p99 ms':>7} {'rows/batch':>10}  shares")
    for name, (rate, rule) in cases.items():
        for load in LOADS:
            row = _row(rule, load * rate, args.seconds, args.seeds)
            least = max(0.0, 1 - 1 / load)
            rows.append({"rule": name, "load": load, "least_possible": least, **row})
            print(
                f"{name:34} {load:5.2f} {row['missed']:8.2%} {least:7.1%} {row['p50_ms']:7.1f} {row['p99_ms']:7.1f} "
                f"{row['rows_per_batch']:10.1f}  {row['shares'] if len(row['shares']) > 1 else ''}"
            )
    RESULTS.parent.mkdir(exist_ok=True)
    result = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": platform.platform(),
        "simulated_seconds": args.seconds,
        "seeds": args.seeds,
        "slo_ms": 1000 * slo_s,
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
