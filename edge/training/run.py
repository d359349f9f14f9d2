"""The common run of all retrainings: steps in epochs, skipped steps, seconds and a checkpoint after each epoch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from edge.core.configs import RetrainingConfig
from edge.core.errors import out_of_memory
from edge.core.labels import Accuracy
from edge.training.checkpoint import Checkpoint, RunState
from edge.training.progress import BAD_STEPS, Progress, TrainingFailed
from edge.training.stopwatch import Stopwatch

S = TypeVar("S")


class TrainingRun(ABC, Generic[S]):
    """A retraining that ends in a student of type `S`; a kind of student says what one step and its result are."""

    def __init__(self, config: RetrainingConfig, seed: int, held_out_every: int, clock: Callable[[], float]) -> None:
        self._stopwatch = Stopwatch(clock)
        self.config, self.seed = config, seed
        self._held_out_every = held_out_every
        self._batches = self.total_steps = self.step = self.skipped_steps = 0
        self._checkpoint: Checkpoint | None = None

    def _plan_steps(self, examples: int) -> None:
        """Steps of an epoch and of the run, for this many examples."""
        self._batches = math.ceil(examples / self.config.batch_size)
        self.total_steps = self._batches * self.config.epochs

    def steps(self) -> Iterator[Progress]:
        """Train, one step per item. Raises TrainingFailed when memory runs out or numbers stay not finite."""
        bad = 0
        while self.step < self.total_steps:
            epoch = self.step // self._batches
            try:
                loss = self._one_step(epoch, self.step % self._batches)
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
                raise TrainingFailed(
                    f"retraining {self.config.id} ran out of memory",
                    f"use a smaller batch size than {self.config.batch_size} or fewer layers",
                ) from error
            self.step += 1
            bad = 0 if math.isfinite(loss) else bad + 1
            self.skipped_steps += bad > 0
            if bad == BAD_STEPS:
                raise TrainingFailed(
                    f"retraining {self.config.id} diverged: {bad} losses in a row were not finite",
                    "use a smaller learning rate",
                )
            epoch_over = self.step % self._batches == 0
            held_out = None
            every = self._held_out_every
            if epoch_over and every and (self.step == self.total_steps or (epoch + 1) % every == 0):
                measured = self.held_out()
                held_out = measured.value if measured.frames else None
            self._stopwatch.read()
            if epoch_over:
                self._keep()
            yield Progress(self.step, self.total_steps, epoch, self.cpu_seconds, loss, held_out, epoch_over)

    @property
    def cpu_seconds(self) -> float:
        """Seconds of computing up to the last step, over restarts (the end of the run stops the count)."""
        return self._stopwatch.seconds

    @property
    def epoch(self) -> float:
        """Epochs done, in parts."""
        return self.step / self._batches

    def run(self) -> S:
        """All steps without a pause, then the result."""
        for _ in self.steps():
            pass
        return self.result()

    # the checkpoint

    @property
    def resumed(self) -> bool:
        """Whether the run goes on where an earlier one left off."""
        return self._checkpoint is not None and self._checkpoint.resumed

    @property
    def checkpoint_note(self) -> str:
        """Why the checkpoint that was there was not taken up ("": it was, or there was none)."""
        return "" if self._checkpoint is None else self._checkpoint.note

    def keep_checkpoint(self) -> None:
        """Keep the state now, in the middle of an epoch: a later run goes on with the next step."""
        self._keep()

    def discard_checkpoint(self) -> None:
        """The result is safe elsewhere: forget the checkpoint."""
        if self._checkpoint is not None:
            self._checkpoint.discard()

    def _keep(self) -> None:
        if self._checkpoint is not None:
            self._checkpoint.keep(RunState(self.step, self.skipped_steps, self.cpu_seconds, self._tensors()))

    def _resume(self, checkpoint: Checkpoint, device: str) -> None:
        """Go on from the checkpoint if there is one of ours, and keep the state there from now on."""
        self._checkpoint = checkpoint
        state = checkpoint.take_up(self._tensors(), device)
        if state is not None:
            self._restore(state.tensors)
            self.step, self.skipped_steps = state.step, state.skipped
            self._stopwatch.go_on_from(state.seconds)

    @abstractmethod
    def result(self) -> S:
        """The student as it is now, independent of this object."""

    @abstractmethod
    def held_out(self) -> Accuracy:
        """Accuracy of the present result on the held-out part (0 frames: nothing held out)."""

    @abstractmethod
    def _one_step(self, epoch: int, batch: int) -> float:
        """The loss of one batch; weights change only if the loss and its gradient are finite."""

    @abstractmethod
    def _tensors(self) -> dict[str, Any]:
        """The weights, average and optimiser that a checkpoint holds."""

    @abstractmethod
    def _restore(self, tensors: dict[str, Any]) -> None:
        """Take in what `_tensors` of an earlier run gave."""
