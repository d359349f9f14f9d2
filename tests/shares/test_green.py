"""Green contexts: layouts in shared memory, and the worker's ladder on a stand-in for torch.cuda.green_contexts."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from share_kit import FakeMps

from edge.core.errors import ShareError
from edge.shares.bucket import Bucket
from edge.shares.gpu import GpuInfo
from edge.shares.green import LAYOUT_ENVIRONMENT, GreenLadder, LayoutBoard, MpsGreenPartitioner, fit_layout
from edge.shares.mps import MpsControl

GPU = GpuInfo("GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "Test GPU", 16 * 2**30, sms=132)


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(0.001, 1.0)), max_size=12),
    st.sampled_from([(132, 8), (108, 2), (16, 2)]),
)
def test_a_layout_fits_the_device_in_whole_granules(shares: list[float], device: tuple[int, int]) -> None:
    total, granule = device
    busy = sum(s > 0 for s in shares)
    if busy * granule > total:
        with pytest.raises(ShareError, match="do not fit"):
            fit_layout(shares, total, granule)
        return
    counts = fit_layout(shares, total, granule)
    assert sum(counts) <= total
    for share, count in zip(shares, counts, strict=True):
        assert count % granule == 0
        assert (count == 0) == (share == 0)
        assert count <= max(granule, share * total + 1e-3)
    floors = [max(granule, int(s * total / granule + 1e-4) * granule) if s else 0 for s in shares]
    if sum(floors) <= total:
        assert list(counts) == floors


def test_readers_in_other_processes_see_whole_layouts(tmp_path: Path) -> None:
    board = LayoutBoard(tmp_path / "layout", total=132, create=True)
    reader = LayoutBoard(tmp_path / "layout")
    pid = os.fork()
    if pid == 0:
        for n in range(3000):
            board.publish([n % 7] * (n % 40 + 1))
        os._exit(0)
    seen = 0
    done = False
    while not done:
        done = os.waitpid(pid, os.WNOHANG)[0] == pid
        layout = reader.read()
        assert len(set(layout.sms)) <= 1, "a layout half written was read"
        assert layout.generation >= seen
        seen = layout.generation
    assert reader.read().generation == 3000


class Stream:
    def __init__(self, name: str) -> None:
        self.name, self.waits, self.synchronized = name, [], False

    def wait_stream(self, other: Stream) -> None:
        self.waits.append(other.name)

    def synchronize(self) -> None:
        self.synchronized = True


class Api:
    """The part of torch 2.15's torch.cuda.green_contexts that the ladder uses; it can refuse as old drivers do."""

    def __init__(self, split: bool = True, workqueues: bool = True, contexts: bool = True) -> None:
        self.can_split, self.workqueues, self.contexts = split, workqueues, contexts
        self.made: list[tuple[str, int]] = []
        self.streams: list[Stream] = []
        api = self

        class SMPartition:
            def __init__(self, sms: int, place: int) -> None:
                self.sms, self.place = sms, place

            @classmethod
            def from_device(cls, device_id: int | None = None) -> SMPartition:
                return cls(132, 0)

            def split(self, *, num_sms: Any) -> tuple[tuple[SMPartition, ...], None]:
                if not api.can_split:
                    raise RuntimeError("SM splitting requires CUDA driver and cuda.bindings 13.1+")
                return tuple(SMPartition(n, sum(num_sms[:i])) for i, n in enumerate(num_sms)), None

        class GreenContext:
            def __init__(
                self,
                *,
                num_sms: int | None = None,
                sm_partition: SMPartition | None = None,
                workqueue_scope: str | None = None,
                device_id: int | None = None,
            ) -> None:
                if not api.contexts:
                    raise RuntimeError("Green Context requires CUDA driver and cuda.bindings 12.8+")
                if workqueue_scope is not None and not api.workqueues:
                    raise RuntimeError("Workqueue configuration requires CUDA driver 13.1+")
                self.sm_count = sm_partition.sms if sm_partition else num_sms
                self.place = sm_partition.place if sm_partition else 0
                api.made.append((f"{self.place}+{self.sm_count}", self.sm_count))

            def Stream(self) -> Stream:
                api.streams.append(Stream(f"{self.place}+{self.sm_count}"))
                return api.streams[-1]

        self.SMPartition, self.GreenContext = SMPartition, GreenContext


def setup(tmp_path: Path, api: Api, slot: int, **options: Any) -> SimpleNamespace:
    board = LayoutBoard(tmp_path / "layout", total=132, create=True)
    bucket = Bucket.unlimited()
    bucket._board[4] = float(slot)  # as the owner's set_slot does
    ladder = GreenLadder(LayoutBoard(tmp_path / "layout"), bucket, api, lambda: Stream("default"), **options)
    return SimpleNamespace(board=board, bucket=bucket, ladder=ladder, api=api)


def test_a_worker_changes_its_sms_at_the_next_batch(tmp_path: Path) -> None:
    s = setup(tmp_path, Api(), slot=1)
    assert s.ladder.stream() is None, "no layout yet: the whole device"
    s.board.publish([64, 32, 32])
    first = s.ladder.stream()
    assert first.name == "64+32", "its own group, behind the first one"
    assert first.waits == ["default"], "the new stream waits for the work before"
    assert s.ladder.stream() is first
    s.board.publish([32, 64, 32])
    second = s.ladder.stream()
    assert (second.name, second.waits) == ("32+64", ["64+32"])
    s.board.publish([64, 32, 32])
    assert s.ladder.stream() is first, "a rung that was there is used again"
    assert len(s.api.made) == 2
    assert s.ladder.switches == 3


