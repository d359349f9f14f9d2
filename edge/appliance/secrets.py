"""Secrets that settings refer to, and the audit of changes."""

from __future__ import annotations

from edge.appliance.access_control import AccessControl
from edge.appliance.answers.access import AuditAnswer, SecretAnswer
from edge.appliance.service import Json
from edge.settings import SiteSettings
from edge.store.store import Store


class NamedSecrets:
    """Implements `SecretsService`. Every method blocks."""

    def __init__(self, site: SiteSettings, store: Store, access_control: AccessControl) -> None:
        self._site, self._store, self._access_control = site, store, access_control

    def names(self) -> list[SecretAnswer]:
        """Names of secrets, with what refers to each."""
        return self._access_control.secrets(self._users())

    def put(self, name: str, value: str, by: str) -> None:
        """Raises InvalidValue, StoreError."""
        self._access_control.put_secret(name, value, by)

    def delete(self, name: str, by: str) -> None:
        """Raises NotFound, Conflict, StoreError."""
        self._access_control.delete_secret(name, by, self._users())

    def audit(self, limit: int, before: int | None) -> list[AuditAnswer]:
        """Changes, newest first."""
        return self._access_control.audit(limit, before)

    def _users(self) -> list[tuple[str, Json]]:
        """Settings that may refer to a secret."""
        kept = [(f"camera {c.id}", c.settings) for c in self._store.settings.cameras()]
        outputs = self._store.settings.get_settings("outputs") or self._site.model_dump(mode="json").get("outputs")
        return [*kept, ("outputs", outputs or {})]
