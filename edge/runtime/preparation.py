"""Carries out what was decided about learning: the golden share that follows, the time until labels and profiles are
ready, and profiles without a trial. One object beside the runtime, on its event loop."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable

from edge.core import events as ev
from edge.core.facts import FrameLabelled
from edge.core.journal_kinds import JournalNote
from edge.core.labels import LabelledWindow
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.learning import BudgetBox, history_of
from edge.runtime.running_job import RunningJob


class Preparation:
    """The runtime's hands for `edge.runtime.learning`. `choose_score(camera, version, score)` sets the least score of
    an answered object, `take_back()` ends the trials that other boxes run for this one. `dispatch` hands an event to
    the controller, `note` journals."""

    def __init__(
        self,
        parts: LeafParts,
        choose_score: Callable[[CameraRuntime, str, float], None],
        take_back: Callable[[], list[m.Profile]],
        dispatch: Callable[[ev.Event], None],
        note: JournalNote,
    ) -> None:
        self._parts, self._choose_score, self._take_back = parts, choose_score, take_back
        self._dispatch, self._note = dispatch, note

    def box(self) -> BudgetBox:
        """The facts that decide the learning budget."""
        parts = self._parts
        enabled = [c for c in parts.cameras.values() if c.settings.enabled]
        capacity = max(0.05, 1.0 - parts.site.machine.control_share - parts.shares.front - parts.shares.serving)
        need = sum(c.profile.max_gpu for c in enabled)
        unknown = any(not history_of(c.history).known for c in enabled)
        published = 2 * sum(c.published for c in enabled) > len(enabled)
        kept = [self._exemplars(c) for c in enabled]
        return BudgetBox(
            capacity, need, len(enabled), self.thread, len(parts.profilers.names), 1 if unknown else 0, published,
            sum(kept) / max(1, len(kept)),
        )  # fmt: skip

    def _exemplars(self, camera: CameraRuntime) -> int:
        """Older frames that its next retraining has: those of the last one and its own. After a restart, of a camera
        that was retrained before, as many as are kept."""
        most = self._parts.window.settings.exemplars
        if not camera.closed:
            return 0 if camera.version.id == camera.frozen.id else most
        data = camera.closed[max(camera.closed)]
        return min(most, len(data.exemplars) + len(data.train))

    @property
    def thread(self) -> float:
        """The most of the device that one thread can use."""
        return min(1.0, 1.0 / self._parts.shares.cores)

    def labels_of_all(self) -> int:
        """Frames of a window of all cameras that shall be labelled."""
        return sum(self._parts.labels(c) for c in self._parts.cameras.values() if c.settings.enabled)

    # -- the golden share

    def open_window(self, number: int) -> None:
        """Decide the budget of a window that begins, and give the golden model its share."""
        parts = self._parts
        budget = parts.learning.decide(parts.window.settings, self.box())
        if parts.golden.started:
            self._note("learning.budget", window=number, data=budget.to_json())
            # Not inside the boundary's own orders, which would undo it.
            asyncio.get_running_loop().call_soon(self._set_golden, parts.shares.golden)

    def labelled(self, message: m.Labelled) -> None:
        """The golden share follows what a label is measured to cost and how many are still to come."""
        parts = self._parts
        if message.labelled is not None:
            parts.fact(FrameLabelled(message.labelled))
        s, now = parts.window.settings, parts.clock.monotonic()
        parts.learning.labelled(message.seconds / parts.shares.cores, parts.golden.labels.last_cost)
        left = parts.window.end_utc_s - parts.clock.utc()
        if parts.controller.state.phase != "running":
            return
        coming = max(0.0, self.labels_of_all() - parts.learning.elsewhere.expected) * left / s.window_s
        share = parts.learning.follow(s, parts.golden.labels.waiting() + coming, left, now)
        if share is not None:
            self._set_golden(share)

    def _set_golden(self, share: float) -> None:
        """Those that give go first, so that at no instant more is granted than there is."""
        parts = self._parts
        share, rises = parts.shares.partitioner.caps.quantize(share), share > self._golden_now()
        if not rises:
            parts.supervisor.resize("golden", share)
        self._dispatch(ev.CapacityChanged(parts.clock.monotonic(), parts.shares.camera_capacity()))
        if rises:
            parts.supervisor.resize("golden", share)

    def usable_golden_share(self) -> float:
        """The part of the device that the golden model can use now: it has one thread."""
        return min(self._golden_now(), self.thread)

    def _golden_now(self) -> float:
        return next((w["share"] for w in self._parts.supervisor.workers() if w["name"] == "golden"), 0.0)

    # -- until labels and profiles are ready

    def share(self, spare: float | None = None) -> None:
        """While labels and profiles are awaited, the golden model and the profilers share what inference leaves
        (`spare` devices)."""
        parts = self._parts
        state, caps = parts.controller.state, parts.shares.partitioner.caps
        if state.phase != "preparing":
            return
        spare = max(0.0, state.num_gpus - sum(state.shares.values())) if spare is None else spare
        live = caps.resize == "live" and parts.window.settings.golden_share is None
        lent = (
            min(spare / 2, max(0.0, self.thread - parts.shares.golden))
            if live and parts.golden.labels.waiting() > 0
            else 0.0
        )
        golden = caps.quantize(min(1.0, parts.shares.golden + lent))
        rises = golden > self._golden_now()
        if not rises:
            parts.supervisor.resize("golden", golden)
        parts.profilers.resize(spare - lent + parts.shares.evaluation)
        if rises:
            parts.supervisor.resize("golden", golden)

    def tries(self, camera: CameraRuntime) -> bool:
        """Whether there is time in this window to try a camera's configurations."""
        enabled = [c.id for c in self._parts.cameras.values() if c.settings.enabled]
        return self._parts.learning.wants_trial(camera.id, history_of(camera.history), enabled)

    def knows(self) -> bool:
        """Whether past windows taught anything that a camera could be retrained on without a trial: its own windows, or
        those of another camera."""
        return any(history_of(c.history).known for c in self._parts.cameras.values())

    def from_history(self, data: LabelledWindow) -> None:
        """No trial runs for a camera: its best-known configurations are offered as they are."""
        parts = self._parts
        state = parts.controller.state
        camera = parts.cameras.get(data.camera)
        if camera is None or data.camera not in state.awaiting_profiles | state.late:
            return  # gone, or its profiles came meanwhile
        history = history_of(camera.history)
        others = [history_of(c.history) for c in parts.cameras.values() if c is not camera]
        view = state.cameras.get(data.camera)
        start = 0.5 if view is None else view.accuracy
        profiles = parts.learning.known_profiles(
            parts.window.settings.configs(camera.published), data, history, others, start, self.thread
        )
        camera.profiles = {p.config.id: p for p in profiles}
        if profiles:
            frames = len(data.train) + len(data.exemplars)
            camera.history = dataclasses.replace(history, pending={}).offered(profiles, frames).to_json()
            parts.records.write(parts.store.windows.add_profiles, parts.controller.state.window, data.camera, profiles)
        facts = {"configs": len(profiles), "pruned": {}, "device_seconds": 0.0, "note": "no trial: from past windows"}
        self._note("profiled", camera=data.camera, window=parts.controller.state.window, data=facts)
        self._dispatch(ev.Profiled(parts.clock.monotonic(), data.camera, data.window, profiles))

    def profiled(self, done: m.ProfileDone) -> None:
        """A profiler, here or of another box, handed a camera's profiles in."""
        parts = self._parts
        camera = parts.cameras.get(done.camera)
        if camera is None:
            return
        # It was chosen on whole inputs in the camera's shape.
        looks = camera.inference is None or (camera.inference.resolution == 1.0 and camera.inference.shape == "camera")
        if done.score is not None and looks:
            self._choose_score(camera, done.version, done.score)
        parts.learning.profiled(done, history_of(camera.history))
        camera.history = done.history
        camera.profiles |= {p.config.id: p for p in done.profiles}
        window = parts.controller.state.window
        self._keep_history(camera)
        parts.records.write(parts.store.windows.add_profiles, window, done.camera, done.profiles)
        here_s = 0.0 if done.box else done.device_seconds
        parts.records.write(
            parts.store.windows.add_cost, window, "profiling", camera=done.camera, device_seconds=here_s
        )
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
        self._dispatch(
            ev.Profiled(
                parts.clock.monotonic(),
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
        parts, knows = self._parts, self.knows()
        left = parts.profilers.withdraw(lambda job: isinstance(job, m.Profile)) if knows else []
        at_work = parts.profilers.hand_in()
        lent = self._take_back() if last and knows else []
        for job in [*left, *(at_work if last and knows else ()), *lent]:
            if isinstance(job, m.Profile):
                asyncio.get_running_loop().call_soon(self.from_history, job.data)

    def planned(self, order: ev.RecordPlan) -> None:
        """Note what is promised; the first plan of a window says when labels and profiles were ready."""
        parts = self._parts
        first = not parts.learning.has_plan(order.window)
        parts.learning.planned(order.window, order.problem, order.plan)
        if not first or order.window < 2:
            return
        seconds = parts.clock.monotonic() - parts.controller.state.window_start_s
        parts.learning.ready(seconds)
        untried = sum(any(not p.profiled for p in c.profiles.values()) for c in parts.cameras.values())
        part = seconds / parts.window.settings.window_s
        facts = {"ready_s": round(seconds, 3), "part": round(part, 4), "cameras_with_untried": untried}
        self._note("learning.ready", window=order.window, data=facts)

    # -- what retrainings teach

    def retrained(self, camera: CameraRuntime, job: RunningJob, done: m.TrainingDone, promoted: bool) -> None:
        """Tell the micro-profiler what came of its prediction; one that was cut short teaches no gain."""
        parts = self._parts
        profile = camera.profiles.get(job.config)
        if profile is not None:
            gained = done.candidate.value - done.parent.value
            labels = len(camera.closed[max(camera.closed)].all_sampled) if camera.closed else 0
            parts.learning.retrained(done, profile, labels, gained if promoted else 0.0)
        if camera.history is None or done.fraction < 1.0 or done.taught_with:
            return  # a group's cost and gain are not those of the configuration alone
        history = history_of(camera.history)
        camera.history = history.learned(job.config, done.candidate.value, done.device_seconds).to_json()
        self._keep_history(camera)

    def _keep_history(self, camera: CameraRuntime) -> None:
        self._parts.keep_document(f"profiler/{camera.id}", camera.history, "micro-profiler")
