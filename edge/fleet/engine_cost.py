"""The cost of a box's part of an engine while it runs no task, as it is measured there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import psutil

from edge.fleet.engine_messages import EngineCost

#: It is measured over so long without a task, in s.
MEASURE_S: Final = 60.0
_MIB: Final = 2**20
#: Ray calls the process of a task so.
_TASK: Final = "ray::task"


@dataclass(frozen=True)
class ProcessesNow:
    """Processes that live now: how many, their memory (MiB; a shared page counts in parts), their CPU time since their
    start. `busy`: one of them runs a task."""

    processes: int
    memory_mb: float
    cpu_s: float
    busy: bool = False


def processes_now() -> ProcessesNow:
    """This process and all below it. One that ends meanwhile is left out."""
    count, memory, cpu_s, busy = 0, 0.0, 0.0, False
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            times, used, command = process.cpu_times(), _memory(process), process.cmdline()
        except psutil.Error:
            continue
        count, memory, cpu_s = count + 1, memory + used, cpu_s + times.user + times.system
        busy = busy or command[:1] == [_TASK]
    return ProcessesNow(count, memory / _MIB, cpu_s, busy)


def _memory(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().pss)
    except psutil.AccessDenied:
        return float(process.memory_info().rss)


class IdleCost:
    """Looks from time to time; the cost is known when no task ran between two looks."""

    def __init__(self, processes: Callable[[], ProcessesNow] = processes_now) -> None:
        self._processes = processes
        self._before: tuple[float, ProcessesNow] | None = None

    def look(self, now_s: float) -> EngineCost | None:
        """The cost since the last look, where a look is due and nothing ran at either; else None."""
        if self._before is not None and now_s - self._before[0] < MEASURE_S:
            return None
        before, now = self._before, self._processes()
        self._before = (now_s, now)
        if before is None or before[1].busy or now.busy:
            return None
        spent_s = max(0.0, now.cpu_s - before[1].cpu_s)
        return EngineCost(now.processes, now.memory_mb, 60.0 * spent_s / (now_s - before[0]))
