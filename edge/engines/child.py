"""A light child process of an engine, spoken to by typed messages as JSON lines over its standard streams.

`edge.runtime.process` starts workers that hold torch; the processes beside Ray shall not, since they are there all the
time. The child ends when its owner does, and all of its process group with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

_REAP_S = 5.0


def encode(message: Any) -> str:
    """One line of JSON: the message's type and its fields."""
    return json.dumps({"is": type(message).__name__, **{f.name: getattr(message, f.name) for f in fields(message)}})


def decode(line: str, kinds: Mapping[str, type]) -> Any:
    """The message of a line. Raises ValueError where it is none of `kinds`."""
    row = json.loads(line)
    kind = kinds.get(row.pop("is", "")) if isinstance(row, dict) else None
    if kind is None:
        raise ValueError("an unknown message")
    try:
        return kind(**row)
    except TypeError as error:
        raise ValueError(f"not a message of type {kind.__name__}: {error}") from None


def kinds_of(module: object) -> dict[str, type]:
    """The message types of a module, by name."""
    return {name: value for name, value in vars(module).items() if isinstance(value, type) and is_dataclass(value)}


class Child:
    """The owner's end. `on_message` and `on_exit(code)` are called from its reader thread; `on_exit` once, at last. A
    second thread writes: a child that reads nothing does not hold its owner up. The environment is the owner's with
    `environment` laid over it; the child's error stream goes to `log`."""

    def __init__(
        self,
        module: str,
        environment: Mapping[str, str],
        log: Path,
        kinds: Mapping[str, type],
        on_message: Callable[[Any], None],
        on_exit: Callable[[int], None],
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._kinds, self._on_message, self._on_exit = kinds, on_message, on_exit
        self._outbox: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=os.environ | dict(environment),
                text=True,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._ended = threading.Event()
        threading.Thread(target=self._read, name=f"{module}-reader", daemon=True).start()
        threading.Thread(target=self._write, name=f"{module}-writer", daemon=True).start()

    def send(self, message: Any) -> bool:
        """Send one message, without a wait; False where the child is gone."""
        if self._ended.is_set():
            return False
        self._outbox.put(encode(message) + "\n")
        return True

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; True if it has ended."""
        return self._ended.wait(timeout_s)

    def kill(self) -> None:
        """End it and its process group now. Safe to repeat."""
        if not self._ended.is_set():
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)

    def _write(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            while (line := self._outbox.get()) is not None:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                message = decode(line, self._kinds)
            except ValueError:
                self.kill()
                break
            self._on_message(message)
        try:
            code = self._process.wait(_REAP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)  # what it started and left
        self._ended.set()
        self._outbox.put(None)
        self._process.stdout.close()
        self._on_exit(code)


class ChildChannel:
    """The child's end. When its owner is gone the process ends at once. Other writers to the standard output write to
    the error stream from now on."""

    def __init__(self, kinds: Mapping[str, type]) -> None:
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._kinds = kinds
        self._lock = threading.Lock()
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._receive, name="commands", daemon=True).start()

    def _receive(self) -> None:
        with contextlib.suppress(ValueError):
            for line in sys.stdin:
                self._inbox.put(decode(line, self._kinds))
        os._exit(0)

    def send(self, message: Any) -> None:
        """Send one message; ends the process where the reader is gone."""
        try:
            with self._lock:
                self._out.write(encode(message) + "\n")
                self._out.flush()
        except OSError:
            os._exit(0)

    def receive(self, timeout_s: float | None = None) -> Any | None:
        """The next message; None after `timeout_s`."""
        try:
            return self._inbox.get(timeout=timeout_s)
        except queue.Empty:
            return None
