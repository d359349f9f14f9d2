"""The service of tenants. Values are edge.appliance.answers.tenants; errors are edge.core.errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from edge.appliance.answers.tenants import (
    SharingAnswer,
    SharingWhatIf,
    TenantAnswer,
    TenantDetail,
    TenantHistory,
    TenantsAnswer,
)


class TenantsService(Protocol):
    """Part of `edge.appliance.service.ApplianceService`."""

    def all(self) -> TenantsAnswer:
        """Every tenant with its share, performance and reason; small and cheap."""

    def one(self, tenant: str) -> TenantDetail:
        """One tenant with its learned curve. Raises NotFound."""

    async def add(self, settings: Mapping[str, Any], by: str) -> TenantAnswer:
        """`edge.settings.TenantSettings`; in force at once, kept over restarts. Raises InvalidValues, InvalidValue
        (a member that another tenant has, or that is not there), Conflict (the id is taken)."""

    async def change(self, tenant: str, patch: Mapping[str, Any], by: str) -> TenantAnswer:
        """JSON merge patch (the id cannot change); null sets a field back. Raises as `add`, and NotFound. A default
        tenant that no settings name gets settings by this."""

    async def remove(self, tenant: str, by: str) -> None:
        """Its members belong to the default tenant from now on. Raises NotFound."""

    def sharing(self) -> SharingAnswer:
        """The settings of the sharing, and how it stands."""

    async def change_sharing(self, patch: Mapping[str, Any], by: str) -> SharingAnswer:
        """JSON merge patch of `edge.settings.SharingSettings`; in force at once, kept over restarts. Raises
        InvalidValues."""

    def history(self, tenant: str | None = None) -> TenantHistory:
        """The last day, of one tenant or of all. Raises NotFound."""

    async def what_if(self, policy: str) -> SharingWhatIf:
        """The last day under another policy. Raises InvalidValue (no such policy)."""
