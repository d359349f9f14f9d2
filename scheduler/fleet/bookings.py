"""Which task holds what: the matcher's claims with what the schedulers keep beside them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

from edge.core.fleet import FleetBox
from scheduler.fleet.apart import Apart
from scheduler.fleet.compose import Ask
from scheduler.fleet.matcher import FLEET, Matcher
from scheduler.fleet.spread import Rank, Ranking


@dataclass(frozen=True)
class Booking:
    """A holder's box and what it asked for. `shape`: holders of one shape are alike to the spreading scheduler."""

    box: str
    ask: Ask
    shape: Hashable


class Bookings:
    """Takes and gives back all that one task holds. Invariant: matcher, groups and counts agree."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self.apart = Apart(matcher)
        self._of: dict[Hashable, Booking] = {}
        self._alike: dict[Hashable, dict[str, int]] = {}
        self._place: dict[str, int] = {}
        #: Boxes that are kept free, and for which job.
        self.kept: dict[str, str] = {}

    def box_began_anew(self, box: FleetBox) -> None:
        """A box joined, or forgot its names. No task holds anything of it."""
        self._place.setdefault(box.name, len(self._place))
        self.apart.box_began_anew(box)

    def take(self, holder: Hashable, booking: Booking) -> bool:
        """Book everything, or nothing: False where it does not fit."""
        ask = booking.ask
        claims = [(booking.box, ask.here)] + ([(FLEET, ask.fleet)] if ask.fleet else [])
        if not self.matcher.book(holder, claims):
            return False
        self._of[holder] = booking
        for group in dict.fromkeys(g.group for g in ask.groups):
            self.apart.joins(group, holder, booking.box)
            self._keep_own_units(booking)
        alike = self._alike.setdefault(booking.shape, {})
        alike[booking.box] = alike.get(booking.box, 0) + 1
        return True

    def give_back(self, holder: Hashable) -> Booking | None:
        """Free everything; answers with what was held."""
        booking = self._of.pop(holder, None)
        if booking is None:
            return None
        self.matcher.free(holder)
        for group in dict.fromkeys(g.group for g in booking.ask.groups):
            self.apart.leaves(group, holder)
        alike = self._alike[booking.shape]
        alike[booking.box] -= 1
        if not alike[booking.box]:
            del alike[booking.box]
        return booking

    def of(self, holder: Hashable) -> Booking | None:
        """The booking of a holder, if it has one."""
        return self._of.get(holder)

    def fitting(self, ask: Ask, job: str | None, among: Iterable[str] | None = None) -> list[str]:
        """Boxes on which one more task fits now, those that are kept free for other jobs left out; `job` None: a
        service, for which nothing is kept free."""
        here, fits, kept = ask.here, self.matcher.fits, self.kept
        boxes = self.matcher.candidates(here) if among is None else among
        if kept and job is not None:
            return [box for box in boxes if kept.get(box, job) == job and fits(box, here)]
        return [box for box in boxes if fits(box, here)]

    def rank(self, box: str, ranking: Ranking, alike: Mapping[str, int]) -> Rank:
        """The rank of a box; smaller is better."""
        return ranking(box, alike.get(box, 0), self._place[box])

    def alike(self, shape: Hashable) -> Mapping[str, int]:
        """Tasks of one shape by box."""
        return self._alike.setdefault(shape, {})

    def prune(self) -> None:
        """Forget shapes of which no task holds anything."""
        for shape in [shape for shape, boxes in self._alike.items() if not boxes]:
            del self._alike[shape]

    def _keep_own_units(self, booking: Booking) -> None:
        """A member holds its own unit: its box has exactly that one."""
        for group in booking.ask.groups:
            self.matcher.set_resource(Apart.name(group), 1.0, booking.box)
