"""Model versions and their lineage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from edge.core.configs import StudentSpec

VersionState = Literal["candidate", "promoted", "rejected", "retired", "rolled_back"]
VersionOrigin = Literal["first", "retrained", "sibling", "download"]
#: `config` of versions that no retraining of their own camera made.
SIBLING: Final = "sibling"
DOWNLOAD: Final = "download"


@dataclass(frozen=True)
class ModelVersion:
    """One version of a camera's student. `blob` is the sha256 (hex) of its safetensors file in the model store.

    Lineage: `parent` version id (None for the first), `window` whose data trained it, `config` the retraining
    configuration's id, `scores` (held-out accuracy of itself and of its parent, ...), `decided_by` the author (person
    or part of the appliance) of its present `state`, and `reason` in words.
    """

    id: str
    camera: str
    blob: str
    spec: StudentSpec
    created_utc_s: float
    parent: str | None = None
    window: int | None = None
    config: str | None = None
    scores: dict[str, float] = field(default_factory=dict)
    state: VersionState = "candidate"
    decided_by: str = ""
    reason: str = ""
    pinned: bool = False
    frames: int = 0  # labelled frames it was trained on
    device_seconds: float = 0.0
    blob_kept: bool = True  # False: retention deleted the blob, only the record is left

    @property
    def origin(self) -> VersionOrigin:
        """How it came about: as the camera's first, by a retraining, from a sibling camera, or as the download again
        that a retraining did not beat."""
        if self.config == SIBLING:
            return "sibling"
        if self.config == DOWNLOAD:
            return "download"
        return "first" if self.window is None else "retrained"

    def to_json(self) -> dict[str, Any]:
        out = {k: getattr(self, k) for k in self.__dataclass_fields__ if k != "spec"}
        out["scores"] = dict(self.scores)
        out["spec"] = self.spec.to_json()
        return out

    @staticmethod
    def from_json(value: dict[str, Any]) -> ModelVersion:
        return ModelVersion(**(value | {"spec": StudentSpec.from_json(value["spec"])}))
