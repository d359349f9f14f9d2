"""The prepared data of one camera's window, and the activations of a frozen prefix: computed once, shared by all
retraining configurations, epochs and trials (Ekya's micro-profiler repeats them for each configuration)."""

from __future__ import annotations

import errno
import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge.core.configs import Layers, StudentSpec
from edge.core.errors import DiskFull, LabelError, StoreError
from edge.core.labels import LabelledFrame, LabelledWindow
from edge.students import (
    DetectionNet,
    Matched,
    Student,
    input_size_at,
    match_targets,
    pictures_to_tensor,
)
from edge.students.network import Activations
from edge.training.examples import VARIANTS, Example, make_examples

RAM_BYTES = 512 * 1024**2
PREFIX_BATCH = 16
# Objects of rare classes weigh more, but at most this much more or less than the average object.
BALANCE_LIMIT = 2.0


class WindowExamples:
    """A labelled window read from disk: training examples (exemplars included) and held-out examples.

    Train and held-out examples share one numbering; `train` and `held_out` are their indices. Read once, used by
    every trial and retraining. Unreadable pictures are left out and counted in `unreadable`.
    Raises LabelError if no frame with a readable picture is left to train on.
    """

    def __init__(self, data: LabelledWindow, spec: StudentSpec, seed: int = 0) -> None:
        self.spec = spec
        self.size = input_size_at(spec)
        train, self.train_frames, lost_train = make_examples(spec, (*data.train, *data.exemplars), seed)
        self.unreadable = lost_train
        if not self.train_frames:
            raise LabelError(
                f"camera {data.camera}, window {data.window}: no labelled frame to train on"
                + (f" ({lost_train} pictures missing or damaged)" if lost_train else "")
            )
        held_out, self.held_out_frames, lost_held_out = make_examples(spec, data.held_out, seed + 1)
        self.unreadable += lost_held_out
        offset = len(self.train_frames)
        moved = [replace(e, frame=e.frame + offset) for e in held_out]
        self.examples: list[Example] = [*train, *moved]
        self.train = np.arange(len(train))
        self.held_out = np.arange(len(train), len(self.examples))
        self.weights = self._weights()

    def _weights(self) -> NDArray[np.float32]:
        """Per class (background included): square root of how much rarer than the average class it is, bounded."""
        counts = np.zeros(len(self.spec.classes) + 1)
        for n in self.train:
            example = self.examples[n]
            if self.spec.task == "detection":
                np.add.at(counts, example.labels[0].classes, 1)
            else:
                counts[example.klass] += 1
        seen = counts > 0
        weights = np.ones(len(counts), np.float32)
        if seen.any():
            weights[seen] = np.sqrt(counts[seen].mean() / counts[seen])
        return np.clip(weights, 1 / BALANCE_LIMIT, BALANCE_LIMIT)

    def of_frames(self, frames: NDArray[np.int64]) -> NDArray[np.int64]:
        """The training examples of the frames (indices into `train_frames`)."""
        wanted = set(frames.tolist())
        return np.array([n for n in self.train if self.examples[n].frame in wanted], np.int64)

    def frame(self, index: int) -> LabelledFrame:
        """The frame that `Example.frame` names."""
        offset = len(self.train_frames)
        return self.train_frames[index] if index < offset else self.held_out_frames[index - offset]


