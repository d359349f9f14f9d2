"""JSON schemas of files (draft 2020-12), as far as forms are made from them; other keywords are passed on."""

from __future__ import annotations

from pydantic import ConfigDict
from typing_extensions import TypedDict

from edge.appliance.answers.documents import SchemaValue

JsonSchema = TypedDict(
    "JsonSchema",
    {
        "$ref": str,
        "$defs": "dict[str, JsonSchema]",
        "type": str,
        "enum": list[SchemaValue],
        "const": SchemaValue,
        "anyOf": "list[JsonSchema]",
        "items": "JsonSchema",
        "properties": "dict[str, JsonSchema]",
        "additionalProperties": "JsonSchema | bool",
        "required": list[str],
        "description": str,
        "default": SchemaValue,
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
