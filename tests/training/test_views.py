"""Views of a labelled picture: boxes go where the pixels go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edge.core.configs import WHOLE
from edge.core.detectors import InputSpec
from edge.core.labels import LabelledFrame, SampledFrame
from edge.core.vision import Detections
from edge.detectors.session import to_tensor
from edge.training.views import LEAST_VISIBLE, LEAST_WEIGHT, LabelledPicture, view

HIGH, WIDE = 120, 200


def drawn(box: tuple[int, int, int, int], unsure: bool = False, score: float = 0.9) -> LabelledPicture:
    """A white rectangle (pixels x0, y0, x1, y1) on black."""
    picture = np.zeros((HIGH, WIDE, 3), np.uint8)
    x0, y0, x1, y1 = box
    picture[y0:y1, x0:x1] = 255
    found = Detections.build([(x0 / WIDE, y0 / HIGH, x1 / WIDE, y1 / HIGH)], [score], [0])
    none = Detections.empty()
    return LabelledPicture(picture, none if unsure else found, found if unsure else none)


def spec(fit: str) -> InputSpec:
    return InputSpec(160, 128, fit=fit, pad=0)  # type: ignore[arg-type]


def bright(tensor: np.ndarray) -> tuple[float, float, float, float]:
    """The bright part of an input, to a part of a pixel: from the sums of rows and columns."""
    seen = tensor[0, 0] > tensor.max() / 2
    ys, xs = np.flatnonzero(seen.any(1)), np.flatnonzero(seen.any(0))
    return float(xs[0]), float(ys[0]), float(xs[-1] + 1), float(ys[-1] + 1)


fits = st.sampled_from(["stretch", "letterbox", "corner"])


@given(fit=fits, x=st.integers(0, 140), y=st.integers(0, 70), w=st.integers(20, 60), h=st.integers(20, 50))
@settings(max_examples=40)
def test_without_a_generator_the_view_is_what_the_student_sees(fit: str, x: int, y: int, w: int, h: int) -> None:
    labelled = drawn((x, y, min(x + w, WIDE), min(y + h, HIGH)))
    tensor, objects = view(labelled, spec(fit), (128, 160), None)
    assert np.abs(bright(tensor.numpy()) - objects.boxes[0].numpy()).max() <= 1.01
    asked, _ = to_tensor(labelled.picture, spec(fit), (128, 160))
    # The same resampling but for rounding of the placed size.
    assert np.abs(np.array(bright(asked)) - np.array(bright(tensor.numpy()))).max() <= 1.01
    assert asked.shape == tensor.shape


@given(
    fit=fits, seed=st.integers(0, 10_000), x=st.integers(0, 150), y=st.integers(0, 80), w=st.integers(20, 50),
    h=st.integers(20, 40),
)  # fmt: skip
@settings(max_examples=60)
def test_a_box_follows_its_object_through_every_view(fit: str, seed: int, x: int, y: int, w: int, h: int) -> None:
    labelled = drawn((x, y, min(x + w, WIDE), min(y + h, HIGH)))
    tensor, objects = view(labelled, spec(fit), (128, 160), np.random.default_rng(seed))
    assert len(objects.boxes) + len(objects.left_out) <= 1
    if len(objects.boxes):
        box = objects.boxes[0].numpy()
        assume((box[2:] - box[:2]).min() > 4)
        assert np.abs(np.array(bright(tensor.numpy())) - box).max() <= 1.6
        assert (box >= 0).all()
        assert (box <= [160, 128, 160, 128]).all()


def test_views_are_mirrored_moved_and_scaled_and_the_same_for_a_seed() -> None:
    labelled = drawn((20, 40, 60, 80))
    boxes = [view(labelled, spec("stretch"), (128, 160), np.random.default_rng(n))[1].boxes for n in range(40)]
    seen = np.concatenate([b.numpy() for b in boxes])
    widths = seen[:, 2] - seen[:, 0]
    assert widths.min() < 30 < 34 < widths.max()
    middle = (seen[:, 0] + seen[:, 2]) / 2
    assert (middle < 70).any()
    assert (middle > 90).any()  # mirrored
    again = [view(labelled, spec("stretch"), (128, 160), np.random.default_rng(3)) for _ in range(2)]
    assert np.array_equal(again[0][0], again[1][0])


def test_an_object_that_is_cut_is_neither_object_nor_background() -> None:
    cut = drawn((0, 40, 40, 80))
    kinds = {"object": 0, "left out": 0, "gone": 0}
    for seed in range(200):
        tensor, objects = view(cut, spec("stretch"), (128, 160), np.random.default_rng(seed))
        if len(objects.boxes):
            kinds["object"] += 1
        elif len(objects.left_out):
            kinds["left out"] += 1
            assert tensor.max() > 0  # something of it is seen
        else:
            kinds["gone"] += 1
            assert tensor.max() < 60  # a little light at the border at most
    assert kinds["object"] > 100
    assert kinds["left out"] > 3


def test_unsure_objects_are_left_out_and_sure_ones_weigh_more() -> None:
    _, objects = view(drawn((20, 40, 60, 80), unsure=True), spec("stretch"), (128, 160), None)
    assert (len(objects.boxes), len(objects.left_out)) == (0, 1)
    for score, weight in ((0.9, 1.0), (0.4, 0.8), (0.05, LEAST_WEIGHT)):
        _, objects = view(drawn((20, 40, 60, 80), score=score), spec("stretch"), (128, 160), None)
        assert objects.weights.tolist() == pytest.approx([weight])


def frame(labels: Detections, unsure: Detections | None = None) -> LabelledFrame:
    sampled = SampledFrame("c", 1, 1, 0.0, Path("none.jpg"), Detections.empty(), "v")
    return LabelledFrame(sampled, labels, "t", unsure=unsure or Detections.empty())


def test_a_region_is_cut_out_with_its_objects() -> None:
    picture = np.zeros((HIGH, WIDE, 3), np.uint8)
    picture[30:60, 120:160] = 255
    labels = Detections.build(
        [
            (0.6, 0.25, 0.8, 0.5),  # inside
            (0.4, 0.25, 0.56, 0.5),  # 6 of 16 parts inside: less than 40 %
            (0.46, 0.6, 0.56, 0.9),  # 6 of 10 parts inside: cut
            (0.0, 0.0, 0.3, 0.3),  # outside
        ],
        [0.9, 0.8, 0.7, 0.6],
        [0, 1, 2, 3],
    )
    part = LabelledPicture.of(frame(labels), picture, (HIGH, WIDE), (0.5, 0.0, 1.0, 1.0))
    assert part.picture.shape == (HIGH, WIDE // 2, 3)
    assert part.labels.classes.tolist() == [0, 2]
    assert np.allclose(part.labels.boxes[0], [0.2, 0.25, 0.6, 0.5], atol=1e-6)
    assert np.allclose(part.labels.boxes[1], [0.0, 0.6, 0.12, 0.9], atol=1e-6)
    assert part.unsure.classes.tolist() == [1]
    tensor, objects = view(part, spec("stretch"), (128, 160), None)
    assert np.abs(np.array(bright(tensor.numpy())) - objects.boxes[0].numpy()).max() <= 1.01


def test_pictures_are_kept_no_larger_than_they_are_looked_at() -> None:
    picture = np.zeros((1080, 1920, 3), np.uint8)
    kept = LabelledPicture.of(frame(Detections.empty()), picture, (160, 200), WHOLE)
    # Both sides are at least as large as asked for.
    assert kept.picture.shape == (160, 284, 3)
    small = LabelledPicture.of(frame(Detections.empty()), picture[:50, :60], (160, 200), WHOLE)
    assert small.picture.shape == (50, 60, 3)
    assert pytest.approx(0.4) == LEAST_VISIBLE
