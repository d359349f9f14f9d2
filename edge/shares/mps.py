"""CUDA MPS: a private control daemon per GPU, and shares as a percentage of SMs fixed when a client starts.

Speaks both dialects of `nvidia-cuda-mps-control`: version 2 (commands on standard input; the default of the program)
and version 3 (`<module> <verb> --key=value` as arguments). Facts and their sources: docs/shares.md.

The caps name the limits of MPS: a percentage is a cap, not a reservation; it cannot be changed while the
client lives; one client's fatal fault ends all clients of the GPU.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from edge.core.clock import Clock
from edge.core.errors import ShareError
from edge.core.shares import Grant, LaunchSpec, ResizeOutcome, Role
from edge.shares.cgroup import start_time
from edge.shares.coop import BucketFolder
from edge.shares.gpu import GpuCoop, GpuInfo

PROGRAM = "nvidia-cuda-mps-control"
Dialect = Literal["v2", "v3"]

#: A unix socket's path has at most 107 characters; the daemon adds names of its own to the pipe folder.
_MAX_PIPE_PATH = 80
_FOLDER = re.compile(r"^mgp-mps-(\d+)-(\d+)-")
_FAULTY = ("FAULT", "ERROR")


class MpsControl:
    """One private daemon for one GPU. Every call to the program is bounded by `timeout_s`.

    Methods raise ShareError when the program is missing, refuses, or does not answer in time.
    """

    def __init__(
        self,
        gpu: GpuInfo,
        parent: Path | None = None,
        program: str = PROGRAM,
        dialect: Dialect | None = None,
        timeout_s: float = 5.0,
        environ: Mapping[str, str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._gpu, self._timeout_s, self._sleep = gpu, timeout_s, sleep
        self._environ = dict(os.environ if environ is None else environ)
        found = shutil.which(program, path=self._environ.get("PATH"))
        if found is None:
            raise ShareError(f"MPS: {program} is not on PATH", "it comes with the NVIDIA driver's compute tools")
        self._program = found
        self._asked = dialect
        self.dialect: Dialect = dialect or "v2"
        parent = parent or Path(tempfile.gettempdir())
        self.swept = _sweep(parent)
        pid = os.getpid()
        self._root = Path(tempfile.mkdtemp(prefix=f"mgp-mps-{pid}-{start_time(pid) or 0}-", dir=parent))
        self.pipe, self.log = self._root / "p", self._root / "l"
        if len(str(self.pipe)) > _MAX_PIPE_PATH:
            shutil.rmtree(self._root, ignore_errors=True)
            raise ShareError(f"MPS: the path {self.pipe} is too long for sockets", "choose a shorter run folder")
        for folder in (self.pipe, self.log):
            folder.mkdir(mode=0o700)
        self._environ |= {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe),
            "CUDA_MPS_LOG_DIRECTORY": str(self.log),
            "CUDA_VISIBLE_DEVICES": gpu.id,
        }
        # The share is set per client; an inherited value would lower every client's.
        for name in ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PROTOCOL_VERSION"):
            self._environ.pop(name, None)

    @property
    def daemon_pid(self) -> int | None:
        """Process id of our daemon, None if it does not run."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.pipe / f"{PROGRAM}.pid").read_text())
            if start_time(pid) is not None:
                return pid
        return None

    def start(self) -> None:
        """Start the daemon if it does not run, and find out which dialect it speaks."""
        if self.daemon_pid is not None:
            return
        arguments = ["-d", "-p", "3"] if self._asked == "v3" else ["-d"]
        self._call(arguments, "")
        deadline = time.monotonic() + self._timeout_s
        while self.daemon_pid is None:
            if time.monotonic() > deadline:
                raise ShareError(f"MPS: the daemon did not come up in {self._timeout_s:g} s; its log: {self._tail()}")
            self._sleep(0.02)
        first: Dialect = self._asked or "v2"
        second: Dialect = "v3" if first == "v2" else "v2"
        for self.dialect in (first, second):
            with contextlib.suppress(ShareError):
                self.servers()
                return
        raise ShareError(f"MPS: {self._program} speaks neither dialect 2 nor 3; its log: {self._tail()}")

    def servers(self) -> dict[int, str]:
        """Server processes and their status (ACTIVE, FAULT, INITIALIZING, ...). None runs before the first client."""
        if self.dialect == "v3":
            rows = self._rows("server", "list", "--all")
            return {int(r[1]): r[-1].upper() for r in rows if len(r) >= 3 and r[1].isdigit()}
        found = {}
        for line in self._command("get_server_list").split():
            if line.isdigit():
                found[int(line)] = self._command(f"get_server_status {line}").strip().upper() or "UNKNOWN"
        return found

    def clients(self) -> dict[int, int]:
        """Client processes and their server's process id."""
        if self.dialect == "v3":
            rows = self._rows("client", "list", "--all")
            return {int(r[0]): int(r[1]) for r in rows if len(r) >= 2 and r[0].isdigit() and r[1].isdigit()}
        found = {}
        for server in self.servers():
            for line in self._command(f"get_client_list {server}").split():
                if line.isdigit():
                    found[int(line)] = server
        return found

    def terminate(self, pid: int) -> bool:
        """Drop a client's GPU work, so that it can be killed without harm to the others. False: it is not a client."""
        server = self.clients().get(pid)
        if server is None:
            return False
        if self.dialect == "v3":
            self._call(["client", "terminate", str(pid)], "")
        else:
            self._command(f"terminate_client {server} {pid}")
        return True

    def trouble(self) -> str | None:
        """None, or in words what is wrong with daemon or servers."""
        if self.daemon_pid is None:
            return f"the MPS daemon of {self._gpu.id} is gone"
        try:
            bad = {pid: status for pid, status in self.servers().items() if any(f in status for f in _FAULTY)}
        except ShareError as error:
            return str(error)
        if bad:
            pid, status = next(iter(bad.items()))
            return f"MPS server {pid} of {self._gpu.id} is in {status}: all its workers must end before it recovers"
        return None

    def stop(self) -> None:
        """End the daemon (asked first, then by signal) and remove its folders. Safe to repeat."""
        pid = self.daemon_pid
        if pid is not None:
            with contextlib.suppress(ShareError):
                if self.dialect == "v3":
                    self._call(["-q"], "")
                else:
                    self._command("quit")
            for step in (None, signal.SIGTERM, signal.SIGKILL):
                if step is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, step)
                if self._gone(pid):
                    break
        shutil.rmtree(self._root, ignore_errors=True)

    # -- inside

    def _gone(self, pid: int, seconds: float = 1.0) -> bool:
        deadline = time.monotonic() + seconds
        while start_time(pid) is not None:
            if time.monotonic() > deadline:
                return False
            self._sleep(0.02)
        return True

    def _command(self, command: str) -> str:
        return self._call([], command + "\n")

    def _rows(self, *words: str) -> list[list[str]]:
        text = self._call([*words, "--format=csv,noheader"], "")
        return [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]

    def _call(self, arguments: list[str], text: str) -> str:
        shown = " ".join([PROGRAM, *arguments, text.strip()]).strip()
        try:
            done = subprocess.run(
                [self._program, *arguments],
                input=text,
                env=self._environ,
                capture_output=True,
                text=True,
                timeout=self._timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ShareError(f"MPS: no answer to '{shown}' in {self._timeout_s:g} s") from error
        except OSError as error:
            raise ShareError(f"MPS: cannot run {self._program}: {error.strerror}") from error
        said = (done.stdout + done.stderr).strip()
        if done.returncode != 0 or said.lower().startswith(("unknown", "unrecognized", "cannot", "failed")):
            raise ShareError(f"MPS: '{shown}' failed: {said or f'exit code {done.returncode}'}")
        return done.stdout

    def _tail(self) -> str:
        with contextlib.suppress(OSError):
            lines = (self.log / "control.log").read_text(errors="replace").strip().splitlines()
            if lines:
                return lines[-1][-200:]
        return "empty"


def _sweep(parent: Path) -> int:
    """End the daemons of appliances that are gone and remove their folders; returns how many."""
    removed = 0
    with contextlib.suppress(OSError):
        for entry in parent.iterdir():
            match = _FOLDER.match(entry.name)
            if match is None or start_time(int(match[1])) == int(match[2]):
                continue
            with contextlib.suppress(OSError, ValueError):
                pid = int((entry / "p" / f"{PROGRAM}.pid").read_text())
                if PROGRAM in Path(f"/proc/{pid}/cmdline").read_text(errors="replace"):
                    os.kill(pid, signal.SIGTERM)
            shutil.rmtree(entry, ignore_errors=True)
            removed += 1
    return removed


class MpsPartitioner(GpuCoop):
    """SM percentage per client; grown by a respawn, shrunk live by the worker's bucket.

    A worker that was started with cap c and is resized to a share s < c goes on with c of the SMs for s/c of the
    time; to a share above c it must be started anew (ResizeOutcome.live is False, with the reason).
    """

    def __init__(
        self,
        gpu: GpuInfo,
        control: MpsControl,
        buckets: BucketFolder | None = None,
        clock: Clock | None = None,
        memory_limit_bytes: Mapping[Role, int] | None = None,
        evidence: str = "",
    ) -> None:
        super().__init__(gpu, buckets, clock, evidence)
        self._control = control
        self._memory = dict(memory_limit_bytes or {})
        self._launched: dict[str, float] = {}
        self._started: dict[str, float] = {}
        # The smallest partition is one TPC (two SMs); below it a percentage would round to nothing.
        smallest = 0.01 if not gpu.sms else max(0.01, math.ceil(100 * 2 / gpu.sms) / 100)
        self._set_caps(
            kind="mps",
            enforced="cap",
            resize="respawn",
            step=0.01,
            min_share=smallest,
            memory_limit=bool(self._memory),
            fault_domain="device",
            evidence=evidence or f"daemon answers (dialect {control.dialect})",
        )
        try:
            control.start()
        except ShareError:
            self.close()
            raise

    def launch_spec(self, worker: str, role: Role, share: float) -> LaunchSpec:
        self._control.start()  # after a crash of the daemon the next worker brings it back
        granted = grantable_percent(self._caps.quantize(share))
        self._launched[worker] = granted
        return super().launch_spec(worker, role, share)

    def attach(self, worker: str, role: Role, pid: int, share: float) -> Grant:
        self._started[worker] = self._launched.get(worker, self._caps.quantize(share))
        return super().attach(worker, role, pid, share)

    def resize(self, worker: str, share: float) -> ResizeOutcome:
        granted = self._resizable(worker, share)
        cap = self._started.get(worker, 0.0)
        if granted > cap + 1e-9:
            return ResizeOutcome(
                False,
                reason=f"CUDA MPS fixed {worker} at {cap:.0%} of the SMs at its start: {granted:.0%} needs a respawn",
            )
        return super().resize(worker, share)

    def before_kill(self, worker: str) -> None:
        """Drop the client's GPU work first: a client killed in mid-kernel can hang the MPS server for all."""
        pid = self._pids.get(worker)
        if pid is not None:
            with contextlib.suppress(ShareError):  # the kill must not wait for a daemon that is gone
                self._control.terminate(pid)

    def detach(self, worker: str) -> None:
        super().detach(worker)
        self._started.pop(worker, None)

    def healthy(self) -> str | None:
        return super().healthy() or self._control.trouble()

    def close(self) -> None:
        super().close()
        self._control.stop()

    # -- inside

    def _environment(self, role: Role, granted: float) -> Mapping[str, str]:
        env = {
            **super()._environment(role, granted),
            "CUDA_MPS_PIPE_DIRECTORY": str(self._control.pipe),
            "CUDA_MPS_LOG_DIRECTORY": str(self._control.log),
            "CUDA_MPS_CLIENT_PRIORITY": "0" if role == "inference" else "1",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(round(granted * 100)),
        }
        if role in self._memory:
            env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"0={self._memory[role] // 2**20}M"
        return env

    def _rate(self, worker: str, granted: float) -> float:
        cap = self._started.get(worker, self._launched.get(worker, granted))
        return math.inf if granted >= cap - 1e-9 else granted / cap

    def _scale(self, worker: str) -> float:
        return self._started.get(worker, 1.0)


def grantable_percent(share: float) -> float:
    """A share as a whole percentage, rounded down."""
    return math.floor(share * 100 + 1e-6) / 100
