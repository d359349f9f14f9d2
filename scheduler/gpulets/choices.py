"""Applications whose stages change the models that answer them, or the queues that they ask: when the front follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edge.core.applications import Application, Stage
from edge.core.serving_reasons import ServingReason
from scheduler.gpulets.partitions import Partitions
from scheduler.gpulets.pipelines import TwoQueues


def with_choice(application: Application, choice: Mapping[str, str]) -> Application:
    """The application with these models where its stages may ask them, else with its own."""
    options = {s.name: {o.model for o in s.options} for s in application.stages}
    return application.choosing({s: m for s, m in choice.items() if m in options.get(s, set())})


def _changes(last: Sequence[Application], wanted: Sequence[Application]) -> dict[str, Application]:
    """Name -> the application as the front has it, of those that differ from it in their choice only."""
    known = {a.name: a for a in last}
    out = {}
    for application in wanted:
        before = known.get(application.name)
        if before is None or before.choice == application.choice:
            continue
        if with_choice(application, before.choice).stages == before.stages:
            out[application.name] = before
    return out


def other_models(before: Mapping[str, Mapping[str, str]], now: Sequence[Application]) -> tuple[ServingReason, ...]:
    """The changes of the choices."""
    return tuple(
        ServingReason("answers", model, a.name, stage)
        for a in now
        for stage, model in a.choice.items()
        if before.get(a.name, {}).get(stage, model) != model
    )


def other_queues(before: Sequence[TwoQueues], now: Sequence[TwoQueues]) -> tuple[ServingReason, ...]:
    """The models that have two queues and had one, or the other way round."""
    had, has = {q.model for q in before}, {q.model: q for q in now}
    more = (two.why for model, two in has.items() if model not in had)
    return (*more, *(ServingReason("one_queue", model) for model in sorted(had - has.keys())))


def linked(last: Sequence[Application], wanted: Sequence[Application]) -> tuple[frozenset[str], ...]:
    """The models whose routes change together: those that answer a stage now, and those that shall."""
    changes = _changes(last, wanted)
    return tuple(frozenset((*a.choice.values(), *changes[a.name].choice.values())) for a in wanted if a.name in changes)


def taken_over(
    last: Sequence[Application], wanted: Sequence[Application], partitions: Partitions
) -> tuple[Application, ...]:
    """The applications for the front. A stage goes on with the model that it has until the routes of the one that it
    shall ask are in force; or at once, if its own has no routes any more. So it does with a queue."""
    changes = _changes(last, wanted)
    known = {a.name: a for a in last}
    out = []
    for shall in wanted:
        application = shall
        before = changes.get(shall.name)
        if before is not None and all(map(partitions.routes, before.choice.values())):
            both = {*shall.choice.values(), *before.choice.values()}
            if not partitions.settled({m for m in both if m in shall.choice.values() or partitions.routes(m)}):
                budgets = before.budgets if before.slo_ms <= shall.slo_ms else shall.budgets
                application = replace(shall.choosing(before.choice), budgets=budgets)
        queues = {s.name: _queue(s, shall, known.get(shall.name), partitions) for s in application.stages}
        out.append(replace(application, queues={name: number for name, number in queues.items() if number}))
    return tuple(out)


def _queue(stage: Stage, shall: Application, last: Application | None, partitions: Partitions) -> int:
    """The queue that a stage asks: the one planned for, once the routes of its model are as planned; until then the one
    that the front has for it."""
    planned = _number(shall, stage)
    before = None if last is None else _number(last, stage)
    first, second = (planned, before) if partitions.settled({stage.model}) else (before, planned)
    return first if first is not None else second or 0


def _number(application: Application, stage: Stage) -> int | None:
    """The number of the queue that this stage asks there; None where another model answers it, or it is not there."""
    same = any(s.name == stage.name and s.model == stage.model for s in application.stages)
    return application.queues.get(stage.name, 0) if same else None
