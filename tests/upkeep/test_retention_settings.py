"""The site's retention settings are the store's limits, and hold on a real store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_helpers import add, chain

from edge.appliance.housekeeping import retention_limits
from edge.appliance.metrics import Tally
from edge.core.errors import InvalidValues
from edge.settings import RetentionSettings, parse
from edge.store.retention import RetentionLimits
from edge.store.store import Store
from edge.store.values import NewEvent


def test_the_defaults_of_both_agree_but_for_the_bytes_of_a_small_box() -> None:
    limits = retention_limits(RetentionSettings())
    assert limits == RetentionLimits(max_bytes=10_000_000_000)


@given(
    st.floats(1e-3, 3650), st.floats(1e-6, 1e5), st.integers(100, 10**9), st.floats(1e-6, 1e6)
)  # whatever the settings allow the store takes
def test_every_setting_is_a_limit(days: float, gb: float, events: int, mb: float) -> None:
    settings = parse(RetentionSettings, {"days": days, "max_gb": gb, "max_events": events, "max_events_mb": mb})
    limits = retention_limits(settings)
    assert (limits.days, limits.max_events) == (days, events)
    assert limits.max_bytes == int(gb * 1e9)
    assert limits.max_event_bytes == int(mb * 1e6)


@pytest.mark.parametrize("wrong", [{"days": 0}, {"max_events": 1}, {"max_events_mb": -1}, {"pictures": 3}])
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidValues, match=next(iter(wrong))):
        parse(RetentionSettings, wrong, "retention")


def test_the_journal_is_cut_and_models_in_use_stay(tmp_path: Path, place: Callable[..., str]) -> None:
    folder, tally = tmp_path / "data", Tally()
    with Store(place("sqlite", folder), folder) as store:
        chain(store, "first", "second", "third", "fourth")
        add(store, "other", parent="first")
        store.versions.reject("other", "gate", "worse")
        now = store._clock.utc()
        store.journal.append_events([NewEvent(now + n, "camera.added", "gate", None, {"n": n}) for n in range(500)])
        limits = retention_limits(RetentionSettings(max_gb=1e-9, max_events=100))
        assert tally.retained(store.retention.retain(limits))
        assert len(store.journal.events(limit=1000)) == 100
        assert store.versions.promoted("gate").id == "fourth"
        assert store.versions.roll_back("gate", "operator", "back").id == "third"
    deleted = tally.to_json()["retention"]["deleted"]
    assert deleted["events"] == 400
    assert deleted["versions"] == 2
