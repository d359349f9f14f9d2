"""Fetching a model file: continued where it broke off, from one address after another, checked before it counts.

The part received so far lies in `FILE.part`; the file gets its name only after its size and SHA-256 were found right
and it was fsynced. Addresses are content's, not a file's history: another mirror may continue the beginning of one,
because the hash decides at the end. If a file put together from several answers is wrong, it is fetched once more as a
whole from the same address before that address is called a liar.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

from edge.core.clock import Clock
from edge.core.errors import DiskFull, InvalidValue, StoreError, Unavailable
from edge.core.retry_pace import RetryPace
from edge.files import os_errors
from edge.models.catalogue import CatalogueEntry, check_address
from edge.models.folder import ModelsFolder, Notice, read_json, utc_text, write_json
from edge.models.sources import FailureKind, Source, SourceFailure, open_source

_CHUNK: Final = 1 << 16
#: An attempt that brought so many bytes does not count as a failed one.
_PROGRESS: Final = 1 << 16
#: Kept free beside the file itself.
_SPARE_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class FetchPatience:
    """How long to keep trying: `tries` per address without progress; pauses double from `first_pause_s` to
    `longest_pause_s`; `timeout_s` per wait on the network; less than `slowest` bytes/s over `over_s` is too slow."""

    tries: int = 4
    first_pause_s: float = 1.0
    longest_pause_s: float = 30.0
    timeout_s: float = 30.0
    slowest: float = 256.0
    over_s: float = 60.0


@dataclass(frozen=True)
class FetchProgress:
    """Bytes of a file that are here now."""

    name: str
    done: int
    total: int


@dataclass(frozen=True)
class Trouble:
    """An attempt failed. `again_in_s`: seconds until the next one at the same address; None: it is given up."""

    name: str
    address: str
    kind: FailureKind
    message: str
    again_in_s: float | None


@dataclass(frozen=True)
class StartedAnew:
    """A server gives the file from its beginning although it was asked for the rest: `lost` bytes come again."""

    name: str
    address: str
    lost: int


@dataclass(frozen=True)
class FetchWaiting:
    """Another process fetches the same file now."""

    name: str


Happening = FetchProgress | Trouble | StartedAnew | FetchWaiting


@dataclass(frozen=True)
class Fetched:
    """The file is here and whole. `how`: it was here before, it came, or it replaced something else of its name."""

    path: Path
    how: Literal["was_here", "came", "replaced"]
    address: str
    sha256: str
    bytes: int


class FetchFailed(Unavailable):
    """No address gave the file; `troubles` has the last one of each, in order."""

    def __init__(self, name: str, troubles: tuple[Trouble, ...]) -> None:
        words = "; ".join(f"{t.address}: {t.message}" for t in troubles)
        super().__init__(
            f"{name} could not be fetched: {words}", "pull again to go on; --from takes a mirror or folder"
        )
        self.name, self.troubles = name, troubles

    def __reduce__(self) -> tuple[type[FetchFailed], tuple[str, tuple[Trouble, ...]]]:
        return type(self), (self.name, self.troubles)


def mirror_address(base: str, file: str) -> str:
    """A file's address on a mirror: `base` is a folder or an address that the file's name is added to. Raises
    InvalidValue."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", base):
        return f"{check_address('--from', base).rstrip('/')}/{quote(file)}"
    folder = Path(base).expanduser()
    if not folder.is_dir():
        raise InvalidValue("--from", base, "a folder that exists, or an address with https://, http:// or file://")
    return (folder.absolute() / file).as_uri()


