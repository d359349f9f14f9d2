"""The tables and figures of gpu-lets, redone: schedulable scenarios, largest rates, missed objectives, interference.

    python -m benchmarks.reproduce_gpulets [--seeds 3]

Latencies are those of `benchmarks/gpulet_device.py`; measured interference is what `bench_interference` measured on
this project's machine. Seeds are those of random arrivals and of held-out pairs. About seven minutes.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import numpy as np

from benchmarks.bench_interference import read
from benchmarks.gpulet_device import DEVICES, WORKLOADS, device, problem, scenarios
from benchmarks.gpulet_loads import LABELS, figure_5, figure_12, figure_13, levels
from benchmarks.gpulet_waves import figure_14
from benchmarks.reproduction import (
    RESULTS,
    Cell,
    Exhibit,
    NotRedone,
    Redone,
    about,
    finish,
    judged,
    reproduction,
    seeds_asked,
)
from benchmarks.reproduction import spread as over_seeds
from edge.core.serving import DeviceTable, ServingProblem, Utilisation
from edge.runtime.serving_pairs import as_pair
from scheduler.gpulets.interference import InterferencePair, fit
from scheduler.gpulets.policies import serving_policy

#: Scenarios on which the shortcut of mosaic's count is checked.
CHECKED = 100
ON = f"{DEVICES} devices of `benchmarks/gpulet_device.py`, the paper's objectives"


def main() -> int:
    """Exit code 0."""
    seeds, began = seeds_asked(__doc__), datetime.now(UTC)
    finish(reproduction("gpulets", seeds, exhibits(seeds), began=began))
    return 0


def exhibits(seeds: Sequence[int]) -> list[Exhibit]:
    """All of the paper, in its order."""
    return [
        NotRedone("Figure 1", "two models in one duty cycle", "drawing", "It explains squishy bin packing."),
        NotRedone("Figure 2", "sharing in time and in space", "drawing", "It explains the two."),
        NotRedone(
            "Figure 3",
            "latency by batch and share",
            "device",
            "The latency of models on parts of a GPU. The table here is made by a formula, so a curve of it would "
            "show the formula only; `magpie profile` measures such curves on a device.",
        ),
        _figure_4(),
        figure_5(seeds),
        _figure_6(),
        NotRedone("Table 1", "what earlier systems can do", "drawing", "A list of features."),
        NotRedone("Figure 7", "overview of the system", "drawing", "A diagram of the parts."),
        NotRedone("Table 2", "names of variables", "drawing", "A list of names."),
        NotRedone(
            "Figure 8",
            "the knee of a rate curve",
            "missing",
            "An example of one profiled curve; the text gives no number of it. `scheduler.gpulets.curves.knee` "
            "finds it.",
        ),
        _figure_9(seeds),
        NotRedone("Table 3", "the server used", "drawing", "A list of parts."),
        NotRedone("Table 4", "models and objectives", "drawing", "Inputs, used in all of the above and below."),
        NotRedone("Figure 10", "the application game", "drawing", "An input, used in Figure 12."),
        NotRedone("Figure 11", "the application traffic", "drawing", "An input, used in Figure 12."),
        NotRedone("Table 5", "three request scenarios", "drawing", "Inputs, used in Figure 12."),
        figure_12(seeds),
        figure_13(seeds),
        figure_14(seeds),
        _figure_15(),
        _figure_16(),
    ]


def _count(name: str, problems: Sequence[ServingProblem], table: DeviceTable) -> int:
    policy = serving_policy(name)
    return sum(policy.plan(p, table).schedulable for p in problems)


def _figure_4() -> Exhibit:
    every = scenarios()
    halves = [replace(p, devices=2 * DEVICES, capacity=0.5) for p in every]
    whole, half = _count("squishy", every, device(False)), _count("squishy", halves, device(False))
    blind = _count("elastic-no-interference", every, device(False))
    count = len(every)
    return Redone(
        "Figure 4",
        "schedulable scenarios with and without halves",
        "Of 1,023 scenarios (five models at 0, 200, 400 or 600 requests/s) squishy bin packing on whole GPUs "
        "leaves many unschedulable; on GPUs split evenly in two it schedules all.",
        f"{ON}, no interference, as in the paper's figure",
        ("", "schedulable of 1,023", "not schedulable"),
        (
            ("paper: SBP on whole GPUs", "many", "many"),
            ("paper: SBP on halves", 1023, 0),
            ("published here: SBP on whole devices", whole, count - whole),
            ("published here: SBP on halves", half, count - half),
            ("published here: gpulet", blind, count - blind),
            ("ours: mosaic, with interference", _mosaic(), count - _mosaic()),
        ),
        judged(half > whole, count - half <= 0.1 * (count - whole)),
        f"Halves make {half - whole} more scenarios schedulable and leave {count - half}. The paper's text has no "
        "number for whole GPUs, and says itself that none is left on halves in its setup only.",
    )


@cache
def _split_by_elastic() -> tuple[tuple[ServingProblem, ...], tuple[ServingProblem, ...]]:
    """The scenarios for which gpulet+int has a plan, and those for which it has none."""
    elastic = serving_policy("elastic")
    found = [(p, elastic.plan(p, device()).schedulable) for p in scenarios()]
    return tuple(p for p, has in found if has), tuple(p for p, has in found if not has)


@cache
def _mosaic() -> int:
    """Scenarios that mosaic schedules, counting all that elastic does: mosaic asks elastic, too (`_not_planned`)."""
    planned, left = _split_by_elastic()
    return len(planned) + _count("mosaic", left, device())


@cache
def _not_planned(name: str) -> int:
    """The check of that: of `CHECKED` scenarios that elastic plans, those for which the policy has no plan."""
    drawn = random.Random(0).sample(_split_by_elastic()[0], CHECKED)
    return CHECKED - _count(name, drawn, device())


def _measured() -> list[InterferencePair]:
    """The pairs that `bench_interference` measured, each the mean of two measurements."""
    recorded = read(RESULTS / "interference.json")
    means = (
        replace(a, slowdown=0.5 * (a.slowdown + b.slowdown))
        for a, b in zip(recorded.together, recorded.again, strict=True)
    )
    pairs = [*means, *(t for t in recorded.pressed if not t.side.model.startswith("stress"))]
    return [as_pair(t, recorded.utilisation) for t in pairs]


def _figure_6() -> Exhibit:
    extra = np.array([100 * (p.factor - 1) for p in _measured()])
    p90, largest = float(np.quantile(extra, 0.9)), float(extra.max())
    return Redone(
        "Figure 6",
        "how much longer batches take beside each other",
        "Of 250 pairs of models, batches and shares on one GPU 90 % are slowed down by less than 18 %, with a long "
        "tail.",
        f"{len(extra)} batches beside a neighbour on two processor cores, `benchmarks/results/interference.json`",
        ("", "median %", "90 % are below %", "largest %"),
        (
            ("paper: one GPU", None, 18.0, "a long tail"),
            ("here: shares of two cores", round(float(np.median(extra)), 1), round(p90, 1), round(largest, 1)),
        ),
        judged(float(np.median(extra)) < 5 and largest > 1.5 * p90, about(p90, 18.0)),
        "Most pairs hardly disturb each other and a few do, as on a GPU. Cores share less than the parts of a GPU "
        "do, so all of it is smaller. This measures the device; published and ours have no part in it.",
    )


def _figure_9(seeds: Sequence[int]) -> Exhibit:
    pairs = _measured()
    published = [_linear(pairs, seed) for seed in seeds]
    ours = [fit(pairs, seed).held_out for seed in seeds]
    never = fit(pairs).unmodelled
    p90, none90 = (statistics.fmean(e[k] for e in published) for k in (0, 2))
    better = sum(e[0] < e[2] for e in published)
    return Redone(
        "Figure 9",
        "error of predicted interference",
        "The linear model predicts 90 % of held-out pairs within 10.26 % and 95 % within 13.98 %, fitted on a "
        "random 70 % of 2,500 measurements.",
        f"{len(pairs)} measurements on two processor cores, `benchmarks/results/interference.json`; seeds draw what "
        "is held out",
        ("", "90 % within %", "95 % within %"),
        (
            ("paper: linear model", 10.26, 13.98),
            (
                "published here: least squares, a random 30 % held out",
                over_seeds([e[0] for e in published], 2),
                over_seeds([e[1] for e in published], 2),
            ),
            (
                "ours: no coefficient negative, pairs of the same models held out together",
                over_seeds([100 * e.p90 for e in ours], 2),
                over_seeds([100 * e.p95 for e in ours], 2),
            ),
            (
                "no model (always 1), on the same held-out 30 %",
                over_seeds([e[2] for e in published], 2),
                over_seeds([e[3] for e in published], 2),
            ),
            ("no model (always 1), on all", round(100 * never.p90, 2), round(100 * never.p95, 2)),
        ),
        judged(better == len(seeds), about(p90, 10.26)),
        f"The errors are as small as the paper's ({p90:.2f} % against 10.26), but the model hardly earns that: always "
        f"predicting 1 errs by {none90:.2f} % on the same measurements, and the model is better than that for "
        f"{better} of {len(seeds)} seeds, because cores disturb each other little. So it does not show that a linear "
        "model predicts interference. Ours is tested on pairs of models that the fit never saw, which is harder.",
    )


def _used(by: Utilisation, share: float) -> tuple[float, float]:
    return by.l2 * share, by.dram * share


def _linear(pairs: Sequence[InterferencePair], seed: int) -> tuple[float, float, float, float]:
    """Errors in percent that 90 and 95 % of a random 30 % do not exceed: of the paper's fit, then without a model."""
    x = np.array([(*_used(p.own, p.share), *_used(p.neighbour, p.neighbour_share), 1.0) for p in pairs])
    y = np.array([p.factor for p in pairs])
    order = np.random.default_rng(seed).permutation(len(pairs))
    cut = int(0.7 * len(pairs))
    coefficients, *_ = np.linalg.lstsq(x[order[:cut]], y[order[:cut]], rcond=None)
    held = order[cut:]
    fitted, never = (100 * np.abs(predicted - y[held]) / y[held] for predicted in (x[held] @ coefficients, 1.0))
    p90, p95 = np.quantile(fitted, (0.9, 0.95))
    none90, none95 = np.quantile(never, (0.9, 0.95))
    return float(p90), float(p95), float(none90), float(none95)


