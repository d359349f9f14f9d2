"""Work that another box was asked for, as this box hears of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from edge.core.lending import LentPhase, LentState

#: A lender of which nothing was heard for so long is given up, in seconds: the work may still be done here.
SILENT_S: Final = 20.0

FollowedChange = Literal["silent", "", "changed", "ended"]


@dataclass
class Followed:
    """`box` was asked, and something was heard of it last at `heard_s`; `written_ns` is when that was written."""

    box: str
    heard_s: float
    written_ns: int = 0
    phase: LentPhase = "asked"
    fraction: float = 0.0

    def heard(self, now_s: float, written_ns: int, state: LentState | None) -> FollowedChange:
        """Take in what was written last. "silent": nothing was for `SILENT_S`."""
        if written_ns != self.written_ns:
            self.written_ns, self.heard_s = written_ns, now_s
        if state is not None and state.phase in ("done", "failed"):
            return "ended"
        if now_s - self.heard_s > SILENT_S:
            return "silent"
        if state is None or (state.phase, state.fraction) == (self.phase, self.fraction):
            return ""
        self.phase, self.fraction = state.phase, state.fraction
        return "changed"
