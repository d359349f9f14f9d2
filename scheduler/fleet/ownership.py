"""Which box answers which camera. Values in, values out: reports of boxes and an agreement become the next agreement;
an agreement and what a box holds become the box's work.

- A camera has one owner in force: the one with the highest epoch (term of the head, then a count).
- A move makes before it breaks: the `previous` owner goes on until the new one has `answered`.
- A box's silence moves nothing before its lease is over. It may go on answering all the time: no head stops it. It
  stops its copy when it learns of a higher epoch that answers.
- A camera that an operator removed is remembered with its epoch, so that an older copy does not bring it back.
- A box's word about an epoch that the head did not give is taken only where a head before it could have given it: of a
  term from the agreement's to the head's own, which is not over yet. A box that comes back later with such an epoch is
  outranked: the owner gets a higher one, and the box stops its copy. So a box cannot claim a camera.
- Every box adds cameras of its own; the head takes them up. Until the box has heard of that (its camera has itself as
  `previous`) the camera is not given away: the box would not know that its copy is an older one.
- A camera whose id another box has already is left alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from edge.core.fleet import BoxStatus
from edge.core.fleet_links import (
    AgreementVersion,
    CameraEpoch,
    CameraOnBox,
    FleetAgreement,
    FleetCamera,
    FleetMember,
    Unplaced,
)

#: A new owner that does not answer within so long gives the camera back, if the previous one still answers it.
START_S: Final = 30.0


@dataclass(frozen=True)
class BoxReport:
    """A box as the head sees it. `refused`: cameras that it could not start lately."""

    state: BoxStatus
    cameras: tuple[CameraOnBox, ...] = ()
    refused: frozenset[str] = frozenset()
    gone: tuple[tuple[str, CameraEpoch], ...] = ()

    def camera(self, name: str) -> CameraOnBox | None:
        """A camera on the box."""
        return next((c for c in self.cameras if c.id == name), None)


@dataclass(frozen=True)
class BoxOffer:
    """The answer of a box's own admission: whether a camera fits, and the change of the sum of accuracies (None: not
    known). `beside`: the cameras that were on their way to the box, and were counted."""

    admitted: bool
    gain: float | None = None
    beside: frozenset[str] = frozenset()

    def holds(self, coming: Set[str]) -> bool:
        """Whether it answers for a box to which these cameras are coming: with fewer than were counted a camera still
        fits, with more it still does not."""
        return self.beside >= coming if self.admitted else self.beside <= coming


@dataclass(frozen=True)
class OwnershipView:
    """The knowledge of a head of `term` at `now_s` of its clock. `given_s`: when each camera was given to its owner, as
    far as this head did it. `offers` by camera and box; a pair that was not asked is absent."""

    term: int
    now_s: float
    boxes: Mapping[str, BoxReport]
    given_s: Mapping[str, float] = field(default_factory=dict)
    offers: Mapping[tuple[str, str], BoxOffer] = field(default_factory=dict)

    def state(self, box: str | None) -> BoxStatus:
        """A box that is not known is lost."""
        report = None if box is None else self.boxes.get(box)
        return "lost" if report is None else report.state

    def answers(self, box: str | None, camera: str) -> bool:
        """Whether a box that is heard answers a camera."""
        found = self._on_box(box, camera)
        return found is not None and found.answering

    def has(self, box: str | None, camera: str) -> bool:
        """Whether a box that is heard has a camera."""
        return self._on_box(box, camera) is not None

    def _on_box(self, box: str | None, camera: str) -> CameraOnBox | None:
        report = None if box is None else self.boxes.get(box)
        return None if report is None or report.state == "lost" else report.camera(camera)


@dataclass(frozen=True)
class Ownership:
    """The next agreement (the same object: nothing changed), cameras without a box that answers them, cameras that
    cannot leave their drained box yet (`waiting`), and the questions to admission, (camera, box), whose answers are
    needed first."""

    agreement: FleetAgreement
    unplaced: Mapping[str, Unplaced] = field(default_factory=dict)
    waiting: Mapping[str, Unplaced] = field(default_factory=dict)
    ask: tuple[tuple[str, str], ...] = ()


def decide(agreement: FleetAgreement, view: OwnershipView) -> Ownership:
    """Take up the reports, give cameras that need another box to one, then go on with the drained boxes."""
    after = _take_up(agreement, view)
    after = _give_back(after, view)
    unplaced: dict[str, Unplaced] = {}
    waiting: dict[str, Unplaced] = {}
    ask: list[tuple[str, str]] = []
    given: Counter[str] = Counter()
    for camera in _to_move(after, view):
        place = _place(after, view, camera, given)
        ask += place.ask
        if place.box is not None:
            given[place.box] += 1
            after = _with(after, _given(camera, place.box, view.term))
        elif place.why is not None:
            unplaced[camera.id] = place.why
    for member in agreement.members:
        if not member.drained or view.state(member.name) != "open":
            continue
        under_way = any(c.previous == member.name and not c.answered for c in after.cameras)
        for camera in [c for c in after.cameras if c.owner == member.name and c.answered]:
            place = _place(after, view, camera, given, older=under_way)
            ask += place.ask
            if place.why is not None:
                waiting[camera.id] = place.why
            elif place.box is not None and not under_way:
                given[place.box] += 1
                after = _with(after, _given(camera, place.box, view.term))
                under_way = True
    if after is not agreement:
        after = replace(after, version=_next_version(agreement, view.term))
    return Ownership(after, unplaced, waiting, tuple(ask))


def coming_to(agreement: FleetAgreement, box: str) -> tuple[FleetCamera, ...]:
    """Cameras that were given to a box and that it does not answer yet."""
    return tuple(c for c in agreement.cameras if c.owner == box and not c.answered and c.previous != box)


def heard_out(agreement: FleetAgreement, term: int) -> FleetAgreement:
    """The agreement of a head of `term` that has heard every box that is there: the terms before its own are over, and
    no box reports an epoch that it does not know."""
    return replace(agreement, version=AgreementVersion(term, 1)) if agreement.version.term < term else agreement


def moved(agreement: FleetAgreement, camera: FleetCamera, box: str, term: int) -> FleetAgreement:
    """An operator's move of a camera that its owner answers."""
    return replace(_with(agreement, _given(camera, box, term)), version=_next_version(agreement, term))


