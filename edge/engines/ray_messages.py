"""Messages between the processes beside Ray and their owner. Every field is JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


# --- to a box's part of the cluster -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class RayNodeStart:
    """Start the processes (see `RayNodeSpec`)."""

    box: str
    folder: str
    address: str
    warm_workers: int
    restart_s: float
    object_store_bytes: int
    head: str | None
    port: int


@dataclass(frozen=True)
class RayStop:
    """End all, then yourself."""


# --- from it ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RayNodeUp:
    """The box is part of the cluster. `head`: where others join (HOST:PORT). `pids`: process by name."""

    head: str
    node_id: str
    pids: dict[str, int]


@dataclass(frozen=True)
class RayStoreDown:
    """The head's store ended; it is started again."""


@dataclass(frozen=True)
class RayStoreUp:
    """The head's store is there again."""

    pids: dict[str, int]


@dataclass(frozen=True)
class RayFailed:
    """The process gives up; `why` for people."""

    why: str


# --- to the link ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RayConnect:
    """Become a driver of the cluster at `head`; `mode` as in `EngineMode`. `boxes`: amounts of each box that may be
    there; others are ignored. The boxes are looked at each `look_s`."""

    head: str
    address: str
    mode: str
    boxes: dict[str, dict[str, float]]
    look_s: float


@dataclass(frozen=True)
class RayKnow:
    """These are the boxes that may be there from now on, with their amounts."""

    boxes: dict[str, dict[str, float]]


@dataclass(frozen=True)
class RayLaunch:
    """Run a program on a box. `key` names it in the answers. It asks Ray for `resources`."""

    key: int
    box: str
    program: str
    arguments: dict[str, Any]
    resources: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RayCancel:
    """Stop a task."""

    key: int


@dataclass(frozen=True)
class RayResize:
    """Set resources of Ray on a box; answered by `RayResized` of the same number."""

    number: int
    box: str
    capacities: dict[str, float]


# --- from the link ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RayLinkUp:
    """The link is a driver."""


@dataclass(frozen=True)
class RayBoxJoined:
    """A box is there, empty."""

    box: str


@dataclass(frozen=True)
class RayBoxGone:
    """A box is gone with all its tasks: no more messages of these come."""

    box: str


@dataclass(frozen=True)
class RayResized:
    """The capacities in force; None with `why`: Ray did not do it."""

    number: int
    capacities: dict[str, float] | None
    why: str = ""


@dataclass(frozen=True)
class RayStarted:
    """A task's program began."""

    key: int


@dataclass(frozen=True)
class RayCheckpoint:
    """A task's checkpoint."""

    key: int
    state: dict[str, Any]


@dataclass(frozen=True)
class RayEnded:
    """A task's program returned."""

    key: int
    answer: Any


@dataclass(frozen=True)
class RayTaskFailed:
    """A task stopped before its end (see `EngineTaskFailed`)."""

    key: int
    lost: bool
    why: str


@dataclass(frozen=True)
class RayCancelled:
    """A task was stopped."""

    key: int
