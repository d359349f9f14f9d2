"""Retraining of a student that began as a published detector.

The recipe: steps relative to each weight's size, a loss on decoded answers with soft targets, moved and scaled views, a
running average as the result, and the least score that is answered chosen on held-out labels. Objects that the teacher
was not sure of are neither objects nor background. The result keeps a part of the download (`kept_download.py`). The
next retraining takes that part out again before it goes on.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edge.core.accuracy import Counts, Pair, accuracy, count
from edge.core.configs import WHOLE, Region, RetrainingConfig
from edge.core.errors import InvalidValue, LabelError
from edge.core.labels import Accuracy, LabelledFrame, LabelledWindow
from edge.core.thresholds import LOWEST, best_score
from edge.core.vision import Detections
from edge.detectors.pictures import decoded
from edge.students.detector_loss import Decoder, published_loss
from edge.students.graph import GraphNet
from edge.students.published import PublishedStudent, distance
from edge.training.checkpoint import Checkpoint, CheckpointFormat
from edge.training.kept_download import PARTS, best_part, usual_part
from edge.training.pictures import read_frame
from edge.training.progress import TrainingFailed, device_clock
from edge.training.relative_adam import RelativeAdam
from edge.training.run import TrainingRun
from edge.training.views import LabelledPicture, view

WARM_UP_STEPS = 10
GRADIENT_LIMIT = 10.0
AVERAGE = 0.95
#: Pictures are kept in memory a little larger than the input, so that a scaled view is not blurred.
MARGIN = 1.25
#: Students whose answers on kept-out pictures are remembered: the new one with each part of the download that is tried,
#: the one in force, the download, and one.
REMEMBERED = len(PARTS) + 1 + 3
CHECKPOINT_FORMAT = CheckpointFormat(
    "magpie-checkpoint/2",
    "seconds",
    "skipped",
    "the checkpoint is of another retraining: begun anew",
    "the checkpoint is damaged: begun anew",
)


class PublishedExamples:
    """A labelled window in memory: pictures to train on (exemplars included), and frames to judge by.

    The student looks at `region` alone; objects outside it are missed. Students are judged on the window's held-out
    frames; the least score is chosen on those and on the held-out frames of earlier windows. Unreadable pictures are
    left out and counted in `unreadable`. Raises LabelError if no frame with a readable picture is left to train on.
    """

    def __init__(self, data: LabelledWindow, parent: PublishedStudent, region: Region = WHOLE) -> None:
        self.spec, self.region = parent.spec, region
        #: Called between answers: a worker that judges for long tells that it lives.
        self.breathe: Callable[[], object] = lambda: None
        self.unreadable = 0
        frames = (*data.train, *data.exemplars)
        self.pictures: list[LabelledPicture] = []
        self.train_frames: list[LabelledFrame] = []
        self.size: tuple[int, int] = (0, 0)
        for frame in frames:
            picture = read_frame(frame)
            if picture is None:
                self.unreadable += 1
                continue
            if not self.train_frames:
                self.size = parent.input_shape(picture.shape[:2], region=region)
            largest = (math.ceil(self.size[0] * MARGIN), math.ceil(self.size[1] * MARGIN))
            self.pictures.append(LabelledPicture.of(frame, picture, largest, region))
            self.train_frames.append(frame)
        if not self.train_frames:
            raise LabelError(
                f"camera {data.camera}, window {data.window}: no labelled frame to train on"
                + (f" ({self.unreadable} pictures missing or damaged)" if self.unreadable else "")
            )
        # Kept as files in memory: the kept-out ones may be let go while the retraining runs, and all students shall be
        # judged on the same pictures.
        self._files: dict[Path, bytes] = {}
        self._answered: dict[str, dict[Path, Detections]] = {}
        #: Training frames of the window itself: no student that was in force when it ended has seen them.
        self.new_frames = [f for f in self.train_frames if f.frame.window == data.window]
        self.held_out_frames = self._readable(data.held_out)
        self.kept_out_frames = self._readable(data.kept_out)

    def join(self, others: Sequence[PublishedExamples]) -> None:
        """Train on the pictures of other cameras too, each in its own region; judged by this window's own alone."""
        for other in others:
            self.pictures += other.pictures
            self.train_frames += other.train_frames

    def _readable(self, frames: Sequence[LabelledFrame]) -> list[LabelledFrame]:
        good = []
        for frame in frames:
            try:
                content = frame.frame.path.read_bytes()
            except OSError:
                content = b""
            if decoded(content) is not None:
                self._files[frame.frame.path] = content
                good.append(frame)
        self.unreadable += len(frames) - len(good)
        return good

    def answers(self, student: PublishedStudent, frames: Sequence[LabelledFrame]) -> list[Pair]:
        """(every answer from the lowest score on, labels) of each frame whose picture can be read; of held-out and
        kept-out frames all. Each of these is answered once by a student's weights."""
        known = self._answered_by(student)
        pairs: list[Pair] = []
        for frame in frames:
            path = frame.frame.path
            if path not in known:
                self.breathe()
                content = self._files.get(path)
                picture = read_frame(frame) if content is None else decoded(content)
                if picture is None:
                    continue
                answer = student.detect([picture], score=LOWEST, region=self.region)[0]
                if content is None:
                    pairs.append((answer, frame.labels))
                    continue
                known[path] = answer
            pairs.append((known[path], frame.labels))
        return pairs

    def _answered_by(self, student: PublishedStudent) -> dict[Path, Detections]:
        """Answers of the student's weights so far; of other students the latest few are remembered."""
        weights = hashlib.sha256(student.content).hexdigest()
        known = self._answered.pop(weights, {})
        self._answered[weights] = known
        while len(self._answered) > REMEMBERED:
            del self._answered[next(iter(self._answered))]
        return known


