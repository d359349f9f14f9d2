"""The supervisor over real forkserver processes: crash, hang, memory, messages, owner's death."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
import worker_mains as mains
from runtime_kit import Bench, runs, until

from benchmarks.waiting import PATIENCE_S
from edge.core.shares import LaunchSpec
from edge.runtime.device import ENVIRONMENT, device_environment
from edge.runtime.process import OUT_OF_MEMORY, Beat, Stop, WorkerError, WorkerProcess, describe_exit
from edge.runtime.supervisor import computing
from edge.shares.bucket import ENVIRONMENT as BUCKET
from edge.shares.cpu import CpuPartitioner

Make = Callable[..., Bench]
REPO = Path(__file__).resolve().parents[2]


# -- life of one worker


async def test_a_worker_answers_and_stops_when_asked(bench: Make) -> None:
    b = bench()
    b.start("w", mains.obedient, {"a": 1})
    pid = await b.pid()
    assert b.words("start") == [(pid, {"a": 1})]
    assert b.supervisor.pid("w") == pid
    assert b.supervisor.send("w", "hello")
    await until(lambda: b.words("echo") == ["hello"])
    await b.supervisor.stop("w")
    assert b.words("stopped"), "it was asked, not killed"
    assert not runs(pid)
    assert not b.supervisor.has("w")
    assert not b.supervisor.send("w", "anybody?")
    assert b.lost == [], "a wanted end is no loss"


async def test_a_killed_worker_is_started_again_at_once_with_a_new_argument(bench: Make) -> None:
    b = bench()
    count = iter(range(10))
    b.start("w", mains.obedient, lambda: next(count))
    os.kill(await b.pid(), signal.SIGKILL)
    second = await b.pid(1)
    assert b.words("start")[1] == (second, 1), "the argument is asked anew"
    assert b.lost == ["ended by SIGKILL (killed, perhaps for lack of memory)"]
    (state,) = b.supervisor.workers()
    assert (state["restarts"], state["state"], state["pid"]) == (1, "running", second)
    assert ("worker.worker_lost", {"worker": "w", "reason": b.lost[0], "cause": "signal", "exit_code": -9}) in b.events
    assert [w.kind for w in b.gone] == ["profiler"], "the counter learns which worker it was"


async def test_back_off_grows_and_a_hopeless_worker_is_given_up(bench: Make) -> None:
    waits: list[float] = []

    def at_once(seconds: float, call: Any, worker: Any) -> asyncio.TimerHandle:
        waits.append(seconds)
        return asyncio.get_running_loop().call_later(0.0, call, worker)

    b = bench(backoff_s=(0.0, 1000.0, 5000.0), later=at_once)
    b.start("w", mains.crashes_at_once, max_restarts=3)
    await until(lambda: b.given_up == ["failed with exit code 9"])
    assert waits == [0.0, 1000.0, 5000.0]
    assert not b.supervisor.has("w")
    assert b.kinds().count("worker.worker_lost") == 4


async def test_one_that_finishes_is_done_and_not_started_again(bench: Make) -> None:
    b = bench()
    b.start("w", mains.obedient, finishes=True)
    await b.pid()
    b.supervisor.send("w", "finish")
    await until(lambda: not b.supervisor.has("w"))
    assert (b.lost, b.given_up, len(b.words("start"))) == ([], [], 1)


@pytest.mark.parametrize(
    ("order", "reason", "code", "cause"),
    [
        ("exit 3", "failed with exit code 3", 3, "error"),
        ("weights", "no weights here", 70, "error"),
        ("memory", "the worker ran out of memory", OUT_OF_MEMORY, "memory"),
        ("bug", "unexpected: one over nothing", 70, "error"),
    ],
)
async def test_reasons_are_reported_in_words(bench: Make, order: str, reason: str, code: int, cause: str) -> None:
    b = bench()
    b.start("w", mains.obedient, max_restarts=0)
    await b.pid()
    b.supervisor.send("w", order)
    await until(lambda: bool(b.given_up))
    assert b.given_up == b.lost == [reason]
    assert ("worker.worker_lost", {"worker": "w", "reason": reason, "cause": cause, "exit_code": code}) in b.events


def test_exit_codes_in_words() -> None:
    assert describe_exit(0) == "ended"
    assert describe_exit(None) == "did not end"
    assert describe_exit(OUT_OF_MEMORY) == "ran out of memory"
    assert describe_exit(-signal.SIGSEGV) == "ended by SIGSEGV"
    assert "lack of memory" in describe_exit(-signal.SIGKILL)
    assert describe_exit(3) == "failed with exit code 3"
    assert describe_exit(-250) == "ended by 250"


async def test_the_launch_environment_is_set_in_the_child(bench: Make, partitioner: CpuPartitioner) -> None:
    b = bench()
    b.start("w", mains.obedient)
    await b.pid()
    b.supervisor.send("w", "environment")
    await until(lambda: bool(b.words("environment")))
    seen = b.words("environment")[0]
    assert Path(seen[BUCKET]).is_file()
    assert seen[ENVIRONMENT] == "cpu"
    assert BUCKET not in os.environ, "of the child alone"


def test_a_worker_on_a_gpu_sees_that_gpu_alone() -> None:
    assert device_environment("GPU-7")["CUDA_VISIBLE_DEVICES"] == "GPU-7"
    assert "CUDA_VISIBLE_DEVICES" not in device_environment("cpu")


async def test_the_event_loop_goes_on_while_a_process_is_being_made(bench: Make) -> None:
    """A fork server that does not answer (it loads torch, or the machine is overloaded) stops starts alone."""
    b = bench()
    b.start("first", mains.obedient)
    await b.pid()
    server = vars(forkserver)["_forkserver"]._forkserver_pid
    os.kill(server, signal.SIGSTOP)
    waited = threading.Timer(PATIENCE_S, os.kill, (server, signal.SIGCONT))  # a loop that stands still fails, not hangs
    waited.start()
    try:
        b.start("w", mains.obedient)
        b.start("unwanted", mains.obedient)
        b.supervisor.resize("w", 0.3)
        b.supervisor.kill("unwanted", "tried")
        assert waited.is_alive(), "the start did not wait"
        assert b.supervisor.send("first", "hello")
        await until(lambda: b.words("echo") == ["hello"])
        assert b.supervisor.pid("w") is None
        assert len(b.words("start")) == 1
    finally:
        waited.cancel()
        os.kill(server, signal.SIGCONT)
    # The unwanted one may have said its start before it was ended.
    await until(lambda: bool(b.lost) and len(b.words("start")) >= 3)
    assert b.kinds().count("worker.share_refused") == 0
    assert b.lost[:1] == ["tried"], "it was ended as soon as it was there, and started again"
    seat = b.supervisor._workers["w"].seat
    assert seat is not None
    assert seat.share == 0.3, "the share that was asked for meanwhile"


async def test_a_worker_whose_argument_cannot_be_sent_is_lost_in_words(bench: Make) -> None:
    b = bench()
    b.start("w", mains.obedient, threading.Lock(), max_restarts=0)
    await until(lambda: bool(b.given_up))
    assert "could not be started: cannot pickle" in b.given_up[0]


# -- memory


async def test_a_worker_over_its_memory_is_ended_and_started_again_and_its_neighbour_lives(bench: Make) -> None:
    b = bench(memory_limit_bytes=2**30)
    b.start("neighbour", mains.obedient)
    neighbour = await b.pid()
    b.start("w", mains.obedient, role="retraining")
    first = await b.pid(1)
    b.supervisor.send("w", "eat")
    second = await b.pid(2)
    assert not runs(first)
    assert second != first
    assert b.causes == ["memory"]
    (lost,) = [data for kind, data in b.events if kind == "worker.worker_lost"]
    assert (lost["worker"], lost["cause"], lost["exit_code"]) == ("w", "memory", -9)
    assert lost["reason"].endswith("and may have 1024 (machine.worker_memory_mb)")
    assert b.supervisor.pid("neighbour") == neighbour
    assert runs(neighbour)
    assert [w["restarts"] for w in b.supervisor.workers()] == [0, 1]


async def test_one_that_wants_far_too_much_at_once_is_refused_it(bench: Make) -> None:
    b = bench(memory_limit_bytes=2**30, watch_s=3600.0)
    b.start("w", mains.obedient)
    await b.pid()
    b.supervisor.send("w", "gulp")
    await b.pid(1)
    assert b.lost == ["the worker ran out of memory"]
    assert b.causes == ["memory"]


async def test_without_a_limit_memory_is_not_looked_at(bench: Make) -> None:
    b = bench()
    b.start("w", mains.obedient)
    await b.pid()
    b.supervisor.send("w", "eat")
    await until(lambda: b.words("ate") == [2**30])
    assert b.lost == []


# -- hangs


async def test_a_silent_worker_is_killed_and_started_again(bench: Make) -> None:
    b = bench(hang_s=1.0)
    b.start("w", mains.obedient)
    pid = await b.pid()
    b.supervisor.send("w", "silent")
    await b.pid(1)
    assert not runs(pid)
    assert b.lost[0].startswith("hung: silent for")


async def test_a_stopped_worker_is_killed_and_started_again(bench: Make) -> None:
    b = bench(hang_s=1.0)
    b.start("w", mains.obedient, role="inference")
    pid = await b.pid()
    os.kill(pid, signal.SIGSTOP)
    await b.pid(1)
    assert not runs(pid)


async def test_one_that_never_speaks_is_killed(bench: Make) -> None:
    b = bench(hang_s=600.0, start_s=0.5)
    b.start("w", mains.mute, max_restarts=0)
    await until(lambda: bool(b.given_up))
    assert b.given_up[0].startswith("hung")


async def test_a_long_computation_is_not_taken_for_a_hang_except_in_a_camera(bench: Make) -> None:
    b = bench(hang_s=0.4)
    b.start("trainer", mains.obedient, role="retraining")
    trainer = await b.pid()
    b.start("camera", mains.obedient, role="inference")
    camera = await b.pid(1)
    b.supervisor.send("trainer", "busy")
    b.supervisor.send("camera", "busy")
    await until(lambda: not runs(camera))
    used = computing(trainer)[0]
    await until(lambda: not runs(trainer) or computing(trainer)[0] > used + 0.1)
    assert runs(trainer), "it computes"
    await until(lambda: not runs(trainer), "but not for ever")


async def test_beats_keep_a_worker_alive(bench: Make) -> None:
    b = bench(hang_s=1.2)
    b.start("w", mains.obedient)
    pid = await b.pid()
    first = b.supervisor._workers["w"].seat
    assert first is not None
    spoke = first.last_beat_s
    await until(lambda: first.last_beat_s > spoke + 1.5)
    assert runs(pid)
    assert all(not isinstance(s, Beat) for s in b.said), "beats are not handed on"


# -- messages


async def test_commands_to_a_worker_that_does_not_read_are_lost_and_counted(bench: Make) -> None:
    b = bench()
    b.start("w", mains.obedient)
    pid = await b.pid()
    os.kill(pid, signal.SIGSTOP)
    text = "x" * 50_000
    results = [b.supervisor.send("w", text) for _ in range(1100)]
    assert not all(results)
    await until(lambda: b.supervisor.workers()[0]["messages_lost"] == results.count(False))
    assert "worker.messages_lost" in b.kinds()
    os.kill(pid, signal.SIGKILL)
    await b.pid(1)
    b.supervisor.send("w", "still there?")
    await until(lambda: b.words("echo") == ["still there?"])
    assert b.supervisor.workers()[0]["messages_lost"] == results.count(False), "restarts do not forget"


async def test_the_end_of_a_worker_is_seen_though_its_child_holds_the_pipe(bench: Make) -> None:
    b = bench()
    b.start("w", mains.obedient)
    await b.pid()
    b.supervisor.send("w", "orphan pipe")
    await b.pid(1)
    assert b.words("forked") == [None], "its last words are heard"


def test_a_process_tells_its_end_once_and_leaves_nothing_open() -> None:
    said: list[Any] = []
    ends: list[int | None] = []
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        process = WorkerProcess("w", mains.obedient, None, LaunchSpec(), said.append, ends.append)
        process.send(Stop())
        assert process.join(30)
        assert not process.alive
        process.kill()
        process._writer.join(10)
        del process
    assert ends == [0, 0, 0]
    assert [type(s).__name__ for s in said if not isinstance(s, Beat)] == ["Said", "Said"] * 3
    ends_by = time.monotonic() + 10
    while len(os.listdir("/proc/self/fd")) > before + 3 and time.monotonic() < ends_by:
        time.sleep(0.02)
    # The forkserver itself may have been started in between: three descriptors.
    assert len(os.listdir("/proc/self/fd")) <= before + 3


# -- the owner's death


def test_workers_die_with_their_owner(tmp_path: Path) -> None:
    code = f"import sys; sys.path[:0] = {[str(REPO), str(Path(__file__).parent)]!r}; " + (
        f"import worker_mains; worker_mains.owner({str(tmp_path)!r})"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL)
    note = tmp_path / "worker"
    try:
        ends = time.monotonic() + 60
        while not note.exists() or not note.read_text():
            assert owner.poll() is None
            assert time.monotonic() < ends
            time.sleep(0.02)
        worker = int(note.read_text())
        os.kill(worker, signal.SIGSTOP)  # even one that cannot notice
    finally:
        owner.kill()
        owner.wait()
    ends = time.monotonic() + 20
    while runs(worker):
        assert time.monotonic() < ends, "the worker outlived its owner"
        time.sleep(0.02)


async def test_the_death_of_the_forkserver_is_mended(bench: Make) -> None:
    from multiprocessing import forkserver

    b = bench()
    b.start("w", mains.obedient)
    pid = await b.pid()
    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]
    await b.pid(1)
    assert not runs(pid), "its workers die with it"


# -- events


async def test_events_name_a_worker_or_the_device(bench: Make) -> None:
    b = bench()
    b.start("w", mains.obedient, max_restarts=1)
    await b.pid()
    b.supervisor.send("w", "bug")
    await b.pid(1)
    assert all(("worker" in data) for _, data in b.events)
    assert any(isinstance(data.get("message"), str) for kind, data in b.events if kind == "worker.worker_error")
    assert WorkerError("ZeroDivisionError", "unexpected: one over nothing").message == b.lost[0]
    times = [n for n, _ in enumerate(b.events)]
    assert all(a < c for a, c in pairwise(times))


async def test_what_a_worker_did_is_known_until_its_account_is_closed(bench: Make) -> None:
    b = bench()
    b.start("w", mains.obedient, role="retraining")
    await until(lambda: b.supervisor.ready("w"))
    await b.supervisor.stop("w")
    ((worker, usage),) = b.supervisor.usage()
    assert (worker.name, worker.role, usage.running) == ("w", "retraining", False)
    b.supervisor._partitioner.reset_usage()
    assert b.supervisor.usage() == ()
    assert b.supervisor.known("w") is None
