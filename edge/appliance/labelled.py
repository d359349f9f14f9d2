"""The teacher's labels of a camera's windows, as REST asks for them."""

from __future__ import annotations

from pathlib import Path

from edge.appliance import labelled_pictures
from edge.appliance.service import Json
from edge.runtime.runtime import Runtime
from edge.store.store import Store


class TeacherLabels:
    """Implements `LabelledService`. Every method blocks."""

    def __init__(self, data: Path, store: Store, runtime: Runtime) -> None:
        self._data, self._store, self._runtime = data, store, runtime

    def disagreements(self, camera: str, limit: int) -> list[Json]:
        """Raises NotFound."""
        self._runtime.camera(camera)
        return labelled_pictures.disagreements(self._data, camera, limit)

    def picture(self, camera: str, window: int, frame: int) -> bytes:
        """Raises NotFound."""
        self._runtime.camera(camera)
        return labelled_pictures.picture(self._data, camera, window, frame)

    def classes(self, camera: str, windows: int) -> list[Json]:
        """Raises NotFound."""
        self._runtime.camera(camera)
        found = labelled_pictures.classes(self._data, camera, windows)
        if not found:
            return found
        starts = {w.id: w.start_utc_s for w in self._store.windows(windows + 1, before=found[0]["window"] + 1)}
        return [f | {"start_utc_s": starts.get(f["window"], f["start_utc_s"])} for f in found]
