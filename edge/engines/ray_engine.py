"""The engine `ray`: the fleet's tasks run in workers of a Ray cluster.

`pinned`: the fleet's matcher keeps the amounts, and a task is bound to its box by a label. `dynamic`: amounts are also
resources of Ray, made by a private call of it, and tasks ask Ray for them. The link to Ray is a child process, whose
end is the event `EngineDied`.
"""

from __future__ import annotations

import itertools
import queue
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from edge.core import checks
from edge.core import engine as port
from edge.core.errors import Conflict, Unavailable
from edge.core.fleet import TaskAt
from edge.engines import ray_messages as msg
from edge.engines.amounts import BoxAmounts
from edge.engines.child import Child, kinds_of
from edge.engines.inbox import Inbox
from edge.engines.programs import check_program
from edge.engines.ray_settings import (
    RESOURCE_PREFIX,
    RaySecurity,
    address_environment,
    check_box_name,
    join_environment,
)

_ANSWER_S: Final = 5.0
_STOP_S: Final = 5.0


def new_token() -> str:
    """A token for a new cluster."""
    return secrets.token_hex(32)


@dataclass(frozen=True)
class RaySettings:
    """The cluster at `head` (HOST:PORT); this box is `address` in it. `boxes`: the amounts of each box that may be
    there. `folder` takes the link's log. The boxes are looked at each `look_s`; a cluster that does
    not answer within `open_s` cannot be opened."""

    head: str
    security: RaySecurity
    boxes: Mapping[str, Mapping[str, float]]
    folder: Path
    address: str
    mode: port.EngineMode = "pinned"
    look_s: float = 1.0
    open_s: float = 60.0

    def __post_init__(self) -> None:
        address_environment("address", self.address)
        checks.one_of("mode", self.mode, port.ENGINE_MODES)
        checks.in_range("look_s", self.look_s, 0.05, 60.0)
        checks.in_range("open_s", self.open_s, 1.0, 600.0)
        for name in self.boxes:
            check_box_name("boxes", name)

    def environment(self) -> dict[str, str]:
        """Variables of the link's process."""
        shared = self.security.environment() | address_environment("address", self.address)
        return shared | join_environment()


@dataclass
class _Running:
    """A task of the cluster."""

    task: port.EngineTask
    started_s: float | None = None


@dataclass(frozen=True)
class _LinkEnded:
    """The link's process ended."""

    code: int


