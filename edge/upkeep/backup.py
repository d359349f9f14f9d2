"""Back-up of a running or stopped appliance into one file, and its way back.

A back-up holds the database as of one instant and every model file that it refers to, exemplars and measured device
tables, and pictures where they are asked for. Passwords are not in it: cameras refer to them (env:, file:).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from edge.core.clock import Clock, SystemClock
from edge.core.errors import Conflict, MagpieError, NotFound, StoreError
from edge.core.secrecy import without_credentials
from edge.store import database as db
from edge.store import tables
from edge.store.blobs import BlobStore
from edge.store.database import Database
from edge.store.store import default_url, take_folder
from edge.upkeep import rows
from edge.upkeep.archive import ArchiveReader, ArchiveWriter, Manifest, member_name, os_errors_named, sync_folder
from edge.version import magpie_version

SQLITE = "database.sqlite"
SITE = "site.yaml"
_ALWAYS = ("exemplars", "kept-out", "serving")
_PICTURES = ("pictures", "windows", "alarms", "objects", "answers", "clips")
#: Sessions and links of that time do not come back: they may have been used or ended since.
_NOT_BACK = ("sessions", "links")
#: Retention may delete a model file between the database's snapshot and its turn: then another snapshot is taken.
_ATTEMPTS = 3


@dataclass(frozen=True)
class BackupReport:
    """A back-up's report. `damaged` model files are not in it; `vanished` and `strange` count files of pictures and
    exemplars that were deleted meanwhile, or have names that Magpie does not give."""

    path: Path
    bytes: int
    models: int
    files: int
    damaged: tuple[str, ...]
    vanished: int
    strange: int


@dataclass(frozen=True)
class RestoreReport:
    """The restored parts. `kept` is where the SQLite database that was replaced is now."""

    models: int
    files: int
    schema: str
    created_utc_s: float
    damaged: tuple[str, ...]
    kept: Path | None


def back_up(
    path: Path,
    data_dir: Path,
    url: str | None = None,
    *,
    pictures: bool = False,
    site: Path | None = None,
    force: bool = False,
    clock: Clock | None = None,
) -> BackupReport:
    """Write a back-up and read it back. The appliance may be running. `site`: its configuration file, put in as it is
    but for passwords in addresses.

    Raises Conflict (the file is there, without `force`), NotFound (no database), StoreError, DiskFull, Unavailable.
    """
    if path.exists() and not force:
        raise Conflict(f"{path} exists", "give another name, or --force")
    database = Database(url or default_url(data_dir))
    try:
        schema = db.current(database)
        if schema is None:
            raise NotFound(
                f"{database.name}: there is no database of Magpie here", "give --config, --data-dir or --url"
            )
        with ArchiveWriter(path) as writer, _staging(data_dir) as stage:
            models, damaged = _add_state(writer, database, data_dir, stage)
            vanished = strange = files = 0
            for name, source in _files(data_dir, _ALWAYS + (_PICTURES if pictures else ())):
                if not member_name(name):
                    strange += 1
                    continue
                try:
                    writer.add(name, source)
                    files += 1
                except StoreError:
                    if source.exists():
                        raise
                    vanished += 1
            if site is not None:
                writer.add_bytes(SITE, _site_text(site))
            now = (clock or SystemClock()).utc()
            kind = "sqlite" if database.sqlite else "postgresql"
            writer.finish(Manifest(now, magpie_version(), kind, schema, pictures, dict(writer.members), tuple(damaged)))
        return BackupReport(path, path.stat().st_size, models, files, tuple(damaged), vanished, strange)
    finally:
        database.close()


def restore(
    path: Path, data_dir: Path, url: str | None = None, *, force: bool = False, clock: Clock | None = None
) -> RestoreReport:
    """Put a back-up in place. Everything is read and compared with its hash before anything is changed; the database
    comes last and at once, so that an interruption leaves the old state or the new one.

    Sessions and one-time links do not come back: everybody logs in again. Alarms and objects whose picture is not
    there say so. Model files and exemplars that are there stay (models have their content's hash as their name; files
    without a reference go with the next retention). A SQLite database that is replaced is kept under another name.

    Raises Conflict (an appliance runs on the folder, or there is data and no `force`), StoreError (damaged, a newer
    schema), MagpieError (unreadable), DiskFull.
    """
    with ArchiveReader(path) as archive:
        archive.verify()
        manifest = archive.manifest
        if manifest.schema not in {script.revision for script in db.scripts()}:
            raise StoreError(
                f"{path}: made by a newer Magpie (schema {manifest.schema}; this one knows up to {db.head()})",
                "install that version",
            )
        lock = take_folder(data_dir)
        database = Database(url or default_url(data_dir))
        try:
            if not force and _has_data(database):
                raise Conflict(
                    f"{database.name} has data",
                    "--force replaces it" + (" (the file is kept under another name)" if database.sqlite else ""),
                )
            with _staging(data_dir) as stage:
                staged = stage / SQLITE
                if manifest.database == "sqlite":
                    archive.extract(SQLITE, staged)
                    _intact(staged, path)
                    _clear(staged)
                fresh = stage / "fresh.sqlite"
                _put_files(archive, data_dir, stage)
                kept = None
                if database.sqlite and manifest.database == "sqlite":
                    kept = _put_sqlite(database, staged, clock or SystemClock())
                elif database.sqlite:
                    new = Database(f"sqlite:///{fresh}")
                    _load(archive, new)
                    new.close()
                    _checkpoint(fresh)
                    kept = _put_sqlite(database, fresh, clock or SystemClock())
                else:
                    _load(archive, database, staged)
            db.upgrade(database)
            _without_pictures(database, data_dir)
        finally:
            database.close()
            os.close(lock)
    names = manifest.members
    models = sum(n.endswith(".safetensors") for n in names)
    files = sum(n.startswith(_ALWAYS + _PICTURES) for n in names)
    return RestoreReport(models, files, manifest.schema, manifest.created_utc_s, manifest.damaged, kept)


# --- back-up --------------------------------------------------------------------------------------------------------


def _add_state(writer: ArchiveWriter, database: Database, data_dir: Path, stage: Path) -> tuple[int, list[str]]:
    """The database and every model file that it refers to."""
    blobs = BlobStore(data_dir / "models")
    for attempt in range(_ATTEMPTS):
        folder = stage / str(attempt)
        folder.mkdir()
        wanted = _export(database, folder)
        held, missing = _hold(blobs, wanted, folder)
        if not missing or attempt == _ATTEMPTS - 1:
            break
    for exported in sorted((folder / "database").iterdir()):
        writer.add(SQLITE if exported.name == SQLITE else f"tables/{exported.name}", exported)
    damaged = [f"{digest}: the model file is missing" for digest in missing]
    for digest, held_path in held:
        with os_errors_named(held_path), held_path.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != digest:
            damaged.append(f"{digest}: the model file's content is not what its name says")
            continue
        writer.add(f"models/{digest}.safetensors", held_path)
        side = blobs.folder / f"{digest}.json"
        if side.is_file():
            writer.add(f"models/{digest}.json", side)
    return sum(name.endswith(".safetensors") for name in writer.members), damaged


def _export(database: Database, folder: Path) -> list[str]:
    """The database into `folder`/database; returns the hashes of the model files that it refers to."""
    target = folder / "database"
    target.mkdir()
    source = database
    if database.sqlite:
        db.snapshot(database, target / SQLITE)
        source = Database(f"sqlite:///{target / SQLITE}")
    try:
        with rows.one_state(source) as connection:
            if not database.sqlite:
                for table in rows.reflected(connection).sorted_tables:
                    with os_errors_named(target), (target / f"{table.name}.jsonl").open("wb") as stream:
                        rows.write_rows(rows.rows_of(connection, table), stream)
            query = sa.text("SELECT DISTINCT blob FROM versions WHERE blob_kept ORDER BY blob")
            return [str(blob) for blob in connection.execute(query).scalars()]
    finally:
        if source is not database:
            source.close()
            _checkpoint(target / SQLITE)


def _hold(blobs: BlobStore, wanted: list[str], folder: Path) -> tuple[list[tuple[str, Path]], list[str]]:
    """Second names for the model files, under which retention does not delete them."""
    held, missing = [], []
    for digest in wanted:
        target = folder / digest
        try:
            source = blobs.path(digest)
            try:
                os.link(source, target)
            except OSError:  # a file system without second names
                shutil.copyfile(source, target)
        except (NotFound, FileNotFoundError):
            missing.append(digest)
            continue
        held.append((digest, target))
    return held, missing


def _files(data_dir: Path, folders: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    for folder in folders:
        for path in sorted((data_dir / folder).rglob("*")):
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(data_dir).as_posix(), path


def _site_text(site: Path) -> bytes:
    try:
        return without_credentials(site.read_text(encoding="utf-8")).encode()
    except OSError as error:
        raise MagpieError(f"{site}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise MagpieError(f"{site}: not a text in UTF-8") from None


# --- restore --------------------------------------------------------------------------------------------------------


def _has_data(database: Database) -> bool:
    if db.current(database) is None:
        return False
    with database.read() as connection:
        for table in rows.reflected(connection).sorted_tables:
            if connection.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first() is not None:
                return True
    return False


def _put_files(archive: ArchiveReader, data_dir: Path, stage: Path) -> None:
    for number, name in enumerate(sorted(archive.manifest.members)):
        if not name.startswith(("models/", *(f"{folder}/" for folder in _ALWAYS + _PICTURES))):
            continue
        staged, target = stage / f"file-{number}", data_dir / name
        archive.extract(name, staged)
        with os_errors_named(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(staged, target)
    for folder in ("models", *_ALWAYS, *_PICTURES):
        if (data_dir / folder).is_dir():
            with os_errors_named(data_dir / folder):
                sync_folder(data_dir / folder)


def _put_sqlite(database: Database, staged: Path, clock: Clock) -> Path | None:
    """Put the file in the database's place in one step; the old one keeps another name."""
    target = Path(str(database.url.database))
    kept = None
    with os_errors_named(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            database.close()
            _checkpoint(target)
            kept = target.with_name(f"{target.name}.replaced-{int(clock.utc())}")
            kept.unlink(missing_ok=True)
            os.link(target, kept)
            # The log of a damaged database must not be played into the new one.
            for log in ("-wal", "-shm"):
                target.with_name(target.name + log).unlink(missing_ok=True)
        # Beside the target, so that the last step is a rename on one disk.
        near = target.with_name(f".{target.name}.restored")
        shutil.copyfile(staged, near)
        with near.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(near, target)
        sync_folder(target.parent)
    return kept


def _checkpoint(path: Path) -> None:
    """Bring what is in the write-ahead log into the file, and do without one."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=5.0)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")


def _intact(path: Path, archive: Path) -> None:
    try:
        with closing(sqlite3.connect(path)) as connection:
            said = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        said = str(error)
    if said != "ok":
        raise StoreError(f"{archive}: the database in it is damaged: {said}")


def _clear(path: Path) -> None:
    """Delete what does not come back from a SQLite file."""
    database = Database(f"sqlite:///{path}")
    try:
        with database.write() as connection:
            there = rows.reflected(connection).tables
            for name in _NOT_BACK:
                if name in there:
                    connection.execute(sa.delete(there[name]))
    finally:
        database.close()
    _checkpoint(path)


def _without_pictures(database: Database, data_dir: Path) -> None:
    """Alarms and objects whose picture is not in the folder have none."""
    with database.write() as connection:
        for table in (tables.alarms, tables.objects):
            own = table.c
            with_picture = sa.select(own.id, own.camera).where(own.picture_bytes > 0)
            gone = [
                row.id
                for row in connection.execute(with_picture)
                if not (data_dir / table.name / (row.camera or "") / f"{row.id}.jpg").is_file()
            ]
            for n in range(0, len(gone), 500):
                chunk = own.id.in_(gone[n : n + 500])
                connection.execute(sa.update(table).where(chunk).values(picture_bytes=0))


def _load(archive: ArchiveReader, database: Database, sqlite_file: Path | None = None) -> None:
    """Rows of the back-up into a database: from its tables, or from the SQLite file in it."""
    schema = archive.manifest.schema
    if sqlite_file is not None and archive.manifest.database == "sqlite":
        source = Database(f"sqlite:///{sqlite_file}")
        try:
            with rows.one_state(source) as connection:
                there = rows.reflected(connection).tables
                rows.load(database, schema, there, lambda name: rows.rows_of(connection, there[name]))
        finally:
            source.close()
        return
    names = [n.removeprefix("tables/").removesuffix(".jsonl") for n in archive.manifest.members if n[:7] == "tables/"]
    names = [n for n in names if n not in _NOT_BACK]

    def of(name: str) -> Iterator[rows.Row]:
        with archive.open(f"tables/{name}.jsonl") as stream:
            yield from rows.read_rows(stream)

    rows.load(database, schema, names, of)


class _staging(tempfile.TemporaryDirectory[str]):
    """A hidden folder beside the data, on the same disk, gone afterwards."""

    def __init__(self, data_dir: Path) -> None:
        with os_errors_named(data_dir):
            data_dir.mkdir(parents=True, exist_ok=True)
            super().__init__(prefix=".upkeep-", dir=data_dir)

    def __enter__(self) -> Path:  # type: ignore[override]
        return Path(super().__enter__())
