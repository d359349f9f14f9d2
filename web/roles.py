"""The right to use a route: each module of `web.routes` declares that of its own (`ROLES`, and `ROOT_ROLES` of what is
not under /api/v1). A route without a row is refused, and fails a test.

A row is keyed by method and path as the route has it; "WS" is a WebSocket. Beside the role it says whether the right to
see every camera is needed (what is done concerns them all), and what the audit calls it where the service itself keeps
no record of the change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from edge.core.access import Role


@dataclass(frozen=True)
class Row:
    """`least` None: open without login. A change is not asked by another site's page and carries the CSRF token.
    `before_change`: also for those who first have to choose their own password."""

    least: Role | None
    every_camera: bool = False
    audit: str = ""
    before_change: bool = False


OPEN: Final = Row(None)
VIEWER, OPERATOR, ADMIN = Row("viewer"), Row("operator"), Row("admin")
WAY_IN = Row("viewer", before_change=True)
EVERY_OPERATOR, EVERY_ADMIN = Row("operator", every_camera=True), Row("admin", every_camera=True)
