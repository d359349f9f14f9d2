"""Trial retrainings for the micro-profiler (thesis section 2.4.4): implements `edge.core.trials.TrialRunner`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edge.core import checks
from edge.core.configs import RetrainingConfig
from edge.core.errors import LabelError
from edge.core.labels import LabelledWindow
from edge.core.trials import TrialResult
from edge.students import ANSWER_SCORE, Student
from edge.training.cache import PrefixCache, WindowExamples
from edge.training.progress import device_clock
from edge.training.retraining import Retraining, held_out_accuracy


class Trials:
    """Runs short retrainings of `parent` on one window. Pictures are read, and frozen-prefix activations computed,
    once for all trials. Costs are device seconds: CPU seconds over the `cores` of the device (1 for a GPU).

    Raises LabelError if there is nothing to train on or nothing is held out to measure on.
    """

    def __init__(
        self,
        parent: Student,
        data: LabelledWindow | WindowExamples,
        cores: float = 1.0,
        cache: PrefixCache | None = None,
        score: float = ANSWER_SCORE,
        clock: Callable[[], float] | None = None,
        handed_in: Callable[[], bool] | None = None,
    ) -> None:
        """`handed_in` is asked after every epoch: True ends the trial with the epochs that it has."""
        checks.positive("cores", cores)
        self._clock = clock or device_clock(parent.device)
        started = self._clock()
        self.parent = parent
        self.cores = cores
        self.score = score
        self._handed_in = handed_in or (lambda: False)
        if cache is None:
            examples = data if isinstance(data, WindowExamples) else WindowExamples(data, parent.spec)
            cache = PrefixCache(parent, examples, clock=self._clock)
        self.cache = cache
        self.examples = cache.examples
        if not self.examples.held_out_frames:
            raise LabelError("no held-out frame with a readable picture: a trial cannot be judged")
        self.load_seconds = (self._clock() - started) / cores
        self._start: float | None = None

    @property
    def frames(self) -> int:
        """Training frames of the window (exemplars included); data fractions are parts of these."""
        return len(self.examples.train_frames)

    def start_accuracy(self) -> float:
        """Held-out accuracy of the parent (measured once)."""
        if self._start is None:
            plain = RetrainingConfig(epochs=1)
            self._start = held_out_accuracy(self.parent, self.cache, plain, self.score).value
        return self._start

    def run(self, config: RetrainingConfig, data_fraction: float, epochs: int, seed: int) -> TrialResult:
        """Train a copy of the parent for `epochs` on a uniform sample of `data_fraction` of the training frames."""
        began = self._clock()
        start = self.start_accuracy()
        self.cache.fill(config.layers, self.examples.held_out)
        evaluation = self._clock() - began
        count = max(1, round(data_fraction * self.frames))
        sample = np.sort(np.random.default_rng(seed).permutation(self.frames)[:count])
        short = replace(config, epochs=epochs, data_fraction=1.0)
        began = self._clock()
        run = Retraining(
            self.parent, self.examples, short, seed, cache=self.cache, frames=sample, held_out_every=0,
            score=self.score, clock=self._clock,
        )  # fmt: skip
        setup = self._clock() - began
        prefix_began = self._clock()
        prefix_frames = self.cache.fill(config.layers, self.examples.of_frames(sample))
        prefix = self._clock() - prefix_began
        points: list[tuple[int, float]] = []
        training, objects = 0.0, 0
        began = self._clock()
        for progress in run.steps():
            if not progress.epoch_over:
                continue
            trained = self._clock()
            training += trained - began
            measured = run.held_out()
            points.append((progress.epoch + 1, measured.value))
            objects = measured.objects
            began = self._clock()
            evaluation += began - trained
            if self._handed_in():
                break
        return TrialResult(
            config=config,
            points=tuple(points),
            start_accuracy=start,
            device_seconds_per_epoch=training / len(points) / self.cores,
            setup_seconds=setup / self.cores,
            frames=count,
            held_out_objects=objects,
            prefix_seconds=prefix / self.cores,
            prefix_frames=prefix_frames,
            evaluation_seconds=evaluation / self.cores,
        )
