"""Steps relative to the size of each channel's weights."""

from __future__ import annotations

import torch
from torch import nn

from edge.training.relative_adam import FLOOR, RelativeAdam


def test_the_first_step_is_the_rate_times_the_channels_size() -> None:
    weight = nn.Parameter(torch.stack([torch.full((3, 3, 3), 0.001), torch.full((3, 3, 3), 2.0)]))
    bias = nn.Parameter(torch.tensor([0.0, 4.0]))
    before = [p.detach().clone() for p in (weight, bias)]
    optimiser = RelativeAdam([weight, bias])
    (weight.sum() - bias.sum()).backward()
    optimiser.step(0.01)
    whole = before[0].square().mean().sqrt()
    for channel, size in enumerate((0.001, 2.0)):
        moved = before[0][channel] - weight.detach()[channel]
        assert torch.allclose(moved, 0.01 * (size + FLOOR * whole) * torch.ones(3, 3, 3), rtol=1e-4)
    # A bias moves by the size of all biases, so one that is zero can move.
    assert torch.allclose(bias.detach() - before[1], 0.01 * before[1].square().mean().sqrt() * torch.ones(2), rtol=1e-4)


def test_the_size_of_the_gradient_does_not_count() -> None:
    moved = []
    for factor in (1e-3, 1e3):
        p = nn.Parameter(torch.full((2, 2), 0.5))
        optimiser = RelativeAdam([p])
        for _ in range(5):
            optimiser.clear()
            (factor * p).sum().backward()
            optimiser.step(0.02)
        moved.append(0.5 - p.detach())
    assert torch.allclose(moved[0], moved[1], rtol=1e-3)


def test_parameters_without_a_gradient_stay() -> None:
    one, other = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    optimiser = RelativeAdam([one, other])
    one.sum().backward()
    optimiser.step(0.1)
    assert torch.equal(other, torch.ones(2, 2))
    assert not torch.equal(one, torch.ones(2, 2))
    optimiser.clear()
    assert one.grad is None


def test_all_zero_weights_do_not_break() -> None:
    p = nn.Parameter(torch.zeros(2, 2))
    optimiser = RelativeAdam([p])
    p.sum().backward()
    optimiser.step(0.1)
    assert torch.isfinite(p).all()


def test_state_and_restore_equal_an_uninterrupted_run() -> None:
    def run(p: nn.Parameter, optimiser: RelativeAdam, steps: range) -> None:
        for n in steps:
            optimiser.clear()
            ((p - n) ** 2).sum().backward()
            optimiser.step(0.05)

    start = torch.linspace(-1, 1, 8).reshape(2, 4)
    whole = nn.Parameter(start.clone())
    run(whole, RelativeAdam([whole]), range(7))
    first = nn.Parameter(start.clone())
    optimiser = RelativeAdam([first])
    run(first, optimiser, range(3))
    # The scales are those of the beginning, not of where the run was broken off.
    second = nn.Parameter(first.detach().clone())
    later = RelativeAdam([second])
    later.restore(optimiser.state())
    run(second, later, range(3, 7))
    assert torch.equal(whole, second)
