"""A search of the network for cameras, as it is asked for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from edge.settings.base import FieldProblem, SecretReference, Settings
from edge.settings.cameras import StudentSettings, check_student


class CameraSearch(Settings):
    """Where to search, how to log in to what is found, and for which student and at which rate its streams are wanted.
    `student`, `task` and `shape` as in the settings of the camera that is to be added."""

    addresses: tuple[Annotated[str, Field(min_length=1, max_length=300)], ...] = Field(
        (), max_length=64, description="host, host:port or http://host:port/path of devices; empty: ask the network"
    )
    network: str = Field(
        "", max_length=50, description="10.0.0.0/24; empty: every network of this machine; not with addresses"
    )
    username: str = Field("", max_length=200, description="empty: devices are asked without logging in")
    password_from: SecretReference = Field(
        "", description="env:NAME, file:/path[#key] or secret:NAME; not without a username"
    )
    fps: float = Field(5.0, gt=0, le=60, description="pictures a second that are wanted")
    task: Literal["detection", "classification"] = "detection"
    student: StudentSettings = StudentSettings()
    shape: Literal["camera", "model"] = Field(
        "camera", description="proportions of the student's input: the camera's, or those that it was published with"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> CameraSearch:
        if self.addresses and self.network:
            raise FieldProblem("network", "empty where addresses are given: these are asked alone")
        if self.password_from and not self.username:
            raise FieldProblem("password_from", "empty where no username is given")
        check_student(self.student, self.task)
        return self
