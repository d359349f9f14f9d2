"""The store: everything Magpie remembers. One database, and the model blobs beside it.

All methods are short transactions and block: the control process calls them from a thread. They raise the errors of
edge.core.errors, and a caller can go on serving after any of them:
DiskFull, Unavailable (locked, unreachable), StoreError (damaged, not upgraded), Conflict, NotFound, InvalidValue.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
from pathlib import Path
from types import TracebackType

import sqlalchemy as sa

from edge.core.clock import Clock, SystemClock
from edge.core.errors import Conflict, MagpieError, NotFound, StoreError
from edge.core.models import ModelVersion
from edge.store import database as db
from edge.store import tables as t
from edge.store.alarms import AlarmsPart
from edge.store.answers import AnswersPart
from edge.store.blobs import BlobStore
from edge.store.capacity import CapacityPart
from edge.store.clips import ClipsPart
from edge.store.counts import CountsPart
from edge.store.database import Database, from_os_error, retried
from edge.store.finding import FindingPart
from edge.store.journal import JournalPart
from edge.store.own_folder import make_own_folder
from edge.store.retention import RetentionPart
from edge.store.settings import SettingsPart
from edge.store.values import BlobCheck, Health, Recovery
from edge.store.versions import VersionsPart, checked_version
from edge.store.windows import WindowsPart

log = logging.getLogger(__name__)


class Store:
    """Opens (and upgrades) the database at `url`, by default SQLite in `data_dir`; blobs are in `data_dir`/models.

    With `owner` the folder is taken for this process alone (by a lock that dies with it), because an appliance that
    shares its folder with another would sweep the other's files. Safe to use from many threads.

    Each part reads and writes one kind of records; methods of the store itself are about several of them.

    Raises InvalidValue (address), Conflict (folder in use), Unavailable, DiskFull, StoreError (a newer schema, damage).
    """

    def __init__(
        self,
        url: str | None,
        data_dir: Path,
        *,
        clock: Clock | None = None,
        owner: bool = True,
        busy_timeout_ms: int = db.BUSY_TIMEOUT_MS,
    ) -> None:
        self.data_dir = Path(data_dir)
        self._clock: Clock = clock or SystemClock()
        self.database = Database(url or default_url(self.data_dir), busy_timeout_ms=busy_timeout_ms)
        self._lock_file: int | None = take_folder(self.data_dir) if owner else None
        try:
            self.blobs = BlobStore(self.data_dir / "models")
            self.upgraded_from, self.schema = db.upgrade(self.database)
        except BaseException:
            self.close()
            raise
        database, clock = self.database, self._clock
        self.settings = SettingsPart(database, clock)
        self.windows = WindowsPart(database, clock)
        self.journal = JournalPart(database, clock)
        self.versions = VersionsPart(database, clock, self.blobs)
        self.retention = RetentionPart(database, clock, self.blobs)
        self.alarms = AlarmsPart(database, clock)
        self.answers = AnswersPart(database, clock)
        self.counts = CountsPart(database, clock)
        self.clips = ClipsPart(database, clock)
        self.finding = FindingPart(database, clock)
        self.capacity = CapacityPart(database, clock)

    def close(self) -> None:
        """Close the database and give the folder back. Safe to call twice."""
        self.database.close()
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_model(self, version: ModelVersion, weights: Path | bytes) -> ModelVersion:
        """Keep the weights as a blob and record the version (its `blob` field is set here). Raises as
        `versions.add_version`."""
        checked_version(version)  # before the disk is written
        about = version.to_json()
        for changing in ("blob", "state", "decided_by", "reason", "pinned", "blob_kept"):
            del about[changing]
        digest = self.blobs.put(weights, about)
        return self.versions.add_version(ModelVersion.from_json(version.to_json() | {"blob": digest}))

    def recover(self) -> Recovery:
        """Put records in order after any end of the last run (kill -9, power loss), and say where to go on.

        Running jobs become "interrupted" and candidates "rejected": their workers are gone. A camera whose model in
        force has a damaged blob goes back to its nearest intact ancestor. Call once, before workers start.
        """
        removed = self.blobs.sweep_temporaries()
        interrupted, rejected = self._end_leftovers()
        rolled_back: list[str] = []
        lost: list[str] = []
        for version in self.versions.all_promoted().values():
            if self._intact(version):
                continue
            target = next((v for v in self.versions.lineage(version.id)[1:] if _was_good(v) and self._intact(v)), None)
            if target is None:
                lost.append(version.camera)
                continue
            self.versions.replace_damaged(version, target)
            rolled_back.append(version.id)
        promoted = {camera: v for camera, v in self.versions.all_promoted().items() if camera not in lost}
        return Recovery(
            self.windows.open_window_state(), promoted, interrupted, rejected, tuple(rolled_back), tuple(lost), removed
        )

    def check_blobs(self) -> BlobCheck:
        """Read the blob of every version that has one, and compare its hash. Takes as long as reading them takes."""
        checked, damaged = 0, []
        for version in self.versions.kept_versions():
            checked += 1
            try:
                self.blobs.verify(version.blob)
            except (NotFound, StoreError) as error:
                damaged.append(f"{version.id} (camera {version.camera}, {version.state}): {error}")
        return BlobCheck(checked, tuple(damaged))

    def health(self) -> Health:
        """Whether the database answers, with the schema it has, and the room left on the disk. Raises nothing."""
        schema, fault = None, None
        free = models = 0
        try:
            schema = db.current(self.database)
            models = self.blobs.total_bytes()
            free = shutil.disk_usage(self.data_dir).free
        except MagpieError as error:
            fault = error
        except OSError as error:
            fault = from_os_error(error, str(self.data_dir))
        return Health(
            self.database.name, schema, None if fault is None else str(fault), None if fault is None else fault.code,
            free, models,
        )  # fmt: skip

    @retried
    def _end_leftovers(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        now, reason = self._clock.utc(), "interrupted by a restart"
        with self.database.write() as c:
            running = t.jobs.c.state == "running"
            jobs = c.execute(sa.select(t.jobs.c.id).where(running).order_by(t.jobs.c.id)).scalars().all()
            c.execute(sa.update(t.jobs).where(running).values(state="interrupted", ended_utc_s=now, reason=reason))
            candidate = t.versions.c.state == "candidate"
            found = c.execute(sa.select(t.versions.c.id, t.versions.c.camera).where(candidate)).all()
            made = {"state": "rejected", "decided_by": "recovery", "reason": reason}
            c.execute(sa.update(t.versions).where(candidate).values(**made))
            rows = [
                {"version": r.id, "camera": r.camera, "at_utc_s": now, "action": "rejected", "decided_by": "recovery",
                 "reason": reason}
                for r in found
            ]  # fmt: skip
            if rows:
                c.execute(sa.insert(t.decisions), rows)
        return tuple(jobs), tuple(r.id for r in found)

    def _intact(self, version: ModelVersion) -> bool:
        try:
            self.blobs.verify(version.blob)
        except (NotFound, StoreError):
            return False
        return True


def default_url(data_dir: Path) -> str:
    """SQLite in the data folder."""
    return sa.URL.create("sqlite", database=str((Path(data_dir) / "magpie.db").absolute())).render_as_string()


def _was_good(version: ModelVersion) -> bool:
    return version.blob_kept and version.state == "retired"


def _narrow(folder: Path) -> None:
    """Pictures, password hashes: no other account of this machine looks into the data folder, under any umask and
    however it was made. Raises StoreError where that cannot be had.
    """
    try:
        make_own_folder(folder)
        found = folder.stat()
        if not found.st_mode & 0o077:
            return
        with contextlib.suppress(PermissionError):  # it is another account's
            folder.chmod(0o700)
        if folder.stat().st_mode & 0o077:
            raise StoreError(
                f"{folder} can be looked into by other accounts, and cannot be closed from here (it belongs to account "
                f"{found.st_uid})",
                f"give it to account {os.geteuid()}, or close it (chmod 700)",
            )
    except OSError as error:
        raise from_os_error(error, str(folder)) from error
    log.warning("%s was open to other accounts of this machine (mode %03o): closed", folder, found.st_mode & 0o777)


def take_folder(folder: Path) -> int:
    """Close a data folder to other accounts, and lock it for this process until the descriptor is closed. Raises
    Conflict (in use), StoreError."""
    _narrow(folder)
    path = folder / "owner.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise from_os_error(error, str(path)) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
    except BlockingIOError:
        pid = ""
        with contextlib.suppress(OSError):
            pid = os.pread(handle, 32, 0).decode(errors="replace").strip()
        os.close(handle)
        raise Conflict(f"{folder} is in use by another Magpie (process {pid or '?'})", "end it first") from None
    except OSError as error:
        os.close(handle)
        raise from_os_error(error, str(path)) from error
    return handle
