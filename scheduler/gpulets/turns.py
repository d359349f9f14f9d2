"""When a gpu-let of a group of alike ones may begin its next duty cycle. Pure functions.

n alike gpu-lets (the same models, batches, share and duty cycle D) take from the same queues. Where each takes what
waits as soon as it is free, they may fall in step, and then a request waits for a whole cycle. So a cycle only begins
where the others leave a place at every beat from then on, the n-th part of D: the first of them is free within a beat,
the second within two, and so on. Then a request that comes finds a place within a beat, which is the law of
scheduler.joint.law: by induction, a beat after any beginning the next one is allowed. Short batches leave places early,
so at little load no request waits. Where more than a full batch waits it leaves at once (a batch of one is
always full), and so does one whose first request has no more time than the batch takes. A batch that is just full is no
such reason: it may fill sooner than a beat after a smaller one, and then a later place would come too late.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from edge.core.batching import Turn, TurnQueue
from edge.core.serving import Gpulet


def alike(gpulet: Gpulet) -> Hashable:
    """The properties that the gpu-lets of a group share."""
    parts = sorted((part.model, part.queue, part.batch) for part in gpulet.models)
    return (*parts, gpulet.percent, round(gpulet.duty_cycle_ms, 6))


def begin_s(turn: Turn, queues: Sequence[TurnQueue], start_s: float) -> float:
    """When a gpu-let of the group that is free from `start_s` on begins its next cycle, if nothing else comes: as soon
    as the others leave a place at every beat, which is a beat after the last beginning at the latest; sooner where a
    model has more than a full batch beyond what the cycles under way take, or where one of its `queues` must begin.
    Infinity where nothing waits."""
    waiting = [q for q in queues if q.rows > 0]
    if not waiting:
        return math.inf
    if any(q.rows - q.promised > (q.batch if q.batch > 1 else 0) for q in waiting):
        return start_s
    places = sorted(turn.others_free_s)
    stairs_s = max((free_s - k * turn.beat_s for k, free_s in enumerate(places, 1)), default=start_s)
    return max(start_s, min(stairs_s, turn.begun_s + turn.beat_s, *(q.latest_s for q in waiting)))
