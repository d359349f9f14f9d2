"""The tables and figures of Harpagon, redone: costs against four systems and against its own ablations.

    python -m benchmarks.reproduce_harpagon [--seeds 3]

Each seed draws 377 workloads of five shapes, which are those of the paper's applications (`pipeline_workloads`), so
three seeds make the paper's 1,131. Spreads are over seeds. About two minutes.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from benchmarks.harpagon_ablations import figures_7_to_12
from benchmarks.harpagon_runs import CLOSE, WORKLOADS, Runs, of_shape
from benchmarks.pipeline_workloads import workloads
from benchmarks.reproduction import Cell, Exhibit, NotRedone, Redone, about, finish, judged, reproduction, seeds_asked
from edge.core.pipelines import PipelineModule, PipelinePlan, PipelineProblem, ProfileRow
from scheduler.pipelines.answer import rounded_up
from scheduler.pipelines.dispatch import Allotted, Configuration, worst_case
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.harpagon import HarpagonOptions, HarpagonPolicy
from scheduler.pipelines.policies import PipelinePolicy, pipeline_policy
from scheduler.pipelines.replay import FedModule, served
from scheduler.pipelines.verdict import faults

EACH = 377
OURS = ("fronts", "pool", "whole")
SYSTEMS = ("nexus", "scrooge", "inferline", "clipper")
#: Ablation -> the paper's mean extra cost in percent (its section IV-C).
PAPER: Mapping[str, float] = {
    "2d": 79.6,
    "dt": 44.1,
    "1c": 66.5,
    "2c": 3.0,
    "nb": 89.6,
    "nhc": 23.2,
    "nhe": 14.0,
    "nd": 0.8,
    "0re": 1.0,
    "1re": 0.6,
    "tb": 35.3,
    "q0.01": 1.2,
    "q0.1": 30.6,
    "nnm": 0.2,
    "ncd": 0.3,
}
#: Where a smaller number of workloads has its rates raised, by how much and of how many.
MORE, FEW = 5, 150


def main() -> int:
    """Exit code 0; raises SystemExit for a plan that breaks a rule."""
    seeds, began = seeds_asked(__doc__), datetime.now(UTC)
    problems = tuple(p for seed in seeds for p in workloads(EACH, seed))
    runs = _runs(("harpagon", *OURS, *SYSTEMS, *(f"harpagon-{a}" for a in PAPER)), problems, len(seeds))
    few = tuple(p for seed in seeds for p in workloads(FEW, seed))
    more = [replace(p, modules=tuple(replace(m, rate=MORE * m.rate) for m in p.modules)) for p in few]
    busier = _runs(("harpagon", "fronts", *(f"harpagon-{a}" for a in PAPER)), more, len(seeds))
    finish(reproduction("harpagon", seeds, exhibits(runs, busier), began=began))
    return 0


def _runs(names: Sequence[str], problems: Sequence[PipelineProblem], seeds: int) -> Runs:
    timed = {name: _planned(pipeline_policy(name), problems) for name in names}
    return Runs(tuple(problems), seeds, {n: p for n, (p, _) in timed.items()}, {n: t for n, (_, t) in timed.items()})


def exhibits(runs: Runs, busier: Runs) -> list[Exhibit]:
    """All of the paper, in its order; `busier`: some of the workloads at `MORE` times their rates."""
    return [
        NotRedone("Figure 1", "latencies within one batch", "drawing", "It explains what a worst case is."),
        _figure_2(),
        NotRedone("Figure 3", "overview of the system", "drawing", "A diagram of the parts."),
        NotRedone("Table I", "three example profiles", "drawing", "Inputs of Figure 2 and Table II, used there."),
        _table_2(),
        _figure_4(),
        NotRedone(
            "Table III",
            "what the systems can do",
            "drawing",
            "A list of design choices; the policies `nexus`, `scrooge`, `inferline` and `clipper` are made of its "
            "rows.",
        ),
        _figure_5a(runs),
        _figure_5b(runs, busier),
        _figure_6(runs, busier),
        *figures_7_to_12(runs),
    ]


def _planned(policy: PipelinePolicy, problems: Sequence[PipelineProblem]) -> tuple[tuple[PipelinePlan, ...], float]:
    """The plans, each of which keeps the rules, and CPU milliseconds of one in the mean."""
    begin = time.process_time()
    plans = tuple(policy.plan(problem) for problem in problems)
    took = time.process_time() - begin
    for problem, plan in zip(problems, plans, strict=True):
        for fault in faults(problem, plan):
            raise SystemExit(f"{policy.name}: {problem.name}: {fault}")
    return plans, 1000 * took / len(problems)


def _example(rate: float, slo_s: float, *rows: tuple[int, float]) -> PipelineProblem:
    """One module on one kind of machine."""
    profile = tuple(ProfileRow(batch, duration, "any", 1.0) for batch, duration in rows)
    return PipelineProblem("example", slo_s, (PipelineModule("m", rate, profile),))


def _tuples(plan: PipelinePlan) -> str:
    """The plan of an example: machines x batch."""
    return " + ".join(f"{round(t.machines, 3):g} x {t.batch}" for t in plan.modules["m"].tuples)


def _figure_2() -> Exhibit:
    problem = _example(100.0, 0.4, (2, 0.16), (4, 0.2), (8, 0.32))
    rows: list[tuple[Cell, ...]] = []
    found = []
    for who, policy, paper in (
        ("round robin", HarpagonPolicy("rr", HarpagonOptions(dispatch="RR", most=1, dummies=False)), "batch 4, 5"),
        ("published: Harpagon", HarpagonPolicy(), "batch 8, 4"),
        *((f"ours: {name}", pipeline_policy(name), None) for name in OURS),
    ):
        plan = policy.plan(problem)
        worst = plan.modules["m"].worst_case_s
        rows.append((who, paper, _tuples(plan), round(plan.cost or 0.0, 3), round(worst, 3)))
        found.append((plan.cost, _tuples(plan)))
    same = [found[0], found[1]] == [(5.0, "5 x 4"), (4.0, "4 x 8")]
    return Redone(
        "Figure 2",
        "round-robin and batch-aware dispatch",
        "For a model of 100 requests/s within 0.4 s, round robin can use batch 4 and needs 5 machines; whole batches "
        "have the worst case d + b/T, allow batch 8 and need 4.",
        "the paper's example (M1 of its Table I)",
        ("dispatch", "paper: batch, machines", "here: machines x batch", "cost", "worst case (s)"),
        tuple(rows),
        judged(same, same),
        "The example has no freedom left, so ours finds the same.",
    )


def _table_2() -> Exhibit:
    problem = _example(198.0, 1.0, (2, 0.1), (8, 0.25), (32, 0.8))
    rows: list[tuple[Cell, ...]] = []
    costs = []
    for who, paper, policy in (
        ("S1: round robin, two", 6.3, HarpagonPolicy("s1", HarpagonOptions(dispatch="RR", most=2, dummies=False))),
        ("S2: whole batches, two", 5.9, HarpagonPolicy("s2", HarpagonOptions(most=2, dummies=False, reassign=0))),
        ("S3: any number", 5.3, HarpagonPolicy("s3", HarpagonOptions(dummies=False))),
        ("S4: with dummies (Harpagon)", 5.0, HarpagonPolicy()),
        *((f"ours: {name}", None, pipeline_policy(name)) for name in OURS),
    ):
        plan = policy.plan(problem)
        cost = round(plan.cost or 0.0, 3)
        rows.append((who, paper, cost, _tuples(plan)))
        if paper is not None:
            costs.append(abs(cost - paper) < CLOSE)
    return Redone(
        "Table II",
        "four ways to schedule one module",
        "198 requests/s within 1 s cost 6.3, 5.9, 5.3 and 5.0 machines, each step adding one idea.",
        "the paper's example (M3 of its Table I)",
        ("method", "paper: cost", "here: cost", "machines x batch"),
        tuple(rows),
        judged(all(costs), all(costs)),
        "`pool` costs less, 4.95, because all machines of a configuration share the whole rate: the part machine "
        "needs no slower configuration. `whole` plans machines that are paid whole, so 5 is its best.",
    )


def _figure_4() -> Exhibit:
    a = Configuration(6, 2.0, "any", 1.0, 3.0, 1 / 3, 6)
    c = Configuration(2, 1.0, "any", 1.0, 2.0, 1 / 2, 2)
    tuples = (Allotted(a, 2.0, 6.0), Allotted(c, 1.0, 2.0))
    times = np.arange(4000) / 8.0
    spans = {d: float(np.nanmax(_finite(served(FedModule(d, tuples), times) - times))) for d in ("TC", "POOL")}
    robin = _round_robin_worst()
    formula = worst_case(tuples, "TC")
    same = abs(formula - 2.75) < CLOSE and abs(robin + 1 / 8 - 3.375) < CLOSE
    return Redone(
        "Figure 4",
        "order of requests under both dispatches",
        "8 requests/s on machines A and B (batch 6, 2 s) and C (batch 2, 1 s): worst case 2.75 s with whole batches, "
        "3.375 s with round robin.",
        "the paper's example (M4), 4,000 even arrivals replayed",
        ("dispatch", "paper: worst case (s)", "by the formula", "replayed, from a request's arrival"),
        (
            ("published: whole batches (TC)", 2.75, round(formula, 3), round(spans["TC"], 3)),
            ("published: round robin", 3.375, round(worst_case(tuples, "RR"), 3), round(robin, 3)),
            ("ours: whole batches, shared (POOL)", None, round(worst_case(tuples, "POOL"), 3), round(spans["POOL"], 3)),
        ),
        judged(same and spans["TC"] < robin, same),
        "The paper counts the time of one request more than passes between the first and the last of a batch (1/8 s "
        "here); with it the replay of round robin gives 3.375 s. The formula for round robin, 2d, is larger still.",
    )


def _finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def _round_robin_worst() -> float:
    """Requests 1, 3, .. 11 to A, 2, 4, .. 12 to B, 13 to 16 to C; each machine runs a batch when it is full."""
    worst = 0.0
    batches = ((range(0, 12, 2), 2.0), (range(1, 12, 2), 2.0), (range(12, 14), 1.0), (range(14, 16), 1.0))
    for taken, duration in batches:
        worst = max(worst, (max(taken) - min(taken)) / 8.0 + duration)
    return worst


def _figure_5a(runs: Runs) -> Exhibit:
    rows: list[tuple[Cell, ...]] = [("paper: Harpagon", "0", None, None, None)]
    rows.append(("paper: the four systems", "49.3 to 137.2", "91.3 to 220.0", "0", None))
    for name in ("harpagon", *SYSTEMS, *OURS):
        ratios = runs.all_ratios(name)
        who = "published" if name in ("harpagon", *SYSTEMS) else "ours"
        cheaper = 100 * statistics.fmean(r < 1 - CLOSE for r in ratios)
        rows.append(
            (
                f"{who}: {name}",
                runs.extra_by_seed(name),
                round(100 * (max(ratios) - 1), 1),
                round(cheaper, 1),
                round(100 * (_whole(runs, name) - 1), 1),
            )
        )
    extra = [runs.extra(name) for name in SYSTEMS]
    return Redone(
        "Figure 5(a)",
        "cost against four systems",
        "Against Harpagon the four systems cost 49.3 to 137.2 % more in the mean and at most 91.3 to 220 % more; "
        "Harpagon is the cheapest on all workloads.",
        f"{len(runs.problems):,} workloads, {EACH} for each seed, of five shapes with one to five models (those of "
        "the paper's applications), two kinds of machine at prices 1 and 1.7, objectives of 1.05 to 3 times the "
        "least that any plan with round-robin dispatch has",
        (
            "system",
            "extra cost, mean %",
            "largest %",
            "cheaper than Harpagon, % of workloads",
            "every machine whole, %",
        ),
        tuple(rows),
        judged(min(extra) > 0, about(min(extra), 49.3) and about(max(extra), 137.2)),
        f"Harpagon wins against each system in the mean, by {min(extra):.0f} to {max(extra):.0f} %, but not on "
        "every workload: its split is greedy, and Nexus and Scrooge find a cheaper one now and then. Ours `pool` "
        "costs less than Harpagon almost always, `fronts` (the optimum over splits) never more. `whole` is dearer "
        "as the paper counts cost, because it plans for machines that are paid whole (last column).",
    )


def _whole(runs: Runs, name: str) -> float:
    """The mean of costs against Harpagon's where every machine is paid whole."""
    both = zip(runs.problems, runs.plans[name], runs.plans["harpagon"], strict=True)
    return statistics.fmean(rounded_up(p, a) / rounded_up(p, b) for p, a, b in both if a.feasible and b.feasible)


