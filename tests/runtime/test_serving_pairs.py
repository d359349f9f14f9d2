"""Pairs that were run side by side: kept in a table, and what the interference model is fitted to."""

from __future__ import annotations

import pytest
from serving_parts import table

from edge.core.errors import InvalidValue
from edge.core.serving import DeviceTable, Utilisation
from edge.runtime.serving_pairs import as_pair, fitted_interference, pair_json, recorded_pairs
from edge.serving.profiling import Side, Together
from scheduler.gpulets.interference import FEWEST_PAIRS


def test_pairs_are_kept_in_the_table_as_they_were() -> None:
    pairs = (Together(Side("a", 4, 30), Side("b", 2, 70), 1.25), Together(Side("b", 2, 70), Side("a", 4, 30), 1.0))
    assert recorded_pairs({"pairs": [pair_json(p) for p in pairs]}) == pairs
    assert recorded_pairs({}) == ()
    with pytest.raises(InvalidValue, match=r"pairs\[0\]\.beside"):
        recorded_pairs({"pairs": [{"model": "a", "batch": 1, "share": 30}]})
    as_fitted = as_pair(pairs[0], {"a": {4: Utilisation(0.5, 0.1)}, "b": {1: Utilisation(0.0, 1.0)}})
    assert (as_fitted.own, as_fitted.share) == (Utilisation(0.5, 0.1), 0.3)
    assert (as_fitted.neighbour, as_fitted.neighbour_share) == (Utilisation(0.0, 1.0), 0.7)
    assert as_fitted.factor == 1.25


def together(model: str, beside: str, slowdown: float = 1.2, batch: int = 1) -> Together:
    return Together(Side(model, batch, 30), Side(beside, 1, 70), slowdown)


USED = {"a": {1: Utilisation(0.5, 0.1)}, "b": {1: Utilisation(0.2, 0.4)}, "stressor:cache": {1: Utilisation(1.0, 0.0)}}


def test_too_few_pairs_leave_the_coefficients_as_they_were() -> None:
    old = DeviceTable("old", table("kept").latency_ms, {"kept": {1: Utilisation(0.3, 0.3)}}, (0.1, 0.2, 0.3, 0.4, 1.0))
    found = fitted_interference(["a", "b"], USED, [together("a", "b"), together("stressor:cache", "a")], old)
    assert found.coefficients == old.interference
    assert found.notes == ("1 slowdowns are too few to fit the interference model",), "a stressor's own does not count"
    assert set(found.utilisation) == {"a", "b", "kept"}
    assert found.details["stressors"] == {"stressor:cache": {"1": {"l2": 1.0, "dram": 0.0}}}
    assert "interference_error" not in found.details


def test_pairs_of_models_that_are_kept_count_and_those_measured_anew_replace_theirs() -> None:
    kept, stale = together("kept", "a", 1.7), together("a", "b", 9.0)
    old = DeviceTable("old", table("kept").latency_ms, {}, details={"pairs": [pair_json(t) for t in (kept, stale)]})
    found = fitted_interference(["a", "b"], USED, [together("a", "b")], old)
    assert recorded_pairs(found.details) == (kept, together("a", "b"))


def test_enough_pairs_are_fitted() -> None:
    pairs = [together("a", "b", 1.3, batch) for batch in range(1, FEWEST_PAIRS + 1)]
    found = fitted_interference(["a", "b"], USED, pairs, None)
    assert found.notes == ()
    assert found.coefficients == tuple(found.details["interference_error"]["coefficients"])
    assert found.coefficients != (0.0, 0.0, 0.0, 0.0, 1.0)


def test_nothing_run_side_by_side_changes_nothing() -> None:
    found = fitted_interference(["a"], {}, [], None)
    assert (found.utilisation, found.details, found.notes) == ({}, {}, ())
    assert found.coefficients == (0.0, 0.0, 0.0, 0.0, 1.0)
