"""Workers of a running appliance that die, hang or run out of memory: seen, mended, and no other worker notices."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio
from appliance_kit import Watched, cameras, gone, site_of

from edge.appliance.answers.events import JournalEntry
from edge.appliance.appliance import Appliance
from edge.commands.front_process import front_process
from edge.core import events as ev
from edge.demo.cameras import serve_cameras
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime
from edge.runtime.mains import training_worker
from edge.runtime.process import Channel
from edge.runtime.supervisor import START_S, Patience

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(480)]
HANG_S = 4.0
#: Address space that is left to a retraining without memory: enough for a thread's stack, not for its pictures.
STARVED_BYTES = 32 * 2**20
#: Long enough to be killed in the middle, whatever the machine's speed.
SPACE = {"epochs": [70], "batch_sizes": [4], "layers": ["head"], "data_fractions": [1.0], "learning_rates": [0.002]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watched]:
    """Two cameras, windows of 15 s; hangs are noticed within a few seconds."""
    data = tmp_path_factory.mktemp("appliance")
    with serve_cameras(cameras(), data) as port:
        site = site_of(port, data, window_s=15.0, space=SPACE)
        async with Appliance(site, front_process, patience=Patience(HANG_S, START_S)) as appliance:
            watched = Watched(appliance)
            follower = asyncio.create_task(watched.follow())
            await watched.answering()
            yield watched
            follower.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await follower


async def test_a_camera_worker_that_is_killed_answers_again_and_the_others_go_on(running: Watched) -> None:
    before = running.pid("camera-overpass")
    mark = len(running.events)
    other, junction, killed_at = running.answers("junction"), running.pid("camera-junction"), time.time()
    os.kill(before, signal.SIGKILL)
    await running.until(lambda: running.of("worker.worker_lost", mark), "the loss is journaled")
    await running.until(lambda: running.answered_since("overpass", killed_at), "answers again")
    assert running.pid("camera-overpass") != before
    await running.until(lambda: running.answers("junction") > other, "the other goes on")
    assert running.pid("camera-junction") == junction
    lost = running.of("worker.worker_lost", mark)
    assert [e.camera for e in lost] == ["overpass"], "exactly its own work"
    assert "SIGKILL" in lost[0].data["reason"]


async def test_a_camera_worker_that_hangs_is_noticed(running: Watched) -> None:
    before = running.pid("camera-junction")
    mark, stopped_at = len(running.events), time.time()
    os.kill(before, signal.SIGSTOP)
    took = await running.until(lambda: running.of("worker.worker_lost", mark), "the hang is noticed")
    assert took > HANG_S / 2, "not before it is silent for a while"
    assert "hung" in running.of("worker.worker_lost", mark)[0].data["reason"]
    assert running.state("junction") == "connecting", "the page does not show the state of a dead worker"
    await running.until(lambda: running.answered_since("junction", stopped_at), "answers again")
    assert not gone([before])


async def test_labels_go_on_after_the_golden_worker_was_killed(running: Watched) -> None:
    labels = running.appliance.runtime.golden.labels
    before, mark = labels.counters.labelled, len(running.events)
    os.kill(running.pid("golden"), signal.SIGKILL)
    await running.until(lambda: not running.appliance.runtime.golden.ready, "the page says so")
    assert any(r.code == "golden_not_ready" for r in running.appliance.services.state.health().reasons)
    await running.until(lambda: running.of("golden.ready", mark), "it is back")
    await running.until(lambda: labels.counters.labelled > before, "labels go on")
    await running.until(lambda: running.of("window.measured", mark), "and the window is measured")


def ended(running: Watched, camera: str, mark: int) -> list[JournalEntry]:
    kinds = ("model.promoted", "model.rejected", "retraining.failed")
    return [e for e in running.events[mark:] if e.kind in kinds and e.camera == camera]


async def begun(running: Watched) -> str:
    """Starts a retraining on what is labelled, whatever the planner thinks of it; the camera's id."""
    runtime = running.appliance.runtime

    def free() -> list[CameraRuntime]:
        busy, judged = runtime.supervisor.has, runtime.students.retrainings.running
        ready = [c for c in runtime.cameras.values() if c.closed and c.profiles]
        return [c for c in ready if not busy(c.trainer) and c.settings.id not in judged]

    await running.until(free, "a window is labelled and profiled, and nothing is retrained")
    camera = free()[0]
    job = f"test-{camera.id}-{len(running.events)}"
    order = ev.StartRetraining(camera.id, job, next(iter(camera.profiles)), 0.2, next(iter(camera.closed)))
    runtime.carry_out(order)
    return camera.id


