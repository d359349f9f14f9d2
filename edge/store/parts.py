"""Common ground of the store's parts: the database, the clock, and checks of documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from edge.core.clock import Clock
from edge.core.errors import InvalidValue
from edge.store.database import Database

MAX_PAGE = 10_000


class Part:
    """Base of the store's parts. Every public method is one short transaction."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database, self._clock = database, clock


def by_field(table: sa.Table, row: sa.RowMapping) -> dict[str, Any]:
    """A whole row of `table` by the fields of its record, which some columns are not named after."""
    return {column.key: row[column] for column in table.c}


def document(path: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `value` as JSON would give it back. Raises InvalidValue naming `path` for what JSON cannot hold."""
    if not isinstance(value, Mapping):
        raise InvalidValue(path, value, "an object")
    try:
        copy = json.loads(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(path, str(error), "values that can be written as JSON (no NaN)") from None
    assert isinstance(copy, dict)
    return copy


def text(path: str, value: object) -> str:
    """A name: 1 to 512 characters without NUL. Raises InvalidValue."""
    if not isinstance(value, str) or not 0 < len(value) <= 512 or "\x00" in value:
        raise InvalidValue(path, value, "a text of 1 to 512 characters")
    return value


def words(value: str) -> str:
    """Free text as both databases take it (PostgreSQL refuses NUL)."""
    return value.replace("\x00", "")


def page(limit: int) -> int:
    """Rows of one page. Raises InvalidValue outside 1 to MAX_PAGE."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_PAGE:
        raise InvalidValue("limit", limit, f"a whole number from 1 to {MAX_PAGE}")
    return limit
