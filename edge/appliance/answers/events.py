"""The journal."""

from __future__ import annotations

from edge.appliance.answers.documents import JournalData
from edge.appliance.answers.marks import EntryData, EntryKind, OfCamera, Shown, answer


@answer
class JournalEntry:
    """An entry. `id` is a number; of an entry that is sent while it is being written, "live-N" or null. `data` has the
    keys that docs/journal.md names for its kind."""

    id: Shown[int | str | None]
    utc_s: Shown[float | None]
    kind: EntryKind
    camera: OfCamera[str | None]
    window: Shown[int | None]
    data: EntryData[JournalData]
