"""A box with cameras, served models and tenants together, in virtual time: one clock, one device.

Each part is driven by what drives it in the appliance: windows by the window controller (edge.simulation.simulator),
served models by front, reorganiser and planner (edge.simulation.serving_simulation), what cameras leave to serving by
`CameraWatch`, tenants by `TenantShares` with its two clocks: serving tenants every interval, all of them once per
window; their budgets go into both planners. A part alone does the same as in a box with nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from edge.core import events as ev
from edge.core.alarms import AccuracyMeasured
from edge.core.errors import InvalidValue
from edge.core.serving import DeviceTable
from edge.core.shares import ideal_caps
from edge.core.tenants import Tenant
from edge.runtime.device_shares import LEAST_CAMERAS
from edge.runtime.serving_cameras import CamerasNow, CameraWatch
from edge.runtime.tenant_times import HeldShare
from edge.runtime.tenants import TenantShares
from edge.settings import ServingPlanning
from edge.simulation.box_trace import BoxTrace
from edge.simulation.promises import LearnedPromises
from edge.simulation.serving_simulation import LoopClock, ServingResult, ServingSimulation
from edge.simulation.simulator import SimulationResult, Simulator
from edge.simulation.virtual_time import run_virtual
from scheduler.follow import planner
from scheduler.policies import DEFAULT_POLICY
from scheduler.tenants.sharing import TenantNow
from scheduler.window_planning import PlanFunction

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TenantResult:
    """One tenant in one run: mean share held and given (0-1), mean performance and utility (None: never measured)."""

    tenant: str
    goal: float
    held: float
    given: float
    performance: float | None
    utility: float | None


@dataclass(frozen=True)
class BoxResult:
    """One run of a box; None for parts that it does not have. `welfare`: the tenants' mean utility, `least`: that of
    the tenant worst off."""

    windows: SimulationResult | None
    serving: ServingResult | None
    tenants: tuple[TenantResult, ...] = ()

    @property
    def welfare(self) -> float | None:
        known = [t.utility for t in self.tenants if t.utility is not None]
        return sum(known) / len(known) if known else None

    @property
    def least(self) -> float | None:
        return min((t.utility for t in self.tenants if t.utility is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        return {
            "windows": None if self.windows is None else self.windows.to_json(),
            "serving": None if self.serving is None else self.serving.to_json(),
            "tenants": [vars(t) for t in self.tenants],
            "welfare": self.welfare,
            "least": self.least,
        }


@dataclass(frozen=True)
class BoxPolicies:
    """The policies in force: of windows, of serving's plans, of sharing between tenants (None: that of the trace's
    rules)."""

    window: str = DEFAULT_POLICY
    planning: ServingPlanning = field(default_factory=ServingPlanning)
    sharing: str | None = None


class SimulatedWholeBox:
    """One run of a box; made inside of a virtual loop. `plan` plans windows (None: as the appliance does); batches of
    served models take as long as `true_table` says (None: as the trace's, which plans reckon with)."""

    def __init__(
        self,
        trace: BoxTrace,
        policies: BoxPolicies,
        seed: int,
        plan: PlanFunction | None = None,
        true_table: DeviceTable | None = None,
    ) -> None:
        self._trace, self._policies = trace, policies
        self._loop, self._clock = asyncio.get_running_loop(), LoopClock()
        windows = trace.windows
        self._caps = ideal_caps() if windows is None or windows.caps is None else windows.caps
        self._capacity = trace.capacity
        self._windows: Simulator | None = None
        self._more = asyncio.Event()
        if windows is not None:
            alone = trace.serving is None
            if not alone and windows.num_gpus > 1.0:
                raise InvalidValue("num_gpus", windows.num_gpus, "at most 1 in a box with served models: one device")
            self._capacity = windows.num_gpus if alone else trace.capacity
            there = replace(windows, num_gpus=self._capacity, num_gpus_at=windows.num_gpus_at if alone else ())
            self._windows = Simulator(
                there, policies.window, plan or planner(self._caps), on_measured=self._measured,
                promises=LearnedPromises(windows.window_s),
            )  # fmt: skip
        self._serving: ServingSimulation | None = None
        if trace.serving is not None:
            self._serving = ServingSimulation(
                trace.serving, policies.planning, seed, self._caps, self._reserved, true_table
            )
        self._camera_share = self._capacity
        self._shared = SharingRecord()
        self._tenants: TenantShares | None = None
        if trace.sharing is not None and len(trace.sharing.tenants) > 0:
            self._tenants = self._sharing(trace)

    async def run(self) -> BoxResult:
        """Play everything."""
        background: list[asyncio.Task[None]] = []
        work: list[Any] = []
        if self._windows is not None:
            self._windows.begin()
            work.append(self._play_windows(self._windows))
        if self._serving is not None:
            watch = CameraWatch(
                self._cameras_now, self._serving.shares, lambda: self._policies.planning, lambda: 0.0,
                lambda: self._serving.shares.budgets.pool if self._serving is not None else None,
            )  # fmt: skip
            await watch.look()
            background.append(self._loop.create_task(watch.watch()))
            work.append(self._serving.run())
        if self._tenants is not None:
            background.append(self._loop.create_task(self._tenants.run()))
        done = await asyncio.gather(*work)
        for task in background:
            task.cancel()
        windows = None if self._windows is None else self._windows.result()
        served = next((d for d in done if isinstance(d, ServingResult)), None)
        return BoxResult(windows, served, self._tenant_results())

    async def _play_windows(self, simulator: Simulator) -> None:
        """Step at the times that are due; other parts may make something due sooner."""
        while (due := simulator.due_s) is not None:
            wait = due - self._loop.time()
            if wait > 0:
                self._more.clear()
                try:
                    async with asyncio.timeout(wait):
                        await self._more.wait()
                    continue
                except TimeoutError:
                    pass
            simulator.step()

    def _dispatch(self, event: ev.Event) -> None:
        """An event from beside the cameras."""
        if self._windows is not None and self._windows.due_s is not None:
            self._windows.handle_now(event)
            self._more.set()

    # -- the device's shares

    def _reserved(self, share: float) -> None:
        self._camera_share = round(max(LEAST_CAMERAS, self._capacity - share), 6)
        self._dispatch(ev.CapacityChanged(self._loop.time(), self._camera_share))

    def _cameras_now(self) -> CamerasNow:
        window = None
        if self._windows is not None and self._windows.due_s is not None:
            window = self._windows.controller.state.problem(self._loop.time())
        return CamerasNow(self._capacity, window, self._policies.window, self._caps)

    # -- tenants

    def _sharing(self, trace: BoxTrace) -> TenantShares:
        assert trace.sharing is not None
        rules = trace.sharing.rules
        if self._policies.sharing is not None:
            rules = replace(rules, policy=self._policies.sharing)
        shares = TenantShares(
            trace.sharing.tenants, rules, self._leaf_parts(), self._dispatch, _ignore,  # type: ignore[arg-type]
            _ignore, _ignore, self._shared,  # type: ignore[arg-type]
        )  # fmt: skip
        shares.serve(self._serving)  # type: ignore[arg-type]
        return shares

    def _leaf_parts(self) -> SimpleNamespace:
        """Those of `edge.runtime.leaf_parts.LeafParts` that tenants' shares are decided by."""
        windows = self._trace.windows
        state: Any = SimpleNamespace(num_gpus=self._capacity, cameras={}, window=1)
        controller = SimpleNamespace(state=state) if self._windows is None else self._windows.controller
        # Cameras and served models have `_capacity` together, however it is shared now.
        return SimpleNamespace(
            clock=self._clock,
            shares=SimpleNamespace(
                shared_capacity=lambda: self._capacity,
                camera_capacity=lambda: self._capacity,
                serving=0.0,
                partitioner=SimpleNamespace(caps=self._caps),
            ),
            cameras={c.id: _camera(c.id) for c in (() if windows is None else windows.cameras)},
            golden=SimpleNamespace(teacher=SimpleNamespace(digest="")),
            controller=controller,
            usage=list,
            complaints=SimpleNamespace(add=_complain),
            window=SimpleNamespace(settings=SimpleNamespace(window_s=1.0 if windows is None else windows.window_s)),
        )

    def _measured(self, camera: str, window: int, accuracy: float) -> None:
        if self._tenants is not None:
            self._tenants.fact(AccuracyMeasured(camera, window, accuracy))

    def _tenant_results(self) -> tuple[TenantResult, ...]:
        if self._tenants is None:
            return ()
        found = ((t, self._shared.rows.get(t.id, [])) for t in self._tenants.every())
        return tuple(_tenant_result(tenant, rows) for tenant, rows in found if rows)


@dataclass(frozen=True)
class _Interval:
    seconds: float
    held: float
    given: float | None
    performance: float | None


class SharingRecord:
    """Shares and performance of tenants in each interval (cameras: in each window). Takes the place of the appliance's
    record of a day (edge.runtime.tenant_day)."""

    def __init__(self) -> None:
        self.rows: dict[str, list[_Interval]] = {}

    def add(self, entry: TenantNow, utc_s: float, seconds: float, had: HeldShare) -> None:
        """One interval of a tenant."""
        report = entry.report
        given, performance = (None, None) if report is None else (report.given, report.performance)
        self.rows.setdefault(entry.tenant.id, []).append(_Interval(seconds, had.held, given, performance))

    def only(self, tenants: Collection[str], utc_s: float) -> None:
        """As TenantDay.only; every interval is a row."""

    def end(self, utc_s: float) -> None:
        """As TenantDay.end; every interval is a row."""

    def keep(self) -> None:
        """As TenantDay.keep; nothing is written."""


def simulate_box(
    trace: BoxTrace, policies: BoxPolicies | None = None, *, seed: int = 0, plan: PlanFunction | None = None
) -> BoxResult:
    """Play a box's trace; the same seed gives the same result. Raises InvalidValue if it cannot be played."""

    async def work() -> BoxResult:
        return await SimulatedWholeBox(trace, policies or BoxPolicies(), seed, plan).run()

    found = run_virtual(work())
    assert isinstance(found, BoxResult)
    return found


def _camera(name: str) -> SimpleNamespace:
    student = SimpleNamespace(model_dump=lambda mode: {})
    settings = SimpleNamespace(id=name, enabled=True, student=student, task="", classes=(), class_map={})
    return SimpleNamespace(settings=settings)


def _tenant_result(tenant: Tenant, rows: list[_Interval]) -> TenantResult:
    def mean(values: list[tuple[float, float | None]]) -> float | None:
        known = [(s, v) for s, v in values if v is not None]
        seconds = sum(s for s, _ in known)
        return sum(s * v for s, v in known) / seconds if seconds > 0 else None

    performance = mean([(r.seconds, r.performance) for r in rows])
    utility = mean(
        [(r.seconds, None if r.performance is None else tenant.objective.utility_of(r.performance)) for r in rows]
    )
    return TenantResult(
        tenant.id, tenant.objective.goal, mean([(r.seconds, r.held) for r in rows]) or 0.0,
        mean([(r.seconds, r.given) for r in rows]) or 0.0, performance, utility,
    )  # fmt: skip


def _ignore(*args: object, **more: object) -> None:
    """Journals and documents are not written."""


def _complain(code: str, words: str) -> None:
    log.warning("%s: %s", code, words)
