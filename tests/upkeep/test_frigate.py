"""Cameras of Frigate configurations: what is carried over, what is reported, and where the passwords go."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from edge.cli import main
from edge.core.errors import MagpieError
from edge.ingest.secrets import resolve_secret
from edge.settings import SiteSettings, parse, read_site
from edge.upkeep.frigate import Imported, import_frigate

#: Of the usual shape: a broker, a detector, go2rtc, global sections that cameras override, zones, masks.
CONFIG = """
mqtt: {enabled: true, host: mqtt.lan, user: frigate, password: '{FRIGATE_MQTT_PASSWORD}'}
detectors:
  coral: {type: edgetpu, device: usb}
go2rtc:
  streams:
    front: ["rtsp://admin:fr%40nt@192.0.2.10:554/main#backchannel=0", "ffmpeg:front#audio=opus"]
    cloud: ["ffmpeg:http://192.0.2.13/flv"]
objects:
  track: [person, car]
  filters: {person: {min_score: 0.6}}
detect: {fps: 5, width: 1280, height: 720}
record: {enabled: true, continuous: {days: 3}}
version: 0.17-0
cameras:
  Front Door:
    friendly_name: Front door
    ffmpeg:
      hwaccel_args: preset-vaapi
      inputs:
        - {path: "rtsp://127.0.0.1:8554/front", input_args: preset-rtsp-restream, roles: [detect, record]}
    zones:
      porch: {coordinates: "0.1,0.2,0.5,0.2,0.5,0.9", objects: [person], loitering_time: 4}
    motion: {mask: "0,0,0.2,0,0.2,0.1"}
  yard:
    enabled: false
    ffmpeg:
      inputs:
        - {path: "rtsp://viewer:{FRIGATE_RTSP_PASSWORD}@192.0.2.11:554/main", roles: [record]}
        - {path: "rtsp://viewer:{FRIGATE_RTSP_PASSWORD}@192.0.2.11:554/sub", roles: [detect]}
    detect: {fps: 2, width: 640, height: 480}
    objects: {track: [dog, person]}
  garage:
    ffmpeg:
      inputs:
        - path: rtsp://admin:p@ss:w/rd@192.0.2.12/stream
          roles: [detect]
  doorbell:
    ffmpeg:
      inputs: [{path: "http://192.0.2.14/mjpeg", roles: [detect]}]
