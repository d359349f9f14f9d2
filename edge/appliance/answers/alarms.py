"""Alarms and the objects that were followed. Rules are edge.settings.RuleSettings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from edge.appliance.answers.marks import BoxAnswer, Document, OfCamera, Shown, answer
from edge.core.alarms import RuleKind, Severity


@answer
class AlarmAnswer:
    """An alarm; `ended_utc_s` null: it goes on. `value`: the quantity that the rule checks; `object`: an
    object's id."""

    id: Shown[int]
    rule: Shown[str]
    rule_name: Shown[str]
    kind: Shown[RuleKind]
    severity: Shown[Severity]
    camera: OfCamera[str | None]
    phase: Shown[Literal["new", "update", "end"]]
    began_utc_s: Shown[float]
    ended_utc_s: Shown[float | None]
    message: Shown[str]
    value: Shown[float | None]
    object: Shown[int | None]
    acknowledged_by: Shown[str | None]
    acknowledged_utc_s: Shown[float | None]
    picture: Shown[bool]
    details: Shown[Document]


@answer
class ObjectAnswer:
    """An object that was followed; `ended_utc_s` null: it is there. `dwell_s`: longest stay in a zone or in view."""

    id: Shown[int]
    camera: OfCamera[str]
    class_: Annotated[Shown[str], Field(alias="class")]
    began_utc_s: Shown[float]
    ended_utc_s: Shown[float | None]
    score: Shown[float]
    box: Shown[BoxAnswer]
    zones: Shown[tuple[str, ...]]
    zone_dwell_s: Shown[Mapping[str, float]]
    dwell_s: Shown[float]
    picture: Shown[bool]
