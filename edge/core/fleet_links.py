"""Messages between the boxes of a fleet, and the agreement that they share.

Every message has the version of the agents' API. A box talks to boxes of its own version, of the one before and of the
one after: fields that a message lacks have their defaults, fields that are not known are left out. No time in a message
is a time of day: clocks of two boxes are never compared. Durations are in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from edge.core import checks
from edge.core.box_groups import MOST_CAMERAS, GroupStudent, SharedCamera
from edge.core.errors import Conflict
from edge.core.fleet import BoxStatus, FleetRules
from edge.core.lending import LendingOffer, LentState, LentWork

#: Of the agents' API. A new one comes with each change that the version before would misunderstand.
API_VERSION: Final = 1
#: Of the agents. Their lease is shorter than that of lent work: a camera shall be answered elsewhere within 20 s of its
#: box's loss, and to start it there takes up to 8 s.
LINK_RULES: Final = FleetRules(beat_s=1.0, missed_beats=3, lease_s=9.0, fence_margin_s=1.0)


class OtherVersion(Conflict):
    """A message of a version of the agents' API that this box does not understand."""

    code = "other_version"


def check_api(version: int) -> None:
    """Raises OtherVersion for a message of a version that this box does not understand."""
    if abs(version - API_VERSION) > 1:
        raise OtherVersion(
            f"the other box speaks version {version} of the fleet's API, this one {API_VERSION}",
            "upgrade boxes one version at a time",
        )


#: Why a camera has no other box that answers it: every other box is away (`no_box`), out of reach (`no_zone`), drained
#: (`drained`), full (`full`), or could not start it (`refused`).
Unplaced = Literal["no_box", "no_zone", "drained", "full", "refused"]
#: Why a connection or a message was refused: its key is of another authority (`stranger`), it has none (`no_key`), is
#: of a box that was put out (`revoked`) or is no member (`no_member`), or it speaks for another box (`wrong_box`); a
#: join code that is unknown (`bad_code`), was used (`used_code`) or is too old (`old_code`); no TLS at all (`no_tls`),
#: or not in time (`too_slow`); too many connections that have shown no certificate are open (`too_many`). A member's
#: message of a version of the API that is too far from this box's (`other_version`).
RefusedBy = Literal[
    "stranger",
    "no_key",
    "revoked",
    "no_member",
    "wrong_box",
    "bad_code",
    "used_code",
    "old_code",
    "no_tls",
    "too_slow",
    "too_many",
    "other_version",
]


@dataclass(frozen=True, order=True)
class CameraEpoch:
    """Counts the owners of a camera: the higher one is in force. `term` is that of the head that gave it, so two heads
    never give the same."""

    term: int = 0
    number: int = 0


@dataclass(frozen=True, order=True)
class AgreementVersion:
    """Of the agreement: by the term of the head that made it, then by its own count."""

    term: int = 0
    number: int = 0


@dataclass(frozen=True)
class FleetMember:
    """One box of the fleet: the agent's `address` (https://HOST:PORT), the zones that it reaches. `rank`: its place
    among the boxes that may decide, 0 first; None: it never decides. `serial`: of its certificate (hexadecimal).
    `drained`: it takes no cameras."""

    name: str
    address: str
    rank: int | None = None
    serial: str = ""
    zones: tuple[str, ...] = ()
    drained: bool = False


@dataclass(frozen=True)
class FleetCamera:
    """A camera of the fleet. `owner` answers it (None: no box does); while the owner has not `answered`, `previous`
    goes on. A camera whose box does not know yet that the fleet has taken it up has that box as `previous`, too.
    `settings` are those of the appliance's REST without the weights' file, `digest` their hash, `student` the SHA-256
    of the student in force (empty: none is known). `zone`: boxes of it reach the camera; empty: all do."""

    id: str
    owner: str | None
    epoch: CameraEpoch
    previous: str | None = None
    answered: bool = False
    zone: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    student: str = ""


@dataclass(frozen=True)
class FleetAgreement:
    """All that the boxes agree on; the head makes it, every box keeps the last one. `removed`: cameras that an operator
    removed, with the epoch then. `revoked`: serial numbers (hexadecimal) of certificates that are refused."""

    version: AgreementVersion = AgreementVersion()
    members: tuple[FleetMember, ...] = ()
    cameras: tuple[FleetCamera, ...] = ()
    removed: tuple[tuple[str, CameraEpoch], ...] = ()
    revoked: tuple[str, ...] = ()

    def member(self, name: str) -> FleetMember | None:
        """A box by its name."""
        return next((m for m in self.members if m.name == name), None)

    def camera(self, name: str) -> FleetCamera | None:
        """A camera by its id."""
        return next((c for c in self.cameras if c.id == name), None)

    def candidates(self) -> tuple[str, ...]:
        """The boxes that may decide, the first one first."""
        return tuple(m.name for m in sorted(self.members, key=lambda m: (m.rank or 0, m.name)) if m.rank is not None)

    def voters(self) -> tuple[str, ...]:
        """All boxes."""
        return tuple(m.name for m in self.members)


