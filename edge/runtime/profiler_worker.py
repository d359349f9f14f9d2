"""Worker main of evaluation, micro-profiling and exemplars: one job at a time, under its share."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from edge.core.accuracy import Pair, accuracy, realised
from edge.core.baseline import Baseline, RegionRecord, ScoreCounts
from edge.core.camera_look import CameraLook
from edge.core.configs import WHOLE, InferenceConfig, Region, RetrainingConfig
from edge.core.errors import MagpieError
from edge.core.labels import Accuracy, LabelledFrame
from edge.core.memory import give_back
from edge.core.shadow import stood_in
from edge.core.thresholds import LOWEST, best_score
from edge.core.trials import TrialResult, TrialRunner
from edge.core.vision import Detections
from edge.detectors.pictures import read_picture
from edge.recording.remembering import remember
from edge.runtime import messages as m
from edge.runtime.device import WorkerShare, open_bucket
from edge.runtime.judge_candidate import judge_candidate
from edge.runtime.looking import look, look_at
from edge.runtime.process import Channel, Retire, Stop
from edge.students import load_student
from edge.students.published import PublishedStudent
from edge.students.weights import AnyStudent
from edge.training import Trials
from edge.training.pictures import read_frame
from edge.training.published import PublishedExamples, judged
from edge.training.published_trials import PublishedTrials
from golden.quality import label_quality
from microprofiler.history import ProfilerHistory
from microprofiler.profile import ProfilerSettings, WindowSize, micro_profile
from scheduler.regions import learned_region

_BATCH = 4


def profiler_worker(channel: Channel, cores: float) -> None:
    """Takes m.Evaluate, m.Profile, m.Remember, m.Look and m.JudgeCandidate; answers each with its result or
    m.JobFailed. m.HandInProfile ends an m.Profile early, with what it has."""
    share = open_bucket()
    orders = _Orders(channel)
    work: dict[type, Callable[[Any, WorkerShare, Channel], Any]] = {
        m.Evaluate: _evaluate,
        m.Profile: lambda job, own, to: profile_camera(job, own, to, partial(orders.handed_in, job)),
        m.Remember: _remember,
        m.Look: look,
        m.JudgeCandidate: judge_candidate,
    }
    channel.ready()
    while True:
        channel.beat()
        job = orders.next(0.25)
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
        give_back()


class _Orders:
    """The channel's commands; those that come while a profile is made wait, but for those that end it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._waiting: deque[Any] = deque()
        self._wanted: m.HandInProfile | None = None

    def next(self, timeout_s: float) -> Any | None:
        """The next command other than m.HandInProfile, or None."""
        order = self._waiting.popleft() if self._waiting else self._channel.receive(timeout_s)
        return None if isinstance(order, m.HandInProfile) else order

    def handed_in(self, job: m.Profile) -> bool:
        """True once `job` shall be handed in, or the worker shall end."""
        while (order := self._channel.receive()) is not None:
            if isinstance(order, m.HandInProfile):
                self._wanted = order
            else:
                self._waiting.append(order)
        wanted = self._wanted
        if wanted is not None and (wanted.camera, wanted.window) == (job.data.camera, job.data.window):
            return True
        return any(isinstance(order, Stop | Retire) for order in self._waiting)


def _evaluate(job: m.Evaluate, share: WorkerShare, channel: Channel) -> m.Evaluated:
    data, began = job.data, share.worked_s()
    frames = data.all_sampled
    classes = len(data.classes)
    live = tuple(f for f in frames if f.frame.answer_version == job.current.version)
    measured: dict[str, Accuracy | None] = {}
    measured["realised"] = realised(data.task, frames, classes) if frames else None
    shadow = _download(job, frames, share, channel)
    baseline, score = _in_force(job, shadow.baseline, frames, share, channel)
    wanted: list[tuple[str, m.StudentFile | None, tuple[LabelledFrame, ...]]] = []
    if shadow.frozen is None:
        wanted += [("frozen", job.frozen, frames)]
    if job.parent is not None and live:
        wanted += [("current_live", job.current, live), ("parent_live", job.parent, live)]
    for name, student, on in wanted:
        measured[name] = None
        if student is not None and on:
            other = load_student(student.path, share.device).for_inference(len(on))
            measured[name] = _in_shadow(other, on, share, channel, job.inference)
    counts = Counter(data.classes[int(c)] for f in frames for c in f.labels.classes)
    return m.Evaluated(
        camera=data.camera,
        window=data.window,
        version=job.current.version,
        realised=measured["realised"],
        frozen=shadow.frozen or measured.get("frozen"),
        current_live=measured.get("current_live"),
        parent_live=measured.get("parent_live"),
        download=shadow.download,
        download_whole=shadow.whole,
        baseline=baseline,
        score=score,
        looked=job.inference,
        look=_look(job, share, channel),
        quality=label_quality(frames),
        class_counts=dict(counts),
        frames=len(frames),
        seconds=(share.worked_s() - began) / job.cores,
    )


