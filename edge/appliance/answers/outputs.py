"""Outputs: broker, webhooks, dead letters. No secret is ever in an answer, only where it comes from."""

from __future__ import annotations

from collections.abc import Mapping

from edge.appliance.answers.documents import MessageBody
from edge.appliance.answers.marks import answer
from edge.settings import MqttSettings, WebhookSettings


@answer
class OutputState:
    """Counts of a destination's messages since the start. `down_s`: away for so long; `lost_by` cause."""

    connected: bool
    message: str
    down_s: float | None
    waiting: int
    waiting_bytes: int
    sent: int
    lost: int
    lost_by: Mapping[str, int]
    dead: int


class MqttAnswer(MqttSettings):
    """The broker's settings and state."""

    state: OutputState


class WebhookAnswer(WebhookSettings):
    """A receiver's settings and state."""

    state: OutputState


@answer
class OutputsAnswer:
    """Broker and webhooks. `unwritten`: messages that wait for the database, and `message` why."""

    mqtt: MqttAnswer | None
    webhooks: tuple[WebhookAnswer, ...]
    unwritten: int
    message: str


@answer
class OutputTest:
    """The result of a test message; `took_s` null: no answer came."""

    ok: bool
    message: str
    took_s: float | None


@answer
class DeadLetterAnswer:
    """A message that was given up after so many tries. `message` is the id that it was sent with."""

    id: int
    destination: str
    camera: str | None
    kind: str
    message: str
    utc_s: float
    died_utc_s: float
    tries: int
    reason: str
    body: MessageBody
