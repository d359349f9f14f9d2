"""torch's function of AdamW over groups of parameters: the same steps as its class."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edge.training.adamw import GroupedAdamW, RatedGroup

RATE, DECAY = 0.03, 1e-2


def parameters() -> list[nn.Parameter]:
    torch.manual_seed(5)
    return [nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(2))]


def grouped(some: list[nn.Parameter]) -> GroupedAdamW:
    return GroupedAdamW([RatedGroup(some[:1], 1.0), RatedGroup(some[1:], 0.5)], DECAY)


def loss(some: list[nn.Parameter], step: int) -> Tensor:
    """The second has no gradient in the first step."""
    return torch.stack([(p - step).square().sum() for n, p in enumerate(some) if step or n != 1]).sum()


def test_its_steps_are_those_of_torchs_class() -> None:
    ours, theirs = parameters(), parameters()
    optimiser = grouped(ours)
    reference = torch.optim.AdamW(
        [{"params": theirs[:1], "lr": RATE}, {"params": theirs[1:], "lr": 0.5 * RATE}], weight_decay=DECAY
    )
    for step in range(4):
        optimiser.clear()
        loss(ours, step).backward()
        optimiser.step(RATE)
        reference.zero_grad()
        loss(theirs, step).backward()
        reference.step()
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert not torch.equal(ours[1], parameters()[1])


def test_state_and_restore_equal_an_uninterrupted_run() -> None:
    whole, broken = parameters(), parameters()
    one, other = grouped(whole), grouped(broken)
    for step in range(5):
        if step == 3:
            kept, other = other.state(), grouped(broken)
            other.restore(kept)
        for some, optimiser in ((whole, one), (broken, other)):
            optimiser.clear()
            loss(some, step).backward()
            optimiser.step(RATE)
    assert all(torch.equal(a, b) for a, b in zip(whole, broken, strict=True))
