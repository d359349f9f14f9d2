"""Worker main of one retraining: trains under its share, reports each step's progress, hands over a candidate."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edge.core.box_groups import CameraOfBox
from edge.core.errors import MagpieError
from edge.core.labels import Accuracy
from edge.runtime import messages as m
from edge.runtime.contest import contest_entries
from edge.runtime.device import WorkerShare, open_bucket
from edge.runtime.group_members import MemberInMemory, open_guests, open_members
from edge.runtime.process import Channel, Retire, Stop
from edge.runtime.starts import best_start
from edge.students import load_student
from edge.students.published import SAME, PublishedStudent
from edge.students.weights import AnyStudent, save_student
from edge.training import Retraining
from edge.training.opened import RunningRetraining, open_retraining
from edge.training.published import PublishedExamples, PublishedRetraining, with_best_score
from edge.training.retraining import held_out_accuracy
from scheduler.box_groups import taught_boxes
from scheduler.contenders import Contender, together
from scheduler.groups import group_work

log = logging.getLogger(__name__)

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
        start, begun = best_start(job, parent, download, channel.beat)
        members, guests = open_members(job, begun, channel.beat), open_guests(job, begun, channel.beat)
        teach = [*(one.examples for one in members), *(one.examples for one in guests)]
        run = open_retraining(
            begun, job.data, job.config, job.seed, job.checkpoint,
            download=download, region=job.region, members=teach, work=group_work(len(teach)),
        )  # fmt: skip
    fraction, order = _trained(channel, job, share, run)
    if isinstance(order, Stop | Retire):
        run.keep_checkpoint()
        if isinstance(order, Retire):
            channel.retired()
        return
    if order is not None and not order.keep:
        run.discard_checkpoint()
        channel.send(m.TrainingDropped(job.job))
        return
    job.output.parent.mkdir(parents=True, exist_ok=True)
    with share.batch(stop=channel.beating):
        if isinstance(run, PublishedRetraining):
            for examples in (run.examples, *(one.examples for one in members)):
                examples.breathe = channel.beat
        done = _judged(job, run, parent, download, fraction)
    theirs: list[tuple[str, m.TrainingDone]] = []
    for one in members:  # each in its turn: twelve cameras' pictures at once would take others' shares
        with share.batch(stop=channel.beating):
            theirs += _judged_if_it_can_be(one, job, run, download, fraction)
    visits = round(fraction * run.total_steps) * job.config.batch_size
    done = _handed_over(job, start, done, theirs, [one.camera for one in guests], visits)
    channel.send(replace(done, for_guests=_kept_for_guests(job, run)) if guests else done)
    # Only now: a death before this line goes on from the checkpoint.
    run.discard_checkpoint()


def _trained(
    channel: Channel, job: m.RetrainingJob, share: WorkerShare, run: RunningRetraining
) -> tuple[float, Stop | Retire | m.FinishNow | None]:
    """Train until the end, or until an order ends it: the part of the steps done (0-1), and that order."""
    held_out: float | None = None
    fraction = 0.0
    last = 0.0
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
        if isinstance(order, Stop | Retire | m.FinishNow):
            return fraction, order
        if job.finish:
            return fraction, m.FinishNow(keep=True)
    return fraction, None


def _handed_over(
    job: m.RetrainingJob,
    start: str,
    done: m.TrainingDone,
    theirs: Sequence[tuple[str, m.TrainingDone]],
    guests: Sequence[CameraOfBox],
    visits: int,
) -> m.TrainingDone:
    """The candidate with those of its members; each says what it began as and whom it was taught with."""
    cameras = (job.camera, *(camera for camera, _ in theirs))
    of_others = tuple(one.name for one in guests)
    boxes = taught_boxes(guests)
    group = together([one.contenders for one in (done, *(one for _, one in theirs))]) if theirs else ()
    parents = {one.camera: one.parent.version for one in job.members} | {job.camera: job.parent.version}

    def described(camera: str, one: m.TrainingDone) -> m.TrainingDone:
        others = tuple(c for c in cameras if c != camera) + of_others
        begun = "" if start == parents[camera] else start
        return replace(one, start=begun, taught_with=others, group=group, boxes=boxes)

    done = replace(described(job.camera, done), visits=visits if theirs or guests else 0, guests=tuple(guests))
    return replace(done, members=tuple((camera, described(camera, one)) for camera, one in theirs))


def _kept_for_guests(job: m.RetrainingJob, run: RunningRetraining) -> Path | None:
    """The student on disk for the boxes of the guests, each of which judges it; None: it could not be written."""
    path = job.output.with_name(f"{job.output.stem}-guests{job.output.suffix}")
    try:
        save_student(path, run.result())
    except MagpieError as error:
        log.warning("%s: no student for the guests of the group: %s", job.camera, error)
        return None
    return path


def _judged(
    job: m.RetrainingJob, run: RunningRetraining, parent: AnyStudent, download: AnyStudent | None, fraction: float
) -> m.TrainingDone:
    """The candidate on disk, judged beside its parent, and beside the download where it began as one."""
    device_s = run.cpu_seconds / job.cores
    candidate = run.held_out()
    if isinstance(run, Retraining):
        assert not isinstance(parent, PublishedStudent)
        student = run.result()
        before = held_out_accuracy(parent, run.cache, job.config)
        save_student(job.output, student)
        return m.TrainingDone(
            job.job, job.output, candidate, before, device_s, fraction, run.train_frames, student.spec
        )
    assert isinstance(run, PublishedRetraining)
    assert isinstance(parent, PublishedStudent)
    run.check_answers(SAME)
    contenders, before, back = compared(run.result(), parent, download, run.examples, job.output)
    return m.TrainingDone(
        job.job,
        job.output,
        candidate,
        before,
        device_s,
        fraction,
        run.train_frames,
        run.result().spec,
        contenders,
        back,
    )


def _judged_if_it_can_be(
    member: MemberInMemory,
    job: m.RetrainingJob,
    run: RunningRetraining,
    download: AnyStudent | None,
    fraction: float,
) -> list[tuple[str, m.TrainingDone]]:
    """A member's result, or nothing where it cannot be judged: that loses no other's."""
    if not isinstance(run, PublishedRetraining):
        return []
    try:
        return [(member.camera, _judged_member(member, job, run, download, fraction))]
    except (MagpieError, OSError) as error:
        log.warning("%s: not judged with the group of %s: %s", member.camera, job.camera, error)
        return []


def _judged_member(
    member: MemberInMemory, job: m.RetrainingJob, run: PublishedRetraining, download: AnyStudent | None, fraction: float
) -> m.TrainingDone:
    """The group's candidate with the least score that is best for another camera, judged on that camera's pictures. The
    seconds are the leader's alone."""
    student, candidate = with_best_score(run.result().copy(), member.examples)
    contenders, before, back = compared(student, member.parent, download, member.examples, member.output)
    return m.TrainingDone(
        job.job, member.output, candidate, before, 0.0, fraction, run.train_frames, student.spec, contenders, back
    )


def compared(
    student: PublishedStudent,
    parent: PublishedStudent,
    download: AnyStudent | None,
    examples: PublishedExamples,
    output: Path,
) -> tuple[tuple[Contender, ...], Accuracy, Path | None]:
    """`student` on disk; the correct answers of it, its parent and the download on a camera's held-out pictures, the
    parent's accuracy, and the download's file with its best least score.
    """
    entries = contest_entries(student, parent, download, examples)
    back = None
    if entries.download is not None:
        back = output.with_name(f"{output.stem}-download{output.suffix}")
        save_student(back, entries.download)
    save_student(output, student)
    return entries.contenders, entries.before, back
