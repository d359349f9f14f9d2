"""Rules, the facts that they look at, and the alarms that they raise.

An alarm has a life: it is new once, may be updated, and ends once. Times are UTC epoch seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from edge.core import checks
from edge.core.counts import Place
from edge.core.errors import InvalidValue
from edge.core.hours import span_minutes
from edge.core.roll_backs import RollBackReason
from edge.core.tracks import TrackedObject

RuleKind = Literal[
    "object",
    "accuracy",
    "camera_lost",
    "disk",
    "roll_back",
    "slo",
    "tenant",
    "stranger",
    "crowd",
    "movement",
    "unusual",
]
RULE_KINDS: Final[tuple[RuleKind, ...]] = (
    "object", "accuracy", "camera_lost", "disk", "roll_back", "slo", "tenant", "stranger", "crowd", "movement",
    "unusual",
)  # fmt: skip
Severity = Literal["info", "warning", "critical"]
SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "critical")
Phase = Literal["new", "update", "end"]

#: Kinds whose threshold `below` has a default, and that: free part of the disk; part of requests within their SLO.
DEFAULT_BELOW: Final[Mapping[str, float]] = {"disk": 0.05, "slo": 0.95}
#: Seconds that a condition must hold by default.
DEFAULT_AFTER_S: Final[Mapping[str, float]] = {"camera_lost": 60.0, "slo": 10.0, "crowd": 60.0}
#: How many spreads a count must be away from what is usual, by default.
DEFAULT_FACTOR: Final = 4.0


@dataclass(frozen=True)
class Rule:
    """When to raise an alarm. `cameras`, `classes`, `zones` empty: all. `below`, accuracies and parts are 0-1.

    object: an object of `classes` in one of `zones` (of the picture) for `dwell_s` seconds. accuracy: a window's
    realised accuracy below `below`. camera_lost: no pictures for `after_s`. disk: the free part is below `below`.
    roll_back: a model was rolled back by the appliance. slo: the part of a served model's requests that were answered
    within its objective is below `below` for `after_s`. tenant: a tenant has missed its goal with its entitlement for
    longer than `sharing.missed_minutes`. stranger: the fleet's agent refused a client without a good key or join code
    within the last minutes. crowd: more than `above` objects of `classes` are in one of `zones` at once (none: in the
    picture) for `after_s`. movement: an object of `classes` went from one of `from_zones` to one of `zones` (empty:
    any). unusual: an hour's count of `classes` over one of `lines` (empty: all), in one direction, is more than
    `factor` spreads away from that of the same hour of past weeks. `clip`: a clip of each alarm is kept (of "object").
    Nothing is raised in `quiet_hours`, and nothing anew
    within `min_interval_s` of the last new alarm of the rule and camera. Raises InvalidValue.
    """

    id: str
    kind: RuleKind
    name: str = ""
    enabled: bool = True
    cameras: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    dwell_s: float = 0.0
    below: float | None = None
    after_s: float | None = None
    severity: Severity = "warning"
    quiet_hours: tuple[str, ...] = ()
    min_interval_s: float = 0.0
    clip: bool = False
    above: int | None = None
    from_zones: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    factor: float | None = None

    def __post_init__(self) -> None:
        checks.one_of("rule.kind", self.kind, RULE_KINDS)
        checks.one_of("rule.severity", self.severity, SEVERITIES)
        checks.in_range("rule.dwell_s", self.dwell_s, 0.0, 86_400.0)
        checks.in_range("rule.min_interval_s", self.min_interval_s, 0.0, 604_800.0)
        if self.below is not None:
            checks.in_range("rule.below", self.below, 0.0, 1.0)
        elif self.kind == "accuracy":
            raise InvalidValue("rule.below", None, "a number from 0 to 1: alarms when accuracy is below it")
        if self.kind == "crowd" and self.above is None:
            raise InvalidValue("rule.above", None, "a number from 0: alarms when more objects than that are there")
        if self.kind == "movement" and not (self.zones or self.from_zones):
            raise InvalidValue("rule.zones", None, "zones, from_zones, or both: alarms at a movement between them")
        if self.above is not None:
            checks.in_range("rule.above", self.above, 0, 10_000)
        if self.factor is not None:
            checks.in_range("rule.factor", self.factor, 1.0, 100.0)
        if self.after_s is not None:
            checks.in_range("rule.after_s", self.after_s, 0.0, 86_400.0)
        for span in self.quiet_hours:
            span_minutes(span)

    @property
    def threshold(self) -> float:
        """`below`, or the kind's default."""
        return DEFAULT_BELOW.get(self.kind, 0.0) if self.below is None else self.below

    @property
    def wait_s(self) -> float:
        """`after_s`, or the kind's default."""
        return DEFAULT_AFTER_S.get(self.kind, 0.0) if self.after_s is None else self.after_s

    @property
    def spreads(self) -> float:
        """`factor`, or its default."""
        return DEFAULT_FACTOR if self.factor is None else self.factor

    @property
    def words(self) -> str:
        """The name for people."""
        return self.name or self.id


