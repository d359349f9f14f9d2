"""Which devices this machine has, and the best share kind that each of them really enforces.

GPUs are found with nvidia-smi and a probe in a child process; CUDA is never initialised here.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import psutil

from edge.core.clock import Clock
from edge.core.errors import ShareError
from edge.core.shares import CPU_ONLY, GPU_ONLY, Partitioner, Role, ShareKind
from edge.shares.cgroup import available_cores
from edge.shares.coop import BucketFolder
from edge.shares.cpu import Attempt, choose_cpu
from edge.shares.gpu import GpuCoop, GpuInfo
from edge.shares.green import MpsGreenPartitioner
from edge.shares.mps import MpsControl, MpsPartitioner

log = logging.getLogger(__name__)

_QUERY = "uuid,name,memory.total,driver_version,compute_cap,compute_mode,mig.mode.current"


@dataclass(frozen=True)
class DeviceInfo:
    """A device that shares can be given of. `units`: cores, or SMs once probed."""

    kind: Literal["cpu", "gpu", "mig"]
    id: str
    name: str
    units: float | None
    memory_bytes: int
    gpu: GpuInfo | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Discovery:
    """The share kinds found, and the kinds that could not be tried (in words)."""

    devices: tuple[DeviceInfo, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """An open partitioner and the kinds tried for it, best kind first."""

    partitioner: Partitioner
    attempts: tuple[Attempt, ...] = field(default=())


def devices(environ: Mapping[str, str] | None = None, timeout_s: float = 10.0) -> tuple[DeviceInfo, ...]:
    """GPUs first (MIG devices instead of a GPU that is cut up), then the CPU."""
    return discover(environ, timeout_s).devices


def discover(environ: Mapping[str, str] | None = None, timeout_s: float = 10.0) -> Discovery:
    """As `devices`, with notes on what could not be looked at."""
    environ = os.environ if environ is None else environ
    found: list[DeviceInfo] = []
    notes: list[str] = []
    smi = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if smi is None:
        notes.append("GPU: nvidia-smi is not on PATH, so no NVIDIA GPU is looked for")
    else:
        try:
            text = _run([smi, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"], environ, timeout_s)
            migs = _mig_devices(_run([smi, "-L"], environ, timeout_s))
            for line in text.splitlines():
                if line.strip():
                    found += _gpu(line, migs, notes)
        except ShareError as error:
            notes.append(f"GPU: {error}")
    found.append(DeviceInfo("cpu", "cpu", _cpu_name(), available_cores(), int(psutil.virtual_memory().total)))
    return Discovery(tuple(found), tuple(notes))


def open_partitioner(
    device: DeviceInfo,
    prefer: ShareKind | None = None,
    *,
    cores: float | None = None,
    appliance: str = "default",
    clock: Clock | None = None,
    skip_probe: bool = False,
    cache_dir: Path | None = None,
    run_dir: Path | None = None,
    memory_limit_bytes: Mapping[Role, int] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Choice:
    """The best share kind that can be had on `device`: MPS with green contexts, MPS, time slicing; CPU groups, bucket.

    Raises ShareError if `prefer` names a kind that cannot be had here.
    """
    if device.gpu is None:
        opened = choose_cpu(cores, appliance, prefer, clock, skip_probe, cache_dir)
        return Choice(opened.partitioner, opened.attempts)
    if prefer in CPU_ONLY:
        raise ShareError(f"share kind {prefer} is for the CPU, not for {device.id}")
    gpu = device.gpu
    candidates: list[_Candidate] = []
    if prefer != "coop":
        candidates += _mps_candidates(gpu, prefer, clock, skip_probe, run_dir, memory_limit_bytes, environ)
    if prefer not in GPU_ONLY:
        candidates.append(_Candidate("coop", "", lambda: GpuCoop(gpu, BucketFolder(), clock)))
    attempts: list[Attempt] = []
    for candidate in candidates:
        if candidate.open is None:
            attempts.append(Attempt(candidate.kind, False, candidate.reason))
            continue
        partitioner = candidate.open()
        attempts.append(Attempt(candidate.kind, True, candidate.reason or partitioner.caps.evidence))
        return Choice(partitioner, tuple(attempts))
    raise ShareError(
        f"share kind {prefer} cannot be had on {gpu.id}: " + "; ".join(a.reason for a in attempts),
        "magpie doctor tells more",
    )


@dataclass(frozen=True)
class _Candidate:
    """A share kind that a GPU may have, and why it can or cannot be had; `open` None: it cannot."""

    kind: ShareKind
    reason: str
    open: Callable[[], Partitioner] | None = None


def _mps_candidates(
    gpu: GpuInfo,
    prefer: ShareKind | None,
    clock: Clock | None,
    skip_probe: bool,
    run_dir: Path | None,
    limits: Mapping[Role, int] | None,
    environ: Mapping[str, str] | None,
) -> list[_Candidate]:
    """MPS with green contexts and MPS alone, over one daemon; it runs on where one of them can be opened."""
    control: MpsControl | None = None
    try:
        control = MpsControl(gpu, run_dir, environ=environ)
        control.start()
    except ShareError as error:
        if control is not None:
            control.stop()
        return [_Candidate("mps+green", str(error)), _Candidate("mps", str(error))]
    extra = {"CUDA_MPS_PIPE_DIRECTORY": str(control.pipe), "CUDA_MPS_LOG_DIRECTORY": str(control.log)}
    facts: dict[str, Any] = {"ok": False, "reason": "not probed"}
    if not skip_probe:
        facts = probe_gpu(gpu, extra, environ)
    if facts.get("sms"):
        gpu = replace(gpu, sms=int(facts["sms"]))
    if not skip_probe and not facts["ok"]:
        reason = f"no client can run under MPS: {facts['reason']}"
        control.stop()
        return [_Candidate("mps+green", reason), _Candidate("mps", reason)]
    if prefer != "mps" and facts.get("green"):
        green = f"{gpu.sms} SMs; {facts['green_reason']}"
        granule = int(facts["granule"])
        return [
            _Candidate(
                "mps+green",
                green,
                lambda: MpsGreenPartitioner(gpu, control, granule, BucketFolder(), clock, limits, green),
            )
        ]
    why = facts.get("green_reason") or facts.get("reason", "")
    found = [_Candidate("mps+green", why if prefer != "mps" else "MPS alone was asked for")]
    if prefer == "mps+green":
        control.stop()
        return found
    alone = f"daemon answers (dialect {control.dialect})" + (f"; {gpu.sms} SMs" if gpu.sms else "")
    return [
        *found, _Candidate("mps", alone, lambda: MpsPartitioner(gpu, control, BucketFolder(), clock, limits, alone))
    ]  # fmt: skip


def probe_gpu(
    gpu: GpuInfo, extra: Mapping[str, str], environ: Mapping[str, str] | None = None, timeout_s: float = 120.0
) -> dict[str, Any]:
    """Facts from `edge.shares.gpu_probe` run in a child on this GPU. On any failure: {"ok": False, "reason": ...}."""
    base = os.environ if environ is None else environ
    env = {**base, **extra, "CUDA_VISIBLE_DEVICES": gpu.id}
    try:
        text = _run([sys.executable, "-m", "edge.shares.gpu_probe"], env, timeout_s)
        facts = json.loads(text.strip().splitlines()[-1])
    except ShareError as error:
        return {"ok": False, "reason": str(error)}
    except (ValueError, IndexError):
        return {"ok": False, "reason": f"the probe of {gpu.id} gave no readable answer"}
    return facts if isinstance(facts, dict) else {"ok": False, "reason": "the probe gave no facts"}


# -- inside


def _run(command: list[str], environ: Mapping[str, str], timeout_s: float) -> str:
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command, env=dict(environ), capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ShareError(f"{name} did not answer in {timeout_s:g} s") from error
    except OSError as error:
        raise ShareError(f"{name} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise ShareError(f"{name} failed: {lines[-1]}")
    return done.stdout


def _gpu(line: str, migs: Mapping[str, list[tuple[str, str]]], notes: list[str]) -> list[DeviceInfo]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != 7:
        notes.append(f"GPU: nvidia-smi gave a line that cannot be read: {line.strip()[:80]}")
        return []
    uuid, name, memory, driver, capability, mode, mig = cells
    size = int(float(memory) * 2**20) if memory.replace(".", "").isdigit() else 0
    parts = migs.get(uuid, [])
    if mig.lower() == "enabled":
        if not parts:
            notes.append(f"GPU: {uuid} is in MIG mode but has no MIG device")
        return [
            DeviceInfo(
                "mig", part, f"{name} {profile}", None, 0, GpuInfo(part, name, 0, driver, capability, mode, mig=True)
            )
            for part, profile in parts
        ]
    return [DeviceInfo("gpu", uuid, name, None, size, GpuInfo(uuid, name, size, driver, capability, mode))]


def _mig_devices(text: str) -> dict[str, list[tuple[str, str]]]:
    """MIG UUIDs and profile names by GPU UUID, from the output of `nvidia-smi -L`."""
    found: dict[str, list[tuple[str, str]]] = {}
    current = ""
    for line in text.splitlines():
        uuid = line.partition("UUID:")[2].strip().rstrip(")")
        if line.startswith("GPU ") and uuid:
            current = uuid
        elif line.strip().startswith("MIG ") and uuid and current:
            found.setdefault(current, []).append((uuid, " ".join(line.split()[:2])))
    return found


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    except OSError:
        return platform.machine()
    return platform.machine()
