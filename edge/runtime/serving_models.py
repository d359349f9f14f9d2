"""Models and applications that shall be served, and the events about them for the reorganiser."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edge.core.applications import Application
from edge.core.clock import Clock
from edge.core.model_reasons import ModelReason
from edge.core.serving import DeviceTable
from edge.core.serving_reasons import ServingReason
from edge.runtime.serving_demand import Offer, demands, fitting
from edge.runtime.serving_tables import DeviceTables, cut
from edge.settings import ServingPlanning
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.source_rates import SourceState, change_of


class OfferedModels:
    """`offers` by name. `planning()` says what the operator asks of each, `send(event)` is for the reorganiser."""

    def __init__(
        self,
        tables: DeviceTables,
        planning: Callable[[], ServingPlanning],
        clock: Clock,
        send: Callable[[r.Event], None],
    ) -> None:
        self.offers: dict[str, Offer] = {}
        self._tables, self._planning, self._clock, self._send = tables, planning, clock, send
        #: The latencies that the reorganiser got last.
        self._sent: DeviceTable | None = None
        self._sources: Mapping[str, SourceState] = {}

    def demands(self) -> tuple[tuple[Demand, ...], tuple[Application, ...]]:
        """The demand on each model that has a version, and the applications, with the operator's settings."""
        return demands(self.offers.values(), self._planning().models, self._sources)

    def take_sources(self, cameras: Mapping[str, SourceState]) -> None:
        """Reckon with these cameras from now on, by id."""
        before = self.demands()[1]
        self._sources = cameras
        now = self.demands()[1]
        if [(a.rate, a.unfed) for a in before] == [(a.rate, a.unfed) for a in now]:
            return
        only_rates = [a.unfed for a in before] == [a.unfed for a in now]
        self.changed(change_of(before, now) if only_rates else ())

    def changed(self, other_rates: tuple[ServingReason, ...] = ()) -> None:
        """Tell the reorganiser what shall be served from now on, and the latencies of it. `other_rates`: cameras answer
        at these other rates, and nothing else has changed."""
        versions = {o.name: o.version for o in self.offers.values() if o.version is not None}
        for offer in self.offers.values():
            if offer.application is not None and offer.state == "offered":
                offer.reason = ModelReason.of_alternatives(fitting(offer.application, versions)[1])
        wanted, applications = self.demands()
        table = self._latencies()
        self._sent = self._sent if table is None else table
        self._send(r.ModelsChanged(self._clock.monotonic(), wanted, applications, table, other_rates))

    def latencies_changed(self) -> None:
        """Tell the reorganiser the latencies of what is served, if they are others than it knows."""
        table = self._latencies()
        if table is not None and table != self._sent:
            self._sent = table
            self._send(r.TableChanged(self._clock.monotonic(), table))

    def _latencies(self) -> DeviceTable | None:
        return cut(self._tables.table, [o.version for o in self.offers.values() if o.version is not None])
