"""One list of the rows of several boxes, newest first, page after page."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: A row of a box, by the box's name and the row's number there.
RowKey = tuple[str, int]


@dataclass(frozen=True)
class BoxPage:
    """A box's rows as it sent them, newest first: their numbers, each lower than the one before, and times. `more`:
    there are older ones, with numbers below `last` (None: below those of `rows`)."""

    box: str
    rows: tuple[tuple[int, float], ...]
    more: bool
    last: int | None = None


@dataclass(frozen=True)
class FleetCursor:
    """Where the next page begins. `before`: by box, the number below which its rows are; `ended`: boxes that have no
    more; `shown`: rows to come that were shown already, as the same as another box's."""

    before: Mapping[str, int] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    shown: frozenset[RowKey] = frozenset()


@dataclass(frozen=True)
class FleetPage:
    """A page: its rows, each with the boxes that have it, too. `then`: the cursor of the next page; None: no box that
    answered has more."""

    rows: tuple[tuple[RowKey, tuple[str, ...]], ...]
    then: FleetCursor | None


def merged(
    pages: Iterable[BoxPage], limit: int, same: Iterable[tuple[RowKey, RowKey]] = (), cursor: FleetCursor | None = None
) -> FleetPage:
    """The newest `limit` rows of all boxes. Each box's rows keep their order. Of two rows that are the `same` the
    newer one is shown. A box without a page (it did not answer) goes on where it was."""
    start, asked = cursor or FleetCursor(), {page.box: page for page in pages}
    partner: dict[RowKey, RowKey] = {}
    for one, other in same:
        partner |= {one: other, other: one}
    # (time, box, position): of each box its next row.
    heads = [(-page.rows[0][1], box, 0) for box, page in asked.items() if page.rows]
    heapq.heapify(heads)
    shown, before = set(start.shown), dict(start.before)
    taken = dict.fromkeys(asked, 0)
    out: list[tuple[RowKey, tuple[str, ...]]] = []
    while heads and len(out) < limit:
        _, box, at = heapq.heappop(heads)
        rows = asked[box].rows
        key = (box, rows[at][0])
        before[box], taken[box] = key[1], at + 1
        if at + 1 < len(rows):
            heapq.heappush(heads, (-rows[at + 1][1], box, at + 1))
        if key in shown:
            shown.discard(key)
            continue
        same_row = partner.get(key)
        if same_row is not None:
            shown.add(same_row)
        out.append((key, () if same_row is None else (same_row[0],)))
    for box, page in asked.items():
        if taken[box] == len(page.rows) and page.last is not None:
            before[box] = page.last
    ended = start.ended | {box for box, page in asked.items() if not page.more and taken[box] == len(page.rows)}
    then = FleetCursor(before, ended, frozenset(shown)) if set(asked) - ended else None
    return FleetPage(tuple(out), then)
