"""Executors of served models under any order of orders and losses: the front lets in those that are there, alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from serving_parts import Written, version

from edge.core.clock import ManualClock
from edge.core.front_messages import ExpectExecutor, ForgetExecutor
from edge.core.workers import FRONT, Worker
from edge.runtime.executor_worker import NotLoaded, VersionsLoaded
from edge.runtime.serving_executors import Executors
from scheduler.gpulets import reorganiser_events as r


class Workers:
    """A supervisor whose workers end when the test says so."""

    def __init__(self) -> None:
        self.owned: dict[str, tuple[Any, dict[str, Any]]] = {}
        self.shares: dict[str, float] = {}
        self.let_in: dict[str, str] = {}
        self.may_end: list[asyncio.Event] = []

    def start(self, worker: Worker, share: float, main: Any, argument: Any, on_message: Any, **more: Any) -> None:
        assert worker.name not in self.owned, f"{worker.name} exists"
        assert self.let_in[worker.name] == argument.token, "the front lets it in before it comes"
        self.owned[worker.name], self.shares[worker.name] = (on_message, more), share

    def send(self, name: str, message: Any) -> bool:
        assert name == FRONT.name
        if isinstance(message, ExpectExecutor):
            assert message.token not in self.let_in.values(), "each has a token of its own"
            self.let_in[message.executor] = message.token
        elif isinstance(message, ForgetExecutor):
            del self.let_in[message.executor]
        return True

    async def stop(self, name: str) -> None:
        if name in self.owned:
            self.may_end.append(asyncio.Event())
            await self.may_end[-1].wait()
            self.owned.pop(name, None)


class SimulatedExecutors:
    def __init__(self) -> None:
        self.written, self.workers, self.count = Written(), Workers(), 0
        self.tasks: list[asyncio.Task[None]] = []
        self.executors = Executors(
            self.workers, Path("/run/front.sock"), ManualClock(), self.written.events.append,  # type: ignore[arg-type]
            self.written.note, lambda work, name: self.tasks.append(asyncio.create_task(work)),
        )  # fmt: skip

    async def do(self, what: str, n: int) -> None:
        there = sorted(self.workers.owned)
        name = there[n % len(there)] if there else ""
        if what == "start":
            self.executors.start(r.StartExecutor(f"executor-{self.count}", 0.2, (version("a"), version("b"))))
            self.count += 1
        elif what == "stop" and name:
            self.executors.stop(name)
        elif what == "lost" and name:
            self.workers.owned[name][1]["on_lost"]("killed")
        elif what == "given up" and name:
            _, more = self.workers.owned.pop(name)
            more["on_given_up"]("it dies too often")
        elif what == "half loaded" and name:
            self.workers.owned[name][0](VersionsLoaded(name, ("a/1",), (NotLoaded("b", "1", "no memory"),)))
        elif what == "ends" and self.workers.may_end:
            self.workers.may_end.pop(n % len(self.workers.may_end)).set()
        for _ in range(3):
            await asyncio.sleep(0)

    def check(self) -> None:
        expected = self.executors.expected
        assert {name: e.token for name, e in expected.items()} == self.workers.let_in, "the front knows the same"
        assert set(expected) == set(self.workers.owned), "one that is expected is there, and the other way round"
        ends = [e for e in self.written.events if isinstance(e, r.ExecutorStopped | r.ExecutorFailed)]
        assert set(expected).isdisjoint(e.executor for e in ends)

    async def calm(self) -> None:
        while not all(task.done() for task in self.tasks):
            await self.do("ends", 0)
        await asyncio.gather(*self.tasks)


STEPS = ["start", "start", "stop", "lost", "given up", "half loaded", "ends", "ends"]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), max_size=30))
def test_the_front_lets_in_those_that_are_there(orders: list[tuple[str, int]]) -> None:
    async def play() -> None:
        world = SimulatedExecutors()
        for what, n in orders:
            await world.do(what, n)
            world.check()
        await world.calm()
        world.check()
        ends = Counter(e.executor for e in world.written.events if isinstance(e, r.ExecutorStopped | r.ExecutorFailed))
        started = {f"executor-{n}" for n in range(world.count)}
        assert set(ends) == started - set(world.workers.owned), "the end of each is reported"

    asyncio.run(play())
