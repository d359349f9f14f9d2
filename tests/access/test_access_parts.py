"""The parts of access, each alone over a real database: the directory in memory, refused tries, tokens and sessions."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.access.credentials import Credential, csrf_fits, csrf_token, digest, new_token
from edge.access.directory import Directory, governs
from edge.access.records import Everybody, Records, Session
from edge.access.sessions import Sessions
from edge.access.tokens import Tokens
from edge.access.tries import LoginTries
from edge.core.access import Principal, Requester, Role
from edge.core.clock import ManualClock
from edge.core.errors import Forbidden, InvalidValue, NotFound, TooManyTries, Unavailable
from edge.store.database import Database
from edge.store.store import default_url

BOSS = Principal("boss", "admin")
IDLE_S = 3600.0


class CountedRecords(Records):
    """Counts readings; fails them while `away`."""

    away = False
    readings = 0

    def everybody(self) -> Everybody:
        self.readings += 1
        if self.away:
            raise Unavailable("the database does not answer")
        return super().everybody()


class AccessBench:
    """Records with a user or two, and a directory over them."""

    def __init__(self, folder: Path) -> None:
        self.database = Database(default_url(folder))
        self.clock = ManualClock()
        self.records = CountedRecords(self.database, self.clock)
        self.rests = 0
        self.directory = Directory(self.records, self.clock, IDLE_S, self._rest)
        self.add("boss", "admin")

    async def _rest(self) -> None:
        self.rests += 1

    def add(self, name: str, role: Role = "viewer") -> None:
        self.records.add_user(name, role, None, None, False, "test")

    def token(self, owner: str, role: Role = "viewer") -> Credential:
        secret, kept = new_token(owner, "test", role, None, self.clock.utc(), None)
        self.records.add_token(kept, "test")
        return Credential.token(secret)

    def session(self, owner: str, secret: str = "s3cret") -> Credential:
        now = self.clock.utc()
        made = Session(digest(secret)[:16], digest(secret), owner, "192.0.2.7", "test", now, now, now + 1e6)
        self.records.add_session(made, "test", "logged in")
        return Credential.session(secret)


@pytest.fixture
def bench(sqlite_template: Path, tmp_path: Path) -> Iterator[AccessBench]:
    shutil.copy(sqlite_template, tmp_path / "magpie.db")
    made = AccessBench(tmp_path)
    yield made
    made.database.close()


# -- credentials


def test_a_csrf_token_fits_its_session_alone() -> None:
    assert csrf_fits("one", csrf_token("one"))
    assert not csrf_fits("one", csrf_token("two"))
    assert not csrf_fits("one", "")
    assert csrf_token("one") != digest("one")


# -- directory


async def test_the_database_is_read_every_two_seconds(bench: AccessBench) -> None:
    token = bench.token("boss")
    for _ in range(5):
        found = await bench.directory.who(token)
        assert found is not None
    assert (found.name, found.kind, bench.records.readings) == ("boss", "token", 1)
    bench.clock.advance(2.1)
    await bench.directory.who(token)
    assert bench.records.readings == 2


async def test_an_unknown_token_is_looked_for_four_times_a_second_at_most(bench: AccessBench) -> None:
    stranger = Credential.token("mgp_x")
    for _ in range(5):
        assert await bench.directory.who(stranger) is None
    assert bench.records.readings == 1
    bench.clock.advance(0.3)
    assert await bench.directory.who(stranger) is None
    assert bench.records.readings == 2


async def test_a_session_ends_when_it_is_not_used(bench: AccessBench) -> None:
    session = bench.session("boss")
    for _ in range(3):
        bench.clock.advance(IDLE_S - 1)
        found = await bench.directory.who(session)
        assert found is not None, "its use counts"
    assert bench.directory.last_seen(session) == bench.clock.utc()
    bench.clock.advance(IDLE_S)
    assert await bench.directory.who(session) is None


async def test_a_change_is_read_at_once_and_reported(bench: AccessBench) -> None:
    notified: list[str] = []
    bench.directory.when_changed(lambda: notified.append("changed"))
    await bench.directory.everybody()
    bench.add("ann")
    assert set((await bench.directory.everybody()).users) == {"boss"}
    await bench.directory.changed()
    assert set((await bench.directory.everybody()).users) == {"boss", "ann"}
    assert notified == ["changed"]


async def test_a_database_that_is_away_locks_no_user_out(bench: AccessBench, caplog: pytest.LogCaptureFixture) -> None:
    token = bench.token("boss")
    bench.records.away = True
    with pytest.raises(Unavailable):
        await bench.directory.who(token)
    bench.records.away = False
    await bench.directory.who(token)
    bench.records.away = True
    for _ in range(3):
        bench.clock.advance(2.1)
        await bench.directory.changed()
        assert await bench.directory.who(token) is not None
    assert caplog.text.count("users cannot be read") == 1


async def test_last_uses_are_written_once_a_minute(bench: AccessBench) -> None:
    token = bench.token("boss")
    await bench.directory.who(token)
    used = bench.clock.utc()
    bench.clock.advance(61)
    found = await bench.directory.everybody()
    assert found.tokens[token.hash].last_used_utc_s == used
    assert (bench.directory.last_seen(token), bench.rests) == (None, 1)


@pytest.mark.parametrize(
    ("caller", "owner", "may"),
    [
        (Principal("ann", "viewer", None, "session"), "ann", True),
        (Principal("ann", "viewer", None, "token"), "ann", False),
        (Principal("ann", "operator", None, "session"), "bob", False),
        (Principal("boss", "admin", None, "token"), "bob", True),
        (Principal("boss", "admin", frozenset({"north"}), "session"), "bob", False),
    ],
)
def test_an_admin_of_every_camera_governs_all(caller: Principal, owner: str, may: bool) -> None:
    assert governs(caller, owner) is may


# -- refused tries


def refusals(bench: AccessBench) -> list[tuple[str, dict[str, object]]]:
    with bench.database.read() as c:
        rows = c.exec_driver_sql("SELECT changed_by, value FROM audit WHERE subject = 'login' ORDER BY id").all()
    return [(by, json.loads(value)) for by, value in rows]


async def test_a_try_too_many_waits_and_is_recorded(bench: AccessBench) -> None:
    tries = LoginTries(bench.records, bench.clock)
    for _ in range(5):
        await tries.begin("ann", "192.0.2.7")
    with pytest.raises(TooManyTries):
        await tries.begin("ann", "192.0.2.7")
    assert refusals(bench) == [("ann", {"reason": "too many tries", "retry_after_s": 300})]
    await tries.begin("ann", "192.0.2.8")


async def test_of_a_flood_twenty_a_minute_are_recorded_and_the_rest_counted(bench: AccessBench) -> None:
    tries = LoginTries(bench.records, bench.clock)
    for number in range(25):
        await tries.refuse(f"user{number}", "192.0.2.7", "wrong name or password")
    assert len(refusals(bench)) == 20
    await tries.record_rest()
    await tries.record_rest()
    assert refusals(bench)[20:] == [("(several)", {"reason": "more refused logins", "count": 5})]
    bench.clock.advance(60)
    await tries.refuse("ann\n", "192.0.2.7", "wrong name or password")
    assert refusals(bench)[21:] == [("ann?", {"reason": "wrong name or password"})]


# -- tokens and sessions


async def test_a_token_may_not_do_more_than_who_makes_it(bench: AccessBench) -> None:
    tokens = Tokens(bench.records, bench.clock, bench.directory)
    bench.add("ann")
    ann = Principal("ann", "viewer", None, "session")
    with pytest.raises(Forbidden):
        await tokens.add(ann, {"name": "home", "role": "admin"}, "ann")
    with pytest.raises(InvalidValue):
        await tokens.add(ann, {"name": "home", "expires_days": 0}, "ann")
    made = await tokens.add(ann, {"name": "home"}, Requester("ann", "192.0.2.7"))
    assert (await bench.directory.who(Credential.token(made["token"]))) is not None
    assert [t["id"] for t in await tokens.of(ann)] == [made["id"]]
    assert all("token" not in t for t in await tokens.of(BOSS))


async def test_a_token_is_deleted_by_its_owner_or_an_admin(bench: AccessBench) -> None:
    tokens = Tokens(bench.records, bench.clock, bench.directory)
    bench.add("ann")
    bench.add("bob")
    credential = bench.token("ann")
    (shown,) = await tokens.of(BOSS)
    with pytest.raises(NotFound):
        await tokens.remove(Principal("bob", "viewer", None, "session"), shown["id"], "bob")
    await tokens.remove(Principal("ann", "viewer", None, "session"), shown["id"], "ann")
    assert await bench.directory.who(credential) is None
    with pytest.raises(NotFound):
        await tokens.remove(BOSS, shown["id"], "boss")


async def test_sessions_are_ones_own_and_an_admin_ends_anybodys(bench: AccessBench) -> None:
    sessions = Sessions(bench.records, bench.clock, bench.directory)
    bench.add("ann")
    bench.session("boss", "one")
    credential = bench.session("ann", "two")
    ann = await bench.directory.who(credential)
    assert ann is not None
    assert [(s["user"], s["current"]) for s in await sessions.of(ann)] == [("ann", True)]
    assert len(await sessions.of(BOSS)) == 2
    with pytest.raises(Forbidden):
        await sessions.logout(Principal("ann", "viewer", None, "token"), "ann")
    await sessions.end(BOSS, ann.id, "boss")
    assert await bench.directory.who(credential) is None
