"""The cameras of this box as the fleet agreed on them: started and stopped at the appliance, and reported to the head.

A camera's description goes from box to box without its password: `password_from` names a secret, and each box has its
own secrets. A box without the secret refuses the camera, and says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from edge.core.clock import Clock
from edge.core.errors import MagpieError, Unavailable
from edge.core.fleet_links import (
    CameraEpoch,
    CameraOnBox,
    CameraOverlap,
    CameraRefusal,
    FleetAgreement,
    FleetCamera,
)
from edge.fleet.appliance_client import ApplianceClient
from edge.fleet.copies import StudentCopies
from edge.fleet.folder import FleetFolder
from scheduler.fleet.ownership import CameraRemoved, HoldCamera, StartCamera, StopCamera, work_of_box

log = logging.getLogger(__name__)

#: A camera that could not be started is not tried again on this box for so long.
_REFUSED_S: Final = 60.0
#: A camera that the appliance does not list was removed; while its settings change it is away for a moment, too.
_GONE_S: Final = 20.0
_OVERLAPS_KEPT: Final = 200


class OwnCameras:
    """Reconciles the appliance with the agreement; `zones` by camera."""

    def __init__(
        self,
        me: str,
        folder: FleetFolder,
        appliance: ApplianceClient,
        copies: StudentCopies,
        clock: Clock,
        zones: Mapping[str, str],
    ) -> None:
        self._me, self._folder, self._appliance, self._copies = me, folder, appliance, copies
        self._clock, self._zones = clock, zones
        kept = folder.read_json("holdings.json") or {}
        #: The epoch of each camera that this box answers for the fleet.
        self.held = {name: CameraEpoch(*epoch) for name, epoch in kept.items()}
        self.overlaps: list[CameraOverlap] = [_overlap(o) for o in folder.read_json("overlaps.json") or ()]
        #: Whether the appliance answered when it was asked last.
        self.appliance_answers = False
        self._present: dict[str, dict[str, Any]] = {}
        self._students: dict[str, tuple[str, str]] = {}  # camera -> (model version, SHA-256)
        self._refused: dict[str, tuple[CameraRefusal, float]] = {}
        self._gone: dict[str, CameraEpoch] = {}
        self._seen_s: dict[str, float] = {}
        self._looked_s = clock.monotonic()
        self._busy: dict[str, asyncio.Task[None]] = {}

    # -- looking

    async def look(self) -> None:
        """Ask the appliance for its cameras; it may be away."""
        try:
            rows = await self._appliance.cameras()
            for row in rows:
                await self._learn_student(row["id"], row["state"]["model_version"])
        except MagpieError as error:
            if self.appliance_answers or not isinstance(error, Unavailable):
                log.warning("the fleet's agent cannot ask its appliance: %s", error)
            self.appliance_answers = False
            return
        self._present = {row["id"]: row for row in rows}
        self._copies.begun_with = frozenset(Path(row["settings"]["student"]["weights"]).stem for row in rows)
        now = self._clock.monotonic()
        self._seen_s |= dict.fromkeys(self._present, now)
        self._looked_s, self.appliance_answers = now, True

    async def _learn_student(self, camera: str, version: str) -> None:
        if version and self._students.get(camera, ("", ""))[0] != version:
            self._students[camera] = (version, await self._appliance.student(camera))

    # -- telling

    def report(self, agreement: FleetAgreement) -> tuple[CameraOnBox, ...]:
        """The cameras of this box for the head; settings only where the agreement has others."""
        rows = []
        for name, row in sorted(self._present.items()):
            settings, known = described(row["settings"]), agreement.camera(name)
            digest = digest_of(settings)
            rows.append(
                CameraOnBox(
                    name, self.held.get(name), _answers(row), digest, self._students.get(name, ("", ""))[1],
                    self._zones.get(name, ""), None if known is not None and known.digest == digest else settings,
                )
            )  # fmt: skip
        return tuple(rows)

    @property
    def refused(self) -> tuple[CameraRefusal, ...]:
        """Cameras that could not be started here lately."""
        now = self._clock.monotonic()
        self._refused = {n: r for n, r in self._refused.items() if now - r[1] < _REFUSED_S}
        return tuple(r for r, _ in self._refused.values())

    @property
    def gone(self) -> tuple[tuple[str, CameraEpoch], ...]:
        """Cameras that an operator removed here and the head does not know of yet."""
        return tuple(sorted(self._gone.items()))

    async def admission(self, cameras: tuple[FleetCamera, ...]) -> tuple[float, dict[str, float], dict[str, str]]:
        """The appliance's own answer: the sum of accuracies now, with each camera that fits, and why others do not."""
        now, accuracy, why = 0.0, {}, {}
        for camera in cameras:
            asked = {"id": camera.id, "inference": dict(camera.settings).get("inference", {})}
            try:
                told = await self._appliance.admission(asked)
            except MagpieError as error:
                why[camera.id] = str(error)
                continue
            if not told["admitted"]:
                why[camera.id] = "; ".join(r["message"] for r in told["reasons"])
                continue
            now = sum(c["before"] or 0.0 for c in told["cameras"] if c["camera"] != camera.id)
            accuracy[camera.id] = sum(c["after"] or 0.0 for c in told["cameras"])
        return now, accuracy, why

    # -- acting

    def act(self, agreement: FleetAgreement, answered_for_s: Mapping[str, float]) -> None:
        """Begin the work that the agreement asks for; one thing at a time for each camera."""
        if not self.appliance_answers:
            return
        self._gone = {n: e for n, e in self._gone.items() if (c := agreement.camera(n)) is not None and c.epoch == e}
        present = {name: digest_of(described(row["settings"])) for name, row in self._present.items()}
        busy = {name for name, task in self._busy.items() if not task.done()}
        refused = {r.id: r.epoch for r in self.refused}
        for work in work_of_box(agreement, self._me, self.held, present):
            match work:
                case HoldCamera(name, epoch):
                    self._hold(name, epoch)
                case CameraRemoved(name, epoch) if name not in busy and self._missing_for_s(name) > _GONE_S:
                    self._gone[name] = epoch
                    self._hold(name, None)
                case StartCamera(camera, again) if camera.id not in busy and refused.get(camera.id) != camera.epoch:
                    if camera.id not in self._gone:
                        self._busy[camera.id] = asyncio.create_task(self._start(camera, again))
                case StopCamera(name, ours, theirs) if name not in busy:
                    overlap = answered_for_s.get(name, 0.0)
                    self._busy[name] = asyncio.create_task(self._stop(name, ours, theirs, overlap))
        self._forget_removed(agreement, present, busy)

    def _forget_removed(self, agreement: FleetAgreement, present: Mapping[str, str], busy: set[str]) -> None:
        # The epoch of a copy that was stopped is kept: the site's file may bring the copy back at the next start.
        for name, _ in agreement.removed:
            if name in self.held and name not in present and name not in busy and name not in self._gone:
                self._hold(name, None)

    def _missing_for_s(self, camera: str) -> float:
        """A camera that this run of the agent never saw counts as missing since then, too."""
        return self._looked_s - self._seen_s.setdefault(camera, self._looked_s)

    async def close(self) -> None:
        """Wait for work that was begun."""
        await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def _start(self, camera: FleetCamera, again: bool) -> None:
        try:
            if again:
                await self._appliance.remove(camera.id)
            settings = dict(camera.settings)
            copy = await self._copies.at_hand(camera)
            if copy is not None:
                settings["student"] = dict(settings.get("student", {})) | {"weights": str(copy)}
            await self._appliance.add(settings)
        except MagpieError as error:
            log.warning("%s cannot be started on this box: %s", camera.id, error)
            refusal = CameraRefusal(camera.id, camera.epoch, str(error))
            self._refused[camera.id] = (refusal, self._clock.monotonic())
            return
        log.info("%s is started on this box (epoch %d.%d)", camera.id, camera.epoch.term, camera.epoch.number)
        self._hold(camera.id, camera.epoch)
        await self.look()

    async def _stop(self, name: str, ours: CameraEpoch, theirs: CameraEpoch, overlap_s: float) -> None:
        try:
            await self._appliance.remove(name)
        except MagpieError as error:
            log.warning("%s cannot be stopped on this box: %s", name, error)
            return
        now = self._clock.utc()
        self._students.pop(name, None)
        await self.look()
        log.info("%s is stopped on this box: another one answers it", name)
        self.overlaps = [*self.overlaps, CameraOverlap(name, ours, theirs, now - overlap_s, now)][-_OVERLAPS_KEPT:]
        self._folder.write_json("overlaps.json", [asdict(o) for o in self.overlaps])

    def _hold(self, name: str, epoch: CameraEpoch | None) -> None:
        before = dict(self.held)
        self.held.pop(name, None)
        if epoch is not None:
            self.held[name] = epoch
        if self.held != before:
            self._folder.write_json("holdings.json", {n: [e.term, e.number] for n, e in self.held.items()})


def described(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A camera's settings for other boxes: without the path of a weight file, which is on this box only."""
    out = dict(settings)
    if isinstance(out.get("student"), Mapping):
        out["student"] = dict(out["student"]) | {"weights": ""}
    return out


def digest_of(settings: Mapping[str, Any]) -> str:
    """The SHA-256 of a camera's settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _answers(row: Mapping[str, Any]) -> bool:
    # A camera that is switched off is answered by being there.
    return not row["settings"]["enabled"] or row["state"]["answers"] > 0


def _overlap(kept: Mapping[str, Any]) -> CameraOverlap:
    return CameraOverlap(
        kept["camera"], CameraEpoch(**kept["ours"]), CameraEpoch(**kept["theirs"]), kept["start_utc_s"],
        kept["end_utc_s"],
    )  # fmt: skip