def with_members(
    agreement: FleetAgreement, members: tuple[FleetMember, ...], term: int, revoked: str = ""
) -> FleetAgreement:
    """Other members. Cameras of a box that left are its own again; those of a box whose certificate is `revoked` stay,
    so that they are given to others."""
    names = {m.name for m in members}
    # Cameras of a box that was put out earlier may still wait for another one.
    left = {m.name for m in agreement.members} - names
    cameras = tuple(
        replace(c, previous=c.previous if c.previous in names else None)
        for c in agreement.cameras
        if revoked or c.owner not in left
    )
    serials = tuple(dict.fromkeys((*agreement.revoked, *([revoked] if revoked else []))))
    version = _next_version(agreement, term)
    return replace(agreement, version=version, members=members, cameras=cameras, revoked=serials)


def _next_version(agreement: FleetAgreement, term: int) -> AgreementVersion:
    number = agreement.version.number + 1 if agreement.version.term == term else 1
    return AgreementVersion(term, number)


# -- taking up reports


def _take_up(agreement: FleetAgreement, view: OwnershipView) -> FleetAgreement:
    cameras = {c.id: c for c in agreement.cameras}
    removed = dict(agreement.removed)
    since = agreement.version.term
    for box, report in sorted(view.boxes.items()):
        if report.state == "lost":
            continue
        for found in report.cameras:
            known = cameras.get(found.id)
            if known is None:
                new = _new_camera(removed.get(found.id), box, found, view.term)
            else:
                new = _taken_up(known, box, found, view, since)
            if new is not None and new != known:
                cameras[found.id] = new
                removed.pop(found.id, None)
        for name, epoch in report.gone:
            known = cameras.get(name)
            if known is not None and known.owner == box and known.epoch == epoch:
                del cameras[name]
                removed[name] = epoch
    after = replace(
        agreement, cameras=tuple(cameras[n] for n in sorted(cameras)), removed=tuple(sorted(removed.items()))
    )
    return agreement if after == agreement else after


def _new_camera(removed: CameraEpoch | None, box: str, found: CameraOnBox, term: int) -> FleetCamera | None:
    """A camera that is not in the agreement; None: it stays out."""
    if found.settings is None:
        return None
    if found.epoch is not None and (found.epoch.term > term or (removed is not None and found.epoch <= removed)):
        return None
    epoch = found.epoch or _next(removed, term)
    return FleetCamera(found.id, box, epoch, box, False, found.zone, dict(found.settings), found.digest, found.student)


