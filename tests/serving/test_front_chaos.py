"""Everything at once, at random: no request is lost, none is counted twice, nothing is held for ever."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from front_kit import HeldExecutor, asking, doubled, request, route, site, until, version

from edge.core.errors import DeadlineMissed, Overloaded, Unavailable
from edge.core.oip import InferResponse

_OUTCOMES: dict[type, str] = {DeadlineMissed: "dropped", Overloaded: "rejected", Unavailable: "failed"}


def moody(batch: Any, inputs: Any) -> Any:
    if (inputs["x"] < 0).any():
        raise ValueError("no negative numbers")
    return doubled(batch, inputs)


async def ask_at_random(front: Any, rng: random.Random, counted: Counter[str]) -> None:
    """One request of any kind, perhaps called off; its end is counted."""
    value, rows = float(rng.randint(-1, 50) or 1), rng.choice((1, 1, 1, 2, 9, 30))
    model = rng.choice(("m", "m", "w"))
    asked = request(
        value,
        rows,
        model,
        priority=rng.choice((0, 0, 1, 200)),
        timeout_us=rng.choice((0, 0, 0, 3_000, 100_000)),
        version=rng.choice((None, None, "1")) if model == "w" else None,
        asked_by=rng.choice((None, ("app", "ask"))),
    )
    task = asyncio.create_task(front.infer(asked))
    if rng.random() < 0.2:
        asyncio.get_running_loop().call_later(rng.choice((0.0, 0.002, 0.02)), task.cancel)
    try:
        answer: InferResponse = await task
        assert answer.outputs[0].array[:, 0].tolist() == [2 * (value + k) for k in range(rows)]
        counted["answered"] += 1
    except asyncio.CancelledError:
        counted["cancelled"] += 1
    except (DeadlineMissed, Overloaded, Unavailable) as error:
        counted[_OUTCOMES[type(error)]] += 1
        counted["poison"] += "negative" in str(error)


@pytest.mark.parametrize("seed", range(4))
async def test_every_request_ends_once(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)

    async with site(tmp_path, arena_bytes=16 * 1024, max_queued_bytes=64 * 1024) as s:
        one, two = version(number="1", digest="1", slo_ms=400.0, depth=200), version("w", slo_ms=300.0)
        newer = version(number="2", digest="2", slo_ms=400.0, depth=200)
        alive: dict[str, HeldExecutor] = {}
        for name in ("e0", "e1", "e2"):
            alive[name] = await s.executor(name, one, two, newer, answer=moody)
        s.layout(route("e0", (one, 8), (two, 4)), models=[one, two])
        counted: Counter[str] = Counter()
        clients: list[asyncio.Task[None]] = []
        for step in range(120):
            clients += [asyncio.create_task(ask_at_random(s.front, rng, counted)) for _ in range(rng.randint(0, 25))]
            await asyncio.sleep(0.001)
            if step % 10 == 5:
                routes = []
                for e in rng.sample(("e0", "e1", "e2"), rng.randint(1, 3)):
                    parts = (rng.choice((one, newer)), rng.randint(1, 8)), (two, rng.randint(1, 8))
                    routes.append(route(e, *parts, queue=rng.choice((0, 0, 1))))
                number = {r.versions["m"] for r in routes}
                models = [v for v in (one, newer) if v.version in number] + [two]
                s.layout(*routes, models=models, applications=(asking(rng.choice((0, 1))),))
            if step % 25 == 24:
                name = rng.choice(sorted(alive))
                alive[name].die()
                gone = alive[name]
                await asyncio.to_thread(gone.join, 5.0)
                await until(lambda name=name: s.front._routing.seats.get(name) is None  # type: ignore[misc]
                            or s.front._routing.seats[name].link is None)  # fmt: skip
                alive[name] = await s.executor(name, one, two, newer, answer=moody)
        await asyncio.gather(*clients)
        routing = s.front._routing
        assert s.front.open == s.front._requests.held_bytes == 0
        assert all(not served.queue and not served.queue.open for served in routing.served.values())
        # A batch whose requests were all too late may still be with its executor.
        await until(lambda: all(seat.link is None or not seat.link.outstanding for seat in routing.seats.values()))
        assert all(seat.link is None or seat.link.arena.blocks == 0 for seat in routing.seats.values())
        reports = s.front.report().models
        ended = Counter(
            {o: sum(getattr(m, o) for m in reports) for o in (*_OUTCOMES.values(), "answered", "cancelled")}
        )
        assert sum(m.arrived for m in reports) == len(clients) == ended.total()
        # A request that was cancelled in the instant of its answer has none; the front has given it.
        for outcome in (*_OUTCOMES.values(), "answered"):
            assert 0 <= ended[outcome] - counted[outcome] <= counted["cancelled"] - ended["cancelled"]
        assert counted["answered"] > 50
        assert counted["poison"]
