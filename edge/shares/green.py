"""MPS plus green contexts: SM shares that change while a worker runs, at its next batch.

The owner publishes one *layout* per GPU: SM counts in slot order, under a generation number, in shared memory. Each
worker holds a slot. At a batch boundary it compares the generation; if it changed, it takes the rung (layout, slot)
of its ladder: a green context on its own group of SMs, and a stream in it. All workers split the device the same way,
so their groups do not overlap. The driver's split needs CUDA 13.1; before that a rung is a cap whose SMs may overlap.

Green contexts isolate SMs only: not memory, cache, bandwidth or faults (docs/shares.md).
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge.core import checks
from edge.core.clock import Clock
from edge.core.errors import ShareError
from edge.core.shares import Grant, LaunchSpec, ResizeOutcome, Role
from edge.shares.bucket import Bucket
from edge.shares.coop import BucketFolder
from edge.shares.gpu import GpuInfo
from edge.shares.mps import MpsControl, MpsPartitioner

#: Names the layout file in a worker's environment.
LAYOUT_ENVIRONMENT = "MAGPIE_SHARE_LAYOUT"

MAX_SLOTS = 48  # clients of one GPU under MPS
_MAGIC = 20262
_F_MAGIC, _F_SEQUENCE, _F_TOTAL, _F_COUNT, _F_FIRST = 0, 1, 2, 3, 4
_SIZE = 8 * (_F_FIRST + MAX_SLOTS)


@dataclass(frozen=True)
class SmLayout:
    """SM counts by slot (0: the slot is empty), `generation` grows with every change."""

    generation: int
    sms: tuple[int, ...]
    total: int

    def groups(self) -> tuple[int, ...]:
        """The counts of the slots that are not empty, in order: every process splits the device into these."""
        return tuple(n for n in self.sms if n > 0)

    def index(self, slot: int) -> int | None:
        """Which of the groups is `slot`'s; None if the slot is empty."""
        if not 0 <= slot < len(self.sms) or self.sms[slot] <= 0:
            return None
        return sum(n > 0 for n in self.sms[:slot])


def fit_layout(shares: Sequence[float], total: int, granule: int) -> tuple[int, ...]:
    """SM counts for shares (0: empty slot): multiples of `granule`, at least one, rounded down, together <= `total`.

    If the shares do not fit, the largest counts give way first. Raises ShareError if even one granule each is too much.
    """
    checks.in_range("granule", granule, 1, max(1, total))
    for n, share in enumerate(shares):
        checks.in_range(f"shares[{n}]", share, 0.0, 1.0)
    counts = [max(granule, int(s * total / granule + 1e-4) * granule) if s > 0 else 0 for s in shares]
    wanted = sum(c > 0 for c in counts)
    if wanted * granule > total:
        raise ShareError(f"{wanted} workers do not fit on {total} SMs in steps of {granule}")
    while sum(counts) > total:
        largest = max(range(len(counts)), key=lambda n: (counts[n], -n))
        counts[largest] -= granule
    return tuple(counts)


