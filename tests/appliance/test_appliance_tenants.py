"""The service of tenants: settings that people change, members that are there, answers with their types."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from tenants_kit import ServingBox, TenantsBox, reader

from edge.appliance.settings_in_force import site_in_force
from edge.appliance.tenants import Tenants
from edge.core.alarms import ModelOwner
from edge.core.errors import Conflict, InvalidValue, InvalidValues, NotFound, Unavailable
from edge.core.tenants import HISTORY_DOCUMENT, TENANTS_DOCUMENT
from edge.runtime.serving_demand import Offer
from edge.settings import SiteSettings, parse
from edge.store.store import Store
from scheduler.tenant_admission import rooms_with

SITE: dict[str, Any] = {
    "serving": {"folder": "models"},
    "tenants": [
        {"id": "gate", "name": "Entrance", "models": ["a"], "entitlement": 2, "objective": {"goal": 0.95}},
        {"id": "stats", "models": ["b"], "floor": 0.1},
    ],
}


class Made:
    def __init__(self, service: Tenants, served: Any, box: TenantsBox, store: Store, notes: list[str]) -> None:
        self.service, self.served, self.box, self.store, self.notes = service, served, box, store, notes


async def made_of(folder: Path, site: SiteSettings, store: Store) -> Made:
    serving = ServingBox(folder, "a", "b", "c")
    await serving.start()
    box = TenantsBox(serving, *(t.tenant() for t in site.tenants), rules=site.sharing.rules())
    notes: list[str] = []
    served: Any = SimpleNamespace(runtime=serving, rooms=tuple)
    service = Tenants(site, store, box.clock, box.shares, served, lambda kind, **more: notes.append(kind))
    await service.open()
    await box.shares.look()
    return Made(service, served, box, store, notes)


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[Made]:
    store = Store(None, tmp_path)
    yield await made_of(tmp_path, parse(SiteSettings, SITE), store)
    store.close()


async def test_every_tenant_is_reported_with_its_members_and_the_default_one(made: Made) -> None:
    found = made.service.all()
    assert found.active
    assert [t.id for t in found.tenants] == ["gate", "stats", "default"]
    assert made.service.there == {"gate", "stats", "default"}, "there is no camera"
    gate, _, default = found.tenants
    assert (gate.name, gate.models, gate.implicit, gate.goal) == ("Entrance", ("a",), False, 0.95)
    assert (default.models, default.implicit) == (("c",), True)
    assert gate.share.entitlement == pytest.approx(0.9 * 2 / 4)
    assert sum(t.share.held for t in found.tenants) == pytest.approx(found.capacity, abs=1e-3)
    assert gate.source == "profiled"
    for _ in range(3):
        await made.box.interval(lambda name, share: 0.8 if name == "gate" else 1.0, {"a": 30, "b": 30, "c": 30})
    detail = made.service.one("gate")
    assert (detail.tenant.state, detail.tenant.source) == ("misses", "learned")
    assert detail.tenant.performance == pytest.approx(0.8)
    assert len(detail.curve.reports) == 3
    assert detail.curve.last == detail.curve.reports[-1], "performance belongs to the share given then"
    assert detail.curve.now == pytest.approx(detail.tenant.share.given)
    assert detail.curve.now != pytest.approx(detail.curve.reports[-1].share), "it moved since"
    assert all(p.low <= p.performance + 1e-6 and p.performance <= p.high + 1e-6 for p in detail.curve.points)
    with pytest.raises(NotFound):
        made.service.one("nobody")


async def test_whose_each_served_model_is(made: Made) -> None:
    """For their alarms: an application that a camera asks is of that camera, too."""
    served = [SimpleNamespace(name=n, violations_recent=0.25, camera=c) for n, c in (("a", None), ("c", "north"))]
    gone = SimpleNamespace(name="x", violations_recent=0.0, camera=None)
    made.served.answering = lambda: (*served, gone)
    found = made.service.within_objective()
    assert found.within == {"a": 0.75, "c": 0.75, "x": 1.0}
    assert found.owners == {"a": ModelOwner("gate"), "c": ModelOwner("default", ("north",))}, (
        "x is not offered any more"
    )


async def test_a_goal_out_of_reach_is_reported_with_the_best_that_can_be_had(made: Made) -> None:
    before = made.service.one("gate").tenant.demand
    assert (before.share, before.best) == (None, None), "nothing was measured"
    for _ in range(20):
        # Little more than half of the requests would be in time with all of the box.
        await made.box.interval(lambda name, share: 0.55 * share**0.1, {"a": 30, "b": 30, "c": 30})
    demand = made.service.one("gate").tenant.demand
    assert demand.share is None
    assert demand.best is not None
    assert 0.4 < demand.best < 0.9, demand


async def test_floors_that_are_more_than_there_is_are_reported(made: Made) -> None:
    assert made.service.sharing().lacking == 0
    await made.service.change("gate", {"floor": 0.85}, "ann")
    for _ in range(2):
        await made.box.interval(lambda name, share: 1.0, {"a": 30, "b": 30, "c": 30})
        shares = {t.id: t.share.held for t in made.service.all().tenants}
        assert sum(shares.values()) == pytest.approx(0.9, abs=1e-3)
        lacking = made.service.sharing().lacking
        assert lacking >= 0.85 + 0.1 - 0.9
        assert shares["gate"] == pytest.approx(0.85 * 0.9 / (0.9 + lacking), abs=1e-3)
    assert len(made.box.complaints) == 1, "once, as long as it lasts"
    await made.service.change("gate", {"floor": 0.0}, "ann")
    await made.box.interval(lambda name, share: 1.0, {"a": 30, "b": 30, "c": 30})
    assert made.service.sharing().lacking == 0


async def test_changes_are_kept_over_a_restart_and_the_database_decides_then(made: Made, tmp_path: Path) -> None:
    await made.service.add({"id": "night", "models": ["c"], "objective": {"utility": "sqrt"}}, "ann")
    await made.service.change("gate", {"entitlement": 3, "objective": {"goal": 0.9}}, "ann")
    await made.service.remove("stats", "ann")
    assert "stats" not in made.service.there
    await made.service.change_sharing({"policy": "njc", "largest_step": 0.2}, "ann")
    assert {"tenant.added", "tenant.changed", "tenant.removed", "tenants.settings"} <= set(made.notes)
    assert [t.id for t in made.service.all().tenants] == ["gate", "night", "default"]
    site = site_in_force(parse(SiteSettings, SITE), made.store)
    assert [(t.id, t.entitlement) for t in site.tenants] == [("gate", 3.0), ("night", 1.0)]
    assert (site.sharing.policy, site.sharing.largest_step) == ("njc", 0.2)
    made.store.settings.put_settings(TENANTS_DOCUMENT, made.box.shares.document(), "tenants", audited=False)
    again = await made_of(tmp_path, site, made.store)
    assert again.service.one("gate").tenant.settings == made.service.one("gate").tenant.settings
    assert again.service.sharing().settings.policy == "njc"


async def test_a_default_tenant_gets_settings_by_a_change(made: Made) -> None:
    answer = await made.service.change("default", {"entitlement": 4, "objective": {"goal": 0.5}}, "ann")
    assert (answer.implicit, answer.goal, answer.settings.entitlement) == (False, 0.5, 4.0)
    with pytest.raises(InvalidValue, match="no member"):
        await made.service.change("default", {"models": ["c"]}, "ann")


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"id": "gate"}, Conflict, "exists already"),
        ({"id": "x", "models": ["a"]}, InvalidValue, r"models\[0\].*gate has it"),
        ({"id": "x", "models": ["nothing"]}, InvalidValues, r"models\[0\].*a, b, c"),
        ({"id": "x", "cameras": ["north"]}, InvalidValues, "objective.metric"),
        ({"id": "x", "objective": {"goal": 1.5}}, InvalidValues, "objective.goal"),
        ({"id": "x", "objective": {"metric": "accuracy"}, "cameras": ["north"]}, InvalidValues, r"cameras\[0\]"),
        ({"id": "x", "floor": 0.95}, InvalidValue, "at most 1"),
    ],
)
async def test_what_cannot_be_is_an_error_that_names_the_field(
    made: Made, settings: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        await made.service.add(settings, "ann")
    assert [t.id for t in made.service.all().tenants] == ["gate", "stats", "default"]


async def test_a_member_that_another_tenant_s_application_asks_is_refused(made: Made) -> None:
    made.box.serving.models.offers["reader"] = Offer("reader", "offered", application=reader("a", "b"))
    with pytest.raises(InvalidValue, match=r"tenants\[0\]\.models\[0\].*tenant stats.*application reader"):
        await made.service.change("stats", {"applications": ["reader"]}, "ann")
    assert made.service.all().tenants[1].applications == ()


@pytest.mark.parametrize(
    ("tenants", "words"),
    [
        ([{"id": "a", "entitlement": 0}], "entitlement"),
        ([{"id": "a"}, {"id": "a"}], r"tenants\[1\]\.id"),
        ([{"id": "a", "models": ["m"]}, {"id": "b", "models": ["m"]}], r"tenants\[1\]\.models\[0\]"),
        ([{"id": "a", "floor": 0.6}, {"id": "b", "floor": 0.6}], r"tenants\[0\]\.floor"),
        ([{"id": "default-cameras"}], r"tenants\[0\]\.objective\.metric"),
    ],
)
def test_a_site_file_is_checked(tenants: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InvalidValues, match=words):
        parse(SiteSettings, {"serving": {"folder": "models"}, "tenants": tenants})


async def test_a_member_of_the_file_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    store = Store(None, tmp_path)
    site = parse(SiteSettings, {**SITE, "tenants": [{"id": "gate", "models": ["zebra"]}]})
    with pytest.raises(InvalidValue, match=r"tenants\[0\]\.models\[0\].*a, b, c"):
        await made_of(tmp_path, site, store)
    store.close()


@pytest.mark.parametrize(
    ("name", "document"),
    [
        (TENANTS_DOCUMENT, {"tenants": {"gate": {"memory": 3}}}),
        (TENANTS_DOCUMENT, {"tenants": []}),
        (TENANTS_DOCUMENT, {"tenants": {"gate": 7}}),
        (HISTORY_DOCUMENT, {"rows": {}}),
        (HISTORY_DOCUMENT, {"rows": [7, {"tenant": "gate"}]}),
    ],
)
async def test_a_damaged_state_is_reported_and_begun_anew(tmp_path: Path, name: str, document: dict[str, Any]) -> None:
    store = Store(None, tmp_path)
    store.settings.put_settings(name, document, "tenants", audited=False)
    made = await made_of(tmp_path, parse(SiteSettings, SITE), store)
    assert "tenants.forgotten" in [*made.notes, *(kind for kind, _ in made.box.notes)]
    learned = made.service.one("gate").tenant.learned
    assert (learned.reports, learned.forgotten) == (0, "damaged" if name == TENANTS_DOCUMENT else None)
    assert made.service.history().rows == ()
    await made.box.interval(lambda name, share: 1.0, {"a": 30, "b": 30, "c": 30})
    assert made.service.one("gate").tenant.learned.reports == 1
    store.close()


@pytest.mark.parametrize("name", [TENANTS_DOCUMENT, HISTORY_DOCUMENT])
async def test_a_record_that_is_no_document_does_not_stop_the_start(tmp_path: Path, name: str) -> None:
    store = Store(None, tmp_path)
    store.settings.put_settings(name, {"tenants": {}}, "tenants", audited=False)
    with store.database.write() as c:
        c.execute(sa.text("update settings set value = '{' where name = :name"), {"name": name})
    made = await made_of(tmp_path, parse(SiteSettings, SITE), store)
    await made.box.interval(lambda name, share: 1.0, {"a": 30, "b": 30, "c": 30})
    assert made.service.one("gate").tenant.learned.reports == 1
    store.close()


@pytest.mark.parametrize("name", [TENANTS_DOCUMENT, HISTORY_DOCUMENT])
async def test_a_database_that_cannot_be_read_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    store = Store(None, tmp_path)
    read = store.settings.get_settings

    def fails(document: str) -> Any:
        if document == name:
            raise Unavailable("the database does not answer")
        return read(document)

    monkeypatch.setattr(store.settings, "get_settings", fails)
    serving = ServingBox(tmp_path, "a", "b")
    await serving.start()
    site = parse(SiteSettings, SITE)
    box = TenantsBox(serving, *(t.tenant() for t in site.tenants))
    notes: list[str] = []
    served: Any = SimpleNamespace(runtime=serving, rooms=tuple)
    service = Tenants(site, store, box.clock, box.shares, served, lambda kind, **more: notes.append(kind))
    with pytest.raises(Unavailable):
        await service.open()
    assert (notes, box.notes, box.shares.known, box.kept) == ([], [], {}, [])
    store.close()


async def test_where_nothing_is_shared_after_a_start_alarms_of_all_tenants_are_over(tmp_path: Path) -> None:
    store = Store(None, tmp_path)
    site = parse(SiteSettings, {**SITE, "tenants": [{"id": "gate", "models": ["a", "b", "c"]}]})
    made = await made_of(tmp_path, site, store)
    assert made.service.there == frozenset()
    store.close()


async def test_a_tenant_without_members_can_be_asked_for(tmp_path: Path) -> None:
    store = Store(None, tmp_path)
    site = parse(SiteSettings, {**SITE, "tenants": [*SITE["tenants"], {"id": "yard", "entitlement": 2.0}]})
    made = await made_of(tmp_path, site, store)
    there = {r.id: r.joined for r in made.served.rooms()}
    assert there == {"gate": True, "stats": True, "yard": False, "default": True, "default-cameras": False}
    every = rooms_with(made.served.rooms(), "yard")
    assert sum(r.entitlement for r in every) == pytest.approx(0.9)
    rights = {r.id: r.entitlement for r in every}
    assert rights["yard"] == pytest.approx(2 * rights["default"])
    store.close()


async def test_the_next_decision_is_at_the_end_of_the_interval_also_after_one_between(made: Made) -> None:
    await made.box.interval(lambda name, share: 1.0, {"a": 30, "b": 30, "c": 30})
    assert made.service.sharing().next_utc_s == pytest.approx(made.box.clock.utc() + 10.0, abs=1e-3)
    made.box.clock.advance(6.0)
    made.box.parts.shares.shared_capacity = lambda: 0.8
    await made.box.shares.look()
    found = made.service.sharing()
    assert found.decided_utc_s == pytest.approx(made.box.clock.utc(), abs=1e-3)
    assert found.next_utc_s == pytest.approx(made.box.clock.utc() + 4.0, abs=1e-3)


async def test_a_recorded_day_under_another_policy(made: Made) -> None:
    for _ in range(70):
        await made.box.interval(
            lambda name, share: min(1.0, share / (0.5 if name == "gate" else 0.05)), {"a": 30, "b": 30, "c": 30}
        )
    rows = made.service.history("gate").rows
    assert len(rows) == 2
    assert all(row.performance is not None and row.seconds >= 300 for row in rows)
    found = await made.service.what_if("fair")
    assert found.rows == 2
    assert found.egalitarian_welfare is not None
    assert found.other_egalitarian_welfare is not None
    assert {t.id for t in found.tenants} == {"gate", "stats", "default"}
    with pytest.raises(InvalidValues, match="policy"):
        await made.service.what_if("dice")
