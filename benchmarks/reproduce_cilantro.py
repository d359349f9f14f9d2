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
#: The classes of Table 3.4: the published policies and the baselines that share by welfare, and by demands.
CLASSES = {
    "by welfare": (("published sw", "published ew"), ("evo-sw", "evo-ew", "greedy-ew", "minerva")),
    "by demands": (("published njc",), ("ernest", "quasar", "parties", "miad")),
}
#: A policy is near its oracle with more than this part of its measure.
NEAR = 0.9
#: Intervals of an hour, and of the plays in which a job lies.
HOUR, LYING, SHORT = 15, 30, 45
WORLD = (
    "20 generated jobs on 1000 units, six hours in intervals of 4 minutes (the paper: 2; so there are half as many "
    "rounds to learn from), demand 1637 units in the median; a world per seed"
)


def policy_of(name: str) -> SharingPolicy:
    """A new policy by its label."""
    kind, _, objective = name.partition(" ")
    if kind == "published":
        return PublishedCilantro(objective)
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
    most = {
        kind: tuple(max(of, key=lambda n: useful[n]) for of in (published, theirs))
        for kind, (published, theirs) in CLASSES.items()
    }
    near = {o: mean(f"published {o}", o, seeds) / mean(f"oracle {o}", o, seeds) for o in OBJECTIVES}
    held = [useful[a] > useful[b] for a, b in most.values()] + [x > NEAR for x in near.values()]
    verdict: Verdict = "agrees" if all(held) else "partly" if any(held) else "differs"
    return Redone(
        "Table 3.4", "All methods on all measures, with useful resource usage",
        "Cilantro's policies have the most useful usage of their classes, and come near their oracles on their own "
        "measures; the table's body is missing from the text.",
        WORLD, ("method", *(WORDS[m] for m in MEASURES)), tuple(rows), verdict,
        f"{sum(held)} of five statements hold: two classes, and three oracles with over {NEAR:.0%} as near. Most "
        "useful usage: "
        + "; ".join(f"{kind}, {a} {useful[a]:.3f} and {b} {useful[b]:.3f}" for kind, (a, b) in most.items())
        + ". Of their oracles the published policies reach "
        + ", ".join(f"{near[o]:.0%} on {WORDS[o]}" for o in OBJECTIVES)
        + f". Equal shares use {useful['fair']:.3f}. `fair` has an NJC fairness of 1 by definition.",
    )  # fmt: skip


def best_baseline(measure: str, seeds: Sequence[int]) -> str:
    """Equal shares are always fair, and use little: for NJC those count that use as much as the published policy."""
    least = mean("published njc", "useful", seeds) if measure == "njc" else 0.0
    known = [b for b in BASELINES if mean(b, "useful", seeds) >= least] or list(BASELINES)
    return max(known, key=lambda b: mean(b, measure, seeds))


def baselines_over(measure: str, seeds: Sequence[int]) -> str:
    """Whether a baseline has more of a measure than the published policy, and when; "" where none has."""
    best, name = best_baseline(measure, seeds), f"published {measure}"
    by = mean(best, measure, seeds) - mean(name, measure, seeds)
    if by <= 0:
        return ""
    (first, late), (their_first, their_late) = (
        [statistics.fmean(played(n, s).mean(measure, *hours) for s in seeds) for hours in ((0, HOUR), (2 * HOUR, None))]
        for n in (name, best)
    )
    slow = ": the slow start loses" if late > their_late else ""
    return (
        f"On {WORDS[measure]} {best} is ahead by {by:.3f}. The published policy has {first:.3f} in hour 1 and "
        f"{late:.3f} from hour 3 on, {best} {their_first:.3f} and {their_late:.3f}{slow}. "
    )


def every_two_minutes(seeds: Sequence[int]) -> tuple[tuple[Cell, ...], str]:
    """A row of Figure 3.9 and its words: egalitarian welfare with twice as many rounds, as in the paper."""
    best = best_baseline("ew", seeds)
    worlds = [jobs_world(s, 2 * ROUNDS) for s in seeds]
    of = {n: [play(w, policy_of(n)).mean("ew") for w in worlds] for n in ("fair", "published ew", "ours ew", best)}
    known = [oracle_play(w, "ew").mean("ew") for w in worlds]
    fair, published, ours, theirs = (spread(v, 3) for v in of.values())
    row = ("egalitarian welfare, intervals of 2 minutes", fair, spread(known, 3), published, ours, f"{best}: {theirs}")
    value = {n: statistics.fmean(v) for n, v in of.items()}
    return row, (
        f"With intervals of 2 minutes the published policy has {value['published ew']:.3f} and {best} "
        f"{value[best]:.3f}. "
    )


