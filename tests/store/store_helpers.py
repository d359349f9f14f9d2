"""Values that the store's tests use, and the invariants that must hold after every one of them."""

from __future__ import annotations

import time
from dataclasses import replace

from edge.core.configs import InferenceConfig, RetrainingConfig, StudentSpec
from edge.core.models import ModelVersion
from edge.core.plan_reasons import PlanReason
from edge.core.profiles import Estimate, InferencePoint, InferenceProfile, RetrainingProfile
from edge.core.window import (
    RetrainingOption,
    Segment,
    StreamAllocation,
    StreamProblem,
    WindowPlan,
    WindowProblem,
)
from edge.store.store import Store

SPEC = StudentSpec("classification", "shufflenet_v2", ("car", "bus"), (64, 64))


class JumpClock:
    """Real time plus what a test adds: files on disk have real times, so a made-up epoch would not do."""

    def __init__(self) -> None:
        self._added_s = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self._added_s

    def utc(self) -> float:
        return time.time() + self._added_s

    def advance(self, seconds: float) -> None:
        self._added_s += seconds


def version(name: str, camera: str = "gate", parent: str | None = None, **more: object) -> ModelVersion:
    """A version without a blob yet (Store.add_model sets it)."""
    base = ModelVersion(name, camera, "0" * 64, SPEC, time.time(), parent=parent, scores={"held_out": 0.5})
    return replace(base, **more)  # type: ignore[arg-type]


def add(store: Store, name: str, camera: str = "gate", parent: str | None = None, **more: object) -> ModelVersion:
    """Record a version whose weights are its name."""
    return store.add_model(version(name, camera, parent, **more), name.encode())


def chain(store: Store, *names: str, camera: str = "gate") -> None:
    """Versions, each the child of the one before, each promoted in turn."""
    parent = None
    for name in names:
        add(store, name, camera, parent)
        store.versions.promote(name, "gate", "better")
        parent = name


def problem(name: str = "w") -> WindowProblem:
    point = InferencePoint(InferenceConfig(5.0), 0.2, 1.0)
    profile = InferenceProfile("linear", 0.3, points=(point,))
    option = RetrainingOption("head-e5", 0.8, 12.5, ((0.0, 0.5), (12.5, 0.8)))
    return WindowProblem(name, 1.0, 60.0, (StreamProblem("gate", 0.5, profile, (option,)),))


def plan(name: str = "w", objective: float = 0.7) -> WindowPlan:
    allocation = StreamAllocation(0.5, 0.5, "head-e5")
    return WindowPlan(
        "relay", name, objective, (Segment(0.0, {"gate": allocation}),), 0.01, {"": (PlanReason("no_gain"),)}
    )


def retraining_profile() -> RetrainingProfile:
    config = RetrainingConfig(epochs=5)
    return RetrainingProfile(config, 0.5, Estimate(0.8, 0.7, 0.9), Estimate.exact(12.5), ((0.0, 0.5), (12.5, 0.8)))


def check_invariants(store: Store) -> None:
    """The store's invariants: one model in force per camera with an intact blob, whole lineages."""
    seen = set()
    for one in store.versions.newest(limit=10_000):
        if one.state == "promoted":
            assert one.camera not in seen, f"two models of {one.camera} are in force"
            seen.add(one.camera)
            assert one.blob_kept
            store.blobs.verify(one.blob)
        ancestors = store.versions.lineage(one.id)
        assert ancestors[0] == one
        assert ancestors[-1].parent is None
        assert {a.camera for a in ancestors} == {one.camera}
    assert sum(w.open for w in store.windows.newest(10_000)) <= 1
