"""The engine `ray` on real raylets: the contract in both modes, boxes that die, a head that goes, strangers.

One cluster serves all tests, in this order, and the last one ends it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import ssl
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from engine_kit import AMOUNTS, EngineContract, OpenEngine, begin, over, started, until

from benchmarks.ray_cluster import Cluster
from edge.core import engine as port
from edge.core.errors import Unavailable
from edge.engines import ray_messages as msg
from edge.engines.ray_engine import new_token
from edge.engines.ray_settings import RaySecurity

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (magpie-edge[ray])"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    found = Cluster({"b0": AMOUNTS, "b1": AMOUNTS}, head="b0", headless_s=3.0, restart_s=0.2)
    yield found
    found.close()


@pytest.fixture(scope="module")
def pinned(cluster: Cluster) -> Iterator[OpenEngine]:
    engine = cluster.open(time.monotonic, look_s=0.2)
    yield begin(engine, 2, cluster.kill_worker)
    engine.close()


class TestPinned(EngineContract):
    """The fleet's matcher keeps the amounts."""

    @pytest.fixture
    def opened(self, pinned: OpenEngine) -> OpenEngine:
        return pinned


@pytest.fixture(scope="module")
def dynamic(cluster: Cluster) -> Iterator[OpenEngine]:
    engine = cluster.open(time.monotonic, "dynamic", look_s=0.2, folder=cluster.folder / "dynamic")
    yield begin(engine, 2, cluster.kill_worker)
    engine.close()
    engine.close()


class TestDynamic(EngineContract):
    """Amounts are resources of Ray as well."""

    @pytest.fixture
    def opened(self, dynamic: OpenEngine) -> OpenEngine:
        return dynamic

    def test_ray_itself_keeps_a_task_back_for_which_there_is_too_little(
        self, cluster: Cluster, opened: OpenEngine
    ) -> None:
        other = cluster.open(time.monotonic, "dynamic", look_s=0.2, folder=cluster.folder / "other")
        begin(other, 2, cluster.kill_worker)
        for engine in (opened.engine, other):
            assert engine.set_resource("b0", "teacher:heavy", 1.0) == 1.0
        first = opened.task("first", box="b0", seconds=None, demand={"teacher:heavy": 1.0})
        opened.engine.launch((first,))
        opened.until(started)
        second = opened.task("second", box="b0", seconds=0.0, demand={"teacher:heavy": 1.0})
        other.launch((second,))
        other.launch((opened.task("third", box="b0", seconds=0.0),))
        assert "second" not in {e.task.job for e in until(other, over)}  # type: ignore[attr-defined]
        opened.engine.cancel(first.at)
        opened.until(over)
        assert {e.task for e in until(other, over)} == {second.at}  # type: ignore[attr-defined]
        other.close()
        assert opened.engine.set_resource("b0", "teacher:heavy", 0.0) == 0.0


def test_no_process_of_ours_has_loaded_ray(pinned: OpenEngine) -> None:
    assert "ray" not in sys.modules


def test_strangers_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    stranger = RaySecurity(new_token(), cluster.security.certificates)
    with pytest.raises(Unavailable, match="refused this token"):
        cluster.open(time.monotonic, security=stranger, folder=tmp_path)
    host, _, listens = cluster.head.partition(":")
    ours = cluster.security.certificates.certificate.read_text()
    shown = ssl.get_server_certificate((host, int(listens)))
    assert shown.split() == ours.split()[: len(shown.split())]


