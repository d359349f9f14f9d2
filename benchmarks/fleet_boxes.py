"""Real appliances of one fleet on this machine: `magpie run` processes with real RTSP cameras, killed and cut off.

Each box has a loopback address of its own, from which its agent connects, and is reached by a relay that can cut the
line between any two boxes.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import secrets
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.waiting import free_port, until
from edge.cli import main
from edge.demo.cameras import PASSWORD_VARIABLE, USER
from edge.demo.site import demo_site
from edge.settings import merge


def output_of(*command: str) -> str:
    """The output of a `magpie` command in this process. Raises RuntimeError where it fails."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        if main(list(command)):
            raise RuntimeError(f"magpie {' '.join(command[:2])} failed")
    return out.getvalue().strip()


@contextmanager
def running_on(processors: Set[int] | None) -> Iterator[None]:
    """Processes that this thread begins run on these processors of the machine; None: on any that it may use. Raises
    OSError where there are no such processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if processors is None else processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class RealBox:
    """One appliance with its agent. `host` is its own loopback address, `address` that of its relay. `learning` are
    settings of retraining over those of a box that hardly retrains; `cores` None: as many as the machine has; `more` is
    merged into the site file; `processors`: those of the machine on which the box runs, None: any."""

    def __init__(
        self,
        folder: Path,
        name: str,
        host: str,
        cameras: Sequence[dict[str, Any]],
        rtsp: str,
        learning: Mapping[str, Any] | None = None,
        lending: Mapping[str, Any] | None = None,
        cores: float | None = None,
        more: Mapping[str, Any] | None = None,
        processors: Set[int] | None = None,
    ) -> None:
        self.name, self.host, self.folder, self._processors = name, host, folder, processors
        self.web, self.port, self.relay = free_port(host), free_port(host), free_port(host)
        self._file, self._log = folder / f"{name}.yaml", folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        token = f"FLEET_TOKEN_{name.upper()}"
        chosen: dict[str, Any] = {"window_s": 3600.0, "task": "classification", "label_budget": 8, "golden_share": 0.1}
        chosen |= learning or {}
        site = demo_site(
            list(cameras), rtsp, USER, f"env:{PASSWORD_VARIABLE}", folder / name, window_s=chosen.pop("window_s"),
            policy="relay", task=chosen.pop("task"), teacher=None, classes=(), class_map={}, port=self.web,
            overrides=chosen,
        ).model_dump(mode="json", exclude_defaults=True)  # fmt: skip
        site["demo"] = True
        site["web"] |= {"host": host}
        site["fleet"] = {
            "name": name, "host": host, "port": self.port, "address": f"https://{host}:{self.relay}",
            "token": f"env:{token}", "lending": dict(lending or {}),
        }  # fmt: skip
        if cores is not None:
            site["machine"] = {"cores": cores}
        site = merge(site, more or {})
        self._file.write_text(yaml.safe_dump(site), encoding="utf-8")
        os.environ["FLEET_ADMIN_PASSWORD"] = secrets.token_urlsafe(16)
        output_of("user", "add", "agent", "--role", "admin", "--config", str(self._file), "--password-from",
             "env:FLEET_ADMIN_PASSWORD")  # fmt: skip
        self._token = output_of("user", "token", "agent", "--config", str(self._file))
        os.environ[token] = self._token

    @property
    def site(self) -> str:
        """The path of the site file."""
        return str(self._file)

    @property
    def address(self) -> str:
        """The address at which other boxes reach this one."""
        return f"https://{self.host}:{self.relay}"

    def start(self) -> None:
        """Run the appliance; it takes some seconds until it is up."""
        with self._log.open("ab") as log, running_on(self._processors):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "edge.cli", "run", self.site], stdout=log, stderr=log, start_new_session=True
            )

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a request to the appliance."""
        return {"authorization": f"Bearer {self._token}"}

    def processes(self) -> list[psutil.Process]:
        """The control process and all below it, agent and engine too; none while the box is off."""
        if self._process is None:
            return []
        try:
            box = psutil.Process(self._process.pid)
            return [box, *box.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """As a loss of power: every process of the box is killed with -9."""
        if self._process is None:
            return
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        """End the appliance as an operator does."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def ask(self, path: str) -> Any:
        """The appliance's answer by REST; None: it does not answer."""
        request = urllib.request.Request(f"http://{self.host}:{self.web}/api/v1{path}", headers=self.headers)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return json.load(answer)
        except (OSError, ValueError, HTTPException):
            return None

    def answers(self) -> dict[str, int]:
        """By camera: the answers that its present worker gave; empty: the appliance is away."""
        return {c["id"]: c["state"]["inference"]["answers"] for c in self.ask("/cameras") or ()}

    def status(self) -> dict[str, Any]:
        """The fleet as the box's agent reported it last; empty: it reported nothing yet."""
        try:
            found: dict[str, Any] = json.loads((self.folder / self.name / "fleet" / "status.json").read_text())
        except (OSError, ValueError):
            return {}
        return found

    def owners(self) -> dict[str, str]:
        """By camera: the box that answers it, as this box knows it."""
        cameras = self.status().get("agreement", {}).get("cameras", ())
        return {c["id"]: c["owner"] for c in cameras if c["answered"]}

    def log(self) -> str:
        """Everything that the box wrote."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""


def asked(box: RealBox, path: str) -> Any:
    """The appliance's answer by REST, for which a busy one has a minute. Raises TimeoutError."""

    def found() -> list[Any] | None:
        answer = box.ask(path)
        return None if answer is None else [answer]

    return until(found, f"{box.name} answers {path}", 60)[0]


#: The broker, as the lines know it.
BROKER = "broker"


@dataclass(frozen=True)
class BrokerLines:
    """The port of a broker on this machine, and by box the port at which the box reaches it: that of a relay."""

    port: int
    relays: Mapping[str, int]


class Lines:
    """Relays in a thread: one for each box, and one from each box to the broker. A cut line takes no bytes in either
    direction and closes nothing; a connection that is opened meanwhile waits."""

    def __init__(self, boxes: Sequence[RealBox], broker: BrokerLines | None = None) -> None:
        self._boxes, self._broker = boxes, broker
        self._cut: set[frozenset[str]] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relays", daemon=True)

    def __enter__(self) -> Lines:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def cut(self, one: str, *others: str) -> None:
        """Cut the lines between a box and others (boxes, or BROKER)."""
        self._cut |= {frozenset((one, other)) for other in others}

    def heal(self) -> None:
        """Every line works again."""
        self._cut.clear()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        for box in self._boxes:
            serve = asyncio.start_server(partial(self._to_box, box), box.host, box.relay)
            self._loop.run_until_complete(serve)
        for name, port in {} if self._broker is None else self._broker.relays.items():
            serve = asyncio.start_server(partial(self._to_broker, name), "127.0.0.1", port)
            self._loop.run_until_complete(serve)
        self._ready.set()
        self._loop.run_forever()

    async def _to_box(self, box: RealBox, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = next((b.name for b in self._boxes if b.host == writer.get_extra_info("peername")[0]), "")
        await self._relay(frozenset((box.name, client)), box.host, box.port, reader, writer)

    async def _to_broker(self, box: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._broker is not None
        await self._relay(frozenset((box, BROKER)), "127.0.0.1", self._broker.port, reader, writer)

    async def _relay(
        self, line: frozenset[str], host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        early = b""
        try:
            if line in self._cut:
                await self._healed(line)
                # As the first packet of a connection is sent again. Clients speak first, of TLS and of MQTT.
                early = await reader.read(65536)
                if reader.at_eof():  # the client gave up meanwhile
                    writer.close()
                    return
            answers, target = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        target.write(early)
        await asyncio.gather(self._pump(line, reader, target), self._pump(line, answers, writer))

    async def _healed(self, line: frozenset[str]) -> None:
        while line in self._cut:
            await asyncio.sleep(0.05)

    async def _pump(self, line: frozenset[str], source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await self._healed(line)
                sink.write(data)
                await sink.drain()
        sink.close()


@contextmanager
def fleet_of(boxes: Sequence[RealBox], broker: BrokerLines | None = None) -> Iterator[Lines]:
    """The boxes as one fleet, whose first box founds it; all of them run."""
    with Lines(boxes, broker) as lines:
        try:
            first, *others = boxes
            output_of("fleet", "start", first.site)
            for box in boxes:
                box.start()
            until(lambda: first.status().get("mandate"), f"{first.name} decides", 60)
            for box in others:
                code = output_of("fleet", "invite", first.site).splitlines()[-1]
                output_of("fleet", "join", box.site, first.address, "--code", code)
            yield lines
        finally:
            for box in boxes:
                box.kill()
