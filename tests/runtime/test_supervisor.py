"""The supervisor over real forkserver processes: crash, hang, memory, owner's death, and one taking another's place."""

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
from runtime_kit import PATIENCE_S, Bench, Respawning, alive, runs, until

from edge.core.shares import LaunchSpec
from edge.runtime.device import ENVIRONMENT, device_environment
from edge.runtime.process import OUT_OF_MEMORY, Beat, Ready, Stop, WorkerError, WorkerProcess, describe_exit
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
    assert [w.kind for w in b.gone] == ["profiler"], "whoever counts is told which worker it was"


async def test_back_off_grows_and_a_hopeless_worker_is_given_up(bench: Make) -> None:
    b = bench(backoff_s=(0.0, 0.1, 0.2, 5000.0))
    began = time.monotonic()
    b.start("w", mains.crashes_at_once, max_restarts=3)
    await until(lambda: b.kinds().count("worker.worker_lost") == 3)
    assert time.monotonic() - began >= 0.1, "the second restart waits"
    b.supervisor._relaunch(b.supervisor._workers["w"])  # the third would wait for more than an hour
    await until(lambda: b.given_up == ["failed with exit code 9"])
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
async def test_reasons_are_told_in_words(bench: Make, order: str, reason: str, code: int, cause: str) -> None:
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
    await until(lambda: len(b.words("start")) >= 3)
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
    assert lost["reason"].endswith("and may have 1024 (worker_memory_mb)")
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


# -- another process in a worker's place


def camera_of(tmp_path: Path, **more: Any) -> tuple[Path, mains.Frames]:
    log = tmp_path / "answers"
    log.write_text("")
    return log, mains.Frames(log, time.monotonic(), 0.05, **more)


def rows(log: Path) -> list[tuple[int, int, float]]:
    return [(int(n), int(p), float(t)) for n, p, t in (line.split() for line in log.read_text().splitlines())]


async def test_a_camera_is_replaced_by_a_warm_twin_without_losing_a_frame(
    bench: Make, partitioner: CpuPartitioner, tmp_path: Path
) -> None:
    shares = Respawning(partitioner)
    b = bench(partitioner=shares)
    log, spec = camera_of(tmp_path)
    version = iter(range(10))
    b.start("camera-a", mains.camera, lambda: mains.Frames(log, spec.epoch_s, 0.05, next(version)), role="inference")
    await until(lambda: len(rows(log)) > 3)
    old = b.supervisor.pid("camera-a")
    b.supervisor.resize("camera-a", 0.1)
    assert b.kinds() == [], "smaller: live"
    b.supervisor.resize("camera-a", 0.5)
    assert b.supervisor.pid("camera-a") == old, "it goes on until its twin is warm"
    await until(lambda: "worker.respawned" in b.kinds())
    new = b.supervisor.pid("camera-a")
    mark = len(rows(log))
    await until(lambda: len(rows(log)) > mark + 5)
    assert new not in (None, old)
    assert not runs(old or 0)
    numbers = [n for n, _, _ in rows(log)]
    assert numbers == list(range(numbers[0], numbers[-1] + 1)), "each frame exactly once, in order"
    assert {p for _, p, _ in rows(log)} == {old, new}
    assert b.words("took over") == [2], "with the argument of that instant"
    (state,) = b.supervisor.workers()
    assert (state["share"], state["respawns"], state["restarts"], b.lost) == (0.5, 1, 0, [])
    (usage,) = [u for _, u in b.supervisor.usage() if u.running]
    assert usage.worker == "camera-a"
    assert shares.attached == {"camera-a~1": new}


