"""The front process as the control process sees it, and as the unmodified clients do."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from front_kit import HeldExecutor, doubled, route, version
from tritonclient.utils import InferenceServerException

from edge.appliance.answers.serving import AddressAnswer, FrontAnswer
from edge.appliance.metrics import front_statistics
from edge.commands.front_process import front_process
from edge.core.front_messages import (
    ExecutorConnected,
    ExecutorDrained,
    ExecutorGone,
    ExpectExecutor,
    ForgetExecutor,
    FrontListening,
    FrontSpec,
    Layout,
    RepositoryAnswer,
    RepositoryCommand,
    TrafficReport,
)
from edge.core.oip import RepositoryEntry
from edge.core.shares import LaunchSpec
from edge.runtime.process import Beat, Ready, Retire, Retired, Stop, TakeOver, WorkerError, WorkerProcess


class Running:
    """A front process and everything that it said."""

    def __init__(self, spec: FrontSpec, standby: bool = False) -> None:
        self.said: list[Any] = []
        self.code: int | None = None
        self._changed = threading.Condition()
        self.worker = WorkerProcess(
            "front", front_process, spec, LaunchSpec(), self._heard, self._ended, standby=standby
        )

    def _heard(self, message: Any) -> None:
        with self._changed:
            self.said.append(message)
            if isinstance(message, RepositoryCommand):
                error, code = ("no such model", "not_found") if message.model == "absent" else ("", "")
                entry = RepositoryEntry("m", "1", "READY")
                self.worker.send(RepositoryAnswer(message.number, error, code, (entry,)))
            self._changed.notify_all()

    def _ended(self, code: int | None) -> None:
        self.code = code

    def all(self, kind: type) -> list[Any]:
        return [m for m in self.said if isinstance(m, kind)]

    def wait(self, kind: type, count: int = 1, which: Callable[[Any], bool] = lambda m: True) -> Any:
        with self._changed:
            assert self._changed.wait_for(lambda: sum(map(which, self.all(kind))) >= count, 30.0), self.said
        return next(m for m in reversed(self.all(kind)) if which(m))


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Running]:
    expect = tuple(ExpectExecutor(e, f"token of {e}") for e in ("e", "f"))
    running = Running(FrontSpec(str(tmp_path / "front.sock"), expect, http_port=0, grpc_port=0, report_s=0.1))
    try:
        running.wait(Ready)
        yield running
    finally:
        running.worker.kill()
        running.worker.join(10.0)


def executor(front: Running, tmp_path: Path, name: str = "e", held: bool = False) -> HeldExecutor:
    before = len([m for m in front.all(ExecutorConnected) if m.executor == name])
    made = HeldExecutor(tmp_path / "front.sock", name, [version()], doubled, held)
    front.wait(ExecutorConnected, before + 1, lambda m: m.executor == name)
    return made


def ask(client: Any, module: Any, value: float = 1.0) -> Any:
    given = module.InferInput("x", [1, 4], "FP32")
    given.set_data_from_numpy(np.full((1, 4), value, np.float32))
    return client.infer("m", [given]).as_numpy("y")[0, 0]


def test_the_unmodified_clients_are_answered(front: Running, tmp_path: Path) -> None:
    ports = front.wait(FrontListening)
    made = executor(front, tmp_path)
    http = http_client.InferenceServerClient(f"127.0.0.1:{ports.http_port}")
    assert http.is_server_live()
    assert not http.is_server_ready()
    front.worker.send(Layout(1, (route("e", (version(), 8)),), (version(),)))
    front.wait(TrafficReport, which=lambda r: r.layout == 1)
    grpc = grpc_client.InferenceServerClient(f"127.0.0.1:{ports.grpc_port}")
    for client, module in ((http, http_client), (grpc, grpc_client)):
        assert client.is_server_ready()
        assert client.is_model_ready("m")
        assert ask(client, module, 3.0) == 6.0
        with pytest.raises(InferenceServerException, match="no model"):
            client.get_model_metadata("absent")
        client.load_model("m")
        with pytest.raises(InferenceServerException, match="no such model"):
            client.unload_model("absent")
    # Both transports tell who asks, and from where.
    assert {(c.by, c.address) for c in front.all(RepositoryCommand)} == {("an inference client", "127.0.0.1")}
    assert http.get_model_metadata("m")["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert http.get_model_config("m")["input"][0]["data_type"] == "TYPE_FP32"
    assert http.get_inference_statistics("m")["model_stats"][0]["inference_stats"]["success"]["count"] == 2
    assert grpc.get_inference_statistics("m").model_stats[0].inference_stats.success.count == 2
    assert grpc.get_model_config("m").config.max_batch_size == 32
    assert http.get_model_repository_index()[0]["state"] == "READY"
    front.wait(TrafficReport, which=lambda r: sum(m.answered for m in r.models) > 0)
    assert sum(m.answered for r in front.all(TrafficReport) for m in r.models) <= 2
    made.die()
    assert front.wait(ExecutorGone).failed == 0
    assert front.all(Beat)


def test_only_expected_executors_come_in(front: Running, tmp_path: Path) -> None:
    from edge.core.errors import Unavailable

    with pytest.raises(Unavailable, match="token"):
        HeldExecutor(tmp_path / "front.sock", "g", [version()], doubled, False)
    front.worker.send(ExpectExecutor("g", "token of g"))
    deadline = time.monotonic() + 10
    while True:
        try:
            made = HeldExecutor(tmp_path / "front.sock", "g", [version()], doubled, False)
            break
        except Unavailable:
            assert time.monotonic() < deadline
    made.die()
    front.wait(ExecutorGone)
    front.worker.send(ForgetExecutor("g"))
    assert os.stat(tmp_path / "front.sock").st_mode & 0o777 == 0o600


@pytest.mark.parametrize("how", ["stop", "retire", "sigterm"])
def test_what_is_being_answered_is_answered_before_the_end(front: Running, tmp_path: Path, how: str) -> None:
    ports = front.wait(FrontListening)
    made = executor(front, tmp_path, held=True)
    front.worker.send(Layout(1, (route("e", (version(), 1)),), (version(),)))
    front.wait(TrafficReport, which=lambda r: r.layout == 1)
    got: list[float] = []

    def client() -> None:
        with http_client.InferenceServerClient(f"127.0.0.1:{ports.http_port}") as c:
            got.append(ask(c, http_client, 2.0))

    clients = [threading.Thread(target=client) for _ in range(4)]
    for thread in clients:
        thread.start()
    front.wait(TrafficReport, which=lambda r: sum(m.queued + m.running for m in r.models) == 4)
    if how == "sigterm":
        os.kill(front.worker.pid, signal.SIGTERM)
    else:
        front.worker.send(Stop() if how == "stop" else Retire())
    made.release()
    for thread in clients:
        thread.join(20.0)
    assert got == [4.0] * 4
    assert front.worker.join(20.0)
    assert front.code == 0
    assert bool(front.all(Retired)) == (how == "retire")
    answered = sum(m.answered for r in front.all(TrafficReport) for m in r.models)
    assert answered == sum(m.arrived for r in front.all(TrafficReport) for m in r.models) == 4
    assert not (tmp_path / "front.sock").exists()


def test_a_drained_executor_is_reported(front: Running, tmp_path: Path) -> None:
    for name in ("e", "f"):
        executor(front, tmp_path, name)
    front.worker.send(Layout(1, (route("e", (version(), 8)),), (version(),)))
    front.worker.send(Layout(2, (route("f", (version(), 8)),), (version(),)))
    assert front.wait(ExecutorDrained).executor == "e"
    report = front.wait(TrafficReport, which=lambda r: r.layout == 2)
    assert {e.executor: e.connected for e in report.executors} == {"e": True, "f": True}


def test_a_taken_port_is_an_error_for_people(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        spec = FrontSpec(str(tmp_path / "front.sock"), http_port=port, grpc_port=None)
        running = Running(spec)
        error = running.wait(WorkerError)
        assert error.code == "unavailable"
        assert str(port) in error.message
        assert running.worker.join(10.0)
        assert running.code == 70


def test_one_that_stands_by_listens_when_it_takes_over(tmp_path: Path) -> None:
    spec = FrontSpec(str(tmp_path / "front.sock"), http_port=0, grpc_port=None)
    running = Running(spec, standby=True)
    try:
        running.wait(Ready)
        assert not (tmp_path / "front.sock").exists()
        running.worker.send(TakeOver(replace(spec, socket=str(tmp_path / "other.sock"))))
        ports = running.wait(FrontListening)
        assert ports.grpc_port is None
        assert (tmp_path / "other.sock").exists()
        running.worker.send(Stop())
        assert running.worker.join(20.0)
        assert running.code == 0
    finally:
        running.worker.kill()


async def test_nothing_of_torch_is_imported_for_the_front() -> None:
    code = "import sys, edge.commands.front_process as f; print('torch' in sys.modules or 'web' in sys.modules)"
    import sys

    made = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    out, _ = await made.communicate()
    assert out.decode().strip() == "False"


def test_a_front_without_tokens_refuses_other_names(tmp_path: Path) -> None:
    running = Running(
        FrontSpec(str(tmp_path / "front.sock"), http_port=0, grpc_port=None, hosts=("models.example.org",))
    )
    try:
        url = f"http://127.0.0.1:{running.wait(FrontListening).http_port}/v2"
        for host, status in (("127.0.0.1", 200), ("models.example.org", 200), ("evil.example", 421)):
            assert httpx.get(url, headers={"host": host}).status_code == status, host
    finally:
        running.worker.kill()
        running.worker.join(10.0)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_both_ports_speak_tls_alone_where_there_is_a_certificate(tmp_path: Path) -> None:
    certificate, key = str(tmp_path / "box.pem"), str(tmp_path / "box.key")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", key, "-out", certificate, "-subj", "/CN=box", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    socket_path = str(tmp_path / "front.sock")
    running = Running(FrontSpec(socket_path, http_port=0, grpc_port=0, certificate=certificate, key=key))
    try:
        ports = running.wait(FrontListening)
        trusted = ssl.create_default_context(cafile=certificate)
        url = f"127.0.0.1:{ports.http_port}/v2/health/live"
        assert httpx.get(f"https://{url}", verify=trusted).json() == {"live": True}
        with pytest.raises(httpx.ConnectError, match="certificate"):
            httpx.get(f"https://{url}")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://{url}")
        plain = {"url": f"127.0.0.1:{ports.grpc_port}"}
        assert grpc_client.InferenceServerClient(**plain, ssl=True, root_certificates=certificate).is_server_live()
        with pytest.raises(InferenceServerException):
            grpc_client.InferenceServerClient(**plain).is_server_live(client_timeout=5.0)
        with pytest.raises(InferenceServerException):  # a certificate of no known authority
            grpc_client.InferenceServerClient(**plain, ssl=True).is_server_live(client_timeout=5.0)
        http = http_client.InferenceServerClient(
            f"127.0.0.1:{ports.http_port}", ssl=True, ssl_context_factory=lambda: trusted
        )
        assert http.is_server_live()
        # The control process asks its own front so (edge.appliance.metrics).
        http_at, grpc_at = (AddressAnswer(host="127.0.0.1", port=p) for p in (ports.http_port, ports.grpc_port))
        front = FrontAnswer(up=True, http=http_at, grpc=grpc_at, turned_away=0)
        assert asyncio.run(front_statistics(front, tls=True)) == []
    finally:
        running.worker.kill()
        running.worker.join(10.0)
