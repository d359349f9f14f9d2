"""The tables and figures of ESCHER, redone in the simulated fleet: locality, fair shares, gangs, migration, names.

    python -m benchmarks.reproduce_escher [--seeds 3]

The product's fleet is an ESCHER: policies are made of names with a capacity, and one matcher. So "published" here is a
policy written directly in names, and "ours" the fleet's controller, which makes the names itself. Decision times are
CPU time in this process: a cluster's messages are not in them. About three minutes.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.fleet_gangs import BOXES, CORES, LAUNCH_S, in_application, in_framework, in_service
from benchmarks.fleet_gangs import scenario as gangs_of
from benchmarks.fleet_policies import POLICIES, shares_of_a_tree
from benchmarks.reproduction import Cell, Exhibit, NotRedone, Redone, about, finish, judged, reproduction, seeds_asked
from benchmarks.reproduction import spread as over_seeds
from edge.core.fleet import UNBOUNDED
from edge.simulation.fleet_check import check_log
from edge.simulation.fleet_scenario import scenario_from_json
from edge.simulation.fleet_simulation import FleetRun, FleetSimulation, SimulatedTimes
from scheduler.fleet.matcher import Matcher

#: A box counts words at so many GB/s in one task, and receives so many; a container starts in so many seconds.
MAP_GB_S, NET_GB_S, START_S = 0.25, 1.25, 2.0
SLOTS = 4
#: Parts of a cluster that gangs keep busy.
LOADS = (0.5, 0.8)
#: The gain in throughput of a job whose workers share a machine, as the paper measured it; a migration's pause.
TOGETHER, PAUSE_S, HORIZON_S = 1.363, 5.0, 300.0


def main() -> int:
    """Exit code 0."""
    seeds, began = seeds_asked(__doc__), datetime.now(UTC)
    finish(reproduction("escher", seeds, exhibits(seeds), began=began))
    return 0


def exhibits(seeds: Sequence[int]) -> list[Exhibit]:
    """All of the chapter, in its order."""
    return [
        NotRedone("Figure 4.1", "three designs of schedulers", "drawing", "A diagram."),
        NotRedone(
            "Table 4.1",
            "policies that other schedulers support",
            "program",
            "A list of what schedulers of others can do; its rows are not in the text.",
        ),
        NotRedone("Figure 4.2", "a task placed by a name", "drawing", "A diagram; the fleet's matcher does it."),
        NotRedone("Figure 4.3", "the way of a task through an ESL", "drawing", "A diagram."),
        _table_4_2(seeds),
        NotRedone(
            "Figure 4.4", "code of soft and of joined policies", "drawing", "Code; both are in Table 4.2's rows."
        ),
        _figure_4_5a(seeds),
        _figure_4_5b(seeds),
        _figure_4_5c(seeds),
        NotRedone(
            "Figure 4.6(a)",
            "AlphaZero with pairs together",
            "device",
            "It measures board explorations on 128 GPUs, over a network. That pairs are together and spread is in "
            "Table 4.2.",
        ),
        _figure_4_6b(seeds),
        NotRedone("Figure 4.7", "code of AlphaZero's policy", "drawing", "Code; its policy is in Table 4.2's rows."),
        _figure_4_8(seeds),
        _figure_4_9a(),
        _figure_4_9b(),
        _figure_4_9c(),
    ]


def _ran(value: dict[str, Any], start_s: float = 0.01) -> FleetRun:
    return FleetSimulation(scenario_from_json(value), times=SimulatedTimes(start_s=start_s)).run()


def _table_4_2(seeds: Sequence[int]) -> Exhibit:
    rows: list[tuple[Cell, ...]] = []
    broken = 0
    for name, draw in POLICIES.items():
        tasks = faults = waiting = 0
        for seed in seeds:
            value = draw(random.Random(f"{name} {seed}"))
            run = _ran(value)
            verdict = check_log(scenario_from_json(value), run.log)
            tasks += sum(row["event"] == "placed" for row in run.log)
            faults += sum(verdict.counts.values())
            waiting += len(run.waiting)
        broken += faults + waiting
        rows.append((name, "in a few names", tasks, faults, waiting))
    return Redone(
        "Table 4.2",
        "scheduling policies made of names",
        "Affinity, anti-affinity, gangs, order, queues, soft constraints, balance and packing can all be said with "
        "named quantities and joined, without a change of the scheduler.",
        "10 kinds of scenario drawn for each seed (`benchmarks/fleet_policies.py`) in the simulated fleet; its "
        "checker judges each log",
        ("policy", "paper", "tasks placed here (published is ours)", "rules broken", "jobs left waiting"),
        tuple(rows),
        judged(broken == 0, broken == 0),
        "Every policy is kept. Balance and packing are not made of names here: the matcher sees the boxes and "
        "picks the one, exactly, where the paper halves a demand step by step and is right within a factor of two.",
    )


def _chunks(boxes: int, chunk_gb: float) -> dict[str, Any]:
    """A service for the data of each box and a mapper near it."""
    made = [{"name": f"b{n}", "resources": {"cpu": SLOTS}} for n in range(boxes)]
    jobs = [
        {"id": f"data{n}", "t": 0, "demand": {"cpu": 0}, "duration_s": None, "zone": {"box": [f"b{n}"]}}
        for n in range(boxes)
    ]  # fmt: skip
    jobs += [
        {"id": f"map{n}", "t": 10, "demand": {"cpu": 1}, "duration_s": chunk_gb / MAP_GB_S, "near": [f"data{n}"]}
        for n in range(boxes)
    ]  # fmt: skip
    return {"format": "fleet-scenario/1", "name": "words", "boxes": made, "jobs": jobs}


def _by_controller(boxes: int, chunk_gb: float) -> tuple[float, int]:
    """Makespan in seconds with the fleet's rule `near`, decisions' CPU time included; mappers away from their data."""
    begin = time.process_time()
    run = _ran(_chunks(boxes, chunk_gb), START_S)
    cpu_s = time.process_time() - begin
    placed = {row["job"]: row["box"] for row in run.log if row["event"] == "placed"}
    away = sum(placed[f"map{n}"] != f"b{n}" for n in range(boxes))
    return max(row["t"] for row in run.log if row["event"] == "ended") - 10 + cpu_s, away


def _by_names(boxes: int, chunk_gb: float) -> float:
    """The same with a name `data:n` on each box, which its mapper asks for."""
    begin = time.process_time()
    matcher = Matcher()
    for n in range(boxes):
        matcher.add_box(f"b{n}", {"cpu": SLOTS})
        matcher.set_resource(f"data:{n}", UNBOUNDED, f"b{n}")
    for n in range(boxes):
        demand = {"cpu": 1.0, f"data:{n}": 1.0}
        box = matcher.match(demand)
        assert box == f"b{n}"
        matcher.book(("map", n), [(box, demand)])
    return time.process_time() - begin + START_S + chunk_gb / MAP_GB_S


def _at_random(boxes: int, chunk_gb: float, seed: int) -> tuple[float, float]:
    """The makespan, and the part of it that transfers add: each mapper on any box with room; chunks that a box receives
    share its network."""
    rng = random.Random(f"random {boxes} {seed}")
    slots = [n for n in range(boxes) for _ in range(SLOTS)]
    where = rng.sample(slots, boxes)
    coming = Counter(box for n, box in enumerate(where) if box != n)
    mapped = START_S + chunk_gb / MAP_GB_S
    makespan = max(mapped + (coming[box] * chunk_gb / NET_GB_S if box != n else 0.0) for n, box in enumerate(where))
    return makespan, 100 * (1 - mapped / makespan)


def _figure_4_5a(seeds: Sequence[int]) -> Exhibit:
    rows: list[tuple[Cell, ...]] = []
    parts = {}
    differences = []
    for total_gb in (50, 100, 250, 500):
        chunk = total_gb / 100
        found = [_at_random(100, chunk, seed) for seed in seeds]
        names, (ours, away) = _by_names(100, chunk), _by_controller(100, chunk)
        parts[total_gb] = statistics.fmean(part for _, part in found)
        differences.append(100 * abs(ours / names - 1))
        rows.append(
            (
                f"{total_gb} GB",
                58.3 if total_gb == 500 else None,
                over_seeds([m for m, _ in found]),
                over_seeds([part for _, part in found]),
                round(names, 2),
                round(ours, 2),
                away,
            )
        )
    return Redone(
        "Figure 4.5(a)",
        "counting words with and without data locality",
        "Without locality transfers take a growing part of the time, 58.3 % at 500 GB; ESCHER's two lines of names "
        "are as fast as Kubernetes' own locality.",
        f"100 boxes with a chunk each; a task counts {MAP_GB_S} GB/s, a box receives {NET_GB_S} GB/s, a container "
        f"starts in {START_S:g} s (assumed: the paper does not tell its rates); seeds draw the random placement",
        (
            "input",
            "paper: transfers, % of the time",
            "random placement, s",
            "of it transfers %",
            "published: names, s",
            "ours: rule near, s",
            "mappers away from data",
        ),
        tuple(rows),
        judged(parts[500] > parts[50] and max(differences) < 2, about(parts[500], 58.3)),
        f"Names and rule place every task at its data; they differ by {max(differences):.2f} % at most. The part "
        "that transfers take follows from the assumed rates; it grows with the input because starts take as long "
        "for any size.",
    )


def _figure_4_5b(seeds: Sequence[int]) -> Exhibit:
    rows: list[tuple[Cell, ...]] = []
    differences = []
    for boxes in (10, 25, 50, 100, 200, 400):
        names = [_by_names(boxes, 2.0) for _ in seeds]
        ours = [_by_controller(boxes, 2.0)[0] for _ in seeds]
        differences.append(100 * (statistics.fmean(ours) / statistics.fmean(names) - 1))
        rows.append((boxes, 1.9, over_seeds(names, 2), over_seeds(ours, 2), round(differences[-1], 2)))
    return Redone(
        "Figure 4.5(b)",
        "counting words on clusters of different size",
        "The makespan stays within 1.9 % of Kubernetes' own locality at every size.",
        "2 GB a box; CPU time of all decisions is added to the makespan as if nothing ran meanwhile",
        ("boxes", "paper: at most, %", "published: names, s", "ours: rule near, s", "difference %"),
        tuple(rows),
        judged(max(differences) < 5, max(differences) < 1.9),
        "There is no scheduler of Kubernetes here; the comparison is that of names against the controller that "
        f"makes them. The largest difference is {max(differences):.2f} %, with {rows[-1][0]} boxes: the "
        "controller's time also has the log, the rules of every job and its places of data, which here all come in "
        "the same second.",
    )


def _shares(run: FleetRun, begin: float, end: float) -> dict[str, float]:
    """Percent of 100 cores that each tenant used between two times."""
    started: dict[tuple[str, int], float] = {}
    used: Counter[str] = Counter()
    for row in run.log:
        if row["event"] == "placed":
            started[row["job"], row["task"]] = row["t"]
        elif row["event"] == "ended":
            inside = min(end, row["t"]) - max(begin, started[row["job"], row["task"]])
            used[row["job"][0]] += max(0.0, inside)  # type: ignore[assignment]
    return {who: used[who] / (end - begin) for who in "ABC"}


def _figure_4_5c(seeds: Sequence[int]) -> Exhibit:
    spans = {"only A": (10, 60), "A and B": (70, 120), "A, B and C": (130, 180)}
    fair = {"only A": (100, 0, 0), "A and B": (40, 60, 0), "A, B and C": (20, 30, 50)}
    found: dict[str, list[dict[str, float]]] = {span: [] for span in spans}
    errors = []
    for seed in seeds:
        value = shares_of_a_tree(seed)
        run = _ran(value)
        errors.append(100 * max(abs(e) for e in check_log(scenario_from_json(value), run.log).hfs_error.values()))
        for span, (begin, end) in spans.items():
            found[span].append(_shares(run, begin, end))
    rows: list[tuple[Cell, ...]] = []
    worst = 0.0
    for span in spans:
        said = " / ".join(str(x) for x in fair[span])
        here = " / ".join(over_seeds([f[who] for f in found[span]]) for who in "ABC")
        off = max(abs(statistics.fmean(f[w] for f in found[span]) - x) for w, x in zip("ABC", fair[span], strict=True))
        worst = max(worst, off)
        static = sum(x for x, y in zip((20, 30, 50), fair[span], strict=True) if y)
        rows.append((span, said, here, round(off, 1), static))
    return Redone(
        "Figure 4.5(c)",
        "fair shares in a tree as tenants come",
        "A alone has all; with B (in the same part of the organisation) it is 2:3; with C, whose part has the same "
        "weight as theirs, C has half. Static labels would leave machines idle.",
        "100 boxes of one core, tasks of 2 to 4 s, A, B, C begin at 0, 60, 120 s; the first 10 s of each span are "
        "left out",
        (
            "",
            "paper: A / B / C, %",
            "here: A / B / C, % (published is ours)",
            "largest distance, points",
            "static labels: in use %",
        ),
        tuple(rows),
        judged(worst < 10, worst < 5),
        f"Within {worst:.1f} points; nothing is taken from a running task, so a tenant that comes waits for ends. "
        f"The checker's own measure over the whole run: {over_seeds(errors)} % of capacity at most.",
    )


def _figure_4_6b(seeds: Sequence[int]) -> Exhibit:
    rows: dict[str, list[float]] = {"static": [], "moves": [], "waits": []}
    starts, room = [], []
    for seed in seeds:
        rng = random.Random(f"short {seed}")
        shorts = sorted(rng.uniform(30, 200) for _ in range(5))
        moved_s = _room_for_four(shorts, taken=True)
        room.append(moved_s < shorts[-1])
        rows["static"].append(HORIZON_S)
        rows["moves"].append(moved_s + max(0.0, HORIZON_S - moved_s - PAUSE_S) * TOGETHER)
        started = _started_together(shorts)
        starts.append(started)
        rows["waits"].append((HORIZON_S - started) * TOGETHER)
    gains = {who: [100 * (w / HORIZON_S - 1) for w in work] for who, work in rows.items()}
    waits, moves = statistics.fmean(gains["waits"]), statistics.fmean(gains["moves"])
    return Redone(
        "Figure 4.6(b)",
        "a long training job that moves together as short ones end",
        "On 12 GPUs the four workers of a long job are spread beside five short jobs; moved to one machine when a "
        "short job ends, its throughput is 36.3 % higher. Tune leaves it where it is.",
        f"three boxes of four GPUs, short jobs of 30 to 200 s, the work of {HORIZON_S:g} s; the gain of being "
        f"together ({100 * (TOGETHER - 1):.1f} %) is the paper's, a move takes {PAUSE_S:g} s",
        ("", "paper: throughput after", "here: work in 300 s against staying, %", "together from, s"),
        (
            ("published: stays (Tune)", 0, over_seeds(gains["static"]), None),
            ("published: moves (EscherTune)", "36.3 (an input here)", over_seeds(gains["moves"]), None),
            ("ours: waits for one box, no move", None, over_seeds(gains["waits"]), over_seeds(starts)),
        ),
        judged(all(room), False),  # the gain is an input: it cannot be close to the paper's
        f"Measured here is only when one box has room for the four workers: before the last short job ends in "
        f"{sum(room)} of {len(room)} draws. That moving gains follows from the 36.3 %, which is an input from the "
        f"paper and not measured here; so nothing here confirms it, and the {moves:.1f} % over the whole span are "
        "the paper's gain less the wait and the pause. Our fleet does not move running jobs to bring them "
        "together (it starts them again elsewhere only after a loss, a drain or an upgrade): a job that asks for "
        f"one box waits, here {waits:.1f} % against staying. So ours is behind EscherTune here, by what is lost in "
        "waiting.",
    )


def _room_for_four(shorts: Sequence[float], *, taken: bool) -> float:
    """When some box first has room for four workers; `taken`: those of the long job that are on it count as room. Short
    jobs are spread, then the long job's workers on the emptiest boxes."""
    matcher = Matcher()
    for n in range(3):
        matcher.add_box(f"b{n}", {"gpu": 4.0})
    where = []
    for n in range(5):
        box = min(matcher.boxes, key=lambda b: (matcher.load(b), b))
        matcher.book(("short", n), [(box, {"gpu": 1.0})])
        where.append(box)
    own: Counter[str] = Counter()
    for n in range(4 if taken else 0):
        box = min((b for b in matcher.boxes if matcher.fits(b, {"gpu": 1.0})), key=lambda b: (matcher.load(b), b))
        matcher.book(("long", n), [(box, {"gpu": 1.0})])
        own[box] += 1
    for end, n in sorted((end, n) for n, end in enumerate(shorts)):
        if any(matcher.count(b, {"gpu": 1.0}, 4) + own[b] >= 4 for b in matcher.boxes):
            return 0.0
        matcher.free(("short", n))
        if any(matcher.count(b, {"gpu": 1.0}, 4) + own[b] >= 4 for b in matcher.boxes):
            return end
    return HORIZON_S


