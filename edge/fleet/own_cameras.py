"""The cameras of this box as the fleet agreed on them: started and stopped at the appliance, and reported to the head.

A camera's description goes from box to box without its password: `password_from` names a secret, and each box has its
own secrets. A box without the secret refuses the camera, and reports that.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
from collections.abc import Coroutine, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from edge.core.clock import Clock
from edge.core.errors import MagpieError, Unavailable
from edge.core.fleet_links import (
    MOST_COMING,
    AdmissionAsk,
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
from scheduler.fleet.ownership import CameraHolding, CameraRemoved, HoldCamera, StartCamera, StopCamera, work_of_box

log = logging.getLogger(__name__)

#: A camera that could not be started is not tried again on this box for so long.
_REFUSED_S: Final = 60.0
#: A camera that the appliance does not list was removed; while its settings change it is away for a moment, too.
_GONE_S: Final = 20.0
_OVERLAPS_KEPT: Final = 200


@dataclass(frozen=True)
class Holdings:
    """The cameras that this box answers, or began to answer, for the fleet; `gone`: those that an operator removed here
    and the head does not know of yet."""

    cameras: Mapping[str, CameraHolding] = field(default_factory=dict)
    gone: Mapping[str, CameraEpoch] = field(default_factory=dict)


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
        self._kept = folder.read("holdings.json", Holdings) or Holdings()
        self.overlaps: list[CameraOverlap] = [_overlap(o) for o in folder.read_json("overlaps.json") or ()]
        #: Whether the appliance answered when it was asked last; and since this run of the agent began.
        self.appliance_answers = self._answered = False
        self._present: dict[str, dict[str, Any]] = {}
        self._students: dict[str, tuple[str, str]] = {}  # camera -> (model version, SHA-256)
        self._refused: dict[str, tuple[CameraRefusal, float]] = {}
        self._seen_s: dict[str, float] = {}
        self._looked_s = clock.monotonic()
        self._busy: dict[str, asyncio.Task[None]] = {}

    # -- looking

    async def look(self) -> None:
        """Ask the appliance for its cameras; it may be away."""
        try:
            rows = await self._appliance.cameras()
        except MagpieError as error:
            if self.appliance_answers or not isinstance(error, Unavailable):
                log.warning("the fleet's agent cannot ask its appliance: %s", error)
            self.appliance_answers = False
            return
        try:
            present = {row["id"]: row for row in rows}
            begun_with = frozenset(Path(row["settings"]["student"]["weights"]).stem for row in rows)
            for row in rows:
                _version(row), _answers(row)
        except (KeyError, TypeError) as error:
            if self.appliance_answers or not self._answered:
                log.warning("the fleet's agent and its appliance are of two versions, start both again: no %s", error)
            self.appliance_answers = False
            return
        self._present, self._copies.begun_with = present, begun_with
        now = self._clock.monotonic()
        self._seen_s |= dict.fromkeys(self._present, now)
        self._looked_s, self._answered, self.appliance_answers = now, True, True

    async def learn_students(self) -> None:
        """Ask the appliance for the students of cameras that have another one than before. Raises MagpieError."""
        for name, row in tuple(self._present.items()):
            version = _version(row)
            if not version or self._students.get(name, ("", ""))[0] == version:
                continue
            try:
                self._students[name] = (version, await self._appliance.student(name))
            except Unavailable:  # `look` logs it
                return

    @property
    def age_s(self) -> float:
        """For how long the appliance has not answered; infinite: it never did."""
        return self._clock.monotonic() - self._looked_s if self._answered else math.inf

    # -- its report

    def report(self, agreement: FleetAgreement) -> tuple[CameraOnBox, ...]:
        """The cameras of this box for the head; settings only where the agreement has others."""
        rows = []
        for name, row in sorted(self._present.items()):
            settings, known = described(row["settings"]), agreement.camera(name)
            digest = digest_of(settings)
            rows.append(
                CameraOnBox(
                    name, self._epoch(name), _answers(row), digest, self._students.get(name, ("", ""))[1],
                    self._zones.get(name, ""), None if known is not None and known.digest == digest else settings,
                )
            )  # fmt: skip
        return tuple(rows)

    def _epoch(self, camera: str) -> CameraEpoch | None:
        """The epoch of a camera that is there. While a copy is being started an older one may be there still."""
        held = self._kept.cameras.get(camera)
        return None if held is None or (held.state == "begun" and camera in self._at_work()) else held.epoch

    def _at_work(self) -> set[str]:
        return {name for name, task in self._busy.items() if not task.done()}

    @property
    def refused(self) -> tuple[CameraRefusal, ...]:
        """Cameras that could not be started here lately."""
        now = self._clock.monotonic()
        self._refused = {n: r for n, r in self._refused.items() if now - r[1] < _REFUSED_S}
        return tuple(r for r, _ in self._refused.values())

    @property
    def gone(self) -> tuple[tuple[str, CameraEpoch], ...]:
        """Cameras that an operator removed here and the head does not know of yet."""
        return tuple(sorted(self._kept.gone.items()))

    async def admission(self, asked: AdmissionAsk) -> tuple[float, dict[str, float], dict[str, str]]:
        """The appliance's own answer: the sum of accuracies now, with each camera that fits, and why others do not."""
        now, accuracy, why = 0.0, {}, {}
        for camera in asked.cameras:
            there = {camera.id, *self._present}
            coming = [_for_admission(c) for c in asked.coming if c.id not in there][:MOST_COMING]
            try:
                answer = await self._appliance.admission(_for_admission(camera), coming)
            except MagpieError as error:
                why[camera.id] = str(error)
                continue
            if not answer["admitted"]:
                why[camera.id] = "; ".join(r["message"] for r in answer["reasons"])
                continue
            now = sum(c["before"] or 0.0 for c in answer["cameras"] if c["camera"] != camera.id)
            accuracy[camera.id] = sum(c["after"] or 0.0 for c in answer["cameras"])
        return now, accuracy, why

    # -- acting

    def act(self, agreement: FleetAgreement, answered_for_s: Mapping[str, float]) -> None:
        """Begin the work that the agreement asks for; one thing at a time for each camera."""
        if not self.appliance_answers:
            return
        present = {name: digest_of(described(row["settings"])) for name, row in self._present.items()}
        gone = {n: e for n, e in self._kept.gone.items() if n not in present and _in_force(agreement, n, e)}
        self._keep(gone=gone)
        busy = self._at_work()
        refused = {r.id: r.epoch for r in self.refused}
        for work in work_of_box(agreement, self._me, self._kept.cameras, present):
            match work:
                case HoldCamera(name, epoch) if name not in busy:
                    self._hold(name, CameraHolding(epoch))
                case CameraRemoved(name, epoch) if name not in busy and self._missing_for_s(name) > _GONE_S:
                    gone[name] = epoch
                    self._keep(self._without(name), gone)
                case StartCamera(camera, again) if camera.id not in busy and refused.get(camera.id) != camera.epoch:
                    if camera.id not in gone:
                        self._begin(camera.id, self._start(camera, again))
                case StopCamera(name, ours, theirs) if name not in busy:
                    overlap = answered_for_s.get(name, 0.0)
                    self._begin(name, self._stop(name, ours, theirs, overlap))
        # The epoch of a copy that was stopped is kept: the site's file may bring the copy back at the next start.
        for name, _ in agreement.removed:
            if name not in present and name not in busy and name not in gone:
                self._hold(name, None)

    def _missing_for_s(self, camera: str) -> float:
        """A camera that this run of the agent never saw counts as missing since then, too."""
        return self._looked_s - self._seen_s.setdefault(camera, self._looked_s)

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        async def logged() -> None:
            try:
                await work
            except MagpieError as error:  # a full disk: the next look finds out how far it came
                log.warning("%s: %s", name, error)

        self._busy[name] = asyncio.create_task(logged())

    async def close(self) -> None:
        """Wait for work that was begun."""
        await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def _start(self, camera: FleetCamera, again: bool) -> None:
        before = self._kept.cameras.get(camera.id)
        try:
            if again:
                await self._appliance.remove(camera.id)
            settings = dict(camera.settings)
            copy = await self._copies.at_hand(camera)
            if copy is not None:
                settings["student"] = dict(settings.get("student", {})) | {"weights": str(copy)}
            # On disk before the appliance hears of it: a box that dies now knows later that this copy is the fleet's.
            self._hold(camera.id, CameraHolding(camera.epoch, "begun"))
            await self._add(settings, before)
        except MagpieError as error:
            log.warning("%s cannot be started on this box: %s", camera.id, error)
            refusal = CameraRefusal(camera.id, camera.epoch, str(error))
            self._refused[camera.id] = (refusal, self._clock.monotonic())
            return
        log.info("%s is started on this box (epoch %d.%d)", camera.id, camera.epoch.term, camera.epoch.number)
        self._hold(camera.id, CameraHolding(camera.epoch))
        await self.look()

    async def _add(self, settings: Mapping[str, Any], before: CameraHolding | None) -> None:
        try:
            await self._appliance.add(settings)
        except Unavailable:  # it may have been added, or be added in a moment
            raise
        except MagpieError:
            self._hold(settings["id"], before and replace(before, state="stopped"))
            raise

    async def _stop(self, name: str, ours: CameraEpoch, theirs: CameraEpoch, overlap_s: float) -> None:
        try:
            await self._appliance.remove(name)
        except MagpieError as error:
            log.warning("%s cannot be stopped on this box: %s", name, error)
            return
        now = self._clock.utc()
        self._students.pop(name, None)
        self._hold(name, CameraHolding(ours, "stopped"))
        await self.look()
        log.info("%s is stopped on this box: another one answers it", name)
        self.overlaps = [*self.overlaps, CameraOverlap(name, ours, theirs, now - overlap_s, now)][-_OVERLAPS_KEPT:]
        self._folder.write_json("overlaps.json", [asdict(o) for o in self.overlaps])

    def _hold(self, name: str, held: CameraHolding | None) -> None:
        self._keep(self._without(name) if held is None else {**self._kept.cameras, name: held})

    def _without(self, name: str) -> dict[str, CameraHolding]:
        return {n: h for n, h in self._kept.cameras.items() if n != name}

    def _keep(
        self, cameras: Mapping[str, CameraHolding] | None = None, gone: Mapping[str, CameraEpoch] | None = None
    ) -> None:
        """On disk before it counts. Raises StoreError."""
        kept = Holdings(
            self._kept.cameras if cameras is None else cameras, self._kept.gone if gone is None else gone
        )  # fmt: skip
        if kept != self._kept:
            self._folder.write("holdings.json", kept)
            self._kept = kept


def _in_force(agreement: FleetAgreement, name: str, epoch: CameraEpoch) -> bool:
    camera = agreement.camera(name)
    return camera is not None and camera.epoch == epoch


def _for_admission(camera: FleetCamera) -> dict[str, Any]:
    return {"id": camera.id, "inference": dict(camera.settings).get("inference", {})}


def described(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A camera's settings for other boxes: without the path of a weight file, which is on this box only."""
    out = dict(settings)
    if isinstance(out.get("student"), Mapping):
        out["student"] = dict(out["student"]) | {"weights": ""}
    return out


def digest_of(settings: Mapping[str, Any]) -> str:
    """The SHA-256 of a camera's settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _version(row: Mapping[str, Any]) -> str:
    return str(row["state"]["model"]["version"])


def _answers(row: Mapping[str, Any]) -> bool:
    # A camera that is switched off is answered by being there.
    return not row["settings"]["enabled"] or row["state"]["inference"]["answers"] > 0


def _overlap(kept: Mapping[str, Any]) -> CameraOverlap:
    return CameraOverlap(
        kept["camera"], CameraEpoch(**kept["ours"]), CameraEpoch(**kept["theirs"]), kept["start_utc_s"],
        kept["end_utc_s"],
    )  # fmt: skip
