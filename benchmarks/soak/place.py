"""The place of a soak: the appliance in processes of its own, its cameras, broker, receiver, database and disk."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import psycopg
from aiohttp import web
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.dashboard_box import Box, Person, good, make_models, make_site
from benchmarks.make_applications import small_game
from benchmarks.own_servers import BrokerProcess, DatabaseProcess
from benchmarks.small_disk import small_disk
from benchmarks.soak.cameras import CameraHouse
from benchmarks.soak.schedule import KINDS, FaultName
from benchmarks.soak.values import ReceivedMessage
from benchmarks.waiting import free_port
from edge.core.errors import Unavailable
from edge.demo.site import scene_cameras
from edge.settings import SiteSettings

#: Requests a second that are sent to each served model; `game` is an application of two of them.
LOAD: Mapping[str, float] = {"lenet": 3.0, "vehicles": 2.0, "shufflenet": 1.0, "game": 0.5}
WINDOW_S = 40.0
#: Limits of retention, in MB: pictures and models together, and of the recorder per camera.
MODELS_MB, RECORDED_MB = 100, 20
#: Small pictures, few a second.
_PICTURES: Mapping[str, Any] = {"width": 256, "height": 144, "fps": 5.0}
#: A student that has learnt nothing yet, so that retrainings gain and are promoted.
_BEGINNER: Mapping[str, Any] = {"input_height": 64, "input_width": 112, "width": 0.25, "weights": ""}
_START_S = 240.0
DESTINATIONS = ("mqtt", "webhook")


class Clockwork:
    """The wall clock of the appliance's processes: so many seconds ahead of the machine's (`set_clock`)."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.ahead_s = 0.0
        self.set(0.0)
        path = os.pathsep.join(p for p in (str(Path(__file__).parent / "set_clock"), os.environ.get("PYTHONPATH")) if p)
        self.environment = {"PYTHONPATH": path, "MAGPIE_SOAK_CLOCK": str(self._file)}

    def set(self, ahead_s: float) -> None:
        """Set it, for all processes at once."""
        self.ahead_s = ahead_s
        with open(self._file, "r+b" if self._file.exists() else "w+b") as file:
            file.write(struct.pack("<d", ahead_s))

    def utc(self) -> float:
        """What the appliance takes for now, epoch seconds."""
        return time.time() + self.ahead_s


