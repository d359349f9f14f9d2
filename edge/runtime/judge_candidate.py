"""A candidate that another box trained, judged here: nothing that the lender says of it counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from edge.core.errors import WeightsError
from edge.runtime import messages as m
from edge.runtime.device import WorkerShare
from edge.runtime.process import Channel
from edge.runtime.training_worker import compared
from edge.students import load_student
from edge.students.published import PublishedStudent
from edge.students.weights import AnyStudent, save_student
from edge.training.evaluation import evaluate
from edge.training.published import PublishedExamples, with_best_score

_TRAINED: Final = 4


def judge_candidate(asked: m.JudgeCandidate, share: WorkerShare, channel: Channel) -> m.TrainingDone:
    """As a retraining here would end: the candidate on disk, and held-out accuracies of it and of its parent. Raises
    WeightsError for a file that is no student of this camera, LabelError where nothing can be judged on."""
    job = asked.job
    with share.batch(stop=channel.beating):
        student, parent = load_student(asked.candidate, share.device), load_student(job.parent.path, share.device)
        _check_kind(student, parent)
        if isinstance(student, PublishedStudent) and isinstance(parent, PublishedStudent):
            download = None if job.download is None else load_student(job.download.path, share.device)
            # Nothing is trained here: a few pictures stand for those that were.
            data = replace(job.data, train=job.data.train[:_TRAINED], exemplars=job.data.exemplars[:_TRAINED])
            examples = PublishedExamples(data, parent, job.region)
            examples.breathe = channel.beat
            student, candidate = with_best_score(student, examples)
            contenders, before, back = compared(student, parent, download, examples, job.output)
            return m.TrainingDone(
                job.job, job.output, candidate, before, asked.device_seconds, asked.fraction, asked.train_frames,
                student.spec, contenders, back, trained_on=asked.box,
            )  # fmt: skip
        candidate = evaluate(student, job.data.held_out)
        channel.beat()
        before = evaluate(parent, job.data.held_out)
        save_student(job.output, student)
        return m.TrainingDone(
            job.job, job.output, candidate, before, asked.device_seconds, asked.fraction, asked.train_frames,
            student.spec, trained_on=asked.box,
        )  # fmt: skip


def _check_kind(student: AnyStudent, parent: AnyStudent) -> None:
    """A retraining changes weights, and the width of the last layer at most."""
    ours, theirs = parent.spec, student.spec
    same = (ours.task, ours.architecture, ours.classes, ours.input_size, ours.width, ours.detector)
    if same != (theirs.task, theirs.architecture, theirs.classes, theirs.input_size, theirs.width, theirs.detector):
        raise WeightsError(f"the candidate is of another kind ({theirs.name}) than the student in force ({ours.name})")
