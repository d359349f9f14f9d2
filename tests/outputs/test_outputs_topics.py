"""Topic names: hostile names bring no levels and no wildcards."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import paho.mqtt.client as paho
import pytest
from hypothesis import given
from hypothesis import strategies as st
from topics_kit import ALARMS, MINUTE, NAMES, SNAPSHOT

from edge.core.errors import InvalidValues
from edge.outputs.topics import Topics, part, states, switch
from edge.settings import MqttSettings, parse


@given(NAMES)
def test_a_name_is_one_level_of_a_topic(name: str) -> None:
    level = part(name)
    assert re.fullmatch(r"[A-Za-z0-9_.%-]+", level)
    topic = Topics("magpie").camera(name, "state")
    assert topic.count("/") == 2
    assert not paho.topic_matches_sub("magpie/+/retraining/set", topic)


@given(NAMES, NAMES)
def test_different_names_are_different_levels(one: str, other: str) -> None:
    assert (part(one) == part(other)) == (one == other)


@given(st.lists(NAMES, unique=True, min_size=1, max_size=5))
def test_a_switch_finds_its_camera_and_no_other(cameras: list[str]) -> None:
    topics = Topics("site/magpie")
    for camera in cameras:
        assert topics.camera_to_set(topics.camera(camera, "retraining/set"), cameras) == camera
        assert topics.camera_to_set(topics.camera(camera, "retraining"), cameras) is None


def test_names_as_they_are_written() -> None:
    assert part("junction-north") == "junction-north"
    assert part("a/+#") == "a%2F%2B%23"
    assert part("\x00é") == "%00%C3%A9"
    assert part("$SYS") == "%24SYS"
    assert Topics("magpie").messages("alarm", "north") == ("magpie/alarms", "magpie/north/alarms")
    assert Topics("magpie").messages("count", "north") == ("magpie/counts", "magpie/north/counts")
    assert Topics("magpie").messages("object", None) == ("magpie/events",)


@pytest.mark.parametrize("prefix", ["#", "a/#", "+", "a//b", "/a", "a/", "a b", "", "a\x00", "ä"])
def test_a_prefix_with_wildcards_or_empty_levels_is_refused(prefix: str) -> None:
    for field in ("prefix", "discovery_prefix"):
        with pytest.raises(InvalidValues, match=field):
            parse(MqttSettings, {"host": "broker.example", field: prefix})


@pytest.mark.parametrize(
    ("payload", "on"), [(b"ON", True), (b"OFF", False), (b"on", None), (b"", None), (b"ON\n", None), (b"\xff", None)]
)
def test_a_switch_takes_on_and_off_only(payload: bytes, on: bool | None) -> None:
    assert switch(payload) is on


def test_what_is_retained() -> None:
    made = states(Topics("m"), SNAPSHOT, ALARMS)
    assert made.pop("m/state") == (
        '{"site": "depot", "version": "1", "ready": true, "reasons": ["a", "b"], "policy": "relay", "window": 7, '
        '"phase": "planned", "cameras": 2, "cameras_live": 1, "retraining": 1}'
    )
    assert made == {
        "m/alarm/disk": "ON", "m/alarm/slo": "OFF",
        "m/north/state": "live", "m/north/model": "v2", "m/north/retraining": "ON", "m/north/accuracy": "0.6124",
        "m/north/drift": "0.0876", "m/north/alarm/object": "ON", "m/north/alarm/accuracy": "OFF",
        "m/north/alarm/camera_lost": "OFF", "m/north/alarm/roll_back": "OFF", "m/north/alarm/crowd": "OFF",
        "m/north/alarm/movement": "OFF", "m/north/alarm/unusual": "OFF",
        "m/north/count/line/gate/forward": (
            '{"start_utc_s": 1790000040, "watched": 0.98, "objects": 4, '
            '"corrected": {"value": 4.4, "low": 3.1, "high": 5.7}, "most": 0}'
        ),
        "m/north/count/zone/yard%2F1": (
            '{"start_utc_s": 1790000040, "watched": 0.98, "objects": 2, "corrected": null, "most": 1}'
        ),
        "m/south/state": "reconnecting", "m/south/model": "v1", "m/south/retraining": "OFF",
        "m/south/alarm/object": "OFF", "m/south/alarm/accuracy": "OFF", "m/south/alarm/camera_lost": "OFF",
        "m/south/alarm/roll_back": "OFF", "m/south/alarm/crowd": "OFF", "m/south/alarm/movement": "OFF",
        "m/south/alarm/unusual": "OFF",
    }  # fmt: skip


def test_of_a_minute_without_watching_no_number_is_known() -> None:
    unseen = replace(MINUTE, watched=0.0)
    dark = replace(SNAPSHOT, cameras=(replace(SNAPSHOT.cameras[0], minute=unseen),))
    state = json.loads(states(Topics("m"), dark, ALARMS)["m/north/count/line/gate/forward"])
    assert state == {"start_utc_s": 1790000040, "watched": 0.0, "objects": None, "corrected": None, "most": None}
