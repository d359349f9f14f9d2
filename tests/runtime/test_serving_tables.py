"""Device tables as files: merged, cut to what is served, measured ones kept, those of plans recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from serving_parts import CAPS, Written, table, version

from edge.core.errors import InvalidValue, StoreError
from edge.core.serving import DeviceTable
from edge.runtime.serving_tables import DeviceTables, cut, keep_table, merged, read_table
from scheduler.gpulets.drift import ScaleTable


def rows(ms: float) -> dict[int, tuple[float, ...]]:
    return {10: (ms, 2 * ms, 3 * ms), 100: (ms / 5, ms / 4, ms / 3)}


def test_the_last_table_of_a_model_counts(tmp_path: Path) -> None:
    old = DeviceTable("old", {"a": rows(1.0), "b": rows(1.0)}, {}, details={"run_ms": {"a": {"10": [0.5, 0.6, 0.7]}}})
    new = DeviceTable("new", {"b": rows(2.0)}, {}, (0.1, 0.2, 0.1, 0.2, 1.0))
    both = merged([old, new])
    assert both is not None
    assert both.latency_ms["a"] == rows(1.0)
    assert both.latency_ms["b"] == rows(2.0)
    assert both.interference == new.interference
    assert both.busy_ms("a", 10, 1) == 0.5
    assert merged([]) is None
    keep_table(tmp_path / "kept.json", both)
    assert read_table(tmp_path / "kept.json").latency_ms == both.latency_ms


def test_a_table_is_cut_to_what_is_served_in_batches_that_are_taken() -> None:
    left = version("left", max_batch=4)
    table = DeviceTable("t", {"left": {10: tuple(map(float, range(1, 9)))}, "other": rows(1.0)}, {})
    found = cut(table, [left])
    assert found is not None
    assert dict(found.latency_ms) == {"left": {10: (1.0, 2.0, 3.0, 4.0)}}
    assert cut(None, [left]) is None
    assert cut(DeviceTable("t", {"other": rows(1.0)}, {}), [left]) is None


async def test_what_was_measured_here_counts_more_than_what_was_recorded(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.json"
    keep_table(recorded, table("a", "b", ms=1.0))
    tables = DeviceTables(tmp_path / "data", CAPS, Written().complain)
    await tables.open([str(recorded)])
    assert (tables.knows("a"), tables.knows("c")) == (True, False)
    await tables.add(table("a", "c", ms=3.0))
    again = DeviceTables(tmp_path / "data", CAPS, Written().complain)
    await again.open([str(recorded)])
    assert again.table is not None
    assert {m: again.table.solo_ms(m, 50, 1) for m in "abc"} == {"a": 6.0, "b": 2.0, "c": 6.0}
    other = DeviceTables(tmp_path / "data", replace(CAPS, units=3.0), Written().complain)
    await other.open([])
    assert other.table is None, "measured on a device of another size"


async def test_a_measured_file_that_is_damaged_is_reported_and_a_recorded_one_raises(tmp_path: Path) -> None:
    written = Written()
    await DeviceTables(tmp_path, CAPS, written.complain).add(table("a"))
    (kept,) = tmp_path.glob("table-*.json")
    kept.write_text("{")
    tables = DeviceTables(tmp_path, CAPS, written.complain)
    await tables.open([])
    assert tables.table is None
    assert [code for code, _ in written.complaints] == ["serving_table"]
    with pytest.raises(InvalidValue, match="table-"):
        await tables.open([str(kept)])


async def test_what_cannot_be_kept_is_used_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "table-cpu-2.json").mkdir()
    tables = DeviceTables(tmp_path, CAPS, Written().complain)
    with pytest.raises(StoreError):
        await tables.add(table("a"))
    assert tables.knows("a")


async def test_a_plan_s_table_is_recorded_once(tmp_path: Path) -> None:
    written = Written()
    tables = DeviceTables(tmp_path, CAPS, written.complain)
    first, second = tables.record(table("a")), tables.record(table("a", ms=2.0))
    assert first is not None
    assert (tables.record(table("a")), tables.record(None)) == (first, None)
    assert first != second
    assert read_table(Path(first)) == table("a")
    assert len(list((tmp_path / "tables").iterdir())) == 2
    assert written.complaints == []


async def test_latencies_are_scaled_by_what_was_seen(tmp_path: Path) -> None:
    tables = DeviceTables(tmp_path, CAPS, Written().complain)
    tables.scale([ScaleTable("a", 20, 2.0, "slower")])
    assert tables.table is None, "nothing is known that could be scaled"
    await tables.add(table("a"))
    tables.scale([ScaleTable("a", 20, 2.0, "slower")])
    assert tables.table is not None
    assert tables.table.solo_ms("a", 20, 1) == 10.0


def test_a_table_whose_folder_is_a_file_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "tables").write_text("no folder")
    with pytest.raises(StoreError, match=r"kept\.json could not be written"):
        keep_table(tmp_path / "tables" / "kept.json", table("a"))
