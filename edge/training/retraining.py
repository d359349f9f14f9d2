"""One retraining: a generator of progress, so that its caller paces it by its share between steps.

The learning rate does not depend on the number of epochs asked for, and the result is a running average of the weights
that forgets its beginning (polynomial decay, Shamir and Zhang 2013). So the student may be taken at any step, and a
trial of few epochs says what a longer run would have had at that point.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from edge.core.accuracy import accuracy
from edge.core.configs import RetrainingConfig
from edge.core.errors import InvalidValue
from edge.core.labels import Accuracy, LabelledWindow
from edge.core.vision import Detections
from edge.students import (
    ANSWER_SCORE,
    DetectionNet,
    Student,
    StudentNet,
    classification_loss,
    detection_loss,
    pictures_to_tensor,
    resize_last_layer,
)
from edge.students.network import Activations
from edge.training.adamw import GroupedAdamW, RatedGroup
from edge.training.cache import PrefixCache, WindowExamples
from edge.training.checkpoint import Checkpoint, CheckpointFormat
from edge.training.progress import device_clock
from edge.training.run import TrainingRun

WARM_UP_STEPS = 6
WEIGHT_DECAY = 1e-3
GRADIENT_LIMIT = 5.0
# The average looks back over about 1 / (AVERAGING + 1) of the steps so far.
AVERAGING = 4.0
# The backbone learns slower than the head: it has more to lose.
BACKBONE_RATE = 0.5
LARGEST_BRIGHTNESS, LARGEST_CONTRAST = 25.0, 0.25
CHECKPOINT_FORMAT = CheckpointFormat(
    "magpie-checkpoint/3",
    "cpu_seconds",
    "skipped_steps",
    "the checkpoint belongs to another retraining: started anew",
    "the checkpoint cannot be read ({error}): started anew",
)


class Retraining(TrainingRun[Student]):
    """Retrains a copy of `parent` on a window with `config`; the parent is not touched.

    `cache` (of the same parent and window) may be shared with trials and other retrainings. With `checkpoint_path` the
    state is kept there after each epoch and taken up again by a later Retraining of the same parent, data, config and
    seed; the result is the same as without the interruption. `held_out_every` epochs, and at the end, the held-out
    accuracy is measured (0: never). Raises LabelError if there is nothing to train on, TrainingFailed when memory runs
    out or numbers stay not finite.
    """

    def __init__(
        self,
        parent: Student,
        data: LabelledWindow | WindowExamples,
        config: RetrainingConfig,
        seed: int = 0,
        checkpoint_path: Path | None = None,
        *,
        cache: PrefixCache | None = None,
        frames: np.ndarray[Any, np.dtype[np.int64]] | None = None,
        held_out_every: int = 1,
        score: float = ANSWER_SCORE,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(config, seed, held_out_every, clock or device_clock(parent.device))
        self._score = score
        if cache is not None:
            self.examples = cache.examples
        else:
            self.examples = data if isinstance(data, WindowExamples) else WindowExamples(data, parent.spec)
        if self.examples.spec.classes != parent.spec.classes:
            raise InvalidValue("labelled_window.classes", self.examples.spec.classes, f"{parent.spec.classes}")
        self.cache = cache or PrefixCache(parent, self.examples, clock=self._stopwatch.clock)
        self._chosen = self._choose(frames)
        self.student = parent.copy()
        if config.last_layer_width not in (0, parent.spec.last_layer_width):
            wider = resize_last_layer(self.student.module, config.last_layer_width, seed)
            self.student = Student(wider.spec, wider, self.student.info)
        self._net: StudentNet = self.student.module.to(memory_format=torch.channels_last)
        self._parameters = self._net.freeze_all_but(config.layers)
        self._optimiser = self._make_optimiser()
        self._state = self._trained_tensors()
        self._average = {k: v.clone() for k, v in self._state.items()}
        self._shadow: Student | None = None
        self._plan_steps(len(self._chosen))
        if checkpoint_path is not None:
            checkpoint = Checkpoint(checkpoint_path, CHECKPOINT_FORMAT, self._identify(parent))
            self._resume(checkpoint, self.student.device)

    # what to train on

    @property
    def train_frames(self) -> int:
        """Labelled frames that are trained on."""
        return len({self.examples.examples[n].frame for n in self._chosen})

    def _choose(self, frames: np.ndarray[Any, np.dtype[np.int64]] | None) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The examples of a uniform sample of the frames (thesis section 2.4.4: uniform is most indicative)."""
        if frames is None:
            count = len(self.examples.train_frames)
            wanted = max(1, round(self.config.data_fraction * count))
            frames = np.sort(np.random.default_rng(self.seed).permutation(count)[:wanted])
        chosen = self.examples.of_frames(frames)
        # Frames without any cut-out (classification) leave nothing to learn; take everything then.
        return chosen if len(chosen) else self.examples.train

    def _make_optimiser(self) -> GroupedAdamW:
        head = {id(p) for part in self._net.parts("head") for p in part.parameters()}
        groups = (
            RatedGroup([p for p in self._parameters if id(p) in head], 1.0),
            RatedGroup([p for p in self._parameters if id(p) not in head], BACKBONE_RATE),
        )
        return GroupedAdamW([g for g in groups if g.parameters], WEIGHT_DECAY)

    # the run

    def result(self) -> Student:
        """The student as it is now: averaged weights, in eval mode, independent of this object."""
        student = self.student.copy()
        student.module.load_state_dict(self._average, strict=False)
        student.module.eval()
        for parameter in student.module.parameters():
            parameter.requires_grad_(True)
        student.info = {"config": self.config.to_json(), "steps": self.step, "train_frames": self.train_frames}
        return student

    def held_out(self) -> Accuracy:
        """Accuracy of the present result on the held-out part (fresh answers; 0 frames: nothing held out)."""
        if self._shadow is None:
            self._shadow = self.result()
        else:  # a network is dear to copy; only what is trained differs
            self._shadow.module.load_state_dict(self._average, strict=False)
        return held_out_accuracy(self._shadow, self.cache, self.config, self._score)

    def _one_step(self, epoch: int, batch: int) -> float:
        rng = np.random.default_rng((self.seed, epoch))
        order = rng.permutation(len(self._chosen))
        variants = rng.integers(0, 2, len(self._chosen))
        where = order[batch * self.config.batch_size : (batch + 1) * self.config.batch_size]
        if len(where) == 1:
            where = np.repeat(where, 2)  # BatchNorm needs two
        indices, chosen_variants = self._chosen[where], variants[where]
        net = self._net
        if self.config.layers == "all":
            output: Activations = net(self._augmented(indices, chosen_variants, (self.seed, epoch, batch)))
        else:
            kept = self.cache.activations(self.config.layers, indices.tolist(), chosen_variants.tolist())
            output = net.run_head(kept if self.config.layers == "head" else net.run_last_stage(kept))
        loss = self._loss(output, indices, chosen_variants)
        value = float(loss.detach())
        self._optimiser.clear()
        if not math.isfinite(value):
            return value
        torch.autograd.backward(loss)
        norm = float(nn.utils.clip_grad_norm_(self._parameters, GRADIENT_LIMIT))
        if not math.isfinite(norm):
            return norm
        self._optimiser.step(self.config.learning_rate * min(1.0, (self.step + 1) / WARM_UP_STEPS))
        self._update_average()
        return value

    def _augmented(self, indices: Any, variants: Any, key: tuple[int, int, int]) -> Tensor:
        """Pictures of the examples with brightness and contrast changed at random (mirroring is a variant)."""
        pictures = [self.examples.examples[i].pictures[v] for i, v in zip(indices, variants, strict=True)]
        x = pictures_to_tensor(pictures, self.student.device)
        rng = np.random.default_rng(key)
        count = (len(pictures), 1, 1, 1)
        gain = rng.uniform(1 - LARGEST_CONTRAST, 1 + LARGEST_CONTRAST, count).astype(np.float32)
        shift = rng.uniform(-LARGEST_BRIGHTNESS, LARGEST_BRIGHTNESS, count).astype(np.float32) / 57.0
        return x * torch.from_numpy(gain).to(x.device) + torch.from_numpy(shift).to(x.device)

    def _loss(self, output: Activations, indices: Any, variants: Any) -> Tensor:
        if self.examples.spec.task == "detection":
            return detection_loss(
                output, [self.cache.matched(int(i), int(v)) for i, v in zip(indices, variants, strict=True)]
            )
        examples = [self.examples.examples[i] for i in indices]
        classes = torch.tensor([e.klass for e in examples], device=output[0].device)
        weights = torch.tensor(
            [e.weight * float(self.examples.weights[e.klass]) for e in examples], device=output[0].device
        )
        return classification_loss(output, classes, weights)

    # the average

    def _trained_tensors(self) -> dict[str, Tensor]:
        """The tensors that training changes in place: trained parameters and the statistics of the BatchNorms in
        training mode."""
        out = {name: p.detach() for name, p in self._net.named_parameters() if p.requires_grad}
        for name, module in self._net.named_modules():
            if isinstance(module, nn.BatchNorm2d) and module.training:
                for key in ("running_mean", "running_var"):
                    out[f"{name}.{key}"] = getattr(module, key)
        return out

    @torch.no_grad()
    def _update_average(self) -> None:
        weight = min(1.0, (AVERAGING + 1) / (self.step + 1 + AVERAGING))
        for name, value in self._state.items():
            self._average[name].lerp_(value, weight)

    # checkpoints

    def _identify(self, parent: Student) -> str:
        """Tells checkpoints of other parents, data, configurations and seeds from ours."""
        digest = hashlib.sha256()
        ids = [f.frame.id for f in (*self.examples.train_frames, *self.examples.held_out_frames)]
        chosen = hashlib.sha256(np.ascontiguousarray(self._chosen).tobytes()).hexdigest()
        parts = [parent.spec.to_json(), self.config.to_json(), self.seed, ids, chosen, len(self.examples.examples)]
        digest.update(json.dumps(parts, sort_keys=True).encode())
        for name, value in sorted(parent.module.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def _tensors(self) -> dict[str, Any]:
        return {"state": self._state, "average": self._average, "optimiser": self._optimiser.state()}

    def _restore(self, tensors: dict[str, Any]) -> None:
        self._net.load_state_dict(tensors["state"], strict=False)
        self._average = dict(tensors["average"])
        self._optimiser.restore(tensors["optimiser"])


def held_out_accuracy(
    student: Student, cache: PrefixCache, config: RetrainingConfig, score: float = ANSWER_SCORE
) -> Accuracy:
    """Accuracy of `student` on the cache's held-out part; the frozen prefix of `config` is not computed again."""
    examples, net = cache.examples, student.module.eval()
    classes = len(examples.spec.classes)
    pairs: list[tuple[Detections, Detections]] = []
    for start in range(0, len(examples.held_out), 16):
        indices = examples.held_out[start : start + 16]
        with torch.inference_mode():
            if config.layers == "all":
                pictures = [examples.examples[n].pictures[0] for n in indices]
                output = net(pictures_to_tensor(pictures, student.device))
            else:
                kept = cache.activations(config.layers, indices.tolist(), [0] * len(indices))
                output = net.run_head(kept if config.layers == "head" else net.run_last_stage(kept))
            if isinstance(net, DetectionNet):
                answers = net.decode(output, examples.size, score)
                pairs += [(a, examples.examples[n].labels[0]) for a, n in zip(answers, indices, strict=True)]
                continue
            named = output[0].argmax(1).cpu().numpy()
        for klass, n in zip(named, indices, strict=True):
            example = examples.examples[n]
            # Cut-outs of golden objects only, as `evaluate` does; proposals and backgrounds are training aids.
            if example.golden:
                whole = np.array([[0.0, 0.0, 1.0, 1.0]], np.float32)
                one = np.ones(1, np.float32)
                pairs.append(
                    (Detections(whole, one, np.array([klass])), Detections(whole, one, np.array([example.klass])))
                )
    measured = accuracy(examples.spec.task, pairs, classes)
    if examples.spec.task == "classification":
        return Accuracy(measured.value, len(examples.held_out_frames) if pairs else 0, measured.objects)
    return measured
