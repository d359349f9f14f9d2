"""Join codes: the fingerprint of the fleet's authority, by which a new box knows the fleet, and a secret, by which the
fleet knows the box. A code is used once and ends after a while; only hashes are kept.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any, Final, Literal

from edge.core.errors import InvalidValue
from edge.fleet.folder import FleetFolder

#: Of the fingerprint in a code: 32 hexadecimal digits are 128 bits, which nobody finds another authority for.
_MARK: Final = 32
_KEPT: Final = 200


@dataclass(frozen=True)
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

    def __str__(self) -> str:
        return f"{self.mark}.{self.secret}"

    __repr__ = object.__repr__  # a code is no text for logs


def new_code(folder: FleetFolder, fingerprint: str, now_utc_s: float, hours: float) -> JoinCode:
    """Make a code that can be used once within `hours`. Raises StoreError."""
    code = JoinCode(fingerprint[:_MARK], secrets.token_urlsafe(18))
    entries = [*_entries(folder), {"hash": _hash(code.secret), "until_utc_s": now_utc_s + hours * 3600, "used": False}]
    folder.write_json("codes.json", entries[-_KEPT:])
    return code


def use_code(folder: FleetFolder, secret: str, now_utc_s: float) -> Literal["good", "bad_code", "used_code", "old_code"]:
    """Try a code's secret; one that is good is written down as used before this returns. Raises StoreError."""
    entries, wanted = _entries(folder), _hash(secret)
    entry = next((e for e in entries if hmac.compare_digest(str(e["hash"]), wanted)), None)
    if entry is None:
        return "bad_code"
    if entry["used"]:
        return "used_code"
    if now_utc_s > entry["until_utc_s"]:
        return "old_code"
    entry["used"] = True
    folder.write_json("codes.json", entries)
    return "good"


def _entries(folder: FleetFolder) -> list[dict[str, Any]]:
    return list(folder.read_json("codes.json") or ())


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
