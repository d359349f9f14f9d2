"""Devices that cameras need: to keep their floors, and to be at their best.

Shares are in devices of one box, accuracies are predicted time averages over a window [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from edge.core.shares import ideal_caps
from edge.core.window import WindowProblem
from scheduler.follow import followed_policy
from scheduler.policies import DEFAULT_POLICY, WindowPolicy
from scheduler.serving_floor import floors_share

#: Cameras are at their best when their mean accuracy is this close to that on the whole box.
BEST_WITHIN = 0.005
#: Halvings in the search for a share.
HALVINGS = 5
_EPS = 1e-6


@dataclass(frozen=True)
class CamerasNeed:
    """Devices that cameras need to keep their floors, and with which they are at their best."""

    floor: float
    best: float


def cameras_need(window: WindowProblem | None, capacity: float, policy: WindowPolicy | None = None) -> CamerasNeed:
    """Devices for the floors (may be more than there are), and for the best on `capacity`, of these cameras.

    The floor of a camera: the least share at which its accuracy at the start is `a_min` (its cheapest configuration
    where it has no floor or cannot reach it), in steps that can be granted. At their best: the smallest share with
    which the mean accuracy is within half a point of that on all of `capacity`, found by halving. `policy`
    defaults as for `admit`.
    """
    if window is None:
        return CamerasNeed(0.0, 0.0)
    floor, asked = floors_share(window), policy or followed(window)

    def objective(share: float) -> float:
        return asked.plan(replace(window, num_gpus=share)).objective

    low, high = min(floor, capacity), capacity
    whole = objective(capacity)
    for _ in range(HALVINGS):
        share = (low + high) / 2
        if share <= _EPS:
            break
        if objective(share) >= whole - BEST_WITHIN:
            high = share
        else:
            low = share
    return CamerasNeed(round(floor, 6), round(high, 6))


@dataclass(frozen=True)
class CamerasOfBox:
    """The devices that cameras need on a box of this `capacity`, each reckoned once."""

    window: WindowProblem | None
    capacity: float
    policy: WindowPolicy

    @cached_property
    def floor(self) -> float:
        """Devices that keep all floors."""
        return floors_share(self.window)

    @cached_property
    def best(self) -> float:
        """Devices with which the cameras are at their best."""
        return cameras_need(self.window, self.capacity, self.policy).best


def followed(window: WindowProblem | None) -> WindowPolicy:
    """The plan that is followed, on a device that grants every multiple of the cameras' `share_step`."""
    return followed_policy(DEFAULT_POLICY, ideal_caps(None if window is None else window.share_step))
