"""Broker and webhook receiver away for minutes: is an event lost, is the order kept, does memory grow?

`python -m benchmarks.bench_outputs [--minutes M] [--rate EVENTS]` starts a real MQTT broker (mosquitto) and a real HTTP
receiver, sends events of 4 cameras through the outbox to both, kills both, and starts them again after M minutes. A
subscriber and the receiver write down what came. Writes benchmarks/results/outputs.json. Takes M + 6 minutes at most:
after a long absence a receiver is tried every 5 minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import psutil
from aiohttp import web
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.own_servers import BrokerProcess, listens
from benchmarks.waiting import free_port, until
from edge.appliance.outputs import Outputs, OutputsContext
from edge.core.clock import SystemClock
from edge.core.tracks import ObjectNews, ObjectPhase, TrackedObject
from edge.outputs.topics import CameraSnapshot, Snapshot
from edge.settings import OutputsSettings, parse
from edge.store.store import Store

RESULTS = Path(__file__).parent / "results" / "outputs.json"
CAMERAS = ("north", "east", "south", "west")
DESTINATIONS = ("mqtt", "webhook/receiver")


def _start(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def receive(port: int, target: Path) -> None:
    """The receiver process: one line per POST."""
    with target.open("a") as file:

        async def take(request: web.Request) -> web.Response:
            body = await request.json()
            file.write(f"{body['camera']} {body['data']['id']} {body['id']}\n")
            file.flush()
            return web.Response()

        app = web.Application()
        app.router.add_post("/hook", take)
        web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


def listen(port: int, target: Path) -> None:
    """The subscriber process: one line per message of the common topic. The broker keeps its session."""
    with target.open("a") as file:

        def take(_c: Any, _u: Any, message: paho.MQTTMessage) -> None:
            body = json.loads(message.payload)
            file.write(f"{body['camera']} {body['id']} {body['message_id']}\n")
            file.flush()

        client = paho.Client(CallbackAPIVersion.VERSION2, "bench-listener", clean_session=False)
        client.on_connect = lambda c, *_: c.subscribe("magpie/events", qos=1)
        client.on_message = take
        client.reconnect_delay_set(1, 1)
        client.connect("127.0.0.1", port)
        client.loop_forever(retry_first_connection=True)


def _news(number: int, camera: str, now: float) -> ObjectNews:
    car = TrackedObject(
        number, camera, "car", 0.83, (0.2, 0.3, 0.4, 0.5), now, now, 4.2, 8, ("drive",), {"drive": 4.2}
    )  # fmt: skip
    phases: tuple[ObjectPhase, ...] = ("new", "update", "end")
    return ObjectNews(car, phases[number % 3], picture=True)


class _Site:
    """The outputs of a site under events of every camera, with what was made, noted and used."""

    def __init__(self, folder: Path, broker_port: int, http_port: int, rate: float) -> None:
        self.rate, self.began = rate, time.monotonic()
        self.notes: list[dict[str, Any]] = []
        self.made: dict[str, list[int]] = {c: [] for c in CAMERAS}
        #: Seconds since the beginning, resident MB, messages that wait.
        self.samples: list[tuple[float, float, int]] = []
        self.ended = asyncio.Event()
        settings = {
            "mqtt": {"host": "127.0.0.1", "port": broker_port},
            "webhooks": [
                {"id": "receiver", "url": f"http://127.0.0.1:{http_port}/hook", "kinds": ["object"],
                 "secret_from": "env:X"}
            ],
        }  # fmt: skip
        cameras = tuple(CameraSnapshot(c, c, "live", "v1", 0.6, 0.7, True) for c in CAMERAS)
        snapshot = Snapshot("bench", "bench", True, (), "relay", 1, "planned", 0, cameras)
        context = OutputsContext(
            "bench", "bench", lambda: snapshot, self._note, self._switch, lambda _reference, _path: "the shared secret",
            lambda _reference, _before, _path: None,
        )  # fmt: skip
        self.store = Store(None, folder / "data")
        self.outputs = Outputs(parse(OutputsSettings, settings), self.store, SystemClock(), context)

    def _note(self, kind: str, _camera: str | None, data: dict[str, Any]) -> None:
        self.notes.append({"at_s": round(time.monotonic() - self.began, 1), "kind": kind} | data)

    async def _switch(self, _camera: str, _on: bool, _by: str) -> None:
        return None

    async def make(self) -> None:
        number, due = 0, time.monotonic()
        while not self.ended.is_set():
            for camera in CAMERAS:
                number += 1
                self.made[camera].append(number)
                self.outputs.deliver(_news(number, camera, time.time()))
            due += 1.0 / self.rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def sample(self) -> None:
        me = psutil.Process()
        while True:
            waiting = sum(self.waiting(d) for d in DESTINATIONS)
            self.samples.append((time.monotonic() - self.began, me.memory_info().rss / 1e6, waiting))
            await asyncio.sleep(1.0)

    def waiting(self, destination: str) -> int:
        return self.outputs.outbox.queues.counts(destination).waiting

    async def drained(self, destination: str) -> tuple[float | None, float | None]:
        """Seconds to the first message after all was back, and from there until hardly any waits."""
        counts = self.outputs.outbox.queues.counts
        sent = counts(destination).sent
        first = await _until(lambda: counts(destination).sent > sent, 400.0)
        return first, await _until(lambda: self.waiting(destination) <= 2 * len(CAMERAS), 300.0)

    def memory(self, minutes: float, down_s: float, up_s: float) -> dict[str, float]:
        # The first minute away is warming up: caches, the first pages.
        away = [(t, rss) for t, rss, _ in self.samples if down_s + min(60.0, minutes * 20) <= t <= up_s]
        slope = statistics.linear_regression([t / 60 for t, _ in away], [rss for _, rss in away]).slope
        return {
            "before_mb": round(statistics.median(rss for t, rss, _ in self.samples if t <= down_s), 1),
            "most_mb": round(max(rss for _, rss, _ in self.samples), 1),
            "slope_while_away_mb_per_minute": round(slope, 4),
            "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3, 1),
        }


async def _until(condition: Callable[[], bool], limit_s: float) -> float | None:
    start = time.monotonic()
    while time.monotonic() - start < limit_s:
        if condition():
            return time.monotonic() - start
        await asyncio.sleep(0.1)
    return None


def _arrived(path: Path, made: dict[str, list[int]]) -> dict[str, int]:
    """Messages of a destination's file against those that were made."""
    came: dict[str, list[int]] = defaultdict(list)
    ids, lines = set(), 0
    for line in path.read_text().splitlines():
        camera, number, message = line.split()
        lines += 1
        if message not in ids:
            ids.add(message)
            came[camera].append(int(number))
    return {
        "made": sum(map(len, made.values())),
        "arrived": len(ids),
        "missing": sum(len(set(made[c]) - set(came[c])) for c in CAMERAS),
        "out_of_order_cameras": sum(came[c] != sorted(came[c]) for c in CAMERAS),
        "duplicates": lines - len(ids),
    }


