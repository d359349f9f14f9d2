"""Secrets that are kept for cameras and outputs: a JSON file beside the database that only its owner may read.

Written whole and put in place at once; a setting refers to one as `secret:NAME`.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import threading
from pathlib import Path
from typing import Final

from edge.core.access import SECRETS_FILE
from edge.core.errors import InvalidValue, NotFound, StoreError
from edge.store.database import from_os_error

MAX_SECRETS: Final = 1000
MAX_BYTES: Final = 8192
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def check_secret(name: object, value: object) -> None:
    """Check a secret's name and value before they are kept. Raises InvalidValue for "name" or "value", which is never
    shown.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidValue("name", name, "1 to 100 of A-Z a-z 0-9 _ . - beginning with a letter or digit")
    good = isinstance(value, str) and value and "\0" not in value and value.isprintable()
    if not isinstance(value, str) or not good or len(value.encode("utf-8", "replace")) > MAX_BYTES:
        raise InvalidValue("value", "(not shown)", f"one line of 1 to {MAX_BYTES} bytes")


class Secrets:
    """The file in the data folder. Every method blocks; safe to use from many threads.

    Raises StoreError (damaged), DiskFull.
    """

    def __init__(self, data_dir: Path) -> None:
        self.path = Path(data_dir) / SECRETS_FILE
        self._one_at_a_time = threading.Lock()

    def names(self) -> list[str]:
        """Names of what is kept."""
        return sorted(self._read())

    def put(self, name: str, value: str) -> bool:
        """Keep or replace; whether it is new. Raises InvalidValue."""
        check_secret(name, value)
        with self._one_at_a_time:
            kept = self._read()
            new = name not in kept
            if new and len(kept) >= MAX_SECRETS:
                raise InvalidValue("name", name, f"one of the {MAX_SECRETS} secrets that are kept, which is the most")
            self._write(kept | {name: value})
        return new

    def delete(self, name: str) -> None:
        """Raises NotFound."""
        with self._one_at_a_time:
            kept = self._read()
            if name not in kept:
                raise NotFound(f"secret {name[:100]} does not exist")
            del kept[name]
            self._write(kept)

    def _read(self) -> dict[str, str]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(
                f"{self.path}: the secrets cannot be read: {getattr(error, 'strerror', 'no text')}"
            ) from None
        try:
            kept = json.loads(text)
        except ValueError:
            kept = None
        if not isinstance(kept, dict) or not all(isinstance(v, str) for v in kept.values()):
            raise StoreError(f"{self.path}: the secrets are damaged", "delete the file and set them again")
        return kept

    def _write(self, kept: dict[str, str]) -> None:
        try:
            # mkstemp makes a file that only its owner may read.
            handle, name = tempfile.mkstemp(prefix=".secrets-", dir=self.path.parent)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(kept, file, ensure_ascii=False, indent=1, sort_keys=True)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(name, self.path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise from_os_error(error, str(self.path)) from error
