"""Hot swap on a running camera: `python -m benchmarks.bench_swap [--swaps 20] [--fps 10] [--no-load]`.

A real H.264 file is decoded at its own rate by the appliance's reader; the loop answers every frame with the demo's
student, as a camera worker does. Every two seconds another student is loaded and warmed in a background thread and
swapped in between two frames, while one process per core retrains a student at the same priority. Reported: frames
that no student answered, and the longest time between two answers around a swap, in frame periods (the ratio that does
not depend on the machine), beside the same for stretches of the same length without a swap.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import torch

from edge.core.configs import RetrainingConfig
from edge.core.labels import LabelledFrame, LabelledWindow, SampledFrame
from edge.core.vision import Detections
from edge.demo.scene import CLASSES, Scene, SceneSpec
from edge.inference import LiveStudent, prepare
from edge.ingest.reader import CameraReader
from edge.ingest.source import CameraSource
from edge.students import Student, load_student
from edge.training import Retraining

REPO = Path(__file__).resolve().parent.parent
STUDENT = REPO / "edge" / "demo" / "weights" / "student_detection.safetensors"
CLIP_S, EVERY_S = 12.0, 2.0


def make_clip(path: Path, fps: int) -> None:
    """The demo's junction as H.264, `CLIP_S` seconds."""
    scene = Scene(SceneSpec(seed=3, character=1, day_s=900.0))
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps, options={"preset": "veryfast", "tune": "zerolatency"})
        stream.width, stream.height, stream.pix_fmt = 512, 288, "yuv420p"
        for n in range(int(CLIP_S * fps)):
            picture, _ = scene.render(n / fps)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


def retrain_for_ever(folder: str) -> None:
    """The load: retrainings of all layers, one after another."""
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    scene = Scene(SceneSpec(seed=4, character=2, day_s=900.0))
    frames = []
    for n in range(16):
        picture, truth = scene.render(n * 1.5)
        path = Path(folder) / f"{os.getpid()}-{n}.jpg"
        cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
        labels = Detections.build(
            [o.box for o in truth], [1] * len(truth), [CLASSES.index(o.class_name) for o in truth]
        )
        sampled = SampledFrame("load", 1, n, 0.0, path, Detections.empty(), "v")
        frames.append(LabelledFrame(sampled, labels, "truth"))
    data = LabelledWindow("load", 1, "detection", CLASSES, tuple(frames), ())
    parent = load_student(STUDENT)
    while True:
        Retraining(parent, data, RetrainingConfig(20, 8, "all"), held_out_every=0).run()


def measure(clip: Path, swaps: int, fps: int) -> dict[str, Any]:
    """Run the loop over `swaps` swaps and say what happened around each."""
    live = LiveStudent(prepare(STUDENT), "v0", "junction")
    ready: list[tuple[Student, str]] = []

    def load(version: str) -> None:
        ready.append((live.prepare(STUDENT), version))

    reader = CameraReader(CameraSource("junction", str(clip)))
    answers: list[tuple[float, int, str]] = []  # when it was out, frame number, version
    lateness: list[float] = []
    spans: list[tuple[float, float]] = []  # from the order to the first answer of the new student
    orders = 0
    with reader:
        last, ordered_s, next_order = 0, 0.0, time.monotonic() + 2 * EVERY_S
        wanted = ""
        while len(spans) < swaps:
            now = time.monotonic()
            if now >= next_order and not wanted:
                orders += 1
                wanted, ordered_s, next_order = f"v{orders}", now, now + EVERY_S
                threading.Thread(target=load, args=(wanted,), daemon=True).start()
            if ready:
                live.swap(*ready.pop())
            raw = reader.latest(last, 0.5)
            if raw is None:
                continue
            last = raw.number
            observation = live.answer(reader.convert(raw))
            done = time.monotonic()
            answers.append((done, raw.number, observation.model_version))
            lateness.append(done - raw.monotonic_s)
            if wanted and observation.model_version == wanted:
                spans.append((ordered_s, done))
                wanted = ""
        status = reader.status()
    return summary(answers, spans, lateness, fps, status.frames_decoded)


def summary(
    answers: list[tuple[float, int, str]],
    spans: list[tuple[float, float]],
    lateness: list[float],
    fps: int,
    decoded: int,
) -> dict[str, Any]:
    """Numbers over all answers, gaps in frame periods."""
    times = np.array([a[0] for a in answers])
    numbers = np.array([a[1] for a in answers])
    gaps = np.diff(times) * fps
    missing = np.diff(numbers) - 1

    def worst(start: float, end: float) -> tuple[float, int]:
        touched = (times[1:] >= start) & (times[:-1] <= end)
        return (float(gaps[touched].max()), int(missing[touched].sum())) if touched.any() else (0.0, 0)

    swap = [worst(start, end) for start, end in spans]
    width = float(np.mean([end - start for start, end in spans]))
    quiet = [worst(start - 0.2 - width, start - 0.2)[0] for start, _ in spans]
    swap_gaps = np.array([g for g, _ in swap])
    return {
        "swaps": len(spans),
        "frames_decoded": decoded,
        "frames_answered": len(answers),
        "frames_lost_in_swaps": sum(m for _, m in swap),
        "frames_lost_elsewhere": int(missing.sum()) - sum(m for _, m in swap),
        "longest_gap_in_swaps_periods": float(swap_gaps.max()),
        "gap_in_swaps_periods_quartiles": [float(q) for q in np.percentile(swap_gaps, (25, 50, 75))],
        "longest_gap_without_swap_periods": max(quiet),
        "gap_without_swap_periods_median": float(np.median(quiet)),
        "order_to_new_answer_s_median": float(np.median([end - start for start, end in spans])),
        "answer_delay_ms_median": float(np.median(lateness) * 1000),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--swaps", type=int, default=20)
    parser.add_argument("--fps", type=int, default=10)
    parser.add_argument("--no-load", action="store_true", help="only the quiet machine")
    parser.add_argument("--out", type=Path, default=REPO / "benchmarks" / "results" / "swap.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    cores = len(os.sched_getaffinity(0))
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "junction.mp4"
        make_clip(clip, given.fps)
        for name in ("quiet",) if given.no_load else ("quiet", "under load"):
            context = multiprocessing.get_context("spawn")
            busy = [context.Process(target=retrain_for_ever, args=(folder,), daemon=True) for _ in range(cores)]
            for process in busy if name == "under load" else ():
                process.start()
            if name == "under load":
                time.sleep(8)  # their pictures and first steps
            results[name] = measure(clip, given.swaps, given.fps) | {"load_average": os.getloadavg()[0]}
            for process in busy if name == "under load" else ():
                process.terminate()
                process.join()
    report = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {cores} cores",
        "fps": given.fps,
        "target": {"frames_lost_in_swaps": 0, "longest_gap_in_swaps_periods": 2.0},
        "results": results,
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{'':34}" + "".join(f"{name:>14}" for name in results))
    for key in next(iter(results.values())):
        cells = (results[name][key] for name in results)
        print(f"{key:34}" + "".join(f"{_shown(value):>14}" for value in cells))
    ok = all(r["frames_lost_in_swaps"] == 0 and r["longest_gap_in_swaps_periods"] <= 2.0 for r in results.values())
    print("target (0 frames lost, gap <= 2 periods):", "reached" if ok else "MISSED")
    return 0 if ok else 1


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "/".join(f"{v:.2f}" for v in value)
    return f"{value:.2f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    raise SystemExit(main())
