"""A shape says which gpu-lets there are; everything else follows from it: batches, execution times, worst cases.

Batches are the least at which every rate is met. They are found together, from 1 upwards, because a larger batch takes
longer, and so presses for larger ones: the first point at which nothing grows is the least of all, so no other batches
have a lower worst case for the same shares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edge.core.serving import Gpulet, ModelBatch, ServingPlan
from scheduler.gpulets.mosaic_columns import NEVER_MS, Workload
from scheduler.joint.demand import JointProblem

_EPS = 1e-9
_ROUNDS = 200
#: Parts of the rates at which a shape that does not meet them is looked at, and the cost of a missing part.
_PARTLY = (1.0, 0.95, 0.9, 0.8)
_RATE_WEIGHT = 4.0


@dataclass(frozen=True)
class LetGroup:
    """Alike gpu-lets: `share` (number) on each of `devices`, fed in turn where there are several. `models` (numbers)
    share each of them in time. `weights[n]`: its part of the rate of `models[n]`,
    relative to the model's other groups."""

    share: int
    models: tuple[int, ...]
    devices: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def count(self) -> int:
        """Number of gpu-lets."""
        return len(self.devices)


Shape = tuple[LetGroup, ...]


@dataclass(frozen=True)
class RunningShape:
    """How a shape runs. By group: `batches`, `busy_ms` of the slowest gpu-let, `longest_ms` the duty cycle at which the
    rates are just met. By model: `worst_ms` with duty cycles at their shortest, bursts included."""

    batches: tuple[tuple[int, ...], ...]
    busy_ms: tuple[float, ...]
    longest_ms: tuple[float, ...]
    worst_ms: Mapping[str, float]


