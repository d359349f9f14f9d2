"""Outputs in dictionaries, with the real settings models, for the web tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edge.appliance.answers.outputs import DeadLetterAnswer, OutputsAnswer, OutputTest, WebhookAnswer
from edge.appliance.answers.read import read
from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.settings import MqttSettings, WebhookSettings, merge, parse
from web.examples.outputs import DEAD_LETTER

OUTPUT_STATE: dict[str, Any] = {
    "connected": True, "message": "", "down_s": None, "waiting": 0, "waiting_bytes": 0, "sent": 3, "lost": 2,
    "lost_by": {"age": 2}, "dead": 1,
}  # fmt: skip


class DictOutputs:
    """Implements `OutputsService` without sending anything."""

    def __init__(self) -> None:
        self.mqtt: MqttSettings | None = MqttSettings(host="broker.example")
        self.webhooks: dict[str, WebhookSettings] = {}
        self.letters: dict[int, dict[str, Any]] = {3: dict(DEAD_LETTER)}

    def outputs(self) -> OutputsAnswer:
        mqtt = None if self.mqtt is None else self.mqtt.model_dump(mode="json") | {"state": OUTPUT_STATE}
        webhooks = [self._shown(w) for w in self.webhooks]
        return read(OutputsAnswer, {"mqtt": mqtt, "webhooks": webhooks, "unwritten": 0, "message": ""})

    def _shown(self, webhook: str) -> WebhookAnswer:
        if webhook not in self.webhooks:
            raise NotFound(f"webhook {webhook} does not exist")
        return read(WebhookAnswer, self.webhooks[webhook].model_dump(mode="json") | {"state": OUTPUT_STATE})

    def _merged(self, patch: Mapping[str, Any]) -> MqttSettings:
        return parse(MqttSettings, merge({} if self.mqtt is None else self.mqtt.model_dump(mode="json"), patch))

    async def change_mqtt(self, patch: Mapping[str, Any], by: str) -> OutputsAnswer:
        self.mqtt = self._merged(patch)
        return self.outputs()

    async def remove_mqtt(self, by: str) -> None:
        if self.mqtt is None:
            raise NotFound("no MQTT broker is configured")
        self.mqtt = None

    async def test_mqtt(self, patch: Mapping[str, Any]) -> OutputTest:
        if self.mqtt is None and not patch:
            raise NotFound("no MQTT broker is configured")
        self._merged(patch)
        return OutputTest(ok=True, message="published", took_s=0.004)

    async def add_webhook(self, settings: Mapping[str, Any], by: str) -> WebhookAnswer:
        new = parse(WebhookSettings, dict(settings))
        if new.id in self.webhooks:
            raise Conflict(f"webhook {new.id} exists already")
        self.webhooks[new.id] = new
        return self._shown(new.id)

    async def change_webhook(self, webhook: str, patch: Mapping[str, Any], by: str) -> WebhookAnswer:
        self._shown(webhook)
        if patch.get("id", webhook) != webhook:
            raise InvalidValue("id", patch["id"], f"{webhook} (an id does not change)")
        self.webhooks[webhook] = parse(
            WebhookSettings, merge(self.webhooks[webhook].model_dump(mode="json"), dict(patch))
        )
        return self._shown(webhook)

    async def remove_webhook(self, webhook: str, by: str) -> None:
        self._shown(webhook)
        del self.webhooks[webhook]

    async def test_webhook(self, webhook: str) -> OutputTest:
        self._shown(webhook)
        return OutputTest(ok=False, message="the receiver answered 401", took_s=0.02)

    async def dead_letters(self, limit: int, before: int | None) -> list[DeadLetterAnswer]:
        newest = sorted(self.letters, reverse=True)
        return [read(DeadLetterAnswer, self.letters[n]) for n in newest if before is None or n < before][:limit]

    async def retry_dead_letter(self, number: int, by: str) -> None:
        await self.drop_dead_letter(number, by)

    async def drop_dead_letter(self, number: int, by: str) -> None:
        if self.letters.pop(number, None) is None:
            raise NotFound(f"dead letter {number} does not exist")
