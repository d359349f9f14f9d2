"""configs/compose/fleet.yml, as far as it can be checked without an engine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge.fleet.folder import FleetFolder
from edge.fleet.joining import found_fleet, invite
from edge.settings import FleetSettings, SiteSettings, read_site

REPO = Path(__file__).resolve().parents[2]
FOLDER = REPO / "configs" / "compose"
BOXES = ("b1", "b2", "b3")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    value = yaml.safe_load((FOLDER / "fleet.yml").read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


@pytest.fixture(scope="module")
def single() -> dict[str, Any]:
    """The service of the file for one box."""
    value = yaml.safe_load((REPO / "docker-compose.yml").read_text(encoding="utf-8"))
    found: dict[str, Any] = value["services"]["magpie"]
    return found


def site_of(box: str) -> SiteSettings:
    return read_site(FOLDER / f"{box}.yaml")


def fleet_of(box: str) -> FleetSettings:
    found = site_of(box).fleet
    assert found is not None
    return found


def test_three_boxes_are_alike_and_run_as_a_single_one_does(compose: dict[str, Any], single: dict[str, Any]) -> None:
    services = compose["services"]
    assert tuple(services) == BOXES
    own = ("ports", "volumes")
    alike = [{k: v for k, v in service.items() if k not in own} for service in services.values()]
    assert alike[0] == alike[1] == alike[2]
    for key in ("image", "restart", "init", "security_opt", "cap_drop", "cgroup", "stop_grace_period", "env_file"):
        assert alike[0][key] == single[key], key
    assert (FOLDER / alike[0]["build"]).resolve() == (REPO / single["build"]).resolve()


def test_each_has_its_own_site_data_and_page(compose: dict[str, Any]) -> None:
    pages = set()
    for box, service in compose["services"].items():
        site = site_of(box)
        assert service["volumes"] == [f"./{box}.yaml:/etc/magpie/site.yaml:ro", f"{box}:{site.data_dir}"]
        (port,) = service["ports"]
        host, outside, inside = port.split(":")
        assert (host, int(inside), site.web.host) == ("127.0.0.1", site.web.port, "0.0.0.0")
        assert service["cpus"] == site.machine.cores
        pages.add(outside)
    assert len(pages) == 3
    assert set(compose["volumes"]) == set(BOXES)


def test_agents_reach_each_other_by_name_in_a_network_of_their_own(compose: dict[str, Any], tmp_path: Path) -> None:
    for box, service in compose["services"].items():
        fleet = fleet_of(box)
        assert (fleet.name, fleet.address) == (box, f"https://{box}:{fleet.port}")
        assert service["networks"] == list(compose["networks"]) == ["fleet"]
        assert not any(str(fleet.port) in port for port in service["ports"]), "open to the network of the three alone"
        assert fleet.token.startswith("file:/var/lib/magpie/"), "no secret in a file of the repository"
        assert fleet.lending.lend
        assert fleet.lending.borrow
    assert len({site_of(box).site for box in BOXES}) == 1
    found_fleet(FleetFolder(tmp_path), site_of("b1").site, fleet_of("b1"), "0a1b2c3d4e5f")
    assert invite(FleetFolder(tmp_path), 1.0).reveal(), "what `magpie fleet start` does there"


def test_the_page_says_how_they_become_one_fleet() -> None:
    page = (REPO / "docs" / "fleet.md").read_text(encoding="utf-8")
    for words in (
        "docker compose -f configs/compose/fleet.yml up -d",
        "fleet start /etc/magpie/site.yaml",
        f"fleet join /etc/magpie/site.yaml {fleet_of('b1').address} --code",
        fleet_of("b1").token.removeprefix("file:"),
    ):
        assert words in page
    assert re.search(r"user token \w+ --config /etc/magpie/site.yaml", page)


def test_compose_itself_reads_it(tmp_path: Path) -> None:
    """Where `docker compose` is installed."""
    docker = shutil.which("docker")
    plain = subprocess.run([docker, "compose", "version"], capture_output=True, check=False) if docker else None
    if docker is None or plain is None or plain.returncode:
        pytest.skip("docker compose is not installed")
    out = subprocess.run(
        [docker, "compose", "-f", str(FOLDER / "fleet.yml"), "config", "--quiet"],
        cwd=REPO, capture_output=True, text=True, check=False, env=os.environ | {"HOME": str(tmp_path)},
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
