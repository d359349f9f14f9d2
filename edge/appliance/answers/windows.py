"""Retraining windows: as recorded, explained for people, and planned by another policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from edge.appliance.answers.documents import PlanBasisFile, WindowDetails, WindowPlanFile, WindowProblemFile
from edge.appliance.answers.marks import (
    About,
    ByCamera,
    Cause,
    CauseCode,
    Message,
    OfCamera,
    Shown,
    answer,
    kept,
)
from edge.core.plan_causes import PlanCauseCode
from edge.core.plan_faults import PlanFaultCode

ShareUse = Literal["inference", "retraining", "profiling", "golden", "serving", "front", "control", "others"]


@answer
class MeasuredAccuracy:
    """Accuracy on so many labelled frames and objects (edge.core.labels.Accuracy). Of detectors `value` is F1 at IoU
    0.5; null where an earlier version did not measure it."""

    value: Shown[float]
    frames: Shown[int | None] = None
    objects: Shown[int | None] = None
    f1_iou30: Shown[float | None] = None
    f1_iou50: Shown[float | None] = None
    map50: Shown[float | None] = None


@kept
class WindowPrediction:
    """Accuracy of a window as its plan predicted it, and as it was."""

    predicted: Shown[float]
    realised: Shown[float]


@kept
class RowDetails:
    """More of a camera's window; null: not measured, or by an earlier version not kept. `quality`: indicators of the
    labels (golden.quality); `class_counts`: labelled objects by class; `download`: accuracy of the published detector
    that the student began as, looking where the student in force does, `download_whole`: the same at the whole picture;
    `current_fresh`: that of the student in force in shadow, beside answers as old as those that it gave."""

    quality: Shown[Mapping[str, float] | None] = None
    class_counts: Shown[Mapping[str, int] | None] = None
    download: Shown[MeasuredAccuracy | None] = None
    download_whole: Shown[MeasuredAccuracy | None] = None
    promise: Shown[WindowPrediction | None] = None
    current_fresh: Shown[MeasuredAccuracy | None] = None


@answer
class WindowRow:
    """The results of one camera in one window. `realised`: of the answers really given, `frozen`: of the first student
    in shadow; `losses` by what was lost."""

    window: Shown[int]
    camera: OfCamera[str]
    model_version: Shown[str | None]
    realised: Shown[MeasuredAccuracy | None]
    frozen: Shown[MeasuredAccuracy | None]
    frames_sampled: Shown[int]
    frames_labelled: Shown[int]
    objects_labelled: Shown[int]
    labelling_delay_s: Shown[float | None]
    profiling_delay_s: Shown[float | None]
    losses: Shown[Mapping[str, int]]
    manifest: Shown[str | None]
    picture_bytes: Shown[int]
    pictures_dropped: Shown[bool]
    details: Shown[RowDetails]


@kept
class RecordedSpace:
    """A space of retraining configurations, as it was in force (edge.settings.ConfigurationSpace)."""

    epochs: Shown[tuple[int, ...] | None] = None
    batch_sizes: Shown[tuple[int, ...] | None] = None
    layers: Shown[tuple[str, ...] | None] = None
    data_fractions: Shown[tuple[float, ...] | None] = None
    learning_rates: Shown[tuple[float, ...] | None] = None
    last_layer_widths: Shown[tuple[int, ...] | None] = None


@kept
class RecordedSettings:
    """Retraining settings as they were in force (edge.settings.RetrainingSettings); null: not set, or not known to the
    version that kept them. `golden_share` is the share that labelling had."""

    enabled: Shown[bool | None] = None
    window_s: Shown[float | None] = None
    policy: Shown[str | None] = None
    a_min: Shown[float | None] = None
    delta: Shown[float | None] = None
    space: Shown[RecordedSpace | None] = None
    published_space: Shown[RecordedSpace | None] = None
    label_budget: Shown[int | None] = None
    held_out: Shown[float | None] = None
    golden_share: Shown[float | None] = None
    evaluation_share: Shown[float | None] = None
    profiling_budget: Shown[float | None] = None
    exemplars: Shown[int | None] = None
    groups: Shown[bool | None] = None
    gate_tolerance: Shown[float | None] = None
    rollback_margin: Shown[float | None] = None
    quiet_hours: Shown[tuple[str, ...] | None] = None


@answer
class WindowAnswer:
    """A window. `details`, of all cameras together, is null for a user of some cameras."""

    id: Shown[int]
    start_utc_s: Shown[float]
    length_s: Shown[float]
    policy: Shown[str]
    settings: Shown[RecordedSettings]
    open: Shown[bool]
    closed_utc_s: Shown[float | None]
    outcome: Shown[Literal["open", "completed", "interrupted", "aborted"]]
    details: WindowDetails | None
    cameras: Shown[tuple[WindowRow, ...]]


@answer
class PlanAnswer:
    """A plan with its problem, as the files "retrain-infer-plan/1" and "retrain-infer-window/1", and `basis`, what else
    the plan was made from (null: an earlier version did not keep it). All three are of all cameras together, and null
    for a user of some. `cause` in words, with its code and the camera that it is about."""

    id: Shown[int]
    window: Shown[int]
    at_utc_s: Shown[float]
    cause: Cause
    cause_code: CauseCode[PlanCauseCode]
    cause_camera: About[str | None]
    policy: Shown[str]
    objective: Shown[float]
    problem: WindowProblemFile | None
    plan: WindowPlanFile | None
    basis: PlanBasisFile | None


@answer
class EstimateAnswer:
    """A value with an interval that holds it with probability about 0.8."""

    value: Shown[float]
    low: Shown[float]
    high: Shown[float]


@kept
class RetrainingConfigAnswer:
    """How a student is retrained (edge.core.configs.RetrainingConfig); `last_layer_width` 0: as it is."""

    epochs: Shown[int]
    batch_size: Shown[int] = 16
    layers: Shown[str] = "head"
    data_fraction: Shown[float] = 1.0
    learning_rate: Shown[float] = 1e-3
    last_layer_width: Shown[int] = 0


@kept
class RetrainingProfileAnswer:
    """Expected gain and cost of a retraining (edge.core.profiles.RetrainingProfile). `curve`: accuracy by
    device seconds; `throughput`: speed by share; `profiled` false: no trial ran, past windows taught it."""

    config: Shown[RetrainingConfigAnswer]
    start_accuracy: Shown[float]
    end_accuracy: Shown[EstimateAnswer]
    # The store's documents say "gpu_seconds".
    device_seconds: Shown[
        Annotated[EstimateAnswer, Field(validation_alias=AliasChoices("device_seconds", "gpu_seconds"))]
    ]
    curve: Shown[tuple[tuple[float, float], ...]] = ()
    throughput: Shown[tuple[tuple[float, float], ...]] = ((1.0, 1.0),)
    profiled: Shown[bool] = True


@answer
class ProfileAnswer:
    """The micro-profile of one configuration."""

    id: Shown[int]
    window: Shown[int]
    camera: OfCamera[str]
    config: Shown[str]
    at_utc_s: Shown[float]
    profile: Shown[RetrainingProfileAnswer]


@answer
class JobAnswer:
    """A retraining. `fraction` (0-1) of its work was done; `attempt` counts its starts from 1."""

    id: Shown[str]
    window: Shown[int]
    camera: OfCamera[str]
    config: Shown[str]
    share: Shown[float]
    state: Shown[Literal["running", "completed", "failed", "stopped", "interrupted"]]
    attempt: Shown[int]
    started_utc_s: Shown[float]
    ended_utc_s: Shown[float | None]
    fraction: Shown[float]
    device_seconds: Shown[float]
    accuracy_before: Shown[float | None]
    accuracy_after: Shown[float | None]
    promoted: Shown[bool]
    reason: Shown[str]
    model_version: Shown[str | None]


@answer
class UsageRecord:
    """The share of a worker over an accounting period: asked, granted, used; device and wall seconds."""

    id: Shown[int]
    window: Shown[int]
    at_utc_s: Shown[float]
    worker: Shown[str]
    role: Shown[str]
    camera: OfCamera[str | None]
    asked: Shown[float]
    granted: Shown[float]
    used: Shown[float]
    device_seconds: Shown[float]
    wall_s: Shown[float]
    throttled_fraction: Shown[float]


@answer
class CostAnswer:
    """The sum of one kind of work in a window, for a camera (null: for all together)."""

    window: Shown[int]
    camera: OfCamera[str | None]
    kind: Shown[Literal["labelling", "profiling", "retraining", "inference", "planning"]]
    device_seconds: Shown[float]
    wall_s: Shown[float]


@answer
class WindowStory:
    """A window with everything recorded of it, oldest first in each list."""

    window: Shown[WindowAnswer]
    plans: Shown[tuple[PlanAnswer, ...]]
    profiles: Shown[tuple[ProfileAnswer, ...]]
    jobs: Shown[tuple[JobAnswer, ...]]
    usage: Shown[tuple[UsageRecord, ...]]
    costs: Shown[tuple[CostAnswer, ...]]


@answer
class ShareAnswer:
    """A part of the device; "others": cameras that the reader may not see."""

    kind: Shown[ShareUse]
    camera: OfCamera[str | None]
    config: Shown[str | None]
    share: Shown[float]


@answer
class StretchAnswer:
    """A stretch of constant shares, in seconds after the window's start."""

    start_s: Shown[float]
    end_s: Shown[float]
    plan: Shown[int | None]
    phase: Shown[Literal["preparing", "running"]]
    shares: Shown[tuple[ShareAnswer, ...]]


