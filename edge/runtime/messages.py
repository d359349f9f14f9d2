"""Messages between the control process and its workers: frozen values; pictures encoded, models by path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edge.core.baseline import Baseline
from edge.core.box_groups import CameraOfBox, GroupGuest
from edge.core.camera import CameraStatus
from edge.core.camera_look import CameraLook
from edge.core.clips import RingNow
from edge.core.configs import WHOLE, InferenceConfig, Region, RetrainingConfig, StudentSpec
from edge.core.labels import Accuracy, LabelledFrame, LabelledWindow, SampledFrame, TeacherAnswer
from edge.core.profiles import InferenceProfile
from edge.core.vision import Detections
from edge.ingest.source import CameraSource
from edge.recording.remembering import MemoryFolders
from edge.settings import CameraSettings, ClipSettings, RecordingSettings
from scheduler.contenders import Contender

# camera worker: commands


@dataclass(frozen=True)
class SetInference:
    """Answer with this lambda from the next frame on."""

    config: InferenceConfig


@dataclass(frozen=True)
class Swap:
    """Load `path` beside the student in force, warm it, and switch between two frames."""

    version: str
    path: Path


@dataclass(frozen=True)
class SetScore:
    """Answer what has at least this score while `version` is in force: chosen anew on the labels of each window."""

    version: str
    score: float


@dataclass(frozen=True)
class Watch:
    """Send encoded pictures at most `fps` a second; 0 stops it."""

    fps: float
    width: int = 640


@dataclass(frozen=True)
class PictureOf:
    """The alarm or the object that a picture is of."""

    kind: Literal["alarms", "objects"]
    number: int


@dataclass(frozen=True)
class PictureWanted:
    """`of` comes back with the picture; `crop` (xyxy, fractions of the picture): that part and something around it."""

    of: PictureOf
    crop: tuple[float, float, float, float] | None = None


@dataclass(frozen=True)
class TakePictures:
    """Send JPEGs of the answered frame `number`, if it is still there (the last few are)."""

    number: int
    wanted: tuple[PictureWanted, ...]


@dataclass(frozen=True)
class NextWindow:
    """Close the sample of window `closing` (0: none) and record for window `opening` over `length_s`."""

    closing: int
    opening: int
    length_s: float
    target_frames: int


@dataclass(frozen=True)
class FedApplication:
    """An application that the camera feeds, at most `max_rate` times a second (None: with every answer)."""

    name: str
    max_rate: float | None = None


@dataclass(frozen=True)
class FeedApplications:
    """Hand each answer over to the serving front at the Unix socket `front` for these applications (none: to
    no one); `token` proves that it is this camera's worker."""

    front: Path
    token: str
    applications: tuple[FedApplication, ...] = ()


# camera worker: messages


@dataclass(frozen=True)
class CameraReport:
    """Once a second: the stream's state and the student's counts. Counters run since the worker started."""

    status: CameraStatus
    model_version: str
    inference: InferenceConfig
    answers: int
    stale_answers: int
    answers_per_s: float
    inference_ms: float
    frames_lost_to_inference: int
    samples_recorded: int
    samples_lost: int
    recorder_message: str
    last_answer_utc_s: float
    answers_not_sent: int = 0
    answers_not_fed: int = 0
    ring: RingNow | None = None


@dataclass(frozen=True)
class Measured:
    """The inference profile as measured in the worker, at its share's device."""

    profile: InferenceProfile
    seconds_per_answer: float


@dataclass(frozen=True)
class Swapped:
    """The new student answers. `gap_s` is the longest time between two answers around the switch."""

    version: str
    gap_s: float
    frames_lost: int


@dataclass(frozen=True)
class SwapFailed:
    """The student in force stays."""

    version: str
    reason: str


@dataclass(frozen=True)
class Sampled:
    """One frame of the window's sample was kept."""

    frame: SampledFrame


@dataclass(frozen=True)
class SampleClosed:
    """The sample of `window` is complete."""

    window: int
    frames: tuple[SampledFrame, ...]


@dataclass(frozen=True)
class Preview:
    """An encoded picture with the answer that belongs to it."""

    number: int
    utc_s: float
    width: int
    height: int
    answer: Detections
    stale: bool
    model_version: str
    jpeg: bytes


@dataclass(frozen=True)
class Answered:
    """A fresh answer for those that follow objects; at most ten a second, others are counted (`answers_not_sent`).
    `looks` (N, LENGTH): how each object looks (edge.inference.looks)."""

    number: int
    at_s: float
    utc_s: float
    answer: Detections
    looks: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Picture:
    """The picture that TakePictures asked for; no bytes: the frame was gone already."""

    of: PictureOf
    jpeg: bytes


# golden worker


@dataclass(frozen=True)
class Label:
    """Label these frames of one camera, in this order."""

    camera: str
    classes: tuple[str, ...]
    class_map: dict[str, tuple[str, ...]]
    frames: tuple[SampledFrame, ...]
    urgent: bool = False


