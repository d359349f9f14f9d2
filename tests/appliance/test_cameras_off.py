"""Cameras that are switched off: the journal says so once, wherever they came from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from edge.appliance.cameras import Cameras
from edge.appliance.first_models import ModelChoice
from edge.core.clock import ManualClock
from edge.settings import CameraSettings, SiteSettings, parse

OFF = {"id": "gate", "url": "rtsp://192.0.2.1/a", "classes": ["car"], "enabled": False}


class Box(Cameras):
    """Cameras whose first models and workers are not made."""

    def __init__(self, folder: Path) -> None:
        self.noted: list[str] = []
        self.there: dict[str, Any] = {}

        async def remove(camera: str) -> None:
            del self.there[camera]

        def nothing(*_: Any, **__: Any) -> None:
            pass

        runtime: Any = SimpleNamespace(
            cameras=self.there, camera=lambda name: self.there[name], camera_workers=SimpleNamespace(remove=remove)
        )
        store: Any = SimpleNamespace(settings=SimpleNamespace(put_camera=nothing))
        control: Any = SimpleNamespace(may_name=nothing, may_show=nothing, secrets_file=folder / "secrets")
        live: Any = SimpleNamespace(ask_workers=nothing)
        teacher: Any = SimpleNamespace(check=nothing)
        site = parse(SiteSettings, {"data_dir": str(folder)})
        super().__init__(
            site, store, ManualClock(), runtime, control, teacher, live, self._noted, nothing, nothing, nothing
        )
        models: Any = SimpleNamespace(choose=self._choose, kept=self._choose)
        self._models = models

    async def _choose(self, settings: CameraSettings, lost: bool = False, anew: bool = False) -> ModelChoice:
        return ModelChoice(None)

    def _noted(self, kind: str, camera: str | None = None, window: int | None = None, data: Any = None) -> None:
        self.noted.append(kind)

    async def _take_in(self, settings: CameraSettings, choice: ModelChoice) -> None:
        self.there[settings.id] = SimpleNamespace(settings=settings)

    def one(self, camera: str) -> Any:
        return self.there[camera].settings


async def test_a_camera_that_is_off_is_reported_as_stopped_when_it_comes_and_once_when_it_is_switched_off(
    tmp_path: Path,
) -> None:
    box = Box(tmp_path)
    await box.add(OFF, "ann")
    assert box.noted == ["camera.stopped", "camera.added"]
    box.noted.clear()
    await box.change("gate", {"url": "rtsp://192.0.2.1/b"}, "ann")
    await box.change("gate", {"enabled": True}, "ann")
    assert box.noted == ["camera.changed", "camera.changed"]
    box.noted.clear()
    await box.change("gate", {"enabled": False}, "ann")
    assert box.noted == ["camera.stopped", "camera.changed"]
    box.noted.clear()
    await box.begin(parse(CameraSettings, OFF | {"id": "yard"}))
    await box.begin(parse(CameraSettings, OFF | {"id": "road", "enabled": True}))
    assert box.noted == ["camera.stopped"], "of a site file, at every start"
