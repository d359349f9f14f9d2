"""Pairs that the serving profiler ran side by side: in a table's details, and as the interference model is fitted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from edge.core.fields import mapping, number, required, sequence
from edge.core.serving import DeviceTable, Utilisation
from edge.serving.profiling import Side, Together
from edge.serving.stressors import STRESSORS
from scheduler.gpulets.interference import FEWEST_PAIRS, InterferencePair, fit

#: The names of stressors where they stand beside models.
BESIDE_MODELS: Mapping[str, str] = MappingProxyType({name: f"stressor:{name}" for name in STRESSORS})


@dataclass(frozen=True)
class Interference:
    """A table's interference of models side by side: `utilisation` by model and batch, the `coefficients` of the
    interference model, `details` of the table that are replaced, and `notes` for people."""

    utilisation: Mapping[str, Mapping[int, Utilisation]]
    coefficients: tuple[float, float, float, float, float]
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def fitted_interference(
    models: Collection[str],
    utilisation: Mapping[str, Mapping[int, Utilisation]],
    together: Sequence[Together],
    base: DeviceTable | None,
) -> Interference:
    """The interference of `models`, which were measured anew, and of those that only `base` knows. `utilisation` and
    `together` name stressors too. With too few pairs the coefficients are those of `base`.

    Raises InvalidValue for pairs in the details of `base` that cannot be read."""
    coefficients = base.interference if base is not None else (0.0, 0.0, 0.0, 0.0, 1.0)
    stressors = {label: rows for label, rows in utilisation.items() if label in BESIDE_MODELS.values()}
    utilisation = {label: rows for label, rows in utilisation.items() if label not in stressors}
    known = {**(base.utilisation if base is not None else {}), **utilisation}
    details: dict[str, Any] = {}
    if stressors:
        details["stressors"] = {
            label: {str(b): {"l2": u.l2, "dram": u.dram} for b, u in rows.items()} for label, rows in stressors.items()
        }
    if not together:
        return Interference(known, coefficients, details)
    # Pairs of the models that are kept from the base still tell something of the device.
    kept = recorded_pairs(base.details if base is not None else {})
    pairs = [t for t in kept if {t.side.model, t.other.model} - {*models, *stressors}]
    pairs += together
    details["pairs"] = [pair_json(t) for t in pairs]
    use = {**known, **stressors}
    # A stressor suffers far more than models do, and stressors are not planned.
    usable = [as_pair(t, use) for t in pairs if t.side.model in known and t.other.model in use]
    if len(usable) < FEWEST_PAIRS:
        few = f"{len(usable)} slowdowns are too few to fit the interference model"
        return Interference(known, coefficients, details, (few,))
    fitted = fit(usable)
    details["interference_error"] = fitted.to_json()
    return Interference(known, fitted.coefficients, details)


def as_pair(together: Together, utilisation: Mapping[str, Mapping[int, Utilisation]]) -> InterferencePair:
    """A measured pair as the interference model takes it."""
    side, other = together.side, together.other
    table = DeviceTable("", {side.model: {100: (1.0,)}}, utilisation)
    return InterferencePair(
        side.share / 100.0,
        table.utilised(side.model, side.batch),
        other.share / 100.0,
        table.utilised(other.model, other.batch),
        together.slowdown,
        side.model,
        other.model,
    )


def recorded_pairs(details: Mapping[str, Any]) -> tuple[Together, ...]:
    """The pairs in a table's details. Raises InvalidValue with the field's path."""
    pairs = []
    for n, given in enumerate(sequence(details.get("pairs") or [], "pairs")):
        at = f"pairs[{n}]"
        value = mapping(given, at)
        sides = [
            Side(str(required(value, model, at)), int(number(value, batch, at)), int(number(value, share, at)))
            for model, batch, share in (("model", "batch", "share"), ("beside", "beside_batch", "beside_share"))
        ]
        pairs.append(Together(sides[0], sides[1], float(number(value, "slowdown", at))))
    return tuple(pairs)


def pair_json(together: Together) -> dict[str, Any]:
    """A measured pair, for the table's file."""
    a, b = together.side, together.other
    return {
        "model": a.model, "batch": a.batch, "share": a.share,
        "beside": b.model, "beside_batch": b.batch, "beside_share": b.share,
        "slowdown": round(together.slowdown, 4),
    }  # fmt: skip
