"""Pages of the journal for a reader of some cameras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from edge.appliance.answers.events import JournalEntry
from edge.appliance.answers.limit import limited
from edge.core.access import Principal

_PAGE: Final = 1000
#: The journal, newest first: at most so many entries with an id below `before`, of a camera and a kind.
Recent = Callable[[int, int | None, str | None, str | None], list[JournalEntry]]


def seen_entry(who: Principal, entry: JournalEntry) -> JournalEntry | None:
    """An entry as the reader may see it; None: not for the reader. Of an entry about no single camera only the event
    itself is shown."""
    if who.sees_all or entry.kind == "events.lost":
        return entry
    return limited(entry, who.may_see, who.may_see_tenant)


def seen_entries(
    recent: Recent, who: Principal, limit: int, before: int | None, camera: str | None, kind: str | None
) -> list[JournalEntry]:
    """A page of what the reader may see; for a reader of some cameras it is gathered from pages of everything.
    Blocks."""
    if who.sees_all or camera is not None:
        return [e for e in (seen_entry(who, entry) for entry in recent(limit, before, camera, kind)) if e is not None]
    out: list[JournalEntry] = []
    while len(out) < limit:
        page = recent(_PAGE, before, None, kind)
        out += [e for e in (seen_entry(who, entry) for entry in page) if e is not None]
        if len(page) < _PAGE:
            break
        before = entry_number(page[-1])
    return out[:limit]


def entry_number(entry: JournalEntry) -> int:
    """The id of an entry that is kept: a number."""
    assert isinstance(entry.id, int)
    return entry.id
