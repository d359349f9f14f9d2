"""The case of benchmarks.bench_tenant_run in the simulator of whole boxes, for many loads and seeds.

    python -m benchmarks.bench_tenant_box [--parts 0.9 1.0] [--work 1.7 2.8] [--seeds 1 2] [--oracle]

Two served models and two cameras of the recorded demo share a device; one model takes 1.6 times as long as the table
that plans reckon with; its load and the other's change places after half of the windows. learned: three tenants,
budgets by what comes of them. planned: no tenants, shares by the wrong table. `--work`: so many times the recorded
device seconds of cameras' inference and retraining, as on a smaller box (recorded with 1.7 cores; 1.7: with one core).
`--parts`: the load, as in bench_tenant_run. Latencies are four times those of small-models-epyc-2-cores.json
(configs/tables): so slow were they beside their own load. The first window does not count.
`--oracle`: with them what the oracle for the least utility expects, which knows what each tenant does alone with each
share, in this world; its shares are constant in each half, and neighbours do not slow each other there. Like the boxes
it gives serving tenants no more together than the operator's `max_share` leaves beside the share that is kept warm.
Results: benchmarks/results/tenant_box.json.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_tenant_run import (
    MODELS,
    SERVED,
    SHARES,
    SLO_MS,
    SLOWER,
    STREETS,
    as_recorded,
    largest_rate,
    parts,
)
from benchmarks.machine import when_and_where
from edge.core.serving import DeviceTable, ServedModel
from edge.core.tenants import SharingRules, Tenant
from edge.runtime.serving_tables import read_table
from edge.settings import ServingPlanning
from edge.settings.serving import ModelDemand
from edge.simulation.box import BoxPolicies, BoxResult, SimulatedWholeBox
from edge.simulation.box_trace import BoxTrace, SharingTrace
from edge.simulation.serving_simulation import ServingResult, ServingSimulation
from edge.simulation.serving_trace import ServedRecord, ServingTrace
from edge.simulation.simulator import SimulationResult
from edge.simulation.trace import Trace
from edge.simulation.virtual_time import run_virtual
from scheduler.gpulets.follow import reorganiser_settings
from scheduler.gpulets.tenant_fit import ServingBudget
from scheduler.tenants.oracles import oracle_steps
from scheduler.tenants.shapes import Floats

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "tenant_box.json"
RECORDED = HERE / "results" / "demo_trace.json"
TABLE = HERE.parent / "configs" / "tables" / "small-models-epyc-2-cores.json"
ARMS = ("learned", "planned")
#: Beside the load a batch takes so many times as long as it did alone.
BESIDE = 4.0
#: The part of the device that cameras and served models have together.
CAPACITY = 0.72
FLOORS = {**dict.fromkeys(MODELS, 0.05), "streets": 0.1}


def true_table() -> DeviceTable:
    """The tenants' models at the shares that the real run measures, between measured ones by the logarithm."""
    measured = read_table(TABLE)
    rows = {m: {s: _row(measured.latency_ms[m], s) for s in SHARES} for m in MODELS.values()}
    return DeviceTable("true", rows, {})


def _row(rows: Mapping[int, tuple[float, ...]], share: int) -> tuple[float, ...]:
    low, high = max(s for s in rows if s <= share), min(s for s in rows if s >= share)
    part = 0.0 if low == high else math.log(share / low) / math.log(high / low)
    pairs = zip(rows[low], rows[high], strict=False)
    return tuple(BESIDE * math.exp((1 - part) * math.log(a) + part * math.log(b)) for a, b in pairs)


def cameras(work: float) -> Trace:
    """Two cameras of the demo whose work takes so many times the recorded device seconds."""
    value = json.loads(RECORDED.read_text(encoding="utf-8"))
    value |= {"cameras": value["cameras"][:2], "a_min": 0.1}
    for camera in value["cameras"]:
        camera["inference_profile"]["max_gpu"] *= work
        for window in camera["windows"].values():
            window["profiling_gpu_s"] = 0.0
            for profile in window["profiles"]:
                profile["gpu_seconds"] = {k: work * v for k, v in profile["gpu_seconds"].items()}
                profile["curve"] = [[work * at, value] for at, value in profile["curve"]]
            for outcome in window["outcomes"].values():
                outcome["gpu_seconds"] *= work
    return Trace.from_json(value)


