"""The appliance's side of access: who may come in, the secrets that its settings refer to, and what was changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from edge.access.access import Access, Rules
from edge.access.records import Records
from edge.access.secrets import Secrets
from edge.appliance.service import Json
from edge.core.clock import Clock
from edge.core.errors import Conflict
from edge.settings import AccessSettings
from edge.store.store import Store


class Keys:
    """`access` is None where the site asks nobody who they are. All methods block."""

    def __init__(self, store: Store, data_dir: Path, settings: AccessSettings, clock: Clock) -> None:
        rules = Rules(settings.session_hours * 3600.0, settings.idle_minutes * 60.0)
        self.access = Access(store.database, clock, rules) if settings.enabled else None
        self._store = store
        self._records = Records(store.database, clock)
        self._secrets = Secrets(data_dir)

    @property
    def secrets_file(self) -> Path:
        """Where `secret:NAME` is looked up."""
        return self._secrets.path

    def audit(self, limit: int, before: int | None) -> list[Json]:
        """Who changed what and from where, the newest first."""
        return [
            {
                "id": r.id,
                "utc_s": r.at_utc_s,
                "by": r.changed_by,
                "from": r.address,
                "subject": r.subject,
                "action": r.action,
                "value": r.value,
            }
            for r in self._store.audit(before_id=before, limit=limit)
        ]

    def secrets(self, users: Iterable[tuple[str, Any]]) -> list[Json]:
        """Names, and which of `users` (what it is, its settings) refer to each."""
        users = list(users)
        return [{"name": name, "used_by": used_by(name, users)} for name in self._secrets.names()]

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


def used_by(name: str, users: Iterable[tuple[str, Any]]) -> list[str]:
    """Which of `users` have `secret:NAME` somewhere in their settings."""
    return [what for what, settings in users if _holds(settings, f"secret:{name}")]


def _holds(value: Any, text: str) -> bool:
    if isinstance(value, Mapping):
        return any(_holds(v, text) for v in value.values())
    if isinstance(value, list | tuple):
        return any(_holds(v, text) for v in value)
    return bool(value == text)
