"""All boxes of the fleet as one: this box answers from its own records, its agent asks the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from edge.appliance.answers.fleet_wide import (
    AskedBoxAnswer,
    BoxFoundAnswer,
    FleetAlarmAnswer,
    FleetAlarmsAnswer,
    FleetAuditAnswer,
    FleetBoxesAnswer,
    FleetBoxNowAnswer,
    FleetChangeAnswer,
    FleetEventAnswer,
    FleetEventsAnswer,
    FleetObjectAnswer,
    FleetObjectsAnswer,
    FleetWallAnswer,
    FleetWallCamera,
)
from edge.appliance.box_answers import BoxAnswers, asker_of
from edge.appliance.box_now import seen_now
from edge.appliance.fleet_cursor import cursor_of, cursor_text
from edge.appliance.service import LiveService
from edge.core.access import Principal
from edge.core.errors import MagpieError, NotFound, Unavailable
from edge.core.fleet_links import FleetAgreement, FleetStatus
from edge.core.fleet_questions import (
    ALL_S,
    BOX_S,
    MOST_PICTURE,
    MOST_ROWS,
    BoxOutcome,
    BoxQuestion,
    BoxReply,
    FleetQuestion,
    FleetQuestionKind,
    FleetReplies,
    PictureQuestion,
    RowFilter,
)
from edge.fleet.own_agent import OwnAgent
from scheduler.fleet.doubled import RaisedAlarm, ReportedOverlap, doubled
from scheduler.fleet.pages import BoxPage, FleetCursor, FleetPage, RowKey, merged

_FOUND: Final = TypeAdapter(BoxFoundAnswer)
#: Beside the rows of a page, so many of each box are looked at for those that another box has, too.
_AHEAD: Final = 20
#: The agent answers within its own bounds; the way to it takes a moment more.
_WAY_S: Final = 1.5


@dataclass(frozen=True)
class _BoxHeard:
    """A box and what came of the question; `found` None: nothing."""

    box: str
    outcome: BoxOutcome
    age_s: float | None
    page: str
    found: BoxFoundAnswer | None


class AllBoxes:
    """Implements `AllBoxesService`. `agent` None: the site file has no section `fleet`. `status` blocks."""

    def __init__(
        self,
        me: str,
        own: BoxAnswers,
        live: LiveService,
        agent: OwnAgent | None,
        status: Callable[[], FleetStatus | None],
    ) -> None:
        self._me, self._own, self._live, self._agent, self._status = me, own, live, agent, status

    async def answer(self, question: BoxQuestion) -> BoxFoundAnswer:
        """The rows of this box for a user of another one. Raises Forbidden, StoreError."""
        return await self._own.answer(question)

    # -- the wall

    async def wall(self, who: Principal) -> FleetWallAnswer:
        """The cameras that the user may see."""
        asked, agreement = await self._ask(who, "wall", RowFilter(), FleetCursor())
        found = [
            FleetWallCamera(
                camera=c.camera, name=c.name, box=one.box, state=c.state, fault=c.fault, accuracy=c.accuracy,
                fps=c.fps, answers_per_s=c.answers_per_s,
            )
            for one in asked if one.found is not None for c in one.found.cameras if who.may_see(c.camera)
        ]  # fmt: skip
        shown, known = {c.camera for c in found}, {one.box for one in asked if one.found is not None}
        for camera in agreement.cameras:
            if camera.id not in shown and camera.owner not in known and who.may_see(camera.id):
                name = camera.settings.get("name")
                found.append(
                    FleetWallCamera(
                        camera=camera.id, name=name if isinstance(name, str) and name else camera.id,
                        box=camera.owner, state=None, fault=None, accuracy=None, fps=0.0, answers_per_s=0.0,
                    )
                )  # fmt: skip
        return FleetWallAnswer(me=self._me, boxes=_boxes(asked), cameras=tuple(found))

    async def boxes(self, who: Principal) -> FleetBoxesAnswer:
        """How the boxes are: version, shares, lending."""
        asked, _ = await self._ask(who, "boxes", RowFilter(), FleetCursor())
        rows = tuple(
            FleetBoxNowAnswer(box=one.box, now=now)
            for one in asked if one.found is not None and (now := seen_now(one.found.now, who)) is not None
        )  # fmt: skip
        return FleetBoxesAnswer(me=self._me, boxes=_boxes(asked), rows=rows)

    async def picture(self, who: Principal, box: str, camera: str, width: int) -> bytes:
        """The newest picture of a camera (JPEG). Raises NotFound, Unavailable."""
        if not who.may_see(camera):
            raise NotFound(f"camera {camera} does not exist")
        if box == self._me:
            return await self._live.snapshot(camera, width)
        if self._agent is None:
            raise NotFound(f"box {box} is not in the fleet")
        question = PictureQuestion(box, camera, asker_of(who), width)
        try:
            found = await self._agent.ask_bytes("/picture", question, BOX_S + _WAY_S, MOST_PICTURE)
        except MagpieError as error:
            if isinstance(error, NotFound):
                raise
            raise Unavailable(f"no picture of {camera} from {box}: {error}") from None
        if not found.startswith(b"\xff\xd8") or len(found) > MOST_PICTURE:
            raise Unavailable(f"{box} sent no picture")
        return found

    # -- lists

    async def alarms(self, who: Principal, rows: RowFilter, cursor: str) -> FleetAlarmsAnswer:
        """Alarms, newest first. Raises InvalidValue."""
        asked, page, found = await self._rows(who, "alarms", rows, cursor)
        out = tuple(FleetAlarmAnswer(box=key[0], also_on=also, alarm=found[key]) for key, also in page.rows)
        return FleetAlarmsAnswer(boxes=_boxes(asked), rows=out, next=cursor_text(page.then))

    async def objects(self, who: Principal, rows: RowFilter, cursor: str) -> FleetObjectsAnswer:
        """Followed objects, newest first. Raises InvalidValue."""
        asked, page, found = await self._rows(who, "objects", rows, cursor)
        out = tuple(FleetObjectAnswer(box=key[0], found=found[key]) for key, _ in page.rows)
        return FleetObjectsAnswer(boxes=_boxes(asked), rows=out, next=cursor_text(page.then))

    async def events(self, who: Principal, rows: RowFilter, cursor: str) -> FleetEventsAnswer:
        """Journals, newest first. Raises InvalidValue."""
        asked, page, found = await self._rows(who, "events", rows, cursor)
        out = tuple(FleetEventAnswer(box=key[0], entry=found[key]) for key, _ in page.rows)
        return FleetEventsAnswer(boxes=_boxes(asked), rows=out, next=cursor_text(page.then))

    async def audit(self, who: Principal, rows: RowFilter, cursor: str) -> FleetAuditAnswer:
        """Changes, newest first. Raises InvalidValue, Forbidden."""
        asked, page, found = await self._rows(who, "audit", rows, cursor)
        out = tuple(FleetChangeAnswer(box=key[0], change=found[key]) for key, _ in page.rows)
        return FleetAuditAnswer(boxes=_boxes(asked), rows=out, next=cursor_text(page.then))

    async def _rows(
        self, who: Principal, about: FleetQuestionKind, rows: RowFilter, cursor: str
    ) -> tuple[list[_BoxHeard], FleetPage, dict[RowKey, Any]]:
        """The boxes, the page, and the rows by their keys."""
        start, limit = cursor_of(cursor), min(rows.limit, MOST_ROWS - _AHEAD)
        wanted = replace(rows, limit=limit + _AHEAD, before=None)
        asked, _ = await self._ask(who, about, wanted, start)
        found: dict[RowKey, Any] = {}
        pages, alarms, overlaps = [], [], []
        for one in asked:
            if one.found is None:
                continue
            numbered = _numbered(who, _listed(about, one.found))
            found |= {(one.box, number): row for number, row in numbered}
            timed = tuple((number, _time(row)) for number, row in numbered)
            pages.append(BoxPage(one.box, timed, one.found.more, one.found.last))
            if about == "alarms":
                alarms += [
                    RaisedAlarm(one.box, a.id, a.camera, a.rule, a.began_utc_s)
                    for a in one.found.alarms if a.camera is not None and (one.box, a.id) not in start.shown
                ]  # fmt: skip
                overlaps += [ReportedOverlap(one.box, o.camera, o.start_utc_s, o.end_utc_s) for o in one.found.overlaps]
        same = [((a.box, a.number), (b.box, b.number)) for a, b in doubled(alarms, overlaps)]
        return asked, merged(pages, limit, same, start), found

    # -- asking

    async def _ask(
        self, who: Principal, about: FleetQuestionKind, rows: RowFilter, start: FleetCursor
    ) -> tuple[list[_BoxHeard], FleetAgreement]:
        """This box first, then the others; a box that has ended is not asked. Raises Forbidden, InvalidValue,
        StoreError of this box."""
        question = BoxQuestion(about, asker_of(who), rows)
        others = asyncio.create_task(self._ask_others(question, start))
        try:
            mine = []
            if self._me not in start.ended:
                own = BoxQuestion(about, question.asker, replace(rows, before=start.before.get(self._me)))
                mine.append(_BoxHeard(self._me, "answered", 0.0, "", await self._own.answer(own)))
            theirs, agreement = await others
            return [*mine, *theirs], agreement
        finally:
            others.cancel()

    async def _ask_others(self, question: BoxQuestion, start: FleetCursor) -> tuple[list[_BoxHeard], FleetAgreement]:
        status = await asyncio.to_thread(self._status)
        agreement = FleetAgreement() if status is None else status.agreement
        if self._agent is None or status is None:
            return [], agreement
        asked = FleetQuestion(question, start.before, tuple(sorted(start.ended)))
        try:
            replies = (await self._agent.ask("/questions", asked, FleetReplies, ALL_S + _WAY_S)).boxes
        except MagpieError:  # the agent does not run
            ended = {*start.ended, self._me}
            replies = tuple(BoxReply(m.name, "silent") for m in agreement.members if m.name not in ended)
        return await asyncio.to_thread(lambda: [_read(one, agreement) for one in replies]), agreement


def _read(reply: BoxReply, agreement: FleetAgreement) -> _BoxHeard:
    """A box's answer; fields that this version does not know are left out."""
    if reply.outcome != "answered":
        return _BoxHeard(reply.box, reply.outcome, reply.age_s, "", None)
    try:
        found = _FOUND.validate_json(reply.answer, extra="ignore")
    except ValidationError:
        return _BoxHeard(reply.box, "failed", reply.age_s, "", None)
    member = agreement.member(reply.box)
    page = page_of(found, "" if member is None else member.address)
    return _BoxHeard(reply.box, "answered", reply.age_s, page, found)


