"""The agent's part of lending: it hears what others offer, carries work to a lender and its candidate back, and as a
lender copies a borrower's files. It decides nothing: the appliances' own plans do.

The lender fetches each file by its SHA-256 from the borrower, and the borrower the candidate from the lender. A file
that is there already is not fetched again, so a broken line costs one file.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, MagpieError, Unavailable
from edge.core.fleet_links import (
    FleetAgreement,
    FleetMember,
    LendingAnswer,
    LendingAsk,
    LentAnswer,
    LentAsk,
    LentQuery,
)
from edge.core.lending import LARGEST_WORK, MOST_OPEN, LendingOffers, LentState, LentWork, check_digest, check_work_id
from edge.fleet.links import Links
from edge.runtime.lending_folder import LendingFolder, WorkInput
from edge.runtime.tasks import repeated
from edge.settings import LendingSettings

log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
_ASK_S: Final = 3.0
_FILE_S: Final = 60.0
#: A borrower that has not asked for so long is taken to be gone; so is a lender that does not answer.
_GONE_S: Final = 15.0
_AT_ONCE: Final = 4
#: Before each try to fetch a file, in seconds.
_PAUSES_S: Final = (0.0, 0.5, 2.0)


class AgentLending:
    """One box's part; it looks once a second while it is open (`async with`). `agreement` gives the present one.
    Implements `LendingDesk` (edge.fleet.server)."""

    def __init__(
        self,
        me: str,
        settings: LendingSettings,
        folder: LendingFolder,
        links: Links,
        agreement: Callable[[], FleetAgreement],
        clock: Clock,
    ) -> None:
        self._me, self._settings, self._folder, self._links = me, settings, folder, links
        self._agreement, self._clock = agreement, clock
        #: Bytes a second from each box, of the last candidate that came.
        self._rates: dict[str, float] = {}
        #: When a lender was heard last (asked), and a borrower (lent).
        self._heard_s: dict[str, float] = {}
        self._copying: dict[str, asyncio.Task[None]] = {}
        self._rounds: asyncio.Task[None]

    async def __aenter__(self) -> AgentLending:
        self._rounds = asyncio.create_task(repeated(self.look, _LOOK_S, "lending"), name="lending")
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [self._rounds, *self._copying.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> None:
        """One round."""
        if self._settings.borrow:
            await self._hear_offers()
        await asyncio.gather(*(self._follow(name) for name in self._folder.asked.ids()))
        lent = self._folder.lent.ids()
        for name in lent:
            self._forget_silent(name)
        known = {*lent, *self._folder.asked.ids()}
        self._heard_s = {n: s for n, s in self._heard_s.items() if n in known}
        self._copying = {n: t for n, t in self._copying.items() if not t.done()}

    # -- as a borrower

    async def _hear_offers(self) -> None:
        others = [m for m in self._agreement().members if m.name != self._me]
        found = await asyncio.gather(*(self._offer_of(m) for m in others))
        offers = tuple(o.offer for o in found if o is not None and o.offer is not None)
        rated = tuple(replace(o, rate=self._rates.get(o.box, o.rate)) for o in offers)
        self._folder.write_offers(LendingOffers(rated))

    async def _offer_of(self, box: FleetMember) -> LendingAnswer | None:
        try:
            answer = await self._links.ask(box, "/lending/offer", LendingAsk(), LendingAnswer, _ASK_S)
        except (MagpieError, ValueError) as error:  # away, of an older version, or its answer is none
            log.debug("%s", error)
            return None
        return answer if answer.offer is None or answer.offer.box == box.name else None

    async def _follow(self, name: str) -> None:
        """One step of a retraining that another box does."""
        folders = self._folder.asked
        given, work = folders.given(name), folders.work(name)
        box = None if given is None else self._agreement().member(given.box)
        if work is None or box is None or folders.marked(name, "cancel"):
            if box is not None:
                await self._call_off(name, box)
            folders.remove(name)
            return
        before = folders.state(name)
        if before is not None and before.phase in ("done", "failed"):
            return
        now_s = self._clock.monotonic()
        self._heard_s.setdefault(name, now_s)
        try:
            state = await self._state_of(box, name, work, before)
        except Unavailable as error:
            if now_s - self._heard_s[name] > _GONE_S:
                folders.write_state(name, LentState("failed", "unreachable", str(error)))
            return
        except (MagpieError, ValueError) as error:
            folders.write_state(name, LentState("failed", "refused", str(error)))
            return
        self._heard_s[name] = now_s
        here = await self._fetched(box, name, state) if state.phase == "done" else state
        if here is not None:
            folders.write_state(name, here)

    async def _state_of(self, box: FleetMember, name: str, work: LentWork, before: LentState | None) -> LentState:
        if before is None:
            return (await self._links.ask(box, "/lending/work", LentAsk(work), LentAnswer, 20.0)).state
        return (await self._links.ask(box, "/lending/state", LentQuery(name), LentAnswer, _ASK_S)).state

    async def _fetched(self, box: FleetMember, name: str, state: LentState) -> LentState | None:
        """The candidate is here; None: it is tried again."""
        began_s = self._clock.monotonic()
        try:
            most = min(state.size, LARGEST_WORK)
            content = await self._links.fetch(box, f"/lending/candidates/{name}", _FILE_S, most=most)
        except MagpieError as error:
            if self._clock.monotonic() - self._heard_s[name] > _GONE_S:
                return LentState("failed", "unreachable", str(error))
            return None
        if len(content) != state.size or hashlib.sha256(content).hexdigest() != state.digest:
            return LentState("failed", "damaged", f"{box.name} sent another file than it announced")
        _put(self._folder.asked.candidate(name), content)
        self._rates[box.name] = max(1.0, len(content) / max(1e-3, self._clock.monotonic() - began_s))
        return state

    async def _call_off(self, name: str, box: FleetMember) -> None:
        try:
            await self._links.ask(box, "/lending/state", LentQuery(name, cancel=True), LentAnswer, _ASK_S)
        except (MagpieError, ValueError) as error:
            log.debug("%s did not hear that %s is called off: %s", box.name, name, error)

    # -- as a lender, and what others ask

    def offered(self) -> LendingAnswer:
        """The offer of this box now."""
        return LendingAnswer(self._folder.offer() if self._settings.lend else None)

    def take(self, work: LentWork, sender: str) -> LentState:
        """Take a work on. Raises Conflict where nothing is lent, or not with this golden model, InvalidValue for work
        that is none."""
        name, folders = _name_of(sender, work.id), self._folder.lent
        self._heard_s[name] = self._clock.monotonic()
        known = folders.state(name)
        if known is not None:  # the answer was lost
            return known
        offer = self.offered().offer
        # A box that prepares its window lends again when it is done.
        share = 0.0 if offer is None else max(offer.share, offer.again)
        if share <= 0.0:
            raise Conflict(f"{self._me} lends nothing now")
        if work.labelling is not None and (offer is None or work.labelling.teacher != offer.teacher):
            raise Conflict(f"{self._me} has another golden model")
        if sum(self._open(other) for other in folders.ids()) >= MOST_OPEN:
            raise Conflict(f"{self._me} has {MOST_OPEN} works of other boxes already")
        if work.share > share + 1e-6:
            raise Conflict(f"{self._me} lends a share of {share:g}, not {work.share:g}")
        state = LentState("fetching")
        folders.begin(replace(work, id=name), WorkInput(sender, {}))
        folders.write_state(name, state)
        self._copying[name] = asyncio.create_task(self._copy(name, work, sender), name=f"copy {name}")
        return state

    def state(self, query: LentQuery, sender: str) -> LentState:
        """How far a retraining is that `sender` asked for."""
        name, folders = _name_of(sender, query.id), self._folder.lent
        self._heard_s[name] = self._clock.monotonic()
        state = folders.state(name)
        if query.cancel and state is not None:
            self._cancel(name)
        return state or LentState("failed", "withdrawn", "it is not known here (any more)")

    def blob(self, name: str, digest: str, sender: str) -> Path | None:
        """A file of a retraining that this box has lent to `sender`, and of no other."""
        check_work_id("id", name)
        check_digest("digest", digest)
        given = self._folder.asked.given(name)
        if given is None or given.box != sender or digest not in given.paths:
            return None
        path = Path(given.paths[digest])
        return path if path.is_file() else None

    def candidate(self, name: str, sender: str) -> Path | None:
        """The student that came out of `sender`'s retraining."""
        own = _name_of(sender, name)
        state = self._folder.lent.state(own)
        path = self._folder.lent.candidate(own)
        return path if state is not None and state.phase == "done" and path.is_file() else None

    async def _copy(self, name: str, work: LentWork, sender: str) -> None:
        """All files of a retraining that are not here."""
        box = self._agreement().member(sender)
        folders, slots = self._folder.lent, asyncio.Semaphore(_AT_ONCE)

        async def one(digest: str, size: int) -> None:
            async with slots:
                content = await self._file(box, work.id, digest, size)
                await asyncio.to_thread(_put, folders.blob(name, digest), content)

        began_s = self._clock.monotonic()
        try:
            if box is None:
                raise Conflict(f"{sender} is no box of this fleet (any more)")
            async with asyncio.TaskGroup() as group:
                for digest, size in work.blobs.items():
                    group.create_task(one(digest, size))
        except (MagpieError, OSError, ExceptionGroup) as error:
            why = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            log.warning("the files of %s cannot be copied: %s", name, why)
            folders.write_state(name, LentState("failed", "failed", f"its files did not come: {why}"))
            return
        took_s, size = self._clock.monotonic() - began_s, sum(work.blobs.values())
        log.info("the files of %s are here: %.1f MB in %.1f s", name, size / 1e6, took_s)
        folders.mark(name, "ready")

    async def _file(self, box: FleetMember | None, name: str, digest: str, size: int) -> bytes:
        """One file, asked for again where the line broke. Raises Unavailable, InvalidValue for another content."""
        assert box is not None
        last: MagpieError = Unavailable(f"{box.name} does not answer")
        for pause_s in _PAUSES_S:
            await asyncio.sleep(pause_s)
            try:
                content = await self._links.fetch(box, f"/lending/files/{name}/{digest}", _FILE_S, most=size)
            except Unavailable as error:
                last = error
                continue
            if len(content) != size or hashlib.sha256(content).hexdigest() != digest:
                raise InvalidValue("file", digest, f"the content that {box.name} announced")
            return content
        raise last

    def _open(self, name: str) -> bool:
        """Whether something is to be done for a retraining still."""
        state = self._folder.lent.state(name)
        ended = state is not None and state.phase in ("done", "failed")
        return not ended and not self._folder.lent.marked(name, "cancel")

    def _forget_silent(self, name: str) -> None:
        """A borrower that does not ask any more has given up, or is gone."""
        now_s = self._clock.monotonic()
        if now_s - self._heard_s.setdefault(name, now_s) > 2 * _GONE_S:
            self._cancel(name)

    def _cancel(self, name: str) -> None:
        task = self._copying.pop(name, None)
        if task is not None:
            task.cancel()
        self._folder.lent.mark(name, "cancel")


def _name_of(sender: str, name: str) -> str:
    """A retraining's name on its lender: no two borrowers have the same."""
    own = f"{sender}.{name}"
    check_work_id("id", own)
    return own


def _put(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary.write_bytes(content)
    temporary.replace(path)
