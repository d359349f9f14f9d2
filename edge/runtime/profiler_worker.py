"""Worker main of evaluation, micro-profiling and exemplars: one job at a time, under its share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from edge.core.accuracy import accuracy, realised
from edge.core.configs import RetrainingConfig
from edge.core.errors import MagpieError
from edge.core.labels import Accuracy, LabelledFrame
from edge.core.trials import TrialResult
from edge.core.vision import Detections
from edge.recording.exemplars import ExemplarMemory
from edge.runtime import messages as m
from edge.runtime.device import WorkerShare, open_bucket
from edge.runtime.process import Channel, Retire, Stop
from edge.students import Student, load_student
from edge.training import Trials
from edge.training.pictures import read_frame, read_picture
from golden.quality import label_quality
from microprofiler.history import ProfilerHistory
from microprofiler.profile import ProfilerSettings, WindowSize, micro_profile

_BATCH = 4


def profiler_worker(channel: Channel, cores: float) -> None:
    """Takes m.Evaluate, m.Profile and m.Remember; answers each with its result or m.JobFailed."""
    share = open_bucket()
    work: dict[type, Callable[[Any, WorkerShare, Channel], Any]] = {
        m.Evaluate: _evaluate,
        m.Profile: _profile,
        m.Remember: _remember,
    }
    channel.ready()
    while True:
        channel.beat()
        job = channel.receive(0.25)
        if isinstance(job, Stop):
            return
        if isinstance(job, Retire):  # the job in hand is done
            channel.retired()
            return
        if job is None or type(job) not in work:
            continue
        try:
            channel.send(work[type(job)](job, share, channel))
        except MagpieError as error:
            channel.send(m.JobFailed(job.data.camera, job.data.window, type(job).__name__.lower(), str(error)))


def _evaluate(job: m.Evaluate, share: WorkerShare, channel: Channel) -> m.Evaluated:
    data = job.data
    frames = data.all_sampled
    classes = len(data.classes)
    live = tuple(f for f in frames if f.frame.answer_version == job.current.version)
    measured: dict[str, Accuracy | None] = {}
    measured["realised"] = realised(data.task, frames, classes) if frames else None
    wanted: list[tuple[str, m.Student | None, tuple[LabelledFrame, ...]]] = [("frozen", job.frozen, frames)]
    if job.parent is not None and live:
        wanted += [("current_live", job.current, live), ("parent_live", job.parent, live)]
    for name, student, on in wanted:
        measured[name] = None
        if student is not None and on:
            measured[name] = _in_shadow(load_student(student.path, share.device).for_inference(), on, share, channel)
    counts = Counter(data.classes[int(c)] for f in frames for c in f.labels.classes)
    return m.Evaluated(
        camera=data.camera,
        window=data.window,
        version=job.current.version,
        realised=measured["realised"],
        frozen=measured["frozen"],
        current_live=measured.get("current_live"),
        parent_live=measured.get("parent_live"),
        quality=label_quality(frames),
        class_counts=dict(counts),
    )


def _in_shadow(student: Student, frames: tuple[LabelledFrame, ...], share: WorkerShare, channel: Channel) -> Accuracy:
    """What another student would have answered at the same instants. Detection: fresh answers on the same pictures.
    Classification: the same cut-outs as were answered live, named by that student. A stale answer is
    met with the picture that it was about, so that both stand-ins are equally old."""
    pairs = []
    for start in range(0, len(frames), _BATCH):
        part = frames[start : start + _BATCH]
        channel.beat()
        with share.batch(stop=channel.beating):
            pictures = [_answered_picture(f) for f in part]
            seen = [(f, p) for f, p in zip(part, pictures, strict=True) if p is not None]
            if not seen:
                continue
            if student.spec.task == "detection":
                answers = student.detect([p for _, p in seen])
            else:
                answers = [_named(student, f, p) for f, p in seen]
        pairs += [(a, f.labels) for a, (f, _) in zip(answers, seen, strict=True)]
    return accuracy(student.spec.task, pairs, len(student.spec.classes))


def _answered_picture(frame: LabelledFrame) -> Any:
    """The picture that the live answer was about (an earlier one, where the answer was stale)."""
    return read_picture(frame.frame.answered_path) if frame.frame.answered_path.is_file() else read_frame(frame)


def _named(student: Student, frame: LabelledFrame, picture: Any) -> Detections:
    boxes = frame.frame.answer.boxes
    names, scores = student.name(picture, boxes)
    return Detections(boxes, scores, names)


class _Paced:
    """The trials, each under the worker's share."""

    def __init__(self, trials: Trials, share: WorkerShare, channel: Channel) -> None:
        self._trials, self._share, self._channel = trials, share, channel

    def run(self, config: RetrainingConfig, data_fraction: float, epochs: int, seed: int) -> TrialResult:
        self._channel.beat()
        with self._share.batch(stop=self._channel.beating):
            return self._trials.run(config, data_fraction, epochs, seed)


def _profile(job: m.Profile, share: WorkerShare, channel: Channel) -> m.ProfileDone:
    history = ProfilerHistory() if job.history is None else ProfilerHistory.from_json(job.history)
    with share.batch(stop=channel.beating):
        trials = Trials(load_student(job.student.path, share.device), job.data, job.cores)
        start = trials.start_accuracy()
    # Windows of a few dozen frames: the thesis' tenth of them would not hold every class, so at least 12.
    settings = ProfilerSettings(min_frames=12, max_gpu_seconds=job.budget_s)
    # A retraining is one thread: beyond one core a larger share brings nothing.
    one_core = min(1.0, 1.0 / job.cores)
    throughput = ((one_core, one_core), (1.0, one_core)) if one_core < 1.0 else ((1.0, 1.0),)
    done = micro_profile(
        WindowSize.of(job.data),
        job.space,
        _Paced(trials, share, channel),
        settings,
        history,
        seed=job.seed,
        start_accuracy=start,
        throughput=throughput,
    )
    return m.ProfileDone(
        job.data.camera,
        job.data.window,
        done.profiles,
        done.start_accuracy,
        done.gpu_seconds + trials.load_seconds,
        done.history.to_json(),
        dict(done.pruned),
        done.complaint,
    )


def _remember(job: m.Remember, share: WorkerShare, channel: Channel) -> m.Remembered:
    student = load_student(job.student.path, share.device)
    frames, features = [], []
    for start in range(0, len(job.data.train), _BATCH):
        part = job.data.train[start : start + _BATCH]
        channel.beat()
        with share.batch(stop=channel.beating):
            pictures = [read_frame(f) for f in part]
            seen = [(f, p) for f, p in zip(part, pictures, strict=True) if p is not None]
            if seen:
                frames += [f for f, _ in seen]
                features.append(student.features([p for _, p in seen]))
    memory = ExemplarMemory(job.root, job.max_frames)
    kept = memory.update(tuple(frames), np.concatenate(features)) if frames else memory.frames()
    return m.Remembered(job.data.camera, job.data.window, len(kept))
