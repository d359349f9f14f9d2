"""All boxes of a fleet as one: the wall, alarms, objects, the journal, the audit; and orders to the fleet."""

from __future__ import annotations

from edge.appliance.answers.access import AuditAnswer
from edge.appliance.answers.alarms import AlarmAnswer, ObjectAnswer
from edge.appliance.answers.events import JournalEntry
from edge.appliance.answers.fleet import CameraOverlapAnswer
from edge.appliance.answers.fleet_boxes import BoxNowAnswer
from edge.appliance.answers.marks import OfCamera, Shown, answer
from edge.core.camera import CameraFault, CameraState
from edge.core.fleet_links import FleetOrderKind
from edge.core.fleet_questions import BoxOutcome


@answer
class FleetOrderAnswer:
    """The order is under way: `cameras` that it moves. Of "invite": the join code, shown only here, the address of the
    agent that takes it, and its hours."""

    kind: FleetOrderKind
    box: str
    cameras: tuple[str, ...]
    code: str | None
    address: str | None
    hours: float | None


@answer
class CameraOnWall:
    """A camera as its box reports it."""

    camera: OfCamera[str]
    name: Shown[str]
    state: Shown[CameraState]
    fault: Shown[CameraFault | None]
    accuracy: Shown[float | None]
    fps: Shown[float]
    answers_per_s: Shown[float]


@answer
class BoxFoundAnswer:
    """The rows of a box for a user of another one; the lists that were not asked for are empty. `more`: there are older
    rows, with ids below `last`. `page`: its page's address as its settings name it (empty: they do not); else
    `page_port` on the box's machine (null: its page is reached on the machine only), `page_tls`: by https."""

    page: str
    page_port: int | None
    page_tls: bool
    more: bool
    last: int | None = None
    cameras: tuple[CameraOnWall, ...] = ()
    alarms: tuple[AlarmAnswer, ...] = ()
    objects: tuple[ObjectAnswer, ...] = ()
    events: tuple[JournalEntry, ...] = ()
    audit: tuple[AuditAnswer, ...] = ()
    overlaps: tuple[CameraOverlapAnswer, ...] = ()
    now: BoxNowAnswer | None = None


@answer
class AskedBoxAnswer:
    """A box that was asked, and what came of it: "answered"; "silent" (no answer in time); "not_known" (its version
    does not know the question); "refused"; "too_long"; "failed"; "not_asked" (more boxes than are asked at once).
    `age_s`: how long ago it last answered (null: never since this box's agent began). `page`: its page's address
    (empty: not known here)."""

    box: Shown[str]
    outcome: Shown[BoxOutcome]
    age_s: Shown[float | None]
    page: Shown[str]


@answer
class FleetWallCamera:
    """A camera of the fleet and the box that reported it. `state` null: the box did not answer, or (`box` null) no box
    has the camera; name and box are then as the fleet's list has them."""

    camera: OfCamera[str]
    name: Shown[str]
    box: Shown[str | None]
    state: Shown[CameraState | None]
    fault: Shown[CameraFault | None]
    accuracy: Shown[float | None]
    fps: Shown[float]
    answers_per_s: Shown[float]


@answer
class FleetWallAnswer:
    """The cameras of all boxes. `me`: this box."""

    me: Shown[str]
    boxes: Shown[tuple[AskedBoxAnswer, ...]]
    cameras: Shown[tuple[FleetWallCamera, ...]]


@answer
class FleetBoxNowAnswer:
    """How `box` is."""

    box: Shown[str]
    now: Shown[BoxNowAnswer]


@answer
class FleetBoxesAnswer:
    """How the boxes are that answered. `me`: this box."""

    me: Shown[str]
    boxes: Shown[tuple[AskedBoxAnswer, ...]]
    rows: Shown[tuple[FleetBoxNowAnswer, ...]]


@answer
class FleetAlarmAnswer:
    """An alarm of `box`. `also_on`: boxes that raised it, too, while two boxes answered its camera."""

    box: Shown[str]
    also_on: Shown[tuple[str, ...]]
    alarm: Shown[AlarmAnswer]


@answer
class FleetAlarmsAnswer:
    """A page of the alarms of all boxes, newest first. `next`: the cursor of the next page; null: there is none."""

    boxes: Shown[tuple[AskedBoxAnswer, ...]]
    rows: Shown[tuple[FleetAlarmAnswer, ...]]
    next: Shown[str | None]


@answer
class FleetObjectAnswer:
    """An object that `box` followed."""

    box: Shown[str]
    found: Shown[ObjectAnswer]


@answer
class FleetObjectsAnswer:
    """A page of the objects of all boxes, newest first. `next` as of alarms."""

    boxes: Shown[tuple[AskedBoxAnswer, ...]]
    rows: Shown[tuple[FleetObjectAnswer, ...]]
    next: Shown[str | None]


@answer
class FleetEventAnswer:
    """An entry of the journal of `box`."""

    box: Shown[str]
    entry: Shown[JournalEntry]


@answer
class FleetEventsAnswer:
    """A page of the journals of all boxes, newest first. `next` as of alarms."""

    boxes: Shown[tuple[AskedBoxAnswer, ...]]
    rows: Shown[tuple[FleetEventAnswer, ...]]
    next: Shown[str | None]


@answer
class FleetChangeAnswer:
    """A change that `box` recorded."""

    box: str
    change: AuditAnswer


@answer
class FleetAuditAnswer:
    """A page of the audits of all boxes, newest first. `next` as of alarms."""

    boxes: tuple[AskedBoxAnswer, ...]
    rows: tuple[FleetChangeAnswer, ...]
    next: str | None
