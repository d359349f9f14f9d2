"""The site configuration: what is refused, with which words; quiet hours; merge patches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValues, MagpieError
from edge.settings import CameraSettings, RetrainingSettings, SiteSettings, merge, parse, read_site

CAMERA: dict[str, Any] = {"id": "north", "url": "rtsp://camera/1", "classes": ["car", "person"]}


def problems(model: type, value: Any) -> dict[str, Any]:
    with pytest.raises(InvalidValues) as caught:
        parse(model, value)
    return {p.path: p for p in caught.value.problems}


@pytest.mark.parametrize(
    ("change", "path", "allowed"),
    [
        ({"id": "North Arm"}, "id", "small letters"),
        ({"url": "http://x"}, "url", "rtsp://"),
        ({"transport": "quic"}, "transport", "'tcp' or 'udp'"),
        ({"classes": []}, "classes", "at least 1"),
        ({"classes": ["car", "car"]}, "classes", "each class once"),
        ({"class_map": {"tram": ["bus"]}}, "class_map.tram", "one of the camera's classes"),
        ({"stall_timeout_s": 0.01}, "stall_timeout_s", "0.5"),
        ({"student": {"wdith": 1}}, "student.wdith", "width"),
        (
            {"task": "classification", "student": {"architecture": "ssdlite_mobilenet_v3"}},
            "student.architecture",
            "resnet18",
        ),
        ({"inference": {"frame_rates": [0]}}, "inference.frame_rates[0]", "greater than 0"),
        ({"password_from": "hunter2"}, "password_from", "env:NAME"),
        ({"colour": 1}, "colour", "no such field"),
    ],
)
def test_a_bad_field_is_named_with_what_is_allowed(change: dict[str, Any], path: str, allowed: str) -> None:
    found = problems(CameraSettings, CAMERA | change)
    assert path in found
    assert allowed in found[path].allowed


@pytest.mark.parametrize("change", [{"url": "rtsp://me:hunter2@camera/1"}, {"password_from": "hunter2"}])
def test_a_password_is_never_repeated(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidValues) as caught:
        parse(CameraSettings, CAMERA | change)
    assert "hunter2" not in str(caught.value)
    assert all("hunter2" not in str(p.given) for p in caught.value.problems)


def test_every_problem_is_reported_at_once() -> None:
    found = problems(SiteSettings, {"cameras": [CAMERA | {"id": "!"}, CAMERA], "web": {"port": 99999}, "bogus": 1})
    assert {"cameras[0].id", "web.port", "bogus"} <= found.keys()


def test_two_cameras_of_one_name_are_refused() -> None:
    assert "twice" in problems(SiteSettings, {"cameras": [CAMERA, CAMERA]})["cameras[1].id"].allowed


@pytest.mark.parametrize(
    ("spans", "minute", "allowed"),
    [
        ((), 0, True),
        (("22:00-05:30",), 23 * 60, False),
        (("22:00-05:30",), 5 * 60 + 29, False),
        (("22:00-05:30",), 5 * 60 + 30, True),
        (("12:00-13:00", "15:00-16:00"), 15 * 60 + 1, False),
        (("12:00-13:00",), 13 * 60, True),
    ],
)
def test_quiet_hours(spans: tuple[str, ...], minute: int, allowed: bool) -> None:
    assert RetrainingSettings(quiet_hours=spans).retraining_allowed(minute) is allowed


def test_quiet_hours_must_be_times() -> None:
    assert "quiet_hours[0]" in problems(RetrainingSettings, {"quiet_hours": ["25:00-05:00"]})


JSON = st.recursive(
    st.none() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@given(OBJECTS, OBJECTS)
def test_a_patch_changes_what_it_names_and_nothing_else(base: dict[str, Any], patch: dict[str, Any]) -> None:
    merged = merge(base, patch)
    assert all(merged[k] == v for k, v in base.items() if k not in patch)
    assert merge(merged, patch) == merged, "applying it again changes nothing"
    assert all(merged[k] == v for k, v in patch.items() if not isinstance(v, dict))


def test_a_file_is_read_with_paths_from_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text("data_dir: var\ncameras:\n  - {id: a, url: clips/a.mp4, classes: [car]}\n", encoding="utf-8")
    site = read_site(path)
    assert site.data_dir == str(tmp_path / "var")
    assert site.cameras[0].url == str(tmp_path / "clips/a.mp4")


@pytest.mark.parametrize("text", ["- 1\n", "a: [", "cameras: 3\n"])
def test_a_file_that_is_no_site_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MagpieError):
        read_site(path)


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(MagpieError, match=r"nowhere\.yaml"):
        read_site(tmp_path / "nowhere.yaml")


@pytest.mark.parametrize(
    ("values", "path", "allowed"),
    [({"quiet_hours": ["25:00-06:00"]}, "quiet_hours[0]", "HH:MM-HH:MM, as 22:00-06:00"),
     ({"space": {"epochs": []}}, "space.epochs", "at least 1 item")],
)  # fmt: skip
def test_what_is_allowed_is_reported_in_words(values: dict[str, Any], path: str, allowed: str) -> None:
    with pytest.raises(InvalidValues) as caught:
        parse(RetrainingSettings, values)
    assert [(p.path, p.allowed) for p in caught.value.problems] == [(path, allowed)]


def test_patterns_and_lengths_of_text_are_reported_in_words() -> None:
    with pytest.raises(InvalidValues) as caught:
        parse(CameraSettings, {"id": "Side Door", "url": "", "classes": ["car"], "name": "x" * 121})
    allowed = {p.path: p.allowed for p in caught.value.problems}
    assert allowed["id"].startswith("small letters, digits")
    assert allowed["url"] == "at least 1 character"
    assert allowed["name"] == "at most 120 characters"