@answer
class FaultAnswer:
    """A rule that a plan breaks for a camera (null: an earlier version kept the words only)."""

    code: Shown[PlanFaultCode]
    camera: OfCamera[str | None]
    message: Message


@answer
class DecisionAnswer:
    """A plan in words: in force from `at_s` to `until_s` seconds after the window's start, made in `decision_s`.
    `recorded`: reasons of which an earlier version kept the sentences only; they may name any camera."""

    plan: Shown[int]
    at_s: Shown[float]
    until_s: Shown[float]
    cause: Cause
    cause_code: CauseCode[PlanCauseCode]
    cause_camera: About[str | None]
    policy: Shown[str]
    objective: Shown[float]
    decision_s: Shown[float]
    whole: Shown[tuple[str, ...]]
    cameras: ByCamera[tuple[str, ...]]
    recorded: tuple[str, ...]
    faults: Shown[tuple[FaultAnswer, ...]]


@answer
class OptionAnswer:
    """A configuration: the micro-profiler's expectation, and its result."""

    config: Shown[str]
    words: Shown[str]
    start_accuracy: Shown[float]
    end_accuracy: Shown[EstimateAnswer]
    device_seconds: Shown[EstimateAnswer]
    gain_per_device_second: Shown[float | None]
    chosen: Shown[bool]
    verdict: Shown[str]


