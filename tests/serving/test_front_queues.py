"""A model with two queues at the front: who waits where, what moves over, what helps, and what is counted."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from examples_kit import tried
from front_kit import HeldExecutor, Site, asking, pending, request, route, site, until, version
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.errors import DeadlineMissed, MagpieError, Overloaded
from edge.core.front_messages import Layout
from edge.core.serving import DeviceTable, Gpulet, ModelBatch
from edge.serving.applications import ApplicationService
from edge.serving.routing import RoutingTable
from edge.simulation.pipeline_simulation import SimulatedBox
from edge.simulation.virtual_time import run_virtual

ONE, TWO = version(), version(number="2")
STAGE = ("app", "ask")


def table(*queues: int, app: int = 1) -> RoutingTable:
    """A model with gpu-lets for these queues; the application's stage asks queue `app`."""
    made = RoutingTable()
    routes = [route(f"e{n}", (ONE, 4), queue=n) for n in queues]
    made.apply(Layout(1, tuple(routes), (ONE,), applications=(asking(app),)))
    return made


async def started(s: Site, *names: str, held: bool = False) -> list[HeldExecutor]:
    return [await s.executor(name, ONE, TWO, held=held) for name in names]


def values(executor: HeldExecutor) -> int:
    """Batches that it was handed."""
    return len(executor.batches)


def ask(s: Site, value: float = 1.0, stage: bool = True, **more: object) -> asyncio.Task[object]:
    return asyncio.create_task(s.front.infer(request(value, asked_by=STAGE if stage else None, **more)))  # type: ignore[arg-type]


async def answered(tasks: Sequence[asyncio.Task[object]]) -> list[float]:
    return [float(np.asarray(r.outputs[0].array)[0, 0]) for r in await asyncio.gather(*tasks)]  # type: ignore[attr-defined]