def box_of(arm: str, windows: Trace, rate: float, table: DeviceTable) -> BoxTrace:
    """The box's trace; the load lies with the first model in the first half of the windows."""
    half = windows.windows // 2

    def arrived(model: str) -> tuple[int, ...]:
        return tuple(round(windows.window_s * parts(rate, n < half)[model]) for n in range(windows.windows))

    serving = ServingTrace(windows.window_s, tuple(ServedRecord(m, SLO_MS, arrived(m)) for m in MODELS.values()), table)
    tenants = (
        *(Tenant(t, SERVED, models=(m,), floor=FLOORS[t]) for t, m in MODELS.items()),
        Tenant("streets", STREETS, floor=FLOORS["streets"], cameras=tuple(c.id for c in windows.cameras)),
    )
    sharing = SharingTrace(tenants, SharingRules(largest_step=0.1)) if arm == "learned" else None
    return BoxTrace(arm, windows, serving, sharing, CAPACITY)


def utilities(found: BoxResult, counted: range) -> dict[str, float]:
    """Of each tenant in the windows `counted`, from 0."""
    assert found.serving is not None
    assert found.windows is not None
    out = {tenant: served_utility(found.serving, model, counted) for tenant, model in MODELS.items()}
    return out | {"streets": cameras_utility(found.windows, counted)}


def served_utility(found: ServingResult, model: str, counted: range) -> float:
    """Of the tenant with `model`."""
    one = next(m for m in found.models if m.model == model)
    within, arrived = (sum(row[n] for n in counted) for row in (one.within, one.arrived))
    return round(SERVED.utility_of(within / arrived), 4)


def cameras_utility(found: SimulationResult, counted: range) -> float:
    """Of the tenant with the cameras."""
    accuracy = statistics.fmean(r.accuracy for r in found.rows if r.window - 1 in counted)
    return round(STREETS.utility_of(accuracy), 4)


@cache
def served_alone(tenant: str, part: float, percent: int, seed: int) -> tuple[float, float]:
    """True utility of a serving tenant in both halves, with this share all the time and no neighbours. Raises
    ValueError for a share that the operator's `max_share` would cut."""
    if percent > most_served():
        raise ValueError(f"{percent} %: at most {most_served()} % serve")
    true, windows, model = true_table(), cameras(1.0), MODELS[tenant]
    trace = box_of("planned", windows, rate_of(part, true), as_recorded(true)).serving
    assert trace is not None
    one = replace(trace, models=tuple(m for m in trace.models if m.name == model))
    share = percent / 100

    async def run() -> ServingResult:
        serving = ServingSimulation(one, planning_of(), seed, true_table=true)
        pool = round(share + serving.warm_share, 4)
        serving.shares.allow(pool, pool, serving.planning, exact=True)
        serving.shares.budgets.put((ServingBudget(tenant, share, frozenset({model})),), pool)
        return await serving.run()

    found = run_virtual(run())
    assert isinstance(found, ServingResult)
    first, second = halves_of(windows)
    return served_utility(found, model, first), served_utility(found, model, second)


@cache
def cameras_alone(work: float, percent: int, seed: int) -> tuple[float, float]:
    """True utility of the cameras in both halves, with this share all the time."""
    windows = cameras(work)

    async def run() -> BoxResult:
        trace = BoxTrace("cameras", replace(windows, num_gpus=percent / 100))
        return await SimulatedWholeBox(trace, BoxPolicies("relay"), seed).run()

    found = run_virtual(run())
    assert isinstance(found, BoxResult)
    assert found.windows is not None
    first, second = halves_of(windows)
    return cameras_utility(found.windows, first), cameras_utility(found.windows, second)


def most_served() -> int:
    """Percents of the device that serving tenants can have together."""
    return math.floor(100 * (min(CAPACITY, planning_of().max_share) - warm_share()) + 1e-6)


def warm_share() -> float:
    """The share that is kept free to warm partitions."""
    return reorganiser_settings(planning_of()).warm_share


def held_by_oracle(rows: Floats, most: int) -> tuple[int, ...]:
    """The steps of serving tenants (all rows of utilities but the last) and of cameras (the last) with the greatest
    least utility, where serving tenants have `most` steps together at most. Utilities below a floor are negative."""
    tried, floors = [], int((rows[:-1] < 0).sum())
    for steps in range(floors, min(most, rows.shape[1] - 1) + 1):
        served = oracle_steps("ew", rows[:-1, : steps + 1])
        held = (*served, rows.shape[1] - 1 - sum(served))
        reached = [float(row[k]) for row, k in zip(rows, held, strict=True)]
        tried.append((min(reached), sum(reached), held))
    return max(tried)[2]


