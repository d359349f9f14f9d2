"""The outbox's tables on both databases: every statement once, and the result the same."""

from __future__ import annotations

from store_helpers import JumpClock

from edge.outputs.messages import QueueLimits
from edge.outputs.outbox import Outbox
from edge.store.store import Store


async def test_the_outbox_on_both_databases(store: Store, clock: JumpClock) -> None:
    notes: list[tuple[str, dict[str, object]]] = []
    box = Outbox(store.database, clock, lambda kind, data: notes.append((kind, data)))
    box.queues.add("d", QueueLimits(5, 1_000_000, 100.0))
    box.queues.add("gone", QueueLimits())
    for n in range(8):
        box.put("d", "alarm", ("north", None)[n % 2], {"n": n, "text": "дверь\x00 'x' \\u0000"})
    box.put("gone", "alarm", None, {"n": 0})
    assert await box.flush()
    page = await box.page("d", 10)
    assert [(m.body["n"], m.lane) for m in page] == [(3, ""), (4, "north"), (5, ""), (6, "north"), (7, "")]
    assert page[0].body["text"] == "дверь 'x' \\u0000"
    assert [m.body["n"] for m in await box.page("d", 10, [""])] == [4, 6]
    await box.delivered("d", [page[0].id])
    await box.dead_letters.bury(page[1], 2, "the receiver answered 410\x00")
    (letter,) = await box.dead_letters.newest(10)
    assert (letter.body["n"], letter.tries, letter.reason) == (4, 2, "the receiver answered 410")
    await box.dead_letters.retry(letter.id)
    assert [m.body["n"] for m in await box.page("d", 10)] == [5, 6, 7, 4]
    await box.dead_letters.bury(page[2], 1, "no")
    await box.dead_letters.drop((await box.dead_letters.newest(1))[0].id)
    again = Outbox(store.database, clock, lambda kind, data: notes.append((kind, data)))
    again.queues.add("d", QueueLimits(5, 1_000_000, 100.0))
    await again.read_sums()
    for one in (box, again):
        assert (one.queues.counts("d").waiting, one.queues.counts("d").dead) == (3, 0)
    assert box.queues.counts("d").bytes == again.queues.counts("d").bytes
    clock.advance(200.0)
    await again.expire()
    assert await again.page("d", 10) == ()
    assert again.queues.counts("d").lost == {"age": 3}
    causes = [(data["destination"], data["cause"], data["messages"]) for _, data in notes]
    assert causes == [("d", "limit", 3), ("gone", "removed", 1), ("d", "age", 3)]
