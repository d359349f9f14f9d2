"""The demand of pipelines on one box: their graphs, rates and objectives, and the resulting demand on each model.

A model that several stages ask is one demand with one queue: the rates are added, and every one of these stages has the
model's worst case. A client's direct requests to a model are a pipeline of one stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from edge.core import checks
from edge.core.applications import MOST_STAGES, Application
from edge.core.errors import InvalidValue
from edge.core.serving import MOST_RATE, DeviceTable, ServedModel, ServingProblem
from scheduler.gpulets.applications import for_groups, groups, longest_through, merge

#: The rate of a model that clients do not ask themselves: its own objective bounds what pipelines may take of it.
UNASKED = 1e-3


@dataclass(frozen=True)
class StageLoad:
    """A stage asks `model` for `per_request` answers (more than 0) per request of its pipeline, when the stages `after`
    have answered; for up to `burst` of them at the same instant."""

    name: str
    model: str
    per_request: float = 1.0
    after: tuple[str, ...] = ()
    burst: int = 1


@dataclass(frozen=True)
class PipelineLoad:
    """A graph of stages that gets `rate` requests per second, each to be answered within `slo_ms`. `own`: it is a model
    with its own objective, which every queue of the model keeps.

    Raises InvalidValue for no stages, a name given twice, a stage that waits for an unknown one, and a circle.
    """

    name: str
    rate: float
    slo_ms: float
    stages: tuple[StageLoad, ...]
    priority: int = 0
    own: bool = False

    def __post_init__(self) -> None:
        at = f"pipelines.{self.name}"
        checks.in_range(f"{at}.rate", self.rate, 0.0, MOST_RATE)
        checks.positive(f"{at}.slo_ms", self.slo_ms)
        checks.not_empty(f"{at}.stages", self.stages)
        if len(self.stages) > MOST_STAGES:
            raise InvalidValue(f"{at}.stages", f"{len(self.stages)} stages", f"at most {MOST_STAGES} stages")
        names = [stage.name for stage in self.stages]
        checks.unique(f"{at}.stages", names)
        for stage in self.stages:
            where = f"{at}.stages.{stage.name}"
            checks.in_range(f"{where}.per_request", stage.per_request, 0.0, 1e6, low_open=True)
            checks.in_range(f"{where}.burst", stage.burst, 1, 1e6)
            for n, before in enumerate(stage.after):
                checks.one_of(f"{where}.after[{n}]", before, names)
        if len(self.order) < len(names):
            left = [name for name in names if name not in self.order]
            raise InvalidValue(f"{at}.stages", f"a circle among {', '.join(left)}", "stages without a circle")

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The stages, each behind those that it waits for; stages in a circle or behind one are left out."""
        left = {stage.name: set(stage.after) for stage in self.stages}
        order: list[str] = []
        while ready := [name for name, after in left.items() if after <= set(order)]:
            order += ready
            for name in ready:
                del left[name]
        return tuple(order)

    def through(self, worst_ms: Mapping[str, float]) -> dict[str, float]:
        """Stage -> the longest path through it in ms, where each stage takes what `worst_ms` has for its name."""
        return longest_through(self._after, worst_ms)

    @cached_property
    def _after(self) -> Mapping[str, tuple[str, ...]]:
        """By stage in order, those that it waits for."""
        stages = {stage.name: stage for stage in self.stages}
        return {name: stages[name].after for name in self.order}

    def longest(self, worst_ms: Mapping[str, float]) -> tuple[float, tuple[str, ...]]:
        """The longest path in ms and its stages."""
        until: dict[str, float] = {}
        for name, before in self._after.items():
            until[name] = worst_ms[name] + max((until[b] for b in before), default=0.0)
        path = [max(until, key=until.__getitem__)]
        while self._after[path[0]]:
            path.insert(0, max(self._after[path[0]], key=until.__getitem__))
        return until[path[-1]], tuple(path)

    @cached_property
    def even_ms(self) -> Mapping[str, float]:
        """The even split: stage -> the objective over the stages on the longest way through it."""
        counted = self.through(dict.fromkeys(self.order, 1.0))
        return {name: self.slo_ms / stages for name, stages in counted.items()}


