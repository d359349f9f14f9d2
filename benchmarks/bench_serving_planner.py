"""The serving planners on the published scenarios: the scenarios that each schedules, on how many devices, how fast;
and how far rates can rise.

    python -m benchmarks.bench_serving_planner [--policies elastic,mosaic] [--every 1] [--parts scenarios,rates,times]

Every plan called schedulable is given to the independent checker with interference; one that it refuses ends the
benchmark. Rates: from the highest rate that any plan could serve downwards in steps of 10 requests/s, the first whose
plan the checker accepts (schedulability is not monotone). Times are CPU and wall milliseconds of one plan in this
process; on a busy machine only the former mean something. A run replaces the rows of its policies and parts in the
results and keeps the others, so that slow policies can be run apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.gpulet_device import DEVICES, WORKLOADS, with_six_lenets
from benchmarks.gpulet_device import problem as problem_of
from benchmarks.machine import when_and_where
from benchmarks.scripts import load_script
from benchmarks.shared_data import shared_data
from edge.core.serving import DeviceTable, ServedModel, ServingPlan, ServingProblem
from scheduler.gpulets.policies import SERVING_POLICIES, ServingPolicy, least_percent, serving_policy

REPO = Path(__file__).resolve().parent.parent
RESULTS = REPO / "benchmarks" / "results" / "serving_planner.json"
STEP = 10
#: Policies that are planned on a table without interference, too: they take no account of it.
BLIND = ("elastic-no-interference", "guided-self-tuning")
#: The best of the published schedulers, and the value to be reached.
PUBLISHED = {"equal": 400, "long-only": 610, "short-skew": 290, "game": 1340, "traffic": 460}
REACH = {"equal": 500, "long-only": 680, "short-skew": 360, "game": 1700, "traffic": 700}
LEAST_VALID = {"elastic": 600, "mosaic": 1000}
MOST_MS = {"elastic": 20.0, "mosaic": 200.0}
MOST_DEVICES = 3.8


def main() -> int:
    """Exit code 0 if every plan passes the checker and every target of the policies that were run is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", default=",".join(SERVING_POLICIES))
    parser.add_argument("--every", type=int, default=1, help="only every n-th scenario (default: all)")
    parser.add_argument("--parts", default="scenarios,rates,times")
    args = parser.parse_args()
    shared = shared_data()
    if shared is None:
        return 1
    checker = load_script(shared / "check_serving_plan.py")
    raw = json.loads((shared / "serving-problems" / "device-rtx2080ti-synthetic.json").read_text())
    given = json.loads((shared / "serving-problems" / "scenarios.json").read_text())
    raw = with_six_lenets(raw)
    table = DeviceTable.from_json(raw)
    names = [serving_policy(n).name for n in args.policies.split(",")]
    parts = args.parts.split(",")
    result: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    result["benchmark"] = "serving_planner"
    for part in ("scenarios", "rates", "times"):
        rows = result.setdefault(part, {})
        for name in names if part in parts else ():
            policy = serving_policy(name)
            if part == "scenarios":
                rows[name] = _scenarios(policy, checker, raw, table, given, args.every)
            elif part == "rates":
                rows[name] = _rates(policy, checker, raw, table)
            else:
                rows[name] = _times(policy, checker, raw, table)
            rows[name] |= _where()
    _print(result, given)
    result["targets"] = _targets(result)
    for words, met in result["targets"].items():
        print(f"{'met   ' if met else 'MISSED'}  {words}")
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all(result["targets"].values()) else 1


