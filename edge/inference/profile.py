"""The inference profile of a camera: each lambda's cost and the part of the accuracy that it keeps, measured on itself.

Cost: CPU time per answer and of everything else in the camera's process (decoding), over the device's cores. Accuracy:
how much an answer that stands in agrees with a fresh one, by frame rate (edge.inference.staleness), and an answer at
lower resolution with one at full resolution. Both compare the student with itself, so neither needs the teacher (Ekya,
thesis section 2.3.1, profiles lambda against the golden model; ours may be refreshed at any time and at no labelling
cost).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from edge.core import checks
from edge.core.configs import InferenceConfig
from edge.core.profiles import InferencePoint, InferenceProfile
from edge.core.vision import Observation, Task
from edge.inference.staleness import Follower, staleness_factors
from edge.students import Student

# A share is asked for with this much to spare: costs vary from picture to picture.
HEADROOM = 1.1
MOST_OBSERVATIONS = 80
SMALLEST_SHARE = 0.001


def measure_cost(
    student: Student,
    resolutions: Iterable[float],
    picture: NDArray[np.uint8],
    repeats: int = 7,
    boxes: NDArray[np.float32] | None = None,
    clock: Callable[[], float] = time.thread_time,
) -> dict[float, float]:
    """CPU seconds per answer by resolution (median of `repeats`, after one answer to warm up).

    Classification names `boxes` (N, 4) of the picture; eight squares in its middle by default.
    """
    if boxes is None:
        boxes = np.tile(np.array([[0.45, 0.45, 0.55, 0.55]], np.float32), (8, 1))
    costs = {}
    for resolution in resolutions:
        times = []
        for _ in range(repeats + 1):
            began = clock()
            if student.spec.task == "detection":
                student.detect([picture], resolution)
            else:
                student.name(picture, boxes, resolution)
            times.append(clock() - began)
        costs[resolution] = median(times[1:])
    return costs


def inference_profile(
    space: Sequence[InferenceConfig],
    cost_s: Mapping[float, float],
    staleness: Mapping[float, float],
    resolution_factor: Mapping[float, float],
    cores: float,
    stream_fps: float = 0.0,
    overhead: float = 0.0,
    name: str = "measured",
) -> InferenceProfile:
    """The share-to-factor curve of a camera (kind "subsampling"), from measurements.

    `cost_s` CPU seconds per answer by resolution, `staleness` factor by frame rate, `resolution_factor` by resolution,
    `overhead` CPU seconds per second spent at every lambda (decoding), `cores` behind the whole device. A rate
    above `stream_fps` (0: unknown) costs no more than answering every frame. Only configurations that no other beats
    (less share, better factor) are kept; if even the cheapest is dear, that is what the curve ends with.
    """
    checks.not_empty("inference.space", space)
    checks.positive("cores", cores)
    points = []
    for config in space:
        rate = min(config.frame_rate, stream_fps) if stream_fps > 0 else config.frame_rate
        share = HEADROOM * (overhead + rate * cost_s[config.resolution]) / cores
        factor = staleness[config.frame_rate] * resolution_factor[config.resolution]
        points.append(InferencePoint(config, max(SMALLEST_SHARE, share), min(1.0, max(0.0, factor))))
    # Dearest first; a point stays if it is better than everything cheaper.
    front: list[InferencePoint] = []
    for point in sorted(points, key=lambda p: (p.share, -p.factor)):
        if not front or (point.factor > front[-1].factor and point.share > front[-1].share * (1 + 1e-9)):
            front.append(point)
    front.reverse()
    top = front[0].share
    return InferenceProfile(
        "subsampling", top, tuple(top / p.share for p in front), tuple(p.factor for p in front), name, tuple(front)
    )


class ProfileMeter:
    """Collects observations of a running camera and makes its inference profile from them, at any time.

    `cpu_clock` is the CPU time of the process that the camera's share governs. The observations name the task.
    `follower` makes what follows the objects of the camera's answers; None: its answers stay as they are.
    """

    def __init__(
        self,
        space: Sequence[InferenceConfig],
        cores: float,
        cpu_clock: Callable[[], float] = time.process_time,
        follower: Callable[[], Follower] | None = None,
    ) -> None:
        checks.not_empty("inference.space", space)
        self._space = tuple(space)
        self._cores = cores
        self._clock = cpu_clock
        self._follower = follower
        self._task: Task = "detection"
        self._fresh: deque[Observation] = deque(maxlen=MOST_OBSERVATIONS)
        self._costs: dict[float, deque[float]] = {}
        self._agreements: dict[float, deque[float]] = {}
        self._spans: deque[tuple[float, float, float]] = deque(maxlen=MOST_OBSERVATIONS)
        self._last: tuple[float, float] | None = None

    def observe(self, observation: Observation) -> None:
        """Take note of a fresh answer (stale ones are passed over)."""
        if observation.stale:
            return
        self._task = observation.task
        self._cost(observation.resolution).append(observation.inference_s)
        answering, probe = observation.inference_s, observation.probe
        if probe is not None:
            self._cost(probe.resolution).append(probe.seconds)
            self._agreements.setdefault(probe.resolution, deque(maxlen=20)).append(probe.agreement)
            answering += probe.seconds
        now = (observation.monotonic_s, self._clock())
        if self._last is not None and now[0] > self._last[0]:
            self._spans.append((now[0] - self._last[0], now[1] - self._last[1], answering))
        self._last = now
        self._fresh.append(observation)

    def _cost(self, resolution: float) -> deque[float]:
        return self._costs.setdefault(resolution, deque(maxlen=MOST_OBSERVATIONS))

    @property
    def seconds_per_answer(self) -> float:
        """CPU seconds of one answer at full resolution (mean of the last ones; 0 before the first)."""
        return self._seconds(1.0) if self._costs else 0.0

    @property
    def overhead(self) -> float:
        """CPU seconds per second that the process spends beside answering: decoding, recording, reporting."""
        wall = sum(s[0] for s in self._spans)
        return max(0.0, sum(s[1] - s[2] for s in self._spans)) / wall if wall > 0 else 0.0

    def _seconds(self, resolution: float) -> float:
        if resolution in self._costs:
            return fmean(self._costs[resolution])
        # Not measured yet: by the number of pixels from the nearest that was, half of the cost being fixed.
        known = min(self._costs, key=lambda r: abs(r - resolution))
        return fmean(self._costs[known]) * (0.5 + 0.5 * (resolution / known) ** 2)

    def _factor(self, resolution: float) -> float:
        if resolution >= 1.0:
            return 1.0
        if resolution in self._agreements:
            return fmean(self._agreements[resolution])
        # Not measured yet: a careful guess.
        return float(resolution**0.7)

    def profile(self, stream_fps: float = 0.0) -> InferenceProfile:
        """The profile as measured so far, for a stream of `stream_fps` frames per second (0: unknown).

        Raises InvalidValue before the first answer.
        """
        checks.not_empty("inference.observations", self._fresh)
        resolutions = {c.resolution for c in self._space}
        factors = {r: self._factor(r) for r in resolutions}
        return inference_profile(
            self._space,
            {r: self._seconds(r) for r in resolutions},
            staleness_factors(self._fresh, sorted({c.frame_rate for c in self._space}), self._task, self._follower),
            factors,
            self._cores,
            stream_fps,
            self.overhead,
        )
