"""Ekya's tables and figures, redone: `python -m benchmarks.reproduce_ekya [--seeds 3]`, without a GPU.

Planners run as in the appliance (its controller, under a simulated clock), on generated traces
(edge.simulation.drift_traces: a world per seed) and on the recorded one (benchmarks/results/demo_trace.json). The
published algorithm is `thief`, alone; ours is `relay`, as the appliance follows it.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache

import numpy as np

from benchmarks.bench_replay import held_out_front
from benchmarks.ekya_alternatives import (
    CloudLink,
    TimedPlanner,
    UniformParts,
    alone,
    as_followed,
    cached_accuracy,
    cloud_accuracy,
    fixed_configurations,
    mean_of,
    served,
    slots_from,
)
from benchmarks.ekya_exhibits import (
    NOT_REDONE,
    estimate_errors,
    retraining_costs,
    shift,
    worked_example,
)
from benchmarks.reproduction import (
    RESULTS,
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
from edge.simulation.drift_traces import drift_cameras, drift_trace, ended_or_nothing
from edge.simulation.simulator import SimulationResult, simulate
from edge.simulation.trace import Trace, read_trace
from scheduler.baselines import FixedConfigPolicy, FixedResourcesPolicy, UniformPolicy
from scheduler.thief import ThiefPolicy
from scheduler.window_planning import PlanFunction

#: Windows of a replay; the first has nothing to retrain on.
WINDOWS = 4
#: Standard deviation of profiles' errors where errors are not what is varied: none, as in the paper's simulator, which
#: plans with the logged outcomes.
ERROR = 0.0
#: How much of another start is left after a retraining (benchmarks.bench_start_influence).
INFLUENCE = float(json.loads((RESULTS / "start_influence.json").read_text())["influence"])
HIGH, LOW = fixed_configurations()
CAMERAS = (2, 4, 6, 8)
MANY = CAMERAS[-1]
#: The uniform baselines: label, configuration, part for inference.
UNIFORM = {
    f"uniform, {name}, {part:.0%} inference": (config, part)
    for name, config in (("Config 1", HIGH), ("Config 2", LOW))
    for part in (0.5, 0.9)
}
PUBLISHED, OURS, OURS_LOSES = "thief (published)", "relay (ours)", "relay, unfinished retrainings lost"
GENERATED = (
    "generated traces (cameras whose scenes drift, 18 configurations, 200 s windows), a world per seed; only relay "
    "(ours) keeps the part of a retraining that is done when its window ends, all others lose it"
)


def planners() -> dict[str, Callable[[], PlanFunction]]:
    """All planners by label."""
    known: dict[str, Callable[[], PlanFunction]] = {
        PUBLISHED: lambda: alone(ThiefPolicy()),
        OURS: as_followed,
        OURS_LOSES: as_followed,
        "fixed resources": lambda: alone(UniformParts(None, 0.5)),
        "fair shares": lambda: alone(FixedResourcesPolicy()),
        "fixed Config 2": lambda: alone(FixedConfigPolicy(LOW)),
        "uniform, shares handed on": lambda: alone(UniformPolicy("light", LOW)),
    }
    for label, (config, part) in UNIFORM.items():
        known[label] = lambda c=config, p=part: alone(UniformParts(c, p))  # type: ignore[misc]
    return known


PLANNERS = planners()


@cache
def played(label: str, seed: int, cameras: int, gpus: float, error: float = ERROR) -> SimulationResult:
    """A planner on the first cameras of a world."""
    trace = drift_trace(drift_cameras(seed, cameras, WINDOWS), gpus, seed=seed, estimate_error=error)
    return replay(trace, label)


def replay(trace: Trace, label: str, plan: PlanFunction | None = None) -> SimulationResult:
    """A planner on a trace. Only ours keeps the part of a retraining that is done when its window ends."""
    name = "relay" if label in (OURS, OURS_LOSES) else label
    if label != OURS:
        trace = ended_or_nothing(trace)
    return simulate(trace, name, plan or PLANNERS[label](), start_influence=INFLUENCE)


def means(label: str, seeds: Sequence[int], cameras: int, gpus: float, error: float = ERROR) -> list[float]:
    return [mean_of(played(label, s, cameras, gpus, error)) for s in seeds]


def best_uniform(seeds: Sequence[int], cameras: int, gpus: float) -> list[float]:
    """Per seed, the best of the uniform baselines (chosen afterwards)."""
    return [max(mean_of(played(u, s, cameras, gpus)) for u in UNIFORM) for s in seeds]


def lead(a: Sequence[float], b: Sequence[float]) -> float:
    return statistics.fmean(a) - statistics.fmean(b)


# -- 2.6.1


def by_cameras(seeds: Sequence[int]) -> Redone:
    rows: list[tuple[Cell, ...]] = []
    leads: dict[float, list[float]] = {}
    worst: list[float] = []
    behind: list[float] = []
    handed: list[float] = []
    for gpus in (1.0, 2.0):
        for cameras in CAMERAS:
            thief, relay = means(PUBLISHED, seeds, cameras, gpus), means(OURS, seeds, cameras, gpus)
            uniform = [means(u, seeds, cameras, gpus) for u in UNIFORM]
            best = best_uniform(seeds, cameras, gpus)
            returned = means("uniform, shares handed on", seeds, cameras, gpus)
            leads.setdefault(gpus, []).append(lead(thief, best))
            worst.append(max(lead(thief, u) for u in uniform))
            behind.append(lead(relay, thief))
            handed.append(lead(thief, returned))
            rows.append((
                f"{gpus:g}", cameras, *(spread(u) for u in uniform), spread(returned), spread(thief), spread(relay),
                f"{lead(relay, thief):+.1f}",
            ))  # fmt: skip
    wins = all(x > 0 for row in leads.values() for x in row)
    grows = all(row[-1] > row[0] for row in leads.values())
    said = "; ".join(f"{g:g} GPU: {r[0]:+.1f} with 2 cameras, {r[-1]:+.1f} with {MANY}" for g, r in leads.items())
    verdict = judged(wins and grows, about(max(worst), 29))
    return Redone(
        "Figure 2.6", "Accuracy by number of cameras, 1 and 2 GPUs",
        "Ekya is ahead of every uniform baseline, by more the more cameras share the GPUs: up to 29 % with 1 GPU, 23 % "
        "with 2.",
        GENERATED + "; accuracy in %, mean (least to largest) over seeds",
        ("GPUs", "cameras", *UNIFORM, "uniform, Config 2, free shares handed on", PUBLISHED, OURS, "ours - published"),
        tuple(rows), verdict,
        f"The published scheduler's lead over the best uniform baseline: {said}; over the worst one up to "
        f"{max(worst):.1f} points. The baselines keep their split all window long, as the paper says; one that hands "
        f"free shares on is behind by {min(handed):.1f} to {max(handed):.1f} points only. The best baseline of a "
        "setting (chosen afterwards) has a large part for inference and a cheap configuration where GPUs are few. Ours "
        f"is behind the published scheduler in {sum(x < -0.05 for x in behind)} of {len(behind)} settings and ahead by "
        f"up to {max(behind):.1f} points.",
    )  # fmt: skip


def capacity(seeds: Sequence[int]) -> Redone:
    """Most cameras at a target, from the same plays as Figure 2.6 and more GPUs."""
    target = 70.0
    rows: list[tuple[Cell, ...]] = []
    most: dict[str, tuple[int, ...]] = {}
    for label in (*UNIFORM, PUBLISHED, OURS):
        most[label] = tuple(
            max((n for n in CAMERAS if statistics.fmean(means(label, seeds, n, g)) >= target), default=0)
            for g in (1.0, 2.0)
        )
        rows.append((label, *most[label]))
    best = tuple(max(most[u][k] for u in UNIFORM) for k in (0, 1))
    theirs = most[PUBLISHED]
    ahead: Verdict = "partly"
    if all(a > b for a, b in zip(theirs, best, strict=True)) and theirs[1] - theirs[0] >= best[1] - best[0]:
        ahead = "agrees"
    if any(a < b for a, b in zip(theirs, best, strict=True)):
        ahead = "differs"
    return Redone(
        "Table 2.3", "Capacity: most cameras at an accuracy of at least a target, by GPUs",
        "Ekya's capacity grows faster with GPUs than that of the uniform baselines (target 75 %); the table's body is "
        "missing from the text.",
        f"{GENERATED}; target {target:g} % (75 % in the paper, whose models are more accurate than the generated "
        "ones); 2, 4, 6 or 8 cameras tried, 0: not even 2",
        ("planner", "1 GPU", "2 GPUs"), tuple(rows), ahead,
        f"With 1 and 2 GPUs the published scheduler holds the target for {theirs[0]} and {theirs[1]} cameras, the best "
        f"uniform baseline for {best[0]} and {best[1]}. Only these numbers of cameras were "
        "tried: where both end at the same, the difference is smaller than a step.",
    )  # fmt: skip


def by_gpus(seeds: Sequence[int]) -> Redone:
    rows: list[tuple[Cell, ...]] = []
    gpus_tried = (1.0, 2.0, 4.0, 8.0, 16.0)
    thief = {g: means(PUBLISHED, seeds, MANY, g) for g in gpus_tried[:3]}
    relay = {g: means(OURS, seeds, MANY, g) for g in gpus_tried[:3]}
    best = {g: best_uniform(seeds, MANY, g) for g in gpus_tried}
    for g in gpus_tried:
        uniform = [spread(means(u, seeds, MANY, g)) for u in UNIFORM]
        mine = (spread(thief[g]), spread(relay[g])) if g in thief else (None, None)
        rows.append((f"{g:g}", *uniform, spread(best[g]), *mine))
    top = statistics.fmean(thief[4.0])
    needs = next((g for g in gpus_tried if statistics.fmean(best[g]) >= top), None)
    needs_ours = next((g for g in gpus_tried if statistics.fmean(best[g]) >= statistics.fmean(relay[4.0])), None)
    most = statistics.fmean(best[16.0])
    wins = all(lead(thief[g], best[g]) > 0 for g in thief) and top > most
    verdict = judged(wins, about((needs or 32.0) / 4, 4))

    def words(found: float | None) -> str:
        return "more than the 16 tried" if found is None else f"{found:g}"

    return Redone(
        "Figure 2.8", "Accuracy by number of GPUs, 8 cameras (the paper: 10), and GPUs that baselines need",
        "Ekya is ahead at every number of GPUs, and with 4 it is above the uniform baselines with 16 (a factor of 4).",
        GENERATED + "; accuracy in %; 8 and 16 GPUs were played by the baselines alone",
        ("GPUs", *UNIFORM, "the best of them per seed", PUBLISHED, OURS), tuple(rows), verdict,
        f"The published scheduler with 4 GPUs has {top:.1f} %, the best uniform baseline with 16 {most:.1f} %. To "
        f"equal the published scheduler with 4, the best uniform baseline needs {words(needs)} GPUs (the paper: more "
        f"than 16); to equal ours with 4 ({statistics.fmean(relay[4.0]):.1f} %), {words(needs_ours)}. With 16 GPUs "
        "and 8 cameras no share is missing any more.",
    )  # fmt: skip


def detectors() -> Redone:
    """The recorded trace: published detectors' students on the demo's cameras."""
    whole = read_trace(RESULTS / "demo_trace.json")
    held_out = ("overpass-2", "junction-2")
    front = held_out_front([c for c in whole.cameras if c.id in held_out])
    high, low = front[-1][1], front[0][1]
    tested = tuple(c for c in whole.cameras if c.id not in held_out)
    rows: list[tuple[Cell, ...]] = []
    wins, worst = [], []
    for cameras in (tested[:2], tested):
        for part in (1.0, 0.5, 0.25, 0.125):
            trace = replace(whole, cameras=cameras, num_gpus=whole.num_gpus * part)
            value: dict[str, float] = {}
            for label, config in (("Config 1", high), ("Config 2", low)):
                for share in (0.5, 0.9):
                    plan = alone(UniformParts(config, share))
                    value[f"{label}, {share:.0%}"] = mean_of(replay(trace, label, plan))
            value[PUBLISHED] = mean_of(replay(trace, PUBLISHED))
            value[OURS] = mean_of(replay(trace, OURS))
            rows.append((f"{trace.num_gpus:g}", len(cameras), *(round(v, 1) for v in value.values())))
            wins.append(value[PUBLISHED] - max(list(value.values())[:4]))
            worst.append(value[PUBLISHED] - min(list(value.values())[:4]))
    verdict = judged(statistics.fmean(wins) > 0, about(max(worst), 19))
    return Redone(
        "Figure 2.7", "Other models: detectors (b); other classifiers (a) are not redone",
        "With other classifiers Ekya is up to 22 % ahead of the uniform baselines; with detectors its F1 is 19 % "
        "ahead.",
        "the recorded trace (benchmarks/results/demo_trace.json): students of a detector, 6 windows of 90 s, every "
        "configuration trained; F1 in %; devices are CPU sets",
        ("devices", "cameras", "uniform Config 1, 50%", "uniform Config 1, 90%", "uniform Config 2, 50%",
         "uniform Config 2, 90%", PUBLISHED, OURS),
        tuple(rows), verdict,
        f"The published scheduler over the best uniform baseline of a setting: {min(wins):+.1f} to {max(wins):+.1f} "
        f"points, over the worst one {min(worst):.1f} to {max(worst):.1f}. (a) needs MobileNetV2 and ShuffleNet "
        "trained on the paper's videos.",
    )  # fmt: skip


# -- 2.6.2


def allocation(seeds: Sequence[int]) -> Redone:
    """Of ten cameras the one that a retraining gains most and the one that it gains least."""
    seed = seeds[0]
    cameras = drift_cameras(seed, 10, WINDOWS + 3)
    gain = [float(np.mean([c.goals[w - 1, w] - c.goals[0, w] for w in range(2, c.windows + 1)])) for c in cameras]
    pair = (cameras[int(np.argmax(gain))], cameras[int(np.argmin(gain))])
    trace = drift_trace(pair, 0.6, seed=seed, estimate_error=ERROR)
    rows: list[tuple[Cell, ...]] = []
    spent: dict[str, float] = {}
    for label in ("uniform, Config 2, 50% inference", PUBLISHED, OURS):
        result = replay(trace, label)
        for camera, name in zip(pair, ("#1 (drifts most)", "#2 (drifts least)"), strict=True):
            own = [r for r in result.rows if r.camera == camera.ways.id and r.window > 1]
            work = [r.retraining_device_s for r in own]
            spent[label + name[:2]] = sum(work)
            rows.append((
                label, name, round(100 * statistics.fmean(r.accuracy for r in own), 1),
                *(round(w) for w in work), sum(w < 1 for w in work),
            ))  # fmt: skip
    more = spent[PUBLISHED + "#1"] > 1.2 * spent[PUBLISHED + "#2"]
    windows = range(2, trace.windows + 1)
    return Redone(
        "Figure 2.9", "Device seconds for retraining of two cameras over time",
        "Ekya retrains where it pays: the camera that gains more gets more of the GPU, both end at 82 to 83 %, well "
        "above the uniform baseline, which gives both the same.",
        f"generated trace of seed {seed}: of 10 cameras the two that drift most and least, 0.6 devices",
        ("planner", "camera", "accuracy %", *(f"device s, window {w}" for w in windows), "windows without retraining"),
        tuple(rows), "agrees" if more else "partly",
        f"The published scheduler spends {spent[PUBLISHED + '#1']:.0f} device seconds on the first camera and "
        f"{spent[PUBLISHED + '#2']:.0f} on the second; ours {spent[OURS + '#1']:.0f} and {spent[OURS + '#2']:.0f}.",
    )  # fmt: skip


def components(seeds: Sequence[int]) -> Redone:
    rows: list[tuple[Cell, ...]] = []
    loss: dict[str, list[float]] = {"fixed resources": [], "fair shares": [], "fixed Config 2": []}
    kept: list[float] = []
    for gpus in (1.0, 2.0, 4.0):
        thief, relay = means(PUBLISHED, seeds, MANY, gpus), means(OURS, seeds, MANY, gpus)
        cells = []
        for label in loss:
            value = means(label, seeds, MANY, gpus)
            loss[label].append(lead(thief, value))
            cells.append(spread(value))
        lost = means(OURS_LOSES, seeds, MANY, gpus)
        kept.append(lead(relay, lost))
        best = spread(best_uniform(seeds, MANY, gpus))
        rows.append((f"{gpus:g}", *cells, best, spread(thief), spread(relay), spread(lost)))
    res, con, fair = loss["fixed resources"], loss["fixed Config 2"], loss["fair shares"]
    both = max(res) > 0.5 and max(con) > 0.5
    constrained = res[0] >= res[-1] and con[0] >= con[-1]
    return Redone(
        "Figure 2.10a", "What each part contributes, 8 cameras (the paper: 10)",
        "Without the stealing of shares (FixedRes) and without the choice of configurations (FixedConfig) Ekya loses "
        "much, most where GPUs are few.",
        GENERATED + "; accuracy in %",
        ("GPUs", "Ekya-FixedRes (50 %)", "fair shares, handed on", "Ekya-FixedConfig (Config 2)", "best uniform",
         PUBLISHED, OURS, OURS_LOSES),
        tuple(rows), "agrees" if both and constrained else "partly" if both else "differs",
        "Points lost with 1, 2 and 4 GPUs: fixed resources " + ", ".join(f"{x:.1f}" for x in res)
        + "; fixed configuration " + ", ".join(f"{x:.1f}" for x in con)
        + ". Fair shares that are handed on when a retraining ends lose " + ", ".join(f"{x:.1f}" for x in fair)
        + ": stealing itself gains next to nothing here, where cameras are alike; FixedRes loses because it keeps its "
        "split. Against ours without it, the part that ours keeps of unfinished retrainings brings "
        + ", ".join(f"{x:+.1f}" for x in kept) + " points.",
    )  # fmt: skip


def window_lengths(seeds: Sequence[int]) -> Redone:
    total, first, scored = 1200.0, 200.0, 600.0
    rows: list[tuple[Cell, ...]] = []
    curve: dict[float, float] = {}
    for length in (10.0, 50.0, 100.0, 200.0, 300.0, 600.0):
        values: dict[str, list[float]] = {PUBLISHED: [], OURS: [], "no": []}
        for seed in seeds:
            cameras = drift_cameras(seed, 4, round(total / length), length, first_s=first)
            trace = drift_trace(cameras, 1.0, seed=seed, estimate_error=ERROR, labelling_s=0.02 * length)
            since = round(scored / length) + 1
            for label in (PUBLISHED, OURS):
                values[label].append(mean_of(replay(trace, label), since))
            values["no"].append(mean_of(served(trace), since))
        curve[length] = lead(values[PUBLISHED], values["no"])
        rows.append((f"{length:g}", spread(values["no"]), spread(values[PUBLISHED]), spread(values[OURS])))
    top = max(curve, key=lambda k: curve[k])
    shape = judged(top not in (10.0, 600.0), curve[10.0] < 2)
    return Redone(
        "Figure 2.10b", "Accuracy by length of the window, 4 cameras, 1 GPU",
        "Windows of 10 s are no better than no retraining; accuracy rises quickly with longer ones, then falls slowly, "
        "as a small model cannot hold all that a long window shows.",
        "generated traces: the same scenes cut into windows of each length; accuracy in % from 600 s to 1200 s",
        ("window s", "nothing retrained", PUBLISHED, OURS), tuple(rows), shape,
        f"The published scheduler gains most with windows of {top:g} s: {curve[top]:+.1f} points over no retraining, "
        f"with 10 s {curve[10.0]:+.1f}, with 600 s {curve[600.0]:+.1f}. The cheapest generated "
        "configuration costs less than a device second, so some retrainings end within 10 s; ours keeps the part that "
        "is done, too. Accuracy falls with long windows because models are older, and because a small model holds only "
        "so much, which is part of the generator.",
    )  # fmt: skip


def quantum(seeds: Sequence[int]) -> Redone:
    rows: list[tuple[Cell, ...]] = []
    by_delta: dict[float, list[float]] = {}
    times: dict[float, float] = {}
    for delta in (1.0, 0.25, 0.1):
        thief, relay, seconds, ours = [], [], [], []
        for seed in seeds:
            trace = drift_trace(drift_cameras(seed, 10, 2), 2.0, seed=seed, estimate_error=ERROR, delta=delta)
            plan = TimedPlanner(alone(ThiefPolicy()))
            thief.append(mean_of(replay(trace, PUBLISHED, plan)))
            seconds += plan.seconds
            followed = TimedPlanner(as_followed())
            relay.append(mean_of(replay(trace, OURS, followed)))
            ours += followed.seconds
        by_delta[delta], times[delta] = thief, max(seconds)
        rows.append((f"{delta:g}", spread(thief), round(1000 * max(seconds)), spread(relay), round(1000 * max(ours))))
    gain = lead(by_delta[0.1], by_delta[1.0])
    return Redone(
        "Section 2.6.2, quantum", "Accuracy and time to decide by the quantum of shares, 10 cameras, 18 configurations",
        "From a quantum of one GPU to a tenth accuracy rises by about 8 %, and the time to decide (10 cameras, 8 GPUs) "
        "to 9.4 s, 4.7 % of a window.",
        GENERATED + "; 2 GPUs; accuracy in %, largest CPU time of one decision",
        ("quantum", PUBLISHED, "ms", OURS, "ms (ours)"), tuple(rows),
        judged(gain > 0.3, about(gain, 8)),
        f"The published scheduler gains {gain:.1f} points from 1.0 to 0.1. Here it begins from fair shares (0.1 of a "
        "GPU for each of 20 jobs) that are no multiple of a large quantum, as Algorithm 1 says, so with a quantum of a "
        "whole GPU nothing can be stolen and fair shares stay; were shares rounded to whole GPUs, most jobs would have "
        "none. Ours counts in at least ten parts of the quantum. A decision takes "
        f"{1000 * times[0.1]:.0f} ms here, as values are kept between thefts.",
    )  # fmt: skip


# -- 2.6.3, 2.6.4


def robustness(seeds: Sequence[int]) -> Redone:
    rows: list[tuple[Cell, ...]] = []
    errors = (0.0, 0.1, 0.2, 0.5)
    thief = {e: means(PUBLISHED, seeds, 6, 2.0, e) for e in errors}
    relay = {e: means(OURS, seeds, 6, 2.0, e) for e in errors}
    rows += [
        (f"{e:.0%}", spread(thief[e]), f"{lead(thief[e], thief[0.0]):+.1f}", spread(relay[e]),
         f"{lead(relay[e], relay[0.0]):+.1f}") for e in errors
    ]  # fmt: skip
    uniform = best_uniform(seeds, 6, 2.0)
    rows.append(("best uniform", spread(uniform), None, None, None))
    drop = max(lead(thief[0.0], thief[e]) for e in (0.1, 0.2))
    return Redone(
        "Figure 2.11b", "Errors of the profiler: Gaussian noise on the predicted accuracy after retraining",
        "With up to 20 % of noise Ekya loses at most 3 %.",
        GENERATED + "; 6 cameras, 2 GPUs; noise is the standard deviation in points of accuracy, drawn anew for every "
        "configuration, camera and window",
        ("noise", PUBLISHED, "change", OURS, "change (ours)"), tuple(rows),
        "agrees" if drop <= 3.5 else "partly" if drop <= 6 else "differs",
        f"The published scheduler loses {drop:.1f} points with up to 20 %, ours "
        f"{max(lead(relay[0.0], relay[e]) for e in (0.1, 0.2)):.1f}; with 50 %, "
        f"{lead(thief[0.0], thief[0.5]):.1f} and {lead(relay[0.0], relay[0.5]):.1f}. Ours gains more from good "
        "estimates and loses more to bad ones. Noise that is drawn for each "
        "configuration alone flatters the luckiest of 18, which both then choose; errors that a camera's "
        "configurations share would do less.",
    )  # fmt: skip


def cloud(seeds: Sequence[int]) -> Redone:
    links = (
        CloudLink("cellular", 5.1, 17.5), CloudLink("satellite", 8.5, 15.0), CloudLink("cellular (2x)", 10.2, 35.0),
        CloudLink("cellular, both ways at once", 5.1, 17.5, duplex=True),
    )  # fmt: skip
    edge: dict[str, list[float]] = {PUBLISHED: [], OURS: []}
    worlds = {}
    for seed in seeds:
        cameras = drift_cameras(seed, 8, WINDOWS, 400.0)
        trace = worlds[seed] = drift_trace(cameras, 4.0, seed=seed, estimate_error=ERROR)
        for label in edge:
            edge[label].append(mean_of(replay(trace, label)))
    own = {s: drift_cameras(s, 8, WINDOWS, 400.0) for s in seeds}

    def cloudy(link: CloudLink) -> list[float]:
        return [mean_of(cloud_accuracy(worlds[s], own[s], link), slots_from(own[s], 2)) for s in seeds]

    def needed(link: CloudLink, target: Sequence[float]) -> float | None:
        for times in (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0):
            if lead(cloudy(link.faster(times)), target) >= 0:
                return times
        return None

    rows: list[tuple[Cell, ...]] = []
    behind = []
    for link in links:
        value = cloudy(link)
        behind.append(lead(edge[PUBLISHED], value))
        gaps = [needed(link, edge[label]) for label in (PUBLISHED, OURS)]
        rows.append((link.name, link.up, link.down, round(link.round_s(8)), spread(value),
                     *("more than 16" if g is None else f"{g:g}" for g in gaps)))  # fmt: skip
    rows += [(f"edge: {label}", None, None, None, spread(edge[label]), None, None) for label in edge]
    verdict = judged(statistics.fmean(behind[:3]) > 0, about(statistics.fmean(behind[:3]), 8.2))
    return Redone(
        "Table 2.4", "Retraining in the cloud over thin links, against retraining at the edge",
        "8 cameras, 4 GPUs, windows of 400 s: the cloud has 68.5 % over cellular links, 69.2 % over satellite, 71.2 % "
        "over two cellular ones; Ekya 77.8 %. To equal it, 5 to 10 times the uplink and 2 to 4 times the downlink are "
        "needed.",
        "generated traces; a sample is 160 Mbit, a model 398 Mbit, as in the paper; training in the cloud takes no "
        "time and always goes to the end; accuracy in %",
        ("link", "Mbit/s up", "Mbit/s down", "s for all 8", "accuracy %", "times as fast to equal published",
         "to equal ours"),
        tuple(rows), verdict,
        f"All cameras over one cellular link take {links[0].round_s(8):.0f} s (the paper: 432 s), more than a window, "
        "so rounds slip. The order is the paper's; the published scheduler at the edge leads the three links by "
        + ", ".join(f"{b:.1f}" for b in behind[:3])
        + " points, less than in the paper (9.3, 8.6, 6.6), because the cloud trains every model to the end for "
        "nothing and the edge, with 0.25 devices a camera left, does not; so less bandwidth is needed to equal it, "
        "too. The paper's count sends all samples and then all models; models that come down while samples go up "
        f"would take {links[3].round_s(8):.0f} s over one cellular link, and the edge then leads by {behind[3]:.1f}.",
    )  # fmt: skip


def cached(seeds: Sequence[int]) -> Redone:
    history, tested, count, gpus = 6, 3, 6, 3.0
    names = {
        "classes": "class distribution", "labels": "best on the last window's labels", "any": "any",
        "oldest": "the first",
    }  # fmt: skip
    values: dict[str, list[float]] = {}
    by_camera: dict[str, list[float]] = {n: [] for n in names}
    for seed in seeds:
        cameras = drift_cameras(seed, count, history + tested)
        trace = drift_trace(cameras, gpus, seed=seed, estimate_error=ERROR)
        results = {label: replay(trace, label) for label in (PUBLISHED, OURS)}
        for label, result in results.items():
            values.setdefault(label, []).append(mean_of(result, history + 1))
        for how in names:
            result = cached_accuracy(trace, cameras, how, seed)
            values.setdefault(how, []).append(mean_of(result, history + 1))
            for camera in cameras:
                mine, theirs = (
                    statistics.fmean(
                        100 * r.accuracy for r in x.rows if r.camera == camera.ways.id and r.window > history
                    )
                    for x in (results[PUBLISHED], result)
                )
                by_camera[how].append(mine - theirs)
    rows: list[tuple[Cell, ...]] = [(label, spread(values[label]), None, None, None) for label in (PUBLISHED, OURS)]
    for how, name in names.items():
        low, middle, high = (float(np.quantile(by_camera[how], q)) for q in (0.25, 0.5, 0.75))
        rows.append((f"cached: {name}", spread(values[how]), round(low, 1), round(middle, 1), round(high, 1)))
    over = {how: lead(values[PUBLISHED], values[how]) for how in names}
    return Redone(
        "Figure 2.12", "Models of earlier windows used again, against retraining",
        "Retraining has up to 26 % more accuracy than cached models that are chosen by class distribution, time of "
        "day, number of objects or place; appearance changes although the classes are the same.",
        f"generated traces: {count} cameras, {gpus:g} GPUs, {tested} windows after {history} whose models are cached; "
        "accuracy in %; quartiles over cameras and seeds of the published scheduler's lead",
        ("scheme", "accuracy %", "lead: lower quartile", "median", "upper quartile"), tuple(rows),
        judged(over["classes"] > 0 and over["any"] > 0, about(max(over.values()), 26)),
        f"The published scheduler leads by {over['classes']:.1f} points over the choice by classes, which does not see "
        f"appearance, and by {over['labels']:.1f} over a choice that tries every cached model on the last window's "
        "labels, which the paper did not have. Time of day, number of objects and place are no part of the generated "
        "scenes; `any` and `the first` stand for choices that know nothing of them.",
    )  # fmt: skip


def exhibits(seeds: Sequence[int]) -> list[Exhibit]:
    """All of chapter 2, in its order."""
    recorded = read_trace(RESULTS / "demo_trace.json")
    return [
        NOT_REDONE["Figure 2.1"], shift(recorded, seeds), retraining_costs(recorded), *worked_example(),
        NOT_REDONE["Table 2.2"], NOT_REDONE["Figure 2.5"], by_cameras(seeds), capacity(seeds), detectors(),
        by_gpus(seeds), allocation(seeds), components(seeds), window_lengths(seeds), quantum(seeds),
        estimate_errors(recorded), robustness(seeds), cloud(seeds), cached(seeds),
    ]  # fmt: skip


def main() -> None:
    """The command line."""
    seeds = seeds_asked(__doc__)
    began = datetime.now(UTC)
    finish(reproduction("ekya", seeds, exhibits(seeds), began=began))


if __name__ == "__main__":
    main()