class Fetcher:
    """Brings files into a folder. `pause` waits so many seconds; `report` hears what happens as it happens."""

    def __init__(
        self,
        folder: ModelsFolder,
        clock: Clock,
        pause: Callable[[float], None],
        report: Callable[[Happening], None] = lambda _: None,
        patience: FetchPatience | None = None,
    ) -> None:
        self._folder, self._clock, self._pause, self._report = folder, clock, pause, report
        self._patience = patience or FetchPatience()

    def fetch(self, entry: CatalogueEntry, addresses: Sequence[str] = ()) -> Fetched:
        """The file under its name, from the first of `addresses` (none: the entry's own) that gives it.

        Raises:
            FetchFailed: none gave it; the part received stays for the next time.
            DiskFull, StoreError: it cannot be written here; then nothing stays behind.
        """
        if self._folder.verified(entry) == "here":
            return self._was_here(entry)
        with self._folder.locked(entry.file, lambda: self._report(FetchWaiting(entry.name))):
            state = self._folder.verified(entry)
            if state == "here":  # another process brought it while this one waited
                return self._was_here(entry)
            with _PartialFile(self._folder, entry) as part:
                address = self._gather(entry, addresses or entry.addresses, part)
                digest, size = part.digest(), part.size
                part.settle(self._notice(entry, address, digest, size, "fetched"))
        how: Literal["came", "replaced"] = "replaced" if state == "changed" else "came"
        return Fetched(self._folder.file(entry.file), how, address, digest, size)

    def _was_here(self, entry: CatalogueEntry) -> Fetched:
        path, notice = self._folder.file(entry.file), self._folder.notice(entry.file)
        if notice is None and os.access(self._folder.path, os.W_OK):
            with os_errors(path), path.open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
            notice = self._notice(entry, "", found, path.stat().st_size, "found")
            self._folder.write_notice(notice)
        return Fetched(path, "was_here", "", entry.sha256 if notice is None else notice.sha256, path.stat().st_size)

    def _notice(self, entry: CatalogueEntry, address: str, digest: str, size: int, origin: Any) -> Notice:
        at = utc_text(self._clock.utc())
        return Notice(entry.name, entry.file, address, digest, size, entry.licence, entry.attribution, origin, at)

    def _gather(self, entry: CatalogueEntry, addresses: Sequence[str], part: _PartialFile) -> str:
        """All bytes into the part, checked; the address that gave the last of them."""
        troubles: list[Trouble] = []
        for address in addresses:
            trouble = self._from(entry, address, part)
            if trouble is None:
                return address
            troubles.append(trouble)
        raise FetchFailed(entry.name, tuple(troubles))

    def _from(self, entry: CatalogueEntry, address: str, part: _PartialFile) -> Trouble | None:
        """Try one address until it gave the rest of the file (None), or is given up."""
        failed, wrong, patience = 0, 0, self._patience
        while True:
            before = part.size
            try:
                self._attempt(entry, address, part)
                return None
            except SourceFailure as failure:
                failed = 1 if part.size - before >= _PROGRESS else failed + 1
                wrong += failure.discard
                if failure.discard:
                    part.clear()
                pace = RetryPace(patience.first_pause_s, patience.longest_pause_s)
                wait = max(pace.pause_s(failed, 0.0), failure.wait_s)
                again = failure.again and failed < patience.tries and wrong < 2
                trouble = Trouble(entry.name, address, failure.kind, failure.message, wait if again else None)
                self._report(trouble)
                if not again:
                    return trouble
                self._pause(wait)

    def _attempt(self, entry: CatalogueEntry, address: str, part: _PartialFile) -> None:
        """One answer of one address. Raises SourceFailure."""
        asked = not (entry.exact and part.size == entry.bytes)
        if asked:  # else an earlier run ended after the last byte came, before the check
            validator = part.validator if part.address == address else ""
            with open_source(address, part.size, validator, self._patience.timeout_s) as source:
                _check_length(entry, source)
                if source.start == 0 and part.size:
                    self._report(StartedAnew(entry.name, address, part.size))
                    part.clear()
                part.begin(address, source.validator)
                self._read(entry, source, part)
        if not entry.fits(part.digest()):
            pieces = part.pieces
            raise SourceFailure(
                "wrong_content",
                f"the file there has the SHA-256 {part.digest()}, and {entry.sha256 or entry.sha256_prefix + '...'} "
                "is expected",
                again=pieces > 1 or not asked,  # put together from several answers: once more as a whole
                discard=True,
            )

    def _read(self, entry: CatalogueEntry, source: Source, part: _PartialFile) -> None:
        since_s, since_bytes = self._clock.monotonic(), part.size
        while chunk := source.read(_CHUNK):
            if part.size == 0:
                _check_beginning(chunk)
            if part.size + len(chunk) > entry.most_bytes:
                raise SourceFailure("too_long", f"it goes on after {entry.most_bytes} bytes", discard=True)
            part.write(chunk)
            self._report(FetchProgress(entry.name, part.size, source.total or entry.bytes))
            took_s = self._clock.monotonic() - since_s
            if took_s >= self._patience.over_s:
                if part.size - since_bytes < self._patience.slowest * took_s:
                    raise SourceFailure(
                        "too_slow", f"only {part.size - since_bytes} bytes in {took_s:.0f} s", again=True
                    )
                since_s, since_bytes = self._clock.monotonic(), part.size
        whole = entry.bytes if entry.exact else source.total or entry.least_bytes
        if part.size < whole:
            raise SourceFailure("broke_off", f"it broke off after {part.size} of {whole} bytes", again=True)


