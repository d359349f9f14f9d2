"""The supervisor and its replacements under any order of orders and of what becomes of processes, which here are lists
of commands."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import worker_mains as mains
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.clock import ManualClock
from edge.core.shares import Grant, LaunchSpec, ResizeOutcome, Role, ShareCaps, Usage
from edge.core.workers import Worker
from edge.runtime.process import Beat, Ready, Retire, Retired, TakeOver
from edge.runtime.supervisor import Patience, Supervisor

#: One of them is replaced by a twin beside it, the other by a process after it.
WORKERS = {"camera-a": Worker.of_camera("a"), "retrain-a": Worker.trainer_of("a")}
SHARES = (0.1, 0.3, 0.5)
HANG_S, START_S = 30.0, 60.0


class AtOnce(ThreadPoolExecutor):
    """Runs what it is given before it returns: no other thread decides the order of things."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Process:
    """A process that is only what it was sent; the test says what becomes of it."""

    def __init__(
        self,
        name: str,
        main: Any,
        argument: Any,
        launch: LaunchSpec,
        on_message: Callable[[Any], None],
        on_exit: Callable[[int | None], None],
        killable: bool,
        standby: bool,
        memory_limit_bytes: int | None,
        on_started: Callable[[str | None], None],
    ) -> None:
        self.name, self.pid, self.sent, self.messages_lost = name, 0, list[Any](), 0
        self.place = launch.env["PLACE"]
        self.say, self._on_exit, self._on_started = on_message, on_exit, on_started
        self._standby, self.retired, self.killed, self.alive = standby, False, False, True
        #: Its worker was stopped; it is warm.
        self.unwanted = self.warm = False

    def send(self, message: Any) -> bool:
        self.sent.append(message)
        return True

    def kill(self) -> None:
        self.killed = True

    def join(self, timeout_s: float) -> bool:
        return not self.alive

    @property
    def took_over(self) -> bool:
        """It is the worker, or was."""
        return not self._standby or any(isinstance(m, TakeOver) for m in self.sent)

    @property
    def works(self) -> bool:
        """It acts as the worker: no other process may."""
        return self.took_over and self.alive and not self.killed and not self.retired

    def starts(self) -> None:
        if self.alive and not self.pid:
            self.pid = 2**30  # of no process
            self._on_started(None)

    def retires(self) -> None:
        if any(isinstance(m, Retire) for m in self.sent) and self.alive and not self.retired:
            self.retired = True
            self.say(Retired())

    def ends(self, code: int) -> None:
        if self.alive:
            self.alive = False
            self._on_exit(-9 if self.killed else code)


class Places:
    """A partitioner whose shares only shrink while a process lives; it grants places that are free."""

    caps = ShareCaps("mps", "cpu", "cap", "respawn", 0.01, None, 2.0, True, False, "worker")

    def __init__(self) -> None:
        self.most: dict[str, float] = {}
        self.attached: dict[str, float] = {}
        self.sick: str | None = None

    def launch_spec(self, worker: str, role: Role, share: float) -> LaunchSpec:
        assert worker not in self.attached, f"{worker} is taken"
        self.most[worker] = share
        return LaunchSpec(env={"PLACE": worker})

    def attach(self, worker: str, role: Role, pid: int, share: float) -> Grant:
        self.attached[worker] = share
        return Grant(worker, role, share, share)

    def resize(self, worker: str, share: float) -> ResizeOutcome:
        if share > self.most[worker]:
            return ResizeOutcome(False, reason="fixed at its start")
        self.attached[worker] = share
        return ResizeOutcome(True)

    def usage(self) -> tuple[Usage, ...]:
        return ()

    def before_kill(self, worker: str) -> None:
        assert worker in self.attached

    def detach(self, worker: str) -> None:
        self.attached.pop(worker, None)

    def healthy(self) -> str | None:
        return self.sick


