"""The controller's orders, carried out: timers, records, shares, profiles and retrainings."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from functools import singledispatchmethod

from edge.core import events as ev
from edge.core.journal_kinds import JournalNote
from edge.core.plan_basis import PlanBasis
from edge.core.plan_reasons import reasons_in_words
from edge.runtime import messages as m
from edge.runtime.borrowed_profiles import BorrowedProfiles
from edge.runtime.boundary import Boundary
from edge.runtime.camera_workers import CameraWorkers
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.preparation import Preparation
from edge.runtime.retrainings import Retrainings
from scheduler.window_planning import MakePlan, PlanQuestion


class Instructions:
    """The runtime's hands for `scheduler.controller`. `boundary_reached()` is called when the window is over,
    `dispatch` hands an event to the controller, `note` journals, `ask` has a plan made."""

    def __init__(
        self,
        parts: LeafParts,
        preparation: Preparation,
        camera_workers: CameraWorkers,
        boundary: Boundary,
        retrainings: Retrainings,
        borrowed: BorrowedProfiles,
        boundary_reached: Callable[[], None],
        dispatch: Callable[[ev.Event], None],
        note: JournalNote,
        ask: Callable[[PlanQuestion], None],
    ) -> None:
        self._parts, self._preparation, self._camera_workers = parts, preparation, camera_workers
        self._boundary, self._retrainings, self._borrowed = boundary, retrainings, borrowed
        self._boundary_reached, self._dispatch, self._note, self._ask = boundary_reached, dispatch, note, ask
        self.stopped = False
        self._timers: list[asyncio.TimerHandle] = []

    @singledispatchmethod
    def do(self, instruction: ev.Instruction) -> None:
        """Carry an instruction out. Raises MagpieError, and TypeError for an unknown one."""
        raise TypeError(f"no way to carry out {type(instruction).__name__}")

    def stop(self) -> None:
        """The appliance ends: nothing is due any more, and nothing is ordered."""
        self.stopped = True
        for timer in self._timers:
            timer.cancel()

    # -- windows

    @do.register
    def _open_window(self, order: ev.ScheduleBoundary) -> None:
        parts = self._parts
        parts.window.open(parts.controller.state.window_start_s)
        s = parts.window.settings
        self._later(order.at_s, self._boundary_reached)
        if order.resumed:
            self._note("window.resumed", window=order.window)
            for camera in parts.cameras.values():
                self._camera_workers.go_on(camera, order.window)
            return
        self._preparation.open_window(order.window)
        parts.records.write(
            parts.store.windows.open_window,
            parts.window.start_utc_s,
            s.window_s,
            s.policy,
            s.model_dump(mode="json")
            | {"golden_share": parts.shares.golden, "evaluation_share": parts.shares.evaluation},
            number=order.window,
        )
        self._note("window.opened", window=order.window, data={"length_s": s.window_s, "policy": s.policy})
        if order.window == 1 or not parts.controller.state.awaiting_labels:
            for camera in parts.cameras.values():
                self._camera_workers.next_window(camera, order.window - 1, order.window)

    @do.register
    def _close_window(self, order: ev.CloseWindow) -> None:
        parts = self._parts
        rows = parts.usage()
        parts.shares.partitioner.reset_usage()
        parts.records.write(parts.store.windows.add_usage, order.window, rows)
        for camera in parts.cameras.values():
            parts.records.write(parts.store.windows.put_camera_window, order.window, camera.id, losses=camera.losses())
        parts.records.write(parts.store.windows.close_window, order.window, dict(order.details))
        self._note("window.closed", window=order.window)

    @do.register
    def _close_sample(self, order: ev.CloseSample) -> None:
        self._boundary.close(order)

    @do.register
    def _record_plan(self, order: ev.RecordPlan) -> None:
        parts = self._parts
        basis = PlanBasis.of(order.request, order.problem, parts.shares.partitioner.caps)
        parts.records.write(
            parts.store.windows.add_plan, order.window, order.problem, order.plan, order.cause, basis=basis
        )
        self._preparation.planned(order)
        self._note(
            "plan",
            window=order.window,
            data={
                "policy": order.plan.policy,
                "cause": order.cause.what,
                "cause_camera": order.cause.camera,
                "objective": order.plan.objective,
                "decision_s": order.plan.decision_seconds,
                "reasons": reasons_in_words(order.plan.reasons),
            },
        )

    @do.register
    def _make_plan(self, order: MakePlan) -> None:
        self._ask(order.question)

    @do.register
    def _complain(self, order: ev.Complain) -> None:
        self._parts.complaints.add(order.code, order.message, order.camera)

    # -- time

    @do.register
    def _deadline(self, order: ev.ScheduleDeadline) -> None:
        self._dispatch_later(order.at_s, lambda now: ev.DeadlinePassed(now, order.window))

    @do.register
    def _hand_in_due(self, order: ev.ScheduleHandIn) -> None:
        self._dispatch_later(order.at_s, lambda now: ev.HandInDue(now, order.window))

    @do.register
    def _replan_due(self, order: ev.ScheduleReplan) -> None:
        self._dispatch_later(order.at_s, lambda now: ev.SegmentDue(now, order.plan_number))

    def _dispatch_later(self, at_s: float, event: Callable[[float], ev.Event]) -> None:
        self._later(at_s, lambda: self._dispatch(event(self._parts.clock.monotonic())))

    def _later(self, at_s: float, call: Callable[[], None]) -> None:
        # On Linux the loop's clock is CLOCK_MONOTONIC, as is ours.
        loop = asyncio.get_running_loop()
        delay = max(0.0, at_s - self._parts.clock.monotonic())
        self._timers = [t for t in self._timers if not t.cancelled() and t.when() > loop.time()]
        self._timers.append(loop.call_later(delay, call))

    # -- profiles

    @do.register
    def _profile(self, order: ev.StartProfiling) -> None:
        parts = self._parts
        camera = parts.cameras.get(order.camera)
        data = None if camera is None else camera.closed.get(order.window)
        if camera is None or data is None:
            self._dispatch(ev.Profiled(parts.clock.monotonic(), order.camera, order.window, ()))
            return
        if order.hurry and self._preparation.knows():
            asyncio.get_running_loop().call_soon(self._preparation.from_history, data)
            return
        seed = zlib.crc32(f"{order.camera} {order.window}".encode())
        job = m.Profile(
            data,
            parts.student(camera.version),
            parts.window.settings.configs(camera.published),
            parts.learning.profiling_s(),
            camera.history,
            parts.shares.cores,
            seed,
            parts.download(camera),
            camera.region,
        )
        if not self._preparation.tries(camera):
            if not self._borrowed.give(job):
                asyncio.get_running_loop().call_soon(self._preparation.from_history, data)
            return
        self._preparation.share(order.share)
        parts.profilers.ask(job)

    @do.register
    def _hand_in(self, order: ev.HandIn) -> None:
        self._preparation.hand_in(order.last)

    @do.register
    def _stop_profiling(self, order: ev.StopProfiling) -> None:
        self._preparation.hand_in()

    # -- shares and retrainings

    @do.register
    def _set_shares(self, order: ev.SetShares) -> None:
        parts = self._parts
        wanted: list[tuple[str, float]] = []
        for name, share in order.inference.items():
            camera = parts.cameras.get(name)
            if camera is None:
                continue
            wanted.append((camera.worker, share))
            camera.share = share
            self._camera_workers.choose_inference(camera)
        wanted += [(parts.cameras[c].trainer, s) for c, s in order.retraining.items() if c in parts.cameras]
        if parts.controller.state.phase != "preparing":
            wanted += [*parts.profilers.shares(parts.shares.evaluation), ("golden", parts.shares.golden)]
        # Those that give go first, so that at no instant more is granted than there is.
        now = {u["name"]: u["share"] for u in parts.supervisor.workers()}
        for name, share in sorted(wanted, key=lambda w: w[1] - now.get(w[0], 0.0)):
            parts.supervisor.resize(name, max(parts.shares.quantized(share), parts.shares.partitioner.caps.min_share))
        self._retrainings.shares(order.retraining)

    @do.register
    def _start_retraining(self, order: ev.StartRetraining) -> None:
        self._retrainings.start(order)

    @do.register
    def _stop_retraining(self, order: ev.StopRetraining) -> None:
        self._retrainings.stop(order)
