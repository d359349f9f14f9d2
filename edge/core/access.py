"""Principals and their rights: roles, the cameras that a principal may see, and rules for names and passwords.

Everything here is a value or a function of values; where users come from is edge.access, who checks is web.auth.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from edge.core.checks import one_of, plain_text
from edge.core.errors import InvalidValue

Role = Literal["viewer", "operator", "admin"]
#: From the least to the most: each may do all that those before it may.
ROLES: Final[tuple[Role, ...]] = get_args(Role)
#: How a principal came in; "open": the site asks for no log-in.
Kind = Literal["session", "token", "open"]

MIN_PASSWORD: Final = 10
MAX_PASSWORD: Final = 256
#: Where in the data folder the secrets are that settings refer to as `secret:NAME`.
SECRETS_FILE: Final = "secrets.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,62}")
_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
MAX_CAMERAS: Final = 1000
#: The most common passwords. A password that is one of these, with anything short before or after it, is guessed first.
_COMMON: Final = (
    "abcdefgh", "administrator", "admin", "baseball", "camera", "changeme", "computer", "default", "dragon", "football",
    "guest", "iloveyou", "internet", "letmein", "login", "magpie", "master", "michael", "monkey", "operator",
    "passphrase", "password", "passwort", "princess", "qazwsx", "qwerty", "qwertyuiop", "secret", "security", "shadow",
    "starwars", "sunshine", "superman", "superuser", "supervisor", "surveillance", "system", "trustno", "viewer",
    "welcome", "whatever", "zaq12wsx", "1q2w3e4r", "1qaz2wsx",
)  # fmt: skip
_ROWS: Final = (
    "abcdefghijklmnopqrstuvwxyz",
    "01234567890123456789",
    "qwertyuiopasdfghjklzxcvbnm",
    "qwertzuiopasdfghjkl",
)
_LOOKALIKES: Final = str.maketrans("0134578@$!", "oleastbasi")
#: So many characters of its own a password must have beside a common word or the user's name.
_OWN = 6


def at_least(role: Role, least: Role) -> bool:
    """Whether `role` may do what needs `least`. Raises InvalidValue for anything but a role."""
    one_of("role", role, ROLES)
    one_of("role", least, ROLES)
    return ROLES.index(role) >= ROLES.index(least)


@dataclass(frozen=True)
class Principal:
    """The author of a request: `cameras` None means all of them, and so does `tenants`. `id` names the session or
    token, `expires_utc_s` its end if any. `must_change`: another person chose the password that this session began
    with."""

    name: str
    role: Role
    cameras: frozenset[str] | None = None
    kind: Kind = "session"
    id: str = ""
    expires_utc_s: float | None = None
    must_change: bool = False
    tenants: frozenset[str] | None = None

    def __post_init__(self) -> None:
        one_of("role", self.role, ROLES)

    @property
    def sees_all(self) -> bool:
        """Whether no camera and no tenant is kept from it, those added later included."""
        return self.cameras is None and self.tenants is None

    def may(self, least: Role) -> bool:
        """Whether its role is at least `least`."""
        return at_least(self.role, least)

    def may_see(self, camera: str | None) -> bool:
        """Whether it may see the camera and its data. None: data that belongs to no camera; everybody may see it."""
        return camera is None or self.cameras is None or camera in self.cameras

    def may_see_tenant(self, tenant: str) -> bool:
        """Whether it may see the tenant and its share."""
        return self.tenants is None or tenant in self.tenants

    def visible(self, cameras: Iterable[str]) -> tuple[str, ...]:
        """Those of `cameras` that it may see, in their order."""
        return tuple(c for c in cameras if self.may_see(c))


#: Everybody, at a site without log-in.
ANYBODY: Final = Principal("operator", "admin", None, "open")


def allows(principal: Principal | None, least: Role | None, every_camera: bool = False) -> bool:
    """Whether the principal (None: not logged in) may do what needs the role `least` (None: open to all), and the
    right to see every camera where `every_camera`."""
    if least is None:
        return True
    return principal is not None and principal.may(least) and (principal.sees_all or not every_camera)


def narrowed(
    role: Role, cameras: frozenset[str] | None, to_role: Role, to_cameras: frozenset[str] | None
) -> tuple[Role, frozenset[str] | None]:
    """A user's rights in a token made for less: never more than either."""
    least = ROLES[min(ROLES.index(role), ROLES.index(to_role))]
    if cameras is None or to_cameras is None:
        return least, to_cameras if cameras is None else cameras
    return least, cameras & to_cameras


