"""Kinds of metrics as `web.metrics` makes them: a row without a number has no sample."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

Json = Mapping[str, Any]


def number(value: Any) -> float | None:
    """A finite number, or None for what is not known."""
    if isinstance(value, bool):
        return float(value)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def gauge(name: str, about: str, labels: Iterable[str], rows: Iterable[tuple[tuple[str, ...], Any]]) -> Metric:
    """A gauge with a sample for each row (values of the labels, value) that is a number."""
    metric = GaugeMetricFamily(name, about, labels=list(labels))
    for values, value in rows:
        found = number(value)
        if found is not None:
            metric.add_metric(list(values), found)
    return metric


def counter(name: str, about: str, labels: Iterable[str], rows: Iterable[tuple[tuple[str, ...], Any]]) -> Metric:
    """A counter, as `gauge`."""
    metric = CounterMetricFamily(name, about, labels=list(labels))
    for values, value in rows:
        found = number(value)
        if found is not None:
            metric.add_metric(list(values), found)
    return metric


def info(name: str, about: str, rows: Iterable[Mapping[str, Any]]) -> Metric:
    """Facts in labels, a sample for each row."""
    metric = InfoMetricFamily(name, about)
    for row in rows:
        metric.add_metric([], {key: "" if value is None else str(value) for key, value in row.items()})
    return metric
