"""The appliance: builds the parts from a site configuration, keeps them alive, and is the service behind transports."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import configs
from edge.appliance import labelled, system
from edge.appliance.admission import ServedNow, admit_camera, admit_model
from edge.appliance.alarms import Alarms
from edge.appliance.camera_memory import forget
from edge.appliance.drawn_models import drawn_models
from edge.appliance.explained import OtherParts, compared, explained
from edge.appliance.keys import Keys, needs_token
from edge.appliance.live import LiveEvents, LivePictures, resized
from edge.appliance.metrics import Tally, disk, expected_accuracy, front_statistics
from edge.appliance.model_files import ModelFiles
from edge.appliance.outputs import Outputs, Snapshot, World
from edge.appliance.service import Json, LivePicture
from edge.appliance.truth import Truth
from edge.core.access import Asker
from edge.core.baseline import Baseline
from edge.core.clock import Clock, SystemClock
from edge.core.errors import Conflict, InvalidValue, MagpieError, NotFound, Unavailable
from edge.core.layout import RepositoryCommand
from edge.core.learning import LEARNED_DOCUMENT
from edge.core.models import ModelVersion
from edge.core.shares import Partitioner
from edge.core.truth import Finding
from edge.ingest.probe import probe_camera
from edge.ingest.secrets import check_named, resolve_secret
from edge.logs import LogRing, entry_fields
from edge.recording.labelled_windows import drop_window
from edge.runtime import messages as m
from edge.runtime.camera import assumed_profile
from edge.runtime.golden_worker import GoldenWorkerSpec, check_golden
from edge.runtime.groups import GROUPS_DOCUMENT
from edge.runtime.runtime import Runtime
from edge.runtime.serving_cameras import CamerasNow
from edge.runtime.students import first_student, student_of
from edge.settings import (
    AdmissionRequest,
    CameraSettings,
    RetentionSettings,
    RetrainingSettings,
    ServingPlanning,
    ServingSettings,
    SiteSettings,
    merge,
    parse,
)
from edge.shares.discover import Discovery, devices, discover, open_partitioner
from edge.store.journal import JournalBuffer
from edge.store.retention import RetentionLimits
from edge.store.store import Store
from edge.store.values import CameraWindow, Recovery
from scheduler.follow import planner

if TYPE_CHECKING:
    from edge.runtime.serving import ServingRuntime

log = logging.getLogger(__name__)

#: Below this much free disk the appliance says so and stops recording.
_LOW_DISK_BYTES = 200_000_000
_FIRST_MODEL = "first model"
#: The demo's own teacher, which knows the drawn street.
DEMO_TEACHER = Path(configs.__file__).parent / "teachers" / "demo.yaml"


class Appliance:
    """Implements `edge.appliance.service.ApplianceService`. Use as `async with Appliance(site) as appliance`."""

    def __init__(
        self,
        site: SiteSettings,
        clock: Clock | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        self.site = site
        self.clock: Clock = clock or SystemClock()
        self._partitioner = partitioner
        self._started_s = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._events = LiveEvents()
        self.live = LivePictures(
            self.clock,
            lambda: self.runtime.cameras if hasattr(self, "runtime") else (),
            lambda camera, fps: self.runtime.camera_workers.watch(camera, fps),
        )
        self._sequence = 0
        self._disk_low = False
        #: Cameras change one after another: a change starts from what the one before it left.
        self._cameras_change = asyncio.Lock()
        self._tally = Tally()
        self._log = LogRing()
        self.model_files = ModelFiles()
        self._found: Discovery | None = None
        self.serving_runtime: ServingRuntime | None = None

    # -- life

    async def __aenter__(self) -> Appliance:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Check everything that can be wrong, then start. Raises MagpieError before anything runs."""
        self._started_s = self.clock.monotonic()
        self._loop = asyncio.get_running_loop()
        self._teacher = GoldenWorkerSpec(Path(self.site.teacher) if self.site.teacher else DEMO_TEACHER)
        self._teacher_classes = await asyncio.to_thread(check_golden, self._teacher)
        for camera in self.site.cameras:
            self._check_classes(camera)
        data = Path(self.site.data_dir)
        self.store = await asyncio.to_thread(Store, self.site.database_url or None, data, clock=self.clock)
        self.keys = Keys(self.store, data, self.site.web.access, self.clock)
        try:
            recovery = await asyncio.to_thread(self.store.recover)
            cameras = await asyncio.to_thread(self._cameras_to_run)
            retraining = await asyncio.to_thread(self._retraining_in_force)
            serving = await asyncio.to_thread(self._serving_in_force)
            self.site = self.site.model_copy(update={"retraining": retraining, "serving": serving})
            if self._partitioner is None:
                self._partitioner = await asyncio.to_thread(_open_device, self.site)
        except BaseException:
            self.store.close()
            raise
        logging.getLogger().addHandler(self._log)
        self.journal = JournalBuffer(self.store, clock=self.clock)
        self.journal.start()
        self.outputs = Outputs(self.site.outputs, self.store, self.clock, self._world())
        self.alarms = self._new_alarms()
        self.truth = Truth(self.store, data, self.clock, lambda c: self.runtime.camera(c), self._found_of_truth)
        self.runtime = Runtime(
            self.site,
            self.store,
            self.journal,
            self._partitioner,
            self.clock,
            self._teacher,
            self.note,
            self._preview,
            self.alarms.answered,
        )
        try:
            await self._start(recovery, cameras)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Drain and stop. Safe to call twice."""
        if hasattr(self, "outputs"):
            await self.outputs.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self.serving_runtime is not None:
            await self.serving_runtime.close()
            self.serving_runtime = None
        if hasattr(self, "runtime"):
            await self.alarms.close()
            await self.runtime.close()
            del self.runtime
        if hasattr(self, "outputs"):
            await self.outputs.close()
            del self.outputs
        if hasattr(self, "journal"):
            await asyncio.to_thread(self.journal.close)
            del self.journal
        if self._partitioner is not None:
            await asyncio.to_thread(self._partitioner.close)
        if hasattr(self, "keys"):
            await self.keys.recorded()
        if hasattr(self, "store"):
            self.store.close()
        logging.getLogger().removeHandler(self._log)

    def _world(self) -> World:
        """What the outputs see of the appliance, and what they may do."""

        def snapshot() -> Snapshot | None:
            if not hasattr(self, "runtime"):
                return None
            health, cameras = self.health(), self.runtime.cameras.values()
            return Snapshot(
                self.overview(),
                health["ready"],
                tuple(str(reason["code"]) for reason in health["reasons"]),
                health["version"],
                {c.id: expected_accuracy(c.version) for c in cameras},
                {c.id: c.settings.retraining.enabled for c in cameras},
            )

        async def set_retraining(camera: str, on: bool, by: str) -> None:
            await self.change_camera(camera, {"retraining": {"enabled": on}}, by)

        def secret(reference: str, path: str) -> str:
            return resolve_secret(reference, path, kept=self.keys.secrets_file).reveal()

        def note(kind: str, camera: str | None, data: Json) -> None:
            self.note(kind, camera, data=data)

        return World(self.site.site, _version(), snapshot, note, set_retraining, secret, self._may_name)

    def _may_name(self, reference: str, before: str = "", path: str = "password_from") -> None:
        """Raises InvalidValue for a secret that may not be named by REST."""
        check_named(reference, before, self.site.web.access.secret_references, path)

    async def _start(self, recovery: Recovery, cameras: list[CameraSettings]) -> None:
        await self.outputs.open()
        caps = self.runtime.partitioner.caps
        self.note("appliance.started", data={"version": _version(), "share_kind": caps.kind, "enforced": caps.enforced})
        for found in recovery.rolled_back:
            self.runtime.complain("model_damaged", f"model {found} was damaged on disk: its parent is in force")
        for camera in recovery.lost:
            self.runtime.complain("model_lost", f"{camera}: no intact model is left; it starts from its first weights")
        open_window = recovery.open
        inside = False
        if open_window is not None:
            record = open_window.window
            inside = self.clock.utc() < record.start_utc_s + record.length_s - 1.0
        await self._restore_learning()
        last = await asyncio.to_thread(self.store.next_window)
        self.runtime.controller.resume_after(max(0, last - 1))
        self.runtime.open()
        if cameras:
            self.runtime.start_labelling()
        self.runtime.expected_cameras = sum(c.enabled for c in cameras)
        # First models are made side by side: each is a process of its own.
        await asyncio.gather(*(self._take_in(c, lost=c.id in recovery.lost) for c in cameras))
        if inside and open_window is not None:
            self.runtime.resume(open_window)
        else:
            self.runtime.boundary_reached()
        await self._start_serving()
        self.outputs.start()
        await self.alarms.open()
        self._tasks.append(asyncio.create_task(self._housekeeping(), name="housekeeping"))

    def _cameras_to_run(self) -> list[CameraSettings]:
        """Cameras of the configuration file are put into the database once; from then on the database decides."""
        known = {c.id: c for c in self.store.cameras()}
        for camera in self.site.cameras:
            if camera.id not in known:
                self.store.put_camera(
                    camera.id, camera.model_dump(mode="json"), "configuration file", enabled=camera.enabled
                )
        return [parse(CameraSettings, c.settings, f"cameras.{c.id}") for c in self.store.cameras()]

    def _retraining_in_force(self) -> RetrainingSettings:
        kept = self.store.get_settings("retraining")
        return self.site.retraining if kept is None else parse(RetrainingSettings, kept, "retraining")

    def _serving_in_force(self) -> ServingSettings | None:
        """What was changed by REST goes on; what the file says of a model that REST never named counts, too."""
        serving = self.site.serving
        kept = self.store.get_settings("serving")
        if serving is None or kept is None:
            return serving
        planning = parse(ServingPlanning, merge(serving.planning.model_dump(mode="json"), kept), "serving.planning")
        return serving.model_copy(update={"planning": planning})

    async def _start_serving(self) -> None:
        """Serve models, if the site does. Raises MagpieError."""
        runtime, settings = self.runtime, self.site.serving
        if settings is None:
            return
        from edge.appliance.front_process import front_process
        from edge.runtime.serving import ServingRuntime

        caps = runtime.partitioner.caps
        # On a GPU the front takes nothing of the device.
        runtime.front_share = settings.front_share if caps.device == "cpu" else 0.0
        keys = None
        if needs_token(settings, self.site.web.access):
            keys = Path(self.site.data_dir) / "serving" / "keys.json"
            self._tasks.append(await self.keys.hand_over(keys))
        self.serving_runtime = ServingRuntime(
            settings,
            Path(self.site.data_dir),
            runtime.supervisor,
            caps,
            self.clock,
            front_process,
            self._cameras_now,
            runtime.set_serving_share,
            self.note,
            runtime.complain,
            keys,
            self._repository_changed,
        )
        await self.serving_runtime.open()

    def _repository_changed(self, command: RepositoryCommand) -> None:
        by = Asker(command.by, command.address)
        self.note(f"serving.{command.action}ed", data={"model": command.model, "by": command.by})
        self.keys.record(f"served model/{command.model}", f"{command.action}ed", by)

    def _new_alarms(self) -> Alarms:
        def served() -> Mapping[str, float]:
            """Part of recent requests within their objective, by model that was asked at all."""
            status = {} if self.serving_runtime is None else self.serving_runtime.status()
            return {
                str(m["name"]): 1.0 - float(m["violations_recent"])
                for m in status.get("models", ())
                if m["state"] in ("serving", "capped")
            }

        return Alarms(
            self.site,
            self.store,
            self.clock,
            lambda: self.runtime.cameras,
            lambda camera, order: self.runtime.camera_workers.take_pictures(camera, order),
            served,
            self.note,
            self._tell,
            self.outputs.deliver,
            lambda code, message: self.runtime.complain(code, message),
        )

    def _cameras_now(self) -> CamerasNow:
        runtime = self.runtime
        controller = runtime.controller
        window = controller.problem(self.clock.monotonic()) if controller.state.cameras else None
        return CamerasNow(runtime.shared_capacity(), window, runtime.retraining.policy)

    def _check_classes(self, camera: CameraSettings) -> None:
        """Raises LabelError if the teacher cannot produce one of the camera's classes."""
        self._teacher_classes.check(camera.id, camera.classes, camera.class_map)

    async def _take_in(self, settings: CameraSettings, lost: bool = False) -> None:
        """Give the camera its first model if it has none, and start it."""
        in_force = None if lost else await asyncio.to_thread(self.store.promoted, settings.id)
        wanted = (await asyncio.to_thread(student_of, settings, self.site.student))[0]
        if in_force is not None and in_force.spec != wanted:
            # The student was changed: a new first model takes over, and what was learned of the other is forgotten.
            other = in_force.spec.classes != wanted.classes
            await asyncio.to_thread(forget, self.store, Path(self.site.data_dir), settings.id, other)
            in_force = None
        if in_force is None:
            in_force = await self._first_model(settings)
        lineage = await asyncio.to_thread(self.store.lineage, in_force.id)
        self.runtime.camera_workers.add(settings, in_force, lineage[-1], await self._baseline(settings.id))
        history = await asyncio.to_thread(self.store.get_settings, f"profiler/{settings.id}")
        self.runtime.cameras[settings.id].history = history
        self.runtime.siblings.known(
            settings.id, await asyncio.to_thread(self.store.get_settings, f"look/{settings.id}")
        )

    async def _baseline(self, camera: str) -> Baseline | None:
        """What earlier windows taught of the download; a document that cannot be read is begun anew."""
        learned = await asyncio.to_thread(self.store.get_settings, f"baseline/{camera}")
        try:
            return None if learned is None else Baseline.from_json(learned)
        except (MagpieError, KeyError, TypeError, ValueError) as error:
            self.runtime.complain("baseline", f"what was learned of the download is begun anew: {error}", camera)
            return None

    async def _restore_learning(self) -> None:
        """What earlier windows taught of costs and promises; a document that cannot be read is begun anew."""
        try:
            self.runtime.learning.restore(await asyncio.to_thread(self.store.get_settings, LEARNED_DOCUMENT))
        except MagpieError as error:
            self.runtime.complain(error.code, f"what was learned of costs is begun anew: {error}")
        try:
            self.runtime.groups.restore(await asyncio.to_thread(self.store.get_settings, GROUPS_DOCUMENT))
        except MagpieError as error:
            self.runtime.complain(error.code, f"what was learned of groups is begun anew: {error}")

    async def _first_model(self, settings: CameraSettings) -> ModelVersion:
        path = Path(self.site.data_dir) / "jobs" / f"first-{settings.id}.safetensors"
        spec, words = await asyncio.to_thread(first_student, settings, self.site.student, path)
        now = self.clock.utc()
        candidate = ModelVersion(
            f"{settings.id}-first-{int(now)}", settings.id, "", spec, now, decided_by=_FIRST_MODEL, reason=words
        )
        added = await asyncio.to_thread(self.store.add_model, candidate, path)
        path.unlink(missing_ok=True)
        return await asyncio.to_thread(self.store.promote, added.id, _FIRST_MODEL, words)

    async def _housekeeping(self) -> None:
        """Every 10 s: disk and database; every hour: retention."""
        rounds = 0
        while True:
            await asyncio.sleep(10)
            rounds += 1
            low = shutil.disk_usage(self.site.data_dir).free < _LOW_DISK_BYTES
            if low and not self._disk_low:
                self.runtime.complain(
                    "disk_full", f"less than {_LOW_DISK_BYTES >> 20} MB are free in {self.site.data_dir}"
                )
            self._disk_low = low
            if rounds % 360 == 1 or (low and rounds % 6 == 0):
                limits = retention_limits(self.site.retention)
                try:
                    report = await asyncio.to_thread(self.store.retain, limits, self._drop_pictures)
                    if self._tally.retained(report):
                        self.note("retention", data=report.to_json())
                    old = await self.alarms.retain(self.site.retention)
                    if old.anything:
                        self.note("retention.alarms", data=old.to_json())
                    await asyncio.to_thread(self.truth.pictures.retain)
                except MagpieError as error:
                    self.runtime.complain(error.code, f"retention: {error}")

    def _found_of_truth(self, finding: Finding) -> None:
        """Called from a thread."""
        self._loop.call_soon_threadsafe(self.runtime.complain, finding.kind, finding.message, finding.camera)

    def _drop_pictures(self, row: CameraWindow) -> None:
        """Retention: delete the pictures and the manifest of a camera's window."""
        drop_window(Path(self.site.data_dir), row.camera, row.window)

    # -- journal and pictures

    def note(
        self, kind: str, camera: str | None = None, window: int | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        """Journal an event and tell whoever listens."""
        now = self.clock.utc()
        try:
            self.journal.append(kind, camera=camera, window=window, data=data, at_utc_s=now)
        except InvalidValue as error:
            log.warning("event %s not journaled: %s", kind, error)
        given = dict(data or {})
        self._tally.note(kind, camera, given)
        log.info("%s", kind, extra=entry_fields(kind, camera, window, given))
        self._tell(kind, camera, given, window)
        self.alarms.noted(kind, camera, window, given)

    def _tell(self, kind: str, camera: str | None, data: Json, window: int | None = None) -> None:
        """Tell whoever listens now."""
        self._sequence += 1
        entry: Json = {
            "id": f"live-{self._sequence}",
            "utc_s": self.clock.utc(),
            "kind": kind,
            "camera": camera,
            "window": window,
            "data": data,
        }
        self._events.put(entry)

    def _preview(self, camera: str, p: m.Preview) -> None:
        state = self.runtime.cameras[camera]
        header = {
            "camera": camera,
            "number": p.number,
            "utc_s": p.utc_s,
            "width": p.width,
            "height": p.height,
            "model_version": p.model_version,
            "stale": p.stale,
            "classes": list(state.settings.classes),
            "boxes": p.answer.to_json()["boxes"],
            "scores": p.answer.to_json()["scores"],
            "labels": p.answer.to_json()["classes"],
            "delay_s": round(self.clock.utc() - p.utc_s, 3),
            "state": state.status().state,
        }
        self.live.put(LivePicture(camera, header, p.jpeg))

    # -- service: state

    def health(self) -> Json:
        reasons: list[Json] = []
        runtime = self.runtime
        labelled = runtime.golden_ready or not runtime.labelling
        if not labelled:
            reasons.append({"code": "golden_not_ready", "message": "the golden model is being loaded or started again"})
        for camera in runtime.cameras.values():
            status = camera.status()
            if camera.settings.enabled and status.state != "live":
                words = status.message or status.fault or status.state
                reasons.append(
                    {"code": f"camera_{status.state}", "message": f"{camera.id}: {words}", "camera": camera.id}
                )
        stats = self.journal.stats()
        if stats.failing_since_utc_s is not None:
            reasons.append({"code": "store", "message": f"the database cannot be written: {stats.last_error}"})
        if self._disk_low:
            reasons.append({"code": "disk_full", "message": f"little disk space is left in {self.site.data_dir}"})
        sick = runtime.supervisor.device_trouble
        if sick is not None:
            reasons.append({"code": "device", "message": sick})
        recent = self.clock.utc() - 2 * runtime.retraining.window_s
        grave = ("window_too_short", "floor_unreachable", "labels")
        reasons += [
            {k: complaint[k] for k in ("code", "message", "camera")}
            for complaint in runtime.complaints
            if complaint["utc_s"] >= recent and complaint["code"] in grave
        ]
        reasons += drawn_models(self.site, runtime.cameras.values())
        reasons += self.outputs.reasons()
        enabled = [c for c in runtime.cameras.values() if c.settings.enabled]
        live = [c for c in enabled if c.status().state == "live"]
        ready = (not enabled or bool(live)) and labelled and stats.failing_since_utc_s is None and sick is None
        if self.serving_runtime is not None:
            reasons += self.serving_runtime.reasons()
            ready = ready and self.serving_runtime.ready
        return {
            "live": True,
            "ready": ready,
            "reasons": reasons,
            "uptime_s": self.clock.monotonic() - self._started_s,
            "version": _version(),
        }

    def overview(self) -> Json:
        runtime, state = self.runtime, self.runtime.controller.state
        shares = {}
        for camera in runtime.cameras.values():
            job = runtime.retrainings.running.get(camera.id)
            shares[camera.id] = {
                "inference": camera.share,
                "retraining": 0.0 if job is None else job.share,
                "config": None if job is None else job.config,
                "lambda": None if camera.inference is None else camera.inference.id,
            }
        plan = state.plan
        return {
            "site": self.site.site,
            "utc_s": self.clock.utc(),
            "window": {
                "number": state.window,
                "start_utc_s": runtime.window_start_utc_s,
                "phase": state.phase,
                "length_s": runtime.retraining.window_s,
                "end_utc_s": runtime.next_boundary_utc_s,
            },
            "policy": runtime.retraining.policy,
            "plan": None if plan is None else {"objective": plan.objective, "reasons": dict(plan.reasons)},
            "device": runtime.partitioner.caps.to_json(),
            "shares": shares,
            "golden_share": runtime.golden_share,
            "profiling_share": sum(w["share"] for w in runtime.supervisor.workers() if w["role"] == "profiling"),
            "control_share": self.site.control_share,
            "serving": self._serving_overview(),
            "usage": [u.to_json() for u in runtime.supervisor.usage()],
            "cameras": [
                {"id": c.id, "name": c.settings.name or c.id, **c.state_json()} for c in runtime.cameras.values()
            ],
            "jobs": [j.to_json() for j in runtime.retrainings.running.values()],
            "complaints": list(runtime.complaints)[-10:],
            "workers": runtime.supervisor.workers(),
            "losses": {
                "labels": runtime.labels.counters.to_json(),
                "journal": self.journal.stats().lost,
                "labels_waiting": runtime.labels.waiting(),
                "live_pictures": self.live.missed,
                "alarms": self.alarms.counts()["lost"],
            },
        }

    async def metrics(self) -> Json:
        serving = None if self.serving_runtime is None else self.serving_runtime.status()
        promised = {c.id: expected_accuracy(c.version) for c in self.runtime.cameras.values()}
        return {
            "health": self.health(),
            "overview": self.overview(),
            "expected_accuracy": promised,
            "counts": self._tally.to_json(),
            "live_pictures": {c: self.live.encoded(c) for c in self.runtime.cameras},
            "disk": await asyncio.to_thread(disk, Path(self.site.data_dir)),
            "serving": serving,
            "statistics": None if serving is None else await front_statistics(serving["front"], self.keys.own_token),
            "outputs": self.outputs.metrics(),
            "alarms": self.alarms.counts(),
            "truth": await asyncio.to_thread(self.truth.latest, list(self.runtime.cameras)),
        }

    def _serving_overview(self) -> Json | None:
        """Small enough to be asked each second."""
        if self.serving_runtime is None:
            return None
        status = self.serving_runtime.status()
        keys = (
            "name", "kind", "state", "reason", "version", "slo_ms", "rate", "planned_rate", "served_part", "latency_ms",
            "violations_recent",
        )  # fmt: skip
        return {
            "front": status["front"],
            "share": status["share"],
            "front_share": self.runtime.front_share,
            "reorganising": status["reorganising"],
            "models": [{k: m[k] for k in keys} for m in status["models"]],
        }

    # -- service: served models

    def serving(self) -> Json:
        return self._serving().status()

    def _serving(self) -> ServingRuntime:
        if self.serving_runtime is None:
            raise NotFound("this site serves no models", "add a section serving: to its configuration")
        return self.serving_runtime

    async def change_serving(self, patch: Mapping[str, Any], by: str) -> Json:
        serving = self._serving()
        changed = merge(serving.planning.model_dump(mode="json"), dict(patch))
        # A merge patch takes a model's settings away with null.
        given = changed.get("models")
        if isinstance(given, Mapping):
            changed["models"] = {k: v for k, v in given.items() if v is not None}
        planning = parse(ServingPlanning, changed)
        serving.change(planning)
        await asyncio.to_thread(self.store.put_settings, "serving", planning.model_dump(mode="json"), by)
        self.note("serving.settings", data={"by": by, "fields": sorted(patch)})
        return serving.status()

    async def admission(self, request: Mapping[str, Any]) -> Json:
        asked = parse(AdmissionRequest, dict(request))
        runtime, serving, now = self.runtime, self.serving_runtime, self._cameras_now()
        served = ServedNow()
        if serving is not None:
            served = ServedNow(
                *serving.box(), serving.planning, serving.warm_share, runtime.front_share, serving.front_share_per_rate
            )
        if asked.model is not None:
            return await asyncio.to_thread(admit_model, asked.model, served, now)
        assert asked.camera is not None
        assumed = assumed_profile(asked.camera.inference, runtime.cores)
        return await asyncio.to_thread(admit_camera, asked.camera, assumed, served, now)

    async def system(self) -> Json:
        overview, health = self.overview(), self.health()
        site, caps, reserved = self.site, self.runtime.partitioner.caps, self.runtime.retraining
        if self._found is None:
            self._found = await asyncio.to_thread(discover)
        sizes: dict[str, int] | None = None
        with contextlib.suppress(MagpieError):  # the database is away: everything else can be told
            sizes = await asyncio.to_thread(self.store.sizes)
        used = await asyncio.to_thread(system.memory, [w["pid"] for w in overview["workers"]])
        counts = self._tally.to_json()["retention"]
        serving = None if self.serving_runtime is None else self.serving_runtime.status()
        kept = {
            "control": site.control_share,
            "golden": self.runtime.golden_share,
            "evaluation": reserved.evaluation_share,
            "front": self.runtime.front_share,
        }
        return {
            "site": site.site,
            "utc_s": overview["utc_s"],
            "started_utc_s": overview["utc_s"] - health["uptime_s"],
            "health": health,
            "devices": [d.to_json() | {"in_use": d.id == caps.device} for d in self._found.devices],
            "notes": list(self._found.notes),
            "shares": system.shares(caps, kept),
            "workers": system.workers(overview["workers"], overview["usage"], self.runtime.cameras, used),
            "disk": await asyncio.to_thread(disk, Path(site.data_dir))
            | {
                "folder": str(Path(site.data_dir).absolute()),
                "low": self._disk_low,
                "low_bytes": _LOW_DISK_BYTES,
                "sizes": sizes,
                "retention": site.retention.model_dump(mode="json"),
                "recording": site.recording.model_dump(mode="json"),
                "retained": counts,
            },
            "losses": system.losses(overview, serving, counts["deleted"].get("failures", 0), self.outputs.metrics()),
            "versions": system.versions(_version(), self.store.schema, self.store.database.name),
        }

    def log(
        self,
        limit: int,
        level: str = "DEBUG",
        before: int | None = None,
        after: int | None = None,
        text: str = "",
    ) -> Json:
        return {
            "records": self._log.records(limit, level, before, after, text),
            "capacity": self._log.capacity,
            "forgotten": self._log.forgotten,
            "level": logging.getLevelName(logging.getLogger().getEffectiveLevel()),
        }

    # -- service: cameras

    def cameras(self) -> list[Json]:
        return [self.camera(c) for c in self.runtime.cameras]

    def camera(self, camera: str) -> Json:
        found = self.runtime.camera(camera)
        return {"id": camera, "settings": found.settings.model_dump(mode="json"), "state": found.state_json()}

    async def add_camera(self, settings: Mapping[str, Any], by: str) -> Json:
        camera = parse(CameraSettings, dict(settings))
        self._may_name(camera.password_from)
        self._check_classes(camera)
        async with self._cameras_change:
            if camera.id in self.runtime.cameras:
                raise Conflict(f"camera {camera.id} exists already")
            await self._take_in_recorded(camera, by)
        return self.camera(camera.id)

    async def _take_in_recorded(self, camera: CameraSettings, by: str) -> None:
        await asyncio.to_thread(
            self.store.put_camera, camera.id, camera.model_dump(mode="json"), by, enabled=camera.enabled
        )
        try:
            await self._take_in(camera)
        except MagpieError:
            with contextlib.suppress(MagpieError):
                await asyncio.to_thread(self.store.delete_camera, camera.id, by)
            raise
        self.live.ask_workers()
        self.note("camera.added", camera=camera.id, data={"by": by})

    async def change_camera(self, camera: str, patch: Mapping[str, Any], by: str) -> Json:
        async with self._cameras_change:
            return await self._change_camera(camera, patch, by)

    async def _change_camera(self, camera: str, patch: Mapping[str, Any], by: str) -> Json:
        found = self.runtime.camera(camera)
        if patch.get("id", camera) != camera:
            raise InvalidValue("id", patch["id"], f"{camera} (an id does not change)")
        merged = merge(found.settings.model_dump(mode="json"), dict(patch))
        # A merge patch takes a class's mapping away with null.
        if isinstance(merged.get("class_map"), Mapping):
            merged["class_map"] = {k: v for k, v in merged["class_map"].items() if v is not None}
        changed = parse(CameraSettings, merged)
        if changed == found.settings:
            return self.camera(camera)
        self._may_name(changed.password_from, _kept_reference(changed, found.settings))
        self._check_classes(changed)
        await asyncio.to_thread(
            self.store.put_camera, camera, changed.model_dump(mode="json"), by, enabled=changed.enabled
        )
        before = found.settings
        if _of_worker(changed) == _of_worker(before):
            self.runtime.camera_workers.settle(changed)
        else:
            await self.runtime.camera_workers.remove(camera)
            if not changed.enabled:
                self.alarms.camera_gone(camera, "the camera was switched off")
            await self._take_in(changed)
            self.live.ask_workers()
        self.note("camera.changed", camera=camera, data={"by": by, "fields": sorted(patch)})
        return self.camera(camera)

    async def remove_camera(self, camera: str, by: str) -> None:
        async with self._cameras_change:
            await self.runtime.camera_workers.remove(camera)
            await asyncio.to_thread(self.store.delete_camera, camera, by)
            await asyncio.to_thread(forget, self.store, Path(self.site.data_dir), camera, True)
        self.live.forget(camera)
        self.alarms.camera_gone(camera)
        self.note("camera.removed", camera=camera, data={"by": by})

    async def test_camera(self, settings: Mapping[str, Any]) -> Json:
        camera = parse(CameraSettings, dict(settings))
        known = self.runtime.cameras.get(camera.id)
        self._may_name(camera.password_from, "" if known is None else _kept_reference(camera, known.settings))
        return await asyncio.to_thread(probe_camera, m.camera_source(camera, self.keys.secrets_file))

    # -- service: what the teacher said (blocking)

    def disagreements(self, camera: str, limit: int) -> list[Json]:
        self.runtime.camera(camera)
        return labelled.disagreements(Path(self.site.data_dir), camera, limit)

    def disagreement_picture(self, camera: str, window: int, frame: int) -> bytes:
        self.runtime.camera(camera)
        return labelled.picture(Path(self.site.data_dir), camera, window, frame)

    def classes(self, camera: str, windows: int) -> list[Json]:
        self.runtime.camera(camera)
        found = labelled.classes(Path(self.site.data_dir), camera, windows)
        if not found:
            return found
        starts = {w.id: w.start_utc_s for w in self.store.windows(windows + 1, before=found[0]["window"] + 1)}
        return [f | {"start_utc_s": starts.get(f["window"], f["start_utc_s"])} for f in found]

    # -- service: retraining

    def retraining(self) -> Json:
        runtime = self.runtime
        following = runtime.next_retraining or runtime.retraining
        return {
            "current": runtime.retraining.model_dump(mode="json"),
            "next": following.model_dump(mode="json"),
            "next_boundary_utc_s": runtime.next_boundary_utc_s,
        }

    def learning(self) -> Json:
        runtime = self.runtime
        return runtime.learning.report(runtime.retraining, runtime.preparation.box()).to_json()

    async def change_retraining(self, patch: Mapping[str, Any], by: str) -> Json:
        runtime = self.runtime
        base = (runtime.next_retraining or runtime.retraining).model_dump(mode="json")
        settings = parse(RetrainingSettings, merge(base, dict(patch)))
        await asyncio.to_thread(self.store.put_settings, "retraining", settings.model_dump(mode="json"), by)
        runtime.change_retraining(settings)
        self.note("retraining.settings", data={"by": by, "fields": sorted(patch)})
        return self.retraining()

    # -- service: windows (blocking: transports call them in a thread)

    def windows(self, limit: int, before: int | None) -> list[Json]:
        return [w.to_json() for w in self.store.windows(limit, before=before)]

    def window(self, number: int) -> Json:
        return self.store.window(number).to_json()

    async def explained(self, number: int) -> Json:
        detail = await asyncio.to_thread(self.store.window, number)
        usage = self.runtime.share_usage(number) if detail.window.open else None
        return await asyncio.to_thread(explained, detail, self._other_parts(detail.window.settings), usage)

    def _other_parts(self, settings: Mapping[str, Any]) -> OtherParts:
        """As that window's settings had them; the control process's and the front's are those of now."""
        now = self.runtime.retraining
        return OtherParts(
            self.site.control_share,
            self.runtime.front_share,
            settings.get("golden_share") or self.runtime.golden_share,
            settings.get("evaluation_share", now.evaluation_share),
        )

    async def what_if(self, number: int, policy: str) -> Json:
        from edge.core.window import WindowProblem

        detail = await asyncio.to_thread(self.store.window, number)
        if not detail.plans:
            raise NotFound(f"window {number} has no plan")
        record = max(detail.plans, key=lambda p: (bool(_options(p.problem)), -p.id))
        problem = WindowProblem.from_json(record.problem)
        # As it could be granted here, within the same limits: else it is no comparison.
        plan_by = planner(self.runtime.partitioner.caps, time.perf_counter)
        plan = await asyncio.to_thread(plan_by, policy, problem, None, 0.0)
        return {
            "policy": policy,
            "plan": plan.to_json(),
            "objective": plan.objective,
            "original_policy": record.policy,
            "original_objective": record.objective,
            "comparison": compared(number, plan, record, self._other_parts(detail.window.settings)),
        }

    # -- service: models (blocking)

    def models(self, camera: str) -> list[Json]:
        self.runtime.camera(camera)
        return [v.to_json() for v in self.store.versions(camera)]

    def lineage(self, version: str) -> list[Json]:
        return [v.to_json() for v in self.store.lineage(version)]

    async def pin_model(self, version: str, pinned: bool, by: str) -> Json:
        return (await self.runtime.versions.pin(version, pinned, by)).to_json()

    async def roll_back(self, camera: str, version: str | None, by: str, reason: str) -> Json:
        found = self.runtime.camera(camera)
        return (await self.runtime.versions.roll_back(found, version, by, reason)).to_json()

    # -- service: history and live

    def events(self, limit: int, before: int | None, camera: str | None, kind: str | None) -> list[Json]:
        found = self.store.events(limit=limit, before_id=before, camera=camera, kind=kind)
        return [_event_json(e.to_json()) for e in found]

    def subscribe_events(self) -> AsyncIterator[Json]:
        return self._events.listen()

    def watch(self, cameras: tuple[str, ...], fps: float) -> AsyncIterator[LivePicture]:
        for camera in cameras:
            self.runtime.camera(camera)
        return self.live.watch(cameras, fps)

    async def snapshot(self, camera: str, width: int | None) -> bytes:
        self.runtime.camera(camera)
        pictures = self.watch((camera,), 5.0)
        try:
            async with asyncio.timeout(5.0):
                picture = await anext(pictures)
        except TimeoutError:
            raise Unavailable(
                f"camera {camera} has no picture now: {self.runtime.camera(camera).status().state}"
            ) from None
        finally:
            await pictures.aclose()  # type: ignore[attr-defined]
        if width is None:
            return picture.jpeg
        return await asyncio.to_thread(resized, picture.jpeg, width)

    # -- service: secrets, audit (blocking)

    def secrets(self) -> list[Json]:
        return self.keys.secrets(self._secret_users())

    def put_secret(self, name: str, value: str, by: str) -> None:
        self.keys.put_secret(name, value, by)

    def delete_secret(self, name: str, by: str) -> None:
        self.keys.delete_secret(name, by, self._secret_users())

    def audit(self, limit: int, before: int | None) -> list[Json]:
        return self.keys.audit(limit, before)

    def _secret_users(self) -> list[tuple[str, Json]]:
        kept = [(f"camera {c.id}", c.settings) for c in self.store.cameras()]
        outputs = self.store.get_settings("outputs") or self.site.model_dump(mode="json").get("outputs")
        return [*kept, ("outputs", outputs or {})]

    def doctor(self) -> Json:
        from edge.commands.doctor import examine

        # Port 0: ours is taken by ourselves, which is as it should be.
        return examine(Path(self.site.data_dir), self.site.database(), self.site.web.host, 0, self.site.cores)


def _of_worker(settings: CameraSettings) -> CameraSettings:
    """Settings without what only the control process looks at: a change of these needs no other worker."""
    fields = CameraSettings.model_fields
    return settings.model_copy(update={name: fields[name].default for name in ("name", "zones", "retraining")})


def _kept_reference(changed: CameraSettings, before: CameraSettings) -> str:
    """The password reference that a camera may keep whatever it is: for the same server, not for another."""
    try:
        same = changed.url == before.url or urlsplit(changed.url).netloc == urlsplit(before.url).netloc
    except ValueError:  # an address that cannot be read: no server that is known
        same = False
    return before.password_from if same else ""


def retention_limits(settings: RetentionSettings) -> RetentionLimits:
    """The store's limits of the site's settings."""
    return RetentionLimits(
        settings.days, int(settings.max_gb * 1e9), settings.max_events, int(settings.max_events_mb * 1e6)
    )


def _open_device(site: SiteSettings) -> Partitioner:
    """The configured device under the best share kind that its probe showed. Raises ShareError, NotFound."""
    found = devices()
    wanted = site.device
    chosen = next((d for d in found if wanted in ("auto", d.id)), None)
    if chosen is None:
        raise NotFound(f"device {wanted} is not there", "found: " + ", ".join(d.id for d in found))
    prefer = None if site.share_kind == "auto" else site.share_kind
    return open_partitioner(chosen, prefer, cores=site.cores, appliance=site.site).partitioner


def _options(problem: Mapping[str, Any]) -> int:
    return sum(len(s.get("retrain_configs", ())) for s in problem["streams"])


def _event_json(event: Json) -> Json:
    return {
        "id": event["id"],
        "utc_s": event["at_utc_s"],
        "kind": event["kind"],
        "camera": event["camera"],
        "window": event["window"],
        "data": event["data"],
    }


def _version() -> str:
    try:
        return version("magpie-edge")
    except PackageNotFoundError:
        return "unknown"
