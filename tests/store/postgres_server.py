"""A private PostgreSQL server for the tests: started once for a test session, thrown away afterwards.

MAGPIE_TEST_POSTGRES_URL names a running server to use instead (its user must be allowed to create databases).
MAGPIE_REQUIRE_POSTGRES=1 makes a missing PostgreSQL a failure rather than a reason to skip.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from benchmarks.own_servers import DatabaseProcess
from edge.core.errors import Unavailable
from edge.store import database as db
from edge.store.tables import metadata


class PostgresServer:
    """Gives each test a database of its own: with the newest schema and no rows, or empty.

    Upgraded databases are emptied and used again, which is much quicker than making new ones.
    """

    def __init__(self, url: str) -> None:
        self._url = sa.make_url(url).set(drivername="postgresql")
        self._numbers = itertools.count()
        self._free: list[str] = []

    @contextmanager
    def new_database(self, *, empty: bool = False) -> Iterator[str]:
        """The address of a database that no other test uses until the end of the block."""
        if empty:
            name = self._create()
            yield self._address(name)
            self._drop(name)
            return
        name = self._free.pop() if self._free else self._create_upgraded()
        yield self._address(name)
        self._clear(name)
        self._free.append(name)

    def close(self) -> None:
        """Drop what is left (it matters where the server is not ours)."""
        while self._free:
            self._drop(self._free.pop())

    def _create(self) -> str:
        name = f"magpie_test_{os.getpid()}_{next(self._numbers)}"
        self._run(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        return name

    def _create_upgraded(self) -> str:
        name = self._create()
        database = db.Database(self._address(name))
        db.upgrade(database)
        database.close()
        return name

    def _clear(self, name: str) -> None:
        self._run(
            sql.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {}").format(
                sql.Literal(name)
            )
        )
        tables = sql.SQL(", ").join(sql.Identifier(table.name) for table in metadata.sorted_tables)
        self._run(sql.SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(tables), name)
        self._run(sql.SQL("UPDATE alembic_version SET version_num = {}").format(sql.Literal(db.head())), name)

    def _drop(self, name: str) -> None:
        self._run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _run(self, order: sql.Composed, name: str | None = None) -> None:
        address = self._address(name) if name else self._url.render_as_string(hide_password=False)
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(order)

    def _address(self, name: str) -> str:
        return self._url.set(database=name).render_as_string(hide_password=False)


_KEY = pytest.StashKey[PostgresServer | str]()


def postgres_server(config: pytest.Config) -> PostgresServer:
    """The session's server, started when first asked for; skips (or fails) with the reason where there is none."""
    if _KEY not in config.stash:
        config.stash[_KEY] = _start(config)
    found = config.stash[_KEY]
    if isinstance(found, PostgresServer):
        return found
    if os.environ.get("MAGPIE_REQUIRE_POSTGRES") == "1":
        pytest.fail(f"MAGPIE_REQUIRE_POSTGRES=1, but {found}")
    pytest.skip(found)


def _start(config: pytest.Config) -> PostgresServer | str:
    given = os.environ.get("MAGPIE_TEST_POSTGRES_URL")
    if given:
        server = PostgresServer(given)
        config.add_cleanup(server.close)
        return server
    folder = Path(tempfile.mkdtemp(prefix="magpie-pg-", dir="/tmp"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    try:
        process = DatabaseProcess(folder)
        config.add_cleanup(process.stop)
        process.start()
    except Unavailable as error:
        return str(error)
    return PostgresServer(process.url())
