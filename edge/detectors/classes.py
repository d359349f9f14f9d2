"""Class names: those that a detector offers, and how a camera's classes are made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge.core import checks
from edge.core.detectors import COCO80 as COCO80
from edge.core.errors import InvalidValue, LabelError
from edge.core.vision import BACKGROUND, Detections


@dataclass(frozen=True)
class ClassMap:
    """Teacher classes to camera classes. `table[t]` is the camera class index of teacher class t, -1 for none."""

    classes: tuple[str, ...]
    offered: tuple[str, ...]
    table: tuple[int, ...]

    @staticmethod
    def build(
        classes: Sequence[str],
        offered: Sequence[str],
        mapping: Mapping[str, Sequence[str]] | None = None,
        path: str = "teacher.classes",
        who: str = "teacher",
    ) -> ClassMap:
        """`classes`: the camera's; `offered`: the detector's; `mapping`: camera class -> the detector's classes. `path`
        names the field in errors, `who` the detector.

        A camera class that `mapping` does not name is taken by its own name. BACKGROUND needs no teacher class.

        Raises:
            LabelError: the teacher offers nothing for a camera class, or not a class that `mapping` names.
            InvalidValue: `mapping` names an unknown camera class, or one teacher class twice.
        """
        mapping = mapping or {}
        checks.not_empty(path, classes)
        checks.unique(path, classes)
        for key in mapping:
            if key not in classes:
                raise InvalidValue(f"{path}.{key}", key, "one of the camera's classes " + ", ".join(classes))
        table = [-1] * len(offered)
        for index, name in enumerate(classes):
            if name == BACKGROUND:
                continue
            for wanted in mapping.get(name, (name,)):
                if wanted not in offered:
                    raise LabelError(
                        f"the {who} cannot produce class {name!r}: it knows no {wanted!r}",
                        f"it offers: {_short(offered)}; map the class with {path}.{name}",
                    )
                t = offered.index(wanted)
                if table[t] not in (-1, index):
                    raise InvalidValue(f"{path}.{name}", wanted, f"a class not yet used by {classes[table[t]]!r}")
                table[t] = index
            if not mapping.get(name, (name,)):
                raise LabelError(f"the {who} cannot produce class {name!r}: {path}.{name} is empty")
        return ClassMap(tuple(classes), tuple(offered), tuple(table))

    @property
    def merges(self) -> bool:
        """True where two of the detector's classes become one."""
        named = [n for n in self.table if n >= 0]
        return len(set(named)) < len(named)

    def then(self, other: ClassMap) -> ClassMap:
        """This map, then `other` (whose offered classes are this one's classes)."""
        table = tuple(-1 if n < 0 else other.table[n] for n in self.table)
        return ClassMap(other.classes, self.offered, table)

    def apply(self, found: Detections) -> Detections:
        """Detections in the teacher's classes -> in the camera's; objects of no camera class are left out."""
        names = np.asarray(self.table, np.int64)[found.classes]
        keep = names >= 0
        return Detections(found.boxes[keep], found.scores[keep], names[keep])

    def keep(self, found: Detections) -> NDArray[np.bool_]:
        """Mask (N,) of the detections that `apply` keeps."""
        return np.asarray(self.table, np.int64)[found.classes] >= 0


def _short(names: Sequence[str], limit: int = 40) -> str:
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown}, ... ({len(names)} in all)"
