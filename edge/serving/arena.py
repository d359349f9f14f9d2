"""Shared memory between the serving front and one executor: tensors go through it, messages name places in it.

The memory has no name anywhere (Linux memfd): it is gone when both processes are, however they end. Its size is sealed,
so that an executor, which runs untrusted models, cannot cut it short under the front's feet (SIGBUS).
Pages are taken from the machine when they are first written, not when the arena is made.
"""

from __future__ import annotations

import bisect
import fcntl
import math
import mmap
import os
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core.errors import InvalidValue, Overloaded, Unavailable
from edge.core.oip import DATATYPES

#: Every block begins at a multiple of this: vector instructions and cache lines.
ALIGNMENT = 64
#: Default size of an arena; only the used part is taken from the machine.
ARENA_BYTES = 256 * 2**20

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_LENGTH = struct.Struct("<I")


class ArenaFull(Overloaded):
    """No room is left for a batch's tensors until another batch is released."""

    code = "arena_full"


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to whole blocks; at least one."""
    return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)


def tensor_bytes(datatype: str, shape: Sequence[int]) -> int:
    """Bytes of a tensor of fixed-size elements. Raises InvalidValue for BYTES, whose size is in its content."""
    if datatype == "BYTES":
        raise InvalidValue("datatype", datatype, "a datatype of fixed size")
    return DATATYPES[datatype].itemsize * math.prod(shape)


def encoded_bytes(array: NDArray[Any]) -> int:
    """Bytes that an array of BYTES objects takes in the protocol's encoding (4-byte length before each element)."""
    return sum(4 + len(item) for item in array.flat)


def encode_bytes(array: NDArray[Any], into: memoryview, at: int) -> int:
    """Write an array of bytes objects in the protocol's encoding, row-major. Returns where it ends."""
    for item in array.flat:
        _LENGTH.pack_into(into, at, len(item))
        at += 4
        into[at : at + len(item)] = item
        at += len(item)
    return at


def decode_bytes(content: bytes, shape: Sequence[int]) -> NDArray[Any]:
    """Read BYTES elements (a private copy: the writer may still be writing). Raises InvalidValue if they do not
    fill `content` exactly."""
    count = math.prod(shape)
    items: list[bytes] = []
    at, size = 0, len(content)
    while len(items) < count and at + 4 <= size:
        (length,) = _LENGTH.unpack_from(content, at)
        if at + 4 + length > size:
            break
        items.append(content[at + 4 : at + 4 + length])
        at += 4 + length
    if len(items) != count or at != size:
        raise InvalidValue("tensor", f"{len(items)} elements in {at} of {size} bytes", f"{count} elements of BYTES")
    array = np.empty(count, dtype=object)
    array[:] = items
    return array.reshape(tuple(shape))


