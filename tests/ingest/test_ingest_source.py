"""Camera settings and secrets."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.ingest.source import CameraSource, Secret, redact, resolve_secret

passwords = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=20).map("Zq§".__add__)


def shown(source: CameraSource) -> str:
    return f"{source!r} {source} {source.to_json()} {asdict(source)} {json.dumps(source.to_json())}"


@settings(deadline=None)
@given(passwords)
def test_a_password_in_the_url_is_moved_out_and_never_shown(password: str) -> None:
    source = CameraSource("gate", f"rtsp://operator:{quote(password, safe='')}@cam:554/stream?x=1")
    assert source.url == "rtsp://cam:554/stream?x=1"
    assert source.username == "operator"
    assert source.password().reveal() == password
    assert password not in shown(source)
    assert quote(password, safe="") not in shown(source)
    assert source.url_with(source.password()) == f"rtsp://operator:{quote(password, safe='')}@cam:554/stream?x=1"


@settings(deadline=None)
@given(passwords)
def test_redact_hides_credentials_and_given_secrets(password: str) -> None:
    encoded = quote(password, safe="")
    text = f"error 5: 'rtsp://operator:{encoded}@cam/x' timed out; login {password} and {encoded}"
    assert password not in redact(text, [password])
    assert encoded not in redact(text, [Secret(password)])
    assert redact("rtsp://u:p@cam/x and rtsp://h/y") == "rtsp://***@cam/x and rtsp://h/y"


def test_a_password_with_an_at_sign_is_cut_at_the_last_one() -> None:
    source = CameraSource("gate", "rtsp://u:p@ss@cam/x")
    assert (source.url, source.password().reveal()) == ("rtsp://cam/x", "p@ss")
    assert redact("rtsp://u:p@ss@cam/x") == "rtsp://***@cam/x"


def test_secrets_come_from_the_environment_and_files(tmp_path: Path) -> None:
    plain, entries, as_json = tmp_path / "plain", tmp_path / "entries", tmp_path / "s.json"
    plain.write_text("pass word\n")
    entries.write_text("# cameras\ngate = one=1\nyard: 'two'\n")
    as_json.write_text('{"gate": "three"}')
    assert resolve_secret("env:CAM", environment={"CAM": "x"}).reveal() == "x"
    assert resolve_secret(f"file:{plain}").reveal() == "pass word"
    assert resolve_secret(f"file:{entries}#gate").reveal() == "one=1"
    assert resolve_secret(f"file:{entries}#yard").reveal() == "two"
    assert resolve_secret(f"file:{as_json}#gate").reveal() == "three"
    assert not resolve_secret("")


def test_errors_of_secrets_name_the_reference_only(tmp_path: Path) -> None:
    file = tmp_path / "s"
    file.write_text("gate=topsecret\n")
    for reference in ("env:ABSENT", f"file:{file}#yard", f"file:{tmp_path}/absent", f"file:{tmp_path}"):
        with pytest.raises(InvalidValue) as caught:
            resolve_secret(reference, environment={})
        assert reference in str(caught.value)
        assert "topsecret" not in str(caught.value)
    with pytest.raises(InvalidValue) as caught:
        CameraSource("gate", "rtsp://cam/x", password_from="hunter2")
    assert "hunter2" not in str(caught.value)
    assert caught.value.path == "camera.password_from"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("camera", " "), ("url", ""), ("url", "http://u:topsecret@cam/x"), ("url", "rtsp://u:topsecret@:99999/x"),
        ("url", "rtsp:///x"), ("url", "rtsp://cam/x\r\nEvil: 1"), ("transport", "http"), ("stall_timeout_s", 0),
        ("stall_timeout_s", float("nan")), ("retry_min_s", 0), ("retry_max_s", 0.5), ("retry_first_s", -1),
        ("max_fps", 0), ("seconds_per_picture", -1),
    ],
)  # fmt: skip
def test_wrong_fields_are_named(field: str, value: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        CameraSource(**({"camera": "gate", "url": "rtsp://cam/x"} | {field: value}))  # type: ignore[arg-type]
    assert caught.value.path == f"camera.{field}"
    assert "topsecret" not in str(caught.value)


def test_kinds_and_addresses(tmp_path: Path) -> None:
    assert CameraSource("c", "rtsp://cam/x").address == ("cam", 554)
    assert CameraSource("c", "rtsps://cam/x").address == ("cam", 322)
    assert CameraSource("c", "rtsp://[::1]:99/x").address == ("::1", 99)
    assert CameraSource("c", str(tmp_path)).kind == "stills"
    assert CameraSource("c", f"file://{tmp_path}/a%20b.mp4").path == tmp_path / "a b.mp4"
    assert CameraSource("c", str(tmp_path / "a.mp4")).kind == "file"
