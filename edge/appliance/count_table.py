"""Counts as a table for other programs: CSV, or Parquet where `pyarrow` is installed.

One row for each count of each bucket; a bucket without a count has one row with empty columns, so that a reader
distinguishes a time that was not watched from one that was watched in vain.
"""

from __future__ import annotations

import csv
import importlib.util
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, Literal

from edge.appliance.answers.counts import CountAnswer, CountsAnswer
from edge.core.errors import Conflict

TableFormat = Literal["csv", "parquet"]
MEDIA_TYPES: Final[dict[TableFormat, str]] = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
COLUMNS: Final = (
    "start_utc_s", "watched", "answers_per_s", "kind", "name", "way", "class", "objects", "corrected", "low", "high",
    "seconds", "standing_s", "most",
)  # fmt: skip
_TEXTS, _INTEGERS = frozenset({"kind", "name", "way", "class"}), frozenset({"objects", "most"})


def formats() -> tuple[TableFormat, ...]:
    """The formats that can be written here."""
    return ("csv", "parquet") if importlib.util.find_spec("pyarrow") is not None else ("csv",)


def table(found: CountsAnswer, wanted: TableFormat) -> bytes:
    """The whole file. Raises Conflict: `pyarrow` is not installed."""
    return as_csv(found).encode() if wanted == "csv" else as_parquet(found)


def as_csv(found: CountsAnswer) -> str:
    """A line for each row, after one with the names of columns."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    writer.writerows(["" if cell is None else cell for cell in row] for row in _rows(found))
    return out.getvalue()


def as_parquet(found: CountsAnswer) -> bytes:
    """The same columns with types, `start_utc_s` as the timestamp `start`, after the camera and before the step.
    Raises Conflict: `pyarrow` is not installed."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise Conflict("Parquet needs pyarrow, which is not installed", "pip install 'magpie-edge[parquet]'") from None
    columns = list(zip(*_rows(found), strict=True)) or [()] * len(COLUMNS)
    starts = [datetime.fromtimestamp(s, UTC) for s in columns[0]]
    moment = pa.timestamp("ms", tz="UTC")
    fields: dict[str, Any] = {
        "camera": pa.array([found.camera] * len(starts), pa.string()),
        "start": pa.array(starts, moment),
        "step": pa.array([found.step] * len(starts), pa.string()),
    }
    for name, cells in zip(COLUMNS[1:], columns[1:], strict=True):
        kind = pa.string() if name in _TEXTS else pa.int64() if name in _INTEGERS else pa.float64()
        fields[name] = pa.array(cells, kind)
    out = io.BytesIO()
    parquet.write_table(pa.table(fields), out, compression="zstd")
    return out.getvalue()


def _rows(found: CountsAnswer) -> Iterator[tuple[Any, ...]]:
    for bucket in found.buckets:
        head = (bucket.start_utc_s, bucket.watched, bucket.answers_per_s)
        if not bucket.counts:
            yield (*head, *[None] * (len(COLUMNS) - len(head)))
        for row in bucket.counts:
            yield (*head, *_cells(row))


def _cells(row: CountAnswer) -> Iterator[object]:
    yield from (row.kind, row.name, row.way, row.class_, row.objects)
    true = row.corrected
    yield from (None, None, None) if true is None else (true.value, true.low, true.high)
    yield from (row.seconds, row.standing_s, row.most)
