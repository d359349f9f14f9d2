"""Held-out frames of past windows: students are judged on them, and never trained on them. Bounded; copies on disk."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edge.core import checks
from edge.core.errors import DiskFull, StoreError
from edge.core.labels import LabelledFrame
from edge.files import write_whole

_MANIFEST = "manifest.json"
_FORMAT = "magpie-kept-out/1"


def read_kept_out(root: Path) -> tuple[LabelledFrame, ...]:
    """The frames kept in folder `root`, oldest first; none where there is nothing, or its manifest is damaged."""
    try:
        value = json.loads((root / _MANIFEST).read_text(encoding="utf-8"))
        rows = value["frames"] if value["format"] == _FORMAT else []
        found = [_at(LabelledFrame.from_json(r["frame"]), root / r["file"]) for r in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    return tuple(f for f in found if f.frame.path.is_file())


def keep_out(root: Path, frames: Sequence[LabelledFrame], most: int) -> tuple[LabelledFrame, ...]:
    """Add a window's held-out frames; of more than `most` the oldest go. Returns what is kept now.

    Frames of a window that was added before are added anew; one whose picture is gone is passed over.

    Raises:
        InvalidValue: `most` is negative.
        DiskFull, StoreError: pictures cannot be copied; the frames kept before stay.
    """
    checks.in_range("kept_out.most", most, 0, 1e6)
    again = {f.frame.window for f in frames}
    old = [f for f in read_kept_out(root) if f.frame.window not in again]
    fresh = [f for f in frames if f.frame.path.is_file()]
    wanted = [*old, *fresh][-most:] if most else []
    try:
        root.mkdir(parents=True, exist_ok=True)
        kept = [_copied(root, f) for f in wanted]
        rows = [{"file": f.frame.path.name, "frame": f.to_json()} for f in kept]
        write_whole(root / _MANIFEST, json.dumps({"format": _FORMAT, "frames": rows}).encode())
        names = {f.frame.path.name for f in kept}
        for file in root.glob("*.jpg"):
            if file.name not in names:
                file.unlink(missing_ok=True)
    except OSError as error:
        kind = DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreError
        raise kind(f"the kept-out frames in {root} cannot be written ({error.strerror})") from error
    return tuple(kept)


def _copied(root: Path, frame: LabelledFrame) -> LabelledFrame:
    if frame.frame.path.parent == root:
        return frame
    data = frame.frame.path.read_bytes()
    path = root / f"{hashlib.sha256(data).hexdigest()[:32]}.jpg"
    if not path.is_file() or path.stat().st_size != len(data):
        write_whole(path, data)
    return _at(frame, path)


def _at(frame: LabelledFrame, path: Path) -> LabelledFrame:
    return replace(frame, frame=replace(frame.frame, path=path))
