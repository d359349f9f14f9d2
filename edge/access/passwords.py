"""Passwords as Argon2id hashes. One at a time is computed: logins must not take the cores from inference."""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from argon2.low_level import ARGON2_VERSION

from edge.core.errors import TooManyTries

_MOST_WAITING = 16


@dataclass(frozen=True)
class HashCost:
    """The cost of one hash: `memory_kib` KiB of memory, passed over `passes` times by `lanes` threads."""

    passes: int = 3
    memory_kib: int = 64 * 1024
    lanes: int = 1


class Passwords:
    """Makes and checks hashes, off the event loop."""

    def __init__(self, cost: HashCost | None = None) -> None:
        cost = cost or HashCost()
        self._hasher = PasswordHasher(cost.passes, cost.memory_kib, cost.lanes)
        self._turn = asyncio.Lock()
        self._waiting = 0
        # Checked for a name that does not exist, so that it takes as long as one that does.
        self._of_no_user = _fits_nothing(cost)

    def hash(self, password: str) -> str:
        """The hash to keep. Takes a tenth of a second or so: for a thread."""
        return self._hasher.hash(password)

    def fits(self, kept: str | None, password: str) -> bool:
        """Whether the password is that of the hash `kept` (None: of no user, which takes as long). For a thread."""
        try:
            good = self._hasher.verify(self._of_no_user if kept is None else kept, password)
        except (Argon2Error, InvalidHashError):
            return False
        return bool(good) and kept is not None

    def outdated(self, kept: str) -> bool:
        """Whether the hash was made at another cost."""
        return self._hasher.check_needs_rehash(kept)

    async def check(self, kept: str | None, password: str) -> bool:
        """`fits`, when its turn comes. Raises TooManyTries if too many wait."""
        async with _Place(self):
            return await asyncio.to_thread(self.fits, kept, password)

    async def make(self, password: str) -> str:
        """`hash`, when its turn comes. Raises TooManyTries if too many wait."""
        async with _Place(self):
            return await asyncio.to_thread(self.hash, password)


def _fits_nothing(cost: HashCost) -> str:
    """A hash that no password has been found for: random octets in place of what a password would give."""
    salt, digest = (b64encode(os.urandom(size)).decode().rstrip("=") for size in (16, 32))
    return f"$argon2id$v={ARGON2_VERSION}$m={cost.memory_kib},t={cost.passes},p={cost.lanes}${salt}${digest}"


class _Place:
    """One place in the queue."""

    def __init__(self, of: Passwords) -> None:
        self._of = of

    async def __aenter__(self) -> None:
        if self._of._waiting >= _MOST_WAITING:
            raise TooManyTries("too many logins at once", 2.0)
        self._of._waiting += 1
        try:
            await self._of._turn.acquire()
        except BaseException:
            self._of._waiting -= 1
            raise

    async def __aexit__(self, *_: object) -> None:
        self._of._turn.release()
        self._of._waiting -= 1
