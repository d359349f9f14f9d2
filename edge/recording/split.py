"""Train and held-out part of a window: split by time, never at random (neighbouring frames are nearly the same)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edge.core import checks
from edge.core.errors import InvalidValue, LabelError
from edge.core.labels import LabelledFrame, LabelledWindow
from edge.core.vision import Task

#: How far the cut may move from the share asked for, as a share of the frames, so that both parts have objects.
_LEEWAY = 0.15


@dataclass(frozen=True)
class Split:
    """Both parts in time order; `gap` are the frames between them that belong to neither."""

    train: tuple[LabelledFrame, ...]
    held_out: tuple[LabelledFrame, ...]
    gap: tuple[LabelledFrame, ...] = ()


def split_by_time(
    frames: Sequence[LabelledFrame],
    held_out_share: float = 0.3,
    *,
    gap_s: float = 0.0,
    min_train: int = 2,
    min_held_out: int = 2,
) -> Split:
    """The latest `held_out_share` of the frames is held out; frames less than `gap_s` before it belong to no part.

    Near that cut (within 15 % of the frames) the one is taken that leaves the fewest classes out of either part,
    then the nearest. Both parts have at least the frames asked for and one object.

    Raises:
        InvalidValue: a setting is out of range.
        LabelError: too few labelled frames, or no cut gives both parts an object; says what there is.
    """
    checks.in_range("held_out", held_out_share, 0.01, 0.9)
    checks.in_range("gap_s", gap_s, 0.0, 1e7)
    if min_train < 1 or min_held_out < 1:
        raise InvalidValue("min_train/min_held_out", (min_train, min_held_out), "whole numbers from 1")
    ordered = sorted(frames, key=lambda f: (f.frame.utc_s, f.frame.number))
    n = len(ordered)
    if n < min_train + min_held_out:
        raise LabelError(
            f"{n} labelled frames are too few: {min_train} to train and {min_held_out} to measure are needed",
            "raise the label budget or lengthen the window",
        )
    wanted = n * (1 - held_out_share)
    everything = _classes(ordered)
    if not everything:
        raise LabelError(f"none of the {n} labelled frames shows an object of the camera's classes")
    best: tuple[tuple[bool, int, float], int, int] | None = None
    for cut in range(min_train, n - min_held_out + 1):
        start_s = ordered[cut].frame.utc_s
        end = cut if gap_s == 0 else sum(f.frame.utc_s <= start_s - gap_s for f in ordered[:cut])
        train, held = _classes(ordered[:end]), _classes(ordered[cut:])
        if end < min_train or not train or not held:
            continue
        far = abs(cut - wanted) / n
        # Outside the leeway the nearest cut wins, even if it leaves classes out.
        absent = len(everything - train) + len(everything - held) if far <= _LEEWAY else 0
        rank = (far > _LEEWAY, absent, far)
        if best is None or rank < best[0]:
            best = (rank, end, cut)
    if best is None:
        seen = sum(len(f.labels) > 0 for f in ordered)
        raise LabelError(
            f"no split by time gives both parts an object: {seen} of {n} labelled frames show one",
            "raise the label budget, lengthen the window, or lower the gap",
        )
    _, end, cut = best
    return Split(tuple(ordered[:end]), tuple(ordered[cut:]), tuple(ordered[end:cut]))


def split_interleaved(frames: Sequence[LabelledFrame], every: int = 4, min_train: int = 2) -> Split:
    """Every `every`-th frame in order of time is held out: the least score of a student that began as a published
    detector is chosen on them, and they shall show what the whole window was like.

    Raises:
        InvalidValue: `every` is below 2.
        LabelError: too few labelled frames, or none shows an object; says what there is.
    """
    checks.in_range("held_out.every", every, 2, 1000)
    ordered = sorted(frames, key=lambda f: (f.frame.utc_s, f.frame.number))
    held_out = tuple(f for n, f in enumerate(ordered) if n % every == every - 1)
    train = tuple(f for n, f in enumerate(ordered) if n % every != every - 1)
    if len(train) < min_train or not held_out:
        raise LabelError(
            f"{len(ordered)} labelled frames are too few: {max(every, min_train + 1)} are needed",
            "raise the label budget or lengthen the window",
        )
    if not _classes(ordered):
        raise LabelError(f"none of the {len(ordered)} labelled frames shows an object of the camera's classes")
    return Split(train, held_out)


def build_labelled_window(
    camera: str,
    window: int,
    task: Task,
    classes: Sequence[str],
    frames: Sequence[LabelledFrame],
    held_out_share: float = 0.3,
    exemplars: Sequence[LabelledFrame] = (),
    gap_s: float = 0.0,
    kept_out: Sequence[LabelledFrame] | None = None,
) -> LabelledWindow:
    """The data of one camera's window. Exemplars of this very window are left out (they are in it already).

    `kept_out`: held-out frames of earlier windows; with it (may be empty) frames are held out all over the window.

    Raises:
        LabelError, InvalidValue: as `split_by_time`; a frame of another camera.
    """
    for f in frames:
        if f.frame.camera != camera:
            raise InvalidValue("frames[].camera", f.frame.camera, f"frames of camera {camera!r}")
    older = tuple(e for e in exemplars if e.frame.window != window)
    if kept_out is None:
        split = split_by_time(frames, held_out_share, gap_s=gap_s)
        return LabelledWindow(camera, window, task, tuple(classes), split.train, split.held_out, older)
    split = split_interleaved(frames, max(2, round(1 / held_out_share)))
    earlier = tuple(f for f in kept_out if f.frame.window != window)
    return LabelledWindow(camera, window, task, tuple(classes), split.train, split.held_out, older, earlier)


def _classes(frames: Sequence[LabelledFrame]) -> set[int]:
    return {int(c) for f in frames for c in f.labels.classes}
