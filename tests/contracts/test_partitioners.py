"""One suite for every share kind: what the runtime may rely on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
from share_kit import FakeCgroup2, FakeMps

from edge.core.clock import ManualClock
from edge.core.errors import InvalidValue, ShareError
from edge.core.shares import CPU_ONLY, GPU_ONLY, Partitioner, ShareChoice, ShareKind
from edge.settings import MachineSettings
from edge.shares.bucket import Bucket
from edge.shares.cgroup import CpuGroups, Mount, find_mounts
from edge.shares.coop import BucketFolder
from edge.shares.cpu import CpuPartitioner
from edge.shares.gpu import GpuCoop, GpuInfo
from edge.shares.green import MpsGreenPartitioner
from edge.shares.mps import MpsControl, MpsPartitioner

GPU = GpuInfo("GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "Test GPU", 16 * 2**30, sms=132)
Make = Callable[[Path, ManualClock], Partitioner]


def _v1(folder: Path, clock: ManualClock) -> Partitioner:
    mounts = [m for m in find_mounts()[0] if m.version == 1]
    if not mounts:
        pytest.skip("no cgroup v1 cpu controller is mounted here")
    try:
        groups = CpuGroups(mounts[0], "contract")
    except ShareError as error:
        pytest.skip(f"cgroup v1 cannot be used here: {error}")
    return CpuPartitioner(2.0, groups, BucketFolder(folder), clock)


def _v2(folder: Path, clock: ManualClock) -> Partitioner:
    root = Path("/fake/cgroup")
    return CpuPartitioner(2.0, CpuGroups(Mount(2, root), "contract", FakeCgroup2(root)), None, clock)


def _coop(folder: Path, clock: ManualClock) -> Partitioner:
    return CpuPartitioner(2.0, None, BucketFolder(folder), clock)


def _gpu_coop(folder: Path, clock: ManualClock) -> Partitioner:
    return GpuCoop(GPU, BucketFolder(folder), clock)


def _control(folder: Path) -> MpsControl:
    fake = FakeMps.install(folder / "bin", folder / "mps")
    return MpsControl(GPU, folder, environ=fake.environ)


def _mps(folder: Path, clock: ManualClock) -> Partitioner:
    return MpsPartitioner(GPU, _control(folder), BucketFolder(folder), clock)


def _green(folder: Path, clock: ManualClock) -> Partitioner:
    return MpsGreenPartitioner(GPU, _control(folder), 8, BucketFolder(folder), clock)


#: Every share kind, with what makes it; a new one is added here.
MAKERS: tuple[tuple[ShareKind, Make], ...] = (
    ("cgroup+coop", _v1), ("cgroup", _v2), ("coop", _coop), ("coop", _gpu_coop), ("mps", _mps), ("mps+green", _green),
)  # fmt: skip


def test_every_share_kind_has_its_maker_and_can_be_asked_for() -> None:
    assert {kind for kind, _ in MAKERS} == set(get_args(ShareKind))
    assert {"auto", *get_args(ShareKind)} == set(get_args(ShareChoice))
    schema = MachineSettings.model_json_schema()["properties"]["share_kind"]["enum"]
    assert set(schema) == set(get_args(ShareChoice))


def test_the_table_of_the_documentation_has_every_share_kind_with_its_devices() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "shares.md").read_text(encoding="utf-8")
    table = page.split("\n| kind | device |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", table, re.M)
    devices = {
        kind: "CPU" if kind in CPU_ONLY else "GPU" if kind in GPU_ONLY else "CPU, GPU" for kind in get_args(ShareKind)
    }
    assert sorted(rows) == sorted(devices.items())


@pytest.fixture(params=MAKERS, ids=lambda one: one[1].__name__.strip("_"))
def parts(request: pytest.FixtureRequest) -> Iterator[tuple[Partitioner, ManualClock, Path]]:
    with tempfile.TemporaryDirectory(prefix="mg", dir="/tmp") as name:
        folder, clock = Path(name), ManualClock(1000.0)
        partitioner = request.param[1](folder, clock)
        yield partitioner, clock, folder
        partitioner.close()
        partitioner.close()
        left = [p.name for p in folder.iterdir() if p.name not in ("bin", "mps")]
        assert left == [], "close left something behind"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-S", "-E", "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def test_a_worker_lives_under_its_share(
    parts: tuple[Partitioner, ManualClock, Path], sleeper: subprocess.Popen[bytes]
) -> None:
    partitioner, clock, _ = parts
    spec = partitioner.launch_spec("cam-1", "inference", 0.5)
    assert spec.threads >= 1
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in spec.env.items())
    grant = partitioner.attach("cam-1", "inference", sleeper.pid, 0.5)
    step = partitioner.caps.step or 0.0
    assert grant.asked == 0.5
    assert 0.5 - step - 1e-9 <= grant.share <= 0.5
    clock.advance(10.0)
    (usage,) = partitioner.usage()
    assert usage.worker == "cam-1"
    assert usage.wall_s == pytest.approx(10.0)
    assert usage.asked == pytest.approx(0.5)
    assert usage.granted == pytest.approx(grant.share)
    assert 0.0 <= usage.used_share < 0.2
    assert partitioner.healthy() is None
    partitioner.detach("cam-1")


def test_means_are_weighted_by_time_over_resizes(
    parts: tuple[Partitioner, ManualClock, Path], sleeper: subprocess.Popen[bytes]
) -> None:
    partitioner, clock, _ = parts
    partitioner.launch_spec("w", "retraining", 0.8)
    first = partitioner.attach("w", "retraining", sleeper.pid, 0.8)
    clock.advance(3.0)
    result = partitioner.resize("w", 0.4)
    assert result.live, "a smaller share is always live"
    clock.advance(1.0)
    (usage,) = partitioner.usage()
    assert usage.asked == pytest.approx((3 * 0.8 + 1 * 0.4) / 4)
    assert usage.granted == pytest.approx((3 * first.share + partitioner.caps.quantize(0.4)) / 4)
    grown = partitioner.resize("w", 0.9)
    assert grown.live == (partitioner.caps.resize == "live")
    assert grown.live or "w" in grown.reason


def test_accounts_end_with_the_period(
    parts: tuple[Partitioner, ManualClock, Path], sleeper: subprocess.Popen[bytes]
) -> None:
    partitioner, clock, _ = parts
    partitioner.launch_spec("w", "golden", 0.2)
    partitioner.attach("w", "golden", sleeper.pid, 0.2)
    clock.advance(2.0)
    partitioner.detach("w")
    clock.advance(5.0)
    (usage,) = partitioner.usage()
    assert not usage.running
    assert usage.wall_s == pytest.approx(2.0)
    partitioner.reset_usage()
    assert partitioner.usage() == ()


def test_a_worker_that_comes_back_goes_on_with_its_account(
    parts: tuple[Partitioner, ManualClock, Path], sleeper: subprocess.Popen[bytes]
) -> None:
    partitioner, clock, _ = parts
    for _ in range(2):
        partitioner.launch_spec("w", "inference", 0.25)
        partitioner.attach("w", "inference", sleeper.pid, 0.25)
        clock.advance(2.0)
        partitioner.detach("w")
        clock.advance(1.0)
    (usage,) = partitioner.usage()
    assert usage.wall_s == pytest.approx(4.0)


@pytest.mark.parametrize("share", [0.0, 0.001])
def test_a_share_under_the_smallest_is_refused_in_words(
    parts: tuple[Partitioner, ManualClock, Path], share: float
) -> None:
    partitioner, _, _ = parts
    with pytest.raises(ShareError, match=r"worker w: a share of .* cannot be granted, the smallest is"):
        partitioner.launch_spec("w", "inference", share)
    with pytest.raises(ShareError, match="cannot be granted"):
        partitioner.attach("w", "inference", os.getpid(), share)
    assert partitioner.usage() == ()


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_out_of_range_names_the_field(parts: tuple[Partitioner, ManualClock, Path], share: float) -> None:
    with pytest.raises(InvalidValue, match="share: got"):
        parts[0].launch_spec("w", "inference", share)


def test_unknown_workers(parts: tuple[Partitioner, ManualClock, Path]) -> None:
    partitioner, _, _ = parts
    partitioner.detach("nobody")
    partitioner.before_kill("nobody")
    with pytest.raises(ShareError, match="nobody is not attached"):
        partitioner.resize("nobody", 0.5)


def test_a_process_that_is_gone_already_is_no_error(parts: tuple[Partitioner, ManualClock, Path]) -> None:
    partitioner, clock, _ = parts
    process = subprocess.Popen([sys.executable, "-S", "-E", "-c", ""])
    process.wait()
    partitioner.launch_spec("w", "retraining", 0.5)
    partitioner.attach("w", "retraining", process.pid, 0.5)
    clock.advance(1.0)
    assert partitioner.usage()[0].device_seconds == pytest.approx(0.0, abs=0.05)
    partitioner.before_kill("w")
    partitioner.detach("w")


def test_a_pause_and_its_end(parts: tuple[Partitioner, ManualClock, Path], sleeper: subprocess.Popen[bytes]) -> None:
    partitioner, _, _ = parts
    spec = partitioner.launch_spec("w", "retraining", 0.5)
    partitioner.attach("w", "retraining", sleeper.pid, 0.5)
    assert partitioner.resize("w", 0.0).live
    bucket = Bucket.from_environment(spec.env)
    if bucket.rate != float("inf"):  # kinds with a bucket stop the worker at its next batch
        assert not bucket.ready(timeout_s=0.02)
    assert partitioner.resize("w", 0.5).live
    assert Bucket.from_environment(spec.env).ready(timeout_s=0.02)


def test_names_of_workers_may_be_anything(
    parts: tuple[Partitioner, ManualClock, Path], sleeper: subprocess.Popen[bytes]
) -> None:
    partitioner, _, _ = parts
    names = ["../../etc", "a/b", "a_b", "Kamera Süd", "x" * 200]
    for name in names:
        partitioner.launch_spec(name, "inference", 0.1)
        partitioner.attach(name, "inference", sleeper.pid, 0.1)
    assert [u.worker for u in partitioner.usage()] == sorted(names)


def test_its_caps_name_its_kind(parts: tuple[Partitioner, ManualClock, Path], request: pytest.FixtureRequest) -> None:
    kind = request.node.callspec.params["parts"][0]
    assert parts[0].caps.kind == kind