class ShapeBench:
    """Shapes of one problem, tried on the table. Pure: it only holds what was given, as plain lists."""

    def __init__(self, problem: JointProblem, load: Workload) -> None:
        self.problem, self.load = problem, load
        self.names = [m.name for m in load.models]
        self._solo = load.solo_ms.tolist()
        self._own, self._press = load.own.tolist(), load.press.tolist()
        self._part = [share / 100 for share in load.shares]
        self._rate = load.rate.tolist()
        self._most_memory = load.device_memory_mb
        self._apart = [{n for n, name in enumerate(self.names) if name in some} for some in problem.apart]

    def total(self, shape: Shape) -> int:
        """Percent of devices together."""
        return sum(self.load.shares[g.share] * g.count for g in shape)

    def fits(self, shape: Shape) -> bool:
        """No device has more than its capacity, its memory and its number of gpu-lets, and no gpu-let has models that
        are to be apart."""
        if any(len(some.intersection(g.models)) > 1 for some in self._apart for g in shape):
            return False
        used: dict[int, int] = {}
        number: dict[int, int] = {}
        memory: dict[int, float] = {}
        for g in shape:
            for d in g.devices:
                used[d] = used.get(d, 0) + self.load.shares[g.share]
                number[d] = number.get(d, 0) + 1
                memory[d] = memory.get(d, 0.0) + sum(float(self.load.memory_mb[m]) for m in g.models)
        most = self.problem.max_gpulets or math.inf
        return (
            all(u <= self.load.capacity for u in used.values())
            and all(n <= most for n in number.values())
            and all(m <= self._most_memory + 1e-6 for m in memory.values())
        )

    def run(self, shape: Shape, spare: float = 1.0) -> RunningShape | None:
        """How `shape` runs at `spare` times the rates, or None where no measured batches meet them."""
        rates = self.rates(shape, spare)
        batches = [[1] * len(g.models) for g in shape]
        for _ in range(_ROUNDS):
            busy = self._busy(shape, batches)
            grown = False
            for n, g in enumerate(shape):
                if busy[n] >= NEVER_MS:
                    return None
                for k, rate in enumerate(rates[n]):
                    need = math.ceil(rate * busy[n] / (1000 * g.count) - _EPS)
                    if need > batches[n][k]:
                        batches[n][k], grown = need, True
                        if need > self.load.batches:
                            return None
            if not grown:
                return self._running(shape, batches, busy, rates)
        return None

    def excess_ms(self, worst_ms: Mapping[str, float]) -> float:
        """By how much the longest path exceeds its objective, at most (negative: how much it leaves)."""
        return max(p.longest({s.name: worst_ms[s.model] for s in p.stages})[0] - p.slo_ms for p in self.problem.busy)

    def holds(self, shape: Shape, spare: float = 1.0) -> RunningShape | None:
        """How `shape` runs, if every rate and every objective is kept."""
        if not self.fits(shape):
            return None
        running = self.run(shape, spare)
        return running if running is not None and self.excess_ms(running.worst_ms) <= _EPS else None

    def missed(self, shape: Shape) -> float:
        """0 where `shape` holds; else by what parts of the objective the paths through all stages are too long
        together, and more where only a part of the rates is met; inf where less is, or where a device is too full."""
        if not self.fits(shape):
            return math.inf
        for part in _PARTLY:
            running = self.run(shape, part)
            if running is None:
                continue
            if part == 1.0 and self.excess_ms(running.worst_ms) <= _EPS:
                return 0.0
            over = _RATE_WEIGHT * (1.0 - part)
            for p in self.problem.busy:
                paths = p.through({s.name: running.worst_ms[s.model] for s in p.stages})
                over += sum(max(0.0, took / p.slo_ms - 1) for took in paths.values())
            return max(over, _EPS)
        return math.inf

    def rates(self, shape: Shape, spare: float) -> list[list[float]]:
        """By group and its models, the requests per second that it serves, at `spare` times what is asked."""
        total = [0.0] * len(self.names)
        for g in shape:
            for m, w in zip(g.models, g.weights, strict=True):
                total[m] += w
        if min(total, default=1.0) <= 0:
            raise ValueError("a shape leaves out a model")
        return [[spare * self._rate[m] * w / total[m] for m, w in zip(g.models, g.weights, strict=True)] for g in shape]

    def _busy(self, shape: Shape, batches: Sequence[Sequence[int]]) -> list[float]:
        """Of each group the execution time of one batch of each of its models, on the slowest of its gpu-lets."""
        own = [
            max(0.0, max(self._press[m][b - 1] for m, b in zip(g.models, bs, strict=True)) * self._part[g.share])
            for g, bs in zip(shape, batches, strict=True)
        ]
        pressed: dict[int, float] = {}
        number: dict[int, int] = {}
        for g, p in zip(shape, own, strict=True):
            for d in g.devices:
                pressed[d] = pressed.get(d, 0.0) + p
                number[d] = number.get(d, 0) + 1
        busy = []
        for g, bs, p in zip(shape, batches, own, strict=True):
            # The sum over the neighbours: rounding of the difference must not make it less.
            beside = [pressed[d] - p + 1e-12 for d in g.devices if number[d] > 1]
            most = max(beside, default=None)
            took = 0.0
            for m, b in zip(g.models, bs, strict=True):
                factor = 1.0
                if most is not None:
                    factor = max(1.0, self.load.constant + self._own[m][b - 1] * self._part[g.share] + most)
                took += self._solo[m][g.share][b - 1] * factor
            busy.append(took)
        return busy

    def _running(
        self, shape: Shape, batches: list[list[int]], busy: list[float], rates: list[list[float]]
    ) -> RunningShape:
        worst: dict[str, float] = {}
        longest = []
        for n, g in enumerate(shape):
            for m in g.models:
                name = self.names[m]
                took = busy[n] * (1 + 1 / g.count) + self.problem.burst_ms[name]
                worst[name] = max(worst.get(name, 0.0), took)
            longest.append(min(g.count * b * 1000 / r for b, r in zip(batches[n], rates[n], strict=True)))
        return RunningShape(tuple(tuple(b) for b in batches), tuple(busy), tuple(longest), worst)


