"""Small bodies that belong to the transport; everything else is checked by the models of edge.settings."""

from __future__ import annotations

from typing import Any, Final, get_args

from pydantic import Field, field_validator

from edge.core.capacity import LEAST_WINDOWS, ChangeKind
from edge.core.fleet_job_file import MOST_TASKS
from edge.settings import (
    AdmissionRequest,
    CameraSearch,
    CameraSettings,
    Identifier,
    MqttSettings,
    RetrainingSettings,
    RuleSettings,
    ServingPlanning,
    Settings,
    SharingSettings,
    TenantSettings,
    WebhookSettings,
)
from edge.settings.tenants import SharingPolicyName
from web import access_bodies, fleet_bodies, truth_bodies


class RollBack(Settings):
    """Which version to put in force again."""

    version: str | None = Field(None, min_length=1, max_length=200, description="empty: the parent of the one in force")
    reason: str = Field("", max_length=500, description="kept with the decision")


class LiveRequest(Settings):
    """The wishes of a live socket."""

    cameras: tuple[Identifier, ...] = Field((), max_length=256, description="none: all")
    fps: float = Field(4.0, gt=0, le=15, description="pictures a second and camera, at most")


#: The policies that the retraining settings know.
POLICIES: Final[tuple[str, ...]] = get_args(RetrainingSettings.model_fields["policy"].annotation)


class WhatIf(Settings):
    """Which policy to ask."""

    policy: str = Field(json_schema_extra={"enum": list(POLICIES)})

    @field_validator("policy")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in POLICIES:
            raise ValueError("one of " + ", ".join(POLICIES))
        return value


class AskedSharing(Settings):
    """Which policy to ask about the recorded day."""

    policy: SharingPolicyName


class AskedCapacity(Settings):
    """Which change to forecast."""

    kind: ChangeKind
    factor: float | None = Field(
        None, ge=0.25, le=8.0, description="of frame_rate (2) and device (2; 0.5: half of it), empty: the number here"
    )
    camera: Identifier | None = Field(
        None, description="of camera: the one that it is like; of frame_rate: the only one; empty: chosen, and all"
    )
    windows: int = Field(48, ge=LEAST_WINDOWS, le=200, description="the newest closed windows, at most so many")


def _job_schema() -> dict[str, Any]:
    """A fleet's job as it is submitted (docs/fleet.md); names that stand for something are checked on reading."""
    text, names = {"type": "string"}, {"type": "array", "items": {"type": "string", "minLength": 1}}
    amounts = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}}
    avoid = {
        "type": "object", "properties": {"group": text, "per": text}, "required": ["group"],
        "additionalProperties": False,
    }  # fmt: skip
    rule = {"near": names, "zone": {"type": "object", "additionalProperties": names}, "avoid": avoid}
    work = {
        "type": "object", "properties": {"program": text, "arguments": {"type": "object"}}, "required": ["program"],
        "additionalProperties": False,
    }  # fmt: skip
    choice = {"type": "object", "properties": rule, "additionalProperties": False}
    fields = {
        "id": text, "tasks": {"type": "integer", "minimum": 1, "maximum": MOST_TASKS}, "demand": amounts,
        "duration_s": {"type": ["number", "null"], "minimum": 0}, "tenant": {"type": ["string", "null"]},
        "queue": {"type": ["string", "null"]}, "priority": {"type": "number"}, "gang": {"type": "boolean"},
        "after": names, **rule, "prefer": {"type": "array", "items": choice},
        "relax_after_s": {"type": "number", "minimum": 0}, "overlap": {"enum": ["never", "allowed"]},
        "checkpoints": {"type": "boolean"}, "offers": amounts, "work": work,
    }  # fmt: skip
    return {
        "type": "object", "title": "FleetJobBody", "properties": fields, "required": ["id", "demand", "duration_s"],
        "additionalProperties": False,
    }  # fmt: skip


def schemas() -> dict[str, Any]:
    """JSON schemas of the bodies for OpenAPI, with everything that they refer to."""
    found: dict[str, Any] = {}
    models: tuple[type[Settings], ...] = (
        CameraSettings,
        CameraSearch,
        RetrainingSettings,
        RollBack,
        WhatIf,
        LiveRequest,
        ServingPlanning,
        AdmissionRequest,
        RuleSettings,
        MqttSettings,
        WebhookSettings,
        TenantSettings,
        SharingSettings,
        AskedCapacity,
        AskedSharing,
    )
    for model in (*models, *access_bodies.ALL, *truth_bodies.ALL, *fleet_bodies.ALL):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        found |= schema.pop("$defs", {})
        found[model.__name__] = schema
    for name, of in (
        ("Camera", "CameraSettings"),
        ("Retraining", "RetrainingSettings"),
        ("Serving", "ServingPlanning"),
        ("Rule", "RuleSettings"),
        ("Mqtt", "MqttSettings"),
        ("Webhook", "WebhookSettings"),
        ("Tenant", "TenantSettings"),
        ("Sharing", "SharingSettings"),
    ):
        full = found[of]
        patch = {k: v for k, v in full.items() if k != "required"}
        patch |= {"title": f"{name}Patch", "description": f"Any of the fields of {of}; the others stay."}
        found[f"{name}Patch"] = patch
    found["FleetJobBody"] = _job_schema()
    return found
