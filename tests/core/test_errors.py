"""The meaning of a library's errors."""

from __future__ import annotations

import pickle

import pytest

from edge.core.errors import InvalidValue, MagpieError, NotFound, Unavailable, out_of_memory, reported_error


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (MemoryError(), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            True,
        ),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("could not create a primitive"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_it_is_known_that_memory_ran_out(error: Exception, memory: bool) -> None:
    assert out_of_memory(error) is memory


@pytest.mark.parametrize(
    ("code", "kind"), [("not_found", NotFound), ("invalid_value", InvalidValue), ("of a newer version", Unavailable)]
)
def test_an_error_that_another_process_reports_keeps_its_kind_and_message(code: str, kind: type[MagpieError]) -> None:
    error = reported_error(code, "m: what came")
    assert isinstance(error, kind)
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "m: what came"