@dataclass(frozen=True)
class CameraOnBox:
    """A camera on a box. `epoch` None: the box's own, not taken up by the fleet yet. `settings` are there where the
    agreement has others (by `digest`)."""

    id: str
    epoch: CameraEpoch | None
    answering: bool
    digest: str = ""
    student: str = ""
    zone: str = ""
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class CameraRefusal:
    """A box could not start a camera that it was given."""

    id: str
    epoch: CameraEpoch
    why: str


@dataclass(frozen=True)
class FleetBeat:
    """A box reports to the head every second that it lives. `boot`: of this run of its agent. `echo`: the number of the
    head's answer that it had last, in `term`. `appliance`: its appliance answered within the lease, the last time
    `age_s` ago, so `cameras` is all that it had then. `gone`: cameras that an operator removed there.
    `open_jobs`: jobs that it keeps since it was the head, and that are not over. `amounts` (for jobs) and
    `labels` as in its site file; `node`: that of a Kubernetes cluster that it is (empty: none)."""

    sender: str
    term: int
    boot: str
    echo: int = 0
    agreement: AgreementVersion = AgreementVersion()
    appliance: bool = True
    cameras: tuple[CameraOnBox, ...] = ()
    refused: tuple[CameraRefusal, ...] = ()
    gone: tuple[tuple[str, CameraEpoch], ...] = ()
    release: str = ""
    age_s: float = 0.0
    open_jobs: int = 0
    amounts: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    api: int = API_VERSION


@dataclass(frozen=True)
class BeatAnswer:
    """The head's answer number `number` in `term`; a box that is no head names the `head` that it knows. `agreement` is
    there where the box has another. `answered_for_s`: by camera, for how long its owner in force has answered, as far
    as this head saw it. `boxes`: the state of each box by name; `unplaced`: by camera, why no box answers it;
    `waiting`: by camera, why it cannot leave its drained box yet. `open_jobs`: jobs that the head keeps and that are
    not over; `engine_at`: where its part of their engine listens (HOST:PORT; empty: others have no part)."""

    sender: str
    term: int
    head: str | None
    number: int = 0
    agreement: FleetAgreement | None = None
    answered_for_s: Mapping[str, float] = field(default_factory=dict)
    boxes: Mapping[str, BoxStatus] = field(default_factory=dict)
    unplaced: Mapping[str, Unplaced] = field(default_factory=dict)
    waiting: Mapping[str, Unplaced] = field(default_factory=dict)
    open_jobs: int = 0
    engine_at: str = ""
    api: int = API_VERSION


@dataclass(frozen=True)
class VoteRequest:
    """A candidate asks for a box's vote in `term`. `trial`: it asks whether it would get it; nothing is promised."""

    candidate: str
    term: int
    trial: bool = False
    api: int = API_VERSION


@dataclass(frozen=True)
class VoteAnswer:
    """A box's vote; `term` is the highest that it knows. `agreement`: its own, so that a new head knows the newest."""

    voter: str
    term: int
    granted: bool
    trial: bool = False
    agreement: FleetAgreement | None = None
    api: int = API_VERSION


#: An appliance counts so many coming cameras at most.
MOST_COMING: Final = 100


@dataclass(frozen=True)
class AdmissionAsk:
    """Would these cameras fit on a box? `coming`: cameras that were given to it and that it may not have started yet;
    they count as if it had."""

    cameras: tuple[FleetCamera, ...]
    coming: tuple[FleetCamera, ...] = ()
    api: int = API_VERSION


@dataclass(frozen=True)
class BoxAdmissionAnswer:
    """For each camera that would fit: the sum of the accuracies (each 0-1) of all cameras of the box with it; `now`:
    the sum without any. `why`: for each that would not."""

    now: float
    accuracy: Mapping[str, float] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    api: int = API_VERSION


@dataclass(frozen=True)
class JoinAsk:
    """A box asks to be let in: the join code's secret, its name and address, and a certificate request (PEM).
    `decides`: it may become the head."""

    secret: str
    name: str
    address: str
    request: str
    decides: bool = True
    zones: tuple[str, ...] = ()
    api: int = API_VERSION


