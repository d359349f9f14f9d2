"""Dockerfile and docker-compose.yml, as far as they can be checked without an engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge.cli import COMMANDS
from edge.settings import read_site

REPO = Path(__file__).resolve().parents[2]
_PINNED = re.compile(r"^[a-z0-9./-]+:\d+\.\d+(\.\d+)?(-[a-z0-9.-]+)?$")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    value = yaml.safe_load((REPO / "docker-compose.yml").read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


def instructions() -> list[tuple[str, str]]:
    """Instructions of the Dockerfile with their arguments; lines that go on are joined."""
    text = re.sub(r"\\\n", " ", (REPO / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in lines]


def resolved(text: str, environment: dict[str, str] | None = None) -> str:
    """Compose's ${NAME:-default}."""
    known = environment or {}
    return re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", lambda m: known.get(m[1], m[2] or ""), text)


def test_every_image_is_pinned(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert _PINNED.match(service["image"]), name
    given = dict(a.split("=", 1) for i, a in instructions() if i == "ARG")
    stages = [resolved(a.split()[0], given) for i, a in instructions() if i == "FROM"]
    assert len(stages) == 2
    assert all(_PINNED.match(image) for image in stages)
    assert len(set(stages)) == 1  # built with the Python that runs it


def test_parts_are_profiles_and_each_service_restarts(compose: dict[str, Any]) -> None:
    profiles = {name: service["profiles"] for name, service in compose["services"].items()}
    assert profiles == {"magpie": ["cpu"], "magpie-mps": ["mps"], "postgres": ["postgres"], "broker": ["mqtt"]}
    assert all(s["restart"] == "unless-stopped" for s in compose["services"].values())
    head = (REPO / "docker-compose.yml").read_text(encoding="utf-8").split("\nname:")[0]
    page = (REPO / "docs" / "containers.md").read_text(encoding="utf-8")
    for profile in ("cpu", "mps", "postgres", "mqtt"):
        assert f"--profile {profile}" in head
        assert f"`{profile}`" in page


def test_ports_are_those_of_the_configuration_and_local(compose: dict[str, Any]) -> None:
    published = {}
    for name, service in compose["services"].items():
        for port in service.get("ports", ()):
            host, outside, inside = port.split(":")
            assert host == "127.0.0.1", f"{name}: {port} is open to everybody"
            published[name, int(inside)] = int(outside)
    site = read_site(REPO / "configs" / "container" / "site.yaml")
    served = read_site(REPO / "configs" / "serving.yaml").serving
    assert served is not None
    wanted = {site.web.port, served.http.port, served.grpc.port}
    assert {inside for name, inside in published if name == "magpie"} == wanted
    exposed = next(a for i, a in instructions() if i == "EXPOSE")
    assert {int(p) for p in exposed.split()} == wanted
    assert site.web.host == "0.0.0.0"
    listener = (REPO / "configs" / "container" / "mosquitto.conf").read_text(encoding="utf-8")
    assert re.search(r"^listener 1883$", listener, re.M)
    assert ("broker", 1883) in published


def test_volumes_are_declared_and_files_exist(compose: dict[str, Any]) -> None:
    used = set()
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            source, target, *mode = resolved(volume).split(":")
            assert target.startswith("/")
            if source.startswith("."):
                assert (REPO / source).is_file(), source
                assert mode == ["ro"], f"{source} can be written from inside"
            else:
                used.add(source)
    assert used == set(compose["volumes"])


def test_the_data_folder_is_the_volume(compose: dict[str, Any]) -> None:
    site = read_site(REPO / "configs" / "container" / "site.yaml")
    for name in ("magpie", "magpie-mps"):
        targets = {resolved(v).split(":")[1] for v in compose["services"][name]["volumes"]}
        assert site.data_dir in targets
        assert next(a for i, a in instructions() if i == "CMD" and a.startswith("[")).count("/etc/magpie/site.yaml")
        assert "/etc/magpie/site.yaml" in targets
    database = compose["services"]["postgres"]
    assert any(v.endswith(":/var/lib/postgresql/data") for v in database["volumes"])


def test_every_service_says_how_it_is(compose: dict[str, Any]) -> None:
    """Magpie's image has its check; the others have theirs in the compose file."""
    check = next(a for i, a in instructions() if i == "HEALTHCHECK")
    site = read_site(REPO / "configs" / "container" / "site.yaml")
    assert f"127.0.0.1:{site.web.port}/livez" in check
    for name in ("postgres", "broker"):
        health = compose["services"][name]["healthcheck"]
        assert health["test"][0] == "CMD"
        assert {"interval", "timeout", "retries"} <= set(health)
    for name in ("magpie", "magpie-mps"):
        for other, condition in compose["services"][name]["depends_on"].items():
            assert other in compose["services"]
            assert condition == {"condition": "service_healthy", "required": False}


def test_nothing_runs_with_more_rights_than_it_needs(compose: dict[str, Any]) -> None:
    users = [a for i, a in instructions() if i == "USER"]
    assert users
    assert users[-1] not in ("root", "0")
    text = (REPO / "Dockerfile").read_text(encoding="utf-8")
    assert f"--create-home {users[-1]}" in text
    for name, service in compose["services"].items():
        assert "no-new-privileges:true" in service["security_opt"], name
        assert not service.get("privileged")
        assert service.get("network_mode") != "host"
        assert not any("docker.sock" in v for v in service.get("volumes", ()))
    for name in ("magpie", "magpie-mps"):
        assert compose["services"][name]["cap_drop"] == ["ALL"]
    broker = (REPO / "configs" / "container" / "mosquitto.conf").read_text(encoding="utf-8")
    assert "allow_anonymous false" in broker


def test_no_secret_is_written_in_the_files(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for key, value in service.get("environment", {}).items():
            if "PASSWORD" in key:
                assert re.fullmatch(r"\$\{\w+:-\}", value), key


def test_the_gpu_is_reserved_and_mps_is_there(compose: dict[str, Any]) -> None:
    service = compose["services"]["magpie-mps"]
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device["driver"] == "nvidia"
    assert "gpu" in device["capabilities"]
    assert {"compute", "utility"} <= set(service["environment"]["NVIDIA_DRIVER_CAPABILITIES"].split(","))
    assert "PGPASSWORD" in service["environment"]


def test_what_the_image_runs_exists() -> None:
    entry = json.loads(next(a for i, a in instructions() if i == "ENTRYPOINT"))
    start = json.loads([a for i, a in instructions() if i == "CMD"][-1])
    run = next(a for i, a in instructions() if i == "RUN")
    assert entry == ["/opt/magpie/bin/magpie"]
    assert "venv /opt/magpie" in run
    assert "-c constraints.txt" in run
    assert start[0] in COMMANDS
    import argparse

    from edge.commands import run as command

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert parser.parse_args(start[1:]).log_format == "json"
    for source, target in [a.split()[-2:] for i, a in instructions() if i == "COPY" and not a.startswith("--")]:
        assert (REPO / source).exists()
        assert target


def test_the_build_is_given_what_it_needs_and_no_secret() -> None:
    left_out = set((REPO / ".dockerignore").read_text(encoding="utf-8").split("\n"))
    for needed in ("edge", "golden", "microprofiler", "scheduler", "web", "configs", "pyproject.toml", "hatch_build.py",
                   "README.md", "LICENSE", "constraints.txt"):  # fmt: skip
        assert (REPO / needed).exists()
        assert needed not in left_out
    assert {".env", ".git", "var", "data"} <= left_out


def test_compose_itself_reads_it(tmp_path: Path) -> None:
    """Where `docker compose` is installed: it resolves every profile without a complaint."""
    docker = shutil.which("docker")
    plain = subprocess.run([docker, "compose", "version"], capture_output=True, check=False) if docker else None
    if plain is None or plain.returncode:
        pytest.skip("docker compose is not installed")
    assert docker is not None
    for profile in ("cpu", "mps", "postgres", "mqtt"):
        out = subprocess.run(
            [docker, "compose", "--profile", profile, "config", "--quiet"],
            cwd=REPO, capture_output=True, text=True, check=False, env=os.environ | {"HOME": str(tmp_path)},
        )  # fmt: skip
        assert out.returncode == 0, out.stderr


@pytest.mark.parametrize(("arguments", "status"), [([], 0), (["--required"], 1)])
def test_without_a_builder_the_image_is_skipped_with_a_reason(
    arguments: list[str], status: int, tmp_path: Path
) -> None:
    for name in ("bash", "dirname", "mktemp", "sed", "chmod", "rm"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    done = subprocess.run(
        ["bash", str(REPO / ".ci" / "image"), *arguments],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == status
    assert "neither a docker engine nor buildah" in done.stderr
