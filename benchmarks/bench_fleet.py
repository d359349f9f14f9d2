"""The fleet's decisions: how long one takes, what the head costs as the fleet grows, and whether every rule is kept.

    python -m benchmarks.bench_fleet [--problems FOLDER] [--checker FILE] [--quick]

Times are CPU time on one core. The matcher: match, book and give back on one box, with 100 names in the demand, and on
1,000 boxes. The curve: simulated fleets of 10 to 1,000 boxes with 3 jobs a box in 300 s, one box in fifty lost for a
minute, the head away for 15 s; `decide_ms` is all CPU time by decision. Two kinds of gangs that fit one at
a time compete for 8 cores: the last end against the lower bound. Fair share: three tenants in a tree that come one
after another, 4 seeds. Every log is judged by the project's checker; with --problems the scenarios of a folder are
played, with --checker an independent checker judges all logs too. Any broken rule ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.fleet_workloads import fleet_of
from benchmarks.machine import when_and_where
from benchmarks.scripts import load_script
from edge.core.fleet import UNBOUNDED
from edge.simulation.fleet_check import check_log
from edge.simulation.fleet_scenario import scenario_from_json
from edge.simulation.fleet_simulation import FleetSimulation
from scheduler.fleet.matcher import Matcher

RESULTS = Path(__file__).resolve().parent / "results" / "fleet.json"
#: Targets: matcher in microseconds, a fleet of 1,000 boxes in s, parts of the whole.
MOST_US = {"one_box": 50.0, "names_100": 200.0, "boxes_1000": 5000.0}
MOST_THOUSAND_S, MOST_HFS_ERROR, MOST_OF_BOUND = 60.0, 0.02, 1.15


def main() -> int:
    """Exit code 0 if every rule is kept and every target is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=Path, help="a folder of scenarios")
    parser.add_argument("--checker", type=Path, help="an independent checker of logs")
    parser.add_argument("--quick", action="store_true", help="no fleet above 300 boxes")
    given = parser.parse_args()
    checker = load_script(given.checker) if given.checker else None
    report: dict[str, Any] = {
        "benchmark": "fleet",
        **when_and_where(),
        "matcher_us": {name: round(run(), 2) for name, run in MATCHED.items()},
        "fleets": [played(fleet_of(n), checker) for n in (10, 30, 100, 300, *(() if given.quick else (1000,)))],
        "gangs": gangs(checker),
        "fair_share": fair_share(checker),
    }
    if given.problems:
        files = sorted(given.problems.glob("*.json"))
        report["problems"] = {f.stem: played(json.loads(f.read_text(encoding="utf-8")), checker) for f in files}
    report["missed"] = missed(report)
    print(json.dumps(report, indent=1))
    RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if report["missed"] else 0


def timed_us(act: Callable[[], object], times: int) -> float:
    """Median CPU microseconds of one call."""
    taken = []
    for _ in range(times):
        begin = time.process_time_ns()
        act()
        taken.append((time.process_time_ns() - begin) / 1000)
    return statistics.median(taken)


def _matched(boxes: int, names: int, times: int) -> float:
    """Match, book and give back one demand, which fits on the last box only, so that the match looks at each."""
    matcher = Matcher()
    demand = {"cpu": 3.0} | {f"name:{n}": 1.0 for n in range(names)}
    for n in range(boxes):
        matcher.add_box(f"b{n}", {"cpu": 4.0, "mem_gb": 16.0})
        for k in range(names):
            matcher.set_resource(f"name:{k}", UNBOUNDED, f"b{n}")
        matcher.book(("half", n), [(f"b{n}", {"cpu": 2.0 if n < boxes - 1 else 1.0})])

    def once() -> None:
        box = matcher.match(demand)
        assert box is not None
        matcher.book("x", [(box, demand)])
        matcher.free("x")
        matcher.changes.clear()
        matcher.freed.clear()

    return timed_us(once, times)


MATCHED: dict[str, Callable[[], float]] = {
    "one_box": lambda: _matched(1, 0, 2000),
    "names_100": lambda: _matched(1, 100, 500),
    "boxes_1000": lambda: _matched(1000, 0, 50),
}


