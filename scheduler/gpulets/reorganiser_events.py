"""Events for the reorganiser (facts of the past) and its instructions (carried out in order)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edge.core.applications import Application
from edge.core.front_messages import Layout, ServedVersion, TrafficReport
from edge.core.serving import DeviceTable, ServingPlan, ServingProblem
from edge.core.serving_reasons import Refusal, ServingReason
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.fitting import Capacity, PlanFunction
from scheduler.gpulets.pipelines import FitFunction, TwoQueues
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings

# events


@dataclass(frozen=True)
class TrafficMeasured:
    """The front's report of the last second or so."""

    at_s: float
    report: TrafficReport


@dataclass(frozen=True)
class ModelsChanged:
    """All models that shall be served from now on, and applications of them. A changed `rate` is taken for the rate
    that is expected now. `table` replaces the one that is known, if given. `other_rates`: only cameras answer at other
    rates, in these words; empty: more has changed."""

    at_s: float
    models: tuple[Demand, ...]
    applications: tuple[Application, ...] = ()
    table: DeviceTable | None = None
    other_rates: tuple[ServingReason, ...] = ()


@dataclass(frozen=True)
class ExecutorReady:
    """An executor has loaded and warmed its models."""

    at_s: float
    executor: str


@dataclass(frozen=True)
class ExecutorEmptied:
    """Nothing of an executor that has no route any more is outstanding."""

    at_s: float
    executor: str


@dataclass(frozen=True)
class ExecutorLost:
    """An executor's process or connection ended; it is being started again."""

    at_s: float
    executor: str
    reason: str


@dataclass(frozen=True)
class ExecutorFailed:
    """An executor is not started again. `models` are those at fault, where that is known."""

    at_s: float
    executor: str
    reason: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExecutorStopped:
    """An executor that was stopped is gone; its share is free."""

    at_s: float
    executor: str


@dataclass(frozen=True)
class FrontLost:
    """The front ended. A new one knows no executor until they connect again."""

    at_s: float


@dataclass(frozen=True)
class ServingCapacityChanged:
    """The share that serving may take has changed (cameras came, went, or have another floor)."""

    at_s: float
    capacity: Capacity


@dataclass(frozen=True)
class TableChanged:
    """Latencies were measured (anew)."""

    at_s: float
    table: DeviceTable


@dataclass(frozen=True)
class StagesDrifted:
    """Stages of applications left their budgets, or keep them again: reckon with these models as so many times slower
    than measured, and with all others as measured. `reasons` say which."""

    at_s: float
    factors: Mapping[str, float]
    reasons: tuple[ServingReason, ...] = ()


@dataclass(frozen=True)
class ServingRulesChanged:
    """The operator wants other settings, or another policy, or the tenants' budgets moved (`cause`). `fit_all` chooses
    the budgets of applications' stages; None: as before."""

    at_s: float
    settings: ReorganiserSettings
    plan: PlanFunction
    fit_all: FitFunction | None = None
    cause: ServingReason = ServingReason("settings")  # noqa: RUF009


Event = (
    TrafficMeasured
    | ModelsChanged
    | ExecutorReady
    | ExecutorEmptied
    | ExecutorLost
    | ExecutorFailed
    | ExecutorStopped
    | FrontLost
    | ServingCapacityChanged
    | TableChanged
    | StagesDrifted
    | ServingRulesChanged
)


# instructions


@dataclass(frozen=True)
class ReserveShare:
    """From here on `share` of the device belongs to serving: others yield before what follows is done."""

    share: float


@dataclass(frozen=True)
class StartExecutor:
    """Start an executor under `share`, with these versions loaded and warm; routes come later."""

    executor: str
    share: float
    versions: tuple[ServedVersion, ...]


@dataclass(frozen=True)
class ResizeExecutor:
    """Change an executor's share while it runs."""

    executor: str
    share: float


@dataclass(frozen=True)
class SetLayout:
    """Tell the front the routes that are in force from now on."""

    layout: Layout


@dataclass(frozen=True)
class StopExecutor:
    """End an executor that has nothing to do any more."""

    executor: str


@dataclass(frozen=True)
class TrimExecutor:
    """Let go of all models that this executor has loaded but these: the others get no more requests."""

    executor: str
    versions: tuple[ServedVersion, ...]


@dataclass(frozen=True)
class RecordServingPlan:
    """Keep the problem, its plan, why it was made and what it changes, the models that have two queues, and why the
    objectives of applications are split so."""

    problem: ServingProblem
    plan: ServingPlan
    cause: tuple[ServingReason, ...]
    two_queues: tuple[TwoQueues, ...] = ()
    split: tuple[ServingReason, ...] = ()


@dataclass(frozen=True)
class VersionServed:
    """All requests of its model go to this version now."""

    version: ServedVersion


@dataclass(frozen=True)
class VersionFailed:
    """This version cannot be served; `serving` is the version of the model that goes on (None: none does)."""

    version: ServedVersion
    reason: str
    serving: ServedVersion | None = None


@dataclass(frozen=True)
class ExecutorNote:
    """For people: an executor that holds these `models` was lost and is started again, or was given up. `reason` is the
    error's own text."""

    kind: Literal["executor_lost", "executor_failed"]
    executor: str
    models: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class RefusedNote:
    """For people: a model is not served, for another reason than before."""

    refusal: Refusal


@dataclass(frozen=True)
class CappedNote:
    """For people: a model is served at this `part` of the rate that is asked; the rest of the share is taken."""

    model: str
    part: float


Instruction = (
    ReserveShare
    | StartExecutor
    | ResizeExecutor
    | SetLayout
    | StopExecutor
    | TrimExecutor
    | RecordServingPlan
    | VersionServed
    | VersionFailed
    | ExecutorNote
    | RefusedNote
    | CappedNote
)
