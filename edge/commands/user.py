"""`magpie user`: the users of an appliance and their rights. Works on the database, whether the appliance runs or not;
in force within seconds.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from edge.access.credentials import make_link, new_token
from edge.access.passwords import Passwords
from edge.access.records import Records, User
from edge.access.tokens import MAX_TOKEN_DAYS
from edge.commands.db import default_data_dir
from edge.core.access import (
    ROLES,
    camera_limit,
    checked_password,
    checked_role,
    label,
    narrowed,
    tenant_limit,
    user_name,
)
from edge.core.clock import SystemClock
from edge.core.errors import InvalidValue, StoreError
from edge.ingest.secrets import resolve_secret
from edge.settings import WebSettings, read_site
from edge.store import database as db
from edge.store.database import Database
from edge.store.store import default_url


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `magpie user`."""
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--config", type=Path, help="site configuration: its database")
    where.add_argument(
        "--data-dir", type=Path, help="data folder (default: $MAGPIE_DATA_DIR, else ~/.local/share/magpie)"
    )
    where.add_argument("--url", help="database address (default: $MAGPIE_DATABASE_URL, else SQLite in the data folder)")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, text: str, *, named: bool = True) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=text, description=text, parents=[where])
        if named:
            made.add_argument("name", help="the user")
        return made

    add = action("add", "add a user; the password is asked for")
    add.add_argument("--role", choices=ROLES, default="viewer")
    _password_from(add)
    _cameras(add, "--cameras")
    _tenants(add, "--tenants")
    action("list", "every user", named=False)
    action("role", "change what a user may do").add_argument("role", choices=ROLES)
    _password_from(action("password", "set a password; ends the user's sessions"))
    _cameras(action("cameras", "limit the cameras that a user may see"), "cameras")
    _tenants(action("tenants", "limit the tenants that a user may see"), "tenants")
    action("disable", "keep a user out")
    action("enable", "let a disabled user in again")
    action("remove", "remove a user with sessions and tokens")
    token = action("token", "make an API token for a user and print it, once")
    token.add_argument("--label", default="made on the command line", help="its name")
    token.add_argument("--role", choices=ROLES, help="no more than the user's (default: the user's)")
    token.add_argument("--days", type=float, help="valid for so long (default: for ever)")
    _cameras(token, "--cameras")
    link = action("login-link", "print a one-time link that logs a browser in as the user")
    setup = action("setup-link", "print a one-time link that makes the first admin", named=False)
    for one in (link, setup):
        one.add_argument("--page", help="the page's address (default: the configuration's, else that of a usual site)")
        one.add_argument("--hours", type=float, default=24.0, help="valid for so long")


