"""Parts of a served version: those loaded into a process, and those in force without loading."""

from __future__ import annotations

from dataclasses import replace

from edge.core.front_messages import ServedVersion

#: Fields of a version that are not loaded: they are in force at once.
_LIMITS = ("slo_ms", "priority", "depth", "max_batch", "rate")


def loads_alike(one: ServedVersion, other: ServedVersion) -> bool:
    """True if a process that has loaded one of them can serve the other: they differ in limits only."""
    return with_limits(one, other) == other


def with_limits(serving: ServedVersion, demanded: ServedVersion) -> ServedVersion:
    """`serving` with the limits of `demanded`, which need no loading."""
    return replace(serving, **{name: getattr(demanded, name) for name in _LIMITS})
