"""The choice among the streams that a camera offers: the cheapest that is good enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from edge.core.discovery import MediaProfile, StreamNeed, Verdict
from edge.core.input_shapes import camera_shape

#: Codecs that are decoded and of which clips are kept.
CODECS: Final = ("h264", "h265")
#: Taken for a rate that a device does not say: no reason against it, but never the cheaper for it.
_UNSAID_FPS: Final = 60.0


def judge(profiles: Sequence[MediaProfile], need: StreamNeed) -> tuple[Verdict, ...]:
    """A verdict for each profile, in their order; at most one is `proposed` or `nearest`.

    A profile is good enough if its codec is decoded, its picture need not be enlarged to fill the input (one side at
    least is as long), and its rate is reached. The cheapest of these has the fewest pixels a second, which is what
    decoding costs, then the lowest bit rate. Where none is good enough but some can be opened, the nearest is, of those
    whose picture is large enough, the cheapest of the highest rate; where none is, the largest picture, then the
    highest rate.
    """
    verdicts = [_fault(p) or _lack(p, need) for p in profiles]
    good = [n for n, v in enumerate(verdicts) if v is None]
    if good:
        best = min(good, key=lambda n: _cost(profiles[n]))
        return tuple(v or ("proposed" if n == best else "dearer") for n, v in enumerate(verdicts))
    slow = [n for n, v in enumerate(verdicts) if v == "too_slow"]
    small = [n for n, v in enumerate(verdicts) if v == "too_small"]
    if slow:
        verdicts[min(slow, key=lambda n: (-profiles[n].fps, _cost(profiles[n])))] = "nearest"
    elif small:
        verdicts[max(small, key=lambda n: _worth(profiles[n]))] = "nearest"
    return tuple(v for v in verdicts if v is not None)


def _fault(profile: MediaProfile) -> Verdict | None:
    if not profile.codec:
        return "no_encoder"
    if profile.codec not in CODECS:
        return "codec"
    if profile.width <= 0 or profile.height <= 0:
        return "no_size"
    return profile.address_fault or (None if profile.url else "no_address")


def _lack(profile: MediaProfile, need: StreamNeed) -> Verdict | None:
    if _enlarged(profile, need):
        return "too_small"
    return "too_slow" if 0 < profile.fps < need.fps else None


def _enlarged(profile: MediaProfile, need: StreamNeed) -> bool:
    width, height = need.width, need.height
    if not need.fixed:
        pixels = width * height
        # An input of no more pixels than the picture does not enlarge it, whatever its proportions.
        if profile.width * profile.height >= pixels:
            return False
        height, width = camera_shape(pixels, (profile.height, profile.width))
    return profile.width < width and profile.height < height


def _cost(profile: MediaProfile) -> tuple[float, int, str]:
    rate = profile.fps or _UNSAID_FPS
    return profile.width * profile.height * rate, profile.bitrate_kbps, profile.token


def _worth(profile: MediaProfile) -> tuple[int, float, str]:
    return profile.width * profile.height, profile.fps or _UNSAID_FPS, profile.token