def _figure_15() -> Exhibit:
    every, table = scenarios(), device()
    counts = {n: _count(n, every, table) for n in ("squishy", "guided-self-tuning", "ideal")}
    counts |= {"elastic": len(_split_by_elastic()[0]), "mosaic": _mosaic()}
    less, unplanned = counts["ideal"] - counts["elastic"], _not_planned("mosaic")
    return Redone(
        "Figure 15",
        "schedulable scenarios against an ideal scheduler",
        "gpulet+int schedules 18 of 1,023 scenarios less than an ideal scheduler that tries all partitions (1.8 %).",
        f"{ON}, interference on both sides, every plan judged by the whole table. Mosaic's row counts what "
        "gpulet+int schedules as scheduled and plans the rest only, because mosaic asks gpulet+int, too; it was run "
        f"on {CHECKED} of those, drawn with seed 0, as a check: {unplanned} had no plan. All others are run on all",
        ("", "schedulable of 1,023", "less than ideal"),
        (
            ("paper: gpulet+int", None, 18),
            *(
                (LABELS[n], counts[n], counts["ideal"] - counts[n])
                for n in ("squishy", "guided-self-tuning", "elastic")
            ),
            ("published: ideal", counts["ideal"], 0),
            ("ours: mosaic", counts["mosaic"], counts["ideal"] - counts["mosaic"]),
        ),
        judged(less >= 0, -36 <= less <= 36),
        f"gpulet+int schedules {less} less than ideal, the paper 18; at most twice as many counts as close. "
        "The ideal scheduler tries every way to split the devices in two, with gpulet+int's own placement in each, "
        f"so it is not an optimum: mosaic, which also shares in three and more and searches placements, schedules "
        f"{counts['mosaic']:,}.",
    )


