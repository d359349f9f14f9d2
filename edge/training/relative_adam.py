"""Adam with steps relative to the size of each weight.

Published detectors have their BatchNorms folded into convolutions, so weights of one network differ in size by a factor
of a thousand: a step that moves one layer ruins another. Here the step of a weight is that of Adam (Kingma and Ba 2015,
algorithm 1) times the root mean square of its output channel's weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

BETAS = (0.9, 0.99)
_EPS = 1e-8
#: Part of the whole tensor's size that each channel's step has at least.
FLOOR = 0.1


class RelativeAdam:
    """Steps `parameters` by `rate` times their scale. Biases (one side) move by the size of the whole tensor."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._scales = [_scale(p.detach()) for p in self._parameters]
        self._first = [torch.zeros_like(p) for p in self._parameters]
        self._second = [torch.zeros_like(p) for p in self._parameters]
        self._steps = 0

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """One step along the gradients; parameters without one stay."""
        self._steps += 1
        one, two = (1 - b**self._steps for b in BETAS)
        for p, scale, first, second in zip(self._parameters, self._scales, self._first, self._second, strict=True):
            if p.grad is None:
                continue
            first.mul_(BETAS[0]).add_(p.grad, alpha=1 - BETAS[0])
            second.mul_(BETAS[1]).addcmul_(p.grad, p.grad, value=1 - BETAS[1])
            p.sub_(rate * scale * (first / one) / ((second / two).sqrt() + _EPS))

    def clear(self) -> None:
        """Forget the gradients."""
        for p in self._parameters:
            p.grad = None

    def state(self) -> dict[str, Any]:
        """The state that `restore` takes."""
        return {"steps": self._steps, "first": self._first, "second": self._second, "scales": self._scales}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where another left off."""
        self._steps = int(state["steps"])
        self._first, self._second, self._scales = list(state["first"]), list(state["second"]), list(state["scales"])


def _scale(p: Tensor) -> Tensor:
    whole = p.square().mean().sqrt()
    if p.ndim < 2:
        return whole.clamp(min=1e-6)
    channel = p.square().mean(tuple(range(1, p.ndim)), keepdim=True).sqrt()
    return (channel + FLOOR * whole).clamp(min=1e-8)