def _scenarios(
    policy: ServingPolicy,
    checker: ModuleType,
    raw: dict[str, Any],
    table: DeviceTable,
    given: dict[str, Any],
    every: int,
) -> dict[str, Any]:
    """The published scenarios: how many are called schedulable (all of which the checker accepts), on how many
    devices, and how long a decision takes."""
    blind = replace(table, interference=(0.0, 0.0, 0.0, 0.0, 1.0))
    cpu, wall, devices, share = [], [], [], []
    valid, without = "", 0
    for row in given["scenarios"][::every]:
        models = zip(given["models"], row, given["slo_ms"], strict=True)
        problem = ServingProblem(tuple(ServedModel(m, r, s) for m, r, s in models), DEVICES)
        w, c = time.perf_counter(), time.process_time()
        plan = policy.plan(problem, table)
        wall.append(1000 * (time.perf_counter() - w))
        cpu.append(1000 * (time.process_time() - c))
        valid += "1" if plan.schedulable else "0"
        if plan.schedulable:
            devices.append(_checked(checker, raw, problem, plan))
            share.append(plan.total_share)
        if policy.name in BLIND:
            plan = policy.plan(problem, blind)
            without += plan.schedulable
            if plan.schedulable:
                _checked(checker, raw, problem, plan, interference=False)
    return {
        "scenarios": len(valid),
        "valid": valid.count("1"),
        "valid_without_interference": without if policy.name in BLIND else None,
        "devices_mean": round(statistics.mean(devices), 3) if devices else None,
        "share_mean": round(statistics.mean(share), 3) if share else None,
        "cpu_ms_median": round(statistics.median(cpu), 2),
        "cpu_ms_p99": round(_quantile(cpu, 0.99), 2),
        "wall_ms_median": round(statistics.median(wall), 2),
        "wall_ms_p99": round(_quantile(wall, 0.99), 2),
        "valid_by_scenario": valid,
    }


def _rates(policy: ServingPolicy, checker: ModuleType, raw: dict[str, Any], table: DeviceTable) -> dict[str, Any]:
    """The largest u of each workload, searched downwards."""
    found: dict[str, Any] = {}
    for name, workload in WORKLOADS.items():
        u = STEP
        while least_percent(problem_of(workload, u + STEP), table) <= 100:
            u += STEP
        bound = u
        while u > 0:
            problem = problem_of(workload, u)
            plan = policy.plan(problem, table)
            if plan.schedulable:
                _checked(checker, raw, problem, plan)
                break
            u -= STEP
        found[name] = u
        found[f"{name}_bound"] = bound
    return found


def _times(policy: ServingPolicy, checker: ModuleType, raw: dict[str, Any], table: DeviceTable) -> dict[str, Any]:
    """Decision time for 5 to 14 models on 4 devices, each at three levels of load."""
    names = [n for n in table.latency_ms if n != "lenet"]
    cpu, wall, counts, schedulable = [], [], {}, 0
    for count in range(5, 15):
        chosen = [names[(3 * n) % len(names)] for n in range(count)]
        assert len(set(chosen)) == count
        own = []
        for load in (0.25, 0.4, 0.55):
            problem = _loaded(table, chosen, load)
            w, c = time.perf_counter(), time.process_time()
            plan = policy.plan(problem, table)
            wall.append(1000 * (time.perf_counter() - w))
            own.append(1000 * (time.process_time() - c))
            if plan.schedulable:
                schedulable += 1
                _checked(checker, raw, problem, plan)
        cpu += own
        counts[str(count)] = round(statistics.median(own), 2)
    return {
        "problems": len(cpu),
        "schedulable": schedulable,
        "cpu_ms_median": round(statistics.median(cpu), 2),
        "cpu_ms_max": round(max(cpu), 2),
        "wall_ms_median": round(statistics.median(wall), 2),
        "wall_ms_max": round(max(wall), 2),
        "cpu_ms_by_models": counts,
    }


def _loaded(table: DeviceTable, names: Sequence[str], load: float) -> ServingProblem:
    """These models, each with its objective of twice its longest batch, at rates that need an equal part of `load` of
    the devices when each runs at its most efficient."""
    models = []
    for name in names:
        slo = 2.2 * table.solo_ms(name, 100, table.max_batch(name, 100))
        least = min(
            share / 100 * t / (n + 1)
            for share, row in table.latency_ms[name].items()
            for n, t in enumerate(row)
            if 2 * t <= slo
        )
        models.append(ServedModel(name, round(load * DEVICES / len(names) * 1000 / least, 1), round(slo, 1)))
    return ServingProblem(tuple(models), DEVICES)


