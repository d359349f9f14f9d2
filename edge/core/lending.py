"""Work that one box of a fleet does for another: offers, the retraining, the profiles or the labels that are handed
over, and what came of it.

Shares are parts of a box's device, 0-1. Files are named by their SHA-256 (64 hexadecimal digits); no file is used
before its content was checked against its name. No time here is a time of day: durations are in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from edge.core import checks
from edge.core.configs import Region
from edge.core.errors import InvalidValue
from edge.core.window import RetrainingOption

#: Works that a lender takes at once: one runs, the others wait for it.
MOST_OPEN: Final = 4
#: A work is not lent that would end after so many windows of its lender.
_MOST_WINDOWS: Final = 4
#: A retraining with more bytes of pictures and students is not lent, and not taken.
LARGEST_WORK: Final = 512 << 20
#: A work has at most so many pictures to label.
MOST_PICTURES: Final = 64
#: Seconds until a candidate that came back is judged, until it was measured.
GATE_S: Final = 5.0
#: Bytes a second between two boxes until it was measured: 10 MB/s, of a network of 100 Mbit/s.
ASSUMED_RATE: Final = 10e6

_DIGEST: Final = re.compile("[0-9a-f]{64}")
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")

#: The works that a lender does for another box.
LentKind = Literal["retraining", "profiles", "labels"]
#: asked: no box has answered yet. fetching: the lender copies its input, or has other work before it. running: it
#: trains. done: the result is there. failed: nothing will come, `why` names the reason.
LentPhase = Literal["asked", "fetching", "running", "done", "failed"]
#: refused: the lender has no share left for it; withdrawn: it needs its share itself; unreachable: it does not answer;
#: failed: it failed there; damaged: other content came than was announced, or no student, profiles or labels of the
#: camera; late: nothing was here when it was needed.
LentFault = Literal["refused", "withdrawn", "unreachable", "failed", "damaged", "late"]
LENT_FAULTS: Final[Mapping[LentFault, str]] = {
    "refused": "the lender has no share left for it",
    "withdrawn": "the lender needs its share itself",
    "unreachable": "the lender does not answer",
    "failed": "the work failed there",
    "damaged": "what came back is not what was asked for",
    "late": "it was not here in time",
}


def check_digest(path: str, digest: object) -> None:
    """A SHA-256 in small hexadecimal digits. Raises InvalidValue."""
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise InvalidValue(path, digest, "64 hexadecimal digits")


def check_work_id(path: str, name: object) -> None:
    """The id of a lent retraining, which is a folder's name, too. Raises InvalidValue."""
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise InvalidValue(path, name, "1 to 200 letters, digits and _ . -, a letter or digit first")


@dataclass(frozen=True)
class LendingOffer:
    """A box lends `share` of its device now (0: nothing). `device` "cpu" or "gpu"; `units` cores are behind share 1.0
    (a GPU: 1). `rate`: bytes a second that reach it from here. `left_s`: seconds until its own window is over (None: it
    has none). `room` more works are taken; the next one begins in `busy_s` seconds, when those before it are done.

    Over its window's end a work goes on at the share `again` (0: not known, or none), after `pause_s` seconds in which
    the box prepares its next window, of `window_s`: as it was at its last windows. `teacher`: the content of its golden
    model, a SHA-256 (empty: it labels for no box)."""

    box: str
    share: float
    device: Literal["cpu", "gpu"]
    units: float
    rate: float = ASSUMED_RATE
    left_s: float | None = None
    busy_s: float = 0.0
    room: int = 1
    again: float = 0.0
    pause_s: float = 0.0
    window_s: float = 0.0
    teacher: str = ""

    def __post_init__(self) -> None:
        if self.teacher:
            check_digest("teacher", self.teacher)
        if self.left_s is not None:
            checks.in_range("left_s", self.left_s, -1e9, 1e9)
        checks.in_range("share", self.share, 0.0, 1.0)
        checks.in_range("units", self.units, 0.0, 1e6, low_open=True)
        checks.in_range("rate", self.rate, 0.0, 1e15, low_open=True)
        for name in ("busy_s", "pause_s", "window_s"):
            checks.in_range(name, getattr(self, name), 0.0, 1e9)
        checks.in_range("room", self.room, 0, 1000)
        checks.in_range("again", self.again, 0.0, 1.0)

    def later(self, seconds: float) -> LendingOffer:
        """The same offer so many seconds after it was made."""
        left_s = None if self.left_s is None else self.left_s - seconds
        return replace(self, left_s=left_s, busy_s=max(0.0, self.busy_s - seconds))

    def ends_in(self, start_s: float, speed: Callable[[float], float], work_s: float) -> float | None:
        """Seconds from now until `work_s` device seconds are done that begin in `start_s` seconds; `speed(share)` is
        that of the work, in device seconds a second. None: they may never be."""
        now, again = speed(self.share), speed(min(self.share, self.again))
        at_s, end_s = start_s, self.left_s
        for _ in range(_MOST_WINDOWS):
            if end_s is None or (now > 0.0 and at_s + work_s / now <= end_s):
                return at_s + work_s / now if now > 0.0 else None
            if again <= 0.0 or self.pause_s >= self.window_s:
                return None
            work_s -= now * max(0.0, end_s - at_s)
            at_s, end_s, now = max(at_s, end_s + self.pause_s), end_s + self.window_s, again
        return None


