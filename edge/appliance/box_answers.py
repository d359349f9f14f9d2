"""The rows of this box for a user of another box (or of this one): the user's role and limits are applied here."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from edge.appliance.alarms_service import AlarmsService
from edge.appliance.answers.access import AuditAnswer
from edge.appliance.answers.alarms import AlarmAnswer, ObjectAnswer
from edge.appliance.answers.fleet import CameraOverlapAnswer, FleetLendingAnswer
from edge.appliance.answers.fleet_wide import BoxFoundAnswer, CameraOnWall
from edge.appliance.answers.limit import limited
from edge.appliance.box_now import box_now, seen_now
from edge.appliance.journal_pages import entry_number, seen_entries
from edge.appliance.service import EventsService, SecretsService, StateService
from edge.core.access import Principal
from edge.core.errors import Forbidden
from edge.core.fleet_questions import MOST_ROWS, BoxQuestion, FleetUser, RowFilter
from edge.fleet.folder import FleetFolder
from edge.settings import SiteSettings

T = TypeVar("T")

_OVERLAPS: Final = 50


class BoxAnswers:
    """Answers questions from this box's own records."""

    def __init__(
        self,
        site: SiteSettings,
        state: StateService,
        alarms: AlarmsService,
        events: EventsService,
        audit: SecretsService,
        lending: Callable[[], FleetLendingAnswer],
    ) -> None:
        self._site, self._state, self._alarms, self._events, self._audit = site, state, alarms, events, audit
        self._lending = lending
        self._folder = FleetFolder(Path(site.data_dir))

    async def answer(self, question: BoxQuestion) -> BoxFoundAnswer:
        """The part of it that the asker may see, at most `MOST_ROWS` rows. Raises Forbidden, StoreError."""
        who, rows = principal_of(question.asker), question.rows
        if question.about == "wall":
            return self._answer(False, cameras=self._wall(who))
        if question.about == "boxes":
            now = box_now(self._state.overview(), self._state.health(), self._lending())
            return self._answer(False, now=seen_now(now, who))
        if question.about == "audit" and not (who.may("admin") and who.sees_all):
            raise Forbidden("the audit is for administrators who see every camera")
        return await asyncio.to_thread(self._rows, question.about, who, rows)

    def _rows(self, about: str, who: Principal, rows: RowFilter) -> BoxFoundAnswer:
        limit, camera = min(rows.limit, MOST_ROWS), rows.camera or None
        if camera is not None and not who.may_see(camera):
            return self._answer(False)
        if about == "alarms":
            rule = rows.rule or None
            alarms = self._alarms.alarms(limit, rows.before, camera, rule, rows.active, who.cameras, who.tenants)
            overlaps = self._overlaps(who)
            return self._answer(len(alarms) == limit, _last(alarms), alarms=tuple(alarms), overlaps=overlaps)
        if about == "objects":
            objects = self._alarms.objects(
                limit, rows.before, camera, rows.of_class or None, rows.active, who.cameras
            )  # fmt: skip
            return self._answer(len(objects) == limit, _last(objects), objects=_seen(who, objects))
        if about == "events":
            entries = seen_entries(self._events.recent, who, limit, rows.before, camera, rows.entry or None)
            last = entry_number(entries[-1]) if entries else None
            return self._answer(len(entries) == limit, last, events=tuple(entries))
        changes = self._audit.audit(limit, rows.before)
        return self._answer(len(changes) == limit, _last(changes), audit=tuple(changes))

    def _wall(self, who: Principal) -> tuple[CameraOnWall, ...]:
        return tuple(
            CameraOnWall(
                camera=c.id, name=c.name, state=c.state.state, fault=c.state.fault, accuracy=c.state.accuracy.realised,
                fps=c.state.stream.fps, answers_per_s=c.state.inference.answers_per_s,
            )
            for c in self._state.overview().cameras
            if who.may_see(c.id)
        )  # fmt: skip

    def _overlaps(self, who: Principal) -> tuple[CameraOverlapAnswer, ...]:
        kept = self._folder.read_json("overlaps.json") or []
        return tuple(
            CameraOverlapAnswer(camera=o["camera"], start_utc_s=o["start_utc_s"], end_utc_s=o["end_utc_s"])
            for o in kept[-_OVERLAPS:]
            if who.may_see(o["camera"])
        )

    def _answer(self, more: bool, last: int | None = None, **found: Any) -> BoxFoundAnswer:
        web, fleet = self._site.web, self._site.fleet
        page = "" if fleet is None else fleet.page
        port = None if _on_the_machine_only(web.host) else web.port
        tls = web.tls is not None
        return BoxFoundAnswer(page=page, page_port=port, page_tls=tls, more=more, last=last, **found)


def principal_of(user: FleetUser) -> Principal:
    """The user as a requester of this box."""
    return Principal(user.name, user.role, _set(user.cameras), tenants=_set(user.tenants))


def asker_of(who: Principal) -> FleetUser:
    """A requester as other boxes know it."""
    return FleetUser(who.name, who.role, _sorted(who.cameras), _sorted(who.tenants))


def _set(ids: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if ids is None else frozenset(ids)


def _sorted(ids: frozenset[str] | None) -> tuple[str, ...] | None:
    return None if ids is None else tuple(sorted(ids))


def _last(rows: Sequence[AlarmAnswer | ObjectAnswer | AuditAnswer]) -> int | None:
    return rows[-1].id if rows else None


def _seen(who: Principal, found: Iterable[T]) -> tuple[T, ...]:
    if who.sees_all:
        return tuple(found)
    seen = (limited(one, who.may_see, who.may_see_tenant) for one in found)
    return tuple(one for one in seen if one is not None)


def _on_the_machine_only(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
