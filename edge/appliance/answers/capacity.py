"""Forecasts of changes of the box, and their outcomes."""

from __future__ import annotations

from edge.appliance.answers.marks import OfCamera, Shown, answer
from edge.appliance.answers.windows import EstimateAnswer
from edge.core.capacity import ChangeKind
from edge.core.capacity_notes import NoteCode


@answer
class CapacityChangeAnswer:
    """A change that is asked about (edge.core.capacity.BoxChange), also in words. `camera` and `words` are null
    for a user of some cameras."""

    kind: Shown[ChangeKind]
    factor: Shown[float]
    camera: str | None
    words: str | None


@answer
class CapacityNoteAnswer:
    """A note about an assumption or a gap of a forecast, by code and in words. `of_all`: a second sentence, about all
    cameras together (null: there is none, and for a user of some cameras)."""

    code: Shown[NoteCode]
    camera: OfCamera[str | None]
    model: Shown[str | None]
    message: Shown[str]
    of_all: str | None


@answer
class CameraForecastAnswer:
    """A camera's mean accuracy now (null: it is not there yet) and with the change; `box` 2: it is on the second
    box. `unchanged`: at the same time without the change, for students go on learning (null: it is not there yet, or
    the forecast is of an earlier version)."""

    camera: OfCamera[str]
    now: Shown[float | None]
    then: Shown[EstimateAnswer]
    box: Shown[int]
    unchanged: Shown[float | None]


@answer
class ModelForecastAnswer:
    """A served model's latency in ms now and with the change (null: not served), and the part of its rate that is
    served, 0-1."""

    model: Shown[str]
    slo_ms: Shown[float]
    now_ms: Shown[float | None]
    then_ms: Shown[EstimateAnswer | None]
    now_part: Shown[float]
    then_part: Shown[float]


@answer
class CameraCame:
    """A forecast accuracy beside the mean that came; `held`: inside its interval."""

    camera: OfCamera[str]
    forecast: Shown[float]
    came: Shown[float]
    held: Shown[bool]


@answer
class ModelCame:
    """A forecast latency in ms beside the one that came."""

    model: Shown[str]
    forecast_ms: Shown[float]
    came_ms: Shown[float]
    held: Shown[bool]


@answer
class CapacityOutcomeAnswer:
    """The result of a change that was made before window `window`, over `windows` windows. `error`: mean of all
    cameras' absolute errors (null for a user of some)."""

    window: Shown[int]
    windows: Shown[int]
    error: float | None
    cameras: Shown[tuple[CameraCame, ...]]
    models: Shown[tuple[ModelCame, ...]]


@answer
class ForecastAnswer:
    """A forecast, from `windows` windows up to `last_window`. `share_now` and `share_then`: devices of this box's
    cameras and their retraining. `outcome` null: the change was not made, or too few windows are over since."""

    id: Shown[int]
    at_utc_s: Shown[float]
    asked_by: str | None
    change: Shown[CapacityChangeAnswer]
    windows: Shown[int]
    last_window: Shown[int]
    share_now: Shown[float]
    share_then: Shown[float]
    cameras: Shown[tuple[CameraForecastAnswer, ...]]
    models: Shown[tuple[ModelForecastAnswer, ...]]
    notes: Shown[tuple[CapacityNoteAnswer, ...]]
    outcome: Shown[CapacityOutcomeAnswer | None]


@answer
class ReckonedNow:
    """The forecast that is being made: of `change`, since `since_utc_s`."""

    change: Shown[CapacityChangeAnswer]
    since_utc_s: Shown[float]


@answer
class FailedForecast:
    """Why the newest forecast could not be made. `message` is null for a user of some cameras."""

    change: Shown[CapacityChangeAnswer]
    message: str | None


@answer
class CapacityAnswer:
    """Forecasts, the newest first. A forecast needs `needed` closed and measured windows in a row of the box as it is;
    there are `windows` among the newest 48. `working` null: none is being made; `failed` null: the newest was made."""

    needed: Shown[int]
    windows: Shown[int]
    working: Shown[ReckonedNow | None]
    failed: Shown[FailedForecast | None]
    forecasts: Shown[tuple[ForecastAnswer, ...]]
