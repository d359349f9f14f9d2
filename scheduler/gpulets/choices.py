"""Applications whose stages change the models that answer them: when the front follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edge.core.applications import Application
from scheduler.gpulets.partitions import Partitions


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


def other_models(before: Mapping[str, Mapping[str, str]], now: Sequence[Application]) -> str:
    """The changes of the choices, in words that follow a cause; empty if there are none."""
    words = [
        f"; {a.name}, {stage}: {model} answers from now on"
        for a in now
        for stage, model in a.choice.items()
        if before.get(a.name, {}).get(stage, model) != model
    ]
    return "".join(words)


def linked(last: Sequence[Application], wanted: Sequence[Application]) -> tuple[frozenset[str], ...]:
    """The models whose routes change together: those that answer a stage now, and those that shall."""
    changes = _changes(last, wanted)
    return tuple(frozenset((*a.choice.values(), *changes[a.name].choice.values())) for a in wanted if a.name in changes)


def taken_over(
    last: Sequence[Application], wanted: Sequence[Application], partitions: Partitions
) -> tuple[Application, ...]:
    """The applications for the front. A stage goes on with the model that it has until the routes of the one that it
    shall ask are in force; or at once, if its own has no routes any more."""
    changes = _changes(last, wanted)
    out = []
    for application in wanted:
        before = changes.get(application.name)
        if before is not None and all(map(partitions.routes, before.choice.values())):
            both = {*application.choice.values(), *before.choice.values()}
            if not partitions.settled({m for m in both if m in application.choice.values() or partitions.routes(m)}):
                budgets = before.budgets if before.slo_ms <= application.slo_ms else application.budgets
                application = replace(application.choosing(before.choice), budgets=budgets)
        out.append(application)
    return tuple(out)
