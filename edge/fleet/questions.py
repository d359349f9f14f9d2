"""Questions of users to all boxes: the agent asks the other boxes for its appliance, and its appliance for them.

No question is kept. Each has a bound of boxes, bytes and time; an agent refuses more questions than it can carry.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from edge.core.clock import Clock
from edge.core.errors import Conflict, Forbidden, InvalidValue, MagpieError, NotFound, NotUnderstood, Unavailable
from edge.core.fleet_links import FleetAgreement, FleetMember
from edge.core.fleet_questions import (
    ALL_S,
    BOX_S,
    MOST_BOXES,
    MOST_BYTES,
    MOST_PICTURE,
    BoxOutcome,
    BoxQuestion,
    BoxReply,
    FleetQuestion,
    FleetReplies,
    PictureQuestion,
    may_see,
)
from edge.fleet.appliance_client import ApplianceClient
from edge.fleet.links import Links

#: So many questions of other boxes are answered at once, and so many of this box are asked; the next ones wait so long.
_AT_ONCE: Final = 8
_WAIT_S: Final = 1.0


class AgentQuestions:
    """`answers`: whether this box answers other boxes (fleet.answer). All of them have `all_s` seconds to answer."""

    def __init__(
        self,
        me: str,
        answers: bool,
        appliance: ApplianceClient,
        links: Links,
        agreement: Callable[[], FleetAgreement],
        clock: Clock,
        all_s: float = ALL_S,
    ) -> None:
        self._me, self._answers, self._all_s = me, answers, all_s
        self._appliance, self._links, self._agreement, self._clock = appliance, links, agreement, clock
        self._heard_s: dict[str, float] = {}
        # Two, so that boxes that ask each other never wait in a circle.
        self._asking, self._answering = asyncio.Semaphore(_AT_ONCE), asyncio.Semaphore(_AT_ONCE)

    # -- for this box's appliance

    async def ask(self, asked: FleetQuestion, sender: str) -> FleetReplies:
        """The other boxes' answers. Raises Forbidden for another box, Unavailable where too much is asked at
        once."""
        if sender != self._me:
            raise Forbidden(f"{sender} asks the other boxes itself")
        others = [m for m in self._agreement().members if m.name != self._me]
        wanted = [m for m in others if m.name not in asked.ended]
        now, late = wanted[:MOST_BOXES], wanted[MOST_BOXES:]
        async with self._turn(self._asking):
            replies = await self._ask_all(now, asked)
        return FleetReplies((*replies, *(BoxReply(m.name, "not_asked", self._age_s(m.name)) for m in late)))

    async def _ask_all(self, boxes: list[FleetMember], asked: FleetQuestion) -> list[BoxReply]:
        tasks = [asyncio.create_task(self._ask_box(m, asked)) for m in boxes]
        if not tasks:
            return []
        try:
            await asyncio.wait(tasks, timeout=self._all_s)
            silent = [BoxReply(m.name, "silent", self._age_s(m.name)) for m in boxes]
            return [t.result() if t.done() else none for t, none in zip(tasks, silent, strict=True)]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_box(self, box: FleetMember, asked: FleetQuestion) -> BoxReply:
        question = asked.question
        if box.name in asked.before:
            question = replace(question, rows=replace(question.rows, before=asked.before[box.name]))
        try:
            raw = await self._links.ask_bytes(box, "/question", question, BOX_S, MOST_BYTES)
            answer = raw.decode()
        except MagpieError as error:
            return BoxReply(box.name, outcome_of(error), self._age_s(box.name))
        except UnicodeDecodeError:
            return BoxReply(box.name, "failed", self._age_s(box.name))
        if len(raw) > MOST_BYTES:
            return BoxReply(box.name, "too_long", self._age_s(box.name))
        self._heard_s[box.name] = self._clock.monotonic()
        return BoxReply(box.name, "answered", 0.0, answer)

    def _age_s(self, box: str) -> float | None:
        heard_s = self._heard_s.get(box)
        return None if heard_s is None else self._clock.monotonic() - heard_s

    # -- for other boxes

    async def answer(self, question: BoxQuestion, sender: str) -> bytes:
        """The rows of this box's appliance, as JSON. Raises Forbidden, Unavailable, MagpieError in its words."""
        self._check_open(sender)
        member = self._agreement().member(sender)
        if question.about == "audit" and (member is None or member.rank is None):
            raise Forbidden(f"{sender} never decides: it does not get the audit of other boxes")
        async with self._turn(self._answering):
            return await self._appliance.answer(question)

    async def picture(self, asked: PictureQuestion, sender: str) -> bytes:
        """A camera's newest picture (JPEG), of this box or, for its own appliance, of another one. Raises NotFound,
        Forbidden, Unavailable."""
        if not may_see(asked.asker, asked.camera):
            raise NotFound(f"camera {asked.camera} does not exist")
        if asked.box == self._me:
            self._check_open(sender)
            async with self._turn(self._answering):
                return await self._appliance.snapshot(asked.camera, asked.width)
        box = self._agreement().member(asked.box)
        if sender != self._me:
            raise Forbidden(f"{sender} asks {asked.box} itself")
        if box is None:
            raise NotFound(f"box {asked.box} is not in the fleet")
        async with self._turn(self._asking):
            found = await self._links.ask_bytes(box, "/picture", asked, BOX_S, MOST_PICTURE)
        if len(found) > MOST_PICTURE:
            raise Unavailable(f"{asked.box} sent a picture of more than {MOST_PICTURE} bytes")
        return found

    def _check_open(self, sender: str) -> None:
        if not self._answers and sender != self._me:
            raise Forbidden(f"{self._me} does not answer other boxes' users", "fleet.answer in its site file")

    @asynccontextmanager
    async def _turn(self, free: asyncio.Semaphore) -> AsyncIterator[None]:
        """One of the questions that are carried at once. Raises Unavailable where none ends in time."""
        try:
            async with asyncio.timeout(_WAIT_S):
                await free.acquire()
        except TimeoutError:
            raise Unavailable(f"{self._me} is asked too much at once", "try again in a second") from None
        try:
            yield
        finally:
            free.release()


def outcome_of(error: MagpieError) -> BoxOutcome:
    """Why a box gave no answer."""
    if isinstance(error, Unavailable):
        return "silent"
    if isinstance(error, Forbidden):
        return "refused"
    # It has no such route, cannot read the question, or is of a version too far away.
    return "not_known" if isinstance(error, NotFound | NotUnderstood | InvalidValue | Conflict) else "failed"
