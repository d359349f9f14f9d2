"""Mains of the workers that need torch, for the process that starts them: it must not load torch itself.

A worker comes from a server that has torch loaded (edge/runtime/preload.py), so the import costs it nothing.
"""

from __future__ import annotations

from edge.runtime import messages as m
from edge.runtime.process import Channel


def camera_worker(channel: Channel, spec: m.CameraWorkerSpec) -> None:
    """edge/runtime/camera_worker.py"""
    from edge.runtime import camera_worker as worker

    worker.camera_worker(channel, spec)


def profiler_worker(channel: Channel, cores: float) -> None:
    """edge/runtime/profiler_worker.py"""
    from edge.runtime import profiler_worker as worker

    worker.profiler_worker(channel, cores)


def training_worker(channel: Channel, job: m.RetrainingJob) -> None:
    """edge/runtime/training_worker.py"""
    from edge.runtime import training_worker as worker

    worker.training_worker(channel, job)


def lent_profiler(channel: Channel, asked: m.LentProfile) -> None:
    """edge/runtime/lent_profiler_worker.py"""
    from edge.runtime import lent_profiler_worker as worker

    worker.lent_profiler_worker(channel, asked)
