"""Clips as transports show them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edge.appliance.answers.marks import BoxAnswer, OfCamera, Shown, answer
from edge.core.clips import ClipEnd, ClipFault, ClipState, Codec, NoClipReason


@answer
class ClipVideoAnswer:
    """The video of a clip: its first picture was taken at `begins_utc_s`, it is `seconds` long, `width` and `height` in
    pixels. `missing_before_s` and `missing_after_s` were asked for and could not be had; `end`: why it ends where it
    does. `masked`: coded anew, with the camera's masks blacked out."""

    begins_utc_s: Shown[float]
    seconds: Shown[float]
    codec: Shown[Codec]
    width: Shown[int]
    height: Shown[int]
    bytes: Shown[int]
    sha256: Shown[str]
    missing_before_s: Shown[float]
    missing_after_s: Shown[float]
    end: Shown[ClipEnd]
    masked: Shown[bool] = False


@answer
class ClipFailureAnswer:
    """Why nothing of a clip is kept. `had_from_utc_s` to `had_to_utc_s`: the time that could have been had (null:
    none)."""

    fault: Shown[ClipFault]
    had_from_utc_s: Shown[float | None] = None
    had_to_utc_s: Shown[float | None] = None


@answer
class ClipAnswer:
    """A clip of a camera around `at_utc_s`, asked for from `from_utc_s` to `to_utc_s`. `asked_by` empty: a rule did;
    `alarms`: ids of those that it shows. `video` null: it is not kept (yet); `failure` null: it did not fail."""

    id: Shown[int]
    camera: OfCamera[str]
    state: Shown[ClipState]
    asked_by: Shown[str]
    at_utc_s: Shown[float]
    from_utc_s: Shown[float]
    to_utc_s: Shown[float]
    alarms: Shown[tuple[int, ...]]
    video: Shown[ClipVideoAnswer | None]
    failure: Shown[ClipFailureAnswer | None]


@answer
class ClipAroundAnswer:
    """The clip that shows a moment of a camera: one that is kept or in the making (`clip` is its id), one that can be
    made now by POST /clips, or none, with the reason. `held_s`: seconds of the camera's video in memory."""

    camera: OfCamera[str]
    at_utc_s: Shown[float]
    state: Shown[Literal["kept", "making", "can_be_made", "none"]]
    clip: Shown[int | None]
    reason: Shown[NoClipReason | None]
    held_s: Shown[float | None]


@answer
class ClipBox:
    """An object that the student saw; `score` 0-1."""

    class_: Annotated[Shown[str], Field(alias="class")]
    score: Shown[float]
    box: Shown[BoxAnswer]


@answer
class ClipMoment:
    """The student's answer about the picture that the clip shows `at_s` seconds after its first."""

    at_s: Shown[float]
    model_version: Shown[str]
    boxes: Shown[tuple[ClipBox, ...]]


@answer
class ClipBoxes:
    """The boxes that belong to a clip; `begins_utc_s`: when its first picture was taken."""

    clip: Shown[int]
    camera: OfCamera[str]
    begins_utc_s: Shown[float]
    answers: Shown[tuple[ClipMoment, ...]]


@answer
class ClipCounts:
    """Clips since the start: made, shared by another alarm, failed by reason, and not begun (`not_taken`: no camera, no
    database, a full disk); `bytes` of all that are kept."""

    made: Shown[int]
    shared: Shown[int]
    failed: Shown[dict[str, int]]
    not_taken: Shown[int]
    bytes: Shown[int]
