"""Admission where tenants share the box: by right first, then with what others leave; losers are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edge.core.errors import InvalidValue
from edge.core.serving import DeviceTable, ServedModel
from scheduler.admission import Box, ServingPlanner
from scheduler.gpulets.policies import serving_policy
from scheduler.tenant_admission import TenantRoom, admit_in, rooms_with

PERCENTS = tuple(range(5, 101, 5))
TABLE = DeviceTable(
    "toy", {m: {p: tuple(4.0 * n * 100 / p for n in range(1, 5)) for p in PERCENTS} for m in ("a", "b", "new")}, {}
)
BOX = Box(0.9, (ServedModel("a", 20.0, 300.0), ServedModel("b", 20.0, 300.0)), TABLE)
SERVING = ServingPlanner(serving_policy("elastic"))


def rooms(held: float = 0.45, need: float = 0.2) -> tuple[TenantRoom, ...]:
    return (
        TenantRoom("gate", 0.45, held, 0.05, 0.45, frozenset({"a"})),
        TenantRoom("stats", 0.45, 0.9 - held, 0.05, need, frozenset({"b"})),
    )


def test_inside_the_entitlement_no_other_tenant_is_asked() -> None:
    found = admit_in(rooms(), "gate", BOX, ServedModel("new", 20.0, 300.0), SERVING)
    assert (found.found.admitted, found.within, found.losses) == (True, "entitlement", ())
    assert {m.model for m in found.found.models} == {"a", "new"}, "members of one tenant only"


def test_who_holds_more_than_its_right_loses_it() -> None:
    found = admit_in(rooms(held=0.15, need=0.75), "gate", BOX, ServedModel("new", 40.0, 300.0), SERVING)
    assert found.within == "entitlement"
    (loss,) = found.losses
    assert loss.tenant == "stats"
    assert loss.loses == pytest.approx(found.share_after - 0.15)
    assert loss.loses <= 0.75 - 0.45 + 1e-9


def test_beyond_the_right_what_others_do_not_need_is_lent() -> None:
    wanted = ServedModel("new", 100.0, 300.0)
    found = admit_in(rooms(need=0.2), "gate", BOX, wanted, SERVING)
    assert found.within == "spare"
    assert found.share_after > 0.45
    assert sum(loss.loses for loss in found.losses) == pytest.approx(found.share_after - 0.45)
    refused = admit_in(rooms(need=0.45), "gate", BOX, wanted, SERVING)
    assert (refused.found.admitted, refused.within) == (False, "none")
    assert refused.losses == ()
    bound = refused.found.reasons[-1]
    assert (bound.code, bound.tenant, bound.numbers["most"]) == ("entitlement", refused.tenant, refused.room)


def test_a_tenant_without_members_has_its_part_by_right_and_the_others_are_named() -> None:
    """A new department of the same weight: a third of the box would be its by right."""
    others = (TenantRoom("new-dept", 0.0, 0.0, 0.05, 0.0, joined=False), TenantRoom("x", 0, 0, 0, 0, joined=False))
    there = (*rooms(), *others)
    every = rooms_with(there, "new-dept")
    assert [(r.id, r.entitlement) for r in every] == [(t, pytest.approx(0.3)) for t in ("gate", "stats", "new-dept")]
    found = admit_in(every, "new-dept", BOX, ServedModel("new", 20.0, 300.0), SERVING)
    assert (found.found.admitted, found.within) == (True, "entitlement")
    assert {m.model for m in found.found.models} == {"new"}
    assert sum(loss.loses for loss in found.losses) == pytest.approx(found.share_after)
    assert rooms_with(there, "gate") == rooms(), "those without members take nothing from anybody"
    with pytest.raises(InvalidValue, match="tenant"):
        rooms_with(there, "other")


def test_an_answer_that_is_refused_after_all_takes_nothing() -> None:
    found = admit_in(rooms(held=0.15, need=0.75), "gate", BOX, ServedModel("new", 40.0, 300.0), SERVING)
    assert found.losses
    refused = found.after(replace(found.found, admitted=False))
    assert (refused.within, refused.share_after, refused.losses) == ("none", found.held, ())
    assert found.after(found.found) == found


def test_an_unknown_tenant_is_an_error() -> None:
    with pytest.raises(InvalidValue, match="tenant"):
        admit_in(rooms(), "other", BOX, ServedModel("new", 1.0, 300.0), SERVING)
