"""The search for cameras of the web tests' appliance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edge.appliance.answers.discovery import FoundCameras
from edge.appliance.answers.read import read
from edge.settings import CameraSearch, parse
from web.examples.discovery import FOUND


class OneDiscovery:
    """Implements `DiscoveryService`: two cameras, for every search."""

    def __init__(self) -> None:
        self.asked: list[CameraSearch] = []

    async def search(self, asked: Mapping[str, Any]) -> FoundCameras:
        self.asked.append(parse(CameraSearch, dict(asked)))
        return read(FoundCameras, FOUND)
