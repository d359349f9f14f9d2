"""Cilantro as published, for comparison: its bounds, its policies in the worlds of benchmarks.reproduce_cilantro."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.cilantro_published import DEPTH, EpsilonGreedy, PublishedCilantro, PublishedEndToEnd, Tree
from benchmarks.cilantro_world import DEMANDED, jobs_world, oracle_play, play, play_services, services_world
from scheduler.tenants.policies import sharing_policy


def test_bounds_hold_the_curve_and_narrow_where_reports_are() -> None:
    rng = np.random.default_rng(0)
    tree = Tree(0.02)
    places = (np.arange(2**DEPTH) + 0.5) / 2**DEPTH
    curve = np.minimum(1.0, 5 * places)
    for place in rng.uniform(0.1, 0.15, 300):
        tree.add(float(place), float(min(1.0, 5 * place) + rng.normal(0, 0.02)))
    low, high = tree.bounds()
    assert np.all(low <= curve + 0.03)
    assert np.all(high >= curve - 0.03)
    assert np.all(np.diff(low) >= 0)
    assert np.all(np.diff(high) >= 0)
    inside = (places > 0.11) & (places < 0.14)
    assert (high - low)[inside].mean() < 0.25 < (high - low)[places > 0.3].mean()


def test_the_world_is_as_scarce_as_the_paper_s_and_oracles_are_best_on_their_own() -> None:
    world = jobs_world(0, 6)
    assert sum(j.demand(1.0) for j in world.jobs) == pytest.approx(DEMANDED)
    best = {o: oracle_play(world, o) for o in ("sw", "ew", "njc")}
    fair = play(world, sharing_policy("fair"))
    assert best["sw"].mean("sw") == max(p.mean("sw") for p in (*best.values(), fair))
    assert best["ew"].mean("ew") == max(p.mean("ew") for p in (*best.values(), fair))
    assert best["njc"].mean("njc") > 0.99
    assert best["njc"].mean("useful") > fair.mean("useful") + 0.05


@pytest.mark.parametrize("objective", ["sw", "ew", "njc"])
def test_a_published_policy_shares_what_there_is_in_small_moves_and_gets_better(objective: str) -> None:
    world = jobs_world(0, 30)
    made = play(world, PublishedCilantro(objective))
    held = np.array(made.held)
    assert np.all(held.sum(1) <= world.units + 1e-6)
    assert np.all(held >= 0)
    if objective != "njc":
        assert np.abs(np.diff(held, axis=0)).max() <= 10
        assert made.mean(objective, 20) > play(world, sharing_policy("fair")).mean(objective, 20)
    else:
        assert made.mean("njc", 20) > 0.9
        assert made.mean("useful", 20) > made.mean("useful", 0, 1)


@pytest.mark.parametrize("make", [PublishedEndToEnd, EpsilonGreedy])
def test_services_are_shared_whole_and_none_is_left_without(make: type[PublishedEndToEnd]) -> None:
    world = services_world(0, 12)
    policy = make()
    answer = policy.begin(world.problem(), 0)
    assert sum(answer.allocation.values()) <= world.units
    latencies = play_services(world, make())
    assert len(latencies) == 12
    assert all(0 < p <= 10_000 for p in latencies)
