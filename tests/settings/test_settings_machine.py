"""The section of the machine, and the keys that site files had for its settings before."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from edge.core.errors import InvalidValue, InvalidValues
from edge.settings import MachineSettings, SiteSettings, parse, read_site, site_schema

GIVEN: dict[str, Any] = {
    "device": "cpu", "cores": 1.5, "worker_memory_mb": 900, "share_kind": "coop", "control_share": 0.1,
}  # fmt: skip


def refused(site: Any) -> dict[str, InvalidValue]:
    with pytest.raises(InvalidValues) as caught:
        parse(SiteSettings, site)
    return {p.path: p for p in caught.value.problems}


@pytest.mark.parametrize("old", [(), *[(key,) for key in GIVEN], tuple(GIVEN)], ids=",".join)
def test_old_keys_and_the_section_are_the_same_settings(old: tuple[str, ...]) -> None:
    section = parse(SiteSettings, {"site": "gate", "machine": GIVEN})
    inside = {key: value for key, value in GIVEN.items() if key not in old}
    site = {"site": "gate"} | {key: GIVEN[key] for key in old} | ({"machine": inside} if inside else {})
    before = repr(site)
    found = parse(SiteSettings, site)
    assert found == section
    assert found.model_fields_set == section.model_fields_set == {"site", "machine"}
    assert found.machine.model_fields_set == set(GIVEN) == set(MachineSettings.model_fields)
    assert repr(site) == before, "what was given is left as it is"
    assert parse(SiteSettings, found.model_dump(mode="json")) == section, "what is written has the section"


def test_without_either_the_machine_has_its_defaults() -> None:
    assert parse(SiteSettings, {}).machine == MachineSettings()
    assert "machine" not in parse(SiteSettings, {}).model_fields_set


@pytest.mark.parametrize("key", GIVEN)
def test_a_setting_in_both_places_is_refused_and_both_are_named(key: str) -> None:
    found = refused({key: GIVEN[key], "machine": {key: GIVEN[key]}})
    assert list(found) == [key]
    assert found[key].message == f"{key}: got {GIVEN[key]!r}, allowed: either {key} or machine.{key}, not both"


@pytest.mark.parametrize(
    ("key", "bad", "allowed"),
    [
        ("device", 3, "valid string"),
        ("cores", 0, "greater than 0"),
        ("worker_memory_mb", 100, "512"),
        ("share_kind", "magic", "'cgroup'"),
        ("control_share", 0.9, "0.5"),
    ],
)
def test_a_bad_value_is_named_where_it_was_written(key: str, bad: Any, allowed: str) -> None:
    old = refused({key: bad, "machine": {}})
    assert list(old) == [key]
    assert allowed in old[key].allowed
    assert old[key].given == bad
    assert list(refused({"machine": {key: bad}})) == [f"machine.{key}"]
    beside = "cores" if key != "cores" else "device"
    assert list(refused({key: bad, "machine": {beside: GIVEN[beside]}})) == [key]


def test_other_problems_of_the_file_are_reported_beside_those_of_old_keys() -> None:
    site = {"cores": 0, "machine": {"control_share": 2, "coers": 1}, "web": {"port": 99999}, "bogus": 1}
    found = refused(site)
    assert set(found) == {"cores", "machine.control_share", "machine.coers", "web.port", "bogus"}
    assert "worker_memory_mb" in found["machine.coers"].allowed


def test_a_section_that_is_none_is_named() -> None:
    assert set(refused({"machine": None})) == {"machine"}
    assert set(refused({"machine": [1], "cores": 1})) == {"machine"}
    assert refused(3)


def test_a_file_with_old_keys_is_read_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text("share_kind: coop\ncores: 1.5\nmachine: {device: cpu}\n", encoding="utf-8")
    new.write_text("machine: {device: cpu, share_kind: coop, cores: 1.5}\n", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        expected = read_site(new)
        assert caplog.messages == []
        assert read_site(old) == expected
    assert caplog.messages == [f"{old}: old keys, still taken; write them in the section `machine`: cores, share_kind"]


@pytest.mark.parametrize("key", GIVEN)
def test_the_schema_takes_both_and_marks_the_old_key(key: str) -> None:
    schema = site_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate({key: GIVEN[key]}, schema)
    jsonschema.validate({"machine": {key: GIVEN[key]}}, schema)
    for site in ({key: {}}, {"machine": {key: {}}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(site, schema)
    assert schema["properties"][key]["deprecated"] is True
