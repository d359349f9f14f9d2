"""Join codes: the fingerprint of the fleet's authority, by which a new box knows the fleet, and a secret, by which the
fleet knows the box. A code is used once and ends after a while; only hashes are kept, a file for each code.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final, Literal

from edge.core.errors import InvalidValue, StoreError
from edge.files import sync_folder
from edge.fleet.folder import FleetFolder

#: Of the fingerprint in a code: 32 hexadecimal digits are 128 bits, for which no other authority is found.
_MARK: Final = 32


@dataclass(frozen=True, repr=False)
class JoinCode:
    """A join code: FINGERPRINT.SECRET."""

    mark: str
    secret: str

    @staticmethod
    def parse(text: str) -> JoinCode:
        """Raises InvalidValue, which does not repeat the code."""
        mark, _, secret = text.strip().partition(".")
        if len(mark) != _MARK or not set(mark) <= set("0123456789abcdef") or not secret:
            raise InvalidValue("code", "(not shown)", "a code as `magpie fleet invite` printed it")
        return JoinCode(mark, secret)

    def proves(self, fingerprint: str) -> bool:
        """Whether the code is of the authority with this fingerprint."""
        return hmac.compare_digest(self.mark, fingerprint[:_MARK])

    def reveal(self) -> str:
        """The code as it is typed."""
        return f"{self.mark}.{self.secret}"


def new_code(folder: FleetFolder, fingerprint: str, now_utc_s: float, hours: float) -> JoinCode:
    """Make a code that can be used once within `hours`. Raises StoreError."""
    code = JoinCode(fingerprint[:_MARK], secrets.token_urlsafe(18))
    folder.write_json(f"codes/{_hash(code.secret)}.json", {"until_utc_s": now_utc_s + hours * 3600})
    return code


CodeTried = Literal["good", "bad_code", "used_code", "old_code"]


def use_code(folder: FleetFolder, secret: str, now_utc_s: float) -> CodeTried:
    """Try a code's secret; one that is good is written down as used before this returns. Raises StoreError."""
    hashed = _hash(secret)
    open_code, used = (folder.path / "codes" / f"{hashed}.{suffix}" for suffix in ("json", "used"))
    if used.is_file():
        return "used_code"
    kept = folder.read_json(f"codes/{hashed}.json")
    if kept is None:
        return "bad_code"
    if now_utc_s > kept["until_utc_s"]:
        return "old_code"
    try:
        open_code.replace(used)
        sync_folder(used.parent)
    except FileNotFoundError:  # used by another request at this instant
        return "used_code"
    except OSError as error:
        raise StoreError(f"{used}: cannot be written: {error.strerror}") from None
    return "good"


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
