"""CUDA MPS against a stand-in for its control program, in both dialects."""

from __future__ import annotations

import math
import os
import stat
import time
from pathlib import Path

import pytest
from share_kit import FakeMps

from edge.core.errors import ShareError
from edge.shares.bucket import Bucket
from edge.shares.gpu import GpuInfo
from edge.shares.mps import MpsControl, MpsPartitioner

GPU = GpuInfo("GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "Test GPU", 16 * 2**30, sms=132)


@pytest.fixture(params=["v2", "v3"])
def control(request: pytest.FixtureRequest, fake_mps: FakeMps, short_dir: Path):
    made = MpsControl(GPU, short_dir, dialect=request.param, environ=fake_mps.environ)
    made.start()
    yield made
    made.stop()


def test_the_daemon_is_private_and_for_one_gpu(control: MpsControl, fake_mps: FakeMps) -> None:
    pid = control.daemon_pid
    assert pid is not None
    assert stat.S_IMODE(control.pipe.stat().st_mode) == 0o700
    said = next(c for c in fake_mps.calls if c.startswith("environment"))
    assert f"CUDA_VISIBLE_DEVICES={GPU.id}" in said
    assert f"CUDA_MPS_PIPE_DIRECTORY={control.pipe}" in said
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=None" in said
    control.start()
    assert sum(c.startswith("start") for c in fake_mps.calls) == 1, "it runs already"
    control.stop()
    control.stop()
    assert not Path(f"/proc/{pid}/exe").exists()
    assert not control.pipe.parent.exists()


def test_servers_clients_and_faults_are_read(control: MpsControl, fake_mps: FakeMps) -> None:
    assert control.servers() == {}
    assert control.trouble() is None
    fake_mps.set_servers((101, "ACTIVE"))
    fake_mps.set_clients((201, 101), (202, 101))
    assert control.servers() == {101: "ACTIVE"}
    assert control.clients() == {201: 101, 202: 101}
    fake_mps.set_servers((101, "FAULT"))
    trouble = control.trouble()
    assert trouble is not None
    assert "server 101" in trouble
    assert "FAULT" in trouble


def test_a_client_is_dropped_before_it_is_killed(control: MpsControl, fake_mps: FakeMps) -> None:
    fake_mps.set_servers((101, "ACTIVE"))
    fake_mps.set_clients((201, 101), (202, 101))
    assert control.terminate(201)
    assert control.clients() == {202: 101}
    assert not control.terminate(999)


def test_a_daemon_that_does_not_quit_is_ended_by_signal(control: MpsControl, fake_mps: FakeMps) -> None:
    pid = control.daemon_pid
    fake_mps.behave("noquit")
    control.stop()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}/exe").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}/exe").exists()


def test_a_program_that_only_speaks_version_3_is_understood(fake_mps: FakeMps, short_dir: Path) -> None:
    fake_mps.behave("v3only")
    control = MpsControl(GPU, short_dir, environ=fake_mps.environ)
    control.start()
    assert control.dialect == "v3"
    control.stop()


def test_a_program_that_does_not_answer_is_given_up_in_time(fake_mps: FakeMps, short_dir: Path) -> None:
    # Silent from the first call on: a short limit would else cut calls that a loaded machine answers late.
    fake_mps.behave("mute")
    control = MpsControl(GPU, short_dir, environ=fake_mps.environ, timeout_s=0.2)
    with pytest.raises(ShareError, match=r"no answer to 'nvidia-cuda-mps-control get_server_list' in 0.2 s"):
        control.servers()


def test_a_daemon_that_went_silent_is_in_trouble_and_is_stopped_all_the_same(
    fake_mps: FakeMps, short_dir: Path
) -> None:
    control = MpsControl(GPU, short_dir, environ=fake_mps.environ, timeout_s=2.0)
    control.start()
    fake_mps.behave("mute")
    assert "no answer" in (control.trouble() or "")
    control.stop()
    assert control.daemon_pid is None


def test_a_slow_program_is_waited_for(fake_mps: FakeMps, short_dir: Path) -> None:
    fake_mps.behave("slow")
    control = MpsControl(GPU, short_dir, environ=fake_mps.environ)
    control.start()
    assert control.servers() == {}
    control.stop()