async def test_stages_and_clients_wait_in_the_queues_that_the_plan_gave_them(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        own, other = await started(s, "e0", "e1")
        s.layout(route("e0", (ONE, 4)), route("e1", (ONE, 4), queue=1), models=[ONE], applications=(asking(1),))
        service = ApplicationService(s.front, [asking(1)])
        assert (await service.infer(request(3.0, model="app"))).outputs[0].array[0, 0] == 6.0
        assert (values(own), values(other)) == (0, 1)
        assert (await s.front.infer(request(2.0))).outputs[0].array[0, 0] == 4.0
        assert (values(own), values(other)) == (1, 1)
        # A stage that is asked no more, and one whose model is another now, have queue 0.
        assert await answered([asyncio.create_task(s.front.infer(request(1.0, asked_by=("gone", "ask"))))]) == [2.0]
        assert (values(own), values(other)) == (2, 1)
        (counts,) = s.front.report().models
        assert (counts.model, counts.arrived, counts.answered) == ("m", 3, 3)
        (statistics,) = s.front.statistics("m", None)
        assert statistics["inference_count"] == 3
        assert s.front.model_config("m", None)["dynamic_batching"]["preferred_batch_size"] == [4]


async def test_waiting_requests_move_over_when_the_plan_changes_and_back(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        first, second = await started(s, "e0", "e1", held=True)
        two = route("e0", (ONE, 1)), route("e1", (ONE, 1), queue=1)
        s.layout(two[0], models=[ONE], applications=(asking(0),))
        asked = [ask(s, v, stage=v > 3) for v in range(7)]
        await until(lambda: values(first) == 2 or s.front.open == 7)
        s.layout(*two, models=[ONE], applications=(asking(1),))
        await until(lambda: values(second) >= 1)
        waits = {key: len(served.queue) for key, served in s.front._routing.served.items()}
        assert waits[ONE.key, 1] >= 1
        # And back, while batches of both run.
        s.layout(two[0], models=[ONE], applications=(asking(0),))
        first.release()
        second.release()
        assert sorted(await answered(asked)) == [2.0 * v for v in range(7)]
        await until(lambda: list(s.front._routing.served) == [(ONE.key, 0)])
        (counts,) = s.front.report().models
        assert (counts.arrived, counts.answered, counts.failed, counts.queued, counts.running) == (7, 7, 0, 0, 0)


async def test_a_request_that_is_partly_computed_moves_over(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        first, second = await started(s, "e0", "e1", held=True)
        long = route("e0", (ONE, 2), batch_ms=500.0)
        s.layout(long, models=[ONE], applications=(asking(0),))
        asked = ask(s, 5.0, rows=7)
        await until(lambda: values(first) == 1)
        s.layout(long, route("e1", (ONE, 4), queue=1), models=[ONE], applications=(asking(1),))
        await until(lambda: values(second) == 1)
        first.die()  # its rows come back to the queue that the request waits in now
        second.release()
        response = await asked
        assert response.outputs[0].array[:, 0].tolist() == [2 * (5.0 + n) for n in range(7)]  # type: ignore[attr-defined]
        assert s.front.open == 0


async def test_while_a_queue_has_no_executor_its_requests_wait_in_the_other(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        own, other = await started(s, "e0", "e1", held=True)
        s.layout(route("e0", (ONE, 4)), route("e1", (ONE, 1), queue=1), models=[ONE], applications=(asking(1),))
        asked = [ask(s, v) for v in range(4)]
        await until(lambda: values(other) >= 1)
        other.die()
        own.release()
        assert await answered(asked) == [0.0, 2.0, 4.0, 6.0]
        assert await answered([ask(s, 9.0)]) == [18.0]
        assert s.front.ready()
        own.die()
        await until(lambda: not s.front.ready())
        with pytest.raises(MagpieError, match="no executor serves it now"):
            await s.front.infer(request(1.0))


async def test_a_new_version_takes_over_what_waits_in_both_queues(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        olds = await started(s, "e0", "e1", held=True)
        news = await started(s, "f0", "f1")
        old = route("e0", (ONE, 1)), route("e1", (ONE, 1), queue=1)
        s.layout(*old, models=[ONE], applications=(asking(1),))
        asked = [ask(s, v, stage=v % 2 == 0) for v in range(8)]
        await until(lambda: min(map(values, olds)) >= 1)
        s.layout(route("f0", (TWO, 2)), route("f1", (TWO, 2), queue=1), models=[TWO], applications=(asking(1),))
        for executor in olds:
            executor.release()
        assert sorted(await answered(asked)) == [2.0 * v for v in range(8)]
        assert min(map(values, news)) >= 1
        await until(lambda: {key for key, _ in s.front._routing.served} == {TWO.key})


async def test_a_request_that_expires_in_the_second_queue_is_dropped_and_counted_once(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        _, other = await started(s, "e0", "e1", held=True)
        small = version(depth=3)
        s.layout(route("e0", (small, 1)), route("e1", (small, 1), queue=1), models=[small], applications=(asking(1),))
        first = ask(s, 1.0)
        await until(lambda: values(other) == 1)
        late = ask(s, 2.0, timeout_us=500_000)  # it is seen before it expires, also on a busy machine
        await until(lambda: s.front.open == 2)
        third = ask(s, 3.0, stage=False)
        await until(lambda: s.front.open == 3)
        with pytest.raises(Overloaded, match="as many as its queue may hold"):
            await s.front.infer(request(4.0))  # the depth is the version's, not each queue's
        with pytest.raises(DeadlineMissed):
            await late
        for executor in s.executors:
            executor.release()
        assert await answered([first, third]) == [2.0, 6.0]
        (counts,) = s.front.report().models
        assert (counts.arrived, counts.answered, counts.dropped, counts.rejected) == (4, 2, 1, 1)


# -- the routing table


async def test_a_queue_that_leaves_is_kept_until_nothing_of_it_is_open() -> None:
    t = table(0, 1)
    client, stage = t.find("m", None), t.find("m", None, STAGE)
    assert (client.number, stage.number) == (0, 1)
    request_ = pending(stage, asked_by=STAGE)
    stage.queue.admit(request_)
    t.apply(Layout(2, (route("e0", (ONE, 4)),), (ONE,), applications=(asking(0),)))
    assert stage.queue.leaving
    assert not client.queue.leaving
    assert t.home(stage, request_) is client
    assert t.settle() == ([], ["e1"])
    stage.queue.end(request_, "answered")
    assert t.settle()[0] == [stage]
    assert client.beside == ()
    assert t.versions("m") == [client]


# -- help


def overfull(extra: int) -> tuple[int, int]:
    """Rows that each executor began at once, of `extra` requests more than the second one takes in a batch."""

    async def work() -> tuple[int, int]:
        device = DeviceTable("by hand", {"m": {10: (40.0, 50.0, 60.0)}}, {})
        gpulets = [Gpulet(0, 0.1, 60.0, (ModelBatch("m", 2, 0),)), Gpulet(0, 0.1, 60.0, (ModelBatch("m", 3, 1),))]
        box = SimulatedBox(device, gpulets, {"m": 1e6}, {}, (asking(1),))
        start_s = await box.taught()
        await asyncio.gather(*(box.ask("m", asked_by=STAGE) for _ in range(3 + extra)))
        box.front.close()
        begun = [b for b in box.begun if b.at_s < start_s + 0.001]
        return tuple(sum(b.rows for b in begun if b.executor == f"executor-{n}") for n in (0, 1))  # type: ignore[return-value]

    found = run_virtual(work())
    assert isinstance(found, tuple)
    return found


def test_a_gpulet_helps_the_other_queue_only_beyond_what_its_own_gpulets_take_at_once() -> None:
    assert overfull(3) == (0, 3)
    assert overfull(4) == (2, 3)


@settings(max_examples=tried(20, 60), deadline=None)
@given(
    times=st.lists(st.floats(20.0, 100.0), min_size=1, max_size=4).map(sorted),
    idle=st.floats(1.0, 1.5),
    load=st.floats(0.1, 1.0),
    flood=st.integers(2, 40),
)
def test_helping_breaks_no_promise(times: list[float], idle: float, load: float, flood: int) -> None:
    """Even arrivals at the planned rate beside a flood in the other queue are answered within E + D, and the
    millisecond by which batches are handed over early."""
    duty_ms = times[-1] * idle
    gap_s = duty_ms / (len(times) * load) / 1000
    device = DeviceTable("by hand", {"m": {10: tuple(times)}}, {})
    gpulets = [Gpulet(0, 0.1, duty_ms, (ModelBatch("m", len(times), n),)) for n in (0, 1)]

    async def work() -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        box = SimulatedBox(device, gpulets, {"m": 1e6}, {}, (asking(1),))
        start_s = await box.taught()

        async def own(n: int) -> float:
            at_s = start_s + n * gap_s + 1e-5
            await asyncio.sleep(at_s - loop.time())
            await box.ask("m")
            return loop.time() - at_s

        async def others(n: int) -> None:
            await asyncio.sleep(n * duty_ms / 2000)
            await asyncio.gather(*(box.ask("m", asked_by=STAGE) for _ in range(flood)))

        took, _ = await asyncio.gather(
            asyncio.gather(*(own(n) for n in range(30))), asyncio.gather(*(others(n) for n in range(10)))
        )
        box.front.close()
        return max(took), sum(b.rows for b in box.begun)

    worst_s, rows = run_virtual(work())  # type: ignore[misc]
    assert rows == 30 + 10 * flood
    assert worst_s * 1000 <= times[-1] + duty_ms + 1.001
    assert not math.isnan(worst_s)
