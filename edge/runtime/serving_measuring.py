"""Measures served models on this device, in the share that is left, while the others are served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from edge.core.errors import MagpieError
from edge.core.front_messages import ServedVersion
from edge.core.journal_kinds import JournalNote
from edge.core.model_reasons import ModelReason
from edge.core.serving import DeviceTable
from edge.runtime.serving_cameras import CamerasNow
from edge.runtime.serving_models import OfferedModels
from edge.runtime.serving_profiler import ProfileOptions
from edge.runtime.serving_shares import ServingShares
from edge.runtime.serving_tables import DeviceTables
from edge.settings import ServingSettings

#: In less of the device, in percent, nothing is measured.
_LEAST_PERCENT = 5
#: Where tenants' budgets leave less of the device, in percent, the operator is told in how much models were measured.
_LITTLE_PERCENT = 20
#: For notices about models that tenants' budgets left little for.
_WAY_OUT = (
    "tenants' budgets take the rest. Remove the tenants, load it again and add them again; or, before a model is first "
    "loaded, measure it (magpie profile) and name the table in serving.tables"
)
#: With less time than this for measuring, models are not measured beside each other.
_PAIRS_S = 120.0
#: Shares in percent at which models are measured; fewer where less is free.
_SHARES = (5, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100)


class Profiler(Protocol):
    """Measures models; as `edge.runtime.serving_profiler.ServingProfiler` does."""

    @property
    def failed(self) -> Mapping[str, str]:
        """Models that could not be measured, and why."""

    async def profile(self, versions: Sequence[ServedVersion], base: DeviceTable | None = None) -> DeviceTable:
        """The table of `versions`, added to `base`. Raises MagpieError where nothing can be measured."""


class Measuring:
    """`profiler(options, say)` makes a profiler that says lines to people; `cameras()` is the cameras' state.
    `note(kind, data)` journals, `complain(code, message)` tells the operator, `spawn(work, name)` runs a task."""

    def __init__(
        self,
        settings: ServingSettings,
        models: OfferedModels,
        tables: DeviceTables,
        shares: ServingShares,
        cameras: Callable[[], CamerasNow],
        profiler: Callable[[ProfileOptions, Callable[[str], None]], Profiler],
        note: JournalNote,
        complain: Callable[[str, str], None],
        spawn: Callable[[Coroutine[Any, Any, None], str], None],
    ) -> None:
        self._settings, self._models, self._tables, self._shares = settings, models, tables, shares
        self._cameras, self._profiler = cameras, profiler
        self._note, self._complain, self._spawn = note, complain, spawn
        self._busy = asyncio.Lock()
        self._in_little: set[str] = set()

    def could_have_more(self, model: str) -> bool:
        """It was measured in what little the tenants' budgets had left, and more is free now."""
        return model in self._in_little and self._shares.free_percent >= _LITTLE_PERCENT

    async def measure(self, versions: Sequence[ServedVersion]) -> None:
        """Measure models, one call after the other, and use and keep the table. A model that cannot be measured is
        offered all the same, with the reason."""
        async with self._busy:
            most = self._shares.free_percent
            offers = [self._models.offers[v.model] for v in versions if v.model in self._models.offers]
            if most < _LEAST_PERCENT:
                reason = ModelReason("little_share", numbers={"share": most / 100})
                for offer in offers:
                    offer.reason = reason
                    offer.state = "offered"
                if self._shares.budgets.budgets:
                    names = ", ".join(v.model for v in versions)
                    self._complain("model_not_measured", f"{names}: {reason.words()}; {_WAY_OUT}")
                return
            for offer in offers:
                offer.state = "measuring"
            beside_budgets = bool(self._shares.budgets.budgets)
            self._shares.measure(most / 100)
            profiler = self._profiler(self._options(most), self._report)
            try:
                await self._tables.add(await profiler.profile(versions, self._tables.table))
                self._in_how_much(most, [v.model for v in versions if v.model not in profiler.failed], beside_budgets)
                for offer in offers:
                    if (why := profiler.failed.get(offer.name)) is not None:
                        offer.reason = ModelReason("not_measurable", why)
                        self._complain("model_not_measured", f"{offer.name}: {why}")
            except MagpieError as error:
                for offer in offers:
                    offer.reason = ModelReason("not_measurable", str(error))
                self._complain("model_not_measured", f"{', '.join(v.model for v in versions)}: {error}")
            finally:
                self._shares.measure(0.0)
                for offer in offers:
                    offer.state = "offered"
        self._models.latencies_changed()

    def _in_how_much(self, most: int, models: Sequence[str], beside_budgets: bool) -> None:
        self._in_little.difference_update(models)
        if models and beside_budgets and most < _LITTLE_PERCENT:
            self._in_little.update(models)
            words = f"measured in {most} % of the device at most, so partitions are no larger; {_WAY_OUT}"
            self._complain("measured_in_little", f"{', '.join(models)}: {words}")

    def again(self, models: Sequence[str]) -> None:
        """Measure models whose latencies are off, in the background, if as much is free as was measured in and there
        are no cameras; else the operator gets a notice. Until then plans reckon with what was seen."""
        offers = [o for n in models if (o := self._models.offers.get(n)) is not None and o.version is not None]
        table = self._tables.table
        if not offers or table is None or self._busy.locked():
            return
        largest = max(max(table.latency_ms[o.name]) for o in offers if o.name in table.latency_ms)
        if self._settings.measure and self._cameras().window is None and self._shares.free_percent >= largest:
            self._spawn(self.measure([o.version for o in offers if o.version is not None]), "measure again")
            return
        names = ", ".join(o.name for o in offers)
        self._complain(
            "serving_drift", f"{names}: batches do not take what was measured; measure again (magpie profile) when idle"
        )

    def _options(self, most: int) -> ProfileOptions:
        budget = self._settings.measure_s
        usual = ProfileOptions(most_share=most) if budget >= _PAIRS_S else ProfileOptions.quick(most)
        return replace(usual, shares=_SHARES, budget_s=budget)

    def _report(self, line: str) -> None:
        self._note("serving.measuring", data={"message": line})
