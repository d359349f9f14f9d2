"""Real access over a real database, for the web tests: users of every role, their tokens and their sessions."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import httpx
import sqlalchemy as sa
from appliance_double import DictAppliance
from fastapi import FastAPI

from edge.access.access import Access, Rules
from edge.access.credentials import new_token
from edge.access.passwords import HashCost, Passwords
from edge.core.access import Role
from edge.core.clock import ManualClock
from edge.store.database import Database
from edge.store.store import default_url
from web.app import create_app
from web.auth import routes_of
from web.route_table import row_of

PASSWORD = "7 herons by the weir"
#: As quick as Argon2 can be: what it costs is not what these tests are about.
CHEAP = HashCost(passes=1, memory_kib=8, lanes=1)


class Accounts:
    """Access with users made for the test; the clock is moved by hand."""

    def __init__(self, folder: Path, template: Path | None = None, rules: Rules | None = None) -> None:
        if template is not None:
            shutil.copy(template, folder / "magpie.db")
        self.database = Database(default_url(folder))
        # Nothing here outlives a power cut, and waiting for the disk would be most of the tests' time.
        sa.event.listen(self.database.engine, "connect", lambda c, _: c.execute("PRAGMA synchronous = OFF").close())
        if template is None:
            from edge.store import database as db

            db.upgrade(self.database)
        self.clock = ManualClock()
        self.passwords = Passwords(CHEAP)
        self.hash = self.passwords.hash(PASSWORD)
        self.access = Access(self.database, self.clock, rules, self.passwords)

    def user(self, name: str, role: Role, cameras: set[str] | None = None, tenants: set[str] | None = None) -> str:
        """A user with PASSWORD."""
        limit = None if cameras is None else frozenset(cameras)
        mine = None if tenants is None else frozenset(tenants)
        self.access.records.add_user(name, role, limit, self.hash, False, "test", mine)
        return name

    def token(self, owner: str, role: Role = "admin", cameras: set[str] | None = None, valid_s: float = 1e9) -> str:
        """A token of the user; it may what both may."""
        limit = None if cameras is None else frozenset(cameras)
        now = self.clock.utc()
        token, kept = new_token(owner, "test", role, limit, now, now + valid_s)
        self.access.records.add_token(kept, "test")
        self.clock.advance(0.3)  # past the time in which an unknown token is not looked for again
        return token

    def person(self, role: Role, cameras: set[str] | None = None, name: str = "") -> dict[str, str]:
        """The header of a token of a new user of that role."""
        name = name or f"{role}-{'all' if cameras is None else '-'.join(sorted(cameras)) or 'none'}"
        return {"authorization": f"Bearer {self.token(self.user(name, role, cameras), role, cameras)}"}


def browser(app: FastAPI, address: str = "192.0.2.7") -> httpx.AsyncClient:
    """A client that keeps cookies, as a browser does."""
    transport = httpx.ASGITransport(app, client=(address, 1234))
    return httpx.AsyncClient(transport=transport, base_url="http://box/api/v1")


async def log_in(client: httpx.AsyncClient, name: str, password: str = PASSWORD) -> httpx.Response:
    """Log the client in; it sends the CSRF token from then on."""
    answer = await client.post("/login", json={"name": name, "password": password})
    if answer.status_code == 200:
        client.headers["x-csrf-token"] = answer.json()["csrf"]
    return answer


def code(response: httpx.Response) -> str:
    """The code of an error."""
    return str(response.json()["error"]["code"])


def every_route() -> list[tuple[str, str]]:
    """Method ("WS": a WebSocket, "MOUNT": a folder of files) and path of every route."""
    app = create_app(DictAppliance())
    return [(methods[0], path) for methods, path, _ in routes_of(app, row_of)]


def filled(template: str) -> str:
    """A route's path with values in place of its parameters."""
    known = {
        "camera": "north",
        "version": "north-first-1",
        "number": "3",
        "window": "3",
        "frame": "1",
        "kind": "camera",
        "tenant": "north-side",
    }
    return re.sub(r"\{([^}:]*)(:[^}]*)?\}", lambda m: known.get(m[1], "1"), template)