def played(value: dict[str, Any], checker: ModuleType | None) -> dict[str, Any]:
    """Simulate a scenario: its cost, and the rules that were broken."""
    scenario = scenario_from_json(value)
    begin = time.process_time()
    run = FleetSimulation(scenario).run()
    took_s = time.process_time() - begin
    verdict = check_log(scenario, run.log)
    rules = dict(verdict.counts)
    if checker is not None:
        other = checker.Checker(value)
        for row in run.log:
            other.feed(row)
        other.expectations()
        if other.faults:
            rules["independent checker"] = len(other.faults)
    cameras = sum(arriving.job.duration_s is None for arriving in scenario.jobs)
    return {
        "name": scenario.name,
        "boxes": len(scenario.boxes),
        "cameras": cameras,
        "tasks": sum(arriving.job.tasks for arriving in scenario.jobs),
        "cpu_s": round(took_s, 3),
        "decisions": run.decisions,
        "decide_ms": round(1000 * took_s / max(1, run.decisions), 3),
        "longest_replace_s": round(verdict.longest_replace_s, 2),
        "last_end_s": round(verdict.last_end_s, 2),
        "hfs_error": round(max(map(abs, verdict.hfs_error.values()), default=0.0), 4),
        "waiting": len(run.waiting),
        "broken": rules,
    }


def gangs(checker: ModuleType | None) -> dict[str, Any]:
    """16 gangs of 5 and 6 of 8 cores, one at a time: last end against the bound of 16 durations."""
    boxes = [{"name": f"b{n}", "resources": {"cpu": 2}, "labels": {}} for n in range(4)]
    jobs = [
        {"id": f"{kind}{n}", "t": 0.01 * n, "tasks": tasks, "demand": {"cpu": 1}, "gang": True, "duration_s": 2}
        for n in range(8) for kind, tasks in (("x", 5), ("y", 6))
    ]  # fmt: skip
    value = {"format": "fleet-scenario/1", "name": "gangs", "boxes": boxes, "jobs": jobs}
    result = played(value, checker)
    return result | {"of_bound": round(result["last_end_s"] / 32.0, 4)}


def fair_share(checker: ModuleType | None) -> dict[str, Any]:
    """Three tenants in a tree on 20 cores, one after another, tasks of 0.5 to 1.5 s: the largest error of 4 seeds."""
    results = []
    for seed in range(4):
        rng = random.Random(seed)
        tenants = [
            {"name": "one", "weight": 1}, {"name": "two", "weight": rng.choice([1, 2])},
            {"name": "a", "weight": 2, "parent": "one"}, {"name": "b", "weight": 3, "parent": "one"},
            {"name": "c", "weight": 1, "parent": "two"},
        ]  # fmt: skip
        jobs = [
            {"id": f"{t}{n}", "t": begin, "tasks": 20, "demand": {"cpu": 1}, "tenant": t,
             "duration_s": rng.choice([0.5, 1.0, 1.5])}
            for t, begin in (("a", 0), ("b", 20), ("c", 40)) for n in range(60)
        ]  # fmt: skip
        boxes = [{"name": f"b{n}", "resources": {"cpu": 5}} for n in range(4)]
        hfs = {"resource": "cpu", "from": 3, "to": 60, "max_error": MOST_HFS_ERROR}
        value = {"format": "fleet-scenario/1", "name": f"fair share {seed}", "boxes": boxes, "jobs": jobs}
        results.append(played(value | {"tenants": tenants, "expect": {"hfs": hfs}}, checker))
    return {
        "largest_error": max(r["hfs_error"] for r in results),
        "broken": [r["broken"] for r in results if r["broken"]],
    }


def missed(report: dict[str, Any]) -> list[str]:
    """Targets that were not reached, in words."""
    out = [f"matcher {name}: {us} us" for name, us in report["matcher_us"].items() if us > MOST_US[name]]
    runs = [*report["fleets"], report["gangs"], *report.get("problems", {}).values()]
    out += [f"{run['name']}: rules broken: {run['broken']}" for run in runs if run["broken"]]
    out += [f"{run['name']}: {run['waiting']} jobs wait at the end" for run in runs if run["waiting"]]
    out += [f"{r['name']}: {r['cpu_s']} s" for r in runs if r["boxes"] >= 1000 and r["cpu_s"] > MOST_THOUSAND_S]
    if report["gangs"]["of_bound"] > MOST_OF_BOUND:
        out.append(f"gangs: {report['gangs']['of_bound']} of the bound")
    if report["fair_share"]["largest_error"] > MOST_HFS_ERROR or report["fair_share"]["broken"]:
        out.append(f"fair share: {report['fair_share']}")
    return out


if __name__ == "__main__":
    raise SystemExit(main())
