"""The agent's part of the fleet's jobs. The head keeps the table of all jobs, on disk before it answers, and runs them
by the engine beside it; other boxes hand what people ask on to the head."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, MagpieError, StoreError, Unavailable
from edge.core.fleet import FleetBox
from edge.core.fleet_job_file import SubmittedJob, submitted_job
from edge.core.fleet_jobs import (
    EngineReport,
    FleetJobTable,
    FleetResource,
    JobOrdered,
    JobsAsk,
    JobsReport,
    JobSubmission,
    JobWithdrawal,
    TenantReport,
)
from edge.core.fleet_links import FleetAgreement, FleetBeat
from edge.engines.programs import check_work
from edge.files import put_aside
from edge.fleet import engine_messages as msg
from edge.fleet.cluster_place import node_of
from edge.fleet.engine_check import check_job
from edge.fleet.engine_keeper import EngineKeeper, StartEngine, start_engine
from edge.fleet.engine_reasons import reason_of
from edge.fleet.folder import FleetFolder
from edge.fleet.links import Links
from edge.settings import FleetSettings
from scheduler.fleet import job_book
from scheduler.fleet.fair import TenantTree

log = logging.getLogger(__name__)
M = TypeVar("M")

_JOBS_FILE: Final = "jobs.json"
_BOXES_FILE: Final = "job_boxes.json"
_LOOK_S: Final = 1.0
_ASK_S: Final = 10.0
#: Without a quorum a head goes on with its jobs for so long, unless it hears of another head.
_GRACE_S: Final = 15.0
#: The engine `local` is closed when no job has been open for so long.
_LINGER_S: Final = 10.0


@dataclass(frozen=True)
class OfficeView:
    """The head by this box's last knowledge, whether this box decides, the last beat of each box; from
    the head's last answer: its open jobs, and where its part of the engine listens."""

    head: str | None = None
    decides: bool = False
    beats: Mapping[str, FleetBeat] = field(default_factory=dict)
    open_jobs: int = 0
    engine_at: str = ""


