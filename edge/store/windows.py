"""Windows with what happened in them: cameras, plans, profiles, jobs, shares and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from edge.core import checks
from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.core.labels import Accuracy
from edge.core.plan_basis import PlanBasis
from edge.core.plan_causes import PlanCause
from edge.core.profiles import RetrainingProfile
from edge.core.shares import Usage
from edge.core.window import WindowPlan, WindowProblem
from edge.core.workers import Activity
from edge.store import tables as t
from edge.store.database import retried, upsert
from edge.store.parts import Part, by_field, document, page, text, words
from edge.store.values import (
    COST_KINDS,
    JOB_ENDS,
    CameraWindow,
    CostKind,
    JobRecord,
    JobState,
    OpenWindow,
    PlanRecord,
    ProfileRecord,
    RecordedCost,
    ShareUsage,
    WindowDetail,
    WindowOutcome,
    WindowRecord,
)

_EMPTY_CAMERA_WINDOW: dict[str, Any] = {
    "frames_sampled": 0,
    "frames_labelled": 0,
    "objects_labelled": 0,
    "losses": {},
    "picture_bytes": 0,
    "pictures_dropped": False,
    "details": {},
}


class WindowsPart(Part):
    """At most one window is open. Records may still be added to a closed window: labels come late."""

    @retried
    def next_window(self) -> int:
        """The number after the newest window's (0 in an empty store): numbers go on over restarts."""
        with self.database.read() as c:
            return _next_window(c)

    @retried
    def open_window(
        self,
        start_utc_s: float,
        length_s: float,
        policy: str,
        settings: Mapping[str, Any] | None = None,
        *,
        number: int | None = None,
    ) -> int:
        """Open a window and return its number: `number`, or the next one. The boundary is one transaction: a window
        still open is closed with outcome "completed" if its time was over at `start_utc_s`, else "aborted".

        Raises Conflict if `number` was used before.
        """
        checks.in_range("window.length_s", length_s, 0.0, 1e7, low_open=True)
        checks.in_range("window.start_utc_s", start_utc_s, 0.0, 1e12)
        doc = document("window.settings", settings or {})
        with self.database.write() as c:
            if number is not None and _exists(c, number):
                raise Conflict(f"window {number} was used before")
            for row in c.execute(sa.select(t.windows).where(t.windows.c.open.is_(True))).mappings().all():
                over = row["start_utc_s"] + row["length_s"] <= start_utc_s + 1.0
                _close(c, row["id"], start_utc_s, "completed" if over else "aborted")
            window = _next_window(c) if number is None else number
            c.execute(
                sa.insert(t.windows).values(
                    id=window,
                    start_utc_s=start_utc_s,
                    length_s=length_s,
                    policy=text("window.policy", policy),
                    settings=doc,
                    open=True,
                    outcome="open",
                    details={},
                )
            )
        return window

    @retried
    def close_window(
        self, window: int, details: Mapping[str, Any] | None = None, *, outcome: WindowOutcome = "completed"
    ) -> None:
        """Close a window, adding `details` to its document. Closing again only adds details: results come late.

        Raises NotFound.
        """
        checks.one_of("window.outcome", outcome, ("completed", "interrupted", "aborted"))
        doc, now = document("window.details", details or {}), self._clock.utc()
        with self.database.write() as c:
            query = sa.select(t.windows.c.open, t.windows.c.details).where(t.windows.c.id == window)
            row = c.execute(query.with_for_update()).first()
            if row is None:
                raise NotFound(f"window {window} does not exist")
            if row.open:
                _close(c, window, now, outcome)
            c.execute(sa.update(t.windows).where(t.windows.c.id == window).values(details=row.details | doc))

    @retried
    def newest(self, limit: int = 50, *, before: int | None = None) -> tuple[WindowRecord, ...]:
        """Windows with their cameras, the newest first; `before` a number for the next page."""
        query = sa.select(t.windows).order_by(t.windows.c.id.desc()).limit(page(limit))
        if before is not None:
            query = query.where(t.windows.c.id < before)
        with self.database.read() as c:
            rows = c.execute(query).mappings().all()
            return _with_cameras(c, [dict(row) for row in rows])

    @retried
    def window(self, window: int) -> WindowDetail:
        """A window with everything recorded of it. Raises NotFound."""
        with self.database.read() as c:
            record = _one_window(c, window)
            return WindowDetail(
                record,
                tuple(PlanRecord(**r) for r in _rows(c, t.plans, window)),
                tuple(ProfileRecord(**r) for r in _rows(c, t.profiles, window)),
                _jobs(c, t.jobs.c.window == window),
                tuple(ShareUsage(**r) for r in _rows(c, t.share_usage, window)),
                _costs(c, window),
            )

    @retried
    def open_window_state(self) -> OpenWindow | None:
        """Where a restart goes on: the open window with its latest plan and its jobs, or None."""
        with self.database.read() as c:
            found = c.execute(sa.select(t.windows.c.id).where(t.windows.c.open.is_(True))).scalar()
            if found is None:
                return None
            latest = sa.select(t.plans).where(t.plans.c.window == found).order_by(t.plans.c.id.desc()).limit(1)
            plan = c.execute(latest).mappings().first()
            return OpenWindow(
                _one_window(c, found), None if plan is None else PlanRecord(**plan), _jobs(c, t.jobs.c.window == found)
            )

    @retried
    def put_camera_window(
        self,
        window: int,
        camera: str,
        *,
        model_version: str | None = None,
        realised: Accuracy | None = None,
        frozen: Accuracy | None = None,
        frames_sampled: int | None = None,
        frames_labelled: int | None = None,
        objects_labelled: int | None = None,
        labelling_delay_s: float | None = None,
        profiling_delay_s: float | None = None,
        losses: Mapping[str, int] | None = None,
        manifest: str | None = None,
        picture_bytes: int | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Record the known values of a camera in a window; a value not given stays. Raises NotFound."""
        given: dict[str, Any] = {
            "model_version": model_version,
            "realised": None if realised is None else document("realised", realised.to_json()),
            "frozen": None if frozen is None else document("frozen", frozen.to_json()),
            "frames_sampled": frames_sampled,
            "frames_labelled": frames_labelled,
            "objects_labelled": objects_labelled,
            "labelling_delay_s": labelling_delay_s,
            "profiling_delay_s": profiling_delay_s,
            "losses": None if losses is None else document("losses", losses),
            "manifest": manifest,
            "picture_bytes": picture_bytes,
            "details": None if details is None else document("details", details),
        }
        changes = {k: v for k, v in given.items() if v is not None}
        key = {"window": window, "camera": text("camera", camera)}
        with self.database.write() as c:
            _need_window(c, window)
            row = _EMPTY_CAMERA_WINDOW | changes | key
            upsert(c, t.camera_windows, ("window", "camera"), row, changes or key)

    @retried
    def first_windows(self) -> dict[str, int]:
        """The first window of each camera that was there later than in the first window of all that are kept: of others
        it is not known, for older windows may be deleted."""
        own = t.camera_windows.c
        with self.database.read() as c:
            oldest = c.execute(sa.select(sa.func.min(t.windows.c.id))).scalar()
            query = sa.select(own.camera, sa.func.min(own.window)).group_by(own.camera)
            return {str(camera): int(first) for camera, first in c.execute(query) if first > oldest}

    @retried
    def camera_windows(self, camera: str, limit: int = 50, *, before: int | None = None) -> tuple[CameraWindow, ...]:
        """One camera over its windows, the newest first."""
        own = t.camera_windows.c
        query = sa.select(t.camera_windows).where(own.camera == camera).order_by(own.window.desc()).limit(page(limit))
        if before is not None:
            query = query.where(own.window < before)
        with self.database.read() as c:
            return tuple(CameraWindow(**row) for row in c.execute(query).mappings())

    @retried
    def add_plan(
        self,
        window: int,
        problem: WindowProblem,
        plan: WindowPlan,
        cause: PlanCause,
        at_utc_s: float | None = None,
        basis: PlanBasis | None = None,
    ) -> int:
        """Record a plan with its problem, why it was made now, and from what; returns the record's id. Raises
        NotFound."""
        row = {
            "window": window,
            "at_utc_s": self._clock.utc() if at_utc_s is None else at_utc_s,
            "cause": words(cause.what),
            "cause_code": cause.code,
            "cause_camera": cause.camera,
            "policy": plan.policy,
            "objective": plan.objective,
            "problem": document("problem", problem.to_json()),
            "plan": document("plan", plan.to_json()),
            "basis": sa.null() if basis is None else document("basis", basis.to_json()),
        }
        with self.database.write() as c:
            _need_window(c, window)
            return int(c.execute(sa.insert(t.plans).values(**row).returning(t.plans.c.id)).scalar_one())

    @retried
    def plans(self, window: int) -> tuple[PlanRecord, ...]:
        """The plans of a window, the oldest first."""
        with self.database.read() as c:
            return tuple(PlanRecord(**r) for r in _rows(c, t.plans, window))

    @retried
    def add_profiles(
        self, window: int, camera: str, profiles: Sequence[RetrainingProfile], at_utc_s: float | None = None
    ) -> None:
        """Record the micro-profiler's findings about a camera. Raises NotFound."""
        now = self._clock.utc() if at_utc_s is None else at_utc_s
        rows = [
            {
                "window": window,
                "camera": text("camera", camera),
                "config": profile.config.id,
                "at_utc_s": now,
                "profile": document("profile", profile.to_json()),
            }
            for profile in profiles
        ]
        with self.database.write() as c:
            _need_window(c, window)
            if rows:
                c.execute(sa.insert(t.profiles), rows)

    @retried
    def profiles(self, camera: str, limit: int = 200) -> tuple[ProfileRecord, ...]:
        """The newest profiles of a camera, over windows, the newest first."""
        own = t.profiles.c
        query = sa.select(t.profiles).where(own.camera == camera).order_by(own.window.desc(), own.id.desc())
        with self.database.read() as c:
            return tuple(ProfileRecord(**r) for r in c.execute(query.limit(page(limit))).mappings())

    @retried
    def start_job(
        self,
        job: str,
        window: int,
        camera: str,
        config: str,
        share: float,
        *,
        accuracy_before: float | None = None,
        model_version: str | None = None,
    ) -> JobRecord:
        """Record that a retraining starts. A job that ended (a restart) is started again, with the next attempt.

        Raises Conflict if it is running, NotFound without its window.
        """
        row: dict[str, Any] = {
            "id": text("job", job),
            "window": window,
            "camera": text("camera", camera),
            "config": text("config", config),
            "share": share,
            "state": "running",
            "attempt": 1,
            "started_utc_s": self._clock.utc(),
            "ended_utc_s": None,
            "fraction": 0.0,
            "device_seconds": 0.0,
            "accuracy_before": accuracy_before,
            "accuracy_after": None,
            "promoted": False,
            "reason": "",
            "model_version": model_version,
        }
        with self.database.write() as c:
            _need_window(c, window)
            query = sa.select(t.jobs.c.state, t.jobs.c.attempt).where(t.jobs.c.id == job)
            old = c.execute(query.with_for_update()).first()
            if old is None:
                c.execute(sa.insert(t.jobs).values(**row))
            elif old.state == "running":
                raise Conflict(f"job {job} is running")
            else:
                row["attempt"] = old.attempt + 1
                c.execute(sa.update(t.jobs).where(t.jobs.c.id == job).values(**row))
        return JobRecord(**row)

    @retried
    def update_job(
        self,
        job: str,
        *,
        fraction: float | None = None,
        device_seconds: float | None = None,
        share: float | None = None,
    ) -> None:
        """Record the progress of a running job; one that has ended is left alone. Raises NotFound."""
        given = {"fraction": fraction, "device_seconds": device_seconds, "share": share}
        changes = {k: v for k, v in given.items() if v is not None}
        with self.database.write() as c:
            _need_job(c, job)
            if changes:
                running = (t.jobs.c.id == job) & (t.jobs.c.state == "running")
                c.execute(sa.update(t.jobs).where(running).values(**changes))

    @retried
    def end_job(
        self,
        job: str,
        state: JobState,
        *,
        device_seconds: float | None = None,
        accuracy_after: float | None = None,
        promoted: bool = False,
        reason: str = "",
        model_version: str | None = None,
    ) -> None:
        """Record the end of a job. Raises NotFound, or InvalidValue for a state that does not end a retraining."""
        checks.one_of("job.state", state, JOB_ENDS)
        changes: dict[str, Any] = {
            "state": state,
            "ended_utc_s": self._clock.utc(),
            "promoted": promoted,
            "reason": words(reason),
        }
        late = {"device_seconds": device_seconds, "accuracy_after": accuracy_after, "model_version": model_version}
        changes |= {k: v for k, v in late.items() if v is not None}
        if state == "completed":
            changes["fraction"] = 1.0
        with self.database.write() as c:
            _need_job(c, job)
            c.execute(sa.update(t.jobs).where(t.jobs.c.id == job).values(**changes))

    @retried
    def jobs(
        self, *, camera: str | None = None, window: int | None = None, state: JobState | None = None, limit: int = 200
    ) -> tuple[JobRecord, ...]:
        """Jobs, the newest first."""
        own = t.jobs.c
        query = sa.select(t.jobs).order_by(own.started_utc_s.desc(), own.id.desc()).limit(page(limit))
        for column, value in ((own.camera, camera), (own.window, window), (own.state, state)):
            if value is not None:
                query = query.where(column == value)
        with self.database.read() as c:
            return tuple(JobRecord(**by_field(t.jobs, row)) for row in c.execute(query).mappings())

    @retried
    def add_usage(
        self, window: int, usages: Sequence[tuple[Usage, Activity, str | None]], at_utc_s: float | None = None
    ) -> None:
        """Record workers' given and used shares: (usage, purpose, camera or None) each. Raises NotFound."""
        now = self._clock.utc() if at_utc_s is None else at_utc_s
        rows = [
            {
                "window": window,
                "at_utc_s": now,
                "worker": text("worker", usage.worker),
                "role": activity,
                "camera": camera,
                "asked": usage.asked,
                "granted": usage.granted,
                "used": usage.used_share,
                "device_seconds": usage.device_seconds,
                "wall_s": usage.wall_s,
                "throttled_fraction": usage.throttled_fraction,
            }
            for usage, activity, camera in usages
        ]
        with self.database.write() as c:
            _need_window(c, window)
            if rows:
                c.execute(sa.insert(t.share_usage), rows)

    @retried
    def add_cost(
        self,
        window: int,
        kind: CostKind,
        *,
        camera: str | None = None,
        device_seconds: float = 0.0,
        wall_s: float = 0.0,
    ) -> None:
        """Add to the costs of a window. Raises NotFound, InvalidValue."""
        checks.one_of("cost.kind", kind, COST_KINDS)
        checks.in_range("cost.device_seconds", device_seconds, 0.0, 1e12)
        checks.in_range("cost.wall_s", wall_s, 0.0, 1e12)
        row = {"window": window, "camera": camera, "kind": kind, "device_seconds": device_seconds, "wall_s": wall_s}
        with self.database.write() as c:
            _need_window(c, window)
            c.execute(sa.insert(t.costs).values(**row))


def _next_window(c: Connection) -> int:
    newest = c.execute(sa.select(sa.func.max(t.windows.c.id))).scalar()
    return 0 if newest is None else int(newest) + 1


def _exists(c: Connection, window: int) -> bool:
    if isinstance(window, bool) or not isinstance(window, int) or not 0 <= window < 2**62:
        raise InvalidValue("window", window, "a whole number from 0")
    return c.execute(sa.select(t.windows.c.id).where(t.windows.c.id == window)).first() is not None


def _need_window(c: Connection, window: int) -> None:
    if not _exists(c, window):
        raise NotFound(f"window {window} does not exist")


def _need_job(c: Connection, job: str) -> None:
    if c.execute(sa.select(t.jobs.c.id).where(t.jobs.c.id == job)).first() is None:
        raise NotFound(f"job {job} does not exist")


def _close(c: Connection, window: int, at_utc_s: float, outcome: str) -> None:
    row = {"open": False, "closed_utc_s": at_utc_s, "outcome": outcome}
    c.execute(sa.update(t.windows).where(t.windows.c.id == window).values(**row))


def _rows(c: Connection, table: sa.Table, window: int) -> Sequence[sa.RowMapping]:
    return c.execute(sa.select(table).where(table.c.window == window).order_by(table.c.id)).mappings().all()


def _jobs(c: Connection, where: sa.ColumnElement[bool]) -> tuple[JobRecord, ...]:
    query = sa.select(t.jobs).where(where).order_by(t.jobs.c.started_utc_s, t.jobs.c.id)
    return tuple(JobRecord(**by_field(t.jobs, row)) for row in c.execute(query).mappings())


def _costs(c: Connection, window: int) -> tuple[RecordedCost, ...]:
    own = t.costs.c
    query = (
        sa.select(
            own.camera, own.kind, sa.func.sum(own.device_seconds).label("gpu"), sa.func.sum(own.wall_s).label("wall")
        )
        .where(own.window == window)
        .group_by(own.camera, own.kind)
    )
    sums = [RecordedCost(window, r.camera, r.kind, float(r.gpu), float(r.wall)) for r in c.execute(query)]
    return tuple(sorted(sums, key=lambda cost: (cost.camera or "", cost.kind)))


def _one_window(c: Connection, window: int) -> WindowRecord:
    row = c.execute(sa.select(t.windows).where(t.windows.c.id == window)).mappings().first()
    if row is None:
        raise NotFound(f"window {window} does not exist")
    return _with_cameras(c, [dict(row)])[0]


def _with_cameras(c: Connection, rows: list[dict[str, Any]]) -> tuple[WindowRecord, ...]:
    if not rows:
        return ()
    own = t.camera_windows.c
    numbers = [row["id"] for row in rows]
    # A page has its windows next to each other, so a range finds them (an IN list would hit SQLite's limit).
    query = sa.select(t.camera_windows).where(own.window.between(min(numbers), max(numbers))).order_by(own.camera)
    by_window: dict[int, list[CameraWindow]] = {}
    for row in c.execute(query).mappings():
        by_window.setdefault(row["window"], []).append(CameraWindow(**row))
    return tuple(WindowRecord(**row, cameras=tuple(by_window.get(row["id"], ()))) for row in rows)