@answer
class JobExpected:
    """The micro-profiler's expectation of a retraining: the accuracy after it, and its device seconds."""

    accuracy: Shown[EstimateAnswer]
    device_seconds: Shown[EstimateAnswer]


@answer
class JobStory:
    """A retraining as recorded (`job`), in words, with its expectation (null: there was none); `started_s` and
    `ended_s` after the window's start."""

    job: Shown[JobAnswer]
    words: Shown[str]
    outcome: Shown[Literal["running", "promoted", "refused", "stopped", "failed", "interrupted"]]
    started_s: Shown[float]
    ended_s: Shown[float | None]
    expected: Shown[JobExpected | None]


@answer
class CameraStory:
    """A camera in one window: accuracies as measured, `promised` by the first plan with profiles and `predicted` by all
    plans; `steps` of predicted accuracy: [start, end, accuracy]."""

    camera: OfCamera[str]
    realised: Shown[float | None]
    frozen: Shown[float | None]
    download: Shown[float | None]
    frames_labelled: Shown[int]
    promised: Shown[float | None]
    predicted: Shown[float | None]
    steps: Shown[tuple[tuple[float, float, float], ...]]
    options: Shown[tuple[OptionAnswer, ...]]
    jobs: Shown[tuple[JobStory, ...]]
    losses: Shown[Mapping[str, int]]
    labelling_delay_s: Shown[float | None]
    profiling_delay_s: Shown[float | None]


@answer
class UsedShare:
    """The share of a worker in the window, by what it did."""

    worker: Shown[str]
    kind: Shown[ShareUse]
    camera: OfCamera[str | None]
    asked: Shown[float]
    granted: Shown[float]
    used: Shown[float]
    device_seconds: Shown[float]
    wall_s: Shown[float]
    throttled_fraction: Shown[float]


@answer
class ExplainedWindow:
    """A window for people: shares over time, options with expectations, and results.
    `configs`: retraining configurations in words; `policies`: those that a comparison can name."""

    window: Shown[WindowAnswer]
    timeline: Shown[tuple[StretchAnswer, ...]]
    decisions: Shown[tuple[DecisionAnswer, ...]]
    cameras: Shown[tuple[CameraStory, ...]]
    configs: Shown[Mapping[str, str]]
    usage: Shown[tuple[UsedShare, ...]]
    costs: Shown[tuple[CostAnswer, ...]]
    policies: Shown[tuple[str, ...]]


@answer
class ComparedSide:
    """One policy's plan. `cameras` and `lowest`: predicted accuracy by camera, on average and at its lowest; `reasons`
    by camera ("": for all)."""

    policy: str
    objective: float
    timeline: tuple[StretchAnswer, ...]
    cameras: Mapping[str, float]
    lowest: Mapping[str, float]
    reasons: Mapping[str, tuple[str, ...]]
    faults: tuple[FaultAnswer, ...]


@answer
class ComparedPlans:
    """The plan that was made beside the one that was asked for."""

    window: int
    length_s: float
    made: ComparedSide
    asked: ComparedSide
    configs: Mapping[str, str]


@answer
class WhatIfAnswer:
    """The plan that another policy would have made."""

    policy: str
    plan: WindowPlanFile
    objective: float
    original_policy: str
    original_objective: float
    comparison: ComparedPlans
