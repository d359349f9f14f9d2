"""The routing table of the front: which versions are served, by which executors, under the layout in force."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from edge.core.errors import NotFound, Unavailable
from edge.core.front_messages import Layout, Route, ServedVersion, TrafficReport
from edge.core.serving import QueueId
from edge.serving.batch_times import BatchTimes
from edge.serving.lanes import ExecutorSeat, SeatLane, Served, TurnGroup
from edge.serving.queues import Pending
from edge.serving.statistics import ModelCounts, VersionStatistics

log = logging.getLogger(__name__)


class RoutingTable:
    """Served versions by `model/version` and the number of the queue, the current one of each model (its queue 0),
    executors by name. Changed on the front's event loop only."""

    def __init__(self) -> None:
        self.layout: Layout | None = None
        self.served: dict[tuple[str, int], Served] = {}  # by key and queue
        self.current: dict[str, Served] = {}  # by model
        self.seats: dict[str, ExecutorSeat] = {}
        self._groups: dict[str, TurnGroup] = {}
        self._counts: dict[str, ModelCounts] = {}
        self._statistics: dict[str, VersionStatistics] = {}
        self._asked: dict[tuple[str, str], QueueId] = {}  # by application and stage

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
        return all(s.any_live() for m, s in self.current.items() if m not in layout.refused)

    def seat(self, executor: str) -> ExecutorSeat:
        """The executor's place, made if there is none."""
        seat = self.seats.get(executor)
        if seat is None:
            seat = self.seats[executor] = ExecutorSeat(executor)
        return seat

    def find(self, model: str, version: str | None, asked_by: tuple[str, str] | None = None) -> Served:
        """The version that a request is for (None: the current one), with the queue for this stage of an application
        (None: for clients). Raises NotFound, Unavailable (refused)."""
        current = self.current.get(model)
        if current is None:
            refused = self.layout.refused.get(model) if self.layout is not None else None
            if refused is not None:
                raise Unavailable(f"{model} is not served: {refused.words()}")
            raise NotFound(f"no model {model} is served")
        if not version or version == current.version.version:
            return self._queue(current, asked_by)
        served = self.served.get((f"{model}/{version}", 0))
        if served is None or served.queue.leaving:
            raise NotFound(f"{model}: version {version} is not served (version {current.version.version} is)")
        return self._queue(served, asked_by)

    def _queue(self, served: Served, asked_by: tuple[str, str] | None) -> Served:
        """Of a version the queue for such requests; another one while no executor takes from that."""
        if not served.beside:
            return served
        asked = None if asked_by is None else self._asked.get(asked_by)
        number = asked.number if asked is not None and asked.model == served.version.model else 0
        queues = [served, *served.beside]
        wanted = next((q for q in queues if q.number == number and not q.queue.leaving), served)
        if wanted.live_lanes():
            return wanted
        return next((q for q in queues if not q.queue.leaving and q.live_lanes()), wanted)

    def versions(self, model: str) -> list[Served]:
        """All versions of a model that the layout in force names."""
        served = [
            s for (_, number), s in self.served.items()
            if s.version.model == model and not number and not s.queue.leaving
        ]  # fmt: skip
        return sorted(served, key=lambda s: s.version.version)

    def apply(self, layout: Layout) -> list[Served]:
        """Put a layout in force. Returns the versions that others with the same name and other tensors have replaced:
        requests that wait for them were checked against tensors that are served no more."""
        self.layout = layout
        versions = {v.key: v for v in layout.models}
        named = {(key, 0) for key in versions}
        for route in layout.routes:
            parts = ((f"{p.model}/{route.versions.get(p.model, '')}", p.queue) for p in route.gpulet.models)
            named |= {(key, number) for key, number in parts if key in versions}
        replaced = [old for key, number in sorted(named) for old in self._serve(versions[key], number)]
        self._asked = {
            (a.name, s.name): QueueId(s.model, a.queues.get(s.name, 0)) for a in layout.applications for s in a.stages
        }
        self._route({r.executor: r for r in layout.routes}, versions)
        self.current = {}
        for version in sorted(layout.models, key=_version_order):
            self.current[version.model] = self.served[version.key, 0]
        for key, served in self.served.items():
            served.queue.leaving = key not in named
            served.beside = tuple(s for (k, n), s in self.served.items() if k == key[0] and n != key[1])
            served.lanes = sorted(
                (lane for seat in self.seats.values() for lane in seat.lanes if lane.served is served),
                key=lambda lane: lane.times.upper_s[-1] / lane.batch,
            )
        return replaced

    def home(self, served: Served, request: Pending) -> Served:
        """Where a request that waits in `served` is to wait: in the queue of its version that the layout has for it;
        or, where the version leaves, in that of the current one, if that can answer it: it has the same tensors and a
        live executor, the request asks for no version, and none of its rows has been taken."""
        own = self.served.get((served.key, 0))
        if own is not None and not own.queue.leaving:
            return self._queue(own, request.origin.stage)
        current = self.current.get(served.version.model)
        if current is None or not _same_tensors(current.version, served.version):
            return served
        target = self._queue(current, request.origin.stage)
        begun = request.running or request.outputs is not None
        return served if request.origin.pinned or begun or not target.live_lanes() else target

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
                for other in served.beside:
                    other.beside = tuple(s for s in other.beside if s is not served)
                if not served.beside:
                    del self._statistics[served.key]
                gone.append(served)
        for name, seat in list(self.seats.items()):
            if seat.report_drained and not seat.running and not seat.lanes:
                seat.report_drained = False
                drained.append(name)
            if seat.link is None and seat.route is None and not seat.running and not seat.report_drained:
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

    def _serve(self, version: ServedVersion, number: int) -> list[Served]:
        """Serve a queue of a version; returns the queues that are replaced with a version of that name which has other
        tensors."""
        queues = [s for (key, _), s in self.served.items() if key == version.key]
        replaced = [s for s in queues if not _same_tensors(s.version, version)]
        for served in queues:
            if served in replaced:
                del self.served[served.key, served.number]
            else:
                served.version = version  # perhaps with other content: waiting requests are answered by that
        if (version.key, number) not in self.served:
            counts = self._counts.setdefault(version.model, ModelCounts(version.model))
            statistics = self._statistics.setdefault(version.key, VersionStatistics(version.model, version.version))
            self.served[version.key, number] = Served(version, counts, statistics, number)
        return replaced

    def _route(self, routes: Mapping[str, Route], versions: Mapping[str, ServedVersion]) -> None:
        """Give each executor its route and lanes."""
        lanes = {name: self._lanes(r, versions) for name, r in routes.items()}
        for name in {*lanes, *self.seats}:
            seat = self.seat(name)
            before = seat.lanes
            seat.lanes = lanes.get(name, [])
            route = routes.get(name)
            if route is None and seat.route is not None:
                seat.report_drained = True
            elif route is not None:
                seat.report_drained = False
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
            served = self.served.get((f"{part.model}/{route.versions.get(part.model, '')}", part.queue))
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
