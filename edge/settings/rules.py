"""Settings of rules that raise alarms."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from edge.core.alarms import Rule, RuleKind, Severity
from edge.settings.base import FieldProblem, Identifier, QuietHours, Settings


class RuleSettings(Settings):
    """When to raise an alarm: changeable by REST at run time, in force at once."""

    id: Identifier
    name: str = Field("", max_length=120, description="for people; empty: the id")
    kind: RuleKind
    enabled: bool = True
    cameras: tuple[Identifier, ...] = Field((), max_length=1000, description="empty: all")
    classes: tuple[Annotated[str, Field(min_length=1, max_length=60)], ...] = Field(
        (), max_length=200, description="object, crowd, movement, unusual: of these classes; empty: all"
    )
    zones: tuple[Identifier, ...] = Field(
        (),
        max_length=100,
        description="object, crowd: in one of these zones; empty: anywhere in the picture; movement: to one of them",
    )
    from_zones: tuple[Identifier, ...] = Field(
        (), max_length=100, description="movement: from one of these zones; empty: from any"
    )
    lines: tuple[Identifier, ...] = Field((), max_length=100, description="unusual: over these lines; empty: all")
    above: int | None = Field(None, ge=0, le=10_000, description="crowd: more objects than that at once (required)")
    factor: float | None = Field(
        None, ge=1, le=100, description="unusual: so many spreads away from what is usual (empty: 4)"
    )
    dwell_s: float = Field(0.0, ge=0, le=86400, description="object: there for so long")
    below: float | None = Field(
        None, ge=0, le=1,
        description="accuracy: of a window (required); disk: free part (empty: 0.05); "
        "slo: part of requests within their objective (empty: 0.95)",
    )  # fmt: skip
    after_s: float | None = Field(
        None, ge=0, le=86400, description="camera_lost, crowd (empty: 60), slo (empty: 10): it must be so for so long"
    )
    clip: bool = Field(False, description="object, crowd, movement: keep a clip of each alarm")
    severity: Severity = "warning"
    quiet_hours: QuietHours = Field(
        (), max_length=24, description="HH:MM-HH:MM in the box's time zone: no new alarm then"
    )
    min_interval_s: float = Field(
        0.0, ge=0, le=604800, description="no new alarm of this rule and camera sooner after the one before"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> RuleSettings:
        if self.kind == "accuracy" and self.below is None:
            raise FieldProblem("below", "a number from 0 to 1: alarms when a window's accuracy is below it")
        if self.kind == "crowd" and self.above is None:
            raise FieldProblem("above", "a number from 0: alarms when more objects than that are there")
        if self.kind == "movement" and not (self.zones or self.from_zones):
            raise FieldProblem("zones", "zones, from_zones, or both: alarms at a movement between them")
        used = {
            "cameras": ("object", "accuracy", "camera_lost", "roll_back", "crowd", "movement", "unusual"),
            "classes": ("object", "crowd", "movement", "unusual"),
            "zones": ("object", "crowd", "movement"),
            "from_zones": ("movement",),
            "lines": ("unusual",),
            "factor": ("unusual",),
            "dwell_s": ("object",),
            "clip": ("object", "crowd", "movement"),
            "below": ("accuracy", "disk", "slo"),
            "after_s": ("camera_lost", "slo", "crowd"),
            "above": ("crowd",),
        }
        for name, kinds in used.items():
            if getattr(self, name) != type(self).model_fields[name].default and self.kind not in kinds:
                raise FieldProblem(name, f"only with kind {', '.join(kinds)}")
        return self

    def rule(self) -> Rule:
        """As decisions take it."""
        return Rule(**self.model_dump())


DEFAULT_RULES = (
    RuleSettings(id="camera-lost", name="Camera lost", kind="camera_lost", severity="critical"),
    RuleSettings(id="disk-low", name="Disk nearly full", kind="disk", severity="critical"),
    RuleSettings(id="model-rolled-back", name="Model rolled back", kind="roll_back", severity="warning"),
    RuleSettings(id="tenant-goal-missed", name="A tenant's goal is missed", kind="tenant", severity="warning"),
    RuleSettings(id="fleet-stranger", name="A stranger at the fleet", kind="stranger", severity="warning"),
)