@dataclass(frozen=True)
class Labelled:
    """One frame is labelled (None: its picture could not be read)."""

    camera: str
    frame_id: str
    labelled: LabelledFrame | None
    seconds: float


# evaluation and profiling worker


@dataclass(frozen=True)
class StudentFile:
    """A student on disk."""

    version: str
    path: Path


@dataclass(frozen=True)
class Evaluate:
    """Measure the window past: recorded answers, and in shadow, looking as `inference` says, the frozen student and the
    parent of the model in force. For a student that began as a published detector `frozen` is the download: with
    `baseline`, of past windows, it is measured at its best past least score too. A learned region holds `places`."""

    data: LabelledWindow
    frozen: StudentFile | None
    current: StudentFile
    parent: StudentFile | None
    cores: float = 1.0
    inference: InferenceConfig | None = None
    baseline: Baseline | None = None
    learn_region: bool = False
    places: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Evaluated:
    """Accuracies on the labelled frames of the window; None where there was nothing to measure on.

    `current_live` and `parent_live` are of the frames that `version`, in force when it was asked, had answered:
    roll-back looks at these. `download`: the published detector where the student in force looks, `download_whole`:
    left alone; `score` is for the look `looked`. Measuring `frames` frames took `seconds` device seconds."""

    camera: str
    window: int
    version: str
    realised: Accuracy | None
    frozen: Accuracy | None
    current_live: Accuracy | None
    parent_live: Accuracy | None
    download: Accuracy | None = None
    download_whole: Accuracy | None = None
    baseline: Baseline | None = None
    score: float | None = None
    looked: InferenceConfig | None = None
    look: CameraLook | None = None
    quality: dict[str, float] = field(default_factory=dict)
    class_counts: dict[str, int] = field(default_factory=dict)
    frames: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Profile:
    """Micro-profile `space` on the window's data, within `budget_s` device seconds."""

    data: LabelledWindow
    student: StudentFile
    space: tuple[RetrainingConfig, ...]
    budget_s: float
    history: dict[str, Any] | None
    cores: float
    seed: int
    download: StudentFile | None = None
    region: Region = WHOLE


@dataclass(frozen=True)
class HandInProfile:
    """Answer the m.Profile of this camera's window now, with the trials and epochs that are done."""

    camera: str
    window: int


@dataclass(frozen=True)
class ProfileDone:
    """Profiles of one camera, and the pruning and error history to go on with. `trials` ran on `box` (empty: this one),
    for `device_seconds` less `setup_s` device seconds; `handed_in`: before all that should have been tried was.
    `score`: the best least score of `version`, whose profile it is (None: not chosen)."""

    camera: str
    window: int
    profiles: tuple[Any, ...]
    start_accuracy: float | None
    device_seconds: float
    history: dict[str, Any]
    pruned: dict[str, str]
    note: str = ""
    trials: int = 0
    setup_s: float = 0.0
    handed_in: bool = False
    box: str = ""
    version: str = ""
    score: float | None = None


@dataclass(frozen=True)
class LentProfile:
    """`profile` for another box, in seconds of whose device its budget and costs are. It is handed in after
    `hand_in_s` seconds, with the trials that are done (None: with all)."""

    job: str
    profile: Profile
    hand_in_s: float | None


@dataclass(frozen=True)
class LentProfileDone:
    """Trials for another box are done; CPU seconds are its `cores` times `done.device_seconds`."""

    job: str
    done: ProfileDone
    cores: float


@dataclass(frozen=True)
class LentLabel:
    """Label pictures for another box, by the SHA-256 of each; `teacher` is the description of this box's. The labels
    that are there after `hand_in_s` seconds are handed in."""

    job: str
    camera: str
    teacher: Path
    classes: tuple[str, ...]
    class_map: Mapping[str, tuple[str, ...]]
    pictures: Mapping[str, Path]
    hand_in_s: float


@dataclass(frozen=True)
class LentLabelProgress:
    """Labels for another box: `fraction` (0-1) of the pictures is done, in `cpu_s` (a GPU: device seconds)."""

    job: str
    cpu_s: float
    fraction: float


@dataclass(frozen=True)
class LentLabelDone:
    """Labels for another box, by the SHA-256 of each picture that could be read in time. Of `cpu_s`, `open_s` went into
    opening the teacher."""

    job: str
    labels: Mapping[str, TeacherAnswer]
    cpu_s: float
    open_s: float


@dataclass(frozen=True)
class LentWorkFailed:
    """Trials or labels for another box came to nothing."""

    job: str
    reason: str


@dataclass(frozen=True)
class Remember:
    """Update the exemplar memory of a camera with the window's labelled frames, and the frames kept out of training."""

    data: LabelledWindow
    student: StudentFile
    folders: MemoryFolders
    cores: float = 1.0


@dataclass(frozen=True)
class Remembered:
    """The exemplar memory holds `frames` frames now; picking them took `seconds` device seconds."""

    camera: str
    window: int
    frames: int
    seconds: float = 0.0


@dataclass(frozen=True)
class CameraSeen:
    """The first pictures of a new camera."""

    camera: str
    window: int
    frames: tuple[SampledFrame, ...]


