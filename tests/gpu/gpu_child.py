"""Running code in a child on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge.shares.gpu import GpuInfo

REPO = Path(__file__).resolve().parents[2]


def in_child(code: str, gpu: GpuInfo, env: Mapping[str, str] | None = None, timeout_s: float = 90.0) -> Any:
    """Run `code` in a fresh Python on this GPU; it prints one JSON value as its last line."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(REPO), "CUDA_VISIBLE_DEVICES": gpu.id, **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])
