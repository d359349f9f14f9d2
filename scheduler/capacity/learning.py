"""The effect of a change on labelling and on the learning budget, and so on the work and gain of retrainings."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edge.core.capacity import BoxChange
from edge.core.learning import BudgetProblem
from scheduler.learning.budget import decide, taught_part


@dataclass(frozen=True)
class LearningEffect:
    """Factors on what was recorded: the golden model's share, work and gain of retrainings, work of profiling, time of
    labelling after the boundary. 1: as it was."""

    golden: float = 1.0
    work: float = 1.0
    gain: float = 1.0
    profiling: float = 1.0
    labelling: float = 1.0


def learning_effect(problem: BudgetProblem | None, change: BoxChange, before: int, after: int) -> LearningEffect:
    """With `after` cameras on the box instead of `before`; shares are of today's device. Without a problem (nothing was
    learned) only the labels that wait at a boundary change: with the cameras, and with the device."""
    crowd = after / max(1, before)
    if problem is None:
        scale = change.factor if change.kind == "device" else 1.0
        return LearningEffect(golden=scale, labelling=crowd / scale)
    problem = replace(problem, cameras=max(1, before))
    asked = replace(problem, cameras=max(1, after), inference=problem.inference * crowd)
    if change.kind == "window":
        asked = replace(asked, window_s=problem.window_s * change.factor)
    elif change.kind == "device":
        asked = _on_device(asked, change.factor)
    elif change.kind == "frame_rate" and change.camera is None:
        asked = replace(asked, inference=problem.inference * change.factor)
    was, would = decide(problem), decide(asked)
    golden = would.golden_share / max(was.golden_share, 1e-6)
    return LearningEffect(
        golden,
        _frames(asked, would.labels) / _frames(problem, was.labels),
        taught_part(would.labels, asked) / max(taught_part(was.labels, problem), 1e-9),
        _profiling(problem, would.profiling_s) / max(_profiling(problem, was.profiling_s), 1e-9)
        if was.profiling_s > 0
        else 1.0,
        crowd / max(golden, 1e-6),
    )


def _on_device(problem: BudgetProblem, factor: float) -> BudgetProblem:
    fixed = None if problem.golden_share is None else problem.golden_share * factor
    return replace(
        problem,
        capacity=problem.capacity * factor,
        evaluation=min(1.0, problem.evaluation * factor),
        golden_share=fixed,
    )


def _profiling(problem: BudgetProblem, trials_s: float) -> float:
    """Device seconds of a camera's profiles: its trials, and what comes before them in every window."""
    setup = problem.facts.setup_s
    return trials_s + (0.0 if setup is None else setup.value)


def _frames(problem: BudgetProblem, labels: int) -> float:
    """Frames that a retraining sees."""
    return max(1.0, (1.0 - problem.held_out) * labels) + problem.exemplars