def with_best_score(
    student: PublishedStudent, examples: PublishedExamples, unseen: Sequence[LabelledFrame] = ()
) -> tuple[PublishedStudent, Accuracy]:
    """The student with the least score that is best on held-out frames, and on the `unseen` ones that it was not
    trained on either; and its accuracy on the window's own held-out ones."""
    own = examples.answers(student, examples.held_out_frames)
    earlier = examples.answers(student, examples.kept_out_frames)
    score = best_score([*own, *earlier, *examples.answers(student, unseen)], student.usual_score)
    student.info["score"] = score
    return student, judged(own, score, len(student.spec.classes))


def judged(pairs: Sequence[Pair], score: float, classes: int) -> Accuracy:
    """Accuracy with answers from `score` on."""
    return accuracy("detection", [(a.select(a.scores >= score - 1e-6), labels) for a, labels in pairs], classes)


def frame_counts(student: PublishedStudent, examples: PublishedExamples) -> tuple[Counts, ...]:
    """A student's right answers on each held-out frame of the window and of earlier ones, at its own least score."""
    pairs = examples.answers(student, [*examples.held_out_frames, *examples.kept_out_frames])
    return tuple(count(answer, labels, 0.5, student.score - 1e-6) for answer, labels in pairs)


@dataclass(frozen=True)
class _Download:
    """The download's weights, and the parts of it that are tried on kept-out pictures."""

    weights: list[Tensor]
    parts: tuple[float, ...]


