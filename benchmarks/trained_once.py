"""A second baseline for a finished demo run: the student that was retrained once, and never again.

The frozen first student has not seen the camera at all; an operator may rather compare with one that was fitted to the
camera when it was installed. From the data folder of a run this takes each camera's first promoted retraining and
answers, in shadow, the labelled frames of the windows after the one in which it was put in force.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from edge.core.labels import LabelledFrame
from edge.recording.recorder import Recorder
from edge.runtime.labelling import LabelQueue
from edge.store.store import Store
from edge.students import load_student
from edge.training import evaluate


def labelled_frames(data: Path, camera: str, window: int, classes: tuple[str, ...]) -> tuple[LabelledFrame, ...]:
    """The frames of a past window whose labels are on disk, in time order."""
    queue = LabelQueue(lambda _: False)
    queue.set_classes(camera, classes, {})
    for frame in Recorder(data / "pictures", camera, keep_windows=1000).frames(window):
        queue.add(frame)
    return asyncio.run(queue.complete(camera, window, 0.0))


def trained_once(data: Path, windows: int) -> dict[str, dict[int, float]]:
    """{camera: {window: accuracy of its first promoted retraining}} for the windows after it, up to `windows`."""
    out: dict[str, dict[int, float]] = {}
    with Store(None, data) as store:
        for camera in (c.id for c in store.settings.cameras()):
            versions = sorted(store.versions.newest(camera), key=lambda v: v.created_utc_s)
            once = next((v for v in versions if v.parent is not None and v.state != "rejected" and v.window), None)
            if once is None or once.window is None:
                continue
            student = load_student(store.blobs.path(once.blob)).for_inference()
            # It was trained on `once.window` and put in force during the next one.
            for window in range(once.window + 2, windows + 1):
                frames = labelled_frames(data, camera, window, once.spec.classes)
                if frames:
                    out.setdefault(camera, {})[window] = evaluate(student, frames).value
    return out


def against(report: dict[str, Any], once: dict[str, dict[int, float]]) -> dict[str, Any]:
    """The run's accuracy against `once` in the same windows: per camera and the mean, in points."""
    rows = {}
    for camera, by_window in once.items():
        pairs = [
            (w["cameras"][camera]["realised_accuracy"], by_window[w["window"]])
            for w in report["windows"]
            if w["window"] in by_window and w["cameras"].get(camera, {}).get("realised_accuracy") is not None
        ]
        if pairs:
            realised, kept = (sum(p[n] for p in pairs) / len(pairs) for n in (0, 1))
            gain = round(100 * (realised - kept), 2)
            rows[camera] = {
                "windows": len(pairs), "realised": round(realised, 4), "trained_once": round(kept, 4),
                "gain_points": gain,
            }  # fmt: skip
    gains = [r["gain_points"] for r in rows.values()]
    return {"cameras": rows, "gain_points": round(sum(gains) / len(gains), 2) if gains else None}
