"""Settings of the windows, and what the box can learn."""

from __future__ import annotations

from collections.abc import Mapping

from edge.appliance.answers.marks import Shown, answer
from edge.settings import RetrainingSettings


@answer
class RetrainingAnswer:
    """The settings in force, and those from the next boundary on."""

    current: Shown[RetrainingSettings]
    next: Shown[RetrainingSettings]
    next_boundary_utc_s: Shown[float]


@answer
class BudgetAnswer:
    """The budget of a window per camera: labels, trials, device seconds of profiling and retraining; `ready_s`: when
    a camera has labels and profiles; `retrainings` in the window, all cameras together; `value`: expected gain, 0-1;
    `looks`: older frames to keep are picked by what a student sees in them (else by their labels)."""

    golden_share: Shown[float]
    labels: Shown[int]
    trials: Shown[int]
    profiling_s: Shown[float]
    ready_s: Shown[float]
    retraining_s: Shown[float]
    retrainings: Shown[float]
    value: Shown[float]
    known: Shown[bool]
    late: Shown[bool]
    reason: Shown[str]
    looks: Shown[bool]


@answer
class MeasuredCost:
    """A mean of `samples` measurements with its spread."""

    value: Shown[float]
    spread: Shown[float]
    samples: Shown[int]


@answer
class ChoiceAnswer:
    """The window length that the box would choose."""

    window_s: Shown[float]
    budget: Shown[BudgetAnswer]
    reason: Shown[str]


@answer
class LearningAnswer:
    """The learning budget of this box (edge.core.learning.LearningReport). `fixed`: the parts that settings
    fix; `facts`: measured costs by name, null: not measured; `bias` and `mean_error`: predicted - realised accuracy."""

    window_s: Shown[float]
    cameras: Shown[int]
    budget: Shown[BudgetAnswer]
    golden_share: Shown[float]
    fixed: Shown[Mapping[str, bool]]
    facts: Shown[Mapping[str, MeasuredCost | None]]
    choice: Shown[ChoiceAnswer]
    bias: Shown[float]
    mean_error: Shown[float]
    camera_windows: Shown[int]
    late_labels_used: Shown[int]
    unprofiled_retrainings: Shown[int]
    handed_in: Shown[int]
