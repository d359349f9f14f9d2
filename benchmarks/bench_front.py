"""The cost of serving a request before any model computes: requests a second of a model that returns its input.

`python -m benchmarks.bench_front [--mlserver-python PATH] [--seconds S] [--connections N] [--rounds R]` prints a table
and writes benchmarks/results/front.json. 16 KiB of FP32 go in and come back, over loopback, from a client in a process
of its own that keeps N connections busy. The server's process has one core to itself; its client (and our executor,
where there is one) has another. Requests per second of the server's own processor time are reported too:
other programs on the machine change them less.

Compared with MLServer in the same run, alternating, if there is a Python that has it:
    python3 -m venv /somewhere/mlserver && /somewhere/mlserver/bin/pip install mlserver
    python -m benchmarks.bench_front --mlserver-python /somewhere/mlserver/bin/python
MLServer's REST does not take the binary-tensor extension, so it gets what it takes: JSON by REST, and raw tensors by
gRPC; it runs its model in the server's process (no parallel workers), without metrics and compression.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import queue
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from edge.core.errors import NotFound
from edge.core.oip import InferRequest, InferResponse, ModelMetadata, RepositoryEntry, Tensor, TensorSpec

RESULTS = Path(__file__).parent / "results" / "front.json"
ELEMENTS = 4096  # FP32: 16 KiB
KINDS = ("REST binary", "REST JSON", "gRPC raw")
_MLSERVER_MODEL = """
from mlserver import MLModel
from mlserver.types import InferenceRequest, InferenceResponse, ResponseOutput


