"""Loads and unloads of served models under any order of clients' calls, of the work in threads, and of what the
reorganiser decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st
from serving_parts import Written, chained, layout, table, version

from edge.core.applications import Application
from edge.core.clock import ManualClock
from edge.core.errors import InvalidValue, MagpieError, NotFound, WeightsError, WorkerFailed
from edge.core.front_messages import ServedVersion
from edge.core.serving import DeviceTable
from edge.core.serving_reasons import Refusal
from edge.runtime.serving_demand import Offer
from edge.runtime.serving_loading import ModelLoader
from edge.runtime.serving_models import OfferedModels
from edge.runtime.serving_status import View
from edge.serving.repository import Staged
from edge.settings import ServingPlanning
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.versions import loads_alike

MODELS = ("a", "b")
APPLICATION = "app"
PLANNING = ServingPlanning()


class Threads(ThreadPoolExecutor):
    """Has no thread: the test says which call is carried out next."""

    def __init__(self) -> None:
        super().__init__(1)
        self.calls: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)

        self.calls.append(call)
        return future


class Disk:
    """A repository: of each model the newest version, which may be one that cannot be loaded."""

    def __init__(self) -> None:
        self.newest = {m: version(m, digest=f"{m}-1") for m in MODELS}
        self.bad: set[str] = set()
        self.staged = self.ended = 0
        self.committed: dict[str, ServedVersion] = {}

    def write(self, model: str, good: bool, renumbered: bool) -> None:
        before = self.newest[model]
        digest = f"{model}-{int(before.digest.rpartition('-')[2]) + 1}"
        number = str(int(before.version) + 1) if renumbered else before.version
        self.newest[model] = replace(before, version=number, digest=digest)
        if not good:
            self.bad.add(digest)

    def is_application(self, name: str) -> bool:
        return name == APPLICATION

    def application(self, name: str) -> Application:
        return replace(chained(*MODELS), name=name)

    def resolve(self, name: str) -> ServedVersion:
        return self.newest[name]

    def stage(self, model: str, parameters: Mapping[str, Any]) -> Staged:
        self.staged += 1
        one = () if model == APPLICATION else (self.newest[model],)
        application = self.application(model) if model == APPLICATION else None
        return Staged(model, one, lambda: self._end(one), lambda: self._end(None), application)

    def _end(self, versions: Any) -> Any:
        self.ended += 1
        self.committed |= {v.model: v for v in versions or ()}
        return versions


class Tables:
    """Latencies that are known: of no model at first."""

    def __init__(self) -> None:
        self.table: DeviceTable | None = None

    def knows(self, model: str) -> bool:
        return self.table is not None and model in self.table.latency_ms


class Reorganiser:
    """Serves each wanted model, or finds that it cannot, when the test says so; and is the planning thread, with
    events that wait for their turn. A model that is no longer wanted keeps its place until the test drains it."""

    def __init__(self) -> None:
        self.events: list[r.ModelsChanged] = []
        self.wanted: dict[str, ServedVersion] = {}
        self.served: dict[str, ServedVersion] = {}
        self.failed: dict[str, ServedVersion] = {}
        self.refused: dict[str, Refusal] = {}
        self._decided = asyncio.Event()

    @property
    def idle(self) -> bool:
        return not self.events

    @property
    def view(self) -> View:
        return View(refused=dict(self.refused))

    async def next_decision(self) -> None:
        self._decided.clear()
        await self._decided.wait()

    def send(self, event: r.Event) -> None:
        if isinstance(event, r.ModelsChanged):
            self.events.append(event)

    def decide(self) -> None:
        if self.events:
            wanted = {d.version.model: d.version for d in self.events.pop(0).models}
            for model in list(self.refused):
                if model not in wanted or not loads_alike(wanted[model], self.failed[model]):
                    del self.refused[model]
            self.wanted = wanted
            # Limits are in force at once.
            self.served |= {m: v for m, v in wanted.items() if m in self.served and loads_alike(self.served[m], v)}
        self._decided.set()

    def starting(self) -> list[ServedVersion]:
        """Wanted, and neither served nor refused."""
        return [
            v
            for m, v in sorted(self.wanted.items())
            if m not in self.refused and (m not in self.served or not loads_alike(self.served[m], v))
        ]

    def serve(self, one: ServedVersion) -> r.VersionServed:
        self.served[one.model] = one
        self._decided.set()
        return r.VersionServed(one)

    def fail(self, one: ServedVersion) -> r.VersionFailed:
        before = self.served.get(one.model)
        if before is None:
            self.failed[one.model], self.refused[one.model] = one, Refusal("failing", one.model, said="no memory")
        else:
            self.wanted[one.model] = before
        self._decided.set()
        return r.VersionFailed(one, "no memory", before)

    def refuse(self, one: ServedVersion) -> None:
        self.failed[one.model], self.refused[one.model] = one, Refusal("no_room", one.model)
        self._decided.set()

    def drain(self) -> None:
        self.served = {m: v for m, v in self.served.items() if m in self.wanted}
        self._decided.set()


class SimulatedLoading:
    def __init__(self, offered: frozenset[str]) -> None:
        self.disk, self.tables, self.reorganiser = Disk(), Tables(), Reorganiser()
        self.written, self.clock, self.threads = Written(), ManualClock(), Threads()
        self.tasks: list[asyncio.Task[None]] = []
        self.measuring: list[asyncio.Event] = []
        self.failures: list[ServedVersion] = []
        #: Models that clients know as served, and that are not unloaded since.
        self.promised: set[str] = set()
        self.faults: list[dict[str, Any]] = []
        loop, self.loop_s = asyncio.get_running_loop(), 0.0
        loop.time = lambda: self.loop_s  # type: ignore[method-assign]
        loop.set_default_executor(self.threads)
        loop.set_exception_handler(lambda loop, fault: self.faults.append(fault))
        self.models = OfferedModels(self.tables, lambda: PLANNING, self.clock, self.reorganiser.send)  # type: ignore[arg-type]
        self.loader = ModelLoader(
            self.disk, self.models, self.tables, self, self.reorganiser,  # type: ignore[arg-type]
            lambda: layout(*self.reorganiser.served.values()), self.clock, self.written.complain, True, self._check,
        )  # fmt: skip
        self.models.offers.update({name: Offer(name) for name in sorted(offered)})
        self._spawn(self.loader.take_in(sorted(offered)))

    def _spawn(self, work: Any) -> None:
        self.tasks.append(asyncio.create_task(work))

    def _check(self, version: ServedVersion) -> None:
        if version.digest in self.disk.bad:
            raise WeightsError(f"{version.key}: no tensors")

    def could_have_more(self, model: str) -> bool:
        """The second model is measured again by each load, the first one once."""
        return model == MODELS[1]

    async def measure(self, versions: list[ServedVersion]) -> None:
        """As Measuring does, when the test says so."""
        self.measuring.append(asyncio.Event())
        await self.measuring[-1].wait()
        known = self.tables.table.latency_ms if self.tables.table is not None else {}
        self.tables.table = table(*sorted({*known, *(v.model for v in versions)}))
        for offer in (self.models.offers[v.model] for v in versions if v.model in self.models.offers):
            offer.state = "offered"

    async def load(self, name: str) -> None:
        try:
            await self.loader.load(name, {})
        except WorkerFailed:
            mine = self.disk.committed[name]
            assert any(loads_alike(mine, failed) for failed in self.failures), "the client's version failed"
            offer, served = self.models.offers.get(name), self.reorganiser.served.get(name)
            if served is not None and offer is not None and offer.version is not None:
                assert loads_alike(offer.version, served), "the version that serves is offered again"
            return
        except MagpieError:
            return
        if name == APPLICATION:
            assert self.models.offers[name].application is not None
            return
        assert loads_alike(self.reorganiser.served[name], self.disk.committed[name]), "the client's version serves"
        self.promised.add(name)

    async def unload(self, name: str) -> None:
        there, used = name in self.models.offers, self._used(name)
        try:
            self.promised -= set() if used else {name}
            await self.loader.unload(name)
        except NotFound:
            assert not there
        except InvalidValue:
            assert used
        else:
            assert name in self.models.offers or name not in self.reorganiser.served, "it is gone, or loaded again"

    def _used(self, name: str) -> bool:
        return any(o.application is not None and name != APPLICATION for o in self.models.offers.values())

    async def do(self, order: tuple[str, int]) -> None:
        what, n = order
        name, starting = (*MODELS, APPLICATION)[n % 3], self.reorganiser.starting()
        one = starting[n % len(starting)] if starting else None
        if what == "load":
            if name != APPLICATION and n > 5:
                self.disk.write(name, good=n != 11, renumbered=n % 2 == 0)
            self._spawn(self.load(name))
        elif what == "unload":
            self._spawn(self.unload(name))
        elif what == "write":
            self.disk.write(MODELS[n % 2], good=n % 3 != 0, renumbered=n % 4 < 2)
        elif what == "thread" and self.threads.calls:
            self.threads.calls.pop(n % len(self.threads.calls))()
        elif what == "threads":
            await self.work()
        elif what == "measured" and self.measuring:
            self.measuring.pop(0).set()
        elif what == "decide":
            self.reorganiser.decide()
        elif what == "drain":
            self.reorganiser.drain()
        elif what == "time":
            self.clock.advance(4.0)
        elif what == "late":
            self.loop_s += 400.0
        elif one is not None:
            self.decided_on(what, one)
        await self.settle()
        self.check()

    def decided_on(self, what: str, one: ServedVersion) -> None:
        if what == "fail":
            self.failures.append(one)
        if what == "serve":
            self.loader.served(self.reorganiser.serve(one))
        elif what == "fail":
            self.loader.version_failed(self.reorganiser.fail(one))
        elif what == "refuse":
            self.reorganiser.refuse(one)

    async def work(self) -> None:
        """All that is to be done in threads."""
        while self.threads.calls:
            self.threads.calls.pop(0)()
            await self.settle()

    async def settle(self) -> None:
        for _ in range(12):
            await asyncio.sleep(0)

    def check(self) -> None:
        assert self.faults == []
        for task in self.tasks:
            assert not task.done() or task.exception() is None
        known = [self.reorganiser.wanted, *({d.version.model: 0 for d in e.models} for e in self.reorganiser.events)]
        for name in self.promised:
            assert name in known[-1], f"{name} is served, and was not unloaded"

    async def calm(self) -> None:
        """Everything that is on its way succeeds."""
        for _ in range(200):
            await self.do(("threads", 0))
            if all(task.done() for task in self.tasks) and self.reorganiser.idle and not self.reorganiser.starting():
                break
            for what in ("measured", "decide", "serve", "drain"):
                await self.do((what, 0))
        await self.do(("drain", 0))

    async def close(self) -> None:
        """What a failure leaves behind ends too."""
        for task in self.tasks:
            task.cancel()
        while not all(task.done() for task in self.tasks):
            await self.work()
            await self.settle()


STEPS = (
    "load", "unload", "write", "thread", "threads", "measured", "decide", "serve", "fail", "refuse", "drain", "time",
    "late",
)  # fmt: skip
OFTEN = (4, 1, 1, 2, 5, 3, 3, 2, 2, 1, 1, 1, 1)
ORDERS = st.lists(
    st.tuples(
        st.sampled_from([step for step, times in zip(STEPS, OFTEN, strict=True) for _ in range(times)]),
        st.integers(0, 11),
    ),
    min_size=15,
    max_size=60,
)


#: Models that are offered at the start are known before any is loaded, or serve already.
KNOWN = (("threads", 0), ("measured", 0), ("decide", 0), ("decide", 0), ("decide", 0))
BEGINNINGS = st.sampled_from(((), KNOWN, (*KNOWN, ("serve", 0), ("serve", 0))))


@settings(max_examples=tried(40, 100), deadline=None)
@given(st.frozensets(st.sampled_from((*MODELS, APPLICATION))), BEGINNINGS, ORDERS)
def test_every_load_ends_as_its_client_learns(
    offered: frozenset[str], beginning: tuple[tuple[str, int], ...], orders: list[tuple[str, int]]
) -> None:
    async def play() -> None:
        world = SimulatedLoading(offered)
        try:
            for order in (*beginning, *orders):
                await world.do(order)
            await world.calm()
        finally:
            await world.close()
        assert not any(task.cancelled() for task in world.tasks), "no caller waits for ever"
        assert world.disk.staged == world.disk.ended, "each upload is kept or thrown away"
        offers, reorganiser = world.models.offers, world.reorganiser
        wanted = {d.version.model: d.version for d in world.models.demands()[0]}
        assert wanted == reorganiser.wanted, "the reorganiser knows what is offered"
        assert set(reorganiser.served) <= set(offers)
        for name, offer in offers.items():
            there = offer.version is not None or offer.application is not None
            assert offer.state == ("offered" if there else "failed"), f"{name} is on its way for ever"
            if offer.version is not None and name not in reorganiser.refused:
                assert loads_alike(reorganiser.served[name], offer.version)

    asyncio.run(play())
