"""Answers decoded with gradients, and the loss on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from detectors.tiny_detectors import street, tiny_distribution, tiny_grid
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.detectors import OnnxSpec, OutputSpec
from edge.core.errors import WeightsError
from edge.detectors.decoding import Rows, decode, default_boxes
from edge.students.detector_loss import Decoded, Decoder, Objects, _matched, published_loss
from edge.students.graph import GraphNet

SIZE = (96, 160)
TABLE = (1, -1, 0, 0)  # person, (bicycle), car and truck
ANCHORS = OutputSpec(
    "anchors", (8, 16, 64), anchors=(((16.0, 16.0), (30.0, 15.0)), ((32.0, 32.0),), ((80.0, 60.0), (60.0, 80.0)))
)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def raw(kind: str, batch: int = 2) -> tuple[OutputSpec, dict[str, torch.Tensor]]:
    """Outputs of a detector of each layout for random pictures, with a graph behind them."""
    generator = torch.Generator().manual_seed(0)
    if kind == "anchors":
        count = len(default_boxes(ANCHORS, SIZE[::-1])[0])
        values = {
            "offsets": torch.randn(batch, count, 4, generator=generator),
            "logits": torch.randn(batch, count, 1 + len(TABLE), generator=generator),
        }
        return ANCHORS, {k: v.requires_grad_() for k, v in values.items()}
    content, spec = (tiny_grid if kind == "grid" else tiny_distribution)()
    x = torch.rand(batch, 3, *SIZE, generator=generator) * (255 if kind == "grid" else 2)
    return spec.output, GraphNet(content, kind)(x)


LAYOUTS = ["grid", "distribution", "anchors"]


@pytest.mark.parametrize("kind", LAYOUTS)
def test_decoded_in_torch_as_in_numpy(kind: str) -> None:
    spec, values = raw(kind)
    found = Decoder(spec, TABLE, 2)(values, SIZE)
    for n in range(2):
        one = {k: v[n : n + 1].detach().numpy() for k, v in values.items()}
        wanted = decode(one, spec, SIZE[::-1], Rows.build(TABLE), 0.0)
        assert found.boxes.shape == (2, len(wanted.scores), 4)
        assert np.allclose(found.boxes[n].detach().numpy(), wanted.boxes, atol=1e-2, rtol=1e-4)
        best, names = found.scores[n].detach().max(1)
        assert np.allclose(best.numpy(), wanted.scores, atol=1e-5)
        assert (names.numpy() == wanted.classes).mean() > 0.99  # but for ties


@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_output_gets_a_gradient(kind: str) -> None:
    spec, values = raw(kind)
    for v in values.values():
        v.retain_grad()
    found = Decoder(spec, TABLE, 2)(values, SIZE)
    published_loss(found, [some((40, 30, 70, 60)), none()]).backward()
    for value in values.values():
        assert value.grad is not None
        assert torch.isfinite(value.grad).all()
    # Boxes learn where a cell answers for an object: with one object, at one stride perhaps.
    moved = [k for k, v in values.items() if v.grad is not None and v.grad.abs().sum() > 0]
    assert len(moved) >= len(values) - (kind == "distribution")


def test_layouts_that_cannot_be_trained_are_refused() -> None:
    for kind in ("end_to_end", "rows", "cells"):
        with pytest.raises(WeightsError, match=f"{kind}.*cannot be trained"):
            Decoder(OutputSpec(kind), TABLE, 2)  # type: ignore[arg-type]


def test_a_class_without_members_scores_nothing() -> None:
    spec, values = raw("grid")
    found = Decoder(spec, (0, -1, -1, -1), 2)(values, SIZE)
    assert (found.scores[..., 1] == 0).all()
    assert (found.scores[..., 0] > 0).all()


def some(*boxes: tuple[float, float, float, float], classes: list[int] | None = None) -> Objects:
    count = len(boxes)
    return Objects(
        torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4),
        torch.tensor(classes or [0] * count, dtype=torch.int64),
        torch.ones(count),
        torch.zeros(0, 4),
    )


def none(*left_out: tuple[float, float, float, float]) -> Objects:
    return replace(some(), left_out=torch.tensor(left_out, dtype=torch.float32).reshape(-1, 4))


def plain(scores: float = 0.3, cells: int = 12, stride: float = 8.0) -> Decoded:
    """One picture of cells x cells, each answering with a box of two strides around its centre."""
    y, x = torch.meshgrid(torch.arange(cells), torch.arange(cells), indexing="ij")
    centres = (torch.stack([x, y], -1).reshape(-1, 2) + 0.5) * stride
    boxes = torch.cat([centres - stride, centres + stride], 1)[None].requires_grad_()
    given_ = torch.full((1, cells * cells, 2), scores).requires_grad_()
    return Decoded(boxes, given_, centres, torch.full((cells * cells,), stride))


def test_a_picture_without_objects_pushes_all_scores_down() -> None:
    found = plain()
    loss = published_loss(found, [none()])
    loss.backward()
    assert loss > 0
    assert found.scores.grad is not None
    assert (found.scores.grad > 0).all()
    assert found.boxes.grad is None
    assert published_loss(plain(1e-9), [none()]) < 1e-6


def test_cells_that_are_left_out_get_no_gradient() -> None:
    found = plain()
    published_loss(found, [none((20, 20, 60, 60))]).backward()
    assert found.scores.grad is not None
    pushed = found.scores.grad[0, :, 0] > 0
    inside = ((found.centres > 20) & (found.centres < 60)).all(1)
    assert not pushed[inside].any()
    assert pushed[((found.centres - 40).abs() > 25).any(1)].all()


def test_a_sure_object_inside_a_doubtful_place_still_teaches() -> None:
    found = plain()
    objects = replace(some((32, 32, 48, 48)), left_out=torch.tensor([[0.0, 0.0, 96.0, 96.0]]))
    published_loss(found, [objects]).backward()
    assert found.scores.grad is not None
    touched = found.scores.grad[0].abs().sum(1) > 0
    assert 0 < touched.sum() <= 10
    assert (found.scores.grad[0, touched, 0] < 0).all()  # up


def test_nothing_at_all_to_learn_is_no_loss() -> None:
    found = plain()
    assert published_loss(found, [none((-10, -10, 200, 200))]) == 0


def test_labels_of_which_the_teacher_is_less_sure_teach_less() -> None:
    sure, unsure = plain(), plain()
    objects = some((30, 30, 50, 50))
    published_loss(sure, [objects]).backward()
    published_loss(unsure, [replace(objects, weights=torch.tensor([0.5]))]).backward()
    assert sure.boxes.grad is not None
    assert unsure.boxes.grad is not None
    assert torch.allclose(unsure.boxes.grad, 0.5 * sure.boxes.grad)


def test_an_object_outside_every_cell_does_not_break() -> None:
    assert torch.isfinite(published_loss(plain(), [some((500, 500, 520, 520))]))


corner = st.tuples(st.floats(0, 80), st.floats(0, 80), st.floats(4, 40), st.floats(4, 40))


@given(objects=st.lists(st.tuples(corner, st.integers(0, 1)), min_size=1, max_size=8), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_a_cell_answers_for_one_object_at_most(
    objects: list[tuple[tuple[float, float, float, float], int]], seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    found = plain()
    boxes = found.boxes[0].detach() + torch.randn(144, 4, generator=generator)
    boxes = torch.cat([torch.minimum(boxes[:, :2], boxes[:, 2:] - 1), boxes[:, 2:]], 1)
    scores = torch.rand(144, 2, generator=generator).clamp(1e-6, 1 - 1e-6)
    given_ = some(*[(x, y, x + w, y + h) for (x, y, w, h), _ in objects], classes=[c for _, c in objects])
    cells, owners, overlap = _matched(boxes, scores, found, given_)
    assert len(cells) == len(set(cells.tolist()))
    assert ((overlap >= 0) & (overlap <= 1)).all()
    # At most ten cells an object (dynamic k of the ten best).
    assert torch.bincount(owners, minlength=len(objects)).max() <= 10
    # Each object that is not crowded out has at least one cell in it or near it.
    near = ((found.centres[cells] - (given_.boxes[owners, :2] + given_.boxes[owners, 2:]) / 2).abs()).max(1).values
    half = (given_.boxes[owners, 2:] - given_.boxes[owners, :2]).max(1).values / 2
    assert (near <= torch.maximum(half, torch.tensor(20.0)) + 1e-3).all()


@pytest.mark.parametrize("kind", ["grid", "distribution"])
def test_steps_on_one_picture_lower_the_loss(kind: str) -> None:
    content, spec = (tiny_grid if kind == "grid" else tiny_distribution)()
    losses = fitted(content, spec)
    assert losses[-1] < 0.6 * losses[0]


def fitted(content: bytes, spec: OnnxSpec, steps: int = 25) -> list[float]:
    from edge.detectors.session import to_tensor
    from edge.training.relative_adam import RelativeAdam

    picture, labels = street(11)
    net, decoder = GraphNet(content, "net"), Decoder(spec.output, TABLE, 2)
    x = torch.from_numpy(to_tensor(picture, spec.input, SIZE)[0])
    pixels = labels.boxes * np.array([160, 96, 160, 96], np.float32)
    objects = Objects(
        torch.from_numpy(pixels), torch.from_numpy(labels.classes), torch.ones(len(labels)), torch.zeros(0, 4)
    )
    optimiser = RelativeAdam(list(net.weights))
    losses = []
    for _ in range(steps):
        optimiser.clear()
        loss = published_loss(decoder(net(x), SIZE), [objects])
        torch.autograd.backward(loss)
        optimiser.step(0.02)
        losses.append(float(loss))
    return losses
