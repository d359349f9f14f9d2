"""A real MQTT broker, a listener at it, and a real HTTP receiver, for the tests of the outputs."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from aiohttp import web
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.own_servers import mosquitto_program
from benchmarks.waiting import PATIENCE_S, free_port
from edge.core.alarms import Alarm, Phase
from edge.core.tracks import ObjectNews, ObjectPhase, TrackedObject

MOSQUITTO = mosquitto_program()


async def until(condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Wait until the condition holds; fails in words."""
    ends = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < ends, f"not within {timeout_s:g} s: {what}"
        await asyncio.sleep(0.01)


class Mosquitto:
    """A broker of its own on a loopback port, which can be stopped and started again."""

    def __init__(self, folder: Path, *lines: str) -> None:
        if MOSQUITTO is None:
            pytest.skip("mosquitto is not installed (.ci/system-packages installs it)")
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        own = lines or ("allow_anonymous true",)
        self._config = folder / "mosquitto.conf"
        self._config.write_text("\n".join([f"listener {self.port} 127.0.0.1", *own]) + "\n")
        folder.chmod(0o755)
        self._log = (folder / "mosquitto.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it takes connections."""
        self._process = subprocess.Popen(
            [str(MOSQUITTO), "-v", "-c", str(self._config)], stdout=self._log, stderr=self._log
        )
        ends = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
                return
            except OSError:
                assert self._process.poll() is None, self._config.with_name("mosquitto.log").read_text()[-500:]
                assert time.monotonic() < ends, "the broker does not listen"
                time.sleep(0.02)

    def stop(self) -> None:
        """End it; it keeps sessions of others if it is configured to."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Mosquitto:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._log.close()


class Listener:
    """A subscriber of everything: all messages, in order, and those retained now."""

    def __init__(self, port: int, session: str = "", topics: str = "#") -> None:
        """`session`: name of a session that the broker keeps while it or this client is away."""
        self.messages: list[tuple[str, bytes]] = []
        self.retained: dict[str, str] = {}
        self._topics = topics
        self.subscribed = False
        self._client = paho.Client(CallbackAPIVersion.VERSION2, session, clean_session=not session)
        self._client.reconnect_delay_set(1, 1)
        self._client.on_connect = lambda *_: self._client.subscribe(self._topics, qos=1)
        self._client.on_subscribe = lambda *_: setattr(self, "subscribed", True)
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port, 60)
        self._client.loop_start()

    def _on_message(self, _c: Any, _u: Any, message: paho.MQTTMessage) -> None:
        self.messages.append((message.topic, bytes(message.payload)))
        self.retained[message.topic] = message.payload.decode()
        if not message.payload:
            self.retained.pop(message.topic)

    def publish(self, topic: str, payload: str, retain: bool = False) -> None:
        """Publish and wait for the acknowledgement."""
        self._client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(PATIENCE_S)

    def bodies(self, topic: str) -> list[dict[str, Any]]:
        """Bodies of the messages of a topic."""
        return [json.loads(payload) for name, payload in list(self.messages) if name == topic]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class HttpReceiver:
    """A receiver on a loopback port. `answer(body)` gives the status, or a whole response; it may be stopped."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any] = lambda _: 200, ssl: Any = None) -> None:
        self.port = free_port()
        self.answer, self._ssl = answer, ssl
        self.posts: list[tuple[dict[str, str], bytes]] = []
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._ssl else 'http'}://127.0.0.1:{self.port}/hook"

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._ssl).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> HttpReceiver:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        result = self.answer(json.loads(raw))
        if asyncio.iscoroutine(result):
            result = await result
        if isinstance(result, web.StreamResponse):
            return result
        if result < 300:
            self.posts.append((dict(request.headers), raw))
        return web.Response(status=result)

    def bodies(self) -> list[dict[str, Any]]:
        """Bodies that were taken, in order."""
        return [json.loads(raw) for _, raw in self.posts]


def alarm(number: int, camera: str | None = "north", phase: Phase = "new", **more: Any) -> Alarm:
    """An alarm about a car."""
    said: dict[str, Any] = {"kind": "object", "severity": "warning", "message": f"car number {number}"} | more
    return Alarm(
        id=number, rule="cars", rule_name="Cars", camera=camera, subject="", phase=phase, began_utc_s=1790000000.0,
        **said,
    )  # fmt: skip


def news(number: int, camera: str = "north", phase: ObjectPhase = "new") -> ObjectNews:
    """News of a car."""
    box = (0.1, 0.2, 0.30004, 0.4)
    car = TrackedObject(number, camera, "car", 0.91236, box, 1790000000.0, 1790000002.0, 2.0, 4, (), {"gate": 1.239})
    return ObjectNews(car, phase, picture=False)


def in_order(numbers: list[int]) -> bool:
    """Each number's first appearance is in order, and none is missing between."""
    first = list(dict.fromkeys(numbers))
    return first == sorted(first)
