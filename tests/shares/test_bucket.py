"""The token bucket on a simulated clock, and its shared file with a real child."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from share_kit import OBEDIENT, child

from edge.core.errors import ShareError
from edge.shares.bucket import (
    BURST_S,
    ENVIRONMENT,
    MAX_BURST_S,
    MOST_SLICE_S,
    SLICE_S,
    Bucket,
    BucketFile,
    CpuMeter,
    CudaEventMeter,
)


class Machine:
    """A clock and a CPU that only this bucket uses; `work` burns CPU at one second per second."""

    def __init__(self, path: Path, rate: float, delay: float | None = 0.0, wake_s: float = 0.0) -> None:
        #: CPU time that waking from a sleep takes in the mean, and what the waiting thread used so far.
        self.wake_s, self.own_s = wake_s, 0.0
        self.now_s = 100.0
        self.cpu_s = 5.0
        self.delay_s = delay
        self.sleeps: list[float] = []
        self.on_sleep = lambda: None
        self.file = BucketFile(path)
        self.file.set_rate(rate)
        opened = Bucket.attach(path)
        self.bucket = Bucket(
            opened._board,
            CpuMeter(lambda: self.cpu_s, lambda: self.own_s),
            lambda: self.now_s,
            self._sleep,
            lambda: self.delay_s,
        )

    def _sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now_s += seconds
        wake_s = self.wake_s * (0.5 if len(self.sleeps) % 2 else 1.5)
        self.cpu_s += wake_s
        self.own_s += wake_s
        self.on_sleep()

    def work(self, cpu_s: float, speed: float = 1.0) -> None:
        self.cpu_s += cpu_s
        self.now_s += cpu_s / speed
        if self.delay_s is not None and speed < 1.0:
            self.delay_s += cpu_s / speed - cpu_s

    def idle(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@settings(max_examples=60, deadline=None)
@given(st.floats(0.02, 0.95), st.lists(st.floats(0.001, 0.2), min_size=5, max_size=40))
def test_continuous_work_gets_its_share_whatever_the_batches(
    tmp_path_factory: pytest.TempPathFactory, rate: float, batches: list[float]
) -> None:
    m = Machine(tmp_path_factory.mktemp("b") / "x", rate)
    began, used = m.now_s, 0.0
    for cpu_s in batches:
        with m.bucket.batch():
            m.work(cpu_s)
        used += cpu_s
    m.bucket.ready()  # the debt of the last batch is waited for here
    elapsed = m.now_s - began
    assert used <= rate * elapsed + 2 * SLICE_S
    assert used >= rate * elapsed - 2 * SLICE_S  # and no less: waiting never overshoots by more than a slice
    assert max(m.sleeps, default=0.0) <= SLICE_S
    m.file.close()


@pytest.mark.parametrize(
    ("rate", "wake_s", "least"),
    [(0.01, 20e-6, 0.94), (0.05, 75e-6, 0.93), (0.05, 200e-6, 0.85), (0.2, 200e-6, 0.9), (0.5, 75e-6, 0.95)],
)
def test_waiting_leaves_most_of_a_share_to_the_batches(folder: Path, rate: float, wake_s: float, least: float) -> None:
    m = Machine(folder / "x", rate, wake_s=wake_s)
    began, used = m.now_s, 0.0
    while m.now_s < began + 100.0:
        with m.bucket.batch():
            m.work(0.005)
        used += 0.005
    assert used >= least * rate * 100.0
    assert max(m.sleeps) <= MOST_SLICE_S


def test_the_time_of_other_threads_is_not_taken_for_what_waking_costs(folder: Path) -> None:
    m = Machine(folder / "x", 0.3)
    began, bursts = m.now_s, 0

    def decode() -> None:
        """4 ms in each 40 ms, in another thread."""
        nonlocal bursts
        due = int((m.now_s - began) / 0.04)
        m.cpu_s += 0.004 * (due - bursts)
        bursts = due

    m.on_sleep = decode
    used = 0.0
    while m.now_s < began + 100.0:
        with m.bucket.batch():
            m.work(0.005)
        decode()
        used += 0.005
    assert max(m.sleeps) <= SLICE_S, "it looks as often as one that is alone"
    assert used == pytest.approx((0.3 - 0.1) * 100.0, rel=0.02)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.05, 0.9),
    st.lists(st.tuples(st.floats(0.0, 0.5), st.floats(0.001, 0.05), st.floats(0.3, 1.0)), min_size=3, max_size=40),
)
def test_every_second_offered_is_used_left_starved_or_in_the_bucket(
    tmp_path_factory: pytest.TempPathFactory, rate: float, periods: list[tuple[float, float, float]]
) -> None:
    m = Machine(tmp_path_factory.mktemp("b") / "x", rate)
    began = m.now_s
    for idle_s, cpu_s, speed in periods:
        m.idle(idle_s)
        with m.bucket.batch():
            m.work(cpu_s, speed)
    c = m.file.counters()
    offered = rate * (m.now_s - began)
    balance = offered - c.used_s - c.declined_s - c.starved_s
    # Time that is not accounted for is in the bucket: at most the burst, at least the debt of one batch.
    assert balance <= max(BURST_S, MAX_BURST_S) + 1e-9
    assert balance >= -0.05 - 1e-9
    assert c.batches == len(periods)
    m.file.close()


def test_a_worker_with_little_to_do_is_not_held_back_and_declines_the_rest(folder: Path) -> None:
    m = Machine(folder / "x", 0.5)
    for _ in range(20):
        m.idle(0.1)
        with m.bucket.batch():
            m.work(0.01)
    c = m.file.counters()
    assert m.sleeps == []
    assert c.waited_s == 0.0
    assert c.used_s == pytest.approx(0.2)
    assert c.declined_s == pytest.approx(0.5 * 2.2 - 0.2, abs=0.05)


def test_a_busy_worker_without_a_core_is_starved_not_idle(folder: Path) -> None:
    m = Machine(folder / "x", 0.8)
    for _ in range(20):
        with m.bucket.batch():
            m.work(0.01, speed=0.2)
    c = m.file.counters()
    assert c.declined_s == pytest.approx(0.0, abs=1e-9)
    assert c.starved_s == pytest.approx(0.8 * 1.0 - 0.2, abs=0.05)


def test_a_share_of_several_cores_that_one_thread_cannot_use_is_left_not_owed(folder: Path) -> None:
    m = Machine(folder / "x", 2.0)
    for _ in range(20):
        with m.bucket.batch():
            m.work(0.01)
    c = m.file.counters()
    assert c.starved_s == 0.0
    assert c.declined_s > 0.1


def test_a_resize_is_seen_within_one_slice_while_waiting(folder: Path) -> None:
    m = Machine(folder / "x", 0.01)
    with m.bucket.batch():
        m.work(1.0)
    m.on_sleep = lambda: m.file.set_rate(100.0, threads=3) if len(m.sleeps) == 2 else None
    assert m.bucket.ready()
    assert len(m.sleeps) <= 4
    assert m.bucket.threads == 3


def test_a_pause_lasts_until_the_share_comes_back(folder: Path) -> None:
    m = Machine(folder / "x", 0.0)
    asked = []

    def stop() -> bool:
        asked.append(m.now_s)
        return len(asked) > 5

    assert not m.bucket.ready(stop)
    assert len(asked) == 6
    assert not m.bucket.ready(timeout_s=0.05)
    m.file.set_rate(0.5)
    assert m.bucket.ready()


def test_a_worker_about_to_end_is_let_go(folder: Path) -> None:
    m = Machine(folder / "x", 0.001)
    with m.bucket.batch():
        m.work(1.0)
    m.file.release()
    m.bucket.pace()
    assert m.sleeps == []


def test_a_start_is_not_waited_for_but_only_once(folder: Path) -> None:
    first = Machine(folder / "x", 0.05)
    first.file.set_credit(2.0)
    m = Machine.__new__(Machine)
    m.__dict__.update(first.__dict__)
    m.bucket = Bucket(first.bucket._board, CpuMeter(lambda: m.cpu_s), lambda: m.now_s, m._sleep, lambda: 0.0)
    with m.bucket.batch():
        m.work(2.1)  # loading
    m.bucket.ready()
    assert sum(m.sleeps) == pytest.approx(0.0, abs=0.01), "what it earned meanwhile and the credit pay for it"
    began = m.now_s
    with m.bucket.batch():
        m.work(0.5)
    m.bucket.ready()
    assert m.now_s - began == pytest.approx(0.5 / 0.05, abs=0.5), "the credit is for the first batch only"


def test_pace_charges_the_whole_step(folder: Path) -> None:
    m = Machine(folder / "x", 0.5)
    m.bucket.pace()
    began = m.now_s
    for _ in range(10):
        m.work(0.1)
        m.bucket.pace()
    assert m.now_s - began == pytest.approx(2.0, abs=0.05)
    assert m.file.counters().used_s == pytest.approx(1.0)


def test_an_idle_workers_unused_offer_is_counted_up_to_now(folder: Path) -> None:
    m = Machine(folder / "x", 0.5)
    m.bucket.idle()
    before = m.file.counters(m.now_s).declined_s
    assert m.file.counters(m.now_s + 10.0).declined_s - before == pytest.approx(5.0)


def test_without_a_bucket_in_the_environment_nothing_waits() -> None:
    bucket = Bucket.from_environment({})
    assert math.isinf(bucket.rate)
    with bucket.batch() as go:
        assert go
    assert bucket.pace()


def test_a_path_that_is_no_bucket_is_a_clear_error(folder: Path) -> None:
    with pytest.raises(ShareError, match="cannot open the bucket file"):
        Bucket.attach(folder / "none")
    (folder / "short").write_text("hello")
    with pytest.raises(ShareError, match="not a bucket file"):
        Bucket.attach(folder / "short")
    (folder / "zero").write_bytes(bytes(32 * 8))
    with pytest.raises(ShareError, match="not a bucket file"):
        Bucket.attach(folder / "zero")


def test_the_counters_outlive_a_killed_worker(folder: Path) -> None:
    file = BucketFile(folder / "x")
    file.set_rate(0.5)
    process = child(OBEDIENT, {ENVIRONMENT: str(file.path)})
    try:
        deadline = time.monotonic() + 20
        while file.counters().batches < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    counters = file.counters()
    assert counters.batches >= 3
    assert counters.used_s >= 0.015
    assert counters.pid == process.pid
    file.close()
    assert file.counters().batches == 0  # a closed owner answers, with nothing


class FakeEvent:
    """A CUDA event on a simulated GPU that finishes what was recorded on the test's order."""

    gpu_ms = 0.0
    finished_ms = 0.0

    def record(self) -> None:
        self.at_ms = FakeEvent.gpu_ms

    def query(self) -> bool:
        return self.at_ms <= FakeEvent.finished_ms

    def synchronize(self) -> None:
        FakeEvent.finished_ms = max(FakeEvent.finished_ms, self.at_ms)

    def elapsed_time(self, other: FakeEvent) -> float:
        return other.at_ms - self.at_ms


def test_gpu_time_is_read_from_events_without_running_far_ahead() -> None:
    FakeEvent.gpu_ms = FakeEvent.finished_ms = 0.0
    meter = CudaEventMeter(FakeEvent, depth=2)
    assert meter.read_own() == 0.0, "waiting uses no GPU"
    for _ in range(5):
        meter.begin()
        FakeEvent.gpu_ms += 10.0
        meter.end()
    # Two batches may be unread; the older ones were waited for.
    assert meter.read() == pytest.approx(0.030)
    assert meter.read() == pytest.approx(0.030)
    FakeEvent.finished_ms = FakeEvent.gpu_ms
    assert meter.read() == pytest.approx(0.050)
