"""The procedural scene: the same picture for the same time, honest truth, strong but gradual drift."""

from __future__ import annotations

import itertools
import math

import cv2
import numpy as np
import pytest
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.demo.scene import CHARACTERS, CLASSES, Scene, SceneSpec, conditions
from edge.demo.scene_layout import SceneLane

SPECS = [SceneSpec(seed=3, character=c, day_s=600.0) for c in range(len(CHARACTERS))]


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return [Scene(spec) for spec in SPECS]


@pytest.mark.parametrize("character", range(4))
def test_any_order_gives_the_same_pictures_as_playing_it_through(character: int) -> None:
    times = [i / 8.0 for i in range(40)] + [211.3, 380.0, 599.9]
    played = Scene(SPECS[character])
    first = {t: played.render(t) for t in times}
    shuffled = Scene(SPECS[character])
    for t in np.random.default_rng(1).permutation(times).tolist():
        picture, objects = shuffled.render(t)
        assert objects == first[t][1]
        assert np.array_equal(picture, first[t][0])


def test_pictures_and_seeds_and_characters_differ() -> None:
    pictures = [
        Scene(SceneSpec(seed=seed, character=c)).render(20.0)[0] for seed, c in ((1, 0), (2, 0), (1, 1), (1, 4))
    ]
    for i, a in enumerate(pictures):
        for b in pictures[i + 1 :]:
            assert float(np.abs(a.astype(int) - b.astype(int)).mean()) > 2.0


@settings(max_examples=tried(16, 40), deadline=None)
@given(character=st.integers(0, 3), t_s=st.floats(0.0, 5000.0))
def test_truth_is_inside_the_picture_and_not_tiny(scenes: list[Scene], character: int, t_s: float) -> None:
    picture, objects = scenes[character].render(t_s)
    assert picture.shape == (288, 512, 3)
    assert picture.dtype == np.uint8
    for o in objects:
        x0, y0, x1, y1 = o.box
        assert 0.0 <= x0 < x1 <= 1.0
        assert 0.0 <= y0 < y1 <= 1.0
        assert (y1 - y0) * 288 >= 12.0
        assert 0.4 <= o.visible_fraction <= 1.0
        assert o.class_name in CLASSES
    assert len({o.track_id for o in objects}) == len(objects)


def test_boxes_fit_what_is_drawn(scenes: list[Scene]) -> None:
    """By clear day a lone object is what differs from the empty street, and its box holds that difference."""
    scene = scenes[3]
    pictures = [scene.render(t / 2.0)[0] for t in range(60)]
    street = np.median(np.stack(pictures), axis=0)
    inside = outside = 0.0
    for t in range(60):
        picture, objects = scene.render(t / 2.0)
        changed = np.abs(picture.astype(np.float32) - street).max(axis=2) > 45
        mask = np.zeros(changed.shape, np.uint8)
        for o in objects:
            x0, y0, x1, y1 = (round(v * s) for v, s in zip(o.box, (512, 288, 512, 288), strict=True))
            cv2.rectangle(mask, (x0 - 2, y0 - 2), (x1 + 2, y1 + 2), 1, -1)
        inside += float((changed & (mask > 0)).sum())
        outside += float((changed & (mask == 0)).sum())
    assert inside > 3.0 * outside


def test_every_class_and_light_traffic_come_up(scenes: list[Scene]) -> None:
    seen: set[str] = set()
    counts = []
    for scene in scenes:
        for i in range(60):  # ten moments of the day, six pictures each
            objects = scene.render((i // 6) * 60.0 + (i % 6) * 0.7)[1]
            counts.append(len(objects))
            seen.update(o.class_name for o in objects)
    assert seen == set(CLASSES)
    assert 2 <= float(np.median(counts)) <= 10
    assert max(counts) <= 20


def test_an_object_moves_steadily(scenes: list[Scene]) -> None:
    """From one picture to the next a track's centre never jumps."""
    for scene in scenes:
        before: dict[int, tuple[float, float]] = {}
        for i in range(80):
            now = {}
            for o in scene.render(i / 8.0)[1]:
                now[o.track_id] = ((o.box[0] + o.box[2]) / 2, (o.box[1] + o.box[3]) / 2)
            for track, (x, y) in now.items():
                if track in before:
                    assert math.hypot(x - before[track][0], y - before[track][1]) < 0.15
            before = now


@pytest.mark.parametrize("spec", SPECS, ids=CHARACTERS)
def test_a_day_starts_clear_and_goes_through_strong_but_gradual_change(spec: SceneSpec) -> None:
    start = conditions(spec, 0.0)
    assert start.label == "day clear"
    assert start.generation == 0.0
    states = [conditions(spec, i * 2.0) for i in range(301)]
    assert min(s.daylight for s in states) < 0.1
    assert max(s.snow for s in states) > 0.8
    assert len({s.label for s in states}) >= 5
    for a, b in itertools.pairwise(states):
        assert abs(a.daylight - b.daylight) < 0.06
        assert abs(a.rain - b.rain) < 0.06
        assert abs(a.snow - b.snow) < 0.06
    for s in states:
        assert sum(s.mix) == pytest.approx(1.0)
    assert conditions(spec, 600.0 + 123.0).light == pytest.approx(conditions(spec, 123.0).light)


def test_night_is_dark_and_snow_is_white(scenes: list[Scene]) -> None:
    scene = scenes[1]
    day, night, snow = (float(scene.render(p * 600.0)[0].mean()) for p in (0.03, 0.34, 0.84))
    assert night < 0.5 * day
    assert snow > 1.15 * day


def test_start_phase_shifts_the_cycle() -> None:
    spec = SceneSpec(seed=1, character=2, day_s=100.0, start_phase=0.5)
    assert conditions(spec, 0.0) == conditions(SceneSpec(seed=1, character=2, day_s=100.0), 50.0)


def test_other_sizes_show_the_same_objects() -> None:
    small = Scene(SceneSpec(seed=5, character=1, width=256, height=144)).render(30.0)
    large = Scene(SceneSpec(seed=5, character=1)).render(30.0)
    assert small[0].shape == (144, 256, 3)
    boxes = {o.track_id: o.box for o in large[1]}
    common = [o for o in small[1] if o.track_id in boxes]
    assert len(common) >= 1
    for o in common:
        assert o.box == pytest.approx(boxes[o.track_id], abs=0.01)


@settings(max_examples=tried(32, 80), deadline=None)
@given(t_s=st.floats(0.0, 3000.0), seed=st.integers(0, 1000))
def test_vehicles_at_a_light_keep_their_distance(t_s: float, seed: int) -> None:
    lane = SceneLane((0.0, 44.0), (0.0, 6.0), 8.0, 20.0, (0,), 1.0, stop_m=10.0, period_s=24.0, green=0.5)
    places = sorted(along for _, along, _ in lane.occupants(t_s, seed, 0))
    assert all(0.0 <= along <= lane.length for along in places)
    assert all(b - a >= 12.9 for a, b in itertools.pairwise(places))
    for _, _, entered_s in lane.occupants(t_s, seed, 0):
        assert entered_s <= t_s + 1e-6


@pytest.mark.parametrize(
    ("field", "value"),
    [("character", -1), ("width", 10), ("fps", 0.0), ("day_s", -1.0), ("start_phase", 1.5)],
)
def test_bad_specs_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        SceneSpec(**{"seed": 1, field: value})  # type: ignore[arg-type]
