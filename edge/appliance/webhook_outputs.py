"""Webhooks as outputs: the sender of each receiver."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from edge.appliance.outputs_context import OutputsContext
from edge.appliance.restarted_tasks import RestartedTasks
from edge.appliance.service import Json
from edge.core.clock import Clock
from edge.core.errors import MagpieError
from edge.core.journal_kinds import JournalKind
from edge.core.retry_pace import RetryPace
from edge.outputs.messages import WEBHOOK
from edge.outputs.outbox import Outbox
from edge.outputs.webhooks import Poster, Receiver, WebhookSender
from edge.settings import WebhookSettings


class WebhookOutputs:
    """`senders` by the id of the webhook: those that are switched on. `note(kind, data)` journals."""

    def __init__(
        self,
        outbox: Outbox,
        clock: Clock,
        context: OutputsContext,
        note: Callable[[JournalKind, Json], None],
        tasks: RestartedTasks,
        pace: RetryPace,
    ) -> None:
        self._outbox, self._clock, self._context = outbox, clock, context
        self._note, self._tasks, self._pace = note, tasks, pace
        self.senders: dict[str, WebhookSender] = {}

    def start(self, settings: WebhookSettings) -> None:
        """Start sending to a receiver, if it is switched on."""
        if settings.enabled:
            receiver, secret = self._receiver(settings), self._secret_of(settings)
            sender = WebhookSender(receiver, self._outbox, self._clock, self._note, secret, self._pace)
            self.senders[settings.id] = sender
            self._tasks.start(receiver.destination, sender.run)

    async def stop(self, webhook: str) -> None:
        """Stop sending to a receiver. Safe to call for one that is switched off."""
        await self._tasks.end(WEBHOOK + webhook)
        self.senders.pop(webhook, None)

    async def stop_all(self) -> None:
        """Stop sending to all receivers. Safe to call twice."""
        for webhook in list(self.senders):
            await self.stop(webhook)

    async def check(self, settings: WebhookSettings) -> Json:
        """Send one message of kind "test", past the queue: {"ok", "message", "took_s"}."""
        poster = Poster(self._receiver(settings), self._clock, self._secret_of(settings))
        now = self._clock.utc()
        began = self._clock.monotonic()
        try:
            verdict = await poster.post("test", None, f"test-{int(now * 1000)}", now, {"message": "a test from Magpie"})
        except MagpieError as error:
            return {"ok": False, "message": str(error), "took_s": None}
        finally:
            await poster.close()
        took = round(self._clock.monotonic() - began, 3)
        ok = verdict.outcome == "delivered"
        return {"ok": ok, "message": "delivered" if ok else verdict.reason, "took_s": took}

    def _receiver(self, s: WebhookSettings) -> Receiver:
        return Receiver(s.id, s.url, self._context.site, s.timeout_s, s.max_tries, s.ca_file, s.link_local)

    def _secret_of(self, s: WebhookSettings) -> Callable[[], Awaitable[str]]:
        return lambda: asyncio.to_thread(self._context.secret, s.secret_from, f"outputs.webhooks.{s.id}.secret_from")
