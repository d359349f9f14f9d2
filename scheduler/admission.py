"""One box, two planners, one admission answer: it tells in advance what adding a camera, a model or an application (a
pipeline of models) would do.

The serving plan takes the smallest total share that holds every objective; cameras plan within the rest. Cameras yield
share down to their floors; models yield by priority (`scheduler.gpulets.fitting.fit`, which the appliance itself
follows, so the answer is what would happen). A candidate is admitted when it is served whole, every camera keeps its
floor, and nothing of its priority or above loses more than cameras have above their floors.

Shares are in devices of one box, accuracies are predicted time averages over a window [0, 1], times in milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

from edge.core import checks
from edge.core.admission_reasons import AdmissionReason
from edge.core.applications import Application
from edge.core.errors import InvalidValue
from edge.core.plan_faults import PlanFault
from edge.core.serving import MOST_RATE, DeviceTable, ServedModel, ServingPlan
from edge.core.window import StreamProblem, WindowPlan, WindowProblem
from scheduler.cameras_need import CamerasOfBox, cameras_need, followed
from scheduler.gpulets.applications import even_budgets
from scheduler.gpulets.choices import with_choice
from scheduler.gpulets.fitting import Capacity, Fitted
from scheduler.gpulets.pipelines import FitFunction, FittedPipelines, PipelineDemand, asked_rows, evenly_split
from scheduler.gpulets.policies import DEFAULT_SERVING_POLICY, ServingPolicy, serving_policy, smallest_plan
from scheduler.gpulets.stage_times import planned_ms
from scheduler.gpulets.verdict import verdict
from scheduler.joint.alternatives import less_accurate, of_choice
from scheduler.joint.demand import JointProblem
from scheduler.joint.reach import load_of
from scheduler.joint.split_policies import DEFAULT_SPLIT_POLICY, SPLIT_POLICIES
from scheduler.policies import WindowPolicy
from scheduler.serving_floor import keep_serving, reachable
from scheduler.timeline import evaluate

__all__ = [
    "Admission",
    "Box",
    "CameraCandidate",
    "CameraEffect",
    "CandidateStage",
    "ModelEffect",
    "PipelineCandidate",
    "ServingPlanner",
    "admit",
    "camera_like",
    "cameras_need",
    "planned",
    "smallest_plan",
    "window_with",
]

#: Halvings in the search for a rate.
HALVINGS = 5
#: Accuracies that differ by no more are the same.
SAME_ACCURACY = 5e-4
_EPS = 1e-6


@dataclass(frozen=True)
class Box:
    """The box's load now.

    `capacity`: devices that models and cameras have together (the whole less control and golden shares), at most 1.
    `models`: all that each is asked, pipelines' stages included, with the objective of its own; `pipelines` ask some
    of them under objectives of theirs.
    `window`: the cameras' problem now (None: no camera); its `num_gpus` is not looked at. A model of lower priority
    than `cameras_priority` gets only what cameras leave at their best.
    """

    capacity: float = 1.0
    models: tuple[ServedModel, ...] = ()
    table: DeviceTable | None = None
    window: WindowProblem | None = None
    cameras_priority: int = 0
    max_gpulets: int | None = None
    pipelines: tuple[PipelineDemand, ...] = ()

    def __post_init__(self) -> None:
        checks.in_range("capacity", self.capacity, 0.0, 1.0, low_open=True)
        checks.unique("models", [m.name for m in self.models])


@dataclass(frozen=True)
class CameraCandidate:
    """A camera to be added, with what is known or assumed of its accuracy and cost (`camera_like`). Length of the
    window in seconds and floor are those of the box's cameras; those given here hold for its first camera. `feeds` are
    the applications that it is the source of, with its rate: they are served whole, or it is not admitted."""

    stream: StreamProblem
    window_s: float = 200.0
    a_min: float | None = None
    feeds: tuple[PipelineCandidate, ...] = ()


@dataclass(frozen=True)
class PipelineCandidate:
    """An application to be added, or one that is there with another rate or objective. `rate`: rows per second,
    head-room included; `fan_out` as in PipelineDemand, measured of one that is there."""

    application: Application
    rate: float
    fan_out: Mapping[str, float] = field(default_factory=dict)

    @property
    def demand(self) -> PipelineDemand:
        """As it is planned."""
        return PipelineDemand(self.application, self.rate, self.fan_out)


Candidate = ServedModel | CameraCandidate | PipelineCandidate


@dataclass(frozen=True)
class ServingPlanner:
    """The planner of served models: a policy, and the way to divide pipelines' objectives over their stages."""

    policy: ServingPolicy
    split: FitFunction = SPLIT_POLICIES[DEFAULT_SPLIT_POLICY]


