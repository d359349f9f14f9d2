"""Writes `web/frontend/src/answers.ts`, the page's types of what REST answers, from `edge.appliance.answers`, with the
kinds of the journal: `python -m web.page_types`. A test fails when the file is not as this would write it."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter
from typing_extensions import is_typeddict

from edge.appliance import answers
from edge.appliance.answers.documents import FILES
from edge.appliance.answers.marks import STRICT
from edge.appliance.model_files import KnownFiles
from edge.core.journal_kinds import KINDS_BY_SUBJECT
from edge.settings import RuleSettings

FILE: Final = Path(__file__).parent / "frontend" / "src" / "answers.ts"
_HEAD: Final = """/** REST's answers, made from edge/appliance/answers by `python -m web.page_types`, never by hand.
 * Times are UTC epoch seconds, shares fractions of one device, accuracies 0-1, boxes fractions of the picture. */
"""
_PLAIN: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def typescript() -> str:
    """The whole file."""
    partial = FILES | {kind.__name__ for kind in _kinds() if is_typeddict(kind)}
    declared = (_declared(name, part, name in partial) for name, part in sorted(schemas().items()))
    return "\n".join([_HEAD, _kinds_by_subject(), *declared])


def schemas() -> dict[str, Any]:
    """JSON schemas of all answers, by name."""
    found = [(kind, "serialization", TypeAdapter(kind)) for kind in _kinds()]
    _, schema = TypeAdapter.json_schemas(found, by_alias=True)  # type: ignore[arg-type]
    defined: dict[str, Any] = schema["$defs"]
    return defined


def _kinds() -> Iterator[Any]:
    yield KnownFiles
    yield RuleSettings
    for module in pkgutil.iter_modules(answers.__path__):
        inside = importlib.import_module(f"{answers.__name__}.{module.name}")
        for kind in vars(inside).values():
            if not isinstance(kind, type) or kind.__module__ != inside.__name__:
                continue
            strict = getattr(kind, "__pydantic_config__", None) is STRICT
            if strict or is_typeddict(kind) or issubclass(kind, BaseModel):
                yield kind


def _kinds_by_subject() -> str:
    lines = [
        f"  {subject}: new Set([{', '.join(json.dumps(kind) for kind in sorted(kinds))}]),"
        for subject, kinds in sorted(KINDS_BY_SUBJECT.items())
    ]
    known = " | ".join(json.dumps(subject) for subject in sorted(KINDS_BY_SUBJECT))
    head = "/** Kinds of the journal's entries by what they are about (edge/core/journal_kinds.py). */\n"
    return (
        f"{head}export const JOURNAL_KINDS: Record<{known}, ReadonlySet<string>> = {{\n" + "\n".join(lines) + "\n};\n"
    )


def _declared(name: str, schema: Mapping[str, Any], partial: bool) -> str:
    if not schema.get("properties"):
        return f"{_comment(schema, '')}export type {name} = {_type(schema)};\n"
    # An answer has all of its fields, those with defaults too; a document of another format may lack some.
    needed = schema.get("required", ()) if partial else schema["properties"]
    lines = [
        f"{_comment(part, '  ')}  {_key(field)}{'' if field in needed else '?'}: {_type(part)};"
        for field, part in schema["properties"].items()
    ]
    return f"{_comment(schema, '')}export type {name} = {{\n" + "\n".join(lines) + "\n};\n"


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def _comment(schema: Mapping[str, Any], indent: str) -> str:
    words = str(schema.get("description", "")).replace("*/", "").split("\n")
    lines = [line.strip() for line in words if line.strip()]
    if not lines:
        return ""
    return f"{indent}/** " + f"\n{indent} * ".join(lines) + " */\n"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(v) for v in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " | ".join(dict.fromkeys(_type(s) for s in schema[several]))
    kind = schema.get("type")
    if kind == "array":
        if "prefixItems" in schema:
            return "[" + ", ".join(_type(s) for s in schema["prefixItems"]) + "]"
        inner = _type(schema.get("items", {}))
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if kind == "object":
        if schema.get("properties"):
            return _written_out(schema)
        values = schema.get("additionalProperties", next(iter(schema.get("patternProperties", {}).values()), None))
        if values is False:
            return "Record<string, never>"
        return f"Record<string, {_type(values) if isinstance(values, dict) else 'unknown'}>"
    return _PLAIN.get(str(kind), "unknown")


def _written_out(schema: Mapping[str, Any]) -> str:
    """An object without a name of its own: a part of a file, in which not every field needs to be."""
    needed = schema.get("required", ())
    parts = [f"{_key(k)}{'' if k in needed else '?'}: {_type(part)}" for k, part in schema["properties"].items()]
    if schema.get("additionalProperties") is True:
        parts.append("[key: string]: unknown")
    return "{ " + "; ".join(parts) + " }"


def main() -> None:
    """Write the file."""
    FILE.write_text(typescript(), encoding="utf-8")


if __name__ == "__main__":
    main()
