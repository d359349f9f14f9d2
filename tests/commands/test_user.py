"""`magpie user`, as it is typed."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from pathlib import Path

import pytest

from edge import cli
from edge.access.credentials import digest
from edge.access.records import Records
from edge.core.clock import SystemClock
from edge.store.database import Database
from edge.store.store import default_url

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def user(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("PW", "7 herons by the weir")

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["user", words[0], *words[1:], "--data-dir", str(tmp_path)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(Database(default_url(tmp_path)), SystemClock())


def test_users_from_the_first_to_the_last(user: Run, records: Records) -> None:
    code, said, _ = user("list")
    assert (code, "setup-link" in said) == (0, True)
    assert user("add", "Ann", "--role", "admin", "--password-from", "env:PW")[0] == 0
    assert user("add", "bob", "--password-from", "env:PW", "--cameras", "north,south")[1] == (
        "bob: viewer, cameras north, south\n"
    )
    assert user("role", "bob", "operator")[0] == 0
    assert user("cameras", "bob", "north")[1] == "bob: cameras north\n"
    assert user("tenants", "bob", "gate,yard")[1] == "bob: tenants gate, yard\n"
    assert "cameras north, tenants gate, yard" in user("list")[1]
    assert user("tenants", "bob", "all")[1] == "bob: all tenants\n"
    assert user("disable", "bob")[0] == 0
    lines = user("list")[1].splitlines()
    assert [line.split()[:2] for line in lines] == [["ann", "admin"], ["bob", "operator"]]
    assert lines[1].endswith("DISABLED")
    assert user("enable", "bob")[0] == 0
    assert user("remove", "bob")[0] == 0
    found = records.everybody()
    assert set(found.users) == {"ann"}
    with records.database.read() as c:
        rows = c.exec_driver_sql("SELECT DISTINCT changed_by, address FROM audit WHERE subject = 'user/bob'").all()
    assert rows == [(f"command line ({getpass.getuser()})", None)]
    hashed = found.users["ann"].password
    assert hashed is not None
    assert hashed.startswith("$argon2id$")


@pytest.mark.parametrize("action", [("disable", "ann"), ("remove", "ann"), ("role", "ann", "viewer")])
def test_the_last_admin_stays(user: Run, action: tuple[str, ...]) -> None:
    user("add", "ann", "--role", "admin", "--password-from", "env:PW")
    code, _, said = user(*action)
    assert code == 1
    assert "ann is the last admin" in said


def test_a_token_is_printed_alone_and_kept_hashed(user: Run, records: Records) -> None:
    user("add", "ann", "--role", "operator", "--password-from", "env:PW")
    code, token, _ = user("token", "ann", "--role", "viewer", "--days", "1")
    assert code == 0
    assert token.startswith("mgp_")
    kept = records.everybody().tokens[digest(token.strip())]
    assert (kept.owner, kept.role) == ("ann", "viewer")
    code, _, said = user("token", "ann", "--role", "admin")
    assert code == 1
    assert "no more than ann may" in said
    assert user("token", "ann", "--days", "-1")[0] == 1


def test_links(user: Run, records: Records) -> None:
    link = user("setup-link", "--page", "https://box.example/")[1].strip()
    assert link.startswith("https://box.example/#/setup?token=")
    records.first_admin(digest(link.partition("token=")[2]), "ann", "hash", "test")
    code, _, said = user("setup-link")
    assert code == 1
    assert "has an admin already" in said
    link = user("login-link", "ann")[1].strip()
    assert records.use_login_link(digest(link.partition("link=")[2])).name == "ann"


@pytest.mark.parametrize(
    ("web", "page"),
    [("{host: 192.0.2.7, port: 9000}", "http://192.0.2.7:9000/"),
     ("{host: 0.0.0.0, port: 80}", "http://127.0.0.1:80/"),
     ("{host: '::1'}", "http://[::1]:8080/"),
     ("{host: '::'}", "http://[::1]:8080/"),
     ("{tls: {certificate: c.pem, key: k.pem}}", "https://127.0.0.1:8080/")],
)  # fmt: skip
def test_a_link_leads_to_where_the_configuration_says_that_the_page_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], web: str, page: str
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(f"site: north\ndata_dir: {tmp_path}\nweb: {web}\n", encoding="utf-8")
    assert cli.main(["user", "setup-link", "--config", str(site)]) == 0
    assert capsys.readouterr().out.startswith(f"{page}#/setup?token=")


@pytest.mark.parametrize(
    ("words", "said"),
    [(("role", "nobody", "viewer"), "user nobody does not exist"),
     (("add", "a b", "--password-from", "env:PW"), "name: got 'a b'"),
     (("add", "ann", "--password-from", "env:ABSENT"), "env:ABSENT"),
     (("add", "ann"), "--password-from"),
     (("add", "seven-herons", "--password-from", "file:/dev/null"), "10 to 256 characters"),
     (("setup-link", "--page", "ftp://x"), "--page"), (("setup-link", "--hours", "0"), "--hours"),
     (("cameras", "nobody", "A"), "the id of a camera")],
)  # fmt: skip
def test_what_is_refused(user: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str) -> None:
    code, _, error = user(*words)
    assert code == 1
    assert said in error
    assert "Traceback" not in error


def test_a_database_of_another_version_is_left_alone(user: Run, tmp_path: Path) -> None:
    user("list")
    database = Database(default_url(tmp_path))
    with database.write() as c:
        c.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    database.close()
    code, _, said = user("list")
    assert code == 1
    assert "magpie db upgrade" in said
