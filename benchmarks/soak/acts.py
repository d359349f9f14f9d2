"""Does the faults of the schedule, and takes them away again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.own_servers import BrokerProcess, DatabaseProcess
from benchmarks.small_disk import fill
from benchmarks.soak.invariants import later_s, serious
from benchmarks.soak.place import Place
from benchmarks.soak.schedule import CALM_S, KINDS, FaultName, Step
from benchmarks.soak.values import FaultDone
from benchmarks.soak.watching import Watcher

#: Busy processes for each core of a machine that is overloaded five times.
OVERLOAD = 5
_HOUR_S = 3600.0
#: So long a worker of the wanted kind is waited for.
_WORKER_S = 90.0
_WORKERS: Mapping[FaultName, str] = {
    "kill_camera": "camera", "kill_golden": "golden", "kill_profiler": "profiler", "kill_retrain": "retrain",
    "kill_executor": "executor", "kill_front": "front",
}  # fmt: skip
_CAMERAS: Mapping[FaultName, str] = {
    "camera_gone": "gone", "camera_frozen": "frozen", "camera_password": "password", "camera_damaged": "damaged",
}  # fmt: skip


class NoSuchWorkerError(Exception):
    """No worker of the wanted kind ran: the fault is left out."""


class Acts:
    """Does one step after another. `done` are the faults so far, `kills_utc_s` the kills of the whole appliance by its
    own clock."""

    def __init__(self, place: Place, watcher: Watcher, now: Callable[[], float]) -> None:
        self._place, self._watcher, self._now = place, watcher, now
        self.done: list[FaultDone] = []
        self.kills_utc_s: list[float] = []

    async def step(self, step: Step) -> FaultDone:
        """Do the fault, wait for its time, take it away, wait until all is well or the bound is over, and pause. Raises
        TimeoutError, RuntimeError, Unavailable if the appliance or a server does not come back."""
        began_s = self._now()
        tried, note = True, ""
        try:
            note = await self._do(step)
        except NoSuchWorkerError as error:
            tried, note = False, str(error)
        done = FaultDone(step.number, step.fault, step.camera, began_s, self._now(), tried, note)
        if tried and not await self.well(KINDS[step.fault].back_s):
            done = replace(done, note=f"{note}; not yet well: {self._unwell(done.ended_s)}")
        self.done.append(done)
        await asyncio.sleep(step.pause_s)
        return done

    async def well(self, limit_s: float) -> bool:
        """Wait until everything has answered since now, with all cameras live and health good; False: not within
        limit_s."""
        since_s = self._now()
        while self._now() < since_s + limit_s:
            seen = self._watcher.seen
            if seen.looks and seen.looks[-1].at_s > since_s + 2.0:
                look = seen.looks[-1]
                fresh = not self._silent(since_s)
                if fresh and set(look.states.values()) == {"live"} and not serious(look):
                    return True
            await asyncio.sleep(0.5)
        return False

    def _silent(self, since_s: float) -> list[str]:
        """Subjects of which nothing was heard since then; those that may be silent for longer are left out."""
        answered = self._watcher.seen.answered
        return [s for s, times in answered.items() if not later_s(s) and (not times or times[-1] <= since_s)]

    def _unwell(self, since_s: float) -> str:
        """What was not well at the last look, or has not answered since then."""
        seen = self._watcher.seen
        last = seen.looks[-1]
        states = {camera: state for camera, state in last.states.items() if state != "live"}
        return f"silent {self._silent(since_s)}, states {states}, {sorted(serious(last))}"

    async def _do(self, step: Step) -> str:
        if step.fault in _WORKERS:
            return await self._kill_worker(_WORKERS[step.fault], step.camera)
        if step.fault in _CAMERAS:
            return await self._trouble_camera(step.camera, _CAMERAS[step.fault], step.lasts_s)
        doing = getattr(self, f"_{step.fault}")
        return str(await doing(step.lasts_s))

    # -- kills

    async def _worker(self, kind: str, camera: str = "") -> Mapping[str, Any]:
        end_s = self._now() + _WORKER_S
        while self._now() < end_s:
            for worker in self._watcher.workers(kind):
                unfinished = kind != "retrain" or self._watcher.unfinished(worker["camera"])
                if unfinished and (not camera or worker["camera"] == camera):
                    return worker
            await asyncio.sleep(0.3)
        unfinished = " that had much work left" if kind == "retrain" else ""
        raise NoSuchWorkerError(f"no worker of kind {kind}{unfinished} ran within {_WORKER_S:g} s")

    async def _kill_worker(self, kind: str, camera: str) -> str:
        while True:
            worker = await self._worker(kind, camera)
            try:
                os.kill(int(worker["pid"]), signal.SIGKILL)
            except ProcessLookupError:  # it ended since the last look
                await asyncio.sleep(1.0)
                continue
            return str(worker["name"])

    async def _kill(self, everything: bool) -> str:
        await asyncio.to_thread(self._watcher.next_life)
        self.kills_utc_s.append(self._place.clock.utc())
        await asyncio.to_thread(self._place.box.kill, everything)
        await asyncio.sleep(1.0)  # as a service manager waits
        await asyncio.to_thread(self._place.box.start)
        return "started again"

    async def _kill_control(self, _lasts_s: float) -> str:
        return await self._kill(False)

    async def _kill_all(self, _lasts_s: float) -> str:
        return await self._kill(True)

    # -- the world

    async def _trouble_camera(self, camera: str, what: str, lasts_s: float) -> str:
        await asyncio.to_thread(self._place.house.order, camera, what)
        await asyncio.sleep(lasts_s)
        await asyncio.to_thread(self._place.house.order, camera, "well")
        return camera

    async def _database_away(self, lasts_s: float) -> str:
        return await _away(self._place.database, "PostgreSQL", lasts_s)

    async def _broker_away(self, lasts_s: float) -> str:
        return await _away(self._place.broker, "mosquitto", lasts_s)

    async def _receiver_away(self, lasts_s: float) -> str:
        await self._place.listener.refuse()
        await asyncio.sleep(lasts_s)
        await self._place.listener.receive()
        return "webhook"

    async def _disk_full(self, lasts_s: float) -> str:
        assert self._place.disk is not None, "only where there is one"
        filler = self._place.disk / "filler"
        await asyncio.to_thread(fill, filler)
        await asyncio.sleep(lasts_s)
        filler.unlink()
        return "no byte left"

    async def _clock_ahead(self, _lasts_s: float) -> str:
        self._place.clock.set(self._place.clock.ahead_s + _HOUR_S)
        return "an hour ahead"

    async def _clock_back(self, _lasts_s: float) -> str:
        self._place.clock.set(self._place.clock.ahead_s - _HOUR_S)
        return "an hour back"

    async def _teacher_hung(self, lasts_s: float) -> str:
        worker = await self._worker("golden")
        os.kill(int(worker["pid"]), signal.SIGSTOP)
        await asyncio.sleep(lasts_s)
        with contextlib.suppress(ProcessLookupError):  # its owner may have ended it
            os.kill(int(worker["pid"]), signal.SIGCONT)
        return "stopped"

    async def _overloaded(self, lasts_s: float) -> str:
        busy = [
            subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
            for _ in range(OVERLOAD * (os.cpu_count() or 1))
        ]
        try:
            await asyncio.sleep(lasts_s)
        finally:
            for process in busy:
                process.kill()
                process.wait()
        return f"{len(busy)} busy processes"


async def _away(server: DatabaseProcess | BrokerProcess | None, name: str, lasts_s: float) -> str:
    assert server is not None, "only where there is one"
    await asyncio.to_thread(server.stop)
    await asyncio.sleep(lasts_s)
    await asyncio.to_thread(server.start)
    return name


def longest_s(step: Step) -> float:
    """The most that a step takes, to plan the end by."""
    return step.lasts_s + KINDS[step.fault].back_s + step.pause_s + CALM_S