def left_out(seeds: Sequence[int]) -> str:
    """The baseline with the most NJC fairness of those that use less than the published policy."""
    least = mean("published njc", "useful", seeds)
    frugal = [b for b in BASELINES if b != "fair" and mean(b, "useful", seeds) < least]
    if not frugal:
        return ""
    best = max(frugal, key=lambda b: mean(b, "njc", seeds))
    value = mean(best, "njc", seeds)
    return (
        f" Of the baselines that are left out for NJC, {best} has {value:.3f} (published "
        f"{mean('published njc', 'njc', seeds) - value:+.3f}, ours {mean('ours njc', 'njc', seeds) - value:+.3f}) with "
        f"a useful usage of {mean(best, 'useful', seeds):.3f} (published {least:.3f}, ours "
        f"{mean('ours njc', 'useful', seeds):.3f})."
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
    often, said = every_two_minutes(seeds)
    rows.append(often)
    won = [o for o in OBJECTIVES if ahead[o] > 0]
    near = min(of_oracle.values()) > NEAR
    verdict = judged(len(won) == 3 and near, len(won) >= 2)
    return Redone(
        "Figure 3.9", "NJC fairness against welfare: each policy on its own measure, six hours",
        "Cilantro's three policies come near the oracles on their own measures and are ahead of all nine baselines, "
        "also of Minerva and Greedy-EW, which are made for egalitarian welfare.",
        WORLD + "; NJC: baselines that use less than the published policy are left out; the row of 2-minute intervals "
        "is of other worlds, as chance is drawn by interval",
        ("measure", "equal shares", "oracle", "published Cilantro", "ours", "best baseline"), tuple(rows), verdict,
        "Of the oracle the published policies reach "
        + ", ".join(f"{of_oracle[o]:.1%} on {WORDS[o]}" for o in OBJECTIVES)
        + ". "
        + "".join(baselines_over(o, seeds) for o in OBJECTIVES) + said
        + "Ours over the best baseline: " + ", ".join(f"{WORDS[o]} {ours[o]:+.3f}" for o in OBJECTIVES) + "."
        + left_out(seeds),
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
    first = {k: [of[o][k][0] / of[o][2][0] for o in OBJECTIVES] for k in (0, 1)}
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
        + ". In hour 1 the published policies have "
        + ", ".join(f"{x:.0%}" for x in first[0]) + " of the oracle's, ours " + ", ".join(f"{x:.0%}" for x in first[1])
        + ".",
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
        f"{ROUNDS} intervals are few for 19 services; with too little anywhere, work piles up and P99 is seconds. We "
        "did not find out why ours and the published policy learn at different speeds.",
    )  # fmt: skip


# -- 3.7.3


def overhead(seeds: Sequence[int]) -> Redone:
    pod_s = 5.0
    rows: list[tuple[Cell, ...]] = []
    largest = 0.0
    for o in OBJECTIVES:
        cells = []
        for kind in ("published", "ours"):
            seconds = [x for s in seeds for x in played(f"{kind} {o}", s).seconds]
            cells += [round(1000 * statistics.fmean(seconds), 1), round(1000 * max(seconds), 1)]
            if kind == "published":
                largest = max(largest, *seconds)
        rows.append((WORDS[o], *cells))
    return Redone(
        "Figure 3.14, left", "Time of one decision (learning and allocating), 20 jobs",
        "Cilantro's decisions are light against the 5 to 15 s that a pod takes to move; the bars are missing from the "
        "text.",
        WORLD + "; CPU ms", ("policy for", "published, mean", "largest", "ours, mean", "largest (ours)"), tuple(rows),
        "partly" if largest < pod_s / 10 else "differs",
        f"The longest decision of a published policy takes {1000 * largest:.0f} ms, {pod_s / largest:.0f} times less "
        "than a pod's fastest move. *Partly* at most: for welfare the paper optimises the bounds by an evolutionary "
        "algorithm, here an exact one takes its place, so only the policy for NJC fairness is timed as published.",
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


def exhibits(seeds: Sequence[int]) -> list[Exhibit]:
    """All of chapter 3, in its order."""
    return [
        two_users(seeds), NOT_REDONE["Figure 3.2"], NOT_REDONE["Table 3.1"], NOT_REDONE["Figure 3.3"], utilities(),
        fair_criteria(), NOT_REDONE["Figure 3.6"], NOT_REDONE["Figure 3.7"], NOT_REDONE["Table 3.2"],
        NOT_REDONE["Table 3.3"], NOT_REDONE["Figure 3.8"], own_measures(seeds), convergence(seeds), by_job(seeds),
        welfare_table(seeds), lying(seeds), services(seeds), overhead(seeds), fallback(seeds),
        NOT_REDONE["Figure 3.14, right"],
    ]  # fmt: skip


def main() -> None:
    """The command line."""
    seeds = seeds_asked(__doc__)
    began = datetime.now(UTC)
    finish(reproduction("cilantro", seeds, exhibits(seeds), began=began))


if __name__ == "__main__":
    main()
