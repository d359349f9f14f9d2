"""The agent's server. Every box shows its certificate; without one a client may only read the fleet's authority and
join. A message that speaks for another box than its certificate names is refused.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol

from aiohttp import web

from edge.core.errors import Conflict, Forbidden, InvalidValue, MagpieError, NotFound, NotUnderstood, Unavailable
from edge.core.fleet_jobs import JobOrdered, JobsAsk, JobsReport, JobSubmission, JobWithdrawal
from edge.core.fleet_links import (
    AdmissionAsk,
    BeatAnswer,
    BoxAdmissionAnswer,
    FleetBeat,
    FleetOrder,
    GroupsAnswer,
    GroupsAsk,
    JoinAnswer,
    JoinAsk,
    LendingAnswer,
    LendingAsk,
    LentAnswer,
    LentAsk,
    LentQuery,
    OrderAnswer,
    OtherVersion,
    RefusedBy,
    VoteAnswer,
    VoteRequest,
)
from edge.core.fleet_questions import BoxQuestion, FleetQuestion, FleetReplies, PictureQuestion
from edge.core.lending import LentState, LentWork
from edge.fleet.door import LIMITS, Door, DoorLimits
from edge.fleet.links import LARGEST, PREFIX
from edge.fleet.refusals import Refusals
from edge.fleet.wire import decoded, encoded

log = logging.getLogger(__name__)

_STATUS: Final[dict[type[MagpieError], int]] = {
    Forbidden: 403, NotFound: 404, Conflict: 409, InvalidValue: 400, NotUnderstood: 400, Unavailable: 503,
}  # fmt: skip
_LARGEST_JOIN: Final = 64 << 10
#: The box that sent a request, by its certificate.
_BOX: Final = web.RequestKey("box", str)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AgentDesk(Protocol):
    """Answers the messages of other boxes; each raises MagpieError for one that it refuses."""

    @property
    def authority(self) -> str:
        """The certificate of the fleet's authority (PEM)."""

    def refuses(self, box: str, serial: str) -> RefusedBy | None:
        """Why nothing is taken from the box with this certificate; None: it is a member."""

    def beat(self, beat: FleetBeat) -> BeatAnswer:
        """A box lives."""

    def vote(self, asked: VoteRequest) -> VoteAnswer:
        """A candidate asks for this box's vote."""

    async def admission(self, asked: AdmissionAsk) -> BoxAdmissionAnswer:
        """Would these cameras fit?"""

    async def join(self, asked: JoinAsk, address: str) -> JoinAnswer:
        """A box with a join code asks to be let in from this address."""

    async def order(self, order: FleetOrder, sender: str) -> OrderAnswer:
        """An operator's order that came by the box `sender`."""

    def student(self, digest: str) -> Path | None:
        """The file of a student of the fleet's cameras."""


class LendingDesk(Protocol):
    """Answers what other boxes ask of lending; each raises MagpieError for what it refuses."""

    def offered(self) -> LendingAnswer:
        """The offer of this box now."""

    def take(self, work: LentWork, sender: str) -> LentState:
        """Take a retraining on."""

    def state(self, query: LentQuery, sender: str) -> LentState:
        """How far a retraining is that `sender` asked for."""

    def blob(self, name: str, digest: str, sender: str) -> Path | None:
        """A file of a retraining that this box has lent to `sender`."""

    def candidate(self, name: str, sender: str) -> Path | None:
        """The student that came out of `sender`'s retraining."""


class GroupsDesk(Protocol):
    """Answers what other boxes ask of groups over boxes; each raises MagpieError for what it refuses."""

    def answer(self, sender: str) -> GroupsAnswer:
        """The cameras that this box shares, and its students for `sender`."""

    def file(self, digest: str) -> Path | None:
        """A description or a picture that is shared."""

    def student(self, digest: str, sender: str) -> Path | None:
        """A student for `sender`."""


class QuestionDesk(Protocol):
    """Carries questions of users to all boxes; each raises MagpieError for what it refuses."""

    async def ask(self, asked: FleetQuestion, sender: str) -> FleetReplies:
        """The other boxes' answers to this box's appliance."""

    async def answer(self, question: BoxQuestion, sender: str) -> bytes:
        """The rows of this box for a user of `sender`, as JSON."""

    async def picture(self, asked: PictureQuestion, sender: str) -> bytes:
        """The newest picture of a camera (JPEG)."""


class JobsDesk(Protocol):
    """Answers what boxes ask about the fleet's jobs; each raises MagpieError for what it refuses."""

    async def report(self, asked: JobsAsk, sender: str) -> JobsReport:
        """All jobs."""

    async def submit(self, asked: JobSubmission, sender: str) -> JobOrdered:
        """A job comes in, by the box `sender`."""

    async def withdraw(self, asked: JobWithdrawal, sender: str) -> JobOrdered:
        """A job is withdrawn."""


