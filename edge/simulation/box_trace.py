"""A whole box as a trace, "magpie-trace/2": its windows, the requests to its served models, its tenants.

The file is "magpie-trace/1" with more keys beside those of the windows; a box without cameras has none of these but the
name. Recorded shares and performances of tenants are there to compare with; a simulation decides anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.fields import mapping, number, required, sequence
from edge.core.tenants import SharingRules, Tenant, TenantObjective
from edge.simulation.serving_trace import ServingTrace
from edge.simulation.trace import BOX_FORMAT, BOX_PARTS, TRACE_FORMAT, Trace, read_document


@dataclass(frozen=True)
class SharingRow:
    """A tenant over `seconds` that ended `at_s` seconds after the trace's beginning (negative: before): the budget
    `held`, the share `given`, its performance (None: not measured)."""

    tenant: str
    at_s: float
    seconds: float
    held: float
    given: float
    performance: float | None = None


@dataclass(frozen=True)
class SharingTrace:
    """The tenants of a box and the rules of their sharing; `rows`: their recorded shares and performance."""

    tenants: tuple[Tenant, ...]
    rules: SharingRules = SharingRules()  # noqa: RUF009
    rows: tuple[SharingRow, ...] = ()

    def __post_init__(self) -> None:
        checks.unique("sharing.tenants[].id", [t.id for t in self.tenants])

    def to_json(self) -> dict[str, Any]:
        return {
            "tenants": [asdict(t) for t in self.tenants],
            "rules": asdict(self.rules),
            "rows": [asdict(row) for row in self.rows],
        }

    @staticmethod
    def from_json(value: Any) -> SharingTrace:
        """Raises InvalidValue with the field's path."""
        value = mapping(value, "sharing")
        checks.known_keys("sharing.", value, {"tenants", "rules", "rows"})
        tenants = [
            _tenant(mapping(t, f"sharing.tenants[{n}]"), f"sharing.tenants[{n}]")
            for n, t in enumerate(sequence(required(value, "tenants", "sharing"), "sharing.tenants"))
        ]
        rules = _built(SharingRules, value.get("rules") or {}, "sharing.rules")
        rows = [
            _built(SharingRow, row, f"sharing.rows[{n}]")
            for n, row in enumerate(sequence(value.get("rows") or [], "sharing.rows"))
        ]
        return SharingTrace(tuple(tenants), rules, tuple(rows))


@dataclass(frozen=True)
class BoxTrace:
    """A box over a time that all its parts begin together. `capacity`: the share (0-1) of the device that cameras,
    their retraining and served models have together."""

    name: str
    windows: Trace | None = None
    serving: ServingTrace | None = None
    sharing: SharingTrace | None = None
    capacity: float = 1.0

    def __post_init__(self) -> None:
        checks.in_range("capacity", self.capacity, 0.0, 1.0, low_open=True)
        if self.windows is None and self.serving is None:
            raise InvalidValue("cameras", None, "cameras, or served models (serving), or both")

    def to_json(self) -> dict[str, Any]:
        out = {"name": self.name} if self.windows is None else self.windows.to_json() | {"name": self.name}
        if self.serving is None and self.sharing is None:
            return out
        out |= {"format": BOX_FORMAT, "capacity": self.capacity}
        out |= {} if self.serving is None else {"serving": self.serving.to_json()}
        return out | ({} if self.sharing is None else {"sharing": self.sharing.to_json()})

    @staticmethod
    def from_json(value: Any) -> BoxTrace:
        """Reads "magpie-trace/1", too. Raises InvalidValue with the field's path."""
        value = mapping(value, "(file)")
        checks.one_of("format", value.get("format"), (TRACE_FORMAT, BOX_FORMAT))
        serving, sharing = value.get("serving"), value.get("sharing")
        if value["format"] == TRACE_FORMAT or set(value) - {"format", "name", *BOX_PARTS}:
            windows: Trace | None = Trace.from_json(value)
        else:
            windows = None
        return BoxTrace(
            str(required(value, "name", "")),
            windows,
            None if serving is None else ServingTrace.from_json(serving),
            None if sharing is None else SharingTrace.from_json(sharing),
            float(number(value, "capacity", "", 1.0)),
        )


def read_box(path: Path) -> BoxTrace:
    """Raises InvalidValue where the file cannot be read, is not JSON, or breaks the format."""
    return BoxTrace.from_json(read_document(path))


def _tenant(value: Mapping[str, Any], at: str) -> Tenant:
    objective = _built(TenantObjective, required(value, "objective", at), f"{at}.objective")
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items() if k != "objective"}
    tenant: Tenant = _built(Tenant, plain | {"objective": objective}, at)
    return tenant


def _built(kind: Any, value: Any, at: str) -> Any:
    """The dataclass `kind` of these fields."""
    value = mapping(value, at)
    checks.known_keys(f"{at}.", value, {f.name for f in fields(kind)})
    try:
        return kind(**value)
    except TypeError as error:
        raise InvalidValue(at, sorted(value), str(error)) from None
