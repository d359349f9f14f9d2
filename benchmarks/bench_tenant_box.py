"""The case of benchmarks.bench_tenant_run in the simulator of whole boxes, for many loads and seeds.

    python -m benchmarks.bench_tenant_box [--parts 0.9 1.0] [--work 1.7 2.8] [--seeds 1 2]

Two served models and two cameras of the recorded demo share a device; one model takes 1.6 times as long as the table
that plans reckon with; its load and the other's change places after half of the windows. learned: three tenants,
budgets by what comes of them. planned: no tenants, shares by the wrong table. `--work`: so many times the recorded
device seconds of cameras' inference and retraining, as on a smaller box (recorded with 1.7 cores; 1.7: with one core).
`--parts`: the load, as in bench_tenant_run. Latencies are four times those of small-models-epyc-2-cores.json
(configs/tables): so slow were they beside their own load. The first window does not count.
Results: benchmarks/results/tenant_box.json.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
from edge.simulation.serving_trace import ServedRecord, ServingTrace
from edge.simulation.trace import Trace
from edge.simulation.virtual_time import run_virtual

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "tenant_box.json"
RECORDED = HERE / "results" / "demo_trace.json"
TABLE = HERE.parent / "configs" / "tables" / "small-models-epyc-2-cores.json"
ARMS = ("learned", "planned")
#: Beside the load a batch takes so many times as long as it did alone.
BESIDE = 4.0
#: The part of the device that cameras and served models have together.
CAPACITY = 0.72


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
        *(Tenant(t, SERVED, models=(m,), floor=0.05) for t, m in MODELS.items()),
        Tenant("streets", STREETS, floor=0.1, cameras=tuple(c.id for c in windows.cameras)),
    )
    sharing = SharingTrace(tenants, SharingRules(largest_step=0.1)) if arm == "learned" else None
    return BoxTrace(arm, windows, serving, sharing, CAPACITY)


def utilities(found: BoxResult, counted: range) -> dict[str, float]:
    """Of each tenant in the windows `counted`, from 0."""
    assert found.serving is not None
    assert found.windows is not None
    out = {}
    for tenant, model in MODELS.items():
        one = next(m for m in found.serving.models if m.model == model)
        within, arrived = (sum(row[n] for n in counted) for row in (one.within, one.arrived))
        out[tenant] = round(SERVED.utility_of(within / arrived), 4)
    accuracy = statistics.fmean(r.accuracy for r in found.windows.rows if r.window - 1 in counted)
    return out | {"streets": round(STREETS.utility_of(accuracy), 4)}


def play(arm: str, part: float, work: float, seed: int) -> dict[str, Any]:
    """One box: the tenants' utilities in both halves."""
    true, windows = true_table(), cameras(work)
    rate = part * largest_rate([ServedModel(m, 1.0, SLO_MS) for m in MODELS.values()], true, ServingPlanning())
    asked = {m: ModelDemand(slo_ms=SLO_MS) for m in MODELS.values()}
    planning = ServingPlanning(max_share=0.6, shrink_dwell_s=10.0, latencies="measured", models=asked)

    async def run() -> BoxResult:
        trace = box_of(arm, windows, rate, as_recorded(true))
        return await SimulatedWholeBox(trace, BoxPolicies("relay", planning), seed, true_table=true).run()

    found = run_virtual(run())
    assert isinstance(found, BoxResult)
    half = windows.windows // 2
    halves = [utilities(found, counted) for counted in (range(1, half), range(half, windows.windows))]
    worst = round(statistics.fmean(min(u.values()) for u in halves), 4)
    return {"arm": arm, "part": part, "work": work, "seed": seed, "worst_tenant": worst, "halves": halves}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=float, nargs="+", default=[0.9, 1.0])
    parser.add_argument("--work", type=float, nargs="+", default=[1.7, 2.8])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, default=RESULTS, help="results (%(default)s)")
    arguments = parser.parse_args()
    rows, gains = [], []
    for work in arguments.work:
        for part in arguments.parts:
            for arm in ARMS:
                rows += [play(arm, part, work, seed) for seed in arguments.seeds]
            mine = [r for r in rows if (r["part"], r["work"]) == (part, work)]
            means = {arm: statistics.fmean(r["worst_tenant"] for r in mine if r["arm"] == arm) for arm in ARMS}
            gain = round(100 * (means["learned"] - means["planned"]), 1)
            gains.append(
                {"part": part, "work": work, "gain_points": gain, **{a: round(m, 4) for a, m in means.items()}}
            )
            print(json.dumps(gains[-1]), flush=True)
    results = when_and_where() | {"slower": SLOWER, "capacity": CAPACITY, "gains": gains, "rows": rows}
    arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
