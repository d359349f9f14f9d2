"""Budgets of tenants in the serving plan: one tenant that serves beside cameras has what it is given, not less."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from serving_parts import Written
from tenants_kit import ServingBox, TenantsBox

from edge.core.alarms import AccuracyMeasured
from edge.core.clock import ManualClock
from edge.core.tenants import SharingRules, Tenant, TenantObjective
from edge.runtime.serving_cameras import CamerasNow, CameraWatch
from edge.runtime.serving_shares import ServingShares
from edge.settings import ServingPlanning
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.reorganiser_events import (
    Event,
    Instruction,
    RecordServingPlan,
    ServingCapacityChanged,
    ServingRulesChanged,
)
from scheduler.gpulets.tenant_fit import FitTenants, ServingBudget

PLATES = frozenset({"a", "b"})


def camera() -> Any:
    student = SimpleNamespace(model_dump=lambda mode: {"model": "small"})
    about = {"id": "north", "task": "detection", "classes": ("car",), "class_map": {}}
    return SimpleNamespace(settings=SimpleNamespace(enabled=True, student=student, **about))


async def serving_box(folder: Path) -> ServingBox:
    serving = ServingBox(folder, "a", "b")
    await serving.start()
    return serving


def share_of(box: ServingBox) -> float:
    assert box.view.plan is not None
    return box.view.plan.total_share


async def test_one_budget_is_what_the_plan_holds_be_it_more_or_less_than_the_smallest_plan(tmp_path: Path) -> None:
    box = await serving_box(tmp_path)
    plain = box.view.plan
    least = share_of(box)
    for share in (round(least + 0.3, 4), round(least + 0.1, 4)):
        box.shares.budgets.put((ServingBudget("plates", share, PLATES),), share)
        assert share_of(box) == pytest.approx(share)
        assert box.view.refused == {}
    less = round(least - 0.05, 4)
    box.shares.budgets.put((ServingBudget("plates", less, PLATES),), less)
    assert share_of(box) <= less + 1e-6
    box.shares.budgets.put((), None)
    assert box.view.plan == plain, "as without tenants"
    assert not isinstance(box.shares.budgets.fit("joint"), FitTenants)


async def test_a_budget_that_there_is_no_room_for_yet_is_felt_when_there_is(tmp_path: Path) -> None:
    box = await serving_box(tmp_path)
    room = 0.05  # kept free to warm partitions in
    box.send(ServingCapacityChanged(100.0, Capacity(0.4 + room, 0.4 + room)))
    box.shares.budgets.put((ServingBudget("plates", 0.6, PLATES),), 0.6 + room)
    assert share_of(box) == pytest.approx(0.4)
    box.send(ServingCapacityChanged(102.0, Capacity(0.6 + room, 0.6 + room)))
    assert share_of(box) == pytest.approx(0.6)
    planned = len(box.reorganiser.handle(ServingCapacityChanged(104.0, Capacity(0.8, 0.8))))
    assert planned == 0, "nothing was cut: more room changes nothing"


async def test_a_budget_that_moves_takes_one_plan_with_the_room_that_it_is_to_have(tmp_path: Path) -> None:
    box = await serving_box(tmp_path)
    room = 0.05  # kept free to warm partitions in
    watch = CameraWatch(
        lambda: CamerasNow(0.9), box.shares, lambda: box.planning, lambda: 0.0, lambda: box.shares.budgets.pool
    )
    plans: list[float] = []
    handle = box.reorganiser.handle

    def handled(event: Event) -> list[Instruction]:
        out = handle(event)
        plans.extend(round(order.plan.total_share, 4) for order in out if isinstance(order, RecordServingPlan))
        return out

    async def moved(share: float) -> list[float]:
        plans.clear()
        box.shares.divide((ServingBudget("plates", share, PLATES),), round(share + room, 4))
        assert not box.reorganiser.state.cut
        await watch.look()
        return plans

    await moved(0.4)
    box.reorganiser.handle = handled  # type: ignore[method-assign]
    assert await moved(0.6) == [0.6]
    assert box.reorganiser.state.capacity.most == 0.65
    assert await moved(0.5) == [0.5]
    assert box.reorganiser.state.capacity.most == 0.55


async def test_a_budget_above_what_the_operator_allows_is_cut_and_planned_once(tmp_path: Path) -> None:
    box = await serving_box(tmp_path)
    box.planning = box.planning.model_copy(update={"max_share": 0.5})
    box.shares.allow(0.5, 0.5, box.planning)
    box.events.clear()
    for share in (0.6, 0.7):
        box.shares.divide((ServingBudget("plates", share, PLATES),), round(share + 0.05, 4))
    assert [type(event) for event in box.events] == [ServingRulesChanged] * 2
    assert share_of(box) == pytest.approx(0.45)


async def test_the_share_that_budgets_leave_to_serving_is_told_of_exactly() -> None:
    written, pool = Written(), [0.346]
    shares = ServingShares(ManualClock(), written.events.append, lambda share: None)
    watch = CameraWatch(lambda: CamerasNow(0.8), shares, ServingPlanning, lambda: 0.0, lambda: pool[0])
    await watch.look()
    pool[0] = 0.35
    await watch.look()
    assert [event.capacity.most for event in written.events] == [0.346, 0.35]


async def test_a_department_with_a_plate_reader_feels_what_a_department_with_cameras_gives(tmp_path: Path) -> None:
    serving = await serving_box(tmp_path)
    least = share_of(serving)
    plates = Tenant("plates", TenantObjective("within_slo", 0.95), models=("a", "b"))
    streets = Tenant("streets", TenantObjective("accuracy", 0.5), cameras=("north",))
    box = TenantsBox(serving, plates, streets, rules=SharingRules(largest_step=0.1))
    box.parts.cameras["north"] = camera()
    await box.shares.look()
    first = box.given()["plates"]
    assert box.held()["plates"] - 0.05 < first <= box.held()["plates"] + 1e-6
    for window in range(1, 13):
        await box.interval(lambda name, share: min(1.0, share / 0.6), {"a": 20, "b": 20})
        box.shares.fact(AccuracyMeasured("north", window, 0.9))
        await box.interval(lambda name, share: min(1.0, share / 0.6), {"a": 20, "b": 20})
        given, held = box.given()["plates"], box.held()["plates"]
        assert held - 0.05 < given <= held + 1e-6, "shares were measured in steps of 0.05"
        assert sum(box.held().values()) == pytest.approx(0.9)
    assert min(first, box.given()["plates"]) > least, "the smallest plan by its profile"
    assert box.given()["plates"] >= 0.5, "by what comes of it"
