"""Versions of the cameras' students: listed, pinned, rolled back."""

from __future__ import annotations

from collections.abc import Sequence

from edge.appliance.answers.models import VersionAnswer
from edge.appliance.answers.read import read
from edge.appliance.answers.stored import listed
from edge.core.models import ModelVersion
from edge.core.roll_backs import RollBackReason
from edge.runtime.runtime import Runtime
from edge.store.store import Store


class Models:
    """Implements `ModelsService`. `versions` and `lineage` block."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store, self._runtime = store, runtime

    def versions(self, camera: str) -> list[VersionAnswer]:
        """Raises NotFound."""
        self._runtime.camera(camera)
        return self._listed(self._store.versions(camera))

    def lineage(self, version: str) -> list[VersionAnswer]:
        """Raises NotFound, UnreadableRecord."""
        return self._listed(self._store.readable_lineage(version))

    def _listed(self, found: Sequence[ModelVersion]) -> list[VersionAnswer]:
        return listed(self._store.database.unreadable, "model version", VersionAnswer, found, lambda v: v.id)

    async def pin(self, version: str, pinned: bool, by: str) -> VersionAnswer:
        """Raises NotFound, Conflict."""
        return read(VersionAnswer, (await self._runtime.students.versions.pin(version, pinned, by)).to_json())

    async def roll_back(self, camera: str, version: str | None, by: str, reason: str) -> VersionAnswer:
        """Raises NotFound, Conflict."""
        found = self._runtime.camera(camera)
        put = await self._runtime.students.versions.roll_back(found, version, by, RollBackReason.asked(reason))
        return read(VersionAnswer, put.to_json())
