"""The version of Magpie that is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def magpie_version() -> str:
    """As the package says; "unknown" where it is not installed."""
    try:
        return version("magpie-edge")
    except PackageNotFoundError:
        return "unknown"
