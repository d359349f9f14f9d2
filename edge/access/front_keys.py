"""The API tokens of now, handed to the process that takes inference requests: a file that only its owner may read.

The control process writes it whenever something changed; the front asks no other process, it looks once a second
whether the file is another one. Only hashes are in it.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edge.access.credentials import digest
from edge.core.access import Role, at_least, checked_role
from edge.core.clock import Clock
from edge.core.errors import Forbidden, MagpieError, NotLoggedIn
from edge.store.database import from_os_error

log = logging.getLogger(__name__)

FORMAT: Final = "magpie-front-keys/1"
_LOOK_S: Final = 1.0


@dataclass(frozen=True)
class FrontKey:
    """The rights of a token, known by its hash, and their end (None: for ever); `by`: its owner."""

    role: Role
    expires_utc_s: float | None = None
    by: str = ""


def write_keys(path: Path, keys: Mapping[str, FrontKey]) -> None:
    """Put the file in place, whole. Blocks. Raises StoreError, DiskFull."""
    tokens = {hashed: {"role": k.role, "expires_utc_s": k.expires_utc_s, "by": k.by} for hashed, k in keys.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".keys-", dir=path.parent)  # its owner's alone
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"format": FORMAT, "tokens": tokens}, file)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise from_os_error(error, str(path)) from error


class FrontKeys:
    """The file as the front sees it. With an unreadable file every request is refused."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._keys: Mapping[str, FrontKey] = {}
        self._seen: tuple[int, int, int] | None = None
        self._looked_at_s = -_LOOK_S

    def check(self, token: str | None, least: Role) -> str:
        """The owner of a token. Raises NotLoggedIn (no token, unknown, over) or Forbidden (its role is less)."""
        if self._clock.monotonic() - self._looked_at_s >= _LOOK_S:
            self._look()
        if token is None:
            raise NotLoggedIn("an API token is needed", "authorization: Bearer TOKEN; `magpie user token` makes one")
        key = self._keys.get(digest(token))
        if key is None or (key.expires_utc_s is not None and self._clock.utc() >= key.expires_utc_s):
            raise NotLoggedIn("the API token is not valid")
        if not at_least(key.role, least):
            raise Forbidden(f"the role {least} is needed; the token's is {key.role}")
        return key.by

    def _look(self) -> None:
        self._looked_at_s = self._clock.monotonic()
        try:
            found = self._path.stat()
            stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
            if stamp != self._seen:
                self._keys = _parsed(json.loads(self._path.read_text(encoding="utf-8")))
                self._seen = stamp
        except (OSError, ValueError, KeyError, TypeError, MagpieError) as error:
            if self._keys or self._seen is not None:
                log.error("%s cannot be read, all requests are refused: %s", self._path, error)
            self._keys, self._seen = {}, None


def _parsed(value: Any) -> dict[str, FrontKey]:
    if value["format"] != FORMAT:
        raise ValueError(f"format {value['format']}")
    return {
        str(hashed): FrontKey(checked_role("role", key["role"]), key["expires_utc_s"], str(key["by"]))
        for hashed, key in value["tokens"].items()
    }