@dataclass(frozen=True)
class CandidateStage:
    """The time that a stage of the candidate would get, beside that of the even split, in milliseconds."""

    stage: str
    model: str
    budget_ms: float
    even_ms: float


@dataclass(frozen=True)
class CameraEffect:
    """A camera's predicted accuracy without and with the candidate (None: not there), and its loss."""

    camera: str
    before: float | None
    after: float | None

    @property
    def loss(self) -> float:
        """Accuracy lost (positive) or gained (negative); 0 where the camera is the candidate."""
        return 0.0 if self.before is None or self.after is None else self.before - self.after


@dataclass(frozen=True)
class ModelEffect:
    """A model's worst-case latency without and with the candidate (None: not served), and the part of its rate that
    is served (1: all of it; 0: refused)."""

    model: str
    slo_ms: float
    rate: float
    priority: int
    before_ms: float | None
    after_ms: float | None
    before_part: float
    after_part: float


@dataclass(frozen=True)
class Admission:
    """The answer. `reasons`: why or why not; `yields`: losses of models of lower priority, and of tenants. For a model
    or pipeline that does not fit, `most_rate` is the rate that would (0: none). `budgets` are a pipeline's. Shares are
    those planned, without and with."""

    candidate: str
    kind: str  # "model", "camera" or "pipeline"
    admitted: bool
    reasons: tuple[AdmissionReason, ...]
    yields: tuple[AdmissionReason, ...] = ()
    models: tuple[ModelEffect, ...] = ()
    cameras: tuple[CameraEffect, ...] = ()
    serving_share_before: float = 0.0
    serving_share_after: float = 0.0
    cameras_share_before: float = 0.0
    cameras_share_after: float = 0.0
    most_rate: float | None = None
    budgets: tuple[CandidateStage, ...] = ()
    plan: ServingPlan | None = None
    window_plan: WindowPlan | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        """As REST and the command print it; plans are left out."""
        return {
            "candidate": self.candidate,
            "kind": self.kind,
            "admitted": self.admitted,
            "reasons": [r.to_json() for r in self.reasons],
            "yields": [r.to_json() for r in self.yields],
            "models": [asdict(m) for m in self.models],
            "cameras": [{**asdict(c), "loss": round(c.loss, 6)} for c in self.cameras],
            "serving_share_before": self.serving_share_before,
            "serving_share_after": self.serving_share_after,
            "cameras_share_before": self.cameras_share_before,
            "cameras_share_after": self.cameras_share_after,
            "most_rate": self.most_rate,
            "budgets": [asdict(b) for b in self.budgets],
        }


def admit(
    box: Box,
    candidate: Candidate,
    serving: ServingPlanner | None = None,
    window: WindowPolicy | None = None,
    instead: ServingPlanner | None = None,
) -> Admission:
    """The effect of adding `candidate` to `box`. A candidate with the name of a model that is there replaces it (a
    change of rate, objective or priority). Policies default to those of the appliance; `window` to the plan that is
    followed (`scheduler.follow`), on a device that grants every multiple of the cameras' `share_step`. `instead`: the
    box without the candidate is planned by `serving`, the box with it by this.

    Raises InvalidValue for a model that the table does not have, for a camera that is there already, and for a pipeline
    whose objective is shorter than its fastest path.
    """
    serving = serving or ServingPlanner(serving_policy(DEFAULT_SERVING_POLICY))
    instead = instead or serving
    wanted = _with(box, candidate)
    cameras = CamerasOfBox(box.window, box.capacity, window or followed(wanted.window))
    with_candidate = cameras if wanted.window == box.window else replace(cameras, window=wanted.window)
    before, after = _state(box, serving, cameras), _state(wanted, instead, with_candidate)
    name, kind, priority = _named(box, candidate)
    mine = _models_of(candidate, after.split.choices)
    refusals = _refusals(wanted, before, after, mine, priority) + _unreachable(wanted, before, after, candidate)
    yields = _yields(box, before, after, mine, priority)
    most = None
    if refusals and not isinstance(candidate, CameraCandidate):
        most = _most_rate(box, candidate, instead, cameras, before)
        refusals.append(AdmissionReason("most_rate", name, numbers={"rate": most}))
    reasons = refusals or _acceptances(box, wanted, before, after, name)
    if isinstance(candidate, PipelineCandidate) and not refusals:
        worse = less_accurate(of_choice([candidate.demand], after.split.choices))
        reasons += map(AdmissionReason.less_accurate, worse)
    return Admission(
        candidate=name,
        kind=kind,
        admitted=not refusals,
        reasons=tuple(reasons),
        yields=yields,
        models=_model_effects(box, wanted, before, after),
        cameras=_camera_effects(box, wanted, before, after),
        serving_share_before=round(before.fitted.plan.total_share, 6),
        serving_share_after=round(after.fitted.plan.total_share, 6),
        cameras_share_before=round(before.rest, 6),
        cameras_share_after=round(after.rest, 6),
        most_rate=most,
        budgets=_budgets(candidate, after.split) if isinstance(candidate, PipelineCandidate) else (),
        plan=after.fitted.plan,
        window_plan=after.window_plan,
    )


