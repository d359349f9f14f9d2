"""Carries out what was decided about learning: the golden share that follows, the time until labels and profiles are
ready, and profiles without a trial. One object beside the runtime, on its event loop."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from edge.core import events as ev
from edge.core.facts import FrameLabelled
from edge.core.journal_kinds import JournalNote
from edge.core.labels import LabelledWindow
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime
from edge.runtime.learning import BudgetBox, history_of
from edge.runtime.running_job import RunningJob

if TYPE_CHECKING:
    from edge.runtime.runtime import Runtime


class Preparation:
    """The runtime's hands for `edge.runtime.learning`."""

    def __init__(self, runtime: Runtime, note: JournalNote, write: Callable[..., None]) -> None:
        """`note` journals, `write` calls the store behind."""
        self._r, self._note, self._write = runtime, note, write

    def box(self) -> BudgetBox:
        """The facts that decide the learning budget."""
        r = self._r
        enabled = [c for c in r.cameras.values() if c.settings.enabled]
        capacity = max(0.05, 1.0 - r.site.control_share - r.shares.front - r.shares.serving)
        need = sum(c.profile.max_gpu for c in enabled)
        unknown = any(not history_of(c.history).known for c in enabled)
        published = 2 * sum(c.published for c in enabled) > len(enabled)
        return BudgetBox(
            capacity, need, len(enabled), self.thread, len(r.profilers.names), 1 if unknown else 0, published
        )

    @property
    def thread(self) -> float:
        """The most of the device that one thread can use."""
        return min(1.0, 1.0 / self._r.shares.cores)

    def labels(self, camera: CameraRuntime) -> int:
        """Frames of a camera's window that shall be labelled."""
        return self._r.learning.labels(self._r.window.settings, camera.settings)

    def labels_of_all(self) -> int:
        """Frames of a window of all cameras that shall be labelled."""
        return sum(self.labels(c) for c in self._r.cameras.values() if c.settings.enabled)

    # -- the golden share

    def open_window(self, number: int) -> None:
        """Decide the budget of a window that begins, and give the golden model its share."""
        r = self._r
        budget = r.learning.decide(r.window.settings, self.box())
        if r.golden.started:
            self._note("learning.budget", window=number, data=budget.to_json())
            # Not inside the boundary's own orders, which would undo it.
            asyncio.get_running_loop().call_soon(self._set_golden, r.shares.golden)

    def labelled(self, message: m.Labelled) -> None:
        """The golden share follows what a label is measured to cost and how many are still to come."""
        r = self._r
        if message.labelled is not None:
            r.fact(FrameLabelled(message.labelled))
        s, now = r.window.settings, r.clock.monotonic()
        r.learning.labelled(message.seconds / r.shares.cores, r.golden.labels.last_cost)
        left = r.window.end_utc_s - r.clock.utc()
        if r.controller.state.phase != "running":
            return
        coming = max(0.0, self.labels_of_all() - r.learning.elsewhere.expected) * left / s.window_s
        share = r.learning.follow(s, r.golden.labels.waiting() + coming, left, now)
        if share is not None:
            self._set_golden(share)

    def _set_golden(self, share: float) -> None:
        """Those that give go first, so that at no instant more is granted than there is."""
        r = self._r
        share, rises = r.shares.partitioner.caps.quantize(share), share > self._golden_now()
        if not rises:
            r.supervisor.resize("golden", share)
        r.dispatch(ev.CapacityChanged(r.clock.monotonic(), r.shares.camera_capacity()))
        if rises:
            r.supervisor.resize("golden", share)

    def usable_golden_share(self) -> float:
        """The part of the device that the golden model can use now: it has one thread."""
        return min(self._golden_now(), self.thread)

    def _golden_now(self) -> float:
        return next((w["share"] for w in self._r.supervisor.workers() if w["name"] == "golden"), 0.0)

    # -- until labels and profiles are ready

    def share(self, spare: float | None = None) -> None:
        """While labels and profiles are awaited, the golden model and the profilers share what inference leaves
        (`spare` devices)."""
        r = self._r
        state, caps = r.controller.state, r.shares.partitioner.caps
        if state.phase != "preparing":
            return
        spare = max(0.0, state.num_gpus - sum(state.shares.values())) if spare is None else spare
        live = caps.resize == "live" and r.window.settings.golden_share is None
        lent = (
            min(spare / 2, max(0.0, self.thread - r.shares.golden)) if live and r.golden.labels.waiting() > 0 else 0.0
        )
        golden = caps.quantize(min(1.0, r.shares.golden + lent))
        rises = golden > self._golden_now()
        if not rises:
            r.supervisor.resize("golden", golden)
        r.profilers.resize(spare - lent + r.shares.evaluation)
        if rises:
            r.supervisor.resize("golden", golden)

    def tries(self, camera: CameraRuntime) -> bool:
        """Whether there is time in this window to try a camera's configurations."""
        enabled = [c.id for c in self._r.cameras.values() if c.settings.enabled]
        return self._r.learning.wants_trial(camera.id, history_of(camera.history), enabled)

    def knows(self) -> bool:
        """Whether past windows taught anything that a camera could be retrained on without a trial: its own windows, or
        those of another camera."""
        return any(history_of(c.history).known for c in self._r.cameras.values())

    def from_history(self, data: LabelledWindow) -> None:
        """No trial runs for a camera: its best-known configurations are offered as they are."""
        r = self._r
        state = r.controller.state
        camera = r.cameras.get(data.camera)
        if camera is None or data.camera not in state.awaiting_profiles | state.late:
            return  # gone, or its profiles came meanwhile
        history = history_of(camera.history)
        others = [history_of(c.history) for c in r.cameras.values() if c is not camera]
        view = state.cameras.get(data.camera)
        start = 0.5 if view is None else view.accuracy
        profiles = r.learning.known_profiles(
            r.window.settings.configs(camera.published), data, history, others, start, self.thread
        )
        camera.profiles = {p.config.id: p for p in profiles}
        if profiles:
            frames = len(data.train) + len(data.exemplars)
            camera.history = dataclasses.replace(history, pending={}).offered(profiles, frames).to_json()
            self._write(r.store.windows.add_profiles, r.controller.state.window, data.camera, profiles)
        facts = {"configs": len(profiles), "pruned": {}, "device_seconds": 0.0, "note": "no trial: from past windows"}
        self._note("profiled", camera=data.camera, window=r.controller.state.window, data=facts)
        r.dispatch(ev.Profiled(r.clock.monotonic(), data.camera, data.window, profiles))

    def profiled(self, done: m.ProfileDone) -> None:
        """A profiler, here or of another box, handed a camera's profiles in."""
        r = self._r
        camera = r.cameras.get(done.camera)
        if camera is None:
            return
        # It was chosen on whole inputs in the camera's shape.
        looks = camera.inference is None or (camera.inference.resolution == 1.0 and camera.inference.shape == "camera")
        if done.score is not None and looks:
            r.camera_workers.choose_score(camera, done.version, done.score)
        r.learning.profiled(done, history_of(camera.history))
        camera.history = done.history
        camera.profiles |= {p.config.id: p for p in done.profiles}
        window = r.controller.state.window
        self._keep_history(camera)
        self._write(r.store.windows.add_profiles, window, done.camera, done.profiles)
        here_s = 0.0 if done.box else done.device_seconds
        self._write(r.store.windows.add_cost, window, "profiling", camera=done.camera, device_seconds=here_s)
        facts = {
            "configs": len(done.profiles),
            "trials": done.trials,
            "handed_in": done.handed_in,
            "pruned": done.pruned,
            "device_seconds": done.device_seconds,
            "note": done.note,
            "measured_on": done.box,
        }
        self._note("profiled", camera=done.camera, window=window, data=facts)
        data = camera.closed.get(done.window)
        if not done.profiles and done.handed_in and data is not None and self.knows():
            self.from_history(data)  # handed in before its first trial was over
            return
        r.dispatch(
            ev.Profiled(
                r.clock.monotonic(),
                done.camera,
                done.window,
                tuple(done.profiles),
                done.start_accuracy,
                done.device_seconds,
            )
        )

    def hand_in(self, last: bool = False) -> None:
        """Profilers answer with what they have; profiles not begun (or, at last, not handed in, here or elsewhere) are
        answered from past windows. While no camera knows anything, profiles not begun wait for the first that does.
        """
        r, knows = self._r, self.knows()
        left = r.profilers.withdraw(lambda job: isinstance(job, m.Profile)) if knows else []
        at_work = r.profilers.hand_in()
        lent = r.students.borrowing.profiles.take_back() if last and knows else []
        for job in [*left, *(at_work if last and knows else ()), *lent]:
            if isinstance(job, m.Profile):
                asyncio.get_running_loop().call_soon(self.from_history, job.data)

    def planned(self, order: ev.RecordPlan) -> None:
        """Note what is promised; the first plan of a window says when labels and profiles were ready."""
        r = self._r
        first = not r.learning.has_plan(order.window)
        r.learning.planned(order.window, order.problem, order.plan)
        if not first or order.window < 2:
            return
        seconds = r.clock.monotonic() - r.controller.state.window_start_s
        r.learning.ready(seconds)
        untried = sum(any(not p.profiled for p in c.profiles.values()) for c in r.cameras.values())
        part = seconds / r.window.settings.window_s
        facts = {"ready_s": round(seconds, 3), "part": round(part, 4), "cameras_with_untried": untried}
        self._note("learning.ready", window=order.window, data=facts)

    # -- what retrainings teach

    def retrained(self, camera: CameraRuntime, job: RunningJob, done: m.TrainingDone, promoted: bool) -> None:
        """Tell the micro-profiler what came of its prediction; one that was cut short tells what a step costs."""
        r = self._r
        profile = camera.profiles.get(job.config)
        if profile is not None:
            gained = done.candidate.value - done.parent.value
            labels = len(camera.closed[max(camera.closed)].all_sampled) if camera.closed else 0
            r.learning.retrained(done, profile.config, labels, gained if promoted else 0.0)
        if camera.history is None or done.fraction < 1.0 or done.taught_with:
            return  # a group's cost and gain are not those of the configuration alone
        history = history_of(camera.history)
        camera.history = history.learned(job.config, done.candidate.value, done.device_seconds).to_json()
        self._keep_history(camera)

    def _keep_history(self, camera: CameraRuntime) -> None:
        put = partial(self._r.store.settings.put_settings, audited=False)
        self._write(put, f"profiler/{camera.id}", camera.history, "micro-profiler")
