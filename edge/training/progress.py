"""Progress and failures of every retraining."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from edge.core.errors import MagpieError

#: So many losses in a row that are not finite end a retraining.
BAD_STEPS = 3


class TrainingFailed(MagpieError):
    """A retraining cannot go on: out of memory, or its numbers are not finite. The parent stays as it is."""

    code = "training"


@dataclass(frozen=True)
class Progress:
    """State after a step of `epoch` (from 0). `cpu_seconds` of computing at full share so far (over restarts; set-up,
    prefix and held-out evaluations included); `loss` of the step; `held_out` accuracy [0, 1] where it was measured at
    this step."""

    step: int
    total_steps: int
    epoch: int
    cpu_seconds: float
    loss: float
    held_out: float | None = None
    epoch_over: bool = False


def device_clock(device: str) -> Callable[[], float]:
    """Seconds of computing on `device`: the process' CPU time, or on a GPU the time until its queue is empty."""
    if not device.startswith("cuda"):
        return time.process_time

    def clock() -> float:
        torch.cuda.synchronize(device)
        return time.perf_counter()

    return clock
