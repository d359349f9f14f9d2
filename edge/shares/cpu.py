"""Shares of the CPU: a token bucket in each worker's loop, and a kernel quota behind it where groups can be made.

The bucket paces between batches; the quota, 15 % above the share, stops a worker that does not obey; weights keep
inference served when the cores are full. Without writable control groups the bucket works alone ("coop").
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from edge.core import checks
from edge.core.clock import Clock, SystemClock
from edge.core.errors import ShareError
from edge.core.shares import CPU_ONLY, GPU_ONLY, Grant, LaunchSpec, ResizeOutcome, Role, ShareCaps, ShareKind, Usage
from edge.shares.bucket import ENVIRONMENT
from edge.shares.cgroup import CpuGroups, Files, available_cores, find_mounts
from edge.shares.coop import BucketFolder, ProcessTime, family
from edge.shares.ledger import Ledger, Reading, grantable

log = logging.getLogger(__name__)

#: The quota behind the bucket, as a multiple of the share.
BACKSTOP = 1.15
#: CPU time of one period of that quota: a few batches. With a short period each batch of a worker of 0.05 cores would
#: be cut into dozens of pieces (1 ms in 20 ms), although its bucket keeps the mean.
_BACKSTOP_QUOTA_US = 100_000
#: The first batch of a camera's worker may use this much device time without a wait after it, and the worker has no
#: quota until then: loading a student under a twentieth of a core would keep the camera blind for half a minute.
START_CREDIT_S = 2.0
_START_S = 30.0
_MIN_SHARE = 0.01
_COOP_NICE = 5


def threads_for(share: float, cores: float) -> int:
    """Threads that make use of a share: one for each begun core. More would wait for each other under a quota."""
    return max(1, math.ceil(share * cores - 1e-6))


class CpuPartitioner:
    """Shares of `cores` cores. `groups` and `buckets` may each be left out, not both.

    A worker that shall be paced opens its bucket with `Bucket.from_environment()`; one that does not is only capped.
    A share of 0 given by `resize` pauses the worker at its next batch.
    """

    def __init__(
        self,
        cores: float,
        groups: CpuGroups | None,
        buckets: BucketFolder | None,
        clock: Clock | None = None,
        evidence: str = "",
    ) -> None:
        checks.in_range("cores", cores, 0.0, 4096.0, low_open=True)
        if groups is None and buckets is None:
            raise ShareError("the CPU needs control groups or buckets to be shared")
        kind: ShareKind = "coop" if groups is None else "cgroup" if buckets is None else "cgroup+coop"
        self._cores, self._groups, self._buckets = cores, groups, buckets
        self._clock = clock or SystemClock()
        self._times: dict[str, ProcessTime] = {}
        self._starting: dict[str, tuple[float, int]] = {}  # since when, and batches done before
        self._ledger = Ledger(self._clock, self._read, cores)
        self._closed = False
        self._caps = ShareCaps(
            kind=kind,
            device="cpu",
            enforced="coop" if groups is None else "cap",
            resize="live",
            min_share=_MIN_SHARE,
            step=None,
            units=cores,
            oversubscribe=True,
            memory_limit=False,
            fault_domain="worker",
            evidence=evidence,
        )

    @property
    def caps(self) -> ShareCaps:
        return self._caps

    def launch_spec(self, worker: str, role: Role, share: float) -> LaunchSpec:
        granted = grantable(self._caps, worker, share)
        env: dict[str, str] = {}
        threads = threads_for(granted, self._cores)
        if self._buckets is not None:
            file = self._buckets.open(worker)
            file.set_rate(granted * self._cores, threads)
            file.set_credit(START_CREDIT_S if role == "inference" else 0.0)
            env[ENVIRONMENT] = str(file.path)
        nice = _COOP_NICE if self._groups is None and role != "inference" else 0
        return LaunchSpec(env, threads, nice)

    def attach(self, worker: str, role: Role, pid: int, share: float) -> Grant:
        granted = grantable(self._caps, worker, share)
        if self._buckets is not None:
            file = self._buckets.open(worker)
            file.set_rate(granted * self._cores, threads_for(granted, self._cores))
            file.attached(self._clock.monotonic())
        self._ledger.detach(worker)
        self._starting.pop(worker, None)
        if self._groups is not None:
            cap = self._cap(granted)
            if self._buckets is not None and role == "inference":
                self._starting[worker] = (self._clock.monotonic(), self._buckets.open(worker).counters().batches)
                cap = math.inf
            self._groups.add(worker, role, family(pid), cap, self._period_us(cap))
        self._times[worker] = ProcessTime(pid)
        return self._ledger.attach(worker, role, share, granted)

    def resize(self, worker: str, share: float) -> ResizeOutcome:
        role = self._ledger.role(worker)
        if role is None:
            raise ShareError(f"worker {worker} is not attached")
        granted = 0.0 if share == 0.0 else grantable(self._caps, worker, share)
        began = self._clock.monotonic()
        self._end_starts()
        if self._groups is not None and worker not in self._starting:
            cap = self._cap(max(granted, _MIN_SHARE))
            self._groups.set_rate(worker, role, cap, self._period_us(cap))
        if self._buckets is not None:
            self._buckets.open(worker).set_rate(granted * self._cores, threads_for(granted, self._cores))
        self._ledger.resize(worker, share, granted)
        return ResizeOutcome(True, self._clock.monotonic() - began)

    def usage(self) -> tuple[Usage, ...]:
        self._end_starts()
        return self._ledger.usage()

    def reset_usage(self) -> None:
        self._ledger.reset()

    def before_kill(self, worker: str) -> None:
        """Nothing hangs on a CPU worker's death."""

    def detach(self, worker: str) -> None:
        if self._buckets is not None and (file := self._buckets.get(worker)) is not None:
            file.release()
        self._ledger.detach(worker)
        self._starting.pop(worker, None)
        if self._groups is not None:
            self._groups.remove(worker)
        if self._buckets is not None:
            self._buckets.remove(worker)
        self._times.pop(worker, None)

    def healthy(self) -> str | None:
        if self._closed:
            return "closed"
        self._end_starts()
        if self._groups is not None:
            for worker in self._ledger.running():
                if self._groups.usage(worker) is None:
                    return f"the control group of {worker} is gone: {self._groups.group(worker)}"
        return None

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for worker in list(self._ledger.running()):
            self.detach(worker)
        if self._groups is not None:
            self._groups.close()
        if self._buckets is not None:
            self._buckets.close()

    # -- inside

    def _end_starts(self) -> None:
        """Put workers that have answered, or took too long to, under their quota."""
        if self._groups is None or self._buckets is None:
            return
        now, shares = self._clock.monotonic(), self._ledger.running()
        for worker, (since, batches) in list(self._starting.items()):
            if now - since > _START_S or self._buckets.open(worker).counters().batches > batches + 1:
                del self._starting[worker]
                role = self._ledger.role(worker)
                if role is not None:
                    cap = self._cap(max(shares[worker], _MIN_SHARE))
                    self._groups.set_rate(worker, role, cap, self._period_us(cap))

    def _period_us(self, cap: float) -> int | None:
        """The quota's period for `cap` cores; None: the role's own, where no bucket paces in front of it."""
        return None if self._buckets is None else round(min(1e6, max(1e5, _BACKSTOP_QUOTA_US / cap)))

    def _cap(self, granted: float) -> float:
        rate = granted * self._cores * (1.0 if self._buckets is None else BACKSTOP)
        return math.inf if rate >= self._cores else rate

    def _read(self, worker: str) -> Reading:
        cpu_s = throttled_s = 0.0
        group = self._groups.usage(worker) if self._groups is not None else None
        if group is not None:
            throttled_s = group.throttled_s
        if group is not None and not math.isnan(group.cpu_s):
            cpu_s = group.cpu_s
        elif worker in self._times:
            cpu_s = self._times[worker].read()
        file = self._buckets.get(worker) if self._buckets is not None else None
        if file is None:
            return Reading(cpu_s, None, throttled_s)
        counters = file.counters(self._clock.monotonic())
        known = counters.beat_s > 0
        return Reading(
            max(cpu_s, counters.used_s), counters.declined_s if known else None, throttled_s, counters.waited_s
        )


