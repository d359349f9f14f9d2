"""The fleet as this box's agent reported it last."""

from __future__ import annotations

from collections.abc import Mapping

from edge.appliance.answers.marks import OfCamera, Shown, answer
from edge.core.box_groups import BoxGroupFault, SharedBy
from edge.core.fleet import BoxStatus
from edge.core.fleet_links import RefusedBy, Unplaced
from edge.core.lending import LentFault, LentKind, LentPhase


@answer
class FleetBoxAnswer:
    """A box of the fleet. `status` from the head's last answer (null: there was none yet); `cameras`: how many it owns.
    `decides`: it may become the head. `other_version`: it and this box do not understand each other, as their versions
    are too far apart."""

    name: Shown[str]
    address: Shown[str]
    status: Shown[BoxStatus | None]
    head: Shown[bool]
    decides: Shown[bool]
    drained: Shown[bool]
    zones: Shown[tuple[str, ...]]
    cameras: Shown[int]
    other_version: Shown[bool]


@answer
class FleetCameraAnswer:
    """A camera of the fleet and the box that answers it (`owner`); until it does (`answered`), `previous` goes on.
    `unplaced`: why no box answers it. `waiting`: why it cannot leave its drained box yet. `cannot`: why this box could
    not start it."""

    camera: OfCamera[str]
    owner: Shown[str | None]
    previous: Shown[str | None]
    answered: Shown[bool]
    zone: Shown[str]
    unplaced: Shown[Unplaced | None]
    waiting: Shown[Unplaced | None]
    cannot: Shown[str]


@answer
class CameraOverlapAnswer:
    """Two boxes answered a camera, this one until `end_utc_s`: events of that time may be there twice."""

    camera: OfCamera[str]
    start_utc_s: Shown[float]
    end_utc_s: Shown[float]


@answer
class LentHereAnswer:
    """A work that this box does for `box`, of a `kind`: a retraining of its `camera`, trials of its configurations
    ("profiles") or labels for its pictures, at `share` of its device; `fraction` of it is done (0-1; of trials it is
    not known)."""

    box: Shown[str]
    camera: OfCamera[str]
    share: Shown[float]
    fraction: Shown[float]
    kind: Shown[LentKind]


@answer
class BorrowedAnswer:
    """A work for this box's `camera` that `box` does, of a `kind` as in LentHereAnswer; `fraction` of it is done (0-1;
    of trials it is not known)."""

    box: Shown[str]
    camera: OfCamera[str]
    phase: Shown[LentPhase]
    fraction: Shown[float]
    kind: Shown[LentKind]


@answer
class SharingBoxAnswer:
    """Another box as it was heard last: whether it shares pictures."""

    box: Shown[str]
    shared: Shown[SharedBy]


@answer
class GroupCameraAnswer:
    """A `camera` of `box` in a group over boxes that this box is in; the groups are numbered. The box `trainer` trains
    it. `here`: its labelled pictures are on this box."""

    group: Shown[int]
    trainer: Shown[str]
    box: Shown[str]
    camera: OfCamera[str]
    here: Shown[bool]


@answer
class BoxGroupsAnswer:
    """Groups of cameras over boxes. `share` false: this box shares no pictures, and is in none. Since its start:
    retrainings here that pictures of other boxes taught, students of other boxes' groups that came into force here
    (`taken`) or not (`refused`), and what failed, by fault."""

    share: Shown[bool]
    boxes: Shown[tuple[SharingBoxAnswer, ...]]
    cameras: Shown[tuple[GroupCameraAnswer, ...]]
    trained: Shown[int]
    taken: Shown[int]
    refused: Shown[int]
    failures: Shown[Mapping[BoxGroupFault, int]]


@answer
class FleetLendingAnswer:
    """The lending of this box. `offered_share` (0-1) of its device may be borrowed now, at most `most_share`;
    `here` it does for others, `there` others do for it. Since its start: `lent` and `borrowed` retrainings that ended
    well, profiles, and labelled pictures; their work in seconds of this box's device; borrowed ones that failed, by
    fault. `groups`: those over boxes."""

    lend: Shown[bool]
    borrow: Shown[bool]
    most_share: Shown[float]
    offered_share: Shown[float]
    here: Shown[tuple[LentHereAnswer, ...]]
    there: Shown[tuple[BorrowedAnswer, ...]]
    lent: Shown[int]
    borrowed: Shown[int]
    lent_profiles: Shown[int]
    borrowed_profiles: Shown[int]
    lent_labels: Shown[int]
    borrowed_labels: Shown[int]
    lent_device_s: Shown[float]
    borrowed_device_s: Shown[float]
    failures: Shown[Mapping[LentFault, int]]
    groups: Shown[BoxGroupsAnswer]


@answer
class FleetAnswer:
    """The fleet as this box, `me`, knows it. `joined` false: the box is in none (`me` empty: the site file has no
    section `fleet`). `agent` false: its agent does not run, and the rest is as it reported last, at
    `reported_utc_s` (null: never). `head` null: none is known; `mandate`: whether this box as the head hears enough
    boxes to decide (null: it is not the head). `refused` counts connections and messages that this box refused
    since its agent began."""

    joined: Shown[bool]
    agent: Shown[bool]
    me: Shown[str]
    reported_utc_s: Shown[float | None]
    head: Shown[str | None]
    mandate: Shown[bool | None]
    boxes: Shown[tuple[FleetBoxAnswer, ...]]
    cameras: Shown[tuple[FleetCameraAnswer, ...]]
    overlaps: Shown[tuple[CameraOverlapAnswer, ...]]
    refused: Shown[Mapping[RefusedBy, int]]
    lending: Shown[FleetLendingAnswer]
