"""Outputs as an appliance joins them, over a site that is a few values instead of cameras and workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from edge.appliance.answers.outputs import OutputState
from edge.appliance.answers.read import plain
from edge.appliance.outputs import Outputs, OutputsContext
from edge.core.camera import CameraState
from edge.core.clock import SystemClock
from edge.core.errors import InvalidValue, NotFound
from edge.core.retry_pace import RetryPace
from edge.ingest.secrets import check_named
from edge.outputs.topics import CameraSnapshot, Snapshot
from edge.settings import OutputsSettings, parse
from edge.store.store import Store

#: Pauses between tries are short, so that tests need not be long.
PACE = RetryPace(0.02, 0.1)


@dataclass
class FakeSite:
    """An appliance as outputs see it."""

    cameras: dict[str, CameraState] = field(default_factory=lambda: {"north": "live", "south": "live"})
    accuracy: float | None = 0.6
    retraining: dict[str, bool] = field(default_factory=lambda: {"north": True, "south": True})
    secrets: dict[str, str] = field(default_factory=dict)
    notes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    switched: list[tuple[str, bool, str]] = field(default_factory=list)

    def snapshot(self) -> Snapshot:
        cameras = tuple(
            CameraSnapshot(c, c.title(), state, f"{c}-v1", self.accuracy, 0.7, self.retraining.get(c, False))
            for c, state in self.cameras.items()
        )
        return Snapshot("depot", "1.2", True, (), "relay", 3, "planned", 0, cameras)

    def note(self, kind: str, camera: str | None, data: dict[str, Any]) -> None:
        self.notes.append((kind, data))

    async def switch(self, camera: str, on: bool, by: str) -> None:
        if camera not in self.cameras:
            raise NotFound(f"camera {camera} does not exist")
        self.switched.append((camera, on, by))
        self.retraining[camera] = on

    def secret(self, reference: str, path: str) -> str:
        if not reference:
            return ""
        if reference not in self.secrets:
            raise InvalidValue(path, reference, "a secret that the appliance keeps")
        return self.secrets[reference]

    def may_name(self, reference: str, before: str, path: str) -> None:
        check_named(reference, before, ("secret:",), path)

    def kinds(self, kind: str) -> list[dict[str, Any]]:
        """Data of the journal entries of a kind."""
        return [data for name, data in self.notes if name == kind]


class Joined:
    """Use as `async with Joined(...)`; `outputs` is what is tested."""

    def __init__(self, outputs: dict[str, Any], store: Store, site: FakeSite, box: str = "", **more: Any) -> None:
        self.site = site
        context = OutputsContext(
            "depot", "1.2", site.snapshot, site.note, site.switch, site.secret, site.may_name, box
        )  # fmt: skip
        self.outputs = Outputs(parse(OutputsSettings, outputs), store, SystemClock(), context, PACE, PACE, **more)

    async def __aenter__(self) -> Joined:
        await self.outputs.open()
        self.outputs.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.outputs.close()

    def state(self, destination: str = "mqtt") -> dict[str, Any]:
        """State of the broker, or of a webhook."""
        shown = self.outputs.outputs()
        found = shown.mqtt if destination == "mqtt" else next(w for w in shown.webhooks if w.id == destination)
        assert found is not None
        state: dict[str, Any] = plain(OutputState, found.state)
        return state


#: Opens outputs for a test: the fixture `joined`.
Opener = Callable[..., Awaitable[Joined]]
