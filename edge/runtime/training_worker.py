"""Worker main of one retraining: trains under its share, reports each step's progress, hands over a candidate."""

from __future__ import annotations

import time
from dataclasses import replace

from edge.runtime import messages as m
from edge.runtime.device import open_bucket
from edge.runtime.process import Channel, Retire, Stop
from edge.runtime.starts import best_start
from edge.students import load_student
from edge.students.published import SAME, PublishedStudent
from edge.students.weights import AnyStudent, save_student
from edge.training import Retraining
from edge.training.opened import RunningRetraining, open_retraining
from edge.training.published import PublishedRetraining, frame_counts, with_best_score
from edge.training.retraining import held_out_accuracy
from scheduler.contenders import Contender

#: Progress goes out at most so often, in seconds.
_REPORT_S = 0.5


def training_worker(channel: Channel, job: m.RetrainingJob) -> None:
    """Runs `job`; a restart goes on from the last checkpoint: of the last epoch, or of the order to stop or retire."""
    share = open_bucket()
    channel.beat()
    parent = load_student(job.parent.path, share.device)
    job.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    with share.batch(stop=channel.beating):
        download = None if job.download is None else load_student(job.download.path, share.device)
        start, begun = best_start(job, parent, download)
        run = open_retraining(
            begun, job.data, job.config, job.seed, job.checkpoint, download=download, region=job.region
        )
    held_out: float | None = None
    fraction = 0.0
    last = 0.0
    keep = True
    for progress in run.steps():
        share.pace(stop=channel.beating)
        channel.beat()
        fraction = progress.step / max(1, progress.total_steps)
        if progress.held_out is not None:
            held_out = progress.held_out
        now = time.monotonic()
        if now - last >= _REPORT_S or progress.epoch_over:
            last = now
            channel.send(
                m.TrainingProgress(
                    job.job,
                    progress.cpu_seconds / job.cores,
                    fraction,
                    progress.epoch,
                    progress.loss,
                    held_out,
                    run.resumed,
                )
            )
        order = channel.receive()
        if isinstance(order, Stop | Retire):
            run.keep_checkpoint()
            if isinstance(order, Retire):
                channel.retired()
            return
        if isinstance(order, m.FinishNow):
            keep = order.keep
            break
    if not keep:
        run.discard_checkpoint()
        channel.send(m.TrainingDropped(job.job))
        return
    job.output.parent.mkdir(parents=True, exist_ok=True)
    with share.batch(stop=channel.beating):
        if isinstance(run, PublishedRetraining):
            run.examples.breathe = channel.beat
        done = _judged(job, run, parent, download, fraction)
    if start != job.parent.version:
        done = replace(done, start=start)
    channel.send(done)
    # Only now: a death before this line goes on from the checkpoint.
    run.discard_checkpoint()


def _judged(
    job: m.RetrainingJob, run: RunningRetraining, parent: AnyStudent, download: AnyStudent | None, fraction: float
) -> m.TrainingDone:
    """The candidate on disk, judged beside its parent, and beside the download where it began as one."""
    student, candidate = run.result(), run.held_out()
    contenders: list[Contender] = []
    back = None
    if isinstance(run, Retraining):
        assert not isinstance(parent, PublishedStudent)
        before = held_out_accuracy(parent, run.cache, job.config)
    else:
        assert isinstance(run, PublishedRetraining)
        assert isinstance(student, PublishedStudent)
        assert isinstance(parent, PublishedStudent)
        run.check_answers(SAME)
        own, before = with_best_score(parent.copy(), run.examples)
        latest = len(run.examples.held_out_frames)
        contenders = [
            Contender("new", frame_counts(student, run.examples), latest),
            Contender("in_force", frame_counts(own, run.examples), latest),
        ]
        if isinstance(download, PublishedStudent) and download.content != parent.content:
            best, _ = with_best_score(download, run.examples)
            contenders.append(Contender("download", frame_counts(best, run.examples), latest))
            back = job.output.with_name(f"{job.output.stem}-download{job.output.suffix}")
            save_student(back, best)
    save_student(job.output, student)
    return m.TrainingDone(
        job.job, job.output, candidate, before, run.cpu_seconds / job.cores, fraction, run.train_frames, student.spec,
        tuple(contenders), back,
    )  # fmt: skip