@dataclass(frozen=True)
class Alarm:
    """One alarm as it is now. `subject` tells apart what a rule may see more than once on a camera: an object's id, a
    zone, a line's direction, a served model's or a tenant's name. `value` is what was measured: seconds of stay,
    accuracy, free part, part within the SLO, a tenant's performance, a number of objects."""

    id: int
    rule: str
    rule_name: str
    kind: RuleKind
    severity: Severity
    camera: str | None
    subject: str
    phase: Phase
    began_utc_s: float
    message: str
    value: float | None = None
    object: int | None = None
    ended_utc_s: float | None = None
    acknowledged_by: str | None = None
    acknowledged_utc_s: float | None = None
    picture: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For REST, outputs and the journal."""
        return {
            "id": self.id, "rule": self.rule, "rule_name": self.rule_name, "kind": self.kind,
            "severity": self.severity, "camera": self.camera, "phase": self.phase, "began_utc_s": self.began_utc_s,
            "ended_utc_s": self.ended_utc_s, "message": self.message,
            "value": None if self.value is None else round(self.value, 4), "object": self.object,
            "acknowledged_by": self.acknowledged_by, "acknowledged_utc_s": self.acknowledged_utc_s,
            "picture": self.picture, "details": dict(self.details),
        }  # fmt: skip


# The facts that rules look at.


@dataclass(frozen=True)
class Fact:
    """Base: something is so, now."""


@dataclass(frozen=True)
class ObjectsNow(Fact):
    """Every confirmed object of a camera that is there now; an object missing here is gone."""

    camera: str
    objects: tuple[TrackedObject, ...]


@dataclass(frozen=True)
class Moved(Fact):
    """An object that is gone went from one zone to another."""

    camera: str
    object: int
    class_name: str
    from_zone: str
    to_zone: str


@dataclass(frozen=True)
class CountedHour:
    """An hour of a camera: the part of it [0, 1] that was watched, and objects over lines by direction and class.
    `not_yet`: lines at which nothing was counted until then, also not before: they may not have been drawn yet."""

    watched: float
    objects: Mapping[tuple[Place, str], int]
    not_yet: frozenset[str] = frozenset()


@dataclass(frozen=True)
class HourCounted(Fact):
    """A camera's hour that is over, and the same hour of past weeks, the latest first. `places`: the directions of the
    lines that it has."""

    camera: str
    start_utc_s: int
    places: tuple[Place, ...]
    now: CountedHour
    past: tuple[CountedHour, ...]


@dataclass(frozen=True)
class AccuracyMeasured(Fact):
    """Realised accuracy [0, 1] of a camera's window."""

    camera: str
    window: int
    accuracy: float


@dataclass(frozen=True)
class CameraNow(Fact):
    """State of a camera's stream; to be reported again every second or so."""

    camera: str
    live: bool
    words: str = ""


@dataclass(frozen=True)
class CameraGone(Fact):
    """A camera was removed or switched off: its alarms end."""

    camera: str
    words: str = "the camera was removed"


@dataclass(frozen=True)
class DiskNow(Fact):
    """Bytes of the data folder's disk."""

    free_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class RolledBack(Fact):
    """An earlier model is in force again. Rules look at it where no person asked for it."""

    camera: str
    version: str
    reason: RollBackReason


@dataclass(frozen=True)
class Promoted(Fact):
    """A newly trained model is in force; its retraining took `device_seconds`."""

    camera: str
    version: str
    device_seconds: float = 0.0


@dataclass(frozen=True)
class ModelOwner:
    """The tenant that a served model is of, and of an application the camera that asks it, if one does."""

    tenant: str
    cameras: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServedNow(Fact):
    """Parts [0, 1] of recent requests answered within their objective, by served model; a model missing here is served
    no more. `owners` by model: its alarm is for those who may see that tenant; one without an owner is of the whole
    box."""

    within: Mapping[str, float]
    owners: Mapping[str, ModelOwner] = field(default_factory=dict)


@dataclass(frozen=True)
class TenantGoalNow(Fact):
    """A tenant's last performance and its goal [0, 1]. `missed_s`: it has missed the goal for so long, with the share
    that is its by right, and longer than the box's settings allow; 0: not so. `cameras` are the tenant's: its alarm is
    for those who may see all of them. `best`: where no share reaches the goal, the performance that is expected with
    the whole box."""

    tenant: str
    name: str
    performance: float
    goal: float
    missed_s: float
    cameras: tuple[str, ...] = ()
    best: float | None = None


@dataclass(frozen=True)
class TenantQuiet(Fact):
    """Nothing was measured of a tenant for `quiet_s`, long enough that its last miss says nothing of now: its alarm
    ends."""

    tenant: str
    name: str
    quiet_s: float


@dataclass(frozen=True)
class TenantsNow(Fact):
    """The tenants that share the box; alarms of others end."""

    tenants: frozenset[str]


@dataclass(frozen=True)
class StrangersNow(Fact):
    """Clients without a good key or join code that the fleet's agent refused lately; 0: none. `words` say how."""

    count: int
    words: str = ""


@dataclass(frozen=True)
class Acknowledged(Fact):
    """A person has seen an alarm."""

    alarm: int
    by: str


@dataclass(frozen=True)
class RulesChanged(Fact):
    """The rules are others than before: alarms of rules that are gone or switched off end. `changed`: ids of rules that
    look at something else now."""

    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class TimePassed(Fact):
    """Look again at what was held back: quiet hours may be over."""
