"""The whole appliance in a process of its own, which a test may kill."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from appliance_kit import gone

REPO = Path(__file__).resolve().parents[1]


def until(condition: Callable[[], Any], what: str, timeout_s: float = 60.0) -> Any:
    """Poll until the condition holds; its value."""
    ends = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < ends, what
        time.sleep(0.2)  # most conditions cost the appliance an answer
    return value


@dataclass
class Box:
    """`magpie run` in a process of its own, as a service would start it."""

    config: Path
    process: subprocess.Popen[str] = field(init=False)
    url: str = ""
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "edge.cli", "run", str(self.config)],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=REPO,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())
            if (found := re.search(r"Magpie is up: (\S+)", line)) is not None:
                self.url = found[1]

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}api/v1/{path}", timeout=10) as answer:
            return json.load(answer)

    def up(self) -> Box:
        """Waits for REST and for answers of every camera."""
        until(lambda: self.url or self.process.poll() is not None, "it starts")
        assert self.url, "\n".join(self.lines[-20:])
        until(lambda: all(c["answers"] > 0 for c in self.get("overview")["cameras"]), "every camera answers")
        return self

    def family(self) -> list[int]:
        found = psutil.Process(self.process.pid)
        return [found.pid, *(p.pid for p in found.children(recursive=True))]

    def kill(self, everything: bool) -> None:
        """Without warning: the control process alone, or every process at once."""
        pids = self.family()
        if everything:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.wait(10)
        until(lambda: not gone(pids), f"nobody outlives it: {pids}", 20.0)
