"""Requests that fit their model: inputs in the model's order, and what requests of one batch have in common."""

from __future__ import annotations

import numpy as np
from front_kit import request, version

from edge.core.oip import InferRequest, Tensor, TensorSpec
from edge.serving.requests import check, nbytes_of


def test_inputs_are_in_the_models_order() -> None:
    a, b = Tensor("a", "FP32", np.zeros((2, 1), np.float32)), Tensor("b", "FP32", np.ones((2, 1), np.float32))
    of = version(inputs=[TensorSpec("a", "FP32", (-1, 1)), TensorSpec("b", "FP32", (-1, 1))])
    asked = check(of, InferRequest("m", (b, a), id="7", outputs=("y",)))
    assert asked.inputs[0] is a.array
    assert asked.inputs[1] is b.array
    assert (asked.id, asked.rows, asked.kind, asked.wanted, asked.origin.pinned) == ("7", 2, None, ("y",), False)


def test_requests_of_free_shape_share_batches_with_their_like() -> None:
    of = version(inputs=[TensorSpec("x", "FP32", (-1, -1))])
    assert check(of, request(width=3)).kind == check(of, request(width=3, rows=2)).kind == ((3,),)
    assert check(of, request(width=4)).kind != ((3,),)


def test_a_request_for_a_version_is_pinned_to_it() -> None:
    assert check(version(), request(version="1")).origin.pinned


def test_texts_count_with_what_an_object_takes() -> None:
    texts = np.array([[b"abc"], [b""]], object)
    assert nbytes_of([Tensor("t", "BYTES", texts)]) == 3 + 2 * 64
    assert nbytes_of(request(rows=2).inputs) == 32
