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

START_LIMIT_S = 60.0


class PostgresServer:
    """Gives each test a database of its own, copied from one that was upgraded once."""

    def __init__(self, url: str) -> None:
        self._url = sa.make_url(url).set(drivername="postgresql")
        self._numbers = itertools.count()
        self._template: str | None = None

    @contextmanager
    def new_database(self, *, empty: bool = False) -> Iterator[str]:
        """The address of a new database, dropped at the end: with the newest schema, or empty."""
        if not empty and self._template is None:
            name = self._create("template0")
            database = db.Database(self._address(name))
            db.upgrade(database)
            database.close()
            self._template = name
        name = self._create("template0" if empty or self._template is None else self._template)
        try:
            yield self._address(name)
        finally:
            self._run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def close(self) -> None:
        """Drop the template (it matters where the server is not ours)."""
        if self._template is not None:
            self._run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self._template)))

    def _create(self, template: str) -> str:
        name = f"magpie_test_{os.getpid()}_{next(self._numbers)}"
        order = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        self._run(order)
        return name

    def _run(self, order: sql.Composed) -> None:
        with psycopg.connect(self._url.render_as_string(hide_password=False), autocommit=True) as connection:
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
    """Whom to run the server as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]
