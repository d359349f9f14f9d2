"""The head's duty: it hears the boxes, and gives cameras to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from edge.core.clock import Clock
from edge.core.fleet import BoxStatus, FleetRules
from edge.core.fleet_links import (
    LINK_RULES,
    BoxAdmissionAnswer,
    FleetAgreement,
    FleetBeat,
    FleetCamera,
    Unplaced,
)
from scheduler.fleet import membership
from scheduler.fleet.ownership import BoxOffer, BoxReport, Ownership, OwnershipView, coming_to, decide, heard_out

#: An answer of a box's admission counts for so long: longer than the slowest box takes for the same camera.
_OFFER_S: Final = 10.0
#: A refusal to a camera that is answered meanwhile counts for longer: the camera misses nothing.
_REFUSAL_S: Final = 60.0
#: No more questions are begun after so long; the answers that are there are used first.
_ROUND_S: Final = 3.0
_NUMBERS_KEPT: Final = 16
_NEVER: Final = (BoxOffer(False), float("-inf"))
#: The answer of a box about one camera, beside those that are coming to it; None: it does not answer.
AskBox = Callable[[str, FleetCamera, tuple[FleetCamera, ...]], Awaitable[BoxAdmissionAnswer | None]]


@dataclass
class HeadDuty:
    """Of one box in one term. Times are of its own clock."""

    term: int
    watched: membership.Membership
    rules: FleetRules = LINK_RULES
    beats: dict[str, FleetBeat] = field(default_factory=dict)
    given_s: dict[str, float] = field(default_factory=dict)
    answered_s: dict[str, float] = field(default_factory=dict)
    unplaced: Mapping[str, Unplaced] = field(default_factory=dict)
    waiting: Mapping[str, Unplaced] = field(default_factory=dict)
    offers: dict[tuple[str, str], tuple[BoxOffer, float]] = field(default_factory=dict)
    _sent: dict[str, dict[int, float]] = field(default_factory=dict)
    _count: int = 0

    @staticmethod
    def begin(
        term: int, agreement: FleetAgreement, now_s: float, silent_since: Mapping[str, float], rules: FleetRules
    ) -> HeadDuty:
        """A box won the election of a term. `silent_since`: when it heard the head before it last."""
        return HeadDuty(term, membership.begin(agreement.voters(), now_s, silent_since), rules)

    def hear(self, beat: FleetBeat, now_s: float) -> None:
        """A beat arrived. A box counts as heard when its appliance answered: without it its cameras are not there."""
        if beat.sender not in self.watched.boxes:  # it left, or is so new that its time has not begun
            return
        self.beats[beat.sender] = beat
        if beat.appliance:
            self.watched = membership.hear(self.watched, beat.sender, beat.boot, now_s - max(0.0, beat.age_s))

    def number(self, box: str, now_s: float) -> int:
        """The number of the answer that is sent to a box now."""
        self._count += 1
        sent = self._sent.setdefault(box, {})
        sent[self._count] = now_s
        while len(sent) > _NUMBERS_KEPT:
            del sent[min(sent)]
        return self._count

    def sent_s(self, box: str, number: int) -> float | None:
        """When an answer was sent to a box; None: long ago, or never."""
        return self._sent.get(box, {}).get(number)

    def pass_time(self, agreement: FleetAgreement, now_s: float) -> None:
        """Boxes become silent and lost; those that left are forgotten, new ones count as heard now."""
        for name in self.watched.boxes.keys() - set(agreement.voters()):
            self.watched = membership.forget(self.watched, name)
            self.beats.pop(name, None)
        for name in set(agreement.voters()) - self.watched.boxes.keys():
            self.watched = membership.hear(self.watched, name, "", now_s)
        self.watched, _ = membership.pass_time(self.watched, now_s, self.rules)

    def statuses(self) -> dict[str, BoxStatus]:
        """Every box's state."""
        return {name: watch.status for name, watch in self.watched.boxes.items()}

    def answered_for_s(self, now_s: float) -> dict[str, float]:
        """By camera: for how long its owner in force has answered, as far as this head saw it."""
        return {camera: now_s - since for camera, since in self.answered_s.items()}

    # -- deciding

    def decide(self, agreement: FleetAgreement, now_s: float) -> Ownership:
        """The next agreement, with the offers that are known."""
        offers = {key: offer for key, (offer, until_s) in self.offers.items() if now_s < until_s}
        found = decide(agreement, OwnershipView(self.term, now_s, self._reports(), self.given_s, offers))
        if self._heard_all():
            found = replace(found, agreement=heard_out(found.agreement, self.term))
        asked = {camera for camera, _ in found.ask}  # they wait as before until the answers are there
        self.unplaced = {c: w for c, w in self.unplaced.items() if c in asked} | dict(found.unplaced)
        self.waiting = {c: w for c, w in self.waiting.items() if c in asked} | dict(found.waiting)
        self._note_changes(agreement, found.agreement, now_s)
        return found

    def _heard_all(self) -> bool:
        """Whether every box that is there has sent this head its cameras."""
        known = {name for name, beat in self.beats.items() if beat.appliance}
        return all(status == "lost" or name in known for name, status in self.statuses().items())

    def given(self, before: FleetAgreement, after: FleetAgreement, now_s: float) -> None:
        """An operator's order gave cameras to other boxes."""
        self._note_changes(before, after, now_s)

    def _note_changes(self, before: FleetAgreement, after: FleetAgreement, now_s: float) -> None:
        known = {c.id: c for c in before.cameras}
        for camera in after.cameras:
            old = known.get(camera.id)
            if old is None or old.epoch != camera.epoch:
                self.given_s[camera.id] = now_s
                self.answered_s.pop(camera.id, None)
            self.given_s.setdefault(camera.id, now_s)  # by the head before this one
            if camera.answered:
                self.answered_s.setdefault(camera.id, now_s)
        for name in known.keys() - {c.id for c in after.cameras}:
            self.given_s.pop(name, None)
            self.answered_s.pop(name, None)

    def _reports(self) -> dict[str, BoxReport]:
        out = {}
        for name, status in self.statuses().items():
            beat = self.beats.get(name)
            if beat is None:
                out[name] = BoxReport(status)
            else:
                out[name] = BoxReport(status, beat.cameras, frozenset(r.id for r in beat.refused), beat.gone)
        return out

    async def ask(
        self,
        questions: Collection[tuple[str, str]],
        agreement: Callable[[], FleetAgreement],
        ask_box: AskBox,
        clock: Clock,
    ) -> None:
        """Ask boxes for their admission, about one camera after the other; the answers are kept. A box counts the
        cameras that are coming to it by the `agreement` of now, and those that it admitted before in this call. Where
        it takes too long the rest is left for the next call. A box that does not answer is not asked again for a
        while."""
        began_s = clock.monotonic()
        known = {c.id: c for c in agreement().cameras}
        self.offers = {key: offer for key, offer in self.offers.items() if key[0] in known}
        boxes: dict[str, list[str]] = {}
        # Those that were never asked about come first, then the oldest: no camera waits behind others for ever.
        for name, box in sorted(questions, key=lambda key: self.offers.get(key, _NEVER)[1]):
            if name in known:
                boxes.setdefault(name, []).append(box)
        away: set[str] = set()
        fits: dict[str, list[FleetCamera]] = {}

        def counted(camera: FleetCamera, box: str) -> tuple[FleetCamera, ...]:
            now = agreement()
            coming = {c.id: c for c in coming_to(now, box)}
            coming |= {c.id: c for c in fits.get(box, ()) if now.camera(c.id) == c}  # the others have a box by now
            return tuple(c for c in coming.values() if c.id != camera.id)

        async def one(camera: FleetCamera, box: str) -> None:
            coming = counted(camera, box)
            answer = None if box in away else await ask_box(box, camera, coming)
            if answer is None:
                away.add(box)
            offer = BoxOffer(False) if answer is None else offer_of(answer, camera.id)
            offer = replace(offer, beside=frozenset(c.id for c in coming))
            if offer.admitted:
                fits.setdefault(box, []).append(camera)
            missed = offer.admitted or not camera.answered or self.watched.status(str(camera.owner)) == "lost"
            self.offers[camera.id, box] = (offer, clock.monotonic() + (_OFFER_S if missed else _REFUSAL_S))

        for name, asked in boxes.items():
            await asyncio.gather(*(one(known[name], box) for box in asked))
            if clock.monotonic() - began_s >= _ROUND_S:
                return


def offer_of(answer: BoxAdmissionAnswer, camera: str) -> BoxOffer:
    """A box's answer about one camera."""
    if camera not in answer.accuracy:
        return BoxOffer(False)
    return BoxOffer(True, answer.accuracy[camera] - answer.now)
