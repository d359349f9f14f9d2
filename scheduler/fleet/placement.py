"""Which camera on which box: the placement with the largest sum of predicted accuracies.

Each box answers for itself, as its own admission does: the accuracies that its cameras, old and new, would have. A new
camera is worth what it has there less what the others lose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, product
from typing import Literal

#: So many placements are tried one by one; beyond that the best next camera is placed, then moved and swapped.
MOST_TRIED = 2_000
_EPS = 1e-9

#: Why a camera has no box: no box reaches it; every box that does would break a floor, or has no room.
UnplacedCode = Literal["no_box_reaches", "no_box_admits"]


@dataclass(frozen=True)
class BoxAnswer:
    """A box's answer: the sum of the accuracies (each 0-1) of all its cameras; None: it admits these cameras not."""

    accuracy: float | None


#: (box, new cameras) -> its answer. Asked for no camera, a box answers with what it has.
AskBox = Callable[[str, frozenset[str]], BoxAnswer]


@dataclass(frozen=True)
class CameraPlacement:
    """Box of each placed camera; `gain`: sum of accuracies over all boxes, less that without the cameras."""

    boxes: Mapping[str, str]
    gain: float
    unplaced: Mapping[str, UnplacedCode] = field(default_factory=dict)


def place_cameras(cameras: Sequence[str], reach: Mapping[str, Sequence[str]], ask: AskBox) -> CameraPlacement:
    """Place cameras on boxes that reach them (`reach`: camera -> boxes). As many as possible are placed, and among such
    placements the sum of accuracies is the largest: exactly so where there are few, else as far as moving one camera,
    swapping two, and placing one instead of another find better ones."""
    asked = cache(ask)

    def worth(placed: Mapping[str, str]) -> float | None:
        """The gain of a placement; None: some box admits it not."""
        total = 0.0
        for box in dict.fromkeys(placed.values()):
            added = asked(box, frozenset(c for c, b in placed.items() if b == box)).accuracy
            if added is None:
                return None
            total += added - (asked(box, frozenset()).accuracy or 0.0)
        return total

    reached = [camera for camera in cameras if reach.get(camera)]
    ways = 1
    for camera in reached:
        ways *= len(reach[camera]) + 1
    if ways <= MOST_TRIED:
        placed = _try_all(reached, reach, worth)
    else:
        placed = _improve(_greedy(reached, reach, worth), reached, reach, worth)
    unplaced: dict[str, UnplacedCode] = {
        camera: "no_box_admits" if reach.get(camera) else "no_box_reaches" for camera in cameras if camera not in placed
    }
    return CameraPlacement(placed, worth(placed) or 0.0, unplaced)


Worth = Callable[[Mapping[str, str]], float | None]


def _try_all(cameras: Sequence[str], reach: Mapping[str, Sequence[str]], worth: Worth) -> dict[str, str]:
    """The best of all placements."""
    best: tuple[int, float, dict[str, str]] = (0, 0.0, {})
    for boxes in product(*([*reach[camera], None] for camera in cameras)):
        placed = {camera: box for camera, box in zip(cameras, boxes, strict=True) if box is not None}
        gain = worth(placed) if len(placed) >= best[0] else None
        if gain is not None and (len(placed), gain) > (best[0], best[1] + _EPS):
            best = (len(placed), gain, placed)
    return best[2]


def _greedy(cameras: Sequence[str], reach: Mapping[str, Sequence[str]], worth: Worth) -> dict[str, str]:
    """Each time the camera that would lose most by waiting: its best box against its second best."""
    placed: dict[str, str] = {}
    left = list(cameras)
    while left:
        chosen: tuple[float, str, str] | None = None
        for camera in left:
            gains = sorted(
                ((gain, box) for box in reach[camera] if (gain := worth(placed | {camera: box})) is not None),
                reverse=True,
            )
            if gains:
                regret = gains[0][0] - gains[1][0] if len(gains) > 1 else float("inf")
                if chosen is None or regret > chosen[0]:
                    chosen = (regret, camera, gains[0][1])
        if chosen is None:
            break
        placed[chosen[1]] = chosen[2]
        left.remove(chosen[1])
    return placed


def _improve(
    placed: dict[str, str], cameras: Sequence[str], reach: Mapping[str, Sequence[str]], worth: Worth
) -> dict[str, str]:
    """Move one camera, swap two, or place one instead of another, until nothing gains."""
    now = worth(placed) or 0.0
    better = True
    while better:
        better = False
        for other in _neighbours(placed, cameras, reach):
            gain = worth(other)
            if gain is not None and gain > now + _EPS:
                placed, now, better = other, gain, True
                break
    return placed


def _neighbours(
    placed: Mapping[str, str], cameras: Sequence[str], reach: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, str]]:
    """The placements of as many cameras that one move, swap or exchange makes."""
    for camera in placed:
        yield from ({**placed, camera: box} for box in reach[camera] if box != placed[camera])
    for one, two in combinations(placed, 2):
        if placed[two] in reach[one] and placed[one] in reach[two] and placed[one] != placed[two]:
            yield {**placed, one: placed[two], two: placed[one]}
    for out, camera in product(placed, (c for c in cameras if c not in placed)):
        rest = {c: b for c, b in placed.items() if c != out}
        yield from ({**rest, camera: box} for box in reach[camera])