class Requester(str):
    """The requester's name, to be kept with a change; `address` is where the request came from (None: from here)."""

    __slots__ = ("address",)
    address: str | None

    def __new__(cls, name: str, address: str | None = None) -> Requester:
        made = super().__new__(cls, name)
        made.address = address
        return made


def user_name(path: str, given: object) -> str:
    """A user's name as it is kept: lower-case. Raises InvalidValue."""
    name = given.strip().lower() if isinstance(given, str) else ""
    if not _NAME.fullmatch(name):
        raise InvalidValue(path, given, "1 to 63 of a-z 0-9 . _ @ - beginning with a letter or digit")
    return name


def label(path: str, given: object) -> str:
    """A token's name. Raises InvalidValue."""
    if not isinstance(given, str) or not 1 <= len(given.strip()) <= 100:
        raise InvalidValue(path, given, "1 to 100 characters of one line")
    plain_text(path, given.strip())
    return given.strip()


def checked_role(path: str, given: object) -> Role:
    """A role. Raises InvalidValue."""
    one_of(path, given, ROLES)
    return next(r for r in ROLES if r == given)


def camera_limit(path: str, given: object) -> frozenset[str] | None:
    """The cameras that a principal may see, None for all. They need not exist (yet). Raises InvalidValue."""
    return _limit(path, given, "camera")


def tenant_limit(path: str, given: object) -> frozenset[str] | None:
    """The tenants that a user may see, None for all. They need not exist (yet). Raises InvalidValue."""
    return _limit(path, given, "tenant")


def _limit(path: str, given: object, of: str) -> frozenset[str] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence | frozenset | set) or len(given) > MAX_CAMERAS:
        raise InvalidValue(path, given, f"null (all {of}s) or a list of at most {MAX_CAMERAS} ids of {of}s")
    for number, one in enumerate(given):
        if not isinstance(one, str) or not _ID.fullmatch(one):
            raise InvalidValue(f"{path}[{number}]", one, f"the id of a {of}")
    return frozenset(given)


def limit_json(ids: frozenset[str] | None) -> list[str] | None:
    """A limit as it is kept and shown."""
    return None if ids is None else sorted(ids)


def checked_password(path: str, given: object, name: str) -> str:
    """A password that is not among the first that an attacker would try. Raises InvalidValue, which never shows it."""

    def refuse(allowed: str) -> InvalidValue:
        return InvalidValue(path, "(not shown)", allowed)

    if not isinstance(given, str) or not MIN_PASSWORD <= len(given) <= MAX_PASSWORD:
        raise refuse(f"{MIN_PASSWORD} to {MAX_PASSWORD} characters")
    if any(c < " " or "\ud800" <= c <= "\udfff" for c in given):
        raise refuse("characters that can be typed")
    lower = given.casefold()
    if len(set(lower)) < 4:
        raise refuse("at least 4 different characters")
    if _has_word(lower, name.partition("@")[0]) or _has_word(lower, name):
        raise refuse(f"not the user's name with less than {_OWN} other characters")
    if any(lower in row * 2 or lower in row[::-1] * 2 for row in _ROWS):
        raise refuse("not a row of keys")
    if any(_has_word(text, word) for word in _COMMON for text in (lower, lower.translate(_LOOKALIKES))):
        raise refuse(f"not one of the most common passwords with less than {_OWN} other characters")
    return given


def _has_word(text: str, word: str) -> bool:
    """Whether `text` is the word, once or again and again, with less than `_OWN` characters of something else."""
    return bool(word) and word in text and len(text.replace(word, "")) < _OWN
