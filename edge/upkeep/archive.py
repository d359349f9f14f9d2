"""The back-up file: a tar with a manifest that names every member with its size and sha256.

A member's name is one of a few forms, and only plain files are members, so that reading a hostile archive cannot write
anywhere else. The file appears under its name only when it is whole and was read back.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from edge.core.errors import MagpieError, StoreError
from edge.store.database import from_os_error

FORMAT = "magpie-backup/1"
MANIFEST = "manifest.json"
_CHUNK = 1 << 20
_MAX_MANIFEST = 256 << 20
_NAMES = re.compile(
    r"database\.sqlite|site\.yaml|tables/[a-z_][a-z0-9_]{0,62}\.jsonl|models/[0-9a-f]{64}\.(safetensors|json)"
    r"|(alarms|answers|exemplars|kept-out|objects|pictures|serving|windows)(/[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,200}){1,8}"
)


@dataclass(frozen=True)
class ArchiveMember:
    """One file of the archive."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """A back-up's contents. `database` is "sqlite" (a database file) or "postgresql" (each table's rows as JSON
    lines); `damaged` names model files that were not whole when they were read and so are not in it."""

    created_utc_s: float
    magpie: str
    database: str
    schema: str
    pictures: bool
    members: Mapping[str, ArchiveMember] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT} | asdict(self)

    @staticmethod
    def from_json(value: Any) -> Manifest:
        """Raises StoreError for what is not a manifest that this version understands."""
        try:
            if value["format"] != FORMAT:
                raise StoreError(f"a back-up of format {str(value['format'])[:40]!r}; this version reads {FORMAT}")
            members = {str(n): ArchiveMember(int(m["bytes"]), str(m["sha256"])) for n, m in value["members"].items()}
            return Manifest(
                float(value["created_utc_s"]), str(value["magpie"]), str(value["database"]), str(value["schema"]),
                bool(value["pictures"]), members, tuple(str(d) for d in value["damaged"]),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(f"the back-up's manifest is damaged: {error}") from None


class ArchiveWriter:
    """Writes members one after the other; `finish` adds the manifest. Use as a context manager: an unfinished archive
    is deleted. Raises StoreError, DiskFull.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        self.members: dict[str, ArchiveMember] = {}
        with os_errors_named(path):
            handle = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._stream = os.fdopen(handle, "wb")
            # PAX: names and sizes without limits.
            self._tar = tarfile.open(fileobj=self._stream, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 (closed in finish)

    def add(self, name: str, source: Path) -> ArchiveMember:
        """Add a file. Raises StoreError if it cannot be read, or if it changes meanwhile."""
        with os_errors_named(source), source.open("rb") as stream:
            return self._add(name, stream, os.fstat(stream.fileno()).st_size)

    def add_bytes(self, name: str, data: bytes) -> ArchiveMember:
        """Add a document."""
        return self._add(name, io.BytesIO(data), len(data))

    def _add(self, name: str, stream: IO[bytes], size: int) -> ArchiveMember:
        if _NAMES.fullmatch(name) is None:
            raise StoreError(f"{name}: not a name for a back-up's member")
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o600
        hashed = _Hashing(stream)
        with os_errors_named(self.path):
            try:
                self._tar.addfile(info, hashed)
            except (tarfile.TarError, EOFError) as error:
                raise StoreError(f"{name}: changed while it was read: {error}") from None
        member = self.members[name] = ArchiveMember(size, hashed.digest())
        return member

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, wait for the disk, read everything back, and give the file its name."""
        data = json.dumps(manifest.to_json(), sort_keys=True).encode()
        info = tarfile.TarInfo(MANIFEST)
        info.size, info.mode = len(data), 0o600
        with os_errors_named(self.path):
            self._tar.addfile(info, io.BytesIO(data))
            self._tar.close()
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
        with ArchiveReader(self._part) as reader:
            reader.verify()
        with os_errors_named(self.path):
            os.replace(self._part, self.path)
            sync_folder(self.path.parent)

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._stream.close()
        self._part.unlink(missing_ok=True)


class ArchiveReader:
    """Opens a back-up. Raises StoreError (not one, damaged), MagpieError (cannot be read)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._tar = tarfile.open(path, mode="r:")  # noqa: SIM115 (closed in __exit__)
        except OSError as error:
            raise MagpieError(f"{path}: cannot be read: {error.strerror or error}") from None
        except tarfile.TarError as error:
            raise StoreError(f"{path}: not a back-up: {error}") from None
        try:
            self._members = self._listed()
            self.manifest = self._read_manifest()
        except BaseException:
            self._tar.close()
            raise

    def _listed(self) -> dict[str, tarfile.TarInfo]:
        found: dict[str, tarfile.TarInfo] = {}
        try:
            for info in self._tar:
                known = info.name == MANIFEST or _NAMES.fullmatch(info.name)
                if not info.isreg() or not known or info.name in found:
                    raise StoreError(f"{self.path}: member {info.name[:100]!r} does not belong into a back-up")
                found[info.name] = info
        except (tarfile.TarError, EOFError, OSError) as error:
            raise StoreError(f"{self.path}: damaged: {error}") from None
        return found

    def _read_manifest(self) -> Manifest:
        info = self._members.pop(MANIFEST, None)
        if info is None or info.size > _MAX_MANIFEST:
            raise StoreError(f"{self.path}: not a back-up, or one that was cut off: it has no manifest")
        with self._opened(info) as stream:
            data = stream.read()
        try:
            manifest = Manifest.from_json(json.loads(data))
        except ValueError as error:
            raise StoreError(f"{self.path}: the manifest is damaged: {error}") from None
        listed, there = set(manifest.members), set(self._members)
        if listed != there:
            wrong = sorted(listed ^ there)[0]
            raise StoreError(f"{self.path}: {wrong} is {'missing' if wrong in listed else 'not in the manifest'}")
        return manifest

    def verify(self) -> None:
        """Read every member and compare its hash. Raises StoreError naming the first one that is damaged."""
        for name, member in self.manifest.members.items():
            if name.endswith(".safetensors") and Path(name).stem != member.sha256:
                raise StoreError(f"{self.path}: {name} is damaged: its content is not what its name says")
            self._read(name, None)

    def extract(self, name: str, target: Path) -> None:
        """Write a member to `target` (its folder is made), and wait for the disk. Raises StoreError (damaged)."""
        with os_errors_named(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as stream:
                self._read(name, stream)
                stream.flush()
                os.fsync(stream.fileno())

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """A member to read."""
        with self._opened(self._members[name]) as stream:
            yield stream

    def _read(self, name: str, target: IO[bytes] | None) -> None:
        said, seen, size = self.manifest.members[name], hashlib.sha256(), 0
        try:
            with self._opened(self._members[name]) as stream:
                while chunk := stream.read(_CHUNK):
                    seen.update(chunk)
                    size += len(chunk)
                    if target is not None:
                        target.write(chunk)
        except (tarfile.TarError, EOFError) as error:
            raise StoreError(f"{self.path}: {name} is damaged: {error}") from None
        if size != said.bytes or seen.hexdigest() != said.sha256:
            raise StoreError(f"{self.path}: {name} is damaged: its sha256 is not that of the manifest")

    @contextmanager
    def _opened(self, info: tarfile.TarInfo) -> Iterator[IO[bytes]]:
        stream = self._tar.extractfile(info)
        if stream is None:
            raise StoreError(f"{self.path}: {info.name} is not a file")
        with stream:
            yield stream

    def __enter__(self) -> ArchiveReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tar.close()


class _Hashing(io.RawIOBase):
    """Passes reads through and hashes what went by."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._seen = stream, hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        data = self._stream.read(size)
        self._seen.update(data)
        return data

    def digest(self) -> str:
        return self._seen.hexdigest()


def member_name(name: str) -> bool:
    """Whether a file may be a member under this name."""
    return _NAMES.fullmatch(name) is not None


def sync_folder(folder: Path) -> None:
    """Wait until the names in the folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def os_errors_named(where: Path) -> Iterator[None]:
    """Turn an OSError into DiskFull or StoreError naming `where`."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, str(where)) from error
