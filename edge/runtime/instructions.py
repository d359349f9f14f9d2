"""The controller's orders, carried out: timers, records, shares, profiles and retrainings."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from functools import singledispatchmethod
from typing import TYPE_CHECKING

from edge.core import events as ev
from edge.core.journal_kinds import JournalNote
from edge.core.plan_basis import PlanBasis
from edge.core.plan_reasons import reasons_in_words
from edge.runtime import messages as m
from scheduler.window_planning import MakePlan, PlanQuestion

if TYPE_CHECKING:
    from edge.runtime.runtime import Runtime


class Instructions:
    """The runtime's hands for `scheduler.controller`; `ask` has a plan made."""

    def __init__(self, runtime: Runtime, note: JournalNote, ask: Callable[[PlanQuestion], None]) -> None:
        self._r, self._note, self._ask = runtime, note, ask
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
        r = self._r
        r.window.open(r.controller.state.window_start_s)
        s = r.window.settings
        self._later(order.at_s, r.boundary_reached)
        if order.resumed:
            self._note("window.resumed", window=order.window)
            for camera in r.cameras.values():
                r.camera_workers.go_on(camera, order.window)
            return
        r.preparation.open_window(order.window)
        r.records.write(
            r.store.windows.open_window,
            r.window.start_utc_s,
            s.window_s,
            s.policy,
            s.model_dump(mode="json") | {"golden_share": r.shares.golden, "evaluation_share": r.shares.evaluation},
            number=order.window,
        )
        self._note("window.opened", window=order.window, data={"length_s": s.window_s, "policy": s.policy})
        if order.window == 1 or not r.controller.state.awaiting_labels:
            for camera in r.cameras.values():
                r.camera_workers.next_window(camera, order.window - 1, order.window)

    @do.register
    def _close_window(self, order: ev.CloseWindow) -> None:
        r = self._r
        rows = r.usage()
        r.shares.partitioner.reset_usage()
        r.records.write(r.store.windows.add_usage, order.window, rows)
        for camera in r.cameras.values():
            r.records.write(r.store.windows.put_camera_window, order.window, camera.id, losses=camera.losses())
        r.records.write(r.store.windows.close_window, order.window, dict(order.details))
        self._note("window.closed", window=order.window)

    @do.register
    def _close_sample(self, order: ev.CloseSample) -> None:
        self._r.boundary.close(order)

    @do.register
    def _record_plan(self, order: ev.RecordPlan) -> None:
        r = self._r
        basis = PlanBasis.of(order.request, order.problem, r.shares.partitioner.caps)
        r.records.write(r.store.windows.add_plan, order.window, order.problem, order.plan, order.cause, basis=basis)
        r.preparation.planned(order)
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
        self._r.complaints.add(order.code, order.message, order.camera)

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
        self._later(at_s, lambda: self._r.dispatch(event(self._r.clock.monotonic())))

    def _later(self, at_s: float, call: Callable[[], None]) -> None:
        # On Linux the loop's clock is CLOCK_MONOTONIC, as is ours.
        loop = asyncio.get_running_loop()
        delay = max(0.0, at_s - self._r.clock.monotonic())
        self._timers = [t for t in self._timers if not t.cancelled() and t.when() > loop.time()]
        self._timers.append(loop.call_later(delay, call))

    # -- profiles

    @do.register
    def _profile(self, order: ev.StartProfiling) -> None:
        r = self._r
        camera = r.cameras.get(order.camera)
        data = None if camera is None else camera.closed.get(order.window)
        if camera is None or data is None:
            r.dispatch(ev.Profiled(r.clock.monotonic(), order.camera, order.window, ()))
            return
        if order.hurry and r.preparation.knows():
            asyncio.get_running_loop().call_soon(r.preparation.from_history, data)
            return
        seed = zlib.crc32(f"{order.camera} {order.window}".encode())
        job = m.Profile(
            data,
            r.student(camera.version),
            r.window.settings.configs(camera.published),
            r.learning.profiling_s(),
            camera.history,
            r.shares.cores,
            seed,
            r.download(camera),
            camera.region,
        )
        if not r.preparation.tries(camera):
            if not r.students.borrowing.profiles.give(job):
                asyncio.get_running_loop().call_soon(r.preparation.from_history, data)
            return
        r.preparation.share(order.share)
        r.profilers.ask(job)

    @do.register
    def _hand_in(self, order: ev.HandIn) -> None:
        self._r.preparation.hand_in(order.last)

    @do.register
    def _stop_profiling(self, order: ev.StopProfiling) -> None:
        self._r.preparation.hand_in()

    # -- shares and retrainings

    @do.register
    def _set_shares(self, order: ev.SetShares) -> None:
        r = self._r
        wanted: list[tuple[str, float]] = []
        for name, share in order.inference.items():
            camera = r.cameras.get(name)
            if camera is None:
                continue
            wanted.append((camera.worker, share))
            camera.share = share
            r.camera_workers.choose_inference(camera)
        wanted += [(r.cameras[c].trainer, s) for c, s in order.retraining.items() if c in r.cameras]
        if r.controller.state.phase != "preparing":
            wanted += [*r.profilers.shares(r.shares.evaluation), ("golden", r.shares.golden)]
        # Those that give go first, so that at no instant more is granted than there is.
        now = {u["name"]: u["share"] for u in r.supervisor.workers()}
        for name, share in sorted(wanted, key=lambda w: w[1] - now.get(w[0], 0.0)):
            r.supervisor.resize(name, max(r.shares.quantized(share), r.shares.partitioner.caps.min_share))
        r.students.retrainings.shares(order.retraining)

    @do.register
    def _start_retraining(self, order: ev.StartRetraining) -> None:
        self._r.students.retrainings.start(order)

    @do.register
    def _stop_retraining(self, order: ev.StopRetraining) -> None:
        self._r.students.retrainings.stop(order)
