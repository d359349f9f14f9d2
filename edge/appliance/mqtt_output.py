"""The MQTT broker as an output: its sender, the states that are retained there, and the switches that come from it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from edge.appliance.outputs_context import OutputsContext
from edge.appliance.restarted_tasks import RestartedTasks
from edge.appliance.service import Json
from edge.core.alarms import Alarm
from edge.core.clock import Clock
from edge.core.errors import MagpieError
from edge.core.journal_kinds import JournalKind
from edge.core.retry_pace import RetryPace
from edge.outputs import home_assistant, link, topics
from edge.outputs.messages import MQTT
from edge.outputs.mqtt import MqttOptions, MqttSender
from edge.outputs.outbox import Outbox
from edge.outputs.topics import Topics, part
from edge.settings import MqttSettings
from edge.store.store import Store

_RETAINED: Final = "outputs/retained"
_STATES_EVERY_S = 1.0
_MAX_ALARMS = 10_000


class MqttOutput:
    """`sender` is None while nothing is sent; `known` are the topics that may be retained at a broker, also of earlier
    runs. `note(kind, data)` journals."""

    def __init__(
        self,
        outbox: Outbox,
        store: Store,
        clock: Clock,
        context: OutputsContext,
        note: Callable[[JournalKind, Json], None],
        tasks: RestartedTasks,
        pace: RetryPace,
    ) -> None:
        self._outbox, self._store, self._clock, self._context = outbox, store, clock, context
        self._note, self._tasks, self._pace = note, tasks, pace
        self._settings: MqttSettings | None = None
        self.sender: MqttSender | None = None
        self.known: tuple[str, ...] = ()
        self._alarms: dict[int, tuple[str | None, str]] = {}
        self._cameras: tuple[str, ...] = ()

    async def open(self) -> None:
        """Take over what an earlier run has left: retained topics, and alarms that are active. Raises MagpieError."""
        retained = await asyncio.to_thread(self._store.settings.get_settings, _RETAINED)
        self.known = tuple((retained or {}).get("topics", ()))
        for alarm in await asyncio.to_thread(self._store.alarms.newest, limit=1000, active=True):
            self._alarms[alarm.id] = (alarm.camera, alarm.kind)

    # -- the sender

    def start(self, settings: MqttSettings | None) -> None:
        """Start sending, if a broker is configured and switched on."""
        if settings is None or not settings.enabled:
            return
        birth = (f"{settings.discovery_prefix}/status", b"online") if settings.discovery else None
        options = MqttOptions(self._broker(settings), self._topics(settings), birth)
        self._settings = settings
        self.sender = MqttSender(
            options, self._outbox, self._clock, self._note, self._password_of(settings), self._command, self._remember,
            self.known, self._pace,
        )  # fmt: skip
        self.publish_states()
        self._tasks.start(MQTT, self.sender.run)

    async def stop(self) -> None:
        """Stop sending. Safe to call twice."""
        await self._tasks.end(MQTT)
        self.sender = None

    async def clear(self) -> None:
        """Clear what is retained at the broker, if it can be reached, and stop sending."""
        sender, self.sender = self.sender, None
        if sender is not None:
            await sender.clear()
        await self._tasks.end(MQTT)

    async def check(self, settings: MqttSettings) -> Json:
        """Connect beside the sender and publish PREFIX/test: {"ok", "message", "took_s"}."""
        broker = self._broker(settings)
        beside = link.Broker(
            broker.host, broker.port, f"{broker.client_id}-test"[:128], broker.tls, broker.ca_file, broker.username,
            broker.keepalive_s,
        )  # fmt: skip
        try:
            password = await self._password_of(settings)()
            took = await link.check(beside, password, self._topics(settings).test, b"a test from Magpie")
        except MagpieError as error:
            return {"ok": False, "message": str(error), "took_s": None}
        said = f"published {self._topics(settings).test}, and the broker has acknowledged it"
        return {"ok": True, "message": said, "took_s": took}

    def _topics(self, s: MqttSettings) -> Topics:
        """Boxes of a fleet have topics of their own each, but where the prefix is set."""
        box = self._context.box if s.prefix == MqttSettings.model_fields["prefix"].default else ""
        return Topics(f"{s.prefix}/{part(box)}" if box else s.prefix)

    def _broker(self, s: MqttSettings) -> link.Broker:
        client = s.client_id or "-".join(filter(None, ("magpie", self._context.site, self._context.box)))
        return link.Broker(s.host, s.port, client, s.tls, s.ca_file, s.username, s.keepalive_s)

    def _password_of(self, s: MqttSettings) -> Callable[[], Awaitable[str]]:
        return lambda: asyncio.to_thread(self._context.secret, s.password_from, "outputs.mqtt.password_from")

    async def _remember(self, names: Sequence[str]) -> None:
        self.known = tuple(names)
        kept = {"topics": list(names)}
        await asyncio.to_thread(self._store.settings.put_settings, _RETAINED, kept, "outputs", audited=False)

    # -- states

    def follow(self, alarm: Alarm) -> None:
        """Take an alarm as it is now: states show those that have not ended."""
        if alarm.phase == "end":
            self._alarms.pop(alarm.id, None)
        elif len(self._alarms) < _MAX_ALARMS:
            self._alarms[alarm.id] = (alarm.camera, alarm.kind)
        self.publish_states()

    async def keep_publishing(self) -> None:
        """Publish the states once a second until cancelled."""
        while True:
            self.publish_states()
            await asyncio.sleep(_STATES_EVERY_S)

    def publish_states(self) -> None:
        """Retain the states as they are now; nothing while no broker is sent to, or there is no snapshot."""
        sender, settings = self.sender, self._settings
        found = self._context.snapshot() if sender is not None else None
        if sender is None or settings is None or found is None:
            return
        self._cameras = tuple(c.id for c in found.cameras)
        names = sender.options.topics
        wanted = topics.states(names, found, set(self._alarms.values()))
        if settings.discovery:
            wanted |= home_assistant.discovery(names, settings.discovery_prefix, found)
        sender.retained.replace(wanted)

    # -- switches

    async def _command(self, topic: str, on: bool) -> str:
        """A switch; why it is ignored, or "". Raises MagpieError."""
        sender = self.sender
        camera = None if sender is None else sender.options.topics.camera_to_set(topic, self._cameras)
        if camera is None:
            return "no such camera"
        found = self._context.snapshot()
        before = None if found is None else next((c.retrained for c in found.cameras if c.id == camera), None)
        if before != on:
            await self._context.set_retraining(camera, on, MQTT)
        self.publish_states()
        return ""
