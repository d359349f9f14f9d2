"""Ctrl-C in a terminal: the whole process group gets the interrupt, and the demo ends quietly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO

import psutil
import pytest

from benchmarks.waiting import PATIENCE_S

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]


def loading(demo: subprocess.Popen[str]) -> None:
    """Wait until the fork server loads the workers' modules."""
    while not any("forkserver" in " ".join(p.cmdline()) for p in psutil.Process(demo.pid).children()):
        assert demo.poll() is None
        time.sleep(0.02)


def running(demo: subprocess.Popen[str]) -> None:
    """Wait until the page can be opened."""
    assert next(line for line in said(demo) if "The page: " in line)


def said(demo: subprocess.Popen[str]) -> IO[str]:
    assert demo.stdout is not None
    return demo.stdout


@pytest.mark.parametrize("until", [loading, running])
def test_the_demo_ends_quietly_when_the_terminal_interrupts_it(until: Callable[[subprocess.Popen[str]], None]) -> None:
    command = [sys.executable, "-m", "edge.cli", "demo", "--windows", "3", "--cameras", "1", "--port", "0"]
    with subprocess.Popen(
        [*command, "--no-browser", "--plain"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as demo:  # fmt: skip
        try:
            until(demo)
            os.killpg(demo.pid, signal.SIGINT)
            lines = said(demo).readlines()
            assert demo.wait(PATIENCE_S) == 0, lines
        finally:
            demo.kill()
    assert not [s for s in lines if not s.startswith("[")], lines  # lines of the console begin with their time
