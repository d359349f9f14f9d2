"""The accuracy that answers lose while they stand in."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.vision import Detections, Observation
from edge.core.ways import Ways
from edge.inference import staleness_factors
from edge.inference.staleness import Follower, agreement_by_age
from edge.runtime.answer_ways import AnswerWays


def moving(time_s: float, speed: float, stale: bool = False, **more: Any) -> Observation:
    """One object of a tenth of the picture's width that crosses it again and again."""
    x = (speed * time_s) % 0.9
    found = Detections.build([[x, 0.4, x + 0.1, 0.6]], [0.9], [0])
    return Observation("c", round(time_s * 100), time_s, time_s, "v", found, stale, 0.01, **more)


def going(speed: float) -> Follower:
    """Every object's way is `speed` to the right."""

    def ways(answer: Detections, at_s: float) -> Ways:
        return np.tile(np.array([speed, 0.0, 0.0], np.float32), (len(answer), 1))

    return ways


def street(rng: np.random.Generator, rate: float, seconds: float, seen: float) -> list[Observation]:
    """Six objects that drive to the right at their own speeds, followed as the camera's worker does; a look misses each
    with probability 1 - `seen`."""
    follow = AnswerWays("c", ["car"]).after
    speeds, starts = rng.uniform(0.02, 0.12, 6), rng.uniform(0.0, 0.3, 6)
    rows, out = 0.05 + 0.15 * np.arange(6), []
    for n in range(round(rate * seconds)):
        at_s = n / rate
        x = starts + speeds * at_s
        boxes = np.stack([x, rows, x + 0.08, rows + 0.1], 1)[rng.random(6) < seen]
        found = Detections.build(boxes.tolist(), [0.9] * len(boxes), [0] * len(boxes))
        out.append(Observation("c", n, at_s, at_s, "v", found, False, 0.01, ways=follow(found, at_s)))
    return out


def tracked() -> Follower:
    """What a profile follows the objects of the street with, at rates that the camera does not have."""
    return AnswerWays("c", ["car"], trusted=True).after


def test_what_stands_still_costs_nothing_to_skip() -> None:
    seen = [moving(n * 0.2, 0.0) for n in range(40)]
    assert staleness_factors(seen, [5, 1, 0.5]) == {5: 1.0, 1: 1.0, 0.5: 1.0}


def test_staleness_by_hand() -> None:
    # IoU of a box of width 0.1 moved by d is (0.1 - d) / (0.1 + d): 1/2 at d = 1/30; at 0.1 per second after 1/3 s.
    seen = [moving(n * 0.05, 0.1) for n in range(80)]
    factor = staleness_factors(seen, [10, 1.0])
    assert factor[10] == pytest.approx(1.0, abs=0.02)
    # Of the second between two answers a third still agrees.
    assert factor[1.0] == pytest.approx(1 / 3, abs=0.08)


def test_where_nothing_was_seen_the_usual_curve_holds() -> None:
    unknown = staleness_factors([], [5, 1])
    # The mean of 0.5^age over one second is 1 / (2 ln 2).
    assert unknown[1] == pytest.approx(0.7213, abs=1e-3)
    assert unknown[1] < unknown[5] < 1
    only = [moving(0, 1), *(moving(n * 0.1, 1, stale=True) for n in range(1, 9))]
    assert staleness_factors(only, [5, 1]) == unknown
    empty = [Observation("c", n, n * 0.2, 0.0, "v", Detections.empty()) for n in range(40)]
    assert staleness_factors(empty, [5, 1]) == unknown


@given(st.lists(st.tuples(st.floats(0.05, 1), st.floats(0, 2)), min_size=2, max_size=25), st.booleans())
@settings(max_examples=60, deadline=None)
def test_older_answers_are_never_better(steps: list[tuple[float, float]], follows: bool) -> None:
    time_s, seen = 0.0, []
    for gap, speed in steps:
        time_s += gap
        seen.append(moving(time_s, speed))
    follower = (lambda: going(0.3)) if follows else None
    curve, _ = agreement_by_age("detection", seen, 4.0, follower)
    assert all(a[0] <= b[0] and a[1] >= b[1] - 1e-9 for a, b in itertools.pairwise(curve))
    factors = staleness_factors(seen, [8, 4, 2, 1, 0.5], follower=follower)
    ordered = [factors[r] for r in (8, 4, 2, 1, 0.5)]
    assert all(0 <= b <= a + 1e-6 <= 1 + 1e-6 for a, b in itertools.pairwise(ordered))


def test_answers_that_go_on_rightly_do_not_age() -> None:
    still = [moving(n * 0.5, 0.08) for n in range(40)]
    seen = [replace(o, ways=going(0.08)(o.detections, o.monotonic_s)) for o in still]
    held, moved = staleness_factors(still, [2, 1]), staleness_factors(seen, [2, 1], follower=lambda: going(0.08))
    assert moved[2] == pytest.approx(1.0, abs=0.05)
    assert held[2] < 0.6
    # Once around, the object jumps back: that cannot be known.
    assert held[1] < 0.5 < 0.85 < moved[1]


def test_ways_that_lead_astray_are_not_taken() -> None:
    seen = [moving(n * 0.2, 0.0, ways=np.array([[0.2, 0.0, 0.0]], np.float32)) for n in range(40)]
    assert staleness_factors(seen, [5, 1], follower=lambda: going(0.2)) == {5: 1.0, 1: 1.0}


@pytest.mark.parametrize("seed", range(4))
def test_a_rate_is_tried_as_a_camera_of_that_rate_would_live(seed: int) -> None:
    """A camera that answers eight times a second learns what two a second are worth: as much as a camera finds that
    answers twice."""
    factors = {
        rate: staleness_factors(street(np.random.default_rng(seed), rate, 5.0, 1.0), [2.0], follower=tracked)[2.0]
        for rate in (8.0, 2.0)
    }
    assert factors[8.0] == pytest.approx(factors[2.0], abs=0.12)
    assert factors[8.0] > 0.85


@pytest.mark.parametrize("seed", range(4))
def test_the_rate_that_a_camera_has_is_hardly_charged_for_flicker(seed: int) -> None:
    """A look that misses one object in seven misses as many a look later: that is no loss of age."""
    seen = street(np.random.default_rng(seed), 8.0, 8.0, 6 / 7)
    assert staleness_factors(seen, [8.0], follower=tracked)[8.0] > 0.93
