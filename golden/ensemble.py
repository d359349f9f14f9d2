"""Teachers made of teachers: several detectors as one, one detector on tiles, a detector with a classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from edge.core.detectors import Tiling
from edge.core.errors import LabelError
from edge.core.vision import Detections
from edge.detectors.boxes import iou_matrix, suppress
from edge.detectors.classes import ClassMap
from golden.geometry import Fused, Tile, from_tile, fuse, tiles

#: Answers of classes that become one are one object when they overlap more than this.
MERGE_IOU = 0.6


class Teacher(Protocol):
    """A golden model that finds and names objects."""

    @property
    def name(self) -> str: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    def label(self, picture: NDArray[np.uint8]) -> Detections:
        """Objects on a uint8 RGB picture (H, W, 3), best first; `classes` of the answer index the teacher's."""


@runtime_checkable
class JointTeacher(Teacher, Protocol):
    """A teacher of `members` others (1: a single one on tiles), which can say how far they agreed."""

    @property
    def members(self) -> int: ...

    def label_jointly(self, picture: NDArray[np.uint8]) -> Fused:
        """As `label`, with the share of members that saw each object."""


@runtime_checkable
class MappableTeacher(Teacher, Protocol):
    """A teacher that merges classes before it suppresses double answers."""

    def mapped(self, classes: ClassMap) -> Teacher:
        """The same models, answering in `classes.classes`."""