def _taken_up(known: FleetCamera, box: str, found: CameraOnBox, view: OwnershipView, since: int) -> FleetCamera | None:
    """The camera as a box's report makes it; None: the report changes nothing. `since`: the agreement's term."""
    if found.epoch is None or found.epoch < known.epoch:
        return None
    if found.epoch > known.epoch:
        if found.epoch.term >= view.term:  # only this head gives epochs of its term, and it knows them all
            return None
        if found.epoch.term < since and view.state(known.owner) != "lost":
            # It was away while the fleet went on without it. It stops its copy: if the owner has none yet, after that.
            known = replace(known, epoch=_next(known.epoch, view.term))
            missing = not view.has(known.owner, found.id)
            return replace(known, answered=False, previous=known.previous or box) if missing else known
        known = replace(known, owner=box, epoch=found.epoch, previous=None, answered=found.answering)
    if known.owner != box:
        return None
    if found.settings is not None and found.digest != known.digest:
        known = replace(known, settings=dict(found.settings), digest=found.digest)
    if not known.answered and (found.answering or known.previous == box):
        known = replace(known, answered=True, previous=None)
    return replace(known, student=found.student or known.student, zone=found.zone or known.zone)


def _give_back(agreement: FleetAgreement, view: OwnershipView) -> FleetAgreement:
    """A camera that its new owner does not begin to answer goes back to the previous one, if that one answers it. If
    neither does the fault is the camera's, and the move is over."""
    for camera in agreement.cameras:
        late = view.now_s - view.given_s.get(camera.id, view.now_s) > START_S
        failed = _failed(camera, view)
        if camera.answered or camera.previous in (None, camera.owner) or not (late or failed):
            continue
        if view.answers(camera.previous, camera.id):
            epoch = _next(camera.epoch, view.term)
            back = replace(camera, owner=camera.previous, previous=None, epoch=epoch, answered=True)
            agreement = _with(agreement, back)
        elif not failed and view.state(camera.previous) != "lost" and view.has(camera.owner, camera.id):
            agreement = _with(agreement, replace(camera, previous=None, answered=True))
    return agreement


# -- giving


def _failed(camera: FleetCamera, view: OwnershipView) -> bool:
    report = None if camera.owner is None else view.boxes.get(camera.owner)
    return view.state(camera.owner) == "lost" or (report is not None and camera.id in report.refused)


def _to_move(agreement: FleetAgreement, view: OwnershipView) -> list[FleetCamera]:
    """Cameras that need another box: their owner is lost, or could not start them."""
    known = [c for c in agreement.cameras if c.previous != c.owner]
    return [c for c in known if view.state(c.owner) == "lost" or (not c.answered and _failed(c, view))]


@dataclass(frozen=True)
class CameraPlace:
    """The box for a camera; or the questions to be asked first; or why there is none."""

    box: str | None = None
    ask: tuple[tuple[str, str], ...] = ()
    why: Unplaced | None = None


def _place(
    agreement: FleetAgreement,
    view: OwnershipView,
    camera: FleetCamera,
    given: Mapping[str, int],
    older: bool = False,
) -> CameraPlace:
    """`given`: by box, how many cameras it gets by this decision. `older`: answers that do not count cameras on their
    way will do."""
    boxes, why = _candidates(agreement, view, camera)
    offers = {box: view.offers[camera.id, box] for box in boxes if (camera.id, box) in view.offers}
    if not older:
        offers = {box: offer for box, offer in offers.items() if offer.holds(_coming(agreement, box, camera))}
    if unknown := tuple((camera.id, box) for box in boxes if box not in offers):
        return CameraPlace(ask=unknown)
    fitting = [box for box, offer in offers.items() if offer.admitted]
    if not fitting:
        sure = all(offer.holds(_coming(agreement, box, camera)) for box, offer in offers.items())
        return CameraPlace(why=None if not sure else "full" if boxes else why)
    return CameraPlace(min((given.get(box, 0), *_rank(offers[box]), box) for box in fitting)[-1])


def _coming(agreement: FleetAgreement, box: str, camera: FleetCamera) -> set[str]:
    return {c.id for c in coming_to(agreement, box)} - {camera.id}


