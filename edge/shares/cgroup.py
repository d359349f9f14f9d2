"""CPU control groups, version 1 and 2: a quota that caps and a weight that guarantees, per worker.

Layout: `<own group>/magpie-<appliance>-<pid>-<start time>/<worker>`. The name carries the owner's pid and start time,
so that groups of an appliance that was killed are known as stale, and two appliances never meet.

Measured in docs/shares.md: a quota caps CPU time within 3 % at a period of 20 ms; only the weight keeps an inference
worker served when others saturate the cores. Both are set.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from edge.core.errors import ShareError
from edge.core.shares import Role

#: Quota periods in microseconds. Short for inference (short pauses), long for the others (fewer cold caches).
PERIOD_US: dict[Role, int] = {"inference": 20_000, "retraining": 100_000, "golden": 100_000, "profiling": 100_000}
#: Weight of inference in the unit of version 2 (1-10000, 100 is usual); the others have at most a tenth of it.
INFERENCE_WEIGHT = 10_000
#: Weight of the whole appliance, per core of the machine, against what else runs on the box (100: one usual task).
APPLIANCE_WEIGHT = 500
_MIN_QUOTA_US = 1000
_MAX_PERIOD_US = 1_000_000
_PREFIX = "magpie-"
_HOME = "magpie-home"
_NAME = re.compile(r"^magpie-[a-z0-9_]+-(\d+)-(\d+)$")


class Files(Protocol):
    """The few file operations that control groups need; the kernel's, or a model of it in tests."""

    def read(self, path: Path) -> str: ...
    def write(self, path: Path, text: str) -> None: ...
    def mkdir(self, path: Path) -> None: ...
    def rmdir(self, path: Path) -> None: ...
    def exists(self, path: Path) -> bool: ...
    def folders(self, path: Path) -> list[str]: ...


class KernelFiles:
    """The real file system."""

    def read(self, path: Path) -> str:
        return path.read_text()

    def write(self, path: Path, text: str) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def mkdir(self, path: Path) -> None:
        path.mkdir()

    def rmdir(self, path: Path) -> None:
        path.rmdir()

    def exists(self, path: Path) -> bool:
        return path.exists()

    def folders(self, path: Path) -> list[str]:
        return sorted(entry.name for entry in path.iterdir() if entry.is_dir())


@dataclass(frozen=True)
class Mount:
    """Where the cpu controller is found: `base` is the group that we may make groups in."""

    version: Literal[1, 2]
    base: Path
    accounting: Path | None = None  # version 1 only, where cpuacct is mounted apart from cpu


@dataclass(frozen=True)
class GroupUsage:
    """Cumulative counters of one group, in seconds (CPU time; wall time in which it was throttled)."""

    cpu_s: float
    throttled_s: float
    throttled_periods: int
    periods: int


@dataclass(frozen=True)
class Swept:
    """Remains of appliances that are gone: groups removed, and processes that still live in others."""

    removed: int
    orphans: tuple[int, ...]


