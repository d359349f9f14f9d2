"""The folder of model files: the files, a notice beside each, halves of what is being fetched, accepted licences.

    yolox_nano.onnx             the model
    yolox_nano.onnx.json        its notice: its owner, its licence, where it came from
    yolox_nano.onnx.part        the part received so far, and
    yolox_nano.onnx.part.json   from where
    index.json                  licences that the operator accepted, with name and time
    .yolox_nano.onnx.lock       held while the file is fetched or added

The cameras' own models may lie in the same folder (HASH.safetensors); they are the store's, and are left alone here.
A file that has its final name is whole: it was checked, fsynced and renamed. The notice goes first, so that no file
that Magpie fetched is without one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from edge.core.errors import StoreError
from edge.files import from_os_error, os_errors, sync_folder
from edge.models.catalogue import CatalogueEntry

#: The state of a file: whole, not there, only its beginning, something else under its name.
State = Literal["here", "missing", "partial", "changed"]
#: How it came: over the network or from a mirror; by `add`; it was there when Magpie first looked.
Origin = Literal["fetched", "added", "found"]

_INDEX: Final = "index.json"


@dataclass(frozen=True)
class Notice:
    """The note beside a model file. `at` is when it came, UTC in ISO 8601."""

    name: str
    file: str
    address: str
    sha256: str
    bytes: int
    licence: str
    attribution: str
    origin: Origin
    at: str
    modified: bool = False


@dataclass(frozen=True)
class Accepted:
    """An operator accepted a licence that Magpie refuses by itself: for which model, who (account), when (UTC)."""

    licence: str
    model: str
    by: str
    at: str


class ModelsFolder:
    """The folder; it is made when the first file comes. Several processes may use it at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, name: str) -> Path:
        """A model file's path."""
        return self.path / name

    def part(self, name: str) -> Path:
        """Where its beginning lies while it is fetched."""
        return self.path / f"{name}.part"

    def make(self) -> None:
        """Make the folder. Raises StoreError, DiskFull."""
        with os_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def locked(self, name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Only one process at a time fetches or adds a file; `waiting` is called if another one does now. The kernel
        frees the lock of a killed process. Raises StoreError, DiskFull."""
        self.make()
        with os_errors(self.path):
            handle = os.open(self.path / f".{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    # -- what is here

    def look(self, entry: CatalogueEntry) -> State:
        """By name and size only: quick, for lists. `verified` reads the file."""
        try:
            size = self.file(entry.file).stat().st_size
        except FileNotFoundError:
            return "partial" if self.part(entry.file).exists() else "missing"
        except OSError as error:
            raise from_os_error(error, self.file(entry.file)) from error
        return "here" if entry.least_bytes <= size <= entry.most_bytes else "changed"

    def verified(self, entry: CatalogueEntry) -> State:
        """Reads the whole file. One whose hash is known only by its beginning must be the one that came first."""
        state = self.look(entry)
        if state != "here":
            return state
        found = file_sha256(self.file(entry.file))
        notice = self.notice(entry.file)
        first = entry.sha256 or (notice.sha256 if notice is not None and entry.fits(notice.sha256) else "")
        return "here" if entry.fits(found) and (not first or found == first) else "changed"

    def halves(self) -> tuple[Path, ...]:
        """Beginnings of files that are not whole yet."""
        return tuple(sorted(self.path.glob("*.part"))) if self.path.is_dir() else ()

    # -- notices

    def notice(self, name: str) -> Notice | None:
        """The note beside a file; None where there is nothing, or nothing that can be read."""
        value = read_json(self.path / f"{name}.json")
        try:
            notice = Notice(**value)
        except TypeError:
            return None
        texts = (notice.name, notice.file, notice.sha256, notice.licence, notice.at)
        return notice if all(isinstance(text, str) for text in texts) and notice.file == name else None

    def notices(self) -> tuple[Notice, ...]:
        """All that can be read, by name."""
        found = (self.notice(p.name.removesuffix(".json")) for p in sorted(self.path.glob("*.json")))
        return tuple(n for n in found if n is not None)

    def write_notice(self, notice: Notice) -> None:
        """Raises StoreError, DiskFull."""
        write_json(self.path / f"{notice.file}.json", asdict(notice))

    def settle(self, part: Path, notice: Notice) -> Path:
        """A checked, fsynced `part` becomes the file, its notice first. Raises StoreError, DiskFull."""
        final = self.file(notice.file)
        self.write_notice(notice)
        with os_errors(final):
            os.replace(part, final)
            sync_folder(self.path)
        return final

    # -- licences

    def accepted(self) -> tuple[Accepted, ...]:
        """Every acceptance, oldest first. Raises StoreError if the index is damaged."""
        path = self.path / _INDEX
        value = read_json(path)
        if not value and path.exists():
            raise StoreError(f"{path}: damaged", "delete it; accepted licences have to be accepted again")
        try:
            return tuple(Accepted(**row) for row in value.get("accepted", ()))
        except TypeError as error:
            raise StoreError(f"{path}: damaged: {error}", "delete it and accept licences again") from error

    def accepted_for(self, model: str) -> tuple[str, ...]:
        """Licences that were accepted for a model."""
        return tuple(a.licence for a in self.accepted() if a.model == model)

    def accept(self, accepted: Accepted) -> None:
        """Remember it. Raises StoreError, DiskFull."""
        with self.locked(_INDEX):
            rows = self.accepted()
            known = {(a.licence, a.model) for a in rows}
            if (accepted.licence, accepted.model) not in known:
                write_json(self.path / _INDEX, {"accepted": [asdict(a) for a in (*rows, accepted)]})


def utc_text(utc_s: float) -> str:
    """Epoch seconds as UTC in ISO 8601."""
    return datetime.fromtimestamp(int(utc_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def file_sha256(path: Path) -> str:
    """Hash of a file, 64 small hex digits. Raises StoreError."""
    with os_errors(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """An object from a file; {} where there is none, or no such file."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Whole or not at all. Raises StoreError, DiskFull."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.writing")
    with os_errors(path):
        try:
            with temporary.open("xb") as stream:
                stream.write(json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)
