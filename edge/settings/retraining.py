"""Settings of retraining: windows, policy, the space of retraining configurations."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from edge.core.configs import RetrainingConfig
from edge.core.hours import inside
from edge.settings.base import QuietHours, Settings
from scheduler.policies import DEFAULT_POLICY, WINDOW_POLICIES

if TYPE_CHECKING:
    WindowPolicyName = str
else:
    WindowPolicyName = Literal[tuple(WINDOW_POLICIES)]


class ConfigurationSpace(Settings):
    """The space of retraining configurations gamma: the product of the lists (thesis section 2.3.1)."""

    epochs: tuple[Annotated[int, Field(ge=1, le=1000)], ...] = Field((4, 10, 20), min_length=1)
    batch_sizes: tuple[Annotated[int, Field(ge=1, le=1024)], ...] = Field((8,), min_length=1)
    layers: tuple[Literal["head", "last_stage", "all"], ...] = Field(("head", "last_stage", "all"), min_length=1)
    data_fractions: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field((0.25, 0.5, 1.0), min_length=1)
    learning_rates: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field((2e-3,), min_length=1)
    last_layer_widths: tuple[Annotated[int, Field(ge=0, le=4096)], ...] = Field((0,), min_length=1)

    def configs(self) -> tuple[RetrainingConfig, ...]:
        """Every configuration of the space."""
        return tuple(
            RetrainingConfig(e, b, y, d, r, w)
            for e, b, y, d, r, w in itertools.product(
                self.epochs, self.batch_sizes, self.layers, self.data_fractions, self.learning_rates,
                self.last_layer_widths,
            )
        )  # fmt: skip


class RetrainingSettings(Settings):
    """Retraining windows: changeable by REST at run time, in force from the next boundary."""

    enabled: bool = True
    window_s: float = Field(200.0, ge=10, le=86400, description="length of a retraining window in seconds")
    policy: WindowPolicyName = DEFAULT_POLICY
    a_min: float | None = Field(None, ge=0, le=1, description="floor of the momentary inference accuracy")
    delta: float = Field(0.05, gt=0, le=1, description="quantum of shares")
    space: ConfigurationSpace = ConfigurationSpace()
    published_space: ConfigurationSpace = Field(
        ConfigurationSpace(
            epochs=(2, 4, 8),
            batch_sizes=(4,),
            layers=("all", "last_stage"),  # the first is tried first, where there is no time for both
            data_fractions=(1.0,),
            learning_rates=(1e-3,),
        ),
        description="the same for students that began as a published detector; learning rates are relative",
    )
    label_budget: int | None = Field(
        None, ge=4, le=5000, description="frames per camera and window that the teacher labels; empty: finds itself"
    )
    held_out: float = Field(0.3, ge=0.1, le=0.5, description="latest part of the labelled frames, kept for the gate")
    golden_share: float | None = Field(
        None, ge=0.01, le=0.9, description="share of the device that labelling may use; empty: finds itself"
    )
    evaluation_share: float | None = Field(
        None, ge=0.01, le=0.5, description="share for measuring windows and exemplars; empty: finds itself"
    )
    profiling_budget: float | None = Field(
        None, gt=0, le=0.5, description="part of a window's device time for profiling; empty: finds itself"
    )
    exemplars: int = Field(64, ge=0, le=5000, description="older frames kept per camera so that nothing is forgotten")
    groups: bool = Field(True, description="several cameras may be retrained as one, where a plan gains by it")
    gate_tolerance: float = Field(0.0, ge=0, le=0.2, description="a candidate may be so much worse and still pass")
    rollback_margin: float = Field(0.05, ge=0, le=1, description="live accuracy so far under its parent rolls back")
    quiet_hours: QuietHours = Field((), description="HH:MM-HH:MM in the box's time zone: nothing is retrained then")

    def configs(self, published: bool) -> tuple[RetrainingConfig, ...]:
        """The space of a camera's student: one that began as a published detector, or one of our own architectures."""
        return (self.published_space if published else self.space).configs()

    def retraining_allowed(self, minute_of_day: int) -> bool:
        """False inside quiet hours. `minute_of_day` 0-1439 in the box's time zone."""
        return self.enabled and not inside(self.quiet_hours, minute_of_day)
