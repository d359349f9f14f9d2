"""The table made of what was measured, and what it tells of how that was done."""

from __future__ import annotations

import os

from serving_parts import CAPS

from edge.core.serving import DeviceTable
from edge.runtime.measured_table import MeasuredModel, Measurement, measured_table
from edge.runtime.serving_pairs import Interference
from edge.serving.profiling import Runs


def measurement(others_cores: float = 0.0) -> Measurement:
    runs = Runs((3.0, 4.0), (2.0, 2.5), (2.0, 2.5))
    one = MeasuredModel(
        {50: (4.0,)}, {50: (2.5,)}, {50: (2.2,)}, {50: "m"}, {(50, 1): runs}, 12.5, 0.02, ("a: batch 2 cannot be run",)
    )
    side_by_side = Interference({}, (0.1, 0.2, 0.3, 0.4, 1.0), {"pairs": []}, ("too few",))
    return Measurement({"a": one}, side_by_side, 1_700_000_000.0, 12.34, 0.95, others_cores, ("b cannot be measured",))


def test_what_was_measured_joins_what_was_known() -> None:
    old = DeviceTable(
        "old", {"a": {50: (9.0,)}, "kept": {50: (7.0,)}}, {}, memory_mb={"kept": 5.0},
        details={"run_ms": {"kept": {"50": [6.0]}}, "scaled": {"a": 2.0, "kept": 1.5}},
    )  # fmt: skip
    table = measured_table(CAPS, measurement(), old)
    assert dict(table.latency_ms) == {"a": {50: (4.0,)}, "kept": {50: (7.0,)}}
    assert table.memory_mb == {"a": 12.5, "kept": 5.0}
    assert table.details["run_ms"] == {"a": {"50": [2.5]}, "kept": {"50": [6.0]}}
    assert table.details["scaled"] == {"kept": 1.5}
    assert table.interference == (0.1, 0.2, 0.3, 0.4, 1.0)


def test_it_tells_how_it_was_measured() -> None:
    assert measured_table(CAPS, measurement(), None).details["measured"] == {
        "at_utc": "2023-11-14T22:13:20+00:00",
        "seconds": 12.3,
        "quantile": 0.95,
        "models": ["a"],
        "runs": 2,
        "others_busy_cores": 0.0,
        "smoothed": 0.02,
        "notes": ["b cannot be measured", "a: batch 2 cannot be run", "too few"],
    }


def test_a_machine_that_was_not_quiet_is_reported() -> None:
    table = measured_table(CAPS, measurement(0.5 * (os.cpu_count() or 1)), None)
    assert "other work kept 50 % of this machine's cores busy" in table.details["measured"]["notes"][2]
