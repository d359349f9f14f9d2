"""Settings of clips: the ring of coded video in memory, and the files that are made of it."""

from __future__ import annotations

from pydantic import Field, model_validator

from edge.core.clips import check_span
from edge.core.errors import InvalidValue
from edge.settings.base import FieldProblem, Settings


class ClipSettings(Settings):
    """Clips of the whole box; each camera may have its own seconds."""

    enabled: bool = Field(True, description="keep the last seconds of every camera's video in memory")
    ring_s: float = Field(20, ge=5, le=300, description="seconds that are kept in memory; no clip is longer")
    ring_mb: float = Field(16, ge=1, le=1024, description="MB of a camera's ring; with more video it holds less time")
    before_s: float = Field(5, ge=0, le=300, description="a clip begins so long before its moment")
    after_s: float = Field(10, ge=0, le=300, description="a clip ends so long after its moment")
    max_gb: float = Field(2, gt=0, le=1e5, description="files of all clips together; the oldest go first")
    days: float = Field(14, gt=0, le=3650, description="a clip is kept so long")

    @model_validator(mode="after")
    def _fits_into_the_ring(self) -> ClipSettings:
        try:
            check_span(self.before_s, self.after_s, self.ring_s)
        except InvalidValue as error:
            raise FieldProblem(error.path, f"{error.allowed} (here: {error.given})") from None
        return self


class CameraClips(Settings):
    """A camera's own settings of clips."""

    enabled: bool = Field(True, description="keep the last seconds of its video in memory")
    before_s: float | None = Field(None, ge=0, le=300, description="empty: the site's")
    after_s: float | None = Field(None, ge=0, le=300, description="empty: the site's")

    def span(self, site: ClipSettings) -> tuple[float, float]:
        """Seconds before and after a moment. Raises InvalidValue where the ring does not hold them."""
        before = site.before_s if self.before_s is None else self.before_s
        after = site.after_s if self.after_s is None else self.after_s
        try:
            check_span(before, after, site.ring_s)
        except InvalidValue as error:
            raise InvalidValue(f"clips.{error.path}", error.given, error.allowed) from None
        return before, after
