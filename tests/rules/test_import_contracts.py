"""The contracts on imports that list forbidden rooms forget none: a new room is forbidden until it is allowed here."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from parsed_code import REPO

LINTER: dict[str, Any] = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
DENYLISTS = {contract["name"]: contract for contract in LINTER["contracts"] if contract["type"] == "forbidden"}
#: The rooms that the sources of each denylist may know beside themselves. Shipped data may be read by every room.
ALLOWED: dict[str, set[str]] = {
    "the vocabulary knows nothing of ours": set(),
    "decisions know the vocabulary only": {"edge.core"},
    "teachers know the vocabulary and the detectors only": {"edge.core", "edge.detectors"},
    "what teachers and students share knows the vocabulary only": {"edge.core"},
    "pipeline planners know the vocabulary only": set(),
    "tenants' policies know the vocabulary only": set(),
    "the fleet's decisions know the vocabulary only": set(),
    "adapters do not know who joins them": {"edge.core", "edge.detectors", "edge.files", "edge.version"},
    "the transport knows the appliance and the vocabulary only": {
        "edge.access", "edge.appliance", "edge.core", "edge.settings",
    },
    "the load tool knows the vocabulary only: it is a client like any other": {"edge.core"},
    "model files know the vocabulary only": {"edge.core", "edge.files"},
}  # fmt: skip
DATA = "configs"


def packages() -> set[str]:
    """The top-level packages of the repository."""
    return {path.parent.name for path in REPO.glob("*/__init__.py")}


def rooms(package: str) -> set[str]:
    """The modules and packages in a package."""
    found = {path.stem for path in (REPO / package).glob("*.py") if not path.stem.startswith("__")}
    return {
        f"{package}.{name}" for name in found | {path.parent.name for path in (REPO / package).glob("*/__init__.py")}
    }


def test_every_package_is_looked_at() -> None:
    assert set(LINTER["root_packages"]) == packages()


def test_every_denylist_has_its_allowlist() -> None:
    assert set(DENYLISTS) == set(ALLOWED)


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_a_denylist_leaves_out_what_is_allowed_and_nothing_else(name: str) -> None:
    sources, forbidden = (set(DENYLISTS[name][key]) for key in ("source_modules", "forbidden_modules"))
    inside = all(source.startswith("scheduler.") for source in sources)
    # Of the rooms outside, a room of the decisions may know what all decisions may.
    every = rooms("scheduler") if inside else rooms("edge") | packages() - {"edge", DATA}
    assert forbidden <= every, "rooms that are gone"
    assert every - forbidden - sources == ALLOWED[name]
