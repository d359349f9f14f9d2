"""Three places for a gang scheduler (ESCHER's Figure 4.8), simulated on the product's matcher.

In the application: a placeholder for each task is launched one after another and waits for room; if not all have some
within a time, all are given up and tried again after a pause that doubles. In one service: the same placeholders, one
gang after the other. In the framework: a gang is booked at once as soon as it fits, first come first served. Times are
from the request to the last part that is granted.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

from scheduler.fleet.matcher import Matcher

BOXES, CORES = 32, 8.0
GANGS, HOLD_S = 150, 2.0
SIZES = (4, 8, 16, 32)
#: The launch of one placeholder; a request to a service and back; a decision inside the framework.
LAUNCH_S, ASK_S, DECIDE_S = 0.005, 0.002, 0.002
#: Given up after so long, tried again after a pause of so long at first; a waiting placeholder looks so often.
GIVE_UP_S, PAUSE_S, LOOK_S = 1.0, 0.2, 0.01


@dataclass(frozen=True)
class Gang:
    """It asks for `tasks` cores at `at_s` and holds them for `HOLD_S`."""

    number: int
    at_s: float
    tasks: int


def gangs(seed: int, load: float) -> list[Gang]:
    """Random arrivals that keep the part `load` of all cores busy."""
    rng = random.Random(seed)
    rate = load * BOXES * CORES / (HOLD_S * sum(SIZES) / len(SIZES))
    at, found = 0.0, []
    for n in range(GANGS):
        at += rng.expovariate(rate)
        found.append(Gang(n, at, rng.choice(SIZES)))
    return found


class SimulatedCluster:
    """The cluster under a simulated clock."""

    def __init__(self) -> None:
        self.matcher = Matcher()
        for n in range(BOXES):
            self.matcher.add_box(f"b{n}", {"cpu": CORES})
        self._agenda: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = itertools.count()
        self.granted_s: dict[int, float] = {}

    def at(self, when_s: float, act: Callable[[float], None]) -> None:
        """Do something later."""
        heapq.heappush(self._agenda, (when_s, next(self._numbers), act))

    def run(self) -> None:
        """Until nothing is left to happen."""
        while self._agenda:
            now, _, act = heapq.heappop(self._agenda)
            act(now)
            self.matcher.changes.clear()
            self.matcher.freed.clear()

    def one(self, holder: tuple[int, int]) -> bool:
        """Book one core."""
        box = self.matcher.match({"cpu": 1.0})
        return box is not None and self.matcher.book(holder, [(box, {"cpu": 1.0})])

    def all(self, gang: Gang) -> bool:
        """Book all of a gang's cores or none."""
        for n in range(gang.tasks):
            if not self.one((gang.number, n)):
                self.release(gang)
                return False
        return True

    def release(self, gang: Gang) -> None:
        """Give everything back that the gang holds."""
        for n in range(gang.tasks):
            self.matcher.free((gang.number, n))

    def grant(self, gang: Gang, now: float) -> None:
        """The gang has all; it gives it back after a while."""
        self.granted_s[gang.number] = now - gang.at_s
        self.at(now + HOLD_S, lambda _: self.release(gang))


def in_application(seed: int, load: float) -> list[float]:
    """Seconds to each grant."""
    world, rng = SimulatedCluster(), random.Random(f"pauses {seed}")

    def launch(gang: Gang, task: int, began_s: float, tries: int, now: float) -> None:
        if world.one((gang.number, task)):
            if task + 1 == gang.tasks:
                world.grant(gang, now)
            else:
                world.at(now + LAUNCH_S, lambda t: launch(gang, task + 1, began_s, tries, t))
        elif now - began_s < GIVE_UP_S:
            world.at(now + LOOK_S, lambda t: launch(gang, task, began_s, tries, t))
        else:
            world.release(gang)
            pause = PAUSE_S * 2**tries * rng.uniform(0.5, 1.5)
            world.at(now + pause, lambda t: launch(gang, 0, t, tries + 1, t))

    for gang in gangs(seed, load):
        world.at(gang.at_s + LAUNCH_S, lambda t, g=gang: launch(g, 0, t, 0, t))  # type: ignore[misc]
    world.run()
    return list(world.granted_s.values())


#: (world, gang, tasks held, now) -> (tasks held, next look).
Step = Callable[[SimulatedCluster, Gang, int, float], tuple[int, float]]


def _served_in_turn(seed: int, load: float, begin_s: float, step: Step) -> list[float]:
    """One gang after the other."""
    world = SimulatedCluster()
    queue: list[Gang] = []

    def serve(held: int, now: float) -> None:
        gang = queue[0]
        held, then = step(world, gang, held, now)
        if held < gang.tasks:
            world.at(then, lambda t: serve(held, t))
            return
        world.grant(gang, then)
        queue.pop(0)
        if queue:
            world.at(then, lambda t: serve(0, t))

    def ask(gang: Gang, now: float) -> None:
        queue.append(gang)
        if len(queue) == 1:
            serve(0, now)

    for gang in gangs(seed, load):
        world.at(gang.at_s + begin_s, lambda t, g=gang: ask(g, t))  # type: ignore[misc]
    world.run()
    return list(world.granted_s.values())


def in_service(seed: int, load: float) -> list[float]:
    """Seconds to each grant."""

    def step(world: SimulatedCluster, gang: Gang, held: int, now: float) -> tuple[int, float]:
        if world.one((gang.number, held)):
            return held + 1, now + LAUNCH_S
        return held, now + LOOK_S

    return _served_in_turn(seed, load, ASK_S, step)


def in_framework(seed: int, load: float) -> list[float]:
    """Seconds to each grant."""

    def step(world: SimulatedCluster, gang: Gang, held: int, now: float) -> tuple[int, float]:
        return (gang.tasks, now + DECIDE_S) if world.all(gang) else (0, now + LOOK_S)

    return _served_in_turn(seed, load, DECIDE_S, step)


def scenario(seed: int, load: float) -> dict[str, object]:
    """The same gangs as a fleet's scenario."""
    boxes = [{"name": f"b{n}", "resources": {"cpu": CORES}} for n in range(BOXES)]
    jobs = [
        {"id": f"g{g.number}", "t": g.at_s, "tasks": g.tasks, "demand": {"cpu": 1}, "gang": True, "duration_s": HOLD_S}
        for g in gangs(seed, load)
    ]
    return {"format": "fleet-scenario/1", "name": f"gangs {seed}", "boxes": boxes, "jobs": jobs}
