"""Cameras of several boxes that are retrained as one group: the cameras whose pictures a box shares, the groups that
come of them, and the student that each box gets for its own gate.

Files are named by their SHA-256 (64 hexadecimal digits). No time here is a time of day.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from edge.core import checks
from edge.core.camera_look import CameraLook
from edge.core.configs import Region, StudentSpec
from edge.core.labels import LabelledWindow
from edge.core.lending import LARGEST_WORK, check_digest, check_work_id

#: Labelled pictures of a camera that are shared at most: a group trains on no more of one.
MOST_SHARED: Final = 96
#: Numbers that a look has at most as features.
MOST_FEATURES: Final = 10_000
#: Cameras that a box shares at most, and bytes of a description of the pictures, of a picture and of a student.
MOST_CAMERAS: Final = 200
LARGEST_MANIFEST: Final = 8 << 20
LARGEST_PICTURE: Final = 16 << 20
LARGEST_STUDENT: Final = 256 << 20

#: The last answer of another box: it shares; it shares nothing (`off`); it is of a version that does not know groups
#: (`not_known`); it does not answer (`silent`); its answer is none (`failed`).
SharedBy = Literal["shares", "off", "not_known", "silent", "failed"]
#: unreachable: a file did not come; damaged: another content than was announced, or no student or labels of the camera;
#: late: the student in force changed again and again, or the student came too late to be judged.
BoxGroupFault = Literal["unreachable", "damaged", "late"]
BOX_GROUP_FAULTS: Final[Mapping[BoxGroupFault, str]] = {
    "unreachable": "a file of the other box did not come",
    "damaged": "what came is not what was announced",
    "late": "the camera had no time to judge it",
}


def kind_of(spec: StudentSpec) -> str:
    """The SHA-256 of a student's description: students of one kind have comparable weights, and the same classes."""
    return hashlib.sha256(json.dumps(spec.to_json(), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, order=True)
class CameraOfBox:
    """A camera of a box of the fleet."""

    box: str
    camera: str

    @property
    def name(self) -> str:
        """For people and as a key. It is never parsed."""
        return f"{self.box}/{self.camera}"


@dataclass(frozen=True)
class GroupGuest:
    """A camera of another box whose pictures, in `region`, teach in a group's retraining; its own box judges the
    student."""

    camera: CameraOfBox
    data: LabelledWindow
    region: Region


@dataclass(frozen=True)
class SharedCamera:
    """A camera whose labelled pictures teach cameras of other boxes: its student's `kind` (see `kind_of`), and its
    `look`. `manifest` is the description of the `pictures` labelled pictures of `window`, `size` the bytes of all.
    `trains`: its box retrains cameras as groups."""

    box: str
    camera: str
    kind: str
    look: CameraLook
    window: int
    manifest: str
    pictures: int
    size: int
    trains: bool = True

    def __post_init__(self) -> None:
        check_work_id("box", self.box)
        check_work_id("camera", self.camera)
        check_digest("kind", self.kind)
        check_digest("manifest", self.manifest)
        look = self.look
        for value in (*look.features, *look.spread, *look.place, look.height, look.height_spread, look.crowd):
            checks.in_range("look", value, -1e9, 1e9)
        checks.in_range("look.features", len(look.features), 0, MOST_FEATURES)
        checks.in_range("look.brightness", look.brightness, 0.0, 1.0)
        checks.in_range("look.shape", look.shape, 0.0, 1e3, low_open=True)
        checks.in_range("pictures", self.pictures, 1, MOST_SHARED)
        checks.in_range("size", self.size, 0, LARGEST_WORK)

    @property
    def of_box(self) -> CameraOfBox:
        return CameraOfBox(self.box, self.camera)


@dataclass(frozen=True)
class SharedManifest:
    """The labelled pictures of a camera: the labelled `window` as JSON, in which a picture's path is its SHA-256, the
    `region` that the camera's student looks at, and the bytes of each picture."""

    window: Mapping[str, Any]
    region: Region
    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        checks.in_range("sizes", len(self.sizes), 1, MOST_SHARED)
        for digest, size in self.sizes.items():
            check_digest("sizes", digest)
            checks.in_range(f"sizes.{digest}", size, 1, LARGEST_PICTURE)


@dataclass(frozen=True)
class SharedCameras:
    """The cameras that a box shares now."""

    cameras: tuple[SharedCamera, ...] = ()

    def __post_init__(self) -> None:
        checks.in_range("cameras", len(self.cameras), 0, MOST_CAMERAS)
        checks.unique("cameras", [c.camera for c in self.cameras])


@dataclass(frozen=True)
class BoxGroup:
    """Cameras of several boxes that look alike; the box `trainer` may retrain them as one. `guests` are those of other
    boxes, whose pictures go there, the most alike ones first."""

    trainer: str
    own: tuple[CameraOfBox, ...]
    guests: tuple[SharedCamera, ...]

    @property
    def boxes(self) -> tuple[str, ...]:
        """The boxes of the guests."""
        return tuple(sorted({g.box for g in self.guests}))


@dataclass(frozen=True)
class GroupStudent:
    """A student that a group's retraining with `config` on the box `trainer` taught, for the gate of `camera` of the
    box `box`; `digest` and `size` are its file's. Cameras of `boxes`, others than its own, taught beside it; `fraction`
    of the work was done (0-1), on `train_frames` pictures."""

    trainer: str
    box: str
    camera: str
    digest: str
    size: int
    config: Mapping[str, Any]
    boxes: tuple[str, ...]
    fraction: float = 1.0
    train_frames: int = 0

    def __post_init__(self) -> None:
        check_work_id("trainer", self.trainer)
        check_work_id("camera", self.camera)
        check_digest("digest", self.digest)
        checks.in_range("size", self.size, 1, LARGEST_STUDENT)

        checks.not_empty("boxes", self.boxes)
        checks.in_range("fraction", self.fraction, 0.0, 1.0)
        checks.in_range("train_frames", self.train_frames, 0, 1_000_000)

    @property
    def id(self) -> str:
        """The name of its folder on the box that judges it."""
        return f"{self.trainer}.{self.camera}.{self.digest}"


@dataclass(frozen=True)
class GroupStudents:
    """The students that a box has for others."""

    students: tuple[GroupStudent, ...] = ()


@dataclass(frozen=True)
class HeardBox:
    """Another box as it was heard last."""

    box: str
    shared: SharedBy
    cameras: tuple[SharedCamera, ...] = ()


@dataclass(frozen=True)
class HeardBoxes:
    """All other boxes, and what did not come of them since the agent's start, by fault."""

    boxes: tuple[HeardBox, ...] = ()
    failures: Mapping[BoxGroupFault, int] = field(default_factory=dict)


@dataclass(frozen=True)
class WantedPictures:
    """The cameras of other boxes whose pictures are to be here."""

    cameras: tuple[SharedCamera, ...] = ()


@dataclass(frozen=True)
class SharedFiles:
    """The path of each file that other boxes may have, by its SHA-256."""

    paths: Mapping[str, str] = field(default_factory=dict)


@dataclass
class BoxGroupCounts:
    """Since the appliance's start: retrainings here that pictures of other boxes taught; students of other boxes'
    groups that came into force here, and that the gate refused; losses by fault (`failures`)."""

    trained: int = 0
    taken: int = 0
    refused: int = 0
    failures: dict[BoxGroupFault, int] = field(default_factory=dict)