def _started_together(shorts: Sequence[float]) -> float:
    """When the fleet's controller starts the long job, which asks for four GPUs of one box."""
    boxes = [{"name": f"b{n}", "resources": {"gpu": 4}} for n in range(3)]
    jobs = [{"id": f"short{n}", "t": 0, "demand": {"gpu": 1}, "duration_s": end} for n, end in enumerate(shorts)]
    jobs.append({"id": "long", "t": 1, "demand": {"gpu": 4}, "duration_s": 1000})
    run = _ran({"format": "fleet-scenario/1", "name": "long", "boxes": boxes, "jobs": jobs})
    return next(float(row["t"]) for row in run.log if row["event"] == "started" and row["job"] == "long")


def _figure_4_8(seeds: Sequence[int]) -> Exhibit:
    designs: dict[str, Callable[[int, float], Sequence[float]]] = {
        "published: in the application (AppSpace)": in_application,
        "published: in one service (LibSpace)": in_service,
        "published: in the framework (FrameSpace)": in_framework,
        "ours: the fleet's controller": _granted,
    }
    rows: list[tuple[Cell, ...]] = [("", "paper", "A = L = 2 F", "A > L", "L > A", "A > L", None)]
    means: dict[tuple[float, str], list[float]] = {}
    tails: dict[tuple[float, str], list[float]] = {}
    for load in LOADS:
        for who, granted in designs.items():
            runs = [[1000 * x for x in granted(seed, load)] for seed in seeds]
            means[load, who] = [statistics.fmean(run) for run in runs]
            tails[load, who] = [_p95(run) for run in runs]
            columns = (statistics.fmean, statistics.pstdev, min, _p95, max)
            rows.append(
                (f"{100 * load:.0f} %", who, *(over_seeds([float(f(run)) for run in runs], 0) for f in columns))
            )
    said, fastest, alike, longer = [], 0, [], 0
    for load in LOADS:
        app, lib, frame, _ = (means[load, who] for who in designs)
        mean = [a - b for a, b in zip(app, lib, strict=True)]
        tail = [a - b for a, b in zip(*(tails[load, who] for who in list(designs)[:2]), strict=True)]
        differences = over_seeds(mean, 0), None, None, over_seeds(tail, 0), None
        rows.append((f"{100 * load:.0f} %", "application less service, by seed", *differences))
        fastest += sum(f < min(a, b) for a, b, f in zip(app, lib, frame, strict=True))
        longer += sum(t > 0 for t in tail)
        times = min(statistics.fmean(app), statistics.fmean(lib)) / statistics.fmean(frame)
        alike.append(about(statistics.fmean(app), statistics.fmean(lib)) and about(times, 2))
        said.append(f"{times:.1f} times as fast at {100 * load:.0f} %")
    runs_of = len(LOADS) * len(seeds)
    return Redone(
        "Figure 4.8",
        "time until a gang has all it asked for",
        "In the application and in one service the mean is alike, the application's tail longer (time-outs break "
        "dead-locks), the service's least time higher (it serves in turn); in the framework it is nearly twice as "
        "fast.",
        f"{BOXES} boxes, {BOXES * CORES:.0f} cores, gangs of 4 to 32 tasks that keep a part of them busy; a "
        f"placeholder takes {1000 * LAUNCH_S:g} ms to launch (`benchmarks/fleet_gangs.py`)",
        ("busy", "", "mean ms", "standard deviation", "least", "95 % below", "largest"),
        tuple(rows),
        judged(fastest == runs_of, all(alike) and longer == runs_of),
        "Judged over both loads. The paper does not tell how busy its cluster was: we ran half load first, which "
        f"agreed in part only, and added 80 % afterwards. The framework is the fastest in {fastest} of {runs_of} "
        f"pairs of load and seed: {' and '.join(said)}. The application has the longer tail than the service (95 % "
        f"below) in {longer} of {runs_of}; with so few seeds neither mean nor tail tells the two apart where the "
        "differences by seed have both signs. At half load hardly any gang waits for room, and the simulator counts "
        "nothing but the launches of placeholders, where a real request waits for processes, too. Ours decides in "
        "one step as the framework does, and lets a gang that fits pass one that does not.",
    )


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[int(0.95 * len(values))]


