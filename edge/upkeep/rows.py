"""All rows of a database out of it and into another, whichever of the two databases each is.

The tables are those that the database has, not those that this code knows: a back-up of an older schema is read back
into that schema and upgraded then.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa
from alembic import command
from sqlalchemy.engine import Connection

from edge.core.errors import StoreError
from edge.store import database as db
from edge.store.database import Database

VERSION_TABLE = "alembic_version"
_CHUNK = 500
_BYTES = "$bytes"

Row = dict[str, Any]
#: Rows of a table by its name.
Rows = Callable[[str], Iterable[Row]]


def reflected(connection: Connection) -> sa.MetaData:
    """The tables that the database has, without the one that holds the schema's number."""
    metadata = sa.MetaData()

    @sa.event.listens_for(metadata, "column_reflect")
    def plain(_: Any, __: Any, column: Any) -> None:
        if isinstance(column["type"], sa.JSON):
            # An absent document is NULL, never the JSON text "null".
            column["type"] = sa.JSON(none_as_null=True)

    metadata.reflect(connection, only=lambda name, _: name != VERSION_TABLE)
    return metadata


@contextmanager
def one_state(database: Database) -> Iterator[Connection]:
    """A read transaction that sees one state of the database however long it lasts."""
    with database.read() as connection:
        if not database.sqlite:
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        yield connection


def rows_of(connection: Connection, table: sa.Table) -> Iterator[Row]:
    """A table's rows."""
    result = connection.execution_options(yield_per=_CHUNK).execute(sa.select(table))
    for row in result.mappings():
        yield dict(row)


def write_rows(rows: Iterable[Row], target: IO[bytes]) -> int:
    """Rows as JSON lines; returns how many."""
    count = 0
    for row in rows:
        line = json.dumps({key: _out(value) for key, value in row.items()}, ensure_ascii=True)
        target.write(line.encode() + b"\n")
        count += 1
    return count


def read_rows(source: Iterable[bytes]) -> Iterator[Row]:
    """Raises StoreError for what is not a row."""
    for line in source:
        try:
            row = json.loads(line)
            yield {str(key): _in(value) for key, value in row.items()}
        except (ValueError, AttributeError, TypeError) as error:
            raise StoreError(f"a row of the back-up is damaged: {error}") from None


def _out(value: Any) -> Any:
    if isinstance(value, bytes | memoryview):
        return {_BYTES: base64.b64encode(bytes(value)).decode("ascii")}
    return value


def _in(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {_BYTES}:
        return base64.b64decode(value[_BYTES], validate=True)
    return value


def load(database: Database, schema: str, names: Iterable[str], rows: Rows) -> None:
    """Replace everything in the database by these rows, made under `schema`, and upgrade it: all or nothing.

    Raises StoreError (an unknown schema, rows that do not fit), and as `Database.write`.
    """
    known = {script.revision for script in db.scripts()}
    if schema not in known:
        raise StoreError(f"the back-up has schema {schema}; this Magpie knows up to {db.head()}", "install a newer one")
    if database.sqlite:
        Path(str(database.url.database)).parent.mkdir(parents=True, exist_ok=True)
    with database.write() as connection:
        if database.sqlite:
            connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        else:
            connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        old = sa.MetaData()
        old.reflect(connection)
        old.drop_all(connection)
        config = db.migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, schema)
        tables = reflected(connection)
        wanted = set(names)
        if not wanted <= set(tables.tables):
            extra = sorted(wanted - set(tables.tables))[0]
            raise StoreError(f"the back-up has a table {extra[:60]} that schema {schema} has not")
        for table in tables.sorted_tables:
            if table.name in wanted:
                _insert(connection, table, rows(table.name))
        if not database.sqlite:
            _advance_numbers(connection, tables)
        command.upgrade(config, "head")


def _insert(connection: Connection, table: sa.Table, rows: Iterable[Row]) -> None:
    columns = set(table.columns.keys())

    def fitting() -> Iterator[Row]:
        for row in rows:
            if set(row) != columns:
                raise StoreError(f"a row of table {table.name} has other columns than the schema")
            yield row

    for some in _batches(_parents_first(table, fitting())):
        connection.execute(sa.insert(table), some)


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    iterator = iter(rows)
    while some := list(itertools.islice(iterator, _CHUNK)):
        yield some


def _parents_first(table: sa.Table, rows: Iterable[Row]) -> Iterator[Row]:
    """Rows of a table that refers to itself, each after the one that it refers to."""
    own = [(f.parent.name, f.column.name) for f in table.foreign_keys if f.column.table is table]
    if not own:
        yield from rows
        return
    column, key = own[0]
    waiting: dict[Any, list[Row]] = {}
    done: set[Any] = set()
    for row in rows:
        if row[column] is not None and row[column] not in done:
            waiting.setdefault(row[column], []).append(row)
            continue
        ready = [row]
        while ready:
            now = ready.pop()
            done.add(now[key])
            yield now
            ready += waiting.pop(now[key], [])
    for rest in waiting.values():  # the database says what is wrong with them
        yield from rest


def _advance_numbers(connection: Connection, tables: sa.MetaData) -> None:
    """PostgreSQL numbers new rows after those that were put in with their numbers."""
    for table in tables.sorted_tables:
        for column in table.primary_key.columns:
            sequence = connection.execute(
                sa.text("SELECT pg_get_serial_sequence(:t, :c)"), {"t": f'"{table.name}"', "c": column.name}
            ).scalar()
            if sequence is None:
                continue
            most = connection.execute(sa.select(sa.func.max(column))).scalar()
            if most is not None:
                connection.execute(sa.text("SELECT setval(CAST(:s AS regclass), :n)"), {"s": sequence, "n": int(most)})
