"""The matcher: holders ask for named quantities, boxes have them, no box is over-booked.

It knows amounts and names only. Every other rule of a fleet is expressed by ephemeral resources: names that are made,
resized and removed while holders hold them. A demand may ask for a name that does not exist yet; it fits once the name
is made.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final

from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.core.fleet import UNBOUNDED

#: The place of names that belong to the fleet as a whole (signals, slots of queues).
FLEET: Final = ""
#: Rounding allowed in sums of amounts.
_ROUNDING: Final = 1e-9

Demand = Mapping[str, float]
#: One place and what is held there.
Claim = tuple[str, Demand]


class _Room:
    """Amounts of one box. Invariant: no physical name is used beyond its capacity."""

    __slots__ = ("capacity", "load", "open", "physical", "used")

    def __init__(self, resources: Mapping[str, float]) -> None:
        self.capacity: dict[str, float] = dict(resources)
        self.used: dict[str, float] = {}
        self.physical: frozenset[str] = frozenset(resources)
        self.open = True
        #: Largest used part of a physical resource, 0-1.
        self.load = 0.0

    def weigh(self) -> None:
        load = 0.0
        for name in self.physical:
            used = self.used.get(name, 0.0)
            if used > 0.0 and used > load * self.capacity[name]:
                load = used / self.capacity[name]
        self.load = load


class Matcher:
    """Named quantities by box and of the fleet as a whole. Books all claims of a holder, or none."""

    def __init__(self) -> None:
        self._rooms: dict[str, _Room] = {FLEET: _Room({})}
        self._everywhere: dict[str, float] = {}
        self._with: dict[str, dict[str, None]] = {}
        self._held: dict[Hashable, tuple[Claim, ...]] = {}
        #: Boxes whose free amounts changed, in order, and those of which more is free; readers keep their place.
        self.changes: list[str] = []
        self.freed: list[str] = []
        #: (box, name) of ephemeral resources that were made, resized or removed since the reader emptied it.
        self.resized: list[tuple[str, str]] = []

    # --- boxes ---------------------------------------------------------------------------------------------------
    @property
    def boxes(self) -> Collection[str]:
        """Names of all boxes, in the order in which they came."""
        return [name for name in self._rooms if name != FLEET]

    def add_box(self, box: str, resources: Mapping[str, float]) -> None:
        """A box with its physical resources, empty. Raises Conflict where the name is taken."""
        if box in self._rooms:
            raise Conflict(f"there is a box {box} already")
        self._rooms[box] = _Room(resources)
        self._note(box, freed=True)

    def forget_names(self, box: str, resources: Mapping[str, float]) -> None:
        """The box began anew: its ephemeral resources are gone. Raises Conflict while a holder has some of it."""
        room = self._room(box)
        if any(used > _ROUNDING for used in room.used.values()):
            raise Conflict(f"resources of {box} are still held")
        for name in [n for n in room.capacity if n not in room.physical]:
            self._unset(name, box)
        self._rooms[box] = _Room(resources)
        self._note(box, freed=True)

    def close(self, box: str) -> None:
        """Nothing more fits on the box until it is opened; holders keep what they hold."""
        self._room(box).open = False
        self._note(box, freed=False)

    def reopen(self, box: str) -> None:
        """The box takes claims again."""
        self._room(box).open = True
        self._note(box, freed=True)

    def is_open(self, box: str) -> bool:
        """Whether the box takes claims."""
        return self._room(box).open

    # --- names ---------------------------------------------------------------------------------------------------
    def set_resource(self, name: str, capacity: float, box: str = FLEET) -> None:
        """Make, resize, or (capacity 0) remove an ephemeral resource on a box, or of the fleet as a whole. Holders keep
        what they hold; where that is more than the new capacity, nothing fits until enough of it is free.
        Raises InvalidValue for a physical resource of the box or a capacity below 0, NotFound for an unknown box."""
        room = self._room(box)
        if name in room.physical:
            raise InvalidValue("name", name, f"an ephemeral resource: {box} has this one by itself")
        if not 0.0 <= capacity <= UNBOUNDED:
            raise InvalidValue("capacity", capacity, f"a number from 0 to {UNBOUNDED:g}")
        before = self.capacity(name, box)
        if capacity == 0.0 and name not in self._everywhere:
            self._unset(name, box)
        else:
            room.capacity[name] = capacity
            if box != FLEET:
                self._with.setdefault(name, {})[box] = None
                self.resized.append((box, name))
        self._note(box, freed=capacity > before)

    def set_everywhere(self, name: str, capacity: float) -> None:
        """The capacity of a name on each box that has none of its own, boxes to come included; 0 removes it. The caller
        retries what waits: no change of single boxes is reported."""
        if capacity == 0.0:
            self._everywhere.pop(name, None)
        else:
            self._everywhere[name] = capacity

    def clear(self, name: str, box: str) -> None:
        """The box has no capacity of its own for a name that exists everywhere."""
        self._unset(name, box)
        self._note(box, freed=True)

    def capacity(self, name: str, box: str) -> float:
        """The capacity of a name on a box, 0 where it has none."""
        return self._room(box).capacity.get(name, self._everywhere.get(name, 0.0) if box != FLEET else 0.0)

    def exists(self, name: str) -> bool:
        """Whether an ephemeral resource exists anywhere."""
        return name in self._everywhere or bool(self._with.get(name)) or name in self._rooms[FLEET].capacity

    def holders_of(self, name: str) -> Collection[str]:
        """Boxes with a capacity of their own for an ephemeral resource."""
        return self._with.get(name, {}).keys()

    def _unset(self, name: str, box: str) -> None:
        self._room(box).capacity.pop(name, None)
        self.resized.append((box, name))
        boxes = self._with.get(name)
        if boxes is not None:
            boxes.pop(box, None)
            if not boxes:
                del self._with[name]

    # --- matching ------------------------------------------------------------------------------------------------
    def fits(self, box: str, demand: Demand) -> bool:
        """Whether one more claim fits now."""
        room = self._rooms[box]
        if not room.open:
            return False
        capacity, used = room.capacity, room.used
        for name, amount in demand.items():
            have = capacity.get(name)
            if have is None:
                have = self._everywhere.get(name, 0.0) if box != FLEET else 0.0
            if used.get(name, 0.0) + amount > have + _ROUNDING:
                return False
        return True

    def count(self, box: str, demand: Demand, most: int, *, empty: bool = False) -> int:
        """How many claims fit side by side, at most `most`; `empty`: if nothing were held and the box were open."""
        room = self._rooms[box]
        if not (room.open or empty):
            return 0
        fitting = most
        for name, amount in demand.items():
            if amount <= 0.0:
                continue
            have = room.capacity.get(name)
            if have is None:
                have = self._everywhere.get(name, 0.0)
            free = have - (0.0 if empty else room.used.get(name, 0.0))
            if free + _ROUNDING < amount * fitting:
                fitting = int((free + _ROUNDING) / amount) if free > 0.0 else 0
                if fitting <= 0:
                    return 0
        return fitting

    def candidates(self, demand: Demand) -> Iterable[str]:
        """Boxes on which the demand might fit: those with its rarest ephemeral resource, or all."""
        fewest: Collection[str] | None = None
        for name in demand:
            if ":" in name and name not in self._everywhere:
                boxes = self._with.get(name)
                if not boxes:
                    return ()
                if fewest is None or len(boxes) < len(fewest):
                    fewest = boxes
        return self.boxes if fewest is None else list(fewest)

    def match(self, demand: Demand) -> str | None:
        """The least loaded box on which the demand fits now; None: it fits nowhere, or a name is not made."""
        best, least = None, 2.0
        rooms = self._rooms
        for box in self.candidates(demand):
            load = rooms[box].load
            if load < least and self.fits(box, demand):
                best, least = box, load
                if load == 0.0:
                    break
        return best

    def load(self, box: str) -> float:
        """Largest used part of a physical resource of the box, 0-1."""
        return self._rooms[box].load

    def load_with(self, box: str, demand: Demand) -> float:
        """The load of the box if the demand were booked."""
        room = self._rooms[box]
        load = room.load
        for name, amount in demand.items():
            if name in room.physical and amount > 0.0:
                load = max(load, (room.used.get(name, 0.0) + amount) / room.capacity[name])
        return load

    # --- booking -------------------------------------------------------------------------------------------------
    def book(self, holder: Hashable, claims: Sequence[Claim]) -> bool:
        """Book all claims for the holder, or none: False where one does not fit. Raises Conflict where the holder holds
        something already, NotFound for an unknown box."""
        if holder in self._held:
            raise Conflict(f"{holder} holds resources already")
        for done, (box, demand) in enumerate(claims):
            if box not in self._rooms:
                self._give_back(claims[:done])
                raise NotFound(f"there is no box {box}")
            if not self.fits(box, demand):
                self._give_back(claims[:done])
                return False
            self._take(box, demand, 1.0)
        self._held[holder] = tuple(claims)
        return True

    def free(self, holder: Hashable) -> tuple[Claim, ...]:
        """Give back all that the holder holds; answers with it. A holder of nothing is no error."""
        claims = self._held.pop(holder, ())
        self._give_back(claims)
        return claims

    def held(self, holder: Hashable) -> tuple[Claim, ...]:
        """The claims of the holder."""
        return self._held.get(holder, ())

    def held_beyond(self, name: str, box: str) -> float:
        """How much more of a name is held than there is now (it was resized); 0 where it is not."""
        over = self._rooms[box].used.get(name, 0.0) - self.capacity(name, box)
        return over if over > _ROUNDING else 0.0

    def status(self, box: str) -> dict[str, tuple[float, float]]:
        """(capacity, available) by name."""
        room = self._room(box)
        return {name: (amount, amount - room.used.get(name, 0.0)) for name, amount in room.capacity.items()}

    def _give_back(self, claims: Sequence[Claim]) -> None:
        for box, demand in claims:
            self._take(box, demand, -1.0)

    def _take(self, box: str, demand: Demand, sign: float) -> None:
        room = self._rooms[box]
        used = room.used
        for name, amount in demand.items():
            now = used.get(name, 0.0) + sign * amount
            if now > _ROUNDING:
                used[name] = now
            else:
                used.pop(name, None)
        room.weigh()
        self._note(box, freed=sign < 0.0)

    def _note(self, box: str, *, freed: bool) -> None:
        self.changes.append(box)
        if freed:
            self.freed.append(box)

    def _room(self, box: str) -> _Room:
        room = self._rooms.get(box)
        if room is None:
            raise NotFound(f"there is no box {box}")
        return room
