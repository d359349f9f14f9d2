"""What a Ray cluster is made with, without Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge.core.errors import InvalidValue
from edge.engines.ray_engine import RaySettings
from edge.engines.ray_settings import RayCertificates, RayNodeSpec, RaySecurity

TOKEN = "a token of 24 letters, ok"


@pytest.fixture
def security(tmp_path: Path) -> RaySecurity:
    for name in ("box.pem", "box.key", "ca.pem"):
        (tmp_path / name).touch()
    return RaySecurity(TOKEN, RayCertificates(tmp_path / "box.pem", tmp_path / "box.key", tmp_path / "ca.pem"))


def node(security: RaySecurity, **more: Any) -> RayNodeSpec:
    values = {"box": "b1", "folder": Path("/run/magpie/ray"), "address": "10.0.0.7", **more}
    return RayNodeSpec(security=security, **values)


def test_token_and_certificates_reach_every_process_by_its_environment_only(security: RaySecurity) -> None:
    settings = RaySettings("10.0.0.1:6379", security, {"b1": {}}, Path("/run/magpie"), "10.0.0.7")
    for given in (node(security), node(security, head="10.0.0.1:6379"), settings):
        found = given.environment()
        assert found["RAY_AUTH_MODE"] == "token"
        assert found["RAY_AUTH_TOKEN"] == TOKEN
        assert found["RAY_USE_TLS"] == "1"
        assert found["RAY_TLS_CA_CERT"].endswith("ca.pem")
        assert TOKEN not in repr(given)


def test_only_the_head_keeps_a_store_and_only_others_give_up_joining(security: RaySecurity) -> None:
    head, member = node(security), node(security, head="10.0.0.1:6379")
    assert head.environment()["RAY_gcs_storage_path"] == "/run/magpie/ray/store"
    assert "RAY_gcs_storage" not in member.environment()
    assert "RAY_gcs_server_port_wait_time_s" in member.environment()
    assert "RAY_gcs_server_port_wait_time_s" not in head.environment()


def test_a_loopback_address_is_kept_as_it_is(security: RaySecurity) -> None:
    variable = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
    assert node(security, address="127.0.0.1").environment()[variable] == "0"
    assert node(security, address="::1").environment()[variable] == "0"
    assert variable not in node(security).environment()


def test_a_box_counts_as_gone_after_its_time(security: RaySecurity) -> None:
    found = node(security, health_s=8.0, headless_s=30.0).environment()
    assert found["RAY_health_check_failure_threshold"] == "7"
    assert found["RAY_gcs_rpc_server_reconnect_timeout_s"] == "30"


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("box", "b/1"),
        ("folder", Path("relative")),
        ("folder", Path("/" + "x" * 60)),
        ("address", "localhost"),
        ("port", 70_000),
        ("warm_workers", 0),
        ("restart_s", -1.0),
        ("health_s", 0.0),
        ("headless_s", 0.0),
    ],
)
def test_a_bad_setting_is_named(security: RaySecurity, field: str, given: Any) -> None:
    with pytest.raises(InvalidValue, match=field):
        node(security, **{field: given})


@pytest.mark.parametrize("token", ["short", "a token with a line\nend in it", "ein Schlüssel mit Umlaut"])
def test_a_bad_token_is_refused_and_not_shown(security: RaySecurity, token: str) -> None:
    with pytest.raises(InvalidValue, match="token") as raised:
        RaySecurity(token, security.certificates)
    assert token not in str(raised.value)


def test_a_missing_certificate_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"certificates\.certificate"):
        RayCertificates(tmp_path / "none.pem", tmp_path / "none.key", tmp_path / "ca.pem")
