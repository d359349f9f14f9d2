"""Policies `elastic` and `elastic-no-interference`: elastic partitioning (gpu-lets, section 4.3, Algorithm 1).

Models by rate, descending. Each gets gpu-lets until its rate is served: of the size at the knee of its
affordable-rate curve, or of the smallest size that serves what is left, whichever is smaller (`p_ideal`); found by
best fit among the remaining gpu-lets; a whole device is split in two. A model that can share an existing gpu-let in
time is merged into it instead, and the split is reverted. Every step is checked for all gpu-lets on the device, with
the interference that each has from the others.

The paper leaves some choices open. Here, when no remaining gpu-let is as large as `p_ideal`, the largest serves what it
can, and then existing gpu-lets take what they still can; interference of neighbours that come later is reckoned with in
advance, as much as the fiercest model could cause, then less, then not at all, until a plan holds. A device is split in
two unless the problem's `max_gpulets` says more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edge.core.serving import DeviceTable, ServingPlan, ServingProblem
from scheduler.gpulets.curves import EPS, Curves, Load, knee, least_share, planned
from scheduler.gpulets.packing import Device, Packing, answer, shortest

#: Parts of the fiercest neighbour's pressure that are reckoned with in advance, one run each until a plan holds.
EXPECTATIONS = (1.0, 0.5, 0.0)
#: A device is split into at most so many where the problem does not say (gpu-lets, section 4.3).
SPLIT_INTO = 2
#: Halvings in the search for the rate that an existing gpu-let can still take.
HALVINGS = 8
#: Least rate worth a gpu-let of its own, as a part of the model's rate.
SMALLEST_PART = 1e-3


class ElasticPolicy:
    """Algorithm 1 with both interference factors."""

    name = "elastic"
    interference = True

    def plan(self, problem: ServingProblem, table: DeviceTable) -> ServingPlan:
        """The first plan that holds, or the closest one with the reasons why it does not.

        Raises InvalidValue for a model that the table does not have."""
        problem = planned(problem)
        curves = Curves(problem, table, self.interference)
        fiercest = curves.fiercest
        tried = []
        for part in EXPECTATIONS if self.interference and fiercest > 0 else (0.0,):
            packing = Packing(curves, fiercest * part)
            unplaced = Elastic(packing).run()
            names = [problem.models[m].name for m in unplaced]
            words = [] if self.interference else ["planned without a look at interference"]
            words += [f"{problem.models[m].name}: {left:.1f} requests/s do not fit" for m, left in unplaced.items()]
            tried.append(answer(self.name, problem, table, packing.gpulets(), names, words))
            if tried[-1].schedulable:
                return tried[-1]
        return shortest(tried)


class ElasticNoInterferencePolicy(ElasticPolicy):
    """Algorithm 1 that takes each gpu-let for the only one on its device; the answer is judged with interference."""

    name = "elastic-no-interference"
    interference = False


@dataclass(frozen=True)
class Remnant:
    """A place for a new gpu-let: of at most `size` percent on device number `device`; smaller if `splits`."""

    size: int
    device: int
    splits: bool


class Elastic:
    """One run of the algorithm over a packing. `order` names the models by their numbers (None: by rate)."""

    def __init__(self, packing: Packing, order: Sequence[int] | None = None) -> None:
        self.packing = packing
        self.curves = packing.curves
        models = self.curves.models
        self.order = sorted(range(len(models)), key=lambda n: (-models[n].rate, n)) if order is None else order
        most = self.curves.problem.max_gpulets
        self.split_into = SPLIT_INTO if most is None else most

    def run(self) -> dict[int, float]:
        """Place all; return the rates left over, as requests per second by model."""
        models = self.curves.models
        unplaced: dict[int, float] = {}
        for model in (n for n in self.order if models[n].rate > 0):
            left = models[model].rate
            while left > EPS * models[model].rate:
                served = self._place(model, left)
                if served <= 0:
                    unplaced[model] = left
                    break
                left = max(0.0, left - served)
                if left < EPS * models[model].rate:
                    left = 0.0
        return unplaced

    def _place(self, model: int, left: float) -> float:
        """Give `model` one more gpu-let, or a part of one; the rate that it serves (0: nothing is left for it)."""
        curve = self.curves.affordable_curve(model, self.packing.expected)
        efficient = knee(curve)
        if efficient is None:
            return 0.0
        needed = least_share(curve, left)
        ideal = efficient if needed is None else min(efficient, needed)
        if needed is not None and self._merge(model, left):
            return left
        return self._best_fit(model, left, ideal) or self._remnants(model, left) or self.squeeze(model, left)

    def _merge(self, model: int, rate: float) -> bool:
        """Serve `rate` in time beside what an existing gpu-let serves: the smallest gpu-let where that holds."""
        places = [
            (piece.share, d, n)
            for d, device in enumerate(self.packing.devices)
            for n, piece in enumerate(device.pieces)
            if piece.loads
        ]
        for _, d, n in sorted(places):
            merged = self.packing.with_load(self.packing.devices[d], n, Load(model, rate))
            if merged is not None:
                self.packing.devices[d] = merged
                return True
        return False

    def room(self, model: int) -> list[Remnant]:
        """Remaining gpu-lets that `model` was measured at, ascending by size."""
        found = []
        for d, device in enumerate(self.packing.devices):
            size = self.curves.largest_share(device.free, model)
            if size is not None and len(device.pieces) < self.split_into:
                found.append(Remnant(size, d, len(device.pieces) + 1 < self.split_into))
        return sorted(found, key=lambda r: (r.size, r.device))

    def _best_fit(self, model: int, left: float, ideal: int) -> float:
        """A new gpu-let in the smallest remaining one of at least `ideal` in which it and its neighbours hold."""
        seen: set[Device] = set()
        for remnant in self.room(model):
            device = self.packing.devices[remnant.device]
            if remnant.size < ideal or device in seen:
                continue
            seen.add(device)
            shares = (
                [p for p in self.curves.solo[model] if ideal <= p <= remnant.size] if remnant.splits else [remnant.size]
            )
            for share in shares:
                rate = self._put(model, left, remnant.device, share)
                if rate > 0:
                    return rate
        return 0.0

    def _remnants(self, model: int, left: float) -> float:
        """A new gpu-let in the largest remaining one that serves anything."""
        for remnant in reversed(self.room(model)):
            rate = self._put(model, left, remnant.device, remnant.size)
            if rate > SMALLEST_PART * left:
                return rate
        return 0.0

    def _put(self, model: int, left: float, number: int, share: int) -> float:
        """Open a gpu-let of `share` on a device for as much of `left` as holds there; the rate, 0 if none."""
        device = self.packing.devices[number]
        neighbours = device.pressure_on(len(device.pieces))
        busy = sum(p.share for p in device.pieces if p.loads)
        ahead = (device.capacity - busy - share) / 100 * self.packing.expected
        pressure = None if neighbours is None and ahead <= 0 else (neighbours or 0.0) + ahead
        rate = min(left, self.curves.affordable(model, share, pressure))
        if rate <= 0:
            return 0.0
        for _ in range(3):
            placed = self.opened(device, share, Load(model, rate))
            if placed is not None:
                self.packing.devices[number] = placed
                return rate
            rate *= 0.95
        return 0.0

    def opened(self, device: Device, share: int, load: Load) -> Device | None:
        """`device` with a new gpu-let of `share`, or None if it does not hold."""
        return self.packing.with_piece(device, share, load)

    def squeeze(self, model: int, left: float) -> float:
        """The most of `left` that some existing gpu-let can still take."""
        best: tuple[float, int, Device] | None = None
        for d, device in enumerate(self.packing.devices):
            for n in range(len(device.pieces)):
                low, high = 0.0, left
                for _ in range(HALVINGS):
                    rate = (low + high) / 2
                    placed = self.packing.with_load(device, n, Load(model, rate))
                    if placed is None:
                        high = rate
                        continue
                    low = rate
                    if rate > SMALLEST_PART * left and (best is None or rate > best[0]):
                        best = (rate, d, placed)
        if best is None:
            return 0.0
        rate, d, placed = best
        self.packing.devices[d] = placed
        return rate