class _Shadow(NamedTuple):
    """The download in shadow: `frozen` at the least score that it was published with, `download` at its best past one,
    both looking as the student in force does, their stale answers going on as that one's do; `whole` left alone: at the
    whole picture, its stale answers as they were. None: the student did not begin as a download, or no frames."""

    frozen: Accuracy | None = None
    download: Accuracy | None = None
    whole: Accuracy | None = None
    baseline: Baseline | None = None


def _download(job: m.Evaluate, frames: tuple[LabelledFrame, ...], share: WorkerShare, channel: Channel) -> _Shadow:
    """The download in shadow, and this window's findings about it: which least score is best, and whether a part of the
    picture is worth more than the whole."""
    if job.baseline is None or job.frozen is None or not frames:
        return _Shadow(baseline=job.baseline)
    student = load_student(job.frozen.path, share.device)
    if not isinstance(student, PublishedStudent):
        return _Shadow()
    look = job.inference or InferenceConfig(1.0)
    classes = len(student.spec.classes)
    looked = _answers(student, frames, share, channel, look, LOWEST)
    pairs = _stood_in(looked)
    frozen = judged(pairs, student.score, classes)
    shown = judged(pairs, job.baseline.score(look.region, student.score), classes)
    if look.region != WHOLE:
        looked = _answers(student, frames, share, channel, replace(look, region=WHOLE), LOWEST)
    alone = [(answer, f.labels) for f, answer in looked]
    whole = judged(alone, job.baseline.score(WHOLE, student.score), classes)
    record = job.baseline.download
    region = _learned_region(job, frames) if job.learn_region else look.region
    if not job.learn_region and record.region != region:
        record = replace(record, part=ScoreCounts())
    part = None
    if region != WHOLE:
        part = pairs if look.region == region else None
        part = part or _stood_in(_answers(student, frames, share, channel, replace(look, region=region), LOWEST))
    record = record.after(_stood_in(looked), part, region)
    return _Shadow(frozen, shown, whole, replace(job.baseline, download=record))


def _learned_region(job: m.Evaluate, frames: tuple[LabelledFrame, ...]) -> Region:
    past = (*frames, *job.data.exemplars, *job.data.kept_out)
    return learned_region(np.concatenate([f.labels.boxes for f in past]), job.places)


def _in_force(
    job: m.Evaluate,
    baseline: Baseline | None,
    frames: tuple[LabelledFrame, ...],
    share: WorkerShare,
    channel: Channel,
) -> tuple[Baseline | None, float | None]:
    """The student in force on frames that it was not trained on: its record on the whole picture and on the region,
    where it was retrained (it may see in the whole what the download sees in the part alone); and its best least score.
    """
    if baseline is None:
        return None, None
    student = load_student(job.current.path, share.device)
    if not isinstance(student, PublishedStudent):
        return baseline, None
    look = job.inference or InferenceConfig(1.0)
    known: dict[Region, list[Pair]] = {}

    def at(region: Region) -> list[Pair]:
        if region not in known:
            there = replace(look, region=region)
            known[region] = _stood_in(_answers(student, frames, share, channel, there, LOWEST))
        return known[region]

    if frames and job.learn_region and student.retrained:
        region = baseline.download.region
        record = (baseline.student or RegionRecord()).after(at(WHOLE), None if region == WHOLE else at(region), region)
        baseline = replace(baseline, student=record)
    if job.frozen is None:
        return baseline, None
    if job.current.version == job.frozen.version:
        return baseline, baseline.score(look.region, student.usual_score)
    kept_out = _stood_in(_answers(student, job.data.kept_out, share, channel, look, LOWEST))
    return baseline, best_score([*at(look.region), *kept_out], student.usual_score)


def _look(job: m.Evaluate, share: WorkerShare, channel: Channel) -> CameraLook | None:
    """How the camera looked in this window; of students that began as a published detector alone."""
    if job.baseline is None or job.frozen is None:
        return None
    return look_at(job.frozen, [f.frame.path for f in job.data.all_sampled], share, channel)


def _in_shadow(
    student: AnyStudent,
    frames: tuple[LabelledFrame, ...],
    share: WorkerShare,
    channel: Channel,
    look: InferenceConfig | None = None,
) -> Accuracy:
    """Accuracy of what another student would have answered at the same instants."""
    pairs = _stood_in(_answers(student, frames, share, channel, look or InferenceConfig(1.0), None))
    return accuracy(student.spec.task, pairs, len(student.spec.classes))


