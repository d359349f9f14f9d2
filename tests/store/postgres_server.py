"""A private PostgreSQL server for the tests: started once for a test session, thrown away afterwards.

MAGPIE_TEST_POSTGRES_URL names a running server to use instead (its user must be allowed to create databases).
MAGPIE_REQUIRE_POSTGRES=1 makes a missing PostgreSQL a failure rather than a reason to skip.
"""

from __future__ import annotations

import glob
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql

from edge.store import database as db
from edge.store.tables import metadata

START_LIMIT_S = 60.0


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
        """The address of a database that nobody else uses until the end of the block."""
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
    programs = _programs()
    if programs is None:
        return "PostgreSQL is not installed (no initdb on PATH or in /usr/lib/postgresql)"
    user = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="magpie-pg-", dir="/tmp"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    who = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    data = folder / "data"
    made = subprocess.run(
        [programs / "initdb", "-D", data, "-U", "magpie", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
        capture_output=True, text=True, cwd=folder, timeout=START_LIMIT_S, check=False, **who,
    )  # fmt: skip
    if made.returncode:
        return f"initdb failed: {made.stderr.strip()[-300:]}"
    # The database dies with the tests, so nothing has to be durable. Only a socket file: no port can be taken.
    quick = ["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "listen_addresses=", "-c", "max_connections=40"]
    order = [programs / "postgres", "-D", data, "-k", folder, "-c", "shared_buffers=16MB", *quick]
    setpriv = shutil.which("setpriv")
    if setpriv:  # a killed test run takes the server along
        order = [setpriv, "--pdeathsig", "QUIT", *order]
    log = open(folder / "log", "wb")  # noqa: SIM115 (the server keeps it)
    process = subprocess.Popen(order, cwd=folder, stdout=log, stderr=log, **who)
    log.close()

    def stop() -> None:
        process.send_signal(subprocess.signal.SIGQUIT)
        process.wait(START_LIMIT_S)

    config.add_cleanup(stop)
    url = f"postgresql://magpie@/postgres?host={folder}"
    problem = _wait_ready(process, url)
    return PostgresServer(url) if problem is None else f"{problem}: {(folder / 'log').read_text()[-300:]}"


def _wait_ready(process: subprocess.Popen[bytes], url: str) -> str | None:
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end:
        if process.poll() is not None:
            return f"postgres ended at once ({process.returncode})"
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            time.sleep(0.02)
        else:
            return None
    return "postgres did not answer in time"


def _programs() -> Path | None:
    places = [shutil.which("initdb"), *sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), reverse=True)]
    for place in places:
        if place and (Path(place).parent / "postgres").exists():
            return Path(place).parent
    return None


def _unprivileged() -> pwd.struct_passwd | None:
    """The account to run the server as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]
