"""Versions of the cameras' students. Model files of others are edge.appliance.model_files.KnownFiles."""

from __future__ import annotations

from collections.abc import Mapping

from edge.appliance.answers.marks import Document, OfCamera, Shown, answer
from edge.core.configs import Layers
from edge.core.models import VersionOrigin, VersionState


@answer
class ConfigAnswer:
    """A retraining configuration (edge.core.configs.RetrainingConfig). `last_layer_width` 0: the student's own."""

    epochs: Shown[int]
    batch_size: Shown[int]
    layers: Shown[Layers]
    data_fraction: Shown[float]
    learning_rate: Shown[float]
    last_layer_width: Shown[int]


@answer
class VersionAnswer:
    """A version of a camera's student. `spec` is edge.core.configs.StudentSpec as JSON; `frames`: labelled frames that
    it was trained on; `blob_kept` false: retention deleted the weights, the record is left. `retraining`: the
    configuration with the id `config`, null where none of the present settings has it."""

    id: Shown[str]
    camera: OfCamera[str]
    blob: Shown[str]
    spec: Shown[Document]
    parent: Shown[str | None]
    origin: Shown[VersionOrigin]
    window: Shown[int | None]
    config: Shown[str | None]
    retraining: Shown[ConfigAnswer | None]
    scores: Shown[Mapping[str, float]]
    state: Shown[VersionState]
    decided_by: Shown[str]
    reason: Shown[str]
    pinned: Shown[bool]
    created_utc_s: Shown[float]
    frames: Shown[int]
    gpu_seconds: Shown[float]
    blob_kept: Shown[bool]
