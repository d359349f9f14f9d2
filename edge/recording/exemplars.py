"""The exemplar memory: a bounded, class-balanced set of older frames, so that training does not forget old scenes.

After iCaRL (Rebuffi et al., CVPR 2017, algorithms 4 and 5), fitted to a camera's life: classes stay the same while
scenes change. Each class has the same room. New frames are picked by herding, so that the mean of the picked features
stays near the class mean; a class that is over its room thins out the window it holds most of (its later picks first,
which herding ranks lower; ties: the oldest window), so that many old scenes stay, each with its most typical frames.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core.errors import DiskFull, InvalidValue, StoreError
from edge.core.labels import LabelledFrame
from edge.files import TEMPORARY, write_whole

_MANIFEST = "manifest.json"
_FORMAT = "magpie-exemplars/1"


@dataclass(frozen=True)
class Exemplar:
    """A kept frame, the class it is kept for, and its rank in the herding of its window (0: most typical)."""

    frame: LabelledFrame
    klass: int
    rank: int
    bytes: int

    @property
    def window(self) -> int:
        """The window it came from."""
        return self.frame.frame.window


def herd(features: NDArray[np.floating[Any]], count: int) -> list[int]:
    """`count` rows of `features` (N, D), in order, each chosen so that the mean of the chosen is nearest to the mean
    of all (iCaRL, algorithm 4). Rows are brought to length 1 first; ties go to the lower row.
    """
    f = np.asarray(features, np.float64)
    if f.ndim != 2:
        raise InvalidValue("features", f.shape, "shape (N, D)")
    norm = np.linalg.norm(f, axis=1, keepdims=True)
    f = np.divide(f, norm, out=np.zeros_like(f), where=norm > 0)
    mean = f.mean(0) if len(f) else np.zeros(f.shape[1])
    total = np.zeros(f.shape[1])
    chosen: list[int] = []
    free = np.ones(len(f), bool)
    for k in range(1, min(count, len(f)) + 1):
        distance = np.linalg.norm(mean - (total + f) / k, axis=1)
        distance[~free] = np.inf
        best = int(distance.argmin())
        chosen.append(best)
        free[best] = False
        total += f[best]
    return chosen


def thin(kept: Sequence[Exemplar], room: int) -> list[Exemplar]:
    """At most `room` of one class' exemplars: while there are more, the window that holds most gives its last rank
    (ties between windows: the oldest)."""
    left = sorted(kept, key=lambda e: (e.window, e.rank))
    while len(left) > room:
        counts = Counter(e.window for e in left)
        window = max(counts, key=lambda w: (counts[w], -w))
        del left[max((i for i, e in enumerate(left) if e.window == window), key=lambda i: left[i].rank)]
    return left


class ExemplarMemory:
    """The memory of one camera in its own folder: copies of the pictures and a manifest, written whole.

    One writer at a time; readers may use `read_exemplars` meanwhile.
    """

    def __init__(self, root: Path, max_frames: int, max_bytes: int = 100_000_000) -> None:
        """Takes over what is on disk and removes what a crash left behind.

        Raises:
            InvalidValue: a bound is negative.
            StoreError: the folder cannot be used.
        """
        for name, value in (("max_frames", max_frames), ("max_bytes", max_bytes)):
            if value < 0:
                raise InvalidValue(f"exemplars.{name}", value, "a whole number from 0")
        self._root, self._max_frames, self._max_bytes = Path(root), max_frames, max_bytes
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self._kept = _read(self._root)
            self._sweep()
        except OSError as error:
            raise StoreError(f"the exemplar memory {root} cannot be used ({error.strerror})") from error

    def frames(self) -> tuple[LabelledFrame, ...]:
        """The kept frames, oldest window first."""
        return tuple(e.frame for e in self._kept)

    def exemplars(self) -> tuple[Exemplar, ...]:
        """The kept exemplars, with class and rank."""
        return tuple(self._kept)

    def update(self, frames: Sequence[LabelledFrame], features: NDArray[np.floating[Any]]) -> tuple[LabelledFrame, ...]:
        """Take in the frames of a window; `features` (N, D) are theirs, in the same order. Returns what is kept now.

        A frame with objects of several classes is kept for the one that is rarest in the memory and in `frames`.
        A frame without labels, or whose picture is gone, is passed over. A window that was taken in before is taken
        in anew.

        Raises:
            InvalidValue: features do not fit the frames.
            DiskFull, StoreError: pictures cannot be copied; the memory stays as it was.
        """
        if np.ndim(features) != 2 or len(features) != len(frames):
            raise InvalidValue("features", np.shape(features), f"shape ({len(frames)}, D)")
        again = {f.frame.window for f in frames}
        old = [e for e in self._kept if e.window not in again]
        try:
            wanted = self._choose(old, frames, np.asarray(features))
            self._kept = self._write(wanted)
        except OSError as error:
            kind = DiskFull if error.errno == 28 else StoreError
            raise kind(f"the exemplar memory {self._root} cannot be written ({error.strerror})") from error
        return self.frames()

    # -- inside

    def _choose(
        self, old: Sequence[Exemplar], frames: Sequence[LabelledFrame], features: NDArray[np.floating[Any]]
    ) -> list[Exemplar]:
        sizes = [f.frame.path.stat().st_size if f.frame.path.is_file() else 0 for f in frames]
        usable = [i for i, f in enumerate(frames) if len(f.labels) and sizes[i]]
        counts = Counter(int(c) for i in usable for c in set(frames[i].labels.classes.tolist()))
        held = Counter(e.klass for e in old)
        order = sorted(counts.keys() | held.keys(), key=lambda c: (counts[c] + held[c], c))
        room = _rooms(order, self._max_frames)
        kept: list[Exemplar] = []
        taken: set[int] = set()
        for klass in order:
            mine = [i for i in usable if i not in taken and klass in frames[i].labels.classes]
            picks = [mine[j] for j in herd(features[mine], room[klass])] if mine else []
            fresh = [Exemplar(frames[i], klass, rank, sizes[i]) for rank, i in enumerate(picks)]
            left = thin([*(e for e in old if e.klass == klass), *fresh], room[klass])
            used = {e.rank for e in left if e.frame.frame.window in {f.frame.window for f in frames}}
            taken.update(i for rank, i in enumerate(picks) if rank in used)
            kept += left
        while sum(e.bytes for e in kept) > self._max_bytes:
            per_class = Counter({c: sum(e.bytes for e in kept if e.klass == c) for c in order})
            largest = max(order, key=lambda c: (per_class[c], -c))
            mine_now = [e for e in kept if e.klass == largest]
            kept = [e for e in kept if e.klass != largest] + thin(mine_now, len(mine_now) - 1)
        return sorted(kept, key=lambda e: (e.window, e.klass, e.rank))

    def _write(self, wanted: Sequence[Exemplar]) -> list[Exemplar]:
        """Copy the new pictures, then the manifest (from then on the new memory is in force), then sweep."""
        out = []
        for e in wanted:
            if e.frame.frame.path.parent != self._root:
                data = e.frame.frame.path.read_bytes()
                path = self._root / f"{hashlib.sha256(data).hexdigest()[:32]}.jpg"
                if not path.is_file() or path.stat().st_size != len(data):
                    write_whole(path, data)
                e = _at(e, path)
            out.append(e)
        value = {
            "format": _FORMAT,
            "exemplars": [
                {"class": e.klass, "rank": e.rank, "bytes": e.bytes, "file": e.frame.frame.path.name,
                 "frame": e.frame.to_json()}
                for e in out
            ],
        }  # fmt: skip
        write_whole(self._root / _MANIFEST, json.dumps(value).encode())
        self._kept = out
        self._sweep()
        return out

    def _sweep(self) -> None:
        names = {e.frame.frame.path.name for e in self._kept}
        for file in self._root.iterdir():
            if (file.suffix == ".jpg" and file.name not in names) or file.name.endswith(TEMPORARY):
                file.unlink(missing_ok=True)


def read_exemplars(root: Path) -> tuple[LabelledFrame, ...]:
    """The frames that the memory in folder `root` holds; none where there is no memory, or its manifest is damaged
    (then the memory starts anew: it is a help, not a record)."""
    try:
        return tuple(e.frame for e in _read(Path(root)))
    except OSError:
        return ()


def _read(root: Path) -> list[Exemplar]:
    try:
        value = json.loads((root / _MANIFEST).read_text(encoding="utf-8"))
        rows = value["exemplars"] if value["format"] == _FORMAT else []
        found = [
            _at(Exemplar(LabelledFrame.from_json(r["frame"]), int(r["class"]), int(r["rank"]), int(r["bytes"])),
                root / r["file"])
            for r in rows
        ]  # fmt: skip
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return []
    return [e for e in found if e.frame.frame.path.is_file()]


def _at(e: Exemplar, path: Path) -> Exemplar:
    return replace(e, frame=replace(e.frame, frame=replace(e.frame.frame, path=path)))


def _rooms(classes: Sequence[int], total: int) -> dict[int, int]:
    """Equal room for each class; the remainder goes to the rarest ones (`classes` are rarest first)."""
    if not classes:
        return {}
    each, left = divmod(total, len(classes))
    return {c: each + (i < left) for i, c in enumerate(classes)}