def pipeline_load(application: Application, rate: float) -> PipelineLoad:
    """The demand of `application` at `rate` requests per second. Raises InvalidValue for a bad rate."""
    together = groups(application)
    stages = tuple(
        StageLoad(s.name, s.model, s.per_request, tuple(sorted(s.after)), together[s.model]) for s in application.stages
    )
    return PipelineLoad(application.name, rate, application.slo_ms, stages, application.priority)


def direct_load(model: ServedModel) -> PipelineLoad:
    """A model that clients ask directly."""
    stages = (StageLoad(model.name, model.name),)
    return PipelineLoad(model.name, model.rate, model.slo_ms, stages, model.priority, own=True)


@dataclass(frozen=True)
class JointProblem:
    """Pipelines on `devices` alike devices, of each of which `capacity` (0-1] may be used; at most `max_gpulets` on
    each, where given. No gpu-let has two models of one of the sets `apart`."""

    pipelines: tuple[PipelineLoad, ...]
    devices: int = 1
    capacity: float = 1.0
    max_gpulets: int | None = None
    apart: tuple[frozenset[str], ...] = ()

    def __post_init__(self) -> None:
        checks.unique("pipelines", [p.name for p in self.pipelines])
        self.served({})

    @cached_property
    def busy(self) -> tuple[PipelineLoad, ...]:
        """The pipelines that have requests."""
        return tuple(p for p in self.pipelines if p.rate > 0)

    def served(self, budgets_ms: Mapping[str, float]) -> ServingProblem:
        """The demand on each model, with the objective `budgets_ms` has for it, else the even split's."""
        models = self.even
        given = tuple(replace(m, slo_ms=budgets_ms.get(m.name, m.slo_ms)) for m in models)
        return ServingProblem(given, self.devices, self.capacity, self.max_gpulets)

    @cached_property
    def even(self) -> tuple[ServedModel, ...]:
        """Each model's demand under the even split, as it is planned without this package: stricter, where its requests
        come several at once."""
        return tuple(for_groups(m, self.bursts[m.name]) for m in self._plain)

    @cached_property
    def bursts(self) -> Mapping[str, int]:
        """Model -> as many requests may come at the same instant."""
        found: dict[str, int] = {}
        for pipeline in self.busy or self.pipelines:
            for stage in pipeline.stages:
                found[stage.model] = max(found.get(stage.model, 1), stage.burst)
        return {m.name: found.get(m.name, 1) for m in self._plain}

    @cached_property
    def burst_ms(self) -> Mapping[str, float]:
        """Model -> how much later than a single request the last of so many at once is answered."""
        return {
            m.name: plain.slo_ms - m.slo_ms if m.rate > 0 else 0.0
            for m, plain in zip(self.even, self._plain, strict=True)
        }

    @cached_property
    def _plain(self) -> tuple[ServedModel, ...]:
        return merge(
            ServedModel(s.model, min(MOST_RATE, p.rate * s.per_request), p.even_ms[s.name], p.priority)
            for p in self.pipelines
            for s in p.stages
        )

    def check_reachable(self, table: DeviceTable) -> None:
        """Raises InvalidValue for a model that the table does not have, and for an objective that no device can keep
        however few requests there are."""
        for pipeline in self.pipelines:
            least, path = self.least_ms(pipeline, table)
            if pipeline.rate > 0 and least > pipeline.slo_ms:
                raise InvalidValue(
                    f"pipelines.{pipeline.name}.slo_ms",
                    pipeline.slo_ms,
                    f"at least {least:.3f} ms, which {' > '.join(path)} takes at best",
                )

    def least_ms(self, pipeline: PipelineLoad, table: DeviceTable) -> tuple[float, tuple[str, ...]]:
        """The least time of its longest path here, and the stages on it. Raises InvalidValue for a model that the
        table does not have."""
        shares = [s for s in range(1, 101) if s <= self.capacity * 100 + 1e-6]
        fastest = {}
        for stage in pipeline.stages:
            path = f"pipelines.{pipeline.name}.stages.{stage.name}.model"
            checks.one_of(path, stage.model, table.latency_ms)
            rows = table.latency_ms[stage.model]
            fastest[stage.name] = min((self._least_ms(s, rows[s]) for s in shares if s in rows), default=0.0)
        return pipeline.longest(fastest)

    def _least_ms(self, share: int, row: Sequence[float]) -> float:
        """The least worst case at `share`: on as many alike gpu-lets as there is room for."""
        most = self.devices * int((self.capacity * 100 + 1e-6) // share)
        return row[0] * (1 + 1 / most)