def _largest(name: str, workload: str, least: int = 0) -> int:
    """The largest rate for which the policy has a plan, searched downwards to `least`."""
    policy, table = serving_policy(name), device()
    for u in levels(workload):
        if u <= least:
            break
        if policy.plan(problem(WORKLOADS[workload], u), table).schedulable:
            return u
    return least


def _figure_16() -> Exhibit:
    found = {"elastic": {w: _largest("elastic", w) for w in WORKLOADS}}
    for name in ("ideal", "mosaic"):
        found[name] = {w: _largest(name, w, found["elastic"][w]) for w in WORKLOADS}
    rows: list[tuple[Cell, ...]] = [("paper: gpulet+int", None, None, None, None, 87.7, 92.3)]
    parts = {n: [100 * row[w] / found["ideal"][w] for w in WORKLOADS] for n, row in found.items()}
    for name, label in (("elastic", LABELS["elastic"]), ("ideal", "published: ideal"), ("mosaic", LABELS["mosaic"])):
        rows.append((label, *(round(p, 1) for p in parts[name]), round(statistics.fmean(parts[name]), 1)))
    mean = statistics.fmean(parts["elastic"])
    lowest = min(WORKLOADS, key=lambda w: found["elastic"][w] / found["ideal"][w])
    return Redone(
        "Figure 16",
        "largest schedulable rate against an ideal scheduler",
        "gpulet+int reaches 92.3 % of the ideal rate in the mean of five workloads, least on traffic (87.7 %).",
        f"{ON}; the largest rate, in steps of a twentieth, % of ideal's",
        ("", *WORKLOADS, "mean"),
        tuple(rows),
        judged(mean < 100, 84.6 <= mean <= 100),
        f"The mean is the paper's within {abs(mean - 92.3):.1f} points; the least is {lowest}"
        + ("." if lowest == "traffic" else ", not traffic: the latencies of the table decide it.")
        + " mosaic plans for more than ideal does, for the reason of Figure 15.",
    )


if __name__ == "__main__":
    sys.exit(main())
