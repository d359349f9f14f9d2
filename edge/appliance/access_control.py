"""The appliance's side of access: users and their rights, the secrets that its settings refer to, and the audit of
changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from edge.access.access import Access, Rules
from edge.access.credentials import digest
from edge.access.front_keys import FrontKey, write_keys
from edge.access.records import Records
from edge.access.secrets import Secrets
from edge.appliance.answers.access import AuditAnswer, SecretAnswer
from edge.appliance.answers.read import read
from edge.core.access import narrowed
from edge.core.clock import Clock
from edge.core.errors import Conflict, MagpieError
from edge.ingest.secrets import check_named
from edge.ingest.source import CameraSource
from edge.settings import AccessSettings, ServingSettings
from edge.store.store import Store
from edge.store.values import AuditRecord

log = logging.getLogger(__name__)

_LOOK_S: Final = 2.0


class AccessControl:
    """`access` is None at a site without log-in. Methods other than coroutines block."""

    def __init__(self, store: Store, data_dir: Path, settings: AccessSettings, clock: Clock) -> None:
        rules = Rules(settings.session_hours * 3600.0, settings.idle_minutes * 60.0)
        self._access = Access(store.database, clock, rules)
        self.access = self._access if settings.enabled else None
        #: The token of the control process itself for the front of served models.
        self.own_token = secrets.token_urlsafe(32)
        self._changed = asyncio.Event()
        self._access.directory.when_changed(self._changed.set)
        self._store, self._settings = store, settings
        self._records = Records(store.database, clock)
        self._secrets = Secrets(data_dir)
        self._recording: set[asyncio.Task[None]] = set()

    def record(self, subject: str, action: str, by: str, value: dict[str, Any] | None = None) -> None:
        """Record a change that is kept elsewhere, soon. From the event loop; a failure is logged."""
        task = asyncio.create_task(self._access.audit(subject, action, by, value), name=f"record {subject}")
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)

    async def recorded(self) -> None:
        """Wait for what is being recorded."""
        await asyncio.gather(*self._recording, return_exceptions=True)

    async def hand_over(self, path: Path) -> asyncio.Task[None]:
        """Write the API tokens of now to `path` for the front of served models, and again whenever they change, until
        the task is cancelled. Raises StoreError, DiskFull."""
        written = await self._front_keys()
        await asyncio.to_thread(write_keys, path, written)
        return asyncio.create_task(self._keep(path, written), name="keys of the front")

    async def _keep(self, path: Path, written: Mapping[str, FrontKey]) -> None:
        while True:
            self._changed.clear()
            try:
                keys = await self._front_keys()
                if keys != written:
                    await asyncio.to_thread(write_keys, path, keys)
                    written = keys
            except MagpieError as error:
                log.error("the tokens cannot be handed to the front of served models: %s", error)
            with contextlib.suppress(TimeoutError):  # commands change tokens in the database, past this process
                async with asyncio.timeout(_LOOK_S):
                    await self._changed.wait()

    async def _front_keys(self) -> dict[str, FrontKey]:
        everybody = await self._access.directory.everybody()
        keys = {digest(self.own_token): FrontKey("viewer", by="appliance")}
        for hashed, token in everybody.tokens.items():
            user = everybody.users.get(token.owner)
            if user is not None and not user.disabled:
                role, _ = narrowed(user.role, user.cameras, token.role, token.cameras)
                keys[hashed] = FrontKey(role, token.expires_utc_s, token.owner)
        return keys

    @property
    def secrets_file(self) -> Path:
        """Where `secret:NAME` is looked up."""
        return self._secrets.path

    def may_name(self, reference: str, before: str = "", path: str = "password_from") -> None:
        """Raises InvalidValue for a secret that may not be named by REST; `before` may be kept."""
        check_named(reference, before, self._settings.secret_references, path)

    def may_show(self, source: CameraSource, before: str = "") -> None:
        """Raises InvalidValue for files that a camera by REST may not show; those at the url `before` may be kept."""
        source.check_folder(before, self._settings.media_folders)

    def audit(self, limit: int, before: int | None) -> list[AuditAnswer]:
        """Changes with their author and address, the newest first, without those that cannot be read."""
        return self._store.database.unreadable.page(
            "audit record",
            limit,
            before,
            lambda wanted, below: self._store.settings.audit(before_id=below, limit=wanted),
            _audit_answer,
            lambda r: r.id,
        )

    def secrets(self, users: Iterable[tuple[str, Any]]) -> list[SecretAnswer]:
        """Names, and which of `users` (a setting's title, its settings) refer to each."""
        users = list(users)
        return [SecretAnswer(name=name, used_by=tuple(used_by(name, users))) for name in self._secrets.names()]

    def put_secret(self, name: str, value: str, by: str) -> None:
        """Raises InvalidValue, StoreError."""
        new = self._secrets.put(name, value)
        self._records.audit(f"secret/{name}", "created" if new else "changed", by)

    def delete_secret(self, name: str, by: str, users: Iterable[tuple[str, Any]]) -> None:
        """Raises NotFound, Conflict (something refers to it), StoreError."""
        using = used_by(name, users)
        if using:
            raise Conflict(f"secret {name} is used by {', '.join(using[:5])}", "change that first")
        self._secrets.delete(name)
        self._records.audit(f"secret/{name}", "deleted", by)


def _audit_answer(r: AuditRecord) -> AuditAnswer:
    found = {
        "id": r.id, "utc_s": r.at_utc_s, "by": r.changed_by, "from": r.address, "subject": r.subject,
        "action": r.action, "value": r.value,
    }  # fmt: skip
    return read(AuditAnswer, found)


def needs_token(serving: ServingSettings, access: AccessSettings) -> bool:
    """Whether clients of served models need an API token: as the site says; if it does not, wherever the protocol is
    listened for from outside, unless the site has no log-in."""
    if serving.access is not None:
        return serving.access == "token"
    local = all(_loopback(host) for host in (serving.http.host, serving.grpc.host))
    return access.enabled and not local


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def used_by(name: str, users: Iterable[tuple[str, Any]]) -> list[str]:
    """Which of `users` have `secret:NAME` somewhere in their settings."""
    return [what for what, settings in users if _holds(settings, f"secret:{name}")]


def _holds(value: Any, text: str) -> bool:
    if isinstance(value, Mapping):
        return any(_holds(v, text) for v in value.values())
    if isinstance(value, list | tuple):
        return any(_holds(v, text) for v in value)
    return bool(value == text)
