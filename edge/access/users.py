"""Users: listed, added, changed and removed; and their passwords."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from edge.access.directory import LOOK_AGAIN_S, Directory
from edge.access.passwords import Passwords
from edge.access.records import Records
from edge.access.tries import LoginTries
from edge.core.access import Principal, Requester, camera_limit, checked_password, checked_role, tenant_limit, user_name
from edge.core.checks import known_keys
from edge.core.errors import Forbidden, InvalidValue


class Users:
    """A change is in force at once, for open streams too. Use from one event loop. Raises the store's errors beside
    what each method says."""

    def __init__(self, records: Records, directory: Directory, passwords: Passwords, tries: LoginTries) -> None:
        self._records, self._directory, self._passwords, self._tries = records, directory, passwords, tries

    async def all(self) -> list[dict[str, Any]]:
        """Every user, by name."""
        found = (await self._directory.everybody(LOOK_AGAIN_S)).users
        return [found[name].to_json() for name in sorted(found)]

    async def add(self, given: Mapping[str, Any], by: str) -> dict[str, Any]:
        """{"name", "role", "cameras"?, "tenants"?, "password"}. Raises InvalidValue, Conflict."""
        known_keys("", given, ("name", "role", "cameras", "tenants", "password"))
        name = user_name("name", given.get("name"))
        role = checked_role("role", given.get("role"))
        cameras = camera_limit("cameras", given.get("cameras"))
        tenants = tenant_limit("tenants", given.get("tenants"))
        made = await self._passwords.make(checked_password("password", given.get("password"), name))
        user = await asyncio.to_thread(self._records.add_user, name, role, cameras, made, True, by, tenants)
        await self._directory.changed()
        return user.to_json()

    async def change(self, name: str, given: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Any of {"role", "cameras", "tenants", "password", "disabled"}; a new password ends the user's sessions.
        Raises InvalidValue, NotFound, Conflict (the last admin)."""
        known_keys("", given, ("role", "cameras", "tenants", "password", "disabled"))
        changes: dict[str, Any] = {}
        if "role" in given:
            changes["role"] = checked_role("role", given["role"])
        if "cameras" in given:
            changes["cameras"] = camera_limit("cameras", given["cameras"])
        if "tenants" in given:
            changes["tenants"] = tenant_limit("tenants", given["tenants"])
        if "disabled" in given:
            if not isinstance(given["disabled"], bool):
                raise InvalidValue("disabled", given["disabled"], "true or false")
            changes["disabled"] = given["disabled"]
        before = await asyncio.to_thread(self._records.user, name)
        if "password" in given:
            changes["password"] = await self._passwords.make(checked_password("password", given["password"], name))
            changes["must_change"] = name != by
        if not changes:
            return before.to_json()
        user = await asyncio.to_thread(self._records.change_user, name, changes, by, "password" in changes)
        await self._directory.changed()
        return user.to_json()

    async def change_own_password(self, caller: Principal, current: object, new: object, address: str) -> None:
        """Ends the user's other sessions. Raises Forbidden (not a session), NotLoggedIn (the present password is
        wrong), TooManyTries, InvalidValue."""
        if caller.kind != "session":
            raise Forbidden("a password is changed in a session that was begun with it")
        if not isinstance(current, str):
            raise InvalidValue("current", "(not shown)", "a text")
        good = checked_password("new", new, caller.name)
        await self._tries.begin(caller.name, address)
        user = await asyncio.to_thread(self._records.user, caller.name)
        # A user that came in by a link has no password yet.
        if user.password is not None and not await self._passwords.check(user.password, current[:1024]):
            await self._tries.refuse(caller.name, address, "wrong present password")
            raise InvalidValue("current", "(not shown)", "the present password")
        self._tries.limit.succeeded(caller.name, address)
        changes = {"password": await self._passwords.make(good), "must_change": False}
        await asyncio.to_thread(self._records.change_user, caller.name, changes, Requester(caller.name, address))
        await asyncio.to_thread(self._records.end_other_sessions, caller.name, caller.id)
        await self._directory.changed()

    async def remove(self, name: str, by: str) -> None:
        """With sessions and tokens. Raises NotFound, Conflict (the last admin)."""
        await asyncio.to_thread(self._records.remove_user, name, by)
        await self._directory.changed()