class RayEngine:
    """An open engine of Ray. `clock` gives the caller's seconds. Raises Unavailable where the cluster cannot be joined
    within a minute, or `dynamic` is not to be had."""

    kind: port.EngineKind = "ray"

    def __init__(self, settings: RaySettings, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._amounts = BoxAmounts()
        self._running: dict[int, _Running] = {}
        self._keys: dict[TaskAt, int] = {}
        self._numbers = itertools.count(1)
        self._inbox = Inbox(clock)
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._dead = False
        self._link = Child(
            "edge.engines.ray_link",
            settings.environment(),
            settings.folder / "link.log",
            kinds_of(msg),
            self._received,
            lambda code: self._received(_LinkEnded(code)),
        )
        boxes = {name: dict(amounts) for name, amounts in settings.boxes.items()}
        self._link.send(msg.RayConnect(settings.head, settings.address, settings.mode, boxes, settings.look_s))
        self._wait_for_link()

    @property
    def mode(self) -> port.EngineMode:
        """The keeper of the amounts."""
        return self._settings.mode

    @property
    def link_pid(self) -> int:
        """The process that is Ray's driver."""
        return self._link.pid

    def know(self, boxes: Mapping[str, Mapping[str, float]]) -> None:
        """These boxes may be there from now on; one that is there keeps its amounts. Raises InvalidValue for a name."""
        self._settings = replace(self._settings, boxes={name: dict(amounts) for name, amounts in boxes.items()})
        self._link.send(msg.RayKnow({name: dict(amounts) for name, amounts in boxes.items()}))

    def set_resource(self, box: str, name: str, capacity: float) -> float:
        """See `Engine`."""
        self._check_alive()
        capacity = self._amounts.in_force(box, name, capacity)
        if self.mode == "dynamic":
            # Ray's answer is at least what its tasks hold; the table here may know of an end before Ray does.
            capacity = self._resize(box, {RESOURCE_PREFIX + name: capacity})[RESOURCE_PREFIX + name]
        return self._amounts.set(box, name, capacity)

    def status(self) -> tuple[port.EngineBox, ...]:
        """See `Engine`."""
        self._check_alive()
        return self._amounts.boxes()

    def launch(self, tasks: tuple[port.EngineTask, ...]) -> None:
        """See `Engine`."""
        self._check_alive()
        for n, task in enumerate(tasks):
            check_program(f"tasks[{n}].work.program", task.work.program)
            if task.at in self._keys or any(task.at == other.at for other in tasks[:n]):
                raise Conflict(f"{task.at.job}/{task.at.task} runs already")
        self._amounts.book(tasks)
        for task in tasks:
            key = next(self._numbers)
            self._keys[task.at], self._running[key] = key, _Running(task)
            asked = (
                {RESOURCE_PREFIX + n: a for n, a in task.demand.items() if a > 0.0} if self.mode == "dynamic" else {}
            )
            self._link.send(msg.RayLaunch(key, task.at.box, task.work.program, dict(task.work.arguments), asked))

    def cancel(self, task: TaskAt) -> None:
        """See `Engine`."""
        self._check_alive()
        if task in self._keys:
            self._link.send(msg.RayCancel(self._keys[task]))

    def events(self, timeout_s: float) -> tuple[port.EngineEvent, ...]:
        """See `Engine`."""
        return self._inbox.events(timeout_s, self._heard)

    def close(self) -> None:
        """See `Engine`."""
        self._dead = True
        self._link.send(msg.RayStop())
        if not self._link.join(_STOP_S):
            self._link.kill()
            self._link.join(_STOP_S)
        self._amounts, self._running, self._keys = BoxAmounts(), {}, {}

    # --- the link ------------------------------------------------------------------------------------------------
    def _received(self, message: Any) -> None:
        """From the link's reader thread."""
        if isinstance(message, msg.RayResized | _LinkEnded):
            self._answers.put(message)
        if not isinstance(message, msg.RayResized):
            self._inbox.put(message)

    def _wait_for_link(self) -> None:
        first = self._inbox.take_one(self._settings.open_s)
        if not isinstance(first, msg.RayLinkUp):
            self._link.kill()
            self._link.join(_STOP_S)
            why = "the link to Ray ended at once"
            if isinstance(first, msg.RayFailed):
                why = first.why
            elif first is None:
                why = f"the Ray cluster at {self._settings.head} does not answer"
            raise Unavailable(why, f"see {self._settings.folder / 'link.log'}")

    def _resize(self, box: str, capacities: dict[str, float]) -> dict[str, float]:
        number = next(self._numbers)
        self._link.send(msg.RayResize(number, box, capacities))
        ends_s = time.monotonic() + _ANSWER_S
        while (left_s := ends_s - time.monotonic()) > 0:
            try:
                answer = self._answers.get(timeout=left_s)
            except queue.Empty:
                break
            if isinstance(answer, _LinkEnded):
                break
            if answer.number == number and answer.capacities is not None:
                return dict(answer.capacities)
            if answer.number == number:
                raise Unavailable(f"Ray did not set resources on box {box} ({answer.why})")
        raise Unavailable(f"Ray did not answer within {_ANSWER_S:g} s")

    def _check_alive(self) -> None:
        if self._dead:
            raise Unavailable("the engine is closed")

    # --- its messages --------------------------------------------------------------------------------------------
    def _heard(self, at_s: float, message: Any) -> list[port.EngineEvent]:
        if self._dead:
            return []
        match message:
            case msg.RayBoxJoined(box=box):
                return [port.EngineBoxJoined(at_s, self._amounts.add(box, self._settings.boxes[box]))]
            case msg.RayBoxGone(box=box) if self._amounts.has(box):
                lost = [key for key, running in self._running.items() if running.task.at.box == box]
                failed = [self._failed(at_s, key, True, f"box {box} is gone") for key in lost]
                self._amounts.remove(box)
                return [*failed, port.EngineBoxGone(at_s, box)]
            case _LinkEnded(code=code):
                failed = [self._failed(at_s, key, True, "the engine is gone") for key in list(self._running)]
                self._dead = True
                return [*failed, port.EngineDied(at_s, f"the link to Ray ended with code {code}")]
        key = getattr(message, "key", None)
        return [] if key not in self._running else [self._of_task(at_s, key, message)]

    def _of_task(self, at_s: float, key: int, message: Any) -> port.EngineEvent:
        running = self._running[key]
        at = running.task.at
        match message:
            case msg.RayStarted():
                running.started_s = at_s
                return port.EngineTaskStarted(at_s, at)
            case msg.RayCheckpoint(state=state):
                return port.EngineTaskCheckpoint(at_s, at, state)
            case msg.RayEnded(answer=answer):
                self._forget(key)
                ran_s = at_s - (at_s if running.started_s is None else running.started_s)
                return port.EngineTaskEnded(at_s, at, ran_s, answer)
            case msg.RayCancelled():
                self._forget(key)
                return port.EngineTaskCancelled(at_s, at)
        return self._failed(at_s, key, message.lost, message.why)

    def _failed(self, at_s: float, key: int, lost: bool, why: str) -> port.EngineTaskFailed:
        return port.EngineTaskFailed(at_s, self._forget(key), lost, why)

    def _forget(self, key: int) -> TaskAt:
        at = self._running.pop(key).task.at
        del self._keys[at]
        self._amounts.free(at)
        return at
