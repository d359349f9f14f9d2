"""Looks at the appliance all the time: REST as the page polls it, its served models under load, its processes, its
disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.soak.mappings import memory_mb
from benchmarks.soak.place import LOAD, Place
from benchmarks.soak.values import (
    BoxSeen,
    EarlierProcess,
    InForce,
    MemorySample,
    ProcessSample,
    RecordedEvent,
    RequestTotal,
)
from edge.core.errors import MagpieError
from edge.load.client import Client
from edge.load.report import RequestOutcome
from edge.load.spec import ModelLoad
from edge.load.tensors import bodies
from edge.runtime.memory_limit import own_bytes

_LOOK_EVERY_S, _SAMPLE_EVERY_S = 1.0, 5.0
#: Every so many looks: counters and outputs, served models and journal.
_COUNTERS_EVERY, _JOURNAL_EVERY = 4, 12
#: Every so many samples of processes: the data folder's size, memory by kind of mapping.
_DISK_EVERY, _KINDS_EVERY = 6, 60
_COUNTERS = (
    "magpie_worker_losses_total", "magpie_camera_", "magpie_output_", "magpie_journal_lost_total",
    "magpie_events_total", "magpie_counts_lost_total", "magpie_alarm_losses_total",
)  # fmt: skip
#: The front's word, also that a request cannot be in time: of a busy machine that is no silence, and counted.
_REPLIES = frozenset((RequestOutcome.ANSWERED, RequestOutcome.DROPPED, RequestOutcome.REJECTED))
#: Sizes that a model's description leaves open, after the rows.
_SHAPES: Mapping[str, dict[str, tuple[int, ...]]] = {"game": {"picture": (96, 128, 3)}}
#: A retraining beyond this part may have handed in its result when it is killed: then nothing is lost.
_NEARLY_DONE = 0.8
_IN_FORCE = ("model.promoted", "model.rolled_back", "model.from_sibling")


@dataclass
class Seen:
    """All that was seen so far. `answered`: times of answers by subject; `outcomes` of requests by model."""

    looks: list[BoxSeen] = field(default_factory=list)
    answered: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    in_force: dict[int, InForce] = field(default_factory=dict)
    totals: list[RequestTotal] = field(default_factory=list)
    outcomes: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    processes: list[ProcessSample] = field(default_factory=list)
    memory: list[MemorySample] = field(default_factory=list)
    earlier: list[EarlierProcess] = field(default_factory=list)
    disk_mb: list[tuple[float, float]] = field(default_factory=list)


class Watcher:
    """Watches a place. `now` gives seconds since the soak began; `life` counts the appliance's starts."""

    def __init__(self, place: Place, now: Callable[[], float]) -> None:
        self._place, self._now = place, now
        self.life = 0
        self.seen = Seen()
        models = (f"{what} {m}" for m in LOAD for what in ("model", "answered"))
        for subject in (*(f"camera {c}" for c in place.cameras), *models, "page"):
            self.seen.answered[subject] = []
        #: The newest overview, and the port of the served models.
        self.overview: Mapping[str, Any] = {}
        self._counts: dict[str, tuple[Any, int]] = {}
        self._counters: Mapping[str, float] = {}
        self._counters_read_s = 0.0
        self._down: frozenset[str] = frozenset()
        self._waiting: Mapping[str, int] = {}
        #: Processes of lives that were killed, by number and beginning.
        self._earlier: dict[tuple[int, float], EarlierProcess] = {}

    def next_life(self) -> None:
        """The appliance is about to be killed: what was read of it says nothing of the next one."""
        now_s = self._now()
        for process in self._family():
            with contextlib.suppress(psutil.Error):
                about = EarlierProcess(self.life, self._names().get(process.pid, "helper"), process.pid, now_s, now_s)
                self._earlier[process.pid, process.create_time()] = about
        self.life += 1
        self.overview, self._counters, self._down, self._waiting = {}, {}, frozenset(), {}

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_all())
            group.create_task(self._sample_all())
            for model, rate in LOAD.items():
                group.create_task(self._ask_all(model, rate))

    def workers(self, kind: str) -> list[Mapping[str, Any]]:
        """Running workers of a kind at the last look."""
        return [w for w in self.overview.get("workers", ()) if w["kind"] == kind and w["pid"]]

    def unfinished(self, camera: str) -> bool:
        """Whether the camera's retraining has much work left, by the last look."""
        return any(j["camera"] == camera and j["fraction"] < _NEARLY_DONE for j in self.overview.get("jobs", ()))

    # -- REST

    async def _look_all(self) -> None:
        turn = 0
        headers = {"authorization": f"Bearer {self._place.token}"}
        async with httpx.AsyncClient(headers=headers, timeout=15.0) as rest:
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    await self._look(rest, turn)
                turn += 1
                await asyncio.sleep(_LOOK_EVERY_S)

    async def _look(self, rest: httpx.AsyncClient, turn: int) -> None:
        life, base = self.life, f"{self._place.box.url}/api/v1"
        overview = await _json(rest, f"{base}/overview")
        health = await _json(rest, f"{base}/health")
        self.seen.answered["page"].append(self._now())
        if turn % _COUNTERS_EVERY == 0 or not self._counters:
            asked_s = self._now()
            found = counters((await rest.get(f"{self._place.box.url}/metrics")).text)
            outputs = await _json(rest, f"{base}/outputs")
            if life == self.life:
                self._counters, self._counters_read_s = found, asked_s
                self._note_outputs(outputs)
        if life != self.life:
            return  # it was killed meanwhile
        self.overview = overview
        for camera in overview["cameras"]:
            self._note_answers(camera)
        reasons = {f"reason {r['code']}" for r in health["reasons"]}
        reasons |= {f"complaint {c['code']}" for c in overview["complaints"]}
        self.seen.looks.append(
            BoxSeen(
                self._now(), life, {c["id"]: c["state"]["model"]["version"] for c in overview["cameras"]},
                {c["id"]: c["state"]["state"] for c in overview["cameras"]}, frozenset(reasons) | self._down,
                self._counters, self._counters_read_s, self._waiting,
            )
        )  # fmt: skip
        if turn % _JOURNAL_EVERY == 0:
            await self._journal(rest, base)
            await self._serving(rest, base)

    def _note_answers(self, camera: Mapping[str, Any]) -> None:
        name, count = str(camera["id"]), int(camera["state"]["inference"]["answers"])
        pid = next((w["pid"] for w in self.workers("camera") if w["camera"] == name), None)
        if count and self._counts.get(name) != (pid, count):
            self.seen.answered[f"camera {name}"].append(self._now())
        self._counts[name] = (pid, count)

    def _note_outputs(self, outputs: Mapping[str, Any]) -> None:
        states = {"webhook": outputs["webhooks"][0]["state"]}
        if outputs["mqtt"] is not None:
            states["mqtt"] = outputs["mqtt"]["state"]
        self._down = frozenset(f"down {name}" for name, s in states.items() if s["down_s"] is not None)
        self._waiting = {name: int(s["waiting"]) for name, s in states.items()} | {"unwritten": outputs["unwritten"]}

    async def _journal(self, rest: httpx.AsyncClient, base: str) -> None:
        for kind in _IN_FORCE:
            for entry in await _json(rest, f"{base}/events?kind={kind}&limit=200"):
                if isinstance(entry["id"], int) and entry["camera"] is not None:
                    found = InForce(entry["id"], entry["camera"], str(entry["data"].get("version")))
                    self.seen.in_force[found.entry] = found

    async def _serving(self, rest: httpx.AsyncClient, base: str) -> None:
        for model in (await _json(rest, f"{base}/serving"))["models"]:
            total = {k: int(v) for k, v in model["total"].items() if k != "late"}
            inside = int(model["queued"]) + int(model["running"])
            self.seen.totals.append(RequestTotal(self._now(), model["name"], **total, inside=inside))

    # -- served models under load

    async def _ask_all(self, model: str, rate: float) -> None:
        while True:
            with contextlib.suppress(MagpieError, OSError, KeyError):
                await self._ask_one_front(model, rate)
            await asyncio.sleep(1.0)

    async def _ask_one_front(self, model: str, rate: float) -> None:
        port = self._front_port()
        if port is None:
            return
        load = ModelLoad(name=model, rate=rate, samples=4, shapes=_SHAPES.get(model, {}))
        async with Client(f"http://127.0.0.1:{port}", 10.0, self._place.token) as client:
            inputs, _ = await client.inputs(model, None)
            samples, url = bodies(load, inputs, Path(), 0, 0), client.infer_url(model, None)
            number = 0
            while self._front_port() == port:
                outcome, _ = await client.infer(url, samples[number % len(samples)])
                self.seen.outcomes[model][outcome.name.lower()] += 1
                if outcome in _REPLIES:
                    self.seen.answered[f"model {model}"].append(self._now())
                if outcome is RequestOutcome.ANSWERED:
                    self.seen.answered[f"answered {model}"].append(self._now())
                number += 1
                await asyncio.sleep(1.0 / rate)

    def _front_port(self) -> int | None:
        serving = self.overview.get("serving")
        return None if serving is None else serving["front"]["http"]["port"]

    # -- processes and disk

    async def _sample_all(self) -> None:
        turn = 0
        while True:
            await asyncio.to_thread(self._sample)
            if turn % _KINDS_EVERY == 0:
                await asyncio.to_thread(self._sample_kinds)
            if turn % _DISK_EVERY == 0:
                self.seen.disk_mb.append((self._now(), await asyncio.to_thread(folder_mb, self._place.data)))
            turn += 1
            await asyncio.sleep(_SAMPLE_EVERY_S)

    def _family(self) -> list[psutil.Process]:
        """The control process and all below it; none while the appliance is stopped."""
        try:
            root = psutil.Process(self._place.box.pid)
            return [root, *root.children(recursive=True)]
        except (RuntimeError, psutil.Error):
            return []

    def _names(self) -> dict[int, str]:
        names = {int(w["pid"]): str(w["name"]) for w in self.overview.get("workers", ()) if w["pid"]}
        with contextlib.suppress(RuntimeError):  # the appliance is stopped
            names[self._place.box.pid] = "control"
        return names

    def _sample(self) -> None:
        family, names = self._family(), self._names()
        self.seen.processes += [s for p in family if (s := sample(p.pid, names.get(p.pid), self._now())) is not None]
        for (pid, began), process in list(self._earlier.items()):
            if runs(pid, began):
                self._earlier[pid, began] = replace(process, seen_s=self._now())
        self.seen.earlier = list(self._earlier.values())

    def _sample_kinds(self) -> None:
        names, now_s = self._names(), self._now()
        for process in self._family():
            if (mb := memory_mb(process.pid)) is not None:
                self.seen.memory.append(MemorySample(now_s, names.get(process.pid, "helper"), process.pid, mb))

    # -- at the end

    async def kept(self) -> list[RecordedEvent]:
        """All objects and alarms that the appliance has records of. Raises httpx.HTTPError."""
        return await asyncio.to_thread(self._kept)

    def _kept(self) -> list[RecordedEvent]:
        headers = {"authorization": f"Bearer {self._place.token}"}
        with httpx.Client(headers=headers, timeout=30.0) as rest:

            def ask(path: str) -> Any:
                return rest.get(f"{self._place.box.url}/api/v1{path}").raise_for_status().json()

            return [recorded(what, row) for what, row in records(ask)]