async def test_commands_during_a_replacement_reach_exactly_one_process(
    bench: Make, partitioner: CpuPartitioner, tmp_path: Path
) -> None:
    b = bench(partitioner=Respawning(partitioner))
    _, spec = camera_of(tmp_path, slow_to_retire_s=0.3)
    b.start("c", mains.camera, spec, role="inference")
    await until(lambda: bool(b.said))
    b.supervisor.resize("c", 0.5)
    sent = 0
    while "worker.respawned" not in b.kinds():
        assert b.supervisor.send("c", sent)
        sent += 1
        await asyncio.sleep(0.01)
    await until(lambda: len(b.words("echo")) == sent)
    echoes = b.words("echo")
    assert sorted(n for _, n in echoes) == list(range(sent)), "each command once"
    assert [n for _, n in echoes] == list(range(sent)), "in order"
    assert len({p for p, _ in echoes}) == 2
    assert any(isinstance(s, Ready) for s in b.said), "whoever gives work is told of the new process"


@pytest.mark.parametrize("how", ["twin_dies", "twin_hungry"])
async def test_a_twin_that_fails_leaves_the_old_one_in_force(
    bench: Make, partitioner: CpuPartitioner, tmp_path: Path, how: str
) -> None:
    b = bench(partitioner=Respawning(partitioner))
    log, spec = camera_of(tmp_path, **{how: True})
    b.start("c", mains.camera, spec, role="inference")
    await until(lambda: bool(b.said))
    old = b.supervisor.pid("c")
    b.supervisor.resize("c", 0.5)
    await until(lambda: "worker.respawn_failed" in b.kinds())
    mark = len(rows(log))
    if how == "twin_dies":
        await until(lambda: len(rows(log)) > mark + 3)
        assert b.supervisor.pid("c") == old
        assert b.supervisor.workers()[0]["share"] == 0.2
        assert b.lost == []
    else:
        # Two do not fit into memory: the old one makes room first.
        await until(lambda: b.supervisor.pid("c") not in (None, old))
        await until(lambda: len(rows(log)) > mark + 3)
        assert b.supervisor.workers()[0]["share"] == 0.5
        assert not runs(old or 0)


async def test_the_old_one_dies_while_its_twin_warms_up(
    bench: Make, partitioner: CpuPartitioner, tmp_path: Path
) -> None:
    b = bench(partitioner=Respawning(partitioner))
    log, spec = camera_of(tmp_path)
    b.start("c", mains.camera, spec, role="inference")
    await until(lambda: bool(b.said))
    old = b.supervisor.pid("c")
    b.supervisor.resize("c", 0.5)
    os.kill(old or 0, signal.SIGKILL)
    await until(lambda: b.supervisor.pid("c") not in (None, old) and b.supervisor.ready("c"))
    mark = len(rows(log))
    await until(lambda: len(rows(log)) > mark + 3)
    assert len(b.lost) == 1
    numbers = [n for n, _, _ in rows(log)]
    assert len(numbers) == len(set(numbers))


async def test_one_with_state_of_its_own_ends_before_the_next_begins(bench: Make, partitioner: CpuPartitioner) -> None:
    shares = Respawning(partitioner)
    b = bench(partitioner=shares)
    b.start("retrain-a", mains.obedient, role="retraining", finishes=True, max_restarts=0)
    old = await b.pid()
    b.supervisor.resize("retrain-a", 0.6)
    assert not b.supervisor.ready("retrain-a")
    assert b.supervisor.send("retrain-a", "after"), "held for the next process"
    new = await b.pid(1)
    await until(lambda: b.words("echo") == ["after"])
    assert [w for c, w in shares.calls] == ["retrain-a"] * 3, "attach, detach, attach: never two at once"
    assert (b.lost, b.given_up, alive([old, new])) == ([], [], [new])
    b.supervisor.send("retrain-a", "finish")
    await until(lambda: not b.supervisor.has("retrain-a"))
    assert b.given_up == []


async def test_one_that_does_not_retire_is_ended(bench: Make, partitioner: CpuPartitioner, tmp_path: Path) -> None:
    shares = Respawning(partitioner)
    b = bench(partitioner=shares)
    log, spec = camera_of(tmp_path, slow_to_retire_s=600.0)
    b.start("c", mains.camera, spec, role="inference")
    await until(lambda: bool(b.said))
    old = b.supervisor.pid("c") or 0
    b.supervisor.resize("c", 0.5)
    await until(lambda: b.supervisor.workers()[0]["respawns"] == 1)
    await until(lambda: not runs(old) and b.supervisor.ready("c"))
    assert ("before_kill", "c") in shares.calls
    assert len(b.lost) == 1, "what it had in hand is lost, and that is said"
    mark = len(rows(log))
    await until(lambda: len(rows(log)) > mark + 3)