def _figure_5b(runs: Runs, busier: Runs) -> Exhibit:
    best = [min(r, 1.0) for r in runs.all_ratios("fronts")]
    same, worst = _at_optimum(best)
    busy_same, busy_worst = _at_optimum([min(r, 1.0) for r in busier.all_ratios("fronts")])
    alone = [r for p, r in zip(runs.problems, best, strict=True) if of_shape("one")(p)]
    pool = runs.all_ratios("pool")
    return Redone(
        "Figure 5(b)",
        "distance from the optimum",
        "Harpagon is dearer than brute force for 8.5 % of workloads, by at most 12.1 %; brute force takes 35.9 s, "
        "Harpagon 5 ms.",
        WORKLOADS,
        ("", "at the optimum, % of workloads", "largest extra cost %", "CPU ms, mean"),
        (
            ("paper: Harpagon", 91.5, 12.1, 5),
            ("paper: brute force", 100, 0, 35900),
            ("published here: Harpagon", round(same, 1), round(worst, 1), round(runs.cpu_ms["harpagon"], 1)),
            (f"the same at {MORE} times the rates", round(busy_same, 1), round(busy_worst, 1), None),
            ("ours: fronts (the optimum of this dispatch)", 100, 0, round(runs.cpu_ms["fronts"], 1)),
            (
                "ours: pool (another dispatch), cheaper than the optimum",
                round(100 * statistics.fmean(a < b - CLOSE for a, b in zip(pool, best, strict=True)), 1),
                None,
                round(runs.cpu_ms["pool"], 1),
            ),
        ),
        judged(same >= 50 and worst < 2 * 12.1, about(100 - same, 8.5)),
        f"Harpagon misses the optimum on {100 - same:.0f} % of workloads; on those of a single module, where "
        f"nothing is split, on {100 - _at_optimum(alone)[0]:.0f} %. There the greedy schedule loses: it takes as "
        "many full machines of the best configuration as it can, where exact fronts also try other sets of "
        "configurations and dummies. The paper does not tell what its brute force tries. With more machines for "
        f"each module the largest loss shrinks to the paper's ({busy_worst:.0f} % at {MORE} times the rates). Exact "
        "fronts of (worst case, cost) need hardly more time than the heuristic.",
    )


