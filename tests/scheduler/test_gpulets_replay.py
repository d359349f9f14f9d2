"""The replay of random arrivals through gpu-lets, by hand (benchmarks/gpulet_replay.py)."""

from __future__ import annotations

from benchmarks.gpulet_replay import poisson, replayed
from edge.core.serving import DeviceTable, Gpulet, ModelBatch

TABLE = DeviceTable("by hand", {"a": {100: (10.0, 12.0)}, "b": {100: (10.0,)}}, {})
ALONE = Gpulet(0, 1.0, 20.0, (ModelBatch("a", 2),))
SHARED = Gpulet(0, 1.0, 20.0, (ModelBatch("a", 1), ModelBatch("b", 1)))


def test_a_full_batch_goes_at_once_and_the_rest_after_a_duty_cycle() -> None:
    # 0.000 goes alone until 0.010; the two of 0.011 fill a batch; 0.012 waits for 0.031 and would end at 0.041.
    arrivals = {"a": [0.0, 0.011, 0.011, 0.012]}
    assert replayed(TABLE, [(0.0, [ALONE])], arrivals, {"a": 29.0}, 1.0).missed == 0
    late = replayed(TABLE, [(0.0, [ALONE])], arrivals, {"a": 28.0}, 1.0)
    assert (late.requests, late.missed, late.missed_at_s) == (4, 1, [0.012])


def test_a_model_that_is_asked_too_much_does_not_starve_the_one_it_shares_with() -> None:
    # A request of a waits for 30 ms at most, or it is dropped. One of b waits behind those that came before it and the
    # batch that runs: 30 + 10 ms, and runs for 10 ms.
    arrivals = {"a": [n / 1000 for n in range(1000)], "b": [n / 50 + 0.0005 for n in range(50)]}
    out = replayed(TABLE, [(0.0, [SHARED])], arrivals, {"a": 40.0, "b": 50.0}, 1.0)
    assert not set(out.missed_at_s) & set(arrivals["b"])
    assert 900 <= out.missed <= 960  # of a's 1,000 requests about 50 fit


def test_without_a_gpulet_everything_is_missed_and_a_later_plan_takes_over() -> None:
    arrivals = {"a": [0.0, 0.5]}
    assert replayed(TABLE, [(0.0, [])], arrivals, {"a": 50.0}, 1.0).part == 1.0
    assert replayed(TABLE, [(0.0, []), (0.4, [ALONE])], arrivals, {"a": 50.0}, 1.0).missed_at_s == [0.0]


def test_a_plan_that_is_behind_ends_when_the_next_one_begins() -> None:
    # 500 requests/s come, the first plan does 50 and the second all of them, from 0.5 s on.
    slow = DeviceTable("by hand", {"a": {100: (20.0,), 50: (1.0,)}}, {})
    arrivals = {"a": [n / 500 for n in range(1000)]}
    plans = [(0.0, [Gpulet(0, 1.0, 20.0, (ModelBatch("a", 1),))]), (0.5, [Gpulet(0, 0.5, 1.0, (ModelBatch("a", 1),))])]
    out = replayed(slow, plans, arrivals, {"a": 100.0}, 2.0)
    assert out.missed > 100
    assert max(out.missed_at_s) < 0.5


def test_arrivals_follow_the_rate_and_the_seed() -> None:
    first = poisson({"a": 200.0}, 10.0, 1)
    assert first == poisson({"a": 200.0}, 10.0, 1) != poisson({"a": 200.0}, 10.0, 2)
    assert first["a"] == sorted(first["a"])
    assert 1800 < len(first["a"]) < 2200
