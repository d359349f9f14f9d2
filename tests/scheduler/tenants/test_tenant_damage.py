"""Kept knowledge of a tenant that was damaged: a decision can be made with all that passes its check, and what a box
itself writes passes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from operator import itemgetter
from typing import Any, Final

import pytest
from examples_kit import THOROUGH, tried
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.core.tenants import SharingRules, Tenant, TenantObjective
from scheduler.tenants.known import LearnedTenant, SharingReport
from scheduler.tenants.learned import TenantMemory
from scheduler.tenants.load import LoadForecast
from scheduler.tenants.sharing import SharingQuestion, TenantNow, decide

GATE = Tenant("gate", TenantObjective("within_slo", 0.95), models=("a",))
STREETS = Tenant("streets", TenantObjective("accuracy", 0.8, "sqrt"), cameras=("north",))
NAN, INF = float("nan"), float("inf")
#: Stands where a key or an item was that is missing.
MISSING: Final = object()
#: What stands where a number was.
NUMBERS = (
    0, -1, 5e-324, 1e-200, 1e9, 1e49, 1.7e308, -1.7e308, 10**400, NAN, INF,
    *((0.5, 2, 1e-9, 1e51, 1e200, -5e-324, -1e9, -1e51, 2**63, -INF) if THOROUGH else ()),
)  # fmt: skip
OTHER = (MISSING, None, True, "", "3", [], [1.0], {}, {"a": 1})
Path = tuple[str | int, ...]


@cache
def kept(metric: str = "within_slo") -> str:
    """What a box writes of a tenant that was measured for some rounds, got slower once and misses its goal: JSON."""
    known: dict[str, LearnedTenant] = {}
    tenant = GATE if metric == "within_slo" else STREETS
    for n in range(40):
        share = 0.3 + 0.01 * (n % 7)
        good = 0.9 if n < 25 else 0.4
        load = 10.0 + n % 5 if tenant.serves else 1.0
        entry = TenantNow(
            tenant, report=SharingReport(10.0 * n, 10.0, load, min(1.0, good * (share + 0.5)), share, 100),
            fingerprint={"versions": "7"},
        )  # fmt: skip
        question = SharingQuestion(10.0 * n, 0.9, (entry, TenantNow(replace(GATE, id="other"))), SharingRules(), True)
        known = dict(decide(known, question).known)
    found = known[tenant.id]
    # Two rounds outside its band: the next one finds the change, with what is kept of them.
    curve = replace(found.memory.curve, outside=-2, recent=((-0.2, 0.4), (-0.1, 0.42)))
    return json.dumps(replace(found, memory=replace(found.memory, curve=curve)).to_json())


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Every field, and of lists the first and the last item."""
    yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*at, key))
    elif isinstance(value, list) and value:
        for n in sorted({0, len(value) - 1}):
            yield from paths(value[n], (*at, n))


def put(document: Any, path: Path, value: Any) -> Any:
    """`document` with another value at a path, or without what was there (MISSING)."""
    if not path:
        return value
    copy: Any = dict(document) if isinstance(document, dict) else list(document)
    if value is MISSING and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = put(document[path[0]], path[1:], value)
    return copy


def at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def damages(before: Any) -> tuple[Any, ...]:
    """What may stand where `before` was."""
    if isinstance(before, list):
        return (*OTHER, before[1:], before[:-1], before * 2, [*before, *before[-1:]], before[::-1])
    if isinstance(before, float) or (type(before) is int and abs(before) < 2**70):
        return (*NUMBERS, *OTHER, -before, before * 1e3, before / 1e3)
    return (*NUMBERS, *OTHER)


def refused(document: Any) -> bool:
    """Whether it is found to be damaged."""
    try:
        LearnedTenant.from_json(document, "tenants.gate").check("tenants.gate")
    except InvalidValue as error:
        return error.path.startswith("tenants.gate")
    return False