def _at_optimum(best: Sequence[float]) -> tuple[float, float]:
    """Percent of workloads on which Harpagon costs the optimum, and its largest extra cost in percent."""
    return 100 * statistics.fmean(r >= 1 - CLOSE for r in best), 100 * (1 / min(best) - 1)


def _figure_6(runs: Runs, busier: Runs) -> Exhibit:
    rows: list[tuple[Cell, ...]] = []
    holds = []
    for name, paper in PAPER.items():
        policy = f"harpagon-{name}"
        ratios = runs.all_ratios(policy)
        missing = sum(not plan.feasible for plan in runs.plans[policy])
        rows.append(
            (
                f"published: Harp-{name}",
                paper,
                runs.extra_by_seed(policy),
                round(busier.extra(policy), 1) if busier.all_ratios(policy) else None,
                round(100 * (max(ratios) - 1), 1),
                round(100 * statistics.fmean(r < 1 - CLOSE for r in ratios), 1),
                missing,
            )
        )
        holds.append(runs.extra(policy) > -CLOSE)
    for name in OURS:
        ratios = runs.all_ratios(name)
        cheaper = round(100 * statistics.fmean(r < 1 - CLOSE for r in ratios), 1)
        most = round(100 * (max(ratios) - 1), 1)
        rows.append((f"ours: {name}", None, runs.extra_by_seed(name), None, most, cheaper, 0))
    names = list(PAPER)
    here = [runs.extra(f"harpagon-{n}") for n in names]
    close = [n for n, e in zip(names, here, strict=True) if about(e, PAPER[n])]
    rank = _rank_correlation(here, [PAPER[n] for n in names])
    tight, loose = _by_tightness(runs, "harpagon-2d")
    return Redone(
        "Figure 6",
        "Harpagon without one of its parts",
        "Each part left out costs: batching most (89.6 %), then dispatch (79.6), several configurations (66.5), "
        "dispatch by throughput (44.1), the split (35.3); dummies, reassigning, merging and cost-direct 1 % or "
        "less each.",
        WORKLOADS,
        (
            "without",
            "paper: extra cost %",
            "here: mean %",
            f"mean % at {MORE} times the rates",
            "largest %",
            "cheaper than Harpagon, % of workloads",
            "no plan",
        ),
        tuple(rows),
        judged(all(holds) and rank > 0.8, len(close) == len(names)),
        f"Every part pays in the mean, and the order is the paper's (rank correlation {rank:.2f}); {len(close)} of "
        f"{len(names)} are within half to twice. Sizes follow from profiles, rates and objectives, which are not "
        "published: our profiles gain more from batching and so from several configurations. Dispatch matters "
        f"where the objective is tight and machines are many: Harp-2d costs {tight:.0f} % more on the tighter half "
        f"of workloads, {loose:.0f} % on the looser, {busier.extra('harpagon-2d'):.0f} % at {MORE} times the rates. "
        "Harp-dt is near Harpagon because of a reading: with one machine's throughput its d + b/t would be 2d, so "
        "t is taken as that of a configuration's machines together. Harp-q0.1 has no plan for most: our objectives "
        "are mostly below 0.5 s.",
    )


def _by_tightness(runs: Runs, name: str) -> tuple[float, float]:
    """The mean extra cost in percent on the half of workloads whose objective is tighter, against the least that any
    plan could keep, and on the other half."""
    found = []
    for problem, plan, base in zip(runs.problems, runs.plans[name], runs.plans["harpagon"], strict=True):
        if plan.cost is not None and base.cost is not None:
            least = [min(row.duration_s for row in m.profile) for m in problem.modules]
            found.append((problem.slo_s / PipelineGraph.of(problem).longest(least), 100 * (plan.cost / base.cost - 1)))
    found.sort()
    half = len(found) // 2
    return statistics.fmean(e for _, e in found[:half]), statistics.fmean(e for _, e in found[half:])


def _rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's, without ties."""
    ranks = [np.argsort(np.argsort(np.array(values))) for values in (a, b)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


if __name__ == "__main__":
    sys.exit(main())
