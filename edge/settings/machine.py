"""Settings of the machine, and the keys that a site file had for them before they had a section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from edge.core.shares import ShareChoice
from edge.settings.base import FieldProblem, Settings


class MachineSettings(Settings):
    """The machine: the device that Magpie works on, and the part of the machine that it may use."""

    device: str = Field("auto", description="auto, cpu, or a GPU's UUID")
    cores: float | None = Field(None, gt=0, le=1024, description="CPU cores Magpie may use; empty: all")
    worker_memory_mb: float | None = Field(
        None,
        ge=512,
        le=16_777_216,
        description="memory of one worker process: one that has more is ended and started again; empty: a quarter of "
        "the machine's, at least 2048",
    )
    share_kind: ShareChoice = "auto"
    control_share: float = Field(0.08, ge=0, le=0.5, description="kept for the control process itself")


def old_keys(site: Any) -> tuple[str, ...]:
    """The settings of the machine that `site`, a site file's content, has outside the section `machine`."""
    return tuple(name for name in MachineSettings.model_fields if isinstance(site, Mapping) and name in site)


def in_section(site: Any) -> Any:
    """`site` with its old keys in the section `machine`. Raises FieldProblem for a setting that is in both places."""
    old = old_keys(site)
    if not old:
        return site
    others = {key: value for key, value in site.items() if key not in old}
    section = site.get("machine", {})
    if not isinstance(section, Mapping):
        return others  # the section is the mistake; the old keys are none
    for name in old:
        if name in section:
            raise FieldProblem(name, f"either {name} or machine.{name}, not both")
    return others | {"machine": {**section} | {name: site[name] for name in old}}


def place_written(site: Any, place: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Where `site` has the setting at `place`: an old key was moved into the section before it was checked."""
    moved = len(place) > 1 and place[0] == "machine" and place[1] in old_keys(site)
    return place[1:] if moved else place
