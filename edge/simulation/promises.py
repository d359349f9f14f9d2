"""Plans' promises with their results, as the appliance learns them: later plans count on what windows really show."""

from __future__ import annotations

from edge.core.learning import Correction
from edge.core.window import WindowPlan, WindowProblem
from edge.runtime.learning import Learning
from edge.settings import RetrainingSettings


class LearnedPromises:
    """The promises of a run with windows of `window_s` seconds, kept by the appliance's own `Learning`. A student's
    loss inside a window is not known in a trace."""

    def __init__(self, window_s: float) -> None:
        self._learning = Learning(lambda document: None)
        self._settings = RetrainingSettings(window_s=max(10.0, window_s))

    def planned(self, window: int, problem: WindowProblem, plan: WindowPlan) -> None:
        """A plan of the window was made."""
        self._learning.planned(window, problem, plan)

    def seen(self, camera: str, window: int, accuracy: float) -> None:
        """The realised accuracy of a camera's window is known."""
        self._learning.seen(camera, window, accuracy, None)

    def correction(self, camera: str, window: int, frames: int) -> Correction:
        """For the camera's plan of `window`; `frames` were held out to measure its student."""
        return self._learning.correction(camera, window, self._settings, frames)
