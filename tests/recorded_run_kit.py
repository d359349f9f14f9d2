"""A short run of one camera, kept by the real store."""

from __future__ import annotations

from pathlib import Path

from edge.core.clock import ManualClock
from edge.core.configs import RetrainingConfig
from edge.core.labels import Accuracy
from edge.core.plan_causes import PlanCause
from edge.core.profiles import Estimate, InferenceProfile, RetrainingProfile
from edge.core.window import StreamProblem, WindowProblem
from edge.store.store import Store
from scheduler.policies import window_policy

CONFIG, OTHER = RetrainingConfig(5), RetrainingConfig(20)
INFERENCE = InferenceProfile("linear", 0.3)


def keep_a_run(folder: Path) -> list[dict]:
    """Three windows of one camera: measured, then retrained, then open."""
    clock = ManualClock()
    with Store(None, folder, clock=clock) as store:
        for n, frozen in enumerate((0.6, 0.5, 0.4)):
            window = store.windows.open_window(clock.utc(), 100.0, "relay")
            problem = WindowProblem("p", 1.0, 100.0, (StreamProblem("gate", frozen, INFERENCE),), delta=0.1)
            store.windows.add_plan(window, problem, window_policy("no-retraining").plan(problem), PlanCause("prepared"))
            if n == 1:
                said = [
                    RetrainingProfile(c, 0.6, Estimate(end, end - 0.05, end + 0.05), Estimate.exact(cost))
                    for c, end, cost in ((CONFIG, 0.75, 8.0), (OTHER, 0.8, 30.0))
                ]
                store.windows.add_profiles(window, "gate", said)
                store.windows.add_cost(window, "profiling", camera="gate", device_seconds=1.5)
                store.windows.start_job("j", window, "gate", CONFIG.id, 0.7)
                store.windows.end_job(
                    "j", "completed", device_seconds=9.0, accuracy_after=0.72, promoted=True, model_version="v2"
                )
                store.windows.start_job("k", window, "gate", OTHER.id, 0.7)
                store.windows.end_job("k", "stopped", device_seconds=2.0)
            store.windows.put_camera_window(
                window, "gate", model_version="v2" if n else "v1", frozen=Accuracy(frozen, 30, 90), frames_labelled=30,
                labelling_delay_s=3.0, details={"current_fresh": Accuracy(0.7, 30, 90).to_json()},
            )  # fmt: skip
            clock.advance(100.0)
            if n < 2:
                store.windows.close_window(window)
        return [store.windows.window(w.id).to_json() for w in store.windows.newest()]
