"""JSON schemas of files (draft 2020-12), as far as forms are made from them; other keywords are passed on."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict
from typing_extensions import TypedDict

JsonSchema = TypedDict(
    "JsonSchema",
    {
        "$ref": str,
        "$defs": "dict[str, JsonSchema]",
        "type": str,
        "enum": list[Any],
        "const": Any,
        "anyOf": "list[JsonSchema]",
        "items": "JsonSchema",
        "properties": "dict[str, JsonSchema]",
        "additionalProperties": "JsonSchema | bool",
        "required": list[str],
        "description": str,
        "default": Any,
        "minimum": int | float,
        "maximum": int | float,
        "exclusiveMinimum": int | float,
        "exclusiveMaximum": int | float,
        "minLength": int,
        "maxLength": int,
    },
    total=False,
)
JsonSchema.__pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[attr-defined]
