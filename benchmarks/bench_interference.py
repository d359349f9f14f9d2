"""How well the linear interference model predicts what was not measured: held-out error on pairs of this machine.

    python -m benchmarks.bench_interference [--pairs 30] [--models DIR] [--from FILE]

Measures the utilisation (calibrated probes) of three small models and of one that is bound by memory
(benchmarks.make_models --set mixed), and pairs of them side by side under their shares, all pairs twice. The model is
fitted, and every pair predicted by a fit that saw no pair of the same two models. Beside it: the error of always saying
"no interference", and how far the second measurement of a pair is from the first, which no model can beat. The target
is 90 % of predictions within 10 %. `--from` takes the measurements of an earlier result.
Under 4 minutes on two cores; result: benchmarks/results/interference.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.make_models import mixed, write_repository
from edge.core.clock import SystemClock
from edge.core.serving import Utilisation
from edge.runtime.measured_table import machine
from edge.runtime.serving_pairs import BESIDE_MODELS, as_pair, pair_json, recorded_pairs
from edge.runtime.serving_profiler import ProfileOptions, ServingProfiler
from edge.runtime.supervisor import Supervisor
from edge.serving.profiling import Together, batch_grid
from edge.serving.repository import Repository
from edge.shares import open_partitioner
from scheduler.gpulets.interference import fit

RESULT = Path(__file__).parent / "results" / "interference.json"
TARGET = 0.10


@dataclass(frozen=True)
class Recorded:
    """The measurements: pairs of models, all twice, one pass after the other; models beside stressors once."""

    together: tuple[Together, ...]
    again: tuple[Together, ...]
    pressed: tuple[Together, ...]
    utilisation: dict[str, dict[int, Utilisation]]
    about: dict[str, Any]


async def record(folder: Path, pairs: int) -> Recorded:
    """Measure on this machine's CPU."""
    clock = SystemClock()
    partitioner = open_partitioner("cpu", appliance=f"bench-{os.getpid()}", clock=clock)
    about = {
        "at_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(partitioner.caps),
        "load_before": round(os.getloadavg()[0], 2),
    }
    began = time.monotonic()
    try:
        supervisor = Supervisor(partitioner, clock, lambda kind, data: None)
        supervisor.open()
        try:
            repository = Repository(folder)
            versions = [repository.resolve(name) for name in repository.models()]
            options = ProfileOptions(pairs=pairs, pair_seconds=0.6)
            profiler = ServingProfiler(
                supervisor, partitioner.caps, clock, options, lambda line: print(line, flush=True)
            )
            sizes = {v.model: batch_grid(v.max_batch)[::2] for v in versions}
            utilisation, pressed = await profiler.utilisation(versions, sizes)
            together = await profiler.together(versions, sizes)
            again = await profiler.together(versions, sizes)
        finally:
            await supervisor.close()
    finally:
        partitioner.close()
    about |= {"seconds": round(time.monotonic() - began), "load_after": round(os.getloadavg()[0], 2)}
    return Recorded(together, again, pressed, utilisation, about)


def read(path: Path) -> Recorded:
    """The measurements of an earlier result."""
    value = json.loads(path.read_text(encoding="utf-8"))
    utilisation = {
        model: {int(batch): Utilisation(u["l2"], u["dram"]) for batch, u in rows.items()}
        for model, rows in value["utilisation"].items()
    }
    about = {key: value[key] for key in ("at_utc", "machine", "load_before", "load_after", "seconds")}
    parts = [recorded_pairs({"pairs": value[key]}) for key in ("pairs", "pairs_again", "pairs_with_stressors")]
    return Recorded(parts[0], parts[1], parts[2], utilisation, about)


def quantiles(errors: Sequence[float]) -> dict[str, float]:
    """Distribution of relative errors, in the form of `InterferenceFit`."""
    e = np.asarray(errors)
    values = [round(float(v), 4) for v in np.quantile(e, [0.5, 0.9, 0.95, 1.0])]
    names = ("median", "p90", "p95", "largest")
    within = round(float((e <= TARGET).mean()), 4)
    return {"count": len(e), **dict(zip(names, values, strict=True)), "within_10_percent": within}