def start_time(pid: int, proc: Path = Path("/proc")) -> int | None:
    """The start time of a process in clock ticks since boot, or None if there is no such process."""
    try:
        stat = (proc / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    # A zombie holds no group and runs nothing: it is gone for us.
    return None if fields[0] in ("Z", "X") else int(fields[19])


def find_mounts(
    proc: Path = Path("/proc"), files: Files | None = None
) -> tuple[tuple[Mount, ...], tuple[tuple[str, str], ...]]:
    """The places where a cpu controller may be had, best first, and for what is not to be had (kind, reason)."""
    files = files or KernelFiles()
    try:
        mounts = [line.split() for line in (proc / "self/mounts").read_text().splitlines()]
        own = [line.split(":", 2) for line in (proc / "self/cgroup").read_text().splitlines()]
    except OSError as error:
        return (), (("cgroup", f"control groups cannot be looked up: {error.strerror}"),)
    v1_own = {name: path for _, names, path in own for name in names.split(",") if name}
    v2_own = next((path for number, names, path in own if number == "0" and not names), "/")
    found: list[Mount] = []
    refused: list[tuple[str, str]] = []

    def inside(root: Path, path: str) -> Path:
        # In a container the path may name what is above the visible root.
        # And we may live in the group that an appliance of this process moved itself to.
        candidate = root / path.removesuffix("/" + _HOME).lstrip("/")
        return candidate if ".." not in Path(path).parts and files.exists(candidate) else root

    v1 = {
        name: Path(m[1]) for m in mounts if m[2] == "cgroup" for name in m[3].split(",") if name in ("cpu", "cpuacct")
    }
    v2_root = next((Path(m[1]) for m in mounts if m[2] == "cgroup2"), None)
    if v2_root is not None:
        if "cpu" in v1:
            refused.append(("cgroup v2", "the cpu controller is owned by version 1"))
        else:
            own_group = inside(v2_root, v2_own)
            found.append(Mount(2, own_group))
            if own_group != v2_root:
                found.append(Mount(2, v2_root))
    else:
        refused.append(("cgroup v2", "not mounted"))
    if "cpu" in v1:
        apart = v1.get("cpuacct")
        accounting = None
        if apart is not None and apart != v1["cpu"] and not files.exists(v1["cpu"] / "cpuacct.usage"):
            accounting = inside(apart, v1_own.get("cpuacct", "/"))
        found.append(Mount(1, inside(v1["cpu"], v1_own.get("cpu", "/")), accounting))
    else:
        refused.append(("cgroup v1", "no cpu controller is mounted"))
    return tuple(found), tuple(refused)


def available_cores(proc: Path = Path("/proc"), files: Files | None = None) -> float:
    """Cores that this process may use: its affinity, and the quota of its own group where there is one."""
    files = files or KernelFiles()
    cores = float(len(os.sched_getaffinity(0)))
    for mount in find_mounts(proc, files)[0]:
        with contextlib.suppress(OSError, ValueError):
            if mount.version == 2:
                quota, period = files.read(mount.base / "cpu.max").split()
            else:
                quota = files.read(mount.base / "cpu.cfs_quota_us").strip()
                period = files.read(mount.base / "cpu.cfs_period_us").strip()
            if quota not in ("max", "-1"):
                cores = min(cores, int(quota) / int(period))
    return cores


def quota(rate: float, period_us: int) -> tuple[int, int]:
    """(quota, period) in microseconds for `rate` cores.

    The kernel's least quota is 1 ms: a tiny rate gets a longer period, at most a second (0.001 cores).
    """
    if rate * period_us >= _MIN_QUOTA_US:
        return math.ceil(rate * period_us - 1e-6), period_us
    period = min(_MAX_PERIOD_US, math.floor(_MIN_QUOTA_US / max(rate, 1e-9)))
    return _MIN_QUOTA_US, period


def weight(role: Role, rate: float) -> int:
    """Weight of a worker that may use `rate` cores: inference before all others, those in proportion to their share."""
    if role == "inference":
        return INFERENCE_WEIGHT
    part = min(1.0, rate / (os.cpu_count() or 1))
    return max(INFERENCE_WEIGHT // 100, round(INFERENCE_WEIGHT / 10 * part))


class CpuGroups:
    """The groups of one appliance under one mount.

    Raises ShareError from the constructor when the groups cannot be made; the message says why, the hint what helps.
    """

    def __init__(
        self,
        mount: Mount,
        appliance: str,
        files: Files | None = None,
        proc: Path = Path("/proc"),
        pid: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.mount = mount
        self._files: Files = files or KernelFiles()
        self._proc, self._sleep = proc, sleep
        self._pid = pid or os.getpid()
        short = re.sub(r"[^a-z0-9]+", "_", appliance.lower()).strip("_")[:32] or "appliance"
        self._name = f"{_PREFIX}{short}-{self._pid}-{start_time(self._pid, proc) or 0}"
        self._workers: dict[str, str] = {}
        self._moved_home = False
        self._closed = False
        self.swept = sweep(mount, self._files, proc, sleep)
        try:
            if mount.version == 2:
                self._enable_v2()
            self._make(mount.base / self._name)
            self._weigh(mount.base / self._name, min(10_000, APPLIANCE_WEIGHT * (os.cpu_count() or 1)))
            if mount.accounting is not None:
                try:
                    self._make(mount.accounting / self._name)
                except OSError:
                    self.mount = Mount(1, mount.base)  # CPU time is then read from the processes
        except OSError as error:
            self.close()
            raise ShareError(
                f"no group can be made in {mount.base}: {error.strerror or error}",
                _hint(mount, error),
            ) from error
        except ShareError:
            self.close()
            raise

    @property
    def path(self) -> Path:
        """The appliance's own group; the workers' groups are inside."""
        return self.mount.base / self._name

    def group(self, worker: str) -> Path:
        """Where a worker's group is (it may not exist)."""
        return self.path / slug(worker)

    def add(self, worker: str, role: Role, pids: Iterable[int], rate: float, period_us: int | None = None) -> int:
        """Put processes under `rate` cores. Returns how many were there to be put; those already gone are left out.

        `period_us`: see `set_rate`. Raises ShareError when the kernel refuses.
        """
        group = self.group(worker)
        try:
            self._make(group)
            if self.mount.accounting is not None:
                self._make(self.mount.accounting / self._name / slug(worker))
            self._workers[worker] = slug(worker)
            self.set_rate(worker, role, rate, period_us)
            return sum(self._move(pid, worker) for pid in pids)
        except OSError as error:
            raise ShareError(f"cgroup v{self.mount.version}: {group}: {error.strerror or error}") from error

    def set_rate(self, worker: str, role: Role, rate: float, period_us: int | None = None) -> None:
        """Cap the worker's group at `rate` cores (infinity: no cap). Takes effect within one period.

        `period_us` instead of the role's own period: a long one does not cut batches of a worker that paces itself,
        and the rest of a quota may then be used in the next period (burst, where the kernel knows it).
        """
        group = self.group(worker)
        period = period_us or PERIOD_US[role]
        capped, period = (-1, period) if math.isinf(rate) else quota(rate, period)
        burst = capped if period_us is not None and capped > 0 else 0
        try:
            self._weigh(group, weight(role, rate))
            if self.mount.version == 2:
                self._burst(group / "cpu.max.burst", 0)
                self._files.write(group / "cpu.max", f"{'max' if capped < 0 else capped} {period}")
                self._burst(group / "cpu.max.burst", burst)
                return
            # Version 1 checks quota, period and burst against each other at each store: lift the quota meanwhile.
            self._burst(group / "cpu.cfs_burst_us", 0)
            if int(self._files.read(group / "cpu.cfs_period_us")) != period:
                self._files.write(group / "cpu.cfs_quota_us", "-1")
                self._files.write(group / "cpu.cfs_period_us", str(period))
            self._files.write(group / "cpu.cfs_quota_us", str(capped))
            self._burst(group / "cpu.cfs_burst_us", burst)
        except OSError as error:
            raise ShareError(f"cgroup v{self.mount.version}: {group}: {error.strerror or error}") from error

    def usage(self, worker: str) -> GroupUsage | None:
        """Counters of a worker's group; None if it has none. `cpu_s` is NaN where the kernel does not tell."""
        if worker not in self._workers:
            return None
        group = self.group(worker)
        try:
            stat = _numbers(self._files.read(group / "cpu.stat"))
            if self.mount.version == 2:
                cpu_s, throttled_s = stat["usage_usec"] / 1e6, stat.get("throttled_usec", 0) / 1e6
            else:
                throttled_s = stat.get("throttled_time", 0) / 1e9
                where = group
                if self.mount.accounting is not None:
                    where = self.mount.accounting / self._name / slug(worker)
                if self._files.exists(where / "cpuacct.usage"):
                    cpu_s = int(self._files.read(where / "cpuacct.usage")) / 1e9
                else:
                    cpu_s = math.nan
        except (OSError, KeyError, ValueError):
            return None
        return GroupUsage(cpu_s, throttled_s, stat.get("nr_throttled", 0), stat.get("nr_periods", 0))

    def remove(self, worker: str) -> None:
        """Take a worker's group away; processes still in it go back to the group of the control process."""
        folder = self._workers.pop(worker, None)
        if folder is None:
            return
        for parent, home in self._hierarchies():
            self._empty(parent / folder, home)

    def close(self) -> None:
        """Remove all groups and undo the changes around them. Safe to repeat."""
        if self._closed:
            return
        self._closed = True
        for worker in list(self._workers):
            self.remove(worker)
        for parent, home in self._hierarchies():
            self._empty(parent, home)
        if self._moved_home:
            base = self.mount.base
            with contextlib.suppress(OSError):
                self._files.write(base / "cgroup.subtree_control", "-cpu")
                self._empty(base / _HOME, base)

    # -- inside

    def _hierarchies(self) -> Iterator[tuple[Path, Path]]:
        """(our group, where its processes go when it is taken away) per hierarchy."""
        base = self.mount.base
        yield base / self._name, base / _HOME if self._moved_home else base
        if self.mount.accounting is not None:
            yield self.mount.accounting / self._name, self.mount.accounting

    def _make(self, group: Path) -> None:
        with contextlib.suppress(FileExistsError):
            self._files.mkdir(group)
        if self.mount.version == 2 and group == self.path:
            self._files.write(group / "cgroup.subtree_control", "+cpu")

    def _burst(self, file: Path, burst_us: int) -> None:
        """Kernels before 5.14 have no burst; some refuse it: the quota holds without."""
        with contextlib.suppress(OSError):
            self._files.write(file, str(burst_us))

    def _weigh(self, group: Path, weight: int) -> None:
        if self.mount.version == 2:
            self._files.write(group / "cpu.weight", str(weight))
        else:
            self._files.write(group / "cpu.shares", str(round(weight * 10.24)))

    def _move(self, pid: int, worker: str) -> int:
        try:
            for parent, _ in self._hierarchies():
                self._files.write(parent / slug(worker) / "cgroup.procs", str(pid))
        except ProcessLookupError:
            return 0
        return 1

    def _empty(self, group: Path, home: Path) -> None:
        for attempt in range(20):
            try:
                self._files.rmdir(group)
                return
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
                    return
            with contextlib.suppress(OSError):
                for pid in self._files.read(group / "cgroup.procs").split():
                    with contextlib.suppress(OSError):
                        self._files.write(home / "cgroup.procs", pid)
            if attempt:
                self._sleep(0.01)  # a process that is just dying leaves in a moment

    def _enable_v2(self) -> None:
        base = self.mount.base
        if "cpu" not in self._files.read(base / "cgroup.controllers").split():
            raise ShareError(f"the cpu controller is not delegated to {base}", "systemd: Delegate=cpu in the service")
        if "cpu" in self._files.read(base / "cgroup.subtree_control").split():
            return
        if self._files.exists(base / "cgroup.type"):  # not the true root: no processes beside groups
            inside = [int(p) for p in self._files.read(base / "cgroup.procs").split()]
            strangers = sorted(set(inside) - _family(self._pid, self._proc))
            if strangers:
                raise ShareError(
                    f"processes that are not ours live in {base} (pid {strangers[0]}, ...)",
                    "start Magpie in a group of its own, for instance as a systemd service with Delegate=cpu",
                )
            with contextlib.suppress(FileExistsError):
                self._files.mkdir(base / _HOME)
            self._moved_home = True
            for pid in inside:
                with contextlib.suppress(ProcessLookupError):
                    self._files.write(base / _HOME / "cgroup.procs", str(pid))
        self._files.write(base / "cgroup.subtree_control", "+cpu")


def sweep(
    mount: Mount,
    files: Files | None = None,
    proc: Path = Path("/proc"),
    sleep: Callable[[float], None] = time.sleep,
) -> Swept:
    """Remove the groups of appliances that are gone. A group in which a process still runs stays in force."""
    files = files or KernelFiles()
    removed, orphans = 0, set()
    for base in (mount.base, mount.accounting):
        if base is None:
            continue
        try:
            names = files.folders(base)
        except OSError:
            continue
        for name in names:
            match = _NAME.match(name)
            if match is None or start_time(int(match[1]), proc) == int(match[2]):
                continue
            with contextlib.suppress(OSError):
                for child in files.folders(base / name):
                    living = [int(p) for p in files.read(base / name / child / "cgroup.procs").split()]
                    if living:
                        orphans.update(living)
                    else:
                        files.rmdir(base / name / child)
                if not files.folders(base / name) and not files.read(base / name / "cgroup.procs").split():
                    files.rmdir(base / name)
                    removed += 1
    return Swept(removed, tuple(sorted(orphans)))


def slug(worker: str) -> str:
    """A worker's name as a folder: readable, and never the same for two names."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", worker)[:40]
    return plain if plain == worker and plain else f"{plain}_{hashlib.sha256(worker.encode()).hexdigest()[:8]}"


def _numbers(text: str) -> dict[str, int]:
    return {key: int(value) for key, _, value in (line.partition(" ") for line in text.splitlines()) if value}


def _parent(pid: int, proc: Path) -> int | None:
    try:
        return int((proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _family(pid: int, proc: Path) -> set[int]:
    """A process, its ancestors, and all their descendants but those that only process 1 joins to it."""
    family: set[int] = set()
    current: int | None = pid
    while current is not None and current > 0 and current not in family:
        family.add(current)
        current = _parent(current, proc)
    ancestors = set(family) - {1}
    parents = {int(p.name): _parent(int(p.name), proc) for p in proc.iterdir() if p.name.isdigit()}
    for candidate in parents:
        chain, at = [candidate], parents[candidate]
        while at is not None and at > 1 and at not in ancestors:
            chain.append(at)
            at = parents.get(at)
        if at in ancestors:
            family.update(chain)
    return family


def _hint(mount: Mount, error: OSError) -> str:
    if error.errno == errno.EROFS:
        return "the control groups are read-only here; Docker 28+: --security-opt writable-cgroups=true"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "run as root, or as a systemd service with Delegate=cpu"
    return ""
