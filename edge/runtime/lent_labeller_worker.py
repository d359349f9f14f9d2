"""Worker main of labels for another box: pictures of one camera, under its share, then it ends."""

from __future__ import annotations

import time
from typing import Final

from edge.core.errors import MagpieError
from edge.core.labels import TeacherAnswer
from edge.detectors.classes import ClassMap
from edge.detectors.pictures import read_picture
from edge.runtime import messages as m
from edge.runtime.device import WorkerShare, host_threads, open_bucket
from edge.runtime.order_to_end import OrderToEnd
from edge.runtime.process import Channel, Retire
from golden.labelling import Labeller
from golden.spec import read_teacher
from golden.teacher import open_teacher

#: It reports its progress no more often than this, in seconds.
_PROGRESS_EVERY_S: Final = 1.0


def lent_labeller(channel: Channel, asked: m.LentLabel) -> None:
    """Answers with m.LentLabelDone or m.LentWorkFailed; an order to end ends it without an answer. One that is started
    again begins anew."""
    share = open_bucket()
    channel.beat()
    if asked.hand_in_s <= 0.0:  # its turn came too late
        channel.send(m.LentLabelDone(asked.job, {}, 0.0, 0.0))
        return
    began_s, ended, used_s = time.monotonic(), OrderToEnd(channel), share.worked_s()
    try:
        labeller = _opened(channel, asked, share)
    except MagpieError as error:
        channel.send(m.LentWorkFailed(asked.job, str(error)))
        return
    open_s, sent_s = share.worked_s() - used_s, began_s
    found: dict[str, TeacherAnswer] = {}
    for number, (digest, path) in enumerate(asked.pictures.items()):
        now_s = time.monotonic()
        if ended.look() or now_s - began_s >= asked.hand_in_s:
            break
        if now_s - sent_s >= _PROGRESS_EVERY_S:
            sent_s = now_s
            channel.send(m.LentLabelProgress(asked.job, share.worked_s() - used_s, number / len(asked.pictures)))
        with share.batch(stop=channel.beating):
            picture = read_picture(path)
            if picture is not None:  # the borrower sees for itself what it can read
                found[digest] = labeller.label_picture(picture)
    if not ended.look():
        channel.send(m.LentLabelDone(asked.job, found, share.worked_s() - used_s, open_s))
    elif isinstance(ended.order, Retire):
        channel.retired()


def _opened(channel: Channel, asked: m.LentLabel, share: WorkerShare) -> Labeller:
    """This box's teacher in the classes of the borrower's camera. Raises MagpieError."""
    described = read_teacher(asked.teacher)
    with share.batch(stop=channel.beating):
        teacher = open_teacher(described, host_threads(share.device), share.device)
    class_map = ClassMap.build(asked.classes, teacher.classes, asked.class_map, f"cameras.{asked.camera}.class_map")
    return Labeller(teacher, class_map, described.label_score)
