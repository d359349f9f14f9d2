"""Calibrated loads on what partitions of one device share: its last cache and its memory.

Each is a stressor and a probe at once: run beside a model it presses on the resource; its own slowdown beside a model
tells how much that model presses (Bubble-Up measures pressure and sensitivity this way; gpu-lets reads counters of L2
and DRAM instead, which a CPU in a virtual machine and most GPUs without administrator rights do not show).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from edge.core import checks

CACHE, STREAM = "cache", "stream"
STRESSORS = (CACHE, STREAM)

#: Assumed size of the last cache where the machine does not tell.
_USUAL_CACHE = 8 << 20
_STEPS = 1 << 15
_SLICE = 8 << 20


class Stressor(Protocol):
    """A fixed amount of work that leans on one resource."""

    name: str

    def run(self) -> None:
        """Do it once; returns when it is done."""


def last_cache_bytes(device: str, sysfs: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """Size of the cache that partitions of the device share: the CPU's last level, the GPU's L2."""
    if device != "cpu":
        import torch

        return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)) or _USUAL_CACHE
    sizes = []
    for index in sorted(sysfs.glob("index*")):
        try:
            level, text = int((index / "level").read_text()), (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0)
        number = text[:-1] if unit else text
        if number.isdigit():
            sizes.append((level, int(number) << unit))
    return max(sizes)[1] if sizes else _USUAL_CACHE


class CacheStressor:
    """Follows many chains of random places through half of the last cache: slow as soon as another process fills it."""

    name = CACHE

    def __init__(self, device: str = "cpu", cache_bytes: int | None = None) -> None:
        import torch

        size = cache_bytes if cache_bytes is not None else last_cache_bytes(device)
        count = max(1024, min(size // 2, 64 << 20) // 8)
        generator = torch.Generator().manual_seed(20)
        self._next = torch.randperm(count, generator=generator).to(device)
        chains = min(count, _STEPS if device == "cpu" else 64 * _STEPS)
        self._at = torch.randint(count, (chains,), generator=generator).to(device)
        self._then = torch.empty_like(self._at)
        self._torch: Any = torch
        self._cuda = device != "cpu"

    def run(self) -> None:
        """Four steps of every chain."""
        for _ in range(4):
            self._torch.index_select(self._next, 0, self._at, out=self._then)
            self._at, self._then = self._then, self._at
        if self._cuda:
            self._torch.cuda.current_stream().synchronize()


class StreamStressor:
    """Copies through memory far larger than the caches, a slice per run: uses what bandwidth there is."""

    name = STREAM

    def __init__(self, device: str = "cpu", cache_bytes: int | None = None) -> None:
        import torch

        size = cache_bytes if cache_bytes is not None else last_cache_bytes(device)
        self._slice = (_SLICE if device == "cpu" else 16 * _SLICE) // 4
        slices = max(4, min(4 * size, 1 << 29) // (4 * self._slice))
        self._source = torch.ones(slices * self._slice, device=device)
        self._target = torch.zeros_like(self._source)
        self._slices, self._now = slices, 0
        self._torch: Any = torch
        self._cuda = device != "cpu"

    def run(self) -> None:
        """Copy the next slice."""
        begin = self._now * self._slice
        self._target[begin : begin + self._slice].copy_(self._source[begin : begin + self._slice])
        self._now = (self._now + 1) % self._slices
        if self._cuda:
            self._torch.cuda.current_stream().synchronize()


def make_stressor(name: str, device: str = "cpu", cache_bytes: int | None = None) -> Stressor:
    """The stressor of that name. Raises InvalidValue for an unknown one."""
    checks.one_of("stressor", name, STRESSORS)
    return CacheStressor(device, cache_bytes) if name == CACHE else StreamStressor(device, cache_bytes)
