"""Joins the outputs with the appliance: the choice of receivers, and the settings of the outputs.

`deliver` takes alarms and events of objects from their sources. Changes by REST are kept and go before the
configuration file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from edge.appliance.answers.outputs import (
    DeadLetterAnswer,
    MqttAnswer,
    OutputsAnswer,
    OutputState,
    OutputTest,
    WebhookAnswer,
)
from edge.appliance.answers.read import read
from edge.appliance.answers.stored import paged
from edge.appliance.mqtt_output import MqttOutput
from edge.appliance.outputs_context import OutputsContext
from edge.appliance.restarted_tasks import RestartedTasks
from edge.appliance.service import Json
from edge.appliance.webhook_outputs import WebhookOutputs
from edge.core.alarms import Alarm
from edge.core.checks import made_plain
from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.core.journal_kinds import JournalKind
from edge.core.retry_pace import RetryPace
from edge.outputs.messages import (
    MQTT,
    WEBHOOK,
    DestinationCounts,
    OutputEvent,
    QueueLimits,
    Wanted,
    kind_of,
    message_id,
)
from edge.outputs.mqtt import PACE as MQTT_PACE
from edge.outputs.mqtt import MqttSender
from edge.outputs.outbox import Outbox
from edge.outputs.webhooks import PACE as WEBHOOK_PACE
from edge.outputs.webhooks import WebhookSender
from edge.settings import MqttSettings, OutputsSettings, QueueSettings, WebhookSettings, merge, parse
from edge.store.store import Store

__all__ = ["Outputs", "OutputsContext"]

log = logging.getLogger(__name__)

_SETTINGS: Final = "outputs"
#: So long an output may be away before /readyz speaks of it.
DOWN_LONG_S: Final = 300.0


class Outputs:
    """Outbox, senders and their settings. Used on the control process's event loop."""

    def __init__(
        self,
        settings: OutputsSettings,
        store: Store,
        clock: Clock,
        context: OutputsContext,
        mqtt_pace: RetryPace = MQTT_PACE,
        webhook_pace: RetryPace = WEBHOOK_PACE,
        down_long_s: float = DOWN_LONG_S,
    ) -> None:
        self.settings = settings
        self._store, self._context, self._down_long_s = store, context, down_long_s
        self.outbox = Outbox(store.database, clock, self._note)
        self._tasks = RestartedTasks("output")
        self.mqtt = MqttOutput(self.outbox, store, clock, context, self._note, self._tasks, mqtt_pace)
        self._webhooks = WebhookOutputs(self.outbox, clock, context, self._note, self._tasks, webhook_pace)
        self._changing = asyncio.Lock()

    # -- life

    async def open(self) -> None:
        """Take over what an earlier run has left; from now on `deliver` keeps messages. Raises MagpieError."""
        kept = await asyncio.to_thread(self._store.settings.get_settings, _SETTINGS)
        if kept is not None:
            self.settings = parse(OutputsSettings, made_plain(kept), _SETTINGS)
        await self.mqtt.open()
        for name, queue in _queues(self.settings).items():
            self.outbox.queues.add(name, _limits(queue))
        await self.outbox.read_sums()
        self._tasks.start("outbox", self.outbox.run)

    def start(self) -> None:
        """Start sending, once the snapshot is that of a whole appliance."""
        self._tasks.start("states", self.mqtt.keep_publishing)
        self.mqtt.start(self.settings.mqtt)
        for webhook in self.settings.webhooks:
            self._webhooks.start(webhook)

    async def stop(self) -> None:
        """Stop sending; messages delivered from now on are sent by the next run. Safe to call twice."""
        await self._tasks.end("states")
        await self.mqtt.stop()
        await self._webhooks.stop_all()

    async def close(self) -> None:
        """Stop, and write what waits. Raises nothing."""
        await self.stop()
        await self._tasks.end("outbox")
        if not await self.outbox.close():
            log.error("%d messages could not be kept: %s", len(self.outbox.unwritten), self.outbox.failing)

    # -- messages

    def deliver(self, event: OutputEvent) -> None:
        """Send it to every output that takes it. Never waits and raises nothing: a message that cannot be kept is
        counted as lost.
        """
        if isinstance(event, Alarm):
            self.mqtt.follow(event)
        kind = kind_of(event)
        settings = self.settings
        wanted: list[tuple[str, Wanted]] = []
        if settings.mqtt is not None and settings.mqtt.enabled:
            asked = {"alarm": True, "object": settings.mqtt.objects, "count": settings.mqtt.counts}
            wanted.append((MQTT, Wanted(frozenset(name for name, on in asked.items() if on))))
        wanted += [
            (WEBHOOK + w.id, Wanted(frozenset(w.kinds), frozenset(w.cameras), frozenset(w.severities),
                                    frozenset(w.phases)))
            for w in settings.webhooks
            if w.enabled
        ]  # fmt: skip
        for destination, wants in wanted:
            if wants.takes(event):
                try:
                    self.outbox.put(
                        destination, kind, event.camera, event.to_json(), message_id(self._context.sender, event)
                    )
                except (InvalidValue, NotFound) as error:
                    log.warning("a message (%s) for %s is lost: %s", kind, destination, error)

    # -- service

    def outputs(self) -> OutputsAnswer:
        """Broker and webhooks, with the counts of their messages."""
        mqtt = self.settings.mqtt
        return OutputsAnswer(
            mqtt=None if mqtt is None else self._mqtt(mqtt),
            webhooks=tuple(self._webhook(w) for w in self.settings.webhooks),
            unwritten=len(self.outbox.unwritten),
            message=self.outbox.failing,
        )

    def _mqtt(self, settings: MqttSettings) -> MqttAnswer:
        return MqttAnswer(**settings.model_dump(mode="json"), state=self._state(MQTT, self.mqtt.sender))

    def _webhook(self, w: WebhookSettings) -> WebhookAnswer:
        state = self._state(WEBHOOK + w.id, self._webhooks.senders.get(w.id))
        return WebhookAnswer(**w.model_dump(mode="json"), state=state)

    def _state(self, destination: str, sender: MqttSender | WebhookSender | None) -> OutputState:
        off = {"connected": False, "message": "switched off", "down_s": None}
        counts = self.outbox.queues.counts(destination)
        return read(OutputState, (off if sender is None else sender.state()) | _counted(counts))

    async def change_mqtt(self, patch: Mapping[str, Any], by: str) -> OutputsAnswer:
        """JSON merge patch; in force at once, kept over restarts. Raises InvalidValues."""
        async with self._changing:
            before = self.settings.mqtt
            changed = self._mqtt_changed(before, patch)
            if changed != before:
                settings = self.settings.model_copy(update={"mqtt": changed})
                await self._keep(settings, by, {"output": MQTT, "fields": sorted(patch)})
                await self.mqtt.stop()
                self.settings = settings
                self.outbox.queues.add(MQTT, _limits(changed.queue))
                self.mqtt.start(changed)
        return self.outputs()

    def _mqtt_changed(self, before: MqttSettings | None, patch: Mapping[str, Any]) -> MqttSettings:
        changed = parse(MqttSettings, merge({} if before is None else before.model_dump(mode="json"), patch))
        # The password of one broker is not sent to another after a change of the address.
        there = None if before is None else (before.host, before.port, before.tls)
        kept = before.password_from if before and there == (changed.host, changed.port, changed.tls) else ""
        self._context.may_name(changed.password_from, kept, "password_from")
        return changed

    async def remove_mqtt(self, by: str) -> None:
        """Forget the broker; its retained messages are cleared if it can be reached, waiting ones are lost. Raises
        NotFound."""
        async with self._changing:
            if self.settings.mqtt is None:
                raise NotFound("no MQTT broker is configured")
            settings = self.settings.model_copy(update={"mqtt": None})
            await self._keep(settings, by, {"output": MQTT, "removed": True})
            self.settings = settings
            await self.mqtt.clear()
            await self.outbox.forget(MQTT)

    async def test_mqtt(self, patch: Mapping[str, Any]) -> OutputTest:
        """Connect with the settings in force, changed by a JSON merge patch, and publish PREFIX/test. Raises
        InvalidValues, NotFound."""
        before = self.settings.mqtt
        if before is None and not patch:
            raise NotFound("no MQTT broker is configured")
        return read(OutputTest, await self.mqtt.check(self._mqtt_changed(before, patch)))

    async def add_webhook(self, settings: Mapping[str, Any], by: str) -> WebhookAnswer:
        """Raises InvalidValues, Conflict."""
        async with self._changing:
            new = parse(WebhookSettings, dict(settings))
            self._context.may_name(new.secret_from, "", "secret_from")
            if any(w.id == new.id for w in self.settings.webhooks):
                raise Conflict(f"webhook {new.id} exists already")
            await self._put_webhooks((*self.settings.webhooks, new), by, {"output": WEBHOOK + new.id, "added": True})
            self.outbox.queues.add(WEBHOOK + new.id, _limits(new.queue))
            self._webhooks.start(new)
            return self._webhook(new)

    async def change_webhook(self, webhook: str, patch: Mapping[str, Any], by: str) -> WebhookAnswer:
        """JSON merge patch (the id cannot change). Raises InvalidValues, NotFound."""
        async with self._changing:
            before = self._found(webhook)
            if patch.get("id", webhook) != webhook:
                raise InvalidValue("id", patch["id"], f"{webhook} (an id does not change)")
            changed = parse(WebhookSettings, merge(before.model_dump(mode="json"), patch))
            self._context.may_name(changed.secret_from, before.secret_from, "secret_from")
            if changed != before:
                every = tuple(changed if w.id == webhook else w for w in self.settings.webhooks)
                await self._put_webhooks(every, by, {"output": WEBHOOK + webhook, "fields": sorted(patch)})
                await self._webhooks.stop(webhook)
                self.outbox.queues.add(WEBHOOK + webhook, _limits(changed.queue))
                self._webhooks.start(changed)
            return self._webhook(changed)

    async def remove_webhook(self, webhook: str, by: str) -> None:
        """Forget a receiver, and its waiting messages. Raises NotFound."""
        async with self._changing:
            self._found(webhook)
            rest = tuple(w for w in self.settings.webhooks if w.id != webhook)
            await self._put_webhooks(rest, by, {"output": WEBHOOK + webhook, "removed": True})
            await self._webhooks.stop(webhook)
            await self.outbox.forget(WEBHOOK + webhook)

    async def test_webhook(self, webhook: str) -> OutputTest:
        """Send one message of kind "test", past the queue. Raises NotFound."""
        return read(OutputTest, await self._webhooks.check(self._found(webhook)))

    def _found(self, webhook: str) -> WebhookSettings:
        found = next((w for w in self.settings.webhooks if w.id == webhook), None)
        if found is None:
            raise NotFound(f"webhook {webhook} does not exist")
        return found

    async def _put_webhooks(self, webhooks: tuple[WebhookSettings, ...], by: str, about: Json) -> None:
        if len(webhooks) > 50:
            raise Conflict("there are 50 webhooks already, which is the most")
        settings = self.settings.model_copy(update={"webhooks": webhooks})
        await self._keep(settings, by, about)
        self.settings = settings

    async def _keep(self, settings: OutputsSettings, by: str, about: Json) -> None:
        await asyncio.to_thread(self._store.settings.put_settings, _SETTINGS, settings.model_dump(mode="json"), by)
        self._context.note("outputs.settings", None, {"by": by} | about)

    async def dead_letters(self, limit: int, before: int | None) -> list[DeadLetterAnswer]:
        """Messages that were given up, the newest first, without those that cannot be read."""
        fetch, unreadable = self.outbox.dead_letters.below, self._store.database.unreadable
        return await asyncio.to_thread(paged, unreadable, "dead letter", DeadLetterAnswer, limit, before, fetch)

    async def retry_dead_letter(self, number: int, by: str) -> None:
        """Put it at the end of its queue. Raises NotFound."""
        letter = await self.outbox.dead_letters.one(number)
        await self.outbox.dead_letters.retry(number)
        self._context.note("output.retried", letter.lane or None, {"by": by, "destination": letter.destination})

    async def drop_dead_letter(self, number: int, by: str) -> None:
        """Delete it. Raises NotFound."""
        letter = await self.outbox.dead_letters.one(number)
        await self.outbox.dead_letters.drop(number)
        self._context.note("output.dropped", letter.lane or None, {"by": by, "destination": letter.destination})

    # -- health and metrics

    def reasons(self) -> list[Json]:
        """For /readyz: outputs that are away for long. The appliance is ready all the same."""
        out = []
        for name, sender in self._senders().items():
            down = sender.state()["down_s"]
            if down is not None and down > self._down_long_s:
                words = f"{name} is away for {down / 60:.0f} minutes: {sender.message}"
                out.append({"code": "output_down", "message": words})
        return out

    def metrics(self) -> list[Json]:
        """By destination: {"destination", "up", "waiting", "waiting_bytes", "sent", "lost_by", "dead"}."""
        senders = self._senders()
        out = []
        for name in _queues(self.settings):
            sender = senders.get(name)
            up = None if sender is None else sender.state()["down_s"] is None
            out.append({"destination": name, "up": up} | _counted(self.outbox.queues.counts(name)))
        return out

    def _senders(self) -> dict[str, MqttSender | WebhookSender]:
        out: dict[str, MqttSender | WebhookSender] = {} if self.mqtt.sender is None else {MQTT: self.mqtt.sender}
        return out | {WEBHOOK + name: sender for name, sender in self._webhooks.senders.items()}

    def _note(self, kind: JournalKind, data: Json) -> None:
        self._context.note(kind, None, data)


def _queues(settings: OutputsSettings) -> dict[str, QueueSettings]:
    """By destination."""
    out = {} if settings.mqtt is None else {MQTT: settings.mqtt.queue}
    return out | {WEBHOOK + w.id: w.queue for w in settings.webhooks}


def _limits(queue: QueueSettings) -> QueueLimits:
    return QueueLimits(queue.max_messages, int(queue.max_mb * 1e6), queue.max_age_h * 3600.0)


def _counted(counts: DestinationCounts) -> Json:
    return {
        "waiting": counts.waiting,
        "waiting_bytes": counts.bytes,
        "sent": counts.sent,
        "lost": sum(counts.lost.values()),
        "lost_by": dict(counts.lost),
        "dead": counts.dead,
    }
