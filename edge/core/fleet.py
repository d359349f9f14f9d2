"""A fleet: boxes with named quantities, and jobs whose tasks ask for them.

Amounts have the unit of their resource (cores, GB, devices); times are seconds since the start of the fleet's clock.
The terms are those of ESCHER (thesis of R. Bhardwaj, chapter 4). A name with a colon is an **ephemeral resource**: it
is made, resized and removed while the fleet runs. Every other name is physical: a box has it or has not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from edge.core import checks
from edge.core.errors import InvalidValue

#: Capacity of an ephemeral resource that is never used up.
UNBOUNDED: Final = 1_000_000.0
#: An avoidance group and a zone may name the box itself in place of a label.
BOX_LABEL: Final = "box"
#: Kinds of ephemeral resources that the fleet's own schedulers make; jobs may not offer them.
OWN_KINDS: Final = frozenset({"apart", "at", "done", "queue", "zone"})

#: open: the box is heard. silent: beats are missing. lost: its lease is over.
BoxStatus = Literal["open", "silent", "lost"]
FleetDiscipline = Literal["fifo", "priority"]
FLEET_DISCIPLINES: Final[tuple[FleetDiscipline, ...]] = ("fifo", "priority")

_PHYSICAL: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,62}")
_EPHEMERAL: Final = re.compile(r"[a-z][a-z0-9-]{0,30}:[A-Za-z0-9][A-Za-z0-9_./@=-]{0,126}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@/-]{0,126}")


def is_ephemeral(name: str) -> bool:
    """Whether a resource's name is that of an ephemeral resource."""
    return ":" in name


def ephemeral_kind(name: str) -> str | None:
    """The kind of an ephemeral resource; None: the resource is physical."""
    kind, colon, _ = name.partition(":")
    return kind if colon else None


def check_name(path: str, name: object) -> None:
    """A box's, a job's, a tenant's, a queue's, a group's name. Raises InvalidValue."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidValue(path, name, "1 to 127 letters, digits and _ . @ / -, a letter or digit first")


def check_resource(path: str, name: object, *, physical: bool) -> None:
    """A resource's name; `physical`: ephemeral ones are not allowed. Raises InvalidValue."""
    if isinstance(name, str) and (_PHYSICAL.fullmatch(name) or (not physical and _EPHEMERAL.fullmatch(name))):
        return
    words = "a resource's name: a letter, then up to 62 letters, digits and _ . / -"
    raise InvalidValue(path, name, words if physical else f"{words}, or KIND:NAME of an ephemeral resource")


@dataclass(frozen=True)
class FleetBox:
    """One appliance: its physical `resources` and its `labels` (site, rack, ...)."""

    name: str
    resources: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("name", self.name)
        for name, amount in self.resources.items():
            check_resource(f"resources.{name}", name, physical=True)
            checks.in_range(f"resources.{name}", amount, 0.0, UNBOUNDED)
        if BOX_LABEL in self.labels:
            raise InvalidValue(f"labels.{BOX_LABEL}", self.labels[BOX_LABEL], "another label: every box is its own box")

    def label(self, name: str) -> str | None:
        """The value of a label; `box` is the box's own name."""
        return self.name if name == BOX_LABEL else self.labels.get(name)


@dataclass(frozen=True)
class FleetTenant:
    """A tenant, or a group of tenants where others name it as their `parent`; `weight` counts among its siblings."""

    name: str
    weight: float
    parent: str | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name)
        checks.in_range("weight", self.weight, 0.0, 1e9, low_open=True)


@dataclass(frozen=True)
class FleetQueue:
    """At most `slots` tasks of its jobs run at once. Jobs begin in the order of arrival (fifo), or the highest priority
    first and then in the order of arrival; no job overtakes."""

    name: str
    slots: int | None = None
    discipline: FleetDiscipline = "fifo"

    def __post_init__(self) -> None:
        check_name("name", self.name)
        checks.one_of("discipline", self.discipline, FLEET_DISCIPLINES)
        if self.slots is not None:
            checks.in_range("slots", self.slots, 1, UNBOUNDED)