def test_what_keeps_mps_from_starting_is_said(fake_mps: FakeMps, short_dir: Path) -> None:
    with pytest.raises(ShareError, match="nvidia-cuda-mps-control is not on PATH"):
        MpsControl(GPU, short_dir, environ={"PATH": "/nowhere"})
    fake_mps.behave("dead")
    control = MpsControl(GPU, short_dir, environ=fake_mps.environ)
    with pytest.raises(ShareError, match="no CUDA-capable device"):
        control.start()
    control.stop()
    deep = short_dir / ("d" * 80)
    deep.mkdir()
    with pytest.raises(ShareError, match="too long for sockets"):
        MpsControl(GPU, deep, environ=fake_mps.environ)
    assert list(deep.iterdir()) == []


def test_daemons_of_a_killed_owner_are_ended(fake_mps: FakeMps, short_dir: Path) -> None:
    control = MpsControl(GPU, short_dir, environ=fake_mps.environ)
    control.start()
    pid = control.daemon_pid
    orphan = short_dir / "mgp-mps-4194304-1-x"
    control.pipe.parent.rename(orphan)
    other = MpsControl(GPU, short_dir, environ=fake_mps.environ)
    assert other.swept == 1
    assert not orphan.exists()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}/exe").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}/exe").exists()
    other.stop()


@pytest.fixture
def mps(fake_mps: FakeMps, short_dir: Path):
    control = MpsControl(GPU, short_dir, environ=fake_mps.environ)
    limits = {"inference": 2 * 2**30}
    partitioner = MpsPartitioner(GPU, control, memory_limit_bytes=limits)
    yield partitioner
    partitioner.close()


def test_a_client_learns_its_share_limit_and_priority(mps: MpsPartitioner) -> None:
    camera = mps.launch_spec("cam", "inference", 0.257).env
    assert camera["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert camera["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=2048M"
    assert camera["CUDA_MPS_CLIENT_PRIORITY"] == "0"
    assert camera["CUDA_VISIBLE_DEVICES"] == GPU.id
    job = mps.launch_spec("job", "retraining", 0.5).env
    assert job["CUDA_MPS_CLIENT_PRIORITY"] == "1"
    assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT" not in job
    assert mps.caps.fault_domain == "device"
    assert mps.caps.min_share == 0.02


def test_shrinking_is_live_by_the_bucket_and_growing_needs_a_new_process(mps: MpsPartitioner) -> None:
    spec = mps.launch_spec("w", "inference", 0.4)
    mps.attach("w", "inference", os.getpid(), 0.4)
    bucket = Bucket.from_environment(spec.env)
    assert math.isinf(bucket.rate)
    assert mps.resize("w", 0.1).live
    assert bucket.rate == pytest.approx(0.25)  # a quarter of the time on 40 % of the SMs
    grown = mps.resize("w", 0.6)
    assert not grown.live
    assert "40%" in grown.reason
    assert mps.resize("w", 0.4).live
    assert math.isinf(bucket.rate)
    mps.detach("w")
    mps.launch_spec("w", "inference", 0.6)
    assert mps.attach("w", "inference", os.getpid(), 0.6).share == 0.6


def test_a_dead_daemon_is_noticed_and_comes_back_with_the_next_worker(mps: MpsPartitioner, fake_mps: FakeMps) -> None:
    assert mps.healthy() is None
    os.kill(mps._control.daemon_pid, 9)
    deadline = time.monotonic() + 5
    while mps.healthy() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert mps.healthy() == f"the MPS daemon of {GPU.id} is gone"
    mps.launch_spec("w", "inference", 0.4)
    assert mps.healthy() is None


def test_before_a_kill_the_client_is_dropped(mps: MpsPartitioner, fake_mps: FakeMps) -> None:
    mps.launch_spec("w", "inference", 0.4)
    mps.attach("w", "inference", 4242, 0.4)
    fake_mps.set_servers((101, "ACTIVE"))
    fake_mps.set_clients((4242, 101))
    mps.before_kill("w")
    assert "v2 terminate_client 101 4242" in fake_mps.calls