"""


def imported(text: str = CONFIG) -> Any:
    return import_frigate(yaml.safe_load(text), "/etc/magpie/site.secrets")


def camera(found: Any, identity: str) -> dict[str, Any]:
    return next(c for c in found.site["cameras"] if c["id"] == identity)


def test_cameras_with_their_detect_stream_objects_and_rate() -> None:
    found = imported()
    assert [c["id"] for c in found.site["cameras"]] == ["front-door", "yard", "garage"]
    yard = camera(found, "yard")
    assert yard["url"] == "rtsp://192.0.2.11:554/sub"
    assert yard["classes"] == ["dog", "person"]
    assert yard["inference"]["frame_rates"] == [2.0, 1.0]
    assert yard["enabled"] is False
    assert yard["student"] == {"input_height": 256, "input_width": 320}
    front = camera(found, "front-door")
    assert front["name"] == "Front door"
    assert front["classes"] == ["person", "car"]  # of the whole file
    assert front["inference"]["frame_rates"] == [5.0, 2.5, 1.0]
    assert front["url"] == "rtsp://192.0.2.10:554/main"  # through go2rtc to the camera itself
    assert parse(SiteSettings, found.site).cameras[1].enabled is False


def test_passwords_go_out_of_the_configuration() -> None:
    found = imported()
    assert found.secrets == {"front-door": "fr@nt", "garage": "p@ss:w/rd"}
    assert camera(found, "front-door")["password_from"] == "file:/etc/magpie/site.secrets#front-door"
    assert camera(found, "front-door")["username"] == "admin"
    assert camera(found, "yard")["password_from"] == "env:FRIGATE_RTSP_PASSWORD"
    assert camera(found, "garage")["url"] == "rtsp://192.0.2.12/stream"
    written = yaml.safe_dump(found.site) + repr(found.left)
    for secret in ("fr@nt", "fr%40nt", "p@ss", "w/rd", "FRIGATE_MQTT"):
        assert secret not in written


ADDRESS = "rtsp://{FRIGATE_RTSP_USER}:{FRIGATE_RTSP_PASSWORD}@{FRIGATE_HOST}:554/cam/{FRIGATE_STREAM}"
VALUES = {"FRIGATE_RTSP_USER": "viewer", "FRIGATE_HOST": "192.0.2.11", "FRIGATE_STREAM": "sub"}


def one_of(path: str, **variables: str) -> Imported:
    cameras = {"a": {"ffmpeg": {"inputs": [{"path": path}]}}, "b": {"ffmpeg": {"inputs": [{"path": "rtsp://b/x"}]}}}
    return import_frigate({"cameras": cameras}, "/etc/magpie/site.secrets", variables)


def test_variables_in_addresses_and_user_names_have_their_values() -> None:
    found = camera(one_of(ADDRESS, **VALUES), "a")
    assert (found["url"], found["username"]) == ("rtsp://192.0.2.11:554/cam/sub", "viewer")
    assert found["password_from"] == "env:FRIGATE_RTSP_PASSWORD"
    part = one_of("rtsp://u:begins-{FRIGATE_REST}@192.0.2.11/x", FRIGATE_REST="100%25")
    assert part.secrets == {"a": "begins-100%25"}
    for address in (
        one_of("{FRIGATE_URL}", FRIGATE_URL="rtsp://u:p%40ss@192.0.2.11/x"),
        one_of("rtsp://{FRIGATE_CREDENTIALS}@192.0.2.11/x", FRIGATE_CREDENTIALS="u:p%40ss"),
        one_of("rtsp://{FRIGATE_CAMERA}/x", FRIGATE_CAMERA="u:p%40ss@192.0.2.11"),
    ):
        found = camera(address, "a")
        assert (found["url"], found["username"]) == ("rtsp://192.0.2.11/x", "u")
        assert address.secrets == {"a": "p@ss"}, "no password stays in the configuration"
    assert "password" not in dict(one_of("rtsp://{FRIGATE_HOST}/x", **VALUES).left).get("cameras.a.ffmpeg.inputs", "")


@pytest.mark.parametrize("missing", sorted(VALUES))
def test_a_camera_with_a_variable_of_no_value_is_not_carried_over_and_says_which(missing: str) -> None:
    found = one_of(ADDRESS, **{k: v for k, v in VALUES.items() if k != missing})
    assert [c["id"] for c in found.site["cameras"]] == ["b"]
    assert missing in dict(found.left)["cameras.a.ffmpeg.inputs"]
    assert "{FRIGATE" not in str(found.site)


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("rtsp://{RTSP_USER}:x@192.0.2.11/live", "{RTSP_USER}"),
        ("rtsp://u:{RTSP_PW}@192.0.2.11/live", "{RTSP_PW}"),
        ("rtsp://u:x@{CAM_HOST}/live", "{CAM_HOST}"),
        ("rtsp://u:${CAM_PW}@192.0.2.11/live", "${CAM_PW}"),
        ("rtsp://{FRIGATE_A}@192.0.2.11/live", "FRIGATE_B"),
        ("rtsp://u:x{FRIGATE_A}@192.0.2.11/live", "FRIGATE_B"),
    ],
)
def test_what_frigate_would_not_fill_in_does_not_stay_in_an_address(path: str, missing: str) -> None:
    found = one_of(path, FRIGATE_A="{FRIGATE_B}")
    assert [c["id"] for c in found.site["cameras"]] == ["b"]
    assert missing in dict(found.left)["cameras.a.ffmpeg.inputs"]
    assert found.secrets == {}


def test_what_is_not_carried_over_is_listed_with_its_reason() -> None:
    left = dict(imported().left)
    for where in (
        "mqtt", "detectors", "go2rtc", "record", "cameras.Front Door.motion",
        "cameras.Front Door.zones.porch.loitering_time",
        "cameras.Front Door.ffmpeg.hwaccel_args", "cameras.Front Door.ffmpeg.inputs[0].roles",
        "cameras.Front Door.objects.filters", "cameras.yard.ffmpeg.inputs[0]", "cameras.doorbell.ffmpeg.inputs",
    ):  # fmt: skip
        assert left[where]
    assert "version" not in left


def test_a_stream_that_only_go2rtc_has_is_reported() -> None:
    text = "go2rtc: {streams: {a: ['ffmpeg:http://x/flv']}}\ncameras:\n  a: {ffmpeg: {inputs: [{path: 'rtsp://127.0.0.1:8554/a'}]}}"
    found = imported(text)
    assert found.site["cameras"][0]["url"] == "rtsp://127.0.0.1:8554/a"
    assert any("must go on running" in why for _, why in found.left)


def test_names_become_ids_and_stay_apart() -> None:
    cameras = {
        n: {"ffmpeg": {"inputs": [{"path": "rtsp://192.0.2.1/x"}]}} for n in ("Tor Süd", "tor s-d", "##", "x" * 90)
    }
    found = import_frigate({"cameras": cameras}, "/s")
    ids = [c["id"] for c in found.site["cameras"]]
    assert ids == ["tor-s-d", "tor-s-d-2", "camera", "x" * 56]
    assert found.site["cameras"][0]["classes"] == ["person"]  # Frigate's default


@pytest.mark.parametrize(
    "text",
    ["cameras: {}", "mqtt: {}", "cameras: [1]", "cameras: {a: 3}", "cameras: {a: {ffmpeg: {inputs: [x]}}}",
     "cameras: {a: {ffmpeg: {inputs: [{path: 'http://192.0.2.1/x'}]}}}", "objects: 3\ncameras: {a: {ffmpeg: {inputs: "
     "[{path: 'rtsp://192.0.2.1/x'}]}}}"],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(text: str) -> None:
    with pytest.raises(MagpieError):
        imported(text)


PASSWORDS = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="{}?#"), min_size=1, max_size=20
)


@given(PASSWORDS)
def test_no_password_stays_in_an_address(password: str) -> None:
    """However badly it was encoded: the address is the camera's, the password is the secret."""
    first = f"u:{password}".split("/")[0].rpartition("@")[2]
    # "u:554/x@h" and "u:p@ss/x@h" can as well be read with a port and a host in the password's place; so reads FFmpeg.
    assume("/" not in password or not re.fullmatch(r"[^:@\[\]]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?", first))
    assume("%" not in password)
    config = {"cameras": {"a": {"ffmpeg": {"inputs": [{"path": f"rtsp://u:{password}@192.0.2.1:554/x"}]}}}}
    found = import_frigate(config, "/s")
    assert found.site["cameras"][0]["url"] == "rtsp://192.0.2.1:554/x"
    assert found.site["cameras"][0]["username"] == "u"
    assert found.secrets == {"a": password}