class AgentServer:
    """Use as `async with AgentServer(...)`. Raises Unavailable where the port cannot be had. Without `lending`,
    `questions`, `jobs` or `groups` a box that asks for it gets a 404."""

    def __init__(
        self,
        desk: AgentDesk,
        context: ssl.SSLContext,
        host: str,
        port: int,
        refusals: Refusals,
        lending: LendingDesk | None = None,
        questions: QuestionDesk | None = None,
        jobs: JobsDesk | None = None,
        groups: GroupsDesk | None = None,
        limits: DoorLimits = LIMITS,
    ) -> None:
        self._desk, self._refusals = desk, refusals
        self._host, self._port = host, port
        self._door = Door(context, refusals.add, limits)
        self._listening: asyncio.Server
        app = web.Application(client_max_size=LARGEST, middlewares=[self._guarded])
        app.router.add_get(PREFIX + "/authority", self._authority)
        app.router.add_post(PREFIX + "/join", self._join)
        app.router.add_post(PREFIX + "/beat", self._beat)
        app.router.add_post(PREFIX + "/vote", self._vote)
        app.router.add_post(PREFIX + "/admission", self._admission)
        app.router.add_post(PREFIX + "/order", self._order)
        app.router.add_get(PREFIX + "/students/{digest}", self._student)
        if lending is not None:
            _add_lending(app, lending)
        if questions is not None:
            _add_questions(app, questions)
        if jobs is not None:
            _add_jobs(app, jobs)
        if groups is not None:
            _add_groups(app, groups)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, keepalive_timeout=30.0)

    async def __aenter__(self) -> AgentServer:
        await self._runner.setup()
        server = self._runner.server
        assert server is not None
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                lambda: self._door.protocol(server), self._host, self._port
            )
        except OSError as error:
            await self._runner.cleanup()
            words = f"the fleet's agent cannot listen on {self._host}:{self._port}: {error.strerror or error}"
            raise Unavailable(words, "choose another fleet.port") from None
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.close()
        await self._door.close()
        await self._runner.cleanup()

    # -- who asks

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            request[_BOX] = "" if request.path in (PREFIX + "/authority", PREFIX + "/join") else self._member(request)
            return await handler(request)
        except MagpieError as error:
            if isinstance(error, OtherVersion) and request.get(_BOX):
                self._refusals.add_of_box("other_version", request[_BOX])
            status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
            body = {"code": error.code, "message": str(error)}
            if isinstance(error, InvalidValue):
                body |= {"path": error.path, "given": repr(error.given)[:200], "allowed": error.allowed}
            return _json({"error": body}, status)
        except asyncio.CancelledError:
            raise
        except web.HTTPException as error:
            return _json({"error": {"code": "error", "message": error.reason}}, error.status)
        except Exception:
            log.exception("a message of another box failed: %s", request.path)
            return _json({"error": {"code": "error", "message": "this box failed to answer"}}, 500)

    def _member(self, request: web.Request) -> str:
        """The box that the certificate names. Raises Forbidden."""
        certificate = None if request.transport is None else request.transport.get_extra_info("peercert")
        if not certificate:
            raise self._refuse("no_key", request, "the agents of a fleet talk with certificates only")
        names = [value for parts in certificate["subject"] for key, value in parts if key == "commonName"]
        box, serial = names[0] if names else "", f"{int(certificate['serialNumber'], 16):x}"
        why = self._desk.refuses(box, serial)
        if why == "revoked":
            raise self._refuse(why, request, f"the certificate of {box} is revoked")
        if why is not None:
            raise self._refuse(why, request, f"{box} is no member of this fleet")
        return box

    def _refuse(self, why: RefusedBy, request: web.Request, words: str) -> Forbidden:
        self._refusals.add(why, f"from {request.remote}")
        return Forbidden(words)

    def _speaks_for(self, request: web.Request, named: str) -> None:
        if request[_BOX] != named:
            raise self._refuse("wrong_box", request, f"{request[_BOX]} does not speak for {named}")

    # -- messages

    async def _authority(self, _: web.Request) -> web.Response:
        return web.Response(text=self._desk.authority)

    async def _join(self, request: web.Request) -> web.Response:
        raw = await request.content.read(_LARGEST_JOIN + 1)  # of an unknown client
        if len(raw) > _LARGEST_JOIN:
            raise InvalidValue("(body)", f"more than {_LARGEST_JOIN} bytes", f"at most {_LARGEST_JOIN} bytes")
        asked = decoded(JoinAsk, raw)
        return _message(await self._desk.join(asked, request.remote or ""))

    async def _beat(self, request: web.Request) -> web.Response:
        beat = decoded(FleetBeat, await request.read())
        self._speaks_for(request, beat.sender)
        return _message(self._desk.beat(beat))

    async def _vote(self, request: web.Request) -> web.Response:
        asked = decoded(VoteRequest, await request.read())
        self._speaks_for(request, asked.candidate)
        return _message(self._desk.vote(asked))

    async def _admission(self, request: web.Request) -> web.Response:
        return _message(await self._desk.admission(decoded(AdmissionAsk, await request.read())))

    async def _order(self, request: web.Request) -> web.Response:
        return _message(await self._desk.order(decoded(FleetOrder, await request.read()), request[_BOX]))

    async def _student(self, request: web.Request) -> web.StreamResponse:
        digest = request.match_info["digest"]
        path = self._desk.student(digest)
        if path is None:
            raise NotFound(f"no student {digest[:64]} here")
        return web.FileResponse(path)


