"""The agent of a box: beats to the head, votes, and where this box is the head, its duty. One task for each rhythm;
all of them run in one event loop, so that what one step reads and writes is not changed in between.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from edge.core.clock import Clock
from edge.core.errors import Conflict, Forbidden, MagpieError, StoreError, Unavailable
from edge.core.fleet import FleetRules
from edge.core.fleet_links import (
    LINK_RULES,
    AdmissionAsk,
    BeatAnswer,
    BoxAdmissionAnswer,
    FleetBeat,
    FleetCamera,
    FleetOrder,
    FleetStatus,
    JoinAnswer,
    JoinAsk,
    OrderAnswer,
    OtherVersion,
    RefusedBy,
    VoteAnswer,
    VoteRequest,
)
from edge.fleet.agent_jobs import AgentJobs, OfficeView
from edge.fleet.codes import use_code
from edge.fleet.copies import StudentCopies
from edge.fleet.head import HeadDuty
from edge.fleet.identity import authority_of
from edge.fleet.links import Links
from edge.fleet.memory import AgentMemory
from edge.fleet.order_records import OrderRecords
from edge.fleet.orders import camera_to_move, carried_out, check_newcomer, check_sender, invited, new_member
from edge.fleet.own_cameras import OwnCameras
from edge.fleet.refusals import Refusals
from edge.fleet.votes import Votes
from edge.version import magpie_version
from scheduler.fleet import election
from scheduler.fleet.ownership import with_members

log = logging.getLogger(__name__)

#: Rhythms in beats.
_ELECT_BEATS, _DECIDE_BEATS, _COPY_BEATS = 0.25, 0.5, 2.0
#: A box that does not answer a beat within so long is asked again with the next one.
_ANSWER_S: Final = 2.0
#: A box's own appliance answers within 4 s, or counts as refusing.
_ADMISSION_S: Final = 5.0
#: A head that leaves goes on until the others have the agreement without it, or for so long.
_LEAVE_S: Final = 5.0


class FleetAgent:
    """Implements `AgentDesk`. `run` goes on until it is cancelled, or the box has left its fleet; with each beat it
    calls `alive`."""

    def __init__(
        self,
        memory: AgentMemory,
        links: Links,
        own: OwnCameras,
        copies: StudentCopies,
        refusals: Refusals,
        records: OrderRecords,
        jobs: AgentJobs,
        clock: Clock,
        rules: FleetRules = LINK_RULES,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._memory, self._links, self._own, self._copies = memory, links, own, copies
        self._refusals, self._records, self._jobs = refusals, records, jobs
        self._clock, self._rules, self._alive = clock, rules, alive
        self._me = memory.me
        self._boot = secrets.token_hex(8)
        self._duty: HeadDuty | None = None
        #: When a decision was kept last.
        self._kept_s = 0.0
        #: The last answer of a head; of this box where it is the head.
        self._last_answer = BeatAnswer(memory.me, 0, None)
        self._asking: asyncio.Task[None] | None = None
        self._votes = Votes(memory, links, clock, rules)
        self._left = asyncio.Event()

    # -- running

    async def run(self) -> None:
        """Beat, vote, decide, copy and act. Returns when the box has left its fleet."""
        rhythms: tuple[tuple[Callable[[], Awaitable[None]], float], ...] = (
            (self._beat_step, self._rules.beat_s),
            (self._look_and_act, self._rules.beat_s),
            (self._elect, _ELECT_BEATS * self._rules.beat_s),
            (self._decide, _DECIDE_BEATS * self._rules.beat_s),
            (self._own.learn_students, self._rules.beat_s),
            (self._copies.follow, _COPY_BEATS * self._rules.beat_s),
            (self._records.hand_in, self._rules.beat_s),
        )
        tasks = [asyncio.create_task(self._at_rhythm(step, pause_s)) for step, pause_s in rhythms]
        left = asyncio.create_task(self._left.wait())
        try:
            done, _ = await asyncio.wait([*tasks, left], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            ending = [*tasks, left, *([] if self._asking is None else [self._asking])]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            await self._own.close()

    async def _at_rhythm(self, step: Callable[[], Awaitable[None]], pause_s: float) -> None:
        while True:
            began = self._clock.monotonic()
            try:
                await step()
            except (MagpieError, OSError) as error:
                # A full disk or an answer that cannot be read is no reason to end: the others would take the cameras.
                log.warning("%s", error)
            await asyncio.sleep(max(0.05, pause_s - (self._clock.monotonic() - began)))

    @property
    def has_left(self) -> bool:
        """Whether the box has left its fleet."""
        return self._left.is_set()

    # -- beats

    async def _beat_step(self) -> None:
        """On its own clock: an appliance that is slow to answer costs no beat."""
        memory = self._memory
        self._alive()
        if not memory.folder.joined:  # magpie fleet leave --force
            self._left.set()
            return
        if memory.is_head and self._duty is not None:
            now = self._clock.monotonic()
            self._duty.hear(self._beat(), now)
            self._last_answer = BeatAnswer(
                self._me, memory.election.term, self._me, answered_for_s=self._duty.answered_for_s(now),
                boxes=self._duty.statuses(), unplaced=self._duty.unplaced, waiting=self._duty.waiting,
                open_jobs=self._jobs.open_jobs, engine_at=self._jobs.engine_at,
            )  # fmt: skip
        if not self._mandate():
            # A head that was cut off asks, too: another one may have been chosen meanwhile, and would not beat to it.
            await self._beat_to_head()
        self._jobs.saw(self._office())
        memory.folder.write_status(self.status())

    async def _look_and_act(self) -> None:
        await self._own.look()
        self._own.act(self._memory.agreement, self._last_answer.answered_for_s)

    async def _beat_to_head(self) -> None:
        """To the head that is known; where it is silent, to all that may be it."""
        memory, state = self._memory, self._memory.election
        quiet = self._clock.monotonic() - state.heard_s > 2 * self._rules.beat_s
        known = state.head if state.head != self._me and not quiet else None
        targets = [known] if known is not None else [c for c in memory.agreement.candidates() if c != self._me]
        beat = self._beat()
        answers = await asyncio.gather(*(self._one_beat(box, beat) for box in targets if box is not None))
        for answer in answers:
            if answer is not None and answer.head == answer.sender:
                self._heard(answer)

    def _beat(self) -> FleetBeat:
        memory, own, age_s = self._memory, self._own, self._own.age_s
        answers = age_s < self._rules.lease_s
        return FleetBeat(
            self._me, memory.election.term, self._boot, self._last_answer.number, memory.agreement.version, answers,
            own.report(memory.agreement) if answers else (), own.refused, own.gone, magpie_version(),
            age_s if answers else 0.0, self._jobs.open_jobs, self._jobs.amounts, self._jobs.labels,
            self._jobs.node,
        )  # fmt: skip

    async def _one_beat(self, box: str, beat: FleetBeat) -> BeatAnswer | None:
        member = self._memory.member(box)
        if member is None:
            return None
        try:
            answer = await self._links.ask(member, "/beat", beat, BeatAnswer, _ANSWER_S)
            return answer if answer.sender == box else None
        except Forbidden as error:
            log.warning("%s refuses this box: %s", box, error)
            if self._memory.folder.leaving:
                self._left.set()
        except OtherVersion:
            self._refusals.add_of_box("other_version", box)
        except MagpieError as error:
            log.debug("%s", error)
        return None

    def _heard(self, answer: BeatAnswer) -> None:
        memory = self._memory
        now = self._clock.monotonic()
        state = election.heard(memory.election, memory.electorate, answer.sender, answer.term, now)
        if state is memory.election:  # of an older term, or of a box that never decides
            return
        memory.elect(state)
        self._last_answer = replace(answer, agreement=None)
        if answer.agreement is not None:
            memory.agree(answer.agreement)

    # -- the election

    async def _elect(self) -> None:
        if self._memory.is_head and self._duty is None:
            self._take_office({})
        silent_since = await self._votes.stand()
        if silent_since is not None:
            self._take_office(silent_since)

    def _take_office(self, silent_since: Mapping[str, float]) -> None:
        memory = self._memory
        if self._votes.newest.version > memory.agreement.version:
            memory.agree(self._votes.newest)
        term = memory.election.term
        self._kept_s = now = self._clock.monotonic()
        self._duty = HeadDuty.begin(term, memory.agreement, now, silent_since, self._rules)
        log.info("this box decides for the fleet (term %d)", term)

    def _mandate(self) -> bool:
        memory = self._memory
        now = self._clock.monotonic()
        return self._duty is not None and election.mandate(memory.election, memory.electorate, now, self._rules)

    def _head_duty(self) -> HeadDuty:
        """Raises Conflict on a box that is not the head, Unavailable on a head that hears too few boxes."""
        memory = self._memory
        if not memory.is_head or self._duty is None:
            head = memory.election.head
            raise Conflict(f"{self._me} is not the head", f"the head is {head}" if head else "no head is known now")
        if not self._mandate():
            raise Unavailable(f"{self._me} is the head, but hears less than half of the boxes now")
        return self._duty

    # -- deciding

    async def _decide(self) -> None:
        memory = self._memory
        if not memory.is_head:
            self._duty = None
            return
        duty = self._duty
        if duty is None:
            return
        duty.pass_time(memory.agreement, self._clock.monotonic())
        if not self._mandate():
            return
        now = self._clock.monotonic()
        found = duty.decide(memory.agreement, now)
        try:
            memory.agree(found.agreement)
            self._kept_s = now
        except StoreError as error:
            late = now - self._kept_s >= self._rules.lease_s
            if late and election.replaceable(memory.election, memory.electorate):
                memory.lay_down(now)
                raise StoreError(f"this box lays down its office: it cannot keep what it decides ({error})") from None
            raise
        if found.ask and (self._asking is None or self._asking.done()):
            self._asking = asyncio.create_task(self._ask_admission(duty, found.ask))

    async def _ask_admission(self, duty: HeadDuty, questions: tuple[tuple[str, str], ...]) -> None:
        await duty.ask(questions, lambda: self._memory.agreement, self._admission_of, self._clock)

    async def _admission_of(
        self, box: str, camera: FleetCamera, coming: tuple[FleetCamera, ...]
    ) -> BoxAdmissionAnswer | None:
        asked, member = AdmissionAsk((camera,), coming), self._memory.member(box)
        if box == self._me:
            return await self.admission(asked)
        if member is None:
            return None
        try:
            return await self._links.ask(member, "/admission", asked, BoxAdmissionAnswer, _ADMISSION_S)
        except MagpieError:
            return None

    # -- what other boxes ask (AgentDesk)

    @property
    def authority(self) -> str:
        """The certificate of the fleet's authority (PEM)."""
        return self._memory.folder.read_text("ca.pem")

    def refuses(self, box: str, serial: str) -> RefusedBy | None:
        """Why nothing is taken from the box with this certificate; None: it is a member."""
        agreement = self._memory.agreement
        if serial in agreement.revoked:
            return "revoked"
        member = agreement.member(box)
        return None if member is not None and member.serial == serial else "no_member"

    def beat(self, beat: FleetBeat) -> BeatAnswer:
        """A box lives. Only the head's answer counts for it."""
        memory, now = self._memory, self._clock.monotonic()
        memory.elect(election.saw_term(memory.election, memory.electorate, beat.sender, beat.term, now, self._rules))
        state, duty = memory.election, self._duty
        if not memory.is_head or duty is None:
            return BeatAnswer(self._me, state.term, state.head if state.head != self._me else None)
        duty.hear(beat, now)
        sent_s = duty.sent_s(beat.sender, beat.echo) if beat.term == state.term else None
        if sent_s is not None:
            memory.elect(election.supported(state, beat.sender, sent_s))
        other = beat.agreement != memory.agreement.version
        return BeatAnswer(
            self._me, state.term, self._me, duty.number(beat.sender, now), memory.agreement if other else None,
            duty.answered_for_s(now), duty.statuses(), duty.unplaced, duty.waiting, self._jobs.open_jobs,
            self._jobs.engine_at,
        )  # fmt: skip

    def vote(self, asked: VoteRequest) -> VoteAnswer:
        """A candidate asks for this box's vote; a vote that is given is on disk when this returns."""
        memory = self._memory
        state, granted = election.asked(
            memory.election, memory.electorate, asked.candidate, asked.term, asked.trial, self._clock.monotonic(),
            self._rules,
        )  # fmt: skip
        memory.elect(state)
        return VoteAnswer(self._me, memory.election.term, granted, asked.trial, memory.agreement if granted else None)

    async def admission(self, asked: AdmissionAsk) -> BoxAdmissionAnswer:
        """Would these cameras fit?"""
        return BoxAdmissionAnswer(*await self._own.admission(asked))

    def student(self, digest: str) -> Path | None:
        """The file of a student of the fleet's cameras."""
        return self._copies.file(digest)

    async def join(self, asked: JoinAsk, address: str) -> JoinAnswer:
        """A box with a join code. Raises Conflict, Forbidden, Unavailable."""
        duty, memory = self._head_duty(), self._memory
        authority = authority_of(memory.folder)
        if authority is None:
            raise Conflict(f"{self._me} may not let boxes in")
        check_newcomer(memory.agreement, asked)
        tried = use_code(memory.folder, asked.secret, self._clock.utc())
        if tried != "good":
            self._refusals.add(tried, f"from {address}")
            raise Forbidden({"used_code": "the join code was used", "old_code": "the join code is too old"}.get(
                tried, "the join code is not one of this box"), "magpie fleet invite makes another one")  # fmt: skip
        certificate, serial = authority.sign(asked.request, asked.name)
        member = new_member(memory.agreement, asked, serial)
        memory.agree(with_members(memory.agreement, (*memory.agreement.members, member), duty.term))
        log.info("%s is in the fleet (%s)", member.name, member.address)
        key = authority.key if asked.decides else ""
        return JoinAnswer(certificate, authority.certificate, memory.agreement, duty.term, self._me, key)

    async def order(self, order: FleetOrder, sender: str) -> OrderAnswer:
        """An operator's order; a box that is not the head hands it on. Raises InvalidValue, Conflict, NotFound,
        Forbidden, Unavailable."""
        if not self._memory.is_head and sender == self._me:
            answer = await self._handed_on(order)
        else:
            answer = await self._carried_out(order, sender)
        self._records.add(order, sender)
        return answer

    async def _carried_out(self, order: FleetOrder, sender: str) -> OrderAnswer:
        memory, duty = self._memory, self._head_duty()
        check_sender(memory.agreement, order, sender, self._me)
        if order.kind == "invite":
            return invited(memory.folder, memory.agreement, order, self._me)
        if order.kind == "move":
            await self._fits(duty, order)
            duty = self._head_duty()  # another box may have become the head meanwhile
        before = memory.agreement
        after = carried_out(before, order, duty.term)
        leaves = order.kind == "leave" and order.box == self._me
        if leaves:
            memory.folder.mark_leaving(True)
        memory.agree(after)
        duty.given(before, after, self._clock.monotonic())
        log.info("%s ordered: %s %s %s", sender, order.kind, order.camera, order.box)
        if leaves:
            asyncio.get_running_loop().call_later(_LEAVE_S, self._left.set)
        cameras = tuple(c.id for c in before.cameras if c.owner == order.box and order.kind in ("drain", "revoke"))
        return OrderAnswer(order.kind, order.box, (order.camera,) if order.kind == "move" else cameras)

    async def _handed_on(self, order: FleetOrder) -> OrderAnswer:
        """To the head. A box that dies before it has acted on the answer finds the mark when it begins again."""
        memory = self._memory
        head = memory.member(memory.election.head)
        if head is None or head.name == self._me:
            raise Unavailable("no head is known now", "try again in some seconds")
        leaves = order.kind == "leave" and order.box == self._me
        if leaves:
            memory.folder.mark_leaving(True)
        try:
            answer = await self._links.ask(head, "/order", order, OrderAnswer, 20.0)
        except Unavailable:  # the head may have heard it
            raise
        except MagpieError as error:
            if not (leaves and isinstance(error, Forbidden)):
                memory.folder.mark_leaving(False)
                raise
            answer = OrderAnswer(order.kind, order.box)  # the fleet does not know this box any more
        if leaves:
            self._left.set()
        return answer

    async def _fits(self, duty: HeadDuty, order: FleetOrder) -> None:
        """Raises Conflict where the box's own admission refuses the camera."""
        camera = camera_to_move(self._memory.agreement, order, duty.statuses())
        await self._ask_admission(duty, ((camera.id, order.box),))
        offer = duty.offers[camera.id, order.box][0]
        if not offer.admitted:
            raise Conflict(f"{order.box} does not admit the camera {camera.id}", "magpie admit shows why")
        camera_to_move(self._memory.agreement, order, duty.statuses())  # it may have changed meanwhile

    def _office(self) -> OfficeView:
        """The head, as this box knows it, for its part of the fleet's jobs."""
        decides, last = self._mandate(), self._last_answer
        beats = dict(self._duty.beats) if decides and self._duty is not None else {}
        head = self._memory.election.head
        open_jobs, engine_at = (last.open_jobs, last.engine_at) if last.sender == head else (0, "")
        return OfficeView(head, decides, beats, open_jobs, engine_at)

    # -- its status

    def status(self) -> FleetStatus:
        """The fleet as this box knows it."""
        memory, own = self._memory, self._own
        return FleetStatus(
            self._me, self._clock.utc(), memory.election.term, memory.election.head,
            self._mandate() if memory.is_head else None, own.appliance_answers, memory.agreement,
            dict(self._last_answer.boxes), dict(self._last_answer.unplaced), dict(self._refusals.counts), own.refused,
            tuple(own.overlaps[-20:]), dict(self._last_answer.waiting), self._refusals.boxes("other_version"),
        )  # fmt: skip
