"""The front process: the protocol's servers, the front behind them, the link to the control process and executors.

Its event loop never waits for the control process: commands come in by a thread, messages go out by another.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import queue
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge.access.front_keys import FrontKeys
from edge.core.application_sources import ExpectCamera
from edge.core.clock import SystemClock
from edge.core.front_messages import (
    ExpectExecutor,
    ForgetExecutor,
    FrontListening,
    FrontSpec,
    Layout,
    RepositoryAnswer,
    RepositoryCommand,
)
from edge.runtime.process import Channel, Retire, Stop, TakeOver
from edge.serving.applications import ApplicationService
from edge.serving.camera_feeds import CameraFeeds
from edge.serving.camera_link import CAMERA_ARENA_BYTES
from edge.serving.front import Front
from edge.serving.front_server import FrontServer
from edge.settings import TlsSettings
from scheduler.gpulets.batching import DeadlineBatching

if TYPE_CHECKING:
    from web.oip.grpc_server import OipGrpcServer
    from web.oip.intake import Intake
    from web.oip.server import OipHttpServer
    from web.tls import Tls

log = logging.getLogger(__name__)

#: Messages to the control process that wait to be sent; reports are held back before it is full.
_OUTBOX, _HOLD_REPORTS = 10_000, 16
#: How often the main loop shows that it is alive.
_BEAT_S = 0.25
#: Requests that run when the process is asked to end may finish within this time.
_DRAIN_S = 5.0


def front_process(channel: Channel, spec: FrontSpec) -> None:
    """Worker main: serves until an order to stop or retire, or SIGTERM; requests under way then are answered.

    Sends FrontListening when clients can connect, then TrafficReport every `spec.report_s` seconds and the events of
    executors. Raises Unavailable if a port or the socket cannot be had.
    """
    import uvloop

    if channel.standby:
        # Two cannot listen on one port: this one waits until its predecessor has ended.
        channel.ready()
        while True:
            channel.beat()
            order = channel.receive(0.25)
            if isinstance(order, Stop):
                return
            if isinstance(order, TakeOver):
                spec = order.argument
                break
    # Objects loaded by now stay: looking through them again and again would stop the loop for a tenth of a second (and
    # take memory, as its pages are shared with the other workers until they are written to).
    gc.freeze()
    process = _FrontProcess(channel, spec)
    uvloop.run(process.run())
    if process.retiring:
        channel.retired()


class _FrontProcess:
    def __init__(self, channel: Channel, spec: FrontSpec) -> None:
        self.retiring = False
        self._channel, self._spec = channel, spec
        self._outbox: queue.Queue[Any] = queue.Queue(_OUTBOX)
        self._lost = 0
        self._intake: Intake | None = None
        self._turned_away = 0
        self._stop = asyncio.Event()
        self._front: Front
        self._applications: ApplicationService
        self._feeds: CameraFeeds
        self._server: FrontServer

    async def run(self) -> None:
        spec, loop = self._spec, asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        sender = threading.Thread(target=self._send_all, name="messages", daemon=True)
        sender.start()
        self._front = Front(DeadlineBatching(), self._send, self._command, spec.max_queued_bytes)
        self._applications = ApplicationService(self._front)
        self._feeds = CameraFeeds(self._applications, self._send)
        self._server = FrontServer(
            Path(spec.socket), self._front.joined, spec.arena_bytes, on_camera=self._feeds.answered
        )
        for expected in (*spec.expect, *spec.cameras):
            self._handle(expected)
        http, grpc, tls = self._transports()
        ticking: asyncio.Task[None] | None = None
        watching = None if tls is None else asyncio.create_task(tls.watch(), name="TLS files")
        try:
            await self._server.start()
            await http.start()
            if grpc is not None:
                await grpc.start()
            threading.Thread(target=self._receive_all, args=(loop,), name="orders", daemon=True).start()
            self._send(FrontListening(http.port, None if grpc is None else grpc.port))
            self._channel.ready()
            ticking = asyncio.create_task(self._tick(), name="beats and reports")
            await self._stop.wait()
        finally:
            # Listeners close first; requests under way go on, and are waited for.
            await asyncio.gather(http.stop(), *([] if grpc is None else [grpc.stop(_DRAIN_S)]))
            if watching is not None:
                watching.cancel()
            if ticking is not None:
                ticking.cancel()
                await asyncio.gather(ticking, return_exceptions=True)
                self._report()
            if self._front.open:
                log.warning("%d requests are not answered: the front ends", self._front.open)
            self._front.close()
            await self._feeds.close()
            self._applications.close()
            await self._server.stop()
            self._outbox.put(None)
            await asyncio.to_thread(sender.join, _DRAIN_S)

    def _transports(self) -> tuple[OipHttpServer, OipGrpcServer | None, Tls | None]:
        # The transports, and with them the HTTP and gRPC libraries, belong into this process only.
        from web.hosts import Hosts
        from web.oip.app import create_oip_app
        from web.oip.gate import open_to_all
        from web.oip.grpc_server import OipGrpcServer
        from web.oip.server import OipHttpServer
        from web.tls import Tls

        spec, service = self._spec, self._applications
        gate = FrontKeys(Path(spec.keys), SystemClock()).check if spec.keys else open_to_all
        hosts = None if spec.hosts is None else Hosts(spec.hosts)
        tls = Tls(TlsSettings(certificate=spec.certificate, key=spec.key)) if spec.certificate else None
        app = create_oip_app(service, spec.max_body_bytes, max_held_bytes=spec.max_queued_bytes, gate=gate, hosts=hosts)
        http = OipHttpServer(app, spec.http_host, spec.http_port, tls=tls)
        if spec.grpc_port is None:
            return http, None, tls
        grpc = OipGrpcServer(
            service, spec.grpc_host, spec.grpc_port, spec.max_body_bytes, gate=gate, tls=tls,
            max_held_bytes=spec.max_queued_bytes,
        )  # fmt: skip
        self._intake = grpc.intake
        return http, grpc, tls

    # -- to the control process

    def _send(self, message: Any) -> None:
        try:
            self._outbox.put_nowait(message)
        except queue.Full:
            self._lost += 1
            log.error("the control process does not read: %d messages are lost", self._lost)

    def _command(self, command: RepositoryCommand) -> None:
        from web.oip.gate import REQUESTER

        requester = REQUESTER.get()
        self._send(replace(command, by=str(requester), address=requester.address))

    def _send_all(self) -> None:
        while (message := self._outbox.get()) is not None:
            if message == "beat":
                self._channel.beat()
            else:
                self._channel.send(message)

    def _report(self) -> None:
        # A report that cannot be sent is not made: its counts are in the next one.
        if self._outbox.qsize() < _HOLD_REPORTS:
            report = self._front.report()
            away = 0 if self._intake is None else self._intake.turned_away
            new, self._turned_away = away - self._turned_away, away
            whole, stages = self._applications.traffic(), self._applications.stage_traffic()
            self._send(replace(report, applications=whole, stages=stages, turned_away=new))

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + self._spec.report_s
        while True:
            if self._outbox.qsize() < _HOLD_REPORTS:
                self._send("beat")
            if loop.time() >= due_s:
                due_s = max(due_s + self._spec.report_s, loop.time())
                self._report()
            await asyncio.sleep(min(_BEAT_S, max(0.01, due_s - loop.time())))

    # -- from the control process

    def _receive_all(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and so does the process
            while True:
                order = self._channel.receive(60.0)
                if order is not None:
                    loop.call_soon_threadsafe(self._handle, order)

    def _handle(self, order: Any) -> None:
        if isinstance(order, Layout):
            self._applications.apply(order.applications)
            self._front.apply(order)
        elif isinstance(order, RepositoryAnswer):
            self._front.answer(order)
        elif isinstance(order, ExpectExecutor):
            self._server.expect(order.executor, order.token, order.arena_bytes)
        elif isinstance(order, ExpectCamera):
            self._expect_camera(order)
        elif isinstance(order, ForgetExecutor):
            self._server.forget(order.executor)
        elif isinstance(order, (Stop, Retire)):
            self.retiring = self.retiring or isinstance(order, Retire)
            self._stop.set()

    def _expect_camera(self, order: ExpectCamera) -> None:
        if order.token:
            self._server.expect(order.camera, order.token, CAMERA_ARENA_BYTES, "camera")
        else:
            self._server.forget(order.camera, "camera")
