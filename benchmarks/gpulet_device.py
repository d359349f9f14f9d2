"""A device table for the five models of the gpu-lets paper, and the paper's workloads, that need no file.

The paper's latencies are not published. Here a batch of b on a share p takes t0 + w b / min(p, q(b)) milliseconds with
q(b) = min(1, s b^k), the part of the device that the batch can fill; t0, w, s and k are such that batch 32 on the whole
device takes half of the paper's objective (its Table 4). Use of cache and memory bandwidth grows with the logarithm of
the batch between two values each, and the coefficients of interference are of the size that the paper's authors fitted
on an RTX 2080 Ti. So it compares planners, not devices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any

from edge.core.serving import DeviceTable, ServedModel, ServingProblem, Utilisation

DEVICES = 4
BATCHES = 32
#: Model -> t0 and w in milliseconds, s, k; L2 at batch 1 and 32, DRAM at batch 1 and 32.
MODELS: Mapping[str, tuple[tuple[float, float, float, float], tuple[float, float, float, float]]] = {
    "lenet": ((1.60, 0.008, 0.126, 0.242), (0.02, 0.07, 0.11, 0.25)),
    "googlenet": ((3.07, 0.510, 0.213, 0.403), (0.07, 0.25, 0.16, 0.56)),
    "resnet50": ((4.67, 1.207, 0.403, 0.233), (0.15, 0.28, 0.28, 0.62)),
    "ssd-mobilenetv1": ((5.78, 1.623, 0.262, 0.334), (0.11, 0.28, 0.21, 0.61)),
    "vgg16": ((4.18, 1.786, 0.783, 0.053), (0.31, 0.30, 0.56, 0.61)),
}
COEFFICIENTS = (0.11, 0.72, 0.35, 0.09, 0.90)
#: The paper's Table 4, in milliseconds.
SLO_MS = {"lenet": 5.0, "googlenet": 44.0, "resnet50": 95.0, "ssd-mobilenetv1": 136.0, "vgg16": 130.0}
#: LeNet as the game has it.
SIX_LENETS = tuple(f"lenet{n}" for n in range(1, 7))
#: Workload -> model -> requests/s at u = 1 and objective in ms (the paper's Table 5, figures 10 and 11).
WORKLOADS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "equal": {m: (1.0, s) for m, s in SLO_MS.items()},
    "long-only": {m: (1.0, SLO_MS[m]) for m in ("resnet50", "ssd-mobilenetv1", "vgg16")},
    "short-skew": {m: (2.0 if m in ("lenet", "googlenet", "resnet50") else 1.0, s) for m, s in SLO_MS.items()},
    "game": {**dict.fromkeys(SIX_LENETS, (1.0, 95.0)), "resnet50": (1.0, 95.0)},
    "traffic": {"ssd-mobilenetv1": (1.0, 69.0), "googlenet": (1.0, 67.0), "vgg16": (1.0, 67.0)},
}
LEVELS = (0.0, 200.0, 400.0, 600.0)


@cache
def device(interference: bool = True) -> DeviceTable:
    """Every batch up to 32 on shares of 10, 20, .. 100 %; LeNet also as six models, which the game has."""
    names = {**{m: m for m in MODELS}, **dict.fromkeys(SIX_LENETS, "lenet")}
    return DeviceTable(
        "like an RTX 2080 Ti",
        {name: {p: _latencies(model, p) for p in range(10, 101, 10)} for name, model in names.items()},
        {name: _used(model) for name, model in names.items()},
        COEFFICIENTS if interference else (0.0, 0.0, 0.0, 0.0, 1.0),
    )


def problem(rates: Mapping[str, tuple[float, float]], u: float = 1.0, devices: int = DEVICES) -> ServingProblem:
    """Of rates and objectives by model, the rates times `u`."""
    return ServingProblem(tuple(ServedModel(m, r * u, s) for m, (r, s) in rates.items()), devices)


def with_six_lenets(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A device file with the game's six LeNets as models of their own."""
    latency, used = dict(raw["latency_ms"]), dict(raw["utilisation"])
    for name in SIX_LENETS:
        latency[name], used[name] = latency["lenet"], used["lenet"]
    return {**raw, "latency_ms": latency, "utilisation": used}


def scenarios() -> list[ServingProblem]:
    """The paper's 1,023: each of five models at 0, 200, 400 or 600 requests/s, not all at 0."""
    levels = list(product(LEVELS, repeat=len(SLO_MS)))[1:]
    return [problem({m: (r, SLO_MS[m]) for m, r in zip(SLO_MS, row, strict=True)}) for row in levels]


def _latencies(model: str, percent: int) -> tuple[float, ...]:
    t0, w, s, k = MODELS[model][0]
    fills = (min(1.0, s * b**k) for b in range(1, BATCHES + 1))
    return tuple(round(t0 + w * b / min(percent / 100, q), 4) for b, q in enumerate(fills, 1))


def _used(model: str) -> dict[int, Utilisation]:
    l2, l2_full, dram, dram_full = MODELS[model][1]
    parts = {2**n: n / math.log2(BATCHES) for n in range(6)}
    return {b: Utilisation(l2 + (l2_full - l2) * x, dram + (dram_full - dram) * x) for b, x in parts.items()}
