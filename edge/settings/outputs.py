"""Settings of outputs: the MQTT broker and webhooks that get events and alarms."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator, model_validator

from edge.core.alarms import Severity
from edge.core.link_local import link_local
from edge.settings.base import FieldProblem, Identifier, SecretReference, Settings


def _topic_levels(value: str) -> str:
    levels = value.split("/")
    if any(not level or not re.fullmatch(r"[A-Za-z0-9_.-]+", level) for level in levels):
        raise ValueError("levels of letters, digits, _, - and ., with / between them")
    return value


TopicPrefix = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_topic_levels)]


class QueueSettings(Settings):
    """How much may wait for an output that cannot be reached; beyond, the oldest is lost, and counted."""

    max_messages: int = Field(100_000, ge=10, le=10_000_000, description="messages")
    max_mb: float = Field(100, gt=0, le=1e5, description="all of them together, in MB")
    max_age_h: float = Field(48, gt=0, le=8760, description="hours since they were made")


class MqttSettings(Settings):
    """An MQTT broker (protocol 3.1.1) that gets states, events and alarms, and may switch retraining."""

    enabled: bool = True
    host: str = Field(min_length=1, max_length=255, pattern=r"^[A-Za-z0-9_.:-]+$", description="name or address")
    port: int = Field(1883, ge=1, le=65535, description="usually 1883, with TLS 8883")
    tls: bool = False
    ca_file: str = Field("", max_length=1000, description="certificates to trust (PEM); empty: the system's")
    username: str = Field("", max_length=200)
    password_from: SecretReference = Field("", description="env:NAME, file:/path[#key] or secret:NAME")
    client_id: str = Field(
        "", max_length=128, pattern=r"^[A-Za-z0-9_.-]*$", description="empty: magpie-SITE, in a fleet magpie-SITE-BOX"
    )
    prefix: TopicPrefix = Field(
        "magpie", description="first levels of every topic; in a fleet magpie stands for magpie/BOX"
    )
    keepalive_s: int = Field(30, ge=5, le=3600)
    objects: bool = Field(True, description="send events of objects, not only alarms")
    counts: bool = Field(True, description="send each minute's counts of cameras that have lines or zones")
    discovery: bool = Field(True, description="tell Home Assistant what there is")
    discovery_prefix: TopicPrefix = Field("homeassistant", description="Home Assistant's own setting of that name")
    queue: QueueSettings = QueueSettings()


class WebhookSettings(Settings):
    """An HTTP receiver that gets alarms, objects, minutes of counts or daily reports as signed POSTs."""

    id: Identifier
    enabled: bool = True
    url: str = Field(min_length=1, max_length=2000, description="http:// or https://; redirects are not followed")
    kinds: tuple[Literal["alarm", "object", "count", "report"], ...] = Field(("alarm",), min_length=1, max_length=4)
    phases: tuple[Literal["new", "update", "end"], ...] = Field((), max_length=3, description="empty: all")
    cameras: tuple[Identifier, ...] = Field((), max_length=1000, description="empty: all")
    severities: tuple[Severity, ...] = Field((), max_length=3, description="of alarms; empty: all")
    secret_from: SecretReference = Field("", description="signs each POST; env:NAME, file:/path[#key] or secret:NAME")
    ca_file: str = Field("", max_length=1000, description="certificates to trust (PEM); empty: the system's")
    link_local: bool = Field(
        False, description="also to 169.254.0.0/16 and fe80::/10, where clouds hand out credentials"
    )
    timeout_s: float = Field(10.0, ge=0.5, le=120, description="for one POST with its answer")
    max_tries: int = Field(20, ge=1, le=1000, description="of a message that is answered with an error")
    queue: QueueSettings = QueueSettings()

    @field_validator("url")
    @classmethod
    def _plain_address(cls, value: str) -> str:
        match = re.fullmatch(r"https?://([^/?#\s]+)[^\s#]*", value)
        if match is None:
            raise ValueError("http://HOST/... or https://HOST/..., without #")
        if "@" in match[1]:
            raise ValueError("no user or password in the url: the receiver checks the signature (secret_from)")
        if not match[1].isascii():  # clients write such hosts anew, perhaps as an address
            raise ValueError("a host in ASCII (xn--... for other letters)")
        return value

    @model_validator(mode="after")
    def _not_link_local(self) -> WebhookSettings:
        if not self.link_local and link_local(urlsplit(self.url).hostname or ""):
            raise FieldProblem("url", "an address that is not link-local (link_local: true allows it)")
        return self


class OutputsSettings(Settings):
    """Where events and alarms go: changeable by REST at run time, in force at once."""

    mqtt: MqttSettings | None = None
    webhooks: tuple[WebhookSettings, ...] = Field((), max_length=50)

    @model_validator(mode="after")
    def _distinct(self) -> OutputsSettings:
        ids = [w.id for w in self.webhooks]
        for number, webhook in enumerate(ids):
            if ids.index(webhook) != number:
                raise FieldProblem(f"webhooks[{number}].id", f"{webhook!r} is there twice; each id once")
        return self
