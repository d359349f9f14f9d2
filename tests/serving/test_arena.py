"""Shared memory between front and executor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValue, Overloaded, Unavailable
from edge.serving.arena import ALIGNMENT, Arena, ArenaFull, Mapped, decode_bytes, encode_bytes, encoded_bytes


def other_side(arena: Arena) -> Mapped:
    return Mapped(os.dup(arena.fd), arena.size)


def test_both_sides_see_the_same_memory_without_a_copy() -> None:
    arena = Arena(4096)
    executor = other_side(arena)
    at = arena.allocate(64)
    ours = arena.array("FP32", (2, 3), at)
    theirs = executor.array("FP32", (2, 3), at)
    ours[...] = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert theirs.tolist() == [[0, 1, 2], [3, 4, 5]]
    theirs[1, 2] = 7
    assert ours[1, 2] == 7
    arena.close()
    executor.close()
    assert ours.tolist() == [[0, 1, 2], [3, 4, 7]]  # a view keeps the memory
    with pytest.raises(Unavailable, match="closed"):
        arena.array("FP32", (1,), 0)
    arena.close()


def test_an_executor_cannot_change_the_size() -> None:
    arena = Arena(8192)
    with pytest.raises(PermissionError):
        os.ftruncate(arena.fd, 0)
    with pytest.raises(PermissionError):
        os.ftruncate(arena.fd, 1 << 20)
    with pytest.raises(InvalidValue, match="4096"):
        Mapped(os.dup(arena.fd), 4096)
    arena.close()


def test_places_outside_are_refused() -> None:
    arena = Arena(4096)
    for call in (
        lambda: arena.array("FP32", (1024,), 4),
        lambda: arena.array("FP32", (1,), -4),
        lambda: arena.view(0, 4097),
        lambda: arena.read("FP32", (3,), 0, 11),
        lambda: arena.free(64),
        lambda: Arena(10),
    ):
        with pytest.raises(InvalidValue):
            call()
    with pytest.raises(ArenaFull):
        arena.write("FP32", np.zeros(5, np.float32), 0, 16)
    arena.close()


def test_exhaustion_is_an_error_that_is_counted() -> None:
    arena = Arena(1024)
    first = arena.allocate(1000)
    with pytest.raises(ArenaFull, match="1024 of 1024 bytes are in use") as error:
        arena.allocate(1)
    assert isinstance(error.value, Overloaded)
    assert arena.exhausted == 1
    arena.free(first)
    assert arena.used == 0
    assert arena.peak == 1024
    assert arena.allocate(1024) == 0
    arena.close()


@given(st.lists(st.one_of(st.integers(0, 700), st.tuples(st.just("free"), st.integers(0, 20))), max_size=60))
def test_blocks_never_overlap_and_all_comes_back(steps: list[int | tuple[str, int]]) -> None:
    arena = Arena(4096)
    held: dict[int, int] = {}
    for step in steps:
        if isinstance(step, int):
            try:
                at = arena.allocate(step)
            except ArenaFull:
                continue
            assert at % ALIGNMENT == 0
            assert at + step <= arena.size
            for offset, size in held.items():
                assert at + max(step, 1) <= offset or offset + size <= at
            held[at] = max(step, 1)
        elif held:
            offset = sorted(held)[step[1] % len(held)]
            arena.free(offset)
            del held[offset]
        assert arena.blocks == len(held)
        assert arena.used >= sum(held.values())
    for offset in held:
        arena.free(offset)
    assert arena.used == 0
    assert arena.allocate(arena.size) == 0  # one whole block again
    arena.close()


@given(st.lists(st.binary(max_size=20), max_size=12))
def test_bytes_elements_round_trip(items: list[bytes]) -> None:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    content = bytearray(encoded_bytes(array))
    assert encode_bytes(array, memoryview(content), 0) == len(content)
    assert decode_bytes(bytes(content), array.shape).tolist() == items
    with pytest.raises(InvalidValue):
        decode_bytes(bytes(content) + b"x", array.shape)


@given(st.binary(max_size=40), st.lists(st.integers(0, 4), max_size=3))
def test_bytes_of_any_content_are_read_or_refused(content: bytes, shape: list[int]) -> None:
    try:
        found = decode_bytes(content, shape)
    except InvalidValue:
        return
    assert encoded_bytes(found) == len(content)


def shared_memory_kib() -> int:
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Shmem:"))


def test_nothing_is_left_after_kill_9() -> None:
    size = 256 * 2**20
    code = (
        "import sys, time; from edge.serving.arena import Arena\n"
        f"a = Arena({size}); a.array('UINT8', ({size},), 0)[:] = 1\n"
        "print('full', flush=True); time.sleep(60)"
    )
    names = set(os.listdir("/dev/shm"))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert child.stdout is not None
    assert child.stdout.readline() == b"full\n"
    during = shared_memory_kib()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    ends = time.monotonic() + 20
    while during - shared_memory_kib() < size // 1024 // 2:  # others may use shared memory too
        assert time.monotonic() < ends, "the memory of a killed front is still in use"
        time.sleep(0.02)
    assert not {n for n in set(os.listdir("/dev/shm")) - names if "magpie-arena" in n}