async def trainer_of(running: Watched) -> str:
    """Starts a retraining and waits until it is some epochs on its way; the camera's id. One that its window's end came
    too early for is started again in the next."""
    jobs = running.appliance.runtime.students.retrainings.running
    for _ in range(8):
        camera = await begun(running)

        def on_its_way(camera: str = camera) -> bool:
            return camera in jobs and jobs[camera].fraction > 0.1

        def gone(camera: str = camera) -> bool:
            return camera not in jobs

        await running.until(lambda there=on_its_way, left=gone: there() or left(), "it trains")  # type: ignore[misc]
        if on_its_way():
            assert jobs[camera].fraction < 0.9
            return camera
    raise AssertionError("no retraining was some epochs on its way before its window ended")


async def test_a_retraining_that_is_killed_goes_on_from_its_checkpoint(running: Watched) -> None:
    camera = await trainer_of(running)
    runtime = running.appliance.runtime
    jobs = runtime.students.retrainings.running
    job = jobs[camera]
    checkpoints = list((Path(runtime.site.data_dir) / "jobs").glob(f"{camera}-*.ckpt"))
    assert checkpoints, "kept after each epoch"
    mark = len(running.events)
    os.kill(running.pid(f"retrain-{camera}"), signal.SIGKILL)
    await running.until(lambda: running.of("worker.worker_lost", mark), "the loss is journaled")
    runtime.supervisor.resize(f"retrain-{camera}", 0.8)
    await running.until(lambda: camera not in jobs or jobs[camera].fraction != job.fraction, "it goes on")
    again = jobs.get(camera)
    assert again is None or again.fraction > job.fraction - 0.1, "and not from the start"
    await running.until(lambda: ended(running, camera, mark), "it comes to an end")
    assert ended(running, camera, mark)[0].kind in ("model.promoted", "model.rejected")
    assert not list((Path(runtime.site.data_dir) / "jobs").glob(f"{camera}-*.ckpt")), "the checkpoint is used up"


def starved(channel: Channel, job: m.RetrainingJob) -> None:
    """A retraining's worker that the kernel gives hardly a page more than it begins with."""
    most = psutil.Process().memory_info().vms + STARVED_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    training_worker(channel, job)


async def test_a_retraining_without_memory_is_reported_and_the_model_in_force_stays(
    running: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge.runtime.retrainings.training_worker", starved)
    mark = len(running.events)
    camera = await begun(running)

    def started() -> list[int]:
        """Where its beginning stands: the end of the one before may stand between."""
        mine = (n for n, e in enumerate(running.events) if n >= mark and e.kind == "retraining.started")
        return [n for n in mine if running.events[n].data["job"].startswith(f"test-{camera}")]

    await running.until(started, "it begins")
    mark = started()[0]
    version = running.appliance.runtime.cameras[camera].version.id
    await running.until(lambda: running.of("worker.worker_error", mark), "it says so")
    assert "memory" in running.of("worker.worker_error", mark)[0].data["message"].lower()
    await running.until(lambda: ended(running, camera, mark), "it is given up")
    assert ended(running, camera, mark)[0].kind == "retraining.failed"
    assert running.state(camera) == "live"
    assert running.appliance.runtime.cameras[camera].version.id == version, "the model in force stays"


async def test_nothing_is_left_of_all_this(running: Watched) -> None:
    await running.answering()
    names = [w.name for w in running.appliance.services.state.overview().workers]
    assert len(names) == len(set(names))
    assert not [c for c in running.appliance.runtime.complaints.recent if c["code"] == "internal"]

    def without_process() -> list[int]:
        workers = [w.pid for w in running.appliance.services.state.overview().workers if w.pid]
        return [pid for pid in workers if pid not in gone(workers)]

    # A retraining that is just ending has none for an instant.
    await running.until(lambda: not without_process(), "each worker has one live process")
