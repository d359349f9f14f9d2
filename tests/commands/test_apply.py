"""`magpie apply`: the difference first, then the changes, and nothing the second time. Against the real web server."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "web"))

from appliance_double import DictAppliance

from edge.cli import main
from edge.settings import CameraSettings, RetrainingSettings, SiteSettings, merge, parse, read_site, site_schema
from edge.upkeep.differences import Difference, Running, compare, differences, patch
from web.app import create_app
from web.server import WebServer

REPO = Path(__file__).resolve().parents[2]


def camera(name: str, /, **more: Any) -> dict[str, Any]:
    return {"id": name, "url": f"rtsp://192.0.2.1/{name}", "classes": ["car", "bus", "person"]} | more


@pytest.fixture
def service() -> DictAppliance:
    service = DictAppliance()
    service.served.planning = None
    return service


@pytest.fixture
async def url(service: DictAppliance, tmp_path: Path) -> AsyncIterator[str]:
    server = WebServer(create_app(service, static=tmp_path / "none"), "127.0.0.1", 0)
    await server.start()
    yield f"http://127.0.0.1:{server.port}"
    await server.stop()


async def apply(tmp_path: Path, site: dict[str, Any], *options: str) -> int:
    file = tmp_path / "site.yaml"
    file.write_text(yaml.safe_dump(site), encoding="utf-8")
    return await asyncio.to_thread(main, ["apply", "-f", str(file), *options])


async def test_applied_once_and_nothing_the_second_time(
    url: str, service: DictAppliance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = {
        "retraining": {"window_s": 120, "a_min": 0.3},
        "cameras": [camera("north", name="North arm", inference={"frame_rates": [5, 2]}), camera("east")],
    }
    assert await apply(tmp_path, site, "--url", url, "--yes") == 0
    out = capsys.readouterr().out
    assert "+ cameras.east" in out
    assert "~ cameras.north" in out
    assert "    name: " in out
    assert "window_s: 200.0 -> 120.0" in out
    assert "left alone (--prune removes): south" in out
    assert set(service.cameras.kept) == {"north", "east", "south"}
    assert service.cameras.kept["north"].name == "North arm"
    assert service.retraining.next.window_s == 120
    entries = len(service.events.journal)
    assert await apply(tmp_path, site, "--url", url) == 0  # no question where nothing is to be changed
    assert "nothing to change" in capsys.readouterr().out
    assert len(service.events.journal) == entries


async def test_dry_run_changes_nothing(
    url: str, service: DictAppliance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await apply(tmp_path, {"cameras": [camera("east")]}, "--url", url, "--dry-run", "--prune") == 0
    out = capsys.readouterr().out
    assert "+ cameras.east" in out
    assert "- cameras.north" in out
    assert service.events.journal == []


async def test_no_terminal_to_ask_is_no_yes(
    url: str, service: DictAppliance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await apply(tmp_path, {"cameras": [camera("east")]}, "--url", url) == 1
    assert "--yes" in capsys.readouterr().err
    assert service.events.journal == []


@pytest.mark.parametrize(("answer", "done"), [("y\n", True), ("n\n", False), ("", False), ("\n", False)])
async def test_it_asks(
    url: str, service: DictAppliance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, done: bool
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert await apply(tmp_path, {"cameras": [camera("east")]}, "--url", url) == (0 if done else 1)
    assert ("east" in service.cameras.kept) == done


async def test_prune_removes_what_the_file_does_not_name(url: str, service: DictAppliance, tmp_path: Path) -> None:
    assert await apply(tmp_path, {"cameras": [camera("north")]}, "--url", url, "--yes", "--prune") == 0
    assert set(service.cameras.kept) == {"north"}
    assert await apply(tmp_path, {}, "--url", url, "--yes", "--prune") == 1  # an empty file is a slip, not an order
    assert set(service.cameras.kept) == {"north"}


async def test_what_is_refused_is_reported_and_the_rest_is_done(
    url: str, service: DictAppliance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = {"cameras": [camera("odd", classes=["dragon"]), camera("east")]}
    assert await apply(tmp_path, site, "--url", url, "--yes") == 1
    said = capsys.readouterr().err
    assert "cameras.odd" in said
    assert "dragon" in said
    assert "Traceback" not in said
    assert "east" in service.cameras.kept


async def test_a_mapping_is_taken_away_again(url: str, service: DictAppliance, tmp_path: Path) -> None:
    mapped = {"cameras": [camera("north", class_map={"car": ["car", "truck"], "bus": ["bus"]})]}
    assert await apply(tmp_path, mapped, "--url", url, "--yes") == 0
    less = {"cameras": [camera("north", class_map={"bus": ["bus"]})]}
    assert await apply(tmp_path, less, "--url", url, "--yes") == 0
    assert service.cameras.kept["north"].class_map == {"bus": ("bus",)}


async def test_serving_is_changed_and_a_models_demand_taken_away(
    url: str, service: DictAppliance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from edge.settings import ServingPlanning

    service.served.planning = parse(ServingPlanning, {"models": {"plates": {"rate": 5}, "faces": {"rate": 1}}})
    site = {"serving": {"folder": "m", "planning": {"max_share": 0.5, "models": {"plates": {"rate": 7}}}}}
    assert await apply(tmp_path, site, "--url", url, "--yes") == 0
    assert service.served.planning.max_share == 0.5
    assert set(service.served.planning.models) == {"plates"}
    assert "serving.folder" in capsys.readouterr().out
    service.served.planning = None
    assert await apply(tmp_path, site, "--url", url, "--yes") == 0
    assert "not compared: serving" in capsys.readouterr().out


async def test_secrets_are_not_shown(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "rtsp://192.0.2.9/cam?user=a&password=s3cret&channel=1"
    site = {"cameras": [camera("east", url=secret, username="viewer", password_from="file:/run/secret-place#k")]}
    assert await apply(tmp_path, site, "--url", url, "--dry-run") == 0
    out = capsys.readouterr().out
    assert "s3cret" not in out
    assert "secret-place" not in out
    assert "channel=1" in out


async def test_the_token_goes_to_the_appliance_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is sent as a bearer token, and not along where the server redirects."""
    seen: list[tuple[str, str | None]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        token = next((x.split(": ", 1)[1] for x in head.splitlines() if x.startswith("authorization")), None)
        seen.append((head.split()[1], token))
        writer.write(b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setenv("MAGPIE_TEST_TOKEN", "mgp_abc")
    options = ("--url", f"http://127.0.0.1:{port}", "--token-from", "env:MAGPIE_TEST_TOKEN", "--dry-run")
    assert await apply(tmp_path, {"cameras": []}, *options) == 1
    server.close()
    assert seen == [("/api/v1/cameras", "bearer mgp_abc")]
    assert "mgp_abc" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--url", "ftp://x"), "http://"),
        (("--url", "http://127.0.0.1:1"), "no appliance answers"),
        (("--token-from", "mgp_abc"), "hidden"),
    ],
)
async def test_wrong_use_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    assert await apply(tmp_path, {"cameras": []}, *options) == 1
    said = capsys.readouterr().err
    assert words in said
    assert "mgp_abc" not in said