def camera_like(window: WindowProblem, camera: str, like: str | None = None) -> CameraCandidate:
    """A camera not seen yet, assumed to be as `like` is now (default: the one of middle accuracy, that costs no less
    than most). Raises InvalidValue if `like` is not there, or `camera` is."""
    if camera in {s.id for s in window.streams}:
        raise InvalidValue("camera", camera, "a name that no camera has")
    known = {s.id: s for s in window.streams}
    if like is None:
        ordered = sorted(window.streams, key=lambda s: (s.start_accuracy, s.id))
        like = ordered[(len(ordered) - 1) // 2].id
    checks.one_of("like", like, known)
    return CameraCandidate(replace(known[like], id=camera, running=None, device_seconds_done=0.0))


@dataclass(frozen=True)
class BoxPlanned:
    """The box as it would be planned: worst latency in ms by model that is placed, the part of its rate that is served
    by model, and the devices that models take."""

    worst_ms: Mapping[str, float]
    parts: Mapping[str, float]
    serving_share: float


def planned(box: Box, serving: ServingPlanner | None = None, window: WindowPolicy | None = None) -> BoxPlanned:
    """The box without a candidate. Policies default as for `admit`."""
    cameras = CamerasOfBox(box.window, box.capacity, window or followed(box.window))
    split = _serving(box, serving or ServingPlanner(serving_policy(DEFAULT_SERVING_POLICY)), cameras)
    parts = {m.name: _part(split.fitted, m.name) for m in box.models}
    return BoxPlanned(_worst_ms(box, split), parts, split.fitted.plan.total_share)


# -- the box in one state


@dataclass(frozen=True)
class _State:
    """Both plans, and their results: worst latency per served model, accuracy per camera, floors that break."""

    split: FittedPipelines
    worst_ms: Mapping[str, float]
    rest: float
    window_plan: WindowPlan | None
    accuracy: Mapping[str, float]
    broken: Mapping[str | None, AdmissionReason]  # by camera; None: all floors together
    floor: float  # devices that cameras need to keep their floors
    allowed: float  # devices that models may take

    @property
    def fitted(self) -> Fitted:
        """The plan of what is served."""
        return self.split.fitted


def _serving(box: Box, serving: ServingPlanner, cameras: CamerasOfBox) -> FittedPipelines:
    """The plan of what is served, in what the cameras leave."""
    best = cameras.best if any(m.priority < box.cameras_priority for m in box.models) else cameras.floor
    most, beside = max(0.0, box.capacity - cameras.floor), max(0.0, box.capacity - best)
    allowed = Capacity(round(most, 6), round(beside, 6), box.cameras_priority)
    even = evenly_split(box.models, box.pipelines)
    plan_models = partial(smallest_plan, policy=serving.policy)
    return serving.split(even, box.models, box.pipelines, box.table, allowed, plan_models, box.max_gpulets)


def _state(box: Box, serving: ServingPlanner, cameras: CamerasOfBox) -> _State:
    return _beside(box, _serving(box, serving, cameras), cameras)


def _beside(box: Box, split: FittedPipelines, cameras: CamerasOfBox) -> _State:
    """The state of the box in which the models are served so."""
    fitted = split.fitted
    floor, most = cameras.floor, max(0.0, box.capacity - cameras.floor)
    worst = _worst_ms(box, split)
    rest = box.capacity - fitted.plan.total_share
    if box.window is None:
        return _State(split, worst, max(0.0, rest), None, {}, {}, floor, most)
    problem = replace(box.window, num_gpus=max(rest, _EPS))
    plan = keep_serving(problem, cameras.policy.plan(problem))
    outcome = evaluate(problem, plan.segments)
    broken: dict[str | None, AdmissionReason] = {}
    for stream in problem.streams:
        lowest = outcome.lowest[stream.id]
        if problem.a_min and lowest < problem.a_min - _EPS and reachable(problem, stream):
            fall = {"lowest": lowest, "floor": problem.a_min}
            broken[stream.id] = AdmissionReason("under_floor", camera=stream.id, numbers=fall)
    if floor > rest + _EPS:
        broken[None] = AdmissionReason("floors", numbers={"need": floor, "left": max(0.0, rest)})
    return _State(split, worst, max(0.0, rest), plan, outcome.by_stream, broken, floor, most)


def _worst_ms(box: Box, split: FittedPipelines) -> dict[str, float]:
    """The worst latency of each model that is placed. Gpu-lets that pipelines' plans count on are fed in turn, and the
    last of the requests that come at once is counted."""
    fitted = split.fitted
    if box.table is None or not fitted.plan.gpulets:
        return {}
    if not box.pipelines:
        return dict(verdict(fitted.problem, box.table, fitted.plan, slack=0.0).worst_ms)
    asked = [replace(m, rate=split.rates.get(m.name, m.rate)) for m in box.models]
    pipelines = split.planned(box.pipelines)
    worst: dict[str, float] = {}
    for queue, took in planned_ms(fitted.problem, box.table, fitted.plan, asked, pipelines).items():
        worst[queue.model] = max(worst.get(queue.model, 0.0), took)
    return worst


def _named(box: Box, candidate: Candidate) -> tuple[str, str, int]:
    """Name, kind and priority of a candidate."""
    if isinstance(candidate, ServedModel):
        return candidate.name, "model", candidate.priority
    if isinstance(candidate, PipelineCandidate):
        return candidate.application.name, "pipeline", candidate.application.priority
    return candidate.stream.id, "camera", box.cameras_priority


def _models_of(candidate: Candidate, choices: Mapping[str, Mapping[str, str]] | None = None) -> frozenset[str]:
    """The models that a candidate asks, with these choices of its stages."""
    if isinstance(candidate, ServedModel):
        return frozenset((candidate.name,))
    if isinstance(candidate, CameraCandidate):
        return frozenset[str]().union(*(_models_of(fed, choices) for fed in candidate.feeds))
    application = candidate.application
    return frozenset(with_choice(application, (choices or {}).get(application.name, {})).models)


def _measured(path: str, model: str, table: DeviceTable | None) -> None:
    if table is None or model not in table.latency_ms:
        known = ", ".join(table.latency_ms) if table is not None else ""
        raise InvalidValue(path, model, f"a model that was measured on this device: {known}")


def _with(box: Box, candidate: Candidate) -> Box:
    if isinstance(candidate, ServedModel):
        _measured("model.name", candidate.name, box.table)
        others = [m for m in box.models if m.name != candidate.name]
        return replace(box, models=(*others, candidate))
    if isinstance(candidate, PipelineCandidate):
        return _with_pipeline(box, candidate)
    for fed in candidate.feeds:
        box = _with_pipeline(box, fed)
    return replace(box, window=window_with(box.window, candidate, box.capacity))


def window_with(window: WindowProblem | None, candidate: CameraCandidate, capacity: float) -> WindowProblem:
    """The cameras' problem with one more camera; None: there is no other. Raises InvalidValue for a name that a camera
    has."""
    stream = candidate.stream
    if window is None:
        return WindowProblem("", capacity, candidate.window_s, (stream,), a_min=candidate.a_min)
    if stream.id in {s.id for s in window.streams}:
        raise InvalidValue("camera", stream.id, "a name that no camera has")
    return replace(window, streams=(*window.streams, stream))


def _with_pipeline(box: Box, candidate: PipelineCandidate) -> Box:
    """The box with this pipeline in place of the one of its name, whose requests to models then end."""
    application = candidate.application
    for number, stage in enumerate(application.stages):
        if box.table is None or not {o.model for o in stage.options} & box.table.latency_ms.keys():
            _measured(f"pipeline.stages[{number}].model", stage.model, box.table)
    checks.in_range("pipeline.rate", candidate.rate, 0.0, MOST_RATE, low_open=True)
    asked = asked_rows([candidate.demand])
    for name, rate in asked.items():
        if rate > MOST_RATE:
            allowed = f"a rate at which no model is asked more than {MOST_RATE:g} rows/s: {name} is asked {rate:g}"
            raise InvalidValue("pipeline.rate", candidate.rate, allowed)
    if box.table is not None:
        _check_reachable(box, candidate, box.table)
    known = {m.name: m for m in box.models}
    before = [p for p in box.pipelines if p.application.name == application.name]
    for pipeline in before:
        for name, rate in asked_rows([pipeline]).items():
            if name in known:
                known[name] = replace(known[name], rate=max(0.0, known[name].rate - rate))
    for name, rate in asked.items():
        new = ServedModel(name, 0.0, application.slo_ms, application.priority)
        model = known.get(name, new)
        # A model is as urgent as the most urgent that asks it.
        known[name] = replace(model, rate=model.rate + rate, priority=max(model.priority, application.priority))
    for name in application.every_model:
        if name not in known and box.table is not None and name in box.table.latency_ms:
            known[name] = ServedModel(name, 0.0, application.slo_ms, application.priority)
    others = [p for p in box.pipelines if p not in before]
    return replace(box, models=tuple(known.values()), pipelines=(*others, candidate.demand))


def _check_reachable(box: Box, candidate: PipelineCandidate, table: DeviceTable) -> None:
    """Raises InvalidValue for an objective shorter than the fastest path on a whole device, with the fastest models
    that may answer. One that only the share left here cannot keep is refused, as any other that finds no room."""
    application, latencies = candidate.application, table.latency_ms
    fastest = {
        s.name: min(
            (o.model for o in s.options if o.model in latencies),
            key=lambda model: min(row[0] for row in latencies[model].values()),
        )
        for s in application.stages
        if any(o.model in latencies for o in s.options)
    }
    demand = replace(candidate.demand, application=application.choosing(fastest))
    try:
        JointProblem((load_of(demand),), 1, 1.0, box.max_gpulets).check_reachable(table)
    except InvalidValue as error:
        path = error.path.replace(f"pipelines.{candidate.application.name}", "pipeline")
        raise InvalidValue(path, error.given, error.allowed) from None


# -- the answer


def _budgets(candidate: PipelineCandidate, split: FittedPipelines) -> tuple[CandidateStage, ...]:
    """Of each of its stages, in the order of the description."""
    application = with_choice(candidate.application, split.choices.get(candidate.application.name, {}))
    even, given = even_budgets(application), split.budgets[application.name]
    return tuple(
        CandidateStage(s.name, s.model, round(given[s.name], 3), round(even[s.name], 3)) for s in application.stages
    )


def _part(fitted: Fitted, model: str) -> float:
    return 0.0 if model in fitted.refused else fitted.capped.get(model, 1.0)


def _refusals(wanted: Box, before: _State, after: _State, mine: frozenset[str], priority: int) -> list[AdmissionReason]:
    """Why the candidate, which asks the models `mine`, cannot be added; empty if it can."""
    reasons = []
    for model in sorted(m for m in mine if _part(after.fitted, m) < 1.0):
        refused = after.fitted.refused.get(model)
        if refused is not None:
            reasons.append(AdmissionReason.refused(refused))
            continue
        numbers = {"part": _part(after.fitted, model), "allowed": after.allowed, "floors": after.floor}
        reasons.append(AdmissionReason("part_of_rate", model, numbers=numbers))
    for other in wanted.models:
        if other.name in mine or other.priority < priority:
            continue
        kept = _part(after.fitted, other.name)
        if _part(before.fitted, other.name) - kept > _EPS:
            reasons.append(_served_at("not_after", other, kept))
    return reasons + [reason for camera, reason in after.broken.items() if camera not in before.broken]


def _unreachable(wanted: Box, before: _State, after: _State, candidate: Candidate) -> list[AdmissionReason]:
    """The candidate's applications that no share answers in time, and others of no lower priority that some share did
    without it."""
    fed = candidate.feeds if isinstance(candidate, CameraCandidate) else (candidate,)
    mine = {c.application.name for c in fed if isinstance(c, PipelineCandidate)}
    *_, priority = _named(wanted, candidate)
    counts = {p.application.name for p in wanted.pipelines if p.application.priority >= priority}
    known = {r.application for r in before.split.reasons if r.code == "unreachable"} - mine
    found = [r for r in after.split.reasons if r.code == "unreachable" and r.application not in known]
    return [AdmissionReason.unreachable(r) for r in found if r.application in counts | mine]


def _served_at(code: Literal["not_after", "yields"], model: ServedModel, part: float) -> AdmissionReason:
    return AdmissionReason(code, model.name, numbers={"priority": float(model.priority), "part": part})


def _yields(
    box: Box, before: _State, after: _State, mine: frozenset[str], priority: int
) -> tuple[AdmissionReason, ...]:
    """The losses of those of lower priority."""
    found = []
    for model in box.models:
        old, new = _part(before.fitted, model.name), _part(after.fitted, model.name)
        if model.name not in mine and model.priority < priority and old - new > _EPS:
            found.append(_served_at("yields", model, new))
    return tuple(found)


def _acceptances(box: Box, wanted: Box, before: _State, after: _State, candidate: str) -> list[AdmissionReason]:
    shares = {
        "models": after.fitted.plan.total_share,
        "models_before": before.fitted.plan.total_share,
        "capacity": wanted.capacity,
        "cameras": after.rest,
    }
    reasons = [AdmissionReason("fits", candidate, numbers=shares)]
    if wanted.window is not None and box.window is not None:
        losses = {camera: accuracy - after.accuracy[camera] for camera, accuracy in before.accuracy.items()}
        worst = max(losses, key=lambda camera: losses[camera])
        numbers = {"mean": sum(losses.values()) / len(losses), "most": max(0.0, losses[worst])}
        reasons.append(AdmissionReason("cameras_lose", camera=worst, numbers=numbers))
    return reasons + [AdmissionReason.fault(fault) for fault in _new_faults(before.window_plan, after.window_plan)]


def _new_faults(before: WindowPlan | None, after: WindowPlan | None) -> list[PlanFault]:
    """The rules that the plan breaks and that the one before kept, or broke by less."""
    known = {(f.code, f.camera): f.accuracy for f in (before.faults if before is not None else ())}
    faults = after.faults if after is not None else ()
    return [f for f in faults if f.accuracy < known.get((f.code, f.camera), math.inf) - SAME_ACCURACY]


def _model_effects(box: Box, wanted: Box, before: _State, after: _State) -> tuple[ModelEffect, ...]:
    there = {m.name for m in box.models}
    return tuple(
        ModelEffect(
            m.name,
            m.slo_ms,
            after.split.rates.get(m.name, m.rate),
            m.priority,
            before.worst_ms.get(m.name),
            after.worst_ms.get(m.name),
            _part(before.fitted, m.name) if m.name in there else 0.0,
            _part(after.fitted, m.name),
        )
        for m in wanted.models
    )


def _camera_effects(box: Box, wanted: Box, before: _State, after: _State) -> tuple[CameraEffect, ...]:
    if wanted.window is None:
        return ()
    return tuple(CameraEffect(s.id, before.accuracy.get(s.id), after.accuracy.get(s.id)) for s in wanted.window.streams)


def _most_rate(
    box: Box, candidate: ServedModel | PipelineCandidate, serving: ServingPlanner, cameras: CamerasOfBox, before: _State
) -> float:
    """The largest rate of `candidate` that could be admitted, by halving; 0 if not even a small one."""
    low, high = 0.0, candidate.rate
    _, _, priority = _named(box, candidate)
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        wanted = _with(box, replace(candidate, rate=rate))
        split = _serving(wanted, serving, cameras)
        mine = _models_of(candidate, split.choices)
        # Cameras are planned where the models fit.
        state = None if any(_part(split.fitted, m) < 1.0 for m in mine) else _beside(wanted, split, cameras)
        if (
            state is None
            or _refusals(wanted, before, state, mine, priority)
            or _unreachable(wanted, before, state, candidate)
        ):
            high = rate
        else:
            low = rate
    return round(low, 3)