def analyse(recorded: Recorded) -> dict[str, Any]:
    """The errors, as they go into the result's file. Each pair is the mean of its two measurements for the fit; the
    fit on the first pass alone is also given, for that is what a profile has."""
    first, second = recorded.together, recorded.again
    means = [Together(a.side, a.other, 0.5 * (a.slowdown + b.slowdown)) for a, b in zip(first, second, strict=True)]
    with_stressors = [*means, *(t for t in recorded.pressed if t.side.model not in BESIDE_MODELS.values())]
    fitted, once, every = (
        fit([as_pair(t, recorded.utilisation) for t in pairs]) for pairs in (means, first, with_stressors)
    )
    again = [abs(b.slowdown - a.slowdown) / a.slowdown for a, b in zip(first, second, strict=True)]
    slowdowns = [t.slowdown for t in means]
    return {
        "slowdowns": dict(
            zip(
                ("least", "median", "p90", "largest"),
                [round(float(v), 4) for v in np.quantile(slowdowns, [0.0, 0.5, 0.9, 1.0])],
                strict=True,
            )
        ),
        "fit": fitted.to_json(),
        "fit_on_one_pass": once.to_json(),
        "fit_with_stressors": every.to_json(),
        "measured_again": quantiles(again),
        "target": {"within": TARGET, "part": 0.9, "reached": fitted.held_out.p90 <= TARGET},
    }


def show(result: dict[str, Any]) -> None:
    """The table."""
    print(f"\n{'relative error':34} {'median':>8} {'p90':>8} {'p95':>8} {'within 10 %':>12}")
    rows = [
        ("predicted, models held out", result["fit"]["held_out"]),
        ("the same, fitted on one pass", result["fit_on_one_pass"]["held_out"]),
        ("always 'no interference'", result["fit"]["unmodelled"]),
        ("with stressors as neighbours too", result["fit_with_stressors"]["held_out"]),
        ("the same, 'no interference'", result["fit_with_stressors"]["unmodelled"]),
        ("measured again", result["measured_again"]),
    ]
    for name, e in rows:
        shown = f"{100 * e['median']:7.1f}% {100 * e['p90']:7.1f}% {100 * e['p95']:7.1f}%"
        print(f"{name:34} {shown} {100 * e['within_10_percent']:11.1f}%")
    s = result["slowdowns"]
    print(f"slowdowns: median {s['median']:.3f}, p90 {s['p90']:.3f}, largest {s['largest']:.3f}")
    print(f"c1..c5: {', '.join(f'{c:.3f}' for c in result['fit']['coefficients'])}")
    print(f"90 % within 10 %, held out: {'reached' if result['target']['reached'] else 'missed'}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=30, help="pairs to run side by side, each twice")
    parser.add_argument("--models", type=Path, metavar="DIR", help="a model repository (default: four small models)")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="an earlier result")
    parser.add_argument("--out", type=Path, default=RESULT, metavar="FILE")
    args = parser.parse_args(argv)
    if args.source is not None:
        recorded = read(args.source)
    else:
        with tempfile.TemporaryDirectory() as folder:
            models = args.models or write_repository(Path(folder), mixed())
            recorded = asyncio.run(record(models, args.pairs))
    result = {
        "benchmark": "interference",
        **recorded.about,
        **analyse(recorded),
        "utilisation": {
            m: {str(b): {"l2": u.l2, "dram": u.dram} for b, u in rows.items()}
            for m, rows in recorded.utilisation.items()
        },
        "pairs": [pair_json(t) for t in recorded.together],
        "pairs_again": [pair_json(t) for t in recorded.again],
        "pairs_with_stressors": [pair_json(t) for t in recorded.pressed],
        "note": "slowdown: CPU time of a batch beside the other over that alone, right before; weights of all "
        "but vehicles are random",
    }
    show(result)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written: {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
