"""The load tool's own limit: requests of 16 KiB over loopback to a server that does nothing.

`python -m benchmarks.bench_load [--seconds S] [--rounds R]` prints two tables and writes benchmarks/results/load.json:
the cost of a request to the client's processor with the libraries that could have been taken (32 requests under way at
a time), and how punctual `magpie load` is at rising rates (open loop, Poisson). The client has one core to itself, the
server another, where there are two. Rounds alternate; medians and spreads are reported.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import numpy as np
import psutil
import tritonclient.http.aio as triton

from edge.load.client import Client
from edge.load.run import run_load
from edge.load.spec import parse_load
from edge.load.tensors import Body

RESULTS = Path(__file__).parent / "results" / "load.json"
ELEMENTS = 4096  # FP32: 16 KiB
IN_FLIGHT = 32
RATES = (500, 1000, 1500, 2000, 3000, 4000)

#: Answers every request with the same bytes, as fast as Python can: its own cost is not to be seen.
_SERVER = """
import asyncio, json, sys, uvloop
TENSOR = {"name": "y", "datatype": "FP32", "shape": [1, 4]}
ANSWERS = {
    b"infer": json.dumps({"model_name": "m", "model_version": "1", "outputs": [{**TENSOR, "data": [0, 0, 0, 0]}]}),
    b"/m": json.dumps({"name": "m", "versions": ["1"], "platform": "none", "outputs": [TENSOR],
                       "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4096]}]}),
    b"": json.dumps({"name": "nothing", "version": "1", "extensions": []}),
}
WIRE = {end: ("HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n%s"
              % (len(body), body)).encode() for end, body in ANSWERS.items()}
class Nothing(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.held = transport, b""
    def data_received(self, data):
        self.held += data
        while (end := self.held.find(b"\\r\\n\\r\\n")) >= 0:
            lines = self.held[:end].lower().split(b"\\r\\n")
            size = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
            if len(self.held) < end + 4 + size:
                return
            path = lines[0].split()[1]
            self.transport.write(next(wire for name, wire in WIRE.items() if path.endswith(name)))
            self.held = self.held[end + 4 + size :]
async def main():
    server = await asyncio.get_running_loop().create_server(Nothing, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
uvloop.run(main())
"""

One = Callable[[], Awaitable[Any]]


async def with_aiohttp(url: str, stack: AsyncExitStack) -> One:
    """The load tool's own client."""
    client = await stack.enter_async_context(Client(url, 30))
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, ELEMENTS], "parameters": {"binary_data_size": 4 * ELEMENTS}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    body, to = Body(head + bytes(4 * ELEMENTS), len(head)), client.infer_url("m", None)
    return lambda: client.infer(to, body)


async def with_tritonclient(url: str, stack: AsyncExitStack) -> One:
    """The stock client for asyncio."""
    client = await stack.enter_async_context(triton.InferenceServerClient(url.split("//")[1], conn_limit=1000))
    x = np.zeros((1, ELEMENTS), np.float32)

    def ask() -> Awaitable[Any]:
        tensor = triton.InferInput("x", [1, ELEMENTS], "FP32")
        tensor.set_data_from_numpy(x)
        answer: Awaitable[Any] = client.infer("m", [tensor])
        return answer

    return ask


async def with_httpx(url: str, stack: AsyncExitStack) -> One:
    """httpx, the same bytes."""
    client = await stack.enter_async_context(httpx.AsyncClient(limits=httpx.Limits(max_connections=None)))
    content = bytes(4 * ELEMENTS + 200)
    return lambda: client.post(f"{url}/v2/models/m/infer", content=content)


LIBRARIES = {"aiohttp (magpie load)": with_aiohttp, "tritonclient.http.aio": with_tritonclient, "httpx": with_httpx}


async def busy(url: str, library: str, seconds: float) -> tuple[float, float]:
    """(requests per second, client processor time per request in microseconds) with IN_FLIGHT always under way."""
    async with AsyncExitStack() as stack:
        one = await LIBRARIES[library](url, stack)
        await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))
        end, count = time.perf_counter() + seconds, 0
        begin, cpu = time.perf_counter(), time.process_time()

        async def keep() -> None:
            nonlocal count
            while time.perf_counter() < end:
                await one()
                count += 1

        await asyncio.gather(*(keep() for _ in range(IN_FLIGHT)))
        return count / (time.perf_counter() - begin), (time.process_time() - cpu) / count * 1e6


async def punctual(url: str, rate: float, seconds: float, seed: int) -> dict[str, Any]:
    """One open-loop run of the load tool."""
    scenario = {"url": url, "duration_s": seconds, "warm_up_s": 0.5, "seed": seed}
    report = await run_load(parse_load({**scenario, "models": [{"name": "m", "rate": rate, "slo_ms": 1000}]}))
    (m,) = report.models
    return {
        "sent_per_s": round(m.answered_rate, 1),
        "cpu": round(report.client_cpu_s / (seconds + 0.5), 3),
        "lag_p99_ms": m.lag_ms["p99"],
        "late_sends": m.late_sends / m.counts.offered,
        "latency_p50_ms": m.latency_ms["p50"],
        "kept_up": report.client_kept_up,
    }


def middle(values: list[float]) -> dict[str, float]:
    """Median and the span from the least to the most."""
    return {"median": round(statistics.median(values), 4), "min": round(min(values), 4), "max": round(max(values), 4)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement (3)")
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds (3)")
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    server = subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        if len(cores) > 1:
            psutil.Process(server.pid).cpu_affinity([cores[0]])
            os.sched_setaffinity(0, {cores[1]})
        libraries: dict[str, list[tuple[float, float]]] = {name: [] for name in LIBRARIES}
        runs: dict[int, list[dict[str, Any]]] = {rate: [] for rate in RATES}
        for n in range(args.rounds):
            for name in LIBRARIES:
                libraries[name].append(asyncio.run(busy(url, name, args.seconds)))
            for rate in RATES:
                runs[rate].append(asyncio.run(punctual(url, rate, args.seconds, n)))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    result: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {len(cores)} cores, Python {platform.python_version()}",
        "load_average": list(os.getloadavg()),
        "rounds": args.rounds,
        "seconds": args.seconds,
        "request_bytes": 4 * ELEMENTS,
        "aiohttp": aiohttp.__version__,
        "libraries": {
            name: {"per_s": middle([r for r, _ in got]), "cpu_us": middle([c for _, c in got])}
            for name, got in libraries.items()
        },
        "open_loop": [
            {
                "rate": rate,
                **{key: middle([g[key] for g in got]) for key in got[0] if key != "kept_up"},
                "kept_up": sum(g["kept_up"] for g in got),
            }
            for rate, got in runs.items()
        ],
    }
    print(
        f"{'library':<24}{'requests/s':>12}{'CPU us/request':>16}   (medians of {args.rounds}, {IN_FLIGHT} under way)"
    )
    for name, got in result["libraries"].items():
        print(f"{name:<24}{got['per_s']['median']:>12.0f}{got['cpu_us']['median']:>16.0f}")
    print(f"\n{'offered/s':<12}{'answered/s':>12}{'CPU':>8}{'lag p99 ms':>12}{'late sends':>12}{'kept up':>10}")
    for row in result["open_loop"]:
        line = f"{row['rate']:<12}{row['sent_per_s']['median']:>12.0f}{row['cpu']['median']:>8.2f}"
        line += f"{row['lag_p99_ms']['median']:>12.2f}{100 * row['late_sends']['median']:>10.2f} %"
        print(f"{line}{row['kept_up']:>6}/{args.rounds}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
