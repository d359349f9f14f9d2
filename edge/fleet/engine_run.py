"""The work of the process of a fleet's engine: its agent's messages become calls of the driver, and the driver's news
of jobs become messages to the agent. One thread calls `take` and `turn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from edge.core.engine import Engine
from edge.core.errors import MagpieError
from edge.core.fleet import FleetBox, TaskAt
from edge.core.fleet_job_file import submitted_job
from edge.engines.driver import DriverNote, FleetDriver, JobRefused, ProgramFailed, TaskCheckpoint
from edge.fleet import engine_messages as msg
from edge.fleet.engine_cost import IdleCost
from edge.settings import FleetJobsSettings
from scheduler.fleet.controller import FleetController

#: The run reports the state of its jobs at most so often, in s.
_REPORT_S: Final = 1.0
_MOST_RESOURCES: Final = 1000


#: Rows of `EngineBoxes`: all boxes of the fleet.
KnowBoxes = Callable[[Sequence[Mapping[str, Any]]], None]


@dataclass(frozen=True)
class OpenedEngine:
    """An engine that is open. `know` gives it the boxes that may join. `check` raises Unavailable where a part that it
    needs has ended; `waits` gives what it waits for, for people (empty: nothing). `idle` measures its cost (not of
    an engine that is there while there are jobs only). `early`: messages that came while it was opened."""

    engine: Engine
    know: KnowBoxes = lambda rows: None
    check: Callable[[], None] = lambda: None
    waits: Callable[[], str] = lambda: ""
    idle: IdleCost | None = None
    early: Sequence[Any] = ()


class EngineRun:
    """Jobs on an open engine. `send` takes messages of edge.fleet.engine_messages; `clock` is the engine's. `know`
    gives the engine the boxes that may join."""

    def __init__(
        self,
        settings: FleetJobsSettings,
        engine: Engine,
        clock: Callable[[], float],
        send: Callable[[Any], None],
        know: KnowBoxes = lambda rows: None,
    ) -> None:
        self._clock, self._send, self._know = clock, send, know
        self._controller = FleetController(
            tenants=settings.fleet_tenants(), queues=settings.fleet_queues(), placement=settings.placement
        )
        self._driver = FleetDriver(
            self._controller, engine, (), clock, write=self._happened, answered=self._answered, noted=self._noted
        )
        self._open: set[str] = set()
        self._changed = True
        self._reported_s = float("-inf")
        self._reported_boxes: list[str] = []

    @property
    def died(self) -> str | None:
        """Why the engine is gone; None: it is there."""
        return self._driver.engine_died

    def take(self, message: Any) -> None:
        """Act on a message of the agent; a message that is not for a run is passed over."""
        self._changed = True
        match message:
            case msg.EngineBoxes(boxes=rows):
                self._know(rows)
                self._driver.know([FleetBox(row["name"], row["resources"], row["labels"]) for row in rows])
                self._driver.drain_only([row["name"] for row in rows if row.get("drained")])
            case msg.EngineJob():
                self._job(message)
            case msg.EngineWithdraw(job=job):
                self._driver.withdraw(job)
            case msg.EngineForget(job=job):
                self._driver.forget(job)

    def turn(self, timeout_s: float) -> None:
        """Wait for something, at most so long; act on it, and report it."""
        self._driver.step(timeout_s)
        for job in [job for job in self._open if self._controller.over(job)]:
            self._open.discard(job)
            self._send(msg.EngineJobOver(job))
            self._changed = True
        now_s = self._clock()
        if self._driver.boxes != self._reported_boxes:
            self._changed = True
        if self._changed and now_s - self._reported_s >= _REPORT_S:
            self._reported_s, self._changed = now_s, False
            self._report()

    def _job(self, message: msg.EngineJob) -> None:
        asked = submitted_job(message.job)
        done = {int(task): box for task, box in message.done.items()}
        kept = {int(task): dict(state) for task, state in message.kept.items()}
        try:
            self._driver.submit(asked.job, asked.work, done, kept)
        except MagpieError as error:  # a program that this version does not have
            self._send(msg.EngineRaised(asked.job.id, 0, 1, str(error)))
            return
        if message.withdrawn:
            self._driver.withdraw(asked.job.id)
        self._open.add(asked.job.id)

    def _report(self) -> None:
        running: dict[str, dict[str, str]] = {}
        for at in self._driver.running:
            running.setdefault(at.job, {})[str(at.task)] = at.box
        waiting = {job: asdict(why) for job, why in self._controller.waiting().items() if job in self._open}
        self._reported_boxes = self._driver.boxes
        shares = [asdict(row) for row in self._controller.shares()]
        resources = [asdict(row) for row in self._controller.resources()[:_MOST_RESOURCES]]
        self._send(msg.EngineNow(self._reported_boxes, running, waiting, shares, resources))

    # --- messages of the driver ----------------------------------------------------------------------------------
    def _happened(self, row: Mapping[str, Any]) -> None:
        self._changed = True

    def _answered(self, task: TaskAt, answer: Any) -> None:
        self._send(msg.EngineAnswered(task.job, task.task, task.box, answer))

    def _noted(self, note: DriverNote) -> None:
        match note:
            case TaskCheckpoint(task=task, state=state):
                self._send(msg.EngineCheckpoint(task.job, task.task, state))
            case ProgramFailed(task=task, failures=failures, why=why):
                self._send(msg.EngineRaised(task.job, task.task, failures, why))
            case JobRefused(job=job, why=why) if job in self._open:
                self._open.discard(job)
                self._send(msg.EngineRefused(job, asdict(why)))
