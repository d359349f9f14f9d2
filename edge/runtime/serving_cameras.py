"""What serving must know of the cameras that it shares the device with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edge.core.window import WindowProblem


@dataclass(frozen=True)
class CamerasNow:
    """The part of the device that serving and cameras have together, and the cameras' planning problem and policy
    (None: there are none)."""

    capacity: float
    window: WindowProblem | None = None
    policy: str = "relay"

    @property
    def key(self) -> tuple[Any, ...]:
        """Changes when what cameras need may have changed; time and the work done by retrainings do not count."""
        if self.window is None:
            return (self.capacity,)
        streams = tuple((s.id, round(s.start_accuracy, 2), s.inference_profile) for s in self.window.streams)
        return (self.capacity, self.policy, self.window.a_min, self.window.window_s, streams)
