"""Forecasts of changes of this box: made in a process of its own, kept, and compared with what came."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from edge.appliance.answers.capacity import (
    CapacityAnswer,
    CapacityChangeAnswer,
    CapacityNoteAnswer,
    CapacityOutcomeAnswer,
    FailedForecast,
    ForecastAnswer,
    ReckonedNow,
)
from edge.appliance.answers.read import by_name, read
from edge.core import checks
from edge.core.capacity import (
    LEAST_WINDOWS,
    BoxChange,
    CapacityForecast,
    CapacityOutcome,
    PastChange,
    StoredForecast,
)
from edge.core.clock import Clock
from edge.core.errors import Conflict, MagpieError
from edge.core.learning import LEARNED_DOCUMENT, BudgetProblem
from edge.core.shares import LaunchSpec
from edge.runtime.process import Beat, Channel, WorkerError, WorkerProcess
from edge.simulation.capacity import CapacityQuestion, box_windows, enough, forecast, usable
from edge.store.store import Store
from scheduler.capacity.compared import outcome
from scheduler.capacity.serving import ServedBox

log = logging.getLogger(__name__)

#: Windows that a forecast is made from where no number is named; windows that are looked through for changes.
WINDOWS: Final = 48
MOST_LOOKED: Final = 200
#: Forecasts that are shown; all are kept and widen intervals.
_SHOWN: Final = 50
_DAY_S: Final = 86_400.0
#: It gives way to cameras and models.
_NICE: Final = 15
#: A forecast that takes longer is ended and has failed.
LIMIT_S: Final = 1800.0


def reckon(channel: Channel, question: CapacityQuestion) -> None:
    """Worker main: sends the CapacityForecast."""
    channel.send(forecast(question))


@dataclass
class _Working:
    change: BoxChange
    since_utc_s: float
    by: str
    process: WorkerProcess | None = None
    timer: asyncio.TimerHandle | None = None


class CapacityForecasts:
    """Implements `CapacityService`: one forecast at a time. `served()` is what is served now (None: nothing),
    `golden()` the golden model's share; `retention_days` forecasts are kept. Its process has at most
    `memory_limit_bytes` (None: no limit) and `limit_s`."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        served: Callable[[], ServedBox | None],
        golden: Callable[[], float],
        retention_days: float,
        memory_limit_bytes: int | None = None,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._store, self._clock, self._served, self._golden = store, clock, served, golden
        self._days, self._memory_bytes, self._limit_s = retention_days, memory_limit_bytes, limit_s
        self._closed = False
        self._working: _Working | None = None
        self._failed: tuple[BoxChange, str] | None = None
        self._keeping: set[asyncio.Task[None]] = set()
        #: Closed windows, and how many accuracies of them were measured, when forecasts were last compared.
        self._settled_at: tuple[int, int] | None = None
        self._usable = 0

    def close(self) -> None:
        """End a forecast that is being made; no other is begun."""
        self._closed = True
        if self._working is not None and self._working.process is not None:
            self._working.process.kill()

    async def all(self) -> CapacityAnswer:
        """Raises Unavailable, StoreError."""
        measured = _measured_ms(self._served())
        # One that is kept while these are read counts as being made: no answer is without both.
        working = self._working
        kept, windows = await asyncio.to_thread(self._look, measured)
        return CapacityAnswer(
            needed=LEAST_WINDOWS,
            windows=windows,
            working=None
            if working is None
            else ReckonedNow(change=change_answer(working.change), since_utc_s=working.since_utc_s),
            failed=None
            if self._failed is None
            else FailedForecast(change=change_answer(self._failed[0]), message=self._failed[1]),
            forecasts=tuple(map(forecast_answer, kept[:_SHOWN])),
        )

    async def ask(self, change: BoxChange, windows: int, by: str) -> CapacityAnswer:
        """Raises Conflict, InvalidValue, Unavailable, StoreError."""
        checks.in_range("windows", windows, LEAST_WINDOWS, MOST_LOOKED)
        if self._working is not None:
            raise Conflict("a forecast is being made", "wait for its end")
        self._working = working = _Working(change, self._clock.utc(), by)
        try:
            question = await asyncio.to_thread(self._question, change, windows, self._served(), self._golden())
            if self._closed:
                raise Conflict("the appliance is ending", "ask when it runs again")
            self._failed = None
            self._start(working, question)
        except BaseException:
            self._working = None
            raise
        return await self.all()

    async def retain(self) -> int:
        """Compare what can be compared, and delete old forecasts; how many went. Raises MagpieError."""
        await asyncio.to_thread(self._settle, _measured_ms(self._served()))
        return await asyncio.to_thread(self._store.capacity.delete_forecasts, self._clock.utc() - self._days * _DAY_S)

    # -- in a thread

    def _question(self, change: BoxChange, windows: int, served: ServedBox | None, golden: float) -> CapacityQuestion:
        self._settle(_measured_ms(served))
        details = _details(self._store, windows)
        there = enough(box_windows(details))
        if change.camera is not None:
            checks.one_of("camera", change.camera, sorted(there[-1].realised))
        past = came_of(self._store)
        began = self._store.windows.first_windows()
        return CapacityQuestion(change, details, last_budget(self._store), golden, served, past, began)

    def _look(self, measured: Mapping[str, float]) -> tuple[tuple[StoredForecast, ...], int]:
        closed = [r for r in self._store.windows.newest(WINDOWS + 1) if not r.open]
        # Accuracies come some time after a window is closed.
        known = sum(c.realised is not None for r in closed for c in r.cameras)
        seen = (max((r.id for r in closed), default=-1), known)
        if seen != self._settled_at:
            self._settle(measured)
            self._usable = len(usable(box_windows(_details(self._store, WINDOWS))))
            self._settled_at = seen
        return self._store.capacity.forecasts(), self._usable

    def _settle(self, measured: Mapping[str, float]) -> None:
        """Compare each forecast, whose change was made, with what came."""
        waiting = [k for k in self._store.capacity.forecasts() if k.outcome is None]
        if not waiting:
            return
        first = min(k.forecast.last_window for k in waiting)
        windows = box_windows(_details(self._store, MOST_LOOKED, since=first))
        for kept in waiting:
            came = outcome(kept.forecast, windows, measured)
            if came is not None:
                self._store.capacity.put_forecast_outcome(kept.id, came)

    # -- the process

    def _start(self, working: _Working, question: CapacityQuestion) -> None:
        loop = asyncio.get_running_loop()
        said: list[Any] = []

        def ended(code: int | None) -> None:  # called from the process's reader thread
            message = said[-1] if said else WorkerError("worker_failed", f"its process ended ({code})")
            with contextlib.suppress(RuntimeError):  # the loop is closed: no caller waits for it
                loop.call_soon_threadsafe(self._over, working, message)

        def started(reason: str | None) -> None:
            if reason is not None:
                said.append(WorkerError("worker_failed", f"its process {reason}"))

        def late() -> None:
            said.append(WorkerError("worker_failed", f"it took longer than {self._limit_s / 60:g} minutes"))
            process.kill()

        process = working.process = WorkerProcess(
            "capacity", reckon, question, LaunchSpec(nice=_NICE),
            lambda message: None if isinstance(message, Beat) else said.append(message), ended, killable=True,
            memory_limit_bytes=self._memory_bytes, on_started=started,
        )  # fmt: skip
        working.timer = loop.call_later(self._limit_s, late)

    def _over(self, working: _Working, message: CapacityForecast | WorkerError) -> None:
        if working.timer is not None:
            working.timer.cancel()
        if isinstance(message, WorkerError):
            self._working, self._failed = None, (working.change, message.message)
            return
        task = asyncio.get_running_loop().create_task(self._keep(working, message))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def _keep(self, working: _Working, found: CapacityForecast) -> None:
        try:
            await asyncio.to_thread(self._store.capacity.add_forecast, working.by, found)
        except MagpieError as error:
            log.warning("a forecast could not be kept: %s", error)
            self._failed = (working.change, str(error))
        finally:
            self._working = None


