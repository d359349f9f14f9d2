"""How the appliance is: health, the overview, metrics, the system page, the log and the doctor."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

from edge.appliance import system
from edge.appliance.alarms import Alarms
from edge.appliance.answers.clips import ClipCounts
from edge.appliance.answers.fleet import FleetLendingAnswer
from edge.appliance.answers.fleet_jobs import FleetJobsAnswer
from edge.appliance.answers.metrics import MetricsSnapshot
from edge.appliance.answers.read import read
from edge.appliance.answers.state import BoxHealth, Doctor, Overview
from edge.appliance.answers.system import LogAnswer, SystemAnswer
from edge.appliance.drawn_models import drawn_models
from edge.appliance.examine import examine
from edge.appliance.housekeeping import Housekeeping
from edge.appliance.journal import Journal
from edge.appliance.live import LivePictures
from edge.appliance.metrics import disk, expected_accuracy
from edge.appliance.outputs import Outputs
from edge.appliance.picture_requests import LOW_DISK_BYTES
from edge.appliance.served_models import ServedModels
from edge.appliance.service import Json
from edge.appliance.tenants import Tenants
from edge.appliance.truth import Truth
from edge.core.clock import Clock
from edge.core.errors import MagpieError
from edge.core.plan_reasons import reasons_in_words
from edge.logs import LogRing
from edge.runtime.runtime import Runtime
from edge.runtime.tenant_members import applications_of, disputed_members
from edge.settings import SiteSettings
from edge.shares.discover import Discovery, discover
from edge.store.store import Store
from edge.version import magpie_version

#: Complaints that make the box less than healthy for as long as they are new.
_GRAVE = ("window_too_short", "floor_unreachable", "planning_failed", "labels", "worker_memory")


class State:
    """Implements `StateService`. `log` and `doctor` block."""

    def __init__(
        self,
        site: SiteSettings,
        store: Store,
        clock: Clock,
        runtime: Runtime,
        *,
        journal: Journal,
        housekeeping: Housekeeping,
        live: LivePictures,
        served: ServedModels,
        alarms: Alarms,
        outputs: Outputs,
        truth: Truth,
        tenants: Tenants,
        lending: Callable[[], FleetLendingAnswer],
        fleet_jobs: Callable[[], FleetJobsAnswer | None],
        counting: Callable[[], Json],
        clips: Callable[[], ClipCounts],
        ring: LogRing,
    ) -> None:
        self._site, self._store, self._clock, self._runtime = site, store, clock, runtime
        self._journal, self._housekeeping, self._live, self._served = journal, housekeeping, live, served
        self._alarms, self._outputs, self._truth, self._ring = alarms, outputs, truth, ring
        self._tenants, self._lending, self._fleet_jobs, self._counting = tenants, lending, fleet_jobs, counting
        self._clips = clips
        self._started_s = clock.monotonic()
        self._found: Discovery | None = None

    def health(self) -> BoxHealth:
        """Health, and the reasons where it is not good."""
        return read(BoxHealth, self._health())

    def _health(self) -> Json:
        runtime, stats = self._runtime, self._journal.buffer.stats()
        labels = runtime.golden.ready or not runtime.golden.started
        sick = runtime.supervisor.device.trouble
        enabled = [c for c in runtime.cameras.values() if c.settings.enabled]
        live = [c for c in enabled if c.status().state == "live"]
        ready = (not enabled or bool(live)) and labels and stats.failing_since_utc_s is None and sick is None
        serving = self._served.runtime
        return {
            "live": True,
            "ready": ready and (serving is None or serving.ready),
            "reasons": [
                *self._reasons_of_cameras(labels),
                *self._reasons_of_box(sick),
                *self._recent_complaints(),
                *drawn_models(self._site, runtime.cameras.values()),
                *self._outputs.reasons(),
                *self._served.reasons(),
                *self._disputed_members(),
            ],
            "uptime_s": self._clock.monotonic() - self._started_s,
            "version": magpie_version(),
        }

    def _reasons_of_cameras(self, labels: bool) -> list[Json]:
        reasons: list[Json] = []
        if not labels:
            reasons.append({"code": "golden_not_ready", "message": "the golden model is being loaded or started again"})
        for camera in self._runtime.cameras.values():
            status = camera.status()
            if camera.settings.enabled and status.state != "live":
                words = status.message or status.fault or status.state
                reasons.append({"code": f"camera_{status.state}", "message": words, "camera": camera.id})
        return reasons

    def _reasons_of_box(self, sick: str | None) -> list[Json]:
        reasons: list[Json] = []
        stats = self._journal.buffer.stats()
        if stats.failing_since_utc_s is not None:
            reasons.append({"code": "store", "message": f"the database cannot be written: {stats.last_error}"})
        if self._housekeeping.low:
            reasons.append({"code": "disk_full", "message": f"little disk space is left in {self._site.data_dir}"})
        if sick is not None:
            reasons.append({"code": "device", "message": sick})
        return reasons

    def _recent_complaints(self) -> list[Json]:
        recent = self._clock.utc() - 2 * self._runtime.window.settings.window_s
        return [
            {k: complaint[k] for k in ("code", "message", "camera")}
            for complaint in self._runtime.complaints.recent
            if complaint["utc_s"] >= recent and complaint["code"] in _GRAVE
        ]

    def _disputed_members(self) -> list[Json]:
        """Models that another tenant has than the one that names them: applications change without the tenants."""
        found = disputed_members(self._tenants.shares.tenants, applications_of(self._served.runtime))
        return [{"code": "tenant_member", "message": one.words(), "camera": None} for one in found]

    def overview(self) -> Overview:
        """Small and cheap: asked each second."""
        return read(Overview, self._overview())

    def _overview(self) -> Json:
        runtime, state = self._runtime, self._runtime.controller.state
        shares = {}
        for camera in runtime.cameras.values():
            job = runtime.students.retrainings.running.get(camera.id)
            shares[camera.id] = {
                "inference": camera.share,
                "retraining": 0.0 if job is None else job.share,
                "config": None if job is None else job.config,
                "lambda": None if camera.inference is None else camera.inference.id,
            }
        plan, workers, clips = state.plan, runtime.supervisor.workers(), self._clips()
        return {
            "site": self._site.site,
            "utc_s": self._clock.utc(),
            "window": {
                "number": state.window,
                "start_utc_s": runtime.window.start_utc_s,
                "phase": state.phase,
                "length_s": runtime.window.settings.window_s,
                "end_utc_s": runtime.window.end_utc_s,
            },
            "policy": runtime.window.settings.policy,
            "plan": None if plan is None else {"objective": plan.objective, "reasons": reasons_in_words(plan.reasons)},
            "device": runtime.shares.partitioner.caps.to_json(),
            "shares": shares,
            "golden_share": runtime.shares.golden,
            "profiling_share": sum(w["share"] for w in workers if w["role"] == "profiling"),
            "lent_share": runtime.shares.lent,
            "control_share": self._site.machine.control_share,
            "serving": self._served.overview(),
            "usage": [
                u.to_json() | {"activity": activity, "camera": camera} for u, activity, camera in runtime.usage()
            ],
            "cameras": [
                {"id": c.id, "name": c.settings.name or c.id, "state": c.state_json()} for c in runtime.cameras.values()
            ],
            "jobs": [j.to_json() for j in runtime.students.retrainings.running.values()],
            "complaints": list(runtime.complaints.recent)[-10:],
            "workers": workers,
            "losses": {
                "labels": runtime.golden.labels.counters.to_json(),
                "journal": self._journal.buffer.stats().lost,
                "labels_waiting": runtime.golden.labels.waiting(),
                "live_pictures": self._live.missed,
                "alarms": self._alarms.counts()["lost"],
                "clips": clips.not_taken + sum(clips.failed.values()),
            },
        }

    async def metrics(self) -> MetricsSnapshot:
        """A snapshot for `/metrics`."""
        serving = self._served.current()
        cameras = self._runtime.cameras
        snapshot = {
            "health": self.health(),
            "overview": self.overview(),
            "expected_accuracy": {c.id: expected_accuracy(c.version) for c in cameras.values()},
            "counts": self._journal.tally.to_json() | {"silence": self._housekeeping.silences.to_json()},
            "live_pictures": {c: self._live.encoded(c) for c in cameras},
            "records_unreadable": self._store.database.unreadable.counts(),
            "disk": await asyncio.to_thread(disk, Path(self._site.data_dir)),
            "serving": serving,
            "statistics": await self._served.statistics(serving),
            "outputs": self._outputs.metrics(),
            "alarms": self._alarms.counts(),
            "truth": await asyncio.to_thread(self._truth.latest, list(cameras)),
            "tenants": self._tenants.all(),
            "lending": self._lending(),
            "fleet_jobs": self._fleet_jobs(),
            "counting": self._counting(),
            "clips": self._clips(),
        }
        return read(MetricsSnapshot, snapshot)

    async def system(self) -> SystemAnswer:
        """For the system page."""
        overview, health = self._overview(), self._health()
        caps, counts = self._runtime.shares.partitioner.caps, self._journal.tally.to_json()["retention"]
        if self._found is None:
            self._found = await asyncio.to_thread(discover)
        used = await asyncio.to_thread(system.memory, [w["pid"] for w in overview["workers"]])
        kept = {
            "control": self._site.machine.control_share,
            "golden": self._runtime.shares.golden,
            "evaluation": self._runtime.shares.evaluation,
            "front": self._runtime.shares.front,
        }
        failures = counts["deleted"].get("failures", 0)
        found = {
            "site": self._site.site,
            "utc_s": overview["utc_s"],
            "started_utc_s": overview["utc_s"] - health["uptime_s"],
            "health": health,
            "devices": [d.to_json() | {"in_use": d.id == caps.device} for d in self._found.devices],
            "notes": list(self._found.notes),
            "shares": system.shares(caps, kept),
            "workers": system.workers(overview["workers"], overview["usage"], used),
            "disk": await self._disk(counts),
            "losses": system.losses(
                overview,
                self._served.current(),
                failures,
                self._outputs.metrics(),
                sum(self._store.database.unreadable.counts().values()),
            ),
            "versions": system.versions(magpie_version(), self._store.schema, self._store.database.name),
        }
        return read(SystemAnswer, found)

    async def _disk(self, retained: Json) -> Json:
        folder = Path(self._site.data_dir)
        sizes: dict[str, int] | None = None
        with contextlib.suppress(MagpieError):  # the database is away: everything else can be answered
            sizes = await asyncio.to_thread(self._store.retention.sizes)
        return await asyncio.to_thread(disk, folder) | {
            "folder": str(folder.absolute()),
            "low": self._housekeeping.low,
            "low_bytes": LOW_DISK_BYTES,
            "sizes": sizes,
            "retention": self._site.retention,
            "recording": self._site.recording,
            "retained": retained,
        }

    def log(
        self,
        limit: int,
        level: str = "DEBUG",
        before: int | None = None,
        after: int | None = None,
        text: str = "",
    ) -> LogAnswer:
        """Records that are still in memory, newest first."""
        found = {
            "records": self._ring.records(limit, level, before, after, text),
            "capacity": self._ring.capacity,
            "forgotten": self._ring.forgotten,
            "level": logging.getLevelName(logging.getLogger().getEffectiveLevel()),
        }
        return read(LogAnswer, found)

    def doctor(self) -> Doctor:
        """The limits that this machine can enforce, and the reasons for no more."""
        site = self._site
        cores = site.machine.cores
        # Port 0: ours is taken by ourselves, which is as it should be.
        return read(Doctor, examine(Path(site.data_dir), site.database(), site.web.host, 0, cores, site.fleet))
