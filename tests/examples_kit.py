"""How much of a dear property `make test` tries; `make test-all` and `make test-searches` try all of it."""

from __future__ import annotations

import os

#: Set by `make test-all` and `make test-searches`.
THOROUGH = bool(os.environ.get("MAGPIE_THOROUGH"))


def tried(quick: int, thorough: int) -> int:
    """A number of examples, seeds or rows: `quick` still finds what the test is there to find."""
    return thorough if THOROUGH else quick