@dataclass(frozen=True)
class Look:
    """Say what a new camera looks like, to the download."""

    data: CameraSeen
    download: StudentFile


@dataclass(frozen=True)
class Looked:
    """How a new camera looks; None: none of its pictures could be read."""

    camera: str
    window: int
    look: CameraLook | None


@dataclass(frozen=True)
class JobFailed:
    """Evaluation or profiling of a camera's window failed; the reason is for people."""

    camera: str
    window: int
    what: str
    reason: str


# retraining worker


@dataclass(frozen=True)
class GroupMember:
    """Another camera that a retraining is for too: its pictures teach, and it is judged with the result on its own
    kept-out ones, beside its student in force (`parent`) and the download. `output` is its candidate's file."""

    camera: str
    data: LabelledWindow
    parent: StudentFile
    region: Region
    output: Path


@dataclass(frozen=True)
class RetrainingJob:
    """`cores` turns CPU seconds into device seconds. It begins with `parent`, or with the download, a sibling's or a
    member's student, where that is better on kept-out pictures. `finish`: it was asked to hand over its result before
    its process died, and does so after one more step. The pictures of `guests` teach as those of members do."""

    job: str
    camera: str
    data: LabelledWindow
    parent: StudentFile
    config: RetrainingConfig
    spec: StudentSpec
    seed: int
    checkpoint: Path
    output: Path
    cores: float
    download: StudentFile | None = None
    region: Region = WHOLE
    siblings: tuple[StudentFile, ...] = ()
    members: tuple[GroupMember, ...] = ()
    finish: bool = False
    guests: tuple[GroupGuest, ...] = ()


@dataclass(frozen=True)
class JudgeCandidate:
    """Judge a candidate that `box` trained for `job`, on the pictures of `data`; answered by TrainingDone.
    `device_seconds` are those of this box's device."""

    data: LabelledWindow
    job: RetrainingJob
    candidate: Path
    box: str
    device_seconds: float
    fraction: float
    train_frames: int


@dataclass(frozen=True)
class FinishNow:
    """Stop training; with `keep` report the present weights as the result."""

    keep: bool


@dataclass(frozen=True)
class TrainingProgress:
    """`device_seconds` done since the job began (over restarts), `fraction` of its steps, last held-out accuracy."""

    job: str
    device_seconds: float
    fraction: float
    epoch: int
    loss: float
    held_out: float | None
    resumed: bool = False


@dataclass(frozen=True)
class TrainingDone:
    """The candidate's file, and held-out accuracies of it and of its parent on the same frames.

    `contenders`: of a student that began as a published detector, the correct answers of it, its parent and the
    download on each kept-out picture; `download_path` the download with its best least score, should it come into force
    again. `start`: the version that the retraining began with, where that is not its parent. `members`: of a group's
    retraining, the same of each other camera, by its name; `taught_with`: cameras whose pictures taught beside its own;
    `group`: the contenders on the kept-out pictures of all of them together.
    `visits` are the picture visits that were made (0: as the configuration says). `trained_on`: another box.
    `guests` are the cameras of other boxes that taught, `for_guests` the student's file for their boxes; `boxes` other
    boxes whose cameras taught."""

    job: str
    path: Path
    candidate: Accuracy
    parent: Accuracy
    device_seconds: float
    fraction: float
    train_frames: int
    spec: StudentSpec
    contenders: tuple[Contender, ...] = ()
    download_path: Path | None = None
    start: str = ""
    members: tuple[tuple[str, TrainingDone], ...] = ()
    taught_with: tuple[str, ...] = ()
    group: tuple[Contender, ...] = ()
    visits: int = 0
    trained_on: str = ""
    guests: tuple[CameraOfBox, ...] = ()
    for_guests: Path | None = None
    boxes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainingDropped:
    """Ended without a result, as ordered."""

    job: str


def camera_source(settings: CameraSettings, secrets: Path | None = None) -> CameraSource:
    """The camera's settings as ingest takes them; `secrets` is the appliance's file of them. Raises InvalidValue."""
    return CameraSource(
        settings.id,
        settings.url,
        transport=settings.transport,
        username=settings.username,
        password_from=settings.password_from,
        stall_timeout_s=settings.stall_timeout_s,
        max_fps=settings.max_fps,
        seconds_per_picture=settings.seconds_per_picture,
        secrets=secrets,
        masks=settings.all_masks(),
    )


@dataclass(frozen=True)
class CameraWorkerSpec:
    """Everything the worker needs. `window` is the one being recorded (0: none yet), with `window_left_s` to go;
    `clips` None: no video is kept for clips."""

    settings: CameraSettings
    student: StudentFile
    inference: InferenceConfig
    record_root: Path
    recording: RecordingSettings
    window: int
    window_left_s: float
    target_frames: int
    cores: float
    watch_fps: float
    secrets: Path | None = None
    score: float | None = None
    feed: FeedApplications | None = None
    clips: ClipSettings | None = None
