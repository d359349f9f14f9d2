"""Policy `ideal`: every way to partition the devices (gpu-lets, section 6.2, comparison to an ideal scheduler).

Devices are alike, so a partitioning is tried once for all orders of the devices, on as few devices as possible first.
In each, models are placed as elastic partitioning does, with nothing left to split: by rate, then by demand, with and
without reckoning with neighbours to come. The first that holds is the answer; elastic partitioning itself is tried
too. The search is bounded by counted steps, not by a clock; the bound does not bind for five models on four devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement

from edge.core.serving import DeviceTable, ServingPlan, ServingProblem
from scheduler.gpulets.curves import EPS, Curves, Load, knee, planned
from scheduler.gpulets.elastic import SPLIT_INTO, Elastic, ElasticPolicy, Remnant
from scheduler.gpulets.packing import Device, Packing, Piece, answer

#: Most steps (devices whose gpu-lets are fitted to each other) in all partitionings together.
STEPS = 60_000
#: More gpu-lets on a device would make too many ways to split it.
MOST_GPULETS = 4


class IdealPolicy:
    """Exhaustive over partitionings, within `steps`."""

    name = "ideal"

    def __init__(self, steps: int = STEPS) -> None:
        self._steps = steps

    def plan(self, problem: ServingProblem, table: DeviceTable) -> ServingPlan:
        """Raises InvalidValue for a model that the table does not have."""
        problem = planned(problem)
        curves = Curves(problem, table)
        asked = [n for n, m in enumerate(problem.models) if m.rate > 0]
        if not asked:
            return answer(self.name, problem, table, ())
        hopeless = [problem.models[n].name for n in asked if knee(curves.affordable_curve(n)) is None]
        if hopeless:
            words = [f"{name}: no share holds its objective" for name in hopeless]
            return answer(self.name, problem, table, (), hopeless, words)
        orders = [
            sorted(asked, key=lambda n: (-problem.models[n].rate, n)),
            sorted(asked, key=lambda n: (-_demand(curves, n), n)),
        ]
        if orders[0] == orders[1]:
            del orders[1]
        ways = list(_partitions(curves))
        elastic = replace(ElasticPolicy().plan(problem, table), policy=self.name)
        steps = tried = 0
        last = elastic.devices_used - 1 if elastic.schedulable else problem.devices
        for used in range(_least_devices(curves, asked), last + 1):
            for partitioning in combinations_with_replacement(ways, used):
                tried += 1
                devices = [Device(curves.capacity, tuple(Piece(p) for p in pieces)) for pieces in partitioning]
                for expected in (curves.fiercest, 0.0):
                    for order in orders:
                        packing = Packing(curves, expected, list(devices))
                        if not _Fixed(packing, order).run():
                            plan = answer(self.name, problem, table, packing.gpulets())
                            if plan.schedulable:
                                return plan
                        steps += packing.steps
                if steps >= self._steps:
                    stopped = f"{tried} partitionings tried, stopped after {steps} steps"
                    return replace(elastic, reasons=(stopped, *elastic.reasons))
        found = "does better" if elastic.schedulable else "holds"
        return replace(elastic, reasons=(f"none of {tried} other partitionings {found}", *elastic.reasons))


class _Fixed(Elastic):
    """Elastic partitioning on gpu-lets that are there already and keep their size."""

    def room(self, model: int) -> list[Remnant]:
        found = {
            (piece.share, device): Remnant(piece.share, d, False)
            for d, device in reversed(list(enumerate(self.packing.devices)))
            for piece in device.pieces
            if not piece.loads and piece.share in self.curves.solo[model]
        }
        return sorted(found.values(), key=lambda r: (r.size, r.device))

    def opened(self, device: Device, share: int, load: Load) -> Device | None:
        index = next(n for n, p in enumerate(device.pieces) if not p.loads and p.share == share)
        return self.packing.with_load(device, index, load)

    def squeeze(self, model: int, left: float) -> float:
        """Nothing: another partitioning has a gpu-let for it."""
        return 0.0


def _demand(curves: Curves, model: int) -> float:
    """Devices that the model keeps busy at its most efficient share."""
    rate = curves.models[model].rate
    return min(rate * p / 100 / most for p, most in curves.affordable_curve(model) if most > 0)


def _least_devices(curves: Curves, models: Sequence[int]) -> int:
    """A lower bound of the devices needed: at its most efficient, with nothing interfering."""
    whole = sum(_demand(curves, n) for n in models) / (curves.capacity / 100)
    return max(1, min(curves.problem.devices, -int(-(whole - EPS) // 1)))


def _partitions(curves: Curves) -> Iterator[tuple[int, ...]]:
    """Ways to split one device, whole first: into at most as many gpu-lets as the problem allows (2 if it is silent;
    4 at most), none of which could be larger and none of which could be added."""
    most = min(curves.problem.max_gpulets or SPLIT_INTO, MOST_GPULETS)

    def split(free: int, largest: int, left: int) -> Iterator[tuple[int, ...]]:
        for p in reversed([p for p in curves.shares if p <= min(free, largest)]):
            yield (p,)
            if left > 1:
                yield from ((p, *rest) for rest in split(free - p, p, left - 1))

    def maximal(way: tuple[int, ...]) -> bool:
        spare = curves.capacity - sum(way)
        if len(way) < most and curves.shares[0] <= spare:
            return False
        return not any(p < q <= p + spare for p in way for q in curves.shares)

    ways = [way for way in split(curves.capacity, curves.capacity, most) if maximal(way)]
    yield from sorted(ways, key=lambda w: (len(w), [-p for p in w]))
