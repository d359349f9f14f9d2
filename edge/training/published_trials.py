"""Trial retrainings of a student that began as a published detector: implements `edge.core.trials.TrialRunner`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edge.core import checks
from edge.core.configs import RetrainingConfig
from edge.core.errors import LabelError
from edge.core.trials import TrialResult
from edge.students.published import PublishedStudent
from edge.training.progress import device_clock
from edge.training.published import PublishedExamples, PublishedRetraining, with_best_score


class PublishedTrials:
    """Runs short retrainings of `parent` on one window's examples, which are read once for all of them.

    Costs are device seconds: CPU seconds over the `cores` of the device (1 for a GPU). Raises LabelError if nothing is
    held out to measure on.
    """

    def __init__(
        self,
        parent: PublishedStudent,
        examples: PublishedExamples,
        cores: float = 1.0,
        download: PublishedStudent | None = None,
        clock: Callable[[], float] | None = None,
        handed_in: Callable[[], bool] | None = None,
    ) -> None:
        """`handed_in` is asked after every epoch: True ends the trial with the epochs that it has."""
        self._handed_in = handed_in or (lambda: False)
        checks.positive("cores", cores)
        self._clock = clock or device_clock(parent.device)
        self.parent, self.examples, self.cores = parent, examples, cores
        self._download = download
        if not examples.held_out_frames:
            raise LabelError("no held-out frame with a readable picture: a trial cannot be judged")
        self.load_seconds = 0.0
        self._start: tuple[float, int] | None = None
        self.start_score: float | None = None

    @property
    def frames(self) -> int:
        """Training frames of the window (exemplars included); data fractions are parts of these."""
        return len(self.examples.train_frames)

    def start_accuracy(self) -> float:
        """Held-out accuracy of the parent at the least score that is best on held-out frames, as candidates are judged
        (measured once). `start_score` is its best on all new frames then."""
        if self._start is None:
            copy = self.parent.copy()
            measured = with_best_score(copy, self.examples)[1]
            self._start = (measured.value, measured.objects)
            self.start_score = with_best_score(copy, self.examples, self.examples.new_frames)[0].score
        return self._start[0]

    def run(self, config: RetrainingConfig, data_fraction: float, epochs: int, seed: int) -> TrialResult:
        """Train a copy of the parent for `epochs` on a uniform sample of `data_fraction` of the training frames."""
        began = self._clock()
        start = self.start_accuracy()
        evaluation = self._clock() - began
        count = max(1, round(data_fraction * self.frames))
        sample = np.sort(np.random.default_rng(seed).permutation(self.frames)[:count])
        short = replace(config, epochs=epochs, data_fraction=1.0)
        began = self._clock()
        run = PublishedRetraining(
            self.parent, self.examples, short, seed, download=self._download, frames=sample, held_out_every=0,
            clock=self._clock,
        )  # fmt: skip
        setup = self._clock() - began
        points: list[tuple[int, float]] = []
        training, objects = 0.0, 0
        began = self._clock()
        for progress in run.steps():
            if not progress.epoch_over:
                continue
            trained = self._clock()
            training += trained - began
            done = progress.epoch + 1
            over = self._handed_in()
            # The curve needs its last point most; those before it cost as much as they tell.
            if over or done == epochs or (done == 1 and epochs > 2):
                measured = run.held_out()
                points.append((done, measured.value))
                objects = measured.objects
            began = self._clock()
            evaluation += began - trained
            if over:
                break
        return TrialResult(
            config=config,
            points=tuple(points),
            start_accuracy=start,
            device_seconds_per_epoch=training / points[-1][0] / self.cores,
            setup_seconds=setup / self.cores,
            frames=count,
            held_out_objects=objects,
            evaluation_seconds=evaluation / self.cores,
        )
