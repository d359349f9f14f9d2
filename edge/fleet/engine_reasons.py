"""Reasons that came as JSON from the engine's process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edge.core.fleet_reasons import FleetReason


def reason_of(row: Mapping[str, Any]) -> FleetReason:
    """The reason of a JSON object."""
    return FleetReason(row["code"], tuple(row["names"]), row["wanted"], row["possible"])
