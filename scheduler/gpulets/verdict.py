"""A serving plan's effect by the device table: execution times, worst latencies, rates, faults.

The law (gpu-lets, section 4; interference, section 4.4 and eq. 1). A gpu-let runs one batch of each of its models per
duty cycle D. With E the sum of their execution times, E <= D, and a request may just miss a batch and then wait for
the whole of the next one: worst latency E + D. A model gets batch * 1000 / max(D, E) requests per second. Execution
time is the solo time multiplied by max(1, c5 + c1 l2 p + c3 dram p + sum over the neighbours on the device of their
pressure), or by 1 where there is no neighbour; p is the share [0, 1]; a gpu-let's pressure is the largest
c2 l2 p + c4 dram p among its models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge.core.serving import DeviceTable, Gpulet, ServingPlan, ServingProblem

# The tolerance of published checks of such plans: 1 % of the latency objective, of the duty cycle, and of the rate.
USUAL_SLACK = 0.01
_SHARE_EPS = 1e-6
_EPS = 1e-9


@dataclass(frozen=True)
class GpuletTiming:
    """One gpu-let of a plan: `factors` (>= 1) and `execution_ms` of one batch of each model, in the order of
    `gpulet.models`; `busy_ms` their sum E; `worst_ms` = E + duty cycle."""

    gpulet: Gpulet
    factors: tuple[float, ...]
    execution_ms: tuple[float, ...]
    busy_ms: float
    worst_ms: float

    def overfull(self, slack: float = USUAL_SLACK) -> bool:
        """Its batches take longer than the duty cycle."""
        return self.busy_ms > self.gpulet.duty_cycle_ms * (1 + slack) + _EPS

    def late(self, slo_ms: float, slack: float = USUAL_SLACK) -> bool:
        """A request may take longer than `slo_ms`."""
        return self.worst_ms > slo_ms * (1 + slack) + _EPS

    @property
    def occupancy(self) -> float:
        """Part of the duty cycle that is computed in, E / D."""
        return self.busy_ms / self.gpulet.duty_cycle_ms

    def rate(self, batch: int) -> float:
        """Requests per second that a model with `batch` in this gpu-let can send."""
        return batch * 1000.0 / max(self.gpulet.duty_cycle_ms, self.busy_ms)


@dataclass(frozen=True)
class Verdict:
    """A plan's delivery. `faults` in words, none when the plan holds; `worst_ms` per model (placed models only);
    `throughput` requests per second per model of the problem; `timings` in the order of the plan's gpu-lets, without
    those that name what the table does not know."""

    faults: tuple[str, ...]
    worst_ms: Mapping[str, float]
    throughput: Mapping[str, float]
    devices_used: int
    timings: tuple[GpuletTiming, ...] = ()

    @property
    def valid(self) -> bool:
        """No faults."""
        return not self.faults


def verdict(
    problem: ServingProblem,
    table: DeviceTable,
    plan: ServingPlan,
    interference: bool = True,
    slack: float = USUAL_SLACK,
) -> Verdict:
    """Judge `plan`. `slack` is forgiven of latency objective, duty cycle and rate (0: none); capacity, memory and
    the number of gpu-lets are never forgiven. A plan that says it is not schedulable is timed like any other.
    """
    faults: list[str] = []
    asked = {m.queue_id: m for m in problem.models}
    known = []
    for gpulet in plan.gpulets:
        unknown = _unknown(problem, table, gpulet)
        faults += unknown
        if not unknown:
            known.append(gpulet)
    devices = sorted({g.device for g in plan.gpulets})
    if len(devices) > problem.devices:
        faults.append(f"{len(devices)} devices used of {problem.devices}")
    for device in devices:
        faults += _device_faults(problem, table, device, [g for g in known if g.device == device])
    timings = times(table, known, interference)
    worst: dict[str, float] = {}
    got = {m.queue_id: 0.0 for m in problem.models}
    for timing in timings:
        gpulet = timing.gpulet
        duty, busy = gpulet.duty_cycle_ms, timing.busy_ms
        where = f"device {gpulet.device}, share {gpulet.percent} %"
        if timing.overfull(slack):
            faults.append(f"{where}: {busy:.2f} ms of work in a duty cycle of {duty:.2f} ms")
        for part in gpulet.models:
            slo = asked[part.queue_id].slo_ms
            if timing.late(slo, slack):
                faults.append(f"{where}: {part.model} takes up to {timing.worst_ms:.2f} ms, its SLO is {slo:g} ms")
            worst[part.model] = max(worst.get(part.model, 0.0), timing.worst_ms)
            got[part.queue_id] += timing.rate(part.batch)
    for model in problem.models:
        if got[model.queue_id] < (1 - slack) * model.rate - _EPS * max(1.0, model.rate):
            queue = f", queue {model.queue}" if model.queue else ""
            faults.append(f"{model.name}{queue}: {got[model.queue_id]:.1f} of {model.rate:g} requests/s")
    together = {m.name: sum(rate for queue, rate in got.items() if queue.model == m.name) for m in problem.models}
    return Verdict(tuple(faults), worst, together, len(devices), timings)


def times(table: DeviceTable, gpulets: Sequence[Gpulet], interference: bool = True) -> tuple[GpuletTiming, ...]:
    """The timing of each gpu-let beside its neighbours on the same device. Raises InvalidValue for a model, share or
    batch that the table does not have."""
    pressures = [pressure(table, g) for g in gpulets] if interference else []
    result = []
    for n, gpulet in enumerate(gpulets):
        others = [
            pressures[k] for k, other in enumerate(gpulets) if interference and k != n and other.device == gpulet.device
        ]
        factors, execution = [], []
        for part in gpulet.models:
            factor = slowdown(table, gpulet.share, part.model, part.batch, others)
            factors.append(factor)
            execution.append(table.solo_ms(part.model, gpulet.percent, part.batch) * factor)
        busy = sum(execution)
        result.append(GpuletTiming(gpulet, tuple(factors), tuple(execution), busy, busy + gpulet.duty_cycle_ms))
    return tuple(result)


def pressure(table: DeviceTable, gpulet: Gpulet) -> float:
    """The slowdown that `gpulet` adds to each of its neighbours: that of its most demanding model."""
    _, c2, _, c4, _ = table.interference
    uses = [table.utilised(part.model, part.batch) for part in gpulet.models]
    return max((c2 * u.l2 + c4 * u.dram) * gpulet.share for u in uses)


def slowdown(table: DeviceTable, share: float, model: str, batch: int, neighbours: Sequence[float]) -> float:
    """Factor (>= 1) by which one batch of `model` takes longer than alone; `neighbours` are their pressures."""
    if not neighbours:
        return 1.0
    c1, _, c3, _, c5 = table.interference
    own = table.utilised(model, batch)
    return max(1.0, c5 + (c1 * own.l2 + c3 * own.dram) * share + sum(neighbours))


@dataclass(frozen=True)
class Stretch:
    """Batches of `model` in the gpu-let named `gpulet` are predicted to take `factor` (>= 1) times as long `beside`
    another gpu-let of its device (None: beside all of them together)."""

    gpulet: str
    model: str
    batch: int
    beside: str | None
    factor: float


def stretch_beside(table: DeviceTable, gpulets: Mapping[str, Gpulet]) -> tuple[Stretch, ...]:
    """How much longer each gpu-let's batches are predicted to take beside each other one, one pair at a time, and
    beside all of them."""
    out: list[Stretch] = []
    for name, gpulet in gpulets.items():
        others = {k: pressure(table, g) for k, g in gpulets.items() if k != name and g.device == gpulet.device}
        for part in gpulet.models:
            pairs: list[tuple[str | None, list[float]]] = [(k, [v]) for k, v in others.items()]
            for beside, pressures in (*pairs, (None, list(others.values()))):
                factor = slowdown(table, gpulet.share, part.model, part.batch, pressures)
                out.append(Stretch(name, part.model, part.batch, beside, round(factor, 4)))
    return tuple(out)


def _unknown(problem: ServingProblem, table: DeviceTable, gpulet: Gpulet) -> list[str]:
    """The models of `gpulet` that problem or table do not know."""
    where = f"device {gpulet.device}, share {gpulet.share:g}"
    faults = []
    asked = {m.queue_id for m in problem.models}
    for part in gpulet.models:
        rows = table.latency_ms.get(part.model)
        if part.queue_id not in asked:
            faults.append(f"{where}: {part.model} is not asked for")
        elif rows is None:
            faults.append(f"{where}: {part.model} was not measured on {table.name or 'this device'}")
        elif abs(gpulet.share * 100 - gpulet.percent) > 1e-4 or gpulet.percent not in rows:
            faults.append(f"{where}: {part.model} was measured at shares of {', '.join(map(str, sorted(rows)))} %")
        elif part.batch > len(rows[gpulet.percent]):
            faults.append(f"{where}: {part.model} was measured up to batches of {len(rows[gpulet.percent])}")
    return faults


def _device_faults(problem: ServingProblem, table: DeviceTable, device: int, gpulets: Sequence[Gpulet]) -> list[str]:
    """Faults of the gpu-lets of one device together."""
    faults = []
    if device >= problem.devices:
        faults.append(f"device {device}: the devices are numbered 0 to {problem.devices - 1}")
    total = sum(g.share for g in gpulets)
    if total > problem.capacity + _SHARE_EPS:
        faults.append(f"device {device}: shares add up to {total:.2f} of {problem.capacity:g}")
    if problem.max_gpulets is not None and len(gpulets) > problem.max_gpulets:
        faults.append(f"device {device}: {len(gpulets)} gpu-lets of at most {problem.max_gpulets}")
    if table.device_memory_mb is not None:
        used = sum(table.memory_mb.get(part.model, 0.0) for g in gpulets for part in g.models)
        if used > table.device_memory_mb + _SHARE_EPS:
            faults.append(f"device {device}: {used:.0f} MB of memory used of {table.device_memory_mb:.0f}")
    return faults
