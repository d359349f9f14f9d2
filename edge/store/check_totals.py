"""Sums over many clusters of checks, read as one row for each instant: the rows of a year are too many for objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from edge.core.counts import Place
from edge.store import tables as t

Sums = tuple[int, ...]
Totals = dict[tuple[Place, str], Sums]
_s = t.count_check_sums.c
_KEY: Final = ("kind", "name", "way", "class_name")
_NUMBERS: Final = ("followed", "there", "same")
#: Stands between the texts of one instant.
_BETWEEN: Final = "\x1f"
Numbers = NDArray[np.int64]
#: The kinds, names, ways and classes of one instant, and its numbers.
Instant = tuple[tuple[tuple[str, ...], ...], list[Numbers]]


def read_totals(c: Connection, where: sa.ColumnElement[bool]) -> Totals:
    """See `CountsPart.check_totals`, of the clusters of one camera and length that `where` chooses."""
    joined = [sa.func.aggregate_strings(_s[n], _BETWEEN) for n in _KEY]
    joined += [sa.func.aggregate_strings(sa.cast(_s[n], sa.Text), ",") for n in _NUMBERS]
    split: dict[str, tuple[str, ...]] = {}
    instants: list[Instant] = []
    for row in c.execute(sa.select(*joined).where(where).group_by(_s.start_s)):
        for texts in row[:4]:
            if texts not in split:
                split[texts] = tuple(texts.split(_BETWEEN))
        keys = tuple(split[texts] for texts in row[:4])
        numbers = [np.array(n.split(","), dtype=np.int64) for n in row[4:]]
        if any(len(k) != len(numbers[0]) for k in keys):  # a name has what stands between names
            return total(_one_by_one(c, where))
        instants.append((keys, numbers))
    return total(instants)


def _one_by_one(c: Connection, where: sa.ColumnElement[bool]) -> list[Instant]:
    found: dict[int, list[Any]] = {}
    for row in c.execute(sa.select(_s.start_s, *(_s[n] for n in (*_KEY, *_NUMBERS))).where(where)):
        found.setdefault(row[0], []).append(row[1:])
    instants: list[Instant] = []
    for rows in found.values():
        columns = list(zip(*rows, strict=True))
        instants.append((tuple(columns[:4]), [np.array(n, dtype=np.int64) for n in columns[4:]]))
    return instants


def total(instants: Iterable[Instant]) -> Totals:
    """The sums over instants by place and class, and by place of all classes under ""."""
    places: dict[tuple[str, str, str], int] = {}
    classes: dict[tuple[int, str], int] = {}
    known: dict[tuple[tuple[str, ...], ...], tuple[Numbers, Numbers]] = {}
    of_place, of_class, at, parts = [], [], [], []
    for n, (keys, numbers) in enumerate(instants):
        if keys not in known:
            here = [places.setdefault(key, len(places)) for key in zip(*keys[:3], strict=True)]
            own = [classes.setdefault(key, len(classes)) for key in zip(here, keys[3], strict=True)]
            known[keys] = np.array(here, dtype=np.int64), np.array(own, dtype=np.int64)
        of_place.append(known[keys][0])
        of_class.append(known[keys][1])
        at.append(np.full(len(numbers[0]), n, dtype=np.int64))
        parts.append(np.stack(numbers))
    if not parts:
        return {}
    values = np.concatenate(parts, axis=1)
    by_class = _sums(np.concatenate(of_class), values, len(classes))
    # Of all classes at a place each instant is one cluster.
    cells, cell = np.unique(np.concatenate(at) * len(places) + np.concatenate(of_place), return_inverse=True)
    together = np.zeros((len(_NUMBERS), len(cells)), dtype=np.int64)
    for row, column in zip(together, values, strict=True):
        np.add.at(row, cell, column)
    by_place = _sums(cells % len(places), together, len(places))
    named = [Place(*key) for key in places]  # type: ignore[arg-type]
    found: Totals = {(named[place], name): tuple(by_class[n]) for (place, name), n in classes.items()}
    return found | {(place, ""): tuple(by_place[n]) for n, place in enumerate(named)}


def _sums(of: Numbers, values: Numbers, many: int) -> list[list[int]]:
    followed, there, same = values
    ones = np.ones_like(followed)
    out = np.zeros((many, 7), dtype=np.int64)
    columns = (ones, followed, there, same, followed * followed, there * there, followed * there)
    for n, column in enumerate(columns):
        np.add.at(out[:, n], of, column)
    found: list[list[int]] = out.tolist()
    return found
