"""Members of tenants that applications bring to another tenant: refused where tenants change, else told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tenants_kit import ServingBox, reader, tenant

from edge.core.errors import InvalidValue
from edge.runtime.serving_demand import Offer
from edge.runtime.tenant_members import applications_of, check_asked, disputed_members

GATE, STATS = tenant("gate", "a"), tenant("stats", "b")
ASKING = replace(STATS, applications=("reader",))


def test_a_tenant_that_names_an_application_which_asks_another_tenant_s_model_is_refused() -> None:
    with pytest.raises(InvalidValue) as caught:
        check_asked([GATE, ASKING], [GATE, STATS], [reader("a", "b")])
    assert (caught.value.path, caught.value.given) == ("tenants[0].models[0]", "a")
    for name in ("tenant gate", "tenant stats", "application reader", "a, which"):
        assert name in str(caught.value)


def test_the_same_is_refused_of_a_tenant_that_names_the_model() -> None:
    with pytest.raises(InvalidValue, match=r"tenants\[1\]\.models\[0\]: got 'a'"):
        check_asked([ASKING, GATE], [ASKING], [reader("a", "b")])


def test_what_an_application_changed_alone_does_not_hinder_other_changes_of_tenants() -> None:
    asked = [reader("a", "b")]
    check_asked([GATE, replace(ASKING, entitlement=2.0)], [GATE, ASKING], asked)
    check_asked([GATE, ASKING], [GATE, STATS], [reader("b", "c")])
    check_asked([GATE, ASKING], [GATE, STATS], [])


async def test_what_is_offered_now_tells_which_members_another_tenant_has(tmp_path: Path) -> None:
    box: Any = ServingBox(tmp_path, "a", "b")
    assert (applications_of(None), applications_of(box)) == ((), ())
    box.models.offers["reader"] = Offer("reader", "offered", application=reader("a", "b"))
    (found,) = disputed_members([GATE, ASKING], applications_of(box))
    assert (found.member, found.named_by, found.tenant, found.application) == ("a", "gate", "stats", "reader")
