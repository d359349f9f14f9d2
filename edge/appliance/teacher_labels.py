"""The teacher's labels of a camera's windows, as REST asks for them."""

from __future__ import annotations

from pathlib import Path

from edge.appliance import labelled_pictures
from edge.appliance.answers.pictures import DisagreementAnswer, WindowClasses
from edge.appliance.answers.read import read
from edge.runtime.runtime import Runtime
from edge.store.windows import WindowsPart


class TeacherLabels:
    """Implements `LabelledService`. Every method blocks."""

    def __init__(self, data: Path, windows: WindowsPart, runtime: Runtime) -> None:
        self._data, self._windows, self._runtime = data, windows, runtime

    def disagreements(self, camera: str, limit: int) -> list[DisagreementAnswer]:
        """Raises NotFound."""
        self._runtime.camera(camera)
        return read(list[DisagreementAnswer], labelled_pictures.disagreements(self._data, camera, limit))

    def picture(self, camera: str, window: int, frame: int) -> bytes:
        """Raises NotFound."""
        self._runtime.camera(camera)
        return labelled_pictures.picture(self._data, camera, window, frame)

    def classes(self, camera: str, windows: int) -> list[WindowClasses]:
        """Raises NotFound."""
        self._runtime.camera(camera)
        found = labelled_pictures.classes(self._data, camera, windows)
        if not found:
            return []
        starts = {w.id: w.start_utc_s for w in self._windows.newest(windows + 1, before=found[0]["window"] + 1)}
        return [read(WindowClasses, f | {"start_utc_s": starts.get(f["window"], f["start_utc_s"])}) for f in found]
