"""The section `fleet`: what is taken, and how the rest is refused."""

from __future__ import annotations

from typing import Any

import pytest

from edge.core.errors import InvalidValues
from edge.settings import FLEET_PORT, SiteSettings, parse

FLEET: dict[str, Any] = {"name": "b1", "token": "env:FLEET_TOKEN"}


@pytest.mark.parametrize(
    ("more", "path", "words"),
    [
        ({"fleet": FLEET | {"name": "Box 1"}}, "fleet.name", "text that matches"),
        ({"fleet": FLEET | {"address": "http://b1:8470"}}, "fleet.address", "https://HOST or https://HOST:PORT"),
        ({"fleet": FLEET | {"address": "https://b1:8470/x"}}, "fleet.address", "https://HOST or https://HOST:PORT"),
        ({"fleet": FLEET | {"role": "king"}}, "fleet.role", "member"),
        ({"fleet": FLEET | {"token": "secret:x"}}, "fleet.token", "no part of the appliance"),
        ({"fleet": FLEET | {"camera_zones": {"gate": "north"}}}, "fleet.camera_zones.gate", "one of this box's zones"),
        ({"fleet": FLEET | {"heads": 2}}, "fleet.heads", ""),
        ({"fleet": {"name": "b1"}}, "fleet.token", "an admin's API token"),
        ({"fleet": FLEET, "web": {"port": 0}}, "web.port", "a port of its own with fleet"),
    ],
)
def test_a_section_that_cannot_be_is_refused_by_its_field(more: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(InvalidValues) as caught:
        parse(SiteSettings, more)
    (problem,) = caught.value.problems
    assert problem.path == path
    assert words in problem.allowed


def test_addresses_are_filled_in_and_a_box_without_access_control_needs_no_token() -> None:
    site = parse(SiteSettings, {"fleet": {"name": "b1"}, "web": {"access": {"enabled": False}}})
    assert site.fleet is not None
    assert site.fleet.reached_at("cabinet-1") == f"https://cabinet-1:{FLEET_PORT}"
    named = parse(SiteSettings, {"fleet": FLEET | {"address": "https://Gate.example", "port": 9000}})
    assert named.fleet is not None
    assert named.fleet.reached_at("cabinet-1") == f"https://gate.example:{FLEET_PORT}"
    assert parse(SiteSettings, {}).fleet is None