@dataclass(frozen=True)
class Avoidance:
    """No two tasks of the `group` share a value of the label `per`."""

    group: str
    per: str = BOX_LABEL


@dataclass(frozen=True)
class SpatialRule:
    """Limits the boxes of a task, all at once: `zone` (label -> allowed values), `near` (a box of each of these jobs),
    `avoid`."""

    zone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    near: tuple[str, ...] = ()
    avoid: Avoidance | None = None


@dataclass(frozen=True)
class FleetJob:
    """`tasks` equal tasks that each hold `demand`. `duration_s` is the work of one task; None: a service, which shall
    always run. `rule` always holds; of `choices` one holds besides: the first, or the next one each time that
    `relax_after_s` has passed. `gang`: all tasks run or none does. `after`: jobs that end before. `overlap`: two copies
    may live while a box is cut off. `checkpoints`: work done before a loss counts. `offers`: ephemeral resources that
    exist on a task's box while the task does; other jobs may ask for them, so a child lives in what its parent holds.
    """

    id: str
    demand: Mapping[str, float]
    tasks: int = 1
    duration_s: float | None = None
    tenant: str | None = None
    queue: str | None = None
    priority: float = 0.0
    gang: bool = False
    after: tuple[str, ...] = ()
    rule: SpatialRule = field(default_factory=SpatialRule)
    choices: tuple[SpatialRule, ...] = ()
    relax_after_s: float = 0.0
    overlap: bool = False
    checkpoints: bool = False
    offers: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("id", self.id)
        checks.in_range("tasks", self.tasks, 1, 100_000)
        if int(self.tasks) != self.tasks:
            raise InvalidValue("tasks", self.tasks, "a whole number")
        if self.duration_s is not None:
            checks.in_range("duration_s", self.duration_s, 0.0, 1e9)
        checks.in_range("relax_after_s", self.relax_after_s, 0.0, 1e9)
        checks.in_range("priority", self.priority, -1e9, 1e9)
        for name, amount in self.demand.items():
            check_resource(f"demand.{name}", name, physical=False)
            checks.in_range(f"demand.{name}", amount, 0.0, UNBOUNDED)
            if ephemeral_kind(name) in OWN_KINDS:
                raise InvalidValue(f"demand.{name}", name, "a kind that is not one of " + ", ".join(sorted(OWN_KINDS)))
        for name, amount in self.offers.items():
            check_resource(f"offers.{name}", name, physical=False)
            checks.in_range(f"offers.{name}", amount, 0.0, UNBOUNDED, low_open=True)
            kind = ephemeral_kind(name)
            if kind is None or kind in OWN_KINDS:
                raise InvalidValue(f"offers.{name}", name, "KIND:NAME of a kind that the fleet does not make itself")

    @property
    def together(self) -> bool:
        """Whether all its tasks have to fit at one time: a gang, or a service."""
        return self.gang or self.duration_s is None

    @property
    def rules(self) -> tuple[SpatialRule, ...]:
        """The rules that hold besides `rule`, by choice: at least one."""
        return self.choices or (SpatialRule(),)


@dataclass(frozen=True)
class FleetRules:
    """How long silence lasts before it means something. A box sends a beat every `beat_s`; after `missed_beats` of them
    nothing new is placed on it. `lease_s` after its last beat what others asked of it is given to other boxes; the box
    itself stops that work `fence_margin_s` earlier, so that no task lives twice. A box that gives no answer to an order
    within `answer_s` did not get it. A gang, or a task larger than half of the largest box, that waited
    `patience_s` while others went first has boxes kept free for it."""

    beat_s: float = 2.0
    missed_beats: int = 3
    lease_s: float = 15.0
    fence_margin_s: float = 1.0
    answer_s: float = 1.0
    patience_s: float = 10.0

    @property
    def silent_s(self) -> float:
        """From the last beat until a box counts as silent."""
        return self.beat_s * self.missed_beats


@dataclass(frozen=True)
class TaskAt:
    """One task of a job on a box. `epoch` counts how often the task was placed: the higher one is in force."""

    job: str
    task: int
    box: str
    epoch: int
