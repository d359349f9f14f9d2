"""The demand on served models: from their files, the operator's settings, and applications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from edge.core.applications import Application
from edge.core.front_messages import ServedVersion
from edge.core.model_reasons import ModelReason
from edge.core.serving import MOST_RATE
from edge.core.serving_reasons import ServingReason
from edge.settings import ModelDemand
from scheduler.gpulets.applications import expand, groups, merge
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.source_rates import SourceState, fed

OfferState = Literal["waiting", "checking", "measuring", "offered", "failed"]


@dataclass
class Offer:
    """A model, or an application, that shall be served, and how far it has come."""

    name: str
    state: OfferState = "waiting"
    reason: ModelReason | None = None
    version: ServedVersion | None = None
    application: Application | None = None


def demands(
    offers: Iterable[Offer], asked: Mapping[str, ModelDemand], cameras: Mapping[str, SourceState] | None = None
) -> tuple[tuple[Demand, ...], tuple[Application, ...]]:
    """The demand on each model that has a version, and the applications, both with the operator's settings; those that
    `cameras` feed have the rates of these.

    A model that applications ask counts their rates on top of its own, the strictest objective and the highest
    priority; so no application is held up by one of its models.
    """
    offers = tuple(offers)
    versions = {o.name: o.version for o in offers if o.version is not None}
    applications = tuple(
        fed(_application(fitting(o.application, versions)[0], asked.get(o.name, ModelDemand())), cameras or {})
        for o in offers
        if o.application is not None
    )
    parts = {m.name: m for m in merge(part for app in applications for part in expand(app, app.rate))}
    out = []
    for offer in offers:
        version = offer.version
        if version is None:
            continue
        ask, part = asked.get(offer.name, ModelDemand()), parts.get(offer.name)
        rate = version.rate if ask.rate is None else ask.rate
        priority = version.priority if ask.priority is None else ask.priority
        version = replace(
            version,
            slo_ms=version.slo_ms if ask.slo_ms is None else ask.slo_ms,
            priority=priority if part is None else max(priority, part.priority),
        )
        out.append(
            Demand(
                version,
                rate if part is None else min(MOST_RATE, rate + part.rate),
                1.0 if ask.min_rate is None else ask.min_rate,
                None if part is None else part.slo_ms,
                max((groups(app).get(offer.name, 1) for app in applications), default=1),
            )
        )
    return tuple(out), applications


def fitting(
    application: Application, versions: Mapping[str, ServedVersion]
) -> tuple[Application, tuple[ServingReason, ...]]:
    """The application without the alternatives that take or give other tensors than their stage's model, and the
    reasons. One that is not there yet stays: it answers nothing before it is."""
    stages, reasons = [], []
    for stage in application.stages:
        own = versions.get(stage.model)
        kept = []
        for alternative in stage.alternatives:
            other = versions.get(alternative.model)
            if own is None or other is None or _tensors(own) == _tensors(other):
                kept.append(alternative)
            else:
                unlike = ServingReason("unlike", stage.model, application.name, stage.name, alternative.model)
                reasons.append(unlike)
        stages.append(replace(stage, alternatives=tuple(kept)))
    return replace(application, stages=tuple(stages)), tuple(reasons)


def _tensors(version: ServedVersion) -> tuple[frozenset[tuple[str, str, int]], ...]:
    """Names, data types and numbers of dimensions of the inputs and of the outputs."""
    return tuple(
        frozenset((t.name, t.datatype, len(t.shape)) for t in tensors) for tensors in (version.inputs, version.outputs)
    )


def _application(application: Application, ask: ModelDemand) -> Application:
    return replace(
        application,
        slo_ms=application.slo_ms if ask.slo_ms is None else ask.slo_ms,
        priority=application.priority if ask.priority is None else ask.priority,
        # Settings may be older than a description whose stages ask more.
        rate=application.rate if ask.rate is None else min(ask.rate, application.most_rate),
    )
