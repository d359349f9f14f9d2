"""Versions of the cameras' students. Model files of others are edge.appliance.model_files.KnownFiles."""

from __future__ import annotations

from collections.abc import Mapping

from edge.appliance.answers.marks import Document, OfCamera, Shown, answer
from edge.core.models import VersionState


@answer
class VersionAnswer:
    """A version of a camera's student. `spec` is edge.core.configs.StudentSpec as JSON; `frames`: labelled frames that
    it was trained on; `blob_kept` false: retention deleted the weights, the record is left."""

    id: Shown[str]
    camera: OfCamera[str]
    blob: Shown[str]
    spec: Shown[Document]
    parent: Shown[str | None]
    window: Shown[int | None]
    config: Shown[str | None]
    scores: Shown[Mapping[str, float]]
    state: Shown[VersionState]
    decided_by: Shown[str]
    reason: Shown[str]
    pinned: Shown[bool]
    created_utc_s: Shown[float]
    frames: Shown[int]
    gpu_seconds: Shown[float]
    blob_kept: Shown[bool]
