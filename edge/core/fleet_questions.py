"""Questions of a user of one box to all boxes of its fleet: the wall, how the boxes are, alarms, objects, the journal,
the audit.

The box of the user sends the user's name, role and limits; each box applies them to what it has. A box of the version
before does not know the questions, and the asking box shows that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from edge.core.access import Role
from edge.core.fleet_links import API_VERSION

#: boxes: how each box is, its version, its shares and its lending.
FleetQuestionKind = Literal["wall", "boxes", "alarms", "objects", "events", "audit"]
#: answered. silent: no answer within the time, or its appliance is away. not_known: a box of another version that does
#: not know the question. refused: its site file, or the rights there, forbid it. too_long: more bytes than are taken.
#: failed: it could not answer, or this version cannot read its answer. not_asked: more boxes than are asked at once.
BoxOutcome = Literal["answered", "silent", "not_known", "refused", "too_long", "failed", "not_asked"]

#: Bounds of one question: boxes, bytes of one box's answer and of one picture, rows of one box; seconds for one box,
#: and for all of them together.
MOST_BOXES: Final = 64
MOST_BYTES: Final = 1 << 20
MOST_PICTURE: Final = 2 << 20
MOST_ROWS: Final = 200
BOX_S: Final = 3.0
ALL_S: Final = 4.0


@dataclass(frozen=True)
class FleetUser:
    """The user who asks, as the box of the user knows them: `cameras` and `tenants` None: all."""

    name: str
    role: Role
    cameras: tuple[str, ...] | None = None
    tenants: tuple[str, ...] | None = None


@dataclass(frozen=True)
class RowFilter:
    """Which rows, at most `limit`; `before`: only those with a lower id. Empty texts and None: any. `of_class`: of
    objects; `rule`: of alarms; `entry`: the kind of journal entries; `active`: alarms and objects that go on, or that
    have ended."""

    limit: int = 100
    before: int | None = None
    camera: str = ""
    rule: str = ""
    of_class: str = ""
    entry: str = ""
    active: bool | None = None


@dataclass(frozen=True)
class BoxQuestion:
    """A question to one box."""

    about: FleetQuestionKind
    asker: FleetUser
    rows: RowFilter = RowFilter()
    api: int = API_VERSION


@dataclass(frozen=True)
class FleetQuestion:
    """The appliance asks its agent to ask the other boxes. `before`: by box, the id below which its rows are wanted.
    `ended`: boxes that have no more rows."""

    question: BoxQuestion
    before: Mapping[str, int] = field(default_factory=dict)
    ended: tuple[str, ...] = ()
    api: int = API_VERSION


@dataclass(frozen=True)
class BoxReply:
    """The outcome of a question to one box: `answer` is its JSON (empty: none). `age_s`: how long ago the box last
    answered a question of this one (None: never since the agent began)."""

    box: str
    outcome: BoxOutcome
    age_s: float | None = None
    answer: str = ""


@dataclass(frozen=True)
class FleetReplies:
    """The other boxes, in the order of the agreement."""

    boxes: tuple[BoxReply, ...]
    api: int = API_VERSION


@dataclass(frozen=True)
class PictureQuestion:
    """The newest picture of a camera of `box`, `width` pixels wide."""

    box: str
    camera: str
    asker: FleetUser
    width: int = 640
    api: int = API_VERSION


def may_see(asker: FleetUser, camera: str) -> bool:
    """Whether a user may see a camera."""
    return asker.cameras is None or camera in asker.cameras
