"""Figure 14 of gpu-lets: half an hour with two waves, planned again and again."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

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
#: Part of the published moving average that a new period replaces; the paper does not name it.
NEW = 0.5
#: Requests that the paper's scheduler missed, in percent.
PAPER_MISSED = 0.14
#: The two models with the strictest objectives.
STRICT = sorted(SLO_MS, key=SLO_MS.__getitem__)[:2]


@dataclass(frozen=True)
class Case:
    """One change to the run: seconds until a plan is in force; how much longer and higher the waves are; the part of
    the published moving average that a period replaces; whether plans are made for the highest true rate while they are
    in force (`known`); whether all rates stay at the top of the higher wave (`steady`)."""

    words: str
    ready_s: float = READY_S
    longer: float = 1.0
    higher: float = 1.0
    new: float = NEW
    known: bool = False
    steady: bool = False

    @property
    def seconds(self) -> float:
        """Of the whole run."""
        return WAVE_S * self.longer


CASES = {
    "base": Case(""),
    "at once": Case("plans in force at once", ready_s=0.0),
    "half as steep": Case("waves twice as long", longer=2.0),
    "half as high": Case("waves half as high", higher=0.5),
    "known": Case("rates known before, plans in force at once", known=True),
    "steady": Case("rates known, steady at the higher top", known=True, steady=True),
}
#: For the published scheduler only: the product has averages of its own.
LAST_PERIOD = Case("rates of the last 20 s alone", new=1.0)


def figure_14(seeds: Sequence[int]) -> Exhibit:
    """Two waves of half an hour."""
    rows: list[tuple[Cell, ...]] = [("paper: gpulet+int", PAPER_MISSED, "follows", None, None, None, None)]
    found: dict[tuple[str, str], Sequence[float]] = {}
    for policy in ("elastic", "mosaic"):
        cases = CASES | ({"last period": LAST_PERIOD} if policy == "elastic" else {})
        for key, case in cases.items():
            columns = list(zip(*(_run(policy, case, seed) for seed in seeds), strict=True))
            found[policy, key] = [statistics.fmean(c) for c in columns]
            follows = None if case.steady else over_seeds(columns[1], 2)
            spreads = (*(over_seeds(c, 2) for c in columns[2:5]), over_seeds(columns[5], 0))
            label = ", ".join(w for w in (LABELS[policy], case.words) if w)
            rows.append((label, over_seeds(columns[0], 2), follows, *spreads))
    published = found["elastic", "base"]
    return Redone(
        "Figure 14",
        "half an hour with two waves",
        f"Sizes of gpu-lets follow the rates of two waves, the second higher, and only {PAPER_MISSED} % of requests "
        "miss their objective, which the paper puts down to errors in predicted rates.",
        "five models with waves of our own (`benchmarks/gpulet_waves.py`): the paper's text names their times (0 to "
        "600 s, and from 900 s on a higher one), period and delay (20 s, and 10 to 15 s), but no rates; random "
        "arrivals, four devices. "
        f"Published: every {PERIOD_S:g} s a plan for the moving average of rates, of which the last period is "
        f"{NEW:g} (our choice), in force {READY_S:g} s later; ours: the product's own averages, head-room and dwell "
        "times, in force as late. Other rows change what they name",
        ("", "missed %", "correlation with the rate", "share, least", "share, most", "share, mean", "plans"),
        tuple(rows),
        judged(published[1] > 0.8 and published[0] <= 100 * MOST_MISSED, about(published[0], PAPER_MISSED)),
        _why(found, statistics.fmean(map(_room, seeds))),
    )


def _why(found: Mapping[tuple[str, str], Sequence[float]], room: float) -> str:
    def both(key: str) -> str:
        return f"{found['elastic', key][0]:.2f} and {found['mosaic', key][0]:.2f} %"

    published, ours = found["elastic", "base"], found["mosaic", "base"]
    strict = [100 * found[policy, "steady"][6] for policy in ("elastic", "mosaic")]
    return (
        f"gpulet+int misses {published[0]:.2f} % here and mosaic {ours[0]:.2f} %, where the paper's scheduler misses "
        f"{PAPER_MISSED} %. The shares change with the rates (correlation {published[1]:.2f} and {ours[1]:.2f}). "
        "The paper puts "
        f"its misses down to predicted rates. Here, with rates known before, {both('known')} are missed, so "
        f"{100 * (1 - found['elastic', 'known'][0] / published[0]):.0f} % of gpulet+int's and "
        f"{100 * (1 - found['mosaic', 'known'][0] / ours[0]):.0f} % of mosaic's misses come from plans that are late. "
        f"The reorganisation is one part of that (plans in force at once: {both('at once')} are missed), the moving "
        f"average another (gpulet+int for the rates of the last {PERIOD_S:g} s alone: "
        f"{found['elastic', 'last period'][0]:.2f} %), and the slope decides how much both cost (waves twice as long: "
        f"{both('half as steep')}; half as high: {both('half as high')}). The rest comes of bursts: with known, steady "
        f"rates at the higher top {both('steady')} are missed, more than the paper's {PAPER_MISSED:g} %, and "
        f"{min(strict):.0f} % of them or more are of {' and '.join(STRICT)}, whose objectives of "
        f"{' and '.join(f'{SLO_MS[m]:g}' for m in STRICT)} ms leave the least time. The devices suffice: gpulet+int "
        f"has a plan for {room:.1f} times that top. The paper "
        "names neither its rates nor the weight of its average, so it is not known how steep its waves are. "
        "`python -m benchmarks.bench_serving_run wave` puts a wave on the real appliance."
    )


def _run(policy: str, case: Case, seed: int) -> tuple[float, ...]:
    """Missed in percent; correlation of shares and rates; least, most and mean share; plans; part of the missed that
    are of the two models with the strictest objectives."""
    rates = _waves(seed, case)
    arrivals = varying(rates, case.seconds, seed)
    if case.known:
        plans = _known(policy, rates, case)
    else:
        plans = _periods(arrivals, case) if policy == "elastic" else _looks(arrivals, case)
    out = replayed(device(), plans, arrivals, SLO_MS, case.seconds)
    shares = _shares(plans, case.seconds)
    asked = [sum(_rate_at(rates[m], t) for m in rates) for t in range(int(case.seconds))]
    follows = 0.0 if case.steady else float(np.corrcoef(asked, shares)[0, 1])
    strict = sum(out.missed_of[m] for m in STRICT) / max(1, out.missed)
    return 100 * out.part, follows, min(shares), max(shares), statistics.fmean(shares), len(plans), strict


def _room(seed: int) -> float:
    """The multiple of the highest rates, in steps of a twentieth, up to which gpulet+int has plans."""
    top = {m: planned_rate(steps[0][1], PLANNED) for m, steps in _waves(seed, CASES["steady"]).items()}
    part = 1.0
    while _plan("elastic", {m: (part + 0.05) * r for m, r in top.items()}).schedulable:
        part += 0.05
    return part


def _waves(seed: int, case: Case) -> dict[str, list[tuple[float, float]]]:
    """Requests/s by model in steps of 10 s: a wave from 0 to 600 s, a higher one from 900 to 1,500 s."""
    rng = random.Random(f"waves {seed}")
    rates = {}
    for model in SLO_MS:
        base, first, second = rng.uniform(30, 60), rng.uniform(100, 160), rng.uniform(180, 240)
        late = rng.uniform(-60, 60)
        steps = []
        for at in np.arange(0.0, case.seconds, 10.0):
            t = at / case.longer - late
            up = first * _hill(t, 0, 600) + second * _hill(t, 900, 1500)
            steps.append((float(at), base + (second if case.steady else case.higher * up)))
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
    return _planned(name, tuple(rates.items()))


@cache
def _planned(name: str, rates: tuple[tuple[str, float], ...]) -> ServingPlan:
    return serving_policy(name).plan(problem({m: (r, SLO_MS[m]) for m, r in rates}), device())


def _known(name: str, rates: Mapping[str, Sequence[tuple[float, float]]], case: Case) -> Plans:
    """Each period a plan for the highest true rate in it."""
    settings = PLANNED if name == "elastic" else ReorganiserSettings().rates
    plans: Plans = []
    for begin in np.arange(0.0, case.seconds, PERIOD_S):
        inside = np.arange(begin, begin + PERIOD_S, 10.0)
        highest = {m: max(_rate_at(steps, t) for t in inside) for m, steps in rates.items()}
        plan = _plan(name, {m: planned_rate(r, settings) for m, r in highest.items()})
        if plan.schedulable or not plans:
            plans.append((float(begin), plan.gpulets))
    return plans


def _periods(arrivals: Arrivals, case: Case) -> Plans:
    """The paper's scheduler: each period a plan for the moving average."""
    count = _counter(arrivals)
    rates = {m: n / PERIOD_S for m, n in count(0.0, PERIOD_S).items()}
    plans: Plans = [(0.0, _plan("elastic", {m: planned_rate(r, PLANNED) for m, r in rates.items()}).gpulets)]
    for begin in np.arange(PERIOD_S, case.seconds - case.ready_s, PERIOD_S):
        seen = count(begin - PERIOD_S, begin)
        rates = {m: (1 - case.new) * r + case.new * seen[m] / PERIOD_S for m, r in rates.items()}
        plan = _plan("elastic", {m: planned_rate(r, PLANNED) for m, r in rates.items()})
        if plan.schedulable:
            plans.append((float(begin) + case.ready_s, plan.gpulets))
    return plans


