"""The clients of the `kserve` package are answered, by REST and by gRPC, with tensors as JSON and as bytes.

They have an environment of their own: `MAGPIE_KSERVE` names its Python (a command line). Without one this is skipped.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from oip_kit import running

from benchmarks.waiting import PATIENCE_S

pytestmark = pytest.mark.timeout(240)

SCRIPT = Path(__file__).with_name("kserve_client.py")


def test_both_clients_are_answered() -> None:
    command = shlex.split(os.environ.get("MAGPIE_KSERVE", ""))
    if not command:
        pytest.skip("no kserve here (MAGPIE_KSERVE names the Python of its environment)")
    with running() as server:
        done = subprocess.run(
            [*command, "-c", SCRIPT.read_text(encoding="utf-8"), server.http, server.grpc],
            capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    sent = [[1.5, -2.0], [3.0, 4.25]]
    expected = [True, True, True, sent, sent]
    assert json.loads(done.stdout.splitlines()[-1]) == {"rest": expected, "grpc": expected}
