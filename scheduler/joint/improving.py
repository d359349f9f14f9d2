"""A shape made smaller while everything holds: shares and numbers of gpu-lets, one gpu-let's share for another's,
models put together in one gpu-let or moved to another, and the rest of a rate moved there.

What holds is judged along whole paths, so a step may take from one stage the time that another leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from scheduler.joint.shapes import Bench, LetGroup, Shape
from scheduler.pipelines.steps import CountedSteps

#: Gpu-lets that a group may grow by; steps of share by which one group may shrink while another grows by less.
_MORE_GPULETS, _EXCHANGED = 2, 4
#: Parts of what one of several alike gpu-lets serves that are tried as the rest to be moved.
_RESTS = (1.0, 0.5, 0.2)
#: Models in one gpu-let.
_TOGETHER = 12


def improved(bench: Bench, shape: Shape, steps: CountedSteps) -> Shape:
    """The smallest shape that was found from `shape`, which holds, by steps that each make it smaller."""
    current = shape
    while True:
        now = bench.total(current)
        totals = {other: bench.total(other) for other in moves(bench, current)}
        # Small steps first: they hold most often, and lead to the large ones.
        tried = sorted((other for other in totals if totals[other] < now), key=lambda other: -totals[other])
        for other in tried:
            if not steps.take():
                return current
            if bench.holds(other) is not None:
                current = other
                break
        else:
            return current


def moves(bench: Bench, shape: Shape) -> Iterator[Shape]:
    """Shapes one step away, larger ones among them."""
    for n in range(len(shape)):
        for changed in _changes(bench, shape[n]):
            yield (*shape[:n], changed, *shape[n + 1 :])
        if _spared(shape, n):
            yield (*shape[:n], *shape[n + 1 :])
    for n in range(len(shape)):
        for k in range(len(shape)):
            if n == k:
                continue
            yield from _exchanges(bench, shape, n, k)
            yield from _moved_rests(bench, shape, n, k)
            yield from _moved_models(bench, shape, n, k)
            if n < k:
                yield from _together(bench, shape, n, k)


def _changes(bench: Bench, group: LetGroup) -> Iterator[LetGroup]:
    """Other numbers and shares of `group` that take less together."""
    shares = bench.load.shares
    now = shares[group.share] * group.count
    most = 1 if len(group.models) > 1 else group.count + _MORE_GPULETS
    for count in range(1, most + 1):
        devices = (*group.devices[:count], *(group.devices[-1],) * (count - group.count))
        for share, percent in enumerate(shares):
            if percent * count < now:
                yield replace(group, share=share, devices=devices)


def _exchanges(bench: Bench, shape: Shape, n: int, k: int) -> Iterator[Shape]:
    """Group `n` shrinks by more than group `k` grows."""
    small, large = shape[n], shape[k]
    for down in range(1, min(_EXCHANGED, small.share) + 1):
        for up in range(1, min(_EXCHANGED, len(bench.load.shares) - 1 - large.share) + 1):
            yield _with(shape, {n: replace(small, share=small.share - down), k: replace(large, share=large.share + up)})


def _together(bench: Bench, shape: Shape, n: int, k: int) -> Iterator[Shape]:
    """Groups `n` and `k` as one gpu-let that their models share in time."""
    joined = shape[n]
    for m, weight in zip(shape[k].models, shape[k].weights, strict=True):
        joined = _given(joined, m, weight)
    if len(joined.models) > _TOGETHER:
        return
    for device in sorted({shape[n].devices[0], shape[k].devices[0]}):
        for share in range(len(bench.load.shares)):
            yield _with(shape, {n: replace(joined, share=share, devices=(device,)), k: None})


def _moved_rests(bench: Bench, shape: Shape, n: int, k: int) -> Iterator[Shape]:
    """One of the alike gpu-lets of group `n` less; the rest of its rate goes to gpu-let `k`."""
    several, other = shape[n], shape[k]
    if several.count == 1 or other.count > 1 or len(other.models) >= _TOGETHER:
        return
    for part in _RESTS:
        rest = several.weights[0] / several.count * part
        fewer = replace(several, devices=several.devices[:-1], weights=(several.weights[0] - rest,))
        for up in range(min(2, len(bench.load.shares) - 1 - other.share) + 1):
            given = _given(other, several.models[0], rest)
            yield _with(shape, {n: fewer, k: replace(given, share=other.share + up)})


def _moved_models(bench: Bench, shape: Shape, n: int, k: int) -> Iterator[Shape]:
    """A model of gpu-let `n`, which several share, goes to gpu-let `k`; `n` shrinks by more than `k` grows."""
    shared, other = shape[n], shape[k]
    if len(shared.models) == 1 or other.count > 1 or len(other.models) >= _TOGETHER:
        return
    for at, m in enumerate(shared.models):
        models = shared.models[:at] + shared.models[at + 1 :]
        weights = shared.weights[:at] + shared.weights[at + 1 :]
        for down in range(1, min(2, shared.share) + 1):
            left = replace(shared, models=models, weights=weights, share=shared.share - down)
            for up in range(min(down - 1, len(bench.load.shares) - 1 - other.share) + 1):
                given = replace(_given(other, m, shared.weights[at]), share=other.share + up)
                yield _with(shape, {n: left, k: given})


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
