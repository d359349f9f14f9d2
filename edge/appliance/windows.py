"""Retraining windows that were, and the one that is: as recorded, explained, and planned by another policy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from edge.appliance.answers.read import read
from edge.appliance.answers.stored import listed
from edge.appliance.answers.windows import (
    CostAnswer,
    ExplainedWindow,
    JobAnswer,
    PlanAnswer,
    ProfileAnswer,
    UsageRecord,
    WhatIfAnswer,
    WindowAnswer,
    WindowRow,
    WindowStory,
)
from edge.appliance.capacity import CapacityForecasts
from edge.appliance.window_explanation import OtherParts, check_plan, check_profile, check_usage, compared, explained
from edge.core.errors import NotFound
from edge.core.plan_basis import PlanBasis, PlanRequest
from edge.core.window import WindowProblem
from edge.runtime.runtime import Runtime
from edge.store.store import Store
from edge.store.values import CameraWindow, RecordedCost, WindowDetail, WindowRecord
from scheduler.follow import planner

T = TypeVar("T")


class Windows:
    """Implements `WindowsService`. `recent` and `one` block. `control_share` is what the control process holds, 0-1."""

    def __init__(self, store: Store, runtime: Runtime, control_share: float, capacity: CapacityForecasts) -> None:
        self.capacity = capacity
        self._store, self._runtime, self._control_share = store, runtime, control_share
        self._stored = store.database.unreadable

    def recent(self, limit: int, before: int | None) -> list[WindowAnswer]:
        """Newest first, without those that cannot be read."""
        return self._stored.page(
            "window",
            limit,
            before,
            lambda n, below: self._store.windows.newest(n, before=below),
            self._window,
            lambda w: w.id,
        )

    def one(self, number: int) -> WindowStory:
        """Without what cannot be read of it. Raises NotFound, UnreadableRecord (the window itself)."""
        found, stored = self._store.windows.window(number), self._stored
        head = stored.one("window", number, lambda: self._window(found.window))
        return WindowStory(
            window=head,
            plans=tuple(listed(stored, "plan", PlanAnswer, found.plans, _id)),
            profiles=tuple(listed(stored, "profile", ProfileAnswer, found.profiles, _id)),
            jobs=tuple(listed(stored, "retraining", JobAnswer, found.jobs, _id)),
            usage=tuple(listed(stored, "share usage", UsageRecord, found.usage, _id)),
            costs=tuple(listed(stored, "cost", CostAnswer, found.costs, _cost_name)),
        )

    def _window(self, record: WindowRecord) -> WindowAnswer:
        kept = self._rows(record)
        return read(WindowAnswer, replace(record, cameras=kept).to_json())

    def _rows(self, record: WindowRecord) -> tuple[CameraWindow, ...]:
        return self._checked("window's camera", record.cameras, lambda c: read(WindowRow, c.to_json()), _row_name)

    def _readable(self, number: int) -> WindowDetail:
        """A window with what can be read of it, documents included. Raises NotFound, UnreadableRecord."""
        found = self._store.windows.window(number)
        self._stored.one("window", number, lambda: self._window(found.window))
        return replace(
            found,
            window=replace(found.window, cameras=self._rows(found.window)),
            plans=self._checked("plan", found.plans, check_plan, _id),
            profiles=self._checked("profile", found.profiles, check_profile, _id),
            jobs=self._checked("retraining", found.jobs, lambda j: read(JobAnswer, j.to_json()), _id),
            usage=self._checked("share usage", found.usage, check_usage, _id),
            costs=self._checked("cost", found.costs, lambda c: read(CostAnswer, c.to_json()), _cost_name),
        )

    def _checked(
        self, kind: str, records: Sequence[T], check: Callable[[T], object], name: Callable[[T], object]
    ) -> tuple[T, ...]:
        def whole(record: T) -> T:
            check(record)
            return record

        return tuple(self._stored.readable(kind, records, whole, name))

    async def explained(self, number: int) -> ExplainedWindow:
        """Without what cannot be read of it. Raises NotFound, UnreadableRecord (the window itself)."""
        detail = await asyncio.to_thread(self._readable, number)
        usage = self._runtime.share_usage(number) if detail.window.open else None
        story = await asyncio.to_thread(explained, detail, self._other_parts(detail.window.settings), usage)
        return read(ExplainedWindow, story)

    async def what_if(self, number: int, policy: str) -> WhatIfAnswer:
        """Raises NotFound, UnreadableRecord."""
        detail = await asyncio.to_thread(self._readable, number)
        if not detail.plans:
            raise NotFound(f"window {number} has no plan")
        record = max(detail.plans, key=lambda p: (bool(_options(p.problem)), -p.id))
        problem = WindowProblem.from_json(record.problem)
        caps, request = self._runtime.shares.partitioner.caps, PlanRequest(policy, problem)
        if record.basis is not None:
            # As it could be granted then, and with the gain of a group's retraining: else the two cannot be compared.
            basis = PlanBasis.from_json(record.basis)
            same = basis.request(problem)
            caps, request = basis.caps, same if policy == same.policy else PlanRequest(policy, same.problem)
        plan = await asyncio.to_thread(planner(caps, time.perf_counter), request)
        answer = {
            "policy": policy,
            "plan": plan.to_json(),
            "objective": plan.objective,
            "original_policy": record.policy,
            "original_objective": record.objective,
            "comparison": compared(number, plan, record, self._other_parts(detail.window.settings)),
        }
        return read(WhatIfAnswer, answer)

    def _other_parts(self, settings: Mapping[str, Any]) -> OtherParts:
        """As that window's settings had them; the control process's and the front's are those of now."""
        now = self._runtime.shares
        return OtherParts(
            self._control_share,
            now.front,
            settings.get("golden_share") or now.golden,
            settings.get("evaluation_share") or now.evaluation,
        )


def _id(record: Any) -> object:
    return record.id


def _row_name(row: CameraWindow) -> str:
    return f"{row.window}/{row.camera}"


def _cost_name(cost: RecordedCost) -> str:
    return f"{cost.window}/{cost.camera or 'all'}/{cost.kind}"


def _options(problem: Mapping[str, Any]) -> int:
    return sum(len(s.get("retrain_configs", ())) for s in problem["streams"])
