"""The appliance's side of access, over a real store: secrets, the audit, and the tokens that the front is handed."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.access.credentials import new_token
from edge.access.front_keys import FrontKeys
from edge.appliance.access_control import AccessControl, needs_token, used_by
from edge.appliance.answers.access import SecretAnswer
from edge.core.access import Requester
from edge.core.clock import ManualClock, SystemClock
from edge.core.errors import Conflict, NotLoggedIn
from edge.settings import AccessSettings, ServingSettings
from edge.store.store import Store


@pytest.fixture
def store(tmp_path: Path, sqlite_template: Path) -> Iterator[Store]:
    shutil.copy(sqlite_template, tmp_path / "magpie.db")
    with Store(None, tmp_path) as store:
        yield store


def test_secrets_are_audited_without_their_values(store: Store) -> None:
    access_control = AccessControl(store, store.data_dir, AccessSettings(), SystemClock())
    access_control.put_secret("gate", "tomsecret", Requester("ann", "192.0.2.7"))
    users = [("camera north", {"password_from": "secret:gate"}), ("outputs", {"webhooks": [{"secret_from": "x"}]})]
    assert access_control.secrets(users) == [SecretAnswer(name="gate", used_by=("camera north",))]
    with pytest.raises(Conflict, match="camera north"):
        access_control.delete_secret("gate", "ann", users)
    access_control.delete_secret("gate", "ann", [])
    records = access_control.audit(10, None)
    assert [(r.subject, r.action, r.by, r.from_) for r in records] == [
        ("secret/gate", "deleted", "ann", None),
        ("secret/gate", "created", "ann", "192.0.2.7"),
    ]
    assert "tomsecret" not in str(records)
    assert access_control.audit(10, records[0].id) == records[1:]


def test_what_refers_to_a_secret() -> None:
    users = [("a", {"x": [{"y": "secret:one"}]}), ("b", {"y": "secret:one.more"}), ("c", "secret:one")]
    assert used_by("one", users) == ["a", "c"]


@pytest.mark.parametrize(
    ("host", "access", "enabled", "needed"),
    [("127.0.0.1", None, True, False), ("localhost", None, True, False), ("::1", None, True, False),
     ("0.0.0.0", None, True, True), ("box.example", None, True, True), ("0.0.0.0", None, False, False),
     ("127.0.0.1", "token", True, True), ("0.0.0.0", "open", True, False), ("127.0.0.1", "token", False, True)],
)  # fmt: skip
def test_when_clients_of_served_models_need_a_token(host: str, access: str | None, enabled: bool, needed: bool) -> None:
    serving = ServingSettings.model_validate({"http": {"host": host}, "access": access})
    assert needs_token(serving, AccessSettings(enabled=enabled)) is needed


async def test_the_front_is_handed_the_tokens_of_now(store: Store, tmp_path: Path) -> None:
    access_control = AccessControl(store, store.data_dir, AccessSettings(), SystemClock())
    assert access_control.access is not None
    records = access_control.access.records
    records.add_user("ann", "operator", None, None, False, "test")
    token, kept = new_token("ann", "robot", "admin", None, 0.0, None)
    records.add_token(kept, "test")
    path, clock = tmp_path / "serving" / "keys.json", ManualClock()
    task = await access_control.hand_over(path)
    try:
        front = FrontKeys(path, clock)
        assert front.check(token, "operator") == "ann"  # no more than ann herself
        front.check(access_control.own_token, "viewer")
        before = path.stat().st_mtime_ns
        await asyncio.to_thread(records.change_user, "ann", {"disabled": True}, "test")
        await access_control.access.directory.changed()
        async with asyncio.timeout(30):
            while path.stat().st_mtime_ns == before:
                await asyncio.sleep(0.01)
        clock.advance(1.1)
        with pytest.raises(NotLoggedIn):
            front.check(token, "viewer")
        front.check(access_control.own_token, "viewer")
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
