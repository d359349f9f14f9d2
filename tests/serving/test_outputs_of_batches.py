"""Outputs of batches: their room, and what is believed of them."""

from __future__ import annotations

import numpy as np
import pytest
from front_kit import version

from edge.core.errors import Unavailable
from edge.core.oip import Tensor, TensorSpec
from edge.serving.outputs import JoinedOutputs, OutputSizes, checked_outputs

FIXED = TensorSpec("y", "FP32", (-1, 4))
FREE = TensorSpec("z", "FP32", (-1, -1))
TEXT = TensorSpec("t", "BYTES", (-1, 1))


def tensor(name: str, *shape: int) -> Tensor:
    return Tensor(name, "FP32", np.zeros(shape, np.float32))


def test_room_is_by_the_description_where_it_says_the_size() -> None:
    sizes = OutputSizes([FIXED])
    assert sizes.room(5) == 128  # 80 bytes, in blocks of 64
    assert not sizes.too_small(10_000, 5), "more is not to be had"
    assert sizes.room(5) == 128


def test_room_for_outputs_of_free_size_grows_with_what_is_seen() -> None:
    sizes = OutputSizes([FREE])
    assert sizes.room(1) == 64 * 1024
    sizes.learn([tensor("z", 2, 10_000)], 2)
    assert sizes.room(4) == 200_000  # 40 000 bytes a row, and a quarter more
    assert sizes.too_small(400_000, 2)
    assert sizes.room(4) == 1_000_000


def test_texts_are_as_long_as_they_were() -> None:
    sizes = OutputSizes([TEXT])
    texts = np.array([[b"x" * 99_996]], object)
    sizes.learn([Tensor("t", "BYTES", texts)], 1)
    assert sizes.room(2) == 250_048  # 2 x 100 000 bytes and a quarter, in blocks of 64


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        ([], "y is missing"),
        ([Tensor("y", "INT32", np.zeros((1, 4), np.int32))], "y is INT32"),
        ([tensor("y", 1, 5)], r"y is \[1, 5\]"),
        ([tensor("y", 4)], r"y is \[4\]"),
    ],
)
def test_outputs_that_the_model_does_not_declare_are_not_believed(outputs: list[Tensor], reason: str) -> None:
    with pytest.raises(Unavailable, match=reason):
        checked_outputs(version(outputs=[FIXED]), outputs)


def test_outputs_as_declared_are_found_by_name() -> None:
    y = tensor("y", 3, 4)
    assert checked_outputs(version(outputs=[FIXED]), [tensor("other", 1), y])["y"] is y


def test_rows_of_several_batches_are_joined_by_their_places_and_named_as_asked() -> None:
    first = {n: Tensor(n, "FP32", np.array([[1.0], [2.0]], np.float32)) for n in "yz"}
    second = {n: Tensor(n, "FP32", np.array([[9.0], [3.0]], np.float32)) for n in "yz"}
    joined = JoinedOutputs(("z", "y", "z"), 3, first)
    joined.put("m", [(2, 1), (0, 1)], first, 0)
    joined.put("m", [(1, 1)], second, 1)
    assert [t.name for t in joined.tensors()] == ["z", "y", "z"]
    assert joined.tensors()[1].array.tolist() == [[2.0], [3.0], [1.0]]