class Listener:
    """Hears everything at the broker and, as a receiver of webhooks, by HTTP. `now` gives seconds since the soak
    began."""

    def __init__(self, now: Callable[[], float], port: int) -> None:
        self.heard: list[ReceivedMessage] = []
        self._now, self._port = now, port
        self._runner: web.AppRunner | None = None
        self._client: paho.Client | None = None

    def subscribe(self, broker_port: int) -> None:
        """In a session that the broker keeps."""
        client = self._client = paho.Client(CallbackAPIVersion.VERSION2, "soak-listener", clean_session=False)
        client.reconnect_delay_set(1, 2)
        client.on_connect = lambda c, *_: c.subscribe([("magpie/events", 1), ("magpie/alarms", 1)])
        client.on_message = self._on_message
        client.connect("127.0.0.1", broker_port)
        client.loop_start()

    async def receive(self) -> None:
        """Take POSTs."""
        app = web.Application()
        app.router.add_post("/hook", self._on_post)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()

    async def refuse(self) -> None:
        """Take none: the port is closed."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def close(self) -> None:
        """End both."""
        await self.refuse()
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()

    def _note(self, destination: str, what: str, body: Mapping[str, Any], message: str) -> None:
        self.heard.append(ReceivedMessage(self._now(), destination, what, int(body["id"]), str(body["phase"]), message))

    def _on_message(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        body = json.loads(message.payload)
        self._note("mqtt", "object" if message.topic == "magpie/events" else "alarm", body, str(body["message_id"]))

    async def _on_post(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body["kind"] in ("object", "alarm"):
            self._note("webhook", str(body["kind"]), body["data"], str(body["id"]))
        return web.Response()


def site_of(
    cameras: Sequence[Mapping[str, Any]], ports: Mapping[str, int], data: Path, models: Path, database_url: str,
    broker_port: int | None, hook_port: int,
) -> SiteSettings:  # fmt: skip
    """The soak's site. The last camera has the demo's trained student, the others begin with one that knows nothing."""
    site = make_site(cameras, 1, data, models, WINDOW_S)
    value = site.model_dump(mode="json")
    trained = value["cameras"][0]["student"]  # it finds objects
    for number, camera in enumerate(value["cameras"]):
        camera["url"] = f"rtsp://127.0.0.1:{ports[camera['id']]}/{camera['id']}"
        last = number == len(value["cameras"]) - 1
        camera |= {"task": "detection", "student": trained if last else {**trained, **_BEGINNER}}
    value["database_url"] = database_url
    value["recording"] = {"max_mb": RECORDED_MB, "max_frames": 60}
    value["retention"] = {"max_gb": MODELS_MB / 1000}
    value["rules"] = [
        *value["rules"],
        {"id": "anything", "kind": "object", "min_interval_s": 5.0},
    ]
    value["outputs"] = {
        "webhooks": [{"id": "soak", "url": f"http://127.0.0.1:{hook_port}/hook", "kinds": ["alarm", "object"],
                      "phases": ["new", "end"]}],
        **({} if broker_port is None else {"mqtt": {"host": "127.0.0.1", "port": broker_port, "keepalive_s": 5}}),
    }  # fmt: skip
    value["serving"]["planning"]["models"] = {name: {"rate": rate} for name, rate in LOAD.items()}
    return SiteSettings.model_validate(value)


@dataclass
class Place:
    """All parts, running. `missing`: faults that cannot be done here, and why."""

    box: Box
    admin: Person
    token: str
    cameras: tuple[str, ...]
    house: CameraHouse
    listener: Listener
    clock: Clockwork
    disk: Path | None
    data: Path
    database: DatabaseProcess | None
    broker: BrokerProcess | None
    missing: Mapping[FaultName, str]
    destinations: tuple[str, ...] = field(default=DESTINATIONS)

    @property
    def possible(self) -> frozenset[FaultName]:
        """The faults that can be done here."""
        return frozenset(KINDS) - frozenset(self.missing)


@asynccontextmanager
async def opened(folder: Path, cameras: int, now: Callable[[], float]) -> AsyncIterator[Place]:
    """Start everything; what this machine does not have is left out, and said. Raises MagpieError, TimeoutError."""
    missing: dict[FaultName, str] = {}
    described = [c | _PICTURES for c in scene_cameras(cameras, 1, 600.0)]
    names = tuple(str(c["name"]) for c in described)
    async with AsyncExitStack() as stack:
        disk: Path | None = None
        try:
            disk = stack.enter_context(small_disk(folder))
        except Unavailable as error:
            missing["disk_full"] = str(error)
        data = (disk or folder) / "data"
        data.mkdir()
        database = _database(folder, stack, missing)
        broker = _broker(folder, stack, missing)
        hook_port = free_port()
        listener = Listener(now, hook_port)
        stack.push_async_callback(listener.close)
        if broker is not None:
            listener.subscribe(broker.port)
        await listener.receive()
        ports = {name: free_port() for name in names}
        house = stack.enter_context(CameraHouse(described, ports, folder))
        models = await asyncio.to_thread(make_models, folder / "models", {"game": small_game(1500.0, LOAD["game"])})
        url = "" if database is None else database.url("magpie")
        site = site_of(described, ports, data, models, url, None if broker is None else broker.port, hook_port)
        clock = Clockwork(folder)
        box = Box(site, folder, environment=clock.environment, start_s=_START_S)
        stack.callback(box.stop)
        await asyncio.to_thread(box.start)
        admin = await asyncio.to_thread(box.set_up)
        token = good(admin.rest.post("/tokens", json={"name": "soak", "role": "admin"}))["token"]
        destinations = DESTINATIONS if broker is not None else ("webhook",)
        yield Place(
            box, admin, str(token), names, house, listener, clock, disk, data, database, broker, missing, destinations
        )


def _database(folder: Path, stack: AsyncExitStack, missing: dict[FaultName, str]) -> DatabaseProcess | None:
    place = folder / "postgres"
    place.mkdir()
    for parent in (folder, place):
        parent.chmod(0o755)
    try:
        database = DatabaseProcess(place)
        stack.callback(database.stop)
        database.start()
    except Unavailable as error:
        missing["database_away"] = str(error)
        return None
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE magpie TEMPLATE template0")
    return database


def _broker(folder: Path, stack: AsyncExitStack, missing: dict[FaultName, str]) -> BrokerProcess | None:
    place = folder / "broker"
    place.mkdir()
    try:
        broker = BrokerProcess(place)
    except Unavailable as error:
        missing["broker_away"] = str(error)
        return None
    stack.callback(broker.stop)
    broker.start()
    return broker