@dataclass(frozen=True)
class Probe:
    """A busy child was put under `asked` cores for `wall_s`; `used` is what it got."""

    mount: str
    asked: float
    used: float
    wall_s: float
    throttled_periods: int

    @property
    def held(self) -> bool:
        """The quota did what it promises: it cut the child, and near the asked rate."""
        return self.throttled_periods > 0 and self.used <= self.asked + 0.08

    @property
    def words(self) -> str:
        """The result without its mount."""
        return (
            f"a busy child got {self.used:.2f} cores where {self.asked:.2f} were asked"
            f" ({self.throttled_periods} periods throttled in {self.wall_s:.1f} s)"
        )

    def __str__(self) -> str:
        return f"{self.mount}: {self.words}"


def probe(groups: CpuGroups, asked: float = 0.3, seconds: float = 0.6) -> Probe:
    """Run a busy child under a quota and measure what it gets. Takes `seconds` of wall time and starts one process."""
    command = [sys.executable, "-S", "-E", "-c", "while True: pass"]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        timer = ProcessTime(child.pid)
        groups.add("probe", "inference", [child.pid], asked)
        began, before = time.monotonic(), timer.read()
        time.sleep(seconds)
        wall, used = time.monotonic() - began, timer.read() - before
        counted = groups.usage("probe")
        return Probe(
            f"cgroup v{groups.mount.version}", asked, used / wall, wall, counted.throttled_periods if counted else 0
        )
    finally:
        child.kill()
        child.wait()
        groups.remove("probe")


@dataclass(frozen=True)
class Attempt:
    """A share kind that was tried on a device: it can be used, or why not."""

    kind: str
    ok: bool
    reason: str


@dataclass(frozen=True)
class Opened:
    """A partitioner and how it was chosen."""

    partitioner: CpuPartitioner
    attempts: tuple[Attempt, ...]


