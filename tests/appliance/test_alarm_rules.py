"""Rules that are changed while they are at work: kept, in force at once, refused where they name nothing."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge.appliance.alarm_rules import AlarmRules
from edge.core.errors import Conflict, InvalidValues, NotFound
from edge.settings import CameraSettings, RuleSettings, parse
from edge.store.store import Store


class Box:
    """Rules of one camera over a real store; what is journaled and changed is written down."""

    def __init__(self, store: Store) -> None:
        camera = parse(CameraSettings, {"id": "gate", "url": "rtsp://192.0.2.1/g", "classes": ["car"]})
        cameras: dict[str, Any] = {"gate": SimpleNamespace(settings=camera)}
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.changed: list[tuple[str, ...]] = []
        file = [parse(RuleSettings, {"id": "lost", "kind": "camera_lost"})]
        self.rules = AlarmRules(
            file, store, lambda: cameras, lambda kind, data: self.notes.append((kind, data)), self.changed.append
        )


@pytest.fixture
def store(tmp_path: Path, sqlite_template: Path) -> Iterator[Store]:
    shutil.copy(sqlite_template, tmp_path / "magpie.db")
    with Store(None, tmp_path) as opened:
        yield opened


async def test_rules_of_the_file_until_they_are_changed(store: Store) -> None:
    box = Box(store)
    assert box.rules.in_force == ()
    await box.rules.open()
    assert [r.id for r in box.rules.in_force] == ["lost"]
    await box.rules.remove("lost", "ann")
    assert box.rules.in_force == ()
    again = Box(store)
    await again.rules.open()
    assert again.rules.every() == [], "the database decides"
    with pytest.raises(NotFound, match="rule lost"):
        again.rules.one("lost")


async def test_a_change_is_in_force_journaled_and_reported_once(store: Store) -> None:
    box = Box(store)
    await box.rules.open()
    assert (await box.rules.change("lost", {"severity": "info"}, "ann")).severity == "info"
    await box.rules.change("lost", {"severity": "info"}, "ann")
    added = await box.rules.add({"kind": "object", "name": "Any car", "classes": ["car"]}, "bob")
    await box.rules.remove("lost", "ann")
    assert [r.id for r in box.rules.in_force] == [added.id] == ["any-car"]
    assert box.changed == [("lost",), ("any-car",), ()]
    assert box.notes == [
        ("rule.changed", {"rule": "lost", "by": "ann", "fields": ["severity"]}),
        ("rule.added", {"rule": "any-car", "by": "bob"}),
        ("rule.removed", {"rule": "lost", "by": "ann"}),
    ]


async def test_a_refused_rule_changes_nothing(store: Store) -> None:
    box = Box(store)
    await box.rules.open()
    before = box.rules.every()
    with pytest.raises(InvalidValues, match=r"classes\[0\]"):
        await box.rules.add({"kind": "object", "classes": ["zebra"]}, "ann")
    with pytest.raises(Conflict, match="lost exists already"):
        await box.rules.add({"id": "lost", "kind": "camera_lost"}, "ann")
    with pytest.raises(NotFound):
        await box.rules.remove("nothing", "ann")
    assert box.rules.every() == before
    assert box.changed == box.notes == []


async def test_changes_at_the_same_time_do_not_undo_each_other(store: Store) -> None:
    box = Box(store)
    await box.rules.open()
    rule = {"kind": "object", "name": "any"}
    await asyncio.gather(*(box.rules.add(rule, "ann") for _ in range(5)))
    assert [r.id for r in box.rules.every()] == ["lost", "any", "any-2", "any-3", "any-4", "any-5"]
