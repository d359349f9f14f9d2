"""Figure 14 of gpu-lets: half an hour with two waves, planned again and again."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.gpulet_device import SLO_MS, device, problem
from benchmarks.gpulet_loads import LABELS, MOST_MISSED, PLANNED
from benchmarks.gpulet_replay import Arrivals, replayed, varying
from benchmarks.reproduction import Cell, Exhibit, Redone, about, judged
from benchmarks.reproduction import spread as over_seeds
from edge.core.serving import Gpulet, ServingPlan
from scheduler.gpulets.policies import serving_policy
from scheduler.gpulets.rates import RateEstimate, planned_rate
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings

#: Seconds in all, of the paper's period, until partitions are ready, and between two looks of the product.
WAVE_S, PERIOD_S, READY_S, LOOK_S = 1800.0, 20.0, 15.0, 2.0


def figure_14(seeds: Sequence[int]) -> Exhibit:
    """Two waves of half an hour."""
    found: dict[str, list[tuple[float, ...]]] = {LABELS["elastic"]: [], LABELS["mosaic"]: []}
    for seed in seeds:
        rates = _waves(seed)
        arrivals = varying(rates, WAVE_S, seed)
        for who, followed in ((LABELS["elastic"], _periods), (LABELS["mosaic"], _looks)):
            plans = followed(arrivals)
            out = replayed(device(), plans, arrivals, SLO_MS, WAVE_S)
            shares = _shares(plans)
            asked = [sum(_rate_at(rates[m], t) for m in rates) for t in range(int(WAVE_S))]
            found[who].append(
                (
                    100 * out.part,
                    float(np.corrcoef(asked, shares)[0, 1]),
                    min(shares),
                    max(shares),
                    statistics.fmean(shares),
                    len(plans),
                )
            )
    rows: list[tuple[Cell, ...]] = [("paper: gpulet+int", 0.14, "follows", None, None, None, None)]
    for who, values in found.items():
        columns = list(zip(*values, strict=True))
        rows.append(
            (who, over_seeds(columns[0], 2), *(over_seeds(c, 2) for c in columns[1:5]), over_seeds(columns[5], 0))
        )
    published, ours = ([statistics.fmean(c) for c in zip(*values, strict=True)] for values in found.values())
    return Redone(
        "Figure 14",
        "half an hour with two waves",
        "Sizes of gpu-lets follow the rates of two waves, the second higher, and only 0.14 % of requests miss their "
        "objective, which the paper puts down to errors in predicted rates.",
        "five models with waves of our own (the paper's are not published; `benchmarks/gpulet_waves.py`), random "
        "arrivals, four devices. "
        f"Published: every {PERIOD_S:g} s a plan for the moving average of rates, in force {READY_S:g} s later; "
        "ours: the product's own averages, head-room and dwell times, in force as late",
        ("", "missed %", "correlation with the rate", "share, least", "share, most", "share, mean", "plans"),
        tuple(rows),
        judged(published[1] > 0.8 and published[0] <= 100 * MOST_MISSED, about(published[0], 0.14)),
        f"gpulet+int misses {published[0]:.0f} % here and mosaic {ours[0]:.0f} %, where the paper's scheduler misses "
        f"0.14 %. The shares change with the rates (correlation {published[1]:.2f} and {ours[1]:.2f}), but the "
        "objectives are not kept, and ours is the worse of the two. We did not find out whether the slope of our "
        f"waves, the {READY_S:g} s of delay or our replay is at fault. `python -m benchmarks.bench_serving_run wave` "
        "puts a wave on the real appliance.",
    )


def _waves(seed: int) -> dict[str, list[tuple[float, float]]]:
    """Requests/s by model in steps of 10 s: a wave from 0 to 600 s, a higher one from 900 to 1,500 s."""
    rng = random.Random(f"waves {seed}")
    rates = {}
    for model in SLO_MS:
        base, first, second = rng.uniform(30, 60), rng.uniform(100, 160), rng.uniform(180, 240)
        late = rng.uniform(-60, 60)
        steps = []
        for t in np.arange(0.0, WAVE_S, 10.0):
            up = first * _hill(t - late, 0, 600) + second * _hill(t - late, 900, 1500)
            steps.append((float(t), base + up))
        rates[model] = steps
    return rates


def _hill(t: float, begin: float, end: float) -> float:
    return math.sin(math.pi * (t - begin) / (end - begin)) ** 2 if begin < t < end else 0.0


def _rate_at(steps: Sequence[tuple[float, float]], t: float) -> float:
    return steps[min(len(steps) - 1, int(t // 10))][1]


Plans = list[tuple[float, Sequence[Gpulet]]]


def _counter(arrivals: Arrivals) -> Callable[[float, float], dict[str, int]]:
    times = {m: np.array(found) for m, found in arrivals.items()}
    return lambda a, b: {m: int(np.searchsorted(t, b) - np.searchsorted(t, a)) for m, t in times.items()}


def _plan(name: str, rates: Mapping[str, float]) -> ServingPlan:
    return serving_policy(name).plan(problem({m: (r, SLO_MS[m]) for m, r in rates.items()}), device())


def _periods(arrivals: Arrivals) -> Plans:
    """The paper's scheduler: each period a plan for the moving average."""
    count = _counter(arrivals)
    rates = {m: n / PERIOD_S for m, n in count(0.0, PERIOD_S).items()}
    plans: Plans = [(0.0, _plan("elastic", {m: planned_rate(r, PLANNED) for m, r in rates.items()}).gpulets)]
    for begin in np.arange(PERIOD_S, WAVE_S - READY_S, PERIOD_S):
        seen = count(begin - PERIOD_S, begin)
        rates = {m: 0.5 * r + 0.5 * seen[m] / PERIOD_S for m, r in rates.items()}
        plan = _plan("elastic", {m: planned_rate(r, PLANNED) for m, r in rates.items()})
        if plan.schedulable:
            plans.append((float(begin) + READY_S, plan.gpulets))
    return plans


def _looks(arrivals: Arrivals) -> Plans:
    """The product's rules of when to plan and for which rates, with its planner."""
    count, settings = _counter(arrivals), ReorganiserSettings()
    seen = {m: RateEstimate.starting(n / PERIOD_S) for m, n in count(0.0, PERIOD_S).items()}
    held = {m: planned_rate(e.rate, settings.rates) for m, e in seen.items()}
    plans: Plans = [(0.0, _plan("mosaic", held).gpulets)]
    planned_s = 0.0
    for now in np.arange(LOOK_S, WAVE_S - READY_S, LOOK_S):
        arrived = count(now - LOOK_S, now)
        seen = {m: e.seen(arrived[m], LOOK_S, settings.rates) for m, e in seen.items()}
        wanted = {m: planned_rate(e.rate, settings.rates) for m, e in seen.items()}
        more = any(wanted[m] > (1 + settings.grow) * held[m] for m in held)
        less = any(wanted[m] < (1 - settings.shrink) * held[m] for m in held)
        waits = now - planned_s < max(READY_S, settings.grow_dwell_s if more else settings.shrink_dwell_s)
        if not (more or less) or waits:
            continue
        plan = _plan("mosaic", wanted)
        planned_s = float(now)
        if plan.schedulable:
            held = wanted
            plans.append((float(now) + READY_S, plan.gpulets))
    return plans


def _shares(plans: Plans) -> list[float]:
    """Devices' worth of gpu-lets in force, each second."""
    found, n = [], 0
    for t in range(int(WAVE_S)):
        while n + 1 < len(plans) and plans[n + 1][0] <= t:
            n += 1
        found.append(sum(g.share for g in plans[n][1]))
    return found
