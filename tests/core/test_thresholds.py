"""The least score that is answered, chosen on past labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.accuracy import Pair, accuracy
from edge.core.thresholds import LOWEST, SCORES, accuracy_at, best_score, f1_by_score, score_counts
from edge.core.vision import Detections


def random_pairs(seed: int, frames: int = 6) -> list[Pair]:
    """Labels, answers near them with high scores, and wrong answers with low ones."""
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(frames):
        count = int(rng.integers(0, 6))
        corner = rng.uniform(0, 0.7, (count, 2))
        boxes = np.concatenate([corner, corner + rng.uniform(0.1, 0.3, (count, 2))], 1)
        classes = rng.integers(0, 2, count)
        seen = rng.random(count) < 0.8
        near = np.clip(boxes[seen] + rng.normal(0, 0.012, (int(seen.sum()), 4)), 0, 1)
        wrong = int(rng.integers(0, 8))
        other = rng.uniform(0, 0.7, (wrong, 2))
        answers = np.concatenate([near, np.concatenate([other, other + 0.2], 1)])
        scores = np.concatenate([rng.uniform(0.3, 0.95, int(seen.sum())), rng.uniform(0.05, 0.55, wrong)])
        named = np.concatenate([classes[seen], rng.integers(0, 2, wrong)])
        order = np.argsort(-scores)
        pairs.append(
            (
                Detections.build(answers[order], scores[order], named[order]),
                Detections.build(boxes, np.ones(count), classes),
            )
        )
    return pairs


def brute(pairs: list[Pair], score: float) -> float:
    cut = [(a.select(a.scores >= score - 1e-6), labels) for a, labels in pairs]
    value = accuracy("detection", cut, 2).f1_iou50
    assert value is not None
    return value


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25)
def test_one_matching_serves_all_scores(seed: int) -> None:
    pairs = random_pairs(seed)
    f1, objects = f1_by_score(pairs)
    assert objects == sum(len(labels) for _, labels in pairs)
    if objects:
        # Every sixth, others in each example: to match anew at each score takes long.
        some = slice(seed % 6, None, 6)
        assert np.allclose(f1[some], [brute(pairs, float(s)) for s in SCORES[some]], atol=1e-9)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25)
def test_the_best_score_is_near_the_best_there_is(seed: int) -> None:
    pairs = random_pairs(seed, 40)
    f1, _ = f1_by_score(pairs)
    chosen = best_score(pairs, 0.5)
    assert chosen in SCORES
    # The smoothing gives up a little of the best single point, which is noise on so few pictures: 0.01 in the mean.
    assert brute(pairs, chosen) >= f1.max() - 0.08


def test_a_clear_cut_is_found() -> None:
    label = Detections.build([(0.1, 0.1, 0.3, 0.3)], [1.0], [0])
    right = Detections.build([(0.1, 0.1, 0.3, 0.3)], [0.7], [0])
    wrong = Detections.build([(0.6, 0.6, 0.9, 0.9)], [0.3], [0])
    pairs = [(right, label)] * 150 + [(wrong, Detections.empty())] * 150
    assert 0.3 < best_score(pairs, 0.9) <= 0.7


@pytest.mark.parametrize("answers", [0, 5])
def test_without_objects_the_usual_score_stays(answers: int) -> None:
    found = Detections.build([(0.1, 0.1, 0.3, 0.3)] * answers, [0.5] * answers, [0] * answers)
    assert best_score([(found, Detections.empty())], 0.37) == 0.37
    assert best_score([], 0.37) == 0.37


def test_counts_and_accuracy_at_a_score() -> None:
    label = Detections.build([(0.1, 0.1, 0.3, 0.3)], [1.0], [0])
    both = Detections.build([(0.1, 0.1, 0.3, 0.3), (0.6, 0.6, 0.9, 0.9)], [0.7, 0.4], [0, 0])
    (right, given_), objects = score_counts([(both, label)])
    assert objects == 1
    assert right[0] == 1
    assert given_[0] == 2
    assert accuracy_at([(both, label)], 0.5).value == 1.0
    assert accuracy_at([(both, label)], LOWEST).value == pytest.approx(2 / 3)
    assert accuracy_at([(both, label)], 0.8).value == 0.0
    assert f1_by_score([])[1] == 0
