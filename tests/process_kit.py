"""The whole appliance in a process of its own, which a test may kill."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from appliance_kit import gone

from benchmarks import waiting
from benchmarks.waiting import PATIENCE_S

REPO = Path(__file__).resolve().parents[1]


#: Most conditions cost the appliance an answer, so it looks less often.
until = partial(waiting.until, pause_s=0.2)


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
        with urllib.request.urlopen(f"{self.url}api/v1/{path}", timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def up(self) -> Box:
        """Waits for REST and for answers of every camera."""
        until(lambda: self.url or self.process.poll() is not None, "it starts")
        assert self.url, "\n".join(self.lines[-20:])
        until(
            lambda: all(c["state"]["inference"]["answers"] > 0 for c in self.get("overview")["cameras"]),
            "every camera answers",
        )
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
        self.process.wait(PATIENCE_S)
        until(lambda: not gone(pids), f"no process outlives it: {pids}")