class Noop(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        x = payload.inputs[0]
        y = ResponseOutput(name="y", shape=x.shape, datatype=x.datatype, data=x.data)
        return InferenceResponse(model_name=self.name, outputs=[y])
"""


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    name: str
    http: int
    grpc: int
    kinds: tuple[str, ...]
    pid: int


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mlserver-python", type=Path, help="a Python that has mlserver (see above)")
    parser.add_argument("--seconds", type=float, default=4.0, help="per measurement (default 4)")
    parser.add_argument("--connections", type=int, default=16, help="kept busy by the client (default 16)")
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds (default 3)")
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("two cores are needed: one for the server, one for its client")
    rates: dict[str, dict[str, list[dict[str, float]]]] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = [
            stack.enter_context(_ours("front", "Magpie, front and executor", cores, folder)),
            stack.enter_context(_ours("transports", "Magpie, transports alone", cores, folder)),
        ]
        if given.mlserver_python is None:
            print("MLServer is left out: no --mlserver-python (how to make one: --help)", file=sys.stderr)
        else:
            servers.append(stack.enter_context(_mlserver(given.mlserver_python, cores[0], folder)))
        for _ in range(given.rounds):
            for server in servers:
                for kind in server.kinds:
                    row = _measure(server, kind, given.seconds, given.connections, cores[1])
                    rates.setdefault(server.name, {}).setdefault(kind, []).append(row)
    report = _report(rates)
    report |= {
        "benchmark": "front",
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": _processor(), "cores": len(cores), "python": platform.python_version()},
        "tensor_bytes": ELEMENTS * 4,
        "connections": given.connections,
        "seconds": given.seconds,
        "rounds": given.rounds,
        "load_average": os.getloadavg()[0],
    }
    _print(report)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")


def _report(rates: Mapping[str, Mapping[str, list[dict[str, float]]]]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for name, kinds in rates.items():
        for kind, found in kinds.items():
            per_second = [row["per_second"] for row in found]
            rows.setdefault(name, {})[kind] = {
                "per_second": _spread(per_second),
                "p50_ms": round(statistics.median(row["p50_ms"] for row in found), 3),
                "p99_ms": round(statistics.median(row["p99_ms"] for row in found), 3),
                "per_processor_second": _spread([row["per_processor_second"] for row in found]),
            }
    ratios: dict[str, Any] = {}
    others = rates.get("MLServer")
    ours = next(iter(rates.values()))
    if others is not None:
        # Rounds alternate, so each is compared with its neighbour in time.
        rounds = range(len(ours["REST binary"]))

        def compare(words: str, kind: str, their_kinds: Iterable[str]) -> None:
            for unit, key in (("", "per_second"), (", processor time", "per_processor_second")):
                best = [max(others[theirs][n][key] for theirs in their_kinds) for n in rounds]
                ratios[words + unit] = _spread([ours[kind][n][key] / best[n] for n in rounds])

        compare("REST binary / the best of MLServer", "REST binary", others)
        for kind in others:
            compare(f"{kind} / MLServer's {kind}", kind, [kind])
    return {"rows": rows, "ratios": ratios}


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), 2),
        "least": round(min(values), 2),
        "most": round(max(values), 2),
    }


def _print(report: Mapping[str, Any]) -> None:
    for name, kinds in report["rows"].items():
        print(name)
        for kind, row in kinds.items():
            rate = row["per_second"]
            print(
                f"  {kind:12s} {rate['median']:8.0f} requests/s ({rate['least']:.0f} to {rate['most']:.0f})"
                f"   p50 {row['p50_ms']:.2f} ms, p99 {row['p99_ms']:.2f} ms,"
                f" {row['per_processor_second']['median']:.0f} per second of processor time"
            )
    for words, ratio in report["ratios"].items():
        print(f"{words}: {ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f})")


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


# --- servers -------------------------------------------------------------------------------------------------------


class _Noop:
    """The service in the server's own process: only the transports remain to be measured."""

    def __init__(self) -> None:
        specs = (TensorSpec("x", "FP32", (-1, ELEMENTS)),), (TensorSpec("y", "FP32", (-1, ELEMENTS)),)
        self._metadata = ModelMetadata("noop", ("1",), "identity", *specs)

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return True

    def model_ready(self, model: str, version: str | None) -> bool:
        return model == "noop"

    def server_metadata(self) -> Mapping[str, Any]:
        return {"name": "noop", "version": "1", "extensions": []}

    def model_metadata(self, model: str, version: str | None) -> ModelMetadata:
        return self._metadata

    def model_config(self, model: str, version: str | None) -> Mapping[str, Any]:
        return {"name": "noop"}

    def statistics(self, model: str | None, version: str | None) -> list[Mapping[str, Any]]:
        return []

    async def repository_index(self, ready_only: bool) -> list[RepositoryEntry]:
        return [RepositoryEntry("noop", "1", "READY")]

    async def load_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        raise NotFound("nothing is loaded here")

    async def unload_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        raise NotFound("nothing is unloaded here")

    async def infer(self, request: InferRequest) -> InferResponse:
        await asyncio.sleep(0)
        (x,) = request.inputs
        return InferResponse("noop", "1", (Tensor("y", x.datatype, x.array),), request.id)


async def _serve_transports() -> None:
    from web.oip.app import create_oip_app
    from web.oip.grpc_server import OipGrpcServer
    from web.oip.server import OipHttpServer

    service = _Noop()
    http = OipHttpServer(create_oip_app(service), "127.0.0.1", 0)
    grpc = OipGrpcServer(service, "127.0.0.1", 0)
    await http.start()
    await grpc.start()
    print(json.dumps([http.port, grpc.port, os.getpid()]), flush=True)
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    await end.wait()
    await grpc.stop(0.2)
    await http.stop()


def _serve_front(cores: tuple[int, int], folder: Path) -> None:
    """The front process on one core and an executor on the other, as the appliance starts them."""
    from edge.commands.front_process import front_process
    from edge.core.front_messages import (
        ExecutorConnected,
        ExpectExecutor,
        FrontListening,
        FrontSpec,
        Layout,
        Route,
        ServedVersion,
    )
    from edge.core.serving import Gpulet, ModelBatch
    from edge.core.shares import LaunchSpec
    from edge.runtime.executor_worker import ExecutorSpec, executor_worker
    from edge.runtime.process import WorkerProcess

    came: queue.Queue[Any] = queue.Queue()

    def start(name: str, main: Any, argument: Any, core: int) -> WorkerProcess:
        def ended(code: int | None) -> None:
            came.put(SystemExit(f"the {name} process ended with {code}"))

        process = WorkerProcess(name, main, argument, LaunchSpec(), came.put, ended)
        while not process.pid:
            time.sleep(0.01)
        os.sched_setaffinity(process.pid, {core})
        return process

    def wait(kind: type) -> Any:
        while not isinstance(found := came.get(timeout=120), kind):
            if isinstance(found, SystemExit):
                raise found
        return found

    specs = (TensorSpec("x", "FP32", (-1, ELEMENTS)),), (TensorSpec("y", "FP32", (-1, ELEMENTS)),)
    version = ServedVersion("noop", "1", "", "identity", *specs, 1000.0, max_batch=16)
    socket_path = str(folder / "front.sock")
    expected = ExpectExecutor("noop", "token")
    spec = FrontSpec(socket_path, (expected,), http_port=0, grpc_port=0)
    front = start("front", front_process, spec, cores[0])
    ports = wait(FrontListening)
    executor = start("executor", executor_worker, ExecutorSpec("noop", socket_path, "token", (version,)), cores[1])
    wait(ExecutorConnected)
    gpulet = Gpulet(0, 0.5, 4.0, (ModelBatch("noop", 16),))
    route = Route("noop", gpulet, {"noop": "1"}, {"noop": 2.0})
    front.send(Layout(1, (route,), (version,)))
    for process, core in ((front, cores[0]), (executor, cores[1])):
        for thread in Path(f"/proc/{process.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})
    until = time.monotonic() + 30
    while not _answers(f"http://127.0.0.1:{ports.http_port}/v2/models/noop/ready"):
        if time.monotonic() > until:
            raise SystemExit("the front does not serve the model")
        time.sleep(0.1)
    print(json.dumps([ports.http_port, ports.grpc_port, front.pid]), flush=True)
    signal.sigwait({signal.SIGTERM})
    front.kill()
    executor.kill()


def _serve(kind: str, cores: tuple[int, int], folder: Path) -> None:
    if kind == "transports":
        import uvloop

        os.sched_setaffinity(0, {cores[0]})
        uvloop.run(_serve_transports())
    else:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        _serve_front(cores, folder)


@contextlib.contextmanager
def _ours(kind: str, name: str, cores: list[int], folder: Path) -> Iterator[Server]:
    own = folder / kind
    own.mkdir()
    command = [sys.executable, "-m", "benchmarks.bench_front", "--server", kind, str(cores[0]), str(cores[1]), str(own)]
    with _process(command) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{name} did not start; see above")
        http, grpc, pid = json.loads(line)
        yield Server(name, http, grpc, KINDS, pid)


@contextlib.contextmanager
def _mlserver(python: Path, core: int, folder: Path) -> Iterator[Server]:
    (folder / "noop.py").write_text(_MLSERVER_MODEL)
    (folder / "model-settings.json").write_text(json.dumps({"name": "noop", "implementation": "noop.Noop"}))
    http, grpc = _free_ports(2)
    settings = {
        "host": "127.0.0.1",
        "http_port": http,
        "grpc_port": grpc,
        "debug": False,
        "parallel_workers": 0,
        "metrics_endpoint": None,
        "gzip_enabled": False,
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    command = [str(python), "-c", "from mlserver.cli import main; main()", "start", str(folder)]
    with _process(command, log=folder / "mlserver.log", PYTHONPATH=str(folder)) as process:
        while not process.pid:
            time.sleep(0.01)
        os.sched_setaffinity(process.pid, {core})
        until = time.monotonic() + 120
        while not _answers(f"http://127.0.0.1:{http}/v2/models/noop/ready"):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit("MLServer did not start:\n" + (folder / "mlserver.log").read_text()[-2000:])
            time.sleep(0.5)
        yield Server("MLServer", http, grpc, ("REST JSON", "gRPC raw"), process.pid)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _free_ports(count: int) -> list[int]:
    import socket

    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(s.getsockname()[1]) for s in sockets]


@contextlib.contextmanager
def _process(command: list[str], log: Path | None = None, **environment: str) -> Iterator[subprocess.Popen[str]]:
    with contextlib.ExitStack() as stack:
        out: Any = subprocess.PIPE if log is None else stack.enter_context(log.open("w"))
        errors: Any = None if log is None else subprocess.STDOUT
        process = subprocess.Popen(
            command, stdout=out, stderr=errors, text=True, env=dict(os.environ, **environment), start_new_session=True
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


# --- client --------------------------------------------------------------------------------------------------------


def _measure(server: Server, kind: str, seconds: float, connections: int, core: int) -> dict[str, float]:
    port = server.grpc if kind == "gRPC raw" else server.http
    command = [sys.executable, "-m", "benchmarks.bench_front", "--client"]
    arguments = [kind, str(port), str(seconds), str(connections), str(core)]
    process = psutil.Process(server.pid)
    before = process.cpu_times()
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    after = process.cpu_times()
    if done.returncode:
        raise SystemExit(f"the client of {server.name}, {kind}, failed:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    used = after.user + after.system - before.user - before.system
    return found | {"per_processor_second": found.pop("answered") / used}


def _client(kind: str, port: int, seconds: float, connections: int, core: int) -> None:
    import uvloop

    os.sched_setaffinity(0, {core})
    # Numbers that JSON writes shortly: the kindest case for it.
    values = (np.arange(ELEMENTS) % 97 / 8).astype(np.float32)
    run = _grpc_client if kind == "gRPC raw" else _rest_client
    taken, answered = uvloop.run(run(kind, port, seconds, connections, values))
    taken.sort()
    print(
        json.dumps(
            {
                "per_second": len(taken) / seconds,
                "p50_ms": taken[len(taken) // 2] * 1e3,
                "p99_ms": taken[int(len(taken) * 0.99)] * 1e3,
                "answered": answered,
            }
        )
    )


def _rest_request(binary: bool, port: int, values: Any) -> bytes:
    """One request, as it goes over the wire."""
    tensor: dict[str, Any] = {"name": "x", "shape": [1, ELEMENTS], "datatype": "FP32"}
    raw = values.tobytes()
    if binary:
        tensor["parameters"] = {"binary_data_size": len(raw)}
    else:
        tensor["data"] = values.tolist()
    asked: dict[str, Any] = {"inputs": [tensor]}
    if binary:
        asked["parameters"] = {"binary_data_output": True}
    head = json.dumps(asked).encode()
    body = head + raw if binary else head
    lines = [f"POST /v2/models/noop/infer HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}"]
    if binary:
        lines += ["Content-Type: application/octet-stream", f"Inference-Header-Content-Length: {len(head)}"]
    else:
        lines.append("Content-Type: application/json")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass
class _Answers:
    """The answers of all connections: how many, the first one, and while they are timed how long each took."""

    timed: bool = False
    count: int = 0
    first: bytes = b""
    took_s: list[float] = field(default_factory=list)


class _Connection(asyncio.Protocol):
    """One request after another."""

    def __init__(self, request: bytes, answers: _Answers) -> None:
        self.request, self.answers = request, answers

    def connection_made(self, transport: Any) -> None:
        self.transport, self.received, self.whole = transport, 0, 0
        self.pieces: list[bytes] = []
        self.send()

    def send(self) -> None:
        self.began = time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        self.received += len(data)
        if not self.whole:
            text = b"".join(self.pieces)
            end = text.find(b"\r\n\r\n")
            if end < 0:
                return
            if not text.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"answered {text[:300]!r}")
            found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", text[:end])
            if found is None:
                raise SystemExit(f"no length in {text[:300]!r}")
            self.whole = end + 4 + int(found[1])
        if self.received >= self.whole:
            answers = self.answers
            answers.count += 1
            if answers.timed:
                answers.took_s.append(time.perf_counter() - self.began)
            if not answers.first:
                answers.first = b"".join(self.pieces)
            self.received, self.whole, self.pieces = 0, 0, []
            self.send()


async def _rest_client(kind: str, port: int, seconds: float, connections: int, values: Any) -> tuple[list[float], int]:
    binary = kind == "REST binary"
    request, answers = _rest_request(binary, port, values), _Answers()
    loop = asyncio.get_running_loop()
    transports = [
        (await loop.create_connection(lambda: _Connection(request, answers), "127.0.0.1", port))[0]
        for _ in range(connections)
    ]
    await asyncio.sleep(0.5)
    answers.timed = True
    await asyncio.sleep(seconds)
    answers.timed = False
    for transport in transports:
        transport.abort()
    if not answers.first:
        raise SystemExit("nothing was answered")
    answer = answers.first.partition(b"\r\n\r\n")[2]
    sent = values.tobytes() if binary else values.tolist()
    same = answer.endswith(sent) if binary else json.loads(answer)["outputs"][0]["data"] == sent
    if not same:
        raise SystemExit("the answer is not what was sent")
    return answers.took_s, answers.count


async def _grpc_client(kind: str, port: int, seconds: float, connections: int, values: Any) -> tuple[list[float], int]:
    import grpc

    from web.oip.messages import Messages

    messages = Messages()
    message = messages.ModelInferRequest(model_name="noop", raw_input_contents=[values.tobytes()])
    message.inputs.add(name="x", datatype="FP32", shape=[1, ELEMENTS])
    request = message.SerializeToString()
    taken: list[float] = []
    answers: list[bytes] = []
    answered = 0
    counting = False
    stop = False

    async def one(channel: grpc.aio.Channel) -> None:
        nonlocal answered
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        while not stop:
            began = time.perf_counter()
            answer = await call(request)
            answered += 1
            if counting:
                taken.append(time.perf_counter() - began)
            if not answers:
                answers.append(answer)

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        tasks = [asyncio.ensure_future(one(channel)) for _ in range(connections)]
        await asyncio.sleep(0.5)
        counting = True
        await asyncio.sleep(seconds)
        counting, stop = False, True
        await asyncio.gather(*tasks)
    answer = messages.ModelInferResponse.FromString(answers[0])
    got = answer.raw_output_contents[0] if answer.raw_output_contents else answer.outputs[0].contents.fp32_contents
    numbers = np.frombuffer(got, np.float32) if isinstance(got, bytes) else np.array(got, np.float32)
    if not np.array_equal(numbers, values):
        raise SystemExit("the answer is not what was sent")
    return taken, answered


if __name__ == "__main__":
    if sys.argv[1:2] == ["--client"]:
        _client(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))
    elif sys.argv[1:2] == ["--server"]:
        _serve(sys.argv[2], (int(sys.argv[3]), int(sys.argv[4])), Path(sys.argv[5]))
    else:
        main()
