"""The recorder: a bounded, even sample of a camera's frames on disk, each with the student's answer of that instant.

The window is cut into as many equal strata as frames are wanted, and an instant is drawn at random in each; the first
frame at or after it is kept (stratified sampling in time: unbiased for averages over the window's time, with less
variance than plain random sampling). So a frame is settled the moment it is kept and can be labelled at once; nothing
is replaced later. The instants depend on the seed, the camera and the window only.

On disk, per camera: `window-00000012/00001234.jpg` with `00001234.json` beside it. The JSON is written last and
holds size and CRC of the picture: a frame half written at a crash is recognised and removed. Files that others put
beside a picture (its labels) share its name up to the first dot and go with it.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import zlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import numpy as np

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.labels import SampledFrame
from edge.core.vision import Detections, Frame
from edge.core.ways import MovingAnswer
from edge.detectors.pictures import jpeg_bytes
from edge.files import TEMPORARY, write_whole

State = Literal["idle", "recording", "disk_full", "failing"]
#: After a write failed, nothing is tried for so long (frame time): the hot path must not wait for a sick disk.
_RETRY_S = 10.0
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class RecorderStatus:
    """The recorder's work and losses. Counters run since it was made; `bytes` and `frames` are what is on disk.

    `lost` by reason: "disk_full", "write_failed", "encode_failed", "gap" (no frame came in a stratum), "max_frames",
    "max_bytes", "damaged_on_disk" (found after a crash).
    """

    camera: str
    state: State
    window: int | None
    frames: int
    bytes: int
    offered: int
    kept: int
    lost: dict[str, int] = field(default_factory=dict)
    message: str = ""


@dataclass
class _Window:
    frames: list[SampledFrame]
    sizes: dict[int, int]
    instants: list[float]  # monotonic seconds still to come, increasing
    stratum_s: float


class Recorder:
    """One camera's recorder; owned by one thread. `offer` raises nothing and does at most one picture's work."""

    def __init__(
        self,
        root: Path,
        camera: str,
        *,
        max_frames: int = 400,
        max_bytes: int = 200_000_000,
        keep_windows: int = 6,
        jpeg_quality: int = 90,
        min_free_bytes: int = 200_000_000,
        seed: int = 0,
    ) -> None:
        """`max_frames` per window, `max_bytes` over all windows of the camera, of which the last `keep_windows` stay;
        recording stops while the disk has less than `min_free_bytes` left.

        Frames on disk are taken over. A disk that cannot be used shows in `status()`.

        Raises:
            InvalidValue: a bound is out of range.
        """
        for name, value, low in (
            ("max_frames", max_frames, 1),
            ("max_bytes", max_bytes, 1),
            ("keep_windows", keep_windows, 2),
            ("min_free_bytes", min_free_bytes, 0),
        ):
            if value < low:
                raise InvalidValue(f"recording.{name}", value, f"a whole number from {low}")
        checks.in_range("recording.jpeg_quality", jpeg_quality, 10, 100)
        self.camera = camera
        self.folder = Path(root) / quote(camera, safe="")
        self._max_frames, self._max_bytes, self._keep_windows = max_frames, max_bytes, keep_windows
        self._quality, self._min_free_bytes, self._seed = jpeg_quality, min_free_bytes, seed
        self._windows: dict[int, _Window] = {}
        self._current: int | None = None
        self._state: State = "idle"
        self._message = ""
        self._retry_at_s = -np.inf
        self._offered = self._kept = 0
        self._lost: Counter[str] = Counter()
        try:
            self._recover()
        except OSError as error:
            self._failed(error, "read what is on disk", -np.inf)

    # -- windows

    def open_window(self, window: int, start_s: float, length_s: float, target_frames: int) -> None:
        """Record `target_frames` over `length_s` from `start_s` (monotonic); never more than `max_frames` in all.

        A window that is on disk already goes on: its frames stay. After a restart give the time and the frames that
        are left of it.

        Raises:
            InvalidValue: length or target out of range.
        """
        checks.positive("window.length_s", length_s)
        if target_frames < 1:
            raise InvalidValue("window.target_frames", target_frames, "a whole number from 1")
        w = self._windows.setdefault(window, _Window([], {}, [], 0.0))
        count = max(1, min(target_frames, self._max_frames - len(w.frames)))
        rng = np.random.default_rng([self._seed, zlib.crc32(self.camera.encode()), window, len(w.frames)])
        stratum_s = length_s / count
        instants = start_s + (np.arange(count) + rng.random(count)) * stratum_s
        w.instants, w.stratum_s = [float(t) for t in instants], stratum_s
        if self._current is not None and self._current != window:
            self._windows[self._current].instants = []
        self._current = window
        if self._state == "idle":
            self._state = "recording"
        self._retain()

    def wants(self, monotonic_s: float) -> bool:
        """True if a frame of this time would be kept, or counted as lost: only then need one be converted."""
        w = None if self._current is None else self._windows[self._current]
        return w is not None and bool(w.instants) and monotonic_s >= w.instants[0]

    def offer(
        self,
        frame: Frame,
        answer: Detections,
        version: str,
        answer_age_s: float,
        going: MovingAnswer | None = None,
    ) -> SampledFrame | None:
        """Show a frame with the answer in force at that instant; the kept sample, or None (nearly always)."""
        self._offered += 1
        if self._current is None or not self.wants(frame.monotonic_s):
            return None
        w = self._windows[self._current]
        due = sum(t <= frame.monotonic_s for t in w.instants)
        past = frame.monotonic_s - w.instants[due - 1] > w.stratum_s
        del w.instants[:due]
        if frame.monotonic_s < self._retry_at_s:
            self._lost["disk_full" if self._state == "disk_full" else "write_failed"] += due
            return None
        self._lost["gap"] += due - 1 + int(past)
        if past:
            return None
        if len(w.frames) >= self._max_frames:
            self._lost["max_frames"] += 1
            return None
        return self._keep(w, frame, answer, version, answer_age_s, going)

    def close_window(self, window: int) -> tuple[SampledFrame, ...]:
        """End a window; its sample in time order. An unknown window has none."""
        w = self._windows.get(window)
        if w is None:
            return ()
        w.instants = []
        if self._current == window:
            self._current = None
            if self._state == "recording":
                self._state = "idle"
        return self.frames(window)

    def frames(self, window: int) -> tuple[SampledFrame, ...]:
        """The kept frames of a window so far, in time order."""
        w = self._windows.get(window)
        return () if w is None else tuple(sorted(w.frames, key=lambda f: (f.utc_s, f.number)))

    def windows(self) -> tuple[int, ...]:
        """Windows with something on disk, oldest first."""
        return tuple(sorted(self._windows))

    def status(self) -> RecorderStatus:
        """A snapshot."""
        return RecorderStatus(
            self.camera,
            self._state,
            self._current,
            sum(len(w.frames) for w in self._windows.values()),
            self._bytes(),
            self._offered,
            self._kept,
            {reason: n for reason, n in sorted(self._lost.items()) if n},
            self._message,
        )

    def forget(self, window: int) -> None:
        """Remove a window from disk (not the open one)."""
        if window == self._current or window not in self._windows:
            return
        del self._windows[window]
        try:
            shutil.rmtree(self._folder(window))
        except FileNotFoundError:
            return
        except OSError as error:
            self._message = f"window {window} could not be removed: {error.strerror}"

    # -- inside

    def _folder(self, window: int) -> Path:
        return self.folder / _folder_name(window)

    def _bytes(self) -> int:
        return sum(sum(w.sizes.values()) for w in self._windows.values())

    def _keep(
        self,
        w: _Window,
        frame: Frame,
        answer: Detections,
        version: str,
        answer_age_s: float,
        going: MovingAnswer | None,
    ) -> SampledFrame | None:
        window = self._current
        if window is None:
            return None
        data = jpeg_bytes(frame.picture, self._quality)
        if data is None:
            self._lost["encode_failed"] += 1
            return None
        folder = self._folder(window)
        # A camera that starts anew counts from zero again; names inside a window stay distinct all the same.
        number = frame.number if frame.number not in w.sizes else max(w.sizes) + 1
        path = folder / f"{number:08d}.jpg"
        sample = SampledFrame(self.camera, window, number, frame.utc_s, path, answer, version, answer_age_s, going)
        facts = {"bytes": len(data), "crc32": zlib.crc32(data)}
        text = json.dumps({"sample": sample.to_json() | {"path": path.name}, "picture": facts}).encode()
        if not self._make_room(window, len(data) + len(text)):
            self._lost["max_bytes"] += 1
            return None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if shutil.disk_usage(folder).free < self._min_free_bytes:
                raise OSError(errno.ENOSPC, f"less than {self._min_free_bytes / 1e6:.0f} MB are free")
            write_whole(path, data, durable=False)
            write_whole(path.with_suffix(".json"), text, durable=False)
        except OSError as error:
            self._failed(error, "write a sample", frame.monotonic_s)
            with suppress(OSError):  # the rest is removed at the next start
                path.unlink()
            return None
        self._state, self._message, self._retry_at_s = "recording", "", -np.inf
        self._kept += 1
        w.frames.append(sample)
        w.sizes[number] = len(data) + len(text)
        return sample

    def _failed(self, error: OSError, what: str, now_s: float) -> None:
        full = error.errno in _FULL
        self._state = "disk_full" if full else "failing"
        self._lost["disk_full" if full else "write_failed"] += 1
        self._message = f"cannot {what} in {self.folder}: {error.strerror or error}"
        self._retry_at_s = now_s + _RETRY_S

    def _make_room(self, window: int, size: int) -> bool:
        """Forget oldest windows until `size` more bytes fit. The newest closed window is being trained on: it stays."""
        others = [n for n in self.windows() if n != window]
        while self._bytes() + size > self._max_bytes and len(others) > 1:
            self.forget(others.pop(0))
        return self._bytes() + size <= self._max_bytes

    def _retain(self) -> None:
        for window in self.windows()[: -self._keep_windows]:
            self.forget(window)

    def _recover(self) -> None:
        if not self.folder.is_dir():
            return
        for folder in sorted(self.folder.iterdir()):
            match = re.fullmatch(r"window-(\d{8,})", folder.name)
            if match is None or not folder.is_dir():
                continue
            w = _Window([], {}, [], 0.0)
            known: set[str] = set()
            for sidecar in sorted(folder.glob("*.json")):
                if sidecar.name.count(".") > 1:
                    continue  # labels of a picture
                sample = _read_sample(sidecar)
                if sample is None:
                    self._lost["damaged_on_disk"] += 1
                    continue
                w.frames.append(sample)
                known.add(sidecar.stem)
                w.sizes[sample.number] = sample.path.stat().st_size + sidecar.stat().st_size
            for file in folder.iterdir():
                if file.name.split(".")[0] not in known or file.name.endswith(TEMPORARY):
                    file.unlink(missing_ok=True)
            self._windows[int(match.group(1))] = w


def window_folder(root: Path, camera: str, window: int) -> Path:
    """Where a camera's window is kept under the recorder's `root`."""
    return Path(root) / quote(camera, safe="") / _folder_name(window)


def _folder_name(window: int) -> str:
    return f"window-{window:08d}"


def _read_sample(sidecar: Path) -> SampledFrame | None:
    """The sample of a sidecar, or None if the sidecar or its picture is damaged or missing."""
    picture = sidecar.with_suffix(".jpg")
    try:
        value = json.loads(sidecar.read_text(encoding="utf-8"))
        data = picture.read_bytes()
        if len(data) != value["picture"]["bytes"] or zlib.crc32(data) != value["picture"]["crc32"]:
            return None
        return SampledFrame.from_json(value["sample"] | {"path": str(picture)})
    except (OSError, ValueError, KeyError, TypeError):
        return None