class _Others:
    """Broker, subscriber and receiver in processes of their own; broker and receiver go away and come back."""

    OWN = (sys.executable, "-m", "benchmarks.bench_outputs")

    def __init__(self, folder: Path) -> None:
        self._broker = BrokerProcess(folder)
        self._broker.start()
        self.broker_port, self.http_port = self._broker.port, free_port()
        self.heard, self.posted = folder / "heard", folder / "posted"
        self._subscriber = _start(*self.OWN, "--listen", str(self.broker_port), "--target", str(self.heard))
        self._start_receiver()

    def _start_receiver(self) -> None:
        self._receiver = _start(*self.OWN, "--receive", str(self.http_port), "--target", str(self.posted))
        until(lambda: listens(self.http_port), "the receiver listens", 20.0)

    def leave(self) -> None:
        self._broker.stop()
        self._receiver.kill()
        self._receiver.wait()

    def come_back(self) -> None:
        self._broker.start()
        self._start_receiver()

    def end(self) -> None:
        for process in (self._subscriber, self._receiver):
            process.terminate()
            process.wait()
        self._broker.stop()


async def measure(minutes: float, rate: float, folder: Path) -> dict[str, Any]:
    """Run it all and return the numbers."""
    others = _Others(folder)
    await asyncio.sleep(2.0)  # the subscription
    site = _Site(folder, others.broker_port, others.http_port, rate)
    await site.outputs.open()
    site.outputs.start()
    making, sampling = asyncio.create_task(site.make()), asyncio.create_task(site.sample())
    await asyncio.sleep(min(30.0, 10.0 + minutes * 6.0))
    cpu = time.process_time()
    down_s = time.monotonic() - site.began
    others.leave()
    print(f"both away, for {minutes:g} minutes", flush=True)
    await asyncio.sleep(minutes * 60.0)
    up_s = time.monotonic() - site.began
    cpu = (time.process_time() - cpu) / (up_s - down_s)
    backlog = {d: site.waiting(d) for d in DESTINATIONS}
    others.come_back()
    print(f"both back, {backlog} wait", flush=True)
    drained = dict(zip(DESTINATIONS, await asyncio.gather(*map(site.drained, DESTINATIONS)), strict=True))
    site.ended.set()
    await making
    await _until(lambda: all(site.waiting(d) == 0 for d in DESTINATIONS), 60.0)
    await asyncio.sleep(3.0)  # the subscriber's last lines
    sampling.cancel()
    counts = {d: site.outputs.outbox.queues.counts(d) for d in DESTINATIONS}
    await site.outputs.close()
    site.store.close()
    others.end()
    results = {
        destination: _arrived(path, site.made)
        | {
            "counted_lost": sum(counts[destination].lost.values()),
            "dead_letters": counts[destination].dead,
            "waiting_when_back": backlog[destination],
            "first_after_back_s": drained[destination][0],
            "drained_after_first_s": drained[destination][1],
        }
        for destination, path in zip(DESTINATIONS, (others.heard, others.posted), strict=True)
    }
    return {
        "benchmark": "outputs",
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "minutes_away": minutes,
        "events_per_s_and_camera": rate,
        "cameras": len(CAMERAS),
        "destinations": results,
        "memory": site.memory(minutes, down_s, up_s),
        "cpu_while_away_cores": round(cpu, 4),
        "journal": site.notes,
    }


def main() -> int:
    """0: nothing lost, order kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long both are away (default 10)")
    parser.add_argument("--rate", type=float, default=5.0, help="events a second of each camera (default 5)")
    parser.add_argument("--no-write", action="store_true", help="print only")
    parser.add_argument("--listen", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--receive", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--target", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.listen or arguments.receive:
        if arguments.listen:
            listen(arguments.listen, arguments.target)
        else:
            receive(arguments.receive, arguments.target)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data").mkdir()
        made = asyncio.run(measure(arguments.minutes, arguments.rate, Path(folder)))
    print(json.dumps(made, indent=1))
    if not arguments.no_write:
        RESULTS.write_text(json.dumps(made, indent=1) + "\n")
    bad = any(d["missing"] or d["out_of_order_cameras"] for d in made["destinations"].values())
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
