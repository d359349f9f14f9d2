"""The meaning of a library's errors."""

from __future__ import annotations

import pytest

from edge.core.errors import out_of_memory


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