def _checked(
    checker: ModuleType, raw: dict[str, Any], problem: ServingProblem, plan: ServingPlan, interference: bool = True
) -> int:
    """Devices used, by the independent checker. Ends the benchmark when it refuses the plan."""
    faults, devices = checker.check(raw, problem.to_json(), json.loads(json.dumps(plan.to_json())), interference)
    if faults:
        raise SystemExit(f"{plan.policy}: refused: {faults} for {problem.to_json()}")
    return int(devices)


def _quantile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def _where() -> dict[str, Any]:
    return {**when_and_where(), "load_average": round(os.getloadavg()[0], 2)}


def _print(result: dict[str, Any], given: dict[str, Any]) -> None:
    print(f"{DEVICES} devices, {len(given['scenarios'])} scenarios; valid: accepted by the checker with interference")
    print("policy                   valid/asked  no interf.  devices  share   CPU ms median/p99    wall ms median/p99")
    for name, row in result["scenarios"].items():
        blind = row["valid_without_interference"]
        print(
            f"{name:24} {row['valid']:5}/{row['scenarios']:<5} {'-' if blind is None else blind:>10}"
            f"  {row['devices_mean']!s:>7} {row['share_mean']!s:>6}"
            f"  {row['cpu_ms_median']:8.2f} /{row['cpu_ms_p99']:8.2f}"
            f"  {row['wall_ms_median']:8.2f} /{row['wall_ms_p99']:8.2f}"
        )
    for name, row in given["published"].items():
        shown = f"published {name}"
        print(f"{shown:42} {row['valid_with_interference']:5} (says yes to {row['says_yes']})")
    print("largest valid u          " + "".join(f"{w:>12}" for w in WORKLOADS))
    for name, row in result["rates"].items():
        print(f"{name:24} " + "".join(f"{row[w]:12}" for w in WORKLOADS))
    print(f"{'best published':24} " + "".join(f"{PUBLISHED[w]:12}" for w in WORKLOADS))
    for name, row in result["times"].items():
        print(
            f"5-14 models, {name:24} CPU ms median {row['cpu_ms_median']:.1f}, max {row['cpu_ms_max']:.1f}; "
            f"{row['schedulable']} of {row['problems']} schedulable"
        )


def _targets(result: dict[str, Any]) -> dict[str, bool]:
    """The targets by name, and whether they are met."""
    out: dict[str, bool] = {}
    for name, least in LEAST_VALID.items():
        row = result["scenarios"].get(name)
        if row is not None and row["scenarios"] == 1023:
            out[f"{name}: {row['valid']} of 1,023 valid, at least {least}"] = row["valid"] >= least
            devices = row["devices_mean"]
            if name == "mosaic":
                out[f"{name}: {devices} devices on average, fewer than {MOST_DEVICES}"] = devices < MOST_DEVICES
    best, ideal = result["scenarios"].get("mosaic"), result["scenarios"].get("ideal")
    if best is not None and ideal is not None and best["scenarios"] == ideal["scenarios"]:
        pairs = zip(best["valid_by_scenario"], ideal["valid_by_scenario"], strict=True)
        missed = sum(b < i for b, i in pairs)
        out[f"mosaic: {missed} scenarios not scheduled that ideal schedules"] = missed == 0
    rates = result["rates"].get("mosaic")
    for workload, least in REACH.items() if rates is not None else ():
        out[f"mosaic: {workload} {rates[workload]}, at least {least}"] = rates[workload] >= least
    for name, most in MOST_MS.items():
        row = result["times"].get(name)
        if row is not None:
            median = row["cpu_ms_median"]
            out[f"{name}: 5-14 models in {median:.1f} ms CPU median, at most {most:.0f}"] = median <= most
    return out


if __name__ == "__main__":
    sys.exit(main())
