"""Joins the outputs with the appliance: what is told to whom, the states once a second, and their settings.

`deliver` takes alarms and events of objects from whoever raises them. What was changed by REST is kept and goes before
the configuration file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

from edge.appliance.service import Json
from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, MagpieError, NotFound
from edge.outputs import home_assistant, link, topics
from edge.outputs.messages import MQTT, WEBHOOK, Counts, Kind, Limits, Pace, Wanted
from edge.outputs.mqtt import PACE as MQTT_PACE
from edge.outputs.mqtt import MqttOptions, MqttSender
from edge.outputs.outbox import Outbox
from edge.outputs.topics import Topics
from edge.outputs.webhooks import PACE as WEBHOOK_PACE
from edge.outputs.webhooks import Poster, Receiver, WebhookSender
from edge.settings import MqttSettings, OutputsSettings, QueueSettings, WebhookSettings, merge, parse
from edge.store.store import Store

log = logging.getLogger(__name__)

_SETTINGS: Final = "outputs"
_RETAINED: Final = "outputs/retained"
#: So long an output may be away before /readyz speaks of it.
_DOWN_LONG_S = 300.0
_STATES_EVERY_S = 1.0
_MAX_ALARMS = 10_000


@dataclass(frozen=True)
class Snapshot:
    """What is told of the appliance each second: the service's overview; by camera what its model promised and whether
    it is retrained."""

    overview: Json
    ready: bool
    reasons: tuple[str, ...]
    version: str
    expected: Mapping[str, float | None]
    retraining: Mapping[str, bool]


@dataclass(frozen=True)
class World:
    """What the outputs need of the appliance. `snapshot` None: there is nothing to tell now. `note(kind, camera, data)`
    journals; `set_retraining(camera, on, by)` raises MagpieError; `secret(reference, path)` blocks and raises
    InvalidValue; `may_name(reference, before, path)` raises InvalidValue for one that may not be named by REST."""

    site: str
    version: str
    snapshot: Callable[[], Snapshot | None]
    note: Callable[[str, str | None, Json], None]
    set_retraining: Callable[[str, bool, str], Awaitable[None]]
    secret: Callable[[str, str], str]
    may_name: Callable[[str, str, str], None]


class Outputs:
    """Outbox, senders and their settings. Used on the control process's event loop."""

    def __init__(
        self,
        settings: OutputsSettings,
        store: Store,
        clock: Clock,
        world: World,
        mqtt_pace: Pace = MQTT_PACE,
        webhook_pace: Pace = WEBHOOK_PACE,
    ) -> None:
        self.settings = settings
        self._store, self._clock, self._world = store, clock, world
        self._mqtt_pace, self._webhook_pace = mqtt_pace, webhook_pace
        self.outbox = Outbox(store.database, clock, self._note)
        self._mqtt: MqttSender | None = None
        self._webhooks: dict[str, WebhookSender] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._changing = asyncio.Lock()
        self._known: tuple[str, ...] = ()
        self._alarms: dict[int, tuple[str | None, str]] = {}
        self._cameras: tuple[str, ...] = ()

    # -- life

    async def open(self) -> None:
        """Take over what an earlier run has left; from now on `deliver` keeps messages. Raises MagpieError."""
        kept = await asyncio.to_thread(self._store.get_settings, _SETTINGS)
        if kept is not None:
            self.settings = parse(OutputsSettings, kept, _SETTINGS)
        retained = await asyncio.to_thread(self._store.get_settings, _RETAINED)
        self._known = tuple((retained or {}).get("topics", ()))
        for alarm in await asyncio.to_thread(self._store.alarms, limit=1000, active=True):
            self._alarms[alarm.id] = (alarm.camera, alarm.kind)
        for name, queue in self._queues(self.settings).items():
            self.outbox.destination(name, _limits(queue))
        await self.outbox.read_sums()
        self._start("outbox", self.outbox.run)

    def start(self) -> None:
        """Start sending, once the snapshot is that of a whole appliance."""
        self._start("states", self._tell_states)
        self._start_mqtt()
        for webhook in self.settings.webhooks:
            self._start_webhook(webhook)

    async def stop(self) -> None:
        """Stop sending; what is delivered from now on is sent by the next run. Safe to call twice."""
        for name in [n for n in self._tasks if n != "outbox"]:
            await self._end(name)
        self._mqtt = None
        self._webhooks.clear()

    async def close(self) -> None:
        """Stop, and write what waits. Raises nothing."""
        await self.stop()
        await self._end("outbox")
        if not await self.outbox.close():
            log.error("%d messages could not be kept: %s", self.outbox.unwritten, self.outbox.failing)

    def _start(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks[name] = asyncio.create_task(self._kept_alive(name, run), name=f"outputs-{name}")

    async def _kept_alive(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await run()
            except Exception:
                log.exception("output %s failed and is started again", name)
                await asyncio.sleep(5.0)

    async def _end(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    def _start_mqtt(self) -> None:
        settings = self.settings.mqtt
        if settings is None or not settings.enabled:
            return
        birth = (f"{settings.discovery_prefix}/status", b"online") if settings.discovery else None
        options = MqttOptions(self._broker(settings), Topics(settings.prefix), birth)
        self._mqtt = MqttSender(
            options, self.outbox, self._clock, self._note, self._password_of(settings), self._command, self._remember,
            self._known, self._mqtt_pace,
        )  # fmt: skip
        self._states()
        self._start(MQTT, self._mqtt.run)

    def _start_webhook(self, settings: WebhookSettings) -> None:
        if settings.enabled:
            receiver, secret = self._receiver(settings), self._secret_of(settings)
            sender = WebhookSender(receiver, self.outbox, self._clock, self._note, secret, self._webhook_pace)
            self._webhooks[settings.id] = sender
            self._start(receiver.destination, sender.run)

    @staticmethod
    def _queues(settings: OutputsSettings) -> dict[str, QueueSettings]:
        out = {} if settings.mqtt is None else {MQTT: settings.mqtt.queue}
        return out | {WEBHOOK + w.id: w.queue for w in settings.webhooks}

    def _broker(self, s: MqttSettings) -> link.Broker:
        client = s.client_id or f"magpie-{self._world.site}"
        return link.Broker(s.host, s.port, client, s.tls, s.ca_file, s.username, s.keepalive_s)

    def _password_of(self, s: MqttSettings) -> Callable[[], Awaitable[str]]:
        return lambda: asyncio.to_thread(self._world.secret, s.password_from, "outputs.mqtt.password_from")

    def _receiver(self, s: WebhookSettings) -> Receiver:
        return Receiver(s.id, s.url, self._world.site, s.timeout_s, s.max_tries, s.ca_file)

    def _secret_of(self, s: WebhookSettings) -> Callable[[], Awaitable[str]]:
        return lambda: asyncio.to_thread(self._world.secret, s.secret_from, f"outputs.webhooks.{s.id}.secret_from")

    async def _remember(self, names: Any) -> None:
        self._known = tuple(names)
        kept = {"topics": list(names)}
        await asyncio.to_thread(self._store.put_settings, _RETAINED, kept, "outputs", audited=False)

    # -- messages

    def deliver(self, kind: Kind, camera: str | None, body: Mapping[str, Any]) -> None:
        """Tell everybody who wants it. Never waits and raises nothing: what cannot be kept is counted as lost."""
        if kind == "alarm":
            self._follow(camera, body)
        settings = self.settings
        wanted: list[tuple[str, Wanted]] = []
        if settings.mqtt is not None and settings.mqtt.enabled:
            kinds = frozenset(("alarm", "object") if settings.mqtt.objects else ("alarm",))
            wanted.append((MQTT, Wanted(kinds)))
        wanted += [
            (WEBHOOK + w.id, Wanted(frozenset(w.kinds), frozenset(w.cameras), frozenset(w.severities),
                                    frozenset(w.phases)))
            for w in settings.webhooks
            if w.enabled
        ]  # fmt: skip
        for destination, wants in wanted:
            if wants.takes(kind, camera, body):
                try:
                    self.outbox.put(destination, kind, camera, body)
                except (InvalidValue, NotFound) as error:
                    log.warning("a message (%s) for %s is lost: %s", kind, destination, error)

    def _follow(self, camera: str | None, body: Mapping[str, Any]) -> None:
        number = body.get("id")
        if not isinstance(number, int):
            return
        if body.get("phase") == "end":
            self._alarms.pop(number, None)
        elif len(self._alarms) < _MAX_ALARMS:
            self._alarms[number] = (camera, str(body.get("kind")))
        self._states()

    # -- states

    async def _tell_states(self) -> None:
        while True:
            self._states()
            await asyncio.sleep(_STATES_EVERY_S)

    def _states(self) -> None:
        sender, settings = self._mqtt, self.settings.mqtt
        found = self._world.snapshot() if sender is not None else None
        if sender is None or settings is None or found is None:
            return
        cameras = found.overview["cameras"]
        self._cameras = tuple(c["id"] for c in cameras)
        facts = {
            "ready": found.ready, "reasons": found.reasons, "version": found.version, "expected": found.expected,
            "retraining": found.retraining, "alarms": set(self._alarms.values()),
        }  # fmt: skip
        names = sender.options.topics
        wanted = topics.states(names, found.overview, facts)
        if settings.discovery:
            about = [{"id": c["id"], "name": c["name"]} for c in cameras]
            wanted |= home_assistant.discovery(names, settings.discovery_prefix, self._world.site, found.version, about)
        sender.retain(wanted)

    async def _command(self, topic: str, on: bool) -> str:
        """A switch; why it is ignored, or "". Raises MagpieError."""
        sender = self._mqtt
        camera = None if sender is None else sender.options.topics.camera_to_set(topic, self._cameras)
        if camera is None:
            return "no such camera"
        found = self._world.snapshot()
        if found is None or found.retraining.get(camera) != on:
            await self._world.set_retraining(camera, on, MQTT)
        self._states()
        return ""

    # -- service

    def outputs(self) -> Json:
        """{"mqtt": settings with "state", or null; "webhooks": [...]}. "state": {"connected", "message", "waiting",
        "waiting_bytes", "sent", "lost", "lost_by", "dead", "down_s"}."""
        mqtt = self.settings.mqtt
        return {
            "mqtt": None if mqtt is None else self._shown(mqtt.model_dump(mode="json"), MQTT, self._mqtt),
            "webhooks": [self._webhook(w) for w in self.settings.webhooks],
            "unwritten": self.outbox.unwritten,
            "message": self.outbox.failing,
        }

    def _webhook(self, w: WebhookSettings) -> Json:
        return self._shown(w.model_dump(mode="json"), WEBHOOK + w.id, self._webhooks.get(w.id))

    def _shown(self, settings: Json, destination: str, sender: MqttSender | WebhookSender | None) -> Json:
        off = {"connected": False, "message": "switched off", "down_s": None}
        counts = self.outbox.counts(destination)
        return settings | {"state": (off if sender is None else sender.state()) | _counted(counts)}

    async def change_mqtt(self, patch: Mapping[str, Any], by: str) -> Json:
        """JSON merge patch; in force at once, kept over restarts. Raises InvalidValues."""
        async with self._changing:
            before = self.settings.mqtt
            changed = self._mqtt_changed(before, patch)
            if changed != before:
                settings = self.settings.model_copy(update={"mqtt": changed})
                await self._keep(settings, by, {"output": MQTT, "fields": sorted(patch)})
                await self._end(MQTT)
                self._mqtt = None
                self.settings = settings
                self.outbox.destination(MQTT, _limits(changed.queue))
                self._start_mqtt()
        return self.outputs()

    def _mqtt_changed(self, before: MqttSettings | None, patch: Mapping[str, Any]) -> MqttSettings:
        changed = parse(MqttSettings, merge({} if before is None else before.model_dump(mode="json"), patch))
        # The password of one broker is not sent to another because somebody changed the address.
        there = None if before is None else (before.host, before.port, before.tls)
        kept = before.password_from if before and there == (changed.host, changed.port, changed.tls) else ""
        self._world.may_name(changed.password_from, kept, "password_from")
        return changed

    async def remove_mqtt(self, by: str) -> None:
        """Forget the broker; what is retained there is cleared if it can be reached, what waits for it is lost. Raises
        NotFound."""
        async with self._changing:
            if self.settings.mqtt is None:
                raise NotFound("no MQTT broker is configured")
            settings = self.settings.model_copy(update={"mqtt": None})
            await self._keep(settings, by, {"output": MQTT, "removed": True})
            self.settings = settings
            sender, self._mqtt = self._mqtt, None
            if sender is not None:
                await sender.clear()
            await self._end(MQTT)
            await self.outbox.forget(MQTT)

    async def test_mqtt(self, patch: Mapping[str, Any]) -> Json:
        """Connect with the settings in force, changed by a JSON merge patch, and publish PREFIX/test: {"ok", "message",
        "took_s"}. Raises InvalidValues, NotFound."""
        before = self.settings.mqtt
        if before is None and not patch:
            raise NotFound("no MQTT broker is configured")
        s = self._mqtt_changed(before, patch)
        broker = self._broker(s)
        beside = link.Broker(
            broker.host, broker.port, f"{broker.client_id}-test"[:128], broker.tls, broker.ca_file, broker.username,
            broker.keepalive_s,
        )  # fmt: skip
        try:
            password = await self._password_of(s)()
            took = await link.check(beside, password, Topics(s.prefix).test, b"a test from Magpie")
        except MagpieError as error:
            return {"ok": False, "message": str(error), "took_s": None}
        return {"ok": True, "message": f"published {s.prefix}/test, and the broker has acknowledged it", "took_s": took}

    async def add_webhook(self, settings: Mapping[str, Any], by: str) -> Json:
        """Raises InvalidValues, Conflict."""
        async with self._changing:
            new = parse(WebhookSettings, dict(settings))
            self._world.may_name(new.secret_from, "", "secret_from")
            if any(w.id == new.id for w in self.settings.webhooks):
                raise Conflict(f"webhook {new.id} exists already")
            await self._put_webhooks((*self.settings.webhooks, new), by, {"output": WEBHOOK + new.id, "added": True})
            self.outbox.destination(WEBHOOK + new.id, _limits(new.queue))
            self._start_webhook(new)
            return self._webhook(new)

    async def change_webhook(self, webhook: str, patch: Mapping[str, Any], by: str) -> Json:
        """JSON merge patch (the id cannot change). Raises InvalidValues, NotFound."""
        async with self._changing:
            before = self._found(webhook)
            if patch.get("id", webhook) != webhook:
                raise InvalidValue("id", patch["id"], f"{webhook} (an id does not change)")
            changed = parse(WebhookSettings, merge(before.model_dump(mode="json"), patch))
            self._world.may_name(changed.secret_from, before.secret_from, "secret_from")
            if changed != before:
                every = tuple(changed if w.id == webhook else w for w in self.settings.webhooks)
                await self._put_webhooks(every, by, {"output": WEBHOOK + webhook, "fields": sorted(patch)})
                await self._end(WEBHOOK + webhook)
                self._webhooks.pop(webhook, None)
                self.outbox.destination(WEBHOOK + webhook, _limits(changed.queue))
                self._start_webhook(changed)
            return self._webhook(changed)

    async def remove_webhook(self, webhook: str, by: str) -> None:
        """Forget a receiver, and what waits for it. Raises NotFound."""
        async with self._changing:
            self._found(webhook)
            rest = tuple(w for w in self.settings.webhooks if w.id != webhook)
            await self._put_webhooks(rest, by, {"output": WEBHOOK + webhook, "removed": True})
            await self._end(WEBHOOK + webhook)
            self._webhooks.pop(webhook, None)
            await self.outbox.forget(WEBHOOK + webhook)

    async def test_webhook(self, webhook: str) -> Json:
        """Send one message of kind "test", past the queue: {"ok", "message", "took_s"}. Raises NotFound."""
        s = self._found(webhook)
        poster = Poster(self._receiver(s), self._clock, self._secret_of(s))
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
        await asyncio.to_thread(self._store.put_settings, _SETTINGS, settings.model_dump(mode="json"), by)
        self._world.note("outputs.settings", None, {"by": by} | about)

    async def dead_letters(self, limit: int, before: int | None) -> list[Json]:
        """Messages that were given up, the newest first: {"id", "destination", "camera", "kind", "message", "utc_s",
        "died_utc_s", "tries", "reason", "body"}."""
        return [letter.to_json() for letter in await self.outbox.dead_letters(limit, before)]

    async def dead_letter(self, number: int) -> Json:
        """One of them. Raises NotFound."""
        return (await self.outbox.dead_letter(number)).to_json()

    async def retry_dead_letter(self, number: int, by: str) -> None:
        """Put it at the end of its queue. Raises NotFound."""
        letter = await self.outbox.dead_letter(number)
        await self.outbox.retry(number)
        self._world.note("output.retried", letter.lane or None, {"by": by, "destination": letter.destination})

    async def drop_dead_letter(self, number: int, by: str) -> None:
        """Delete it. Raises NotFound."""
        letter = await self.outbox.dead_letter(number)
        await self.outbox.drop_dead(number)
        self._world.note("output.dropped", letter.lane or None, {"by": by, "destination": letter.destination})

    # -- health and metrics

    def reasons(self) -> list[Json]:
        """For /readyz: outputs that are away for long. The appliance is ready all the same."""
        out = []
        for name, sender in self._senders().items():
            down = sender.state()["down_s"]
            if down is not None and down > _DOWN_LONG_S:
                words = f"{name} is away for {down / 60:.0f} minutes: {sender.message}"
                out.append({"code": "output_down", "message": words})
        return out

    def metrics(self) -> list[Json]:
        """By destination: {"destination", "up", "waiting", "waiting_bytes", "sent", "lost_by", "dead"}."""
        senders = self._senders()
        out = []
        for name in self._queues(self.settings):
            sender = senders.get(name)
            up = None if sender is None else sender.state()["down_s"] is None
            out.append({"destination": name, "up": up} | _counted(self.outbox.counts(name)))
        return out

    def _senders(self) -> dict[str, MqttSender | WebhookSender]:
        out: dict[str, MqttSender | WebhookSender] = {} if self._mqtt is None else {MQTT: self._mqtt}
        return out | {WEBHOOK + name: sender for name, sender in self._webhooks.items()}

    def _note(self, kind: str, data: Json) -> None:
        self._world.note(kind, None, data)


def _limits(queue: QueueSettings) -> Limits:
    return Limits(queue.max_messages, int(queue.max_mb * 1e6), queue.max_age_h * 3600.0)


def _counted(counts: Counts) -> Json:
    return {
        "waiting": counts.waiting,
        "waiting_bytes": counts.bytes,
        "sent": counts.sent,
        "lost": sum(counts.lost.values()),
        "lost_by": dict(counts.lost),
        "dead": counts.dead,
    }
