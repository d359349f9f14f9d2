"""Cameras: settings, state, what a try to connect found, and live pictures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from edge.appliance.answers.marks import BoxAnswer, OfCamera, Shown, answer
from edge.core.camera import CameraFault, CameraState
from edge.core.models import VersionOrigin
from edge.settings import CameraSettings


@answer
class LambdaAnswer:
    """How a student looks: answers per second, the scale (0-1] of its input, the part of the picture, and whether its
    input has the camera's proportions or the model's."""

    frame_rate: Shown[float]
    resolution: Shown[float]
    region: Shown[BoxAnswer]
    shape: Shown[str]


@answer
class RingAnswer:
    """A camera's ring of coded video: its contents now, and since its worker started the changes of coding in it, the
    times that old video gave way to the limit of bytes, and the packets that it could not take."""

    codec: Shown[str]
    seconds: Shown[float]
    bytes: Shown[int]
    begun_anew: Shown[int]
    shortened: Shown[int]
    packets_lost: Shown[int]


@answer
class CameraConnection:
    """The connection to a camera. `retry_in_s`: until the next try; `stalls`: times without a picture for the stall
    time; `attempts_hanging`: abandoned tries whose threads have not ended yet."""

    retry_in_s: Shown[float]
    connects: Shown[int]
    stalls: Shown[int]
    attempts_hanging: Shown[int]


@answer
class CameraStream:
    """The pictures of a camera: `fps` a second, `delay_s` old when they are decoded, `width` and `height` in pixels.
    `freezes`: times with the same picture for the stall time."""

    fps: Shown[float]
    delay_s: Shown[float]
    width: Shown[int]
    height: Shown[int]
    codec: Shown[str]
    frames_decoded: Shown[int]
    frames_damaged: Shown[int]
    frames_replaced: Shown[int]
    packets_dropped: Shown[int]
    freezes: Shown[int]


@answer
class CameraModel:
    """The version in force of a camera's student. `origin`: how it came about; `window`: whose pictures trained it;
    `frozen_version`: the first one, left alone."""

    student: Shown[str]
    version: Shown[str]
    origin: Shown[VersionOrigin]
    window: Shown[int | None]
    frozen_version: Shown[str]


@answer
class CameraInference:
    """The answers of a camera's student, with its share of the device and lambda. `inference_ms`: the mean time of
    one."""

    share: Shown[float]
    lambda_: Annotated[Shown[LambdaAnswer | None], Field(alias="lambda")]
    answers: Shown[int]
    stale_answers: Shown[int]
    answers_per_s: Shown[float]
    inference_ms: Shown[float]


@answer
class CameraAccuracy:
    """The accuracies (0-1) of the window that was measured last; null: not measured. `realised`: of the answers as they
    were given; `frozen`: of the first student, left alone; `download`: of the published detector that the student began
    as, left alone, looking where the student in force does, `download_whole`: the same at the whole picture."""

    realised: Shown[float | None]
    frozen: Shown[float | None]
    download: Shown[float | None]
    download_whole: Shown[float | None]


@answer
class StateOfCamera:
    """A camera now. Counters run since its worker started. `fault` and `message`: why it is in its state, `since_utc_s`
    since when. `recorder`: the recorder's fault (empty: none). `ring` null: no video is kept for clips. `losses` by
    kind (empty: the worker has not reported yet)."""

    state: Shown[CameraState]
    fault: Shown[CameraFault | None]
    message: Shown[str]
    since_utc_s: Shown[float]
    connection: Shown[CameraConnection]
    stream: Shown[CameraStream]
    model: Shown[CameraModel]
    inference: Shown[CameraInference]
    accuracy: Shown[CameraAccuracy]
    recorder: Shown[str]
    ring: Shown[RingAnswer | None]
    losses: Shown[Mapping[str, int]]


@answer
class OverviewCamera:
    """A camera with its name and its state."""

    id: OfCamera[str]
    name: Shown[str]
    state: Shown[StateOfCamera]


@answer
class CameraAnswer:
    """A camera with its settings and its state."""

    id: OfCamera[str]
    settings: Shown[CameraSettings]
    state: Shown[StateOfCamera]


@answer
class CameraTest:
    """The result of a try to connect. `picture` is a JPEG in base64."""

    ok: bool
    width: int
    height: int
    fps: float
    codec: str
    seconds: float
    fault: CameraFault | None
    message: str
    picture: str | None


@answer
class PictureHeader:
    """The header of exactly one live picture: boxes with `scores` (0-1) and `labels` (indices of `classes`)."""

    camera: OfCamera[str]
    number: Shown[int]
    utc_s: Shown[float]
    width: Shown[int]
    height: Shown[int]
    model_version: Shown[str]
    stale: Shown[bool]
    classes: Shown[tuple[str, ...]]
    boxes: Shown[tuple[BoxAnswer, ...]]
    scores: Shown[tuple[float, ...]]
    labels: Shown[tuple[int, ...]]
    delay_s: Shown[float]
    state: Shown[CameraState]
