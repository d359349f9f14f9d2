"""The gate carried out: a finished retraining's candidate is recorded, and put in force if it is the best."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from edge.core import events as ev
from edge.core.alarms import Promoted
from edge.core.clock import Clock
from edge.core.errors import MagpieError
from edge.core.facts import StudentRejected
from edge.core.journal_kinds import JournalKind
from edge.core.models import DOWNLOAD, ModelVersion
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime
from edge.runtime.promotion import decide, unlink
from edge.store.store import Store


@dataclass(frozen=True)
class Judged:
    """A candidate's fate. `promoted`: another student than before is in force; `learned`: it is the new one.
    `accuracy` is held-out, of the candidate or of what came into force. `began_with`: the version that the retraining
    began with, where that is not its parent; `taught_with`: the other cameras of its group; `trained_on`: another box
    that did it; `boxes`: others whose cameras taught."""

    promoted: bool
    learned: bool
    accuracy: float
    version: str
    reason: str
    scores: dict[str, float]
    began_with: str = ""
    taught_with: tuple[str, ...] = ()
    trained_on: str = ""
    boxes: tuple[str, ...] = ()

    @property
    def kind(self) -> JournalKind:
        """Of the journal's entry."""
        return "model.promoted" if self.promoted else "model.rejected"

    def facts(self, config: str) -> dict[str, Any]:
        """For the journal, of a retraining with `config`."""
        of_others = {
            "began_with": self.began_with, "taught_with": list(self.taught_with), "trained_on": self.trained_on,
            "boxes": list(self.boxes),
        }  # fmt: skip
        return {
            "version": self.version,
            "config": config,
            "scores": self.scores,
            "reason": self.reason,
            **{key: value for key, value in of_others.items() if value},
        }

    def fact(self, camera: str, device_seconds: float) -> Promoted | StudentRejected:
        """For alarms and counts, of a retraining that took `device_seconds`."""
        kind = Promoted if self.promoted else StudentRejected
        return kind(camera, self.version, device_seconds)

    def completed(self, at_s: float, camera: str, job: str) -> ev.RetrainingCompleted:
        """For the controller."""
        return ev.RetrainingCompleted(
            at_s, camera, job, self.promoted, self.accuracy, self.version, self.reason, self.learned
        )


class Gate:
    """`ask` calls the store in its thread and waits; `put_in_force(camera, version, by, reason, scores)` records and
    switches."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        ask: Callable[..., Awaitable[Any]],
        put_in_force: Callable[..., Awaitable[None]],
        complain: Callable[..., None],
    ) -> None:
        self._store, self._clock, self._ask = store, clock, ask
        self._put_in_force, self._complain = put_in_force, complain

    async def judge(
        self, camera: CameraRuntime, done: m.TrainingDone, config: str, window: int, tolerance: float, name: str
    ) -> Judged:
        """Decide and carry out; the candidate's files are gone afterwards. `name` tells versions of one window apart.

        Raises MagpieError if nothing can be decided; a candidate that cannot be put in force is reported and not
        promoted.
        """
        async with camera.judging:
            return await self._judge(camera, done, config, window, tolerance, name)

    async def _judge(
        self, camera: CameraRuntime, done: m.TrainingDone, config: str, window: int, tolerance: float, name: str
    ) -> Judged:
        try:
            decision = decide(done, camera.version, tolerance, window)
        except MagpieError:
            unlink(done.path, done.download_path)
            raise
        scores, reason = decision.scores, decision.reason
        promoted, learned = decision.outcome != "in_force", decision.outcome == "new"
        # Of what comes into force: the download's own accuracy where it comes back.
        accuracy = (
            scores.get("kept_out_download", done.parent.value) if promoted and not learned else done.candidate.value
        )
        if promoted:
            scores["held_out"] = accuracy
        # The trained student is recorded, unless the download comes back in its place.
        path = done.download_path if decision.outcome == "download" and done.download_path else done.path
        candidate = ModelVersion(
            id=f"{camera.id}-w{window + 1}-{name}-{int(self._clock.utc())}",
            camera=camera.id,
            blob="",
            spec=done.spec,
            created_utc_s=self._clock.utc(),
            parent=camera.version.id,
            window=window,
            config=config if path == done.path else DOWNLOAD,
            scores=scores,
            frames=done.train_frames,
            device_seconds=done.device_seconds,
        )
        try:
            candidate = await self._ask(self._store.add_model, candidate, path)
            if promoted:
                await self._put_in_force(camera, candidate, "gate", reason, scores)
            else:
                await self._ask(self._store.versions.reject, candidate.id, "gate", reason)
        except MagpieError as error:
            promoted, reason = False, str(error)
            self._complain(error.code, f"the retrained model could not be put in force: {error}", camera.id)
        unlink(done.path, done.download_path)
        return Judged(
            promoted, learned and promoted, accuracy, candidate.id, reason, scores, done.start, done.taught_with,
            done.trained_on, done.boxes,
        )  # fmt: skip
