"""Labelling, budget and quality."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.core.labels import LabelledFrame, SampledFrame
from edge.core.vision import Detections
from edge.detectors.classes import ClassMap
from edge.detectors.pictures import read_picture
from golden.budget import SampledCandidate, allowance, choose, evenly, hints
from golden.ensemble import EnsembleTeacher
from golden.labelling import Labeller
from golden.quality import label_quality


class Fixed:
    """A teacher that always says the same."""

    name, classes = "fixed", ("car", "truck", "dog")

    def label(self, picture: np.ndarray) -> Detections:
        assert picture[0, 0].tolist()[0] > 200  # red: RGB, not BGR
        boxes = np.tile([0.1, 0.1, 0.5, 0.5], (4, 1))
        boxes[2] += 0.3
        return Detections.build(boxes, [0.9, 0.5, 0.3, 0.95], [0, 1, 0, 2])


def sample(path: Path, number: int = 0, answer: Detections | None = None) -> SampledFrame:
    return SampledFrame("c", 1, number, float(number), path, answer or Detections.empty(), "v")


@pytest.fixture
def jpeg(tmp_path: Path) -> Path:
    picture = np.zeros((40, 60, 3), np.uint8)
    picture[..., 2] = 255  # red in OpenCV's order
    cv2.imwrite(str(tmp_path / "p.jpg"), picture)
    return tmp_path / "p.jpg"


def test_labels_come_in_the_cameras_classes_with_confidence(jpeg: Path) -> None:
    class_map = ClassMap.build(("vehicle",), Fixed.classes, {"vehicle": ("car", "truck")})
    labeller = Labeller(Fixed(), class_map, 0.4)
    labelled = labeller.label(sample(jpeg))
    assert labelled is not None
    # The car and the truck at one place are one vehicle; the dog is of no class of the camera.
    assert labelled.labels.classes.tolist() == [0]
    assert np.allclose(labelled.labels.scores, [0.9])
    assert np.allclose(labelled.unsure.scores, [0.3])
    assert (labelled.teacher, labelled.ambiguous, labelled.agreement) == ("fixed", 1, None)
    assert labeller.counters.to_json() == {"frames": 1, "unreadable": 0, "labels": 1, "ambiguous": 1}
    again = LabelledFrame.from_json(labelled.to_json())
    assert again.to_json() == labelled.to_json()


def test_a_joint_teacher_says_how_far_its_members_agreed(jpeg: Path) -> None:
    joint = EnsembleTeacher("e", [Fixed(), Fixed()], [1, 1], {}, 0.5, 0.2)
    labelled = Labeller(joint, ClassMap.build(("car",), joint.classes), 0.4).label(sample(jpeg))
    assert labelled is not None
    assert labelled.agreement == 1.0


def test_pictures_that_cannot_be_read_are_counted(jpeg: Path, tmp_path: Path) -> None:
    labeller = Labeller(Fixed(), ClassMap.build(("car",), Fixed.classes), 0.4)
    data = jpeg.read_bytes()
    (tmp_path / "cut.jpg").write_bytes(data[: len(data) // 2])
    (tmp_path / "text.jpg").write_bytes(b"hello")
    for name in ("cut.jpg", "text.jpg", "gone.jpg"):
        assert labeller.label(sample(tmp_path / name)) is None
    assert labeller.counters.unreadable == 3
    assert read_picture(jpeg) is not None


# -- budget


def candidates(n: int, seed: int = 0) -> list[SampledCandidate]:
    rng = np.random.default_rng(seed)
    return [SampledCandidate(str(i), float(i), *rng.random(3)) for i in range(n)]


def test_every_frame_has_the_same_chance_in_the_base_part() -> None:
    counts = np.zeros(13)
    starts = (np.arange(1300) + 0.5) / 1300
    for start in starts:
        for choice in choose(candidates(13), 5, float(start), base_share=0.6):
            counts[int(choice.id)] += choice.purpose == "measure"
    assert counts.sum() == 3 * 1300
    assert np.allclose(counts / 1300, 3 / 13, atol=0.01)


def test_the_rest_goes_to_what_teaches_most() -> None:
    dull = [SampledCandidate(str(i), float(i)) for i in range(20)]
    dull[7] = SampledCandidate("7", 7.0, doubt=0.9, change=3.0, novelty=1.0)
    chosen = choose(dull, 5, 0.0, base_share=0.8)
    assert [c.id for c in chosen if c.purpose == "train"] == ["7"]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 30), st.integers(0, 40), st.floats(0, 0.999), st.floats(0, 1), st.integers(0, 99))
def test_a_choice_keeps_the_budget(n: int, budget: int, start: float, share: float, seed: int) -> None:
    chosen = choose(candidates(n, seed), budget, start, share)
    assert len(chosen) == min(n, budget)
    assert len({c.id for c in chosen}) == len(chosen)
    assert [int(c.id) for c in chosen] == sorted(int(c.id) for c in chosen)
    if n <= budget:
        assert all(c.purpose == "measure" for c in chosen)
    else:
        assert sum(c.purpose == "measure" for c in chosen) == np.ceil(budget * share)


def test_evenly_spreads() -> None:
    assert evenly(10, 3, 0.5) == (1, 5, 8)
    assert evenly(3, 5, 0.5) == (0, 1, 2)
    assert evenly(5, 0, 0.5) == ()


@pytest.mark.parametrize(("budget", "start", "share"), [(-1, 0, 0.5), (1, 1.0, 0.5), (1, 0, 1.5)])
def test_budget_settings_are_checked(budget: int, start: float, share: float) -> None:
    with pytest.raises(InvalidValue):
        choose(candidates(3), budget, start, share)


def test_labels_may_be_spent_as_time_passes() -> None:
    assert [allowance(10, 2, t, 100.0) for t in (0.0, 20.0, 55.0, 100.0, 900.0)] == [0, 0, 3, 8, 8]


def test_hints_see_doubt_and_change(tmp_path: Path) -> None:
    sure = Detections.build([[0, 0, 1, 1]], [1.0], [0])
    two = Detections.build([[0, 0, 1, 1]] * 2, [0.5, 0.5], [0, 1])
    found = hints([sample(tmp_path, 1, two), sample(tmp_path, 0, sure), sample(tmp_path, 2)])
    assert [c.id for c in found] == ["c/1/0", "c/1/1", "c/1/2"]
    assert [c.doubt for c in found] == pytest.approx([0.0, 1.0, 0.5])
    assert [c.change for c in found] == [0.0, 1.0, 2.0]


# -- quality


def frames(counts: list[int], score: float = 0.8, ambiguous: int = 0) -> list[LabelledFrame]:
    out = []
    for i, n in enumerate(counts):
        labels = Detections.build(np.tile([0, 0, 1, 1], (n, 1)), np.full(n, score), np.zeros(n))
        out.append(LabelledFrame(sample(Path("x"), i), labels, "t", ambiguous=ambiguous))
    return out


def test_quality_of_steady_growing_and_blinking_traffic() -> None:
    assert label_quality(frames([3, 3, 3, 3]))["flicker"] == 0
    assert label_quality(frames([1, 2, 3, 4]))["flicker"] == 0
    assert label_quality(frames([2, 0, 2, 0, 2]))["flicker"] == pytest.approx(2 / 1.2)


def test_quality_counts_what_was_left_out() -> None:
    found = label_quality(frames([2, 0], ambiguous=1))
    assert found == pytest.approx(
        {"frames": 2, "labels": 2, "empty_share": 0.5, "confidence": 0.8, "ambiguous_share": 0.5}
    )
    assert label_quality([]) == {"frames": 0.0, "labels": 0.0}
