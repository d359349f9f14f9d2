"""A search of the network for cameras, as it is asked for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from edge.settings.base import SecretReference, Settings


class CameraSearch(Settings):
    """Where to search, how to log in to what is found, and the rate that its streams are wanted at."""

    addresses: tuple[Annotated[str, Field(min_length=1, max_length=300)], ...] = Field(
        (), max_length=64, description="host, host:port or http://host:port/path of devices; empty: ask the network"
    )
    network: str = Field("", max_length=50, description="10.0.0.0/24; empty: every network of this machine")
    username: str = Field("", max_length=200, description="empty: devices are asked without logging in")
    password_from: SecretReference = Field("", description="env:NAME, file:/path[#key] or secret:NAME")
    fps: float = Field(5.0, gt=0, le=60, description="pictures a second that are wanted")
