"""When the reorganiser plans anew, and which changes the share kind in force allows."""

from __future__ import annotations

from dataclasses import dataclass, field

from edge.core import checks
from scheduler.gpulets.rates import RateSettings


@dataclass(frozen=True)
class ReorganiserSettings:
    """When to plan anew. Ratios are of the rate planned for; times are elapsed seconds.

    More than `grow` above the plan, or more than `violations` of the requests of `slo_period_s` seconds missed: a new
    plan, at most every `grow_dwell_s`. More than `shrink` below it, or `waste` (share) could be saved: a new plan, at
    most every `shrink_dwell_s`. `warm_share` is kept free so that new partitions can be warmed beside the old ones.
    """

    rates: RateSettings = field(default_factory=RateSettings)
    grow: float = 0.1
    shrink: float = 0.2
    violations: float = 0.01
    waste: float = 0.05
    grow_dwell_s: float = 2.0
    shrink_dwell_s: float = 20.0
    slo_period_s: float = 5.0
    warm_share: float = 0.05
    max_gpulets: int | None = None

    def __post_init__(self) -> None:
        checks.in_range("reorganiser.grow", self.grow, 0.0, 10.0)
        checks.in_range("reorganiser.shrink", self.shrink, 0.0, 0.99)
        checks.in_range("reorganiser.violations", self.violations, 0.0, 1.0)
        checks.in_range("reorganiser.waste", self.waste, 0.0, 1.0)
        checks.in_range("reorganiser.grow_dwell_s", self.grow_dwell_s, 0.0, 1e6)
        checks.in_range("reorganiser.shrink_dwell_s", self.shrink_dwell_s, 0.0, 1e6)
        checks.positive("reorganiser.slo_period_s", self.slo_period_s)
        checks.in_range("reorganiser.warm_share", self.warm_share, 0.0, 0.5)


@dataclass(frozen=True)
class ShareKindLimits:
    """Of the share kind in force: `live` resize, the smallest share, and whether shares may add up to more than the
    device for the time of a switch."""

    live: bool = True
    min_share: float = 0.01
    oversubscribe: bool = True
