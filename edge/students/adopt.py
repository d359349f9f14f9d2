"""A student for other classes from one that knows some of them: the classes that it knows by name are kept."""

from __future__ import annotations

from torch import Tensor

from edge.students.student import Student

#: The layer whose rows are classes, background last; for detectors once per anchor.
_OUTPUTS = ("out.", "class_out.")


def adopt(student: Student, source: Student) -> tuple[str, ...]:
    """Copy `source`'s weights into `student` (same architecture and widths); returns the classes that it knew.

    Output rows go by class name, the background's too; a class that `source` does not know starts afresh.
    """
    ours, theirs = student.spec.classes, source.spec.classes
    known = tuple(c for c in ours if c in theirs)
    rows = [(ours.index(c), theirs.index(c)) for c in known] + [(len(ours), len(theirs))]
    own, given = student.module.state_dict(), source.module.state_dict()
    for name, value in given.items():
        if name.startswith(_OUTPUTS):
            _copy_rows(own[name], value, len(ours) + 1, len(theirs) + 1, rows)
        elif own[name].shape == value.shape:
            own[name].copy_(value)
    student.module.load_state_dict(own)
    return known


def _copy_rows(own: Tensor, given: Tensor, classes: int, given_classes: int, rows: list[tuple[int, int]]) -> None:
    """Rows are (anchor, class) pairs, class running fastest; a classifier has one anchor."""
    target = own.view(-1, classes, *own.shape[1:])
    origin = given.view(-1, given_classes, *given.shape[1:])
    for to, of in rows:
        target[:, to] = origin[:, of]
