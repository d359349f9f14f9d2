"""Access of people and programs: logins, sessions, users, tokens and one-time links, over the records in the
database."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from edge.access.credentials import LINK_S, make_link
from edge.access.directory import Directory
from edge.access.logins import Logins
from edge.access.passwords import Passwords
from edge.access.records import Records
from edge.access.sessions import Sessions
from edge.access.tokens import Tokens
from edge.access.tries import LoginTries
from edge.access.users import Users
from edge.core.clock import Clock
from edge.core.errors import MagpieError
from edge.store.database import Database

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rules:
    """How long logins last: a session ends `session_s` after the login, or when not used for `idle_s`."""

    session_s: float = 12 * 3600.0
    idle_s: float = 4 * 3600.0


class Access:
    """The parts, over one database. Use from one event loop. Raises the store's errors beside what each method says."""

    def __init__(
        self, database: Database, clock: Clock, rules: Rules | None = None, passwords: Passwords | None = None
    ) -> None:
        rules, passwords = rules or Rules(), passwords or Passwords()
        self.records = Records(database, clock)
        tries = LoginTries(self.records, clock)
        self.directory = Directory(self.records, clock, rules.idle_s, tries.record_rest)
        self.logins = Logins(self.records, clock, self.directory, passwords, tries, rules.session_s)
        self.sessions = Sessions(self.records, clock, self.directory)
        self.users = Users(self.records, self.directory, passwords, tries)
        self.tokens = Tokens(self.records, clock, self.directory)

    async def setup_link(self, by: str = "appliance", seconds: float = LINK_S) -> str:
        """A new one-time set-up link's secret; the one before is over. Raises Conflict if there is an admin."""
        return await asyncio.to_thread(make_link, self.records, "setup", None, by, seconds)

    async def login_link_for(self, name: str, by: str = "appliance", seconds: float = LINK_S) -> str:
        """A one-time link's secret that logs the user in. Raises NotFound."""
        return await asyncio.to_thread(make_link, self.records, "login", name, by, seconds)

    async def audit(self, subject: str, action: str, by: str, value: dict[str, Any] | None = None) -> None:
        """Record a change that is kept elsewhere. A failure is logged: the change was made."""
        try:
            await asyncio.to_thread(self.records.audit, subject, action, by, value)
        except MagpieError as error:
            log.error("%s %s by %s cannot be recorded: %s", subject[:100], action, by, error)
