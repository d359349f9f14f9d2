"""Workers' use of the device, one account per worker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from edge.core.shares import Usage


def merged(usages: Iterable[Usage], workers: Mapping[str, str]) -> tuple[Usage, ...]:
    """One Usage per worker: processes that stood in for each other are one worker (their time is added up). `workers`
    has the worker's name by the place that a process had at the partitioner; places missing there are left out.
    """
    groups: dict[str, list[Usage]] = {}
    for usage in usages:
        if usage.worker in workers:
            groups.setdefault(workers[usage.worker], []).append(usage)
    return tuple(_one(name, rows) for name, rows in sorted(groups.items()))


def _one(worker: str, rows: list[Usage]) -> Usage:
    if len(rows) == 1:
        return replace(rows[0], worker=worker)
    wall = sum(r.wall_s for r in rows)

    def mean(values: Iterable[float]) -> float:
        return sum(v * r.wall_s for v, r in zip(values, rows, strict=True)) / max(wall, 1e-9)

    known = [r.given_share for r in rows if r.given_share is not None]
    newest = next((r for r in rows if r.running), rows[-1])
    return Usage(
        worker=worker,
        asked=mean(r.asked for r in rows),
        granted=mean(r.granted for r in rows),
        used_share=mean(r.used_share for r in rows),
        device_seconds=sum(r.device_seconds for r in rows),
        wall_s=wall,
        throttled_fraction=mean(r.throttled_fraction for r in rows),
        visible_units=newest.visible_units,
        given_share=mean(r.given_share or 0.0 for r in rows) if len(known) == len(rows) else None,
        waited_fraction=mean(r.waited_fraction for r in rows),
        demand_limited=any(r.demand_limited for r in rows),
        running=any(r.running for r in rows),
    )
