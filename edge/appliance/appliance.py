"""The appliance: builds the parts from a site configuration, keeps them alive, and ends them in the opposite order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import configs
from edge.appliance.access_control import AccessControl
from edge.appliance.alarms import Alarms
from edge.appliance.all_boxes import AllBoxes
from edge.appliance.box_answers import BoxAnswers
from edge.appliance.cameras import Cameras
from edge.appliance.capacity import CapacityForecasts
from edge.appliance.clips import Clips
from edge.appliance.counts import ObjectCounts
from edge.appliance.counts_opened import open_counts
from edge.appliance.fleet import Fleet
from edge.appliance.fleet_jobs import FleetJobs
from edge.appliance.housekeeping import Housekeeping
from edge.appliance.journal import Journal
from edge.appliance.lending import Lending
from edge.appliance.live import Live
from edge.appliance.metrics import expected_accuracy
from edge.appliance.model_costs import ModelCosts, in_a_process
from edge.appliance.model_files import ModelFiles
from edge.appliance.models import Models
from edge.appliance.opened_parts import opened
from edge.appliance.outputs import Outputs, OutputsContext
from edge.appliance.outputs_context import snapshot_of
from edge.appliance.retraining import BoxRetraining
from edge.appliance.secrets import NamedSecrets
from edge.appliance.served_models import ServedModels
from edge.appliance.service import Json
from edge.appliance.settings_in_force import cameras_in_force, masks_not_in_force, site_in_force
from edge.appliance.silences import Silences
from edge.appliance.state import State
from edge.appliance.teacher_labels import TeacherLabels
from edge.appliance.tenants import Tenants
from edge.appliance.truth import Truth
from edge.appliance.windows import Windows
from edge.core.alarms import Fact, TenantsNow
from edge.core.clock import Clock, SystemClock
from edge.core.errors import MagpieError
from edge.core.facts import RuntimeFact
from edge.core.journal_kinds import JournalKind, JournalNote
from edge.core.learning import LEARNED_DOCUMENT
from edge.core.shares import Partitioner
from edge.core.tenants import HISTORY_DOCUMENT, TENANTS_DOCUMENT
from edge.core.truth import Finding
from edge.fleet.folder import FleetFolder
from edge.fleet.own_agent import OwnAgent
from edge.ingest.secrets import resolve_secret
from edge.logs import LogRing
from edge.outputs.topics import Snapshot
from edge.runtime.golden_worker import GoldenWorkerSpec, TeacherOffer, check_golden
from edge.runtime.groups import GROUPS_DOCUMENT
from edge.runtime.memory_limit import usable_bytes, worker_limit_bytes
from edge.runtime.process import WorkerMain
from edge.runtime.runtime import Runtime
from edge.runtime.supervisor import Patience
from edge.runtime.tenant_day import TenantDay
from edge.runtime.tenants import TenantShares
from edge.settings import CameraSettings, SiteSettings
from edge.shares import open_partitioner
from edge.store.journal import JournalBuffer
from edge.store.store import Store
from edge.store.values import Recovery
from edge.version import magpie_version

#: The demo's own teacher, which knows the drawn street.
DEMO_TEACHER = Path(configs.__file__).parent / "teachers" / "demo.yaml"


@dataclass(frozen=True)
class Services:
    """Implements `edge.appliance.service.ApplianceService`."""

    state: State
    cameras: Cameras
    live: Live
    labelled: TeacherLabels
    retraining: BoxRetraining
    windows: Windows
    models: Models
    served: ServedModels
    events: Journal
    secrets: NamedSecrets
    alarms: Alarms
    counts: ObjectCounts
    clips: Clips
    model_files: ModelFiles
    outputs: Outputs
    truth: Truth
    tenants: Tenants
    fleet: Fleet
    all_boxes: AllBoxes
    fleet_jobs: FleetJobs


def _camera_gone(alarms: Alarms, counts: ObjectCounts, clips: Clips, camera: str, words: str) -> None:
    alarms.camera_gone(camera, words)
    counts.camera_gone(camera)
    clips.camera_gone(camera)


class Appliance:
    """Use as `async with Appliance(site, front_process) as appliance`; `appliance.services` is what transports ask."""

    services: Services
    runtime: Runtime
    store: Store
    access_control: AccessControl
    housekeeping: Housekeeping
    lending: Lending

    def __init__(
        self,
        site: SiteSettings,
        front: WorkerMain,
        clock: Clock | None = None,
        partitioner: Partitioner | None = None,
        patience: Patience | None = None,
    ) -> None:
        """`front` is the main of the process that takes the requests for served models (edge.commands.front_process):
        it knows the transports, which the appliance does not. `patience` with workers that say nothing."""
        self.site = site
        self.clock: Clock = clock or SystemClock()
        self._front, self._partitioner, self._patience = front, partitioner, patience
        self._ring = LogRing()
        self._parts = AsyncExitStack()

    async def __aenter__(self) -> Appliance:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Check everything that can be wrong, then start. Raises MagpieError before anything runs."""
        teacher = GoldenWorkerSpec(Path(self.site.teacher) if self.site.teacher else DEMO_TEACHER)
        offer = await asyncio.to_thread(check_golden, teacher, self._memory_limit())
        teacher = replace(teacher, name=offer.name, digest=offer.digest, content=offer.content)
        for camera in self.site.cameras:
            offer.check(camera.id, camera.classes, camera.class_map)
        try:
            recovery, cameras, partitioner = await self._open_store()
            await self._build(teacher, offer, partitioner)
            await self._start(recovery, cameras)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Drain and stop. Safe to call twice."""
        await self._parts.aclose()

    # -- building: each part is pushed with what ends it, so that it ends before the parts it stands on

    async def _open_store(self) -> tuple[Recovery, list[CameraSettings], Partitioner]:
        """The database, the settings in force, the device. Raises MagpieError."""
        data = Path(self.site.data_dir)
        opening = partial(Store, self.site.database_url or None, data, clock=self.clock)
        self.store = await opened(self._parts, opening)
        self.access_control = AccessControl(self.store, data, self.site.web.access, self.clock)
        self._parts.push_async_callback(self.access_control.recorded)
        recovery = await asyncio.to_thread(self.store.recover)
        cameras = await asyncio.to_thread(cameras_in_force, self.site, self.store)
        self.site = await asyncio.to_thread(site_in_force, self.site, self.store)
        return recovery, cameras, await opened(self._parts, self._open_partitioner)

    def _open_partitioner(self) -> Partitioner:
        if self._partitioner is not None:
            return self._partitioner
        machine = self.site.machine
        return open_partitioner(machine.device, machine.share_kind, machine.cores, self.site.site, clock=self.clock)

    async def _build(self, teacher: GoldenWorkerSpec, offer: TeacherOffer, partitioner: Partitioner) -> None:
        """Make every part; none runs yet but the journal's thread."""
        site, store, clock = self.site, self.store, self.clock
        logging.getLogger().addHandler(self._ring)
        self._parts.callback(logging.getLogger().removeHandler, self._ring)
        buffer = JournalBuffer(store.journal, clock=clock)
        buffer.start()
        self._parts.push_async_callback(asyncio.to_thread, buffer.close)
        journal = Journal(buffer, store, clock)
        outputs = Outputs(site.outputs, store, clock, self._outputs_context(journal))
        self._parts.push_async_callback(outputs.close)
        counts = self._counts(outputs)
        clips = self._clips(journal.note)
        # Alarms and live pictures look at the runtime's cameras; the runtime hands both what workers send.
        alarms = Alarms(
            site,
            store,
            clock,
            lambda: self.runtime.cameras,
            lambda camera, order: self.runtime.camera_workers.take_pictures(camera, order),
            lambda: self.services.tenants.within_objective(),
            journal.note,
            journal.send_live,
            outputs.deliver,
            lambda code, message: self.runtime.complaints.add(code, message),
            counts.answered,
            clips.alarm_raised,
        )

        def fact(fact: RuntimeFact) -> None:
            journal.tally.fact(fact)
            self.services.tenants.shares.fact(fact)
            counts.fact(fact)
            clips.fact(fact)
            if isinstance(fact, Fact):
                alarms.fact(fact)

        self.runtime = runtime = Runtime(
            site,
            store,
            partitioner,
            clock,
            teacher,
            journal.note,
            lambda camera, picture: self.services.live.preview(camera, picture),
            alarms.answered,
            fact,
            self._patience,
        )
        self._parts.push_async_callback(runtime.close)
        self._parts.push_async_callback(counts.close)
        self._parts.push_async_callback(alarms.close)
        self._offer_services(offer, journal, outputs, alarms, counts, clips)

    def _counts(self, outputs: Outputs) -> ObjectCounts:
        """Counts, which go to the outputs and to rules."""
        return open_counts(
            self.site,
            self.store,
            self.clock,
            lambda code, message: self.runtime.complaints.add(code, message),
            # A copy: threads ask, too.
            lambda: {name: c.settings for name, c in dict(self.runtime.cameras).items()},
            outputs.deliver,
            outputs.outbox.flush,
            lambda: any(r.kind == "unusual" and r.enabled for r in self.services.alarms.rules()),
            lambda fact: self.services.alarms.fact(fact),
            lambda counted: self.services.alarms.records.put_place(counted),
        )

    def _clips(self, note: JournalNote) -> Clips:
        """Clips, made by the cameras' workers."""
        return Clips(
            self.site, self.store, self.clock, lambda: self.runtime.cameras,
            lambda asked: self.runtime.camera_workers.make_clip(asked), note,
            lambda code, message, camera: self.runtime.complaints.add(code, message, camera or None),
        )  # fmt: skip

    def _offer_services(
        self,
        offer: TeacherOffer,
        journal: Journal,
        outputs: Outputs,
        alarms: Alarms,
        counts: ObjectCounts,
        clips: Clips,
    ) -> None:
        """Make what transports ask."""
        site, store, clock, runtime, data = self.site, self.store, self.clock, self.runtime, Path(self.site.data_dir)
        loop, note = asyncio.get_running_loop(), journal.note

        def found_by_people(finding: Finding) -> None:  # called from a thread
            loop.call_soon_threadsafe(runtime.complaints.add, finding.kind, finding.message, finding.camera)

        live = Live(clock, runtime)
        truth = Truth(store.answers, data, clock, runtime.camera, found_by_people)
        served = ServedModels(site, store, clock, runtime, self.access_control, self._front, note, alarms.described)
        capacity = self._capacity(served)
        self.housekeeping = self._housekeeper(alarms, counts, clips, truth, capacity, journal)
        tenants = Tenants(site, store, clock, self._shares(note, alarms), served, note)
        self.lending = Lending(site, runtime, runtime.complaints.add)
        secrets, agent = NamedSecrets(site, store, self.access_control), self._own_agent()
        fleet = Fleet(site, clock, alarms.fact, self.lending.answer, agent, self.access_control.record)
        fleet_jobs = FleetJobs(site, note, agent)
        state = State(
            site, store, clock, runtime, journal=journal, housekeeping=self.housekeeping, live=live.pictures,
            served=served, alarms=alarms, outputs=outputs, truth=truth, ring=self._ring,
            tenants=tenants, lending=self.lending.answer, fleet_jobs=fleet_jobs.last, counting=counts.metrics,
            clips=clips.counts,
        )  # fmt: skip
        answers = BoxAnswers(site, state, alarms, journal, secrets, self.lending.answer)
        self.services = Services(
            state,
            Cameras(
                site, store, clock, runtime, self.access_control, offer, live.pictures, note,
                partial(_camera_gone, alarms, counts, clips), journal.tally.forget, clips.masks_changed,
            ),
            live,
            TeacherLabels(data, store.windows, runtime),
            BoxRetraining(store, runtime, note),
            Windows(store, runtime, site.machine.control_share, capacity),
            Models(store, runtime),
            served,
            journal,
            secrets,
            alarms,
            counts,
            clips,
            ModelFiles(costs=ModelCosts(partial(in_a_process, limit_bytes=self._memory_limit()))),
            outputs,
            truth,
            tenants,
            fleet,
            AllBoxes("" if site.fleet is None else site.fleet.name, answers, live, agent, fleet.status),
            fleet_jobs,
        )  # fmt: skip
        self._parts.callback(self.services.cameras.discovery.close)

    def _capacity(self, served: ServedModels) -> CapacityForecasts:
        """Forecasts; one that is being made ends with the appliance."""
        shares, days = self.runtime.shares, self.site.retention.days
        capacity = CapacityForecasts(
            self.store, self.clock, served.planned_now, lambda: shares.golden, days, self._memory_limit()
        )
        self._parts.callback(capacity.close)
        return capacity

    def _housekeeper(
        self,
        alarms: Alarms,
        counts: ObjectCounts,
        clips: Clips,
        truth: Truth,
        capacity: CapacityForecasts,
        journal: Journal,
    ) -> Housekeeping:
        return Housekeeping(
            self.site, self.store.retention, alarms, counts, clips, truth, capacity, journal.tally, journal.note,
            self.runtime.complaints.add, Silences(self.clock),
        )  # fmt: skip

    def _own_agent(self) -> OwnAgent | None:
        """The agent beside this appliance; None: the site file has no section `fleet`."""
        if self.site.fleet is None:
            return None
        agent = OwnAgent(FleetFolder(Path(self.site.data_dir)), self.site.fleet)
        self._parts.push_async_callback(agent.close)
        return agent

    def _shares(self, note: JournalNote, alarms: Alarms) -> TenantShares:
        """How tenants share the box, as the runtime acts on it."""
        site, runtime = self.site, self.runtime

        def keep(name: str, document: Json) -> None:
            runtime.parts.keep_document(name, document, "tenants")

        return TenantShares(
            [t.tenant() for t in site.tenants], site.sharing.rules(), runtime.parts, runtime.dispatch, note,
            alarms.fact, partial(keep, TENANTS_DOCUMENT), TenantDay(partial(keep, HISTORY_DOCUMENT), self.clock),
        )  # fmt: skip

    def _memory_limit(self) -> int:
        """Bytes of memory that one worker may have, and a process that checks a model's file, too."""
        return worker_limit_bytes(self.site.machine.worker_memory_mb, usable_bytes())

    # -- starting

    async def _start(self, recovery: Recovery, cameras: list[CameraSettings]) -> None:
        services, runtime = self.services, self.runtime
        # First of all: until the entry before this one the box is known to have been on.
        caps = runtime.shares.partitioner.caps
        about = {"version": magpie_version(), "share_kind": caps.kind, "enforced": caps.enforced}
        services.events.note("appliance.started", data=about)
        await services.outputs.open()
        for found in recovery.rolled_back:
            runtime.complaints.add("model_damaged", f"model {found} was damaged on disk: its parent is in force")
        for camera in recovery.lost:
            words = "no intact model is left; it starts from its first weights"
            runtime.complaints.add("model_lost", words, camera)
        for camera, masks in masks_not_in_force(self.site, cameras).items():
            words = (
                f"masks of the site's file are not in force ({', '.join(masks)}): the file or the camera was changed "
                "since; magpie apply puts the file's in force"
            )
            runtime.complaints.add("mask_not_in_force", words, camera)
        open_window = recovery.open
        inside = False
        if open_window is not None:
            record = open_window.window
            inside = self.clock.utc() < record.start_utc_s + record.length_s - 1.0
        await self._restore_learning()
        last = await asyncio.to_thread(self.store.windows.next_window)
        runtime.controller.resume_after(max(0, last - 1))
        runtime.open()
        if cameras:
            runtime.start_labelling()
        runtime.camera_workers.expected = sum(c.enabled for c in cameras)
        # First models are made side by side: each is a process of its own.
        await asyncio.gather(*(services.cameras.begin(c, lost=c.id in recovery.lost) for c in cameras))
        if inside and open_window is not None:
            runtime.resume(open_window)
        else:
            runtime.boundary_reached()
        self._parts.push_async_callback(services.served.close)
        await services.served.open()
        for error in await services.tenants.open():
            runtime.complaints.add(error.code, f"what was kept of tenants is damaged, and begins anew: {error}")
        self._parts.callback(services.tenants.shares.keep_now)
        self._keep_running(services.tenants.shares.run(), "tenants")
        # A switch that comes by MQTT must never reach a runtime that is closing: a start that fails stops them first.
        self._parts.push_async_callback(services.outputs.stop)
        services.outputs.start()
        await services.clips.open()
        self._keep_running(services.clips.run(), "clips")
        await services.alarms.open()
        services.alarms.fact(TenantsNow(services.tenants.there))
        await services.outputs.outbox.flush()
        await services.alarms.end_outlived()
        self._keep_running(services.counts.run(), "counts")
        self._keep_running(self.housekeeping.run(), "housekeeping")
        self._keep_running(self.housekeeping.silences.run(), "silences")
        self._keep_running(services.fleet.run(), "refused strangers")
        self._keep_running(services.fleet_jobs.run(), "jobs of the fleet")
        self._keep_running(self.lending.run(), "lending")
        self._keep_running(self.lending.groups.run(), "groups over boxes")
        self._parts.push_async_callback(services.outputs.stop)

    def _keep_running(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._parts.push_async_callback(end)

    async def _restore_learning(self) -> None:
        """Take up the costs and promises; a document that cannot be read is begun anew."""
        runtime = self.runtime
        try:
            runtime.learning.restore(await asyncio.to_thread(self.store.settings.get_settings, LEARNED_DOCUMENT))
        except MagpieError as error:
            runtime.complaints.add(error.code, f"learning of costs begins anew: {error}")
        try:
            runtime.students.groups.restore(await asyncio.to_thread(self.store.settings.get_settings, GROUPS_DOCUMENT))
        except MagpieError as error:
            runtime.complaints.add(error.code, f"learning of groups begins anew: {error}")

    # -- what parts need of the whole

    def _outputs_context(self, journal: Journal) -> OutputsContext:
        """The outputs' view of the appliance, and their hands on it."""
        box = self.site.fleet.name if self.site.fleet is not None else ""

        def snapshot() -> Snapshot:
            services, cameras = self.services, self.runtime.cameras.values()
            health = services.state.health()
            return snapshot_of(
                services.state.overview(),
                health,
                {c.id: expected_accuracy(c.version) for c in cameras},
                {c.id: c.settings.retraining.enabled for c in cameras},
                services.counts.minutes.places(),
                services.counts.minutes.latest,
                box,
            )

        async def set_retraining(camera: str, on: bool, by: str) -> None:
            await self.services.cameras.change(camera, {"retraining": {"enabled": on}}, by)

        def secret(reference: str, path: str) -> str:
            return resolve_secret(reference, path, kept=self.access_control.secrets_file).reveal()

        def note(kind: JournalKind, camera: str | None, data: Json) -> None:
            journal.note(kind, camera, data=data)

        return OutputsContext(
            self.site.site, magpie_version(), snapshot, note, set_retraining, secret, self.access_control.may_name, box
        )  # fmt: skip
