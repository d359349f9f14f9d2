"""The fleet of the web tests' appliance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edge.appliance.answers.fleet import FleetAnswer
from edge.appliance.answers.fleet_jobs import FleetJobAnswer, FleetJobsAnswer
from edge.appliance.answers.fleet_wide import (
    BoxFoundAnswer,
    FleetAlarmsAnswer,
    FleetAuditAnswer,
    FleetBoxesAnswer,
    FleetEventsAnswer,
    FleetObjectsAnswer,
    FleetOrderAnswer,
    FleetWallAnswer,
)
from edge.appliance.answers.read import read
from edge.core.access import Principal
from edge.core.errors import Conflict, NotFound
from edge.core.fleet_job_file import submitted_job
from edge.core.fleet_links import FleetOrder
from edge.core.fleet_questions import BoxQuestion, RowFilter
from web.examples import fleet as examples


class DictFleet:
    """Implements `FleetService`: the fleet of the example; b3 is full."""

    def __init__(self) -> None:
        self.orders: list[tuple[FleetOrder, str]] = []
        self.recorded: list[tuple[FleetOrder, str]] = []

    def fleet(self) -> FleetAnswer:
        return read(FleetAnswer, examples.FLEET)

    async def order(self, order: FleetOrder, by: str) -> FleetOrderAnswer:
        if order.box == "b3":
            raise Conflict(f"b3 does not admit the camera {order.camera}")
        self.orders.append((order, by))
        invited = order.kind == "invite"
        return FleetOrderAnswer(
            kind=order.kind, box=order.box or "b1", cameras=(order.camera,) if order.camera else (),
            code="0" * 32 + ".secret" if invited else None, address="https://b1:8470" if invited else None,
            hours=order.hours if invited else None,
        )  # fmt: skip

    def record(self, order: FleetOrder, given_on: str) -> None:
        self.recorded.append((order, given_on))


class DictAllBoxes:
    """Implements `AllBoxesService` with the examples, and keeps what was asked."""

    def __init__(self, jpeg: bytes) -> None:
        self._jpeg = jpeg
        self.asked: list[tuple[str, str, RowFilter]] = []
        self.questions: list[BoxQuestion] = []

    async def wall(self, who: Principal) -> FleetWallAnswer:
        return read(FleetWallAnswer, examples.WALL)

    async def boxes(self, who: Principal) -> FleetBoxesAnswer:
        return read(FleetBoxesAnswer, examples.BOXES)

    async def picture(self, who: Principal, box: str, camera: str, width: int) -> bytes:
        if box not in ("b1", "b2"):
            raise NotFound(f"box {box} is not in the fleet")
        return self._jpeg

    async def alarms(self, who: Principal, rows: RowFilter, cursor: str) -> FleetAlarmsAnswer:
        self.asked.append(("alarms", who.name, rows))
        return read(FleetAlarmsAnswer, examples.ALARMS)

    async def objects(self, who: Principal, rows: RowFilter, cursor: str) -> FleetObjectsAnswer:
        self.asked.append(("objects", who.name, rows))
        return read(FleetObjectsAnswer, examples.OBJECTS)

    async def events(self, who: Principal, rows: RowFilter, cursor: str) -> FleetEventsAnswer:
        self.asked.append(("events", who.name, rows))
        return read(FleetEventsAnswer, examples.EVENTS)

    async def audit(self, who: Principal, rows: RowFilter, cursor: str) -> FleetAuditAnswer:
        self.asked.append(("audit", who.name, rows))
        return read(FleetAuditAnswer, examples.AUDIT)

    async def answer(self, question: BoxQuestion) -> BoxFoundAnswer:
        self.questions.append(question)
        return read(BoxFoundAnswer, examples.FOUND)


class DictFleetJobs:
    """Implements `FleetJobsService`: the jobs of the example, and those that are submitted."""

    def __init__(self) -> None:
        self._jobs = {job["id"]: dict(job) for job in examples.JOBS["jobs"]}
        #: Each order with its author.
        self.orders: list[tuple[str, str, str]] = []

    async def jobs(self) -> FleetJobsAnswer:
        return read(FleetJobsAnswer, examples.JOBS | {"jobs": list(self._jobs.values())})

    async def submit(self, job: Mapping[str, Any], by: str) -> FleetJobAnswer:
        asked = submitted_job(job)
        if asked.job.id in self._jobs:
            raise Conflict(f"there is a job {asked.job.id} already")
        more = {"id": asked.job.id, "tasks": asked.job.tasks, "program": asked.work.program, "by": by}
        self._jobs[asked.job.id] = examples.JOB | more | {"phase": "waiting", "running": 0, "task_states": []}
        self.orders.append(("submit", asked.job.id, by))
        return read(FleetJobAnswer, self._jobs[asked.job.id])

    async def withdraw(self, job: str, by: str) -> None:
        if job not in self._jobs:
            raise NotFound(f"there is no job {job}")
        if self._jobs[job]["phase"] == "ended":
            raise Conflict(f"job {job} is over (ended)")
        self._jobs[job] |= {"phase": "stopping", "withdrawn_by": by}
        self.orders.append(("withdraw", job, by))
