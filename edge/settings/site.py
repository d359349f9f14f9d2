"""Settings of the whole appliance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from edge.core.errors import InvalidValue
from edge.settings.base import FieldProblem, Identifier, Settings
from edge.settings.cameras import CameraSettings
from edge.settings.clips import ClipSettings
from edge.settings.fleet import FleetSettings
from edge.settings.machine import MachineSettings, in_section, place_written
from edge.settings.outputs import OutputsSettings
from edge.settings.retraining import RetrainingSettings
from edge.settings.rules import DEFAULT_RULES, RuleSettings
from edge.settings.serving import ServingSettings
from edge.settings.storage import DailyReportSettings, RecordingSettings, RetentionSettings
from edge.settings.tenants import SharingSettings, TenantSettings, check_together
from edge.settings.web import WebSettings


class SiteSettings(Settings):
    """The whole appliance."""

    site: Identifier = "site"
    data_dir: str = Field("data", min_length=1)
    database_url: str = Field("", description="empty: SQLite in data_dir; else postgresql+psycopg://...")
    teacher: str = Field(
        "", description="the golden model: a shipped name (traffic_ensemble) or a YAML file; empty: the demo's own"
    )
    student: str = Field(
        "",
        description="the first model of cameras: a shipped name (yolox_nano) or a YAML file; empty: the demo's own",
    )
    demo: bool = Field(False, description="the demo's drawn streets: there the demo's own models are right")
    machine: MachineSettings = MachineSettings()
    web: WebSettings = WebSettings()
    retraining: RetrainingSettings = RetrainingSettings()
    recording: RecordingSettings = RecordingSettings()
    retention: RetentionSettings = RetentionSettings()
    clips: ClipSettings = ClipSettings()
    daily_report: DailyReportSettings | None = Field(None, description="of counts; empty: none is made by itself")
    serving: ServingSettings | None = None
    rules: tuple[RuleSettings, ...] = Field(DEFAULT_RULES, max_length=200, description="when to raise alarms")
    outputs: OutputsSettings = OutputsSettings()
    cameras: tuple[CameraSettings, ...] = ()
    tenants: tuple[TenantSettings, ...] = Field(
        (), max_length=50, description="groups of served models, or of cameras, that share the box by goals"
    )
    sharing: SharingSettings = SharingSettings()
    fleet: FleetSettings | None = Field(None, description="this box as one of several that know each other")

    @model_validator(mode="before")
    @classmethod
    def _old_keys(cls, value: Any) -> Any:
        return in_section(value)

    @classmethod
    def place_written(cls, value: Any, place: tuple[int | str, ...]) -> tuple[int | str, ...]:
        return place_written(value, place)

    @model_validator(mode="after")
    def _distinct_cameras(self) -> SiteSettings:
        ids = [c.id for c in self.cameras]
        for number, camera in enumerate(ids):
            if ids.index(camera) != number:
                raise FieldProblem(f"cameras[{number}].id", f"{camera!r} is there twice; each id once")
        rules = [r.id for r in self.rules]
        for number, rule in enumerate(rules):
            if rules.index(rule) != number:
                raise FieldProblem(f"rules[{number}].id", f"{rule!r} is there twice; each id once")
        return self

    @model_validator(mode="after")
    def _clips_fit_into_the_ring(self) -> SiteSettings:
        for number, camera in enumerate(self.cameras):
            try:
                camera.clips.span(self.clips)
            except InvalidValue as error:
                raise FieldProblem(
                    f"cameras[{number}].{error.path}", f"{error.allowed} (here: {error.given})"
                ) from None
        return self

    @model_validator(mode="after")
    def _certificate_for_serving(self) -> SiteSettings:
        if self.serving is not None and self.serving.tls and self.web.tls is None:
            raise FieldProblem("serving.tls", "only with web.tls, which names the certificate and its key")
        return self

    @model_validator(mode="after")
    def _agent_reaches_the_appliance(self) -> SiteSettings:
        if self.fleet is not None:
            if self.web.access.enabled and not self.fleet.token:
                raise FieldProblem("fleet.token", "env:NAME or file:/path with an admin's API token of this appliance")
            if self.web.port == 0:
                raise FieldProblem("web.port", "a port of its own with fleet, whose agent asks there")
        return self

    @model_validator(mode="after")
    def _tenants_fit(self) -> SiteSettings:
        check_together(self.tenants)
        if self.serving is None:
            for number, tenant in enumerate(self.tenants):
                if tenant.models or tenant.applications:
                    raise FieldProblem(f"tenants[{number}].models", "cameras only: without serving: no model is served")
        return self

    def database(self) -> str:
        """The database URL with the default filled in."""
        return self.database_url or f"sqlite:///{Path(self.data_dir).absolute() / 'magpie.db'}"


def site_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of the site configuration. Rules about several fields are checked on reading."""
    schema = SiteSettings.model_json_schema()
    # Old keys are still taken; an editor marks them.
    for name in MachineSettings.model_fields:
        where = {"$ref": f"#/$defs/MachineSettings/properties/{name}"}
        schema["properties"][name] = where | {"deprecated": True, "description": f"write it as machine.{name}"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema | {"title": "Magpie site configuration"}
