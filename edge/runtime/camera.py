"""One camera's state in the runtime: settings, state, model in force, and its part of the running window."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field, fields, replace
from typing import Any

from edge.core.baseline import Baseline, RegionRecord
from edge.core.camera import CameraStatus
from edge.core.configs import WHOLE, InferenceConfig, Region
from edge.core.labels import Accuracy, LabelledWindow
from edge.core.models import ModelVersion
from edge.core.profiles import InferencePoint, InferenceProfile, RetrainingProfile
from edge.core.workers import Worker
from edge.runtime import messages as m
from edge.settings import CameraSettings, InferenceSettings

#: Until it is measured: device seconds of one answer, with decoding (a careful guess; measured within seconds).
_ASSUMED_ANSWER_S = 0.03
#: The fields of a CameraStatus that are about its connection, and about its pictures.
_CONNECTION = ("retry_in_s", "connects", "stalls", "attempts_hanging")
_STREAM = (
    "fps", "delay_s", "width", "height", "codec", "frames_decoded", "frames_damaged", "frames_replaced",
    "packets_dropped", "freezes",
)  # fmt: skip
#: Switches of a camera's student whose gaps are remembered.
_KEPT_GAPS = 1000


def assumed_profile(inference: InferenceSettings, cores: float) -> InferenceProfile:
    """An inference profile to start with, until the camera's worker has measured its own."""
    space = inference.space()
    best = space[0]
    points = tuple(
        InferencePoint(
            c,
            max(0.005, c.frame_rate * _ASSUMED_ANSWER_S * c.resolution**2 / cores),
            min(1.0, (c.frame_rate / best.frame_rate) ** 0.25 * c.resolution**0.5),
        )
        for c in space
    )
    return profile_from_points(points)


def looking_at(profile: InferenceProfile, region: Region) -> InferenceProfile:
    """The same profile for a student that looks at `region`."""
    points = tuple(replace(p, config=replace(p.config, region=region)) for p in profile.points)
    return replace(profile, points=points)


def profile_from_points(points: tuple[InferencePoint, ...], name: str = "assumed") -> InferenceProfile:
    """The factor-by-share curve over the points that are not dominated (less share and a better factor)."""
    front: list[InferencePoint] = []
    for p in sorted(points, key=lambda p: (-p.share, -p.factor)):
        while front and front[-1].factor <= p.factor:
            front.pop()
        if not front or p.share < front[-1].share:
            front.append(p)
    top = front[0]
    subsampling: list[float] = []
    factors: list[float] = []
    for p in front:
        x = top.share / p.share
        if subsampling and x <= subsampling[-1] + 1e-9:
            continue
        subsampling.append(x)
        factors.append(min(1.0, p.factor))
    return InferenceProfile(
        "subsampling",
        top.share,
        tuple(subsampling),
        tuple(factors),
        name,
        tuple(sorted(front, key=lambda p: -p.factor)),
    )


@dataclass(frozen=True)
class WindowAccuracy:
    """The accuracies of the window that was measured last: the answers as they were given, the frozen student in
    shadow, and the download in shadow where the student began as one, looking as the student in force does and at the
    whole picture. None: not measured."""

    realised: Accuracy | None = None
    frozen: Accuracy | None = None
    download: Accuracy | None = None
    download_whole: Accuracy | None = None

    def to_json(self) -> dict[str, float | None]:
        """For REST and the page."""
        measured = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: None if one is None else one.value for name, one in measured.items()}


@dataclass
class Swaps:
    """The cost of switches of a camera's student: longest time between answers of each of the last ones, in seconds;
    frames."""

    gaps_s: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_GAPS))
    frames_lost: int = 0

    def add(self, swapped: m.Swapped) -> None:
        """One switch more."""
        self.gaps_s.append(swapped.gap_s)
        self.frames_lost += swapped.frames_lost


def score_document(camera: str) -> str:
    """The name of the document that keeps the least score chosen for a camera's version."""
    return f"score/{camera}"


