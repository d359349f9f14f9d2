"""Students of several cameras for `bench_siblings`: trained over some windows with the protocol of `bench_students`,
kept in a folder so that another run is cheap."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bench_students import CLASSES, EXEMPLARS, Run, _Chain, _in_window, _picture
from benchmarks.student_cameras import BenchCamera
from edge.core.configs import WHOLE
from edge.core.labels import LabelledFrame, LabelledWindow
from edge.recording.exemplars import ExemplarMemory
from edge.recording.split import split_interleaved
from edge.students.published import PublishedStudent, read_published
from edge.students.weights import save_student


def window_data(
    camera: BenchCamera, number: int, exemplars: Sequence[LabelledFrame] = (), kept_out: Sequence[LabelledFrame] = ()
) -> LabelledWindow:
    """The labelled window `number` (from 0) of a camera."""
    split = split_interleaved([_in_window(camera.frames[i], number) for i in camera.windows[number]])
    return LabelledWindow(
        camera.name, number, "detection", CLASSES, split.train, split.held_out, tuple(exemplars), tuple(kept_out)
    )


def students_of(
    camera: BenchCamera, download: PublishedStudent, windows: int, seed: int, scratch: Path, cache: Path
) -> list[PublishedStudent]:
    """The camera's student after each of its first `windows` windows, looking at the whole picture (a region that is
    worth it on one camera is none on another)."""
    key = hashlib.sha256(download.content + "".join(f.frame.path.name for f in camera.frames).encode()).hexdigest()[:8]
    files = [cache / f"{camera.name}-seed{seed}-window{n + 1}-{key}.onnx" for n in range(windows)]
    if all(f.is_file() for f in files):
        return [read_published(f) for f in files]
    chain, run = _Chain(download, False), Run(camera.name, seed)
    memory = ExemplarMemory(scratch / f"{camera.name}-{seed}", EXEMPLARS)
    kept_out: list[LabelledFrame] = []
    cache.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(files):
        data = window_data(camera, number, memory.frames(), kept_out)
        if file.is_file():
            chain.student = read_published(file)
        else:
            chain.retrain(data, WHOLE, seed * 100 + number, run, {})
            save_student(file, chain.student)
        memory.update(data.train, download.features([_picture(f) for f in data.train]))
        kept_out += data.held_out
    return [read_published(f) for f in files]
