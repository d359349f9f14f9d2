"""An engine in virtual time, for tests of what drives an engine."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

from edge.core import engine as port
from edge.core.errors import Unavailable
from edge.core.fleet import FleetBox, TaskAt
from edge.engines.amounts import BoxAmounts

START_S, STOP_S = 0.01, 0.02


class VirtualEngine:
    """An engine in virtual time: `events` lets the time pass. It keeps amounts as every engine does, so an order of the
    driver that is wrong is refused."""

    kind: port.EngineKind = "local"
    mode: port.EngineMode = "pinned"

    def __init__(self, fleet: list[FleetBox]) -> None:
        self.now_s = 0.0
        self.fleet = {box.name: box for box in fleet}
        self.amounts = BoxAmounts()
        self.running: dict[TaskAt, port.EngineTask] = {}
        self.launches: list[port.EngineTask] = []
        #: Boxes whose orders get no answer, and jobs whose programs raise so often.
        self.mute: set[str] = set()
        self.raises: dict[str, int] = {}
        self._agenda: list[tuple[float, int, Callable[[], port.EngineEvent | None]]] = []
        self._numbers = itertools.count()
        self._events: list[port.EngineEvent] = []
        for box in fleet:
            self.join(box.name)

    def set_resource(self, box: str, name: str, capacity: float) -> float:
        self._ask(box)
        return self.amounts.set(box, name, capacity)

    def status(self) -> tuple[port.EngineBox, ...]:
        return tuple(box for box in self.amounts.boxes() if box.name not in self.mute)

    def launch(self, tasks: tuple[port.EngineTask, ...]) -> None:
        for task in tasks:
            self._ask(task.at.box)
            assert task.at not in self.running
        self.amounts.book(tasks)
        self.launches += tasks
        for task in tasks:
            self.running[task.at] = task
            self._after(START_S, task, lambda task=task: self._begin(task))

    def cancel(self, task: TaskAt) -> None:
        self._ask(task.box)
        if task in self.running:
            stop = lambda: self._over(port.EngineTaskCancelled(self.now_s, task))  # noqa: E731
            self._after(STOP_S, self.running[task], stop)

    def events(self, timeout_s: float) -> tuple[port.EngineEvent, ...]:
        until_s = self.now_s + timeout_s
        while not self._events and self._agenda and self._agenda[0][0] <= until_s:
            self.now_s, _, act = heapq.heappop(self._agenda)
            event = act()
            self._events += [event] if event is not None else []
        if not self._events:
            self.now_s = until_s
        events, self._events = tuple(self._events), []
        return events

    def close(self) -> None:
        """Nothing is left of it."""

    # Calls of tests

    def join(self, box: str) -> None:
        self._events.append(port.EngineBoxJoined(self.now_s, self.amounts.add(box, self.fleet[box].resources)))

    def lose(self, box: str) -> None:
        for at in [at for at in self.running if at.box == box]:
            self.lose_task(at)
        self.amounts.remove(box)
        self._events.append(port.EngineBoxGone(self.now_s, box))

    def lose_task(self, at: TaskAt) -> None:
        self._events.append(self._over(port.EngineTaskFailed(self.now_s, at, lost=True, why="killed")))

    def die(self) -> None:
        for at in list(self.running):
            self.lose_task(at)
        self._events.append(port.EngineDied(self.now_s, "killed"))

    def _ask(self, box: str) -> None:
        if box in self.mute:
            raise Unavailable(f"{box} does not answer")

    def _after(self, delay_s: float, task: port.EngineTask, act: Callable[[], port.EngineEvent | None]) -> None:
        """Unless the task is over by then."""
        alive = lambda: act() if self.running.get(task.at) is task else None  # noqa: E731
        heapq.heappush(self._agenda, (self.now_s + delay_s, next(self._numbers), alive))

    def _begin(self, task: port.EngineTask) -> port.EngineEvent:
        seconds = task.work.arguments["seconds"]
        if self.raises.get(task.at.job, 0) > 0:
            self.raises[task.at.job] -= 1
            return self._over(port.EngineTaskFailed(self.now_s, task.at, lost=False, why="it raised"))
        if seconds is not None:
            done_s = task.work.arguments.get("done_s", 0.0)
            if task.work.arguments.get("checkpoint_s") is not None:
                kept = port.EngineTaskCheckpoint(self.now_s, task.at, {"done_s": done_s + (seconds - done_s) / 2})
                self._after((seconds - done_s) / 2, task, lambda: kept)
            end = lambda: self._over(port.EngineTaskEnded(self.now_s, task.at, seconds - done_s, "done"))  # noqa: E731
            self._after(seconds - done_s, task, end)
        return port.EngineTaskStarted(self.now_s, task.at)

    def _over(self, event: Any) -> Any:
        del self.running[event.task]
        self.amounts.free(event.task)
        return event
