"""Cameras as sources of applications: how often each asks, and why one asks nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edge.core import checks
from edge.core.application_sources import ApplicationSource, SourceFault
from edge.core.applications import Application
from edge.core.serving_reasons import ServingReason


@dataclass(frozen=True)
class SourceState:
    """A camera as a source: its `classes`, whether it is `enabled`, the answers per second of the lambda in force
    (None: none is chosen yet), the `most` that any lambda of it has, and the frames per second of its stream (None:
    not known)."""

    classes: tuple[str, ...]
    enabled: bool = True
    in_force: float | None = None
    most: float = 1.0
    stream_fps: float | None = None

    def __post_init__(self) -> None:
        checks.in_range("source.most", self.most, 0.0, 240.0, low_open=True)

    @property
    def answers_per_s(self) -> float:
        """As many answers as it gives now; before a lambda is in force the most that it may give."""
        rate = self.most if self.in_force is None else self.in_force
        return min(rate, self.stream_fps) if self.stream_fps else rate


def fault_of(source: ApplicationSource, cameras: Mapping[str, SourceState]) -> SourceFault | None:
    """Why the source gives nothing; None: it does."""
    camera = cameras.get(source.camera)
    if camera is None:
        return "unknown_camera"
    if not set(source.classes) <= set(camera.classes):
        return "unknown_class"
    return None if camera.enabled else "camera_off"


def fed(application: Application, cameras: Mapping[str, SourceState]) -> Application:
    """The application with the rate at which its camera asks now (0: it gives nothing, `unfed` says why), at most
    as often as its models may be asked. One that clients ask stays as it is."""
    source = application.source
    if source is None:
        return application
    fault = fault_of(source, cameras)
    if fault is not None:
        return replace(application, rate=0.0, unfed=fault)
    rate = source.rate(cameras[source.camera].answers_per_s)
    return replace(application, rate=min(rate, application.most_rate), unfed=None)


def change_of(before: Sequence[Application], wanted: Sequence[Application]) -> tuple[ServingReason, ...]:
    """The applications whose cameras ask at another rate than before, each as a cause of a plan."""
    known = {a.name: a for a in before}
    return tuple(
        ServingReason("source_rate", application=a.name, numbers={"before": known[a.name].rate, "now": a.rate})
        for a in wanted
        if a.source is not None and a.name in known and a.rate != known[a.name].rate
    )
