"""A limit that a window plan could not keep, as a value. No code parses its sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: "floor_unreachable": no plan can keep the camera's floor; "under_floor": this one does not; "recorded": a sentence of
#: a stored plan, of which only the words are known.
PlanFaultCode = Literal["floor_unreachable", "under_floor", "recorded"]


@dataclass(frozen=True)
class PlanFault:
    """A rule that a plan breaks, and for which camera (None: a recorded sentence does not tell).

    `floor` is the accuracy [0, 1] to keep and `accuracy` the one reached: the best at the start where no plan can keep
    the floor, with `share` (devices) for inference; else the lowest of the plan. `sentence` is a recorded fault's own.
    """

    code: PlanFaultCode
    camera: str | None
    floor: float = 0.0
    accuracy: float = 0.0
    share: float = 0.0
    sentence: str = ""

    @classmethod
    def unreachable(cls, camera: str, floor: float, best: float, share: float) -> PlanFault:
        """No plan keeps `floor`: the accuracy at the start is at best `best`, at `share` (devices) for inference."""
        return cls("floor_unreachable", camera, float(floor), float(best), float(share))

    @classmethod
    def under(cls, camera: str, floor: float, lowest: float) -> PlanFault:
        """A plan lets the accuracy fall to `lowest`, under `floor`."""
        return cls("under_floor", camera, float(floor), float(lowest))

    @classmethod
    def recorded(cls, sentence: str) -> PlanFault:
        """A stored plan's fault, of which only the sentence is kept."""
        return cls("recorded", None, sentence=sentence)

    @property
    def words(self) -> str:
        """The fault as a sentence, as files have it."""
        return self.what if self.camera is None else f"{self.camera}: {self.what}"

    @property
    def what(self) -> str:
        """The fault without its camera."""
        if self.code == "floor_unreachable":
            return (
                f"the floor of {self.floor:.2f} cannot be kept; the best at the start is "
                f"{self.accuracy:.3f}, with {self.share:g} of a device for inference"
            )
        if self.code == "under_floor":
            fall = f"accuracy falls to {self.accuracy:.3f} in this plan"
            return f"{fall}, under the floor of {self.floor:.2f}"
        return self.sentence