class _KnownBoxes:
    """The members as each described itself last, on disk. One that is not heard now keeps its row: its tasks run on,
    and jobs that need it wait. A head that begins anew has heard of none, and would refuse such jobs for good. `sent`:
    the boxes that the engine knows; `own`: the row of this box."""

    def __init__(self, folder: FleetFolder, own: Mapping[str, Any]) -> None:
        self._folder, self.own = folder, own
        self.sent: msg.EngineBoxes | None = None
        self._rows: dict[str, Mapping[str, Any]] = {}
        try:
            kept = folder.read(_BOXES_FILE, msg.EngineBoxes)
            self._rows = {} if kept is None else {str(row["name"]): row for row in kept.boxes}
        except (MagpieError, LookupError) as error:
            log.warning("boxes are known again as they are heard: %s", error)

    def resources(self, now: msg.EngineNow) -> tuple[FleetResource, ...]:
        """As the engine has them; of one that does not run, as the boxes describe themselves."""
        if now.resources:
            return tuple(FleetResource(**row) for row in now.resources)
        return tuple(
            FleetResource(row["name"], name, float(amount), 0.0)
            for row in ([self.own] if self.sent is None else self.sent.boxes)
            for name, amount in sorted(row["resources"].items())
        )  # fmt: skip

    def of(self, members: Collection[str], heard: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The rows of the members that are known."""
        rows = {name: row for name, row in (self._rows | dict(heard)).items() if name in members}
        found = [rows[name] for name in sorted(rows)]
        if rows != self._rows:
            self._rows = rows
            with contextlib.suppress(StoreError):
                self._folder.write(_BOXES_FILE, msg.EngineBoxes(found))
        return found


class AgentJobs:
    """One box's part, while it is open (`async with`). Implements `JobsDesk` (edge.fleet.server)."""

    def __init__(
        self,
        settings: FleetSettings,
        folder: FleetFolder,
        links: Links,
        agreement: Callable[[], FleetAgreement],
        clock: Clock,
        start: StartEngine = start_engine,
    ) -> None:
        self._me, self._settings, self._folder, self._links = settings.name, settings, folder, links
        self._agreement, self._clock = agreement, clock
        self._table, self._damaged = _stored_table(folder)
        self._keeper = EngineKeeper(settings, folder.path, clock, self._first, self._heard, start)
        self._view = OfficeView()
        self._decided_s = self._open_s = float("-inf")
        self._now = msg.EngineNow((), {}, {}, ())
        self._boxes = _KnownBoxes(folder, _row(settings.engine.box(settings.name), self.node))
        #: By box, its open jobs while it was the head, from its last answer.
        self._heads: dict[str, int] = {}
        self._dirty, self._changed = False, True
        #: Whether it was in office, and its engine's phase and reason, when it last wrote its report for the appliance.
        self._last_reported: tuple[bool, str, str] = (False, "off", "")
        self._wake = asyncio.Event()
        self._rounds: asyncio.Task[None]

    async def __aenter__(self) -> AgentJobs:
        self._rounds = asyncio.create_task(self._run(), name="jobs")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._rounds.cancel()
        await asyncio.gather(self._rounds, return_exceptions=True)
        await self._keeper.end()
        if self._dirty:
            with contextlib.suppress(StoreError):
                self._keep(self._table)

    # -- what the agent asks

    @property
    def open_jobs(self) -> int:
        """How many jobs this box keeps that are not over."""
        return len(job_book.open_jobs(self._table))

    @property
    def amounts(self) -> Mapping[str, float]:
        """The amounts of this box for jobs; nothing where only the head's own box runs them."""
        return {} if self._settings.engine.kind == "local" else self._settings.engine.amounts

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of this box."""
        return self._settings.engine.labels

    @property
    def node(self) -> str:
        """The node of a cluster that this box is; empty: none."""
        kubernetes = self._settings.engine.kubernetes
        return "" if kubernetes is None else node_of(kubernetes)

    @property
    def engine_pid(self) -> int | None:
        """The process of the engine beside this agent; None: there is none."""
        return self._keeper.pid

    @property
    def engine_at(self) -> str:
        """Where this box's part of the engine listens as the head's; empty: others have no part."""
        ray = self._settings.engine.ray
        return "" if ray is None else f"{ray.address}:{ray.port}"

    def saw(self, view: OfficeView) -> None:
        """The agent's knowledge now, once a beat."""
        if view.head is not None and view.head != self._me:
            self._heads[view.head] = view.open_jobs
        if view.decides:
            self._decided_s = self._clock.monotonic()
        if view.decides != self._view.decides:
            self._wake.set()
        self._view = view

    # -- rounds

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except (MagpieError, OSError) as error:
                log.warning("jobs: %s", error)
            except Exception:  # one bad round must not end all jobs
                log.exception("jobs: a round failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._wake.wait()
            self._wake.clear()

    async def look(self) -> None:
        """One round: keep the engine as it should be, and what became of jobs."""
        if self.open_jobs:
            self._open_s = self._clock.monotonic()
        await self._keeper.look(self._wanted())
        if self._keeper.part == "":
            self._send_boxes()
        else:
            self._now = msg.EngineNow((), {}, {}, ())
            self._change(job_book.stopped(self._table, self._clock.utc()))
        for job in (forgotten := job_book.to_forget(self._table, self._settings.jobs.keep)):
            self._keeper.send(msg.EngineForget(job))
        if forgotten:
            self._change(job_book.without(self._table, forgotten))
        if self._dirty:
            self._keep(self._table)
        now = (self._in_office(), self._keeper.phase, self._keeper.why)
        if self._changed or now != self._last_reported:
            self._changed, self._last_reported = False, now
            self._folder.write_jobs_report(self._here() if now[0] else None)

    def _in_office(self) -> bool:
        """Whether the jobs of this box run: it decides, or did a moment ago and knows of no other head."""
        view = self._view
        lately = self._clock.monotonic() - self._decided_s < _GRACE_S
        return view.decides or (lately and view.head in (None, self._me))

    def _wanted(self) -> str | None:
        """The part of the engine that this box should be (see `EngineKeeper.part`)."""
        if self._settings.engine.kind == "local":
            lately = self._clock.monotonic() - self._open_s < _LINGER_S
            return "" if self._in_office() and lately else None
        if self._in_office():
            return ""
        if self._settings.engine.kind == "kubernetes":
            return None  # the other boxes are nodes: their part is Kubernetes' own
        if self._view.head is None or self._view.head == self._me:
            return self._keeper.part  # no other part is known: Ray ends a part without a head by itself
        return self._view.engine_at or None

    def _send_boxes(self) -> None:
        """Send the engine the boxes that may take tasks: of the engine `local` this one only."""
        engine = self._settings.engine
        rows = [self._boxes.own]
        if engine.kind != "local":
            members = {m.name for m in self._agreement().members} - {self._me}
            heard = {name: _row(_box_of(beat), beat.node) for name, beat in self._view.beats.items()}
            rows += self._boxes.of(members, heard)
        drained = {m.name for m in self._agreement().members if m.drained}
        boxes = msg.EngineBoxes([{**row, "drained": row["name"] in drained} for row in rows])
        if boxes != self._boxes.sent:
            self._boxes.sent = boxes
            self._keeper.send(boxes)

    # -- the engine

    def _first(self) -> Iterable[Any]:
        """The first messages to a process of the engine: boxes and all jobs of the table, in the order of arrival."""
        if self._keeper.part != "":
            return
        self._boxes.sent = None
        self._send_boxes()
        for _, job in job_book.in_order(self._table):
            done = {str(n): row.box for n, row in job.done.items()}
            kept = {str(n): dict(state) for n, state in job.kept.items()}
            withdrawn = bool(job.withdrawn_by) or job.outcome in ("withdrawn", "refused")
            yield msg.EngineJob(job.given, done, kept, withdrawn)

    def _heard(self, message: Any) -> None:
        """From the engine's process."""
        table, utc_s = self._table, self._clock.utc()
        match message:
            case msg.EngineNow():
                self._now, self._changed = message, True
            case msg.EngineAnswered(job=job, task=task, box=box, answer=answer):
                self._change(job_book.task_done(table, job, task, box, answer))
            case msg.EngineCheckpoint(job=job, task=task, state=state):
                self._change(job_book.task_kept(table, job, task, state))
            case msg.EngineRaised(job=job, task=task, failures=failures, why=why):
                self._change(job_book.task_raised(table, job, task, failures, why))
            case msg.EngineRefused(job=job, why=why):
                self._change(job_book.refused(table, job, reason_of(why), utc_s))
            case msg.EngineJobOver(job=job) if job in table.jobs:
                tasks = submitted_job(table.jobs[job].given).job.tasks
                self._change(job_book.over(table, job, tasks, utc_s))
            case msg.EngineCost():
                with contextlib.suppress(StoreError):
                    self._folder.write_engine_cost(message)

    def _change(self, table: FleetJobTable) -> None:
        if table is not self._table:
            self._table, self._dirty, self._changed = table, True, True

    def _keep(self, table: FleetJobTable) -> None:
        """The table is on disk, then it is in force. Raises StoreError."""
        self._folder.write(_JOBS_FILE, table)
        self._change(table)
        self._dirty = False

    # -- what people ask, by any box (JobsDesk)

    async def report(self, asked: JobsAsk, sender: str) -> JobsReport:
        """All jobs that the head keeps. Raises Unavailable, Conflict."""
        if self._hands_on(sender):
            return await self._ask_head("/jobs", asked, JobsReport)
        return self._here()

    async def submit(self, asked: JobSubmission, sender: str) -> JobOrdered:
        """A job comes in; it is on disk when this returns. Raises InvalidValue, Conflict, Unavailable."""
        if self._hands_on(sender):
            return await self._ask_head("/jobs/submit", asked, JobOrdered)
        job = submitted_job(asked.job)
        self._check(job)
        self._keep(job_book.added(self._table, job, asked.job, asked.by, self._clock.utc()))
        self._keeper.send(msg.EngineJob(asked.job, {}, {}, False))
        self._wake.set()
        log.info("%s submitted the job %s on %s", asked.by, job.job.id, sender)
        return self._answer(job.job.id)

    async def withdraw(self, asked: JobWithdrawal, sender: str) -> JobOrdered:
        """Withdraw a job. Raises NotFound, Conflict, Unavailable."""
        if self._hands_on(sender):
            return await self._ask_head("/jobs/withdraw", asked, JobOrdered)
        self._keep(job_book.withdrawn(self._table, asked.job, asked.by))
        self._keeper.send(msg.EngineWithdraw(asked.job))
        self._wake.set()
        log.info("%s withdrew the job %s on %s", asked.by, asked.job, sender)
        return self._answer(asked.job)

    def _hands_on(self, sender: str) -> bool:
        """Whether the head is another box. Raises Unavailable where no head decides, Conflict where another box took
        this one for the head."""
        view = self._view
        if view.decides:
            return False
        if view.head == self._me:
            raise Unavailable(f"{self._me} is the head, but hears less than half of the boxes now")
        if view.head is None:
            raise Unavailable("no head is known now", "try again in some seconds")
        if sender != self._me:
            raise Conflict(f"{self._me} is not the head", f"the head is {view.head}")
        return True

    async def _ask_head(self, path: str, message: Any, kind: type[M]) -> M:
        head = self._agreement().member(str(self._view.head))
        if head is None:
            raise Unavailable("no head is known now", "try again in some seconds")
        return await self._links.ask(head, path, message, kind, _ASK_S)

    def _check(self, asked: SubmittedJob) -> None:
        """Raises InvalidValue for names that this fleet does not have, and for what its engine cannot launch."""
        check_work("work", asked.work)
        check_job(self._settings.engine, asked)
        queues = [queue.name for queue in self._settings.jobs.queues]
        tenants = list(TenantTree(self._settings.jobs.fleet_tenants()).leaves)
        for path, name, known in (("queue", asked.job.queue, queues), ("tenant", asked.job.tenant, tenants)):
            if name is not None and name not in known:
                words = f"one of fleet.jobs.{path}s of {self._me}: {', '.join(known) or 'there are none'}"
                raise InvalidValue(path, name, words)

    def _answer(self, job: str) -> JobOrdered:
        return JobOrdered(next(row for row in self._here().jobs if row.id == job))

    def _here(self) -> JobsReport:
        """The jobs of this box, with what its engine reports of them."""
        now = self._now
        rows = []
        for name, job in job_book.in_order(self._table):
            running = {int(task): box for task, box in now.running.get(name, {}).items()}
            waits = now.waiting.get(name)
            rows.append(job_book.report(job, running, None if waits is None else reason_of(waits)))
        keeper = self._keeper
        engine = EngineReport(self._settings.engine.kind, keeper.phase, keeper.why, tuple(now.boxes))
        tenants = tuple(TenantReport(**row) for row in now.tenants)
        return JobsReport(
            self._me, tuple(rows), tenants, engine, self._elsewhere(), self._damaged, self._boxes.resources(now)
        )  # fmt: skip

    def _elsewhere(self) -> dict[str, int]:
        """Open jobs of boxes that were the head before."""
        beats = self._view.beats
        members = {m.name for m in self._agreement().members} - {self._me}
        open_jobs = {name: beats[name].open_jobs if name in beats else self._heads.get(name, 0) for name in members}
        return {name: count for name, count in sorted(open_jobs.items()) if count > 0}


def _stored_table(folder: FleetFolder) -> tuple[FleetJobTable, bool]:
    """The table on disk, and whether it was damaged: then it is put aside, and another one begins."""
    try:
        table = folder.read(_JOBS_FILE, FleetJobTable) or FleetJobTable()
        return job_book.usable(table), False
    except StoreError as error:
        log.error("the jobs of the fleet cannot be used and begin anew: %s", error)
        try:
            log.error("they are put aside as %s", put_aside(folder.path / _JOBS_FILE))
        except StoreError as refused:
            log.error("they are not kept: %s", refused)
        return FleetJobTable(), True


def _box_of(beat: FleetBeat) -> FleetBox:
    """The box as its beat describes it; a box whose amounts cannot be has none."""
    try:
        return FleetBox(beat.sender, dict(beat.amounts), dict(beat.labels))
    except MagpieError:
        return FleetBox(beat.sender, {})


def _row(box: FleetBox, node: str) -> Mapping[str, Any]:
    return {"name": box.name, "resources": dict(box.resources), "labels": dict(box.labels), "node": node}
