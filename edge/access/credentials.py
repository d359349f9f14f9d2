"""Proofs of identity: sessions' secrets, API tokens, one-time links; each kept by its hash alone."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from edge.access.records import Records, Token
from edge.core.access import Role

TOKEN_MARK: Final = "mgp_"
_SHOWN: Final = len(TOKEN_MARK) + 6
LINK_S: Final = 24 * 3600.0


def digest(secret: str) -> str:
    """The kept form of a token, session or link: they are random, so one SHA-256 is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True)
class Credential:
    """The proof that a request brings: a session's or a token's, by its hash."""

    kind: str
    hash: str

    @classmethod
    def session(cls, secret: str) -> Credential:
        """Of a session's secret."""
        return cls("session", digest(secret))

    @classmethod
    def token(cls, secret: str) -> Credential:
        """Of an API token."""
        return cls("token", digest(secret))


def csrf_token(secret: str) -> str:
    """The CSRF token of a session: of no use without its cookie, and not computable from it alone."""
    return hmac.new(secret.encode("utf-8", "surrogateescape"), b"magpie csrf", hashlib.sha256).hexdigest()


def csrf_fits(secret: str, given: str) -> bool:
    """Whether the token is that of the session, compared in constant time."""
    return hmac.compare_digest(csrf_token(secret).encode(), given.encode("utf-8", "surrogateescape"))


def make_link(records: Records, kind: str, owner: str | None, by: str, seconds: float = LINK_S) -> str:
    """A one-time link's secret, kept by its hash. Blocks. Raises Conflict, NotFound."""
    secret = secrets.token_urlsafe(24)
    records.add_link(digest(secret), kind, owner, seconds, by)
    return secret


def new_token(
    owner: str, name: str, role: Role, cameras: frozenset[str] | None, now: float, expires: float | None
) -> tuple[str, Token]:
    """A token, and the values kept of it."""
    secret = TOKEN_MARK + secrets.token_urlsafe(32)
    kept = Token(
        secrets.token_hex(8), owner, name, role, cameras, secret[:_SHOWN], digest(secret), now, expires, None
    )  # fmt: skip
    return secret, kept
