"""The section of served models: the shipped example, paths, what is refused with which words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge.core.errors import InvalidValues
from edge.settings import AdmissionRequest, ServingPlanning, ServingSettings, SiteSettings, parse, read_site

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def test_the_shipped_example_serves_without_cameras() -> None:
    site = read_site(CONFIGS / "serving.yaml")
    assert site.serving is not None
    assert not site.cameras
    assert Path(site.serving.folder) == CONFIGS / ".." / "models"
    assert site.serving.planning.models["plates"].slo_ms == 80


def test_every_commented_default_of_the_example_is_a_field_and_the_default() -> None:
    text = (CONFIGS / "serving.yaml").read_text(encoding="utf-8")
    uncommented = re.sub(r"^(\s*)# (?=\s*[a-z_]+:)", r"\1", text, flags=re.M)
    site = parse(SiteSettings, yaml.safe_load(uncommented))
    assert site.serving is not None
    usual = ServingSettings()
    named = re.findall(r"^\s*# ([a-z_]+):", text, flags=re.M)
    for name in named:
        if hasattr(usual, name):
            assert getattr(site.serving, name) == getattr(usual, name), name
        elif hasattr(usual.planning, name):
            assert getattr(site.serving.planning, name) == getattr(usual.planning, name), name


def test_models_are_served_only_where_the_section_is(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text("data_dir: var\n", encoding="utf-8")
    assert read_site(path).serving is None
    path.write_text("serving: {folder: m, tables: [t/cpu.json], http: {host: 0.0.0.0}}\n", encoding="utf-8")
    serving = read_site(path).serving
    assert serving is not None
    assert serving.folder == str(tmp_path / "m")
    assert serving.tables == (str(tmp_path / "t/cpu.json"),)
    assert (serving.http.port, serving.grpc.port) == (8000, 8001)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"folder": ""}, "serving.folder"),
        ({"http": {"port": 70000}}, "serving.http.port"),
        ({"planning": {"policy": "best"}}, "serving.planning.policy"),
        ({"planning": {"max_share": 1.5}}, "serving.planning.max_share"),
        ({"planning": {"models": {"plates": {"slo_ms": 0}}}}, "serving.planning.models.plates.slo_ms"),
        ({"planning": {"models": {"plates": {"slo": 5}}}}, "serving.planning.models.plates.slo"),
        ({"planning": {"headroom": 0.5}}, "serving.planning.headroom"),
        ({"front_share": 0.9}, "serving.front_share"),
        ({"tabels": []}, "serving.tabels"),
    ],
)
def test_a_bad_field_is_named(change: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidValues) as caught:
        parse(SiteSettings, {"serving": change})
    assert [p.path for p in caught.value.problems] == [path]


def test_a_name_that_is_no_folder_is_no_model() -> None:
    with pytest.raises(InvalidValues, match=r"\.\./x"):
        parse(ServingPlanning, {"models": {"../x": {}}})


@pytest.mark.parametrize(
    "body", [{}, {"camera": {"id": "a"}, "model": {"name": "m", "rate": 1, "slo_ms": 1}}, {"model": {"name": "m"}}]
)
def test_admission_is_asked_of_one_thing(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidValues):
        parse(AdmissionRequest, body)


def test_tls_of_served_models_needs_the_pages_certificate() -> None:
    tls = {"certificate": "/etc/box.pem", "key": "/etc/box.key"}
    with pytest.raises(InvalidValues, match=r"web\.tls"):
        parse(SiteSettings, {"serving": {"tls": True}})
    site = parse(SiteSettings, {"serving": {"tls": True}, "web": {"tls": tls}})
    assert site.serving is not None
    assert site.serving.tls
