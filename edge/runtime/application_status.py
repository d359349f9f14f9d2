"""Applications for people: budgets, measured times and fan-outs of their stages, and the reasons of the split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from edge.core.application_sources import SourceFault
from edge.core.applications import Alternative, Application, Stage
from edge.core.front_messages import StageTraffic, TrafficReport
from edge.core.serving import QueueId
from edge.core.serving_reasons import ServingReason
from edge.runtime.serving_status import View
from scheduler.gpulets.applications import even_budgets
from scheduler.gpulets.pipelines import PipelineDemand


class StageTotals:
    """Counts of every application's stages since the start, with the latest times and fan-outs."""

    def __init__(self) -> None:
        self._totals: dict[tuple[str, str], StageTraffic] = {}

    def add(self, report: TrafficReport) -> None:
        """Add a report of the front."""
        for stage in report.stages:
            key = stage.application, stage.stage
            before = self._totals.get(key, StageTraffic(stage.application, stage.stage, stage.model))
            self._totals[key] = replace(
                stage,
                requests=before.requests + stage.requests,
                answered=before.answered + stage.answered,
                over=before.over + stage.over,
                rows=before.rows + stage.rows,
                took_ms=stage.took_ms or before.took_ms,
                fan_out=stage.fan_out if stage.requests else before.fan_out,
                fan_out_p99=stage.fan_out_p99 if stage.requests else before.fan_out_p99,
            )

    def of(self, application: str, stage: str) -> StageTraffic:
        """Of one stage; zeros of an unknown one."""
        return self._totals.get((application, stage), StageTraffic(application, stage, ""))


@dataclass(frozen=True)
class StageStatus:
    """A stage of an application: its budget in force (None: none yet) beside that of the even split, and its counts
    since the start. `planned_ms`: the longest that a request to its model's queue takes under the plan (None: it has no
    gpu-let); `share`: the devices that the queue's gpu-lets take; `rate` and `planned_rate`: rows per second.
    `latency_ms`: p50, p99 of the last second with answers; `fan_out`: rows per row of a request."""

    name: str
    model: str
    queue: int
    accuracy: float | None
    options: tuple[Alternative, ...]
    after: tuple[str, ...]
    budget_ms: float | None
    even_ms: float
    planned_ms: float | None
    rate: float
    planned_rate: float
    share: float
    latency_ms: tuple[float, ...]
    requests: int
    answered: int
    over: int
    rows: int
    fan_out: float
    fan_out_p99: float
    expected_fan_out: float


@dataclass(frozen=True)
class SourceStatus:
    """The camera of an application: why it gives nothing (None: it does), its answers per second, what of them is
    taken, and how many of its answers no application got."""

    fault: SourceFault | None
    rate: float
    max_rate: float | None
    classes: tuple[str, ...]
    min_score: float
    most: int
    lost: int


@dataclass(frozen=True)
class ApplicationStatus:
    """An application: its objective, its rates in rows per second, and its stages. `longest_ms`: the largest sum of
    budgets on a way through it (None: no budgets yet); `reasons` in words; `camera` and `source` None: clients ask."""

    name: str
    camera: str | None
    source: SourceStatus | None
    slo_ms: float
    accuracy: float | None
    rate: float
    planned_rate: float
    longest_ms: float | None
    stages: tuple[StageStatus, ...]
    reasons: tuple[str, ...]


def applications_status(
    view: View, totals: StageTotals, source: Callable[[Application], SourceStatus | None] = lambda _: None
) -> tuple[ApplicationStatus, ...]:
    """Each application with its stages and its source, and with the reasons that are about it or about all."""
    out = []
    demands = {d.application.name: d for d in view.pipelines}
    for a in view.applications:
        even, demand = even_budgets(a), demands.get(a.name, PipelineDemand(a, 0.0))
        rate, planned = view.application_rates.get(a.name, (0.0, 0.0))
        out.append(
            ApplicationStatus(
                name=a.name,
                camera=None if a.source is None else a.source.camera,
                source=source(a),
                slo_ms=a.slo_ms,
                accuracy=None if a.accuracy is None else round(a.accuracy, 4),
                rate=round(rate, 3),
                planned_rate=round(planned, 3),
                longest_ms=round(max(a.rest_ms.values()), 3) if a.budgets else None,
                stages=tuple(_stage(view, demand, s, totals.of(a.name, s.name), even[s.name]) for s in a.stages),
                reasons=tuple(r.words() for r in view.split_reasons if _about(r, a)),
            )
        )
    return tuple(out)


def _about(reason: ServingReason, application: Application) -> bool:
    """It concerns this application, or the whole plan. Reasons of other applications are not for everybody's eyes."""
    if reason.application or not reason.model:
        return reason.application in ("", application.name)
    return reason.model in application.every_model


def _stage(view: View, demand: PipelineDemand, stage: Stage, seen: StageTraffic, even_ms: float) -> StageStatus:
    application = demand.application
    queue = QueueId(stage.model, application.queues.get(stage.name, 0))
    planned_ms = view.planned_ms.get(queue)
    rate, planned = (
        rows * demand.rows_per_row(stage) for rows in view.application_rates.get(application.name, (0.0, 0.0))
    )
    return StageStatus(
        name=stage.name,
        model=stage.model,
        queue=queue.number,
        accuracy=stage.accuracy,
        options=tuple(stage.options),
        after=tuple(sorted(stage.after)),
        budget_ms=round(application.budgets[stage.name], 3) if application.budgets else None,
        even_ms=round(even_ms, 3),
        planned_ms=None if planned_ms is None else round(planned_ms, 3),
        rate=round(rate, 3),
        planned_rate=round(planned, 3),
        share=round(view.share(queue), 6),
        latency_ms=tuple(round(ms, 3) for ms in seen.took_ms),
        requests=seen.requests,
        answered=seen.answered,
        over=seen.over,
        rows=seen.rows,
        fan_out=round(seen.fan_out, 4),
        fan_out_p99=round(seen.fan_out_p99, 4),
        expected_fan_out=stage.per_request,
    )
