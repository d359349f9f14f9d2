"""Questions to admission: would this camera or model fit?"""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from edge.core.fleet_links import MOST_COMING
from edge.settings.base import Identifier, Settings
from edge.settings.cameras import InferenceSettings
from edge.settings.serving import ModelName, ServingPlanning, ServingPolicyName, SplitPolicyName


class ModelCandidate(Settings):
    """A model whose admission is asked: its rate and objective, and its latencies if the appliance has none."""

    name: ModelName
    rate: float = Field(gt=0, le=1e6, description="requests per second")
    slo_ms: float = Field(gt=0, le=3.6e6, description="each request is answered within it")
    priority: int = Field(0, ge=-1000, le=1000, description="lower yields first")
    table: dict[str, Any] | None = Field(None, description="gpulet-device/1 with the model's latencies on this device")


class PipelineAdmission(Settings):
    """An application whose admission is asked: one that is described here, or one that is served, at this rate and
    with this objective."""

    name: ModelName
    description: dict[str, Any] | None = Field(
        None, description="the content of its model.yaml; absent: the application of this name that is served"
    )
    rate: float | None = Field(None, gt=0, le=1e6, description="requests per second; absent: its own, or as measured")
    slo_ms: float | None = Field(None, gt=0, le=3.6e6, description="absent: its own")
    table: dict[str, Any] | None = Field(None, description="gpulet-device/1 with its models' latencies on this device")


class AdmissionCamera(Settings):
    """A camera whose admission is asked."""

    id: Identifier
    like: Identifier | None = Field(None, description="a camera that it will be like; empty: an average one")
    inference: InferenceSettings = InferenceSettings()
    accuracy: float = Field(0.5, ge=0, le=1, description="of its first model, where no other camera tells")


class AdmissionRequest(Settings):
    """Would this fit, and what would it cost the others? A camera, a model or an application; served models planned as
    now, or by another policy."""

    camera: AdmissionCamera | None = None
    model: ModelCandidate | None = None
    pipeline: PipelineAdmission | None = None
    tenant: Identifier | None = Field(
        None, description="the tenant that it would belong to; absent: the one that has it, else the default tenant"
    )
    coming: tuple[AdmissionCamera, ...] = Field(
        (),
        max_length=MOST_COMING,
        description="cameras that are on their way to this box, counted as if they were there",
    )
    policy: ServingPolicyName | None = Field(None, description="plans the answer; absent: the policy in force")
    split: SplitPolicyName | None = Field(None, description="of objectives over stages; absent: the one in force")

    @model_validator(mode="after")
    def _one(self) -> AdmissionRequest:
        if sum(asked is not None for asked in (self.camera, self.model, self.pipeline)) != 1:
            raise ValueError("either a camera, a model or a pipeline")
        return self

    def planning(self, in_force: ServingPlanning) -> ServingPlanning:
        """The settings in force with the policies that are asked for."""
        asked = {"policy": self.policy, "split": self.split}
        return in_force.model_copy(update={key: name for key, name in asked.items() if name is not None})
