"""A Ray cluster of real raylets on loopback, with a token and certificates, in processes of their own: for tests and
benchmarks."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from edge.core.engine import EngineMode
from edge.core.fleet import TaskAt
from edge.engines import ray_messages as msg
from edge.engines.ray_engine import RayEngine, RaySettings, new_token
from edge.engines.ray_node import RayNode
from edge.engines.ray_settings import RayCertificates, RayNodeSpec, RaySecurity

ADDRESS = "127.0.0.1"
_WAIT_S = 60.0


def short_folder() -> Path:
    """A new folder for Ray, whose sockets need a short path: the system's folder for temporary files has to be short,
    too."""
    return Path(tempfile.mkdtemp(prefix="m-"))


def certificates(folder: Path, addresses: Sequence[str] = (ADDRESS,)) -> RayCertificates:
    """An authority and a certificate of it for loopback addresses (openssl, as people make them)."""

    def run(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    (folder / "names").write_text(f"subjectAltName={','.join(f'IP:{a}' for a in addresses)},DNS:localhost\n")
    run("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=fleet")
    run("req", "-new", *curve[:-2], "-keyout", "box.key", "-out", "box.csr", "-subj", "/CN=box")
    run("x509", "-req", "-in", "box.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
        "-out", "box.pem", "-extfile", "names")  # fmt: skip
    return RayCertificates(folder / "box.pem", folder / "box.key", folder / "ca.pem")


class Member:
    """A box's part of the cluster."""

    def __init__(self, spec: RayNodeSpec) -> None:
        self.said: list[Any] = []
        self.code: int | None = None
        self._change = threading.Condition()
        self.ended = threading.Event()
        self.node = RayNode(spec, self._hear, self._exit)

    def _hear(self, message: Any) -> None:
        with self._change:
            self.said.append(message)
            self._change.notify_all()

    def _exit(self, code: int) -> None:
        self.code = code
        self.ended.set()
        with self._change:
            self._change.notify_all()

    def wait_for(self, kind: type, wait_s: float = _WAIT_S) -> Any:
        """The last message of a type, once there is one."""
        with self._change:
            found = self._change.wait_for(
                lambda: self.ended.is_set() or any(isinstance(m, kind) for m in self.said), wait_s
            )
            assert found, f"no {kind.__name__}; it said {self.said}"
            assert not self.ended.is_set(), f"it ended with {self.code}; it said {self.said}"
            return [m for m in self.said if isinstance(m, kind)][-1]

    def processes(self) -> list[psutil.Process]:
        """Its main and all below, raylet first."""
        main = psutil.Process(self.node.pid)
        children = main.children(recursive=True)
        return [*sorted(children, key=lambda p: p.name() != "raylet"), main]

    def kill(self) -> None:
        """As when the box loses its power."""
        for process in self.processes():
            process.kill()
        assert self.ended.wait(_WAIT_S)


class Cluster:
    """Boxes with their amounts; `head` is one of them, or a machine beside them. The others are still on their way."""

    def __init__(
        self,
        boxes: Mapping[str, Mapping[str, float]],
        head: str,
        warm_workers: int = 2,
        headless_s: float = 60.0,
        restart_s: float = 1.0,
    ) -> None:
        self.folder = short_folder()
        self.security = RaySecurity(new_token(), certificates(self.folder))
        self.boxes = boxes
        self._warm_workers, self._headless_s, self._restart_s = warm_workers, headless_s, restart_s
        self.members: dict[str, Member] = {}
        self.head = ""
        self._lives = 0
        try:
            self.head = self.start(head).wait_for(msg.RayNodeUp).head
            for box in boxes:
                if box != head:
                    self.start(box)
        except BaseException:
            self.close()
            raise

    def start(self, box: str) -> Member:
        """A box begins, or begins anew."""
        self._lives += 1
        spec = RayNodeSpec(
            box, self.folder / f"n{self._lives}", self.security, ADDRESS, head=self.head or None,
            warm_workers=self._warm_workers if box in self.boxes else 1, restart_s=self._restart_s,
            headless_s=self._headless_s,
        )  # fmt: skip
        member = self.members[box] = Member(spec)
        return member

    def settings(self, mode: EngineMode = "pinned", **more: Any) -> RaySettings:
        """An engine of this cluster."""
        values = {
            "boxes": self.boxes, "security": self.security, "folder": self.folder, "address": ADDRESS, "mode": mode
        }  # fmt: skip
        return RaySettings(self.head, **{**values, **more})

    def open(self, clock: Callable[[], float], mode: EngineMode = "pinned", **more: Any) -> RayEngine:
        """Open an engine."""
        return RayEngine(self.settings(mode, **more), clock)

    def kill_worker(self, at: TaskAt) -> None:
        """End the process of the task that runs on a box."""
        workers = [p for p in self.members[at.box].processes() if p.cmdline()[:1] == ["ray::task"]]
        assert len(workers) == 1, [p.cmdline() for p in self.members[at.box].processes()]
        workers[0].kill()

    def close(self) -> None:
        """End all, members first."""
        for member in reversed(self.members.values()):
            member.node.close()
        shutil.rmtree(self.folder, ignore_errors=True)
