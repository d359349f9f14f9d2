"""Types of REST answers: in OpenAPI, in the examples, in the page, and for users of some cameras."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from appliance_double import DictAppliance
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator

from edge.appliance import answers
from edge.appliance.answers.access import (
    LoggedInAnswer,
    Me,
    NewTokenAnswer,
    SessionAnswer,
    SetupAnswer,
    TokenAnswer,
)
from edge.appliance.answers.alarms import (
    AccuracyDetails,
    AlarmAnswer,
    CrowdDetails,
    MovementDetails,
    NoDetails,
    ObjectDetails,
    RollBackDetails,
    ServedDetails,
    UnusualDetails,
)
from edge.appliance.answers.cameras import CameraAnswer, PictureHeader
from edge.appliance.answers.documents import REASONS
from edge.appliance.answers.events import JournalEntry
from edge.appliance.answers.limit import hidden_fields, limited
from edge.appliance.answers.marks import OfCamera, Shown, answer
from edge.appliance.answers.metrics import MetricsSnapshot
from edge.appliance.answers.models import (
    DetectorInput,
    DetectorOutput,
    StudentDetectorAnswer,
    StudentSpecAnswer,
    VersionAnswer,
)
from edge.appliance.answers.read import plain, read
from edge.appliance.answers.settings_shown import SHOWN_SETTINGS, shown_settings
from edge.appliance.answers.state import BoxHealth, Overview
from edge.appliance.answers.system import CheckedSettings
from edge.appliance.answers.windows import (
    PlanAnswer,
    RecordedSettings,
    RecordedSpace,
    RetrainingConfigAnswer,
    RetrainingProfileAnswer,
    RowDetails,
    WindowAnswer,
    WindowStory,
)
from edge.appliance.service import LivePicture
from edge.core.access import Principal
from edge.core.alarms import ModelOwner, Rule, ServedNow
from edge.core.configs import RetrainingConfig, StudentSpec
from edge.core.detectors import InputSpec, OutputSpec, StudentDetector
from edge.core.errors import NotFound
from edge.core.journal_keys import ENTRY_KEYS, entry_keys
from edge.core.profiles import Estimate, RetrainingProfile
from edge.settings import ConfigurationSpace, RetrainingSettings, RuleSettings, Settings, TenantSettings, ZoneSettings
from scheduler.alarms import AlarmState, Now, handle
from web import page_types
from web.app import create_app
from web.examples.alarms import ALARM
from web.examples.events import EVENT
from web.route_table import row_of
from web.routes.live import header_of, message

#: Fields of settings that users of some cameras do not get, on purpose.
HIDDEN_SETTINGS: Mapping[type[Settings], set[str]] = {TenantSettings: {"applications"}}
#: Answers about the caller, and about what the caller sent: of no cameras but the caller's own.
UNUSUAL: dict[str, Any] = {
    "name": "gate", "way": "forward", "objects": 12, "usual": 101.0, "low": 61.0, "high": 141.0, "weeks": 6,
    "start_utc_s": 1_790_000_000,
}  # fmt: skip
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


def undescribed(schema: Any, where: str) -> Iterator[str]:
    """Parts of a schema that say nothing: any value, or an object of which nothing is said."""
    several = [kind for key in ("anyOf", "oneOf", "allOf") for kind in schema.get(key, ())]
    if several:
        for number, kind in enumerate(several):
            yield from undescribed(kind, f"{where}[{number}]")
    elif schema.get("type") == "array":
        kinds = schema.get("prefixItems") or [schema.get("items", {})]
        for kind in kinds:
            yield from undescribed(kind, f"{where}[]")
    elif schema.get("type") == "object":
        inside = schema.get("properties", {}) | schema.get("patternProperties", {})
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            inside = inside | {"*": more}
        elif not inside and more is not False:
            yield where
        for name, kind in inside.items():
            yield from undescribed(kind, f"{where}.{name}")
    elif not {"$ref", "const", "enum", "type"} & set(schema):
        yield where


def named(schema: Any) -> Iterator[str]:
    """Names of the schemas that a schema refers to."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):  # a property may be called so
            yield schema["$ref"].rpartition("/")[2]
        for inner in schema.values():
            yield from named(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from named(inner)


def test_every_answer_has_a_schema_that_says_what_is_in_it(document: dict[str, Any]) -> None:
    """If this fails for a new answer: give it a type, or, where it is a document of another format, name it in
    edge.appliance.answers.documents with the reason."""
    answered = {where: content.get("schema", {}) for where, content in json_answers(document)}
    assert len(answered) > 200
    components = document["components"]["schemas"] | page_types.schemas()
    seen: set[str] = set()
    todo = {name for schema in (*answered.values(), page_types.schemas()) for name in named(schema)}
    while todo - seen:
        name = (todo - seen).pop()
        seen.add(name)
        todo |= set(named(components[name]))
    documents = {name: components[name] for name in seen & set(REASONS)}
    assert set(documents) == set(REASONS), "a reason without a document"
    assert all(schema["description"] == REASONS[name] for name, schema in documents.items())
    schemas = answered | {name: components[name] for name in seen - set(REASONS)}
    assert [part for where, schema in schemas.items() for part in undescribed(schema, where)] == []


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        ({}, ["x"]),
        ({"description": "some words"}, ["x"]),
        ({"type": "object"}, ["x"]),
        ({"type": "object", "additionalProperties": True}, ["x"]),
        ({"type": "object", "additionalProperties": {}}, ["x.*"]),
        ({"type": "array"}, ["x[]"]),
        ({"type": "array", "items": {"type": "object", "properties": {"a": {}}}}, ["x[].a"]),
        ({"anyOf": [{"type": "null"}, {"type": "object"}]}, ["x[1]"]),
        ({"type": "object", "properties": {}, "additionalProperties": False}, []),
        ({"type": "object", "additionalProperties": {"type": "number"}}, []),
        ({"$ref": "#/components/schemas/Loss"}, []),
    ],
)
def test_a_schema_that_says_nothing_is_found(schema: dict[str, Any], wrong: list[str]) -> None:
    assert list(undescribed(schema, "x")) == wrong


