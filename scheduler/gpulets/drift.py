"""Does the device's table still hold? Live batch times against what the table says, with hysteresis by elapsed time.

`step` is a function of a frozen state: observations in, state and orders out. A model that is slower at a share than
the table tells for `hold_s` is ordered to be reckoned with as such at once (ScaleTable: plans stay safe), and to be
measured again (Reprofile), at most once in `dwell_s`. One that is faster only wastes share: it is measured again after
`hold_faster_s`. One that is refused for its slow times is tried again after a while (ForgetScale). Noise, a few slow
batches, a single partial report do nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.front_messages import BatchTraffic, Layout, TrafficReport
from edge.core.serving import DeviceTable


@dataclass(frozen=True)
class DriftRule:
    """`tolerance`: departure (0.2: 20 % slower, or faster by the same factor) that counts; an episode ends only under
    `clear`. Live times are smoothed with `half_life_s` of elapsed time and count from `least_batches` batches on.
    After `forget_s` without a batch nothing is known any more. One order scales by at most `most_scale`. A model that
    is refused with the table so scaled runs no batch that could show better times: after `retry_s` without one it is
    reckoned with as the table says again."""

    tolerance: float = 0.2
    clear: float = 0.1
    hold_s: float = 20.0
    hold_faster_s: float = 300.0
    half_life_s: float = 10.0
    least_batches: int = 30
    dwell_s: float = 600.0
    forget_s: float = 120.0
    most_scale: float = 4.0
    retry_s: float = 600.0

    def __post_init__(self) -> None:
        checks.in_range("drift.tolerance", self.tolerance, 0.0, 10.0, low_open=True)
        if not 0.0 <= self.clear < self.tolerance:
            raise InvalidValue("drift.clear", self.clear, f"from 0 to below the tolerance {self.tolerance}")
        for name in ("hold_s", "hold_faster_s", "dwell_s"):
            checks.in_range(f"drift.{name}", getattr(self, name), 0.0, 1e9)
        for name in ("half_life_s", "forget_s", "retry_s"):
            checks.positive(f"drift.{name}", getattr(self, name))
        checks.in_range("drift.least_batches", self.least_batches, 1, 1_000_000_000)
        checks.in_range("drift.most_scale", self.most_scale, 1.0, 1000.0, low_open=True)


@dataclass(frozen=True)
class MeasuredBatches:
    """Batches of one model at one share (percent) since the last report: their mean time and the time planned for such
    batches, both of the batch itself in milliseconds (`DeviceTable.busy_ms`, typical, times the interference).
    """

    model: str
    share: int
    batches: int
    observed_ms: float
    expected_ms: float

    def __post_init__(self) -> None:
        checks.in_range("share", self.share, 1, 100)
        checks.in_range("batches", self.batches, 0, 1_000_000_000)
        if self.batches:
            checks.positive("observed_ms", self.observed_ms)
        checks.positive("expected_ms", self.expected_ms)


@dataclass(frozen=True)
class Watched:
    """The estimate for a model at a share: smoothed logarithm of observed / expected, the weight behind it in batches,
    since when it is outside the tolerance (None: it is not), on which side, and how many batches ran since then."""

    log_ratio: float
    weight: float
    seen_s: float
    outside_s: float | None = None
    slower: bool = False
    outside_batches: int = 0

    @property
    def ratio(self) -> float:
        """Observed over expected."""
        return math.exp(self.log_ratio)


@dataclass(frozen=True)
class DriftState:
    """All that is watched, by (model, share in percent), when each was last ordered to be measured again, and when
    models whose table is scaled last ran a batch."""

    watched: Mapping[tuple[str, int], Watched] = field(default_factory=dict)
    asked_s: Mapping[tuple[str, int], float] = field(default_factory=dict)
    scaled_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ScaleTable:
    """Reckon with `factor` times the table's latency of `model` from now on: it was seen at `share` percent, and goes
    for all shares but those at which the table was seen to hold (`holds`)."""

    model: str
    share: int
    factor: float
    reason: str
    holds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Reprofile:
    """Measure `model` at `share` percent again."""

    model: str
    share: int
    ratio: float
    reason: str


@dataclass(frozen=True)
class ForgetScale:
    """Reckon with `model` as the table says again: its measured times are old, and no batches can show better ones."""

    model: str
    reason: str


DriftOrder = ScaleTable | Reprofile | ForgetScale


def batch_times(
    table: DeviceTable, share: int, traffic: BatchTraffic, interference: float = 1.0
) -> MeasuredBatches | None:
    """The front's report of one model on one executor (of `share` percent) as an observation; `interference` is
    the factor that the plan reckons with there. None where nothing can be compared: no batch ran, or the table has no
    such model or share."""
    rows = table.latency_ms.get(traffic.model, {})
    if traffic.batches <= 0 or traffic.busy_s <= 0.0 or share not in rows:
        return None
    mean = min(max(1.0, traffic.rows / traffic.batches), float(len(rows[share])))
    expected = table.busy_ms(traffic.model, share, mean, typical=True) * interference
    return MeasuredBatches(traffic.model, share, traffic.batches, 1000.0 * traffic.busy_s / traffic.batches, expected)


def observations(table: DeviceTable, layout: Layout, report: TrafficReport) -> tuple[MeasuredBatches, ...]:
    """The observations in a front's report of each model on each executor that `layout` routes to. Executors without a
    route, and models that were planned with a table of other shares or batches, tell nothing."""
    routes = {route.executor: route for route in layout.routes}
    times = []
    for executor in report.executors:
        route = routes.get(executor.executor)
        if route is None:
            continue
        for seen in executor.models:
            share, planned = route.gpulet.percent, route.batch_ms.get(seen.model)
            batch = next((b.batch for b in route.gpulet.models if b.model == seen.model), None)
            if planned is None or batch is None:
                continue
            try:
                slowdown = max(1.0, planned / table.solo_ms(seen.model, share, batch))
                found = batch_times(table, share, seen, slowdown)
            except InvalidValue:
                continue  # planned with the table before this one, which had other shares or batches
            if found is not None:
                times.append(found)
    return tuple(times)


def step(
    rule: DriftRule,
    state: DriftState,
    at_s: float,
    times: Iterable[MeasuredBatches],
    refused: Collection[str] = (),
) -> tuple[DriftState, tuple[DriftOrder, ...]]:
    """Take in one report at monotonic time `at_s`, and the models that the plan in force has no room for; the orders
    name what to do, with the reason in words.

    After an order what was seen is forgotten: the table is another one then. Reports of one (model, share) in the same
    call are added up.
    """
    watched = {k: w for k, w in state.watched.items() if at_s - w.seen_s <= rule.forget_s}
    asked, scaled_s = dict(state.asked_s), dict(state.scaled_s)
    orders: list[DriftOrder] = []
    for key, report in sorted(_added(times).items()):
        if key[0] in scaled_s:
            scaled_s[key[0]] = at_s
        seen = _mark(rule, _blend(rule, watched.get(key), at_s, report), at_s, report.batches)
        watched[key] = seen
        hold = rule.hold_s if seen.slower else rule.hold_faster_s
        if seen.outside_s is None or at_s - seen.outside_s < hold or seen.outside_batches < rule.least_batches:
            continue
        holds = tuple(sorted(p for (m, p), w in watched.items() if m == key[0] and w.outside_s is None))
        made = _orders(rule, key, seen, at_s, asked.get(key), holds)
        if made:
            orders += made
            del watched[key]
        if any(isinstance(order, Reprofile) for order in made):
            asked[key] = at_s
        if any(isinstance(order, ScaleTable) for order in made):
            scaled_s[key[0]] = at_s
    for model in sorted(m for m, last_s in scaled_s.items() if m in refused and at_s - last_s >= rule.retry_s):
        why = f"{model} has no room with the batch times seen {at_s - scaled_s.pop(model):.0f} s ago: tried again"
        orders.append(ForgetScale(model, f"{why} with those of the table"))
    return DriftState(watched, asked, scaled_s), tuple(orders)


def scaled(table: DeviceTable, orders: Iterable[DriftOrder]) -> DeviceTable:
    """The table with ScaleTable orders carried out. A smaller share is never left faster than a larger one: a share
    that was not seen gives way to those that were, and the smaller of two that were seen is the slower one.

    Orders for what the table does not hold, and orders of other kinds, change nothing.
    """
    latency = {model: dict(rows) for model, rows in table.latency_ms.items()}
    changes: dict[str, float] = {}
    for order in orders:
        rows = latency.get(order.model)
        if not isinstance(order, ScaleTable) or rows is None or order.share not in rows:
            continue
        changes[order.model] = changes.get(order.model, 1.0) * order.factor
        held = {share for share in order.holds if share in rows and share != order.share}
        for share in rows:
            if share not in held:
                rows[share] = tuple(value * order.factor for value in rows[share])
                if share != order.share:
                    for smaller in sorted(p for p in held if p < share):
                        rows[share] = _each(min, rows[share], rows[smaller])
        slowest: tuple[float, ...] = ()
        for share in sorted(rows, reverse=True):
            rows[share] = _each(max, rows[share], slowest)
            slowest = _each(max, slowest, rows[share]) if len(slowest) > len(rows[share]) else rows[share]
    if not changes:
        return table
    before = table.details.get("scaled")
    factors = dict(before) if isinstance(before, Mapping) else {}
    for model, factor in changes.items():
        factors[model] = round(factor * float(factors.get(model, 1.0)), 4)
    details = {**table.details, "scaled": factors}
    for key in ("run_ms", "typical_ms"):  # the times that live ones are compared with move along (DeviceTable.busy_ms)
        if isinstance(known := details.get(key), Mapping):
            details[key] = {model: _along(table, latency, model, rows) for model, rows in known.items()}
    return replace(table, latency_ms=latency, details=details)


def unscaled(table: DeviceTable, plain: DeviceTable, models: Collection[str]) -> DeviceTable:
    """The scaled `table` with the latencies of `models` as they are in the `plain` one."""
    known = {m: plain.latency_ms[m] for m in models if m in plain.latency_ms and m in table.latency_ms}
    details = dict(table.details)
    for key in ("run_ms", "typical_ms"):
        now, before = details.get(key), plain.details.get(key)
        if isinstance(now, Mapping) and isinstance(before, Mapping):
            details[key] = {**now, **{m: before[m] for m in known if m in before}}
    if isinstance(factors := details.get("scaled"), Mapping):
        details["scaled"] = {m: f for m, f in factors.items() if m not in known}
    return replace(table, latency_ms={**table.latency_ms, **known}, details=details)


def _along(
    table: DeviceTable, latency: Mapping[str, Mapping[int, tuple[float, ...]]], model: str, rows: Any
) -> dict[str, Any]:
    """Rows of `details` (share as text -> a value per batch), each value moved as its latency was."""
    moved = {}
    for share, row in rows.items():
        old = table.latency_ms.get(model, {}).get(int(share), ())
        new = latency.get(model, {}).get(int(share), ())
        same = len(row) == len(old) == len(new)
        moved[share] = [v * b / a for v, a, b in zip(row, old, new, strict=True)] if same else row
    return moved


def _each(
    bound: Callable[[float, float], float], row: tuple[float, ...], other: tuple[float, ...]
) -> tuple[float, ...]:
    """`row` bounded value by value by `other`, as far as that goes."""
    return tuple(bound(value, other[n]) if n < len(other) else value for n, value in enumerate(row))


def _added(times: Iterable[MeasuredBatches]) -> dict[tuple[str, int], MeasuredBatches]:
    sums: dict[tuple[str, int], tuple[int, float, float]] = {}
    for t in times:
        if t.batches:
            n, observed, expected = sums.get((t.model, t.share), (0, 0.0, 0.0))
            sums[t.model, t.share] = (
                n + t.batches,
                observed + t.batches * t.observed_ms,
                expected + t.batches * t.expected_ms,
            )
    return {
        (model, share): MeasuredBatches(model, share, n, observed / n, expected / n)
        for (model, share), (n, observed, expected) in sums.items()
    }


def _blend(rule: DriftRule, before: Watched | None, at_s: float, report: MeasuredBatches) -> Watched:
    """The smoothed ratio: the weight of old batches halves every half-life, each batch counts the same."""
    value = math.log(report.observed_ms / report.expected_ms)
    if before is None:
        return Watched(value, float(report.batches), at_s)
    kept = before.weight * 0.5 ** (max(0.0, at_s - before.seen_s) / rule.half_life_s)
    total = kept + report.batches
    mixed = (before.log_ratio * kept + value * report.batches) / total
    return replace(before, log_ratio=mixed, weight=total, seen_s=at_s)


def _mark(rule: DriftRule, seen: Watched, at_s: float, batches: int) -> Watched:
    """Since when it is outside: it gets out beyond the tolerance and in again only below `clear`."""
    away = abs(seen.log_ratio)
    slower = seen.log_ratio > 0
    if away > math.log1p(rule.tolerance):
        if seen.outside_s is None or seen.slower != slower:
            return replace(seen, outside_s=at_s, slower=slower, outside_batches=batches)
        return replace(seen, outside_batches=seen.outside_batches + batches)
    if seen.outside_s is not None and (away < math.log1p(rule.clear) or seen.slower != slower):
        return replace(seen, outside_s=None, slower=False, outside_batches=0)
    return replace(seen, outside_batches=seen.outside_batches + batches) if seen.outside_s is not None else seen


def _orders(
    rule: DriftRule,
    key: tuple[str, int],
    seen: Watched,
    at_s: float,
    asked_s: float | None,
    holds: tuple[int, ...],
) -> list[DriftOrder]:
    model, share = key
    way = "slower" if seen.slower else "faster"
    reason = (
        f"{model} at {share} %: batches take {seen.ratio:.2f} times what the table tells"
        f" ({way} for {at_s - (seen.outside_s or at_s):.0f} s)"
    )
    orders: list[DriftOrder] = []
    if seen.slower:
        orders.append(ScaleTable(model, share, min(seen.ratio, rule.most_scale), reason, holds))
    if asked_s is None or at_s - asked_s >= rule.dwell_s:
        orders.append(Reprofile(model, share, seen.ratio, reason))
    return orders