class SimulatedSupervisor:
    def __init__(self) -> None:
        self.clock, self.places = ManualClock(), Places()
        self.processes: list[Process] = []
        self.wanted: dict[str, float] = {}
        self.stops: list[asyncio.Task[None]] = []
        #: By worker: commands that were taken since it was started, its messages, and how often it was lost.
        self.commands = {name: list[str]() for name in WORKERS}
        self.received = {name: list[Any]() for name in WORKERS}
        self.lost = Counter[str]()
        self.events: list[str] = []
        self.sent = 0
        self.faults: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_default_executor(AtOnce())
        loop.set_exception_handler(lambda loop, fault: self.faults.append(fault))
        patience = Patience(HANG_S, START_S, 0.0, (0.0,))
        self.supervisor = Supervisor(
            self.places, self.clock, lambda kind, data: self.events.append(kind), patience,  # type: ignore[arg-type]
            process=self._make,  # type: ignore[arg-type]
        )  # fmt: skip
        self.supervisor.open()

    def _make(self, *args: Any) -> Process:
        made, held = Process(*args), {p.place for p in self.processes if p.alive}
        places = [made.name, *(f"{made.name}~{n}" for n in range(1, len(held) + 1))]
        assert made.place == next(p for p in places if p not in held), "the first place that is free"
        self.processes.append(made)
        return made

    async def settle(self) -> None:
        for _ in range(12):
            await asyncio.sleep(0)

    async def do(self, order: tuple[str, int, float]) -> None:
        what, n, share = order
        name = sorted(WORKERS)[n % len(WORKERS)]
        there = [p for p in self.processes if p.alive]
        process = there[n % len(there)] if there else None
        if what == "start":
            for worker in WORKERS:
                self.start(worker, share)
        elif what == "resize" and name in self.wanted:
            self.wanted[name] = share
            self.supervisor.resize(name, share)
        elif what == "stop":
            self.unwant(name)
            self.stops.append(asyncio.create_task(self.supervisor.stop(name, 0.0)))
        elif what == "kill":
            self.supervisor.kill(name, "as the test wants")
        elif what == "send":
            self.sent += 1
            if self.supervisor.send(name, f"work {self.sent}"):
                self.commands[name].append(f"work {self.sent}")
        elif what == "time":
            self.clock.advance(share * START_S)
        elif what == "readies" and process is not None:
            await self.warm(process)
        elif what == "replace" and name in self.wanted:
            self.wanted[name] = share
            self.supervisor.resize(name, share)
            await self.settle()
            await self.warm(self.of(name)[-1])
            await self.do(("send", n, share))
        elif what == "restart":
            await self.do(("stop", n, share))
            await self.do(("start", n, share))
        elif process is not None:
            await self.become(what, process)
        await self.settle()
        self.check()

    def start(self, name: str, share: float) -> None:
        """Of one that is there no second one is made."""
        start = partial(
            self.supervisor.start, WORKERS[name], share, mains.obedient, None, partial(self._receive, name),
            lambda reason: self.lost.update([name]), finishes=True,
        )  # fmt: skip
        if self.supervisor.has(name):
            made = len(self.processes)
            with pytest.raises(ValueError, match=f"{name} exists"):
                start()
            assert len(self.processes) == made
        else:
            self.wanted[name] = share
            start()

    def unwant(self, name: str) -> None:
        self.wanted.pop(name, None)
        self.commands[name].clear()
        for own in self.of(name):
            own.unwanted = True

    async def starts(self, process: Process) -> None:
        held = set(self.places.attached)
        process.starts()
        await self.settle()
        if process.unwanted:
            assert set(self.places.attached) <= held, "one that is not wanted any more gets no share"

    async def warm(self, process: Process) -> None:
        await self.starts(process)
        if not process.retired:
            process.warm = process.warm or not process.killed
            process.say(process)

    def _receive(self, name: str, message: Any) -> None:
        self.received[name].append(message)
        if isinstance(message, Process):
            assert message.took_over or message.warm, "one that was sent away before it was warm says nothing"

    def of(self, name: str) -> list[Process]:
        return [p for p in self.processes if p.name == name]

    async def become(self, what: str, process: Process) -> None:
        if what == "starts":
            await self.starts(process)
        elif what == "dies":
            await self.end(process, 1)
        elif what == "retires":
            process.retires()
        elif what == "ends" and (process.retired or process.killed):
            await self.end(process, 0)
        elif what == "finishes" and process.works and not process.unwanted and Retire() not in process.sent:
            self.unwant(process.name)
            process.ends(0)
            await self.settle()
            assert not self.supervisor.has(process.name), "its work is done"
        elif what == "beats":
            for one in self.processes:
                if one.pid and one.alive:
                    one.say(Beat())

    async def end(self, process: Process, code: int) -> None:
        before, undone = self.lost[process.name], process.took_over and not process.retired
        process.ends(code)
        await self.settle()
        if undone and not process.unwanted:
            assert self.lost[process.name] > before, "the giver of its work knows that it is not done"

    def check(self) -> None:
        assert self.faults == []
        known = {w["name"]: w for w in self.supervisor.workers()}
        for name in WORKERS:
            own = self.of(name)
            assert sum(p.works for p in own) <= 1, f"two processes are {name}: {self.events}"
            assert sum(p.alive and not p.killed for p in own) <= 2, f"{name} has more than a twin"
            waiting = [p for p in own if p.warm and p.alive and not (p.killed or p.retired or p.unwanted)]
            busy = any(p.took_over and p.alive and not p.retired for p in own)
            assert busy or not waiting, "one that is warm waits only for one that works"
            reached = Counter(m for p in own for m in p.sent if isinstance(m, str))
            assert all(count == 1 for count in reached.values()), "a command is sent once"
            takeovers = sum(isinstance(m, TakeOver) for p in own for m in p.sent)
            assert self.received[name].count(Ready()) == takeovers, "the giver of work learns of each new process"
        for name in self.wanted:
            assert known[name]["state"] in ("starting", "running"), f"{name} is expected: {known[name]}"
            assert any(p.alive for p in self.processes if p.name == name), f"{name} neither runs nor starts"
        unwanted = [p for p in self.processes if p.unwanted and p.alive]
        assert all(p.killed for p in unwanted), "a process that is not wanted any more is ended"
        alive = sum(p.alive for p in self.processes)
        assert len(self.places.attached) <= alive, "a share is held for a process that is gone"

    async def calm(self) -> None:
        """Everything that is on its way succeeds."""
        seen: list[Any] = []
        for _ in range(40):
            seen.append([(len(p.sent), p.alive, p.warm, p.retired) for p in self.processes])
            if len(seen) > 3 and seen[-1] == seen[-4]:
                break
            for process in self.processes:
                process.starts()
                if process.killed and process.alive:
                    await self.end(process, -9)
                process.retires()
                if process.retired and process.alive:
                    await self.end(process, 0)
                elif process.alive:
                    process.warm = True
                    process.say(process)
            await self.settle()

    async def close(self) -> None:
        closing = asyncio.create_task(self.supervisor.close(0.0))
        for _ in range(10_000):
            if closing.done():
                break
            for process in self.processes:
                if process.killed:
                    process.ends(-9)
            await asyncio.sleep(0)
        await closing
        await asyncio.gather(*self.stops)