def test_the_settings_of_a_window_are_those_of_retraining() -> None:
    assert {f.name for f in fields(RecordedSettings)} == set(RetrainingSettings.model_fields)
    assert {f.name for f in fields(RecordedSpace)} == set(ConfigurationSpace.model_fields)
    kept = RetrainingSettings().model_dump(mode="json") | {"golden_share": 0.2}
    assert plain(RecordedSettings, read(RecordedSettings, kept)) == kept


@pytest.mark.parametrize(
    ("kind", "of"),
    [
        (RetrainingProfileAnswer, RetrainingProfile),
        (RetrainingConfigAnswer, RetrainingConfig),
        (StudentSpecAnswer, StudentSpec),
        (StudentDetectorAnswer, StudentDetector),
        (DetectorInput, InputSpec),
        (DetectorOutput, OutputSpec),
        (RowDetails, None),
    ],
)
def test_a_part_of_a_record_has_the_fields_of_its_type_and_is_read_from_other_versions(
    kind: type, of: type | None
) -> None:
    """If this fails for a new field: give it to the answer too, with what stands for it in older records."""
    if of is not None:
        assert [f.name for f in fields(kind)] == [f.name for f in fields(of)]
        same = {f.name: f.default for f in fields(of) if f.default is not MISSING}
        assert {f.name: f.default for f in fields(kind) if f.default is not MISSING} == same
    if kind is RowDetails:
        assert read(RowDetails, {"of_another_version": 1}) == RowDetails()


