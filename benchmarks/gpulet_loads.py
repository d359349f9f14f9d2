"""Figures 5, 12 and 13 of gpu-lets: requests that arrive at random, through plans of several policies."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np

from benchmarks.gpulet_device import SLO_MS, WORKLOADS, device, problem
from benchmarks.gpulet_replay import poisson, replayed
from benchmarks.reproduction import Cell, Exhibit, Redone, about, judged
from benchmarks.reproduction import spread as over_seeds
from edge.core.serving import Gpulet, ModelBatch, ServingPlan, ServingProblem
from scheduler.gpulets.policies import least_percent, serving_policy
from scheduler.gpulets.rates import RateSettings, planned_rate

SECONDS = 10.0
#: Most of the requests that may miss their objective (the paper highlights more than 1 %).
MOST_MISSED = 0.01
#: Every policy plans for the rate that random arrivals exceed in one second of a hundred.
PLANNED = RateSettings(headroom=1.0, horizon_s=1.0, risk=0.01)
#: Standard deviation of the slowdown that a plan does not know of: 90 % lie within 10.26 %, as in the paper's Figure 9.
UNKNOWN = 0.1026 / 1.645
#: The paper's prototype has at most two gpu-lets on a device; `elastic` keeps to that by itself.
TWO = 2
#: These plan on a table without interference.
BLIND = ("elastic-no-interference", "guided-self-tuning")
LABELS = {
    "squishy": "published: SBP",
    "guided-self-tuning": "published: guided self-tuning",
    "elastic-no-interference": "published: gpulet",
    "elastic": "published: gpulet+int",
    "mosaic": "ours: mosaic",
}


@dataclass(frozen=True)
class Highest:
    """The largest rate of a workload at which a policy has a plan, and the part of requests that it misses by seed."""

    u: int
    missed: tuple[float, ...]
    missed_with_errors: tuple[float, ...]


@cache
def planned_for(name: str, asked: ServingProblem) -> ServingPlan:
    """The plan of the policy for more than `asked`, by what it knows."""
    models = tuple(replace(m, rate=planned_rate(m.rate, PLANNED)) for m in asked.models)
    most = TWO if name == "guided-self-tuning" else None
    return serving_policy(name).plan(replace(asked, models=models, max_gpulets=most), device(name not in BLIND))


def missed(asked: ServingProblem, gpulets: Sequence[Gpulet], seed: int, errors: bool = False) -> float:
    """The part of requests that miss their objective in `SECONDS`."""
    rates = {m.name: m.rate for m in asked.models}
    unknown = _errors(gpulets, seed) if errors else None
    slo_ms = {m.name: m.slo_ms for m in asked.models}
    return replayed(device(), [(0.0, gpulets)], poisson(rates, SECONDS, seed), slo_ms, SECONDS, unknown).part


def _errors(gpulets: Sequence[Gpulet], seed: int) -> dict[tuple[str, int], float]:
    """Slowdowns that no table tells, for each model and share beside neighbours."""
    rng = random.Random(seed)
    keys = sorted({(part.model, g.percent) for g in gpulets for part in g.models if g.percent < 100})
    return {key: max(0.8, 1 + rng.gauss(0, UNKNOWN)) for key in keys}


def largest(name: str, workload: str, seeds: Sequence[int], served: bool) -> Highest | None:
    """Searched downwards, for plans hold for some rates above others at which none does. `served`: at most 1 % of the
    requests may miss their objective, in the median over seeds."""
    for u in levels(workload):
        asked = problem(WORKLOADS[workload], u)
        plan = planned_for(name, asked)
        if plan.schedulable:
            late = tuple(missed(asked, plan.gpulets, seed) for seed in seeds)
            if not served or statistics.median(late) <= MOST_MISSED:
                return Highest(u, late, tuple(missed(asked, plan.gpulets, seed, True) for seed in seeds))
    return None


def levels(workload: str) -> list[int]:
    """Rates in requests/s per model to try, downwards from what no plan exceeds, in steps of about a twentieth."""
    most = 10
    while least_percent(problem(WORKLOADS[workload], most + 10), device()) <= 100:
        most += 10
    return list(range(most, 0, -10 * max(1, round(most / 200))))


def figure_5(seeds: Sequence[int]) -> Exhibit:
    """LeNet and VGG-16 on one device."""
    slo = {m: SLO_MS[m] for m in ("lenet", "vgg16")}
    parted = [
        Gpulet(0, share, device().solo_ms(m, round(100 * share), b), (ModelBatch(m, b),))
        for m, share in (("lenet", 0.2), ("vgg16", 0.8))
        for b in [_largest_batch(m, round(100 * share))]
    ]
    rows: list[tuple[Cell, ...]] = []
    spikes: dict[str, int] = {}
    shared: list[float] = []
    for rate in range(50, 601, 50):
        asked = problem({m: (float(rate), s) for m, s in slo.items()}, 1.0, 1)
        ours = planned_for("mosaic", asked).gpulets
        found = {"time": [_shared(float(rate))], "parts": parted, "ours": list(ours)}
        late = {who: [100 * missed(asked, gpulets, seed) for seed in seeds] for who, gpulets in found.items()}
        shared.append(statistics.fmean(late["time"]))
        for who, values in late.items():
            if statistics.median(values) > 100 * MOST_MISSED:
                spikes.setdefault(who, rate)
        rows.append((rate, *(over_seeds(late[who], 2) for who in ("time", "parts", "ours"))))
    first = {who: spikes.get(who, 700) for who in ("time", "parts", "ours")}
    spikes_up = first["time"] > 50 and all(a < b for a, b in pairwise(shared))
    return Redone(
        "Figure 5",
        "LeNet and VGG-16 on one GPU: requests that miss their objective",
        "With the same rate for both, time sharing and MPS without parts miss more and more as rates rise; a static "
        "split of 20 to 80 % bears much higher rates.",
        f"random arrivals of {SECONDS:g} s through the device table of docs/serving-planners.md's kind "
        "(`benchmarks/gpulet_device.py`), with interference; MPS without parts needs a GPU and is left out",
        (
            "requests/s of each",
            "published: time sharing, missed %",
            "published: 20:80, missed %",
            "ours: mosaic's plan",
        ),
        tuple(rows),
        judged(first["parts"] >= 2 * first["time"], spikes_up),
        f"More than 1 % is missed from {first['time']} requests/s on with time sharing, from {first['parts']} with "
        "20:80. The paper's text names no rates; it says that time sharing misses more and more, so it must hold at "
        f"the lowest rate and miss more with each step: here it misses {shared[0]:.0f} % at 50 requests/s already, "
        "because one batch of VGG-16 takes longer than LeNet's whole objective of 5 ms. One of the paper's three "
        f"curves, MPS without parts, is missing. "
        f"Mosaic's plan misses more than 1 % from {first['ours']} on: it takes the smallest shares that hold "
        "for the planned rate and leaves the rest of the device free, so it is nearer to the edge than 20:80, "
        "which always takes all; the appliance plans a head-room of 20 % on top. Where mosaic has no plan, its "
        "closest one is replayed.",
    )


def _largest_batch(model: str, percent: int) -> int:
    row = device().latency_ms[model][percent]
    return max((b for b, t in enumerate(row, 1) if 2 * 1.1 * t <= SLO_MS[model]), default=1)


def _shared(rate: float) -> Gpulet:
    """Both models on the whole device: the shortest duty cycle in which their batches run."""
    table = device()
    for duty in np.arange(4.0, 65.0, 0.5):
        batches = {m: max(1, math.ceil(rate * duty / 1000)) for m in ("lenet", "vgg16")}
        if max(batches.values()) <= 32 and sum(table.solo_ms(m, 100, b) for m, b in batches.items()) <= duty:
            break
    return Gpulet(0, 1.0, float(duty), tuple(ModelBatch(m, min(32, b)) for m, b in batches.items()))


def figure_12(seeds: Sequence[int]) -> Exhibit:
    """The largest rates that are really served."""
    names = tuple(LABELS)
    found = {n: {w: largest(n, w, seeds, True) for w in WORKLOADS} for n in names}
    per_u = {w: sum(r for r, _ in models.values()) for w, models in WORKLOADS.items()}
    total = {n: {w: h.u * per_u[w] if h else 0.0 for w, h in row.items()} for n, row in found.items()}
    rows: list[tuple[Cell, ...]] = [("paper: SBP", None, None, None, 720, None, None, None)]
    rows.append(("paper: gpulet", None, None, None, None, None, 106.0, None))
    rows.append(("paper: gpulet+int", None, None, None, 1502, None, 102.6, 74.8))
    gains = {}
    for n in names:
        gains[n] = {base: _gains(total[n], total[base]) for base in ("squishy", "guided-self-tuning")}
        over = [None if n == base else round(statistics.median(g), 1) for base, g in gains[n].items()]
        rows.append((LABELS[n], *(round(total[n][w]) for w in WORKLOADS), *over))
    sbp, tuned = gains["elastic"]["squishy"], gains["elastic"]["guided-self-tuning"]
    blind = gains["elastic-no-interference"]["squishy"]
    middle = statistics.median(sbp)
    ours = statistics.median(_gains(total["mosaic"], total["elastic"]))
    return Redone(
        "Figure 12",
        "largest rates that are served",
        "gpulet and gpulet+int serve 106.0 and 102.6 % more than SBP in the mean of five workloads, gpulet+int "
        "74.8 % more than guided self-tuning (which is weak on game); game: 1,502 requests/s against SBP's 720.",
        "the paper's five workloads on four devices of `benchmarks/gpulet_device.py`; the largest rate, in steps "
        f"of a twentieth, for which the policy has a plan and random arrivals of {SECONDS:g} s, with interference, "
        "miss at most 1 %; requests/s of all models together",
        ("", *WORKLOADS, "more than SBP %", "more than self-tuning %"),
        tuple(rows),
        judged(min(sbp) > 0 and min(tuned) > 0, about(middle, 102.6)),
        f"gpulet+int beats SBP on {sum(g > 0 for g in sbp)} and self-tuning on {sum(g > 0 for g in tuned)} of five "
        f"workloads. The last columns are medians over workloads: the mean against SBP ({statistics.fmean(sbp):.0f} "
        "%) hangs on equal and short-skew, where SBP serves almost nothing, because LeNet's objective of 5 ms is "
        "shorter than one batch of VGG-16, so they cannot share a whole device in time. SBP gains most on game, "
        f"where six LeNets share a device well. Against self-tuning the mean is {statistics.fmean(tuned):.0f} %, "
        "most of it on game, where the paper sees it, too. gpulet without interference gains "
        f"{statistics.median(blind):.0f} %, less than with it, where the paper has a little more: its plans are "
        f"refused here for what they really miss. mosaic serves {ours:.0f} % more than gpulet+int in the median.",
    )


def _gains(ours: Mapping[str, float], base: Mapping[str, float]) -> list[float]:
    return [100 * (ours[w] / base[w] - 1) for w in WORKLOADS if base[w] > 0]


def figure_13(seeds: Sequence[int]) -> Exhibit:
    """Missed objectives at the highest rate that each scheduler takes on."""
    rows: list[tuple[Cell, ...]] = []
    late: dict[str, list[float]] = {}
    refused = 0
    for workload in WORKLOADS:
        for name in ("elastic-no-interference", "elastic", "mosaic"):
            top = largest(name, workload, seeds, False)
            if top is None:
                continue
            mean, unknown = ([100 * x for x in xs] for xs in (top.missed, top.missed_with_errors))
            late.setdefault(name, []).append(statistics.median(mean))
            late.setdefault(f"{name} unknown", []).append(statistics.median(unknown))
            rows.append((workload, LABELS[name], top.u, over_seeds(mean, 2), over_seeds(unknown, 2)))
            if name == "elastic-no-interference":
                at_top = planned_for("elastic", problem(WORKLOADS[workload], top.u))
                refused += not at_top.schedulable
    over = {n: sum(v > 1 for v in values) for n, values in late.items()}
    return Redone(
        "Figure 13",
        "missed objectives at the highest rate that each takes on",
        "gpulet misses more than 1 % on equal and short-skew at rates that it takes for schedulable; gpulet+int "
        "refuses those rates or serves them.",
        "as Figure 12, but at the largest rate for which the policy itself says yes; last column: slowdowns differ "
        "from the table's by as much as the paper's model errs (90 % within 10.26 %)",
        ("workload", "", "requests/s per model", "missed %", "missed %, slowdowns not quite known"),
        tuple(rows),
        judged(
            over["elastic-no-interference"] > over["elastic"],
            over["elastic"] == 0 and over["elastic-no-interference"] >= 2,
        ),
        f"gpulet misses more than 1 % on {over['elastic-no-interference']} of five workloads, gpulet+int on "
        f"{over['elastic']}, mosaic on {over['mosaic']}; gpulet+int refuses the rate of {refused} of the five that "
        "gpulet takes on. With slowdowns that are not quite known gpulet+int misses more than 1 % on "
        f"{over['elastic unknown']}, mosaic on {over['mosaic unknown']}. Where gpulet+int misses much, its plan "
        "holds by the table with nothing to spare: a gpu-let is busy nearly all of its duty cycle and its worst "
        "case is the whole objective, so bursts are late.",
    )