def shape_of(load: Workload, gpulets: Sequence[tuple[int, int, tuple[int, ...], tuple[float, ...]]]) -> Shape:
    """The shape of gpu-lets given as (device, share number, models, the rate that each model can get from it): those
    with alike shares, models and rates become a group.
    """
    found: dict[tuple[object, ...], LetGroup] = {}
    for device, share, models, rates in gpulets:
        key = (share, models, tuple(round(rate, 6) for rate in rates))
        known = found.get(key)
        if known is None:
            found[key] = LetGroup(share, models, (device,), rates)
        else:
            weights = tuple(w + r for w, r in zip(known.weights, rates, strict=True))
            found[key] = replace(known, devices=(*known.devices, device), weights=weights)
    return tuple(found.values())


def plan_shape(load: Workload, plan: ServingPlan) -> Shape:
    """The shape of a plan's gpu-lets."""
    numbers = {m.name: n for n, m in enumerate(load.models)}
    given = []
    for g in plan.gpulets:
        models = tuple(numbers[p.model] for p in g.models)
        rates = tuple(p.batch / g.duty_cycle_ms for p in g.models)
        given.append((g.device, load.shares.index(g.percent), models, rates))
    return shape_of(load, given)


#: Multiples of the rates for which batches are tried: larger batches than needed leave room.
_SPARE = (3.0, 2.0, 1.5, 1.25, 1.1, 1.05, 1.02)


def compiled(bench: ShapeBench, shape: Shape, policy: str, reasons: tuple[str, ...]) -> ServingPlan:
    """The serving plan of a shape that holds, with as much room as the objectives leave.

    Batches are those for the highest rates that hold too. A duty cycle is longer than the execution time by as much as
    it is shorter than what the rate needs, within what the stages' budgets leave.
    """
    running = next((r for spare in _SPARE if (r := bench.holds(shape, spare)) is not None), None)
    running = running or bench.holds(shape)
    assert running is not None
    budgets = model_budgets(bench.problem, running.worst_ms)
    rates = bench.rates(shape, 1.0)
    gpulets: list[Gpulet] = []
    for n, g in enumerate(shape):
        busy = running.busy_ms[n]
        longest = min(g.count * b * 1000 / r for b, r in zip(running.batches[n], rates[n], strict=True))
        left = min(budgets[bench.names[m]] - bench.problem.burst_ms[bench.names[m]] for m in g.models) - busy
        duty = max(busy, min(math.sqrt(busy * longest), (g.count * left + busy) / 2 if left > 0 else busy))
        parts = tuple(ModelBatch(bench.names[m], b) for m, b in zip(g.models, running.batches[n], strict=True))
        gpulets += [Gpulet(d, bench.load.shares[g.share] / 100, duty, parts) for d in g.devices]
    gpulets.sort(key=lambda g: (g.device, -g.share, g.models[0].model))
    return ServingPlan(True, tuple(gpulets), policy, reasons)


def model_budgets(problem: JointProblem, worst_ms: Mapping[str, float]) -> dict[str, float]:
    """Model -> its part of the objective: the time that its stages take, stretched by what the longest path through
    them leaves, and then the rest. Along no path do the parts add up to more than the objective, where what the stages
    take does not."""
    budgets: dict[str, float] = {}
    for pipeline in problem.busy:
        took = {s.name: worst_ms[s.model] for s in pipeline.stages}
        paths = pipeline.through(took)
        for s in pipeline.stages:
            budget = took[s.name] * pipeline.slo_ms / paths[s.name]
            budgets[s.model] = min(budgets.get(s.model, math.inf), budget)
    for model in budgets:
        left = math.inf
        for pipeline in problem.busy:
            now = pipeline.through({s.name: budgets[s.model] for s in pipeline.stages})
            own = [s.name for s in pipeline.stages if s.model == model]
            left = min([left, *((pipeline.slo_ms - now[name]) / len(own) for name in own)])
        budgets[model] += max(0.0, left)
    return budgets
