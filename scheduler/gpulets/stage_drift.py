"""Do the stages of applications keep their budgets? The 99th percentile of their time against the budget planned, with
hysteresis by elapsed time.

`step` is a function of a frozen state, as `scheduler.gpulets.drift.step`: reports in, state and factors out. Batches
may take what the table says and a stage still be later than its budget: the front's own work, requests that come
together, a neighbour. Then plans reckon with that model as so much slower, until it would be in time without.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from edge.core import checks
from edge.core.front_messages import StageTraffic
from edge.core.serving import DeviceTable
from edge.core.serving_reasons import ServingReason
from scheduler.gpulets.drift import ScaleTable, scaled


@dataclass(frozen=True)
class StageRule:
    """A stage leaves its budget when the smoothed quantile (`half_life_s`) is above it for `hold_s` and `least_answers`
    answers. Its model is then planned slower by what it was late, `most` at most. It is planned as measured once it
    would have kept `clear` of its budget without for `release_s`. Two changes for a model are `dwell_s` apart; after
    `forget_s` without an answer nothing is known any more."""

    clear: float = 0.9
    hold_s: float = 30.0
    release_s: float = 300.0
    half_life_s: float = 10.0
    least_answers: int = 100
    dwell_s: float = 60.0
    forget_s: float = 120.0
    most: float = 2.0

    def __post_init__(self) -> None:
        checks.in_range("stages.clear", self.clear, 0.0, 1.0, low_open=True)
        for name in ("hold_s", "release_s", "dwell_s"):
            checks.in_range(f"stages.{name}", getattr(self, name), 0.0, 1e9)
        for name in ("half_life_s", "forget_s"):
            checks.positive(f"stages.{name}", getattr(self, name))
        checks.in_range("stages.least_answers", self.least_answers, 1, 1_000_000_000)
        checks.in_range("stages.most", self.most, 1.0, 1000.0, low_open=True)


@dataclass(frozen=True)
class WatchedStage:
    """A stage's estimate: smoothed logarithm of quantile / budget, the weight behind it in answers, when it was last
    seen, and since when it is late or has time to spare (`since_s`, None: neither) with the answers since then."""

    model: str
    log_ratio: float
    weight: float
    seen_s: float
    late: bool = False
    since_s: float | None = None
    answers: int = 0


@dataclass(frozen=True)
class StageDriftState:
    """The stages watched, by (application, stage); by model how much slower it is planned (above 1; others: as
    measured), and when that was changed last.
    """

    watched: Mapping[tuple[str, str], WatchedStage] = field(default_factory=dict)
    factors: Mapping[str, float] = field(default_factory=dict)
    changed_s: Mapping[str, float] = field(default_factory=dict)

    def without(self, models: Collection[str]) -> StageDriftState:
        """With all forgotten that was seen of these models: their latencies are others now."""
        return StageDriftState(
            {key: w for key, w in self.watched.items() if w.model not in models},
            {m: f for m, f in self.factors.items() if m not in models},
            {m: s for m, s in self.changed_s.items() if m not in models},
        )


def step(
    rule: StageRule, state: StageDriftState, at_s: float, stages: Iterable[StageTraffic], excused: Collection[str] = ()
) -> tuple[StageDriftState, tuple[ServingReason, ...]]:
    """Take in one report at monotonic time `at_s`; the state's `factors` are those to plan with from now on, and the
    reasons say what changed. Models that are `excused` (capped, refused) cannot do better and are left out."""
    watched = {key: w for key, w in state.watched.items() if at_s - w.seen_s <= rule.forget_s}
    for stage in stages:
        if stage.answered and stage.budget_ms > 0 and len(stage.took_ms) > 1 and stage.took_ms[1] > 0:
            key = stage.application, stage.stage
            seen = _blend(rule, watched.get(key), at_s, stage)
            watched[key] = _mark(rule, seen, at_s, stage.answered, state.factors.get(stage.model, 1.0))
    factors, changed = dict(state.factors), dict(state.changed_s)
    reasons: list[ServingReason] = []
    for model in sorted({w.model for w in watched.values()} - set(excused)):
        if at_s - changed.get(model, -math.inf) < rule.dwell_s:
            continue
        before = factors.get(model, 1.0)
        factor, reason = _factor(rule, model, {k: w for k, w in watched.items() if w.model == model}, at_s, before)
        if reason is None or factor == before:
            continue
        reasons.append(reason)
        factors[model], changed[model] = factor, at_s
        # Observations from here on belong to another plan.
        watched = {k: w for k, w in watched.items() if w.model != model}
    # A model whose stages get no more requests is planned as measured.
    asked = {w.model for w in watched.values()} | {m for m, s in changed.items() if at_s - s <= rule.forget_s}
    factors = {m: f for m, f in factors.items() if f > 1.0 and m in asked}
    return StageDriftState(watched, factors, changed), tuple(reasons)


def slowed(table: DeviceTable, factors: Mapping[str, float]) -> DeviceTable:
    """The table to plan with: each model so much slower at all shares. Models that it does not have change nothing."""
    orders = (
        ScaleTable(model, min(table.latency_ms[model]), factor, "")
        for model, factor in factors.items()
        if model in table.latency_ms
    )
    return scaled(table, orders)


def _factor(
    rule: StageRule, model: str, stages: Mapping[tuple[str, str], WatchedStage], at_s: float, before: float
) -> tuple[float, ServingReason | None]:
    """How much slower to plan a model with these stages, and why."""
    late = {
        key: w
        for key, w in stages.items()
        if w.late and w.since_s is not None and at_s - w.since_s >= rule.hold_s and w.answers >= rule.least_answers
    }
    if late:
        (application, stage), worst = max(late.items(), key=lambda item: item[1].log_ratio)
        ratio = math.exp(worst.log_ratio)
        factor = min(rule.most, before * ratio)
        return factor, ServingReason(
            "stage_late", model, application, stage, numbers={"ratio": ratio, "factor": factor}
        )
    spare = all(not w.late and w.since_s is not None and at_s - w.since_s >= rule.release_s for w in stages.values())
    if before > 1.0 and spare:
        return 1.0, ServingReason("stage_in_time", model)
    return before, None


def _blend(rule: StageRule, before: WatchedStage | None, at_s: float, stage: StageTraffic) -> WatchedStage:
    value = math.log(stage.took_ms[1] / stage.budget_ms)
    if before is None or before.model != stage.model:
        return WatchedStage(stage.model, value, float(stage.answered), at_s)
    kept = before.weight * 0.5 ** (max(0.0, at_s - before.seen_s) / rule.half_life_s)
    total = kept + stage.answered
    mixed = (before.log_ratio * kept + value * stage.answered) / total
    return replace(before, log_ratio=mixed, weight=total, seen_s=at_s)


def _mark(rule: StageRule, seen: WatchedStage, at_s: float, answers: int, factor: float) -> WatchedStage:
    """Since when it is late, or has time to spare: were it planned as measured it would take `factor` times as long."""
    late, clear = seen.log_ratio > 0.0, math.log(rule.clear)
    if late or seen.log_ratio + math.log(factor) < clear:
        if seen.since_s is None or seen.late != late:
            return replace(seen, since_s=at_s, late=late, answers=answers)
        return replace(seen, answers=seen.answers + answers)
    if seen.late and seen.log_ratio > clear:
        return replace(seen, answers=seen.answers + answers)  # a stage a little less late counts as late still
    return replace(seen, since_s=None, late=False, answers=0)
