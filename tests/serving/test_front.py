"""The front over real links and arenas: answers, limits, losses, layouts, counts."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from front_kit import Site, doubled, request, route, site, until, version

from edge.core.clock import ManualClock
from edge.core.errors import Conflict, DeadlineMissed, InvalidValue, NotFound, Overloaded, Unavailable
from edge.core.front_messages import ExecutorConnected, ExecutorDrained, ExecutorGone, ModelTraffic, RepositoryAnswer
from edge.core.oip import InferRequest, RepositoryEntry, Tensor, TensorSpec
from edge.core.serving_reasons import Refusal


class Totals:
    """Adds up reports, and checks that every request is in exactly one place."""

    def __init__(self, of: Site) -> None:
        self._site = of
        self.counts: Counter[str] = Counter()

    def take(self, model: str = "m") -> ModelTraffic:
        found = next(m for m in self._site.front.report().models if m.model == model)
        for name in ("arrived", "answered", "late", "dropped", "rejected", "failed", "cancelled"):
            self.counts[name] += getattr(found, name)
        ended = sum(self.counts[n] for n in ("answered", "dropped", "rejected", "failed", "cancelled"))
        assert self.counts["arrived"] == ended + found.queued + found.running
        return found


async def test_a_request_is_answered_and_counted_once(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        v = version()
        await s.executor("e", v)
        s.layout(route("e", (v, 8)), models=[v])
        totals = Totals(s)
        answers = await asyncio.gather(*(s.front.infer(request(float(n), id=str(n))) for n in range(20)))
        for n, answer in enumerate(answers):
            assert answer.id == str(n)
            assert answer.version == "1"
            assert answer.outputs[0].array.tolist() == [[2.0 * n] * 4]
        counted = totals.take()
        assert (counted.arrived, counted.answered, counted.rows, counted.running, counted.queued) == (20, 20, 20, 0, 0)
        assert len(counted.latency_ms) == 3
        stats = s.front.statistics("m", None)[0]
        assert stats["inference_count"] == 20
        assert stats["inference_stats"]["success"]["count"] == 20
        assert stats["execution_count"] == sum(b["compute_infer"]["count"] for b in stats["batch_stats"])
        assert sum(b["batch_size"] * b["compute_infer"]["count"] for b in stats["batch_stats"]) == 20


async def test_what_waits_goes_in_full_batches(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        v = version()
        executor = await s.executor("e", v, held=True)
        s.layout(route("e", (v, 8), batch_ms=50.0), models=[v])
        asked = [asyncio.create_task(s.front.infer(request(float(n)))) for n in range(17)]
        await until(lambda: bool(executor.batches))
        executor.release()
        await asyncio.gather(*asked)
        assert [b.rows for b in executor.batches] == [8, 8, 1]


async def test_a_request_larger_than_a_batch_is_cut_and_joined(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        v = version()
        executor = await s.executor("e", v)
        s.layout(route("e", (v, 4)), models=[v])
        answers = await asyncio.gather(*(s.front.infer(request(100.0 * n, rows=n)) for n in (11, 1, 3, 9)))
        for n, answer in zip((11, 1, 3, 9), answers, strict=True):
            assert answer.outputs[0].array[:, 0].tolist() == [2 * (100.0 * n + k) for k in range(n)]
        assert max(b.rows for b in executor.batches) == 4
        assert sum(b.rows for b in executor.batches) == 24


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"inputs": ()}, "inputs"),
        ({"inputs": (Tensor("z", "FP32", np.zeros((1, 4), np.float32)),)}, "inputs"),
        ({"inputs": (Tensor("x", "FP64", np.zeros((1, 4))),)}, "inputs[x].datatype"),
        ({"inputs": (Tensor("x", "FP32", np.zeros((1, 5), np.float32)),)}, "inputs[x].shape"),
        ({"inputs": (Tensor("x", "FP32", np.zeros(4, np.float32)),)}, "inputs[x].shape"),
        ({"inputs": (Tensor("x", "FP32", np.zeros((0, 4), np.float32)),)}, "inputs"),
        ({"outputs": ("nothing",)}, "outputs"),
        ({"priority": -1}, "parameters.priority"),
        ({"timeout_us": -1}, "parameters.timeout"),
    ],
)
async def test_a_wrong_request_names_what_is_wrong(tmp_path: Path, change: dict[str, Any], path: str) -> None:
    async with site(tmp_path) as s:
        v = version()
        await s.executor("e", v)
        s.layout(route("e", (v, 4)), models=[v])
        with pytest.raises(InvalidValue) as error:
            await s.front.infer(replace(request(), **change))
        assert error.value.path == path
        assert (await s.front.infer(request(3.0))).outputs[0].array[0, 0] == 6.0
        assert Totals(s).take().arrived == 1


async def test_rows_of_all_inputs_agree(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        v = version(inputs=[TensorSpec("a", "FP32", (-1, 1)), TensorSpec("b", "FP32", (-1, 1))])
        await s.executor("e", v)
        s.layout(route("e", (v, 4)), models=[v])
        one, two = np.zeros((1, 1), np.float32), np.zeros((2, 1), np.float32)
        with pytest.raises(InvalidValue, match="1 rows"):
            await s.front.infer(InferRequest("m", (Tensor("a", "FP32", one), Tensor("b", "FP32", two))))
        with pytest.raises(InvalidValue, match="once"):
            await s.front.infer(InferRequest("m", (Tensor("a", "FP32", one), Tensor("a", "FP32", one))))


async def test_unknown_refused_and_starting_models(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        v = version()
        assert not s.front.ready()
        with pytest.raises(NotFound):
            await s.front.infer(request())
        s.layout(
            route("e", (v, 4)), models=[v], refused={"other": Refusal("failing", "other", said="no share is left")}
        )
        assert not s.front.ready()
        assert not s.front.model_ready("m", None)
        with pytest.raises(Unavailable, match="no executor"):
            await s.front.infer(request())
        with pytest.raises(Unavailable, match="no share is left"):
            await s.front.infer(request(model="other"))
        assert not s.front.model_ready("other", None)
        await s.executor("e", v)
        assert s.front.ready()
        assert s.front.model_ready("m", "1")
        with pytest.raises(NotFound, match="version 2"):
            await s.front.infer(request(version="2"))
        assert s.front.model_metadata("m", None).versions == ("1",)
        assert s.front.model_config("m", None)["input"][0]["dims"] == [4]
        with pytest.raises(NotFound):
            s.front.statistics("nothing", None)
        assert Totals(s).take().failed == 1


async def test_what_cannot_be_answered_in_time_is_dropped_at_once(tmp_path: Path) -> None:
    clock = ManualClock(100.0)
    async with site(tmp_path, clock=clock.monotonic) as s:
        v = version(slo_ms=400.0)
        executor = await s.executor("e", v, held=True)
        s.layout(route("e", (v, 2), batch_ms=80.0), models=[v])
        totals = Totals(s)
        first = [asyncio.create_task(s.front.infer(request())) for _ in range(2)]
        await until(lambda: bool(executor.batches))
        # Four further batches could be answered in that time: requests beyond them are refused now, one
        # that then waits in vain for the executor is refused when its time is up.
        more = [asyncio.create_task(s.front.infer(request())) for _ in range(20)]
        await asyncio.sleep(0)
        await until(lambda: totals.take().dropped >= 0 and totals.counts["dropped"] >= 12)
        assert sum(t.done() for t in more) <= 14
        clock.advance(1.0)
        await until(lambda: totals.take().dropped >= 0 and totals.counts["dropped"] >= 20)
        executor.release()
        outcomes = await asyncio.gather(*more, return_exceptions=True)
        missed = [o for o in outcomes if isinstance(o, DeadlineMissed)]
        assert len(missed) == 20
        assert "could not be answered within 400.0 ms" in str(missed[0])
        await asyncio.gather(*first)
        totals.take()
        assert (totals.counts["dropped"], totals.counts["answered"]) == (20, 2)


async def test_a_late_answer_is_given_and_counted(tmp_path: Path) -> None:
    clock = ManualClock(100.0)
    async with site(tmp_path, clock=clock.monotonic) as s:
        v = version(slo_ms=1000.0)
        executor = await s.executor("e", v, held=True)
        s.layout(route("e", (v, 2)), models=[v])
        asked = asyncio.create_task(s.front.infer(request(1.0)))
        await until(lambda: bool(executor.batches))
        clock.advance(1.5)
        executor.release()
        assert (await asked).outputs[0].array[0, 0] == 2.0
        reported = s.front.report().models[0]
        assert (reported.answered, reported.late, reported.violations, reported.latency_ms) == (1, 1, 1, (1500.0,) * 3)


async def test_a_timeout_shortens_the_objective(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        v = version()
        executor = await s.executor("e", v, held=True)
        s.layout(route("e", (v, 1), batch_ms=500.0), models=[v])
        first = asyncio.create_task(s.front.infer(request()))
        await until(lambda: bool(executor.batches))
        with pytest.raises(DeadlineMissed, match=r"within 5\.0 ms"):
            await s.front.infer(request(timeout_us=5_000))
        with pytest.raises(DeadlineMissed, match=r"within 60\.0 ms"):
            await s.front.infer(request(timeout_us=60_000))
        assert Totals(s).take().dropped == 2
        executor.release()
        await first


async def test_a_full_queue_turns_away(tmp_path: Path) -> None:
    async with site(tmp_path, max_queued_bytes=16 * 100) as s:
        v, w = version(depth=5), version("w", depth=1000)
        executor = await s.executor("e", v, w, held=True)
        s.layout(route("e", (v, 1), (w, 1)), models=[v, w])
        asked = [asyncio.create_task(s.front.infer(request())) for _ in range(5)]
        await until(lambda: bool(executor.batches))
        with pytest.raises(Overloaded, match="5 requests"):
            await s.front.infer(request())
        others = [asyncio.create_task(s.front.infer(request(model="w", rows=5))) for _ in range(19)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="bytes"):
            await s.front.infer(request(model="w"))
        executor.release()
        await asyncio.gather(*asked, *others)
        await s.front.infer(request(model="w"))
        assert Totals(s).take().rejected == 1
        assert s.front._requests.held_bytes == 0


async def test_priority_goes_first_then_the_earlier_deadline(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        v = version()
        executor = await s.executor("e", v, held=True)
        s.layout(route("e", (v, 1), batch_ms=50.0), models=[v])
        order: list[str] = []

        async def ask(name: str, **more: Any) -> None:
            await s.front.infer(request(**more))
            order.append(name)

        first = asyncio.create_task(ask("first"))
        await until(lambda: bool(executor.batches))
        rest = [
            asyncio.create_task(ask("low", priority=200)),
            asyncio.create_task(ask("plain")),
            asyncio.create_task(ask("urgent", timeout_us=5_000_000)),
            asyncio.create_task(ask("high", priority=1)),
        ]
        await asyncio.sleep(0)
        executor.release()
        await asyncio.gather(first, *rest)
        assert order == ["first", "high", "urgent", "plain", "low"]


async def test_models_of_one_executor_take_turns(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        a, b = version("a"), version("b")
        executor = await s.executor("e", a, b, held=True)
        s.layout(route("e", (a, 2), (b, 1), batch_ms=50.0), models=[a, b])
        asked = [asyncio.create_task(s.front.infer(request(model="a"))) for _ in range(8)]
        asked += [asyncio.create_task(s.front.infer(request(model="b"))) for _ in range(3)]
        await until(lambda: bool(executor.batches))
        executor.release()
        await asyncio.gather(*asked)
        assert [(x.model, x.rows) for x in executor.batches] == [
            ("a", 2), ("b", 1), ("a", 2), ("b", 1), ("a", 2), ("b", 1), ("a", 2)
        ]  # fmt: skip


async def test_a_lost_executor_fails_its_own_requests_only(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        a, b = version("a"), version("b")
        dying = await s.executor("dying", a, held=True)
        await s.executor("fine", b)
        s.layout(route("dying", (a, 4)), route("fine", (b, 4)), models=[a, b])
        lost = [asyncio.create_task(s.front.infer(request(model="a"))) for _ in range(12)]
        await until(lambda: bool(dying.batches))
        dying.die()
        for outcome in await asyncio.gather(*lost, return_exceptions=True):
            assert isinstance(outcome, Unavailable)
        await s.front.infer(request(model="b"))
        assert [e for e in s.events if isinstance(e, ExecutorGone)] == [ExecutorGone("dying", 12)]
        assert not s.front.ready()
        assert Totals(s).take("a").failed == 12
        # It comes back under the same name and is routed to at once.
        await s.executor("dying", a)
        assert (await s.front.infer(request(1.0, model="a"))).outputs[0].array[0, 0] == 2.0
        assert s.said(ExecutorConnected, "dying") == 2


async def test_a_lost_executors_requests_are_answered_by_another(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        v = version()
        dying = await s.executor("dying", v, held=True)
        other = await s.executor("other", v, held=True)
        s.layout(route("dying", (v, 4)), route("other", (v, 4)), models=[v])
        asked = [asyncio.create_task(s.front.infer(request(float(n)))) for n in range(16)]
        await until(lambda: bool(dying.batches) and bool(other.batches))
        dying.die()
        other.release()
        for n, answer in enumerate(await asyncio.gather(*asked)):
            assert answer.outputs[0].array[0, 0] == 2.0 * n
        assert [e for e in s.events if isinstance(e, ExecutorGone)] == [ExecutorGone("dying", 0)]
        assert Totals(s).take().answered == 16


async def test_a_slow_executor_steps_in_for_a_fast_one_that_hangs(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        v = version()
        fast = await s.executor("fast", v, held=True)
        slow = await s.executor("slow", v)
        s.layout(route("fast", (v, 1), batch_ms=5.0), route("slow", (v, 1), batch_ms=40.0), models=[v])
        first = asyncio.create_task(s.front.infer(request(1.0)))
        await until(lambda: bool(fast.batches))
        # Left to the fast one at first, which is expected back soon; one is handed to it ahead at most.
        rest = [asyncio.create_task(s.front.infer(request(2.0))) for _ in range(3)]
        await until(lambda: len(slow.batches) >= 2)
        await asyncio.wait(rest, return_when=asyncio.FIRST_COMPLETED)
        fast.release()
        for answer in await asyncio.gather(first, *rest):
            assert answer.outputs[0].array[0, 0] in (2.0, 4.0)


async def test_a_request_that_its_model_cannot_take_fails_alone(tmp_path: Path) -> None:
    def picky(batch: Any, inputs: Any) -> Any:
        if (inputs["x"] < 0).any():
            raise ValueError("no negative numbers")
        return doubled(batch, inputs)

    async with site(tmp_path) as s:
        v = version()
        executor = await s.executor("e", v, answer=picky, held=True)
        s.layout(route("e", (v, 8)), models=[v])
        asked = [asyncio.create_task(s.front.infer(request(float(n)))) for n in (1, 2, -3, 4)]
        await until(lambda: bool(executor.batches))
        executor.release()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [isinstance(o, Unavailable) for o in outcomes] == [False, False, True, False]
        assert "no negative numbers" in str(outcomes[2])
        await s.front.infer(request())


async def test_a_clients_end_frees_its_place(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        v = version(depth=3)
        executor = await s.executor("e", v, held=True)
        s.layout(route("e", (v, 1)), models=[v])
        asked = [asyncio.create_task(s.front.infer(request())) for _ in range(3)]
        await until(lambda: bool(executor.batches))
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        executor.release()
        assert (await s.front.infer(request(1.0))).outputs[0].array[0, 0] == 2.0
        totals = Totals(s).take()
        assert (totals.cancelled, totals.answered, totals.violations) == (3, 1, 0)


async def test_switching_layouts_under_load_loses_nothing(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        v = version()
        layouts = [("e0",), ("e1", "e2"), ("e2", "e0"), ("e1",)]
        for name in ("e0", "e1", "e2"):
            await s.executor(name, v)
        s.layout(route("e0", (v, 4)), models=[v])
        stopped = False
        answered = 0

        async def client(n: int) -> None:
            nonlocal answered
            while not stopped:
                answer = await s.front.infer(request(float(n)))
                assert answer.outputs[0].array[0, 0] == 2.0 * n
                answered += 1

        clients = [asyncio.create_task(client(n)) for n in range(24)]
        for step in range(12):
            seen = answered
            await until(lambda seen=seen: answered > seen + 50)  # type: ignore[misc]
            batch = 2 + step % 3
            s.layout(*(route(e, (v, batch)) for e in layouts[step % 4]), models=[v])
        stopped = True
        await asyncio.gather(*clients)
        totals = Totals(s).take()
        assert totals.answered == totals.arrived == answered
        assert totals.violations == 0
        # An executor that is routed to again before it is drained is not reported.
        await until(lambda: 1 <= s.said(ExecutorDrained, "e0") <= 6 and 1 <= s.said(ExecutorDrained, "e2") <= 3)


async def test_an_executor_is_drained_when_its_last_batch_is_answered(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        v = version()
        old = await s.executor("old", v, held=True)
        await s.executor("new", v)
        s.layout(route("old", (v, 1), batch_ms=50.0), models=[v])
        running = asyncio.create_task(s.front.infer(request(1.0)))
        await until(lambda: bool(old.batches))
        waiting = asyncio.create_task(s.front.infer(request(2.0)))
        await asyncio.sleep(0)
        s.layout(route("new", (v, 1), batch_ms=50.0), models=[v])
        assert (await waiting).outputs[0].array[0, 0] == 4.0
        assert s.said(ExecutorDrained, "old") == 0
        old.release()
        assert (await running).outputs[0].array[0, 0] == 2.0
        await until(lambda: s.said(ExecutorDrained, "old") == 1)
        assert len(old.batches) == 1


async def test_a_new_version_takes_over_what_asked_for_none(tmp_path: Path) -> None:
    def tripled(batch: Any, inputs: Any) -> Any:
        return (Tensor("y", "FP32", inputs["x"] * 3),)

    async with site(tmp_path) as s:
        one, two = version(number="1", digest="a"), version(number="2", digest="b")
        old = await s.executor("old", one, held=True)
        await s.executor("new", two, answer=tripled)
        s.layout(route("old", (one, 1), batch_ms=50.0), models=[one])
        asked = [asyncio.create_task(s.front.infer(request(1.0)))]
        await until(lambda: bool(old.batches))
        asked += [asyncio.create_task(s.front.infer(request(1.0, version=v))) for v in (None, "1")]
        await asyncio.sleep(0)
        s.layout(route("new", (two, 1), batch_ms=50.0), models=[two])
        assert s.front.model_metadata("m", None).versions == ("2",)
        with pytest.raises(NotFound):
            await s.front.infer(request(version="1"))
        old.release()
        answers = await asyncio.gather(*asked)
        assert [(a.version, a.outputs[0].array[0, 0]) for a in answers] == [("1", 2.0), ("2", 3.0), ("1", 2.0)]
        await until(lambda: s.said(ExecutorDrained, "old") == 1)
        assert Totals(s).take().answered == 3


async def test_new_content_under_the_same_version_answers_what_waits(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        before, after = version(digest="a"), version(digest="b")
        old = await s.executor("old", before, held=True)
        await s.executor("new", after)
        s.layout(route("old", (before, 1), batch_ms=50.0), models=[before])
        asked = [asyncio.create_task(s.front.infer(request(1.0, version="1"))) for _ in range(3)]
        await until(lambda: bool(old.batches))
        s.layout(route("new", (after, 1), batch_ms=50.0), models=[after])
        await asked[1]
        await asked[2]
        old.release()
        await asked[0]
        # Other tensors under the same version: what waits was made for those that are gone.
        five = TensorSpec("x", "FP32", (-1, 5)), TensorSpec("y", "FP32", (-1, 5))
        other = version(digest="c", inputs=five[:1], outputs=five[1:])
        held = await s.executor("held", after, held=True)
        s.layout(route("held", (after, 1), batch_ms=50.0), models=[after])
        asked = [asyncio.create_task(s.front.infer(request(1.0))) for _ in range(2)]
        await until(lambda: bool(held.batches))
        s.layout(route("held", (other, 1), batch_ms=50.0), models=[other])
        held.release()
        with pytest.raises(Unavailable, match="took its place"):
            await asked[1]
        assert (await asked[0]).outputs[0].array[0, 0] == 2.0
        with pytest.raises(InvalidValue, match="-1, 5"):
            await s.front.infer(request(1.0))
        assert (await s.front.infer(request(1.0, width=5))).outputs[0].array.shape == (1, 5)


async def test_an_unloaded_model_answers_what_waits(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        v = version()
        executor = await s.executor("e", v, held=True)
        s.layout(route("e", (v, 1), batch_ms=50.0), models=[v])
        asked = [asyncio.create_task(s.front.infer(request(1.0))) for _ in range(4)]
        await until(lambda: bool(executor.batches))
        s.layout(models=[])
        with pytest.raises(NotFound):
            await s.front.infer(request())
        executor.release()
        await asyncio.gather(*asked)
        await until(lambda: s.said(ExecutorDrained, "e") == 1)
        totals = Totals(s).take()
        assert (totals.arrived, totals.answered) == (4, 4)
        assert s.front.report().models == ()


async def test_outputs_of_unknown_size_get_the_room_they_need(tmp_path: Path) -> None:
    def long(batch: Any, inputs: Any) -> Any:
        return (Tensor("y", "FP32", np.repeat(inputs["x"][:, :1], 10_000, axis=1)),)

    async with site(tmp_path) as s:
        v = version(outputs=[TensorSpec("y", "FP32", (-1, -1))])
        executor = await s.executor("e", v, answer=long)
        s.layout(route("e", (v, 4)), models=[v])
        for _ in range(2):
            answers = await asyncio.gather(*(s.front.infer(request(float(n))) for n in range(8)))
            for n, answer in enumerate(answers):
                assert answer.outputs[0].array.shape == (1, 10_000)
                assert (answer.outputs[0].array == n).all()
        assert sum(b.rows for b in executor.batches) >= 16
        assert Totals(s).take().answered == 16


async def test_texts_and_free_shapes(tmp_path: Path) -> None:
    def upper(batch: Any, inputs: Any) -> Any:
        text = inputs["t"]
        out = np.empty(text.shape, object)
        out.ravel()[:] = [x.upper() for x in text.ravel()]
        return (Tensor("u", "BYTES", out),)

    async with site(tmp_path) as s:
        v = version(inputs=[TensorSpec("t", "BYTES", (-1, -1))], outputs=[TensorSpec("u", "BYTES", (-1, -1))])
        executor = await s.executor("e", v, answer=upper, held=True)
        s.layout(route("e", (v, 8)), models=[v])

        def ask(*rows: list[bytes]) -> InferRequest:
            array = np.empty((len(rows), len(rows[0])), object)
            array[:] = rows
            return InferRequest("m", (Tensor("t", "BYTES", array),))

        asked = [
            asyncio.create_task(s.front.infer(r))
            for r in (ask([b"a"]), ask([b"b", b"c"]), ask([b"d" * 1000], [b""]), ask([b"e", b"f"]))
        ]
        await until(lambda: bool(executor.batches))
        executor.release()
        got = [a.outputs[0].array.tolist() for a in await asyncio.gather(*asked)]
        assert got == [[[b"A"]], [[b"B", b"C"]], [[b"D" * 1000], [b""]], [[b"E", b"F"]]]
        assert all({tuple(p.shape[1:]) for p in b.inputs} in ({(1,)}, {(2,)}) for b in executor.batches)


async def test_what_does_not_fit_into_the_arena_is_reported(tmp_path: Path) -> None:
    async with site(tmp_path, arena_bytes=4096) as s:
        v = version(
            inputs=[TensorSpec("x", "FP32", (-1, -1))], outputs=[TensorSpec("y", "FP32", (-1, 4))], max_batch=64
        )

        def first(batch: Any, inputs: Any) -> Any:
            return (Tensor("y", "FP32", inputs["x"][:, :4] * 2),)

        executor = await s.executor("e", v, answer=first)
        s.layout(route("e", (v, 64)), models=[v])
        answers = await asyncio.gather(*(s.front.infer(request(float(n), width=128)) for n in range(40)))
        assert [a.outputs[0].array[0, 0] for a in answers] == [2.0 * n for n in range(40)]
        assert max(b.rows for b in executor.batches) < 8
        with pytest.raises(InvalidValue, match="memory"):
            await s.front.infer(request(width=2000))
        await s.front.infer(request(width=128))


async def test_a_liar_fails_its_batch_only(tmp_path: Path) -> None:
    def liar(batch: Any, inputs: Any) -> Any:
        if inputs["x"][0, 0] == 1:
            return (Tensor("other", "FP32", inputs["x"]),)
        if inputs["x"][0, 0] == 2:
            return (Tensor("y", "INT32", inputs["x"].astype(np.int32)),)
        return doubled(batch, inputs)

    async with site(tmp_path) as s:
        v = version()
        await s.executor("e", v, answer=liar)
        s.layout(route("e", (v, 8)), models=[v])
        with pytest.raises(Unavailable, match="missing"):
            await s.front.infer(request(1.0))
        with pytest.raises(Unavailable, match="INT32"):
            await s.front.infer(request(2.0))
        assert (await s.front.infer(request(3.0))).outputs[0].array[0, 0] == 6.0


async def test_repository_commands_reach_the_control_process(tmp_path: Path) -> None:
    async with site(tmp_path) as s:
        index = asyncio.create_task(s.front.repository_index(True))
        load = asyncio.create_task(s.front.load_model("m", {"config": "{}"}))
        unload = asyncio.create_task(s.front.unload_model("n", {}))
        await until(lambda: len(s.commands) == 3)
        numbers = {c.action: c.number for c in s.commands}
        assert [(c.action, c.model) for c in s.commands] == [("index", ""), ("load", "m"), ("unload", "n")]
        assert s.commands[1].parameters == {"config": "{}"}
        ready, loading = RepositoryEntry("m", "1", "READY"), RepositoryEntry("n", "1", "LOADING")
        s.front.answer(RepositoryAnswer(numbers["index"], index=(ready, loading)))
        s.front.answer(RepositoryAnswer(numbers["load"], "m: the file is damaged", "conflict"))
        s.front.answer(RepositoryAnswer(numbers["unload"]))
        assert await index == [ready]
        with pytest.raises(Conflict, match="the file is damaged"):
            await load
        await unload
        s.front.answer(RepositoryAnswer(9999))
        late = asyncio.create_task(s.front.load_model("m", {}))
        await until(lambda: len(s.commands) == 4)
        s.front.close()
        with pytest.raises(Unavailable):
            await late
