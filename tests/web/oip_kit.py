"""Both transports on real sockets, in an event loop of their own as in the front process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import uvloop
from oip_double import NumpyService

from web.hosts import Hosts
from web.listening import DRAIN_S
from web.oip.app import create_oip_app
from web.oip.gate import Gate, open_to_all
from web.oip.grpc_server import OipGrpcServer
from web.oip.intake import Intake, IntakePatience
from web.oip.server import OipHttpServer


@dataclass
class Running:
    """Where they listen, and what they serve."""

    service: NumpyService
    intake: Intake
    http: str
    grpc: str
    loop: asyncio.AbstractEventLoop

    @property
    def url(self) -> str:
        return f"http://{self.http}"


@contextlib.contextmanager
def running(
    gate: Gate = open_to_all,
    hosts: Hosts | None = None,
    patience: IntakePatience | None = None,
    drain_s: int = DRAIN_S,
    **limits: int,
) -> Iterator[Running]:
    """A service with both transports; `patience` of gRPC, `drain_s` of REST; `gate`, `hosts` and `limits` as
    create_oip_app's."""
    started: list[Running] = []
    up, end = threading.Event(), asyncio.Event()

    async def main() -> None:
        service = NumpyService()
        app = create_oip_app(service, gate=gate, hosts=hosts, **limits)
        http = OipHttpServer(app, "127.0.0.1", 0, drain_s=drain_s)
        largest, held = limits.get("max_body_bytes", 64 * 2**20), limits.get("max_held_bytes", 512 * 2**20)
        grpc = OipGrpcServer(service, "127.0.0.1", 0, largest, gate=gate, max_held_bytes=held, patience=patience)
        await http.start()
        await grpc.start()
        loop = asyncio.get_running_loop()
        started.append(Running(service, grpc.intake, f"127.0.0.1:{http.port}", f"127.0.0.1:{grpc.port}", loop))
        up.set()
        await end.wait()
        await grpc.stop(0.2)
        await http.stop()

    def run() -> None:
        try:
            uvloop.run(main())
        finally:
            up.set()

    thread = threading.Thread(target=run, name="oip")
    thread.start()
    up.wait(30)
    assert started, "the servers did not start"
    try:
        yield started[0]
    finally:
        started[0].loop.call_soon_threadsafe(end.set)
        thread.join(30)
        assert not thread.is_alive()
