"""Workers by what they do: their names are for people, their kind and camera for everybody else."""

from __future__ import annotations

from typing import get_args

import pytest

from edge.core.shares import Role
from edge.core.workers import FRONT, GOLDEN, Activity, Worker, WorkerKind


@pytest.mark.parametrize("kind", get_args(WorkerKind))
def test_every_kind_has_a_role_and_an_activity(kind: WorkerKind) -> None:
    worker = Worker("w", kind)
    assert worker.role in get_args(Role)
    assert worker.activity in get_args(Activity)


def test_workers_of_a_camera_carry_it_whatever_it_is_called() -> None:
    for camera in ("north", "front", "executor-1", "retrain-golden"):
        reader, trainer = Worker.of_camera(camera), Worker.trainer_of(camera)
        assert reader.camera == trainer.camera == camera
        assert reader.name != trainer.name
        assert (reader.role, trainer.role) == ("inference", "retraining")


def test_served_models_are_enforced_as_inference_and_recorded_as_serving() -> None:
    executor = Worker("executor-7", "executor")
    assert (executor.role, executor.activity, executor.camera) == ("inference", "serving", None)
    assert (FRONT.role, FRONT.activity) == ("inference", "front")
    assert (GOLDEN.role, GOLDEN.activity) == ("golden", "golden")


def test_what_measures_a_served_model_is_enforced_as_inference_and_recorded_as_profiling() -> None:
    measuring = Worker("profile-plates", "serving_profiler")
    assert (measuring.role, measuring.activity, measuring.camera) == ("inference", "profiling", None)
