"""Which window to ask about: one that was begun is finished first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: A window has been asked about enough with so many answers; a newer one is begun then.
ENOUGH = 30


def window_to_ask(available: Sequence[int], answered: Mapping[int, int]) -> int | None:
    """Of the windows that can be asked about (newest first), with answers by window: the newest that was begun and has
    fewer than ENOUGH answers, else the newest that has none, else the newest; None if there is none."""
    begun = next((w for w in available if 0 < answered.get(w, 0) < ENOUGH), None)
    if begun is not None:
        return begun
    return next((w for w in available if not answered.get(w, 0)), available[0] if available else None)
