"""The serving runtime: the front, the executors and all that is known of served models, wired together.

Events go to the reorganiser in its thread, its instructions to `ServingInstructions`. Everything else runs on the
control process's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edge.core.application_sources import ObjectsDescribed
from edge.core.clock import Clock
from edge.core.errors import InvalidValue, NotFound
from edge.core.front_messages import RepositoryCommand
from edge.core.journal_kinds import JournalNote
from edge.core.serving import DeviceTable, ServedModel, ServingPlan, ServingProblem
from edge.core.shares import ShareCaps
from edge.core.workers import FRONT
from edge.runtime.application_status import ApplicationStatus, applications_status
from edge.runtime.process import WorkerMain
from edge.runtime.serving_cameras import CamerasNow, CameraWatch
from edge.runtime.serving_check import check_version
from edge.runtime.serving_commands import RepositoryCommands
from edge.runtime.serving_demand import Offer
from edge.runtime.serving_drift import DriftWatch
from edge.runtime.serving_executors import Executors
from edge.runtime.serving_front import ServingFront, check_port, front_share_per_rate
from edge.runtime.serving_instructions import ServingInstructions
from edge.runtime.serving_loading import ModelLoader
from edge.runtime.serving_measuring import Measuring
from edge.runtime.serving_models import OfferedModels
from edge.runtime.serving_planning import PlanningThread
from edge.runtime.serving_profiler import ServingProfiler
from edge.runtime.serving_shares import ServingShares, front_more
from edge.runtime.serving_sources import ServingSources, SourceCameras
from edge.runtime.serving_status import (
    ExecutorStatus,
    InterferenceStatus,
    NotServing,
    ServedStatus,
    executors_status,
    interference,
    is_up,
    model_status,
    reasons,
)
from edge.runtime.serving_tables import DeviceTables
from edge.runtime.supervisor import Supervisor
from edge.runtime.tasks import BackgroundTasks
from edge.serving.repository import Repository
from edge.settings import ServingPlanning, ServingSettings, WebSettings
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.follow import plan_function, reorganiser_settings
from scheduler.gpulets.pipelines import PipelineDemand
from scheduler.gpulets.reorganiser import Reorganiser
from scheduler.gpulets.reorganiser_settings import ShareKindLimits
from scheduler.joint.split_policies import split_policy


@dataclass(frozen=True)
class ListenStatus:
    """Where the front listens; `port` None: it does not yet."""

    host: str
    port: int | None


@dataclass(frozen=True)
class FrontStatus:
    """The front. `turned_away`: messages and streams by gRPC that had no room, or came too slowly."""

    up: bool
    http: ListenStatus
    grpc: ListenStatus
    turned_away: int


@dataclass(frozen=True)
class SharesStatus:
    """Shares of the device, 0-1 (see `edge.appliance.answers.serving.ServingShare`)."""

    reserved: float
    planned: float
    most: float
    beside_cameras: float
    measuring: float
    front_more: float


@dataclass(frozen=True)
class ServingStatus:
    """The served models: where, how fast, and those that cannot be served."""

    front: FrontStatus
    settings: ServingPlanning
    share: SharesStatus
    reorganising: bool
    models: tuple[ServedStatus, ...]
    applications: tuple[ApplicationStatus, ...]
    executors: tuple[ExecutorStatus, ...]
    interference: InterferenceStatus
    plan: ServingPlan | None
    problem: ServingProblem | None


class ServingRuntime:
    """Owns front and executors. `front` is the main of the front process (the appliance knows it). `cameras` tells
    what cameras need; `reserve(share)` is called before executors take a share and after they gave it back: from then
    on cameras have the rest. `note(kind, data)` journals, `complain(code, message)` tells the operator. `keys`
    is the file of the API tokens that clients need; None: they need none. `changed` receives each model that a client
    loaded or unloaded. `web`: names and certificate (ServingFront). `sources` are the cameras that may feed
    applications; `described` gets what these say of a camera's objects."""

    def __init__(
        self,
        settings: ServingSettings,
        data: Path,
        supervisor: Supervisor,
        caps: ShareCaps,
        clock: Clock,
        front: WorkerMain,
        cameras: Callable[[], CamerasNow],
        reserve: Callable[[float], None],
        note: JournalNote,
        complain: Callable[[str, str], None],
        keys: Path | None = None,
        changed: Callable[[RepositoryCommand], None] = lambda _: None,
        web: WebSettings | None = None,
        sources: SourceCameras | None = None,
        described: Callable[[ObjectsDescribed], None] = lambda _: None,
    ) -> None:
        self.settings, self.planning = settings, settings.planning
        self._data, self._supervisor, self._caps, self._clock = data / "serving", supervisor, caps, clock
        socket = self._data.absolute() / "front.sock"
        most = int(settings.max_upload_mb * 2**20) if settings.uploads else 0
        self._repository = Repository(Path(settings.folder), most)
        self._tasks = BackgroundTasks(complain)
        self.planner = PlanningThread(self._reorganiser(), complain)
        send, spawn = self.planner.send, self._tasks.spawn
        self.tables = DeviceTables(self._data, caps, complain)
        self.tables.watched = self.planning.latencies == "watched"
        self.models = OfferedModels(self.tables, lambda: self.planning, clock, send)
        self.shares = ServingShares(clock, send, reserve, lambda: self.planning)
        self.cameras = CameraWatch(
            cameras, self.shares, lambda: self.planning, self._front_more, lambda: self.shares.budgets.pool
        )
        self.sources = ServingSources(sources or SourceCameras(), self.models, supervisor.send, socket, note)
        self.executors = Executors(supervisor, socket, clock, send, note, spawn)
        self.front = ServingFront(
            settings, socket, keys, front, supervisor, clock, self.executors.expected, send, note, web,
            self.sources.expected, described,
        )  # fmt: skip
        measuring = Measuring(
            settings, self.models, self.tables, self.shares, cameras,
            partial(ServingProfiler, supervisor, caps, clock), note, complain, spawn,
        )  # fmt: skip
        self.drift = DriftWatch(
            self.models, self.tables, measuring, lambda: self.planner.view, lambda: self.front.layout, note, send
        )
        self.loader = ModelLoader(
            self._repository, self.models, self.tables, measuring, self.planner, lambda: self.front.layout, clock,
            complain, settings.measure, partial(check_version, limit_bytes=supervisor.memory_limit_bytes),
            self.sources.check,
        )  # fmt: skip
        self.commands = RepositoryCommands(
            self._repository, self.models, self.loader, lambda: self.planner.view, lambda: self.front.layout,
            partial(supervisor.send, FRONT.name), changed,
        )  # fmt: skip
        self._instructions = ServingInstructions(
            supervisor, self.shares, self.executors, self.front, self.loader, self.tables,
            lambda: self.planner.view.table, note, complain,
        )  # fmt: skip

    def _reorganiser(self) -> Reorganiser:
        caps = self._caps
        return Reorganiser(
            plan_function(self.planning.policy),
            reorganiser_settings(self.planning),
            Capacity(0.0, 0.0),
            None,
            ShareKindLimits(caps.resize == "live", caps.min_share, caps.oversubscribe),
            split_policy(self.planning.split),
        )

    # -- life

    async def open(self) -> None:
        """Check what can be wrong, start the front, and take the models in one after another in the background.

        Raises MagpieError (no such folder, a table that cannot be read, a port that is taken)."""
        await self.tables.open(self.settings.tables)
        names = await asyncio.to_thread(self._repository.names)
        unknown = sorted(set(self.settings.load or ()) - set(names))
        if unknown:
            raise NotFound(f"serving.load: no such model in {self.settings.folder}: {', '.join(unknown)}")
        for listen in (self.settings.http, self.settings.grpc):
            check_port(listen.host, listen.port)
        self._data.mkdir(parents=True, exist_ok=True)
        await self.cameras.look()
        self.front.start(self.shares.budgets.after(self.drift.report), self._command)
        self._tasks.spawn(self.planner.run(self._instructions.do), "reorganise")
        self._tasks.spawn(self.cameras.watch(), "cameras' need")
        self._tasks.spawn(self.sources.watch(), "cameras as sources")
        wanted = [n for n in names if self.settings.load is None or n in self.settings.load]
        for name in wanted:
            self.models.offers[name] = Offer(name)
        self._tasks.spawn(self.loader.take_in(wanted), "take models in")

    async def close(self) -> None:
        """Drain: the front answers what it has, executors end."""
        self.planner.close()
        await self._tasks.end()
        await self.front.stop()
        await self.executors.close()
        (self._data / "front.sock").unlink(missing_ok=True)

    def _command(self, command: RepositoryCommand) -> None:
        self._tasks.spawn(self.commands.carry_out(command), f"{command.action} {command.model}")

    def _front_more(self) -> float:
        """The share that the front needs beyond its own at the rates that are planned for."""
        rate = sum(self.planner.view.held.values())
        return front_more(rate, self.front_share_per_rate, self.settings.front_share)

    # -- settings and state

    def change(self, planning: ServingPlanning) -> None:
        """New settings, in force at once. Raises InvalidValue for an unknown policy or model."""
        offers = self.models.offers
        for name in planning.models:
            if name not in offers and name not in self.planning.models:
                known = ", ".join(sorted(offers)) or "none"
                raise InvalidValue(f"models.{name}", name, f"a model that is there: {known}")
            application = offers[name].application if name in offers else None
            if application is not None and application.source is not None and planning.models[name].rate is not None:
                given = planning.models[name].rate
                raise InvalidValue(f"models.{name}.rate", given, "no rate: a camera is the source, which has its own")
        plan, split = plan_function(planning.policy), self.shares.budgets.fit(planning.split)
        before, self.planning = self.planning, planning
        rules = reorganiser_settings(planning)
        policies = (planning.policy, planning.split)
        if rules != reorganiser_settings(before) or policies != (before.policy, before.split):
            self.planner.send(r.ServingRulesChanged(self._clock.monotonic(), rules, plan, split))
        if (planning.max_share, planning.cameras_priority) != (before.max_share, before.cameras_priority):
            self._tasks.spawn(self.cameras.look(anew=True), "cameras' need")
        if planning.models != before.models:
            self.models.changed()
        self.drift.follow(self._clock.monotonic(), planning.latencies == "watched")

    def status(self) -> ServingStatus:
        """The models served, where and how fast, and those that are not."""
        view, front, offers = self.planner.view, self.front, self.models.offers
        listening, http, grpc = front.listening, self.settings.http, self.settings.grpc
        return ServingStatus(
            front=FrontStatus(
                front.up,
                ListenStatus(http.host, None if listening is None else listening.http_port),
                ListenStatus(grpc.host, None if listening is None else listening.grpc_port),
                front.counts.turned_away,
            ),
            settings=self.planning,
            share=SharesStatus(
                reserved=view.reserved,
                planned=view.plan.total_share if view.plan else 0.0,
                most=view.capacity.most,
                beside_cameras=view.capacity.beside,
                measuring=self.shares.measuring,
                front_more=self.shares.front_more,
            ),
            reorganising=view.in_flight,
            models=tuple(model_status(o, offers, view, front.counts) for _, o in sorted(offers.items())),
            applications=applications_status(view, front.stages, self.sources.status),
            executors=executors_status(view, front.layout, front.traffic, self._supervisor.pid),
            interference=interference(self.tables.table, front.layout),
            plan=view.plan,
            problem=view.problem,
        )

    def reasons(self) -> tuple[NotServing, ...]:
        """The reasons for `/readyz`."""
        return reasons(self.models.offers, self.planner.view, self.front.up)

    @property
    def ready(self) -> bool:
        """The front listens, and something that shall be served is."""
        if not self.front.up:
            return False
        offers = self.models.offers
        return not offers or any(is_up(o, offers, self.planner.view) for o in offers.values())

    def box(self) -> tuple[tuple[ServedModel, ...], DeviceTable | None, tuple[PipelineDemand, ...]]:
        """For the admission answer: the models, with objectives of their own, and applications at the rates that are
        planned for now, and their table."""
        wanted, _ = self.models.demands()
        view = self.planner.view
        models = tuple(d.own(view.held.get(d.version.model, d.rate)) for d in wanted)
        return tuple(m for m in models if self.tables.knows(m.name)), self.tables.table, view.pipelines

    @property
    def front_share_per_rate(self) -> float:
        """The front's cost of a request per second, as a share of the device: nothing where that is a GPU."""
        return front_share_per_rate(self._caps)

    @property
    def warm_share(self) -> float:
        """Share that is kept free so that new partitions can be warmed."""
        return max(reorganiser_settings(self.planning).warm_share, self._caps.min_share)