# --- the decision ---------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_null(v) for k, v in value.items() if v is not None}
    return value


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_makes_the_one_into_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Merged into the first it gives the second; null and absent are the same to a merge patch."""
    made = merge(before, patch(before, after))
    assert list(differences(without_null(made), without_null(after))) == []


@given(DOCUMENTS)
def test_the_same_needs_nothing(document: dict[str, Any]) -> None:
    assert list(differences(document, json.loads(json.dumps(document)))) == []
    assert patch(document, document) == {}


@given(st.sampled_from([(5, 5.0), ([5, 2.5], [5.0, 2.5]), ({"a": [1]}, {"a": [1.0]})]))
def test_whole_numbers_are_numbers(pair: tuple[Any, Any]) -> None:
    assert list(differences(*pair)) == []


def test_true_is_not_one() -> None:
    assert list(differences({"a": True}, {"a": 1})) == [Difference("a", True, 1)]


@given(
    st.lists(st.sampled_from("abcdef"), unique=True), st.lists(st.sampled_from("abcdef"), unique=True), st.booleans()
)
def test_every_camera_is_added_changed_removed_or_left(has: list[str], wants: list[str], prune: bool) -> None:
    site = SiteSettings(cameras=tuple(CameraSettings(**camera(c)) for c in wants))
    running = Running(
        {c: CameraSettings(**camera(c, name="x")).model_dump(mode="json") for c in has},
        RetrainingSettings().model_dump(mode="json"),
        None,
    )
    outcome = compare(site, running, prune)
    by_kind = {k: {c.subject[-1] for c in outcome.changes if c.kind == k} for k in ("add", "change", "remove")}
    assert by_kind["add"] == set(wants) - set(has)
    assert by_kind["change"] == set(wants) & set(has)
    assert by_kind["remove"] | set(outcome.unnamed) == set(has) - set(wants)
    assert bool(by_kind["remove"]) == (prune and bool(set(has) - set(wants)))


@given(st.text(max_size=300))
def test_what_is_shown_is_one_harmless_line(text: str) -> None:
    words = Difference("name", None, text).in_words()
    assert words.isprintable()
    assert len(words) < 230


# --- the schema -----------------------------------------------------------------------------------------------------


def test_the_schema_takes_the_shipped_configurations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "site"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    for file in ("site.yaml", "serving.yaml", "container/site.yaml"):
        value = yaml.safe_load((REPO / "configs" / file).read_text(encoding="utf-8"))
        jsonschema.validate(value, schema)
        assert read_site(REPO / "configs" / file)


@pytest.mark.parametrize(
    "value",
    [
        {"camera": []},
        {"cameras": [{"id": "North!", "url": "x", "classes": ["car"]}]},
        {"cameras": [{"id": "north", "url": "x"}]},
        {"retraining": {"window_s": 3}},
        {"serving": {"planning": {"policy": "best"}}},
    ],
)
def test_the_schema_refuses_what_reading_refuses(value: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, site_schema())


async def test_the_appliance_publishes_its_schema(url: str) -> None:
    import httpx

    async with httpx.AsyncClient() as client:
        response = await client.get(f"{url}/api/v1/schema/site")
    assert response.status_code == 200
    assert response.json() == site_schema()


async def test_rules_are_applied_after_the_cameras_whose_zones_they_name(
    url: str, service: DictAppliance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zone = {"name": "drive", "polygon": [[0.1, 0.1], [0.5, 0.1], [0.5, 0.5]]}
    rule = {"id": "parked", "kind": "object", "zones": ["drive"], "dwell_s": 20}
    site = {
        "cameras": [camera("north", zones=[zone]), camera("east")],
        "rules": [rule, {"id": "disk-low", "kind": "disk"}],
    }
    assert await apply(tmp_path, site, "--url", url, "--yes") == 0
    out = capsys.readouterr().out
    assert out.index("+ rules.parked") > out.index("+ cameras.east")
    assert "dwell_s: none -> 20.0" in out
    assert "south, rules.camera-lost, rules.model-rolled-back" in out
    assert service.alarms.kept["parked"].zones == ("drive",)
    assert service.cameras.kept["north"].zones[0].name == "drive"
    assert "camera-lost" in service.alarms.kept
    assert await apply(tmp_path, site, "--url", url) == 0
    assert "nothing to change" in capsys.readouterr().out
    assert await apply(tmp_path, site | {"rules": [rule]}, "--url", url, "--yes", "--prune") == 0
    assert set(service.alarms.kept) == {"parked"}


async def test_outputs_are_applied_and_left_alone_where_the_file_has_none(
    url: str, service: DictAppliance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = {"id": "pager", "url": "https://pager.example/hook", "secret_from": "secret:pager"}
    outputs = {"mqtt": {"host": "other.example", "password_from": "env:MQTT_PASSWORD"}, "webhooks": [hook]}
    site = {"cameras": [camera("north"), camera("south")], "outputs": outputs}
    assert await apply(tmp_path, site, "--url", url, "--yes") == 0
    out = capsys.readouterr().out
    assert "host: broker.example -> other.example" in out
    assert "+ outputs.webhooks.pager" in out
    assert "secret:pager" not in out
    assert service.outputs.mqtt is not None
    assert service.outputs.mqtt.password_from == "env:MQTT_PASSWORD"
    assert service.outputs.webhooks["pager"].secret_from == "secret:pager"
    assert await apply(tmp_path, site, "--url", url) == 0
    assert "nothing to change" in capsys.readouterr().out
    changed = {"webhooks": [hook | {"severities": ["critical"]}]}
    assert await apply(tmp_path, site | {"outputs": changed}, "--url", url, "--yes") == 0
    assert "left alone (--prune removes): outputs.mqtt" in capsys.readouterr().out
    assert service.outputs.webhooks["pager"].severities == ("critical",)
    assert await apply(tmp_path, site | {"outputs": {}}, "--url", url, "--yes", "--prune") == 0
    assert service.outputs.mqtt is None
    assert service.outputs.webhooks == {}
    without = {"cameras": [camera("north"), camera("south")]}
    assert await apply(tmp_path, without, "--url", url) == 0
    assert "nothing to change" in capsys.readouterr().out
