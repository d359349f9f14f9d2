"""Worker main of one executor: a process that holds one gpu-let, and runs the batches that the front sends.

Models are loaded and warmed by a thread of low priority before this executor reports to the front; the share is for
batches. Loading more (`SetVersions`) goes on beside serving, and holds it up while the interpreter is held: where that
matters, start another executor beside this one instead.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from edge.core.errors import MagpieError, Unavailable, WeightsError
from edge.core.front_messages import ServedVersion
from edge.runtime.device import WorkerShare, open_bucket, torch_device
from edge.runtime.process import Channel, Retire, Stop, TakeOver
from edge.serving.executor_link import ExecutorLink
from edge.serving.link_messages import LinkLost, Loaded
from edge.shares.bucket import Bucket, CpuMeter

if TYPE_CHECKING:  # the control process names this worker, and never loads torch
    from edge.serving.execution import LoadedModels

#: A front that is gone is looked for so long; the Supervisor starts another one at once.
RECONNECT_S = 20.0
_RETRY_S = 0.05
#: The main loop looks at commands so often while no batch comes.
_SLICE_S = 0.1
#: After it has announced that it leaves, an executor waits so long for batches that were on their way.
_LEAVE_S = 0.3
#: Priority of loading before serving: an executor that was lost is to be back in seconds on a busy machine, and its
#: neighbours' batches come first all the same. With five busy processes per core a ResNet-18 was there after 1.2 s at
#: 0, 3 s at 5, 6 s at 10.
_LOADING_NICE = 5


@dataclass(frozen=True)
class ExecutorSpec:
    """An executor: its name and secret for the front at `socket`, and its models. `batches[model]` are the sizes
    to warm; by default one row and the largest batch. `nice` is the priority of loading (0 to 19)."""

    executor: str
    socket: str
    token: str
    versions: tuple[ServedVersion, ...]
    batches: Mapping[str, Sequence[int]] = field(default_factory=dict)
    reconnect_s: float = RECONNECT_S
    nice: int = _LOADING_NICE


@dataclass(frozen=True)
class SetVersions:
    """To the worker: serve exactly these from now on; new ones are loaded and warmed before any is dropped."""

    versions: tuple[ServedVersion, ...]


@dataclass(frozen=True)
class NotLoaded:
    """A version that cannot be loaded, and why."""

    model: str
    version: str
    reason: str


@dataclass(frozen=True)
class VersionsLoaded:
    """From the worker: `model/version` of each version that it serves now, and the others."""

    executor: str
    loaded: tuple[str, ...]
    failed: tuple[NotLoaded, ...]


def executor_worker(channel: Channel, spec: ExecutorSpec) -> None:
    """Runs until it gets the order to stop. Raises WeightsError if nothing can be loaded, Unavailable if no front
    answers.
    """
    worker = _ExecutorWorker(channel, spec)
    try:
        worker.run()
    finally:
        worker.close()


def open_share() -> WorkerShare:
    """The share of this worker. On a CPU the time of the main thread alone is charged, which runs all batches: a
    version that is loaded beside does not make requests wait."""
    if torch_device() == "cpu":
        return WorkerShare(Bucket.from_environment(meter=CpuMeter(time.thread_time)))
    return open_bucket()


class _Loading:
    """Loads in a thread; `done` holds what came of it."""

    def __init__(self, versions: tuple[ServedVersion, ...], missing: tuple[ServedVersion, ...], spec: ExecutorSpec,
                 device: str, nice: int) -> None:  # fmt: skip
        self.versions = versions
        self.done: queue.SimpleQueue[LoadedModels | BaseException] = queue.SimpleQueue()
        self._missing, self._spec, self._device, self._nice = missing, spec, device, nice
        threading.Thread(target=self._run, name="loading", daemon=True).start()

    def _run(self) -> None:
        import torch

        from edge.serving.execution import load_versions

        torch.set_num_threads(1)  # counts for each thread by itself
        if self._nice:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._nice)
        try:
            batches = {**{v.model: (1, v.max_batch) for v in self._missing}, **self._spec.batches}
            self.done.put(load_versions(self._missing, self._device, batches))
        except BaseException as error:  # handed to the main thread, which raises it
            self.done.put(error)


class _ExecutorWorker:
    def __init__(self, channel: Channel, spec: ExecutorSpec) -> None:
        from edge.serving.execution import Execution

        self._channel, self._spec = channel, spec
        self._share = open_share()
        self._execution = Execution(self._share, self._share.device, channel.beating)
        self._link: ExecutorLink | None = None
        self._lost_at = time.monotonic()
        self._try_at = 0.0
        self._loading: _Loading | None = None
        self._wanted: list[tuple[ServedVersion, ...]] = []

    def run(self) -> None:
        if not self._start():
            return
        self._lost_at = time.monotonic()
        while True:
            self._channel.beat()
            order = self._channel.receive()
            if isinstance(order, SetVersions):
                self._wanted.append(order.versions)
            elif isinstance(order, (Stop, Retire)):
                self._leave()
                if isinstance(order, Retire):
                    self._channel.retired()
                return
            self._load_more()
            if self._link is None:
                self._connect()
            else:
                self._serve(_SLICE_S)

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        self._share.close()

    # -- loading

    def _start(self) -> bool:
        """Load and warm everything, then stand by if so ordered. False: stopped meanwhile."""
        self._wanted.append(self._spec.versions)
        standing_by = self._channel.standby
        warm = False
        while True:
            self._channel.beat()
            self._load_more(self._spec.nice)
            if self._loading is None and not self._wanted and not warm:
                warm = True
                if not self._execution.keys and self._spec.versions:
                    raise WeightsError("; ".join(self._execution.failed.values()) or "no model could be loaded")
                self._channel.ready()
            if warm and not standing_by:
                return True
            order = self._channel.receive(_RETRY_S)
            if isinstance(order, Stop):
                return False
            if isinstance(order, Retire):
                self._channel.retired()
                return False
            if isinstance(order, SetVersions):
                self._wanted.append(order.versions)
            if isinstance(order, TakeOver):
                standing_by = False
                if isinstance(order.argument, ExecutorSpec):
                    if order.argument.versions != self._spec.versions:
                        self._wanted.append(order.argument.versions)
                    self._spec = order.argument

    def _load_more(self, nice: int = 0) -> None:
        """Begin to load what is wanted; take over what has been loaded. Never waits."""
        if self._loading is None and self._wanted:
            versions = self._wanted.pop(0)
            self._loading = _Loading(versions, self._execution.missing(versions), self._spec, self._share.device, nice)
        if self._loading is None:
            return
        try:
            came = self._loading.done.get_nowait()
        except queue.Empty:
            return
        if isinstance(came, BaseException):
            raise came
        before, versions = self._execution.keys, self._loading.versions
        self._execution.replace(versions, came)
        self._loading = None
        if self._link is not None and self._execution.keys != before:
            self._send_loaded(self._execution.keys)
        reasons = self._execution.failed
        failed = tuple(NotLoaded(v.model, v.version, reasons[v.key]) for v in versions if v.key in reasons)
        self._channel.send(VersionsLoaded(self._spec.executor, self._execution.keys, failed))

    # -- serving

    def _connect(self) -> None:
        now = time.monotonic()
        if now < self._try_at:
            time.sleep(self._try_at - now)
        try:
            self._link = ExecutorLink.connect(
                Path(self._spec.socket), self._spec.executor, self._spec.token, self._execution.keys, 1.0
            )
        except MagpieError as error:
            if time.monotonic() - self._lost_at > self._spec.reconnect_s:
                raise Unavailable(f"executor {self._spec.executor} finds no serving front: {error}") from error
            self._try_at = time.monotonic() + _RETRY_S

    def _serve(self, timeout_s: float) -> bool:
        """The next batch, if one comes in time. False: none came, or the front is gone."""
        assert self._link is not None
        try:
            batch = self._link.receive(timeout_s)
            if batch is not None:
                self._execution.run(self._link, batch)
            return batch is not None
        except LinkLost:
            self._lose()
            return False

    def _lose(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None
        self._lost_at = time.monotonic()
        self._try_at = 0.0

    def _send_loaded(self, keys: tuple[str, ...]) -> None:
        try:
            assert self._link is not None
            self._link.send(Loaded(keys))
        except LinkLost:
            self._lose()

    def _leave(self) -> None:
        """Tell the front to send nothing more, and answer what it has sent."""
        if self._link is None:
            return
        self._send_loaded(())
        ends = time.monotonic() + _LEAVE_S
        while self._link is not None and time.monotonic() < ends:
            self._channel.beat()
            if self._serve(0.05):
                ends = time.monotonic() + _LEAVE_S
