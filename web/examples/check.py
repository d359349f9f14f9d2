"""Examples of checks of a configuration."""

from __future__ import annotations

from typing import Final

from web.examples.example import Example

CHECK: Final[Example] = {
    "problems": [{"path": "window_s", "given": 3, "allowed": "greater than or equal to 10"}],
}
CHECK_BODY: Final[Example] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}, "example": {"window_s": 3}}},
    }
}
