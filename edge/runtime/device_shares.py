"""The parts of the device: the shares of served models, the golden model and evaluation, and the rest for cameras."""

from __future__ import annotations

from collections.abc import Callable

from edge.core.shares import Partitioner
from edge.settings import SiteSettings

#: Cameras and their retraining have at least this share.
LEAST_CAMERAS = 0.05


class DeviceShares:
    """Shares are 0-1 of the device. `labelling` says whether the golden model runs, `golden` what it is given now,
    `evaluation` what measuring is given."""

    def __init__(
        self,
        site: SiteSettings,
        partitioner: Partitioner,
        labelling: Callable[[], bool],
        golden: Callable[[], float],
        evaluation: Callable[[], float],
    ) -> None:
        self.partitioner = partitioner
        caps = partitioner.caps
        #: The factor from seconds of work to device seconds: a worker uses one core, or some of a GPU's SMs.
        self.cores = caps.workers
        #: Held by served models, and by the process that takes their requests.
        self.serving = self.front = 0.0
        #: Held by a retraining for another box.
        self.lent = 0.0
        self._site, self._labelling, self._golden, self._evaluation = site, labelling, golden, evaluation

    @property
    def golden(self) -> float:
        """Kept for labelling now."""
        return self._golden()

    @property
    def evaluation(self) -> float:
        """Kept for measuring windows and exemplars now."""
        return self._evaluation()

    def shared_capacity(self) -> float:
        """The part that cameras, their retraining and served models have together: all, less the control process, the
        front, and with cameras the golden model and evaluation."""
        labels = self._labels() if self._labelling() else 0.0
        return round(max(0.0, 1.0 - self._site.machine.control_share - self.front - labels), 6)

    def camera_capacity(self) -> float:
        """The share left to cameras and their retraining: `shared_capacity` less the served models' shares and what is
        lent."""
        # Cameras are planned for before labelling begins: with all that they will cost.
        labels = 0.0 if self._labelling() else self._labels()
        return round(max(LEAST_CAMERAS, self.shared_capacity() - labels - self.serving - self.lent), 6)

    def quantized(self, share: float) -> float:
        """The share that can be granted."""
        return self.partitioner.caps.quantize(min(1.0, max(0.0, share)))

    def _labels(self) -> float:
        return self.golden + self.evaluation
