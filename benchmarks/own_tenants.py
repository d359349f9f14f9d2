"""Tenants' problems of our own for `benchmarks.bench_tenants --own`: constants of policies are chosen on these.

Format "tenant-problem/1". Everything that a policy must not count on varies with the seed: the number of tenants (3 to
40) or services (4 to 24), curves, goals, weights, loads, how scarce the resource is, noise, changes on the way, and
tenants that report nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: Kinds in the order in which seeds take them.
KINDS = ("tables", "box", "pipeline", "silent")


def own_problem(kind: str, seed: int) -> dict[str, Any]:
    """The problem of `kind` (of KINDS) with this seed: the same one every time."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    made = {"tables": _tables, "box": _box, "pipeline": _pipeline, "silent": _silent}[kind](rng)
    head = {"format": "tenant-problem/1", "name": f"own-{kind}-{seed}", "synthetic": True, "settle_s": 0, "seed": seed}
    return {**head, "about": "made by benchmarks.own_tenants", **made}


def _loads(rng: np.random.Generator, mean: float, reports: int) -> list[float]:
    """A slow wave, an autoregression, and sometimes a spike."""
    at = np.arange(reports)
    wave = rng.uniform(0.0, 0.2) * np.sin(2 * math.pi * (at / reports * rng.uniform(0.5, 2.5) + rng.random()))
    width, noise = rng.uniform(0.01, 0.08), 0.0
    walk = np.empty(reports)
    for k in range(reports):
        noise = 0.9 * noise + rng.normal(0.0, width * math.sqrt(1 - 0.81))
        walk[k] = noise
    spike = np.ones(reports)
    if rng.random() < 0.3:
        first = int(rng.integers(0, reports - reports // 12))
        spike[first : first + reports // 12] = rng.uniform(1.3, 2.0)
    return [round(float(x), 4) for x in mean * np.exp(wave + walk) * spike]


def _rising(rng: np.random.Generator, need: float) -> dict[str, Any]:
    """A table as measured curves are: a fast rise, steps and plateaus, then a long tail; nearly 1 at `need`."""
    grid = need * np.geomspace(0.02, 4.0, 80)
    knee, steep = need * rng.uniform(0.15, 0.6), rng.uniform(0.8, 3.0)
    rise = 1 - np.exp(-((grid / knee) ** steep))
    stairs = np.cumsum(rng.gamma(0.15, 1.0, len(grid)))
    mixed = 0.8 * rise + 0.2 * rise * stairs / stairs[-1]
    curve = np.maximum.accumulate(mixed) * rng.uniform(0.96, 1.0)
    return {"kind": "table", "grid": grid.round(6).tolist(), "performance": curve.round(6).tolist()}


def _reaching(curve: dict[str, Any], slo: float) -> float:
    """Units (per load) with which the curve reaches `slo`."""
    return float(np.interp(slo, curve["performance"], curve["grid"]))


def _tables(rng: np.random.Generator) -> dict[str, Any]:
    count, units, rounds = int(rng.integers(3, 41)), 1000, 120
    scarce = rng.uniform(1.0, 2.2)
    needs = rng.dirichlet(np.full(count, 1.5)) * units * scarce
    tenants, curves, noise = [], {}, {}
    level = float(rng.choice([0.02, 0.02, 0.05, 0.15]))
    for j, need in enumerate(np.maximum(needs, 6.0).tolist()):
        name, loaded = f"t{j:02}", rng.random() < 0.7
        load = float(rng.uniform(5, 60)) if loaded else 1.0
        curve = _rising(rng, need / load)
        slo = float(rng.choice([0.8, 0.9, 0.95])) * max(curve["performance"])
        stretch = need / load / max(_reaching(curve, slo), 1e-9)
        curve["grid"] = [g * stretch for g in curve["grid"]]
        scale = 1.0 if loaded else float(rng.uniform(100, 600))
        curve["performance"] = [p * scale for p in curve["performance"]]
        curves[name] = curve | {"x": "units_per_load" if loaded else "units"}
        noise[name] = level * scale
        metric = "within_slo" if loaded else "throughput"
        utility = str(rng.choice(["linear", "sqrt", "quadratic"]))
        goal = {"metric": metric, "slo": round(slo * scale, 4), "utility": utility}
        loads = _loads(rng, load, 2 * rounds) if loaded else 1.0
        unit = "requests/s" if loaded else "none"
        tenants.append({"id": name, "goal": goal, "weight": 1.0, "load": loads, "load_unit": unit})
        if rng.random() < 0.3:
            tenants[-1]["weight"] = float(rng.choice([0.5, 1.5, 2.0]))
    if rng.random() < 0.25:
        for j in rng.choice(count, max(1, count // 5), replace=False):
            declared = float(needs[j]) * float(rng.choice([0.5, 1.0, 2.0]))
            tenants[int(j)] |= {"feedback": False, "declared_demand": round(declared, 2)}
    return _shared(rng, tenants, curves, noise, units, 1, 120, rounds)


def _box(rng: np.random.Generator) -> dict[str, Any]:
    count = int(rng.integers(3, 9))
    return _boxed(rng, (rng.dirichlet(np.full(count, 3.0)) * rng.uniform(0.75, 1.6)).tolist())


def _silent(rng: np.random.Generator) -> dict[str, Any]:
    """A box on which there is mostly enough for all, and one or two tenants report nothing and declare half, all or
    twice of what they need."""
    count = int(rng.integers(3, 9))
    needs = (rng.dirichlet(np.full(count, 3.0)) * rng.uniform(0.5, 1.0)).tolist()
    made = _boxed(rng, needs)
    for j in rng.choice(count, 1 if count < 5 else 2, replace=False):
        declared = 100 * needs[int(j)] * float(rng.choice([0.5, 1.0, 2.0]))
        made["tenants"][int(j)] |= {"feedback": False, "declared_demand": round(min(100.0, declared), 2)}
    return made


def _boxed(rng: np.random.Generator, needs: list[float]) -> dict[str, Any]:
    """Served models and cameras on one device, of which they need these parts."""
    rounds = 180
    tenants, curves, noise = [], {}, {}
    for j, need in enumerate(needs):
        name = f"t{j}"
        if rng.random() < 0.6:
            rate, k = float(rng.uniform(60, 500)), float(rng.uniform(0.3, 2.0))
            slo_s = float(rng.uniform(8, 30)) / rate
            load = 0.75 * rate * (1 + k) * need / (need + k)
            curves[name] = {"kind": "mm1k", "full_rate": rate, "full_units": 100, "k": k, "queue": 24, "slo_s": slo_s}
            goal = {"metric": "within_slo", "slo": float(rng.choice([0.9, 0.95]))}
            noise[name], unit = 0.02, "requests/s"
        else:
            load = float(rng.uniform(2, 10))
            grid = np.linspace(0.05, 100 / load, 80)
            top, scale = rng.uniform(0.65, 0.9), 100 * need / load * rng.uniform(0.25, 0.6)
            curve = top * (1 - np.exp(-grid / scale))
            curves[name] = {
                "kind": "table",
                "x": "units_per_load",
                "grid": grid.tolist(),
                "performance": curve.tolist(),
            }
            goal = {"metric": "accuracy", "slo": round(float(np.interp(100 * need / load, grid, curve)), 3)}
            noise[name], unit = 0.03, "active cameras"
        goal["utility"] = str(rng.choice(["linear", "sqrt", "quadratic"]))
        loads = _loads(rng, load, 2 * rounds)
        weight = float(rng.choice([1.0, 1.0, 1.5]))
        tenants.append({"id": name, "goal": goal, "weight": weight, "load": loads, "load_unit": unit})
    made = _shared(rng, tenants, curves, noise, 100, 0.5, 10, rounds)
    return made | {"settle_s": 0.5}


def _shared(
    rng: np.random.Generator,
    tenants: list[dict[str, Any]],
    curves: dict[str, Any],
    noise: dict[str, float],
    units: int,
    granularity: float,
    interval_s: int,
    rounds: int,
) -> dict[str, Any]:
    changes = []
    if rng.random() < 0.5:
        for j in rng.choice(len(tenants), max(1, len(tenants) // 5), replace=False):
            when = int(rng.integers(rounds // 4, 3 * rounds // 4))
            changes.append({"id": tenants[int(j)]["id"], "round": when, "slower": float(rng.choice([0.7, 1.3, 1.6]))})
    return {
        "kind": "tenants",
        "objective": "ew",
        "units": units,
        "granularity": granularity,
        "interval_s": interval_s,
        "reports_per_interval": 2,
        "rounds": rounds,
        "tenants": tenants,
        "truth": {"curves": curves, "tenants": {t["id"]: t["id"] for t in tenants}, "noise": noise, "changes": changes},
    }


def _pipeline(rng: np.random.Generator) -> dict[str, Any]:
    """Services of M/M/c; the units are what they need at a utilisation of 0.55 to 0.75, with unequal needs."""
    count = int(rng.integers(4, 25))
    rounds = 180
    load = float(rng.uniform(100, 1000))
    needs = np.maximum(rng.lognormal(1.2, 0.7, count), 0.6)
    visits = rng.choice([0.1, 0.3, 0.5, 1.0, 1.4], count, p=[0.15, 0.15, 0.2, 0.35, 0.15])
    use = rng.uniform(0.55, 0.75)
    units = max(round(needs.sum() / use), 2 * count)
    services = [
        {"id": f"s{j:02}", "visits": float(v), "rate": round(load * float(v) / float(need), 4)}
        for j, (v, need) in enumerate(zip(visits, needs, strict=True))
    ]
    names = [s["id"] for s in services]
    shared = names[: max(1, count // 3)]
    rest = names[len(shared) :]
    cut = len(rest) // 2
    paths = [names] if rng.random() < 0.3 or cut < 1 else [shared + rest[:cut], shared + rest[cut:]]
    changes = []
    if rng.random() < 0.3:
        slower = float(rng.choice([0.8, 1.25]))
        changes.append({"id": str(rng.choice(names)), "round": int(rng.integers(40, 120)), "slower": slower})
    truth = {"services": services, "paths": paths, "timeout_ms": 10000.0, "backlog_ms": 5000.0, "noise": 0.08}
    return {
        "kind": "pipeline",
        "objective": "e2e",
        "units": units,
        "granularity": 1,
        "interval_s": 30,
        "reports_per_interval": 1,
        "rounds": rounds,
        "goal": {"metric": "p99_ms", "slo": float(round(rng.uniform(300, 900)))},
        "load": _loads(rng, load, rounds),
        "truth": truth | {"changes": changes},
    }