def _add_lending(app: web.Application, desk: LendingDesk) -> None:
    """The routes of lending."""

    async def offer(request: web.Request) -> web.Response:
        decoded(LendingAsk, await request.read())
        return _message(desk.offered())

    async def work(request: web.Request) -> web.Response:
        asked = decoded(LentAsk, await request.read())
        return _message(LentAnswer(desk.take(asked.work, request[_BOX])))

    async def state(request: web.Request) -> web.Response:
        asked = decoded(LentQuery, await request.read())
        return _message(LentAnswer(desk.state(asked, request[_BOX])))

    async def file(request: web.Request) -> web.StreamResponse:
        name, digest = request.match_info["name"], request.match_info["digest"]
        return _file(desk.blob(name, digest, request[_BOX]), digest)

    async def candidate(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        return _file(desk.candidate(name, request[_BOX]), name)

    app.router.add_post(PREFIX + "/lending/offer", offer)
    app.router.add_post(PREFIX + "/lending/work", work)
    app.router.add_post(PREFIX + "/lending/state", state)
    app.router.add_get(PREFIX + "/lending/files/{name}/{digest}", file)
    app.router.add_get(PREFIX + "/lending/candidates/{name}", candidate)


def _add_groups(app: web.Application, desk: GroupsDesk) -> None:
    """The routes of groups over boxes."""

    async def answer(request: web.Request) -> web.Response:
        decoded(GroupsAsk, await request.read())
        return _message(await asyncio.to_thread(desk.answer, request[_BOX]))

    async def file(request: web.Request) -> web.StreamResponse:
        digest = request.match_info["digest"]
        return _file(await asyncio.to_thread(desk.file, digest), digest)

    async def student(request: web.Request) -> web.StreamResponse:
        digest = request.match_info["digest"]
        return _file(await asyncio.to_thread(desk.student, digest, request[_BOX]), digest)

    app.router.add_post(PREFIX + "/groups", answer)
    app.router.add_get(PREFIX + "/groups/files/{digest}", file)
    app.router.add_get(PREFIX + "/groups/students/{digest}", student)


def _add_questions(app: web.Application, desk: QuestionDesk) -> None:
    """The routes of questions to all boxes."""

    async def ask(request: web.Request) -> web.Response:
        return _message(await desk.ask(decoded(FleetQuestion, await request.read()), request[_BOX]))

    async def answer(request: web.Request) -> web.Response:
        found = await desk.answer(decoded(BoxQuestion, await request.read()), request[_BOX])
        return web.Response(body=found, content_type="application/json")

    async def picture(request: web.Request) -> web.Response:
        found = await desk.picture(decoded(PictureQuestion, await request.read()), request[_BOX])
        return web.Response(body=found, content_type="image/jpeg")

    app.router.add_post(PREFIX + "/questions", ask)
    app.router.add_post(PREFIX + "/question", answer)
    app.router.add_post(PREFIX + "/picture", picture)


def _add_jobs(app: web.Application, desk: JobsDesk) -> None:
    """The routes of jobs."""

    async def report(request: web.Request) -> web.Response:
        return _message(await desk.report(decoded(JobsAsk, await request.read()), request[_BOX]))

    async def submit(request: web.Request) -> web.Response:
        return _message(await desk.submit(decoded(JobSubmission, await request.read()), request[_BOX]))

    async def withdraw(request: web.Request) -> web.Response:
        return _message(await desk.withdraw(decoded(JobWithdrawal, await request.read()), request[_BOX]))

    app.router.add_post(PREFIX + "/jobs", report)
    app.router.add_post(PREFIX + "/jobs/submit", submit)
    app.router.add_post(PREFIX + "/jobs/withdraw", withdraw)


def _file(path: Path | None, name: str) -> web.StreamResponse:
    if path is None:
        raise NotFound(f"no file of {name[:64]} here")
    return web.FileResponse(path)


def _message(answer: Any) -> web.Response:
    return web.Response(body=encoded(answer), content_type="application/json")


def _json(value: Any, status: int) -> web.Response:
    return web.Response(body=json.dumps(value).encode(), status=status, content_type="application/json")
