"""Alarms and the objects that were followed. Rules are edge.settings.RuleSettings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from edge.appliance.answers.marks import BoxAnswer, OfCamera, OfCameras, OfTenant, Shown, answer, kept
from edge.core.alarms import RuleKind, Severity


@kept
class ObjectDetails:
    """Of an "object" alarm: the object's class, the zones of the rule that it is in, and its score."""

    class_: Annotated[Shown[str], Field(alias="class")]
    zones: Shown[tuple[str, ...]]
    score: Shown[float]


@kept
class AccuracyDetails:
    """Of an "accuracy" alarm: the window that was measured."""

    window: Shown[int]


@kept
class RollBackDetails:
    """Of a "roll_back" alarm: the version that is in force again."""

    version: Shown[str]


@kept
class ServedDetails:
    """Of an "slo" alarm: the served model or application, its tenant (null: of none), and the camera that asks it, if
    one does."""

    model: Shown[str]
    tenant: OfTenant[str | None] = None
    cameras: OfCameras[tuple[str, ...]] = ()


@kept
class TenantDetails:
    """Of a "tenant" alarm: the tenant, and its cameras."""

    tenant: OfTenant[str]
    cameras: OfCameras[tuple[str, ...]] = ()


@kept
class CrowdDetails:
    """Of a "crowd" alarm: the zone ("": the picture), and the objects in it when the alarm began."""

    zone: Shown[str]
    objects: Shown[int]


@kept
class MovementDetails:
    """Of a "movement" alarm: the object's class, and the zones that it came from and went to."""

    class_: Annotated[Shown[str], Field(alias="class")]
    from_zone: Shown[str]
    to_zone: Shown[str]


@kept
class UnusualDetails:
    """Of an "unusual" alarm: the line and direction, the objects in the hour that began at `start_utc_s`, and what is
    usual by `weeks` past weeks: the median, and the range that is not far from it."""

    name: Shown[str]
    way: Shown[str]
    objects: Shown[int]
    usual: Shown[float]
    low: Shown[float]
    high: Shown[float]
    weeks: Shown[int]
    start_utc_s: Shown[int]


@kept
class NoDetails:
    """Of a "camera_lost", "disk" or "stranger" alarm."""


#: Of a record the first that can be read; nothing is known of what an earlier version kept otherwise.
AlarmDetails = Annotated[
    ObjectDetails
    | AccuracyDetails
    | RollBackDetails
    | ServedDetails
    | TenantDetails
    | UnusualDetails
    | MovementDetails
    | CrowdDetails
    | NoDetails,
    Field(union_mode="left_to_right"),
]


@answer
class AlarmAnswer:
    """An alarm; `ended_utc_s` null: it goes on. `value`: the quantity that the rule checks; `object`: an
    object's id; `details` by the rule's kind."""

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
    details: Shown[AlarmDetails]


@answer
class AttributeAnswer:
    """The value of an object's attribute: a label with its `score` (0-1), or a number (`score` null); from so many
    `answers` of the application."""

    value: Shown[str | float]
    score: Shown[float | None]
    answers: Shown[int]


@answer
class ObjectAnswer:
    """An object that was followed; `ended_utc_s` null: it is there. `dwell_s`: longest stay in a zone or in view.
    `attributes` by name, from applications that its camera feeds."""

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
    attributes: Shown[Mapping[str, AttributeAnswer]]
    picture: Shown[bool]
