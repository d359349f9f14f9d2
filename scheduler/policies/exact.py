"""Policy `exact`: the best plan whose shares are fixed until a stream's own retraining ends."""

from __future__ import annotations

from edge.core.window import WindowPlan, WindowProblem
from scheduler.exact import best_static
from scheduler.grid import build_grid, coarse_quantum
from scheduler.static import make_plan, static_segments


class ExactPolicy:
    """Exact static optimum by dynamic programming, shares in multiples of the problem's `delta`."""

    name = "exact"

    def plan(self, problem: WindowProblem) -> WindowPlan:
        """The best static plan; where the floor cannot be kept, the one that comes closest, with `faults`."""
        grid = build_grid(problem, coarse_quantum(problem))
        choices = best_static(grid)
        return make_plan(self.name, problem, static_segments(problem, choices), grid.floors.faults)
