"""A box for tests of tenants: real plans by a real reorganiser, without processes; requests fare as a test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from edge.core.applications import Application, ApplicationOutput, Feed, Stage, ValueSource
from edge.core.clock import ManualClock
from edge.core.front_messages import ModelTraffic, ServedVersion, TrafficReport
from edge.core.oip import TensorSpec
from edge.core.serving import DeviceTable
from edge.core.shares import ShareCaps, Usage
from edge.core.tenants import SharingRules, Tenant, TenantObjective
from edge.core.workers import Activity
from edge.runtime.serving_demand import Offer
from edge.runtime.serving_models import OfferedModels
from edge.runtime.serving_shares import ServingShares
from edge.runtime.serving_status import View, look
from edge.runtime.serving_tables import DeviceTables
from edge.runtime.tenant_day import TenantDay
from edge.runtime.tenants import TenantShares
from edge.settings import ServingPlanning
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.follow import plan_function, reorganiser_settings
from scheduler.gpulets.reorganiser import Reorganiser
from scheduler.gpulets.reorganiser_events import Event
from scheduler.joint.split_policies import split_policy


class SetClock(ManualClock):
    """A clock that is set."""

    def set(self, utc_s: float) -> None:
        self._utc_offset_s = utc_s - self.monotonic()


CAPS = ShareCaps("coop", "cpu", "cap", "live", 0.01, 0.01, 2.0, True, False, "worker")
PERCENTS = tuple(range(5, 101, 5))


def version(model: str, digest: str, rate: float) -> ServedVersion:
    specs = (TensorSpec("x", "FP32", (-1, 4)),)
    folder = f"/models/{model}/1"
    return ServedVersion(model, "1", folder, "identity", specs, specs, 100.0, digest=digest, rate=rate)


def wide_table(*models: str, ms: float = 2.0) -> DeviceTable:
    rows = {p: tuple(ms * n * 100 / p for n in range(1, 5)) for p in PERCENTS}
    return DeviceTable("toy", dict.fromkeys(models, rows), {})


def tenant(name: str, model: str, goal: float = 0.95, **more: Any) -> Tenant:
    return Tenant(name, TenantObjective("within_slo", goal), models=(model,), **more)


def reader(*models: str) -> Application:
    """An application that asks these models."""
    x = TensorSpec("x", "FP32", (-1, 4))
    stages = tuple(Stage(m, m, {"x": Feed(ValueSource(None, "x"))}) for m in models)
    return Application("reader", 300.0, (x,), (ApplicationOutput(x, ValueSource(models[-1], "x")),), stages)


class ServingBox:
    """The parts of the serving runtime that tenants look at; events are decided on at once."""

    def __init__(self, folder: Path, *models: str, rate: float = 20.0) -> None:
        self.planning = ServingPlanning(shrink_dwell_s=0.0)
        self.clock = SetClock(100.0)
        self.tables = DeviceTables(folder, CAPS, lambda code, message: None)
        self.reorganiser = Reorganiser(
            plan_function(self.planning.policy), reorganiser_settings(self.planning), Capacity(0.9, 0.9), None, None,
            split_policy(self.planning.split),
        )  # fmt: skip
        self.view, self.events = View(), list[Any]()
        self.planner = self
        self.models = OfferedModels(self.tables, lambda: self.planning, self.clock, self.send)
        self.shares = ServingShares(self.clock, self.send, lambda share: None, lambda: self.planning)
        self.warm_share = 0.0
        self.front = SimpleNamespace(up=True)
        for name in models:
            self.models.offers[name] = Offer(name, "offered", version=version(name, f"{name}-1", rate))

    def send(self, event: Event) -> None:
        self.events.append(event)
        self.reorganiser.handle(event)
        self.view = look(self.reorganiser)

    async def start(self) -> None:
        await self.tables.add(wide_table(*self.models.offers))
        self.models.changed()
        self.shares.allow(0.95, 0.95, self.planning)


async def two_tenants(folder: Path, **more: float) -> TenantsBox:
    """A box of the tenants "gate" (model "a") and "stats" ("b")."""
    serving = ServingBox(folder, "a", "b")
    await serving.start()
    return TenantsBox(serving, tenant("gate", "a"), tenant("stats", "b", **more), rules=SharingRules(largest_step=0.1))


def camera() -> Any:
    """As much of a camera as tenants look at."""
    student = SimpleNamespace(model_dump=lambda mode: {"model": "small"})
    about = {"id": "any", "task": "detection", "classes": ("car",), "class_map": {}}
    return SimpleNamespace(settings=SimpleNamespace(enabled=True, student=student, **about))


class TenantsBox:
    """Tenants on a box. `fares(tenant, given)` is the part of the requests within their objective."""

    def __init__(self, serving: ServingBox, *tenants: Tenant, rules: SharingRules | None = None) -> None:
        self.serving, self.clock = serving, serving.clock
        self.events: list[Any] = []
        #: Accounts of workers, as the runtime tells them.
        self.usage: list[tuple[Usage, Activity, str | None]] = []
        self.facts: list[Any] = []
        self.kept: list[dict[str, Any]] = []
        self.complaints: list[tuple[str, ...]] = []
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.parts = SimpleNamespace(
            clock=self.clock,
            shares=SimpleNamespace(
                shared_capacity=lambda: 0.9, camera_capacity=lambda: 0.9, serving=0.0,
                partitioner=SimpleNamespace(caps=CAPS),
            ),
            cameras={},
            golden=SimpleNamespace(teacher=SimpleNamespace(digest="teacher-1")),
            controller=SimpleNamespace(state=SimpleNamespace(num_gpus=0.9, cameras={}, window=1)),
            usage=lambda: list(self.usage),
            complaints=SimpleNamespace(add=lambda *a: self.complaints.append(a)),
            window=SimpleNamespace(settings=SimpleNamespace(window_s=100.0)),
        )  # fmt: skip
        self.history = TenantDay(lambda document: None, self.clock)
        self.shares = TenantShares(
            tenants, rules or SharingRules(), self.parts, self.events.append,  # type: ignore[arg-type]
            lambda kind, data: self.notes.append((kind, dict(data))),  # type: ignore[arg-type,misc]
            self.facts.append, self.kept.append, self.history,
        )  # fmt: skip
        self.shares.serve(serving)  # type: ignore[arg-type]

    def held(self) -> dict[str, float]:
        return {t: s.held for t, s in self.shares.shares.items()}

    def given(self) -> dict[str, float]:
        return self.shares.given(self.shares.members())

    def report(self, traffic: Mapping[str, tuple[int, int]]) -> None:
        """A second with these (requests, missed) by model."""
        self.clock.advance(1.0)
        models = tuple(ModelTraffic(m, n, n, late) for m, (n, late) in traffic.items())
        now = self.clock.monotonic()
        self.serving.shares.budgets.on_report(now, TrafficReport(now, 1.0, 1, models, ()))

    async def interval(self, fares: Callable[[str, float], float], rates: Mapping[str, int]) -> None:
        """Ten seconds of requests, then a decision."""
        owner = self.shares.members().served
        for _ in range(10):
            given = self.given()
            self.report(
                {m: (n, round(n * (1.0 - fares(owner[m], given.get(owner[m], 0.0))))) for m, n in rates.items()}
            )
        await self.shares.look()
