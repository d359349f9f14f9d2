"""Names and texts for people hold nothing invisible."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge.core.access import label
from edge.core.application_sources import ApplicationSource, AttributeOutput
from edge.core.checks import plain_text, visible
from edge.core.errors import InvalidValue, InvalidValues
from edge.detectors.description import read_yaml
from edge.settings import CameraSettings, MqttSettings, RuleSettings, WebhookSettings, parse
from web.access_bodies import NewToken, NewUser, parse_private
from web.bodies import RollBack
from web.errors import body_of

HIDDEN = [
    "a\x00b",
    "a\x1bb",
    "a\nb",
    "a\x7fb",
    "a\x85b",
    "a\u2028b",
    "a\u202eb",
    "a\u202ab",
    "a\u2066b",
    "a\u2069b",
    "a\ud800b",
    "a\u00adb",
    "a\u061cb",
    "a\u200bb",
    "a\u200cb",
    "a\u200db",
    "a\u200eb",
    "a\u2060b",
    "a\u3164b",
    "a\ufeffb",
    "a\U000e0041b",
]
PLAIN = ["Junction north", "Straße 7", "交差点", "تقاطع", "نیم\u200cروز", "क्\u200dष", "🚦 east", "x" * 100]


@pytest.mark.parametrize("text", HIDDEN)
def test_hidden_characters_are_refused_with_the_fields_name(text: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        plain_text("camera.name", text)
    assert refused.value.path == "camera.name"
    assert refused.value.message.endswith(
        f"character 2 is U+{ord(text[1]):04X} {unicodedata.name(text[1], '')}".rstrip()
    )
    assert text[1] not in str(refused.value)
    assert visible(text).isprintable()
    for value, path in (([text], "x[0]"), (("a", text), "x[1]"), ({"k": text}, "x.k"), ({text: 1}, "x")):
        with pytest.raises(InvalidValue) as refused:
            plain_text("x", value)
        assert refused.value.path == path


@pytest.mark.parametrize("text", PLAIN)
def test_every_script_is_taken(text: str) -> None:
    plain_text("name", text)
    plain_text("name", {text: [text, 1, None, 2.5]})
    assert visible(text) == text
    assert label("name", text) == text


def test_joiners_are_taken_only_between_letters_that_they_change() -> None:
    for text in ("\u200cنیم", "نیم\u200c", "نیم\u200c\u200cروز", "a\u200cروز"):
        with pytest.raises(InvalidValue, match=r"U\+200C ZERO WIDTH NON-JOINER"):
            plain_text("name", text)


def test_every_format_character_of_unicode_is_shown_as_an_escape() -> None:
    hidden = [chr(n) for n in range(sys.maxunicode + 1) if unicodedata.category(chr(n)) in ("Cc", "Cf")]
    assert len(hidden) > 200
    assert visible("".join(hidden)).isascii()


_CAMERA = {"id": "north", "url": "rtsp://box/1", "classes": ["car"]}
_RULE = {"id": "r", "kind": "object"}
_HOOK = {"id": "h", "url": "http://pager/"}
_FIELDS: list[tuple[str, Callable[[str], object]]] = [
    ("name", lambda t: parse(CameraSettings, _CAMERA | {"name": t})),
    ("classes", lambda t: parse(CameraSettings, _CAMERA | {"classes": ["car", t]})),
    ("class_map", lambda t: parse(CameraSettings, _CAMERA | {"class_map": {"car": [t]}})),
    ("zones[0].classes", lambda t: parse(
        CameraSettings,
        _CAMERA | {"zones": [{"name": "z", "polygon": [[0, 0], [1, 0], [1, 1]], "classes": [t]}]},
    )),
    ("username", lambda t: parse(CameraSettings, _CAMERA | {"username": t})),
    ("name", lambda t: parse(RuleSettings, _RULE | {"name": t})),
    ("url", lambda t: parse(WebhookSettings, _HOOK | {"url": f"http://pager/{t}"})),
    ("username", lambda t: parse(MqttSettings, {"host": "broker", "username": t})),
    ("reason", lambda t: parse(RollBack, {"reason": t})),
    ("name", lambda t: parse_private(NewToken, {"name": t})),
    ("name", lambda t: parse_private(NewUser, {"name": t, "role": "viewer", "password": "7 herons by the weir"})),
]  # fmt: skip


@pytest.mark.parametrize("text", ["a\x07b", "a\u202eb", "a\u200bb", "a\ufeffb"])
@pytest.mark.parametrize(("path", "give"), _FIELDS)
def test_whatever_an_operator_names_is_checked(path: str, give: Callable[[str], object], text: str) -> None:
    give({"classes": "truck", "zones[0].classes": "car"}.get(path, "plain"))
    with pytest.raises(InvalidValues) as refused:
        give(text)
    assert [p.path for p in refused.value.problems] == [path]
    shown: Any = body_of(refused.value)
    assert text[1] not in repr(shown)
    assert text[1] not in str(shown["error"])
    assert text[1] not in shown["error"]["message"]
    assert text[1] not in str(shown["error"]["problems"][0]["given"])


def test_passwords_and_tokens_are_no_names() -> None:
    assert parse_private(NewUser, {"name": "eve", "role": "viewer", "password": "a\tb"}).password == "a\tb"


def test_a_tokens_name_is_checked_wherever_it_comes_from() -> None:
    with pytest.raises(InvalidValue, match="--label"):
        label("--label", "home\u202enoitamotua")


def test_values_of_attributes_and_classes_of_sources_too() -> None:
    with pytest.raises(InvalidValue, match=r"attribute\.labels\[1\].*U\+200B ZERO WIDTH SPACE"):
        AttributeOutput(("red", "blue\u200b"))
    with pytest.raises(InvalidValue, match=r"source\.classes\[0\].*U\+FEFF"):
        ApplicationSource("north", ("\ufeffcar",))


@pytest.mark.parametrize("field", [{"name": "a\u202eb"}, {"a\x07b": 1}])
def test_descriptions_of_models_too(tmp_path: Path, field: dict[str, Any]) -> None:
    path = tmp_path / "student.yaml"
    path.write_text(yaml.safe_dump(field))
    with pytest.raises(InvalidValue, match="student"):
        read_yaml(path, "student").text("name")
