"""API tokens: listed, made and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from edge.access.credentials import Credential, new_token
from edge.access.directory import LOOK_AGAIN_S, Directory, governs
from edge.access.records import Records, Token
from edge.core.access import Principal, camera_limit, checked_role, label, limit_json, narrowed
from edge.core.checks import known_keys
from edge.core.clock import Clock
from edge.core.errors import Forbidden, InvalidValue, NotFound

MAX_TOKEN_DAYS: Final = 3650.0


class Tokens:
    """Use from one event loop. Raises the store's errors beside what each method says."""

    def __init__(self, records: Records, clock: Clock, directory: Directory) -> None:
        self._records, self._clock, self._directory = records, clock, directory

    async def of(self, caller: Principal) -> list[dict[str, Any]]:
        """The caller's (an admin's: everybody's; to a token of less: itself), the newest first."""
        found = (await self._directory.everybody(LOOK_AGAIN_S)).tokens.values()
        mine = [k for k in found if governs(caller, k.owner) or _is(caller, k)]
        return [self._token_json(k) for k in sorted(mine, key=lambda k: (-k.created_utc_s, k.id))]

    def _token_json(self, token: Token) -> dict[str, Any]:
        used = self._directory.last_seen(Credential("token", token.hash))
        return token.to_json() | {"last_used_utc_s": token.last_used_utc_s if used is None else used}

    async def add(self, caller: Principal, given: Mapping[str, Any], by: str) -> dict[str, Any]:
        """{"name", "role"?, "cameras"?, "expires_days"?} for the caller, with no more rights than the caller has.
        The answer has the token itself, once. Raises InvalidValue, Forbidden, Conflict."""
        known_keys("", given, ("name", "role", "cameras", "expires_days"))
        name = label("name", given.get("name"))
        role = checked_role("role", given.get("role", caller.role))
        cameras = camera_limit("cameras", given.get("cameras", limit_json(caller.cameras)))
        expires = self._expires("expires_days", given.get("expires_days"))
        if caller.kind == "open":
            raise Forbidden("there are no log-ins here: web.access is off")
        if caller.kind == "token" and not caller.may("admin"):
            raise Forbidden("a token makes no tokens, unless it is an admin's")
        if narrowed(caller.role, caller.cameras, role, cameras) != (role, cameras):
            raise Forbidden("a token may not do more than its maker")
        token, made = new_token(caller.name, name, role, cameras, self._clock.utc(), expires)
        await asyncio.to_thread(self._records.add_token, made, by)
        await self._directory.changed()
        return made.to_json() | {"token": token}

    def _expires(self, path: str, days: object) -> float | None:
        if days is None:
            return None
        if isinstance(days, bool) or not isinstance(days, int | float) or not 0 < days <= MAX_TOKEN_DAYS:
            raise InvalidValue(path, days, f"null (never) or a number above 0 to {MAX_TOKEN_DAYS:g}")
        return self._clock.utc() + days * 86400.0

    async def remove(self, caller: Principal, token: str, by: str) -> None:
        """By its shown id: one's own, or for an admin anybody's; a token of less deletes itself only. Raises
        NotFound."""
        known = (await self._directory.everybody(LOOK_AGAIN_S)).tokens.values()
        found = next((k for k in known if k.id == token), None)
        if found is None or not (governs(caller, found.owner) or _is(caller, found)):
            raise NotFound("there is no such token")
        await asyncio.to_thread(self._records.remove_token, token, by)
        await self._directory.changed()


def _is(caller: Principal, token: Token) -> bool:
    return caller.kind == "token" and caller.id == token.id
