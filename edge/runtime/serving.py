"""Served models: carries out the reorganiser's instructions with a front process and executors, and tells it what came.

Everything here runs on the control process's event loop. Planning may take a while and runs in a thread, one event
after the other, so that instructions are carried out in the order in which they were decided.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import math
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, singledispatchmethod
from pathlib import Path
from typing import Any

from edge.core.applications import Application
from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, MagpieError, NotFound, Unavailable, WorkerFailed
from edge.core.layout import (
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
    ServedVersion,
    TrafficReport,
)
from edge.core.serving import DeviceTable, ServedModel
from edge.core.shares import ShareCaps
from edge.core.workers import FRONT, Worker
from edge.runtime.executor_worker import ExecutorSpec, SetVersions, VersionsLoaded, executor_worker
from edge.runtime.process import WorkerMain
from edge.runtime.serving_cameras import CamerasNow
from edge.runtime.serving_check import check_version
from edge.runtime.serving_demand import Offer, demands
from edge.runtime.serving_profiler import ProfileOptions, ServingProfiler
from edge.runtime.serving_status import (
    Counts,
    View,
    executors_status,
    interference,
    look,
    model_status,
    reasons,
    state_of,
)
from edge.runtime.serving_tables import cut, keep_table, merged, read_table
from edge.runtime.supervisor import Supervisor
from edge.runtime.tasks import BackgroundTasks
from edge.serving.repository import Repository
from edge.settings import ServingPlanning, ServingSettings
from scheduler.admission import cameras_need
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.drift import DriftRule, DriftState, Reprofile, ScaleTable, batch_times, scaled
from scheduler.gpulets.drift import step as drift_step
from scheduler.gpulets.fitting import Capacity, PlanFunction
from scheduler.gpulets.policies import serving_policy, smallest_plan
from scheduler.gpulets.rates import RateSettings
from scheduler.gpulets.reorganiser import Reorganiser
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings, ShareKindLimits
from scheduler.gpulets.versions import loads_alike
from scheduler.policies import window_policy

log = logging.getLogger(__name__)

#: An executor that dies so often in a row is given up (the Supervisor waits 0, 1, 2, 4 s between).
_MAX_RESTARTS = 4
#: A client that loads a model waits at most so long; loading goes on after it.
_LOAD_S = 300.0
#: Seconds between two looks at what cameras need.
_LOOK_S = 2.0
#: Changes of the share left to serving below this are none.
_CAPACITY_STEP = 0.005
#: CPU time of a request in the front and the kernel (benchmarks/bench_front.py: some 2,000 on a core each second).
FRONT_S_PER_REQUEST = 0.0006
#: At the start models that are ready within so long of each other are placed together.
_TOGETHER_S = 10.0
#: With less time than this for measuring, models are not measured beside each other.
_PAIRS_S = 120.0
#: Shares in percent at which models are measured; fewer where less is free.
_SHARES = (5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100)


def plan_function(policy: str) -> PlanFunction:
    """The smallest plan that the policy of this name finds. Raises InvalidValue for an unknown name."""
    chosen = serving_policy(policy)
    return lambda problem, table: smallest_plan(problem, table, chosen)


def reorganiser_settings(planning: ServingPlanning) -> ReorganiserSettings:
    """The operator's settings as the reorganiser takes them."""
    return ReorganiserSettings(
        rates=RateSettings(
            half_life_s=planning.half_life_s,
            rise_half_life_s=planning.rise_half_life_s,
            headroom=planning.headroom,
        ),
        grow_dwell_s=planning.grow_dwell_s,
        shrink_dwell_s=planning.shrink_dwell_s,
    )