def page_of(found: BoxFoundAnswer, address: str) -> str:
    """The address of a box's page, whose agent is at `address`; empty: none is known. A box may send anything:
    only addresses of the web are taken."""
    if found.page:
        return found.page if found.page.startswith(("https://", "http://")) else ""
    host = urlsplit(address).netloc.rpartition(":")[0]
    if found.page_port is None or not host:
        return ""
    return f"{'https' if found.page_tls else 'http'}://{host}:{found.page_port}/"


def _boxes(asked: Iterable[_BoxHeard]) -> tuple[AskedBoxAnswer, ...]:
    return tuple(AskedBoxAnswer(box=o.box, outcome=o.outcome, age_s=o.age_s, page=o.page) for o in asked)


def _listed(about: FleetQuestionKind, found: BoxFoundAnswer) -> tuple[Any, ...]:
    lists: dict[FleetQuestionKind, tuple[Any, ...]] = {
        "alarms": found.alarms, "objects": found.objects, "events": found.events, "audit": found.audit,
    }  # fmt: skip
    return lists[about]


def _numbered(who: Principal, rows: Iterable[Any]) -> list[tuple[int, Any]]:
    """The rows that the user may see, by number; a box may send anything."""
    return [(row.id, row) for row in rows if isinstance(row.id, int) and who.may_see(getattr(row, "camera", None))]


def _time(row: Any) -> float:
    """When a row began, of alarms and objects; else when it was written."""
    began = getattr(row, "began_utc_s", None)
    return float(row.utc_s or 0.0) if began is None else float(began)
