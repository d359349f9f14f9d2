"""Cameras that are retrained as one: which may be, the needs of a group's job, and its result for the members."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.core import checks
from edge.core import events as ev
from edge.core.camera_look import CameraLook
from edge.core.configs import StudentSpec
from edge.core.errors import InvalidValue, MagpieError
from edge.core.journal_kinds import JournalNote
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime
from edge.runtime.judging import Gate
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.promotion import discard
from edge.runtime.running_job import RunningJob
from edge.runtime.siblings import Siblings
from scheduler.contenders import FEWEST_OBJECTS
from scheduler.controller import option_from_profile
from scheduler.groups import (
    FIRST_KEPT,
    MOST_KEPT,
    WORK_EXPONENT,
    WORK_PER_MEMBER,
    kept_later,
    kept_part,
    sets_of,
    taught_parts,
)

#: The store's document of what groups taught.
GROUPS_DOCUMENT = "groups"


@dataclass(frozen=True)
class _BegunMember:
    """A member as a group's retraining was begun with it."""

    window: int
    camera: CameraRuntime
    version: str


class Groups:
    """The runtime's hands for `scheduler.groups`. Touched on the control process's event loop only."""

    def __init__(
        self,
        parts: LeafParts,
        siblings: Siblings,
        gate: Gate,
        retrains: Callable[[str], bool],
        dispatch: Callable[[ev.Event], None],
        note: JournalNote,
        keep: Callable[[dict[str, Any]], None],
    ) -> None:
        """`retrains(camera)` says whether a retraining of the camera's own runs. `dispatch` hands an event to the
        controller, `note` journals, `keep(document)` writes what was learned."""
        self._parts, self._siblings, self._gate, self._retrains = parts, siblings, gate, retrains
        self._dispatch, self._note, self._keep = dispatch, note, keep
        self.kept, self.retrainings = FIRST_KEPT, 0
        self._taught: dict[str, str] = {}
        self._asked: dict[tuple[str, str], _BegunMember] = {}

    def restore(self, document: Mapping[str, Any] | None) -> None:
        """Raises InvalidValue if the document is damaged."""
        if document is None:
            return
        kept, retrainings = document.get("kept"), document.get("retrainings")
        if not isinstance(kept, int | float) or not isinstance(retrainings, int):
            raise InvalidValue("groups", dict(document), "kept (a number) and retrainings (a whole number)")
        checks.in_range("groups.kept", kept, 0.0, MOST_KEPT)
        taught = document.get("taught", {})
        if not isinstance(taught, Mapping):
            raise InvalidValue("groups.taught", taught, "an object: a version by camera")
        self._taught = {str(camera): str(version) for camera, version in taught.items()}
        # Factors of groups with another work, or counted in another way, say nothing about these.
        if (document.get("work_per_member"), document.get("work_exponent")) == (WORK_PER_MEMBER, WORK_EXPONENT):
            self.kept, self.retrainings = float(kept), retrainings

    def possible(self, wanted: bool) -> ev.GroupsPossible:
        """For the controller, before a window begins: which cameras may be retrained together; none, where it is not
        `wanted` in the window that begins.
        """
        looks = {known.camera: known.look for known in self._siblings.looks()}
        by_spec: dict[StudentSpec, dict[str, CameraLook | None]] = {}
        for name, camera in self._parts.cameras.items():
            if wanted and camera.published and camera.settings.retraining.enabled and not camera.version.pinned:
                by_spec.setdefault(camera.version.spec, {})[name] = looks.get(name)
        sets = [s for cameras in by_spec.values() for s in sets_of(cameras)]
        self.kept = kept_later(self.kept)
        named = {name for cameras in sets for name in cameras}
        self._taught = {c: v for c, v in self._taught.items() if c in self._parts.cameras}
        taught = frozenset(c for c, v in self._taught.items() if c in named and self._parts.cameras[c].version.id == v)
        return ev.GroupsPossible(self._parts.clock.monotonic(), tuple(sorted(sets)), self.kept, taught)

    def members(self, order: ev.StartRetraining) -> tuple[m.GroupMember, ...]:
        """The data of each other camera for the worker of a group's retraining; one without labels is left out."""
        folder = Path(self._parts.site.data_dir) / "jobs"
        found = []
        self._asked = {k: v for k, v in self._asked.items() if v.window >= order.window - 1}
        for name in order.members:
            camera = self._parts.cameras.get(name)
            data = None if camera is None else camera.closed.get(order.window)
            if camera is not None and data is not None and data.train:
                output = folder / f"{order.job}-{name}.safetensors"
                found.append(m.GroupMember(name, data, self._parts.student(camera.version), camera.region, output))
                self._asked[order.job, name] = _BegunMember(order.window, camera, camera.version.id)
        return tuple(found)

    async def judge(self, job: RunningJob, done: m.TrainingDone, led: str = "") -> None:
        """Every member is judged with the group's result; their gains update the part that members of groups keep.
        `led`: the version that came of it for the leader ("": it keeps its own)."""
        found = await asyncio.gather(*(self._judge_as_asked(name, job, theirs) for name, theirs in done.members))
        if done.members:
            judged = [gains for gains in found if gains is not None]
            expected = self._taught_part(job) * sum(e for e, _ in judged)
            cameras = 1 + len(done.members) + len(done.guests)
            self.kept = kept_part(self.kept, expected, sum(g for _, g in judged), cameras)
            self.retrainings += 1
            if led and _judged_on(done) < FEWEST_OBJECTS:
                self._taught[job.camera] = led
            counted = {"work_per_member": WORK_PER_MEMBER, "work_exponent": WORK_EXPONENT}
            self._keep({"kept": self.kept, "retrainings": self.retrainings, "taught": dict(self._taught), **counted})

    def _taught_part(self, job: RunningJob) -> float:
        """The part of what the group's members gain by its longest retraining that this one teaches; 0: not known."""
        leader = self._parts.cameras.get(job.camera)
        options = [] if leader is None else [option_from_profile(p) for p in leader.profiles.values()]
        return taught_parts(options).get(job.config, 0.0)

    async def _judge_as_asked(self, name: str, job: RunningJob, done: m.TrainingDone) -> tuple[float, float] | None:
        """The gain that was expected of the camera alone, and the group's; None: nothing is learned by it. A result
        counts only for the camera and the student that it was compared with: not where either is another by now, or a
        retraining of the camera's own runs."""
        asked, camera = self._asked.pop((job.job, name), None), self._parts.cameras.get(name)
        why = ""
        if asked is None or camera is None or camera is not asked.camera:
            why = "changed"
        elif camera.version.id != asked.version or camera.version.spec != done.spec:
            why = "other_student"
        elif self._retrains(name):
            why = "own_retraining"
        if camera is None or why:
            discard(done)
            window = self._parts.controller.state.window
            self._note("group.member_skipped", camera=name, window=window, data={"leader": job.camera, "why": why})
            return None
        return await self._judge(camera, job, done)

    async def _judge(self, camera: CameraRuntime, job: RunningJob, done: m.TrainingDone) -> tuple[float, float] | None:
        parts = self._parts
        try:
            tolerance = parts.window.settings.gate_tolerance
            judged = await self._gate.judge(camera, done, job.config, job.window, tolerance, "group")
        except MagpieError as error:
            parts.complaints.add(error.code, f"{camera.id}: not judged with the group of {job.camera}: {error}")
            return None
        if judged.learned and _judged_on(done) < FEWEST_OBJECTS:
            self._taught[camera.id] = judged.version
        if judged.promoted:
            parts.learning.not_promised(camera.id, parts.controller.state.window)
        gains = None
        profiles = camera.profiles.values()
        whole = done.fraction >= 1.0 and job.window in camera.closed and not camera.version.pinned
        if profiles and whole and _judged_on(done) >= FEWEST_OBJECTS:
            expected = max(p.end_accuracy.value for p in profiles) - next(iter(profiles)).start_accuracy
            # Losses count too: of few pictures a group that teaches nothing would seem to gain.
            gained = done.candidate.value - done.parent.value
            gains = max(0.0, expected) * self._believed(camera.id), gained
        self._note(
            judged.kind,
            camera=camera.id,
            window=parts.controller.state.window,
            data=judged.facts(job.config) | {"leader": job.camera, "device_seconds": 0.0},
        )
        parts.fact(judged.fact(camera.id, 0.0))
        self._dispatch(judged.completed(parts.clock.monotonic(), camera.id, job.job))
        return gains

    def _believed(self, camera: str) -> float:
        """The part of a profile's gain that plans count on: `kept` is a part of that."""
        known = self._parts.controller.state.cameras.get(camera)
        correction = None if known is None else known.correction
        return 1.0 if correction is None else correction.gain * correction.reliability


def _judged_on(done: m.TrainingDone) -> int:
    """Objects on the kept-out pictures by which the gate judges a camera alone."""
    return done.contenders[0].objects if done.contenders else 0
