"""Cilantro's tables and figures, redone: `python -m benchmarks.reproduce_cilantro [--seeds 3]`, without a GPU.

Policies share resources in worlds of the paper's shape (benchmarks.cilantro_world: curves, loads and service times are
ours, another world per seed). The published algorithms are in benchmarks.cilantro_published, as the text describes
them; ours are the policies of scheduler.tenants, and the baselines are theirs too.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache

import numpy as np

from benchmarks.cilantro_examples import NOT_REDONE, fair_criteria, two_users, utilities
from benchmarks.cilantro_published import EpsilonGreedy, PublishedCilantro, PublishedEndToEnd
from benchmarks.cilantro_world import (
    MEASURES,
    ROUNDS,
    JobsPlay,
    JobsWorld,
    best_services,
    jobs_world,
    logistic_world,
    oracle_play,
    play,
    play_services,
    services_world,
)
from benchmarks.reproduction import (
    Cell,
    Exhibit,
    Redone,
    Verdict,
    about,
    finish,
    judged,
    reproduction,
    seeds_asked,
    spread,
)
from scheduler.tenants.policies import SharingPolicy, sharing_policy

OBJECTIVES = ("sw", "ew", "njc")
WORDS = {"sw": "social welfare", "ew": "egalitarian welfare", "njc": "NJC fairness", "useful": "useful"}
BASELINES = ("fair", "evo-sw", "evo-ew", "greedy-ew", "ernest", "quasar", "minerva", "parties", "miad")
#: Intervals of an hour, and of the plays in which a job lies.
HOUR, LYING, SHORT = 15, 30, 45
WORLD = (
    "20 generated jobs on 1000 units, six hours in intervals of 4 minutes (the paper: 2), demand 1637 units in the "
    "median; a world per seed"
)


def policy_of(name: str, blur: float = 0.0) -> SharingPolicy:
    """A new policy by its label."""
    kind, _, objective = name.partition(" ")
    if kind == "published":
        return PublishedCilantro(objective, blur=blur)
    return sharing_policy(objective if kind == "ours" else name)


@cache
def world(seed: int) -> JobsWorld:
    return jobs_world(seed)


@cache
def played(name: str, seed: int) -> JobsPlay:
    """A policy's six hours; "oracle" and an objective: with known curves."""
    kind, _, objective = name.partition(" ")
    return oracle_play(world(seed), objective) if kind == "oracle" else play(world(seed), policy_of(name))


def means(name: str, measure: str, seeds: Sequence[int]) -> list[float]:
    return [played(name, s).mean(measure) for s in seeds]


def mean(name: str, measure: str, seeds: Sequence[int]) -> float:
    return statistics.fmean(means(name, measure, seeds))


# -- 3.7.1


def welfare_table(seeds: Sequence[int]) -> Redone:
    """Table 3.4, and all of what 3.9 shows."""
    labels = [f"{kind} {o}" for kind in ("oracle", "published", "ours") for o in OBJECTIVES]
    rows: list[tuple[Cell, ...]] = [
        (name, *(spread(means(name, m, seeds), 3) for m in MEASURES)) for name in (*labels, *BASELINES)
    ]
    useful = {n: mean(n, "useful", seeds) for n in (*labels, *BASELINES)}
    top = max((n for n in useful if not n.startswith(("oracle", "ours"))), key=lambda n: useful[n])
    asked = max(("published njc", "ernest", "quasar", "parties", "miad"), key=lambda n: useful[n])
    verdict = judged(top.startswith("published"), asked.startswith("published") or useful["published sw"] > 0.98)
    return Redone(
        "Table 3.4", "All methods on all measures, with useful resource usage",
        "Cilantro's policies have the most useful usage of their classes, and come near their oracles on their own "
        "measures; the table's body is missing from the text.",
        WORLD, ("method", *(WORDS[m] for m in MEASURES)), tuple(rows), verdict,
        f"The most useful usage without known curves and without ours has {top} ({useful[top]:.3f}); of those that "
        f"share by demands, {asked} ({useful[asked]:.3f}; published NJC {useful['published njc']:.3f}). Equal shares "
        f"have {useful['fair']:.3f}. `fair` has an NJC fairness of 1 by definition.",
    )  # fmt: skip


