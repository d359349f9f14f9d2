"""Types of REST answers: in OpenAPI, in the examples, in the page, and for users of some cameras."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from appliance_double import DictAppliance
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator

from edge.appliance import answers
from edge.appliance.answers import settings_shown
from edge.appliance.answers.access import (
    LoggedInAnswer,
    Me,
    NewTokenAnswer,
    SessionAnswer,
    SetupAnswer,
    TokenAnswer,
)
from edge.appliance.answers.alarms import AlarmAnswer
from edge.appliance.answers.cameras import CameraAnswer
from edge.appliance.answers.events import JournalEntry
from edge.appliance.answers.limit import hidden_fields, limited
from edge.appliance.answers.marks import Document, OfCamera, Shown, answer
from edge.appliance.answers.metrics import MetricsSnapshot
from edge.appliance.answers.models import VersionAnswer
from edge.appliance.answers.read import plain, read
from edge.appliance.answers.settings_shown import SHOWN_SETTINGS
from edge.appliance.answers.state import BoxHealth, Overview
from edge.appliance.answers.system import CheckedSettings
from edge.appliance.answers.windows import WindowAnswer, WindowStory
from edge.core.journal_keys import ENTRY_KEYS, entry_keys
from edge.settings import RuleSettings, Settings, ZoneSettings
from web import page_types
from web.app import create_app
from web.examples.events import EVENT
from web.roles import row_of

#: Answers about the caller, and about what the caller sent: of no cameras but the caller's own.
OF_THE_CALLER = (CheckedSettings, LoggedInAnswer, Me, NewTokenAnswer, SessionAnswer, SetupAnswer, TokenAnswer)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(DictAppliance(), static=Path("there is no built page here")).openapi()


def json_answers(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status, said in operation["responses"].items():
                if "application/json" in said.get("content", {}):
                    yield f"{method} {path} {status}", said["content"]["application/json"]


def test_every_answer_has_a_schema(document: dict[str, Any]) -> None:
    found = dict(json_answers(document))
    assert len(found) > 200
    assert [where for where, content in found.items() if not content.get("schema")] == []


def test_every_example_is_as_its_schema_says(document: dict[str, Any]) -> None:
    wrong = []
    for where, content in json_answers(document):
        check = Draft202012Validator(content["schema"] | {"components": document["components"]})
        if "example" in content:
            wrong += [f"{where}: {e.json_path}: {e.message}" for e in check.iter_errors(content["example"])]
    assert wrong == []


def test_the_pages_types_are_made_of_the_answers() -> None:
    """If this fails: python -m web.page_types."""
    assert page_types.FILE.read_text(encoding="utf-8") == page_types.typescript()


def every_type() -> Iterator[type]:
    for module in pkgutil.iter_modules(answers.__path__):
        inside = importlib.import_module(f"{answers.__name__}.{module.name}")
        yield from (k for k in vars(inside).values() if isinstance(k, type) and k.__module__ == inside.__name__)


def test_answers_are_frozen() -> None:
    thawed = [
        kind.__name__ for kind in every_type()
        if is_dataclass(kind) and not kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    ]  # fmt: skip
    assert thawed == []


def parts(hint: Any) -> Iterator[type]:
    """The answers and settings that a type is made of."""
    if isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, Settings)):
        yield hint
    for inner in get_args(hint):
        yield from parts(inner)


def routes_of_some_cameras() -> Iterator[tuple[str, APIRoute]]:
    """Routes with a typed answer that a user may ask who may see some cameras only."""
    app = create_app(DictAppliance(), static=Path("there is no built page here"))
    for route in app.routes:
        if isinstance(route, APIRoute) and route.response_model is not None:
            for method in route.methods - {"HEAD"}:
                row = row_of(method, route.path)
                if row is not None and row.least is not None and not row.every_camera:
                    yield f"{method} {route.path}", route


def test_every_answer_to_users_of_some_cameras_is_made_smaller_by_its_type() -> None:
    whole = []
    for where, route in routes_of_some_cameras():
        kinds = [kind for kind in parts(route.response_model) if kind not in OF_THE_CALLER]
        if kinds and not re.search(r"\b(limits\.|_of_caller\()", inspect.getsource(route.endpoint)):
            whole.append(where)
    assert whole == []


def test_what_is_hidden_can_be_hidden() -> None:
    """A field without a mark is empty for who may see some cameras only; one that cannot be empty has a mark."""
    answered = {part for _, route in routes_of_some_cameras() for part in parts(route.response_model)}
    assert {AlarmAnswer, CameraAnswer, RuleSettings, VersionAnswer, WindowStory} <= answered
    todo, seen = [MetricsSnapshot, *answered.difference(OF_THE_CALLER)], set()
    while todo:
        kind = todo.pop()
        if kind in seen:
            continue
        seen.add(kind)
        if issubclass(kind, Settings):
            # A list of a class that is not there, or with a field that is not there, would hide or show by mistake.
            assert kind in SHOWN_SETTINGS, kind
            assert SHOWN_SETTINGS[kind] <= set(kind.model_fields), kind
            required = {name for name, field in kind.model_fields.items() if field.is_required()}
            assert required <= SHOWN_SETTINGS[kind], kind
        else:
            hidden_fields(kind)
        todo += [part for hint in get_type_hints(kind).values() for part in parts(hint)]
    assert len(seen) > 80
    assert set(SHOWN_SETTINGS) <= seen
    assert hidden_fields(WindowAnswer) == {"details": {}}
    assert hidden_fields(Overview) == {}


class GrownZone(ZoneSettings):
    note: str = "none"


class GrownSettings(Settings):
    address: str = ""


@pytest.mark.parametrize("listed", [True, False])
def test_a_new_field_of_settings_is_told_as_its_default_until_somebody_lists_it(
    listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    corners = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))
    grown = GrownZone(name="drive", polygon=corners, note="of south")
    shown = frozenset({"name", "polygon", "note"} if listed else {"name", "polygon"})
    monkeypatch.setattr(settings_shown, "SHOWN_SETTINGS", {**SHOWN_SETTINGS, GrownZone: shown})
    north = DictAppliance().cameras.one("north")
    answered = replace(north, settings=north.settings.model_copy(update={"zones": (grown,)}))
    left = limited(answered, lambda camera: camera in (None, "north"))
    assert left is not None
    (zone,) = left.settings.zones
    assert isinstance(zone, GrownZone)
    assert (zone.name, zone.polygon, zone.note) == ("drive", corners, "of south" if listed else "none")


def test_settings_that_nobody_listed_are_told_as_their_defaults() -> None:
    assert limited(GrownSettings(address="rtsp://south"), lambda _: True) == GrownSettings()

    class Required(Settings):
        address: str

    with pytest.raises(TypeError, match=r"Required\.address"):
        limited(Required(address="rtsp://south"), lambda _: True)


def test_settings_of_ones_own_camera_are_whole() -> None:
    north = DictAppliance().cameras.one("north")
    assert limited(north, lambda camera: camera in (None, "north")) == north


@answer
class GrownRow:
    camera: OfCamera[str]
    known: Shown[int]
    new: str | None
    newer: tuple[str, ...]
    newest: Document


@answer
class GrownAnswer:
    rows: Shown[tuple[GrownRow, ...]]
    new: Document


@dataclass(frozen=True)
class Unmarked:
    number: int


def test_a_new_field_is_hidden_until_somebody_marks_it() -> None:
    rows = tuple(GrownRow(camera=c, known=1, new="south", newer=("x",), newest={"a": 1}) for c in ("north", "south"))

    def only_north(camera: str | None) -> bool:
        return camera in (None, "north")

    shown = limited(GrownAnswer(rows=rows, new={"south": 1}), only_north)
    assert shown == GrownAnswer(rows=(GrownRow(camera="north", known=1, new=None, newer=(), newest={}),), new={})
    assert limited(rows[1], only_north) is None
    with pytest.raises(TypeError, match=r"Unmarked\.number"):
        limited(Unmarked(1), only_north)


@pytest.mark.parametrize("key", ["began_with", "leader", "taught_with", "a_new_key"])
def test_a_key_of_an_entry_is_hidden_until_somebody_declares_it(key: str) -> None:
    data = {"scores": 1, key: "south"}
    entry = JournalEntry(id=1, utc_s=1.0, kind="model.promoted", camera="north", window=3, data=data)
    shown = limited(entry, lambda camera: camera in (None, "north"))
    assert shown is not None
    assert shown.data == {"scores": 1}


@pytest.mark.parametrize("kind", [*sorted(ENTRY_KEYS), "a kind of an earlier version"])
@pytest.mark.parametrize("camera", ["north", None])
def test_an_entry_has_the_keys_that_are_shown_of_its_kind_and_camera(kind: str, camera: str | None) -> None:
    keys = entry_keys(kind)
    data = dict.fromkeys([*keys.known, "a_new_key"], "south")
    entry = JournalEntry(id=1, utc_s=1.0, kind=kind, camera=camera, window=None, data=data)
    shown = limited(entry, lambda one: one in (None, "north"))
    assert shown is not None
    assert set(shown.data) == (keys.shown if camera else set())


def test_the_example_of_an_entry_has_keys_of_its_kind() -> None:
    assert set(EVENT["data"]) <= entry_keys(EVENT["kind"]).shown


@pytest.mark.parametrize("value", [{"live": True}, {"live": True, "more": 1, "ready": True, "reasons": ()}])
def test_what_is_missing_or_unknown_is_a_fault(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        read(BoxHealth, value)


def test_an_answer_is_written_as_it_was_read() -> None:
    box = DictAppliance()
    found = box.cameras.one("north")
    told = plain(CameraAnswer, found)
    assert "lambda" in told["state"]
    assert read(CameraAnswer, told) == found
    assert [f.name for f in fields(found)] == list(told)


@pytest.mark.parametrize(
    ("camera", "error", "wanted"),
    [
        (None, "south/w3: cannot be read", "this concerns the whole box"),
        (None, "", ""),
        ("north", "no room", "no room"),
    ],
)
async def test_errors_of_workers_for_several_cameras_are_not_read_by_those_of_some(
    camera: str | None, error: str, wanted: str
) -> None:
    worker = (await DictAppliance().state.system()).workers[0]
    changed = replace(worker, camera=camera, last_error=error)
    shown = limited(changed, lambda one: one in (None, "north"))
    assert shown is not None
    assert shown.last_error == wanted