def test_workers_split_alike_and_do_not_overlap(tmp_path: Path) -> None:
    places = []
    for slot in (0, 2):
        (tmp_path / str(slot)).mkdir()
        s = setup(tmp_path / str(slot), Api(), slot=slot)
        s.board.publish([40, 0, 48])
        s.ladder.stream()
        places += [name for name, _ in s.api.made]
    assert places == ["0+40", "40+48"]


def test_old_drivers_get_a_cap_without_a_place_of_its_own(tmp_path: Path) -> None:
    s = setup(tmp_path, Api(split=False), slot=0)
    s.board.publish([24, 32])
    assert s.ladder.stream().name == "0+24"
    assert not s.ladder.rung.disjoint
    (tmp_path / "b").mkdir()
    t = setup(tmp_path / "b", Api(workqueues=False), slot=1)
    t.board.publish([24, 32])
    assert t.ladder.stream().name == "24+32"
    assert t.ladder.rung.disjoint


def test_a_layout_that_cannot_be_taken_leaves_the_old_rung_in_force(tmp_path: Path) -> None:
    s = setup(tmp_path, Api(), slot=0)
    s.board.publish([24, 32])
    before = s.ladder.stream()
    s.api.contexts = False
    s.board.publish([48, 32])
    assert s.ladder.stream() is before
    assert s.ladder.stream() is before
    assert s.ladder.failures == 1
    assert "12.8" in s.ladder.last_error


def test_few_rungs_are_kept_and_work_ends_before_one_goes(tmp_path: Path) -> None:
    s = setup(tmp_path, Api(), slot=0, max_rungs=3)
    for n in range(1, 7):
        s.board.publish([8 * n, 8])
        s.ladder.stream()
    assert [stream.synchronized for stream in s.api.streams] == [True] * 3 + [False] * 3
    s.ladder.close()
    assert all(stream.synchronized for stream in s.api.streams)
    assert s.ladder.warm([((8, 8), 0), ((16, 8), 1)]) == 2


@pytest.fixture
def green(fake_mps: FakeMps, short_dir: Path):
    partitioner = MpsGreenPartitioner(GPU, MpsControl(GPU, short_dir, environ=fake_mps.environ), 8)
    yield partitioner
    partitioner.close()


def join(green: MpsGreenPartitioner, worker: str, share: float) -> tuple[Bucket, GreenLadder, Api]:
    spec = green.launch_spec(worker, "inference", share)
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in spec.env, "green contexts need the percentage unset"
    bucket, api = Bucket.from_environment(spec.env), Api()
    ladder = GreenLadder.from_environment(bucket, api, lambda: Stream("default"), spec.env)
    assert ladder is not None
    green.attach(worker, "inference", os.getpid(), share)
    return bucket, ladder, api


def test_owner_and_workers_agree_on_the_layout(green: MpsGreenPartitioner) -> None:
    _, one, _ = join(green, "one", 0.5)
    _, two, _ = join(green, "two", 0.25)
    assert green.layout.sms == (64, 32)
    assert (one.stream().name, two.stream().name) == ("0+64", "64+32")
    assert green.resize("one", 0.25).live
    assert green.resize("two", 0.5).live
    assert (one.stream().name, two.stream().name) == ("0+32", "32+64")
    usages = {u.worker: u for u in green.usage()}
    assert usages["two"].visible_units == 64
    green.detach("one")
    assert green.layout.sms == (0, 64)
    assert two.stream().name == "0+64"
    _, three, _ = join(green, "three", 0.3)
    assert green.layout.sms == (32, 64), "a free slot is used again"
    assert three.stream().name == "0+32"


def test_growing_before_the_others_shrank_is_fitted(green: MpsGreenPartitioner) -> None:
    join(green, "one", 0.5)
    join(green, "two", 0.45)
    assert green.resize("one", 0.9).live
    assert sum(green.layout.sms) <= 132
    assert green.resize("two", 0.1).live
    assert green.layout.sms == (112, 8)


def test_a_worker_that_cannot_follow_is_reported_and_needs_a_respawn(green: MpsGreenPartitioner) -> None:
    _, ladder, api = join(green, "one", 0.5)
    ladder.stream()
    api.contexts = False
    assert green.resize("one", 0.25).live
    ladder.stream()
    assert "could not take the SM layout" in (green.healthy() or "")
    assert not green.resize("one", 0.75).live


def test_without_the_number_of_sms_there_is_no_ladder(fake_mps: FakeMps, short_dir: Path) -> None:
    control = MpsControl(GPU, short_dir, environ=fake_mps.environ)
    with pytest.raises(ShareError, match="number of SMs"):
        MpsGreenPartitioner(GpuInfo("GPU-1", "x", 0), control, 8)
    control.stop()


def test_without_a_layout_in_the_environment_there_is_no_ladder() -> None:
    assert GreenLadder.from_environment(Bucket.unlimited(), Api(), lambda: None, {}) is None
    with pytest.raises(ShareError, match="cannot open the layout file"):
        GreenLadder.from_environment(Bucket.unlimited(), Api(), lambda: None, {LAYOUT_ENVIRONMENT: "/nowhere/x"})