def best_baseline(measure: str, seeds: Sequence[int]) -> str:
    """Equal shares are always fair, and use little: for NJC those count that use as much as the published policy."""
    least = mean("published njc", "useful", seeds) if measure == "njc" else 0.0
    known = [b for b in BASELINES if mean(b, "useful", seeds) >= least] or list(BASELINES)
    return max(known, key=lambda b: mean(b, measure, seeds))


#: Why the published policies may be behind a baseline here.
LOST = (
    "They are behind a baseline on {lost}. Minerva needs no model and is at its place within a few intervals, while "
    "bounds as wide as a slope of 10 allows have to be narrowed for every job first, and the least of twenty "
    "optimistic bounds is too hopeful; on the paper's cluster the utilities that Minerva reads were noisier. "
)


def own_measures(seeds: Sequence[int]) -> Redone:
    """Figure 3.9: each policy on the measure that it is made for."""
    rows: list[tuple[Cell, ...]] = []
    ahead: dict[str, float] = {}
    of_oracle: dict[str, float] = {}
    ours: dict[str, float] = {}
    for o in OBJECTIVES:
        best = best_baseline(o, seeds)
        published = mean(f"published {o}", o, seeds)
        ahead[o] = published - mean(best, o, seeds)
        ours[o] = mean(f"ours {o}", o, seeds) - mean(best, o, seeds)
        of_oracle[o] = published / mean(f"oracle {o}", o, seeds)
        cells = (spread(means(f"{kind} {o}", o, seeds), 3) for kind in ("oracle", "published", "ours"))
        rows.append((WORDS[o], spread(means("fair", o, seeds), 3), *cells,
                     f"{best}: {spread(means(best, o, seeds), 3)}"))  # fmt: skip
    won = [o for o in OBJECTIVES if ahead[o] > 0]
    near = min(of_oracle.values()) > 0.9
    verdict = judged(len(won) == 3 and near, len(won) >= 2)
    lost = ", ".join(f"{WORDS[o]} ({best_baseline(o, seeds)}, {-ahead[o]:.3f})" for o in OBJECTIVES if ahead[o] <= 0)
    return Redone(
        "Figure 3.9", "NJC fairness against welfare: each policy on its own measure, six hours",
        "Cilantro's three policies come near the oracles on their own measures and are ahead of all nine baselines, "
        "also of Minerva and Greedy-EW, which are made for egalitarian welfare.",
        WORLD + "; NJC: baselines that use less than the published policy are left out",
        ("measure", "equal shares", "oracle", "published Cilantro", "ours", "best baseline"), tuple(rows), verdict,
        "Of the oracle the published policies reach "
        + ", ".join(f"{of_oracle[o]:.1%} on {WORDS[o]}" for o in OBJECTIVES)
        + ". "
        + (LOST.format(lost=lost) if lost else "")
        + "Ours over the best baseline: " + ", ".join(f"{WORDS[o]} {ours[o]:+.3f}" for o in OBJECTIVES) + ".",
    )  # fmt: skip


