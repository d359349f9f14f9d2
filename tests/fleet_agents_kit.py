"""Agents in one process: real TLS on loopback, real files, and a stand-in for each box's appliance (an HTTP server with
the few routes that an agent asks)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from aiohttp import web

from benchmarks.waiting import PATIENCE_S, free_port
from benchmarks.waiting import until_async as until
from edge.core.clock import SystemClock
from edge.core.errors import Unavailable
from edge.core.fleet import FleetRules
from edge.core.fleet_links import FleetMember, FleetOrder, FleetStatus, OrderAnswer
from edge.core.fleet_questions import ALL_S
from edge.fleet.agent import FleetAgent
from edge.fleet.agent_jobs import AgentJobs
from edge.fleet.appliance_client import ApplianceClient
from edge.fleet.box_groups import AgentGroups
from edge.fleet.codes import JoinCode
from edge.fleet.copies import StudentCopies
from edge.fleet.engine_keeper import StartEngine, start_engine
from edge.fleet.folder import FleetFolder
from edge.fleet.identity import server_context
from edge.fleet.joining import found_fleet, invite, join_fleet
from edge.fleet.lending import AgentLending
from edge.fleet.links import Links, M
from edge.fleet.memory import AgentMemory
from edge.fleet.order_records import OrderRecords
from edge.fleet.own_cameras import OwnCameras
from edge.fleet.questions import AgentQuestions
from edge.fleet.refusals import Refusals
from edge.fleet.server import AgentServer
from edge.ingest.secrets import Secret
from edge.runtime.box_groups_folder import BoxGroupsFolder
from edge.runtime.lending_folder import LendingFolder
from edge.settings import FleetSettings

#: Fast enough for a test; a loaded machine has to be away for 1.2 s before a box counts as late, for 1.4 s before it
#: counts as lost.
RULES = FleetRules(beat_s=0.12, missed_beats=10, lease_s=1.4, fence_margin_s=0.2)


class StandInAppliance:
    """Answers as an appliance's REST does. `refuses` names cameras that it cannot start, `full` admits none. While
    `answers` is cleared a camera is added, but the caller gets no answer; with `refuses_to_answer` it is not added
    either. One that `hangs` does not list its cameras."""

    def __init__(self, models: Path) -> None:
        self.cameras: dict[str, dict[str, Any]] = {}
        self.students: dict[str, str] = {}
        self.refuses: set[str] = set()
        self.full = False
        self.answers = asyncio.Event()
        self.answers.set()
        self.refuses_to_answer = False
        self.asked: list[str] = []
        self.hangs = False
        self.tokens: set[str | None] = set()
        self.history: list[tuple[str, str]] = []
        self.recorded: list[dict[str, Any]] = []
        #: The answer to a question of another box's user; None: an appliance that does not know the question.
        self.found: dict[str, Any] | None = None
        self.questions: list[dict[str, Any]] = []
        self.version, self.started_utc_s = "1", 1_000_000.0
        self.port = free_port()
        self._models = models
        models.mkdir(parents=True)
        app = web.Application(middlewares=[self._noted])
        app.router.add_get("/api/v1/cameras", self._list)
        app.router.add_get("/api/v1/system", self._system)
        app.router.add_post("/api/v1/cameras", self._add)
        app.router.add_delete("/api/v1/cameras/{id}", self._remove)
        app.router.add_get("/api/v1/cameras/{id}/models", self._versions)
        app.router.add_post("/api/v1/admission", self._admission)
        app.router.add_post("/api/v1/fleet/records", self._record)
        app.router.add_post("/api/v1/fleet/answers", self._answer)
        app.router.add_get("/api/v1/cameras/{id}/snapshot.jpg", self._snapshot)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> StandInAppliance:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def watch(self, name: str, student: bytes = b"weights") -> str:
        """An operator adds a camera, which has this student; returns the student's hash."""
        digest = hashlib.sha256(student).hexdigest()
        (self._models / f"{digest}.safetensors").write_bytes(student)
        self.cameras[name] = camera_settings(name)
        self.students[name] = digest
        return digest

    @web.middleware
    async def _noted(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self.tokens.add(request.headers.get("authorization"))
        return await handler(request)

    async def _list(self, _: web.Request) -> web.Response:
        if self.hangs:
            await asyncio.Event().wait()
        rows = [
            {
                "id": n,
                "settings": s,
                "state": {
                    "model": {"version": f"{n}-{self.students.get(n, '')[:8]}"},
                    "inference": {"answers": 5},
                },
            }
            for n, s in sorted(self.cameras.items())
        ]
        return web.json_response(rows)

    async def _system(self, _: web.Request) -> web.Response:
        return web.json_response({"started_utc_s": self.started_utc_s, "versions": {"magpie": self.version}})

    async def _add(self, request: web.Request) -> web.Response:
        settings = await request.json()
        name = settings["id"]
        self.asked.append(name)
        if self.refuses_to_answer:
            await asyncio.Event().wait()
        if name in self.refuses:
            return _error(422, f"password_from: {name} has no such secret here")
        if name in self.cameras:
            return _error(409, f"camera {name} exists already")
        self.history.append(("added", name))
        weights = settings["student"]["weights"]
        self.students[name] = hashlib.sha256(Path(weights).read_bytes()).hexdigest() if weights else "0" * 64
        self.cameras[name] = settings
        await self.answers.wait()
        return web.json_response({}, status=201)

    async def _remove(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        if self.cameras.pop(name, None) is None:
            return _error(404, f"camera {name} does not exist")
        self.history.append(("removed", name))
        return web.Response(status=204)

    async def _versions(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        row = {"state": "promoted", "blob": self.students.get(name, ""), "blob_kept": True}
        return web.json_response([row])

    async def _record(self, request: web.Request) -> web.Response:
        self.recorded.append(await request.json())
        return web.Response(status=204)

    async def _answer(self, request: web.Request) -> web.Response:
        self.questions.append(await request.json())
        await self.answers.wait()
        return _error(404, "there is no such route") if self.found is None else web.json_response(self.found)

    async def _snapshot(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        if name not in self.cameras:
            return _error(404, f"camera {name} does not exist")
        return web.Response(body=f" {name} {request.query['width']}".encode().join((b"\xff\xd8", b"")))

    async def _admission(self, request: web.Request) -> web.Response:
        camera = (await request.json())["camera"]["id"]
        rows = [{"camera": n, "before": 0.8, "after": 0.7} for n in sorted(self.cameras)]
        rows.append({"camera": camera, "before": None, "after": 0.6})
        reasons = [{"message": "no share is left"}] if self.full else []
        return web.json_response({"admitted": not self.full, "reasons": reasons, "cameras": rows})


def camera_settings(name: str, **more: Any) -> dict[str, Any]:
    """A camera's settings, as far as an agent looks at them."""
    return {
        "id": name, "enabled": True, "url": f"rtsp://camera/{name}", "password_from": "secret:yard",
        "student": {"weights": "/only/on/the/first/box.safetensors"}, "inference": {},
    } | more  # fmt: skip


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"code": "error", "message": message}}, status=status)


class CutLinks(Links):
    """The links of a box, which reach no box on the other side of the cut."""

    def __init__(self, folder: Path, me: str, cut_off: set[str]) -> None:
        super().__init__(folder)
        self._me, self._cut_off = me, cut_off

    async def ask(self, box: FleetMember, path: str, message: Any, kind: type[M], timeout_s: float = 2.0) -> M:
        """As of `Links`."""
        if (self._me in self._cut_off) != (box.name in self._cut_off):
            raise Unavailable(f"{box.name} is cut off")
        return await super().ask(box, path, message, kind, timeout_s)

    async def ask_bytes(self, box: FleetMember, path: str, message: Any, timeout_s: float, most: int) -> bytes:
        """As of `Links`."""
        if (self._me in self._cut_off) != (box.name in self._cut_off):
            raise Unavailable(f"{box.name} is cut off")
        return await super().ask_bytes(box, path, message, timeout_s, most)


class FleetOfAgents:
    """Use as `async with`. Boxes are `found`ed and `join`ed, killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.appliances: dict[str, StandInAppliance] = {}
        self.agents: dict[str, FleetAgent] = {}
        self.settings: dict[str, FleetSettings] = {}
        self.refusals: dict[str, Refusals] = {}
        self.jobs: dict[str, AgentJobs] = {}
        #: Starts the process of an engine.
        self.start_engine: StartEngine = start_engine
        #: Boxes that the others do not reach, and that do not reach the others.
        self.cut_off: set[str] = set()
        #: Boxes whose agents know no groups over boxes.
        self.of_the_version_before: set[str] = set()
        #: The boxes of an agent that begins from now on have so long to answer its questions.
        self.question_s = ALL_S
        #: How often each agent showed that it lives.
        self.lives: Counter[str] = Counter()
        self._running: dict[str, tuple[AsyncExitStack, asyncio.Task[None]]] = {}

    async def __aenter__(self) -> FleetOfAgents:
        return self

    async def __aexit__(self, *_: object) -> None:
        for name in list(self._running):
            await self.kill(name)
        for appliance in self.appliances.values():
            await appliance.__aexit__()

    def folder(self, name: str) -> FleetFolder:
        """The files of a box."""
        return FleetFolder(self._folder / name)

    def lending(self, name: str) -> LendingFolder:
        """What a box lends and borrows."""
        return LendingFolder(self._folder / name)

    def groups(self, name: str) -> BoxGroupsFolder:
        """A box's part in groups over boxes."""
        return BoxGroupsFolder(self._folder / name)

    async def found(self, name: str, **more: Any) -> None:
        """The first box."""
        await self._box(name, more)
        found_fleet(self.folder(name), "yard", self.settings[name], "127.0.0.1")
        await self.start(name)
        await until(lambda: self.status(name).mandate, f"{name} decides")

    async def join(self, name: str, head: str, **more: Any) -> JoinCode:
        """Another box, let in by the head; returns the code that it used."""
        await self._box(name, more)
        code = invite(self.folder(head), 1.0)
        await join_fleet(self.folder(name), self.address(head), code, self.settings[name], "127.0.0.1")
        await self.start(name)
        return code

    def address(self, name: str) -> str:
        """The address at which the agent itself listens."""
        return f"https://127.0.0.1:{self.settings[name].port}"

    async def _box(self, name: str, more: dict[str, Any]) -> None:
        self.settings[name] = FleetSettings.model_validate(
            {"name": name, "host": "127.0.0.1", "port": free_port(), "token": "env:X"} | more
        )
        appliance = StandInAppliance(self._folder / name / "models")
        self.appliances[name] = await appliance.__aenter__()

    async def start(self, name: str) -> None:
        """The agent of a box begins, again."""
        settings, clock, folder = self.settings[name], SystemClock(), self.folder(name)
        parts = AsyncExitStack()
        memory = AgentMemory(folder, name, clock.monotonic())
        page = f"http://127.0.0.1:{self.appliances[name].port}/"
        appliance = await parts.enter_async_context(ApplianceClient(page, Secret("token of " + name)))
        links = await parts.enter_async_context(CutLinks(folder.path, name, self.cut_off))
        refusals = self.refusals[name] = Refusals(clock)
        copies = StudentCopies(name, folder, self._folder / name / "models", links, lambda: memory.agreement)
        own = OwnCameras(name, folder, appliance, copies, clock, settings.camera_zones)
        jobs = self.jobs[name] = await parts.enter_async_context(
            AgentJobs(settings, folder, links, lambda: memory.agreement, clock, self.start_engine)
        )
        agent = self.agents[name] = FleetAgent(
            memory, links, own, copies, refusals, OrderRecords(name, appliance), jobs, clock, RULES,
            lambda: self.lives.update([name]),
        )  # fmt: skip
        context = server_context(folder.path, refusals.add)
        lending = AgentLending(name, settings.lending, self.lending(name), links, lambda: memory.agreement, clock)
        questions = AgentQuestions(
            name, settings.answer, appliance, links, lambda: memory.agreement, clock, self.question_s
        )
        groups = AgentGroups(
            name, settings.share_pictures, self.groups(name), links, lambda: memory.agreement, clock, 0.2
        )
        desk = None if name in self.of_the_version_before else groups
        server = AgentServer(agent, context, settings.host, settings.port, refusals, lending, questions, jobs, desk)
        await parts.enter_async_context(server)
        await parts.enter_async_context(lending)
        await parts.enter_async_context(groups)
        self._running[name] = (parts, asyncio.create_task(agent.run()))

    async def kill(self, name: str) -> None:
        """The agent of a box ends without a word to the others."""
        parts, task = self._running.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await parts.aclose()

    async def beats(self, name: str, count: float) -> None:
        """Until the agent of a box has beaten `count` times more: long enough to have done what it is to leave."""
        last = self.lives[name] + count
        await until(lambda: self.lives[name] >= last, f"{name} beats on")

    def status(self, name: str) -> FleetStatus:
        """The fleet as a box knows it."""
        return self.agents[name].status()

    async def order(self, kind: Any, box: str, camera: str = "", by: str | None = None) -> OrderAnswer:
        """An operator's order, given on the box `by`."""
        giver = by or box
        async with Links(self.folder(giver).path) as links:
            me = FleetMember(giver, self.address(giver))
            return await links.ask(me, "/order", FleetOrder(kind, box, camera), OrderAnswer, PATIENCE_S)

    def owners(self, name: str) -> dict[str, str | None]:
        """By camera: its owner, as a box knows it, once it answers."""
        return {c.id: c.owner for c in self.status(name).agreement.cameras if c.answered}


def decoded_status(folder: FleetFolder) -> dict[str, Any]:
    """The file that the agent writes for the appliance."""
    found: dict[str, Any] = json.loads((folder.path / "status.json").read_text())
    return found
