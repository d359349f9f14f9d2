"""Bounds on bytes held by gRPC calls: messages that are coming in, and those that are worked on.

gRPC tells nothing of a message before the whole of it is there; so one that is awaited counts as the largest allowed.
Before it is awaited no more of it than HTTP/2's first window is taken from the network.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from edge.core.errors import InvalidValue, Overloaded


@dataclass(frozen=True)
class IntakePatience:
    """Seconds: a message that has been coming for `slow_s` ends as soon as another call needs its place, and one that
    has been coming for `message_s` in any case; a call waits at most `place_s` for its place."""

    slow_s: float = 5.0
    message_s: float = 60.0
    place_s: float = 10.0


class Intake:
    """At most `max_held_bytes` in messages of calls (at least one of the largest), and as much again in open streams,
    of which each may begin a message of `max_message_bytes` at any time. Used by one event loop."""

    def __init__(self, max_held_bytes: int, max_message_bytes: int, patience: IntakePatience | None = None) -> None:
        self._message = max_message_bytes
        self._limit = max(max_held_bytes, max_message_bytes)
        self._patience = patience or IntakePatience()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        #: Those that come in, the oldest first.
        self._coming: dict[_Coming, None] = {}
        self._cut_at: asyncio.TimerHandle | None = None
        self.max_streams = max(1, self._limit // max_message_bytes)
        self.streams = 0
        #: Bytes that messages hold, those that are coming counted as the largest allowed.
        self.held = 0
        #: Messages and streams that were turned away or cut off, since the start.
        self.turned_away = 0

    @contextlib.contextmanager
    def stream(self) -> Iterator[None]:
        """An open stream. Raises Overloaded where as many are open as may."""
        if self.streams >= self.max_streams:
            self.turned_away += 1
            hint = f"of {self._message} bytes each (serving.max_body_mb) no more fit (serving.max_held_mb)"
            raise Overloaded(f"{self.streams} streams are open, as many as may be", hint)
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    async def one(self, read: Callable[[], Awaitable[Any]]) -> Held:
        """The one message of a call, as `read` gives it. Raises Overloaded (no place, or it came too slowly for others
        to wait), InvalidValue (no message came)."""
        held = await self._take(self._message)
        coming = self._come()
        try:
            data = await read()
        except BaseException as error:
            held.release()
            if not (isinstance(error, asyncio.CancelledError) and coming.was_cut()):
                raise
            self.turned_away += 1
            raise self._too_slow(coming) from None
        finally:
            self._coming.pop(coming, None)
        coming.was_cut()  # a reading that ended all the same leaves no cancellation behind
        if not isinstance(data, bytes):
            held.release()
            raise InvalidValue("(message)", "none", "one message")
        held.shrink(data)
        return held

    async def of_stream(self, data: bytes) -> Held:
        """A message of an open stream that is whole; until it has its place here it counts as the stream's. Raises
        Overloaded."""
        held = await self._take(min(len(data), self._limit))
        held.shrink(data)
        return held

    def give_back(self, size: int) -> None:
        """Count bytes off, and let those in that wait."""
        self.held -= size
        while self._waiting and self.held + self._waiting[0][0] <= self._limit:
            wanted, place = self._waiting.popleft()
            if not place.done():
                self.held += wanted
                place.set_result(None)

    async def _take(self, size: int) -> Held:
        if self._waiting or self.held + size > self._limit:
            await self._wait(size)
        else:
            self.held += size
        return Held(self, size)

    async def _wait(self, size: int) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (size, place)
        self._waiting.append(entry)
        self._cut_slow()
        try:
            async with asyncio.timeout(self._patience.place_s):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self.give_back(size)  # it was let in at the very moment
            else:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(entry)
                self.give_back(0)  # those behind it may fit
            if isinstance(error, TimeoutError):
                self.turned_away += 1
                hint = "send fewer at a time, or smaller ones"
                raise Overloaded(f"messages of {self._limit} bytes are being held already", hint) from None
            raise

    def _come(self) -> _Coming:
        """A message is being received from now on, in the present task."""
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        coming = _Coming(task, loop.time())
        self._coming[coming] = None
        # Never cut off at once: the cancellation would come behind the reading where that does not wait.
        if self._cut_at is None:
            self._cut_at = loop.call_at(self._due(coming), self._cut_slow)
        return coming

    def _due(self, coming: _Coming) -> float:
        """Time of the loop's clock at which it has been coming too long, as things are."""
        patience = self._patience
        limit = min(patience.slow_s, patience.message_s) if self._waiting else patience.message_s
        return coming.since_s + limit

    def _cut_slow(self) -> None:
        """Cut off the messages that have been coming too long, and look again when the next one will have been. One
        timer serves all of them; one for each message would be paid for in every call."""
        if self._cut_at is not None:
            self._cut_at.cancel()
            self._cut_at = None
        loop = asyncio.get_running_loop()
        for oldest in self._coming:
            if oldest.cut:
                continue
            due = self._due(oldest)
            if due > loop.time():
                self._cut_at = loop.call_at(due, self._cut_slow)
                return
            oldest.cut_off(for_others=bool(self._waiting))

    def _too_slow(self, message: _Coming) -> Overloaded:
        if message.for_others:
            return Overloaded("the message came too slowly while others waited for its place", "try again later")
        return Overloaded(f"the message did not come whole within {self._patience.message_s:g} s", "send smaller ones")


@dataclass(eq=False, slots=True)
class _Coming:
    """One message that is being received by `task`, since `since_s` (of the loop's clock)."""

    task: asyncio.Task[Any]
    since_s: float
    cut: bool = False
    #: It was cut off because others waited for its place.
    for_others: bool = False

    def cut_off(self, for_others: bool) -> None:
        """Cancel the reading."""
        self.cut, self.for_others = True, for_others
        self.task.cancel()

    def was_cut(self) -> bool:
        """Whether a cancellation that arrived is that of `cut_off` alone; takes it back."""
        return self.cut and self.task.uncancel() == 0


@dataclass
class Held:
    """A message and its part of all that may be held, until `release`."""

    _intake: Intake
    _size: int
    data: bytes = field(default=b"", repr=False)

    def shrink(self, data: bytes) -> None:
        """The message is whole: it counts with its real size."""
        self.data = data
        spare = self._size - min(len(data), self._size)
        self._size -= spare
        self._intake.give_back(spare)

    def release(self) -> None:
        """Nothing of it is needed any more. Safe to repeat."""
        size, self._size, self.data = self._size, 0, b""
        self._intake.give_back(size)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
