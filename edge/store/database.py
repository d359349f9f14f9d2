"""Connection, transactions, error translation and schema upgrades for SQLite and PostgreSQL.

A write transaction on SQLite begins with BEGIN IMMEDIATE: it waits its turn at the start (busy timeout) and is never
refused half-way. WAL with synchronous=FULL makes every commit durable; docs/decisions/store.md says why.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import exc
from sqlalchemy.engine import URL, Connection, Engine, make_url

from edge.core.errors import Conflict, DiskFull, InvalidValue, MagpieError, NotFound, StoreError, Unavailable
from edge.store.own_folder import make_own_folder
from edge.store.unreadable import UnreadableRecords, document_of

log = logging.getLogger(__name__)

MIGRATIONS = Path(__file__).parent / "migrations"
BUSY_TIMEOUT_MS = 5000
ATTEMPTS = 4  # of a transaction that lost a race against another one
_MIGRATION_LOCK = 0x6D616770  # PostgreSQL advisory lock: one upgrade at a time
_COPIES = 3  # of a SQLite database before an upgrade
_OURS = "magpie_write"  # execution option: this transaction writes

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class _Raced(Exception):
    """A transaction lost against another one and may be tried again; `error` is what to say if that does not help."""

    def __init__(self, error: MagpieError) -> None:
        super().__init__(str(error))
        self.error = error


def retried(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorate a method that is exactly one transaction: it is repeated when it lost a race (ATTEMPTS in all)."""

    @functools.wraps(method)
    def repeat(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        for attempt in range(ATTEMPTS):
            try:
                return method(self, *args, **kwargs)
            except _Raced as raced:
                if attempt == ATTEMPTS - 1:
                    raise raced.error from raced
        raise AssertionError("unreachable")

    return repeat


def parse_url(url: str) -> URL:
    """A database address: "sqlite:///PATH" or "postgresql://USER:PASSWORD@HOST:PORT/NAME".

    Raises InvalidValue (without any password) for what is not an address, another database or SQLite in memory.
    """
    allowed = "sqlite:///FILE or postgresql://USER@HOST/NAME"
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        raise InvalidValue("store.url", "(not a database address)", allowed) from None
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise InvalidValue("store.url", parsed.drivername + "://...", allowed)
    if not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:"):
        raise InvalidValue("store.url", shown(parsed), "a SQLite file, as sqlite:////var/lib/magpie/magpie.db")
    return parsed.set(drivername="sqlite+pysqlite")


def shown(url: URL) -> str:
    """The address without user, password and options, fit for messages."""
    kind = url.get_backend_name()
    if kind == "sqlite":
        return f"sqlite:///{url.database}"
    port = f":{url.port}" if url.port else ""
    return f"{kind}://{url.host or '(socket)'}{port}/{url.database or ''}"


class Database:
    """One engine: short read and write transactions whose errors are edge.core.errors. Safe to use from many threads.

    Raises InvalidValue for an unusable address. Nothing is connected before the first transaction.
    """

    def __init__(self, url: str, *, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> None:
        self.url = parse_url(url)
        self.name = shown(self.url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        #: The unreadable records found in it.
        self.unreadable = UnreadableRecords()
        if self.sqlite:
            self.engine = _sqlite_engine(self.url, busy_timeout_ms)
        else:
            self.engine = _postgres_engine(self.url, busy_timeout_ms)

    def close(self) -> None:
        """Close all connections; the object may be used again."""
        self.engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database and writes nothing.

        Raises Unavailable (cannot be reached, locked), StoreError (damaged, not upgraded).
        """
        with self._translated(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is committed at the end of the block, or leaves nothing behind.

        Raises Conflict, NotFound, InvalidValue, DiskFull, Unavailable or StoreError.
        """
        with self._translated(), self.engine.connect() as plain:
            connection = plain.execution_options(**{_OURS: True})
            with connection.begin():
                yield connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except exc.SQLAlchemyError as error:
            raise translate(error, self.name) from error
        except OSError as error:
            raise from_os_error(error, self.name) from error


def _sqlite_engine(url: URL, busy_timeout_ms: int) -> Engine:
    # isolation_level None: the driver begins nothing by itself, the listener below does.
    engine = sa.create_engine(
        url,
        connect_args={"isolation_level": None, "timeout": busy_timeout_ms / 1000},
        pool_size=8,
        json_deserializer=document_of,
    )

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, record: object) -> None:
        cursor = connection.cursor()
        try:
            cursor.execute(f"PRAGMA busy_timeout = {int(busy_timeout_ms)}")
            cursor.execute("PRAGMA journal_mode = WAL")
            cursor.execute("PRAGMA synchronous = FULL")
            cursor.execute("PRAGMA foreign_keys = ON")
            cursor.execute("PRAGMA journal_size_limit = 67108864")
        finally:
            cursor.close()

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_OURS)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgres_engine(url: URL, busy_timeout_ms: int) -> Engine:
    # A dead server or a lock must not hold the appliance: connecting, locks and statements are all bounded.
    options = f"-c lock_timeout={busy_timeout_ms} -c statement_timeout={6 * busy_timeout_ms} -c timezone=UTC"
    own = url.query.get("options")
    if isinstance(own, str):
        options = f"{options} {own}"
    return sa.create_engine(
        url,
        pool_pre_ping=True,
        pool_size=8,
        pool_timeout=busy_timeout_ms / 1000,
        connect_args={"connect_timeout": 5, "application_name": "magpie", "options": options},
    )


def from_os_error(error: OSError, where: str) -> StoreError:
    """DiskFull for a full disk or quota, else StoreError."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"{where}: no space left on the disk", "free space, or lower the retention limits")
    return StoreError(f"{where}: {error.strerror or error}")


def translate(error: exc.SQLAlchemyError, where: str) -> Exception:
    """The error of edge.core.errors that says the same (or _Raced around it, where trying again may help)."""
    cause = getattr(error, "orig", None)
    if isinstance(cause, MagpieError):
        return cause
    if isinstance(cause, sqlite3.Error):
        return _from_sqlite(cause, where)
    if isinstance(error, exc.DBAPIError):
        return _from_postgres(error, cause, where)
    if isinstance(error, exc.TimeoutError):
        return Unavailable(f"{where}: all database connections are busy")
    if isinstance(error, exc.StatementError) and isinstance(cause, (TypeError, ValueError)):
        return InvalidValue("store", str(cause), "values that can be written as JSON")
    return StoreError(f"{where}: {_one_line(error)}")


def _one_line(error: object) -> str:
    return str(error).strip().split("\n", 1)[0] or type(error).__name__


def _from_sqlite(cause: sqlite3.Error, where: str) -> Exception:
    name = getattr(cause, "sqlite_errorname", "") or ""
    said = _one_line(cause)
    if name == "SQLITE_CONSTRAINT_FOREIGNKEY":
        return NotFound("what this record belongs to does not exist (or something still belongs to it)")
    if name.startswith(("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY")):
        return _Raced(Conflict(f"there is already such a record: {said}"))
    if name.startswith("SQLITE_CONSTRAINT"):
        return InvalidValue("store", said, "what the table's rules allow")
    if name == "SQLITE_FULL":
        return DiskFull(f"{where}: no space left for the database", "free space, or lower the retention limits")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Unavailable(f"{where}: the database is locked by another process")
    if name.startswith("SQLITE_CANTOPEN"):
        return Unavailable(f"{where}: the database file cannot be opened", "check that the folder exists")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreError(f"{where}: the database file is damaged: {said}", "restore a backup")
    if said.startswith(("no such table", "no such column")):
        return StoreError(f"{where}: the database is not up to date: {said}", "run `magpie db upgrade`")
    return StoreError(f"{where}: {said}")


def _from_postgres(error: exc.DBAPIError, cause: object, where: str) -> Exception:
    state = getattr(cause, "sqlstate", None) or ""
    said = _one_line(cause)
    if state == "23503":
        return NotFound("what this record belongs to does not exist (or something still belongs to it)")
    if state == "23505":
        return _Raced(Conflict(f"there is already such a record: {said}"))
    if state in ("40001", "40P01"):
        return _Raced(Unavailable(f"{where}: too many changes at once: {said}"))
    if state.startswith(("23", "22")):
        return InvalidValue("store", said, "what the table's rules allow")
    if state == "53100":
        return DiskFull(f"{where}: no space left on the database server: {said}")
    if state.startswith(("42P01", "42703")):
        return StoreError(f"{where}: the database is not up to date: {said}", "run `magpie db upgrade`")
    if state.startswith("28") or state == "3D000":
        return StoreError(f"{where}: the database refuses the connection", "check user, password and database name")
    if not state and isinstance(error, exc.DataError):
        return InvalidValue("store", said, "text without NUL characters, numbers in range")
    if not state and _refused_login(str(cause)):
        return StoreError(f"{where}: the database refuses the connection", "check user, password and database name")
    if not state or state[:2] in ("08", "53", "55", "57"):
        return Unavailable(f"{where}: the database cannot be used now: {said}")
    return StoreError(f"{where}: {said}")


def _refused_login(said: str) -> bool:
    # psycopg gives no SQLSTATE for an error while connecting; these words are PostgreSQL's (in English only).
    return "authentication failed" in said or "no pg_hba.conf entry" in said or "does not exist" in said


# --- schema ---------------------------------------------------------------------------------------------------------


def migrations() -> Config:
    """Alembic's configuration; give it a connection in `attributes["connection"]` before a command is run."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def scripts() -> tuple[Script, ...]:
    """Every schema revision that this code knows, the newest first."""
    return _scripts(MIGRATIONS)


@functools.cache
def _scripts(folder: Path) -> tuple[Script, ...]:
    """Loads each revision's module, once: the files do not change while a process runs."""
    return tuple(ScriptDirectory(str(folder)).walk_revisions())


def head() -> str:
    """The newest schema revision that this code knows."""
    known = scripts()
    if not known:
        raise StoreError("no migrations are installed", "install Magpie again")
    return str(known[0].revision)


def current(database: Database) -> str | None:
    """The database's schema revision; None for an empty database. Raises Unavailable or StoreError."""
    if database.sqlite and not Path(str(database.url.database)).exists():
        return None
    with database.read() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade(database: Database) -> tuple[str | None, str]:
    """Bring the schema up to date, all or nothing. Returns (revision before, revision after).

    Raises StoreError for a database that a newer Magpie wrote, Unavailable where it cannot be reached.
    """
    if database.sqlite:
        _own_file(Path(str(database.url.database)))
    config = migrations()
    known = {script.revision for script in scripts()}
    _save_before_upgrade(database, known)
    with database.write() as connection:
        if not database.sqlite:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
        before = MigrationContext.configure(connection).get_current_revision()
        if before is not None and before not in known:
            raise StoreError(
                f"{database.name}: the database was written by a newer Magpie (schema {before}; "
                f"this one knows up to {head()})",
                "install that version again, or give another database",
            )
        if before != head():
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        return before, head()


def _own_file(path: Path) -> None:
    """Make a SQLite file if it is not there, and close it to other accounts of this machine, wherever it lies and
    however it was made: it has password hashes. SQLite's files beside it take its mode.

    Raises StoreError, DiskFull.
    """
    try:
        make_own_folder(path.parent)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        # By name: to open and close a file that SQLite has open would end its locks.
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            with contextlib.suppress(FileNotFoundError):
                if name.stat().st_mode & 0o077:
                    name.chmod(0o600)
    except PermissionError as error:
        raise StoreError(
            f"{path} can be read by other accounts, and cannot be closed from here: {error.strerror}",
            f"give it to account {os.geteuid()}, or close it (chmod 600)",
        ) from error
    except OSError as error:
        raise from_os_error(error, str(path)) from error


def snapshot(database: Database, target: Path) -> None:
    """Copy a SQLite database as it is at one instant into the new file `target` while others go on writing.

    The copy is one file without a write-ahead log. Raises StoreError, DiskFull, Unavailable; then no copy is left.
    """
    source = Path(str(database.url.database))
    try:
        try:
            with (
                closing(sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True, timeout=10.0)) as live,
                closing(sqlite3.connect(target, isolation_level=None)) as copy,
            ):
                live.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            raise _from_sqlite(error, database.name) from error
        _sync(target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _sync(path: Path) -> None:
    try:
        for one, flags in ((path, os.O_RDWR), (path.parent, os.O_RDONLY)):
            handle = os.open(one, flags)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    except OSError as error:
        raise from_os_error(error, str(path)) from error


def _save_before_upgrade(database: Database, known: set[str]) -> None:
    """Before the schema of a database with data changes: SQLite is copied beside itself (the last copies are kept);
    of PostgreSQL the log says how."""
    before = current(database)
    if before is None or before == head() or before not in known:
        return
    if not database.sqlite:
        log.warning(
            "%s: the schema is upgraded from %s to %s in one transaction, which leaves nothing behind if it fails. "
            "To be able to go back to the older Magpie afterwards, end this one, run its `magpie backup FILE` "
            "(or pg_dump), and start again",
            database.name, before, head(),
        )  # fmt: skip
        return
    source = Path(str(database.url.database))
    stem = f"{source.name}.before-"
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    copy = source.with_name(f"{stem}{head()}-{stamp}-{os.getpid()}")
    copy.unlink(missing_ok=True)
    snapshot(database, copy)
    log.info("%s: copied to %s before the schema is upgraded from %s to %s", database.name, copy, before, head())
    for old in sorted(source.parent.glob(f"{stem}*"), key=lambda p: p.stat().st_mtime)[:-_COPIES]:
        old.unlink(missing_ok=True)


# --- small helpers --------------------------------------------------------------------------------------------------


def insert_missing(
    connection: Connection, table: sa.Table, keys: tuple[str, ...], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert rows, and leave alone those whose `keys` are there (both databases)."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as sqlite_insert

        connection.execute(sqlite_insert(table).on_conflict_do_nothing(index_elements=list(keys)), list(rows))
        return
    from sqlalchemy.dialects.postgresql import insert as postgres_insert

    connection.execute(postgres_insert(table).on_conflict_do_nothing(index_elements=list(keys)), list(rows))


def upsert(
    connection: Connection, table: sa.Table, keys: tuple[str, ...], values: Mapping[str, Any], update: Mapping[str, Any]
) -> None:
    """Insert a row of `values`, or set `update` where a row with the same `keys` is there (both databases)."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as sqlite_insert

        lite = sqlite_insert(table).values(**values)
        connection.execute(lite.on_conflict_do_update(index_elements=list(keys), set_=dict(update)))
        return
    from sqlalchemy.dialects.postgresql import insert as postgres_insert

    full = postgres_insert(table).values(**values)
    connection.execute(full.on_conflict_do_update(index_elements=list(keys), set_=dict(update)))
