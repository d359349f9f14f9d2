"""The serving problem (gpu-lets), its answer, and the device table that both are judged by, as values and as files.

"gpulet-device/1", "gpulet-problem/1" and "gpulet-plan/1" are the file formats (docs/formats.md). Times are in
milliseconds, rates in requests per second, shares in fractions of one device. In a gpu-let one batch of each of its
models runs per duty cycle (gpu-lets, section 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.fields import mapping, number, required, sequence

DEVICE_FORMAT = "gpulet-device/1"
PROBLEM_FORMAT = "gpulet-problem/1"
PLAN_FORMAT = "gpulet-plan/1"
#: Queues of one model.
MOST_QUEUES = 2
#: Requests to a model, or rows of an application, per second at most.
MOST_RATE = 1e9


def percent(share: float) -> int:
    """A share in whole percent, as the device table names it."""
    return round(share * 100)


@dataclass(frozen=True)
class Utilisation:
    """Use of L2 cache and DRAM bandwidth [0, 1] by a solo run on the whole device."""

    l2: float
    dram: float

    def __post_init__(self) -> None:
        checks.in_range("utilisation.l2", self.l2, 0.0, 1.0)
        checks.in_range("utilisation.dram", self.dram, 0.0, 1.0)


@dataclass(frozen=True)
class DeviceTable:
    """The measurements of one device.

    `latency_ms[model][share in percent][batch - 1]` solo latency; `utilisation[model][batch]` for some batches,
    linear between them; `interference` the coefficients c1..c5 of the linear model (gpu-lets, eq. 1: own L2, the
    neighbour's L2, own DRAM, the neighbour's DRAM, constant). `memory_mb[model]` and `device_memory_mb` where known.
    """

    name: str
    latency_ms: Mapping[str, Mapping[int, tuple[float, ...]]]
    utilisation: Mapping[str, Mapping[int, Utilisation]]
    interference: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 1.0)
    memory_mb: Mapping[str, float] = field(default_factory=dict)
    device_memory_mb: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.not_empty("latency_ms", list(self.latency_ms))
        for model, rows in self.latency_ms.items():
            checks.not_empty(f"latency_ms.{model}", list(rows))
            for share, batches in rows.items():
                checks.in_range(f"latency_ms.{model} share", share, 1, 100)
                checks.not_empty(f"latency_ms.{model}.{share}", batches)
                for n, value in enumerate(batches):
                    checks.positive(f"latency_ms.{model}.{share}[{n}]", value)

    @cached_property
    def shares(self) -> tuple[int, ...]:
        """Shares in percent that were measured for every model, ascending."""
        common = set.intersection(*(set(rows) for rows in self.latency_ms.values()))
        return tuple(sorted(common))

    def solo_ms(self, model: str, share_percent: int, batch: int) -> float:
        """Measured latency of one batch alone. Raises InvalidValue for what was not measured."""
        rows = self.latency_ms.get(model)
        checks.one_of("model", model, self.latency_ms)
        assert rows is not None
        checks.one_of(f"{model} share in percent", share_percent, rows)
        batches = rows[share_percent]
        checks.in_range(f"{model} batch", batch, 1, len(batches))
        return batches[batch - 1]

    def busy_ms(self, model: str, share_percent: int, batch: float, typical: bool = False) -> float:
        """How long a batch itself takes there, without the waiting for its share that may follow it: a request in it
        waits for this. A high quantile, or with `typical` the median, which live times compare with; linear for a mean
        `batch` between two sizes. The table's latency where nothing else was measured."""
        rows = self.details.get("typical_ms" if typical else "run_ms")
        row = rows.get(model, {}).get(str(share_percent)) if isinstance(rows, Mapping) else None
        if not isinstance(row, (list, tuple)) or len(row) != self.max_batch(model, share_percent):
            row = self.latency_ms[model][share_percent]
        checks.in_range(f"{model} batch", batch, 1, len(row))
        below = int(batch)
        above = min(below + 1, len(row))
        return float(row[below - 1] + (row[above - 1] - row[below - 1]) * (batch - below))

    def max_batch(self, model: str, share_percent: int) -> int:
        """The largest batch measured at that share."""
        return len(self.latency_ms[model][share_percent])

    def utilised(self, model: str, batch: int) -> Utilisation:
        """Utilisation at `batch`, linear between the measured batches, constant outside; zero where none is known."""
        known = self.utilisation.get(model)
        if not known:
            return Utilisation(0.0, 0.0)
        below = max((b for b in known if b <= batch), default=min(known))
        above = min((b for b in known if b >= batch), default=max(known))
        low, high = known[below], known[above]
        part = 0.0 if above == below else (batch - below) / (above - below)
        return Utilisation(low.l2 + (high.l2 - low.l2) * part, low.dram + (high.dram - low.dram) * part)

    @staticmethod
    def from_json(value: Any) -> DeviceTable:
        """Read "gpulet-device/1". Raises InvalidValue with the field's path."""
        value = mapping(value, "device")
        checks.one_of("format", value.get("format"), (DEVICE_FORMAT,))
        latency = {}
        for model, rows in mapping(required(value, "latency_ms", ""), "latency_ms").items():
            latency[model] = {
                _integer(share, f"latency_ms.{model}"): tuple(
                    float(_plain(x, f"latency_ms.{model}.{share}[{n}]"))
                    for n, x in enumerate(sequence(batches, f"latency_ms.{model}.{share}"))
                )
                for share, batches in mapping(rows, f"latency_ms.{model}").items()
            }
        utilisation = {
            model: {
                _integer(batch, f"utilisation.{model}"): Utilisation(
                    number(mapping(at, f"utilisation.{model}.{batch}"), "l2", f"utilisation.{model}.{batch}"),
                    number(at, "dram", f"utilisation.{model}.{batch}"),
                )
                for batch, at in mapping(rows, f"utilisation.{model}").items()
            }
            for model, rows in mapping(value.get("utilisation") or {}, "utilisation").items()
        }
        c = sequence(value.get("interference") or [0, 0, 0, 0, 1], "interference")
        if len(c) != 5:
            raise InvalidValue("interference", c, "five numbers c1..c5")
        c = [float(_plain(x, f"interference[{n}]")) for n, x in enumerate(c)]
        memory = mapping(value.get("memory_mb") or {}, "memory_mb")
        known = {"format", "name", "latency_ms", "utilisation", "interference", "memory_mb", "device_memory_mb"}
        return DeviceTable(
            str(value.get("name", "")),
            latency,
            utilisation,
            (c[0], c[1], c[2], c[3], c[4]),
            {model: float(number(memory, model, "memory_mb")) for model in memory},
            number(value, "device_memory_mb", "") if value.get("device_memory_mb") is not None else None,
            {k: v for k, v in value.items() if k not in known},
        )

    def to_json(self) -> dict[str, Any]:
        """Write "gpulet-device/1"."""
        return {
            **self.details,
            "format": DEVICE_FORMAT,
            "name": self.name,
            "latency_ms": {m: {str(p): list(b) for p, b in rows.items()} for m, rows in self.latency_ms.items()},
            "utilisation": {
                m: {str(b): {"l2": u.l2, "dram": u.dram} for b, u in rows.items()}
                for m, rows in self.utilisation.items()
            },
            "interference": list(self.interference),
            **({"memory_mb": dict(self.memory_mb)} if self.memory_mb else {}),
            **({"device_memory_mb": self.device_memory_mb} if self.device_memory_mb is not None else {}),
        }


