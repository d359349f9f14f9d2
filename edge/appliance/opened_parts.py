"""Parts of the appliance that are opened in a thread, which no cancel can stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Protocol, TypeVar


class Closable(Protocol):
    """Something that is opened once and closed once; both may block."""

    def close(self) -> object: ...


T = TypeVar("T", bound=Closable)


async def opened(parts: AsyncExitStack, opening: Callable[[], T]) -> T:
    """Open a part by `opening` in a thread; `parts` closes it in a thread.

    A cancel waits for the thread, so that `parts` closes its opened parts too. Raises what `opening` raises.
    """
    thread = asyncio.ensure_future(asyncio.to_thread(opening))
    try:
        await asyncio.shield(thread)
    finally:
        await asyncio.wait({thread})
        if thread.exception() is None:
            parts.push_async_callback(asyncio.to_thread, thread.result().close)
    return thread.result()
