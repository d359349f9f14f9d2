"""When and on which machine a result was made, as results say it."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime


def machine() -> str:
    """The processor's architecture, the number of cores and Python's version."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def when_and_where() -> dict[str, str]:
    """The `date` of now (UTC, ISO 8601) and the `machine`."""
    return {"date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "machine": machine()}
