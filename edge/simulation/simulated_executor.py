"""An executor of served models without a process: each batch takes as long as a table says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from edge.core.oip import Tensor
from edge.serving.front_link import BatchDone, BatchInput
from edge.serving.link_messages import Times


@dataclass(frozen=True)
class Begun:
    """A batch of `rows` that an executor was handed at `handed_s` and began at `at_s`."""

    executor: str
    handed_s: float
    at_s: float
    model: str
    rows: int


@dataclass(eq=False)
class SimulatedExecutor:
    """Stands for an executor's link: computes one batch after the other, each in `took_ms[model][rows - 1]`.
    `kept`: `begun` has every batch."""

    executor: str
    models: frozenset[str]
    took_ms: Mapping[str, Sequence[float]]
    handler: Any = None
    arena: Any = field(default_factory=lambda: SimpleNamespace(size=1 << 30))
    begun: list[Begun] = field(default_factory=list)
    free_s: float = 0.0
    dead: bool = False
    kept: bool = True
    _number: int = 0

    def send(self, model: str, version: str, inputs: Sequence[BatchInput], output_bytes: int) -> int:
        """As FrontLink.send."""
        loop = asyncio.get_running_loop()
        rows = sum(len(part) for part in inputs[0].parts)
        at_s = max(loop.time(), self.free_s)
        self.free_s = at_s + self.took_ms[model][rows - 1] / 1000
        if self.kept:
            self.begun.append(Begun(self.executor, loop.time(), at_s, model, rows))
        self._number += 1
        outputs = (Tensor("y", "FP32", np.concatenate(inputs[0].parts)),)
        loop.call_at(self.free_s, self._done, self._number, outputs)
        return self._number

    def release(self, number: int) -> None:
        """As FrontLink.release."""

    def die(self) -> None:
        """Its process ends: nothing that it has is answered."""
        self.dead = True
        self.handler.link_lost(self, (), "killed")

    def _done(self, number: int, outputs: tuple[Tensor, ...]) -> None:
        if not self.dead:
            self.handler.batch_done(self, BatchDone(number, outputs, Times()))
