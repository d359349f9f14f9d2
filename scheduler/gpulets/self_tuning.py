"""Policy `guided-self-tuning`: GSLICE (SoCC'20) with profiles given beforehand, as the gpu-lets paper compares it
(section 6.1): each model gets the smallest share that serves its rate, by best fit, one model per gpu-let, without
sharing in time and without a look at interference. A rate that no share serves takes whole devices first.
"""

from __future__ import annotations

from edge.core.serving import DeviceTable, ServingPlan, ServingProblem
from scheduler.gpulets.curves import EPS, Curves, Load, least_share, planned
from scheduler.gpulets.packing import Packing, answer


class GuidedSelfTuningPolicy:
    """One model per gpu-let, of the smallest share that serves its rate when alone on the device."""

    name = "guided-self-tuning"

    def plan(self, problem: ServingProblem, table: DeviceTable) -> ServingPlan:
        """Raises InvalidValue for a model that the table does not have."""
        problem = planned(problem)
        curves = Curves(problem, table, interference=False)
        packing = Packing(curves)
        unplaced: list[str] = []
        words: list[str] = ["planned without a look at interference"]
        order = sorted((n for n, m in enumerate(problem.models) if m.rate > 0), key=lambda n: -problem.models[n].rate)
        for n in order:
            left = problem.models[n].rate
            curve = curves.affordable_curve(n)
            largest, most = curve[-1] if curve else (0, 0.0)
            while left > EPS * problem.models[n].rate:
                share = least_share(curve, left) or largest
                rate = min(left, most) if share == largest else left
                if rate <= 0 or not self._place(packing, n, share, rate):
                    unplaced.append(problem.models[n].name)
                    words.append(f"{problem.models[n].name}: {left:.1f} requests/s do not fit")
                    break
                left -= rate
        return answer(self.name, problem, table, packing.gpulets(), unplaced, words)

    def _place(self, packing: Packing, model: int, share: int, rate: float) -> bool:
        """Best fit among what is left of the devices."""
        most = packing.curves.problem.max_gpulets
        for _, d in sorted((device.free, d) for d, device in enumerate(packing.devices)):
            device = packing.devices[d]
            if device.free < share or (most is not None and len(device.pieces) >= most):
                continue
            placed = packing.with_piece(device, share, Load(model, rate))
            if placed is not None:
                packing.devices[d] = placed
                return True
        return False
