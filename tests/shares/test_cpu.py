"""CPU shares end to end: real children under bucket and quota, the probe, and what is said when groups are missing."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from share_kit import GREEDY, LAZY, OBEDIENT, child

from edge.core.errors import InvalidValue, NotFound, ShareError
from edge.core.shares import Usage
from edge.shares import open_partitioner
from edge.shares.coop import BucketFolder
from edge.shares.cpu import CpuPartitioner, Probe, choose_cpu, describe, open_cpu_partitioner, threads_for


def watch(partitioner: CpuPartitioner, role: str, share: float, code: str, seconds: float) -> Usage:
    """Run `code` under a share; its usage over `seconds` after it has settled in."""
    spec = partitioner.launch_spec("w", role, share)
    process = child(code, dict(spec.env))
    try:
        partitioner.attach("w", role, process.pid, share)
        deadline = time.monotonic() + 10
        file = partitioner._buckets.get("w") if partitioner._buckets else None
        while code != GREEDY and file is not None and file.counters().batches < 10 and time.monotonic() < deadline:
            time.sleep(0.02)
        partitioner.reset_usage()
        time.sleep(seconds)
        return partitioner.usage()[0]
    finally:
        process.kill()
        process.wait()
        partitioner.detach("w")


@pytest.fixture
def cpu(tmp_path: Path):
    partitioner = open_cpu_partitioner(cores=2.0, appliance="test", skip_probe=True, cache_dir=tmp_path)
    yield partitioner
    partitioner.close()


@given(st.floats(0.01, 1.0), st.floats(0.5, 128.0))
def test_threads_cover_the_share_and_no_more(share: float, cores: float) -> None:
    threads = threads_for(share, cores)
    assert threads >= share * cores - 1e-5
    assert threads == 1 or threads - 1 < share * cores


def test_an_obedient_worker_gets_its_share(cpu: CpuPartitioner) -> None:
    for _ in range(3):  # other work on this machine may take the core
        usage = watch(cpu, "inference", 0.15, OBEDIENT, 0.8)
        if abs(usage.used_share - 0.15) < 0.03:
            break
    assert usage.used_share == pytest.approx(0.15, abs=0.03)
    assert usage.given_share == pytest.approx(usage.used_share, abs=0.03)
    assert not usage.demand_limited


def test_a_greedy_worker_is_stopped_by_the_quota(cpu: CpuPartitioner) -> None:
    if cpu.caps.kind != "cgroup+coop":
        pytest.skip(f"no quota can be had here: {cpu.caps.evidence}")
    usage = watch(cpu, "retraining", 0.15, GREEDY, 1.4)
    assert usage.used_share < 0.15 * 1.15 + 0.08
    assert usage.throttled_fraction > 0.0
    assert usage.given_share is None  # it never opened its bucket: what it left is not known


def test_a_paced_worker_is_not_cut_by_the_quota_behind_it(cpu: CpuPartitioner) -> None:
    if cpu.caps.kind != "cgroup+coop":
        pytest.skip(f"no quota can be had here: {cpu.caps.evidence}")
    # Batches of 5 ms under 0.04 cores: a period of 20 ms would cut each into five pieces.
    for _ in range(3):  # a worker that other work held up makes up for it, into its quota
        usage = watch(cpu, "golden", 0.02, OBEDIENT, 1.5)
        if usage.throttled_fraction < 0.1:
            break
    assert usage.throttled_fraction < 0.1
    assert usage.used_share < 0.03


def test_a_camera_starts_without_a_quota_and_gets_it_when_it_answers(cpu: CpuPartitioner) -> None:
    if cpu.caps.kind != "cgroup+coop":
        pytest.skip(f"no quota can be had here: {cpu.caps.evidence}")
    spec = cpu.launch_spec("w", "inference", 0.05)
    process = child(OBEDIENT, dict(spec.env))
    try:
        cpu.attach("w", "inference", process.pid, 0.05)
        quota = cpu._groups.group("w") / "cpu.cfs_quota_us"
        if not quota.exists():
            quota = cpu._groups.group("w") / "cpu.max"
        before = quota.read_text()
        deadline = time.monotonic() + 20
        while quota.read_text() == before and time.monotonic() < deadline:
            time.sleep(0.02)
            cpu.healthy()
        assert before.split()[0] in ("-1", "max")
        assert quota.read_text().split()[0] in ("100000", "100001")
        assert cpu._buckets.open("w").counters().batches >= 2
    finally:
        process.kill()
        process.wait()


def test_a_worker_with_little_to_do_is_given_its_share_and_leaves_most(tmp_path: Path) -> None:
    coop = CpuPartitioner(2.0, None, BucketFolder(tmp_path))
    usage = watch(coop, "inference", 0.3, LAZY, 0.8)
    coop.close()
    assert usage.demand_limited
    assert usage.used_share < 0.1
    assert usage.given_share == pytest.approx(0.3, abs=0.06)


def test_the_probe_is_measured_once_per_boot(tmp_path: Path) -> None:
    first = choose_cpu(cores=2.0, appliance="probe", cache_dir=tmp_path, bucket_dir=tmp_path)
    first.partitioner.close()
    if first.partitioner.caps.kind != "cgroup+coop":
        pytest.skip("no quota can be had here:\n" + describe(first.attempts))
    assert "a busy child got 0." in first.partitioner.caps.evidence
    cache = tmp_path / "cpu-probe.json"
    kept = json.loads(cache.read_text())
    kept["probe"]["wall_s"] = 42.0
    cache.write_text(json.dumps(kept))
    again = choose_cpu(cores=2.0, appliance="probe", cache_dir=tmp_path, bucket_dir=tmp_path)
    again.partitioner.close()
    assert "in 42.0 s" in again.partitioner.caps.evidence


def test_a_quota_that_does_not_bite_is_not_believed() -> None:
    assert not Probe("cgroup v2", 0.3, 0.99, 0.6, 0).held
    assert not Probe("cgroup v2", 0.3, 0.29, 0.6, 0).held, "never throttled: the child was only starved"
    assert not Probe("cgroup v2", 0.3, 0.6, 0.6, 9).held
    assert Probe("cgroup v2", 0.3, 0.31, 0.6, 9).held


def no_groups(tmp_path: Path) -> Path:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mounts").write_text("")
    (tmp_path / "self/cgroup").write_text("0::/\n")
    return tmp_path


def test_without_groups_the_bucket_works_alone_and_says_so(tmp_path: Path) -> None:
    opened = choose_cpu(cores=1.0, proc=no_groups(tmp_path))
    opened.partitioner.close()
    caps = opened.partitioner.caps
    assert (caps.kind, caps.enforced) == ("coop", "coop")
    assert [(a.kind, a.ok) for a in opened.attempts] == [("cgroup v2", False), ("cgroup v1", False), ("coop", True)]
    spec = CpuPartitioner(1.0, None, BucketFolder(tmp_path)).launch_spec("j", "retraining", 0.5)
    assert spec.nice > 0


def test_a_kind_that_cannot_be_had_is_an_error_with_reasons(tmp_path: Path) -> None:
    with pytest.raises(ShareError, match=r"share kind cgroup cannot be had: .*not mounted"):
        open_cpu_partitioner(cores=1.0, prefer="cgroup", proc=no_groups(tmp_path))
    with pytest.raises(ShareError, match="mps is for NVIDIA GPUs"):
        open_cpu_partitioner(cores=1.0, prefer="mps")


def test_the_front_door_checks_its_words() -> None:
    with pytest.raises(InvalidValue, match="share_kind: got 'magic'"):
        open_partitioner("cpu", "magic")
    with pytest.raises(NotFound, match="device GPU-1 is not there"):
        open_partitioner("GPU-1")
    with pytest.raises(InvalidValue, match="cores: got 0"):
        open_partitioner("cpu", "coop", cores=0.0)
    partitioner = open_partitioner("auto", "coop", cores=2.0)
    assert partitioner.caps.kind == "coop"
    partitioner.close()


def test_bucket_folders_of_a_killed_owner_are_swept(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    stale = tmp_path / f"magpie-buckets-{process.pid}-1-abc"
    stale.mkdir()
    (stale / "w").write_bytes(b"x")
    folder = BucketFolder(tmp_path)
    assert folder.swept == 1
    assert not stale.exists()
    other = BucketFolder(tmp_path)
    assert other.swept == 0, "the folder of a living owner stays"
    folder.close()
    other.close()
