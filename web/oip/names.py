"""Names of models and versions as they may come in a request: nothing that means anything to a path."""

from __future__ import annotations

import re
from typing import Final

from edge.core.errors import InvalidValue

_MODEL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}")
_VERSION: Final = re.compile(r"[0-9]{1,18}")


def model_name(name: str) -> str:
    """The name of a model as it came. Raises InvalidValue."""
    if _MODEL.fullmatch(name) is None:
        raise InvalidValue("model", name, "a name of letters, digits, '_', '-', '+' and '.' that begins with no '.'")
    return name


def version_name(version: str | None) -> str | None:
    """A version as it came; an empty one is none. Raises InvalidValue."""
    if not version:
        return None
    if _VERSION.fullmatch(version) is None:
        raise InvalidValue("version", version, "a whole number")
    return version
