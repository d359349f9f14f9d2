"""States and loss counters of a camera."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CameraState = Literal["connecting", "live", "stalled", "reconnecting", "refused", "stopped"]
CameraFault = Literal["unreachable", "refused", "not_found", "silent", "frozen", "ended", "damaged", "unsupported"]
CAMERA_FAULTS: tuple[CameraFault, ...] = (
    "unreachable", "refused", "not_found", "silent", "frozen", "ended", "damaged", "unsupported",
)  # fmt: skip


@dataclass(frozen=True)
class CameraStatus:
    """The state of a camera's stream now; counters run since the worker started.

    `frames_decoded` left the decoder; `frames_damaged` were flagged and not used; `frames_replaced` were overwritten in
    the latest-frame slot before the consumer took them (its own loss); `packets_dropped` were skipped to catch up;
    `stalls` counts times without a picture for the stall time, `freezes` times with the same picture for that long;
    `attempts_hanging` are abandoned connections whose threads have not ended yet.
    """

    camera: str
    state: CameraState
    fault: CameraFault | None = None
    message: str = ""
    since_utc_s: float = 0.0
    frames_decoded: int = 0
    frames_damaged: int = 0
    frames_replaced: int = 0
    packets_dropped: int = 0
    connects: int = 0
    stalls: int = 0
    fps: float = 0.0
    delay_s: float = 0.0
    width: int = 0
    height: int = 0
    codec: str = ""
    retry_in_s: float = 0.0
    freezes: int = 0
    attempts_hanging: int = 0
