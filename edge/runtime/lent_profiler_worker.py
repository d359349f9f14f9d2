"""Worker main of trials for another box: one camera's micro-profile, under its share, then it ends."""

from __future__ import annotations

import time

from edge.core.errors import MagpieError
from edge.runtime import messages as m
from edge.runtime.device import open_bucket
from edge.runtime.order_to_end import OrderToEnd
from edge.runtime.process import Channel, Retire
from edge.runtime.profiler_worker import profile_camera


def lent_profiler_worker(channel: Channel, asked: m.LentProfile) -> None:
    """Answers with m.LentProfileDone or m.LentWorkFailed; an order to end ends it without an answer. One that is
    started again begins anew."""
    share = open_bucket()
    channel.beat()
    began_s, ended = time.monotonic(), OrderToEnd(channel)

    def handed_in() -> bool:
        late = asked.hand_in_s is not None and time.monotonic() - began_s >= asked.hand_in_s
        return ended.look() or late

    try:
        done = profile_camera(asked.profile, share, channel, handed_in)
    except MagpieError as error:
        channel.send(m.LentWorkFailed(asked.job, str(error)))
        return
    if not ended.look():
        channel.send(m.LentProfileDone(asked.job, done, asked.profile.cores))
    elif isinstance(ended.order, Retire):
        channel.retired()
