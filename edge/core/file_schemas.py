"""JSON schemas (draft 2020-12) of the file formats, derived from the types."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import MappingProxyType
from typing import Any, Final

from edge.core import serving
from edge.core.plan_basis import PlanBasis
from edge.core.plan_faults import PlanFault
from edge.core.plan_reasons import PlanReason
from edge.core.profiles import InferenceProfile
from edge.core.serving import DeviceTable, ModelBatch, ServingPlan, ServingProblem
from edge.core.window import PLAN_FORMAT, PROBLEM_FORMAT, RetrainingOption, StreamProblem, WindowPlan, WindowProblem

#: name -> (type of the whole file, what its field `format` says)
FILE_FORMATS: Final[Mapping[str, tuple[type, str]]] = MappingProxyType(
    {
        "window-problem": (WindowProblem, PROBLEM_FORMAT),
        "window-plan": (WindowPlan, PLAN_FORMAT),
        "serving-problem": (ServingProblem, serving.PROBLEM_FORMAT),
        "serving-plan": (ServingPlan, serving.PLAN_FORMAT),
        "serving-device": (DeviceTable, serving.DEVICE_FORMAT),
    }
)
_FORMAT_OF: Final[Mapping[type, str]] = MappingProxyType(dict(FILE_FORMATS.values()))
#: Names of fields in files where they differ from those of the types.
_FILE_NAMES: Final[Mapping[tuple[type, str], str]] = MappingProxyType(
    {
        (StreamProblem, "options"): "retrain_configs",
        (StreamProblem, "device_seconds_done"): "work_done",
        (RetrainingOption, "device_seconds"): "gpu_seconds",
        (InferenceProfile, "factors"): "factor",
        (ModelBatch, "model"): "name",
    }
)
#: Fields that files hold as something simpler.
_FILE_FIELDS: Final[Mapping[tuple[type, str], Any]] = MappingProxyType(
    {(WindowPlan, "reasons"): Mapping[str, str], (WindowPlan, "faults"): tuple[str, ...]}
)
#: Fields that stand for "whatever else the file says".
_OPEN_FIELDS: Final[Mapping[type, str]] = MappingProxyType({RetrainingOption: "details", DeviceTable: "details"})
#: Fields without which a file is still read.
_OPTIONAL_IN_FILES: Final[frozenset[tuple[type, str]]] = frozenset(
    {(WindowProblem, "name"), (DeviceTable, "name"), (DeviceTable, "utilisation")}
)
#: Fields of files that the types do not keep.
_ONLY_IN_FILES: Final[Mapping[type, Mapping[str, Any]]] = MappingProxyType(
    {
        ServingProblem: MappingProxyType({"device_file": str, "note": str}),
        WindowPlan: MappingProxyType(
            {"reason_values": Mapping[str, tuple[PlanReason, ...]], "fault_values": tuple[PlanFault, ...]}
        ),
    }
)
_SIMPLE: Final[Mapping[Any, Mapping[str, Any]]] = MappingProxyType(
    {
        float: {"type": "number"},
        int: {"type": "integer"},
        str: {"type": "string"},
        bool: {"type": "boolean"},
        type(None): {"type": "null"},
        Any: {},
    }
)


def file_schema(name: str) -> dict[str, Any]:
    """The schema of the file format called `name`; types inside it are under `$defs`."""
    kind, file_format = FILE_FORMATS[name]
    definitions: dict[str, Any] = {}
    body = _object(kind, definitions)
    out = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": file_format} | body
    if definitions:
        out["$defs"] = definitions
    return out


def embedded_schema(name: str) -> dict[str, Any]:
    """The schema of a file format without references, to be a part of another schema."""
    kind, file_format = FILE_FORMATS[name]
    return {"title": file_format} | _object(kind, None)


def basis_schema() -> dict[str, Any]:
    """As `embedded_schema`, of a recorded plan's basis (edge.core.plan_basis)."""
    return _object(PlanBasis, None)


def _object(kind: type, definitions: dict[str, Any] | None) -> dict[str, Any]:
    """Schema of one dataclass."""
    hints = typing.get_type_hints(kind)
    properties: dict[str, Any] = {}
    required: list[str] = []
    if kind in _FORMAT_OF:
        properties["format"] = {"const": _FORMAT_OF[kind]}
        required.append("format")
    for field in fields(kind):
        if _OPEN_FIELDS.get(kind) == field.name:
            continue
        name = _FILE_NAMES.get((kind, field.name), field.name)
        properties[name] = _of(_FILE_FIELDS.get((kind, field.name), hints[field.name]), definitions)
        has_default = field.default is not MISSING or field.default_factory is not MISSING
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


def _of(hint: Any, definitions: dict[str, Any] | None) -> dict[str, Any]:
    """Schema of one annotation. Dataclasses are put into `definitions` and referred to; None: they are written out."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        if definitions is None:
            return _object(hint, None)
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
    return dict(_SIMPLE[hint])
