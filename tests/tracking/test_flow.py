"""How objects go at a place is learned, and says where the next ones are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edge.core.tracks import Seen
from edge.tracking import TrackerState, expire, step
from edge.tracking.boxes import iou
from edge.tracking.flow import Flow, Sample
from edge.tracking.going import expected


def sample(x: float, vy: float = 0.4, name: str = "car") -> Sample:
    return Sample((x, 0.5), 0.1, (0.0, vy), 0.8, name)


def test_an_object_goes_as_others_went_there() -> None:
    flow = Flow().with_samples([sample(0.5), sample(0.51), sample(0.49), sample(0.5)])
    places = np.array([[0.5, 0.5], [0.9, 0.5]])
    going = flow.at(places, np.array([0.1, 0.1]), np.zeros((2, 2)), np.array([0.1, 0.1]), ["car", "car"])
    assert going.known.tolist() == [True, False]
    assert going.way[0].tolist() == pytest.approx([0.0, 0.4])
    assert going.growth[0] == pytest.approx(0.8)


def test_of_two_directions_it_is_that_of_the_object() -> None:
    flow = Flow().with_samples([sample(0.5, vy) for vy in (0.6, 0.6, 0.6, -0.6, -0.6, -0.6)])
    here, size = np.array([[0.5, 0.5]]), np.array([0.1])
    up = flow.at(here, size, np.array([[0.0, -0.5]]), np.array([0.001]), ["car"])
    assert up.way[0, 1] < -0.55
    either = flow.at(here, size, np.array([[0.0, 0.0]]), np.array([0.1]), ["car"])
    assert either.way[0, 1] == pytest.approx(0.0, abs=1e-9)
    assert either.variance[0] > up.variance[0]


def test_the_flow_is_the_mean_of_all_samples_by_their_weights() -> None:
    """Against the formula, one object and one sample after another."""
    rng = np.random.default_rng(3)
    names = ("bus", "car", "person")
    samples = [
        Sample(
            (rng.uniform(), rng.uniform()), rng.uniform(0.03, 0.3), (rng.normal(0, 0.2), rng.normal(0, 0.2)),
            rng.normal(), names[int(rng.integers(3))],
        )
        for _ in range(300)
    ]  # fmt: skip
    asked = [*names, "of no sample", "car"]
    places, sizes = rng.uniform(size=(5, 2)), rng.uniform(0.05, 0.3, 5)
    ways, variances = rng.normal(0, 0.2, (5, 2)), rng.uniform(0.001, 0.2, 5)
    going = Flow().with_samples(samples).at(places, sizes, ways, variances, asked)
    for n, name in enumerate(asked):
        weights = []
        for s in samples:
            near = np.sum((places[n] - s.centre) ** 2) / (0.45 * sizes[n]) ** 2
            alike = np.log(sizes[n] / s.size) ** 2 / 0.35**2
            same_way = np.sum((ways[n] - s.way) ** 2) / (variances[n] + sizes[n] ** 2)
            other = 1.0 if s.class_name == name else 0.3
            weights.append(other * np.exp(-0.5 * min(60.0, near + alike + same_way)))
        total = sum(weights)
        told = np.average([(*s.way, s.growth, s.way[0] ** 2 + s.way[1] ** 2) for s in samples], 0, weights)
        least = (0.4 * sizes[n] + 0.15 * np.hypot(told[0], told[1])) ** 2
        assert going.way[n].tolist() == pytest.approx(told[:2], abs=1e-9)
        assert going.growth[n] == pytest.approx(told[2], abs=1e-9)
        assert going.variance[n] == pytest.approx(max((told[3] - told[0] ** 2 - told[1] ** 2) / 2, least), abs=1e-9)
        assert bool(going.known[n]) == (total >= 1.5)


def test_the_order_of_samples_says_nothing_and_old_ones_give_way() -> None:
    new = [sample(0.1 * n, name=name) for n in range(5) for name in ("car", "bus")]
    assert Flow().with_samples(new).samples.tolist() == Flow().with_samples(new[::-1]).samples.tolist()
    flow = Flow().with_samples([sample(0.1)])
    for _ in range(300):
        flow = flow.with_samples([sample(0.9)] * 5)
    assert len(flow.samples) == 1000
    assert float(flow.samples[:, 0].min()) == 0.9


def box_at(depth_m: float) -> tuple[float, float, float, float]:
    """A car that comes towards the camera, so far away from it."""
    x, y, half = 0.5 + 1.5 / depth_m, 0.2 + 5.0 / depth_m, 0.9 / depth_m
    return x - half, y - half, x + half, y + half


def test_a_car_that_is_not_seen_is_expected_where_others_were_by_then() -> None:
    """At 12 m/s it is soon twice as large and as fast, which its own speed does not say."""
    state, number, at_s = TrackerState("gate"), 1, 0.0
    for car in range(7):
        at_s += 10.0
        for n in range(11 if car == 6 else 16):
            at_s += 0.2
            boxes = np.array([box_at(44.0 - 2.4 * n)], np.float32)
            seen = Seen(at_s, 1e9 + at_s, boxes, np.full(1, 0.9, np.float32), ("car",))
            done = step(state, seen, next_id=number)
            state, number = done.state, done.next_id
    later_s, there = at_s + 0.4, np.array([box_at(44.0 - 2.4 * 12)])
    by_flow = expected(state.tracks, state.flow, later_s)[-1].predicted(later_s)
    by_itself = expected(state.tracks, Flow(), later_s)[-1].predicted(later_s)
    fits = [float(iou(np.array([box]), there)[0, 0]) for box in (by_flow, by_itself)]
    assert fits[0] > fits[1] + 0.1, fits


def cars_that_leave(answers: int) -> tuple[TrackerState, float]:
    """After six cars drove away from the camera and slower and slower up the picture, and a seventh was seen so often
    and then once not, at the returned time."""
    state, number, at_s = TrackerState("gate"), 1, 0.0
    for car in range(7):
        at_s += 10.0
        for n in range(answers + 1 if car == 6 else 25):
            at_s += 0.2
            boxes = np.array([box_at(7.0 + 1.6 * n)] if car < 6 or n < answers else [], np.float32).reshape(-1, 4)
            seen = Seen(at_s, 1e9 + at_s, boxes, np.full(len(boxes), 0.9, np.float32), ("car",) * len(boxes))
            done = step(state, seen, next_id=number)
            state, number = done.state, done.next_id
    return state, at_s


def test_without_answers_an_object_that_the_flow_keeps_in_the_picture_is_waited_for() -> None:
    state, missed_s = cars_that_leave(6)
    now_s = missed_s + 2.3
    assert len(expire(replace(state, flow=Flow()), now_s).changes) == 1, "by its own speed it left the picture"
    waits = expire(state, now_s)
    assert waits.changes == ()
    assert waits.state.tracks == state.tracks, "where it is expected at a tick is not kept: an answer may be older"


@pytest.mark.parametrize("every_s", [0.04, 0.1, 0.2, 0.6, 0.8])
def test_the_flow_is_learned_whatever_the_rate_of_answers(every_s: float) -> None:
    state, number = TrackerState("gate"), 1
    for n in range(1, int(6.0 / every_s)):
        at_s = n * every_s
        y = 0.05 + 0.14 * at_s
        box = np.array([(0.4, y - 0.05, 0.5, y + 0.05)], np.float32)
        done = step(state, Seen(at_s, 1e9 + at_s, box, np.full(1, 0.9, np.float32), ("car",)), next_id=number)
        state, number = done.state, done.next_id
    assert len(state.flow.samples) >= 3
    assert state.flow.samples[:, 3:5] == pytest.approx(np.tile([0.0, 0.14], (len(state.flow.samples), 1)), abs=1e-3)


def test_nothing_is_learned_over_a_gap_between_answers_that_are_not_rare() -> None:
    state, number = TrackerState("gate"), 1
    for at_s in (0.2, 0.4, 0.6, 2.0, 2.2):
        y = 0.05 + 0.14 * at_s
        box = np.array([(0.4, y - 0.05, 0.5, y + 0.05)], np.float32)
        done = step(state, Seen(at_s, 1e9 + at_s, box, np.full(1, 0.9, np.float32), ("car",)), next_id=number)
        state, number = done.state, done.next_id
    assert len(state.tracks) == 1
    assert not len(state.flow.samples)
