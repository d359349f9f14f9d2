"""Zones of a camera and rules of a site: what is taken, and how the rest is refused."""

from __future__ import annotations

from typing import Any

import pytest

from edge.core.errors import InvalidValues
from edge.settings import CameraSettings, RuleSettings, SiteSettings, parse

CAMERA: dict[str, Any] = {"id": "gate", "url": "rtsp://192.0.2.1/s", "classes": ["car", "person"]}
SQUARE = [[0.1, 0.1], [0.4, 0.1], [0.4, 0.4], [0.1, 0.4]]


def refused(model: Any, value: dict[str, Any]) -> dict[str, str]:
    """Path and what is allowed of each problem."""
    with pytest.raises(InvalidValues) as caught:
        parse(model, value)
    return {p.path: p.allowed for p in caught.value.problems}


def camera_with(**zone: Any) -> dict[str, Any]:
    return CAMERA | {"zones": [{"name": "drive", "polygon": SQUARE} | zone]}


def test_a_zone_of_a_camera() -> None:
    camera = parse(CameraSettings, camera_with(classes=["car"]))
    zone = camera.zones[0].zone()
    assert (zone.name, zone.classes) == ("drive", ("car",))
    assert zone.contains((0.2, 0.2))
    assert not zone.contains((0.5, 0.2))


@pytest.mark.parametrize(
    ("zone", "path", "words"),
    [
        ({"polygon": [[0.1, 0.1], [0.4, 0.4], [0.4, 0.1], [0.1, 0.4]]}, "zones[0].polygon", "meet at their ends only"),
        ({"polygon": SQUARE[:2]}, "zones[0].polygon", "at least 3"),
        ({"polygon": [[0.1, 0.1]] * 65}, "zones[0].polygon", "at most 64"),
        ({"polygon": [[0.1, 0.1], [1.4, 0.1], [0.4, 0.4]]}, "zones[0].polygon[1][0]", "less than or equal to 1"),
        ({"polygon": [[0.1, 0.1], [float("nan"), 0.1], [0.4, 0.4]]}, "zones[0].polygon[1][0]", "finite"),
        ({"polygon": [[0.1, 0.1], [0.105, 0.1], [0.1, 0.105]]}, "zones[0].polygon", "of the picture"),
        ({"polygon": [[0.1, 0.1], [0.5, 0.5], [0.9, 0.9]]}, "zones[0].polygon", "meet at their ends only"),
        ({"name": "Drive way/#"}, "zones[0].name", "small letters"),
        ({"classes": ["zebra"]}, "zones[0].classes", "'zebra' is none of the camera's classes"),
        ({"colour": "red"}, "zones[0].colour", "no such field"),
    ],
)
def test_zones_that_are_refused(zone: dict[str, Any], path: str, words: str) -> None:
    assert words in refused(CameraSettings, camera_with(**zone))[path]


def test_two_zones_of_one_name_are_refused() -> None:
    zones = [{"name": "drive", "polygon": SQUARE}] * 2
    assert "'drive' is there twice" in refused(CameraSettings, CAMERA | {"zones": zones})["zones[1].name"]


@pytest.mark.parametrize(
    ("rule", "path", "words"),
    [
        ({"kind": "accuracy"}, "below", "a number"),
        ({"kind": "accuracy", "below": 1.5}, "below", "less than or equal to 1"),
        ({"kind": "disk", "zones": ["drive"]}, "zones", "only with kind object"),
        ({"kind": "object", "quiet_hours": ["25:00-01:00"]}, "quiet_hours[0]", "HH:MM"),
        ({"kind": "fire"}, "kind", "'object'"),
        ({"kind": "crowd"}, "above", "a number from 0"),
        ({"kind": "object", "above": 0}, "above", "only with kind crowd"),
        ({"kind": "movement", "classes": ["car"]}, "zones", "from_zones, or both"),
        ({"kind": "unusual", "zones": ["drive"]}, "zones", "only with kind object, crowd, movement"),
        ({"kind": "unusual", "factor": 0.5}, "factor", "greater than or equal to 1"),
        ({"kind": "object", "severity": "loud"}, "severity", "'critical'"),
        ({"kind": "object", "dwell_s": -1}, "dwell_s", "greater than or equal to 0"),
    ],
)
def test_rules_that_are_refused(rule: dict[str, Any], path: str, words: str) -> None:
    assert words in refused(RuleSettings, {"id": "r"} | rule)[path]


def test_a_site_has_rules_by_default() -> None:
    rules = {r.kind: r.rule() for r in SiteSettings().rules}
    assert set(rules) == {"camera_lost", "disk", "roll_back", "stranger", "tenant"}
    assert rules["camera_lost"].wait_s == 60.0
    assert rules["disk"].threshold == 0.05
    assert parse(SiteSettings, {"rules": []}).rules == ()


def test_two_rules_of_one_id_are_refused() -> None:
    rule = {"id": "r", "kind": "object"}
    assert "'r' is there twice" in refused(SiteSettings, {"rules": [rule, rule]})["rules[1].id"]


def test_masks_are_checked_as_zones_are() -> None:
    camera = parse(CameraSettings, CAMERA | {"masks": [{"name": "door", "polygon": SQUARE}]})
    assert camera.all_masks()[0].polygon[0] == (0.1, 0.1)
    crossed = {"name": "door", "polygon": [[0.1, 0.1], [0.4, 0.4], [0.4, 0.1], [0.1, 0.4]]}
    assert "meet at their ends only" in refused(CameraSettings, CAMERA | {"masks": [crossed]})["masks[0].polygon"]
    twice = [{"name": "door", "polygon": SQUARE}] * 2
    assert "'door' is there twice" in refused(CameraSettings, CAMERA | {"masks": twice})["masks[1].name"]


def test_clips_fit_into_the_ring() -> None:
    site: dict[str, Any] = {"clips": {"ring_s": 30, "before_s": 10, "after_s": 15}}
    assert parse(SiteSettings, site | {"cameras": [CAMERA]}).cameras[0].clips.span(parse(SiteSettings, site).clips) == (
        10.0,
        15.0,
    )
    found = refused(SiteSettings, {"clips": {"ring_s": 20, "before_s": 10, "after_s": 15}})
    assert "0 to 10: the ring holds 20 s" in found["clips.after_s"]
    own = CAMERA | {"clips": {"before_s": 20, "after_s": 15}}
    assert (
        "0 to 10: the ring holds 30 s" in refused(SiteSettings, site | {"cameras": [own]})["cameras[0].clips.after_s"]
    )
    assert "only with kind object" in refused(RuleSettings, {"id": "d", "kind": "disk", "clip": True})["clip"]
    assert RuleSettings.model_validate({"id": "d", "kind": "crowd", "above": 3, "clip": True}).rule().clip
