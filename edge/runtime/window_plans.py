"""Plans for windows are made in a thread, so that cameras, workers and people are answered meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from edge.core import events as ev
from edge.core.clock import Clock
from scheduler.window_planning import PlanFunction, PlanMade, PlanNotMade, PlanQuestion, made_plan

log = logging.getLogger(__name__)


class WindowPlans:
    """Answers the controller's questions by `plan`, one after the other. Of those that wait only the last is answered:
    the controller would drop the others. `dispatch` hands an event to the controller, `spawn` runs a task beside the
    event loop's main work."""

    def __init__(
        self,
        plan: PlanFunction,
        clock: Clock,
        dispatch: Callable[[ev.Event], None],
        spawn: Callable[[Coroutine[Any, Any, None], str], None],
    ) -> None:
        self._plan, self._clock, self._dispatch, self._spawn = plan, clock, dispatch, spawn
        self._waiting: PlanQuestion | None = None
        self._at_work = False

    def ask(self, question: PlanQuestion) -> None:
        """Have a plan made; its event is dispatched later, never before this returns."""
        self._waiting = question
        if not self._at_work:
            self._at_work = True
            self._spawn(self._work(), "window plan")

    async def _work(self) -> None:
        try:
            while (question := self._waiting) is not None:
                self._waiting = None
                self._dispatch(await self._answer(question))
        finally:
            self._at_work = False

    async def _answer(self, question: PlanQuestion) -> ev.Event:
        try:
            made = await asyncio.to_thread(made_plan, question, self._plan)
        except Exception as error:
            # A policy that fails must not end what runs; people get a notice.
            log.exception("window plan: %s", question.state.settings.policy)
            return PlanNotMade(self._clock.monotonic(), question.number, f"{type(error).__name__}: {error}")
        return PlanMade(self._clock.monotonic(), made)