class PrefixCache:
    """Activations in front of what `layers` trains, for one parent and one window.

    Kept as float16 in memory up to `ram_bytes` and on disk in `folder` beyond (space is reserved first, so that a full
    disk is an error here and not a crash later). `cpu_seconds` is what computing them cost so far.
    """

    def __init__(
        self,
        parent: Student,
        examples: WindowExamples,
        ram_bytes: int = RAM_BYTES,
        folder: Path | None = None,
        clock: Callable[[], float] = time.process_time,
    ) -> None:
        self.parent = parent
        self.examples = examples
        self.cpu_seconds = 0.0
        self._ram_left = ram_bytes
        self._folder = folder
        self._clock = clock
        self._kept: dict[tuple[Layers, int], list[NDArray[np.float16]]] = {}
        self._done: dict[tuple[Layers, int], NDArray[np.bool_]] = {}
        self._matched: dict[tuple[int, int], Matched] = {}

    @property
    def on_disk(self) -> int:
        """Bytes kept on disk."""
        arrays = [a for kept in self._kept.values() for a in kept if isinstance(a, np.memmap)]
        return sum(a.nbytes for a in arrays)

    def activations(self, layers: Layers, indices: Sequence[int], variants: Sequence[int]) -> Activations:
        """Inputs of the first trained part for these examples, float32 on the parent's device; maps are channels last
        in memory."""
        where = np.asarray(indices), np.asarray(variants)
        for variant in range(VARIANTS):
            mine = where[0][where[1] == variant]
            if len(mine):
                self._compute(layers, variant, np.unique(mine))
        count = len(next(kept for (name, _), kept in self._kept.items() if name == layers))
        out = []
        for part in range(count):
            rows = [self._kept[layers, v][part][i] for i, v in zip(*where, strict=True)]
            stacked = torch.from_numpy(np.stack(rows)).to(self.parent.device).float()
            out.append(stacked.permute(0, 3, 1, 2) if stacked.ndim == 4 else stacked)
        return tuple(out)

    def fill(self, layers: Layers, indices: NDArray[np.int64]) -> int:
        """Compute all variants of these examples now; returns of how many frames something had to be computed."""
        if layers == "all":
            return 0
        frames: set[int] = set()
        for variant in range(VARIANTS):
            done = self._done.get((layers, variant))
            missing = indices if done is None else indices[~done[indices]]
            frames |= {self.examples.examples[n].frame for n in missing}
            self._compute(layers, variant, indices)
        return len(frames)

    def matched(self, index: int, variant: int) -> Matched:
        """Targets of a detection example, with class balance and the frame's weight in the weights."""
        key = (index, variant)
        if key not in self._matched:
            example = self.examples.examples[index]
            labels = example.labels[variant]
            net = self.parent.module
            assert isinstance(net, DetectionNet)
            weights = labels.scores * self.examples.weights[labels.classes] * example.weight
            self._matched[key] = match_targets(net, self.examples.size, labels, weights.astype(np.float32))
        return self._matched[key]

    def _compute(self, layers: Layers, variant: int, indices: NDArray[np.int64]) -> None:
        key = (layers, variant)
        if key in self._done:
            indices = indices[~self._done[key][indices]]
        if not len(indices):
            return
        started = self._clock()
        for start in range(0, len(indices), PREFIX_BATCH):
            batch = indices[start : start + PREFIX_BATCH]
            pictures = [self.examples.examples[n].pictures[variant] for n in batch]
            for part, values in enumerate(self._prefix(layers, pictures)):
                # float16 ends at 65504; no healthy activation comes near it.
                values = values.clamp(-65504, 65504).to(torch.float16).cpu()
                if values.ndim == 4:  # maps are kept as they are trained on
                    values = values.permute(0, 2, 3, 1)
                if key not in self._kept or part >= len(self._kept[key]):
                    self._kept.setdefault(key, []).append(self._reserve(tuple(values.shape[1:])))
                self._kept[key][part][batch] = values.numpy()
            self._done.setdefault(key, np.zeros(len(self.examples.examples), bool))[batch] = True
        self.cpu_seconds += self._clock() - started

    @torch.inference_mode()
    def _prefix(self, layers: Layers, pictures: Sequence[NDArray[np.uint8]]) -> tuple[Tensor, ...]:
        net = self.parent.module.eval()
        stem = net.run_stem(pictures_to_tensor(pictures, self.parent.device))
        return net.run_last_stage(stem) if layers == "head" else stem

    def _reserve(self, shape: tuple[int, ...]) -> NDArray[np.float16]:
        whole = (len(self.examples.examples), *shape)
        size = math.prod(whole) * 2
        if size <= self._ram_left:
            self._ram_left -= size
            return np.zeros(whole, np.float16)
        # No name: the space is given back when the process ends, however it ends.
        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                os.posix_fallocate(file.fileno(), 0, max(1, size))
                return np.memmap(file, np.float16, "r+", shape=whole)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(f"no space left to keep {size // 1024**2} MiB of activations") from error
            raise StoreError(f"cannot keep activations on disk: {error.strerror or error}") from error
