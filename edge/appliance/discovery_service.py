"""The service of the search for cameras."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from edge.appliance.answers.discovery import FoundCameras


class DiscoveryService(Protocol):
    """Cameras that find themselves."""

    async def search(self, asked: Mapping[str, Any]) -> FoundCameras:
        """Search as edge.settings.CameraSearch says; takes up to 45 s. Raises InvalidValues, InvalidValue (no network
        of this machine, no address, a secret that is not there or may not be named), Conflict (a search is
        running), Unavailable (the appliance stops)."""