class Namer(Protocol):
    """A golden model that names cut-outs."""

    @property
    def name(self) -> str: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    def identify(self, picture: NDArray[np.uint8], boxes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probability share (N, len(classes)) of each class for each normalised box (N, 4)."""


def joint_classes(
    members: Sequence[tuple[str, tuple[str, ...]]], groups: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, ...], list[ClassMap]]:
    """Classes of an ensemble of (name, classes) members, and each member's map into them.

    A group takes what a member has of it; every group must be known to at least one member.

    Raises:
        LabelError: no member knows a class that a group names.
    """
    everything = tuple(dict.fromkeys(c for _, offered in members for c in offered))
    wanted = {g: tuple(names) for g, names in groups.items()} or {c: (c,) for c in everything}
    for group, names in wanted.items():
        for name in names:
            if name not in everything:
                known = ", ".join(everything[:40])
                raise LabelError(f"teacher.classes.{group}: no member knows class {name!r}", f"they know: {known}")
    maps = []
    for _, offered in members:
        own = {g: tuple(n for n in names if n in offered) for g, names in wanted.items()}
        table = [next((i for i, g in enumerate(wanted) if c in own[g]), -1) for c in offered]
        maps.append(ClassMap(tuple(wanted), offered, tuple(table)))
    return tuple(wanted), maps


class EnsembleTeacher:
    """Several detectors fused by weighted boxes. An object below `min_score`, or seen by less than `min_agreement`
    of the members (by weight, among those that know its class), is left out.
    """

    def __init__(
        self,
        name: str,
        members: Sequence[Teacher],
        weights: Sequence[float],
        groups: Mapping[str, Sequence[str]],
        iou: float,
        min_score: float,
        min_agreement: float = 0.0,
        max_objects: int = 100,
    ) -> None:
        self.name, self.members = name, len(members)
        self._given, self._weights = list(members), list(weights)
        self._iou, self._min_score = iou, min_score
        self._min_agreement, self._max_objects = min_agreement, max_objects
        self._answer_in(*joint_classes([(m.name, m.classes) for m in members], groups))

    def _answer_in(self, classes: tuple[str, ...], maps: Sequence[ClassMap]) -> None:
        self.classes, self._maps = classes, list(maps)
        self._members = [in_classes(t, m) for t, m in zip(self._given, maps, strict=True)]
        # A member that does not know a class does not count against it.
        knows = np.array([[i in m.table for i in range(len(classes))] for m in maps])
        self._witnesses = (np.asarray(self._weights)[:, None] * knows).sum(0) / float(sum(self._weights))

    def mapped(self, classes: ClassMap) -> EnsembleTeacher:
        """The same members, each answering in the camera's classes before its own suppression."""
        other = object.__new__(EnsembleTeacher)
        other.__dict__.update(self.__dict__)
        other._answer_in(classes.classes, [m.then(classes) for m in self._maps])
        return other

    def label(self, picture: NDArray[np.uint8]) -> Detections:
        """See `Teacher.label`. Scores are means over the members that know the class."""
        return self.label_jointly(picture).detections

    def label_jointly(self, picture: NDArray[np.uint8]) -> Fused:
        """See `JointTeacher.label_jointly`."""
        answers = [t.label(picture) for t in self._members]
        fused = fuse(answers, self._weights, self._iou)
        found = fused.detections
        possible = self._witnesses[found.classes]
        scores = np.clip(found.scores / possible, 0, 1).astype(np.float32)
        agreement = np.clip(fused.agreement / possible, 0, 1).astype(np.float32)
        keep = np.flatnonzero((scores >= self._min_score) & (agreement >= self._min_agreement - 1e-6))
        keep = keep[np.argsort(-scores[keep], kind="stable")][: self._max_objects]
        return Fused(Detections(found.boxes[keep], scores[keep], found.classes[keep]), agreement[keep])


class TiledTeacher:
    """Any detector, looking at overlapping tiles of the picture too, so that small objects are seen larger."""

    def __init__(self, inner: Teacher, tiling: Tiling) -> None:
        self.name, self.classes = inner.name, inner.classes
        self.members = member_count(inner)
        self._inner, self._tiling = inner, tiling

    def label(self, picture: NDArray[np.uint8]) -> Detections:
        """See `Teacher.label`. One object seen in several tiles is one: its boxes are fused, its best score counts."""
        return self.label_jointly(picture).detections

    def label_jointly(self, picture: NDArray[np.uint8]) -> Fused:
        """The inner teacher's agreement where it has one, else 1."""
        height, width = picture.shape[:2]
        t = self._tiling
        parts = list(tiles(width, height, t.columns, t.rows, t.overlap))
        if t.whole:
            parts.append(Tile(0, 0, width, height))
        found, agreed = [], []
        for part in parts:
            answer = answer_jointly(self._inner, picture[part.y0 : part.y1, part.x0 : part.x1])
            kept, keep = from_tile(answer.detections, part, width, height)
            found.append(kept)
            agreed.append(answer.agreement[keep])
        boxes = np.concatenate([d.boxes for d in found])
        scores = np.concatenate([d.scores for d in found])
        classes = np.concatenate([d.classes for d in found])
        return _merge(Detections(boxes, scores, classes), np.concatenate(agreed), t.iou)

    def mapped(self, classes: ClassMap) -> TiledTeacher:
        """The same, in the camera's classes."""
        return TiledTeacher(in_classes(self._inner, classes), self._tiling)


class RenamedTeacher:
    """A teacher whose answers are brought into other classes; boxes merged by that are suppressed again."""

    def __init__(self, inner: Teacher, classes: ClassMap, iou: float = MERGE_IOU) -> None:
        self.name, self.classes, self.members = inner.name, classes.classes, member_count(inner)
        self._inner, self._map, self._iou = inner, classes, iou
        self._merges = classes.merges

    def label(self, picture: NDArray[np.uint8]) -> Detections:
        """See `Teacher.label`."""
        return self.label_jointly(picture).detections

    def label_jointly(self, picture: NDArray[np.uint8]) -> Fused:
        """See `JointTeacher.label_jointly`."""
        answer = answer_jointly(self._inner, picture)
        kept = self._map.keep(answer.detections)
        found, agreement = self._map.apply(answer.detections), answer.agreement[kept]
        if self._merges:
            rows = suppress(found.boxes, found.scores, found.classes, self._iou, len(found))
            found, agreement = found.select(rows), agreement[rows]
        return Fused(found, agreement)


def in_classes(teacher: Teacher, classes: ClassMap) -> Teacher:
    """`teacher` answering in `classes.classes`: merged before suppression where it can, else renamed after it."""
    if isinstance(teacher, MappableTeacher):
        return teacher.mapped(classes)
    return RenamedTeacher(teacher, classes)


class CombinedTeacher:
    """A detector finds, a classifier names.

    Where the classifier's best group has at least `min_share` of the probability, the object gets that name, and its
    score is the detector's times that share if the name changes; else the detector's answer stays.
    """

    def __init__(self, name: str, detector: Teacher, namer: Namer, min_share: float) -> None:
        self.name = name
        self.classes = tuple(dict.fromkeys((*detector.classes, *namer.classes)))
        self._detector, self._namer, self._min_share = detector, namer, min_share
        self._named = np.array([self.classes.index(c) for c in namer.classes], np.int64)

    def label(self, picture: NDArray[np.uint8]) -> Detections:
        """See `Teacher.label`."""
        found = self._detector.label(picture)
        if len(found) == 0:
            return found
        shares = self._namer.identify(picture, found.boxes)
        best = shares.argmax(1)
        share = shares[np.arange(len(found)), best]
        named = self._named[best]
        sure = share >= self._min_share
        changed = sure & (named != found.classes)
        classes = np.where(sure, named, found.classes)
        scores = np.where(changed, found.scores * share, found.scores).astype(np.float32)
        order = np.argsort(-scores, kind="stable")
        return Detections(found.boxes[order], scores[order], classes[order])


def member_count(teacher: Teacher) -> int:
    """How many models answer for one picture."""
    return teacher.members if isinstance(teacher, JointTeacher) else 1


def answer_jointly(teacher: Teacher, picture: NDArray[np.uint8]) -> Fused:
    """A teacher's answer with its members' agreement (1 for a teacher of one)."""
    if isinstance(teacher, JointTeacher):
        return teacher.label_jointly(picture)
    found = teacher.label(picture)
    return Fused(found, np.ones(len(found), np.float32))


def _merge(found: Detections, agreement: NDArray[np.float32], iou: float) -> Fused:
    """Views of one object in several tiles become one box (mean by score) with the best score among them."""
    fused = fuse([found], [1.0], iou).detections  # a fusion of one member keeps its best score
    if len(fused) == 0:
        return Fused(fused, np.zeros(0, np.float32))
    overlap = iou_matrix(fused.boxes, found.boxes)
    overlap[fused.classes[:, None] != found.classes[None, :]] = -1.0
    return Fused(fused, agreement[overlap.argmax(1)])
