"""The serving front's process as the control process knows it: its start, its routes, its reports."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edge.core.application_sources import ExpectCamera, ObjectsDescribed
from edge.core.clock import Clock
from edge.core.errors import Unavailable
from edge.core.front_messages import (
    ExecutorConnected,
    ExecutorDrained,
    ExecutorGone,
    ExpectExecutor,
    FrontListening,
    FrontSpec,
    Layout,
    RepositoryCommand,
    TrafficReport,
)
from edge.core.journal_kinds import JournalNote
from edge.core.shares import ShareCaps
from edge.core.workers import FRONT
from edge.runtime.application_status import StageTotals
from edge.runtime.process import WorkerMain
from edge.runtime.serving_status import ServedCounts
from edge.runtime.supervisor import Supervisor
from edge.settings import ServingSettings, WebSettings
from scheduler.gpulets import reorganiser_events as r

#: Seconds that the front has to answer the requests it has, when it is stopped.
_DRAIN_S = 10.0
#: CPU time of a request in the front and the kernel (benchmarks/bench_front.py: some 2,000 on a core each second).
FRONT_S_PER_REQUEST = 0.0006


class ServingFront:
    """Clients' requests come to this process, which hands them to the executors that connect to it at `path`.

    `main` is the process's main, `expected` are the executors that it lets in, `cameras` the workers of cameras; `keys`
    is the file of the API tokens that clients need (None: they need none, and ask by address, by the machine's name or
    one of `web.hosts`). The certificate for TLS is that of `web`. `send(event)` is for the reorganiser,
    `note(kind, data)` journals, `described` gets what applications say of a camera's objects."""

    def __init__(
        self,
        settings: ServingSettings,
        path: Path,
        keys: Path | None,
        main: WorkerMain,
        supervisor: Supervisor,
        clock: Clock,
        expected: Mapping[str, ExpectExecutor],
        send: Callable[[r.Event], None],
        note: JournalNote,
        web: WebSettings | None = None,
        cameras: Mapping[str, ExpectCamera] | None = None,
        described: Callable[[ObjectsDescribed], None] = lambda _: None,
    ) -> None:
        #: Where clients are answered; None until the front has reported it once.
        self.listening: FrontListening | None = None
        #: The last report of the process that runs now.
        self.traffic: TrafficReport | None = None
        #: The routes in force.
        self.layout: Layout | None = None
        self.counts = ServedCounts()
        self.stages = StageTotals()
        self._settings, self._path, self._keys, self._main = settings, path, keys, main
        self._supervisor, self._clock, self._expected = supervisor, clock, expected
        self._send, self._note, self._web = send, note, web or WebSettings()
        self._cameras, self._described = {} if cameras is None else cameras, described
        self._listens = False

    def start(
        self, reported: Callable[[float, TrafficReport], None], command: Callable[[RepositoryCommand], None]
    ) -> None:
        """Start the process. `reported(now, report)` is called once a second, `command(command)` when a client asks
        something of the model repository."""
        self._supervisor.start(
            FRONT,
            self._settings.front_share,
            self._main,
            self._spec,
            lambda message: self._received(message, reported, command),
            on_lost=self._lost,
            # It answers for all models: if it is late, they all are. So it holds no share of its own.
            shared=False,
        )

    async def stop(self) -> None:
        """Drain: the front answers the requests that it has, then it ends."""
        await self._supervisor.stop(FRONT.name, _DRAIN_S)

    @property
    def up(self) -> bool:
        """Clients can connect."""
        return self._listens and self._supervisor.ready(FRONT.name)

    def route(self, layout: Layout) -> None:
        """Put the routes of `layout` in force, also in a front that is started again later."""
        self.layout = layout
        self._supervisor.send(FRONT.name, layout)

    def _spec(self) -> FrontSpec:
        """The front's settings; when it is started again it listens where it listened before."""
        s, listening = self._settings, self.listening
        tls = self._web.tls if s.tls else None
        return FrontSpec(
            str(self._path),
            tuple(self._expected.values()),
            s.http.host,
            listening.http_port if listening else s.http.port,
            s.grpc.host,
            (listening.grpc_port if listening else s.grpc.port),
            int(s.max_body_mb * 2**20),
            int(s.max_held_mb * 2**20),
            keys="" if self._keys is None else str(self._keys.absolute()),
            # Another site's page has no token; where none is needed its name must not pass for the box's.
            hosts=self._web.hosts if self._keys is None else None,
            certificate="" if tls is None else str(Path(tls.certificate).absolute()),
            key="" if tls is None else str(Path(tls.key).absolute()),
            cameras=tuple(self._cameras.values()),
        )

    def _received(
        self,
        message: Any,
        reported: Callable[[float, TrafficReport], None],
        command: Callable[[RepositoryCommand], None],
    ) -> None:
        now = self._clock.monotonic()
        if isinstance(message, TrafficReport):
            self.traffic = message
            self.counts.add(message)
            self.stages.add(message)
            self._send(r.TrafficMeasured(now, message))
            reported(now, message)
        elif isinstance(message, ExecutorConnected):
            self._send(r.ExecutorReady(now, message.executor))
        elif isinstance(message, ExecutorDrained):
            self._send(r.ExecutorEmptied(now, message.executor))
        elif isinstance(message, ExecutorGone):
            if message.failed:
                self._note("serving.requests_failed", data={"executor": message.executor, "requests": message.failed})
            self._send(r.ExecutorLost(now, message.executor, "its connection ended"))
        elif isinstance(message, FrontListening):
            self.listening, self._listens = message, True
            self._note("serving.listening", data={"http_port": message.http_port, "grpc_port": message.grpc_port})
            if self.layout is not None:
                self._supervisor.send(FRONT.name, self.layout)
        elif isinstance(message, RepositoryCommand):
            command(message)
        elif isinstance(message, ObjectsDescribed):
            self._described(message)

    def _lost(self, reason: str) -> None:
        """Requests that were open at its last report died with it: they failed, as clients see it. Those that came
        after it are in no report."""
        last, self.traffic, self._listens = self.traffic, None, False
        now = self._clock.monotonic()
        if last is not None:
            data = {
                "requests": self.counts.lost(last),
                "unreported_s": round(now - last.at_s, 2),
                "reason": reason,
            }
            self._note("serving.front_lost", data=data)
        self._send(r.FrontLost(now))


def front_share_per_rate(caps: ShareCaps) -> float:
    """The front's cost of a request per second, as a share of the device: nothing where that is a GPU."""
    return FRONT_S_PER_REQUEST / caps.units if caps.device == "cpu" else 0.0


def check_port(host: str, port: int) -> None:
    """Raises Unavailable if the port is taken or the address is not this machine's, before anything is started."""
    if port == 0:
        return
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise Unavailable(
            f"{host}:{port} cannot be listened at: {error.strerror or error}", "serving.http and serving.grpc say where"
        ) from None