#: Both run from the start; processes get on more often than they fail, or no replacement would get far.
STEPS = (
    "start", "resize", "replace", "stop", "kill", "send", "time", "dies", "beats", "starts", "readies", "retires",
    "ends", "restart", "finishes",
)  # fmt: skip
OFTEN = (2, 2, 5, 1, 1, 2, 1, 4, 1, 2, 4, 4, 4, 2, 1)
ORDERS = st.lists(
    st.tuples(
        st.sampled_from([step for step, times in zip(STEPS, OFTEN, strict=True) for _ in range(times)]),
        st.integers(0, 5),
        st.sampled_from(SHARES),
    ),
    min_size=40,
    max_size=80,
)


@settings(max_examples=tried(14, 35), deadline=None)
@given(ORDERS)
def test_no_order_of_events_makes_two_of_one_worker_or_forgets_one(orders: list[tuple[str, int, float]]) -> None:
    async def play() -> None:
        world = SimulatedSupervisor()
        try:
            await world.do(("start", 0, SHARES[0]))
            await world.calm()
            for order in orders:
                await world.do(order)
            await world.calm()
            world.check()
            states = {w["name"]: w for w in world.supervisor.workers()}
            assert states.keys() == world.wanted.keys(), "what was stopped, or has finished, is forgotten"
            for name, share in world.wanted.items():
                (process,) = [p for p in world.of(name) if p.alive]
                assert process.works, "the last one standing is the worker"
                assert states[name]["state"] == "running"
                assert world.supervisor.ready(name), "commands reach it"
                reached = {m for p in world.of(name) for m in p.sent if isinstance(m, str)}
                assert set(world.commands[name]) <= reached, "a command that was taken reaches it"
                if "worker.respawn_failed" not in world.events:
                    assert states[name]["share"] == share, "the share that is wanted is in force"
                held = [s for place, s in world.places.attached.items() if place.partition("~")[0] == name]
                assert held == [states[name]["share"]], "it holds one share, the one that is shown"
        finally:
            await world.close()
        assert world.places.attached == {}, "all shares are given back"

    asyncio.run(play())


def test_a_stop_that_waits_longer_leaves_the_next_of_that_name_alone() -> None:
    async def play() -> None:
        world = SimulatedSupervisor()
        try:
            name = "retrain-a"
            world.start(name, SHARES[0])
            await world.calm()
            (old,) = world.of(name)
            waits = asyncio.create_task(world.supervisor.stop(name, 3600.0))
            await world.settle()
            await world.do(("stop", 1, SHARES[0]))
            world.start(name, SHARES[1])
            await world.settle()
            assert not waits.done()
            await world.end(old, -9)
            await waits
            assert world.supervisor.has(name)
            world.check()
        finally:
            await world.close()

    asyncio.run(play())


def test_a_worker_that_finishes_takes_the_twin_that_warms_up_along() -> None:
    async def play() -> None:
        world = SimulatedSupervisor()
        try:
            world.start("camera-a", SHARES[0])
            await world.calm()
            await world.do(("resize", 0, SHARES[2]))
            old, twin = world.of("camera-a")
            await world.do(("finishes", world.processes.index(old), SHARES[0]))
            assert not world.supervisor.has("camera-a")
            assert (old.alive, twin.killed) == (False, True)
        finally:
            await world.close()

    asyncio.run(play())
