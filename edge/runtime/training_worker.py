"""Worker main of one retraining: trains under its share, reports each step's progress, hands over a candidate."""

from __future__ import annotations

import time

from edge.core.configs import StudentSpec
from edge.runtime import messages as m
from edge.runtime.device import open_bucket
from edge.runtime.process import Channel, Retire, Stop
from edge.students import load_student, save_weights
from edge.training import Retraining
from edge.training.retraining import held_out_accuracy

#: Progress goes out at most so often, in seconds.
_REPORT_S = 0.5


def training_worker(channel: Channel, job: m.RetrainingJob) -> None:
    """Runs `job`; a restart goes on from the last checkpoint: of the last epoch, or of the order to stop or retire."""
    share = open_bucket()
    channel.beat()
    parent = load_student(job.parent.path, share.device)
    job.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    with share.batch(stop=channel.beating):
        run = Retraining(parent, job.data, job.config, job.seed, job.checkpoint)
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
    with share.batch(stop=channel.beating):
        student = run.result()
        candidate = run.held_out()
        before = held_out_accuracy(parent, run.cache, job.config)
    spec: StudentSpec = student.spec
    job.output.parent.mkdir(parents=True, exist_ok=True)
    save_weights(job.output, student.module, spec, student.info)
    channel.send(
        m.TrainingDone(
            job.job, job.output, candidate, before, run.cpu_seconds / job.cores, fraction, run.train_frames, spec
        )
    )
    # Only now: a death before this line goes on from the checkpoint.
    run.discard_checkpoint()