def can_be_decided_with(document: Any, tenant: Tenant = GATE) -> None:
    """Some decisions are made with it: good and bad intervals, in which it is found out that it changed."""
    known = {tenant.id: LearnedTenant.from_json(document)}
    mine = known[tenant.id]
    start_s = max((mine.moved_utc_s or 0.0, *(r.utc_s for r in mine.recent)))
    other = Tenant("other", TenantObjective("within_slo", 0.95), models=("b",))
    for n, performance in enumerate((0.5, 0.1, 1.0) if THOROUGH else (0.5,)):
        seen = SharingReport(start_s + 20.0 * (n + 1), 10.0, 1.0, performance, 0.5, 1)
        entries = (TenantNow(tenant, report=seen), TenantNow(other))
        found = decide(known, SharingQuestion(seen.utc_s, 1.0, entries, SharingRules(), windows=True))
        for share in found.shares.values():
            demand = share.demand
            numbers = (share.held, demand.share, demand.low, demand.high, demand.best)
            assert all(math.isfinite(number or 0.0) for number in numbers)
        known = dict(found.known)


@pytest.mark.parametrize("metric", ["within_slo", "accuracy"])
def test_what_passes_the_check_after_any_one_damage_can_be_decided_with(metric: str) -> None:
    document = json.loads(kept(metric))
    tenant = GATE if metric == "within_slo" else STREETS
    assert not refused(document)
    can_be_decided_with(document, tenant)
    checked, passed = 0, 0
    for path in paths(document):
        for value in damages(at(document, path)):
            checked += 1
            broken = put(document, path, value)
            if not refused(broken):
                passed += 1
                try:
                    can_be_decided_with(broken, tenant)
                except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError) as error:
                    raise AssertionError(f"{path} = {value!r}: {error!r}") from error
    assert passed < checked / 2, "most damage is found"


@cache
def undetected() -> tuple[tuple[Path, Any], ...]:
    """Damages that pass the check, each alone."""
    document = json.loads(kept())
    return tuple(
        (path, value)
        for path in paths(document) if path
        for value in damages(at(document, path))
        if value != at(document, path) and not refused(put(document, path, value))
    )  # fmt: skip


def test_what_passes_the_check_after_several_damages_can_be_decided_with() -> None:
    """Only such damages are drawn as pass alone: of any others together next to none would pass."""
    checked, passed = 0, 0

    @settings(max_examples=tried(100, 3000))
    @given(st.lists(st.sampled_from(undetected()), min_size=2, max_size=4, unique_by=itemgetter(0)))
    def several(drawn: list[tuple[Path, Any]]) -> None:
        nonlocal checked, passed
        document = json.loads(kept())
        for path, value in drawn:
            with suppress(LookupError, TypeError):  # another damage took it away
                document = put(document, path, value)
        checked += 1
        if not refused(document):
            passed += 1
            can_be_decided_with(document)

    several()
    assert passed > checked / 2


LOADS = st.one_of(st.floats(1e-4, 1e9), st.sampled_from([1.0, 10.0]))
INTERVALS = st.lists(
    st.tuples(LOADS, st.floats(0.0, 1.0), st.floats(1e-4, 1.0), st.booleans(), st.floats(-50.0, 5000.0)), max_size=25
)


@settings(max_examples=tried(60, 2000))
@given(INTERVALS, st.sampled_from([GATE, STREETS]), st.floats(0.03, 1.0))
def test_all_that_a_box_writes_passes(
    intervals: list[tuple[float, float, float, bool, float]], tenant: Tenant, total: float
) -> None:
    """Loads, results and shares of any size, intervals without a report, other versions, a clock that goes back."""
    known: dict[str, LearnedTenant] = {}
    utc_s = 1000.0
    for load, performance, share, other, passed_s in intervals:
        utc_s += passed_s
        report = SharingReport(utc_s, 10.0, load if tenant.serves else 1.0, performance, share, 3)
        entry = TenantNow(tenant, report=report, fingerprint={"versions": "2" if other and load > 1e6 else "1"})
        entries = (entry, TenantNow(replace(GATE, id="other")))
        known = dict(decide(known, SharingQuestion(utc_s, total, entries, SharingRules(), other)).known)
        for one in known.values():
            assert not refused(json.loads(json.dumps(one.to_json())))


def test_a_load_that_never_changes_passes_for_ever() -> None:
    load = LoadForecast()
    for _ in range(60_000):
        load = load.seen(1.0)
    TenantMemory(load=load).check("memory")