def convergence(seeds: Sequence[int]) -> Redone:
    """Figure 3.10: by hour."""
    rows: list[tuple[Cell, ...]] = []
    of: dict[str, list[list[float]]] = {}
    for o in OBJECTIVES:
        for kind in ("published", "ours", "oracle"):
            name = f"{kind} {o}"
            hours = [
                statistics.fmean(played(name, s).mean(o, h * HOUR, (h + 1) * HOUR) for s in seeds)
                for h in range(ROUNDS // HOUR)
            ]
            rows.append((WORDS[o], kind, *(round(h, 3) for h in hours)))
            of.setdefault(o, []).append(hours)
    rises = [of[o][0][-1] / of[o][2][-1] - of[o][0][0] / of[o][2][0] for o in OBJECTIVES]
    return Redone(
        "Figure 3.10", "Convergence: each policy's own measure over time",
        "Social and egalitarian welfare rise as feedback comes in; NJC fairness begins at 1 (equal shares), dips while "
        "better allocations are explored, and recovers.",
        WORLD, ("measure", "policy", *(f"hour {h + 1}" for h in range(ROUNDS // HOUR))), tuple(rows),
        "agrees" if min(rises) > 0 else "partly",
        "Loads move, and oracles with them: as a part of the oracle's, the published policies' measures change from "
        "the first to the last hour by "
        + ", ".join(f"{r:+.3f} ({WORDS[o]})" for o, r in zip(OBJECTIVES, rises, strict=True))
        + ". Ours are near their level in the first hour.",
    )  # fmt: skip


def by_job(seeds: Sequence[int]) -> Redone:
    """Figure 3.11: what each job gains against equal shares."""
    rows: list[tuple[Cell, ...]] = []
    gained: dict[str, float] = {}
    least: dict[str, float] = {}
    lost: dict[str, float] = {}
    for kind in ("published", "ours"):
        for o in OBJECTIVES:
            name = f"{kind} {o}"
            ratio = np.concatenate([played(name, s).by_job / played("fair", s).by_job for s in seeds])
            gained[name] = float((ratio >= 1.2).mean())
            least[name], lost[name] = float(ratio.min()), float((ratio < 0.98).mean())
            rows.append((name, f"{gained[name]:.0%}", round(float(ratio.max()), 2),
                         f"{float((ratio < 0.98).mean()):.0%}", round(least[name], 2)))  # fmt: skip
    kept = least["published njc"] > 0.9 and min(lost["published sw"], lost["published ew"]) > 0.1
    fine = judged(kept, about(gained["published njc"], 1 / 3))
    return Redone(
        "Figure 3.11", "Utility of each of the 20 jobs, against equal shares",
        "With Cilantro-NJC a third of the jobs gain 1.2 to 3.7 times and the others lose next to nothing; SW and EW "
        "make some jobs worse off.",
        WORLD, ("policy", "jobs that gain 1.2 times or more", "largest gain (times)", "jobs that lose over 2 %",
                "largest loss (times)"),
        tuple(rows), fine,
        f"With the published NJC policy {gained['published njc']:.0%} of the jobs gain 1.2 times or more, with ours "
        f"{gained['ours njc']:.0%}; the worst job keeps {least['published njc']:.0%} and {least['ours njc']:.0%} of "
        "its utility with equal shares.",
    )  # fmt: skip


def lying(seeds: Sequence[int]) -> Redone:
    """Figure 3.12: one job's reports, halved or doubled."""
    rows: list[tuple[Cell, ...]] = []
    seen: dict[str, tuple[float, float]] = {}
    for kind in ("published", "ours"):
        for o in OBJECTIVES:
            name = f"{kind} {o}"
            values: dict[float, list[float]] = {1.0: [], 0.5: [], 2.0: []}
            for seed in seeds:
                n = [j.id for j in world(seed).jobs].index("db16")
                values[1.0].append(float(np.mean([u[n] for u in played(name, seed).utilities[:LYING]])))
                for lie in (0.5, 2.0):
                    told = play(world(seed), policy_of(name), lies={"db16": lie}, rounds=LYING)
                    values[lie].append(float(told.by_job[n]))
            true = statistics.fmean(values[1.0])
            seen[name] = tuple(statistics.fmean(values[lie]) / true for lie in (0.5, 2.0))  # type: ignore[assignment]
            rows.append((name, *(spread(v, 3) for v in values.values()), *(round(x, 2) for x in seen[name])))
    sw, ew, njc = (seen[f"published {o}"] for o in OBJECTIVES)
    right = (sw[1] > 1.01) + (ew[0] > 1.01) + (max(njc) <= 1.02)
    verdict: Verdict = "agrees" if right == 3 else "partly" if right else "differs"
    return Redone(
        "Figure 3.12", "A job (db16) that reports half or twice its performance",
        "Under NJC lying does not pay (half: less utility; twice: no more); under EW it gains by reporting less, "
        "under SW by reporting more.",
        f"{WORLD}; the first {LYING // HOUR} hours; the job's true utility",
        ("policy", "truth", "half", "twice", "half / truth", "twice / truth"), tuple(rows), verdict,
        f"{right} of the paper's three statements hold for the published policies here. A part of requests cannot be "
        "reported above 1, so one that reports twice its performance seems to meet its goal with little, and is given "
        "little. Under SW that pays only for a job that SW would starve, as the paper's db16 may have been; here it is "
        "served well when it tells the truth. In Magpie the box measures performance, tenants do not report it.",
    )  # fmt: skip


# -- 3.7.2


def services(seeds: Sequence[int]) -> Redone:
    """Figure 3.13: one application's services."""
    makers: Mapping[str, Callable[[], SharingPolicy]] = {
        "equal shares": lambda: sharing_policy("fair"),
        "epsilon-greedy": EpsilonGreedy,
        "EvoAlg": lambda: sharing_policy("evo-e2e"),
        "published (kernel ridge)": PublishedEndToEnd,
        "ours (e2e)": lambda: sharing_policy("e2e"),
    }
    worlds = [services_world(s) for s in seeds]
    series = {name: [play_services(w, make()) for w in worlds] for name, make in makers.items()}
    series["units moved while that helps, known times"] = [best_services(w) for w in worlds]
    rows: list[tuple[Cell, ...]] = []
    value: dict[str, float] = {}
    for name, of in series.items():
        value[name] = statistics.fmean(statistics.fmean(p) for p in of)
        thirds = [spread([statistics.fmean(p[h * 2 * HOUR : (h + 1) * 2 * HOUR]) for p in of], 0) for h in range(3)]
        rows.append((name, spread([statistics.fmean(p) for p in of], 0), *thirds))
    published = value["published (kernel ridge)"]
    others = {n: value[n] for n in ("EvoAlg", "epsilon-greedy", "equal shares")}
    nearest = min(others, key=lambda n: others[n])
    sizes = about(published / others[nearest], 0.57) and about(published / others["equal shares"], 0.18)
    verdict = judged(published < others[nearest], sizes)
    last = {n: statistics.fmean(statistics.fmean(p[4 * HOUR :]) for p in series[n]) for n in series}
    late = last["ours (e2e)"] / last["published (kernel ridge)"]
    return Redone(
        "Figure 3.13", "19 services of one application on 160 units: P99 over six hours",
        "Cilantro has a mean P99 of 525 ms, EvoAlg, the next best, 930 ms (0.57 times), equal shares about 2900 ms "
        "(0.18 times); epsilon-greedy explores too much to the end.",
        "19 generated services (queues with several servers, two paths), 160 units, intervals of 4 minutes; the "
        "hotel-reservation benchmark needs a cluster; P99 in ms, a world per seed",
        ("policy", "six hours", "hours 1 and 2", "hours 3 and 4", "hours 5 and 6"), tuple(rows), verdict,
        f"The published policy has {published / others[nearest]:.2f} times the P99 of the best of the paper's "
        f"baselines here ({nearest}) and {published / others['equal shares']:.2f} times that of equal shares; ours "
        f"{value['ours (e2e)'] / published:.2f} times that of the published one (last two hours: {late:.2f} times). "
        f"{ROUNDS} intervals are few for 19 services; with too little anywhere, work piles up and P99 is seconds. Why "
        "ours is slower or faster to learn here than the published policy was not taken apart.",
    )  # fmt: skip


# -- 3.7.3


def overhead(seeds: Sequence[int]) -> Redone:
    rows: list[tuple[Cell, ...]] = []
    for o in OBJECTIVES:
        cells = []
        for kind in ("published", "ours"):
            seconds = [x for s in seeds for x in played(f"{kind} {o}", s).seconds]
            cells += [round(1000 * statistics.fmean(seconds), 1), round(1000 * max(seconds), 1)]
        rows.append((WORDS[o], *cells))
    return Redone(
        "Figure 3.14, left", "Time of one decision (learning and allocating), 20 jobs",
        "Cilantro's decisions are light against the 5 to 15 s that a pod takes to move; the bars are missing from the "
        "text.",
        WORLD + "; CPU ms", ("policy for", "published, mean", "largest", "ours, mean", "largest (ours)"), tuple(rows),
        "agrees",
        "The published policies here optimise their bounds by a dynamic programme, which is much faster than the "
        "paper's evolutionary algorithm.",
    )  # fmt: skip


def fallback(seeds: Sequence[int]) -> Redone:
    """Figure 3.14, centre: five jobs declare half or twice their demand instead of reporting."""
    silent = ("db01", "mlt1", "mlt2", "db11", "prs1")
    rows: list[tuple[Cell, ...]] = []
    value: dict[tuple[str, float], tuple[float, ...]] = {}
    for kind in ("published", "ours"):
        for factor in (1.0, 0.5, 2.0):
            plays = []
            for seed in seeds:
                own = world(seed)
                if factor == 1.0:
                    plays.append(played(f"{kind} njc", seed))
                    continue
                declared = {j.id: min(own.units, factor * j.demand(1.0)) for j in own.jobs if j.id in silent}
                plays.append(play(own, policy_of(f"{kind} njc"), declared=declared, rounds=SHORT))
            value[kind, factor] = tuple(statistics.fmean(p.mean(m, 0, SHORT) for p in plays) for m in OBJECTIVES)
            label = {1.0: "all report", 0.5: "five declare half", 2.0: "five declare twice"}[factor]
            rows.append((kind, label, *(spread([p.mean(m, 0, SHORT) for p in plays], 3) for m in OBJECTIVES)))
    full, half, twice = (value["published", f] for f in (1.0, 0.5, 2.0))
    graceful = full[0] - min(half[0], twice[0]) < 0.06 and half[2] < full[2] - 0.1
    return Redone(
        "Figure 3.14, centre", "Five of 20 jobs declare a demand instead of reporting (NJC policy)",
        "Worse than reporting, but gracefully: small drops of both welfares; NJC fairness is clearly lower when half "
        "the demand is declared, as those jobs get no more.",
        f"{WORLD}; the first {SHORT // HOUR} hours", ("policy", "jobs", *(WORDS[m] for m in OBJECTIVES)), tuple(rows),
        "agrees" if graceful else "partly",
        f"Social welfare goes from {full[0]:.3f} to {half[0]:.3f} (half) and {twice[0]:.3f} (twice), NJC fairness from "
        f"{full[2]:.3f} to {half[2]:.3f} and {twice[2]:.3f}. Ours believes a declaration half (docs/tenants.md).",
    )  # fmt: skip


def blurred(seeds: Sequence[int]) -> Redone:
    """Figure 3.14, right."""
    rows: list[tuple[Cell, ...]] = []
    seen: dict[float, tuple[float, ...]] = {}
    worlds = [logistic_world(s, SHORT) for s in seeds]
    for blur in (0.0, 0.05, 0.1, 0.2, 0.5):
        cells: list[str] = []
        for kind in ("published", "ours"):
            plays = [
                play(w, PublishedCilantro("njc", 0.2, blur) if kind == "published" else policy_of("ours njc"),
                     blur=0.0 if kind == "published" else blur)
                for w in worlds
            ]  # fmt: skip
            cells += [spread([p.mean(m) for p in plays], 3) for m in OBJECTIVES]
            if kind == "published":
                seen[blur] = tuple(statistics.fmean(p.mean(m) for p in plays) for m in OBJECTIVES)
        rows.append((f"{blur:.0%}", *cells))
    drop = [seen[0.0][k] - seen[0.5][k] for k in range(3)]
    return Redone(
        "Figure 3.14, right", "Errors in the confidence bounds, five synthetic users (NJC policy)",
        "With 5 to 50 % of noise on the bounds of learners and forecasters both welfares fall gracefully, and NJC "
        "fairness stays high.",
        "the paper's five logistic users, reports with a deviation of 0.2; units for the median "
        "demand (the paper does not say how many); noise is on the published learner's bounds, and on our reports, as "
        "ours has no bounds of that kind to disturb",
        ("noise", *(f"published: {WORDS[m]}" for m in OBJECTIVES), *(f"ours: {WORDS[m]}" for m in OBJECTIVES)),
        tuple(rows), "agrees" if max(drop[:2]) < 0.2 and seen[0.5][2] > 0.85 else "partly",
        f"From none to 50 % the published policy loses {drop[0]:.3f} of social and {drop[1]:.3f} of egalitarian "
        f"welfare, and its NJC fairness is {seen[0.5][2]:.3f}. With reports so noisy its lower bound hardly ever "
        "reaches the goal of 0.95, so every demand stays high and shares nearly equal, whatever is added to the "
        "bounds.",
    )  # fmt: skip


def exhibits(seeds: Sequence[int]) -> list[Exhibit]:
    """All of chapter 3, in its order."""
    return [
        two_users(seeds), NOT_REDONE["Figure 3.2"], NOT_REDONE["Table 3.1"], NOT_REDONE["Figure 3.3"], utilities(),
        fair_criteria(), NOT_REDONE["Figure 3.6"], NOT_REDONE["Figure 3.7"], NOT_REDONE["Table 3.2"],
        NOT_REDONE["Table 3.3"], NOT_REDONE["Figure 3.8"], own_measures(seeds), convergence(seeds), by_job(seeds),
        welfare_table(seeds), lying(seeds), services(seeds), overhead(seeds), fallback(seeds), blurred(seeds),
    ]  # fmt: skip


def main() -> None:
    """The command line."""
    seeds = seeds_asked(__doc__)
    began = datetime.now(UTC)
    finish(reproduction("cilantro", seeds, exhibits(seeds), began=began))


if __name__ == "__main__":
    main()
