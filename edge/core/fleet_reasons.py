"""Why a job of a fleet is refused, or waits, as values; words are made here, once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

#: A job that can never be placed. "no_such_resource": no box has the resource `names[0]`. "no_box_in_zone": none has
#: one of the values `names` of a label. "too_large": one task wants `wanted` of `names[0]`, the largest allowed box has
#: `possible`. "too_many_at_once": `wanted` tasks have to run at once, `possible` fit on the empty fleet.
#: "queue_too_small": a gang of `wanted` tasks, `possible` slots. "target_refused": the job `names[0]`, which it needs,
#: was refused; "target_withdrawn": was withdrawn. "circle": the jobs `names` wait for each other. "unknown_queue",
#: "unknown_tenant": `names[0]`.
#: A job that waits. "signal": the jobs `names` have not ended. "near": the jobs `names` are nowhere yet. "no_offer":
#: the ephemeral resource `names[0]` is not offered now. "turn": the job `names[0]` is before it in the queue. "slots":
#: all `possible` slots of the queue are taken. "full": on the boxes that it may use `possible` of `wanted` tasks fit.
#: "away": boxes that it could use are silent, lost or drained: `names`. "kept_free": boxes are kept for the job
#: `names[0]`, which waited longer. "fencing": tasks of it may still run on the boxes `names`. "head": no box decides.
FleetReasonCode = Literal[
    "no_such_resource",
    "no_box_in_zone",
    "too_large",
    "too_many_at_once",
    "queue_too_small",
    "target_refused",
    "target_withdrawn",
    "circle",
    "unknown_queue",
    "unknown_tenant",
    "signal",
    "near",
    "no_offer",
    "turn",
    "slots",
    "full",
    "away",
    "kept_free",
    "fencing",
    "head",
]
#: Why a task is taken from a box: the box is drained; another task of its gang is lost; its parent, in whose resources
#: it lived, is gone; a newer copy of it is in force; the box has heard no head for the length of its lease; its job is
#: withdrawn.
EvictionCode = Literal["drain", "gang_broken", "parent_gone", "superseded", "lease_over", "withdrawn"]


@dataclass(frozen=True)
class FleetReason:
    """One reason: a code, names and numbers (see `FleetReasonCode`)."""

    code: FleetReasonCode
    names: tuple[str, ...] = ()
    wanted: float | None = None
    possible: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The reason with its words."""
        return {k: v for k, v in asdict(self).items() if v not in (None, ())} | {"words": self.words()}

    def words(self) -> str:
        """The reason as a sentence without a full stop."""
        first = self.names[0] if self.names else ""
        some = ", ".join(self.names[:5]) + (f" and {len(self.names) - 5} more" if len(self.names) > 5 else "")
        wanted, possible = (f"{n:g}" if n is not None else "" for n in (self.wanted, self.possible))
        return {
            "no_such_resource": f"no box has the resource {first}",
            "no_box_in_zone": f"no box is in the zone {some}",
            "too_large": f"one task asks for {wanted} of {first}, and no allowed box has more than {possible}",
            "too_many_at_once": f"{wanted} tasks have to run at once, and {possible} fit on the empty fleet",
            "queue_too_small": f"the gang has {wanted} tasks, and queue {first} has {possible} slots",
            "target_refused": f"it needs job {first}, which was refused",
            "target_withdrawn": f"it needs job {first}, which was withdrawn",
            "circle": f"these jobs wait for each other: {some}",
            "unknown_queue": f"there is no queue {first}",
            "unknown_tenant": f"there is no tenant {first} without children",
            "signal": f"it begins after {some}",
            "near": f"it runs beside {some}, which is nowhere yet",
            "no_offer": f"{first} is not offered now",
            "turn": f"{first} is before it in the queue",
            "slots": f"all {possible} slots of its queue are taken",
            "full": f"{possible} of {wanted} tasks fit now",
            "away": f"boxes that it could use are silent, lost or drained: {some}",
            "kept_free": f"boxes are kept free for {first}, which has waited longer",
            "fencing": f"tasks of it may still run on {some}",
            "head": "no head decides now",
        }[self.code]