def records(ask: Callable[[str], Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All objects and alarms that an appliance has records of, page by page; `ask` gives its answer to a path of REST.
    Each with "object" or "alarm"."""
    for what in ("object", "alarm"):
        before = ""
        while rows := ask(f"/{what}s?limit=200{before}"):
            yield from ((what, row) for row in rows)
            before = f"&before={rows[-1]['id']}"


def recorded(what: str, row: Mapping[str, Any]) -> RecordedEvent:
    """A row of `GET /objects` or `GET /alarms`."""
    ended = row["ended_utc_s"]
    return RecordedEvent(what, int(row["id"]), float(row["began_utc_s"]), None if ended is None else float(ended))


async def _json(rest: httpx.AsyncClient, url: str) -> Any:
    answer = await rest.get(url)
    answer.raise_for_status()
    return answer.json()


def counters(text: str) -> dict[str, float]:
    """The counters of interest in what `/metrics` tells."""
    return dict(_rows(text))


def _rows(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith(_COUNTERS) and "_total" in name:
            yield name, float(value)


def sample(pid: int, name: str | None, at_s: float) -> ProcessSample | None:
    """A process now; None if it is gone. One without a name is of the interpreter's own helpers."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            threads = int(file.read().rpartition(")")[2].split()[17])
        files = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    memory = own_bytes(pid)
    return ProcessSample(at_s, name or "helper", pid, memory / 1e6, threads, files) if memory else None


def runs(pid: int, began: float) -> bool:
    """Whether the process of this number that began at `began` (psutil's epoch seconds) still runs; one that has ended
    and was not waited for does not."""
    try:
        process = psutil.Process(pid)
        return bool(process.create_time() == began and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def folder_mb(folder: Path) -> float:
    """What lies in a folder, in MB."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total / 1e6