def _measured_ms(served: ServedBox | None) -> Mapping[str, float]:
    return {} if served is None else served.measured_ms


def came_of(store: Store) -> tuple[PastChange, ...]:
    """Changes of all kinds that were forecast and made, those of the newest question first."""
    kept = store.capacity.forecasts()
    return tuple(PastChange(k.forecast.change, k.outcome) for k in kept if k.outcome is not None)


def last_budget(store: Store) -> BudgetProblem | None:
    """The last problem of the learning budget; None: none was kept, or it cannot be read."""
    try:
        document = store.settings.get_settings(LEARNED_DOCUMENT) or {}
        problem = document.get("problem")
        return None if problem is None else BudgetProblem.from_json(problem)
    except (MagpieError, KeyError, TypeError, AttributeError):
        return None


def _details(store: Store, limit: int, since: int = 0) -> tuple[dict[str, Any], ...]:
    """Documents of the newest closed windows from number `since` on."""
    found = [r.id for r in store.windows.newest(limit + 1) if not r.open and r.id >= since]
    return tuple(store.windows.window(number).to_json() for number in found[:limit])


def change_answer(change: BoxChange) -> CapacityChangeAnswer:
    """For REST."""
    return CapacityChangeAnswer(kind=change.kind, factor=change.factor, camera=change.camera, words=change.words)


def forecast_answer(kept: StoredForecast) -> ForecastAnswer:
    """For REST."""
    f = kept.forecast
    notes = tuple(
        CapacityNoteAnswer(code=n.code, camera=n.camera, model=n.model, message=n.words, of_all=n.of_all)
        for n in f.notes
    )
    about = {name: value for name, value in asdict(f).items() if name not in ("last", "unwidened")}
    about |= {"id": kept.id, "at_utc_s": kept.at_utc_s, "asked_by": kept.asked_by, "change": change_answer(f.change)}
    about |= {"notes": notes, "outcome": None if kept.outcome is None else _came(kept.outcome)}
    return read(ForecastAnswer, about)


def _came(found: CapacityOutcome) -> CapacityOutcomeAnswer:
    cameras = tuple({"camera": c.camera, "forecast": c.forecast, "came": c.came, "held": c.held} for c in found.cameras)
    return by_name(CapacityOutcomeAnswer, found, cameras=cameras)
