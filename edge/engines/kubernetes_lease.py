"""One head by a Lease of Kubernetes: the steps, as functions of frozen values.

A holder renews; others take the lease when it did not change for its duration by their own clock, so wrong clocks of
other boxes do no harm. A holder that could not renew in time counts itself out before others may take it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from edge.core import checks
from edge.core.errors import InvalidValue


@dataclass(frozen=True)
class LeaseRules:
    """The lease `name`, held by `me` for `duration_s` at a time, renewed each `renew_s`. The holder counts itself out
    `margin_s` before the others may."""

    me: str
    name: str = "magpie-head"
    duration_s: int = 15
    renew_s: float = 5.0
    margin_s: float = 2.0

    def __post_init__(self) -> None:
        checks.not_empty("me", self.me)
        checks.in_range("duration_s", self.duration_s, 3, 3600)
        if int(self.duration_s) != self.duration_s:
            raise InvalidValue("duration_s", self.duration_s, "a whole number")
        checks.in_range("margin_s", self.margin_s, 0.0, self.duration_s / 2)
        checks.in_range("renew_s", self.renew_s, 0.1, self.duration_s - self.margin_s)


@dataclass(frozen=True)
class LeaseSeen:
    """A lease as it was read: `version` changes with every write."""

    holder: str
    duration_s: float
    version: str


@dataclass(frozen=True)
class LeaseState:
    """One candidate's knowledge: the lease as it was last `seen`, unchanged since `seen_s`; `held_s`: the time of the
    request by which it last took or renewed the lease, None where it does not hold it. Times by its own clock."""

    seen: LeaseSeen | None = None
    seen_s: float = 0.0
    held_s: float | None = None


@dataclass(frozen=True)
class CreateLease:
    """There is none: make it."""


@dataclass(frozen=True)
class WriteLease:
    """Renew it, or take it over, if its version is still this one."""

    version: str


@dataclass(frozen=True)
class LeaveLease:
    """Another one holds it, or it was renewed just now."""


LeaseStep = CreateLease | WriteLease | LeaveLease


def observe(state: LeaseState, seen: LeaseSeen | None, at_s: float) -> LeaseState:
    """The lease was read at `at_s`."""
    if seen == state.seen:
        return state
    return LeaseState(seen, at_s, state.held_s)


def next_step(rules: LeaseRules, state: LeaseState, at_s: float) -> LeaseStep:
    """The step of a candidate that has just read the lease."""
    seen = state.seen
    if seen is None:
        return CreateLease()
    if seen.holder == rules.me:
        due = state.held_s is None or at_s - state.held_s >= rules.renew_s
        return WriteLease(seen.version) if due else LeaveLease()
    free = not seen.holder or at_s - state.seen_s >= seen.duration_s
    return WriteLease(seen.version) if free else LeaveLease()


def written(state: LeaseState, seen: LeaseSeen, asked_s: float) -> LeaseState:
    """A request of `asked_s` was answered: the lease is held from then on."""
    return LeaseState(seen, asked_s, asked_s)


def lost(state: LeaseState) -> LeaseState:
    """A request was refused (409): another one was faster. Step down at once, and read again."""
    return LeaseState(state.seen, state.seen_s, None)


def holds(rules: LeaseRules, state: LeaseState, at_s: float) -> bool:
    """Whether this candidate is the head now."""
    return state.held_s is not None and at_s - state.held_s < rules.duration_s - rules.margin_s


def lease_seen(obj: Mapping[str, Any]) -> LeaseSeen:
    """A lease of the API server."""
    spec = obj.get("spec") or {}
    version = (obj.get("metadata") or {}).get("resourceVersion", "")
    return LeaseSeen(spec.get("holderIdentity") or "", float(spec.get("leaseDurationSeconds") or 0), version)


def lease_body(rules: LeaseRules, namespace: str, now: datetime, version: str | None = None) -> dict[str, Any]:
    """The object that is sent; with a `version` it replaces that one only."""
    metadata = {"name": rules.name, "namespace": namespace}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata if version is None else {**metadata, "resourceVersion": version},
        "spec": {
            "holderIdentity": rules.me,
            "leaseDurationSeconds": rules.duration_s,
            "renewTime": now.isoformat(),
        },
    }


def release_body(rules: LeaseRules, namespace: str, now: datetime, version: str) -> dict[str, Any]:
    """The object by which a head gives the lease back: it has no holder."""
    body = lease_body(rules, namespace, now, version)
    return {**body, "spec": {**body["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}}
