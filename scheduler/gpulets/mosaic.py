"""Policy `mosaic`: the fewest devices, then the smallest shares, that hold every objective with interference.

Candidates for gpu-lets (mosaic_columns) are combined by an integer programme whose devices are planned at a level of
pressure, so that both interference factors are in every candidate (mosaic_search); each device is then settled with
the neighbours that there really are (mosaic_settle), and the plan is judged without slack before it is called
schedulable. See docs/decisions/serving-planner.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edge.core.serving import DeviceTable, Gpulet, ModelBatch, ServingPlan, ServingProblem
from scheduler.gpulets.mosaic_columns import NEVER_MS, GpuletCandidates, Workload, candidates, workload
from scheduler.gpulets.mosaic_search import Composition, closest, compositions, relaxed
from scheduler.gpulets.mosaic_settle import PlacedGpulet, pressures, settled, timing
from scheduler.gpulets.verdict import Verdict, verdict


class Mosaic:
    """Fewest devices, then least total share, over any number of gpu-lets a device, in space and in time."""

    name = "mosaic"

    def plan(self, problem: ServingProblem, table: DeviceTable) -> ServingPlan:
        """A plan without faults, or, not schedulable, the closest one with what it falls short of.

        Raises InvalidValue for a model that the table does not have.
        """
        load = workload(problem, table)
        idle = tuple(f"{m.name}: no requests, so no gpu-let" for m in problem.models if m.rate == 0)
        if not load.models:
            return ServingPlan(True, (), self.name, idle)
        hopeless = _hopeless(load)
        pool = candidates(load)
        easier = relaxed(load, pool)
        if not hopeless:
            for composition in compositions(load, pool, easier):
                plan = self._settled(load, pool, composition)
                if plan is None:
                    continue
                judged = verdict(problem, table, plan, slack=0.0)
                if judged.valid:
                    return replace(plan, reasons=(*_reasons(load, table, plan, judged, composition.bound), *idle))
        return self._closest(load, pool, table, hopeless, easier.devices)

    def _settled(self, load: Workload, pool: GpuletCandidates, composition: Composition) -> ServingPlan | None:
        """The plan of `composition`, or None where a device does not settle."""
        gpulets: list[Gpulet] = []
        for number, device in enumerate(placed(load, pool, composition)):
            held = settled(load, device)
            if held is None:
                return None
            gpulets += _gpulets(load, number, held)
        return ServingPlan(True, tuple(gpulets), self.name)

    def _closest(
        self, load: Workload, pool: GpuletCandidates, table: DeviceTable, hopeless: Sequence[str], bound: float
    ) -> ServingPlan:
        """Not schedulable: the plan that serves most, and its shortfalls."""
        composition = closest(load, pool, bound)
        plan = self._settled(load, pool, composition) or ServingPlan(False)
        judged = verdict(load.problem, table, plan, slack=0.0)
        reasons = list(hopeless)
        if math.isinf(composition.bound):
            reasons.append("some objective cannot be met on any number of devices")
        elif composition.bound > load.problem.devices:
            reasons.append(f"at least {composition.bound:.2f} devices are needed, there are {load.problem.devices}")
        else:
            reasons.append(f"no combination found that fits on {load.problem.devices} devices")
        short = [m for m in load.models if judged.throughput[m.name] < m.rate]
        reasons += [
            f"closest plan: {m.name} {judged.throughput[m.name]:.1f} of {m.rate:g} requests/s "
            f"({100 * judged.throughput[m.name] / m.rate:.0f} %)"
            for m in short
        ]
        unplaced = tuple(m.name for m in short)
        return ServingPlan(False, plan.gpulets, self.name, tuple(reasons), unplaced)


def placed(load: Workload, pool: GpuletCandidates, composition: Composition) -> list[list[PlacedGpulet]]:
    """The gpu-lets of `composition` by device. A model's rate is divided among its gpu-lets as they are fast beside
    the neighbours that they have."""
    devices, fast = [], []
    total = np.zeros(len(load.models))
    for device in composition.devices:
        gpulets = []
        for row in device:
            models = tuple(int(m) for m in np.nonzero(pool.batch[row])[0])
            batches = tuple(int(pool.batch[row, m]) for m in models)
            gpulets.append(PlacedGpulet(int(pool.share[row]), models, (1.0,) * len(models), batches))
        devices.append(gpulets)
        fast.append([timing(load, g, p).busy_ms for g, p in zip(gpulets, pressures(load, gpulets), strict=True)])
        for g, busy in zip(gpulets, fast[-1], strict=True):
            total[list(g.models)] += np.array(g.batches) * 1000 / busy
    part = np.minimum(1.0, np.array(composition.covered)) * load.rate / np.maximum(total, 1e-9)
    return [
        [
            replace(g, rates=tuple(float(b * 1000 / busy * part[m]) for m, b in zip(g.models, g.batches, strict=True)))
            for g, busy in zip(gpulets, busies, strict=True)
        ]
        for gpulets, busies in zip(devices, fast, strict=True)
    ]


def _gpulets(load: Workload, device: int, held: Sequence[PlacedGpulet]) -> list[Gpulet]:
    """As a plan has them, the largest first."""
    result = []
    for g, beside in zip(held, pressures(load, held), strict=True):
        parts = tuple(ModelBatch(load.models[m].name, b) for m, b in zip(g.models, g.batches, strict=True))
        result.append(Gpulet(device, load.shares[g.share] / 100, timing(load, g, beside).duty_ms, parts))
    return sorted(result, key=lambda g: (-g.share, g.models[0].model))


def _hopeless(load: Workload) -> list[str]:
    """Models that no gpu-let can hold however few requests they have, and why."""
    result = []
    for m, model in enumerate(load.models):
        best = float(load.solo_ms[m].min(initial=NEVER_MS))
        if 2 * best > model.slo_ms:
            took = f"one batch takes at least {best:.2f} ms" if best < NEVER_MS else "no share was measured"
            result.append(
                f"{model.name}: {took} in {load.capacity} % of a device, and a request may wait for one batch before "
                f"its own; the SLO is {model.slo_ms:g} ms"
            )
    return result


def _reasons(load: Workload, table: DeviceTable, plan: ServingPlan, judged: Verdict, bound: float) -> tuple[str, ...]:
    """Why the plan is as it is, in words."""
    used, least = judged.devices_used, max(1, math.ceil(bound - 1e-6))
    head = f"{used} of {load.problem.devices} devices, {100 * plan.total_share:.0f} % together"
    words = [head + (": fewer cannot do" if used == least and least > 1 else "")]
    parts = [name for g in plan.gpulets for name in (p.model for p in g.models)]
    for timing_, g in zip(judged.timings, plan.gpulets, strict=True):
        names = [p.model for p in g.models]
        text = f"device {g.device}, {g.percent} %: " + ", ".join(f"{p.model} x{p.batch}" for p in g.models)
        text += f" every {g.duty_cycle_ms:.2f} ms"
        if len(names) > 1:
            text += ", one after the other"
        split = [n for n in names if parts.count(n) > 1]
        if split:
            text += f"; {', '.join(split)}: more than one gpu-let, the rate is divided"
        if max(timing_.factors) > 1:
            text += f"; neighbours slow it by {100 * (max(timing_.factors) - 1):.0f} %"
        text += f"; {timing_.busy_ms:.2f} ms of work, answers within {timing_.worst_ms:.2f} ms"
        words.append(text)
    return tuple(words)