def test_the_command_writes_what_run_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "config.yml", tmp_path / "site.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    assert main(["import", "frigate", str(file), "-o", str(out)]) == 0
    said = capsys.readouterr().out
    assert "3 cameras" in said
    assert "cameras.Front Door.zones.porch.loitering_time" in said
    assert "p@ss" not in said
    secrets = tmp_path / "site.secrets"
    assert secrets.stat().st_mode & 0o077 == 0
    assert json.loads(secrets.read_text(encoding="utf-8"))["garage"] == "p@ss:w/rd"
    site = read_site(out)
    assert [c.id for c in site.cameras] == ["front-door", "yard", "garage"]
    assert resolve_secret(site.cameras[2].password_from).reveal() == "p@ss:w/rd"
    assert "p@ss" not in out.read_text(encoding="utf-8")
    assert main(["import", "frigate", str(file), "-o", str(out)]) == 1
    assert "--force" in capsys.readouterr().err
    assert main(["import", "frigate", str(file), "-o", str(out), "--force"]) == 0


@pytest.mark.parametrize("text", ["[1]", "{", "\x00", "cameras: {a: {}}"])
def test_the_command_refuses_other_files_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file, out = tmp_path / "config.yml", tmp_path / "site.yaml"
    file.write_text(text, encoding="utf-8")
    assert main(["import", "frigate", str(file), "-o", str(out)]) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert {p.name for p in tmp_path.iterdir()} == {"config.yml"}


def test_zones_are_carried_over_where_magpie_takes_them() -> None:
    front = imported().site["cameras"][0]
    assert front["zones"] == [{"name": "porch", "polygon": [[0.1, 0.2], [0.5, 0.2], [0.5, 0.9]], "classes": ["person"]}]
    zones = {
        "Pixels": {"coordinates": "128,144,640,144,640,648"},
        "List": {"coordinates": ["0.1,0.1", "0.3,0.1", "0.3,0.3"]},
        "crossed": {"coordinates": "0.1,0.1,0.5,0.5,0.5,0.1,0.1,0.5"},
        "odd": {"coordinates": "0.1,0.1,0.5"},
        "words": {"coordinates": "left"},
        "dogs": {"coordinates": "0.1,0.2,0.5,0.2,0.5,0.9", "objects": "dog"},
    }
    config = yaml.safe_load(CONFIG)
    config["cameras"]["Front Door"]["zones"] = zones
    made = import_frigate(config, "secrets")
    got = {z["name"]: z["polygon"] for z in made.site["cameras"][0]["zones"]}
    assert got == {
        "pixels": [[0.1, 0.2], [0.5, 0.2], [0.5, 0.9]],
        "list": [[0.1, 0.1], [0.3, 0.1], [0.3, 0.3]],
    }
    left = dict(made.left)
    assert "meet at their ends only" in left["cameras.Front Door.zones.crossed"]
    assert {"cameras.Front Door.zones.odd", "cameras.Front Door.zones.words"} <= left.keys()
    assert "does not track: dog" in left["cameras.Front Door.zones.dogs"]