@dataclass(frozen=True, order=True)
class QueueId:
    """A queue of a model's requests: a model has queue 0, which takes clients' own requests, and may have queue 1 for
    requests with an unlike budget."""

    model: str
    number: int = 0


@dataclass(frozen=True)
class ServedModel:
    """A model's demand, or that of one `queue` of it: `rate` requests per second, each to be answered within `slo_ms`;
    a higher `priority` yields later."""

    name: str
    rate: float
    slo_ms: float
    priority: int = 0
    queue: int = 0

    def __post_init__(self) -> None:
        checks.in_range(f"models[{self.name}].rate", self.rate, 0.0, MOST_RATE)
        checks.positive(f"models[{self.name}].slo_ms", self.slo_ms)
        checks.in_range(f"models[{self.name}].queue", self.queue, 0, MOST_QUEUES - 1)

    @property
    def queue_id(self) -> QueueId:
        """The queue that the requests wait in."""
        return QueueId(self.name, self.queue)


@dataclass(frozen=True)
class ServingProblem:
    """Models to be served on `devices` alike devices, of each of which `capacity` (0-1] may be used.

    `max_gpulets` bounds the gpu-lets on one device (None: as many as its shares allow; the paper has 2).
    """

    models: tuple[ServedModel, ...]
    devices: int = 1
    capacity: float = 1.0
    max_gpulets: int | None = None

    def __post_init__(self) -> None:
        checks.in_range("devices", self.devices, 1, 1024)
        checks.in_range("capacity", self.capacity, 0.0, 1.0)
        checks.unique("models", [(m.name, m.queue) if m.queue else m.name for m in self.models])
        if self.max_gpulets is not None:
            checks.in_range("max_gpulets", self.max_gpulets, 1, 100)

    @staticmethod
    def from_json(value: Any) -> ServingProblem:
        """Read "gpulet-problem/1". Raises InvalidValue with the field's path."""
        value = mapping(value, "problem")
        checks.one_of("format", value.get("format", PROBLEM_FORMAT), (PROBLEM_FORMAT,))
        checks.known_keys("", value, {"format", "devices", "models", "capacity", "max_gpulets", "device_file", "note"})
        models = []
        for n, given in enumerate(sequence(required(value, "models", ""), "models")):
            at = f"models[{n}]"
            given = mapping(given, at)
            checks.known_keys(at, given, {"name", "rate", "slo_ms", "priority", "queue"})
            name = required(given, "name", at)
            if not isinstance(name, str) or not name:
                raise InvalidValue(f"{at}.name", name, "a name")
            priority, queue = number(given, "priority", at, 0), number(given, "queue", at, 0)
            rate, slo_ms = number(given, "rate", at), number(given, "slo_ms", at)
            models.append(ServedModel(name, rate, slo_ms, int(priority), int(queue)))
        most = value.get("max_gpulets")
        return ServingProblem(
            tuple(models),
            int(number(value, "devices", "", 1)),
            float(number(value, "capacity", "", 1.0)),
            None if most is None else int(number(value, "max_gpulets", "")),
        )

    def to_json(self) -> dict[str, Any]:
        """Write "gpulet-problem/1"."""
        return {
            "format": PROBLEM_FORMAT,
            "devices": self.devices,
            "capacity": self.capacity,
            **({} if self.max_gpulets is None else {"max_gpulets": self.max_gpulets}),
            "models": [
                {"name": m.name, "rate": m.rate, "slo_ms": m.slo_ms, "priority": m.priority} | _queue(m.queue)
                for m in self.models
            ],
        }