def _looks(arrivals: Arrivals, case: Case) -> Plans:
    """The product's rules of when to plan and for which rates, with its planner; one reorganisation at a time."""
    count, settings = _counter(arrivals), ReorganiserSettings()
    seen = {m: RateEstimate.starting(n / PERIOD_S) for m, n in count(0.0, PERIOD_S).items()}
    held = {m: planned_rate(e.rate, settings.rates) for m, e in seen.items()}
    plans: Plans = [(0.0, _plan("mosaic", held).gpulets)]
    planned_s = 0.0
    for now in np.arange(LOOK_S, case.seconds - case.ready_s, LOOK_S):
        arrived = count(now - LOOK_S, now)
        seen = {m: e.seen(arrived[m], LOOK_S, settings.rates) for m, e in seen.items()}
        wanted = {m: planned_rate(e.rate, settings.rates) for m, e in seen.items()}
        more = any(wanted[m] > (1 + settings.grow) * held[m] for m in held)
        less = any(wanted[m] < (1 - settings.shrink) * held[m] for m in held)
        waits = now - planned_s < max(case.ready_s, settings.grow_dwell_s if more else settings.shrink_dwell_s)
        if not (more or less) or waits:
            continue
        # As the product does: a little less than planned for is no reason to give shares away.
        wanted = {m: held[m] if (1 - settings.shrink) * held[m] <= r <= held[m] else r for m, r in wanted.items()}
        plan = _plan("mosaic", wanted)
        planned_s = float(now)
        if plan.schedulable:
            held = wanted
            plans.append((float(now) + case.ready_s, plan.gpulets))
    return plans


def _shares(plans: Plans, seconds: float) -> list[float]:
    """Devices' worth of gpu-lets in force, each second."""
    found, n = [], 0
    for t in range(int(seconds)):
        while n + 1 < len(plans) and plans[n + 1][0] <= t:
            n += 1
        found.append(sum(g.share for g in plans[n][1]))
    return found