@dataclass(frozen=True)
class Borrower:
    """The box that would lend out: its device, its cores (a GPU: 1), and the bytes of each camera's retraining.
    `gate_s`: from the end of a retraining elsewhere until its candidate is judged here, in seconds."""

    device: Literal["cpu", "gpu"]
    units: float
    sizes: Mapping[str, int]
    gate_s: float = GATE_S

    def __post_init__(self) -> None:
        checks.in_range("units", self.units, 0.0, 1e6, low_open=True)
        checks.in_range("gate_s", self.gate_s, 0.0, 1e6)


@dataclass(frozen=True)
class LentRetraining:
    """A decision: the retraining `option` of a camera is done by `box` at `share` of its device. The camera's accuracy
    is `accuracy` from `arrives_s` (seconds after the window's start) on; `device_seconds` are the lender's, which is
    done at `ends_s`."""

    camera: str
    option: RetrainingOption
    box: str
    share: float
    arrives_s: float
    accuracy: float
    device_seconds: float
    ends_s: float


@dataclass(frozen=True)
class LentProfiles:
    """A decision: a camera's configurations are tried by `box` at `share` of its device, and the profiles are here in
    `ends_s` seconds."""

    camera: str
    box: str
    share: float
    ends_s: float


@dataclass(frozen=True)
class WaitingFrame:
    """A sampled frame that waits for its label here, with the bytes of its picture. `late`: its window no longer waits
    for it; its label teaches in the next one."""

    id: str
    camera: str
    size: int
    late: bool = False

    def __post_init__(self) -> None:
        checks.in_range("size", self.size, 0, LARGEST_WORK)


@dataclass(frozen=True)
class LabelBacklog:
    """The labelling that is still to be done here. `frames` may be labelled elsewhere, in the order in which they would
    be labelled here; `others` are the frames that come before or between them. A label takes `label_s` device seconds
    of this box, of whose device the golden model uses `share` (0-1) all the time. Labels have to be here in `left_s`
    seconds. To open the golden model, whose content is `teacher`, takes `open_s` device seconds."""

    frames: tuple[WaitingFrame, ...]
    others: float
    label_s: float
    share: float
    left_s: float
    open_s: float
    teacher: str

    def __post_init__(self) -> None:
        checks.in_range("others", self.others, 0.0, 1e9)
        checks.in_range("label_s", self.label_s, 0.0, 1e6, low_open=True)
        checks.in_range("share", self.share, 0.0, 1.0)
        checks.in_range("left_s", self.left_s, -1e9, 1e9)
        checks.in_range("open_s", self.open_s, 0.0, 1e6)
        check_digest("teacher", self.teacher)


@dataclass(frozen=True)
class LentLabels:
    """A decision: `frames` of a camera (ids) are labelled by `box` at `share` of its device; the labels are here in
    `ends_s` seconds."""

    camera: str
    box: str
    share: float
    frames: tuple[str, ...]
    ends_s: float


@dataclass(frozen=True)
class LentLabelling:
    """The labels that a lender makes: of `pictures`, by their SHA-256, in `classes`, to which `class_map` brings those
    of the golden model. That has to be the one whose content is `teacher`. After `hand_in_s` seconds the labels that
    are there are handed in."""

    classes: tuple[str, ...]
    class_map: Mapping[str, tuple[str, ...]]
    pictures: tuple[str, ...]
    teacher: str
    hand_in_s: float

    def __post_init__(self) -> None:
        checks.not_empty("classes", self.classes)
        checks.not_empty("pictures", self.pictures)
        checks.unique("pictures", self.pictures)
        checks.in_range("pictures", len(self.pictures), 1, MOST_PICTURES)
        check_digest("teacher", self.teacher)
        checks.in_range("hand_in_s", self.hand_in_s, 0.0, 1e6)


