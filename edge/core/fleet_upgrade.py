"""The upgrade of one box of a fleet: how far it is, and what the box sees of itself and of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from edge.core import checks
from edge.core.fleet_links import Unplaced

#: draining: its cameras leave; running: the operator's command; returning: its appliance starts; undraining: it takes
#: cameras again.
UpgradeStep = Literal["draining", "running", "returning", "undraining"]
#: Why another box counts as away.
BoxAway = Literal["drained", "silent", "lost", "unknown"]


@dataclass(frozen=True)
class UpgradeProgress:
    """`command` is the operator's. Before it ran the appliance was of `version` and began at `started_utc_s`; `code` is
    how it ended (None: it has not)."""

    step: UpgradeStep
    command: tuple[str, ...]
    version: str = ""
    started_utc_s: float = 0.0
    code: int | None = None

    def __post_init__(self) -> None:
        checks.one_of("step", self.step, ("draining", "running", "returning", "undraining"))
        checks.not_empty("command", self.command)


@dataclass(frozen=True)
class UpgradeSeen:
    """`fresh`: this box's agent wrote its status lately. `appliance`: the appliance answers; of `version`, begun at
    `started_utc_s`. `drained`: this box takes no cameras; `cameras` are on it still, and `waiting` says why one cannot
    leave. `away`: the other boxes that are."""

    fresh: bool
    appliance: bool = False
    version: str = ""
    started_utc_s: float = 0.0
    drained: bool = False
    cameras: tuple[str, ...] = ()
    waiting: Mapping[str, Unplaced] = field(default_factory=dict)
    away: Mapping[str, BoxAway] = field(default_factory=dict)
