"""Which sampled frames another box labels, and which box. Pure; the same answer for the same question.

A box whose golden model cannot label all frames in time gives those away that it would not label. Frames whose window
waits for them go before late ones, which go to boxes that have nothing else to do. Of the frames of a camera those that
go are evenly drawn: if their labels do not come back, those that are left still stand for the whole time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from edge.core.lending import (
    LARGEST_WORK,
    MOST_PICTURES,
    Borrower,
    LabelBacklog,
    LendingOffer,
    LentLabels,
    WaitingFrame,
)
from scheduler.fleet.lending import BACK_S, done_in, given, usable

#: Fewer frames are not lent: the other box opens the golden model for each work.
FEWEST: Final = 4


def labelled_here(backlog: LabelBacklog) -> int:
    """The frames that this box labels itself until labels have to be ready."""
    return max(0, math.floor(backlog.share * backlog.left_s / backlog.label_s))


def behind(backlog: LabelBacklog) -> tuple[int, int]:
    """How many frames this box does not label in time: of those that a window waits for, and of late ones."""
    awaited = sum(not f.late for f in backlog.frames)
    left = labelled_here(backlog) - backlog.others - awaited
    late = len(backlog.frames) - awaited
    return min(awaited, max(0, math.ceil(-left))), min(late, max(0, math.ceil(late - max(0.0, left))))


def labels_out(backlog: LabelBacklog, offers: Sequence[LendingOffer], borrower: Borrower) -> tuple[LentLabels, ...]:
    """The frames that other boxes with the same golden model shall label, each work of one camera and one box."""
    left = {o.box: o for o in offers if usable(o, borrower) and o.teacher == backlog.teacher}
    lent: list[LentLabels] = []
    for late, count in zip((False, True), behind(backlog), strict=True):
        waiting = [f for f in backlog.frames if f.late is late]
        while count >= FEWEST:
            free = [o for o in left.values() if o.room > 0 and (not late or o.busy_s == 0.0)]
            one = _next(waiting, count, backlog, free, borrower)
            if one is None:
                break
            lent.append(one)
            left[one.box] = given(left[one.box], one.ends_s - BACK_S)
            gone = set(one.frames)
            waiting, count = [f for f in waiting if f.id not in gone], count - len(gone)
    return tuple(lent)


def _next(
    waiting: Sequence[WaitingFrame],
    most: int,
    backlog: LabelBacklog,
    offers: Sequence[LendingOffer],
    borrower: Borrower,
) -> LentLabels | None:
    """At most `most` frames of the camera with the most of them, for the box that labels the most of these in time; of
    equals for the one that is done first. None: no box labels enough."""
    camera, _ = max(Counter(f.camera for f in waiting).items(), key=lambda c: (c[1], c[0]))
    frames = [f for f in waiting if f.camera == camera]
    largest = max(f.size for f in frames)
    most = min(most, len(frames), MOST_PICTURES, LARGEST_WORK // max(1, largest))
    found = []
    for offer in offers:
        number, ends_s = _in_time(offer, most, largest, backlog, borrower)
        if number >= FEWEST:
            found.append((-number, ends_s, offer.box, offer.share))
    if not found:
        return None
    negative, ends_s, box, share = min(found)
    return LentLabels(camera, box, share, tuple(f.id for f in _evenly(frames, -negative)), ends_s)


def _in_time(offer: LendingOffer, most: int, size: int, backlog: LabelBacklog, borrower: Borrower) -> tuple[int, float]:
    """The most frames of `size` bytes each, up to `most`, that an offer labels in time, and the seconds until their
    labels are here."""

    def ends_s(number: int) -> float:
        done_s = done_in(offer, number * size, backlog.open_s + number * backlog.label_s, borrower)
        return math.inf if done_s is None else done_s + BACK_S

    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if ends_s(middle) <= backlog.left_s:
            low = middle
        else:
            high = middle - 1
    return low, ends_s(low)


def _evenly(frames: Sequence[WaitingFrame], number: int) -> tuple[WaitingFrame, ...]:
    """So many of the frames, evenly drawn."""
    return tuple(frames[int((n + 0.5) * len(frames) / number)] for n in range(number))
