"""Requests to served models as they came, by interval: the serving part of "magpie-trace/2" (docs/formats.md)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.fields import mapping, number, required, sequence
from edge.core.serving import DeviceTable
from edge.settings import ServingPlanning, parse


@dataclass(frozen=True)
class ServedRecord:
    """One served model: requests that arrived in each interval, and, where the recorded box has it, those of them that
    missed the objective (late, dropped, rejected, failed) and p50 and p99 of the answered in ms (NaN: none was)."""

    name: str
    slo_ms: float
    arrived: tuple[int, ...]
    priority: int = 0
    missed: tuple[int, ...] = ()
    p50_ms: tuple[float, ...] = ()
    p99_ms: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        at = f"serving.models[{self.name}]"
        checks.positive(f"{at}.slo_ms", self.slo_ms)
        checks.not_empty(f"{at}.arrived", self.arrived)
        for name in ("arrived", "missed"):
            for n, count in enumerate(getattr(self, name)):
                checks.in_range(f"{at}.{name}[{n}]", count, 0, 1e9)
        for name in ("missed", "p50_ms", "p99_ms"):
            given = len(getattr(self, name))
            if given not in (0, len(self.arrived)):
                raise InvalidValue(
                    f"{at}.{name}", given, f"as many values as of arrived ({len(self.arrived)}), or none"
                )

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "name": self.name, "slo_ms": self.slo_ms, "priority": self.priority, "arrived": list(self.arrived),
            "missed": list(self.missed),
        }  # fmt: skip
        for name in ("p50_ms", "p99_ms"):
            out[name] = [None if math.isnan(v) else v for v in getattr(self, name)]
        return out


@dataclass(frozen=True)
class ServingTrace:
    """The requests of all served models in intervals of `interval_s` seconds from the trace's beginning. `table` has
    the latencies of the models on the device (None: they are not known, so nothing can be simulated). `planning`: the
    site's settings of served models, without those of single models; it is played with them."""

    interval_s: float
    models: tuple[ServedRecord, ...]
    table: DeviceTable | None = None
    planning: ServingPlanning = field(default_factory=ServingPlanning)

    def __post_init__(self) -> None:
        checks.positive("serving.interval_s", self.interval_s)
        checks.not_empty("serving.models", self.models)
        checks.unique("serving.models[].name", [m.name for m in self.models])
        if len({len(m.arrived) for m in self.models}) > 1:
            raise InvalidValue("serving.models[].arrived", [len(m.arrived) for m in self.models], "equally many values")

    @property
    def intervals(self) -> int:
        return len(self.models[0].arrived)

    @property
    def seconds(self) -> float:
        """How long requests come."""
        return self.intervals * self.interval_s

    def to_json(self) -> dict[str, Any]:
        return {
            "interval_s": self.interval_s,
            "models": [m.to_json() for m in self.models],
            "table": None if self.table is None else self.table.to_json(),
            "planning": self.planning.model_dump(mode="json", exclude={"models"}),
        }

    @staticmethod
    def from_json(value: Any) -> ServingTrace:
        """Raises InvalidValue with the field's path."""
        value = mapping(value, "serving")
        checks.known_keys("serving.", value, {"interval_s", "models", "table", "planning"})
        models = []
        for n, given in enumerate(sequence(required(value, "models", "serving"), "serving.models")):
            models.append(_record(mapping(given, f"serving.models[{n}]"), f"serving.models[{n}]"))
        table = value.get("table")
        return ServingTrace(
            float(number(value, "interval_s", "serving")),
            tuple(models),
            None if table is None else DeviceTable.from_json(table),
            parse(ServingPlanning, dict(mapping(value.get("planning") or {}, "serving.planning")), "serving.planning"),
        )


def _record(value: Mapping[str, Any], at: str) -> ServedRecord:
    checks.known_keys(f"{at}.", value, {"name", "slo_ms", "priority", "arrived", "missed", "p50_ms", "p99_ms"})

    required(value, "arrived", at)

    def numbers(key: str) -> list[float]:
        out = []
        for n, v in enumerate(sequence(value.get(key) or [], f"{at}.{key}")):
            if v is not None and (isinstance(v, bool) or not isinstance(v, int | float)):
                raise InvalidValue(f"{at}.{key}[{n}]", v, "a number, or null")
            out.append(math.nan if v is None else float(v))
        return out

    def counts(key: str) -> tuple[int, ...]:
        found = numbers(key)
        if any(math.isnan(v) or v != int(v) for v in found):
            raise InvalidValue(f"{at}.{key}", value[key], "whole numbers")
        return tuple(int(v) for v in found)

    return ServedRecord(
        str(required(value, "name", at)), float(number(value, "slo_ms", at)), counts("arrived"),
        int(number(value, "priority", at, 0)), counts("missed"), tuple(numbers("p50_ms")), tuple(numbers("p99_ms")),
    )  # fmt: skip


def arrivals(trace: ServingTrace, model: ServedRecord, interval: int, seed: int) -> list[float]:
    """When the model's requests of an interval come, in seconds from the trace's beginning: as many as recorded, at
    random within it (Poisson arrivals, given their number). The same for the same seed, whatever else there is."""
    chance = random.Random(f"{seed} {model.name} {interval}")
    begin = interval * trace.interval_s
    return sorted(begin + chance.random() * trace.interval_s for _ in range(model.arrived[interval]))
