"""Features of candidates among those of their window, and the predictions from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.truth import Agreed, AskableFrame, Candidate, FrameKey, Question
from edge.core.zones import Box
from scheduler.truth.predictions import Predictor, learned
from scheduler.truth.scene import FEATURES, features, pair_overlaps


def _box(x: float, y: float, width: float, height: float) -> Box:
    return (x, y, min(x + width, 1.0), min(y + height, 1.0))


@st.composite
def _candidates(draw: st.DrawFn) -> tuple[Candidate, ...]:
    found = []
    for index in range(draw(st.integers(0, 5))):
        side, place = st.floats(0.001, 0.5), st.floats(0.0, 0.99)
        box = _box(draw(place), draw(place), draw(side), draw(side))
        group = draw(st.sampled_from(["both", "student", "teacher"]))
        student, teacher = (box if group != "teacher" else None), (box if group != "student" else None)
        score = draw(st.floats(0.0, 1.0))
        found.append(Candidate(index, 0, student, teacher, score * (group != "teacher"), score * (group != "student")))
    return tuple(found)


@st.composite
def _windows(draw: st.DrawFn) -> list[AskableFrame]:
    some = draw(st.lists(_candidates(), max_size=6))
    return [AskableFrame(FrameKey(n % 2, n), found) for n, found in enumerate(some)]


@given(_windows())
def test_features_are_finite_and_depend_on_the_frames_of_the_own_window_only(
    frames: list[AskableFrame],
) -> None:
    found = features(frames)
    assert set(found) == {f.key for f in frames}
    for frame in frames:
        assert found[frame.key].shape == (len(frame.candidates), FEATURES)
        assert np.isfinite(found[frame.key]).all()
    alone = features([f for f in frames if f.key.window == 1])
    back = features(frames[::-1])
    some = {f.key for f in frames[::2]}
    assert set(features(frames, some)) == some
    for frame in frames:
        if frame.key.window == 1:
            np.testing.assert_allclose(alone[frame.key], found[frame.key])
        np.testing.assert_allclose(back[frame.key], found[frame.key], rtol=1e-6, atol=1e-6)


@given(_windows())
def test_expectations_are_probabilities_and_a_box_fits_no_more_often_than_there_is_an_object(
    frames: list[AskableFrame],
) -> None:
    for frame, expected in zip(frames, Predictor.prior().expect(frames), strict=True):
        assert len(expected.object) == len(frame.candidates)
        assert np.all((expected.object > 0) & (expected.object < 1))
        for own in (expected.student, expected.teacher):
            assert np.all((own >= 0) & (own <= expected.object))


def _pair(shift: float) -> AskableFrame:
    student, teacher = _box(0.3, 0.5, 0.1, 0.1), _box(0.3 + shift, 0.5, 0.1, 0.1)
    return AskableFrame(FrameKey(1, 1), (Candidate(0, 0, student, teacher, 0.8, 0.8),))


@given(st.floats(0.0, 0.05), st.floats(0.0, 0.05))
def test_the_less_alike_two_boxes_are_the_less_both_are_expected_to_fit(one: float, other: float) -> None:
    near, far = sorted((one, other))
    fits = [Predictor.prior().expect([_pair(shift)])[0] for shift in (near, far)]
    assert fits[0].student[0] / fits[0].object[0] >= fits[1].student[0] / fits[1].object[0] - 1e-9
    assert pair_overlaps(_pair(near).candidates)[0] >= pair_overlaps(_pair(far).candidates)[0]


def _road(window: int, size: float) -> AskableFrame:
    boxes = [_box(0.1 + 0.15 * n, 0.6, 0.05, 0.05) for n in range(4)]
    odd = _box(0.75, 0.6, size, size)
    found = tuple(Candidate(n, 0, b, b, 0.6, 0.6) for n, b in enumerate([*boxes, odd]))
    return AskableFrame(FrameKey(window, 0), found)


def test_a_box_of_an_odd_size_for_its_place_is_believed_less() -> None:
    expected = [Predictor.prior().expect([_road(0, size)])[0].object for size in (0.05, 0.24)]
    assert expected[1][4] < expected[0][4] - 0.1


def test_what_was_answered_at_a_place_is_expected_there_and_less_elsewhere() -> None:
    def street(window: int) -> list[AskableFrame]:
        boxes = [_box(x, 0.55, 0.06, 0.06) for x in (0.1, 0.8)]
        found = tuple(Candidate(n, 0, b, b, 0.6, 0.6) for n, b in enumerate(boxes))
        return [AskableFrame(FrameKey(window, n), found) for n in range(10)]

    said = {Question(f.key, "box", n): Agreed("no" if n == 0 else "yes", None, 1, False)
            for f in street(1) for n in (0, 1)}  # fmt: skip
    before, after = (p.expect(street(2))[0].object for p in (Predictor.prior(), learned(street(1), said)))
    assert after[0] < before[0] - 0.2
    assert after[1] > after[0] + 0.3


@pytest.mark.parametrize("answers", [10, 20, 40, 100, 300])
@pytest.mark.parametrize("fit", [0.0, 0.3, 0.5, 0.7])
@pytest.mark.parametrize("shift", [0.0, 0.01, 0.02])
def test_boxes_are_expected_to_fit_as_often_as_is_between_what_was_known_and_what_was_answered(
    answers: int, fit: float, shift: float
) -> None:
    frames = [AskableFrame(FrameKey(1, n), _pair(shift).candidates) for n in range(answers)]
    fits = {f.key: n < fit * answers for n, f in enumerate(frames)}
    said = {
        Question(f.key, "box", 0): Agreed("yes" if fits[f.key] else "teacher", None, 1, False) for f in frames
    }  # fmt: skip
    before, after = (p.expect([_pair(shift)])[0] for p in (Predictor.prior(), learned(frames, said)))
    rates = [found.student[0] / found.object[0] for found in (before, after)]
    assert min(fit, rates[0]) - 0.02 < rates[1] < max(fit, rates[0]) + 0.02
    assert answers < 100 or abs(rates[1] - fit) < 0.6 * abs(rates[0] - fit) + 0.02
    assert after.teacher[0] / after.object[0] == pytest.approx(1.0, abs=0.1)
