"""The supervisor over real forkserver processes: one takes another's place, and a sick device starts all anew."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import worker_mains as mains
from runtime_kit import Bench, Respawning, alive, runs, until

from edge.runtime.process import Ready
from edge.shares.cpu import CpuPartitioner

Make = Callable[..., Bench]
REPO = Path(__file__).resolve().parents[2]


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
    assert any(isinstance(s, Ready) for s in b.said), "the giver of work learns of the new process"


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
    # A place is kept until the supervisor has heard that its process is gone.
    await until(lambda: shares.attached == {}, "both places are given back")


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


async def test_a_hiccup_of_the_device_ends_no_worker(bench: Make, partitioner: CpuPartitioner) -> None:
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
