"""Applications for people: budgets, measured times and fan-outs of their stages, and the reasons of the split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from edge.core.applications import Application
from edge.core.layout import StageTraffic, TrafficReport
from edge.runtime.serving_status import View
from scheduler.gpulets.applications import even_budgets


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


def applications_status(
    view: View, totals: StageTotals, source: Callable[[Application], dict[str, Any] | None] = lambda _: None
) -> list[dict[str, Any]]:
    """Each application with its stages and its source, as `edge.appliance.answers.serving.ApplicationAnswer`."""
    out = []
    for a in view.applications:
        even = even_budgets(a)
        stages = []
        for s in a.stages:
            seen = totals.of(a.name, s.name)
            stages.append(
                {
                    "name": s.name,
                    "model": s.model,
                    "queue": a.queues.get(s.name, 0),
                    "accuracy": s.accuracy,
                    "options": [{"model": o.model, "accuracy": o.accuracy} for o in s.options],
                    "after": sorted(s.after),
                    "budget_ms": round(a.budgets[s.name], 3) if a.budgets else None,
                    "even_ms": round(even[s.name], 3),
                    "latency_ms": [round(ms, 3) for ms in seen.took_ms],
                    "requests": seen.requests,
                    "answered": seen.answered,
                    "over": seen.over,
                    "rows": seen.rows,
                    "fan_out": round(seen.fan_out, 4),
                    "fan_out_p99": round(seen.fan_out_p99, 4),
                    "expected_fan_out": s.per_request,
                }
            )
        rate, planned = view.application_rates.get(a.name, (0.0, 0.0))
        out.append(
            {
                "name": a.name,
                "camera": None if a.source is None else a.source.camera,
                "source": source(a),
                "slo_ms": a.slo_ms,
                "accuracy": None if a.accuracy is None else round(a.accuracy, 4),
                "rate": round(rate, 3),
                "planned_rate": round(planned, 3),
                "longest_ms": round(max(a.rest_ms.values()), 3) if a.budgets else None,
                "stages": stages,
                "reasons": [reason.words() for reason in view.split_reasons],
            }
        )
    return out
