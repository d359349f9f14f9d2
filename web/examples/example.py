"""An example, and the instant of all examples."""

from __future__ import annotations

from typing import Any, Final

Example = dict[str, Any]

#: UTC, in seconds.
AT_UTC_S: Final = 1790000000.0
