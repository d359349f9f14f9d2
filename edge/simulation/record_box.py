"""A box's trace from what it says of itself: windows, requests to served models, tenants. Numbers and names only.

Works on the plain documents of REST (`GET /windows/N`, `/serving`, `/tenants`, `/sharing`, `/tenants/history`), so it
knows no transport. Pictures, addresses, secrets and the words of the device's probe are no part of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from edge.core.serving import DeviceTable
from edge.core.tenants import SharingRules, Tenant, TenantObjective
from edge.settings import ServingPlanning, parse
from edge.simulation.box_trace import BoxTrace, SharingRow, SharingTrace
from edge.simulation.serving_trace import ServedRecord, ServingTrace
from edge.simulation.trace import Trace

#: Settings of single models name them; rate, SLO and priority are recorded beside each.
_PLANNING = frozenset(ServingPlanning.model_fields) - {"models"}
_MISSED = ("late", "dropped", "rejected", "failed")


@dataclass
class _CountedModel:
    slo_ms: float
    priority: int
    arrived: list[int] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)


class ServingRecorder:
    """Counts requests by interval: `look(document)` with `GET /serving` at the beginning, then after each interval.

    Totals that went down are those of a box that started anew: they count from 0. A model that is not there has no
    requests."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._totals: dict[str, tuple[int, int]] | None = None
        self._models: dict[str, _CountedModel] = {}
        self._intervals = 0
        self._planning: dict[str, Any] = {}

    def look(self, document: Mapping[str, Any], intervals: int = 1) -> None:
        """Take in the state of the served models at the end of an interval; of so many `intervals`, where looks failed:
        requests since the last one are spread evenly over them."""
        if "settings" in document:  # else it serves nothing now
            self._planning = {k: v for k, v in document["settings"].items() if k in _PLANNING}
        there = {m["name"]: m for m in document["models"] if m["kind"] == "model" and m["slo_ms"] is not None}
        totals = {n: (m["total"]["arrived"], sum(m["total"][k] for k in _MISSED)) for n, m in there.items()}
        before, self._totals = self._totals, totals
        for name, m in there.items():
            known = self._models.setdefault(name, _blank(m, self._intervals))
            known.slo_ms, known.priority = float(m["slo_ms"]), int(m["priority"])
        if before is None:
            return
        self._intervals += intervals
        for name, known in self._models.items():
            now, last = totals.get(name, (0, 0)), before.get(name, (0, 0))
            anew = now[0] < last[0] or now[1] < last[1]
            arrived, missed = now if anew else (now[0] - last[0], now[1] - last[1])
            known.arrived += _spread(arrived, intervals)
            known.missed += _spread(missed, intervals)
            took = there[name]["latency_ms"] if name in there and arrived else ()
            unknown = [math.nan] * (intervals - 1)
            known.p50_ms += [*unknown, float(took[0]) if took else math.nan]
            known.p99_ms += [*unknown, float(took[-1]) if took else math.nan]

    def trace(self, table: DeviceTable | None) -> ServingTrace | None:
        """The requests so far, with the numbers of `table`; None: nothing was served, or no interval is over."""
        if not self._models or not self._intervals:
            return None
        models = tuple(
            ServedRecord(
                name, m.slo_ms, tuple(m.arrived), m.priority, tuple(m.missed), tuple(m.p50_ms), tuple(m.p99_ms)
            )
            for name, m in sorted(self._models.items())
        )
        # A table's details and name tell the machine that it was measured on.
        plain = None if table is None else replace(table, name="device", details={})
        planning = parse(ServingPlanning, self._planning, "settings")
        return ServingTrace(self._interval_s, models, plain, planning)


