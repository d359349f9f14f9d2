"""Forecasts of changes, kept as they were given, with what came of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from edge.core.capacity import CapacityForecast, CapacityOutcome, StoredForecast
from edge.store import tables as t
from edge.store.database import retried
from edge.store.parts import Part, document, words

_c = t.capacity_forecasts.c
#: The newest forecasts are kept, however old they are: their errors widen later ones.
MOST_FORECASTS: Final = 500


class CapacityPart(Part):
    """Rows are added, get their outcome once, and go when they are old and many."""

    @retried
    def add_forecast(self, asked_by: str, forecast: CapacityForecast) -> StoredForecast:
        """Keep a forecast. Raises DiskFull, Unavailable, StoreError."""
        now, value = self._clock.utc(), document("forecast", forecast.to_json())
        with self.database.write() as c:
            row = {"at_utc_s": now, "asked_by": words(asked_by), "forecast": value}
            key = c.execute(sa.insert(t.capacity_forecasts).values(**row)).inserted_primary_key
        assert key is not None
        return StoredForecast(int(key[0]), now, words(asked_by), forecast)

    @retried
    def put_forecast_outcome(self, number: int, outcome: CapacityOutcome) -> bool:
        """Keep what came of a forecast; False if it has an outcome already, or is not there (any more)."""
        value = document("outcome", outcome.to_json())
        where = (_c.id == number) & _c.outcome.is_(None)
        with self.database.write() as c:
            return bool(c.execute(sa.update(t.capacity_forecasts).where(where).values(outcome=value)).rowcount)

    @retried
    def forecasts(self, limit: int = MOST_FORECASTS) -> tuple[StoredForecast, ...]:
        """The newest first, without those that cannot be read."""
        with self.database.read() as c:
            query = sa.select(t.capacity_forecasts).order_by(_c.id.desc()).limit(limit)
            rows: Sequence[Any] = c.execute(query).mappings().all()
        return tuple(self.database.unreadable.readable("forecast", rows, _kept, lambda row: int(row["id"])))

    @retried
    def delete_forecasts(self, before_utc_s: float) -> int:
        """Delete what is older and beyond the newest `MOST_FORECASTS`, or older and was never compared."""
        newest = sa.select(_c.id).order_by(_c.id.desc()).limit(MOST_FORECASTS)
        gone = (_c.at_utc_s < before_utc_s) & (_c.outcome.is_(None) | _c.id.not_in(newest))
        with self.database.write() as c:
            return int(c.execute(sa.delete(t.capacity_forecasts).where(gone)).rowcount)


def _kept(row: Mapping[str, Any]) -> StoredForecast:
    came = row["outcome"]
    return StoredForecast(
        int(row["id"]), float(row["at_utc_s"]), str(row["asked_by"]), CapacityForecast.from_json(row["forecast"]),
        None if came is None else CapacityOutcome.from_json(came),
    )  # fmt: skip
