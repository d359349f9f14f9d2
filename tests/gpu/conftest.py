"""Tests that need an NVIDIA GPU. Without one each is skipped with the reason.

CUDA is never initialised in the test process: every measurement runs in a child, as workers do.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge.core.errors import ShareError
from edge.shares import discover
from edge.shares.gpu import GpuInfo
from edge.shares.mps import MpsControl


@pytest.fixture(scope="session")
def gpu() -> GpuInfo:
    """The first GPU of this machine."""
    found = discover.discover()
    for device in found.devices:
        if device.gpu is not None:
            return device.gpu
    pytest.skip("no NVIDIA GPU here: " + ("; ".join(found.notes) or "nvidia-smi lists none"))


@pytest.fixture(scope="session")
def facts(gpu: GpuInfo) -> dict[str, Any]:
    """The findings of the product's own probe without MPS."""
    found = discover.probe_gpu(gpu, {})
    if not found["ok"]:
        pytest.skip(f"torch cannot use {gpu.name}: {found['reason']}")
    return found


@pytest.fixture
def mps(gpu: GpuInfo, facts: dict[str, Any]) -> Iterator[MpsControl]:
    """A private MPS daemon, stopped afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="mg", dir="/tmp"))
    try:
        control = MpsControl(gpu, folder)
        control.start()
    except ShareError as error:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"MPS cannot be had here: {error}")
    under = discover.probe_gpu(gpu, {"CUDA_MPS_PIPE_DIRECTORY": str(control.pipe)})
    if not under["ok"]:
        control.stop()
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"no client can run under MPS here: {under['reason']}")
    yield control
    control.stop()
    shutil.rmtree(folder, ignore_errors=True)
