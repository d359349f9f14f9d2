"""torch's AdamW without torch's compiler.

An object of `torch.optim.AdamW` imports `torch._dynamo` when it is made: two seconds and 140 MB in each process of a
retraining, and nothing here compiles. The function beneath it, `torch.optim.adamw.adamw`, does the same arithmetic and
imports nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

#: The values that `torch.optim.AdamW` has without any given.
BETAS = (0.9, 0.999)
_EPS = 1e-8


@dataclass
class RatedGroup:
    """Parameters that step by `scale` times the learning rate."""

    parameters: Sequence[nn.Parameter]
    scale: float
    first: list[Tensor] = field(init=False)
    second: list[Tensor] = field(init=False)
    steps: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.steps = [torch.zeros(()) for _ in self.parameters]


class GroupedAdamW:
    """Steps each group's parameters at its own part of the learning rate."""

    def __init__(self, groups: Sequence[RatedGroup], weight_decay: float) -> None:
        self._groups, self._weight_decay = groups, weight_decay

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """One step along the gradients; parameters without one stay."""
        for group in self._groups:
            moved = [n for n, p in enumerate(group.parameters) if p.grad is not None]
            adamw(
                [group.parameters[n] for n in moved],
                [grad for n in moved if (grad := group.parameters[n].grad) is not None],
                [group.first[n] for n in moved],
                [group.second[n] for n in moved],
                [],
                [group.steps[n] for n in moved],
                amsgrad=False,
                beta1=BETAS[0],
                beta2=BETAS[1],
                lr=rate * group.scale,
                weight_decay=self._weight_decay,
                eps=_EPS,
                maximize=False,
            )

    def clear(self) -> None:
        """Forget the gradients."""
        for group in self._groups:
            for p in group.parameters:
                p.grad = None

    def state(self) -> list[dict[str, list[Tensor]]]:
        """The state that `restore` takes."""
        return [{"first": g.first, "second": g.second, "steps": g.steps} for g in self._groups]

    def restore(self, state: Sequence[dict[str, Any]]) -> None:
        """Go on where another left off."""
        for group, kept in zip(self._groups, state, strict=True):
            group.first, group.second = list(kept["first"]), list(kept["second"])
            # torch counts steps on the CPU, whatever device a checkpoint was read for.
            group.steps = [steps.cpu() for steps in kept["steps"]]