def _granted(seed: int, load: float) -> list[float]:
    """Seconds from a gang's submission to the placement of its last task, the mean CPU time of a decision included."""
    begin = time.process_time()
    run = _ran(gangs_of(seed, load))
    decide_s = (time.process_time() - begin) / max(1, run.decisions)
    submitted = {row["job"]: row["t"] for row in run.log if row["event"] == "submitted"}
    placed: dict[str, float] = {}
    for row in run.log:
        if row["event"] == "placed":
            placed[row["job"]] = max(placed.get(row["job"], 0.0), row["t"])
    return [placed[job] - at + decide_s for job, at in submitted.items()]


def _median_us(act: Callable[[int], object], times: int) -> float:
    """The median CPU microseconds of a call."""
    taken = []
    for n in range(times):
        begin = time.process_time_ns()
        act(n)
        taken.append((time.process_time_ns() - begin) / 1000)
    return statistics.median(taken)


def _fleet(boxes: int, names: int) -> Matcher:
    """Boxes of four cores with `names` names in all, evenly."""
    matcher = Matcher()
    for n in range(boxes):
        matcher.add_box(f"b{n}", {"cpu": 4.0})
    for n in range(names):
        matcher.set_resource(f"name:{n}", UNBOUNDED, f"b{n % boxes}")
    return matcher


