"""Forecasts in a list, for the web tests: one that was compared, and what is asked for is answered at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edge.appliance.answers.capacity import CapacityAnswer, ForecastAnswer
from edge.appliance.answers.read import read
from edge.appliance.capacity import change_answer
from edge.core import checks
from edge.core.capacity import LEAST_WINDOWS, BoxChange
from edge.core.errors import Conflict
from web.examples.capacity import FORECAST

if TYPE_CHECKING:
    from appliance_double import DictAppliance


class DictCapacity:
    """Implements `CapacityService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box, self.windows = box, 48
        self.made: list[ForecastAnswer] = [self._forecast(7, with_outcome=True)]

    def _forecast(self, number: int, with_outcome: bool) -> ForecastAnswer:
        names = list(self.box.cameras.kept) or ["north", "south"]
        outcome = FORECAST["outcome"] | {
            "cameras": [{"camera": c, "forecast": 0.664, "came": 0.652, "held": True} for c in names]
        }
        about = {
            "id": number, "at_utc_s": self.box.state.utc_s, "outcome": outcome if with_outcome else None,
            "cameras": [FORECAST["cameras"][0] | {"camera": c} for c in names],
        }  # fmt: skip
        return read(ForecastAnswer, FORECAST | about)

    async def all(self) -> CapacityAnswer:
        self.box.state.look("capacity")
        return CapacityAnswer(
            needed=LEAST_WINDOWS, windows=self.windows, working=None, failed=None, forecasts=tuple(reversed(self.made))
        )

    async def ask(self, change: BoxChange, windows: int, by: str) -> CapacityAnswer:
        self.box.state.look("ask_capacity")
        if self.windows < LEAST_WINDOWS:
            raise Conflict(f"a forecast needs {LEAST_WINDOWS} windows; there are {self.windows}")
        if change.camera is not None:
            checks.one_of("camera", change.camera, sorted(self.box.cameras.kept))
        made = self._forecast(self.made[-1].id + 1, with_outcome=False)
        self.made.append(replace(made, change=change_answer(change), asked_by=by, windows=windows))
        return await self.all()