def test_what_our_types_write_is_answered_as_it_was_written() -> None:
    output = OutputSpec("anchors", strides=(8, 16), anchors=(((1.0, 2.0), (3.0, 4.0)), ((5.0, 6.0),)))
    detector = StudentDetector("yolox", InputSpec(416, 416), output, ("car", "bus"), (0, -1), licence="Apache-2.0")
    spec = StudentSpec("detection", "onnx", ("car",), (416, 416), detector=detector)
    assert plain(StudentSpecAnswer, read(StudentSpecAnswer, spec.to_json())) == json.loads(json.dumps(spec.to_json()))
    profile = RetrainingProfile(RetrainingConfig(5), 0.5, Estimate(0.7, 0.6, 0.8), Estimate.exact(9.0), ((0.0, 0.5),))
    kept = profile.to_json()
    kept["device_seconds"] = kept.pop("gpu_seconds")
    assert plain(RetrainingProfileAnswer, read(RetrainingProfileAnswer, profile.to_json())) == kept
    assert plain(RetrainingProfileAnswer, read(RetrainingProfileAnswer, kept)) == kept


@pytest.mark.parametrize(
    ("details", "wanted"),
    [
        ({"class": "car", "zones": ["drive"], "score": 0.8}, ObjectDetails(class_="car", zones=("drive",), score=0.8)),
        ({"window": 3}, AccuracyDetails(window=3)),
        ({"version": "v1"}, RollBackDetails(version="v1")),
        ({"model": "plates", "tenant": None, "cameras": []}, ServedDetails(model="plates")),
        ({"model": "plates", "tenant": "gate", "cameras": []}, ServedDetails(model="plates", tenant="gate")),
        ({"zone": "yard", "objects": 4}, CrowdDetails(zone="yard", objects=4)),
        (
            {"class": "car", "from_zone": "east", "to_zone": "west"},
            MovementDetails(class_="car", from_zone="east", to_zone="west"),
        ),
        (UNUSUAL, UnusualDetails(**UNUSUAL)),
        ({}, NoDetails()),
        ({"of_another_version": 1}, NoDetails()),
        ({"window": 3, "of_another_version": 1}, AccuracyDetails(window=3)),
    ],
)
def test_details_of_an_alarm_are_those_of_its_kind(details: dict[str, Any], wanted: object) -> None:
    found = read(AlarmAnswer, ALARM | {"details": details})
    assert found.details == wanted
    known = {key: value for key, value in details.items() if key != "of_another_version"}
    assert plain(AlarmAnswer, found)["details"] == known
    assert limited(found, lambda camera: camera in (None, found.camera)) == found


@pytest.mark.parametrize("owners", [{}, {"plates": ModelOwner("gate")}, {"plates": ModelOwner("gate", ("north",))}])
def test_whose_a_served_model_is_is_answered_as_its_alarm_says(owners: dict[str, ModelOwner]) -> None:
    """Messages, too, have the details that the rule writes."""
    rule = Rule("late", "slo", after_s=0.0)
    _, (alarm,) = handle([rule], AlarmState(), ServedNow({"plates": 0.5}, owners), Now(0.0, 1e9, 0))
    found = read(AlarmAnswer, ALARM | {"details": alarm.details})
    assert plain(AlarmAnswer, found)["details"] == alarm.details
    old = read(AlarmAnswer, ALARM | {"details": {"model": "plates"}})
    assert old.details == ServedDetails(model="plates"), "an earlier version kept no more"


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
            # Hidden until it is listed; whether it shall be is to be decided, there or in HIDDEN_SETTINGS.
            assert set(kind.model_fields) == SHOWN_SETTINGS[kind] | HIDDEN_SETTINGS.get(kind, set()), kind
            required = {name for name, field in kind.model_fields.items() if field.is_required()}
            assert required <= SHOWN_SETTINGS[kind], kind
        else:
            hidden_fields(kind)
        todo += [part for hint in get_type_hints(kind).values() for part in parts(hint)]
    assert len(seen) > 80
    assert set(SHOWN_SETTINGS) <= seen
    assert hidden_fields(WindowAnswer) == {"details": None}
    assert hidden_fields(PlanAnswer) == {"problem": None, "plan": None, "basis": None}
    assert hidden_fields(Overview) == {}


class GrownZone(ZoneSettings):
    note: str = "none"


class GrownSettings(Settings):
    address: str = ""


