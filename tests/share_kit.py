"""Helpers of the share tests that are no fixtures."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent / "shares"
REPO = HERE.parent.parent

#: Burns CPU in 5 ms batches under its bucket.
OBEDIENT = """
import time
from edge.shares.bucket import Bucket
bucket = Bucket.from_environment()
while True:
    with bucket.batch():
        end = time.process_time() + 0.005
        while time.process_time() < end:
            pass
"""
#: Burns CPU and knows no bucket.
GREEDY = "while True: pass"
#: Obeys, but has little to do.
LAZY = """
import time
from edge.shares.bucket import Bucket
bucket = Bucket.from_environment()
while True:
    time.sleep(0.05)
    with bucket.batch():
        end = time.process_time() + 0.001
        while time.process_time() < end:
            pass
"""


def child(code: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A Python child that can import the product."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(REPO), **(env or {})},
        stdin=subprocess.DEVNULL,
    )


@dataclass
class FakeMps:
    """The stand-in for the MPS program: its place, and its orders."""

    path: Path
    state: Path
    environ: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def install(folder: Path, state: Path) -> FakeMps:
        folder.mkdir(parents=True)
        state.mkdir(parents=True)
        program = folder / "nvidia-cuda-mps-control"
        source = (HERE / "fake_mps_control.py").read_text()
        program.write_text(f"#!{sys.executable} -SE\n" + source.partition("\n")[2])
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "FAKE_MPS": str(state)}
        return FakeMps(program, state, environ)

    def behave(self, words: str) -> None:
        (self.state / "behaviour").write_text(words)

    def set_servers(self, *servers: tuple[int, str]) -> None:
        (self.state / "servers").write_text("".join(f"{pid} {status}\n" for pid, status in servers))

    def set_clients(self, *clients: tuple[int, int]) -> None:
        (self.state / "clients").write_text("".join(f"{pid} {server}\n" for pid, server in clients))

    @property
    def calls(self) -> list[str]:
        file = self.state / "calls"
        return file.read_text().splitlines() if file.exists() else []


class FakeCgroup2:
    """A model of the kernel's cgroup v2 tree with the rules that matter: no processes in inner nodes (but the true
    root), controllers must be enabled from the top, a group with processes or children cannot be removed.
    """

    def __init__(self, root: Path, own: str = "", true_root: bool = True, delegated: bool = True) -> None:
        self.root = root
        self.files: dict[Path, str] = {}
        self.processes: dict[int, Path] = {}
        self.gone: set[int] = set()
        self.rejected: list[str] = []
        self._group(root, controllers="cpu memory" if delegated else "memory", kernel_root=true_root)
        self.own = root
        for part in [p for p in own.split("/") if p]:
            if delegated:
                self.files[self.own / "cgroup.subtree_control"] = "cpu memory"
            self.own = self.own / part
            self._group(self.own, controllers="cpu memory" if delegated else "memory")

    def _group(self, path: Path, controllers: str, kernel_root: bool = False) -> None:
        self.files[path / "cgroup.controllers"] = controllers
        self.files[path / "cgroup.subtree_control"] = ""
        self.files[path / "cgroup.procs"] = ""
        if not kernel_root:
            self.files[path / "cgroup.type"] = "domain"
            if "cpu" in controllers:
                self.files[path / "cpu.max"] = "max 100000"
                self.files[path / "cpu.max.burst"] = "0"
                self.files[path / "cpu.weight"] = "100"
        self.files[path / "cpu.stat"] = "usage_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"

    def _refuse(self, code: int, what: str) -> OSError:
        self.rejected.append(what)
        return OSError(code, os.strerror(code), what)

    # -- the Files protocol

    def read(self, path: Path) -> str:
        if path.name == "cgroup.procs" and path in self.files:
            return "".join(f"{pid}\n" for pid, group in sorted(self.processes.items()) if group == path.parent)
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self.files[path]

    def write(self, path: Path, text: str) -> None:
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        group = path.parent
        if path.name == "cgroup.procs":
            pid = int(text)
            if pid in self.gone:
                raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
            inner = "cgroup.type" in {p.name for p in self.files if p.parent == group}
            if inner and self.files[group / "cgroup.subtree_control"]:
                raise self._refuse(errno.EBUSY, f"process into inner node {group}")
            self.processes[pid] = group
        elif path.name == "cgroup.subtree_control":
            if text == "+cpu":
                if "cpu" not in self.files[group / "cgroup.controllers"].split():
                    raise self._refuse(errno.ENOENT, f"cpu is not available in {group}")
                not_root = (group / "cgroup.type") in self.files
                if not_root and group in self.processes.values():
                    raise self._refuse(errno.EBUSY, f"{group} holds processes")
                self.files[path] = "cpu"
            elif text == "-cpu":
                self.files[path] = ""
            else:
                raise self._refuse(errno.EINVAL, f"{path} <- {text}")
        elif path.name == "cpu.max":
            quota, period = text.split()
            if not 1000 <= int(period) <= 1_000_000 or (quota != "max" and int(quota) < 1000):
                raise self._refuse(errno.EINVAL, f"{path} <- {text}")
            if quota != "max" and int(self.files[group / "cpu.max.burst"]) > int(quota):
                raise self._refuse(errno.EINVAL, f"{path} <- {text}: the burst is larger")
            self.files[path] = text
        elif path.name == "cpu.max.burst":
            quota = self.files[group / "cpu.max"].split()[0]
            if int(text) and (quota == "max" or int(text) > int(quota)):
                raise self._refuse(errno.EINVAL, f"{path} <- {text}")
            self.files[path] = text
        elif path.name == "cpu.weight":
            if not 1 <= int(text) <= 10_000:
                raise self._refuse(errno.ERANGE, f"{path} <- {text}")
            self.files[path] = text
        else:
            raise self._refuse(errno.EACCES, f"{path} <- {text}")

    def mkdir(self, path: Path) -> None:
        if path / "cgroup.procs" in self.files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        if path.parent / "cgroup.procs" not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        enabled = "cpu" in self.files[path.parent / "cgroup.subtree_control"].split()
        self._group(path, controllers="cpu" if enabled else "")

    def rmdir(self, path: Path) -> None:
        if path / "cgroup.procs" not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if path in self.processes.values() or self.folders(path):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
        self.files = {p: text for p, text in self.files.items() if p.parent != path}

    def exists(self, path: Path) -> bool:
        return path in self.files or path / "cgroup.procs" in self.files

    def folders(self, path: Path) -> list[str]:
        return sorted({p.parent.name for p in self.files if p.parent.parent == path and p.name == "cgroup.procs"})

    def groups(self) -> list[Path]:
        """All groups but the ones that were there from the start."""
        return sorted(p.parent for p in self.files if p.name == "cgroup.procs" and "magpie" in str(p.parent))