@dataclass
class CameraRuntime:
    """Touched on the control process's event loop only."""

    settings: CameraSettings
    version: ModelVersion
    frozen: ModelVersion
    profile: InferenceProfile
    share: float = 0.0
    inference: InferenceConfig | None = None
    report: m.CameraReport | None = None
    worker_up: bool = False
    measured: WindowAccuracy = WindowAccuracy()
    closed: dict[int, LabelledWindow] = field(default_factory=dict)
    profiles: dict[str, RetrainingProfile] = field(default_factory=dict)
    history: dict[str, Any] | None = None
    swaps: Swaps = field(default_factory=Swaps)
    announced: bool = False
    #: Windows whose pictures are on disk, as of the last boundary.
    pictured: frozenset[int] = frozenset()
    #: Of a student that began as a published detector: the measurements of past windows, and the part of the picture
    #: that is looked at.
    baseline: Baseline | None = None
    region: Region = WHOLE
    #: One result is judged and put in force at a time.
    judging: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: The least score that was chosen last, and the version that it is for.
    score: tuple[str, float] | None = None

    @property
    def id(self) -> str:
        return self.settings.id

    @property
    def published(self) -> bool:
        """Whether its student began as a published detector: then the frozen one is the download."""
        return self.version.spec.detector is not None

    def score_of(self, version: str) -> float | None:
        """The least score that was chosen for a version; None: the one that it came with."""
        return self.score[1] if self.score is not None and self.score[0] == version else None

    def take_region(self, region: Region) -> None:
        """Look at `region` from now on: lambda and every point of the profile say so."""
        self.region = region
        self.profile = looking_at(self.profile, region)
        if self.inference is not None:
            self.inference = replace(self.inference, region=region)

    @property
    def record(self) -> RegionRecord | None:
        """How the student in force did on the whole picture and on a part of it; None: not known."""
        retrained = self.version.origin not in ("first", "download")
        return None if self.baseline is None else self.baseline.of(retrained)

    def fixed_region(self) -> Region | None:
        """The region that settings ask for; None where it is learned."""
        return self.settings.inference.fixed_region() if self.published else WHOLE

    @property
    def worker(self) -> str:
        """Name of the camera's worker."""
        return Worker.of_camera(self.settings.id).name

    @property
    def trainer(self) -> str:
        """Name of the camera's retraining worker."""
        return Worker.trainer_of(self.settings.id).name

    def status(self) -> CameraStatus:
        """State of the stream; of a camera whose worker is not up, the values known."""
        if not self.settings.enabled:
            return CameraStatus(self.id, "stopped", message="the camera is switched off")
        if self.report is None or not self.worker_up:
            return CameraStatus(self.id, "connecting", message="its worker is starting")
        return self.report.status

    def state_json(self) -> dict[str, Any]:
        """For REST and the page."""
        report, status = self.report, self.status()
        return {
            "state": status.state,
            "fault": status.fault,
            "message": status.message,
            "since_utc_s": status.since_utc_s,
            "connection": {name: getattr(status, name) for name in _CONNECTION},
            "stream": {name: getattr(status, name) for name in _STREAM},
            "model": {
                "student": self.version.spec.name,
                "version": self.version.id,
                "origin": self.version.origin,
                "window": self.version.window,
                "frozen_version": self.frozen.id,
            },
            "inference": {
                "share": self.share,
                "lambda": None if self.inference is None else self.inference.to_json(),
                "answers": 0 if report is None else report.answers,
                "stale_answers": 0 if report is None else report.stale_answers,
                "answers_per_s": 0.0 if report is None else report.answers_per_s,
                "inference_ms": 0.0 if report is None else report.inference_ms,
            },
            "accuracy": self.measured.to_json(),
            "recorder": "" if report is None else report.recorder_message,
            "ring": None if report is None or report.ring is None else report.ring.to_json(),
            "losses": self.losses(),
        }

    def losses(self) -> dict[str, int]:
        """Every loss that is counted for this camera."""
        r = self.report
        if r is None:
            return {}
        s = r.status
        return {
            "frames_damaged": s.frames_damaged,
            "frames_replaced": s.frames_replaced,
            "packets_dropped": s.packets_dropped,
            "stalls": s.stalls,
            "reconnects": max(0, s.connects - 1),
            "frames_without_answer": r.frames_lost_to_inference,
            "samples_lost": r.samples_lost,
            "frames_lost_in_swaps": self.swaps.frames_lost,
            "answers_not_tracked": r.answers_not_sent,
            "answers_not_fed": r.answers_not_fed,
            "clip_packets_lost": 0 if r.ring is None else r.ring.packets_lost,
        }
