"""Labelled pictures counted again, as edge.appliance.counts does it, where every picture that is sampled has labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edge.core.counts import Counted, CountLine
from edge.core.tracks import TrackedObject
from scheduler.counts.near import FrameChecks, NamedBox
from scheduler.counts.recount import AROUND_S, LOOK_S, PathSample, at_instant, labelled_instant, own_time, samples_after
from scheduler.counts.recounting import Recounting, no_more_frames, taken_frame

_REACH_S = AROUND_S + LOOK_S


def counted_again(
    labels: Mapping[int, Sequence[NamedBox]],
    seen: Sequence[tuple[float, tuple[TrackedObject, ...]]],
    found: Sequence[Counted],
    lines: Sequence[CountLine],
    fps: float,
) -> list[FrameChecks]:
    """What labels of pictures, by their place in `seen`, say of the crossings `found` around them. `seen`: the instant
    of each picture and the objects that were there; pictures are `fps` a second."""
    samples: tuple[PathSample, ...] = ()
    recounting = Recounting()
    frames: list[FrameChecks] = []
    labelled, reach = sorted(labels), round(_REACH_S * fps)
    times = [None, *(seen[n][0] for n in labelled), None]
    for k, n in enumerate(labelled):
        at_s = seen[n][0]
        near = seen[max(0, n - reach) : n + reach + 1]
        around = [c for c in found if abs(c.utc_s - at_s) <= _REACH_S]
        instant = at_instant(near, around, at_s, own_time(at_s, times[k], times[k + 2]))
        samples = samples_after(samples, instant)
        recounting, more = taken_frame(recounting, labelled_instant(instant, labels[n]), lines, samples)
        frames += more
    return [*frames, *no_more_frames(recounting, lines, samples)[1]]
