"""What transports may ask about outputs. Values are plain JSON; errors are edge.core.errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Json = dict[str, Any]


class OutputsService(Protocol):
    """Part of `edge.appliance.service.ApplianceService`. No secret is ever in an answer, only where it comes from."""

    def outputs(self) -> Json:
        """{"mqtt": its settings with "state", or null; "webhooks": [the same]; "unwritten": messages that wait for the
        database, "message": why}. "state": {"connected", "message", "down_s": away for so long, or null; "waiting",
        "waiting_bytes", "sent", "lost", "lost_by": {cause: n}, "dead"}."""

    async def change_mqtt(self, patch: Mapping[str, Any], by: str) -> Json:
        """JSON merge patch; in force at once, kept over restarts; answers as `outputs`. Raises InvalidValues."""

    async def remove_mqtt(self, by: str) -> None:
        """Forget the broker and what waits for it; what is retained there is cleared if it can be reached. Raises
        NotFound."""

    async def test_mqtt(self, patch: Mapping[str, Any]) -> Json:
        """Connect with the settings in force, changed by a JSON merge patch that is not kept, and publish PREFIX/test:
        {"ok", "message", "took_s"}. Raises InvalidValues, NotFound (no broker is configured and none given)."""

    async def add_webhook(self, settings: Mapping[str, Any], by: str) -> Json:
        """One of `outputs()["webhooks"]`. Raises InvalidValues, Conflict."""

    async def change_webhook(self, webhook: str, patch: Mapping[str, Any], by: str) -> Json:
        """JSON merge patch (the id cannot change). Raises InvalidValues, InvalidValue, NotFound."""

    async def remove_webhook(self, webhook: str, by: str) -> None:
        """Forget a receiver and what waits for it. Raises NotFound."""

    async def test_webhook(self, webhook: str) -> Json:
        """POST one message of kind "test", past the queue: {"ok", "message", "took_s"}. Raises NotFound."""

    async def dead_letters(self, limit: int, before: int | None) -> list[Json]:
        """Messages that were given up, newest first: {"id", "destination", "camera", "kind", "message": the id that it
        was sent with, "utc_s", "died_utc_s", "tries", "reason", "body"}."""

    async def retry_dead_letter(self, number: int, by: str) -> None:
        """Put it at the end of its queue. Raises NotFound."""

    async def drop_dead_letter(self, number: int, by: str) -> None:
        """Delete it. Raises NotFound."""
