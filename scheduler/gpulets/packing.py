"""Devices being filled with gpu-lets: the loads of each, and whether all of a device hold side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from edge.core.serving import DeviceTable, Gpulet, ModelBatch, ServingPlan, ServingProblem
from scheduler.gpulets.curves import Curves, Fit, Load
from scheduler.gpulets.verdict import Verdict, verdict

#: Rounds in which the batches of neighbours are fitted to each other's interference before a device is given up.
ROUNDS = 8


@dataclass(frozen=True)
class Piece:
    """A gpu-let being filled: `share` in percent, its loads (none: still empty), and the batches that hold."""

    share: int
    loads: tuple[Load, ...] = ()
    fit: Fit | None = None


@dataclass(frozen=True)
class Device:
    """One device's pieces, with at most `capacity` percent together."""

    capacity: int
    pieces: tuple[Piece, ...] = ()

    @property
    def free(self) -> int:
        """Percent that no piece has."""
        return self.capacity - sum(p.share for p in self.pieces)

    def pressure_on(self, index: int) -> float | None:
        """The other pieces' pressure on piece number `index` (len(pieces): on one that is still to come)."""
        others = [p.fit.pressure for n, p in enumerate(self.pieces) if n != index and p.fit is not None]
        return sum(others) if others else None


@dataclass
class Packing:
    """All devices of a problem; `expected` is the pressure to reckon with per whole device of share not used yet."""

    curves: Curves
    expected: float = 0.0
    devices: list[Device] = field(default_factory=list)
    steps: int = 0  # devices settled so far: the measure of work

    def __post_init__(self) -> None:
        if not self.devices:
            self.devices = [Device(self.curves.capacity)] * self.curves.problem.devices

    def settled(self, device: Device, expected: float | None = None) -> Device | None:
        """`device` with batches and duty cycles with which every piece holds beside the others, or None.

        Starts from the smallest batches without interference and enlarges them until they agree: the least
        interference at which all hold.
        """
        curves = self.curves
        self.steps += 1
        if curves.device_memory is not None:
            used = sum(curves.memory[load.model] for p in device.pieces for load in p.loads)
            if used > curves.device_memory:
                return None
        busy = [n for n, p in enumerate(device.pieces) if p.loads]
        unused = device.capacity - sum(device.pieces[n].share for n in busy)
        ahead = max(0, unused) / 100 * (self.expected if expected is None else expected)
        fits: dict[int, Fit] = {}
        for n in busy:
            found = curves.fit(device.pieces[n].share, device.pieces[n].loads, ahead if ahead > 0 else None)
            if found is None:
                return None
            fits[n] = found
        for _ in range(ROUNDS if len(busy) > 1 else 0):
            total = sum(f.pressure for f in fits.values()) + ahead
            again: dict[int, Fit] = {}
            for n in busy:
                piece = device.pieces[n]
                found = curves.fit(piece.share, piece.loads, total - fits[n].pressure)
                if found is None:
                    return None
                again[n] = found
            if all(again[n].batches == fits[n].batches for n in busy):
                fits = again
                break
            fits = again
        else:
            if len(busy) > 1:
                return None
        pieces = tuple(replace(p, fit=fits.get(n)) for n, p in enumerate(device.pieces))
        return replace(device, pieces=pieces)

    def with_load(self, device: Device, index: int, load: Load) -> Device | None:
        """`device` with `load` added to piece number `index` (sharing it in time with what is there), or None."""
        piece = device.pieces[index]
        loads = list(piece.loads)
        for n, own in enumerate(loads):
            if own.model == load.model:
                loads[n] = Load(own.model, own.rate + load.rate)
                break
        else:
            loads.append(load)
        pieces = list(device.pieces)
        pieces[index] = Piece(piece.share, tuple(loads))
        return self.settled(replace(device, pieces=tuple(pieces)))

    def with_piece(self, device: Device, share: int, load: Load) -> Device | None:
        """`device` with a new gpu-let of `share` that serves `load`, or None."""
        return self.settled(replace(device, pieces=(*device.pieces, Piece(share, (load,)))))

    def gpulets(self) -> tuple[Gpulet, ...]:
        """The placed pieces as gpu-lets of a plan. Devices that have nothing get the highest numbers."""
        result = []
        order = sorted(range(len(self.devices)), key=lambda d: not any(p.loads for p in self.devices[d].pieces))
        for number, d in enumerate(order):
            device = self.settled(self.devices[d], 0.0) or self.devices[d]
            for piece in device.pieces:
                if piece.fit is not None:
                    names = [self.curves.models[load.model].name for load in piece.loads]
                    parts = tuple(ModelBatch(name, b) for name, b in zip(names, piece.fit.batches, strict=True))
                    result.append(Gpulet(number, piece.share / 100, piece.fit.duty_ms, parts))
        return tuple(result)


def answer(
    policy: str,
    problem: ServingProblem,
    table: DeviceTable,
    gpulets: Sequence[Gpulet],
    unplaced: Sequence[str] = (),
    reasons: Sequence[str] = (),
) -> ServingPlan:
    """The plan of these gpu-lets, judged with interference: schedulable only if it has no fault at all. The reasons
    tell where each model is, or each fault and the rates without a place (`unplaced`).
    """
    plan = ServingPlan(True, tuple(gpulets), policy)
    found = verdict(problem, table, plan, slack=0.0)
    if found.faults:
        words = (*reasons, *found.faults)
        return replace(plan, schedulable=False, reasons=words, unplaced=tuple(unplaced))
    return replace(plan, reasons=(*reasons, *_where(problem, plan, found)))


def _where(problem: ServingProblem, plan: ServingPlan, found: Verdict) -> list[str]:
    """For people: where each model is served, how late it may be, and how much it could serve."""
    words = []
    for model in problem.models:
        places = [
            f"{g.percent} % of device {g.device}" + (" in time with others" if len(g.models) > 1 else "")
            for g in plan.gpulets
            if any(part.model == model.name for part in g.models)
        ]
        if places:
            words.append(
                f"{model.name}: {', '.join(places)}; up to {found.worst_ms[model.name]:.1f} of {model.slo_ms:g} ms, "
                f"room for {found.throughput[model.name]:.4g} of {model.rate:g} requests/s"
            )
    return words


def shortest(plans: Sequence[ServingPlan]) -> ServingPlan:
    """Of several answers the one to give: schedulable, then fewest devices, least share; else fewest unplaced."""
    return min(
        plans,
        key=lambda p: (
            not p.schedulable,
            (p.devices_used, round(p.total_share, 6)) if p.schedulable else (len(p.unplaced), len(p.reasons)),
        ),
    )
