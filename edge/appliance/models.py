"""Versions of the cameras' students: listed, pinned, rolled back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edge.appliance.answers.models import VersionAnswer
from edge.appliance.answers.read import read
from edge.core.configs import RetrainingConfig
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
        return self._listed(self._store.versions.newest(camera))

    def lineage(self, version: str) -> list[VersionAnswer]:
        """Raises NotFound, UnreadableRecord."""
        return self._listed(self._store.versions.readable_lineage(version))

    def _listed(self, found: Sequence[ModelVersion]) -> list[VersionAnswer]:
        known = self._known()
        unreadable = self._store.database.unreadable
        return unreadable.readable("model version", found, lambda v: _answer(v, known), lambda v: v.id)

    def _known(self) -> dict[str, RetrainingConfig]:
        """The retraining configurations of the present settings by id."""
        settings = self._runtime.window.settings
        return {c.id: c for published in (True, False) for c in settings.configs(published)}

    async def pin(self, version: str, pinned: bool, by: str) -> VersionAnswer:
        """Raises NotFound, Conflict."""
        return _answer(await self._runtime.students.versions.pin(version, pinned, by), self._known())

    async def roll_back(self, camera: str, version: str | None, by: str, reason: str) -> VersionAnswer:
        """Raises NotFound, Conflict."""
        found = self._runtime.camera(camera)
        put = await self._runtime.students.versions.roll_back(found, version, by, RollBackReason.asked(reason))
        return _answer(put, self._known())


def _answer(version: ModelVersion, known: Mapping[str, RetrainingConfig]) -> VersionAnswer:
    config = known.get(version.config or "")
    more = {"origin": version.origin, "retraining": None if config is None else config.to_json()}
    return read(VersionAnswer, version.to_json() | more)
