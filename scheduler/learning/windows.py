"""Which window length a box would choose: short windows follow the scene, long ones leave time to learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edge.core.learning import BudgetProblem, LearningBudget, WindowChoice
from scheduler.learning.budget import decide

#: Lengths in seconds that are weighed.
LENGTHS = (60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 450.0, 600.0, 900.0, 1200.0, 1800.0, 3600.0)
#: The accuracy that a student loses per second while the scene goes on, before it was measured: a point in five
#: minutes.
PRIOR_DECAY_PER_S = 3e-5


def net_value(budget: LearningBudget, window_s: float, decay_per_s: float) -> float:
    """Accuracy [0, 1] over a window less what the students lose to the scene until they are retrained again: their
    training data is half a window old when the window begins, and one and a half when it ends.
    """
    return budget.value - max(0.0, decay_per_s) * window_s


def choose_window(
    problem: BudgetProblem, decay_per_s: float = PRIOR_DECAY_PER_S, lengths: Sequence[float] = LENGTHS
) -> WindowChoice:
    """The length with the best net accuracy of those whose labels and profiles are ready in time (all, where none is).

    `decay_per_s` is the accuracy that a student loses per second, as learned. A profiling budget that the operator
    fixed grows with the window.
    """
    weighed = []
    for length in sorted(lengths):
        scale = length / problem.window_s
        own = None if problem.profiling_s is None else problem.profiling_s * scale
        weighed.append((length, decide(replace(problem, window_s=length, profiling_s=own))))
    possible = [w for w in weighed if not w[1].late] or weighed
    length, budget = max(possible, key=lambda w: (round(net_value(w[1], w[0], decay_per_s), 5), -w[0]))
    if budget.late:
        reason = "no length is ready in time: the longest preparation was weighed against the drift of the scene"
    else:
        lost = 100 * max(0.0, decay_per_s) * length
        reason = (
            f"retraining is expected to bring {100 * budget.value:.1f} points over {length:.0f} s, "
            f"of which the scene's drift takes {lost:.1f}"
        )
    return WindowChoice(length, budget, tuple(weighed), reason)