def _answers(
    student: AnyStudent,
    frames: tuple[LabelledFrame, ...],
    share: WorkerShare,
    channel: Channel,
    look: InferenceConfig,
    score: float | None,
) -> list[tuple[LabelledFrame, Detections]]:
    """The frames and what another student answered at the same instants. Detection: fresh answers on the same pictures.
    Classification: the same cut-outs as were answered live, named by that student. A stale answer is
    met with the picture that it was about, so that both are equally old."""
    out: list[tuple[LabelledFrame, Detections]] = []
    for start in range(0, len(frames), _BATCH):
        part = frames[start : start + _BATCH]
        channel.beat()
        with share.batch(stop=channel.beating):
            pictures = [_answered_picture(f) for f in part]
            seen = [(f, p) for f, p in zip(part, pictures, strict=True) if p is not None]
            if not seen:
                continue
            if student.spec.task == "detection":
                answers = student.detect([p for _, p in seen], look.resolution, score, look.region, look.shape)
            else:
                answers = [_named(student, f, p) for f, p in seen]
        out += [(f, a) for a, (f, _) in zip(answers, seen, strict=True)]
    return out


def _stood_in(answers: Sequence[tuple[LabelledFrame, Detections]]) -> list[Pair]:
    """The answers that would have stood in at each instant, beside the labels: stale ones go on as the live one's."""
    return [(stood_in(answer, frame.frame), frame.labels) for frame, answer in answers]


def _answered_picture(frame: LabelledFrame) -> Any:
    """The picture that the live answer was about (an earlier one, where the answer was stale)."""
    return read_picture(frame.frame.answered_path) if frame.frame.answered_path.is_file() else read_frame(frame)


def _named(student: AnyStudent, frame: LabelledFrame, picture: Any) -> Detections:
    boxes = frame.frame.answer.boxes
    names, scores = student.name(picture, boxes)
    return Detections(boxes, scores, names)


class _Paced:
    """The trials, each under the worker's share."""

    def __init__(
        self, trials: TrialRunner, share: WorkerShare, channel: Channel, handed_in: Callable[[], bool]
    ) -> None:
        self._trials, self._share, self._channel, self._handed_in = trials, share, channel, handed_in

    def run(self, config: RetrainingConfig, data_fraction: float, epochs: int, seed: int) -> TrialResult | None:
        with self._share.batch(stop=lambda: self._channel.beating() or self._handed_in()) as go:
            return self._trials.run(config, data_fraction, epochs, seed) if go else None


def _trials(job: m.Profile, share: WorkerShare, handed_in: Callable[[], bool]) -> Trials | PublishedTrials:
    parent = load_student(job.student.path, share.device)
    if not isinstance(parent, PublishedStudent):
        return Trials(parent, job.data, job.cores, handed_in=handed_in)
    download = None if job.download is None else load_student(job.download.path, share.device)
    kept = download if isinstance(download, PublishedStudent) else None
    examples = PublishedExamples(job.data, parent, job.region)
    return PublishedTrials(parent, examples, job.cores, kept, handed_in=handed_in)


def profile_camera(
    job: m.Profile, share: WorkerShare, channel: Channel, handed_in: Callable[[], bool]
) -> m.ProfileDone:
    """A camera's micro-profile; with what there is, once `handed_in`."""
    history = ProfilerHistory() if job.history is None else ProfilerHistory.from_json(job.history)

    def between_epochs() -> bool:
        channel.beat()
        return handed_in()

    with share.batch(stop=lambda: channel.beating() or handed_in()):
        began = share.used_s()
        trials = _trials(job, share, between_epochs)
        start = trials.start_accuracy()
        setup_s = (share.used_s() - began) / job.cores
    # Windows of a few dozen frames: the thesis' tenth of them would not hold every class, so at least 12.
    settings = ProfilerSettings(min_frames=12, max_device_seconds=job.budget_s)
    # A retraining is one thread: beyond one core a larger share brings nothing.
    one_core = min(1.0, 1.0 / job.cores)
    throughput = ((one_core, one_core), (1.0, one_core)) if one_core < 1.0 else ((1.0, 1.0),)
    done = micro_profile(
        WindowSize.of(job.data),
        job.space,
        _Paced(trials, share, channel, handed_in),
        settings,
        history,
        seed=job.seed,
        start_accuracy=start,
        throughput=throughput,
        handed_in=handed_in,
    )
    return m.ProfileDone(
        job.data.camera,
        job.data.window,
        done.profiles + done.untried,
        done.start_accuracy,
        done.device_seconds + setup_s,
        done.history.to_json(),
        dict(done.pruned),
        done.complaint,
        len(done.trials),
        setup_s,
        handed_in(),
        version=job.student.version,
        score=trials.start_score if isinstance(trials, PublishedTrials) else None,
    )


def _remember(job: m.Remember, share: WorkerShare, channel: Channel) -> m.Remembered:
    began = share.worked_s()
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
    kept = remember(job.folders, job.data, frames, np.concatenate(features) if frames else np.zeros((0, 0)))
    seconds = (share.worked_s() - began) / job.cores
    return m.Remembered(job.data.camera, job.data.window, kept, seconds)