def open_cpu_partitioner(
    cores: float | None = None,
    appliance: str = "default",
    prefer: ShareKind | None = None,
    clock: Clock | None = None,
    skip_probe: bool = False,
    cache_dir: Path | None = None,
    proc: Path = Path("/proc"),
    files: Files | None = None,
    bucket_dir: Path | None = None,
) -> CpuPartitioner:
    """The best partitioner that this machine really enforces: cgroup + bucket, else the bucket alone.

    `cores` is what share 1.0 means (all that this process may use by default). A quota is believed only after it held
    a busy child in a probe of 0.6 s; its result is kept in `cache_dir` for this boot. Raises ShareError if `prefer`
    names a kind that cannot be had.
    """
    return choose_cpu(
        cores, appliance, prefer, clock, skip_probe, cache_dir, proc, files, bucket_dir
    ).partitioner  # fmt: skip


def choose_cpu(
    cores: float | None = None,
    appliance: str = "default",
    prefer: ShareKind | None = None,
    clock: Clock | None = None,
    skip_probe: bool = False,
    cache_dir: Path | None = None,
    proc: Path = Path("/proc"),
    files: Files | None = None,
    bucket_dir: Path | None = None,
) -> Opened:
    """As `open_cpu_partitioner`, with what was tried."""
    if cores is None:
        cores = available_cores(proc, files)
    checks.in_range("cores", cores, 0.0, 4096.0, low_open=True)
    attempts: list[Attempt] = []
    groups: CpuGroups | None = None
    evidence = ""
    if prefer in GPU_ONLY:
        raise ShareError(f"share kind {prefer} is for NVIDIA GPUs, not for the CPU")
    if prefer != "coop":
        groups, evidence = _open_groups(appliance, skip_probe, cache_dir, proc, files, attempts)
    if groups is None and prefer in CPU_ONLY:
        raise ShareError(
            f"share kind {prefer} cannot be had: " + "; ".join(f"{a.kind}: {a.reason}" for a in attempts),
            "magpie doctor tells more",
        )
    try:
        buckets = None if prefer == "cgroup" else BucketFolder(bucket_dir)
    except ShareError:
        if groups is not None:
            groups.close()
        raise
    if buckets is not None:
        where = f"token bucket in {buckets.path.parent}"
        attempts.append(Attempt("coop", True, where))
        evidence = f"{evidence}; {where}" if evidence else f"{where}; no kernel quota"
    if groups is not None and groups.swept.orphans:
        log.warning("processes of an appliance that is gone still run under its quota: %s", groups.swept.orphans)
    partitioner = CpuPartitioner(cores, groups, buckets, clock, evidence)
    log.info("CPU shares: %s over %g cores (%s)", partitioner.caps.kind, cores, evidence)
    return Opened(partitioner, tuple(attempts))


def _open_groups(
    appliance: str,
    skip_probe: bool,
    cache_dir: Path | None,
    proc: Path,
    files: Files | None,
    attempts: list[Attempt],
) -> tuple[CpuGroups | None, str]:
    """The first control groups whose quota holds, and the evidence; (None, ""): none does. `attempts` gets what was
    tried."""
    mounts, refused = find_mounts(proc, files)
    attempts += [Attempt(kind, False, reason) for kind, reason in refused]
    for mount in mounts:
        kind = f"cgroup v{mount.version}"
        try:
            groups = CpuGroups(mount, appliance, files, proc)
        except ShareError as error:
            attempts.append(Attempt(kind, False, str(error)))
            continue
        if skip_probe:
            words = evidence = f"{kind} in {mount.base}; not probed"
        else:
            try:
                result = _cached_probe(groups, cache_dir, proc)
            except ShareError as error:
                result = None
                attempts.append(Attempt(kind, False, str(error)))
            if result is None or not result.held:
                if result is not None:
                    attempts.append(Attempt(kind, False, f"the quota did not hold: {result.words}"))
                groups.close()
                continue
            words, evidence = result.words, str(result)
        attempts.append(Attempt(kind, True, words))
        return groups, evidence
    return None, ""


def _cached_probe(groups: CpuGroups, cache_dir: Path | None, proc: Path) -> Probe:
    """The probe's result of this boot and group, from the cache or measured; a failed probe is tried twice."""
    cache_dir = cache_dir or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "magpie"
    cache = cache_dir / "cpu-probe.json"
    boot = ""
    with contextlib.suppress(OSError):
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
    key = f"{boot} {groups.mount.base}"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        known = json.loads(cache.read_text())
        if boot and known["key"] == key:
            return Probe(**known["probe"])
    result = probe(groups)
    if not result.held:
        result = probe(groups, seconds=1.2)
    if result.held:
        with contextlib.suppress(OSError):  # a cache that cannot be kept costs the next start half a second
            cache_dir.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=cache_dir, delete=False) as f:
                json.dump({"key": key, "probe": asdict(result)}, f)
            os.replace(f.name, cache)
    return result


def describe(attempts: Sequence[Attempt]) -> str:
    """Attempts in one line each."""
    return "\n".join(f"{'yes' if a.ok else 'no ':3} {a.kind}: {a.reason}" for a in attempts)
