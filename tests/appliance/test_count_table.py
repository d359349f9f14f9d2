"""Counts as files for other programs."""

from __future__ import annotations

import csv
import io
import sys
from datetime import UTC, datetime

import pytest

from edge.appliance.answers.counts import CountsAnswer
from edge.appliance.answers.read import read
from edge.appliance.count_table import formats, table
from edge.core.errors import Conflict
from web.examples.counts import COUNTS

FOUND = read(CountsAnswer, COUNTS)


def test_csv_has_a_row_for_what_was_not_watched() -> None:
    rows = list(csv.DictReader(io.StringIO(table(FOUND, "csv").decode())))
    assert [(r["objects"], r["corrected"], r["watched"]) for r in rows] == [("41", "44.1", "0.98"), ("", "", "0.0")]


def test_parquet_has_the_same_with_types() -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="magpie-edge[parquet] is not installed")
    read_back = parquet.read_table(io.BytesIO(table(FOUND, "parquet")))
    assert formats() == ("csv", "parquet")
    first, second = read_back.to_pylist()
    assert first["start"] == datetime.fromtimestamp(FOUND.from_utc_s, UTC)
    assert (first["camera"], first["step"], first["objects"], first["high"]) == ("junction-north", "hour", 41, 48.0)
    assert (second["watched"], second["objects"], second["class"]) == (0.0, None, None)
    types = {field.name: str(field.type) for field in read_back.schema}
    assert (types["start"], types["objects"], types["low"]) == ("timestamp[ms, tz=UTC]", "int64", "double")
    empty = parquet.read_table(io.BytesIO(table(read(CountsAnswer, COUNTS | {"buckets": []}), "parquet")))
    assert empty.schema == read_back.schema


def test_without_pyarrow_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Conflict, match=r"magpie-edge\[parquet\]"):
        table(FOUND, "parquet")
