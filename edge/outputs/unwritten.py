"""Messages that wait in memory for the database, within bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from edge.outputs.messages import NewMessage


class Unwritten:
    """At most `most_messages` that have `most_bytes` together, the oldest first; beyond that the oldest give way."""

    def __init__(self, most_messages: int, most_bytes: int) -> None:
        self._most_messages, self._most_bytes = most_messages, most_bytes
        self._messages: deque[NewMessage] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message: NewMessage) -> list[NewMessage]:
        """Add the newest message, and return those that give way."""
        self._messages.append(message)
        self.bytes += message.bytes
        return self._surplus()

    def take(self, most: int) -> list[NewMessage]:
        """Take out up to `most` messages, the oldest first."""
        batch = [self._messages.popleft() for _ in range(min(most, len(self._messages)))]
        self.bytes -= sum(m.bytes for m in batch)
        return batch

    def put_back(self, batch: Sequence[NewMessage]) -> list[NewMessage]:
        """Put what `take` gave before all others again, and return those that give way."""
        self._messages.extendleft(reversed(batch))
        self.bytes += sum(m.bytes for m in batch)
        return self._surplus()

    def forget(self, destination: str) -> int:
        """Drop the messages of a destination, and return how many there were."""
        kept = [m for m in self._messages if m.destination != destination]
        gone = len(self._messages) - len(kept)
        self._messages = deque(kept)
        self.bytes = sum(m.bytes for m in kept)
        return gone

    def sizes(self, destination: str) -> list[int]:
        """Bytes of each message of a destination."""
        return [m.bytes for m in self._messages if m.destination == destination]

    def _surplus(self) -> list[NewMessage]:
        gone = []
        while len(self._messages) > self._most_messages or self.bytes > self._most_bytes:
            message = self._messages.popleft()
            self.bytes -= message.bytes
            gone.append(message)
        return gone
