"""CPU groups: version 2 against a model of the kernel's rules, version 1 for real where it can be written."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from share_kit import GREEDY, FakeCgroup2, child

from edge.core.errors import ShareError
from edge.shares.cgroup import CpuGroups, Mount, find_mounts, quota, start_time, sweep, weight

V2 = Path("/fake/cgroup")


def fake_proc(tmp_path: Path, mounts: str, own: str) -> Path:
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mounts").write_text(mounts)
    (tmp_path / "self/cgroup").write_text(own)
    return tmp_path


# -- pure


@given(st.floats(0.0005, 64.0), st.sampled_from([20_000, 100_000]))
def test_a_quota_is_what_the_kernel_takes_and_never_below_the_rate(rate: float, period_us: int) -> None:
    capped, period = quota(rate, period_us)
    assert capped >= 1000
    assert 1000 <= period <= 1_000_000
    assert capped / period >= min(rate, 1.0) * (1 - 1e-3) or rate < 0.001
    assert capped / period <= max(rate * 1.05, 0.0011)


@given(st.floats(0.01, 128.0), st.floats(0.01, 128.0))
def test_inference_outweighs_the_others_ten_times_and_they_go_by_share(one: float, other: float) -> None:
    for role in ("retraining", "golden", "profiling"):
        assert weight("inference", one) >= 10 * weight(role, other)
        assert 1 <= weight(role, one) <= 10_000
        assert one > other or weight(role, one) <= weight(role, other)


# -- looking for the controller


def test_version_2_is_found_with_our_own_group_first(tmp_path: Path) -> None:
    tree = FakeCgroup2(V2, own="system.slice/magpie.service")
    proc = fake_proc(tmp_path, f"cgroup2 {V2} cgroup2 rw 0 0\n", "0::/system.slice/magpie.service\n")
    mounts, refused = find_mounts(proc, tree)
    assert [m.base for m in mounts] == [tree.own, V2]
    assert refused == (("cgroup v1", "no cpu controller is mounted"),)


def test_a_mixed_machine_says_why_version_2_is_not_to_be_had(tmp_path: Path) -> None:
    tree = FakeCgroup2(V2)
    proc = fake_proc(
        tmp_path,
        f"cgroup /fake/cpu cgroup rw,cpu 0 0\ncgroup /fake/acct cgroup rw,cpuacct 0 0\ncgroup2 {V2} cgroup2 rw 0 0\n",
        "2:cpuacct:/\n1:cpu:/\n0::/\n",
    )
    mounts, refused = find_mounts(proc, tree)
    assert mounts == (Mount(1, Path("/fake/cpu"), Path("/fake/acct")),)
    assert ("cgroup v2", "the cpu controller is owned by version 1") in refused


def test_the_group_we_moved_ourselves_to_is_not_taken_for_our_own(tmp_path: Path) -> None:
    tree = FakeCgroup2(V2, own="app.service")
    tree.mkdir(tree.own / "magpie-home")
    proc = fake_proc(tmp_path, f"cgroup2 {V2} cgroup2 rw 0 0\n", "0::/app.service/magpie-home\n")
    assert find_mounts(proc, tree)[0][0].base == tree.own


def test_no_proc_is_no_crash(tmp_path: Path) -> None:
    mounts, refused = find_mounts(tmp_path / "nothing")
    assert mounts == ()
    assert "cannot be looked up" in refused[0][1]


# -- version 2


def test_v2_in_a_delegated_service_group_moves_itself_and_puts_all_back() -> None:
    tree = FakeCgroup2(V2, own="magpie.service", true_root=True)
    tree.processes[os.getpid()] = tree.own
    groups = CpuGroups(Mount(2, tree.own), "Site 1", tree)
    assert tree.processes[os.getpid()] == tree.own / "magpie-home"
    groups.add("camera/one", "inference", [4001], 0.3)
    groups.add("job", "retraining", [4002], math.inf)
    inference, job = groups.group("camera/one"), groups.group("job")
    assert tree.files[inference / "cpu.max"] == "6000 20000"
    assert tree.files[job / "cpu.max"] == "max 100000"
    assert int(tree.files[inference / "cpu.weight"]) == 10 * int(tree.files[job / "cpu.weight"])
    assert tree.processes[4001] == inference
    groups.set_rate("job", "retraining", 1.5)
    assert tree.files[job / "cpu.max"] == "150000 100000"
    groups.set_rate("camera/one", "inference", 0.05, period_us=1_000_000)
    assert tree.files[inference / "cpu.max"] == "50000 1000000", "long enough for a batch of a worker that paces itself"
    assert tree.files[inference / "cpu.max.burst"] == "50000"
    groups.set_rate("camera/one", "inference", 0.02, period_us=1_000_000)
    groups.set_rate("camera/one", "inference", 0.3)
    assert (tree.files[inference / "cpu.max"], tree.files[inference / "cpu.max.burst"]) == ("6000 20000", "0")
    tree.files[inference / "cpu.stat"] = "usage_usec 2500000\nnr_periods 9\nnr_throttled 4\nthrottled_usec 500000\n"
    counted = groups.usage("camera/one")
    assert counted is not None
    assert (counted.cpu_s, counted.throttled_s, counted.throttled_periods, counted.periods) == (2.5, 0.5, 4, 9)
    groups.close()
    groups.close()
    assert tree.groups() == [tree.own] or tree.groups() == []
    assert not any("magpie-" in str(p.relative_to(tree.own)) for p in tree.files if tree.own in p.parents)
    assert tree.processes[os.getpid()] == tree.own
    assert tree.rejected == []


def test_v2_at_the_true_root_moves_no_process() -> None:
    tree = FakeCgroup2(V2)
    tree.processes[os.getpid()] = V2
    groups = CpuGroups(Mount(2, V2), "a", tree)
    groups.add("w", "golden", [7], 0.5)
    assert tree.processes[os.getpid()] == V2
    tree.gone.add(8)
    assert groups.add("x", "golden", [8], 0.5) == 0
    groups.close()
    assert tree.processes[7] == V2
    assert tree.rejected == []


def test_v2_without_the_controller_says_what_to_do() -> None:
    tree = FakeCgroup2(V2, own="a.service", delegated=False)
    with pytest.raises(ShareError, match=r"not delegated to /fake/cgroup/a.service.*Delegate=cpu"):
        CpuGroups(Mount(2, tree.own), "a", tree)
    assert tree.groups() == []


def test_v2_leaves_strangers_processes_alone() -> None:
    tree = FakeCgroup2(V2, own="session.scope")
    stranger = subprocess.Popen(["setsid", "sleep", "30"])
    try:
        tree.processes[os.getpid()] = tree.own
        tree.processes[2**22 + 5] = tree.own  # there is no such process
        with pytest.raises(ShareError, match="processes that are not ours"):
            CpuGroups(Mount(2, tree.own), "a", tree)
        assert tree.processes[2**22 + 5] == tree.own
        assert tree.processes[os.getpid()] == tree.own
        assert tree.groups() == []
    finally:
        stranger.kill()
        stranger.wait()


def test_v2_read_only_tells_the_container_option() -> None:
    class ReadOnly(FakeCgroup2):
        def mkdir(self, path: Path) -> None:
            raise OSError(30, "Read-only file system")

    tree = ReadOnly(V2)
    with pytest.raises(ShareError, match="writable-cgroups"):
        CpuGroups(Mount(2, V2), "a", tree)


def test_stale_groups_are_removed_and_living_ones_stay_in_force() -> None:
    tree = FakeCgroup2(V2)
    tree.files[V2 / "cgroup.subtree_control"] = "cpu"
    gone, alive = V2 / "magpie-a-4194304-17", V2 / f"magpie-a-{os.getpid()}-{start_time(os.getpid())}"
    orphaned = V2 / "magpie-b-4194305-17"
    for group in (gone, alive, orphaned, V2 / "magpie-home", V2 / "other"):
        tree.mkdir(group)
    for group in (gone / "w", orphaned / "w", alive / "w"):
        tree.mkdir(group)
    tree.processes[99] = orphaned / "w"
    swept = sweep(Mount(2, V2), tree)
    assert swept.removed == 1
    assert swept.orphans == (99,)
    assert tree.folders(V2) == sorted([alive.name, orphaned.name, "magpie-home", "other"])
    del tree.processes[99]
    assert sweep(Mount(2, V2), tree).removed == 1


# -- version 1, for real


@pytest.fixture
def v1() -> Iterator[CpuGroups]:
    mounts = [m for m in find_mounts()[0] if m.version == 1]
    if not mounts:
        pytest.skip("no cgroup v1 cpu controller is mounted here")
    try:
        groups = CpuGroups(mounts[0], "test")
    except ShareError as error:
        pytest.skip(f"cgroup v1 cannot be used here: {error}")
    yield groups
    groups.close()
    assert not groups.path.exists()


def test_v1_holds_a_greedy_process_and_counts_it(v1: CpuGroups) -> None:
    process = child(GREEDY)
    try:
        for attempt in range(3):  # others may keep this machine's cores busy
            v1.add("greedy", "inference", [process.pid], 0.2)
            before, began = v1.usage("greedy"), time.monotonic()
            time.sleep(0.6)
            after, wall = v1.usage("greedy"), time.monotonic() - began
            assert before is not None
            assert after is not None
            used = (after.cpu_s - before.cpu_s) / wall
            if used > 0.1 or attempt == 2:
                break
        assert 0.05 < used < 0.25
        assert after.throttled_periods > before.throttled_periods
        v1.set_rate("greedy", "inference", 0.05, period_us=1_000_000)
        assert (v1.group("greedy") / "cpu.cfs_quota_us").read_text().strip() == "50000"
        # The quota may be lifted and the period changed in either direction.
        for role, rate in (("retraining", 1.5), ("inference", 0.01), ("retraining", math.inf)):
            v1.set_rate("greedy", role, rate)
        assert (v1.group("greedy") / "cpu.cfs_quota_us").read_text().strip() == "-1"
        v1.remove("greedy")
        assert not v1.group("greedy").exists()
        assert process.poll() is None, "a removed group must not end its process"
    finally:
        process.kill()
        process.wait()


def test_v1_groups_of_a_killed_owner_are_swept(v1: CpuGroups) -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from edge.shares.cgroup import CpuGroups, find_mounts\n"
        "g = CpuGroups(next(m for m in find_mounts()[0] if m.version == 1), 'victim')\n"
        "g.add('w', 'golden', [], 0.5)\n"
        "print(g.path, flush=True)\n"
        "import time; time.sleep(60)\n"
    )
    victim = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert victim.stdout is not None
    path = Path(victim.stdout.readline().strip())
    assert (path / "w").is_dir()
    victim.kill()
    victim.wait()
    victim.stdout.close()
    assert sweep(v1.mount).removed >= 1
    assert not path.exists()