@dataclass(frozen=True)
class ModelBatch:
    """One model's part of a duty cycle: at most `batch` requests of its `queue`."""

    model: str
    batch: int
    queue: int = 0

    def __post_init__(self) -> None:
        checks.in_range(f"{self.model} batch", self.batch, 1, 1024)
        checks.in_range(f"{self.model} queue", self.queue, 0, MOST_QUEUES - 1)

    @property
    def queue_id(self) -> QueueId:
        """The queue that it takes from."""
        return QueueId(self.model, self.queue)


@dataclass(frozen=True)
class Gpulet:
    """A spatial partition: `share` of device number `device`, on which one batch of each of `models` runs per
    `duty_cycle_ms` (several models: they share the partition in time). It serves one queue of a model."""

    device: int
    share: float
    duty_cycle_ms: float
    models: tuple[ModelBatch, ...]

    def __post_init__(self) -> None:
        checks.in_range("gpulet.device", self.device, 0, 1023)
        checks.in_range("gpulet.share", self.share, 0.0, 1.0, low_open=True)
        checks.positive("gpulet.duty_cycle_ms", self.duty_cycle_ms)
        checks.not_empty("gpulet.models", self.models)
        checks.unique("gpulet.models", [m.model for m in self.models])

    @property
    def percent(self) -> int:
        """The share in whole percent."""
        return percent(self.share)


