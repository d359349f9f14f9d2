"""Stored records that this release cannot read: left out of lists, counted, and logged once each.

An unknown code, a missing key or a value out of its range in one row must not take every other row with it. All that
turns rows into records, and records into answers, goes through here.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from edge.core.errors import UnreadableRecord

log = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")

#: Records that are remembered as known, so that each is counted and logged once; beyond, none is logged or counted.
MAX_KNOWN: Final = 10_000
#: Of records of which some are not kept, at least so many are fetched at once.
LEAST_FETCHED: Final = 100
#: Raised by code that reads a document, where the document is not as it expects.
_FAULTS: Final = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
_MAX_WORDS: Final = 300


class NotJson(str):
    """The text of a document that is not JSON: no field takes it, and the rest of its row can be read."""


def document_of(text: str | bytes) -> Any:
    """A JSON column's value; NotJson for a text that is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return NotJson(text if isinstance(text, str) else text.decode(errors="replace"))


def made(kind: str, name: object, make: Callable[[], T]) -> T:
    """The result of `make`. Raises UnreadableRecord, with what was wrong, where the record is not as it expects."""
    try:
        return make()
    except _FAULTS as error:
        raise UnreadableRecord(kind, str(name), _words(error)) from error


class UnreadableRecords:
    """The records of one database that were met and could not be read, by kind. Safe to use from many threads."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def counts(self) -> dict[str, int]:
        """Different records met since the start, by kind."""
        with self._lock:
            return dict(self._counts)

    def one(self, kind: str, name: object, make: Callable[[], T]) -> T:
        """The result of `make`, for a record that was asked for by name. Raises UnreadableRecord, and counts it."""
        try:
            return made(kind, name, make)
        except UnreadableRecord as error:
            self._met(error)
            raise

    def readable(self, kind: str, rows: Iterable[R], make: Callable[[R], T], name: Callable[[R], object]) -> list[T]:
        """The results of `make` for each row; rows of which it can make nothing are left out and counted. `name` tells
        a row from the others of its kind."""
        out = []
        for row in rows:
            try:
                out.append(made(kind, name(row), lambda row=row: make(row)))  # type: ignore[misc]
            except UnreadableRecord as error:
                self._met(error)
        return out

    def page(
        self,
        kind: str,
        limit: int,
        after: int | None,
        fetch: Callable[[int, int | None], Sequence[R]],
        make: Callable[[R], T],
        number: Callable[[R], int],
        shown: Callable[[T], T | None] | None = None,
    ) -> list[T]:
        """As `readable`, of `fetch(so many, after this number)`, each as `shown` makes it (None: left out; no `shown`:
        as it is): a page that is shorter than `limit` is the last one, however many records were left out of it."""
        out: list[T] = []
        # Where many are left out, few at a time would be many queries.
        least = 1 if shown is None else LEAST_FETCHED
        while len(out) < limit:
            wanted = max(limit - len(out), least)
            rows = fetch(wanted, after)
            found = self.readable(kind, rows, make, number)
            out += found if shown is None else [one for one in map(shown, found) if one is not None]
            if len(rows) < wanted:
                break
            after = number(rows[-1])
        return out[:limit]

    def _met(self, error: UnreadableRecord) -> None:
        key = (error.kind, error.name)
        with self._lock:
            if key in self._known or len(self._known) >= MAX_KNOWN:
                return
            self._known.add(key)
            self._counts[error.kind] += 1
        log.error("%s", error)


def _words(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        words = f"{where}: {first['msg']}" + ("" if first["type"] == "missing" else f", got {first['input']!r}")
    elif isinstance(error, KeyError):
        words = f"the key {error} is missing"
    else:
        words = str(error) or type(error).__name__
    return words if len(words) <= _MAX_WORDS else words[: _MAX_WORDS - 3] + "..."
