"""The section `fleet`: what is taken, and how the rest is refused."""

from __future__ import annotations

from typing import Any

import pytest

from edge.core.errors import InvalidValues
from edge.core.fleet import FleetBox, FleetQueue, FleetTenant
from edge.settings import FLEET_PORT, SiteSettings, parse

FLEET: dict[str, Any] = {"name": "b1", "token": "env:FLEET_TOKEN"}
RAY = {"address": "192.0.2.1", "token": "env:RAY", "certificate": "c", "key": "k", "authority": "a", "folder": "/run/r"}


def ray(**more: Any) -> dict[str, Any]:
    """A site file with the engine ray."""
    return {"fleet": FLEET | {"engine": {"kind": "ray", "ray": RAY | more}}}


def kubernetes(**more: Any) -> dict[str, Any]:
    """A site file with the engine kubernetes."""
    return {"fleet": FLEET | {"engine": {"kind": "kubernetes", "kubernetes": more}}}


def jobs(**more: Any) -> dict[str, Any]:
    """A site file with settings of jobs."""
    return {"fleet": FLEET | {"jobs": more}}


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
        ({"fleet": FLEET | {"engine": {"kind": "slurm"}}}, "fleet.engine.kind", "ray"),
        ({"fleet": FLEET | {"engine": {"amounts": {"at:x": 1}}}}, "fleet.engine.amounts.at:x", "a resource's name"),
        (
            {"fleet": FLEET | {"engine": {"amounts": {"cpu": -1}}}},
            "fleet.engine.amounts.cpu",
            "greater than or equal to 0",
        ),
        (
            {"fleet": FLEET | {"engine": {"labels": {"box": "x"}}}},
            "fleet.engine.labels.box",
            "every box is its own box",
        ),
        ({"fleet": FLEET | {"engine": {"kind": "ray"}}}, "fleet.engine.ray", "address, token"),
        ({"fleet": FLEET | {"engine": {"ray": RAY}}}, "fleet.engine.ray", "with kind: ray"),
        (ray(address="b1.example"), "fleet.engine.ray.address", "an IP address"),
        (ray(token="secret:x"), "fleet.engine.ray.token", "no part of the appliance"),
        (ray(folder="ray"), "fleet.engine.ray.folder", "an absolute path"),
        (ray(folder="/" + 40 * "x"), "fleet.engine.ray.folder", "at most 35 characters"),
        (ray(port=0), "fleet.engine.ray.port", "greater than or equal to 1"),
        ({"fleet": FLEET | {"engine": {"kind": "kubernetes"}}}, "fleet.engine.kubernetes", "it may be empty"),
        ({"fleet": FLEET | {"engine": {"kubernetes": {}}}}, "fleet.engine.kubernetes", "with kind: kubernetes"),
        (kubernetes(mode="free"), "fleet.engine.kubernetes.mode", "dynamic"),
        (kubernetes(context="c"), "fleet.engine.kubernetes.context", "with a kubeconfig"),
        (kubernetes(pending_s=0), "fleet.engine.kubernetes.pending_s", "greater than or equal to 1"),
        ({"fleet": FLEET | {"engine": {"folders": {"night": "x"}}}}, "fleet.engine.folders.night", "text that matches"),
        (jobs(queues=[{"name": "a"}, {"name": "a"}]), "fleet.jobs.queues[1].name", "each name once"),
        (jobs(queues=[{"name": "a b"}]), "fleet.jobs.queues[0].name", "letters, digits"),
        (jobs(tenants=[{"name": "a", "parent": "b"}]), "fleet.jobs.tenants[0].parent", "not below this one"),
        (jobs(tenants=[{"name": "a", "weight": 0}]), "fleet.jobs.tenants[0].weight", "greater than 0"),
        (jobs(placement="near"), "fleet.jobs.placement", "spread"),
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


def test_the_engine_is_local_unless_the_site_file_names_another() -> None:
    plain = parse(SiteSettings, {"fleet": FLEET}).fleet
    assert plain is not None
    assert (plain.engine.kind, plain.engine.box("b1")) == ("local", FleetBox("b1", {"cpu": 1.0}))
    more = jobs(tenants=[{"name": "night", "weight": 2}, {"name": "labels", "parent": "night"}], queues=[{"name": "q"}])
    more["fleet"] |= {"engine": {"amounts": {"cpu": 3, "gpu": 1}, "labels": {"rack": "r1"}}}
    found = parse(SiteSettings, more).fleet
    assert found is not None
    assert found.jobs.fleet_tenants() == (FleetTenant("night", 2.0), FleetTenant("labels", 1.0, "night"))
    assert found.jobs.fleet_queues() == (FleetQueue("q"),)
    assert found.engine.box("b1") == FleetBox("b1", {"cpu": 3.0, "gpu": 1.0}, {"rack": "r1"})
    assert parse(SiteSettings, ray()).fleet is not None
    pods = parse(SiteSettings, kubernetes()).fleet
    assert pods is not None
    assert pods.engine.kubernetes is not None
    assert pods.engine.kubernetes.mode == "pinned"
