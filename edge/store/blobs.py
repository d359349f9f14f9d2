"""Model blobs on disk, named by the sha256 of their content.

`HASH.safetensors` is the blob, `HASH.json` its sidecar. Each is written to a temporary name, fsynced, renamed, and the
folder is fsynced: a blob that has its final name is whole, even after a power failure at any instant. The sidecar goes
first, so a blob is never without one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from edge.core.errors import InvalidValue, NotFound, StoreError
from edge.store.database import from_os_error

SUFFIX = ".safetensors"
_CHUNK = 1 << 20
_HASH = re.compile(r"[0-9a-f]{64}")


class BlobStore:
    """A folder of blobs. Several threads and processes may put at once; `sweep` is for the owner of the folder.

    Raises StoreError where the folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        with _store_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)

    def put(self, source: Path | bytes, sidecar: Mapping[str, Any]) -> str:
        """Keep the bytes of `source` (a file, or the bytes) and return their hash (64 hex digits).

        The same content twice is kept once, with the first sidecar; a damaged copy on disk is mended. When this
        returns, blob and sidecar survive a power loss.

        Raises DiskFull or StoreError; then nothing of it stays behind. NotFound if the source file is missing.
        """
        about = _document(sidecar)
        with contextlib.closing(_opened(source)) as stream, self._temporary() as (name, target):
            digest, size = _copy(stream, target)
            if self._intact(digest):
                self._touch(digest)
                self._sync_folder()
                return digest
            side = {"sha256": digest, "bytes": size, "about": about}
            with self._temporary() as (side_name, side_target):
                side_target.write(json.dumps(side, sort_keys=True).encode())
                _settle(side_target, side_name, self._sidecar(digest))
            self._sync_folder()
            _settle(target, name, self._blob(digest))
            self._sync_folder()
            return digest

    def path(self, digest: str) -> Path:
        """The blob's file. Raises NotFound, or InvalidValue for what is not a hash."""
        path = self._blob(digest)
        if not path.is_file():
            raise NotFound(f"model blob {digest} is not in {self.folder}")
        return path

    def has(self, digest: str) -> bool:
        """Whether the blob's file is there (its content is not read)."""
        return self._blob(digest).is_file()

    def sidecar(self, digest: str) -> dict[str, Any]:
        """The document that was given to `put`. Raises NotFound or StoreError (unreadable)."""
        path = self._sidecar(digest)
        try:
            about = json.loads(path.read_bytes())["about"]
        except FileNotFoundError:
            raise NotFound(f"model blob {digest} has no sidecar in {self.folder}") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path}: the sidecar is damaged: {error}") from error
        if not isinstance(about, dict):
            raise StoreError(f"{path}: the sidecar is damaged: not an object")
        return about

    def verify(self, digest: str) -> Path:
        """Read the whole blob and return its path. Raises NotFound, or StoreError naming a damaged file."""
        path = self.path(digest)
        with _store_errors(path), path.open("rb") as stream:
            found, size = _copy(stream, None)
        if found != digest:
            raise StoreError(
                f"{path}: the model file is damaged ({size} bytes, sha256 {found[:12]}... is not its name)",
                "roll back to another version",
            )
        return path

    def size(self, digest: str) -> int:
        """Bytes of the blob on disk; 0 if it is not there."""
        try:
            return self._blob(digest).stat().st_size
        except FileNotFoundError:
            return 0

    def hashes(self) -> set[str]:
        """All blobs that are there."""
        with _store_errors(self.folder):
            return {p.stem for p in self.folder.iterdir() if p.suffix == SUFFIX and _HASH.fullmatch(p.stem)}

    def total_bytes(self) -> int:
        """Bytes of all blobs on disk."""
        return sum(self.size(digest) for digest in self.hashes())

    def sweep(self, keep: Collection[str], *, older_than_utc_s: float | None = None) -> set[str]:
        """Delete the blobs (and sidecars without a blob) that are not in `keep`; returns the hashes deleted.

        With `older_than_utc_s`, files written after that time stay: another thread may be about to record them.
        """
        gone = set()
        with _store_errors(self.folder):
            for path in sorted(self.folder.iterdir()):
                digest = path.stem
                if path.suffix not in (SUFFIX, ".json") or not _HASH.fullmatch(digest) or digest in keep:
                    continue
                with contextlib.suppress(FileNotFoundError):
                    if older_than_utc_s is not None and path.stat().st_mtime > older_than_utc_s:
                        continue
                    path.unlink()
                    gone.add(digest)
            if gone:
                self._sync_folder()
        return gone

    def sweep_temporaries(self) -> int:
        """Delete half-written files that no living writer holds; returns how many."""
        count = 0
        with _store_errors(self.folder):
            for path in self.folder.glob(".*.tmp"):
                with contextlib.suppress(FileNotFoundError), path.open("rb") as held:
                    try:
                        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except BlockingIOError:
                        continue  # its writer lives
                    path.unlink()
                    count += 1
        return count

    def _blob(self, digest: str) -> Path:
        if not _HASH.fullmatch(digest):
            raise InvalidValue("blob", digest, "a sha256 in 64 small hex digits")
        return self.folder / f"{digest}{SUFFIX}"

    def _sidecar(self, digest: str) -> Path:
        return self._blob(digest).with_suffix(".json")

    def _intact(self, digest: str) -> bool:
        if not self._sidecar(digest).is_file():
            return False
        try:
            self.verify(digest)
        except (NotFound, StoreError):
            return False
        return True

    def _touch(self, digest: str) -> None:
        # Young again, so that a sweep with a grace time leaves it to the present writer.
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._blob(digest))
            os.utime(self._sidecar(digest))

    @contextlib.contextmanager
    def _temporary(self) -> Iterator[tuple[Path, BinaryIO]]:
        """A new locked temporary file; it is gone at the end of the block unless it was renamed."""
        with _store_errors(self.folder):
            while True:
                name = self.folder / f".{os.getpid()}-{secrets.token_hex(6)}.tmp"
                stream = open(name, "xb")  # noqa: SIM115 (closed below)
                fcntl.flock(stream, fcntl.LOCK_EX)  # held until closed, by the kernel: a killed writer lets go
                if os.fstat(stream.fileno()).st_nlink:
                    break
                stream.close()  # swept between its creation and the lock
            try:
                with stream:
                    yield name, stream
            finally:
                name.unlink(missing_ok=True)

    def _sync_folder(self) -> None:
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _settle(stream: BinaryIO, name: Path, final: Path) -> None:
    stream.flush()
    os.fsync(stream.fileno())
    os.replace(name, final)


def _opened(source: Path | bytes) -> BinaryIO:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return io.BytesIO(source)
    try:
        return open(source, "rb")
    except FileNotFoundError:
        raise NotFound(f"model file {source} does not exist") from None
    except OSError as error:
        raise from_os_error(error, str(source)) from error


def _copy(source: BinaryIO, target: BinaryIO | None) -> tuple[str, int]:
    """Copy (or only read) to the end; returns (sha256 in hex, bytes)."""
    seen, size = hashlib.sha256(), 0
    read: Callable[[int], bytes] = source.read
    while chunk := read(_CHUNK):
        seen.update(chunk)
        size += len(chunk)
        if target is not None:
            target.write(chunk)
    return seen.hexdigest(), size


def _document(sidecar: Mapping[str, Any]) -> dict[str, Any]:
    try:
        text = json.dumps(dict(sidecar), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidValue("sidecar", str(error), "values that can be written as JSON") from None
    copy: dict[str, Any] = json.loads(text)
    return copy


@contextlib.contextmanager
def _store_errors(where: Path) -> Iterator[None]:
    """Turn an OSError into DiskFull or StoreError naming `where`."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, str(where)) from error
