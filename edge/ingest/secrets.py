"""Passwords: where they come from, and how they are kept out of logs, errors and answers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from edge.core.errors import InvalidValue
from edge.core.secrecy import MASK, without_credentials


class Secret:
    """A text that does not show itself: `str`, `repr` and formatting give `***`; `reveal()` gives the text."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return MASK if self._text else "''"

    __str__ = __repr__


def redact(text: object, secrets: Iterable[str | Secret] = ()) -> str:
    """`text` without the passwords in its URLs and every given secret (plain or percent-encoded)."""
    out = without_credentials(str(text))
    for secret in secrets:
        plain = secret.reveal() if isinstance(secret, Secret) else secret
        for form in {plain, quote(plain, safe="")}:
            if form:
                out = out.replace(form, MASK)
    return out


def resolve_secret(
    reference: str,
    path: str = "password_from",
    environment: Mapping[str, str] | None = None,
    kept: Path | None = None,
) -> Secret:
    """The secret that `reference` names: `env:NAME`, `file:/path` (the whole file), `file:/path#key` (one entry), or
    `secret:NAME` of the appliance's own file `kept`.

    A file with entries is a JSON object, or lines of `key=value` or `key: value`; `#` begins a comment line.
    An empty reference is an empty secret.

    :raises InvalidValue: the reference is malformed, or its secret is absent. The message names the reference
        (unless it might itself be a password), never the secret.
    """
    if not reference:
        return Secret()
    kind, _, name = reference.partition(":")
    if kind == "env" and name:
        value = (os.environ if environment is None else environment).get(name)
        if value is None:
            raise InvalidValue(path, reference, "the name of an environment variable that is set")
        return Secret(value)
    if kind == "file" and name:
        return _from_file(reference, name, path)
    if kind == "secret" and name:
        return _kept(reference, name, path, kept)
    # The value may be the password itself: do not repeat it.
    raise InvalidValue(
        path, f"a text of {len(reference)} characters (hidden)", "env:NAME, file:/path, file:/path#key or secret:NAME"
    )


def check_named(reference: str, before: str, allowed: Sequence[str], path: str = "password_from") -> None:
    """Whether settings that came from outside may name this secret: one that stays as it was `before`, or begins as one
    of `allowed` says (`secret:`, `env:PREFIX`, `file:/folder/`). Else a user that may change a camera could have any
    file of this machine sent to a server of his own. Raises InvalidValue."""
    if not reference or reference == before or any(_begins(reference, one) for one in allowed):
        return
    raise InvalidValue(path, reference, "what begins with " + " or ".join(allowed) + " (web.access.secret_references)")


def _begins(reference: str, allowed: str) -> bool:
    if not (reference.startswith("file:") and allowed.startswith("file:")):
        return reference.startswith(allowed)
    file, folder = reference.removeprefix("file:").partition("#")[0], allowed.removeprefix("file:")
    real, root = os.path.realpath(file), os.path.realpath(folder)
    return real.startswith(os.path.join(root, "")) if folder.endswith("/") else real == root


def _kept(reference: str, name: str, path: str, kept: Path | None) -> Secret:
    entries: object = None
    if kept is not None:
        try:
            entries = json.loads(kept.read_text(encoding="utf-8"))
        except FileNotFoundError:
            entries = {}
        except (OSError, ValueError):
            raise InvalidValue(path, reference, f"a secret that can be read: {kept} cannot") from None
    if not isinstance(entries, dict) or not isinstance(entries.get(name), str):
        raise InvalidValue(path, reference, "a secret that the appliance keeps")
    return Secret(entries[name])


def _from_file(reference: str, name: str, path: str) -> Secret:
    file, _, key = name.partition("#")
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise InvalidValue(path, reference, f"a file that can be read ({reason})") from None
    if not key:
        return Secret(text.strip())
    entries = _entries(text)
    if key not in entries:
        raise InvalidValue(path, reference, f"a file that has an entry {key!r}")
    return Secret(entries[key])


def _entries(text: str) -> dict[str, str]:
    if text.lstrip().startswith("{"):
        try:
            loaded = json.loads(text)
        except json.JSONDecodeError:
            return {}
        return {str(k): str(v) for k, v in loaded.items() if isinstance(v, (str, int))}
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = re.match(r"\s*([^#=:\s][^=:]*?)\s*[=:]\s?(.*?)\s*$", line)
        if match:
            value = match[2]
            quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
            found[match[1]] = value[1:-1] if quoted else value
    return found