class Mapped:
    """One side's mapping of an arena of `size` bytes behind the descriptor `fd`, which belongs to this object."""

    def __init__(self, fd: int, size: int) -> None:
        self.fd, self.size = fd, size
        self._memory: memoryview | None = None
        try:
            if os.fstat(fd).st_size != size:
                raise InvalidValue("arena", os.fstat(fd).st_size, f"a memory of {size} bytes")
            # Never closed but dropped: arrays refer to this memoryview, and so keep the mapping while they live.
            self._memory = memoryview(mmap.mmap(fd, size, mmap.MAP_SHARED))
        except BaseException:
            os.close(fd)
            raise

    def view(self, offset: int, nbytes: int) -> memoryview:
        """Bytes of the arena, writable, without a copy. Raises InvalidValue outside the arena."""
        if offset < 0 or nbytes < 0 or offset + nbytes > self.size:
            raise InvalidValue("arena", [offset, nbytes], f"a place inside {self.size} bytes")
        return self._bytes()[offset : offset + nbytes]

    def array(self, datatype: str, shape: Sequence[int], offset: int) -> NDArray[Any]:
        """A numpy view of a tensor of fixed-size elements, without a copy. Raises InvalidValue outside the arena."""
        nbytes = tensor_bytes(datatype, shape)
        if offset < 0 or offset + nbytes > self.size:
            raise InvalidValue("arena", [offset, nbytes], f"a place inside {self.size} bytes")
        return np.ndarray(tuple(shape), DATATYPES[datatype], buffer=self._bytes(), offset=offset)

    def read(self, datatype: str, shape: Sequence[int], offset: int, nbytes: int) -> NDArray[Any]:
        """A tensor that the other side wrote: a view, or for BYTES a decoded copy. Raises InvalidValue if `nbytes` do
        not fit `shape`."""
        if datatype == "BYTES":
            return decode_bytes(bytes(self.view(offset, nbytes)), shape)
        if tensor_bytes(datatype, shape) != nbytes:
            raise InvalidValue("tensor", nbytes, f"{tensor_bytes(datatype, shape)} bytes for {datatype} {list(shape)}")
        return self.array(datatype, shape, offset)

    def write(self, datatype: str, array: NDArray[Any], offset: int, limit: int) -> int:
        """Copy a tensor to `offset`; returns its bytes. Raises ArenaFull if it needs more than `limit`."""
        nbytes = encoded_bytes(array) if datatype == "BYTES" else tensor_bytes(datatype, array.shape)
        if nbytes > limit:
            raise ArenaFull(f"a tensor of {nbytes} bytes does not fit into the {limit} bytes that are left for it")
        if datatype == "BYTES":
            encode_bytes(array, self.view(offset, nbytes), 0)
        else:
            self.array(datatype, array.shape, offset)[...] = array
        return nbytes

    def close(self) -> None:
        """Give the memory back; views that are still held keep it until they go. Safe to repeat."""
        if self._memory is not None:
            self._memory = None
            os.close(self.fd)

    def _bytes(self) -> memoryview:
        if self._memory is None:
            raise Unavailable("the arena is closed")
        return self._memory


class Arena(Mapped):
    """The front's side: makes the memory and gives out blocks of it. Used from one thread.

    The lowest block that is large enough is taken, so that pages once touched are used again.
    """

    def __init__(self, size: int = ARENA_BYTES) -> None:
        """Raises InvalidValue for a size below one block, Unavailable if the machine gives no memory."""
        if size < ALIGNMENT:
            raise InvalidValue("arena.size", size, f"at least {ALIGNMENT} bytes")
        size = aligned(size)
        try:
            fd = os.memfd_create("magpie-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError as error:
            raise Unavailable(f"no shared memory for an executor: {error.strerror}") from error
        try:
            os.ftruncate(fd, size)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        except OSError as error:
            os.close(fd)
            raise Unavailable(f"no shared memory of {size} bytes for an executor: {error.strerror}") from error
        super().__init__(fd, size)
        self._free: list[tuple[int, int]] = [(0, size)]  # (offset, bytes), ascending, never adjacent
        self._taken: dict[int, int] = {}
        self.used = 0
        self.peak = 0
        self.exhausted = 0

    def allocate(self, nbytes: int) -> int:
        """The offset of a block of at least `nbytes`. Raises ArenaFull (counted in `exhausted`)."""
        wanted = aligned(nbytes)
        for n, (offset, room) in enumerate(self._free):
            if room >= wanted:
                if room == wanted:
                    del self._free[n]
                else:
                    self._free[n] = (offset + wanted, room - wanted)
                self._taken[offset] = wanted
                self.used += wanted
                self.peak = max(self.peak, self.used)
                return offset
        self.exhausted += 1
        raise ArenaFull(
            f"no block of {nbytes} bytes is free: {self.used} of {self.size} bytes are in use by running batches"
        )

    def free(self, offset: int) -> None:
        """Give a block back. Raises InvalidValue if it was not given out."""
        size = self._taken.pop(offset, None)
        if size is None:
            raise InvalidValue("arena.offset", offset, "a block that was given out")
        self.used -= size
        at = bisect.bisect_left(self._free, (offset, 0))
        if at < len(self._free) and self._free[at][0] == offset + size:
            size += self._free.pop(at)[1]
        if at > 0 and sum(self._free[at - 1]) == offset:
            offset, size = self._free[at - 1][0], self._free[at - 1][1] + size
            at -= 1
            self._free[at] = (offset, size)
        else:
            self._free.insert(at, (offset, size))

    @property
    def blocks(self) -> int:
        """Blocks given out and not yet free."""
        return len(self._taken)
