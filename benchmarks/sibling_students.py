"""Students of several cameras for `bench_siblings`: trained over some windows with the protocol of `bench_students`,
kept in a folder so that another run is cheap."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bench_students import CLASSES, EXEMPLARS, VISITS, Run, _Chain, _in_window, _picture
from benchmarks.student_cameras import BenchCamera
from edge.core.configs import WHOLE, RetrainingConfig
from edge.core.labels import LabelledFrame, LabelledWindow
from edge.recording.exemplars import ExemplarMemory
from edge.recording.split import split_interleaved
from edge.students.published import PublishedStudent, read_published
from edge.students.weights import save_student
from edge.training.published import PublishedExamples, PublishedRetraining, with_best_score
from scheduler.groups import group_work


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


def retrained(
    start: PublishedStudent,
    data: Sequence[LabelledWindow],
    download: PublishedStudent,
    visits: float,
    seed: int,
) -> tuple[list[PublishedStudent], float]:
    """One retraining on all windows of `data` (a camera each): the student with each camera's least score; CPU s."""
    began = time.process_time()
    examples = [PublishedExamples(d, start) for d in data]
    examples[0].join(examples[1:])
    epochs = max(1, round(visits / len(examples[0].train_frames)))
    config = RetrainingConfig(epochs, 4, "all", 1.0, 1e-3)
    run = PublishedRetraining(start, examples[0], config, seed, download=download, held_out_every=0)
    student = run.run()
    spent = time.process_time() - began
    return [student, *(with_best_score(student.copy(), e)[0] for e in examples[1:])], spent


def group_students(
    cameras: Sequence[BenchCamera], download: PublishedStudent, seed: int, cache: Path
) -> dict[str, PublishedStudent]:
    """Each camera's student after the first window, on which the group was retrained as one."""
    names = "+".join(c.name for c in cameras)
    pictures = "".join(f.frame.path.name for c in cameras for f in c.frames)
    key = hashlib.sha256(download.content + pictures.encode()).hexdigest()[:8]
    files = {c.name: cache / f"group-{names}-{c.name}-seed{seed}-{key}.onnx" for c in cameras}
    if not all(f.is_file() for f in files.values()):
        data = [window_data(c, 0) for c in cameras]
        students, _ = retrained(download, data, download, VISITS * group_work(len(cameras) - 1), seed)
        cache.mkdir(parents=True, exist_ok=True)
        for camera, student in zip(cameras, students, strict=True):
            save_student(files[camera.name], student)
    return {name: read_published(f) for name, f in files.items()}
