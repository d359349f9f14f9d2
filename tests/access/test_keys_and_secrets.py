"""Files that hold secrets: written whole, for their owner only, and never shown again."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import pytest

from edge.access.credentials import digest
from edge.access.front_keys import FrontKey, FrontKeys, write_keys
from edge.access.secrets import Secrets
from edge.core.clock import ManualClock
from edge.core.errors import Forbidden, InvalidValue, NotFound, NotLoggedIn, StoreError
from edge.ingest.secrets import resolve_secret


def test_secrets_are_kept_for_their_owner_only(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path)
    assert secrets.names() == []
    assert secrets.put("gate", "tom's ß secret")
    assert not secrets.put("gate", "another")
    secrets.put("yard.2", "x")
    assert secrets.names() == ["gate", "yard.2"]
    assert stat.S_IMODE(secrets.path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["secrets.json"]
    assert resolve_secret("secret:gate", kept=secrets.path).reveal() == "another"
    secrets.delete("gate")
    with pytest.raises(NotFound):
        secrets.delete("gate")
    with pytest.raises(InvalidValue, match="secret:gate"):
        resolve_secret("secret:gate", kept=secrets.path)


@pytest.mark.parametrize("name", ["", "../x", "a b", "-a", "x" * 101, "a/b", "ä"])
def test_names_of_secrets(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidValue):
        Secrets(tmp_path).put(name, "value")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["", "two\nlines", "nul\0", "x" * 9000])
def test_values_of_secrets_are_refused_unseen(tmp_path: Path, value: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Secrets(tmp_path).put("gate", value)
    assert refused.value.given == "(not shown)"


def test_a_damaged_file_is_said_and_left_alone(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path)
    secrets.path.write_text('{"gate": ')
    with pytest.raises(StoreError, match="damaged"):
        secrets.put("yard", "x")
    assert secrets.path.read_text() == '{"gate": '


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path)
    threads = [threading.Thread(target=secrets.put, args=(f"s{n}", str(n))) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(secrets.names()) == 12


def test_a_secret_of_nowhere(tmp_path: Path) -> None:
    for kept in (None, tmp_path / "absent.json"):
        with pytest.raises(InvalidValue, match="a secret that the appliance keeps"):
            resolve_secret("secret:gate", kept=kept)


# --- tokens of the front


def test_the_front_lets_in_whom_the_file_names(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "serving" / "keys.json"
    keys = FrontKeys(path, clock)
    with pytest.raises(NotLoggedIn):  # no file yet
        keys.check("mgp_a", "viewer")
    now = clock.utc()
    write_keys(path, {digest("mgp_a"): FrontKey("viewer", by="ann"), digest("mgp_b"): FrontKey("operator", now + 10)})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "mgp_" not in path.read_text()
    clock.advance(1.1)
    assert keys.check("mgp_a", "viewer") == "ann"
    keys.check("mgp_b", "operator")
    with pytest.raises(Forbidden):
        keys.check("mgp_a", "operator")
    for wrong in (None, "", "mgp_c", digest("mgp_a")):
        with pytest.raises(NotLoggedIn):
            keys.check(wrong, "viewer")
    clock.advance(10)
    with pytest.raises(NotLoggedIn):
        keys.check("mgp_b", "viewer")
    write_keys(path, {})
    clock.advance(1.1)
    with pytest.raises(NotLoggedIn):  # revoked
        keys.check("mgp_a", "viewer")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "other/1", "tokens": {}}', '{"format": 1}'])
def test_a_damaged_file_lets_no_user_in(tmp_path: Path, text: str) -> None:
    clock, path = ManualClock(), tmp_path / "keys.json"
    write_keys(path, {digest("mgp_a"): FrontKey("admin")})
    keys = FrontKeys(path, clock)
    keys.check("mgp_a", "viewer")
    path.write_text(text)
    clock.advance(1.1)
    with pytest.raises(NotLoggedIn):
        keys.check("mgp_a", "viewer")
    path.write_text(json.dumps({"format": "magpie-front-keys/1", "tokens": {digest("x"): {"role": "root"}}}))
    clock.advance(1.1)
    with pytest.raises(NotLoggedIn):
        keys.check("x", "viewer")