@pytest.mark.parametrize("listed", [True, False])
def test_a_new_field_of_settings_is_reported_as_its_default_until_it_is_listed(listed: bool) -> None:
    corners = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))
    grown = GrownZone(name="drive", polygon=corners, note="of south")
    shown = frozenset({"name", "polygon", "note"} if listed else {"name", "polygon"})
    settings = DictAppliance().cameras.one("north").settings.model_copy(update={"zones": (grown,)})
    (zone,) = shown_settings(settings, {**SHOWN_SETTINGS, GrownZone: shown}).zones
    assert isinstance(zone, GrownZone)
    assert (zone.name, zone.polygon, zone.note) == ("drive", corners, "of south" if listed else "none")


def test_settings_that_are_not_listed_are_reported_as_their_defaults() -> None:
    assert limited(GrownSettings(address="rtsp://south"), lambda _: True) == GrownSettings()

    class Required(Settings):
        address: str

    with pytest.raises(TypeError, match=r"Required\.address"):
        limited(Required(address="rtsp://south"), lambda _: True)


def test_settings_of_ones_own_camera_are_whole() -> None:
    north = DictAppliance().cameras.one("north")
    assert limited(north, lambda camera: camera in (None, "north")) == north


@answer
class GrownHeader(PictureHeader):
    new: str | None


def test_a_live_pictures_header_is_limited_as_answers_of_rest_are() -> None:
    values = {
        "camera": "north", "number": 1, "utc_s": 1.0, "width": 64, "height": 36, "model_version": "v", "stale": False,
        "classes": ("car",), "boxes": ((0.1, 0.2, 0.3, 0.4),), "scores": (0.9,), "labels": (0,), "delay_s": 0.0,
        "state": "live",
    }  # fmt: skip
    picture = LivePicture("north", GrownHeader(**values, new="south"), b"jpeg")
    one, other = (Principal("bob", "viewer", frozenset({camera})) for camera in ("north", "south"))
    shown = header_of(one, picture)
    assert isinstance(shown, GrownHeader)
    assert (shown.number, shown.new) == (1, None), "the new field is not marked"
    assert (shown.boxes, shown.scores, shown.labels) == (((0.1, 0.2, 0.3, 0.4),), (0.9,), (0,))
    assert header_of(Principal("ann", "viewer"), picture) == picture.header
    assert b'"number":1' in message(one, picture)
    with pytest.raises(NotFound):
        message(other, picture)


@answer
class GrownRow:
    camera: OfCamera[str]
    known: Shown[int]
    new: str | None
    newer: tuple[str, ...]
    newest: Mapping[str, int]


@answer
class GrownAnswer:
    rows: Shown[tuple[GrownRow, ...]]
    new: Mapping[str, int]


@dataclass(frozen=True)
class Unmarked:
    number: int


def test_a_new_field_is_hidden_until_it_is_marked() -> None:
    rows = tuple(GrownRow(camera=c, known=1, new="south", newer=("x",), newest={"a": 1}) for c in ("north", "south"))

    def only_north(camera: str | None) -> bool:
        return camera in (None, "north")

    shown = limited(GrownAnswer(rows=rows, new={"south": 1}), only_north)
    assert shown == GrownAnswer(rows=(GrownRow(camera="north", known=1, new=None, newer=(), newest={}),), new={})
    assert limited(rows[1], only_north) is None
    with pytest.raises(TypeError, match=r"Unmarked\.number"):
        limited(Unmarked(1), only_north)
    with pytest.raises(TypeError, match="a list in an answer may hold anything"):
        limited(GrownAnswer(rows=list(rows), new={}), only_north)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["began_with", "leader", "taught_with", "a_new_key"])
def test_a_key_of_an_entry_is_hidden_until_it_is_declared(key: str) -> None:
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
    body = plain(CameraAnswer, found)
    assert "lambda" in body["state"]["inference"]
    assert read(CameraAnswer, body) == found
    assert [f.name for f in fields(found)] == list(body)


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


def test_an_alarm_of_a_served_model_that_an_earlier_version_kept_is_of_no_tenant() -> None:
    assert read(AlarmAnswer, ALARM | {"details": {"model": "plates"}}).details == ServedDetails(model="plates")
