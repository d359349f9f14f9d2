"""Values inside answers that are documents of another format, each with what its schema says of it and the reason why
it is none of our types. No other answer holds an object of which nothing is said (a test looks)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema
from typing_extensions import TypeAliasType

from edge.core.file_schemas import basis_schema, embedded_schema

_Object = Mapping[str, Any]

#: By name: the reason why the document has no type of ours, which its schema names too.
REASONS: Final[Mapping[str, str]] = {
    "AuditValue": "The settings, camera or rule of a change as they were then, in the form of that version.",
    "GivenValue": "The value that was sent for a field, of any kind.",
    "JournalData": "Data of a journal entry: docs/journal.md names the keys of each kind.",
    "MessageBody": "A message as it was sent by MQTT or to a webhook: docs/outputs.md has each kind's shape.",
    "ModelStatistics": "Statistics of one served version, as the Open Inference Protocol's front reported them.",
    "ProgramAnswer": "The answer of a program of the fleet: each program has its own (docs/fleet.md).",
    "SchemaValue": "A value of the schema's own subject: what a field must be, may be, or is without one.",
    "WindowDetails": "Results of all cameras together that an earlier version kept; this one keeps nothing there.",
}


def _said(name: str, kind: str | None = "object", **more: Any) -> WithJsonSchema:
    return WithJsonSchema(({"type": kind} if kind else {}) | {"title": name, "description": REASONS[name]} | more)


def _without_lists(value: Any) -> Any:
    """Lists as tuples: of an answer that is made smaller for some users nothing may change afterwards."""
    if isinstance(value, list):
        return tuple(map(_without_lists, value))
    return {k: _without_lists(v) for k, v in value.items()} if isinstance(value, dict) else value


AuditValue = TypeAliasType("AuditValue", Annotated[Any, _said("AuditValue", None)])
JournalData = TypeAliasType("JournalData", Annotated[_Object, _said("JournalData")])
GivenValue = TypeAliasType("GivenValue", Annotated[Any, _said("GivenValue", None)])
MessageBody = TypeAliasType("MessageBody", Annotated[_Object, _said("MessageBody")])
ModelStatistics = TypeAliasType(
    "ModelStatistics", Annotated[_Object, BeforeValidator(_without_lists), _said("ModelStatistics")]
)
ProgramAnswer = TypeAliasType("ProgramAnswer", Annotated[Any, _said("ProgramAnswer", None)])
SchemaValue = TypeAliasType("SchemaValue", Annotated[Any, _said("SchemaValue", None)])
WindowDetails = TypeAliasType("WindowDetails", Annotated[_Object, _said("WindowDetails")])

#: Names of the files below: not all of their fields are in each.
FILES: Final = frozenset({"PlanBasisFile", "WindowPlanFile", "WindowProblemFile"})
# File formats, whose schemas are those of `magpie schema`. They are answered as they were kept, so that `magpie
# plan` reads them again; a file that an earlier version kept may lack what came later.
WindowProblemFile = TypeAliasType(
    "WindowProblemFile", Annotated[_Object, WithJsonSchema(embedded_schema("window-problem"))]
)
WindowPlanFile = TypeAliasType("WindowPlanFile", Annotated[_Object, WithJsonSchema(embedded_schema("window-plan"))])
PlanBasisFile = TypeAliasType("PlanBasisFile", Annotated[_Object, WithJsonSchema(basis_schema())])
