"""The routing table of the front: which versions are served, by which executors, under the layout in force."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from edge.core.errors import NotFound, Unavailable
from edge.core.layout import Layout, Route, ServedVersion, TrafficReport
from edge.serving.batch_times import BatchTimes
from edge.serving.lanes import ExecutorSeat, SeatLane, Served, TurnGroup
from edge.serving.statistics import ModelCounts, VersionStatistics

log = logging.getLogger(__name__)


class RoutingTable:
    """Served versions by `model/version`, the current one of each model, executors by name. Changed on the front's
    event loop only."""

    def __init__(self) -> None:
        self.layout: Layout | None = None
        self.served: dict[str, Served] = {}  # by key
        self.current: dict[str, Served] = {}  # by model
        self.seats: dict[str, ExecutorSeat] = {}
        self._groups: dict[str, TurnGroup] = {}
        self._counts: dict[str, ModelCounts] = {}
        self._statistics: dict[str, VersionStatistics] = {}

    @property
    def open(self) -> int:
        """Requests that wait or run."""
        return sum(c.open for c in self._counts.values())

    @property
    def failed(self) -> int:
        """Requests that have failed so far, of the models that are counted."""
        return sum(c.failed for c in self._counts.values())

    @property
    def ready(self) -> bool:
        """A layout is in force, and every model of it that was not refused has an executor."""
        layout = self.layout
        if layout is None:
            return False
        return all(bool(s.live_lanes()) for m, s in self.current.items() if m not in layout.refused)

    def seat(self, executor: str) -> ExecutorSeat:
        """The executor's place, made if there is none."""
        seat = self.seats.get(executor)
        if seat is None:
            seat = self.seats[executor] = ExecutorSeat(executor)
        return seat

    def find(self, model: str, version: str | None) -> Served:
        """The version that a request is for (None: the current one). Raises NotFound, Unavailable (refused)."""
        current = self.current.get(model)
        if current is None:
            refused = self.layout.refused.get(model) if self.layout is not None else None
            if refused is not None:
                raise Unavailable(f"{model} is not served: {refused}")
            raise NotFound(f"no model {model} is served")
        if not version or version == current.version.version:
            return current
        served = self.served.get(f"{model}/{version}")
        if served is None or served.queue.leaving:
            raise NotFound(f"{model}: version {version} is not served (version {current.version.version} is)")
        return served

    def versions(self, model: str) -> list[Served]:
        """All versions of a model that the layout in force names."""
        served = [s for s in self.served.values() if s.version.model == model and not s.queue.leaving]
        return sorted(served, key=lambda s: s.version.version)

    def apply(self, layout: Layout) -> list[Served]:
        """Put a layout in force. Returns the versions that others with the same name and other tensors have replaced:
        requests that wait for them were checked against tensors that are served no more."""
        self.layout = layout
        versions = {v.key: v for v in layout.models}
        replaced = [old for key, version in versions.items() if (old := self._serve(key, version)) is not None]
        self._route({r.executor: r for r in layout.routes}, versions)
        self.current = {}
        for version in sorted(layout.models, key=_version_order):
            self.current[version.model] = self.served[version.key]
        for key, served in self.served.items():
            served.queue.leaving = key not in versions
            served.lanes = sorted(
                (lane for seat in self.seats.values() for lane in seat.lanes if lane.served is served),
                key=lambda lane: lane.times.upper_s[-1] / lane.batch,
            )
        return replaced

    def successor(self, served: Served) -> Served | None:
        """The version that can answer what waits for one that leaves: it has the same tensors, and a live executor."""
        target = self.current.get(served.version.model)
        if target is None or not _same_tensors(target.version, served.version) or not target.live_lanes():
            return None
        return target

    def settle(self) -> tuple[list[Served], list[str]]:
        """Forget versions and executors that nothing needs any more. Returns these versions, and the executors that are
        drained now."""
        gone, drained = [], []
        for key, served in list(self.served.items()):
            if served.queue.leaving and not served.queue.open:
                for lane in served.lanes:
                    if lane in lane.seat.lanes:
                        lane.seat.lanes.remove(lane)
                        lane.seat.turn = 0
                del self.served[key]
                del self._statistics[key]
                gone.append(served)
        for name, seat in list(self.seats.items()):
            if seat.tell_drained and not seat.running and not seat.lanes:
                seat.tell_drained = False
                drained.append(name)
            if seat.link is None and seat.route is None and not seat.running and not seat.tell_drained:
                del self.seats[name]
        return gone, drained

    def traffic(self, now_s: float, period_s: float) -> TrafficReport:
        """The traffic since the last call, which was `period_s` ago."""
        queued: dict[str, int] = {}
        for served in self.served.values():
            waiting = sum(1 for r in served.queue.waiting if not r.stages.begun_s)
            queued[served.version.model] = queued.get(served.version.model, 0) + waiting
        models = []
        for model, counts in list(self._counts.items()):
            models.append(counts.period(queued.get(model, 0)))
            if model not in queued:
                del self._counts[model]  # no version is served any more, and nothing of it is open
        executors = tuple(seat.counts.period(seat.name, seat.link is not None) for seat in self.seats.values())
        number = -1 if self.layout is None else self.layout.number
        return TrafficReport(now_s, period_s, number, tuple(models), executors)

    def _serve(self, key: str, version: ServedVersion) -> Served | None:
        """Serve a version; returns the one that it replaces under its name, if that has other tensors."""
        known = self.served.get(key)
        if known is not None and _same_tensors(known.version, version):
            known.version = version  # perhaps with other content: waiting requests are answered by that
            return None
        counts = self._counts.setdefault(version.model, ModelCounts(version.model))
        statistics = self._statistics.setdefault(key, VersionStatistics(version.model, version.version))
        self.served[key] = Served(version, counts, statistics)
        return known

    def _route(self, routes: Mapping[str, Route], versions: Mapping[str, ServedVersion]) -> None:
        """Give each executor its route and lanes."""
        lanes = {name: self._lanes(r, versions) for name, r in routes.items()}
        for name in {*lanes, *self.seats}:
            seat = self.seat(name)
            before = seat.lanes
            seat.lanes = lanes.get(name, [])
            route = routes.get(name)
            if route is None and seat.route is not None:
                seat.tell_drained = True
            elif route is not None:
                seat.tell_drained = False
            seat.route = route
            # Requests for a version that no layout names any more are answered where it was served.
            seat.lanes += [lane for lane in before if lane.served.key not in versions]
            seat.turn = seat.turn % len(seat.lanes) if seat.lanes else 0
        self._group(routes)

    def _group(self, routes: Mapping[str, Route]) -> None:
        """Put executors that begin in turn together. A group that stays keeps its beat."""
        before, self._groups = self._groups, {}
        for seat in self.seats.values():
            seat.group = None
        for route in routes.values():
            if route.group:
                group = self._groups.setdefault(route.group, TurnGroup(route.group))
                group.cycle_s = route.gpulet.duty_cycle_ms / 1000.0
                group.begun_s = before[route.group].begun_s if route.group in before else group.begun_s
                seat = self.seat(route.executor)
                seat.group = group
                group.seats.append(seat)

    def _lanes(self, route: Route, versions: Mapping[str, ServedVersion]) -> list[SeatLane]:
        seat = self.seat(route.executor)
        lanes = []
        for part in route.gpulet.models:
            served = self.served.get(f"{part.model}/{route.versions.get(part.model, '')}")
            if served is None or served.key not in versions:
                log.warning("layout: %s has no version of %s that is served", route.executor, part.model)
                continue
            batch = max(1, min(part.batch, served.version.max_batch))
            planned_s = route.batch_ms.get(part.model, route.gpulet.duty_cycle_ms) / 1000.0
            before = next((lane for lane in seat.lanes if lane.served is served), None)
            same_share = seat.route is not None and abs(seat.route.gpulet.share - route.gpulet.share) < 1e-6
            if before is not None and before.batch == batch and same_share:
                before.times.planned_s = planned_s
                lanes.append(before)
            else:
                lanes.append(SeatLane(seat, served, batch, BatchTimes(batch, planned_s)))
        return lanes


def _version_order(version: ServedVersion) -> tuple[str, int, str]:
    return version.model, int(version.version) if version.version.isdigit() else -1, version.version


def _same_tensors(one: ServedVersion, other: ServedVersion) -> bool:
    return one.inputs == other.inputs and one.outputs == other.outputs
