"""From stored records to answers. One that is not as its answer says is left out of a list and counted; asked for by
itself, it is an error that says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from edge.appliance.answers.read import read
from edge.store.unreadable import UnreadableRecords

T = TypeVar("T")


class Stored(Protocol):
    """A record that can be written as plain values."""

    def to_json(self) -> Mapping[str, Any]: ...


class Numbered(Stored, Protocol):
    """A record whose numbers order its kind."""

    @property
    def id(self) -> int: ...


R = TypeVar("R", bound=Stored)
N = TypeVar("N", bound=Numbered)


def listed(
    unreadable: UnreadableRecords, kind: str, of: type[T], records: Iterable[R], name: Callable[[R], object]
) -> list[T]:
    """Records as answers; `name` tells one from the others of its kind."""
    return unreadable.readable(kind, records, lambda r: read(of, r.to_json()), name)


def paged(
    unreadable: UnreadableRecords,
    kind: str,
    of: type[T],
    limit: int,
    before: int | None,
    fetch: Callable[[int, int | None], Sequence[N]],
    shown: Callable[[T], T | None] | None = None,
) -> list[T]:
    """The `limit` newest readable records with numbers below `before`, each as `shown` makes it (None: left out; no
    `shown`: as it is); `fetch` gives so many, below such a number. A shorter answer is the last one."""
    return unreadable.page(kind, limit, before, fetch, lambda r: read(of, r.to_json()), lambda r: r.id, shown)


def one(unreadable: UnreadableRecords, kind: str, of: type[T], name: object, find: Callable[[], Stored]) -> T:
    """One record as an answer. Raises UnreadableRecord, and what `find` raises."""
    found = find()
    return unreadable.one(kind, name, lambda: read(of, found.to_json()))
