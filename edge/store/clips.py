"""Records of clips: made when one is asked for, changed when it is there or failed, deleted by age and size."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from edge.core.clips import ClipState
from edge.core.errors import NotFound
from edge.store import tables as t
from edge.store.database import retried
from edge.store.parts import Part, document, page, text, words
from edge.store.unreadable import made

_c = t.clips.c


@dataclass(frozen=True)
class ClipRecord:
    """A clip as it was recorded last. `id` 0: not recorded yet. `outcome`: fields of edge.core.clips.ClipMade or
    ClipFailed (empty: it is in the making)."""

    id: int
    camera: str
    state: ClipState
    asked_by: str
    at_utc_s: float
    from_utc_s: float
    to_utc_s: float
    alarms: tuple[int, ...] = ()
    bytes: int = 0
    outcome: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For REST."""
        return {
            "id": self.id, "camera": self.camera, "state": self.state, "asked_by": self.asked_by,
            "at_utc_s": self.at_utc_s, "from_utc_s": self.from_utc_s, "to_utc_s": self.to_utc_s,
            "alarms": list(self.alarms),
            "video": {"bytes": self.bytes, **self.outcome} if self.state == "kept" else None,
            "failure": dict(self.outcome) if self.state == "failed" else None,
        }  # fmt: skip


class ClipsPart(Part):
    """Numbers (ids) are never given twice."""

    @retried
    def add_clip(self, clip: ClipRecord) -> int:
        """Record a clip that is in the making; returns its number. Raises DiskFull, Unavailable, StoreError."""
        row = {
            "camera": text("clip.camera", clip.camera), "state": clip.state, "asked_by": words(clip.asked_by),
            "at_utc_s": clip.at_utc_s, "from_utc_s": clip.from_utc_s, "to_utc_s": clip.to_utc_s,
            "alarms": list(clip.alarms), "bytes": clip.bytes, "outcome": document("clip.outcome", clip.outcome),
        }  # fmt: skip
        with self.database.write() as c:
            key = c.execute(sa.insert(t.clips).values(**row)).inserted_primary_key
        assert key is not None
        return int(key[0])

    @retried
    def put_clip(self, clip: ClipRecord) -> bool:
        """Bring state, alarms, size and outcome up to date; False if the row is not there (any more)."""
        changing = {
            "state": clip.state, "alarms": list(clip.alarms), "bytes": clip.bytes,
            "outcome": document("clip.outcome", clip.outcome),
        }  # fmt: skip
        with self.database.write() as c:
            return bool(c.execute(sa.update(t.clips).where(_c.id == clip.id).values(**changing)).rowcount)

    @retried
    def clip(self, number: int) -> ClipRecord:
        """One clip. Raises NotFound."""
        with self.database.read() as c:
            row = c.execute(sa.select(t.clips).where(_c.id == number)).mappings().first()
        if row is None:
            raise NotFound(f"clip {number} does not exist")
        return read_clip(row)

    @retried
    def newest(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        camera: str | None = None,
        cameras: Collection[str] | None = None,
    ) -> tuple[ClipRecord, ...]:
        """Newest first, without those that cannot be read. `cameras` (not None): only clips of these."""
        query = sa.select(t.clips).order_by(_c.id.desc())
        if camera is not None:
            query = query.where(_c.camera == camera)
        if cameras is not None:
            query = query.where(_c.camera.in_(sorted(cameras)))
        with self.database.read() as c:

            def fetch(wanted: int, below: int | None) -> Sequence[Any]:
                some = query if below is None else query.where(_c.id < below)
                return c.execute(some.limit(wanted)).mappings().all()

            found = self.database.unreadable.page(
                "clip", page(limit), before, fetch, read_clip, lambda row: int(row["id"])
            )
        return tuple(found)

    @retried
    def every_clip(self) -> tuple[ClipRecord, ...]:
        """All of them, the oldest first, without those that cannot be read."""
        with self.database.read() as c:
            rows = c.execute(sa.select(t.clips).order_by(_c.id)).mappings().all()
        return tuple(self.database.unreadable.readable("clip", rows, read_clip, lambda row: int(row["id"])))

    @retried
    def clip_names(self) -> frozenset[tuple[str, int]]:
        """Camera and number of every clip that has not failed, those that cannot be read too."""
        with self.database.read() as c:
            rows = c.execute(sa.select(_c.camera, _c.id).where(_c.state != "failed"))
            return frozenset((str(camera), int(number)) for camera, number in rows)

    @retried
    def delete_clips(self, numbers: Collection[int]) -> int:
        """Delete records; returns how many were there."""
        if not numbers:
            return 0
        with self.database.write() as c:
            return int(c.execute(sa.delete(t.clips).where(_c.id.in_(sorted(numbers)))).rowcount)


def read_clip(row: Any) -> ClipRecord:
    """A row as a clip. Raises UnreadableRecord."""

    def make() -> ClipRecord:
        return ClipRecord(
            int(row["id"]), str(row["camera"]), row["state"], str(row["asked_by"]), float(row["at_utc_s"]),
            float(row["from_utc_s"]), float(row["to_utc_s"]), tuple(int(n) for n in row["alarms"]), int(row["bytes"]),
            dict(row["outcome"]),
        )  # fmt: skip

    return made("clip", row["id"], make)