class ServingRuntime:
    """Owns front and executors. `front` is the main of the front process (the appliance knows it). `cameras` tells
    what cameras need; `reserve(share)` is called before executors take a share and after they gave it back: from then
    on cameras have the rest. `note(kind, data)` journals, `complain(code, message)` tells the operator. `keys`
    is the file of the API tokens that clients need; None: they need none. `changed` is told of each model that a client
    loaded or unloaded."""

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
        note: Callable[..., None],
        complain: Callable[[str, str], None],
        keys: Path | None = None,
        changed: Callable[[RepositoryCommand], None] = lambda _: None,
    ) -> None:
        self._changed = changed
        self.settings, self.planning = settings, settings.planning
        self._keys = keys
        self.listening: FrontListening | None = None
        self.traffic: TrafficReport | None = None
        self.view = View()
        self.table: DeviceTable | None = None
        self._data, self._supervisor, self._caps, self._clock = data / "serving", supervisor, caps, clock
        self._socket = self._data.absolute() / "front.sock"
        self._front, self._cameras, self._reserve = front, cameras, reserve
        self._note, self._complain = note, complain
        most = int(settings.max_upload_mb * 2**20) if settings.uploads else 0
        self._repository = Repository(Path(settings.folder), most)
        self._offers: dict[str, Offer] = {}
        self._checked: set[tuple[str, str]] = set()
        self._need_key: tuple[Any, ...] | None = None
        self._need = Capacity(0.0, 0.0)
        #: Shares of the device: what the reorganiser holds, the profiler, the front beyond its own.
        self._reserved = self._measuring = self._front_more = 0.0
        self._drift = DriftState()
        self._expected: dict[str, ExpectExecutor] = {}
        self._layout: Layout | None = None
        self._front_listens = False
        self._served: dict[str, list[asyncio.Future[None]]] = {}
        self._events: asyncio.Queue[r.Event] = asyncio.Queue()
        self._tasks = BackgroundTasks(self._complain)
        self._locks: dict[str, asyncio.Lock] = {}
        self._measure_lock = asyncio.Lock()
        self._closing = False
        self._counts = Counts()
        self._decided = asyncio.Event()
        self._needs_look = asyncio.Lock()
        self._reorganiser = Reorganiser(
            plan_function(self.planning.policy),
            reorganiser_settings(self.planning),
            self._need,
            None,
            ShareKindLimits(caps.resize == "live", caps.min_share, caps.oversubscribe),
        )

    # -- life

    async def open(self) -> None:
        """Check what can be wrong, start the front, and take the models in one after another in the background.

        Raises MagpieError (no such folder, a table that cannot be read, a port that is taken)."""
        tables = [await asyncio.to_thread(read_table, Path(name)) for name in self.settings.tables]
        own = self._table_path()
        if own.is_file():
            try:
                tables.append(await asyncio.to_thread(read_table, own))
            except MagpieError as error:
                self._complain("serving_table", f"the measured latencies are not used: {error}")
        self.table = merged(tables)
        names = await asyncio.to_thread(self._repository.names)
        unknown = sorted(set(self.settings.load or ()) - set(names))
        if unknown:
            raise NotFound(f"serving.load: no such model in {self.settings.folder}: {', '.join(unknown)}")
        for listen in (self.settings.http, self.settings.grpc):
            check_port(listen.host, listen.port)
        self._data.mkdir(parents=True, exist_ok=True)
        await self._look_at_cameras()
        self._supervisor.start(
            FRONT,
            self.settings.front_share,
            self._front,
            self._front_spec,
            self._front_message,
            on_lost=self._front_lost,
            # It answers for all models: what it is late with, all are late with. So it holds no share of its own.
            shared=False,
        )
        self._tasks.spawn(self._decide(), "reorganise")
        self._tasks.spawn(self._watch_cameras(), "cameras' need")
        wanted = [n for n in names if self.settings.load is None or n in self.settings.load]
        for name in wanted:
            self._offers[name] = Offer(name)
        self._tasks.spawn(self._take_all_in(wanted), "take models in")

    async def close(self) -> None:
        """Drain: the front answers what it has, executors end."""
        self._closing = True
        await self._tasks.end()
        await self._supervisor.stop(FRONT.name, 10.0)
        await asyncio.gather(*(self._supervisor.stop(name) for name in list(self._expected)))
        self._socket.unlink(missing_ok=True)

    # -- events in, instructions out

    def tell(self, event: r.Event) -> None:
        """Hand an event to the reorganiser; what it orders is carried out soon after."""
        if not self._closing:
            self._events.put_nowait(event)

    async def _decide(self) -> None:
        while True:
            event = await self._events.get()
            try:
                orders = await asyncio.to_thread(self._reorganiser.handle, event)
            except Exception as error:
                # A policy that fails must not end the serving of what is served; people are told.
                log.exception("reorganiser: %s", type(event).__name__)
                self._complain("serving_plan", f"no new serving plan: {error}")
                continue
            for order in orders:
                try:
                    self._carry_out(order)
                except MagpieError as error:
                    self._complain(error.code, str(error))
                except Exception as error:  # one order that fails must not end the reorganising
                    log.exception("reorganiser: %s", type(order).__name__)
                    self._complain("internal", f"{type(order).__name__} failed: {error}")
            self.view = look(self._reorganiser)
            self._decided.set()

    @singledispatchmethod
    def _carry_out(self, order: r.Instruction) -> None:
        raise TypeError(f"no way to carry out {type(order).__name__}")

    @_carry_out.register
    def _(self, order: r.ReserveShare) -> None:
        self._reserved = order.share
        self._reserve_now()

    @_carry_out.register
    def _(self, order: r.StartExecutor) -> None:
        expect = ExpectExecutor(order.executor, secrets.token_urlsafe(24))
        self._expected[order.executor] = expect
        self._supervisor.send(FRONT.name, expect)
        self._supervisor.start(
            Worker(order.executor, "executor"),
            order.share,
            executor_worker,
            ExecutorSpec(order.executor, str(self._socket), expect.token, order.versions),
            partial(self._executor_message, order.executor),
            on_lost=partial(self._executor_lost, order.executor),
            on_given_up=partial(self._executor_given_up, order.executor),
            max_restarts=_MAX_RESTARTS,
        )
        models = [v.key for v in order.versions]
        self._note(
            "serving.executor_started", data={"executor": order.executor, "models": models, "share": order.share}
        )

    @_carry_out.register
    def _(self, order: r.ResizeExecutor) -> None:
        self._supervisor.resize(order.executor, order.share)

    @_carry_out.register
    def _(self, order: r.SetLayout) -> None:
        self._layout = order.layout
        self._supervisor.send(FRONT.name, order.layout)

    @_carry_out.register
    def _(self, order: r.StopExecutor) -> None:
        self._tasks.spawn(self._stop_executor(order.executor), f"stop {order.executor}")

    @_carry_out.register
    def _(self, order: r.TrimExecutor) -> None:
        self._supervisor.send(order.executor, SetVersions(order.versions))

    @_carry_out.register
    def _(self, order: r.RecordPlan) -> None:
        table = self._reorganiser.state.table
        data = {
            "cause": order.cause,
            "policy": order.plan.policy,
            "share": order.plan.total_share,
            "problem": order.problem.to_json() | {"device_file": self._kept_table(table)},
            "plan": order.plan.to_json(),
        }
        self._note("serving.plan", data=data)

    @_carry_out.register
    def _(self, order: r.VersionServed) -> None:
        self._note("serving.version", data={"model": order.model, "version": order.version})
        self._resolve(order.model, None)

    @_carry_out.register
    def _(self, order: r.VersionFailed) -> None:
        offer = self._offers.get(order.model)
        serving = f"; version {order.serving} goes on" if order.serving else ""
        words = f"{order.model} version {order.version} cannot be served: {order.reason}{serving}"
        if offer is not None and offer.version is not None and order.serving:
            before = next((m for m in (self._layout.models if self._layout else ()) if m.model == order.model), None)
            offer.version = before or offer.version
        self._complain("model_failed", words)
        self._resolve(order.model, WorkerFailed(words))

    @_carry_out.register
    def _(self, order: r.Note) -> None:
        self._note(f"serving.{order.kind}", data={"message": order.message, **order.data})
        if order.kind in ("model_refused", "model_capped", "executor_failed"):
            self._complain(order.kind, order.message)

    async def _stop_executor(self, name: str) -> None:
        await self._supervisor.stop(name)
        self._forget(name)
        self.tell(r.ExecutorStopped(self._now(), name))

    def _forget(self, executor: str) -> None:
        if self._expected.pop(executor, None) is not None:
            self._supervisor.send(FRONT.name, ForgetExecutor(executor))

    # -- front and executors

    def _front_spec(self) -> FrontSpec:
        """What the front is started with; when it is started again it listens where it listened before."""
        s, listening = self.settings, self.listening
        return FrontSpec(
            str(self._socket),
            tuple(self._expected.values()),
            s.http.host,
            listening.http_port if listening else s.http.port,
            s.grpc.host,
            (listening.grpc_port if listening else s.grpc.port),
            int(s.max_body_mb * 2**20),
            keys="" if self._keys is None else str(self._keys.absolute()),
        )

    def _front_message(self, message: Any) -> None:
        now = self._now()
        if isinstance(message, TrafficReport):
            self._counted(message)
            self.tell(r.TrafficMeasured(now, message))
            self._watch_drift(now, message)
        elif isinstance(message, ExecutorConnected):
            self.tell(r.ExecutorConnected(now, message.executor))
        elif isinstance(message, ExecutorDrained):
            self.tell(r.ExecutorDrained(now, message.executor))
        elif isinstance(message, ExecutorGone):
            if message.failed:
                self._note("serving.requests_failed", data={"executor": message.executor, "requests": message.failed})
            self.tell(r.ExecutorLost(now, message.executor, "its connection ended"))
        elif isinstance(message, FrontListening):
            self.listening, self._front_listens = message, True
            self._note("serving.listening", data={"http_port": message.http_port, "grpc_port": message.grpc_port})
            if self._layout is not None:
                self._supervisor.send(FRONT.name, self._layout)
        elif isinstance(message, RepositoryCommand):
            self._tasks.spawn(self._command(message), f"{message.action} {message.model}")

    def _front_lost(self, reason: str) -> None:
        """What was open when it last told died with it: failed, as clients see it. What came after is in no report."""
        last, self.traffic, self._front_listens = self.traffic, None, False
        if last is not None:
            data = {
                "requests": self._counts.lost(last),
                "unreported_s": round(self._now() - last.at_s, 2),
                "reason": reason,
            }
            self._note("serving.front_lost", data=data)
        self.tell(r.FrontLost(self._now()))

    def _executor_message(self, executor: str, message: Any) -> None:
        if not isinstance(message, VersionsLoaded) or not message.failed:
            return
        # Half of what it shall hold is not enough: it ends, and what is at fault is said.
        reason = "; ".join(f"{key}: {words}" for key, words in message.failed.items())
        models = tuple(key.rpartition("/")[0] for key in message.failed)
        self._tasks.spawn(self._give_up(executor, reason, models), f"give {executor} up")

    async def _give_up(self, executor: str, reason: str, models: tuple[str, ...]) -> None:
        await self._supervisor.stop(executor)
        self._forget(executor)
        self.tell(r.ExecutorFailed(self._now(), executor, reason, models))

    def _executor_lost(self, executor: str, reason: str) -> None:
        self.tell(r.ExecutorLost(self._now(), executor, reason))

    def _executor_given_up(self, executor: str, reason: str) -> None:
        self._forget(executor)
        self.tell(r.ExecutorFailed(self._now(), executor, reason))

    # -- traffic

    def _counted(self, report: TrafficReport) -> None:
        self.traffic = report
        self._counts.add(report)

    def _watch_drift(self, now: float, report: TrafficReport) -> None:
        """Live batch times against the table, while partitions are as planned."""
        table, layout = self._reorganiser.state.table, self._layout
        if table is None or layout is None or self.view.in_flight or report.layout != layout.number:
            return
        routes = {route.executor: route for route in layout.routes}
        times = []
        for executor in report.executors:
            route = routes.get(executor.executor)
            if route is None:
                continue
            for seen in executor.models:
                share, planned = route.gpulet.percent, route.batch_ms.get(seen.model)
                batch = next((b.batch for b in route.gpulet.models if b.model == seen.model), None)
                if planned is None or batch is None:
                    continue
                try:
                    slowdown = max(1.0, planned / table.solo_ms(seen.model, share, batch))
                    found = batch_times(table, share, seen, slowdown)
                except InvalidValue:
                    continue  # planned with the table before this one, which had other shares or batches
                if found is not None:
                    times.append(found)
        self._drift, orders = drift_step(DriftRule(), self._drift, now, times)
        slower = [o for o in orders if isinstance(o, ScaleTable)]
        # Scaling the table and measuring again may both follow from one thing that was seen.
        for model, share, reason in dict.fromkeys((o.model, o.share, o.reason) for o in orders):
            self._note("serving.drift", data={"model": model, "share": share, "message": reason})
        if slower and self.table is not None:
            self.table = scaled(self.table, slower)
            self._table_changed()
        again = sorted({o.model for o in orders if isinstance(o, Reprofile)})
        if again:
            self._measure_again(again)

    def _measure_again(self, models: Sequence[str]) -> None:
        """Measure models whose latencies are off, if as much is free as was measured in; else people are told. Until
        then plans reckon with what was seen."""
        offers = [o for n in models if (o := self._offers.get(n)) is not None and o.version is not None]
        table = self.table
        if not offers or table is None or self._measure_lock.locked():
            return
        largest = max(max(table.latency_ms[o.name]) for o in offers if o.name in table.latency_ms)
        free = int(100 * (self._need.most - self._reserved) + 1e-6)
        if self.settings.measure and self._cameras().window is None and free >= largest:
            self._tasks.spawn(self._measure([o.version for o in offers if o.version is not None]), "measure again")
            return
        names = ", ".join(o.name for o in offers)
        self._complain(
            "serving_drift", f"{names}: batches do not take what was measured; measure again (magpie profile) when idle"
        )

    # -- models

    async def _take_all_in(self, names: Sequence[str]) -> None:
        """At the start: check each, measure what is not measured, all together; what is known serves at once."""
        missing = []
        told_s = self._now()
        for name in names:
            offer = self._offers.get(name)
            if offer is None:
                continue  # unloaded before its turn
            try:
                async with self._lock(name):
                    version = await self._resolved(offer)
                    if version is None:
                        continue
                    await self._check(offer, version)
                    offer.version = version
                    if self._known(version) or not self.settings.measure:
                        offer.state = "offered"
                    else:
                        missing.append(version)
                        offer.state = "measuring"
            except (MagpieError, OSError) as error:
                self._failed(offer, error)
            # Together they are placed once; but nobody waits long for those that come after.
            if self._now() - told_s > _TOGETHER_S:
                told_s = self._now()
                self._models_changed()
        self._models_changed()
        if missing:
            await self._measure(missing)
            self._models_changed()

    async def _resolved(self, offer: Offer) -> ServedVersion | None:
        """The version as it is on disk now; None for an application, which is taken in here. Raises MagpieError."""
        name = offer.name
        if await asyncio.to_thread(self._repository.is_pipeline, name):
            offer.application = await asyncio.to_thread(self._repository.application, name)
            offer.state, offer.reason = "offered", ""
            return None
        return await asyncio.to_thread(self._repository.resolve, name)

    async def _check(self, offer: Offer, version: ServedVersion) -> None:
        """Load and run it once, away from everything else. Raises MagpieError with the reason."""
        key = (version.key, version.digest)
        if version.digest and key in self._checked:
            return
        offer.state, offer.reason = "checking", ""
        await asyncio.to_thread(check_version, version)
        self._checked.add(key)

    def _failed(self, offer: Offer, error: MagpieError | OSError) -> None:
        offer.reason = str(error)
        if offer.version is None and offer.application is None:
            offer.state = "failed"
        self._complain("model_failed", f"{offer.name} is not served: {error}")

    def _known(self, version: ServedVersion) -> bool:
        return self.table is not None and version.model in self.table.latency_ms

    async def _measure(self, versions: Sequence[ServedVersion]) -> None:
        """Measure models on this device, in the share that is left, and keep the table."""
        async with self._measure_lock:
            free = max(0.0, self._need.most - self._reserved)
            most = int(100 * free + 1e-6)
            offers = [self._offers[v.model] for v in versions if v.model in self._offers]
            if most < 5:
                for offer in offers:
                    offer.reason = f"only {most} % of the device are free: too little to measure it"
                    offer.state = "offered"
                return
            for offer in offers:
                offer.state = "measuring"
            self._measuring = most / 100
            self._reserve_now()
            self._capacity_changed()
            budget = self.settings.measure_s
            usual = ProfileOptions(most_share=most) if budget >= _PAIRS_S else ProfileOptions.quick(most)
            options = replace(usual, shares=_SHARES, budget_s=budget)
            tell = partial(self._say, "serving.measuring")
            profiler = ServingProfiler(self._supervisor, self._caps, self._clock, options, tell)
            try:
                table = await profiler.profile(versions, self.table)
                self.table = merged(t for t in (self.table, table) if t is not None)
                await asyncio.to_thread(keep_table, self._table_path(), table)
                for offer in offers:
                    if (why := profiler.failed.get(offer.name)) is not None:
                        offer.reason = f"it could not be measured: {why}"
                        self._complain("model_not_measured", f"{offer.name}: {why}")
            except MagpieError as error:
                for offer in offers:
                    offer.reason = f"it could not be measured: {error}"
                self._complain("model_not_measured", f"{', '.join(v.model for v in versions)}: {error}")
            finally:
                self._measuring = 0.0
                self._reserve_now()
                self._capacity_changed()
                for offer in offers:
                    offer.state = "offered"
        self._table_changed()

    def _say(self, kind: str, line: str) -> None:
        self._note(kind, data={"message": line})

    def _table_path(self) -> Path:
        device = "".join(c if c.isalnum() or c in "-_" else "-" for c in self._caps.device)
        return self._data / f"table-{device}-{self._caps.units:g}.json"

    def _kept_table(self, table: DeviceTable | None) -> str | None:
        """The file that holds the table of a plan, so that the plan can be made again from it."""
        if table is None:
            return None
        text = json.dumps(table.to_json(), sort_keys=True, separators=(",", ":"))
        path = self._data / "tables" / f"{_digest(text)}.json"
        if not path.exists():
            try:
                keep_table(path, table)
            except MagpieError as error:
                self._complain(error.code, str(error))
        return str(path.absolute())

    def _demands(self) -> tuple[tuple[Demand, ...], tuple[Application, ...]]:
        return demands(self._offers.values(), self.planning.models)

    def _models_changed(self) -> None:
        wanted, applications = self._demands()
        self.tell(r.ModelsChanged(self._now(), wanted, applications, self._cut()))

    def _cut(self) -> DeviceTable | None:
        return cut(self.table, [o.version for o in self._offers.values() if o.version is not None])

    def _table_changed(self) -> None:
        table = self._cut()
        if table is not None and table != self._reorganiser.state.table:
            self.tell(r.TableChanged(self._now(), table))

    # -- what clients order

    async def _command(self, command: RepositoryCommand) -> None:
        answer = RepositoryAnswer(command.number)
        try:
            if command.action == "index":
                answer = replace(answer, index=tuple(await self.index()))
            elif command.action == "load":
                await self.load(command.model, command.parameters)
            elif command.action == "unload":
                await self.unload(command.model)
            else:
                raise InvalidValue("action", command.action, "index, load or unload")
            if command.action != "index":
                self._changed(command)
        except MagpieError as error:
            answer = replace(answer, error=str(error), code=error.code)
        except Exception:  # a client waits for an answer
            log.exception("%s %s", command.action, command.model)
            words = f"{command.action}: something went wrong inside the server; its log tells more"
            answer = replace(answer, error=words, code=Unavailable.code)
        self._supervisor.send(FRONT.name, answer)

    async def index(self) -> list[dict[str, str]]:
        """Every version in the repository: [{"name", "version", "state", "reason"}]; READY, LOADING, UNAVAILABLE."""
        layout = self._layout
        in_force = {} if layout is None else {m.model: m.version for m in layout.models}
        routed = {} if layout is None else {b.model for route in layout.routes for b in route.gpulet.models}
        out = []
        for entry in await asyncio.to_thread(self._repository.index):
            name, version = entry["name"], entry["version"]
            offer, state, reason = self._offers.get(name), "UNAVAILABLE", entry["reason"]
            if offer is None:
                reason = reason or "unloaded"
            elif offer.application is not None:
                state = "READY"
            elif name in self.view.refused:
                reason = self.view.refused[name]
            elif in_force.get(name) == version and name in routed:
                state = "READY"
            elif offer.state == "failed":
                reason = offer.reason
            elif offer.version is None or offer.version.version == version:
                state, reason = "LOADING", offer.state
            out.append({"name": name, "version": version, "state": state, "reason": reason})
        return out

    async def load(self, model: str, parameters: Mapping[str, object]) -> None:
        """Load, check, measure, warm, switch; the version before serves until then, and on if this one fails.

        `parameters` as the protocol has them: "config" (JSON), "file:NAME" (where uploads are allowed). Raises
        MagpieError with the reason; nothing that is served is disturbed by it."""
        async with self._lock(model):
            staged = await asyncio.to_thread(self._repository.stage, model, parameters)
            fresh = model not in self._offers
            offer = self._offers.setdefault(model, Offer(model))
            try:
                if staged.application is None:
                    await self._check(offer, staged.versions[-1])
                committed = await asyncio.to_thread(staged.commit)
            except BaseException as error:
                await asyncio.to_thread(staged.discard)
                if fresh:
                    self._offers.pop(model, None)
                elif offer.version is not None or offer.application is not None:
                    offer.state = "offered"
                else:
                    offer.state, offer.reason = "failed", str(error)
                raise
            if staged.application is not None:
                self._still_wanted(offer)
                offer.application, offer.state, offer.reason = staged.application, "offered", ""
                self._models_changed()
                return
            version = committed[-1]
            self._checked.add((version.key, version.digest))
            if not self._known(version) and self.settings.measure:
                await self._measure([version])
            self._still_wanted(offer)
            before, offer.version, offer.state, offer.reason = offer.version, version, "offered", ""
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._served.setdefault(model, []).append(future)
            self._models_changed()
            try:
                async with asyncio.timeout(_LOAD_S):
                    await self._settle(model, version, future)
                    await future
            except TimeoutError:
                raise Unavailable(f"{model} version {version.version} is still being loaded") from None
            except MagpieError:
                if before is None:
                    self._offers.pop(model, None)
                    self._models_changed()
                raise

    def _still_wanted(self, offer: Offer) -> None:
        """Raises Conflict if somebody has unloaded it while it was being loaded."""
        if self._offers.get(offer.name) is not offer:
            raise _unloaded(offer.name)

    async def _settle(self, model: str, version: ServedVersion, future: asyncio.Future[None]) -> None:
        """Resolve the wait of a load that changes nothing, or that is refused."""
        while not future.done():
            if self._events.empty():
                layout = self._layout
                refused = self.view.refused.get(model)
                if refused is not None:
                    future.set_exception(Unavailable(f"{model} is loaded but not served: {refused}"))
                    return
                now = next((m for m in (layout.models if layout else ()) if m.model == model), None)
                routed = layout is not None and any(model in route.versions for route in layout.routes)
                if routed and now is not None and loads_alike(now, version):
                    future.set_result(None)
                    return
            await self._next_decision()

    async def unload(self, model: str) -> None:
        """Not served from now on; what is queued is answered. Raises NotFound, InvalidValue."""
        if model not in self._offers:
            raise NotFound(f"model {model} is not loaded")
        users = [o.name for o in self._offers.values() if o.application is not None and model in o.application.models]
        if users:
            raise InvalidValue("model", model, f"a model that no application uses; {', '.join(users)} does")
        del self._offers[model]
        self._resolve(model, _unloaded(model))
        self._models_changed()
        # A client that loads it again meanwhile has the last word.
        while model not in self._offers and any(
            m.model == model for m in (self._layout.models if self._layout else ())
        ):
            await self._next_decision()

    async def _next_decision(self) -> None:
        """Until an event more was decided on, at most a second."""
        self._decided.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._decided.wait()

    def _resolve(self, model: str, error: MagpieError | None) -> None:
        for future in self._served.pop(model, []):
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    def _lock(self, model: str) -> asyncio.Lock:
        return self._locks.setdefault(model, asyncio.Lock())

    # -- cameras

    async def _watch_cameras(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            await self._look_at_cameras()

    async def _look_at_cameras(self) -> None:
        """How much serving may take with cameras at their floor, and at their best."""
        async with self._needs_look:
            now = self._cameras()
            extra = self._front_extra()
            if (now.key, extra) == self._need_key:
                return
            need = await asyncio.to_thread(cameras_need, now.window, now.capacity, window_policy(now.policy))
            self._need_key = (now.key, extra)
            if extra != self._front_more:
                self._front_more = extra
                self._reserve_now()
            rest = now.capacity - extra
            self._set_need(rest - need.floor, rest - need.best)

    def _front_extra(self) -> float:
        """What the front needs of a CPU beyond `front_share` at the rates that are planned for (steps of 1 %)."""
        rate = sum(float(m["held_rate"]) for m in self.view.models.values())
        more = rate * self.front_share_per_rate - self.settings.front_share
        return math.ceil(100 * more - 1e-6) / 100 if more > 0 else 0.0

    def _reserve_now(self) -> None:
        """Tell the cameras what serving holds: partitions, the profiler, and what the front needs more."""
        self._reserve(round(self._reserved + self._measuring + self._front_more, 6))

    def _set_need(self, most: float, beside: float) -> None:
        most = min(max(0.0, most), self.planning.max_share)
        beside = min(max(0.0, beside), most)
        before, priority = self._need, self.planning.cameras_priority
        near = abs(most - before.most) < _CAPACITY_STEP and abs(beside - before.beside) < _CAPACITY_STEP
        if near and priority == before.cameras_priority and before.most > 0:
            return
        self._need = Capacity(round(most, 4), round(beside, 4), priority)
        self._capacity_changed()

    def _capacity_changed(self) -> None:
        self.tell(r.CapacityChanged(self._now(), self._need.less(self._measuring)))

    # -- settings and state

    def change(self, planning: ServingPlanning) -> None:
        """New settings, in force at once. Raises InvalidValue for an unknown policy or model."""
        for name in planning.models:
            if name not in self._offers and name not in self.planning.models:
                known = ", ".join(sorted(self._offers)) or "none"
                raise InvalidValue(f"models.{name}", name, f"a model that is there: {known}")
        plan = plan_function(planning.policy)
        before, self.planning = self.planning, planning
        rules = reorganiser_settings(planning)
        if rules != self._reorganiser.settings or planning.policy != before.policy:
            self.tell(r.RulesChanged(self._now(), rules, plan))
        if (planning.max_share, planning.cameras_priority) != (before.max_share, before.cameras_priority):
            self._need_key = None
            self._tasks.spawn(self._look_at_cameras(), "cameras' need")
        if planning.models != before.models:
            self._models_changed()

    @property
    def front_up(self) -> bool:
        """Clients are listened to."""
        return self._front_listens and self._supervisor.ready(FRONT.name)

    def status(self) -> dict[str, Any]:
        """For REST and people: what is served where, how fast, and what is not."""
        view = self.view
        return {
            "front": {
                "up": self.front_up,
                "http": {"host": self.settings.http.host, "port": self.listening and self.listening.http_port},
                "grpc": {"host": self.settings.grpc.host, "port": self.listening and self.listening.grpc_port},
            },
            "settings": self.planning.model_dump(mode="json"),
            "share": {
                "reserved": view.reserved,
                "planned": view.plan.total_share if view.plan else 0.0,
                "most": view.capacity.most,
                "beside_cameras": view.capacity.beside,
                "measuring": self._measuring,
                "front_more": self._front_more,
            },
            "reorganising": view.in_flight,
            "models": [model_status(o, self._offers, view, self._counts) for _, o in sorted(self._offers.items())],
            "executors": executors_status(view, self._layout, self.traffic, self._supervisor.pid),
            "interference": interference(self.table, self._layout),
            "plan": view.plan.to_json() if view.plan else None,
            "problem": view.problem.to_json() if view.problem else None,
        }

    def reasons(self) -> list[dict[str, str]]:
        """What `/readyz` tells."""
        return reasons(self._offers, self.view, self.front_up)

    @property
    def ready(self) -> bool:
        """The front listens, and something that shall be served is."""
        if not self.front_up:
            return False
        states = [state_of(o, self._offers, self.view) for o in self._offers.values()]
        return not states or any(s in ("serving", "capped") for s in states)

    def box(self) -> tuple[tuple[ServedModel, ...], DeviceTable | None]:
        """For the admission answer: the models at the rates that are planned for now, and their table."""
        wanted, _ = self._demands()
        held = {name: float(m["held_rate"]) for name, m in self.view.models.items()}
        models = tuple(replace(d.served, rate=held.get(d.version.model, d.rate)) for d in wanted)
        known = {} if self.table is None else self.table.latency_ms
        return tuple(m for m in models if m.name in known), self.table

    @property
    def front_share_per_rate(self) -> float:
        """What a request per second costs the front, as a share of the device: nothing where that is a GPU."""
        return FRONT_S_PER_REQUEST / self._caps.units if self._caps.device == "cpu" else 0.0

    @property
    def warm_share(self) -> float:
        """Share that is kept free so that new partitions can be warmed."""
        return max(self._reorganiser.settings.warm_share, self._caps.min_share)

    # -- small things

    def _now(self) -> float:
        return self._clock.monotonic()


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


def _unloaded(model: str) -> Conflict:
    return Conflict(f"{model} was unloaded while it was being loaded")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