def _spread(total: int, parts: int) -> list[int]:
    """Whole numbers with the sum `total`, as equal as they can be."""
    return [total * (n + 1) // parts - total * n // parts for n in range(parts)]


def _blank(document: Mapping[str, Any], intervals: int) -> _CountedModel:
    none = [math.nan] * intervals
    zero = [0] * intervals
    return _CountedModel(float(document["slo_ms"]), int(document["priority"]), zero, list(zero), none, list(none))


def sharing_trace(
    tenants: Sequence[Mapping[str, Any]],
    rules: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    start_utc_s: float,
) -> SharingTrace | None:
    """`tenants` and `rules` as the site configuration has them, `rows` of the history; None: there are no tenants."""
    if not tenants:
        return None
    known = {f.name for f in fields(SharingRules)}
    return SharingTrace(
        tuple(_tenant(t) for t in tenants),
        SharingRules(**{k: v for k, v in rules.items() if k in known}),
        tuple(
            SharingRow(
                r["tenant"], round(r["utc_s"] - start_utc_s, 3), r["seconds"], r["held"], r["given"], r["performance"]
            )
            for r in rows
            if r["utc_s"] > start_utc_s
        ),
    )


def _tenant(value: Mapping[str, Any]) -> Tenant:
    """A tenant from its settings."""
    goal = value["objective"]
    plain = {f.name: value[f.name] for f in fields(Tenant) if f.name in value and f.name not in ("objective", "name")}
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()}
    return Tenant(objective=TenantObjective(goal["metric"], goal["goal"], goal["utility"]), **plain)


def without_probe(trace: Trace) -> Trace:
    """Without the words and the name of the device that it ran on."""
    caps = trace.caps
    return trace if caps is None else replace(trace, caps=replace(caps, evidence="", device=caps.device[:3]))


def with_other_names(trace: BoxTrace) -> BoxTrace:
    """Cameras, models and tenants numbered instead of named, the same name always by the same number."""
    windows, serving, sharing = trace.windows, trace.serving, trace.sharing
    camera_ids = () if windows is None else [c.id for c in windows.cameras]
    cameras = _Names("camera", [*camera_ids, *(c for t in _tenants(sharing) for c in t.cameras)])
    model_names = () if serving is None else [m.name for m in serving.models]
    models = _Names("model", [*model_names, *(m for t in _tenants(sharing) for m in (*t.models, *t.applications))])
    tenants = _Names("tenant", [t.id for t in _tenants(sharing)])
    if windows is not None:
        windows = replace(windows, name="box", cameras=tuple(replace(c, id=cameras[c.id]) for c in windows.cameras))
    if serving is not None:
        table = None if serving.table is None else _renamed(serving.table, models)
        serving = replace(serving, models=tuple(replace(m, name=models[m.name]) for m in serving.models), table=table)
    if sharing is not None:
        sharing = replace(
            sharing,
            tenants=tuple(
                replace(
                    t,
                    id=tenants[t.id],
                    models=tuple(models[m] for m in t.models),
                    applications=tuple(models[m] for m in t.applications),
                    cameras=tuple(cameras[c] for c in t.cameras),
                )
                for t in sharing.tenants
            ),
            rows=tuple(replace(r, tenant=tenants[r.tenant]) for r in sharing.rows),
        )
    return BoxTrace("box", windows, serving, sharing, trace.capacity)


class _Names(dict[str, str]):
    """Names by number; one that comes later gets the next."""

    def __init__(self, noun: str, names: Sequence[str]) -> None:
        super().__init__()
        self._noun = noun
        for name in names:
            self[name]

    def __missing__(self, name: str) -> str:
        self[name] = f"{self._noun}-{len(self) + 1}"
        return self[name]


def _tenants(sharing: SharingTrace | None) -> tuple[Tenant, ...]:
    return () if sharing is None else sharing.tenants


def _renamed(table: DeviceTable, models: _Names) -> DeviceTable:
    """The table's rows of these models, without details."""
    mine = [m for m in table.latency_ms if m in models]
    return DeviceTable(
        "device",
        {models[m]: table.latency_ms[m] for m in mine},
        {models[m]: table.utilisation[m] for m in mine if m in table.utilisation},
        table.interference,
        {models[m]: table.memory_mb[m] for m in mine if m in table.memory_mb},
        table.device_memory_mb,
    )
