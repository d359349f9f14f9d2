"""Retraining windows that were, and the one that is: as recorded, explained, and planned by another policy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from edge.appliance.answers.read import read
from edge.appliance.answers.windows import ExplainedWindow, WhatIfAnswer, WindowAnswer, WindowStory
from edge.appliance.explained import OtherParts, compared, explained
from edge.core.errors import NotFound
from edge.core.plan_basis import PlanBasis, PlanRequest
from edge.core.window import WindowProblem
from edge.runtime.runtime import Runtime
from edge.store.store import Store
from scheduler.follow import planner


class Windows:
    """Implements `WindowsService`. `recent` and `one` block. `control_share` is what the control process holds, 0-1."""

    def __init__(self, store: Store, runtime: Runtime, control_share: float) -> None:
        self._store, self._runtime, self._control_share = store, runtime, control_share

    def recent(self, limit: int, before: int | None) -> list[WindowAnswer]:
        """Newest first."""
        return [read(WindowAnswer, w.to_json()) for w in self._store.windows(limit, before=before)]

    def one(self, number: int) -> WindowStory:
        """Raises NotFound."""
        return read(WindowStory, self._store.window(number).to_json())

    async def explained(self, number: int) -> ExplainedWindow:
        """Raises NotFound."""
        detail = await asyncio.to_thread(self._store.window, number)
        usage = self._runtime.share_usage(number) if detail.window.open else None
        story = await asyncio.to_thread(explained, detail, self._other_parts(detail.window.settings), usage)
        return read(ExplainedWindow, story)

    async def what_if(self, number: int, policy: str) -> WhatIfAnswer:
        """Raises NotFound."""
        detail = await asyncio.to_thread(self._store.window, number)
        if not detail.plans:
            raise NotFound(f"window {number} has no plan")
        record = max(detail.plans, key=lambda p: (bool(_options(p.problem)), -p.id))
        problem = WindowProblem.from_json(record.problem)
        caps, request = self._runtime.shares.partitioner.caps, PlanRequest(policy, problem)
        if record.basis is not None:
            # As it could be granted then, and with what a group's retraining gains: else it is no comparison.
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
        now = self._runtime.window.settings
        return OtherParts(
            self._control_share,
            self._runtime.shares.front,
            settings.get("golden_share") or self._runtime.shares.golden,
            settings.get("evaluation_share", now.evaluation_share),
        )


def _options(problem: Mapping[str, Any]) -> int:
    return sum(len(s.get("retrain_configs", ())) for s in problem["streams"])
