"""Policy `squishy`: squishy bin packing of Nexus (SOSP'19, section 6.1), on whole devices, sharing them in time.

Each model first gets whole devices of its own, run with the largest batch that its objective allows twice over
(2 t(b) <= SLO); the rest of its rate gets the largest batch with t(b) + b / rate <= SLO. These remainders, the
fullest first, are merged where one more fits into a device: the duty cycle becomes the shorter of the two, batches
shrink to what gathers in it ("squishy"), and the merge that leaves a device fullest wins. A device is never split, so
nothing interferes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edge.core.serving import DeviceTable, Gpulet, ModelBatch, ServingPlan, ServingProblem
from scheduler.gpulets.curves import EPS, Curves, Load, planned
from scheduler.gpulets.packing import answer


@dataclass(frozen=True)
class _Node:
    """A device: its models' remaining rates and batches, duty cycle and execution time in ms."""

    loads: tuple[Load, ...]
    batches: tuple[int, ...]
    duty_ms: float
    busy_ms: float

    @property
    def occupancy(self) -> float:
        return self.busy_ms / self.duty_ms


class SquishyPolicy:
    """Whole devices, shared in time."""

    name = "squishy"

    def plan(self, problem: ServingProblem, table: DeviceTable) -> ServingPlan:
        """Raises InvalidValue for a model that the table does not have."""
        problem = planned(problem)
        curves = Curves(problem, table)
        share = curves.largest_share(curves.capacity)
        asked = [n for n, m in enumerate(problem.models) if m.rate > 0]
        if share is None:
            names = [problem.models[n].name for n in asked]
            return answer(self.name, problem, table, (), names, ("no measured share fits the capacity",))
        whole: list[_Node] = []
        rest: list[_Node] = []
        unplaced = []
        for n in asked:
            full, remainder = _saturate(curves, share, n)
            whole += full
            if remainder is not None:
                rest.append(remainder)
            elif not full:
                unplaced.append(problem.models[n].name)
        merged: list[_Node] = []
        for node in sorted(rest, key=lambda r: (-r.occupancy, r.loads[0].model)):
            options = [(m, _merge(curves, share, merged[m], node)) for m in range(len(merged))]
            found = [(both.occupancy, -m, both) for m, both in options if both is not None]
            if found:
                _, at, both = max(found, key=lambda f: f[:2])
                merged[-at] = both
            else:
                merged.append(node)
        nodes = whole + merged
        for node in nodes[problem.devices :]:
            unplaced += [problem.models[load.model].name for load in node.loads]
        words = [f"{len(nodes)} devices are needed"] if len(nodes) > problem.devices else []
        return answer(
            self.name, problem, table, _gpulets(curves, share, nodes[: problem.devices]), sorted(set(unplaced)), words
        )


def _saturate(curves: Curves, share: int, model: int) -> tuple[list[_Node], _Node | None]:
    """Full devices, and the rest of the rate; ([], None) where not even one request fits the objective."""
    asked = curves.models[model]
    times = curves.solo[model].get(share, ())
    largest = max((b for b, t in enumerate(times, 1) if 2 * t <= asked.slo_ms), default=0)
    if largest == 0:
        return [], None
    t = times[largest - 1]
    most = largest * 1000.0 / t
    count = int(asked.rate / most + EPS)
    full = [_Node((Load(model, most),), (largest,), t, t)] * count
    left = asked.rate - count * most
    if left <= EPS * asked.rate:
        return full, None
    gather = 1000.0 / left
    fitting = [b for b, t in enumerate(times, 1) if t + b * gather <= asked.slo_ms and t <= b * gather]
    if fitting:
        b = max(fitting)
        return full, _Node((Load(model, left),), (b,), b * gather, times[b - 1])
    # Requests come too seldom to wait for one more, or too fast for a duty cycle that fills the batch.
    found = curves.fit(share, (Load(model, left),), None)
    if found is None:
        return full, _Node((Load(model, left),), (largest,), t, t)
    return full, _Node((Load(model, left),), found.batches, found.duty_ms, found.busy_ms)


def _merge(curves: Curves, share: int, a: _Node, b: _Node) -> _Node | None:
    """Both on one device with the shorter duty cycle, or None if that does not hold."""
    duty = min(a.duty_ms, b.duty_ms)
    loads = a.loads + b.loads
    batches, busy, memory = [], 0.0, 0.0
    for load in loads:
        times = curves.solo[load.model].get(share, ())
        batch = max(1, -int(-load.rate * duty / 1000.0 * (1 - EPS) // 1))
        if batch > len(times):
            return None
        batches.append(batch)
        busy += times[batch - 1]
        memory += curves.memory[load.model]
    strictest = min(curves.models[load.model].slo_ms for load in loads)
    if busy > duty or busy + duty > strictest:
        return None
    if curves.device_memory is not None and memory > curves.device_memory:
        return None
    return _Node(loads, tuple(batches), duty, busy)


def _gpulets(curves: Curves, share: int, nodes: Sequence[_Node]) -> list[Gpulet]:
    return [
        Gpulet(
            n,
            share / 100,
            node.duty_ms,
            tuple(
                ModelBatch(curves.models[load.model].name, b) for load, b in zip(node.loads, node.batches, strict=True)
            ),
        )
        for n, node in enumerate(nodes)
    ]