def _password_from(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--password-from", metavar="REF", help="env:NAME or file:/path[#key] instead of asking")


def _cameras(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(name, metavar="all|ID,ID,...", default="all", help="cameras that may be seen (default: all)")


def _tenants(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(name, metavar="all|ID,ID,...", default="all", help="tenants that may be seen (default: all)")


def run(arguments: argparse.Namespace) -> int:
    """Carry out; raises MagpieError for what the user must know."""
    database = _database(arguments)
    with closing(database):
        _ready(database)
        _ACTIONS[arguments.action](Records(database, SystemClock()), arguments)
    return 0


def _database(arguments: argparse.Namespace) -> Database:
    if arguments.config is not None:
        if arguments.url or arguments.data_dir:
            raise InvalidValue("--config", str(arguments.config), "either --config, or --url or --data-dir")
        return Database(read_site(arguments.config).database())
    given = arguments.url or (None if arguments.data_dir else os.environ.get("MAGPIE_DATABASE_URL"))
    return Database(given or default_url(arguments.data_dir or default_data_dir()))


def _ready(database: Database) -> None:
    """An empty database is made; one of another version is left alone. Raises StoreError."""
    now = db.current(database)
    if now is None:
        db.upgrade(database)
    elif now != db.head():
        raise StoreError(f"{database.name}: schema {now}, and this Magpie needs {db.head()}", "run `magpie db upgrade`")


def _add(records: Records, a: argparse.Namespace) -> None:
    name, cameras = user_name("name", a.name), _limit("--cameras", a.cameras)
    hashed = _new_password(a, name)
    tenants = _tenant_limit("--tenants", a.tenants)
    records.add_user(name, checked_role("--role", a.role), cameras, hashed, False, _by(), tenants)
    _print(f"{name}: {a.role}, {_words(cameras)}{_of_tenants(tenants)}")


def _list(records: Records, _: argparse.Namespace) -> None:
    users = sorted(records.everybody().users.values(), key=lambda u: u.name)
    for user in users:
        _print(
            f"{user.name:24} {user.role:9} {_last(user):17} {_words(user.cameras)}{_of_tenants(user.tenants)}"
            + " DISABLED" * user.disabled
        )
    if not users:
        _print("no users yet: `magpie user setup-link` or `magpie user add NAME --role admin`")


def _role(records: Records, a: argparse.Namespace) -> None:
    user = records.change_user(_name(a), {"role": checked_role("role", a.role)}, _by())
    _print(f"{user.name}: {user.role}")


def _password(records: Records, a: argparse.Namespace) -> None:
    name = _name(a)
    records.user(name)  # before anything is asked
    records.change_user(name, {"password": _new_password(a, name), "must_change": False}, _by(), end_sessions=True)
    _print(f"{name}: the password is changed")


def _set_cameras(records: Records, a: argparse.Namespace) -> None:
    user = records.change_user(_name(a), {"cameras": _limit("cameras", a.cameras)}, _by())
    _print(f"{user.name}: {_words(user.cameras)}")


def _set_tenants(records: Records, a: argparse.Namespace) -> None:
    user = records.change_user(_name(a), {"tenants": _tenant_limit("tenants", a.tenants)}, _by())
    _print(f"{user.name}: {_of_tenants(user.tenants).lstrip(', ') or 'all tenants'}")


def _disable(records: Records, a: argparse.Namespace) -> None:
    _print(f"{records.change_user(_name(a), {'disabled': True}, _by()).name}: disabled")


def _enable(records: Records, a: argparse.Namespace) -> None:
    _print(f"{records.change_user(_name(a), {'disabled': False}, _by()).name}: enabled")


def _remove(records: Records, a: argparse.Namespace) -> None:
    records.remove_user(_name(a), _by())
    _print(f"{_name(a)}: removed")


def _token(records: Records, a: argparse.Namespace) -> None:
    user = records.user(_name(a))
    if a.days is not None and not 0 < a.days <= MAX_TOKEN_DAYS:
        raise InvalidValue("--days", a.days, f"a number above 0 to {MAX_TOKEN_DAYS:g}")
    role = user.role if a.role is None else checked_role("--role", a.role)
    cameras = user.cameras if a.cameras == "all" else _limit("--cameras", a.cameras)
    if narrowed(user.role, user.cameras, role, cameras) != (role, cameras):
        raise InvalidValue("--role", a.role, f"no more than {user.name} may: {user.role}, {_words(user.cameras)}")
    now = time.time()
    expires = None if a.days is None else now + a.days * 86400
    token, kept = new_token(user.name, label("--label", a.label), role, cameras, now, expires)
    records.add_token(kept, _by())
    _print(token)  # alone on its line, so that a script can take it


def _login_link(records: Records, a: argparse.Namespace) -> None:
    name = records.user(_name(a)).name
    _print(f"{_page(a)}#/login?link={make_link(records, 'login', name, _by(), _seconds(a))}")


def _setup_link(records: Records, a: argparse.Namespace) -> None:
    _print(f"{_page(a)}#/setup?token={make_link(records, 'setup', None, _by(), _seconds(a))}")


_ACTIONS: Final[dict[str, Callable[[Records, argparse.Namespace], None]]] = {
    "add": _add,
    "list": _list,
    "role": _role,
    "password": _password,
    "cameras": _set_cameras,
    "tenants": _set_tenants,
    "disable": _disable,
    "enable": _enable,
    "remove": _remove,
    "token": _token,
    "login-link": _login_link,
    "setup-link": _setup_link,
}


def _by() -> str:
    """The name for the audit: the account that typed the command."""
    try:
        return f"command line ({getpass.getuser()})"
    except (KeyError, OSError):  # an account without a name
        return f"command line ({os.getuid()})"


def _name(a: argparse.Namespace) -> str:
    return user_name("name", a.name)


def _limit(path: str, text: str) -> frozenset[str] | None:
    return camera_limit(path, _listed(text))


def _tenant_limit(path: str, text: str) -> frozenset[str] | None:
    return tenant_limit(path, _listed(text))


def _listed(text: str) -> list[str] | None:
    return None if text == "all" else [one.strip() for one in text.split(",") if one.strip()]


def _words(cameras: frozenset[str] | None) -> str:
    if cameras is None:
        return "all cameras"
    return "cameras " + ", ".join(sorted(cameras)) if cameras else "no cameras"


def _of_tenants(tenants: frozenset[str] | None) -> str:
    if tenants is None:
        return ""
    return ", tenants " + ", ".join(sorted(tenants)) if tenants else ", no tenants"


def _last(user: User) -> str:
    if user.last_login_utc_s is None:
        return "never logged in"
    return time.strftime("%Y-%m-%d %H:%MZ", time.gmtime(user.last_login_utc_s))


def _new_password(a: argparse.Namespace, name: str) -> str:
    """The hash of a password that was asked for or read. Raises InvalidValue."""
    if a.password_from:
        password = resolve_secret(a.password_from, "--password-from").reveal()
    elif sys.stdin.isatty():
        password = getpass.getpass(f"New password of {name}: ")
        if password != getpass.getpass("Again: "):
            raise InvalidValue("password", "(not shown)", "the same text twice")
    else:
        raise InvalidValue("--password-from", None, "env:NAME or file:/path where there is no terminal to ask on")
    return Passwords().hash(checked_password("password", password, name))


def _page(a: argparse.Namespace) -> str:
    if a.page is None:
        return (WebSettings() if a.config is None else read_site(a.config).web).page()
    if not a.page.startswith(("http://", "https://")):
        raise InvalidValue("--page", a.page, "http:// or https://")
    return str(a.page).rstrip("/") + "/"


def _seconds(a: argparse.Namespace) -> float:
    if not 0 < a.hours <= 24 * 30:
        raise InvalidValue("--hours", a.hours, "a number above 0 to 720")
    return float(a.hours) * 3600.0


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