async def test_stopping_ends_the_twin_too(bench: Make, partitioner: CpuPartitioner, tmp_path: Path) -> None:
    shares = Respawning(partitioner)
    b = bench(partitioner=shares)
    _, spec = camera_of(tmp_path)
    b.start("c", mains.camera, spec, role="inference")
    await until(lambda: bool(b.said))
    b.supervisor.resize("c", 0.5)
    await until(lambda: len(shares.attached) == 2)
    pids = list(shares.attached.values())
    await b.supervisor.stop("c")
    await until(lambda: not alive(pids))
    assert shares.attached == {}


# -- the device


async def test_before_a_worker_is_killed_its_device_work_is_dropped(bench: Make, partitioner: CpuPartitioner) -> None:
    shares = Respawning(partitioner)
    b = bench(partitioner=shares, hang_s=0.8)
    b.start("w", mains.obedient)
    await b.pid()
    b.supervisor.send("w", "silent")
    await b.pid(1)
    assert shares.calls[:4] == [("attach", "w"), ("before_kill", "w"), ("detach", "w"), ("attach", "w")]
    await until(lambda: shares.usage_reads > 1, "usage is read while they live")


async def test_a_sick_device_ends_all_its_workers_before_the_first_starts_again(
    bench: Make, partitioner: CpuPartitioner
) -> None:
    shares = Respawning(partitioner, device="GPU-1")
    b = bench(partitioner=shares)
    b.start("profiler-0", mains.obedient, role="profiling")
    b.start("camera-a", mains.obedient, role="inference")
    b.start("retrain-a", mains.obedient, role="retraining", finishes=True, max_restarts=0)
    pids = [await b.pid(n) for n in range(3)]
    shares.calls.clear()
    shares.launched.clear()
    shares.sick = "MPS server 12 is in FAULT"
    await until(lambda: ("detach", "camera-a") in shares.calls)
    shares.sick = None
    again = [await b.pid(n) for n in range(3, 6)]
    assert not alive(pids)
    assert alive(again) == again
    ended = [n for n, (call, _) in enumerate(shares.calls) if call == "detach"]
    begun = [n for n, (call, _) in enumerate(shares.calls) if call == "attach"]
    assert max(ended) < min(begun), shares.calls
    assert shares.launched == ["camera-a", "retrain-a", "profiler-0"]
    assert sum(call == "before_kill" for call, _ in shares.calls) == 3
    assert b.given_up == [], "this is not the workers' fault"
    await until(lambda: "worker.device_recovered" in b.kinds())
    assert [k for k in b.kinds() if k.startswith("worker.device")] == [
        "worker.device_sick",
        "worker.device_restart",
        "worker.device_recovered",
    ]
    assert b.supervisor.device.trouble is None


async def test_a_hiccup_of_the_device_ends_nobody(bench: Make, partitioner: CpuPartitioner) -> None:
    shares = Respawning(partitioner, device="GPU-1")
    b = bench(partitioner=shares, watch_s=0.3)
    b.start("w", mains.obedient)
    pid = await b.pid()
    shares.sick = "no answer to 'get_server_list'"
    await until(lambda: "worker.device_sick" in b.kinds())
    shares.sick = None
    await until(lambda: "worker.device_recovered" in b.kinds())
    assert b.supervisor.pid("w") == pid


async def test_a_worker_whose_group_is_gone_is_put_under_its_share_again(
    bench: Make, partitioner: CpuPartitioner
) -> None:
    shares = Respawning(partitioner)
    b = bench(partitioner=shares)
    b.start("w", mains.obedient)
    pid = await b.pid()
    shares.calls.clear()
    shares.sick = "the control group of w is gone"
    await until(lambda: ("attach", "w") in shares.calls)
    shares.sick = None
    assert b.supervisor.pid("w") == pid


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
