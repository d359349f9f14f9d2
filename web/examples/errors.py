"""Examples of errors, and the schema that all errors have."""

from __future__ import annotations

from typing import Final

from web.examples.example import Example

ERROR_SCHEMA: Final[Example] = {
    "title": "Error",
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string", "description": "stable, for programs"},
                "message": {"type": "string", "description": "for people"},
                "id": {"type": "string", "description": "where the appliance's log tells more"},
                "problems": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["path", "given", "allowed"],
                        "properties": {
                            "path": {"type": "string", "description": "of the field"},
                            "given": {"$ref": "#/components/schemas/GivenValue"},
                            "allowed": {"type": "string", "description": "what may come"},
                        },
                    },
                },
            },
        }
    },
}
INVALID: Final[Example] = {
    "error": {
        "code": "invalid_value",
        "message": "window_s: got 3, allowed: greater than or equal to 10",
        "problems": [{"path": "window_s", "given": 3, "allowed": "greater than or equal to 10"}],
    }
}
UNAVAILABLE: Final[Example] = {
    "error": {"code": "unavailable", "message": "camera junction-north has no picture now: reconnecting"}
}