@dataclass(frozen=True)
class JoinAnswer:
    """The box's certificate and the authority's (PEM), and the agreement with the box in it. `authority_key`: for a box
    that may decide, so that it can let boxes in, too."""

    certificate: str
    authority: str
    agreement: FleetAgreement
    term: int
    head: str
    authority_key: str = ""
    api: int = API_VERSION


#: drain: move all cameras off a box, and give it none; undrain: let it take cameras again; move: one camera to a box;
#: leave: the box leaves the fleet, its cameras stay on it; revoke: a box is put out, its certificate is refused;
#: invite: the head makes a join code (`box`: the one that asks for it).
FleetOrderKind = Literal["drain", "undrain", "move", "leave", "revoke", "invite"]
#: A join code is good for so many hours at most, and for so many where the order names none.
MOST_HOURS: Final = 720.0
HOURS: Final = 24.0


@dataclass(frozen=True)
class FleetOrder:
    """An operator's order to the head. `by`: the user who gave it by REST (empty: the command). `hours`: of an
    `invite`, for so long the code is good."""

    kind: FleetOrderKind
    box: str
    camera: str = ""
    by: str = ""
    hours: float = HOURS
    api: int = API_VERSION


@dataclass(frozen=True)
class OrderAnswer:
    """The order is under way: `cameras` that it moves. Of an `invite`: the join code, the address of the agent that
    takes it, and its hours."""

    kind: FleetOrderKind
    box: str
    cameras: tuple[str, ...] = ()
    code: str = ""
    address: str = ""
    hours: float = 0.0
    api: int = API_VERSION


@dataclass(frozen=True)
class LendingAsk:
    """A box asks another one for its offer."""

    api: int = API_VERSION


@dataclass(frozen=True)
class LendingAnswer:
    """None: nothing."""

    offer: LendingOffer | None
    api: int = API_VERSION


@dataclass(frozen=True)
class LentAsk:
    """A box asks another one to do a retraining; asked again, it is the same one."""

    work: LentWork
    api: int = API_VERSION


@dataclass(frozen=True)
class LentQuery:
    """How far is a retraining that the sender asked for? `cancel`: the sender waits for it no longer."""

    id: str
    cancel: bool = False
    api: int = API_VERSION


@dataclass(frozen=True)
class LentAnswer:
    """How far a retraining is."""

    state: LentState
    api: int = API_VERSION


@dataclass(frozen=True)
class GroupsAsk:
    """A box asks another one whose pictures it shares, and for the students that it has for the asking box."""

    api: int = API_VERSION


@dataclass(frozen=True)
class GroupsAnswer:
    """The cameras whose pictures are shared, and the students for the box that asked."""

    cameras: tuple[SharedCamera, ...] = ()
    students: tuple[GroupStudent, ...] = ()
    api: int = API_VERSION

    def __post_init__(self) -> None:
        checks.in_range("cameras", len(self.cameras), 0, MOST_CAMERAS)
        checks.in_range("students", len(self.students), 0, MOST_CAMERAS)


@dataclass(frozen=True)
class CameraOverlap:
    """Two boxes answered a camera: this one with the epoch `ours` until `end_utc_s`, another one with `theirs` since
    about `start_utc_s` (by this box's clock). Events of that time may be there twice."""

    camera: str
    ours: CameraEpoch
    theirs: CameraEpoch
    start_utc_s: float
    end_utc_s: float


@dataclass(frozen=True)
class FleetStatus:
    """The fleet as one box knows it, written at `utc_s`. `me` is this box, `mandate` whether a head has heard a quorum
    (None: this box is not the head). `boxes`, `unplaced` and `waiting` from the head's last answer; `refused` counts
    since the agent's start. `other_version`: members whose version of the API is too far from this box's."""

    me: str
    utc_s: float
    term: int
    head: str | None
    mandate: bool | None
    appliance: bool
    agreement: FleetAgreement
    boxes: Mapping[str, BoxStatus] = field(default_factory=dict)
    unplaced: Mapping[str, Unplaced] = field(default_factory=dict)
    refused: Mapping[RefusedBy, int] = field(default_factory=dict)
    cannot: tuple[CameraRefusal, ...] = ()
    overlaps: tuple[CameraOverlap, ...] = ()
    waiting: Mapping[str, Unplaced] = field(default_factory=dict)
    other_version: tuple[str, ...] = ()
    api: int = API_VERSION