@dataclass(frozen=True)
class ServingPlan:
    """The answer: the gpu-lets, or (`schedulable` False) why there are none. `reasons` are for people; a plan may
    name the models that it could not place (`unplaced`)."""

    schedulable: bool
    gpulets: tuple[Gpulet, ...] = ()
    policy: str = ""
    reasons: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()
    decision_seconds: float | None = None

    @property
    def devices_used(self) -> int:
        """Devices with at least one gpu-let."""
        return len({g.device for g in self.gpulets})

    @property
    def total_share(self) -> float:
        """The sum of all shares, in devices."""
        return sum(g.share for g in self.gpulets)

    @staticmethod
    def from_json(value: Any) -> ServingPlan:
        """Read "gpulet-plan/1". Raises InvalidValue with the field's path."""
        value = mapping(value, "plan")
        checks.one_of("format", value.get("format", PLAN_FORMAT), (PLAN_FORMAT,))
        gpulets = []
        for n, given in enumerate(sequence(value.get("gpulets") or [], "gpulets")):
            at = f"gpulets[{n}]"
            given = mapping(given, at)
            parts = []
            for k, part in enumerate(sequence(required(given, "models", at), f"{at}.models")):
                part = mapping(part, f"{at}.models[{k}]")
                name = required(part, "name", f"{at}.models[{k}]")
                batch, queue = (number(part, key, f"{at}.models[{k}]", *d) for key, *d in (("batch",), ("queue", 0)))
                parts.append(ModelBatch(str(name), int(batch), int(queue)))
            device, share = number(given, "device", at), number(given, "share", at)
            gpulets.append(Gpulet(int(device), float(share), number(given, "duty_cycle_ms", at), tuple(parts)))
        return ServingPlan(
            bool(required(value, "schedulable", "")),
            tuple(gpulets),
            str(value.get("policy", "")),
            tuple(str(r) for r in sequence(value.get("reasons") or [], "reasons")),
            tuple(str(r) for r in sequence(value.get("unplaced") or [], "unplaced")),
            value.get("decision_seconds"),
        )

    def to_json(self) -> dict[str, Any]:
        """Write "gpulet-plan/1"."""
        return {
            "format": PLAN_FORMAT,
            "policy": self.policy,
            "schedulable": self.schedulable,
            "gpulets": [
                {
                    "device": g.device,
                    "share": g.share,
                    "duty_cycle_ms": g.duty_cycle_ms,
                    "models": [{"name": m.model, "batch": m.batch} | _queue(m.queue) for m in g.models],
                }
                for g in self.gpulets
            ],
            "reasons": list(self.reasons),
            "unplaced": list(self.unplaced),
            **({} if self.decision_seconds is None else {"decision_seconds": self.decision_seconds}),
        }


def _queue(number: int) -> dict[str, int]:
    """The field of a queue's number; a model's only queue has none."""
    return {"queue": number} if number else {}


def _plain(value: Any, path: str) -> float:
    return float(number({"": value}, "", path))


def _integer(value: Any, path: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise InvalidValue(path, value, "a whole number as key") from None