def _figure_4_9a() -> Exhibit:
    rows: list[tuple[Cell, ...]] = []
    us: dict[int, float] = {}
    for count in (1, 10, 100, 1000):

        def made(_: int, count: int = count) -> None:
            _fleet(50, 50 * count)

        empty = _median_us(lambda _: _fleet(50, 0), 5)
        us[count] = (_median_us(made, 3) - empty) / (50 * count)
        rows.append((count, "1 at most, 0.72" if count == 1000 else None, round(us[count], 2)))
    return Redone(
        "Figure 4.9(a)",
        "time to make a name",
        "A name takes at most 1 ms with 1,000 on each of 50 nodes, 0.72 ms amortised: linear in their number.",
        "50 boxes in the matcher, CPU time in this process; the paper's time includes the news to all nodes",
        ("names on each box", "paper: ms for each", "here: microseconds for each (published is ours)"),
        tuple(rows),
        judged(us[1000] < 4 * us[10], us[1000] < 1000),
        "Nearly linear, too. No message is sent here, so only the course can be compared, not the size.",
    )


def _figure_4_9b() -> Exhibit:
    rows: list[tuple[Cell, ...]] = []
    seconds = []
    for names in (0, 100, 1000, 10_000):
        matcher = _fleet(50, names)
        demand = {"cpu": 1.0}
        begin = time.process_time()
        for _ in range(10_000):
            box = matcher.match(demand)
            assert box is not None
            matcher.book("x", [(box, demand)])
            matcher.free("x")
            matcher.changes.clear()
            matcher.freed.clear()
        seconds.append(time.process_time() - begin)
        rows.append((names, "unchanged", round(seconds[-1], 3)))
    return Redone(
        "Figure 4.9(b)",
        "10,000 tasks beside many names",
        "The makespan of 10,000 tasks that ask for no name does not change with the number of names.",
        "50 boxes in the matcher: match, book, give back, 10,000 times; CPU time",
        ("names", "paper: makespan", "here: s (published is ours)"),
        tuple(rows),
        judged(max(seconds) < 1.5 * min(seconds), max(seconds) < 1.5 * min(seconds)),
        "A task is matched by what it asks for; names that it does not ask for are not looked at.",
    )


