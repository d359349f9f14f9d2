"""Runs the batches of one gpu-let: loaded models, one batch at a time, in the order in which the front sends them.

How long a batch takes under a share. On a GPU the share is a part of the device, and a batch simply takes longer there.
On a CPU a batch of a model that needs c CPU seconds runs without a pause, in c seconds; its use is owed to the bucket,
and the next batch of the gpu-let, of whichever model, begins when that is paid: c / (share x cores) after this one
began. So in steady use every batch takes exactly its planned time c / (share x cores) from its predecessor's end or
from its own arrival, whichever is later, and one that comes after a pause is answered sooner, in c. A plan that counts
c / (share x cores) for each batch of a duty cycle (which is what the profiler measures in steady use) is never missed
by the share itself. The bucket saves up one batch at most (edge.shares.bucket: 20 ms, or the largest batch up to 250
ms): that is the right burst here. With less, the first batch after a pause would wait for no reason; with more, a
gpu-let could run several batches at full speed that its neighbours pay for. The kernel's quota behind the bucket has
periods of 0.1 to 1 s and 15 % of room, and does not cut batches that keep to the bucket.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from edge.core.errors import MagpieError, NotFound, WorkerFailed
from edge.core.front_messages import ServedVersion
from edge.core.oip import Tensor
from edge.serving.arena import ArenaFull
from edge.serving.backends import DeviceFailed, Model, ModelFailed, OutOfMemory, load
from edge.serving.executor_link import ExecutorLink, needed_room
from edge.serving.link_messages import Batch, Done, Failed, Times

log = logging.getLogger(__name__)


class Share(Protocol):
    """The share of this process (edge.runtime.device.WorkerShare)."""

    def batch(self, stop: Callable[[], bool] | None = None) -> AbstractContextManager[bool]:
        """Wait until allowed, run the body, charge what it used."""


@dataclass(frozen=True)
class LoadedModels:
    """The result of loading: models by `model/version`, and why others could not be loaded."""

    models: Mapping[str, Model] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)


def load_versions(
    versions: Iterable[ServedVersion],
    device: str,
    batches: Mapping[str, Sequence[int]] | None = None,
    breathe: Callable[[], None] = lambda: None,
) -> LoadedModels:
    """Load and warm versions; one that fails does not keep the others from being served.

    `batches[model]` are the sizes to warm (None: 1 and the largest). `breathe` is called between steps.
    """
    models: dict[str, Model] = {}
    failed: dict[str, str] = {}
    for version in versions:
        breathe()
        try:
            model = load(version, device)
            model.warm(None if batches is None else batches.get(version.model), breathe)
        except MagpieError as error:
            log.error("%s cannot be served: %s", version.key, error)
            failed[version.key] = str(error)
        else:
            models[version.key] = model
    return LoadedModels(models, failed)


class Execution:
    """The models of one gpu-let and its share. Used from one thread."""

    def __init__(self, share: Share, device: str, beat: Callable[[], bool] = lambda: False) -> None:
        """`beat` is called while a batch waits for the share; it says whether to stop waiting."""
        self._share, self._device, self._beat = share, device, beat
        self._models: dict[str, Model] = {}
        self._failed: dict[str, str] = {}
        self.batches = 0
        self.rows = 0
        self.failures = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """`model/version` of all that can be run."""
        return tuple(self._models)

    @property
    def failed(self) -> Mapping[str, str]:
        """Versions that were to be served and could not be loaded, with the reason."""
        return self._failed

    def missing(self, versions: Iterable[ServedVersion]) -> tuple[ServedVersion, ...]:
        """Those of `versions` that are not loaded, or have other content than those that are."""
        return tuple(v for v in versions if v.key not in self._models or self._models[v.key].version.digest != v.digest)

    def replace(self, versions: Iterable[ServedVersion], loaded: LoadedModels) -> None:
        """Between two batches: serve exactly `versions`, out of what is loaded here already and in `loaded`."""
        keys = [v.key for v in versions]
        there = {**self._models, **loaded.models}
        dropped = self._models.keys() - set(keys)
        self._models = {key: there[key] for key in keys if key in there}
        self._failed = {key: why for key, why in loaded.failed.items() if key in keys and key not in self._models}
        if dropped:
            gc.collect()
            self._release()

    def run(self, link: ExecutorLink, batch: Batch) -> None:
        """Run one batch and answer it, also after an error.

        Raises LinkLost (the front is gone; the batch is lost, and the front knows), WorkerFailed (the device can no
        longer be used by this process).
        """
        came = time.perf_counter()
        began = read = computed = came
        self.batches += 1
        self.rows += batch.rows
        try:
            with self._share.batch(self._beat):
                began = time.perf_counter()
                model = self._models.get(batch.key)
                if model is None:
                    raise self._absent(batch.key)
                inputs = link.inputs(batch)
                read = time.perf_counter()
                found = model.run(inputs)
                computed = time.perf_counter()
                outputs = [Tensor(s.name, s.datatype, found[s.name]) for s in model.version.outputs]
                try:
                    placed = link.place(batch, outputs)
                except ArenaFull as error:
                    self._fail(link, batch, "output_too_large", str(error), Times(began - came), needed_room(outputs))
                    return
            times = Times(began - came, read - began, computed - read, time.perf_counter() - computed)
            link.send(Done(batch.number, placed, times))
        except ModelFailed as error:
            self._fail(link, batch, error.code, str(error), Times(began - came))
            if isinstance(error, DeviceFailed):
                raise WorkerFailed(f"the GPU refuses this process since {batch.key}: {error.message}") from error
        except OutOfMemory as error:
            self._release()
            self._fail(link, batch, error.code, str(error), Times(began - came))
        except MemoryError:
            self._fail(link, batch, OutOfMemory.code, f"{batch.key} ran out of memory", Times(began - came))
        except MagpieError as error:
            if error.code == "link_lost":
                raise
            self._fail(link, batch, error.code, str(error), Times(began - came))

    def _absent(self, key: str) -> MagpieError:
        why = self._failed.get(key)
        return ModelFailed(why) if why else NotFound(f"{key} is not loaded in this executor")

    def _fail(self, link: ExecutorLink, batch: Batch, code: str, reason: str, times: Times, needed: int = 0) -> None:
        self.failures += 1
        link.send(Failed(batch.number, code, reason, needed, times))

    def _release(self) -> None:
        if self._device == "cuda":
            import torch

            torch.cuda.empty_cache()
