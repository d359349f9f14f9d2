"""Means of cooperation: a folder of bucket files per appliance, and the CPU time of worker processes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

import psutil

from edge.core.errors import ShareError
from edge.shares.bucket import BucketFile
from edge.shares.cgroup import slug, start_time

_NAME = re.compile(r"^magpie-buckets-(\d+)-(\d+)-")


class BucketFolder:
    """Bucket files of one appliance, by worker, in memory-backed storage where there is some.

    The folder's name carries the owner's pid and start time; folders of owners that are gone are removed.
    """

    def __init__(self, parent: Path | None = None) -> None:
        if parent is None:
            shm = Path("/dev/shm")
            parent = shm if shm.is_dir() and os.access(shm, os.W_OK) else Path(tempfile.gettempdir())
        self.swept = self._sweep(parent)
        pid = os.getpid()
        try:
            self.path = Path(tempfile.mkdtemp(prefix=f"magpie-buckets-{pid}-{start_time(pid) or 0}-", dir=parent))
        except OSError as error:
            raise ShareError(f"no bucket folder can be made in {parent}: {error.strerror}") from error
        self._files: dict[str, BucketFile] = {}

    @staticmethod
    def _sweep(parent: Path) -> int:
        removed = 0
        with contextlib.suppress(OSError):
            for entry in parent.iterdir():
                match = _NAME.match(entry.name)
                if match is not None and start_time(int(match[1])) != int(match[2]):
                    shutil.rmtree(entry, ignore_errors=True)
                    removed += 1
        return removed

    def open(self, worker: str) -> BucketFile:
        """The worker's bucket file, made when it is first asked for."""
        if worker not in self._files:
            self._files[worker] = BucketFile(self.path / slug(worker))
        return self._files[worker]

    def get(self, worker: str) -> BucketFile | None:
        """The worker's bucket file if it was made."""
        return self._files.get(worker)

    def remove(self, worker: str) -> None:
        """Forget a worker's bucket; unknown workers are ignored."""
        file = self._files.pop(worker, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Remove all of them and the folder. Safe to repeat."""
        for worker in list(self._files):
            self.remove(worker)
        shutil.rmtree(self.path, ignore_errors=True)


def family(pid: int) -> list[int]:
    """A process and all its descendants that live now; empty if it is gone."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        return [pid, *(child.pid for child in process.children(recursive=True))]
    return []


class ProcessTime:
    """CPU time of a process, its ended children, and its living descendants. Never goes back, also after its end."""

    def __init__(self, pid: int) -> None:
        self._process: psutil.Process | None = None
        self._last_s = 0.0
        with contextlib.suppress(psutil.Error):
            self._process = psutil.Process(pid)

    def read(self) -> float:
        """CPU seconds so far."""
        if self._process is None:
            return self._last_s
        with contextlib.suppress(psutil.Error):
            times = self._process.cpu_times()
            total = times.user + times.system + times.children_user + times.children_system
            for child in self._process.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    own = child.cpu_times()
                    total += own.user + own.system
            self._last_s = max(self._last_s, total)
        return self._last_s