def _figure_4_9c() -> Exhibit:
    matcher = _fleet(50, 0)
    for n in range(1000):
        matcher.set_resource(f"name:{n}", UNBOUNDED, "b49")
    rows: list[tuple[Cell, ...]] = []
    us = {}
    paper: Mapping[int, float] = {1: 1.1, 100: 1.2}
    for count in (1, 10, 50, 100):
        demand = {"cpu": 1.0} | {f"name:{n}": 1.0 for n in range(count)}

        def once(_: int, demand: Mapping[str, float] = demand) -> None:
            box = matcher.match(demand)
            assert box == "b49"
            matcher.book("x", [(box, demand)])
            matcher.free("x")
            matcher.changes.clear()
            matcher.freed.clear()

        us[count] = _median_us(once, 300)
        rows.append((count, paper.get(count), round(us[count], 1)))
    return Redone(
        "Figure 4.9(c)",
        "tasks that ask for many names",
        "A task that asks for 1 of 1,000 names takes 1.1 ms, for 100 of them 1.2 ms.",
        "50 boxes in the matcher, all names on the last; CPU time of match, book and give back",
        ("names asked for", "paper: ms", "here: microseconds (published is ours)"),
        tuple(rows),
        judged(us[100] - us[1] <= 2 * 100, about(us[100] - us[1], 100)),
        f"100 names cost {us[100] - us[1]:.0f} microseconds more than one, in the paper 100: here that is "
        f"{us[100] / us[1]:.0f} times the time of one, there a tenth more. The "
        "paper's first millisecond is the way through a cluster, which is not here.",
    )


if __name__ == "__main__":
    sys.exit(main())