def _check_length(entry: CatalogueEntry, source: Source) -> None:
    if source.total is not None and not entry.least_bytes <= source.total <= entry.most_bytes:
        about = "" if entry.exact else "about "
        raise SourceFailure("wrong_length", f"its file has {source.total} bytes, and {about}{entry.bytes} are expected")


def _check_beginning(chunk: bytes) -> None:
    start = chunk[:512].lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head")):
        raise SourceFailure("web_page", "it answers with a web page (a login or error page?) instead of the file")
    if start.startswith(b"version https://git-lfs"):
        raise SourceFailure("wrong_content", "it gives a Git LFS pointer instead of the file")


class _PartialFile:
    """The part of a file that has come so far, with its address. Raises StoreError, DiskFull (then the part is
    gone)."""

    def __init__(self, folder: ModelsFolder, entry: CatalogueEntry) -> None:
        self._folder, self._entry = folder, entry
        self._path = folder.part(entry.file)
        self._note = self._path.with_name(f"{self._path.name}.json")
        self._stack = ExitStack()
        self._hash = hashlib.sha256()
        self.size, self.pieces, self.address, self.validator = 0, 0, "", ""

    def __enter__(self) -> _PartialFile:
        note = read_json(self._note)
        pieces, address, validator = note.get("pieces"), note.get("address"), note.get("validator")
        good = note.get("of") == self._of() and isinstance(pieces, int)
        with os_errors(self._path):
            if not good or not isinstance(address, str) or not isinstance(validator, str):
                self._path.unlink(missing_ok=True)
            # Unbuffered: a full disk is met where it is handled, and not when the file is closed.
            self._stream = self._stack.enter_context(self._path.open("a+b", buffering=0))
            self._stream.seek(0)
            while chunk := self._stream.read(1 << 20):
                self._hash.update(chunk)
                self.size += len(chunk)
        if self.size:
            self.pieces, self.address, self.validator = int(pieces or 0), str(address), str(validator)
        if self.size > self._entry.most_bytes:
            self.clear()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self._stack.close()
        if isinstance(error, StoreError) or self.size == 0:
            self._path.unlink(missing_ok=True)
            self._note.unlink(missing_ok=True)

    def _of(self) -> str:
        return self._entry.sha256 or self._entry.sha256_prefix

    def begin(self, address: str, validator: str) -> None:
        """Another answer follows. Raises DiskFull where the rest cannot find room."""
        self.pieces, self.address, self.validator = self.pieces + 1, address, validator
        with os_errors(self._path):
            status = os.statvfs(self._folder.path)
            free, needed = status.f_bavail * status.f_frsize, self._entry.bytes - self.size
        if free < needed + _SPARE_BYTES:
            raise DiskFull(
                f"{self._folder.path}: {needed / 1e6:.1f} MB are to come and {free / 1e6:.1f} MB are free",
                "free space where the models lie",
            )
        write_json(self._note, {"of": self._of(), "pieces": self.pieces, "address": address, "validator": validator})

    def write(self, chunk: bytes) -> None:
        """Add bytes at the end."""
        left = memoryview(chunk)
        with os_errors(self._path):
            while left:
                left = left[self._stream.write(left) :]
        self._hash.update(chunk)
        self.size += len(chunk)

    def clear(self) -> None:
        """Back to nothing."""
        with os_errors(self._path):
            self._stream.truncate(0)
        self._hash = hashlib.sha256()
        self.size, self.pieces, self.address, self.validator = 0, 0, "", ""

    def digest(self) -> str:
        """SHA-256 of what has come, 64 small hex digits."""
        return self._hash.hexdigest()

    def settle(self, notice: Notice) -> None:
        """It is whole and right: it gets the file's name."""
        with os_errors(self._path):
            os.fsync(self._stream.fileno())
        self._folder.settle(self._path, notice)
        self._note.unlink(missing_ok=True)
