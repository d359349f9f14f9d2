"""Clips: coded video of a camera as it came, around a moment. Times are UTC epoch seconds unless a name says else."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, Literal, Protocol

from edge.core import checks
from edge.core.errors import InvalidValue

Codec = Literal["h264", "hevc"]
CODECS: Final[tuple[Codec, ...]] = ("h264", "hevc")
ClipState = Literal["making", "kept", "failed"]
#: Why there is no clip: the ring holds nothing of its time; the camera gave no video that can be kept (another codec,
#: stills); the disk is full, or refuses; too many are being made; the camera is switched off or its worker is away; the
#: worker did not answer in time; the appliance, or the worker, was ended before it was written; the camera got masks
#: meanwhile.
ClipFault = Literal[
    "not_in_ring",
    "codec",
    "disk_full",
    "not_written",
    "too_many",
    "camera_off",
    "no_answer",
    "interrupted",
    "masks_changed",
]
CLIP_FAULTS: Final[tuple[ClipFault, ...]] = (
    "not_in_ring", "codec", "disk_full", "not_written", "too_many", "camera_off", "no_answer", "interrupted",
    "masks_changed",
)  # fmt: skip
#: Where a clip ends: where it was asked to; where the stream ended; where its coding changed; where the camera's worker
#: was ended.
ClipEnd = Literal["whole", "camera_gone", "coding_changed", "cut_short"]
#: Presentation times are counted in so many parts of a second.
TICKS: Final = 90_000
#: A clip is at least so long, in seconds.
SHORTEST_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class CodedPacket:
    """A packet as the camera sent it, in byte-stream form (start codes). `pts` in TICKS; `arrived_s` is monotonic."""

    pts: int
    key: bool
    data: bytes
    arrived_s: float
    arrived_utc_s: float


class PacketTap(Protocol):
    """Gets every coded packet of a camera's stream, decoded or not. Thread-safe; a packet of a stream that is not the
    newest is ignored."""

    def attempt(self) -> int:
        """A stream is about to be opened; returns its number. It is the newest from now on."""

    def begins(self, stream: int, codec: str, headers: bytes) -> None:
        """The stream was opened. `headers`: parameter sets that came outside of it, as byte stream."""

    def packet(self, stream: int, packet: CodedPacket) -> None:
        """The next packet, in decoding order."""

    def shown(self, stream: int, pts: int, utc_s: float) -> None:
        """The picture of the packet with this time was taken at `utc_s`."""

    def ends(self, stream: int) -> None:
        """No more comes of this stream."""


@dataclass(frozen=True)
class VideoStretch:
    """Video that can be played in one go: `keys_utc_s` are the times of its key frames, in order; it holds the video
    from the first of them to `end_utc_s`. `ended`: why nothing more comes of it (None: it goes on)."""

    number: int
    keys_utc_s: tuple[float, ...]
    end_utc_s: float
    ended: Literal["camera_gone", "coding_changed"] | None = None

    def __post_init__(self) -> None:
        checks.not_empty("stretch.keys_utc_s", self.keys_utc_s)


@dataclass(frozen=True)
class Cut:
    """Take a stretch from its key frame `first_key` (an index) to `to_utc_s`. `missing_before_s` and
    `missing_after_s`: seconds that were asked for and are not there."""

    stretch: int
    first_key: int
    to_utc_s: float
    missing_before_s: float
    missing_after_s: float
    end: ClipEnd


@dataclass(frozen=True)
class ClipAsked:
    """Make a clip of a camera from `from_utc_s` to `to_utc_s`, around `at_utc_s`. Raises InvalidValue."""

    number: int
    camera: str
    at_utc_s: float
    from_utc_s: float
    to_utc_s: float

    def __post_init__(self) -> None:
        if not self.from_utc_s <= self.at_utc_s <= self.to_utc_s:
            raise InvalidValue("clip.at_utc_s", self.at_utc_s, f"from {self.from_utc_s:g} to {self.to_utc_s:g}")


@dataclass(frozen=True)
class ClipMade:
    """A clip lies on the disk, with its boxes beside it. `begins_utc_s`: when its first picture was taken; `masked`:
    it was coded anew, with the camera's masks blacked out."""

    number: int
    camera: str
    begins_utc_s: float
    seconds: float
    codec: Codec
    width: int
    height: int
    bytes: int
    sha256: str
    missing_before_s: float
    missing_after_s: float
    end: ClipEnd
    masked: bool = False


@dataclass(frozen=True)
class ClipFailed:
    """Nothing of a clip is kept. `had_from_utc_s` to `had_to_utc_s`: the time that the ring had (None: none)."""

    number: int
    camera: str
    fault: ClipFault
    had_from_utc_s: float | None = None
    had_to_utc_s: float | None = None


@dataclass(frozen=True)
class RingNow:
    """A camera's ring: its contents now, and since its start the changes of coding in it (`begun_anew`), the times that
    old video gave way to its limit of bytes (`shortened`), and the packets that it could not take (before the first key
    frame, or of a picture group larger than the ring)."""

    codec: str = ""
    seconds: float = 0.0
    bytes: int = 0
    begun_anew: int = 0
    shortened: int = 0
    packets_lost: int = 0

    def to_json(self) -> dict[str, Any]:
        """For REST."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


#: Why no clip shows a moment and none can be made: it is yet to come; the camera's memory of video does not reach back
#: so far; no video of it is kept in memory (settings); it is switched off, was removed, or its worker is away; its
#: memory is empty (it gives no video that can be kept, or was just started).
NoClipReason = Literal["in_future", "too_old", "not_kept", "camera_off", "camera_removed", "camera_away", "no_video"]


@dataclass(frozen=True)
class ClipSpan:
    """A clip, and the time that it shows; `making`: it is not there yet. `asked`: the time that it was asked for, from
    and to."""

    number: int
    from_utc_s: float
    to_utc_s: float
    making: bool
    asked: tuple[float, float] | None = None


@dataclass(frozen=True)
class VideoNow:
    """The last `held_s` seconds of a camera's video are in memory; `missing`: why none are (None: they are)."""

    held_s: float = 0.0
    missing: NoClipReason | None = None


@dataclass(frozen=True)
class ClipAround:
    """The clip of a moment: `kept` or in the `making` (its number is `clip`); one `can_be_made`; or `none`, with the
    reason. `held_s`: seconds of video in memory."""

    state: Literal["kept", "making", "can_be_made", "none"]
    clip: int | None = None
    reason: NoClipReason | None = None
    held_s: float | None = None


def check_span(before_s: float, after_s: float, ring_s: float) -> None:
    """Raises InvalidValue for a clip that is longer than the ring (it says what can be had) or too short."""
    checks.in_range("before_s", before_s, 0.0, ring_s)
    longest = ring_s - before_s
    if not 0.0 <= after_s <= longest:
        allowed = f"0 to {longest:g}: the ring holds {ring_s:g} s (clips.ring_s), {before_s:g} of them before"
        raise InvalidValue("after_s", after_s, allowed)
    if before_s + after_s < SHORTEST_S:
        raise InvalidValue("after_s", after_s, f"at least {SHORTEST_S:g} s with before_s ({before_s:g})")