@dataclass(frozen=True)
class LentProfiling:
    """The trials of a camera that a lender runs: configurations of `space` and the camera's profiler `history`, as
    JSON. `budget_s` are device seconds of the borrower's device, whose CPU seconds are `cores` times as many. After
    `hand_in_s` seconds what is done is handed in (None: all is done)."""

    space: tuple[Mapping[str, Any], ...]
    budget_s: float
    cores: float
    history: Mapping[str, Any] | None = None
    hand_in_s: float | None = None

    def __post_init__(self) -> None:
        checks.not_empty("space", self.space)
        checks.in_range("budget_s", self.budget_s, 0.0, 1e6, low_open=True)
        checks.in_range("cores", self.cores, 0.0, 1e6, low_open=True)


@dataclass(frozen=True)
class LentWork:
    """All that a lender needs. `data` is the labelled window as JSON, whose pictures' paths are their SHA-256; `parent`
    and `download` are students by their SHA-256 (empty: there is no download); `blobs` all files with their bytes.
    With `profiling` the camera's configurations are tried, with `labelling` pictures are labelled (there is no `data`
    and no `parent` then), without both `config` is retrained. `cpu_s` is the work that is expected (device seconds
    times the borrower's `units`; 0: not known), `place` the number of the borrower's works at this lender that come
    before it."""

    id: str
    camera: str
    share: float
    data: Mapping[str, Any]
    parent: str
    download: str
    config: Mapping[str, Any]
    spec: Mapping[str, Any]
    region: Region
    seed: int
    blobs: Mapping[str, int]
    profiling: LentProfiling | None = None
    cpu_s: float = 0.0
    place: int = 0
    labelling: LentLabelling | None = None

    @property
    def kind(self) -> LentKind:
        """The kind of the work."""
        if self.labelling is not None:
            return "labels"
        return "retraining" if self.profiling is None else "profiles"

    def __post_init__(self) -> None:
        check_work_id("id", self.id)
        checks.in_range("share", self.share, 0.0, 1.0, low_open=True)
        checks.in_range("cpu_s", self.cpu_s, 0.0, 1e9)
        checks.in_range("place", self.place, 0, 1000)
        for digest, size in self.blobs.items():
            check_digest("blobs", digest)
            checks.in_range(f"blobs.{digest}", size, 0, LARGEST_WORK)
        checks.in_range("blobs", sum(self.blobs.values()), 0, LARGEST_WORK)
        if self.labelling is not None:
            if self.profiling is not None:
                raise InvalidValue("profiling", "trials", "none in a work of labels")
            for digest in self.labelling.pictures:
                checks.one_of("labelling.pictures", digest, self.blobs)
        for name, digest in (("parent", self.parent), ("download", self.download)):
            needed = name == "parent" and self.labelling is None
            if digest not in self.blobs and (needed or digest != ""):
                raise InvalidValue(name, digest, "one of blobs")


@dataclass(frozen=True)
class LentState:
    """How far a lent work is. `cpu_s`: device seconds there times the lender's `units`. `digest`: of the result, once
    it is `done`, with the `size` of its file; `train_frames` were trained on."""

    phase: LentPhase
    fault: LentFault | None = None
    why: str = ""
    fraction: float = 0.0
    cpu_s: float = 0.0
    digest: str = ""
    size: int = 0
    train_frames: int = 0

    def __post_init__(self) -> None:
        checks.in_range("fraction", self.fraction, 0.0, 1.0)
        checks.in_range("cpu_s", self.cpu_s, 0.0, 1e9)


@dataclass(frozen=True)
class LendingOffers:
    """The offers of other boxes, as this box's agent heard last."""

    offers: tuple[LendingOffer, ...] = ()


@dataclass(frozen=True)
class LentHere:
    """A work that this box does for `box`: its camera there, the share that it has now, the part that is done."""

    box: str
    camera: str
    share: float
    fraction: float
    kind: LentKind = "retraining"


@dataclass(frozen=True)
class BorrowedThere:
    """A work for this box's camera that `box` does, and the part that is done (0-1)."""

    box: str
    camera: str
    phase: LentPhase
    fraction: float
    kind: LentKind = "retraining"


@dataclass
class LendingCounts:
    """Since the appliance's start: retrainings lent and borrowed that ended well, profiles, and labelled pictures;
    device seconds of this box's work for others and of others for this box (in seconds of this box's device), borrowed
    works that failed by fault."""

    lent: int = 0
    borrowed: int = 0
    lent_profiles: int = 0
    borrowed_profiles: int = 0
    lent_labels: int = 0
    borrowed_labels: int = 0
    lent_device_s: float = 0.0
    borrowed_device_s: float = 0.0
    failures: dict[LentFault, int] = field(default_factory=dict)
