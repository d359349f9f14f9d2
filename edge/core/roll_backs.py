"""Why an earlier model is in force again, as a value. No code parses its sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

#: "asked": a person asked for it, in the words of `sentence`; "under_parent": it did worse than the model that it was
#: made from, on frames that it answered.
RollBackCode = Literal["asked", "under_parent"]

#: The author recorded for an automatic roll-back.
AUTOMATIC: Final = "automatic roll-back"


@dataclass(frozen=True)
class RollBackReason:
    """`live` is the accuracy [0, 1] of the model that goes on the `frames` that it answered, `parent` that of its
    parent on the same frames; it is more than `needed` under it."""

    code: RollBackCode
    live: float = 0.0
    parent: float = 0.0
    frames: int = 0
    needed: float = 0.0
    sentence: str = ""

    @classmethod
    def asked(cls, sentence: str) -> RollBackReason:
        """A person's own words."""
        return cls("asked", sentence=sentence)

    @property
    def automatic(self) -> bool:
        """No person asked for it."""
        return self.code != "asked"

    @property
    def words(self) -> str:
        """As it stands in the lineage, the journal and an alarm."""
        if self.code == "asked":
            return self.sentence
        compared = (
            f"live {100 * self.live:.1f} %, its parent {100 * self.parent:.1f} % on the same {self.frames} frames"
        )
        return f"{compared}: more than {100 * self.needed:.1f} points under its parent"
