"""One worker process: started from the forkserver, spoken to by typed messages over a pipe, ended with certainty.

Reading and writing pipes happens in threads of the control process, so that a stopped or slow worker never blocks it.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from typing import Any

from edge.core.errors import MagpieError, out_of_memory
from edge.core.shares import LaunchSpec
from edge.core.workers import LossCause
from edge.logs import log_in_worker
from edge.runtime.memory_limit import limit_mappings

#: Exit code of a worker that ran out of memory and reported it.
OUT_OF_MEMORY = 77
#: Exit code of a worker that failed with an error that it could report.
FAILED = 70

_OUTBOX_LIMIT = 1000
#: After its end is known a process is reaped within this time, and its last messages are read.
_REAP_S = 5.0
#: multiprocessing's table of children is read by every start and poll: two threads at once would lose an exit code.
_CHILDREN = threading.Lock()


@dataclass(frozen=True)
class Beat:
    """The worker's main loop is alive."""


@dataclass(frozen=True)
class Ready:
    """The worker is loaded and warm: one that stands by may take over."""


@dataclass(frozen=True)
class Retired:
    """The worker that was asked to retire does nothing any more; it ends next."""


@dataclass(frozen=True)
class WorkerError:
    """The worker gives up: `code` of the MagpieError or the exception's name, and the message for people."""

    code: str
    message: str


@dataclass(frozen=True)
class Stop:
    """To the worker: finish what you do and end."""


@dataclass(frozen=True)
class Retire:
    """To the worker: another process goes on in your place. Finish what you have begun, keep what it needs, end."""


@dataclass(frozen=True)
class TakeOver:
    """To a worker that stands by: it is yours now. `argument` is as for a start at this instant."""

    argument: Any


def context() -> ForkServerContext:
    """The forkserver context with torch and the student code preloaded."""
    ctx = multiprocessing.get_context("forkserver")
    ctx.set_forkserver_preload(["edge.runtime.preload"])
    return ctx


class Channel:
    """The child's end: commands come in through a thread, messages go out under a lock.

    When the control process is gone the child ends at once: nothing may go on without an owner. A worker that stands
    by (`standby`) warms up, says `ready`, and does nothing that can be seen before it is sent TakeOver.
    """

    def __init__(self, connection: Connection, standby: bool = False) -> None:
        self._connection = connection
        self.standby = standby
        self._lock = threading.Lock()
        self._inbox: queue.Queue[Any] = queue.Queue()
        self._last_beat = 0.0
        threading.Thread(target=self._receive, name="commands", daemon=True).start()

    def _receive(self) -> None:
        while True:
            try:
                self._inbox.put(self._connection.recv())
            except (EOFError, OSError):
                os._exit(0)

    def send(self, message: Any) -> None:
        """Send one message; ends the process if the other end is closed."""
        try:
            with self._lock:
                self._connection.send(message)
        except (BrokenPipeError, OSError):
            os._exit(0)

    def beat(self) -> None:
        """Call from the main loop; sends a heartbeat at most twice a second."""
        now = time.monotonic()
        if now - self._last_beat >= 0.5:
            self._last_beat = now
            self.send(Beat())

    def beating(self) -> bool:
        """A heartbeat for a worker that waits in slices; never asks it to stop."""
        self.beat()
        return False

    def ready(self) -> None:
        """Say that the worker is loaded and warm."""
        self.send(Ready())

    def retired(self) -> None:
        """Say, as the answer to Retire, that nothing more will be done here."""
        self.send(Retired())

    def receive(self, timeout_s: float = 0.0) -> Any | None:
        """The next command, or None."""
        try:
            return self._inbox.get(timeout_s > 0, timeout_s) if timeout_s > 0 else self._inbox.get_nowait()
        except queue.Empty:
            return None


WorkerMain = Callable[[Channel, Any], None]


