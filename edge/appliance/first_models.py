"""The model that a camera begins with: made before anything of the camera is changed, so that what cannot be made
harms nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge.appliance.camera_memory import forget
from edge.core.clock import Clock
from edge.core.configs import StudentSpec
from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.core.models import ModelVersion
from edge.models.descriptions import described
from edge.models.missing import require_models
from edge.runtime.students import first_student, student_of
from edge.settings import CameraSettings, SiteSettings
from edge.store.store import Store

_FIRST_MODEL: Final = "first model"


@dataclass(frozen=True)
class _MadeStudent:
    """A student that was written to `path`; `words` say what it started from."""

    path: Path
    spec: StudentSpec
    words: str


@dataclass(frozen=True)
class ModelChoice:
    """The version that stays in force (`stays`); None: the last of `made` takes its place, each made from the one
    before it: the download, and weights that were given for it. `before`: the version that it replaces."""

    stays: ModelVersion | None
    made: tuple[_MadeStudent, ...] = ()
    before: ModelVersion | None = None


class FirstModels:
    """Of a site's cameras. `limit_bytes`: the memory of a process that makes one."""

    def __init__(self, site: SiteSettings, store: Store, clock: Clock, limit_bytes: int) -> None:
        self._site, self._store, self._clock, self._limit_bytes = site, store, clock, limit_bytes
        self._data = Path(site.data_dir)

    async def choose(self, settings: CameraSettings, *, lost: bool = False, anew: bool = False) -> ModelChoice:
        """The model for these settings; a new one is made where the camera has none (or its last is `lost`), or its
        student is another, or `anew`. Only files of its own are written. Raises WeightsError, LicenceRefused,
        InvalidValue, LabelError, MemoryLimitExceeded, Unavailable, StoreError, Conflict (the one there is pinned)."""
        before = await asyncio.to_thread(self._store.versions.promoted, settings.id)
        spec, detector = await asyncio.to_thread(student_of, settings, self._site.student, self._limit_bytes)
        if before is not None and before.spec == spec and not (anew or lost):
            return ModelChoice(before)
        if before is not None and before.pinned and not lost:
            raise Conflict(f"the model {before.id} of {settings.id} is pinned", "unpin it before its student changes")
        await asyncio.to_thread(self._allowed, settings)
        student, wanted = settings.student, [(settings, "first")]
        if student.weights and detector is not None:
            download = settings.model_copy(update={"student": student.model_copy(update={"weights": ""})})
            wanted.insert(0, (download, "download"))
        made = await asyncio.gather(*(self._make(one, name) for one, name in wanted))
        return ModelChoice(None, tuple(made), None if lost else before)

    async def kept(self, settings: CameraSettings) -> ModelChoice | None:
        """The version in force, where the student that the settings name cannot be read; None: there is none, or it is
        for other classes. Raises StoreError."""
        found = await asyncio.to_thread(self._store.versions.promoted, settings.id)
        return ModelChoice(found) if found is not None and found.spec.classes == settings.classes else None

    async def put_in_force(self, camera: str, choice: ModelChoice) -> ModelVersion:
        """The version of a choice, in force. Where it replaces another student all that was learned of that is
        forgotten. The camera's worker is not there. Raises StoreError, Conflict."""
        if choice.stays is not None:
            # A retraining may have ended while the worker was asked to.
            now = await asyncio.to_thread(self._store.versions.promoted, camera)
            return now if now is not None and now.spec == choice.stays.spec else choice.stays
        if choice.before is not None:
            other = choice.before.spec.classes != choice.made[-1].spec.classes
            await asyncio.to_thread(forget, self._store, self._data, camera, other)
        return await asyncio.to_thread(self._promoted, camera, choice.made)

    def _promoted(self, camera: str, all_made: Sequence[_MadeStudent]) -> ModelVersion:
        added: list[ModelVersion] = []
        for made in all_made:
            now = self._clock.utc()
            candidate = ModelVersion(
                self._free_name(f"{camera}-first-{int(now)}"), camera, "", made.spec, now,
                parent=added[-1].id if added else None, decided_by=_FIRST_MODEL, reason=made.words,
            )  # fmt: skip
            added.append(self._store.add_model(candidate, made.path))
            made.path.unlink(missing_ok=True)
        return [self._store.versions.promote(one.id, _FIRST_MODEL, one.reason) for one in added][-1]

    def _free_name(self, name: str) -> str:
        """A name that no version has: a camera may begin anew twice in a second."""
        for number in itertools.count():
            free = f"{name}-{number}" if number else name
            try:
                self._store.versions.version(free)
            except NotFound:
                return free
        raise AssertionError("unreachable")

    async def _make(self, settings: CameraSettings, name: str) -> _MadeStudent:
        path = self._data / "jobs" / f"{name}-{settings.id}.safetensors"
        spec, words = await asyncio.to_thread(first_student, settings, self._site.student, path, self._limit_bytes)
        return _MadeStudent(path, spec, words)

    def _allowed(self, settings: CameraSettings) -> None:
        """Its files are here and may be used, wherever the camera came from."""
        if settings.student.model:
            # A description that cannot be read is told with the name of the setting (`student_of`).
            with contextlib.suppress(InvalidValue):
                require_models([described(settings.student.model, "student")])
