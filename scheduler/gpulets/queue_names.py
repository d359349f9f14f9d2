"""Queues of models under names of their own, for planners that know one demand for each name.

A model's queue 0 keeps the model's name. Its other queue gets a new name and a copy of the model's measurements: it is
the same model, so it takes as long, presses on its neighbours as much, and needs the same memory wherever it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from edge.core.serving import DeviceTable, ModelBatch, QueueId, ServedModel, ServingPlan, ServingProblem
from scheduler.gpulets.fitting import PlanFunction

#: Parts of a table's details that are kept by model.
_BY_MODEL = ("run_ms", "typical_ms")


@dataclass(frozen=True)
class QueueNames:
    """`queues`: name -> queue, of the queues that do not go by their model's name."""

    queues: Mapping[str, QueueId]

    def of(self, queue: QueueId) -> str:
        """The name that a planner gets for the queue."""
        return next((name for name, known in self.queues.items() if known == queue), queue.model)

    def queue(self, name: str) -> QueueId:
        """The queue that goes by this name."""
        return self.queues.get(name, QueueId(name))

    def table(self, table: DeviceTable) -> DeviceTable:
        """The table with measurements for every name."""

        def with_copies(rows: Mapping[str, Any]) -> dict[str, Any]:
            return {**rows, **{name: rows[q.model] for name, q in self.queues.items() if q.model in rows}}

        details = {
            k: with_copies(v) if k in _BY_MODEL and isinstance(v, Mapping) else v for k, v in table.details.items()
        }
        return replace(
            table,
            latency_ms=with_copies(table.latency_ms),
            utilisation=with_copies(table.utilisation),
            memory_mb=with_copies(table.memory_mb),
            details=details,
        )

    def models(self, problem: ServingProblem) -> ServingProblem:
        """The problem with a name for every queue."""
        return replace(problem, models=tuple(replace(m, name=self.of(m.queue_id), queue=0) for m in problem.models))

    def named(self, model: ServedModel) -> ServedModel:
        """The demand of such a name as that of its queue."""
        queue = self.queue(model.name)
        return replace(model, name=queue.model, queue=queue.number)

    def plan(self, plan: ServingPlan) -> ServingPlan:
        """The plan of such names as one of queues. Its words keep the names. Raises InvalidValue where a gpu-let has
        both queues of a model (`mixed`)."""
        gpulets = []
        for gpulet in plan.gpulets:
            queues = [(self.queue(part.model), part.batch) for part in gpulet.models]
            gpulets.append(replace(gpulet, models=tuple(ModelBatch(q.model, b, q.number) for q, b in queues)))
        return replace(plan, gpulets=tuple(gpulets))

    def mixed(self, plan: ServingPlan) -> bool:
        """A gpu-let has both queues of a model."""
        models = [[self.queue(part.model).model for part in gpulet.models] for gpulet in plan.gpulets]
        return any(len(set(names)) < len(names) for names in models)


#: Every model has one queue.
ONE_QUEUE_EACH = QueueNames({})


def queue_names(queues: Iterable[QueueId], taken: Iterable[str]) -> QueueNames:
    """Names for these queues, none of which is `taken`."""
    used, names = set(taken), dict[str, QueueId]()
    for queue in sorted(q for q in queues if q.number):
        name = f"{queue.model}, queue {queue.number}"
        while name in used:
            name += "'"
        used.add(name)
        names[name] = queue
    return QueueNames(names)


def plan_queues_apart(plan: PlanFunction, problem: ServingProblem, table: DeviceTable) -> ServingPlan:
    """The plan of a problem in which models may have two queues. A plan that has both in one gpu-let is not taken."""
    names = queue_names((m.queue_id for m in problem.models), table.latency_ms)
    if not names.queues:
        return plan(problem, table)
    found = plan(names.models(problem), names.table(table))
    if names.mixed(found):
        words = "a gpu-let would serve two queues of one model"
        return ServingPlan(False, (), found.policy, (words,))
    return names.plan(found)