class LayoutBoard:
    """The layout in a memory-mapped file: one writer, readers that never wait (sequence lock)."""

    def __init__(self, path: Path, total: int = 0, create: bool = False) -> None:
        self.path = path
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        try:
            fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise ShareError(f"cannot open the layout file {path}: {error.strerror}") from error
        try:
            if create:
                os.ftruncate(fd, _SIZE)
            elif os.fstat(fd).st_size != _SIZE:
                raise ShareError(f"{path} is not a layout file of this version")
            self._board = memoryview(mmap.mmap(fd, _SIZE)).cast("q")
        finally:
            os.close(fd)
        if create:
            self._board[_F_TOTAL] = total
            self._board[_F_MAGIC] = _MAGIC
        elif self._board[_F_MAGIC] != _MAGIC:
            raise ShareError(f"{path} is not a layout file of this version")

    @property
    def generation(self) -> int:
        """The generation of the layout in force (one load: cheap enough for every batch)."""
        return self._board[_F_SEQUENCE] // 2

    def publish(self, sms: Sequence[int]) -> SmLayout:
        """Put a layout in force. Raises ShareError for more slots than there can be."""
        if len(sms) > MAX_SLOTS:
            raise ShareError(f"a layout has at most {MAX_SLOTS} slots, not {len(sms)}")
        b = self._board
        b[_F_SEQUENCE] += 1  # odd: being written
        b[_F_COUNT] = len(sms)
        for n, count in enumerate(sms):
            b[_F_FIRST + n] = count
        b[_F_SEQUENCE] += 1
        return self.read()

    def read(self) -> SmLayout:
        """A consistent copy of the layout in force."""
        b = self._board
        while True:
            before = b[_F_SEQUENCE]
            if before % 2 == 0:
                count = b[_F_COUNT]
                sms = tuple(b[_F_FIRST + n] for n in range(count))
                if b[_F_SEQUENCE] == before:
                    return SmLayout(before // 2, sms, b[_F_TOTAL])
            os.sched_yield()


@dataclass
class Rung:
    """A green context, a stream in it, and the SMs that it really has."""

    context: Any
    stream: Any
    sms: int
    disjoint: bool


class GreenLadder:
    """The worker's side. `api` is the module torch.cuda.green_contexts (passed in: tests give a stand-in).

    Call `stream()` at every batch boundary and run the batch in what it returns. Rungs are kept in a small LRU: each
    holds its own allocator cache and CUDA graphs, so there should be few.
    """

    def __init__(
        self,
        board: LayoutBoard,
        bucket: Bucket,
        api: Any,
        current_stream: Callable[[], Any],
        device: int = 0,
        max_rungs: int = 8,
    ) -> None:
        checks.in_range("max_rungs", max_rungs, 2, 64)
        self._board, self._bucket, self._api = board, bucket, api
        self._current_stream, self._device, self._max = current_stream, device, max_rungs
        self._rungs: OrderedDict[tuple[tuple[int, ...], int], Rung] = OrderedDict()
        self._active: Rung | None = None
        self._generation = -1  # looked at
        self._taken = -1  # in force
        self.switches = 0
        self.failures = 0
        self.last_error = ""

    @staticmethod
    def from_environment(
        bucket: Bucket, api: Any, current_stream: Callable[[], Any], environ: Mapping[str, str] | None = None
    ) -> GreenLadder | None:
        """The ladder on the layout named by the launch environment; None when none is named."""
        path = (os.environ if environ is None else environ).get(LAYOUT_ENVIRONMENT)
        return GreenLadder(LayoutBoard(Path(path)), bucket, api, current_stream) if path else None

    @property
    def rung(self) -> Rung | None:
        """The rung that the last batch ran on; None: the whole of what MPS lets this process use."""
        return self._active

    def stream(self) -> Any | None:
        """The stream for the next batch, None for the default one. Never raises for want of a green context:
        the old rung stays in force and the owner learns which generation could not be taken.
        """
        generation = self._board.generation
        if generation == self._generation:
            return self._active.stream if self._active else None
        layout = self._board.read()
        self._generation = layout.generation
        slot = self._bucket.slot
        index = layout.index(slot) if slot is not None else None
        if index is None:  # not in the layout (yet): the rung in force stays in force
            return self._active.stream if self._active else None
        try:
            rung = self._take(layout.groups(), index)
        except RuntimeError as error:
            self.failures += 1
            self.last_error = str(error)
            seen = self._active.sms if self._active else layout.total
            self._bucket.report_layout(self._taken, seen, layout.generation)
            return self._active.stream if self._active else None
        if rung is not self._active:
            before = self._active.stream if self._active else self._current_stream()
            rung.stream.wait_stream(before)
            self._active = rung
            self.switches += 1
            self._evict()
        self._taken = layout.generation
        self._bucket.report_layout(layout.generation, rung.sms)
        return rung.stream

    def warm(self, groups: Sequence[tuple[tuple[int, ...], int]]) -> int:
        """Make rungs (groups, index) ahead of time, in an idle moment. Returns how many could be made."""
        made = 0
        for sms, index in groups:
            with contextlib.suppress(RuntimeError):
                self._take(sms, index)
                made += 1
        self._evict()
        return made

    def close(self) -> None:
        """Wait for the work in flight, then give all rungs back."""
        for rung in self._rungs.values():
            rung.stream.synchronize()
        self._rungs.clear()
        self._active = None

    # -- inside

    def _take(self, groups: tuple[int, ...], index: int) -> Rung:
        key = (groups, index)
        rung = self._rungs.get(key)
        if rung is None:
            rung = self._rungs[key] = self._make(groups, index)
        self._rungs.move_to_end(key)
        return rung

    def _make(self, groups: tuple[int, ...], index: int) -> Rung:
        disjoint = True
        try:
            parts, _ = self._api.SMPartition.from_device(self._device).split(num_sms=groups)
            try:
                context = self._api.GreenContext(sm_partition=parts[index], workqueue_scope="balanced")
            except RuntimeError:  # work queues cannot be configured: SMs alone are still a share
                context = self._api.GreenContext(sm_partition=parts[index])
        except RuntimeError:
            # A driver before 13.1, or counts that it does not split into: a cap on SMs that others may use too.
            disjoint = False
            context = self._api.GreenContext(num_sms=groups[index], device_id=self._device)
        return Rung(context, context.Stream(), int(context.sm_count), disjoint)

    def _evict(self) -> None:
        while len(self._rungs) > self._max:
            key = next(k for k, rung in self._rungs.items() if rung is not self._active)
            rung = self._rungs.pop(key)
            rung.stream.synchronize()  # a context must outlive its work


class MpsGreenPartitioner(MpsPartitioner):
    """Live shares in SMs. MPS makes processes run side by side (percentage left at 100), green contexts part the SMs.

    `granule` is the step in SMs (8 from compute capability 9.0 on, 2 before). Shares that together exceed the device
    while a resize is under way are fitted: the largest gives way until the others have shrunk.
    """

    def __init__(
        self,
        gpu: GpuInfo,
        control: MpsControl,
        granule: int,
        buckets: BucketFolder | None = None,
        clock: Clock | None = None,
        memory_limit_bytes: Mapping[Role, int] | None = None,
        evidence: str = "",
    ) -> None:
        if not gpu.sms:
            raise ShareError("green contexts need the number of SMs, which the probe did not find")
        super().__init__(gpu, control, buckets, clock, memory_limit_bytes, evidence)
        self._sms, self._granule = gpu.sms, granule
        step = granule / gpu.sms
        self._set_caps(kind="mps+green", resize="live", step=step, min_share=step, oversubscribe=False)
        self._slots: dict[str, int] = {}
        self._targets: dict[str, float] = {}
        self._board = LayoutBoard(self._buckets.path / "layout", gpu.sms, create=True)

    @property
    def layout(self) -> SmLayout:
        """The layout in force."""
        return self._board.read()

    def launch_spec(self, worker: str, role: Role, share: float) -> LaunchSpec:
        spec = super().launch_spec(worker, role, share)
        self._buckets.open(worker).set_slot(self._slot(worker))
        env = {k: v for k, v in spec.env.items() if k != "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"}
        return LaunchSpec({**env, LAYOUT_ENVIRONMENT: str(self._board.path)}, spec.threads, spec.nice)

    def attach(self, worker: str, role: Role, pid: int, share: float) -> Grant:
        grant = super().attach(worker, role, pid, share)
        self._buckets.open(worker).set_slot(self._slot(worker))
        before = dict(self._targets)
        self._targets[worker] = grant.share
        try:
            self._publish()
        except ShareError:
            self._targets = before
            self.detach(worker)
            raise
        return grant

    def resize(self, worker: str, share: float) -> ResizeOutcome:
        granted = self._resizable(worker, share)
        began = self._clock.monotonic()
        file = self._buckets.open(worker)
        counters = file.counters()
        if counters.failed_generation > counters.seen_generation:
            return ResizeOutcome(False, reason=f"{worker} could not take layout {counters.failed_generation}")
        self._read(worker)  # use until now is booked at the old scale
        file.set_rate(0.0 if granted == 0.0 else float("inf"))
        self._targets[worker] = granted or self._caps.min_share  # a paused worker keeps the smallest group
        self._publish()
        self._ledger.resize(worker, share, granted)
        return ResizeOutcome(True, self._clock.monotonic() - began)

    def detach(self, worker: str) -> None:
        super().detach(worker)
        self._slots.pop(worker, None)
        if self._targets.pop(worker, None) is not None:
            self._publish()

    def healthy(self) -> str | None:
        trouble = super().healthy()
        if trouble is not None:
            return trouble
        generation = self._board.generation
        for worker in self._ledger.running():
            file = self._buckets.get(worker)
            if file is not None and file.counters().failed_generation == generation:
                return f"worker {worker} could not take the SM layout {generation}; its old share is in force"
        return None

    # -- inside

    def _slot(self, worker: str) -> int:
        if worker not in self._slots:
            taken = set(self._slots.values())
            free = next((n for n in range(MAX_SLOTS) if n not in taken), None)
            if free is None:
                raise ShareError(f"{self._gpu.id} takes at most {MAX_SLOTS} workers")
            self._slots[worker] = free
        return self._slots[worker]

    def _publish(self) -> None:
        by_slot = {self._slots[w]: share for w, share in self._targets.items()}
        shares = [by_slot.get(n, 0.0) for n in range(max(by_slot, default=-1) + 1)]
        self._board.publish(fit_layout(shares, self._sms, self._granule))

    def _rate(self, worker: str, granted: float) -> float:
        return float("inf")

    def _scale(self, worker: str) -> float:
        file = self._buckets.get(worker)
        seen = file.counters().visible_units if file is not None else None
        return (seen or self._targets.get(worker, 1.0) * self._sms) / self._sms
