"""Discovery documents of Home Assistant: their topics exist, and their ids are its own."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from hypothesis import given
from topics_kit import ALARMS, NAMES, SNAPSHOT

from edge.outputs.home_assistant import discovery, line, word
from edge.outputs.topics import Topics, states


@given(NAMES)
def test_an_id_of_home_assistant(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]+", word(name))


def test_discovery_names_topics_that_exist() -> None:
    topics = Topics("m")
    retained = states(topics, SNAPSHOT, ALARMS) | {topics.camera("south", "accuracy"): "", "m/south/drift": ""}
    documents = discovery(topics, "homeassistant", SNAPSHOT)
    assert set(documents) == {
        "homeassistant/device/magpie_depot/config",
        "homeassistant/device/magpie_depot_camera_north/config",
        "homeassistant/device/magpie_depot_camera_south/config",
    }
    ids = []
    for text in documents.values():
        document = json.loads(text)
        assert document["availability_topic"] == "m/available"
        assert document["device"]["identifiers"]
        assert "\n" not in document["device"]["name"]
        for component in document["components"].values():
            assert component["platform"] in ("sensor", "binary_sensor", "switch")
            assert component["state_topic"] in retained
            ids.append(component["unique_id"])
    assert len(set(ids)) == len(ids)
    north = json.loads(documents["homeassistant/device/magpie_depot_camera_north/config"])
    counted = north["components"]["count_line_gate_forward"]
    assert counted["value_template"] == "{{ value_json.objects }}"
    assert counted["json_attributes_topic"] == counted["state_topic"] == "m/north/count/line/gate/forward"
    assert north["components"]["count_zone_yard_x2f1"]["value_template"] == "{{ value_json.most }}"
    assert north["device"]["via_device"] == "magpie_depot"
    assert north["components"]["retraining"]["command_topic"] == "m/north/retraining/set"


def test_boxes_of_a_fleet_share_no_document_which_one_of_them_would_delete() -> None:
    one, two = (discovery(Topics(f"m/{b}"), "ha", replace(SNAPSHOT, box=b)) for b in ("b1", "b2"))
    assert not one.keys() & two.keys()
    camera = json.loads(one["ha/device/magpie_depot_box_b1_camera_north/config"])["device"]
    assert camera["via_device"] == "magpie_depot_box_b1"
    assert json.loads(one["ha/device/magpie_depot_box_b1/config"])["device"]["name"] == "Magpie depot b1"


def test_free_text_is_one_line() -> None:
    assert line("a\r\nb\x00c" + "d" * 200) == "a  b c" + "d" * 114
