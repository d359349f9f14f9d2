"""Adding a model file of one's own, or one that was carried to a box without a network: whole or not at all."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from edge.core.clock import Clock
from edge.core.errors import Conflict, DiskFull, InvalidValue, NotFound
from edge.core.licences import check_licence, checked_licence
from edge.files import os_errors
from edge.models.catalogue import Catalogue
from edge.models.folder import Accepted, ModelsFolder, Notice, file_sha256, utc_text
from edge.models.opening import check_opens

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")
_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class Addition:
    """An addition: a file, its name, its licence (an SPDX expression), whose it is, and the licence that the
    operator accepts though Magpie refuses it ("": none). `by`: the account that asked. `replace`: another content of
    the same name goes. `memory_limit_bytes`: onnxruntime may take so much to open it."""

    source: Path
    name: str
    licence: str
    by: str
    attribution: str = ""
    accept: str = ""
    replace: bool = False
    memory_limit_bytes: int = 2 * 2**30


@dataclass(frozen=True)
class Added:
    """The file in the folder. `how`: it was there with this content, it is new, or it took another content's place."""

    notice: Notice
    path: Path
    how: Literal["was_here", "came", "replaced"]


def add_model(folder: ModelsFolder, catalogue: Catalogue, clock: Clock, wanted: Addition) -> Added:
    """Copy a file into the folder. A content that the catalogue knows gets the catalogue's file name, licence and
    attribution; any other is `NAME.onnx`.

    Raises:
        InvalidValue: the name or licence is none, or the licence is not the one of this known content.
        LicenceRefused: the licence needs to be accepted.
        NotFound, WeightsError: there is no such file, or onnxruntime cannot open it (with its reason).
        MemoryLimitExceeded: to open it takes more memory than it may.
        Conflict: another content has the name.
        DiskFull, StoreError: it cannot be written; then nothing stays behind.
    """
    if not _NAME.fullmatch(wanted.name):
        raise InvalidValue("--name", wanted.name, "small letters, digits, _ . and -, at most 63")
    licence = checked_licence("--licence", wanted.licence)
    if not wanted.source.is_file():
        raise NotFound(f"{wanted.source}: there is no such file")
    digest = file_sha256(wanted.source)
    file, attribution = f"{wanted.name}.onnx", wanted.attribution
    known = catalogue.of_content(digest)
    if known is not None:
        if known.licence.lower() != licence.lower():
            raise InvalidValue("--licence", licence, f"{known.licence}: the file is {known.name} of the catalogue")
        file, attribution, licence = known.file, attribution or known.attribution, known.licence
    name = wanted.name if known is None else known.name
    taken = next((e for e in catalogue.entries if known is None and (e.name == name or e.file == file)), None)
    if taken is not None:
        raise Conflict(f"{name} is a name of the catalogue, and this file is another one", "give another --name")
    check_licence(
        name, licence, (wanted.accept, *folder.accepted_for(name)) if wanted.accept else folder.accepted_for(name)
    )
    at = utc_text(clock.utc())
    size = wanted.source.stat().st_size
    origin = wanted.source.absolute().as_uri()
    notice = Notice(name, file, origin, digest, size, licence, attribution, "added", at)
    final = folder.file(file)
    with folder.locked(file):
        there = file_sha256(final) if final.is_file() else ""
        if there and there != digest and not wanted.replace:
            raise Conflict(f"{final} is there with another content", "--replace puts this one in its place")
        how: Literal["was_here", "came", "replaced"] = "replaced" if there else "came"
        if there == digest:
            if file.endswith(".onnx"):
                check_opens(final, wanted.source, wanted.memory_limit_bytes)
            folder.write_notice(notice)
            how = "was_here"
        else:
            _copy(folder, wanted, digest, notice)
    if wanted.accept:
        folder.accept(Accepted(wanted.accept, name, wanted.by, at))
    return Added(notice, final, how)


def _copy(folder: ModelsFolder, wanted: Addition, digest: str, notice: Notice) -> None:
    """Whole or not at all; the copy is checked, so that files beside the source do not help it."""
    source = wanted.source
    temporary = folder.path / f".{notice.file}.{os.getpid()}-{secrets.token_hex(4)}.adding"
    found = hashlib.sha256()
    try:
        with os_errors(folder.path):
            status = os.statvfs(folder.path)
            if status.f_bavail * status.f_frsize < notice.bytes:
                raise DiskFull(f"{folder.path}: no room for {notice.bytes / 1e6:.1f} MB", "free space")
            with source.open("rb") as stream, temporary.open("xb") as target:
                while chunk := stream.read(_CHUNK):
                    found.update(chunk)
                    target.write(chunk)
                target.flush()
                os.fsync(target.fileno())
        if found.hexdigest() != digest:
            raise Conflict(f"{source} changed while it was read", "add it again when nothing writes it")
        if notice.file.endswith(".onnx"):
            check_opens(temporary, source, wanted.memory_limit_bytes)
        folder.settle(temporary, notice)
    finally:
        temporary.unlink(missing_ok=True)