class PublishedRetraining(TrainingRun[PublishedStudent]):
    """Retrains a copy of `parent` on a window with `config`; the parent is not touched.

    `config.learning_rate` is relative to the size of the weights; `config.layers` "head", "last_stage" (neck and heads)
    or "all". With `checkpoint_path` the state is kept after each epoch and taken up by a later run of the same parent,
    data, config and seed. `download` is the detector as published (None: nothing of it is kept in the result); with
    `parts` these parts of it are tried on kept-out pictures, beside the usual one. `frames` (indices) restrict what is
    trained on.

    Raises LabelError if there is nothing to train on, WeightsError if the graph cannot be trained, TrainingFailed when
    memory runs out or numbers stay not finite.
    """

    def __init__(
        self,
        parent: PublishedStudent,
        data: LabelledWindow | PublishedExamples,
        config: RetrainingConfig,
        seed: int = 0,
        checkpoint_path: Path | None = None,
        *,
        download: PublishedStudent | None = None,
        parts: Sequence[float] = (),
        frames: NDArray[np.int64] | None = None,
        held_out_every: int = 1,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(config, seed, held_out_every, clock or device_clock(parent.device))
        self.parent = parent
        self.examples = data if isinstance(data, PublishedExamples) else PublishedExamples(data, parent)
        if self.examples.spec.classes != parent.spec.classes:
            raise InvalidValue("labelled_window.classes", self.examples.spec.classes, f"{parent.spec.classes}")
        if config.last_layer_width:
            raise InvalidValue("retraining_config.last_layer_width", config.last_layer_width, "0 for this student")
        self._chosen = self._choose(frames)
        self._student = parent.copy()
        self._net = self._student.network().to(parent.device).to(memory_format=torch.channels_last)
        self._download = None if download is None else _Download(_weights(download.network(), parent), tuple(parts))
        self._take_download_out()
        self._decoder = Decoder(parent.detector.output, parent.detector.table, len(parent.spec.classes))
        self._trained = self._net.parts(config.layers)
        if not self._trained:
            raise InvalidValue("retraining_config.layers", config.layers, "parts that this student has (all)")
        for parameter in self._net.weights:
            parameter.requires_grad_(False)
        for parameter in self._trained:
            parameter.requires_grad_(True)
        self._optimiser = RelativeAdam(self._trained)
        self._average = [p.detach().clone() for p in self._trained]
        self._plan_steps(len(self._chosen))
        self._finished: tuple[int, PublishedStudent, Accuracy] | None = None
        if checkpoint_path is not None:
            self._resume(Checkpoint(checkpoint_path, CHECKPOINT_FORMAT, self._identify()), parent.device)

    @property
    def train_frames(self) -> int:
        """Labelled frames that are trained on."""
        return len(self._chosen)

    @property
    def usual_part(self) -> float:
        """The usual part of the download in the result: the fewer labelled objects were trained on, the more."""
        return usual_part(sum(len(self.examples.pictures[n].labels) for n in self._chosen))

    def _choose(self, frames: NDArray[np.int64] | None) -> NDArray[np.int64]:
        if frames is not None:
            return np.sort(frames)
        count = len(self.examples.train_frames)
        wanted = max(1, round(self.config.data_fraction * count))
        return np.sort(np.random.default_rng(self.seed).permutation(count)[:wanted])

    # the run

    def result(self) -> PublishedStudent:
        """The student as it is now: averaged weights, with the least score that is best on held-out frames."""
        return self._judged()[0]

    def held_out(self) -> Accuracy:
        """Accuracy of the student as it is now on the window's held-out frames."""
        return self._judged()[1]

    def check_answers(self, tolerance: float) -> None:
        """Torch and onnxruntime must give the same on a training picture, or the result is not put in force.

        Raises TrainingFailed saying how far they are apart."""
        student = self.result()
        picture = self.examples.pictures[0]
        tensor, _ = view(picture, self.parent.detector.input, self.examples.size, None)
        theirs = student.raw(tensor.numpy(), self.examples.size)
        with torch.inference_mode():
            ours = student.network().to(self.parent.device)(tensor.to(self.parent.device))
        apart = distance((ours[name].cpu().numpy(), value) for name, value in theirs.items())
        if not apart <= tolerance:
            raise TrainingFailed(
                f"retraining {self.config.id}: torch and onnxruntime differ by {apart:.2g} (at most {tolerance:g})"
            )

    def _judged(self) -> tuple[PublishedStudent, Accuracy]:
        if self._finished is None or self._finished[0] != self.step:
            info = {"config": self.config.to_json(), "steps": self.step, "train_frames": self.train_frames}
            kept = [p.detach().clone() for p in self._net.weights]
            self._put(self._trained, self._average)
            if self._download is None:
                found = with_best_score(self._student.with_weights(self._net, info), self.examples)
            else:
                found = self._with_best_part(self._download, info)
            self._put(list(self._net.weights), kept)
            self._finished = (self.step, *found)
        return self._finished[1], self._finished[2]

    def _with_best_part(self, download: _Download, info: dict[str, Any]) -> tuple[PublishedStudent, Accuracy]:
        """The trained weights with the part of the download that is best on kept-out pictures."""
        learnt = [p.detach().clone() for p in self._net.weights]
        usual = self.usual_part
        found, right = {}, {}
        for part in sorted({usual, *download.parts}):
            self._put(list(self._net.weights), learnt)
            self._mix(download, 1.0 - part)
            student = self._student.with_weights(self._net, info | {"kept_of_download": part})
            found[part] = with_best_score(student, self.examples)
            if download.parts:
                right[part] = frame_counts(student, self.examples)
        return found[best_part(right, usual) if download.parts else usual]

    @staticmethod
    @torch.no_grad()
    def _put(parameters: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)

    @torch.no_grad()
    def _mix(self, download: _Download, part: float) -> None:
        """Weights become download + `part` * (weights - download)."""
        for parameter, start in zip(self._net.weights, download.weights, strict=True):
            parameter.copy_(start + part * (parameter - start))

    def _take_download_out(self) -> None:
        kept = float(self.parent.info.get("kept_of_download", 0.0))
        if self._download is not None and 0.0 < kept < 1.0:
            self._mix(self._download, 1.0 / (1.0 - kept))

    def _one_step(self, epoch: int, batch: int) -> float:
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self._chosen))
        where = self._chosen[order[batch * self.config.batch_size : (batch + 1) * self.config.batch_size]]
        rng = np.random.default_rng((self.seed, epoch, batch))
        size, spec = self.examples.size, self.parent.detector.input
        seen = [view(self.examples.pictures[i], spec, size, rng) for i in where]
        x = torch.cat([v[0] for v in seen]).to(self.parent.device).contiguous(memory_format=torch.channels_last)
        found = self._decoder(self._net(x), size)
        loss = published_loss(found, [v[1].to(self.parent.device) for v in seen])
        value = float(loss.detach())
        self._optimiser.clear()
        if not math.isfinite(value):
            return value
        if loss.requires_grad:
            torch.autograd.backward(loss)
            norm = float(nn.utils.clip_grad_norm_(self._trained, GRADIENT_LIMIT))
            if not math.isfinite(norm):
                return norm
            self._optimiser.step(self.config.learning_rate * min(1.0, (self.step + 1) / WARM_UP_STEPS))
        self._update_average()
        return value

    @torch.no_grad()
    def _update_average(self) -> None:
        # Early on the average looks back over as many steps as there were.
        weight = max(1.0 - AVERAGE, 1.0 / (self.step + 1))
        for average, parameter in zip(self._average, self._trained, strict=True):
            average.lerp_(parameter, weight)

    # checkpoints

    def keep_checkpoint(self) -> None:
        """Keep the state now, in the middle of an epoch: a later run goes on with the next step."""
        self._stopwatch.read()
        super().keep_checkpoint()

    def _identify(self) -> str:
        digest = hashlib.sha256(self.parent.content)
        ids = [f.frame.id for f in (*self.examples.train_frames, *self.examples.held_out_frames)]
        parts = [self.parent.spec.to_json(), self.config.to_json(), self.seed, ids, self._chosen.tolist()]
        parts.append(list(self.examples.region))
        if self._download is not None:
            digest.update(b"".join(w.cpu().numpy().tobytes() for w in self._download.weights))
        digest.update(json.dumps(parts, sort_keys=True).encode())
        return digest.hexdigest()

    def _tensors(self) -> dict[str, Any]:
        weights = [p.detach() for p in self._trained]
        return {"weights": weights, "average": self._average, "optimiser": self._optimiser.state()}

    def _restore(self, tensors: dict[str, Any]) -> None:
        self._put(self._trained, tensors["weights"])
        self._average = list(tensors["average"])
        self._optimiser.restore(tensors["optimiser"])


def _weights(network: GraphNet, parent: PublishedStudent) -> list[Tensor]:
    """Raises InvalidValue if the download is another graph than the parent's."""
    own = parent.network()
    if network.weight_names != own.weight_names or any(
        a.shape != b.shape for a, b in zip(network.weights, own.weights, strict=True)
    ):
        raise InvalidValue("download", network.name, f"the detector that the student began as, {own.name}")
    return [p.detach().to(parent.device).clone() for p in network.weights]
