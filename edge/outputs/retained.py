"""Topics that are retained at a broker: the value in force in each, and which of them ever were.

States are levels: only the latest of each topic counts, so they live in memory and are published again at every new
connection. Topics that were ever retained are remembered, so that those of a camera that is gone are cleared, also
after a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from edge.core.errors import MagpieError
from edge.outputs.link import Link

_PAGE = 50


class RetainedTopics:
    """`wake` is set whenever there is something to publish. `remember(topics)` keeps the names of retained topics over
    restarts; `known` are those of earlier runs."""

    def __init__(
        self, wake: asyncio.Event, remember: Callable[[Sequence[str]], Awaitable[None]], known: Collection[str] = ()
    ) -> None:
        self._wake, self._remember = wake, remember
        self._known = set(known)
        self._payloads: dict[str, str] = {}
        self._dirty: dict[str, None] = {}  # topics to be published, in order

    @property
    def known(self) -> frozenset[str]:
        """Topics that may be retained at the broker now."""
        return frozenset(self._known)

    @property
    def settled(self) -> bool:
        """Whether nothing has to be published."""
        return not self._dirty

    def replace(self, wanted: Mapping[str, str]) -> None:
        """Everything to be retained from now on, by topic. Changed topics are published, missing ones cleared."""
        changed = [topic for topic, payload in wanted.items() if self._payloads.get(topic) != payload]
        gone = [topic for topic in (*self._payloads, *self._known) if topic not in wanted]
        self._payloads = dict(wanted)
        self._dirty.update(dict.fromkeys([*gone, *changed]))
        if gone or changed:
            self._wake.set()

    def repeat(self) -> None:
        """Publish everything that is in force once more."""
        self._dirty.update(dict.fromkeys(self._payloads))
        self._wake.set()

    def repeat_one(self, topic: str) -> None:
        """Publish one topic once more, if it is in force."""
        if topic in self._payloads:
            self._dirty[topic] = None
            self._wake.set()

    async def publish_all(self, link: Link) -> None:
        """For a new connection: clear what is gone, then publish everything that is in force. Raises MagpieError."""
        gone = [topic for topic in self._known if topic not in self._payloads]
        self._dirty = dict.fromkeys([*gone, *self._payloads])
        await self.publish(link)

    async def publish(self, link: Link) -> None:
        """Publish what has to be published. Raises MagpieError; topics not acknowledged are published again then."""
        while self._dirty:
            batch = [topic for topic, _ in zip(self._dirty, range(_PAGE), strict=False)]
            new = [topic for topic in batch if topic in self._payloads and topic not in self._known]
            if new:
                # Remembered before the broker has it, so that it can always be cleared.
                self._known.update(self._payloads)
                await self._remember(sorted(self._known))
            for topic in batch:
                del self._dirty[topic]
            cleared = [topic for topic in batch if topic not in self._payloads]
            try:
                acks = [link.publish(t, self._payloads.get(t, "").encode(), retain=True) for t in batch]
                await link.settle(acks)
            except MagpieError:
                self._dirty = dict.fromkeys([*batch, *self._dirty])
                raise
            gone = [topic for topic in cleared if topic not in self._payloads and topic in self._known]
            if gone:
                self._known.difference_update(gone)
                await self._remember(sorted(self._known))
