"""The pure timing rules of a reader. No test here sleeps: times are values."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.ingest.timing import (
    BackOff,
    CaptureClock,
    FrozenWatch,
    KeyFrameSkipper,
    LagMeter,
    Pace,
    PlayTimes,
    RecentTimes,
)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 5), st.floats(0.1, 10), st.floats(1, 10))
def test_back_off_begins_at_once_then_doubles_up_to_its_maximum(
    seed: int, first: float, low: float, span: float
) -> None:
    high = low * span
    back_off = BackOff(first, low, high, random.Random(seed))
    delays = [back_off.next() for _ in range(40)]
    assert delays[0] == first
    for n, delay in enumerate(delays[1:]):
        full = min(high, low * 2.0 ** min(n, 30))
        assert max(low, 0.8 * full) <= delay <= full
    back_off.reset()
    assert back_off.next() == first


def test_back_off_of_the_defaults() -> None:
    back_off = BackOff(0.0, 1.0, 30.0, random.Random(1))
    assert back_off.next() == 0.0
    for full in (1, 2, 4, 8, 16, 30, 30, 30):
        assert max(1.0, 0.8 * full) <= back_off.next() <= full


def feed(meter: LagMeter, start_s: float, count: int, *, period_s: float, slow: float, waited_s: float) -> float:
    """`count` packets of a stream at `period_s`, taken `slow` times slower than they come; returns the last lag."""
    lag = 0.0
    for n in range(count):
        lag = meter.packet(start_s + n * period_s * slow, 100.0 + n * period_s, waited_s)
    return lag


def test_a_reader_that_keeps_up_has_no_lag_even_with_a_drifting_camera_clock() -> None:
    assert feed(LagMeter(), 5.0, 20_000, period_s=0.04, slow=1.0005, waited_s=0.0) < 0.1


def test_a_reader_at_half_speed_falls_behind() -> None:
    assert feed(LagMeter(), 5.0, 100, period_s=0.04, slow=2.0, waited_s=0.0) > 3.5


def test_delay_of_the_network_is_not_lag() -> None:
    meter = LagMeter()
    feed(meter, 5.0, 50, period_s=0.04, slow=1.0, waited_s=0.0)
    late = [meter.packet(5.0 + 3.0 + n * 0.04, 102.0 + n * 0.04, 0.03) for n in range(20)]
    assert late[0] > 0.9
    assert late[-1] == 0.0


def test_a_burst_at_the_beginning_is_not_lag() -> None:
    meter = LagMeter()
    burst = [meter.packet(5.0 + n * 0.001, 100.0 + n * 0.04, 0.0) for n in range(50)]
    assert max(burst) < 1e-3


@pytest.mark.parametrize(
    "stamp",
    [
        pytest.param(lambda n: 0.0, id="stands still"),
        pytest.param(lambda n: n / 15 + (3600.0 if n < 20 else 0.0), id="back by an hour"),
        pytest.param(lambda n: n / 15 + (0.0 if n < 20 else 3600.0), id="forward by an hour"),
        pytest.param(lambda n: n / 5, id="three times too fast"),
        pytest.param(lambda n: n / 15 + (n // 10 % 2) * 2.0, id="to and fro"),
        pytest.param(lambda n: (n + (1, -1)[n % 2]) / 15, id="reordered pictures"),
    ],
)
def test_odd_stream_times_are_not_lag(stamp: Callable[[int], float]) -> None:
    """Also where the reader never had to wait, as on a busy machine."""
    meter = LagMeter()
    assert max(meter.packet(5.0 + n / 15, stamp(n), 0.0) for n in range(200)) < 0.2


def test_lag_stays_known_over_a_jump_back() -> None:
    meter = LagMeter()
    before = feed(meter, 5.0, 100, period_s=0.04, slow=2.0, waited_s=0.0)
    assert meter.packet(5.0 + 100 * 0.08, 0.0, 0.0) == pytest.approx(before, abs=0.1)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 10), st.booleans()), max_size=200))
def test_no_delta_frame_is_decoded_after_a_dropped_one(packets: list[tuple[float, bool]]) -> None:
    skipper, broken = KeyFrameSkipper(1.0), False
    for lag, key in packets:
        taken = skipper.take(lag, key)
        assert taken or not key, "key frames are always decoded"
        if key:
            broken = False
        assert not (taken and broken)
        broken = broken or not taken
        assert taken or broken


def test_packets_are_dropped_only_beyond_the_limit_and_up_to_a_key_frame() -> None:
    skipper = KeyFrameSkipper(1.0)
    given_packets = [(0.9, False), (1.1, False), (0.0, False), (0.0, True), (0.0, False)]
    assert [skipper.take(*p) for p in given_packets] == [True, False, False, True, True]


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 0.2), st.one_of(st.none(), st.floats(-100, 100))), min_size=1, max_size=100))
def test_frame_times_always_go_forward(steps: list[tuple[float, float | None]]) -> None:
    clock, now, last = CaptureClock(5.0), 10.0, None
    for step, offset in steps:
        now += step
        at = clock.frame(now, 1e9 + now, None if offset is None else 1e9 + now - offset)
        assert 0.0 <= at.delay_s <= 5.0
        if last is not None:
            assert at.monotonic_s > last.monotonic_s
            assert at.utc_s > last.utc_s
        last = at


def test_the_cameras_clock_counts_within_its_tolerance_only() -> None:
    at = CaptureClock(5.0).frame(10.0, 1000.0, 999.5)
    assert (at.monotonic_s, at.utc_s, at.delay_s) == (9.5, 999.5, 0.5)
    at = CaptureClock(5.0).frame(10.0, 1000.0, 1000.5)  # ahead of ours
    assert (at.monotonic_s, at.utc_s) == (10.0, 1000.0)
    at = CaptureClock(5.0).frame(10.0, 1000.0, 500.0)  # wrong
    assert (at.monotonic_s, at.utc_s, at.delay_s) == (10.0, 1000.0, 0.0)


def test_a_camera_clock_that_stands_still_is_none() -> None:
    clock = CaptureClock()
    assert clock.frame(10.0, 1000.0, 999.5).delay_s == 0.5
    for n in range(1, 40):
        at = clock.frame(10.0 + n / 10, 1000.0 + n / 10, 999.5)
        assert (at.monotonic_s, at.utc_s, at.delay_s) == (10.0 + n / 10, 1000.0 + n / 10, 0.0)
    assert clock.frame(20.0, 1010.0, 1009.0).delay_s == 1.0, "it goes again"


@pytest.mark.parametrize(
    ("own", "due"),
    [
        ([0.2, 0.3, 0.4], [0.0, 0.1, 0.2]),
        ([None, None, None], [0.0, 0.1, 0.2]),
        ([5.0, 5.5, 6.5], [0.0, 0.5, 1.5]),  # a rate that changes
        ([0.0, 0.2, 0.15, 0.4], [0.0, 0.2, 0.2, 0.4]),  # a little out of order
        ([60.0, 60.1, 0.0, 0.1], [0.0, 0.1, 0.2, 0.3]),  # another recording follows
        ([0.0, 0.1, 3600.0, 3600.1], [0.0, 0.1, 0.2, 0.3]),  # its clock was set
        ([0.0, 0.1, None, None, 9.0, 9.1], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]),
    ],
)
def test_pictures_of_a_file_are_due_by_its_times_where_it_has_any(own: list[float | None], due: list[float]) -> None:
    times = PlayTimes(0.1, 2.0)
    assert [times.picture(t) for t in own] == pytest.approx(due)


@given(st.lists(st.none() | st.floats(-1e6, 1e6), max_size=40))
def test_pictures_of_a_file_go_forward_without_holes(own: list[float | None]) -> None:
    times = PlayTimes(0.1, 2.0)
    due = [times.picture(t) for t in own]
    assert all(0.0 <= b - a <= 2.0 + 1e-6 for a, b in itertools.pairwise(due))


def test_our_utc_clock_may_be_set_back() -> None:
    clock = CaptureClock(5.0)
    clock.frame(10.0, 5000.0, None)
    assert clock.frame(10.1, 1000.0, None).utc_s == 1000.0


@settings(deadline=None)
@given(st.integers(0, 255), st.lists(st.integers(-1, 1), min_size=2, max_size=50))
def test_a_picture_that_only_wobbles_is_the_same(level: int, wobble: list[int]) -> None:
    watch, rng = FrozenWatch(), np.random.default_rng(0)
    base = np.clip(rng.integers(0, 256, (11, 20)) * 0 + level, 1, 254)
    times = [watch.picture(float(n), (base + w).astype(np.uint8)) for n, w in enumerate(wobble)]
    assert times == [float(n) for n in range(len(wobble))]


def test_one_changed_block_is_a_change() -> None:
    watch = FrozenWatch()
    blocks = np.full((11, 20), 100, np.uint8)
    assert watch.picture(0.0, blocks) == 0.0
    assert watch.picture(3.0, blocks) == 3.0
    moved = blocks.copy()
    moved[4, 5] += 3
    assert watch.picture(4.0, moved) == 0.0
    assert watch.picture(5.0, moved) == 1.0
    assert watch.picture(6.0, np.full((5, 5), 100, np.uint8)) == 0.0


@settings(deadline=None)
@given(st.floats(0.5, 30), st.floats(1, 60), st.integers(0, 1000))
def test_pace_offers_about_max_fps(max_fps: float, fps: float, seed: int) -> None:
    rng, pace, seconds = random.Random(seed), Pace(max_fps), 20.0
    times = [n / fps + rng.uniform(0, 0.05 / fps) for n in range(int(seconds * fps))]
    offered = sum(pace.offer(t) for t in times)
    assert offered <= seconds * max_fps * 1.05 + 2
    if fps <= max_fps * 0.9:
        assert offered == len(times)
    assert offered >= min(len(times), seconds * max_fps) * 0.45


def test_pace_without_limit_offers_all() -> None:
    assert all(Pace(None).offer(t) for t in (0.0, 0.0, 0.1))


def test_a_look_is_due_once_per_interval_over_connections() -> None:
    watch = FrozenWatch(0.25)
    assert [watch.due(t) for t in (0.0, 0.2, 0.25, 0.4, 0.5)] == [True, False, True, False, True]
    watch.restart()
    assert not watch.due(0.6), "a connection anew brings no look sooner"


def test_a_connection_begins_its_own_stretch() -> None:
    watch, blocks = FrozenWatch(), np.full((4, 4), 90, np.uint8)
    watch.picture(0.0, blocks)
    assert watch.picture(5.0, blocks) == 5.0
    watch.restart()
    assert watch.picture(6.0, blocks) == 0.0


def test_events_are_counted_within_their_time_only() -> None:
    times = RecentTimes(most=4)
    assert (times.count(0.0, 5.0), times.rate(0.0, 5.0)) == (0, 0.0)
    times.add(0.0)
    assert times.rate(0.0, 5.0) == 0.0, "one has no rate"
    for at_s in (1.0, 2.0, 3.0, 4.0):
        times.add(at_s)
    assert times.count(4.0, 10.0) == 4, "the oldest is forgotten"
    assert times.count(6.5, 3.0) == 1
    assert times.rate(4.0, 2.0) == 1.0
    assert times.rate(5.0, 2.0) == 0.5
