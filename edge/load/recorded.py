"""Recorded arrivals in files: instants, or rates of intervals, as CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edge.core import checks
from edge.core.errors import InvalidValue, NotFound
from edge.core.fields import mapping, number, sequence
from edge.load.arrivals import Floats, RecordedRates, RecordedTimes

MOST_BYTES = 256 * 1024 * 1024


def read_recorded(path: Path, name: str = "") -> RecordedTimes | RecordedRates:
    """Arrivals of model `name` recorded in `path`.

    JSON: {"times_s": [...], "period_s": optional} or {"rates": [...], "interval_s": ...}; or one such object per model:
    {"models": {NAME: {...}}}. CSV with a header: `time_s`, or `start_s,rate` (intervals of one length), and a column
    `model` where several were recorded. Raises NotFound, InvalidValue.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InvalidValue(str(path), f"{path.stat().st_size} bytes", f"at most {MOST_BYTES} bytes")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise NotFound(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidValue(str(path), "bytes that are not UTF-8", "a CSV or JSON file") from error
    try:
        if text.lstrip()[:1] in ("{", "["):
            return _from_json(json.loads(text), name)
        return _from_csv(text, name)
    except (json.JSONDecodeError, RecursionError, csv.Error) as error:
        raise InvalidValue(str(path), text[:40], f"JSON or CSV ({error})") from error
    except InvalidValue as error:
        raise InvalidValue(f"{path}: {error.path}", error.given, error.allowed) from None


def _from_json(value: Any, name: str) -> RecordedTimes | RecordedRates:
    at = ""
    if isinstance(value, Mapping) and "models" in value:
        models = mapping(value["models"], "models")
        checks.one_of("models", name, models)
        value, at = models[name], f"models.{name}"
    if isinstance(value, (list, tuple)):
        value = {"times_s": value}
    value = mapping(value, at or "arrivals")
    dot = f"{at}." if at else ""
    checks.known_keys(at, value, {"times_s", "period_s", "rates", "interval_s", "note"})
    if "rates" in value:
        rates = _numbers(sequence(value["rates"], f"{dot}rates"), f"{dot}rates")
        return RecordedRates(rates, float(number(value, "interval_s", at)))
    if "times_s" not in value:
        raise InvalidValue(at or "arrivals", sorted(value), "times_s, or rates and interval_s")
    times = _numbers(sequence(value["times_s"], f"{dot}times_s"), f"{dot}times_s")
    period = value.get("period_s")
    return _times(times, None if period is None else float(number(value, "period_s", at)), f"{dot}times_s")


def _from_csv(text: str, name: str) -> RecordedTimes | RecordedRates:
    rows = [row for row in csv.reader(io.StringIO(text)) if row and not row[0].lstrip().startswith("#")]
    header = [h.strip() for h in rows[0]] if rows else []
    if "time_s" not in header and not {"start_s", "rate"} <= set(header):
        raise InvalidValue("header", ",".join(header)[:80], "a column time_s, or start_s and rate (and model)")
    body = []
    for n, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise InvalidValue(f"row {n}", ",".join(row), f"{len(header)} columns")
        body.append(dict(zip(header, (cell.strip() for cell in row), strict=True)))
    if "model" in header:
        checks.one_of("model", name, sorted({row["model"] for row in body}))
        body = [row for row in body if row["model"] == name]
    if "time_s" in header:
        return _times(_numbers([row["time_s"] for row in body], "time_s"), None, "time_s")
    starts, rates = _numbers([r["start_s"] for r in body], "start_s"), _numbers([r["rate"] for r in body], "rate")
    if len(starts) < 2:
        raise InvalidValue("start_s", len(starts), "at least two intervals (their distance is their length)")
    gaps = np.diff(starts)
    if gaps[0] <= 0 or np.any(np.abs(gaps - gaps[0]) > 1e-6 * max(1.0, gaps[0])):
        raise InvalidValue("start_s", "intervals of several lengths", "intervals of one length in ascending order")
    return RecordedRates(rates, float(gaps[0]))


def _times(times: Floats, period_s: float | None, at: str) -> RecordedTimes:
    """Instants from the first one on; without a period the record ends one mean gap after the last."""
    checks.not_empty(at, list(times[:1]))
    times = np.sort(times) - times.min()
    if period_s is None:
        if times[-1] <= 0:
            raise InvalidValue(at, "one instant only", "at least two different instants, or period_s")
        period_s = float(times[-1] * len(times) / (len(times) - 1))
    return RecordedTimes(times, period_s)


def _numbers(values: Sequence[Any], at: str) -> Floats:
    try:
        if any(isinstance(v, (bool, list, dict)) or v is None for v in values):
            raise TypeError
        out = np.array([float(v) for v in values], dtype=np.float64)
    except (TypeError, ValueError):
        bad = next(v for v in values if not _is_number(v))
        raise InvalidValue(at, bad, "numbers") from None
    if not np.all(np.isfinite(out)):
        raise InvalidValue(at, "a number that is not finite", "finite numbers")
    return out


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, (bool, list, dict)) and value is not None and float(value) is not None
    except (TypeError, ValueError):
        return False
