"""Shapes one step from another: other shares and numbers, one gpu-let's share for another's, models put together in one
gpu-let, moved to another or apart, and the rest of a rate moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scheduler.joint.shapes import LetGroup, Shape, ShapeBench

#: Gpu-lets that a group may grow by; steps of share by which one group may shrink or grow while another does not.
_MORE_GPULETS, _EXCHANGED = 2, 3
#: Parts of what one of several alike gpu-lets serves that are tried as the rest to be moved.
_RESTS = (1.0, 0.5, 0.2)
#: Models in one gpu-let.
_TOGETHER = 12


def moves(bench: ShapeBench, shape: Shape) -> Iterator[Shape]:
    """All of them; larger ones and repeated ones among them."""
    for n in range(len(shape)):
        for changed in _changes(bench, shape[n]):
            yield _with(shape, {n: changed})
        yield from _apart(bench, shape, n)
        yield from _smaller_rests(shape, n)
        if _spared(shape, n):
            yield _with(shape, {n: None})
    for n in range(len(shape)):
        for k in range(len(shape)):
            if n == k:
                continue
            yield from _exchanges(bench, shape, n, k)
            yield from _moved_rests(bench, shape, n, k)
            yield from _moved_models(bench, shape, n, k)
            if n < k:
                yield from _together(bench, shape, n, k)


def _changes(bench: ShapeBench, group: LetGroup) -> Iterator[LetGroup]:
    """Other numbers and shares of `group` that take no more together."""
    shares = bench.load.shares
    now = shares[group.share] * group.count
    for count in range(1, group.count + _MORE_GPULETS + 1):
        for share, percent in enumerate(shares):
            if percent * count <= now and (share, count) != (group.share, group.count):
                yield replace(group, share=share, devices=_on(group.devices, count))


def _exchanges(bench: ShapeBench, shape: Shape, n: int, k: int) -> Iterator[Shape]:
    """Group `n` shrinks and group `k` grows."""
    small, large = shape[n], shape[k]
    for down in range(1, min(_EXCHANGED, small.share) + 1):
        for up in range(1, min(_EXCHANGED, len(bench.load.shares) - 1 - large.share) + 1):
            yield _with(shape, {n: replace(small, share=small.share - down), k: replace(large, share=large.share + up)})


def _together(bench: ShapeBench, shape: Shape, n: int, k: int) -> Iterator[Shape]:
    """Groups `n` and `k` as one whose models share its gpu-lets in time."""
    shares = bench.load.shares
    joined = shape[n]
    for m, weight in zip(shape[k].models, shape[k].weights, strict=True):
        joined = _given(joined, m, weight)
    if len(joined.models) > _TOGETHER:
        return
    now = shares[shape[n].share] * shape[n].count + shares[shape[k].share] * shape[k].count
    devices = shape[n].devices + shape[k].devices
    for order in (devices, devices[::-1]) if len(set(devices)) > 1 else (devices,):
        for count in range(1, len(devices) + _MORE_GPULETS + 1):
            for share, percent in enumerate(shares):
                if percent * count <= now:
                    yield _with(shape, {n: replace(joined, share=share, devices=_on(order, count)), k: None})


def _apart(bench: ShapeBench, shape: Shape, n: int) -> Iterator[Shape]:
    """A model of group `n`, which several share, in a gpu-let of its own, as large as the share that `n` gives up or
    smaller.
    """
    shared, shares = shape[n], bench.load.shares
    for at, m in enumerate(shared.models if len(shared.models) > 1 else ()):
        left = _without(shared, at)
        fewer = [replace(left, share=shared.share - down) for down in range(1, min(_EXCHANGED, shared.share) + 1)]
        if shared.count > 1:
            fewer.append(replace(left, devices=left.devices[:-1]))
        for group in fewer:
            free = shares[shared.share] * shared.count - shares[group.share] * group.count
            for share, percent in enumerate(shares):
                if percent <= free:
                    own = LetGroup(share, (m,), shared.devices[-1:], (shared.weights[at],))
                    yield (*_with(shape, {n: group}), own)


def _smaller_rests(shape: Shape, n: int) -> Iterator[Shape]:
    """One of the alike gpu-lets of group `n` less, and a smaller one for the rest of its rate."""
    several = shape[n]
    for part in _RESTS if several.count > 1 else ():
        fewer, rests = _parted(several, part)
        for share in range(several.share):
            rest = replace(several, share=share, devices=several.devices[-1:], weights=rests)
            yield (*_with(shape, {n: fewer}), rest)


def _moved_rests(bench: ShapeBench, shape: Shape, n: int, k: int) -> Iterator[Shape]:
    """One of the alike gpu-lets of group `n` less; the rest of its rate goes to group `k`."""
    several, other = shape[n], shape[k]
    if several.count == 1 or len(set(other.models) | set(several.models)) > _TOGETHER:
        return
    for part in _RESTS:
        fewer, rests = _parted(several, part)
        given = other
        for m, rest in zip(several.models, rests, strict=True):
            given = _given(given, m, rest)
        for up in range(min(2, len(bench.load.shares) - 1 - other.share) + 1):
            yield _with(shape, {n: fewer, k: replace(given, share=other.share + up)})


def _moved_models(bench: ShapeBench, shape: Shape, n: int, k: int) -> Iterator[Shape]:
    """A model of group `n`, which several share, goes to group `k`; `n` may shrink and `k` grow."""
    shared, other = shape[n], shape[k]
    if len(shared.models) == 1 or len(other.models) >= _TOGETHER:
        return
    for at, m in enumerate(shared.models):
        left, given = _without(shared, at), _given(other, m, shared.weights[at])
        if shared.count > 1:
            yield _with(shape, {n: replace(left, devices=left.devices[:-1]), k: given})
        for down in range(min(2, shared.share) + 1):
            for up in range(min(2, len(bench.load.shares) - 1 - other.share) + 1):
                smaller, larger = replace(left, share=shared.share - down), replace(given, share=other.share + up)
                yield _with(shape, {n: smaller, k: larger})


def _parted(group: LetGroup, part: float) -> tuple[LetGroup, tuple[float, ...]]:
    """`group` with a gpu-let less, which took `part` of its even part of the rates with it; and these."""
    rests = tuple(weight / group.count * part for weight in group.weights)
    kept = tuple(weight - rest for weight, rest in zip(group.weights, rests, strict=True))
    return replace(group, devices=group.devices[:-1], weights=kept), rests


def _on(devices: tuple[int, ...], count: int) -> tuple[int, ...]:
    """So many of these devices; the last again, where there are fewer."""
    return (*devices[:count], *(devices[-1],) * (count - len(devices)))


def _without(group: LetGroup, at: int) -> LetGroup:
    """`group` without the model at this place."""
    models, weights = group.models, group.weights
    return replace(group, models=models[:at] + models[at + 1 :], weights=weights[:at] + weights[at + 1 :])


def _given(group: LetGroup, model: int, weight: float) -> LetGroup:
    """`group` with so much more of `model`."""
    if model in group.models:
        at = group.models.index(model)
        weights = (*group.weights[:at], group.weights[at] + weight, *group.weights[at + 1 :])
        return replace(group, weights=weights)
    return replace(group, models=(*group.models, model), weights=(*group.weights, weight))


def _with(shape: Shape, changed: dict[int, LetGroup | None]) -> Shape:
    """`shape` with other groups at these places, None: without it."""
    groups = [changed.get(n, group) for n, group in enumerate(shape)]
    return tuple(group for group in groups if group is not None)


def _spared(shape: Shape, n: int) -> bool:
    """Every model of group `n` has another group."""
    return all(any(m in g.models for k, g in enumerate(shape) if k != n) for m in shape[n].models)
