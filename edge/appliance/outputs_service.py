"""The service of outputs. Values are edge.appliance.answers.outputs; errors are edge.core.errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from edge.appliance.answers.outputs import DeadLetterAnswer, OutputsAnswer, OutputTest, WebhookAnswer


class OutputsService(Protocol):
    """Part of `edge.appliance.service.ApplianceService`. No secret is ever in an answer, only where it comes from."""

    def outputs(self) -> OutputsAnswer:
        """Broker and webhooks, with the counts of their messages."""

    async def change_mqtt(self, patch: Mapping[str, Any], by: str) -> OutputsAnswer:
        """JSON merge patch; in force at once, kept over restarts; answers as `outputs`. Raises InvalidValues."""

    async def remove_mqtt(self, by: str) -> None:
        """Forget the broker and its waiting messages; retained ones are cleared if it can be reached. Raises
        NotFound."""

    async def test_mqtt(self, patch: Mapping[str, Any]) -> OutputTest:
        """Connect with the settings in force, changed by a JSON merge patch that is not kept, and publish PREFIX/test.
        Raises InvalidValues, NotFound (no broker is configured and none given)."""

    async def add_webhook(self, settings: Mapping[str, Any], by: str) -> WebhookAnswer:
        """One of `outputs()["webhooks"]`. Raises InvalidValues, Conflict."""

    async def change_webhook(self, webhook: str, patch: Mapping[str, Any], by: str) -> WebhookAnswer:
        """JSON merge patch (the id cannot change). Raises InvalidValues, InvalidValue, NotFound."""

    async def remove_webhook(self, webhook: str, by: str) -> None:
        """Forget a receiver and its waiting messages. Raises NotFound."""

    async def test_webhook(self, webhook: str) -> OutputTest:
        """POST one message of kind "test", past the queue. Raises NotFound."""

    async def dead_letters(self, limit: int, before: int | None) -> list[DeadLetterAnswer]:
        """Messages that were given up, newest first."""

    async def retry_dead_letter(self, number: int, by: str) -> None:
        """Put it at the end of its queue. Raises NotFound."""

    async def drop_dead_letter(self, number: int, by: str) -> None:
        """Delete it. Raises NotFound."""
