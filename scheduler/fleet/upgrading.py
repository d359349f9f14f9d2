"""The next step of a box's upgrade. At most one box of a fleet is away at a time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from edge.core.fleet_upgrade import UpgradeProgress, UpgradeSeen

#: An appliance whose start moved by less is the same one, in seconds: its clock is read twice.
SAME_START_S: Final = 2.0

#: wait: look again; drain, undrain: give that order; run: the operator's command; done: the box is back; give_up: see
#: the reason.
UpgradeDo = Literal["wait", "drain", "run", "undrain", "done", "give_up"]
#: others: another box is away; agent: this box's agent reports nothing; cameras: some are on this box still; appliance:
#: it does not answer; restart: it has not begun anew; version: it is of another version than was asked for; command:
#: the operator's command failed.
UpgradeReason = Literal["", "others", "agent", "cameras", "appliance", "restart", "version", "command"]


@dataclass(frozen=True)
class UpgradeNext:
    """The next step, and why it waits or gives up."""

    do: UpgradeDo
    reason: UpgradeReason = ""


def next_of(
    progress: UpgradeProgress, seen: UpgradeSeen, waited_s: float, patience_s: float, version: str = ""
) -> UpgradeNext:
    """After `waited_s` seconds in this step; after `patience_s` it is given up. `version` is the one that
    shall run then (empty: any)."""
    late = waited_s >= patience_s
    if progress.step == "draining":
        return _draining(seen, late)
    if progress.step == "running":
        return UpgradeNext("run")
    if progress.step == "returning":
        return _returning(progress, seen, late, version)
    if not seen.fresh:
        return _wait("agent", late)
    if seen.drained:
        return UpgradeNext("undrain")
    return UpgradeNext("give_up", "command") if progress.code else UpgradeNext("done")


def _draining(seen: UpgradeSeen, late: bool) -> UpgradeNext:
    if not seen.fresh:
        return _wait("agent", late)
    if seen.away:
        # Also where another box was drained at the same time: both give up, none is away.
        return UpgradeNext("give_up", "others")
    if not seen.drained:
        return _wait("agent", late) if late else UpgradeNext("drain")
    return _wait("cameras", late) if seen.cameras else UpgradeNext("run")


def _returning(progress: UpgradeProgress, seen: UpgradeSeen, late: bool, version: str) -> UpgradeNext:
    if not seen.appliance:
        return _wait("appliance", late)
    if not progress.code:
        if abs(seen.started_utc_s - progress.started_utc_s) < SAME_START_S:
            return _wait("restart", late)
        if version and seen.version != version:
            return _wait("version", late)
    return UpgradeNext("undrain") if seen.fresh else _wait("agent", late)


def _wait(reason: UpgradeReason, late: bool) -> UpgradeNext:
    return UpgradeNext("give_up" if late else "wait", reason)
