"""Live pictures and events: only for who watches, nothing old, losses counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from edge.appliance.answers.events import JournalEntry
from edge.appliance.live import LiveEvents, LivePictures
from edge.appliance.service import LivePicture
from edge.core.clock import SystemClock
from edge.core.errors import InvalidValue

pytestmark = pytest.mark.asyncio


class Workers:
    def __init__(self) -> None:
        self.asked: dict[str, float] = {}
        self.live = LivePictures(SystemClock(), lambda: ("north", "south"), self.asked.__setitem__)
        self._number = 0

    def picture(self, camera: str) -> LivePicture:
        self._number += 1
        made = LivePicture(camera, {"number": self._number}, b"jpeg")
        self.live.put(made)
        return made


async def following(pictures: AsyncIterator[LivePicture]) -> asyncio.Task[LivePicture]:
    task = asyncio.ensure_future(anext(pictures))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    return task  # type: ignore[return-value]


async def test_workers_encode_for_the_fastest_viewer_only() -> None:
    workers = Workers()
    slow, fast = workers.live.watch((), 1.0), workers.live.watch(("north",), 5.0)
    waiting = [await following(slow), await following(fast)]
    assert workers.asked == {"north": 5.0, "south": 1.0}
    workers.picture("north")
    await asyncio.gather(*waiting)
    await fast.aclose()  # type: ignore[attr-defined]
    assert workers.asked == {"north": 1.0, "south": 1.0}
    await slow.aclose()  # type: ignore[attr-defined]
    assert workers.asked == {"north": 0.0, "south": 0.0}


async def test_a_picture_of_an_earlier_time_is_not_shown_as_of_now() -> None:
    workers = Workers()
    workers.picture("south")
    now = await following(workers.live.watch((), 5.0))
    newer = workers.picture("north")
    assert await now == newer


async def test_a_picture_that_came_while_the_viewer_was_busy_is_not_waited_for() -> None:
    workers = Workers()
    pictures = workers.live.watch((), 30.0)
    first = await following(pictures)
    workers.picture("north")
    await first
    newer = workers.picture("south")
    async with asyncio.timeout(30):
        assert await anext(pictures) == newer
    assert workers.live.missed == 0


@pytest.mark.parametrize("fps", [0.0, -1.0, 31.0, float("nan")])
async def test_absurd_rates_are_refused(fps: float) -> None:
    workers = Workers()
    with pytest.raises(InvalidValue, match="fps"):
        await anext(workers.live.watch((), fps))
    assert workers.asked == {}


async def test_a_slow_listener_learns_how_much_it_lost_and_others_lose_nothing() -> None:
    events = LiveEvents()
    slow, quick = events.listen(), events.listen()
    tasks = [asyncio.ensure_future(anext(e)) for e in (slow, quick)]  # type: ignore[arg-type]
    await asyncio.sleep(0)
    seen = 0
    for number in range(600):
        events.put(JournalEntry(id=None, utc_s=1.0, kind="x", camera=None, window=None, data={"number": number}))
        if number == 0:
            await asyncio.gather(*tasks)
            continue
        assert (await anext(quick)).data["number"] == number
        seen += 1
    assert seen == 599
    lost = await anext(slow)
    assert (lost.kind, lost.data) == ("events.lost", {"events": 99})
    assert (await anext(slow)).data["number"] == 100
