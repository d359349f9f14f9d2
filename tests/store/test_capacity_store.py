"""Forecasts in the store: kept as they were given, compared once, deleted when old."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa
from capacity_kit import made

from edge.core.capacity import BoxChange, CameraOutcome, CapacityOutcome, ModelForecast
from edge.core.capacity_notes import CapacityNote
from edge.core.clock import ManualClock
from edge.core.profiles import Estimate
from edge.store import tables as t
from edge.store.store import Store

CAME = CapacityOutcome(9, 6, 0.02, (CameraOutcome("gate", 0.6, 0.58, True),))


def test_a_forecast_comes_back_as_it_was_given_and_gets_one_outcome(tmp_path: Path) -> None:
    model = ModelForecast("plates", 60.0, None, Estimate(25.0, 8.0, 40.0), 1.0, 0.5)
    notes = (CapacityNote("few_windows", numbers={"windows": 4}),)
    asked = replace(made(BoxChange.of("frame_rate", 3.0, "gate")), models=(model,), notes=notes)
    with Store(None, tmp_path) as store:
        first = store.capacity.add_forecast("anna", asked)
        assert store.capacity.forecasts() == (first,)
        assert first.forecast == asked
        assert first.outcome is None
        assert store.capacity.put_forecast_outcome(first.id, CAME)
        assert not store.capacity.put_forecast_outcome(first.id, CAME), "it has one"
        second = store.capacity.add_forecast("", made(BoxChange.of("box")))
        assert [k.id for k in store.capacity.forecasts()] == [second.id, first.id]
        assert store.capacity.forecasts()[1].outcome == CAME


def test_old_forecasts_go_unless_they_were_compared(tmp_path: Path) -> None:
    clock = ManualClock()
    with Store(None, tmp_path, clock=clock) as store:
        compared = store.capacity.add_forecast("", made(BoxChange.of("box")))
        store.capacity.put_forecast_outcome(compared.id, CAME)
        store.capacity.add_forecast("", made(BoxChange.of("window")))
        clock.advance(100.0)
        new = store.capacity.add_forecast("", made(BoxChange.of("camera")))
        assert store.capacity.delete_forecasts(clock.utc() - 50.0) == 1
        assert [k.id for k in store.capacity.forecasts()] == [new.id, compared.id]


def test_a_forecast_that_cannot_be_read_takes_no_others_with_it(tmp_path: Path) -> None:
    with Store(None, tmp_path) as store:
        bad, good = (store.capacity.add_forecast("", made(BoxChange.of("window"))) for _ in range(2))
        with store.database.write() as c:
            changed = sa.update(t.capacity_forecasts).where(t.capacity_forecasts.c.id == bad.id)
            c.execute(changed.values(forecast={"change": {"kind": "wall"}}))
        assert [k.id for k in store.capacity.forecasts()] == [good.id]
        assert store.database.unreadable.counts() == {"forecast": 1}