def oracle(part: float, work: float, seed: int) -> dict[str, Any]:
    """What the oracle for the least utility expects in both halves, in steps of a percent of the device."""
    percents = [p for p in SHARES if p <= 100 * CAPACITY]
    servable = [p for p in percents if p <= most_served()]
    levels = np.arange(math.floor(100 * (CAPACITY - warm_share()) + 1e-6) + 1)
    served = {t: [served_alone(t, part, p, seed) for p in servable] for t in MODELS}
    seen = [cameras_alone(work, p, seed) for p in percents]
    halves, shares = [], []
    for half in (0, 1):
        # A partition has a measured share: between two of them it does no better than with the lower one.
        below = np.searchsorted(servable, levels, side="right")
        tables = [np.array([0.0, *(u[half] for u in served[t])])[below] for t in MODELS]
        tables.append(np.interp(levels, percents, [u[half] for u in seen]))
        rows = np.maximum.accumulate(np.array(tables), axis=1)
        for row, floor in zip(rows, FLOORS.values(), strict=True):
            row[: round(100 * floor)] = -1.0
        held = held_by_oracle(rows, most_served())
        halves.append({t: round(float(r[k]), 4) for t, r, k in zip(FLOORS, rows, held, strict=True)})
        shares.append({t: k / 100 for t, k in zip(FLOORS, held, strict=True)})
    return row_of("oracle", part, work, seed, halves) | {"shares": shares}


def planning_of() -> ServingPlanning:
    """The operator's settings in all boxes."""
    asked = {m: ModelDemand(slo_ms=SLO_MS) for m in MODELS.values()}
    return ServingPlanning(max_share=0.6, shrink_dwell_s=10.0, latencies="measured", models=asked)


def rate_of(part: float, true: DeviceTable) -> float:
    """Requests per second of both models together."""
    return part * largest_rate([ServedModel(m, 1.0, SLO_MS) for m in MODELS.values()], true, ServingPlanning())


def halves_of(windows: Trace) -> tuple[range, range]:
    """The windows that count, from 0."""
    half = windows.windows // 2
    return range(1, half), range(half, windows.windows)


def play(arm: str, part: float, work: float, seed: int) -> dict[str, Any]:
    """One box: the tenants' utilities in both halves."""
    true, windows = true_table(), cameras(work)

    async def run() -> BoxResult:
        trace = box_of(arm, windows, rate_of(part, true), as_recorded(true))
        return await SimulatedWholeBox(trace, BoxPolicies("relay", planning_of()), seed, true_table=true).run()

    found = run_virtual(run())
    assert isinstance(found, BoxResult)
    halves = [utilities(found, counted) for counted in halves_of(windows)]
    return row_of(arm, part, work, seed, halves)


def row_of(arm: str, part: float, work: float, seed: int, halves: list[dict[str, float]]) -> dict[str, Any]:
    """A row of the results."""
    worst = round(statistics.fmean(min(u.values()) for u in halves), 4)
    return {"arm": arm, "part": part, "work": work, "seed": seed, "worst_tenant": worst, "halves": halves}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=float, nargs="+", default=[0.9, 1.0])
    parser.add_argument("--work", type=float, nargs="+", default=[1.7, 2.8])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--oracle", action="store_true", help="with what the oracle expects, which knows all curves")
    parser.add_argument("--out", type=Path, default=RESULTS, help="results (%(default)s)")
    arguments = parser.parse_args()
    rows, gains = [], []
    for work in arguments.work:
        for part in arguments.parts:
            for arm in ARMS:
                rows += [play(arm, part, work, seed) for seed in arguments.seeds]
            if arguments.oracle:
                rows += [oracle(part, work, seed) for seed in arguments.seeds]
            mine = [r for r in rows if (r["part"], r["work"]) == (part, work)]
            arms = [arm for arm in (*ARMS, "oracle") if any(r["arm"] == arm for r in mine)]
            means = {arm: statistics.fmean(r["worst_tenant"] for r in mine if r["arm"] == arm) for arm in arms}
            gain = round(100 * (means["learned"] - means["planned"]), 1)
            gains.append(
                {"part": part, "work": work, "gain_points": gain, **{a: round(m, 4) for a, m in means.items()}}
            )
            print(json.dumps(gains[-1]), flush=True)
    results = when_and_where() | {"slower": SLOWER, "capacity": CAPACITY, "gains": gains, "rows": rows}
    arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