def test_a_box_that_is_killed_is_gone_with_its_tasks_and_comes_back_empty(cluster: Cluster, pinned: OpenEngine) -> None:
    engine = pinned.engine
    engine.set_resource("b1", "zone:gate", 2.0)
    lost = tuple(pinned.task("lost", n, "b1", seconds=None, demand={"cpu": 2.0}) for n in range(2))
    kept = pinned.task("kept", box="b0", seconds=None)
    engine.launch((*lost, kept))
    until(engine, lambda seen: len(seen) == 3)
    cluster.members["b1"].kill()
    events = until(engine, lambda seen: any(isinstance(e, port.EngineBoxGone) for e in seen))
    *failed, gone = events
    assert isinstance(gone, port.EngineBoxGone)
    assert gone.box == "b1"
    assert {e.task for e in failed if isinstance(e, port.EngineTaskFailed) and e.lost} == {t.at for t in lost}
    assert [box.name for box in engine.status()] == ["b0"]
    cluster.start("b1").wait_for(msg.RayNodeUp)
    (joined,) = until(engine, bool)
    assert isinstance(joined, port.EngineBoxJoined)
    assert joined.box == port.EngineBox("b1", AMOUNTS, AMOUNTS)
    engine.launch((replace(lost[0], work=port.EngineWork("wait", {"seconds": 0.0})),))
    assert isinstance(until(engine, over)[-1], port.EngineTaskEnded)
    engine.cancel(kept.at)
    until(engine, over)


def test_tasks_go_on_and_end_while_the_heads_store_is_away(cluster: Cluster, pinned: OpenEngine) -> None:
    head = cluster.members["b0"]
    across = pinned.task("across", box="b1", seconds=None)
    pinned.engine.launch((across, pinned.task("ends", box="b0", seconds=0.3)))
    until(pinned.engine, lambda seen: sum(isinstance(e, port.EngineTaskStarted) for e in seen) == 2)
    os.kill(head.wait_for(msg.RayNodeUp).pids["gcs_server"], signal.SIGKILL)
    (ended,) = until(pinned.engine, over)
    assert isinstance(ended, port.EngineTaskEnded)
    head.wait_for(msg.RayStoreUp)
    pinned.engine.cancel(across.at)
    assert isinstance(until(pinned.engine, over)[-1], port.EngineTaskCancelled)
    pinned.engine.launch((pinned.task("after", box="b1", seconds=0.0),))
    assert isinstance(until(pinned.engine, over)[-1], port.EngineTaskEnded)


def test_the_token_is_in_no_log_and_in_no_process_list(cluster: Cluster) -> None:
    token = cluster.security.token
    files = [f for f in cluster.folder.rglob("*") if f.is_file() and f.suffix != ".key"]
    assert any(f.name == "link.log" for f in files)
    assert [f for f in files if token.encode() in f.read_bytes()] == []
    for member in cluster.members.values():
        for process in member.processes():
            assert token not in " ".join(process.cmdline())


def test_a_link_that_dies_takes_the_engine_with_it_and_nothing_else(cluster: Cluster, pinned: OpenEngine) -> None:
    task = pinned.task("with it", box="b0", seconds=None)
    engine = cluster.open(time.monotonic, look_s=0.2, folder=cluster.folder / "second")
    begin(engine, 2, cluster.kill_worker)
    engine.launch((task,))
    until(engine, started)
    os.kill(engine.link_pid, signal.SIGKILL)
    failed, _ = until(engine, lambda seen: any(isinstance(e, port.EngineDied) for e in seen))
    assert isinstance(failed, port.EngineTaskFailed)
    assert failed.lost
    with pytest.raises(Unavailable):
        engine.launch((task,))
    engine.close()


def test_a_box_without_a_head_ends_its_part_of_ray_and_nothing_else(
    cluster: Cluster, pinned: OpenEngine, dynamic: OpenEngine
) -> None:
    for opened in (pinned, dynamic):
        opened.engine.close()
    member = cluster.members["b1"]
    processes = member.processes()
    cluster.members["b0"].kill()
    assert member.ended.wait(60.0)
    assert member.code not in (0, None)
    assert any(isinstance(m, msg.RayFailed) and "raylet of b1 ended" in m.why for m in member.said)
    psutil.wait_procs(processes, 10.0)
    assert not [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