def _die_with_parent() -> None:
    """Ask Linux to kill this process when the forkserver (and so the appliance) is gone.

    Each child is given the descriptor that keeps the forkserver alive, so that it could start processes itself. Kept
    open it would let a hung child, and the forkserver with it, outlive the appliance.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    with contextlib.suppress(OSError, AttributeError, TypeError, KeyError):
        server: Any = vars(forkserver)["_forkserver"]
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = None


def _child(
    connection: Connection,
    main: WorkerMain,
    argument: Any,
    launch: LaunchSpec,
    environment: dict[str, str],
    killable: bool,
    standby: bool,
    memory_limit_bytes: int | None,
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _die_with_parent()
    # The forkserver's environment is that of its start: secrets that came or changed later are in the owner's only.
    os.environ.clear()
    os.environ.update(environment | dict(launch.env))
    log_in_worker(multiprocessing.current_process().name)
    if launch.nice:
        with contextlib.suppress(OSError):
            os.nice(launch.nice)
    if killable:
        # When memory runs out the kernel shall take a retraining before a camera.
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as f:
            f.write("500")
    if memory_limit_bytes is not None:
        limit_mappings(memory_limit_bytes)
    import torch

    # One thread each, at every share: under a quota the threads of one worker wait for each other and burn the
    # share in doing so. Several cores are used by several workers; profiles are measured and planned that way.
    torch.set_num_threads(1)
    channel = Channel(connection, standby)
    code = 0
    try:
        main(channel, argument)
    except MagpieError as error:
        channel.send(WorkerError(error.code, str(error)))
        code = FAILED
    except Exception as error:
        if out_of_memory(error):
            channel.send(WorkerError("out_of_memory", "the worker ran out of memory"))
            code = OUT_OF_MEMORY
        else:
            # For the log of the box, not for users: they get the one-line message.
            logging.getLogger(__name__).exception("the worker failed")
            channel.send(WorkerError(type(error).__name__, f"unexpected: {error}"))
            code = FAILED
    # Not closed first: the thread that reads commands would take that for the owner's end, and exit with code 0.
    os._exit(code)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold interrupts back from this thread, and from processes that it begins.

    An interrupt of the terminal reaches every process of the group. The owner answers it; the fork server, which would
    ignore it only once it has loaded its modules, must not die of it.
    """
    resource_tracker.ensure_running()  # when it begins, it lets interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class WorkerProcess:
    """The owner's end of one process. `on_message(message)` and `on_exit(code)` are called from its reader thread;
    `on_exit` comes exactly once, after the last message, also if a child of the process holds its pipe open.

    A start waits for the fork server, which loads torch when it begins: seconds, a minute on a busy machine. With
    `on_started` it is waited for in the reader's thread, which calls `on_started(None)` then, or `on_started(reason)`
    and `on_exit(None)` if no process could be made. `pid` is 0 until then. `memory_limit_bytes`: beyond twice that much
    the system refuses it memory (edge.runtime.memory_limit).
    """

    def __init__(
        self,
        name: str,
        main: WorkerMain,
        argument: Any,
        launch: LaunchSpec,
        on_message: Callable[[Any], None],
        on_exit: Callable[[int | None], None],
        killable: bool = False,
        standby: bool = False,
        memory_limit_bytes: int | None = None,
        on_started: Callable[[str | None], None] | None = None,
    ) -> None:
        self.name = name
        self._on_message, self._on_exit = on_message, on_exit
        ctx = context()
        self._ours, theirs = ctx.Pipe()
        self._process = ctx.Process(
            target=_child,
            args=(theirs, main, argument, launch, dict(os.environ), killable, standby, memory_limit_bytes),
            name=name,
            daemon=True,
        )
        #: Process id; 0 before it is known.
        self.pid = 0
        #: Guards `pid` and `_unwanted`, which is the signal for a process that is ended before it is there.
        self._begin = threading.Lock()
        self._unwanted: signal.Signals | None = None
        self._ended = threading.Event()
        self._outbox: queue.Queue[Any] = queue.Queue(_OUTBOX_LIMIT)
        self._closing = False
        self.messages_lost = 0
        self._writer = threading.Thread(target=self._write, name=f"{name}-writer", daemon=True)
        if on_started is None:
            self._start(theirs)
            reader = threading.Thread(target=self._read, name=f"{name}-reader", daemon=True)
        else:
            start = (theirs, on_started)
            reader = threading.Thread(target=self._start_and_read, args=start, name=f"{name}-reader", daemon=True)
        reader.start()

    def _start(self, theirs: Connection) -> None:
        with _CHILDREN, _interrupts_held():
            self._process.start()
        theirs.close()
        with self._begin:
            self.pid = self._process.pid or 0
            if self._unwanted is not None:
                self._signal(self._unwanted)
        self._writer.start()

    def _start_and_read(self, theirs: Connection, on_started: Callable[[str | None], None]) -> None:
        try:
            self._start(theirs)
        except Exception as error:  # no memory, the fork server has just died, or an argument cannot be sent
            for end in (theirs, self._ours):
                end.close()
            self._ended.set()
            on_started(f"could not be started: {error}")
            self._on_exit(None)
            return
        on_started(None)
        self._read()

    @property
    def alive(self) -> bool:
        """True while the process runs, or is being started."""
        if self._ended.is_set():
            return False
        # Asked on the event loop: the table of children may be held for as long as a start takes.
        return not self.pid or not wait([self._process.sentinel], 0)

    def send(self, message: Any) -> bool:
        """Queue a command; False if the worker does not read: the command is lost and counted."""
        try:
            self._outbox.put_nowait(message)
        except queue.Full:
            self.messages_lost += 1
            return False
        return True

    def kill(self, hard: bool = True) -> None:
        """End it now, or as soon as it is there. Safe to repeat, and never waits."""
        number = signal.SIGKILL if hard else signal.SIGTERM
        with self._begin:
            if self.pid:
                self._signal(number)
            else:
                self._unwanted = number

    def _signal(self, number: signal.Signals) -> None:
        if not self._ended.is_set():
            with contextlib.suppress(OSError):
                os.kill(self.pid, number)

    def join(self, timeout_s: float) -> bool:
        """Wait until it has ended and all its messages were handed on; True if so."""
        return self._ended.wait(timeout_s)

    def _read(self) -> None:
        sentinel = self._process.sentinel
        while True:
            # The sentinel too: a grandchild may hold the other end of the pipe open.
            ready = wait([self._ours, sentinel])
            if self._ours in ready:
                if not self._take():
                    break
            else:
                break
        self._reap()
        while self._ours.poll(0) and self._take():
            pass
        self._closing = True
        with contextlib.suppress(queue.Full):
            self._outbox.put_nowait(None)
        with _CHILDREN:
            code = self._process.exitcode
        self._ended.set()
        self._on_exit(code)
        self._writer.join(_REAP_S)
        self._ours.close()

    def _take(self) -> bool:
        """One message handed on; False if no more can come."""
        try:
            message = self._ours.recv()
        except (EOFError, OSError):
            return False
        except Exception as error:
            # A message that cannot be unpickled is the worker's fault; it is ended and started again.
            self._on_message(WorkerError("bad_message", f"unreadable message: {error}"))
            self.kill()
            return False
        self._on_message(message)
        return True

    def _reap(self) -> None:
        """Wait for the end; one that closed its pipe and yet lives is ended."""
        if not wait([self._process.sentinel], _REAP_S):
            self.kill()
            wait([self._process.sentinel], _REAP_S)
        with _CHILDREN:
            self._process.is_alive()

    def _write(self) -> None:
        while not self._closing:
            message = self._outbox.get()
            if message is None:
                break
            try:
                self._ours.send(message)
            except (BrokenPipeError, OSError, ValueError):
                break


def cause_of(code: int | None) -> LossCause:
    """Why a process ended by itself, by its exit code."""
    if code == OUT_OF_MEMORY:
        return "memory"
    if code is None or code == 0:
        return "other"
    return "signal" if code < 0 else "error"


def describe_exit(code: int | None) -> str:
    """An exit code in words."""
    if code is None:
        return "did not end"
    if code == OUT_OF_MEMORY:
        return "ran out of memory"
    if code < 0:
        names = {int(s): s.name for s in signal.Signals}
        name = names.get(-code, str(-code))
        extra = " (killed, perhaps for lack of memory)" if code == -signal.SIGKILL else ""
        return f"ended by {name}{extra}"
    return "ended" if code == 0 else f"failed with exit code {code}"