def _candidates(agreement: FleetAgreement, view: OwnershipView, camera: FleetCamera) -> tuple[list[str], Unplaced]:
    """Boxes that may be asked, and why there is none."""
    others = [m for m in agreement.members if m.name != camera.owner and view.state(m.name) == "open"]
    steps: tuple[tuple[Unplaced, list[FleetMember]], ...] = (
        ("no_box", others),
        ("no_zone", near := [m for m in others if not camera.zone or camera.zone in m.zones]),
        ("drained", taking := [m for m in near if not m.drained]),
        ("refused", able := [m for m in taking if _may_start(view.boxes[m.name], camera.id)]),
    )
    return [m.name for m in able], next((why for why, left in steps if not left), "full")


def _may_start(report: BoxReport, camera: str) -> bool:
    """Not where it failed lately, and not where a camera of the box's own has the same id."""
    there = report.camera(camera)
    return camera not in report.refused and (there is None or there.epoch is not None)


def _rank(offer: BoxOffer) -> tuple[bool, float]:
    """A known gain first, the largest first."""
    return (offer.gain is None, -(offer.gain or 0.0))


def _given(camera: FleetCamera, box: str, term: int) -> FleetCamera:
    previous = camera.owner if camera.answered else camera.previous
    return replace(camera, owner=box, previous=previous, epoch=_next(camera.epoch, term), answered=False)


def _next(epoch: CameraEpoch | None, term: int) -> CameraEpoch:
    return CameraEpoch(term, epoch.number + 1) if epoch is not None and epoch.term == term else CameraEpoch(term, 1)


def _with(agreement: FleetAgreement, camera: FleetCamera) -> FleetAgreement:
    return replace(agreement, cameras=tuple(camera if c.id == camera.id else c for c in agreement.cameras))


# -- a box's own work

#: begun: it is being started, and may be there or not. held: the box answers it. stopped: another box answers it; a
#: site's file may bring the copy back.
HoldingState = Literal["begun", "held", "stopped"]


@dataclass(frozen=True)
class CameraHolding:
    """The epoch with which a box answers a camera for the fleet, and how far that is."""

    epoch: CameraEpoch
    state: HoldingState = "held"


@dataclass(frozen=True)
class StartCamera:
    """The box shall answer a camera. `again`: an older copy of it is there, with other settings."""

    camera: FleetCamera
    again: bool = False


@dataclass(frozen=True)
class StopCamera:
    """The box shall stop its copy: another box answers with the epoch `theirs`, or the camera was removed."""

    id: str
    ours: CameraEpoch
    theirs: CameraEpoch


@dataclass(frozen=True)
class HoldCamera:
    """The box answers the camera already; from now on with this epoch."""

    id: str
    epoch: CameraEpoch


@dataclass(frozen=True)
class CameraRemoved:
    """An operator removed the camera on this box."""

    id: str
    epoch: CameraEpoch


BoxWork = StartCamera | StopCamera | HoldCamera | CameraRemoved


def work_of_box(
    agreement: FleetAgreement, me: str, held: Mapping[str, CameraHolding], present: Mapping[str, str]
) -> tuple[BoxWork, ...]:
    """The work of a box. `held`: the cameras that it answers, or began to answer, for the fleet; `present`: the cameras
    that its appliance has, with the hash of their settings. A camera that was begun and is there counts as held: the
    box may have died before it wrote that down."""
    work: list[BoxWork] = []
    removed = dict(agreement.removed)
    for camera in agreement.cameras:
        mine = held.get(camera.id)
        if camera.owner == me:
            work += _as_owner(camera, mine, present)
        elif camera.id in present and mine is not None and mine.epoch < camera.epoch and _may_stop(camera, me):
            work.append(StopCamera(camera.id, mine.epoch, camera.epoch))
    known = {c.id for c in agreement.cameras}
    for name, mine in held.items():
        if name not in known and name in removed and name in present and mine.epoch <= removed[name]:
            work.append(StopCamera(name, mine.epoch, removed[name]))
    return tuple(work)


def _may_stop(camera: FleetCamera, me: str) -> bool:
    return camera.answered or camera.previous != me


def _as_owner(camera: FleetCamera, mine: CameraHolding | None, present: Mapping[str, str]) -> list[BoxWork]:
    held = mine is not None and mine.epoch == camera.epoch and mine.state == "held"
    if camera.id in present:
        if held:
            return []
        older = mine is not None and not camera.answered and present[camera.id] != camera.digest
        return [StartCamera(camera, again=True)] if older else [HoldCamera(camera.id, camera.epoch)]
    # A copy that was begun may never have been there, and one that was stopped was not removed by an operator.
    return [CameraRemoved(camera.id, camera.epoch)] if held else [StartCamera(camera)]
