"""The clips that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class StoredClip:
    """A clip's record: its size (0: there is no file) and the moment that it is of."""

    number: int
    camera: str
    at_utc_s: float
    bytes: int


def to_drop(clips: Sequence[StoredClip], oldest_utc_s: float, max_bytes: int) -> tuple[StoredClip, ...]:
    """Clips that are older than `oldest_utc_s`, and of the others the oldest until the rest is at most `max_bytes` or
    only the newest is left."""
    old = [c for c in clips if c.at_utc_s < oldest_utc_s]
    rest = sorted((c for c in clips if c.at_utc_s >= oldest_utc_s and c.bytes), key=lambda c: (c.at_utc_s, c.number))
    total = sum(c.bytes for c in rest)
    for clip in rest[:-1]:
        if total <= max_bytes:
            break
        old.append(clip)
        total -= clip.bytes
    return tuple(old)
