"""`magpie schema NAME`: a JSON schema of a file format, derived from the types. Starts without torch."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import sys
import types
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from edge.core import serving
from edge.core.plan_faults import PlanFault
from edge.core.profiles import InferenceProfile
from edge.core.serving import DeviceTable, ModelBatch, ServingPlan, ServingProblem
from edge.core.window import PLAN_FORMAT, PROBLEM_FORMAT, RetrainingOption, StreamProblem, WindowPlan, WindowProblem

HELP = "print a JSON schema of a file format"

#: name -> (type of the whole file, what its field `format` says)
SCHEMAS: Mapping[str, tuple[type, str]] = MappingProxyType(
    {
        "window-problem": (WindowProblem, PROBLEM_FORMAT),
        "window-plan": (WindowPlan, PLAN_FORMAT),
        "serving-problem": (ServingProblem, serving.PROBLEM_FORMAT),
        "serving-plan": (ServingPlan, serving.PLAN_FORMAT),
        "serving-device": (DeviceTable, serving.DEVICE_FORMAT),
    }
)
#: The site configuration has its schema from the settings that check it.
SITE = "site"
_NAMES = sorted([*SCHEMAS, SITE])
#: Names of fields in files where they differ from those of the types.
_FILE_NAMES: Mapping[tuple[type, str], str] = MappingProxyType(
    {
        (StreamProblem, "options"): "retrain_configs",
        (InferenceProfile, "factors"): "factor",
        (ModelBatch, "model"): "name",
    }
)
#: Values that files hold as something simpler.
_FILE_TYPES: Mapping[type, type] = MappingProxyType({PlanFault: str})
#: Fields that files hold as something simpler.
_FILE_FIELDS: Mapping[tuple[type, str], Any] = MappingProxyType({(WindowPlan, "reasons"): Mapping[str, str]})
#: Fields that stand for "whatever else the file says".
_OPEN_FIELDS: Mapping[type, str] = MappingProxyType({RetrainingOption: "details", DeviceTable: "details"})
#: Fields without which a file is still read.
_OPTIONAL_IN_FILES: frozenset[tuple[type, str]] = frozenset(
    {(WindowProblem, "name"), (DeviceTable, "name"), (DeviceTable, "utilisation")}
)
#: Fields of files that the types do not keep.
_ONLY_IN_FILES: Mapping[type, Mapping[str, Any]] = MappingProxyType(
    {
        ServingProblem: MappingProxyType({"device_file": str, "note": str}),
        WindowPlan: MappingProxyType({"reason_values": dict[str, Any], "fault_values": tuple[dict[str, Any], ...]}),
    }
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`schema NAME`."""
    parser.add_argument("name", choices=_NAMES, metavar="NAME", help="one of " + ", ".join(_NAMES))


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    sys.stdout.write(json.dumps(schema(args.name), indent=2) + "\n")
    return 0


def schema(name: str) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of the file format called `name`."""
    if name == SITE:
        from edge.settings import site_schema

        return site_schema()
    kind, file_format = SCHEMAS[name]
    definitions: dict[str, Any] = {}
    body = _object(kind, definitions)
    body["properties"] = {"format": {"const": file_format}} | body["properties"]
    body["required"] = ["format", *body["required"]]
    out = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": file_format} | body
    if definitions:
        out["$defs"] = definitions
    return out


def _object(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """Schema of one dataclass."""
    hints = typing.get_type_hints(kind)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in dataclasses.fields(kind):
        if _OPEN_FIELDS.get(kind) == field.name:
            continue
        name = _FILE_NAMES.get((kind, field.name), field.name)
        properties[name] = _of(_FILE_FIELDS.get((kind, field.name), hints[field.name]), definitions)
        has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if not has_default and (kind, field.name) not in _OPTIONAL_IN_FILES:
            required.append(name)
    for name, hint in _ONLY_IN_FILES.get(kind, {}).items():
        properties[name] = _of(hint, definitions)
    return {
        "type": "object",
        "description": inspect.cleandoc(kind.__doc__ or ""),
        "properties": properties,
        "required": required,
        "additionalProperties": kind in _OPEN_FIELDS,
    }


def _of(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Schema of one annotation."""
    hint = _FILE_TYPES.get(hint, hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}
            definitions[hint.__name__] = _object(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_of(a, definitions) for a in arguments]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": _of(arguments[0], definitions)}
        items = [_of(a, definitions) for a in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin is Mapping or origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1], definitions)}
    simple: dict[Any, dict[str, Any]] = {
        float: {"type": "number"},
        int: {"type": "integer"},
        str: {"type": "string"},
        bool: {"type": "boolean"},
        type(None): {"type": "null"},
        Any: {},
    }
    return simple[hint]
