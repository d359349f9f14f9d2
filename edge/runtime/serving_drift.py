"""The watch over drift: live batch times against the device's table, while partitions are as planned."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edge.core.front_messages import Layout, TrafficReport
from edge.core.journal_kinds import JournalNote
from edge.runtime.serving_measuring import Measuring
from edge.runtime.serving_models import OfferedModels
from edge.runtime.serving_status import View
from edge.runtime.serving_tables import DeviceTables
from scheduler.gpulets import stage_drift
from scheduler.gpulets.drift import DriftRule, DriftState, ForgetScale, Reprofile, ScaleTable, observations, step
from scheduler.gpulets.reorganiser_events import StagesDrifted
from scheduler.gpulets.stage_drift import StageDriftState, StageRule


class DriftWatch:
    """Has `tables` scaled and models measured again where the table does not hold any more, and plans made with what
    stages of applications take where that leaves their budgets. `view()` and `layout()` are the plan and the routes in
    force; `note(kind, data)` journals, `send(event)` is for the reorganiser. It rests while `tables` are
    not watched."""

    def __init__(
        self,
        models: OfferedModels,
        tables: DeviceTables,
        measuring: Measuring,
        view: Callable[[], View],
        layout: Callable[[], Layout | None],
        note: JournalNote,
        send: Callable[[StagesDrifted], None],
    ) -> None:
        self._models, self._tables, self._measuring = models, tables, measuring
        self._view, self._layout, self._note = view, layout, note
        self._send = send
        self._state, self._stages = DriftState(), StageDriftState()

    def report(self, now: float, report: TrafficReport) -> None:
        """Take in what the front reported at monotonic time `now`."""
        if not self._tables.watched:
            return
        view, layout = self._view(), self._layout()
        if view.table is None or view.in_flight or (layout is not None and report.layout != layout.number):
            return
        # Without routes every model may have been refused: there is nothing to see, and all to try again.
        seen = () if layout is None else observations(view.table, layout, report)
        without_room = [model for model, why in view.refused.items() if why.code == "no_room"]
        self._state, orders = step(DriftRule(), self._state, now, seen, without_room)
        # Scaling the table and measuring again may both follow from one observation.
        for model, share, reason in dict.fromkeys(
            (o.model, o.share, o.reason) for o in orders if not isinstance(o, ForgetScale)
        ):
            self._note("serving.drift", data={"model": model, "share": share, "message": reason})
        self._forget([o for o in orders if isinstance(o, ForgetScale)])
        slower = [o for o in orders if isinstance(o, ScaleTable)]
        if slower and self._tables.table is not None:
            self._tables.scale(slower)
            self._models.latencies_changed()
        again = sorted({o.model for o in orders if isinstance(o, Reprofile)})
        if again:
            self._measuring.again(again)
        self._watch_stages(now, report, {o.model for o in slower}, view)

    def _forget(self, orders: Sequence[ForgetScale]) -> None:
        """Plan models that were refused for slow times as their tables say: if they are still slow, that is seen."""
        for order in orders:
            self._note("serving.drift", data={"model": order.model, "message": order.reason})
        if orders:
            self._tables.unscale({o.model for o in orders})
            self._models.latencies_changed()

    def follow(self, now: float, watched: bool) -> None:
        """Have plans reckon with what was seen, or with the tables alone, from monotonic time `now` on."""
        if watched != self._tables.watched:
            self._tables.watched = watched
            self._models.latencies_changed()
            if self._stages.factors:
                self._send(StagesDrifted(now, self._stages.factors if watched else {}))

    def _watch_stages(self, now: float, report: TrafficReport, scaled: set[str], view: View) -> None:
        """A model whose batches are slower is reckoned with as such, and its stages are judged anew."""
        before = self._stages.factors
        known, excused = self._stages.without(scaled), {*view.capped, *view.refused}
        self._stages, reasons = stage_drift.step(StageRule(), known, now, report.stages, excused)
        for reason in reasons:
            self._note("serving.drift", data={"message": reason.words()})
        if self._stages.factors != before:
            self._send(StagesDrifted(now, self._stages.factors, reasons))
