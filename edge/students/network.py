"""The common form of student networks: three parts that can be trained, or frozen and their activations kept."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

from torch import Tensor, nn

from edge.core.configs import Layers, StudentSpec

#: Activations handed from one part to the next; each (B, ...).
Activations = tuple[Tensor, ...]


class StudentNet(nn.Module):
    """stem -> last stage -> head. `forward` is the three in a row.

    A retraining configuration with `layers` "head" trains the head only, so that the result of `run_last_stage` can be
    computed once; "last_stage" trains the last stage and the head; "all" trains everything.
    """

    spec: StudentSpec

    @abstractmethod
    def run_stem(self, x: Tensor) -> Activations:
        """Normalised pictures (B, 3, h, w) to the activations that the last stage needs."""

    @abstractmethod
    def run_last_stage(self, stem: Activations) -> Activations:
        """Activations of the stem to those that the head needs."""

    @abstractmethod
    def run_head(self, features: Activations) -> Activations:
        """Activations of the last stage to the network's output."""

    @abstractmethod
    def parts(self, layers: Layers) -> Sequence[nn.Module]:
        """The modules that a configuration with `layers` trains."""

    def forward(self, x: Tensor) -> Activations:
        return self.run_head(self.run_last_stage(self.run_stem(x)))

    def freeze_all_but(self, layers: Layers) -> list[nn.Parameter]:
        """Puts the parts that `layers` trains into training mode and everything else into eval mode without
        gradients (a frozen BatchNorm keeps its statistics). Returns the parameters to train."""
        self.eval()
        for parameter in self.parameters():
            parameter.requires_grad_(False)
        chosen: list[nn.Parameter] = []
        for part in self.parts(layers):
            part.train()
            for parameter in part.parameters():
                parameter.requires_grad_(True)
                chosen.append(parameter)
        return chosen


def even(channels: float, step: int = 8) -> int:
    """`channels` rounded to a multiple of `step`, at least one step."""
    return max(step, math.floor(channels / step + 0.5) * step)
