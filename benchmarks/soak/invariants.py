"""What must hold all the time: each invariant is a function of what was seen. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from benchmarks.soak.schedule import CALM_S, KINDS, FaultName, Stopped
from benchmarks.soak.values import (
    BoxSeen,
    Break,
    Checked,
    EventKept,
    FaultDone,
    Gap,
    Heard,
    InForce,
    ProcessSample,
    RequestTotal,
)

#: Messages of so long before a kill of the whole appliance may be lost, as docs/outputs.md says.
UNWRITTEN_S = 1.0
#: A look and the counters behind it are of slightly different instants.
_LOOK_S = 3.0
#: Requests between the counters of arrivals and those of ends, beside those in the queue and under work.
_UNDER_WAY = 64


# -- answers back within bounds


def gaps(times: Mapping[str, Sequence[float]], began_s: float, ended_s: float) -> tuple[Gap, ...]:
    """All times between two answers in a row, for each subject = its answers' times in order; the first and the last
    reach to the beginning and the end of the watch."""
    made = []
    for subject, found in times.items():
        inside = [t for t in found if began_s <= t <= ended_s]
        made += [Gap(subject, a, b) for a, b in pairwise([began_s, *inside, ended_s])]
    return tuple(made)


def touches(fault: FaultDone, subject: str) -> bool:
    """Whether the fault may stop this subject's answers."""
    kind, _, name = subject.partition(" ")
    stops = KINDS[fault.fault].stops
    wanted: dict[str, Stopped] = {"camera": "cameras", "model": "models", "page": "page"}
    return wanted[kind] in stops or ("camera" in stops and kind == "camera" and name == fault.camera)


def met_by(gap: Gap, fault: FaultDone) -> bool:
    """Whether the fault may be the reason of the gap: it may stop the subject, and lasted, or was to be over, within
    it."""
    late_s = fault.ended_s + KINDS[fault.fault].back_s
    return fault.tried and touches(fault, gap.subject) and fault.began_s <= gap.to_s and gap.from_s <= late_s


def bound_s(gap: Gap, faults: Iterable[FaultDone]) -> float:
    """How long this gap may be: CALM_S, or to `back_s` after the end of the last fault that it meets and that may stop
    the subject."""
    met = [f.ended_s + KINDS[f.fault].back_s for f in faults if met_by(gap, f)]
    return max([CALM_S, *(until_s - gap.from_s for until_s in met)])


def answers_back(found: Sequence[Gap], faults: Sequence[FaultDone]) -> Checked:
    """No gap is longer than its bound."""
    breaks = []
    for gap in found:
        allowed_s = bound_s(gap, faults) if gap.length_s > CALM_S else CALM_S
        if gap.length_s > allowed_s:
            said = f"{gap.subject}: {gap.length_s:.1f} s without an answer, {allowed_s:.1f} s are allowed"
            breaks.append(Break("answers_back", gap.from_s, said))
    return Checked("answers_back", len(found), tuple(breaks))


# -- nothing promoted is lost


def models_kept(looks: Sequence[BoxSeen], entries: Sequence[InForce]) -> Checked:
    """A camera's version in force changes only to one that a journal entry put in force: never back by itself, also not
    over a restart."""
    allowed = {(e.camera, e.version) for e in entries}
    breaks, checks = [], 0
    for before, after in pairwise(looks):
        for camera, version in after.models.items():
            if camera not in before.models:
                continue
            checks += 1
            if version != before.models[camera] and (camera, version) not in allowed:
                said = f"{camera}: {before.models[camera]} was in force, now {version}, and no journal entry says so"
                breaks.append(Break("models_kept", after.at_s, said))
    return Checked("models_kept", checks, tuple(breaks))


def promotions_in_force(final: Mapping[str, str], entries: Sequence[InForce]) -> Checked:
    """At the end the version of a camera's last journal entry is in force."""
    last = {e.camera: e for e in sorted(entries, key=lambda e: e.entry)}
    breaks = [
        Break("promotions_in_force", 0.0, f"{camera}: {entry.version} was put in force last, {final.get(camera)} is")
        for camera, entry in last.items()
        if final.get(camera) != entry.version
    ]
    return Checked("promotions_in_force", len(last), tuple(breaks))


# -- every event is delivered


def events_delivered(
    kept: Sequence[EventKept], heard: Sequence[Heard], destinations: Sequence[str], kills_utc_s: Sequence[float]
) -> Checked:
    """Whatever there is a record of was heard at each destination: its beginning, and its end if it has ended. Left out
    are those whose record was written in the last second before a kill of the whole appliance."""
    known = {(h.destination, h.what, h.number, h.phase) for h in heard}
    breaks, checks = [], 0
    for event in kept:
        if any(kill - UNWRITTEN_S <= event.utc_s <= kill for kill in kills_utc_s):
            continue
        for destination in destinations:
            for phase in ("new", "end") if event.ended else ("new",):
                checks += 1
                if (destination, event.what, event.number, phase) not in known:
                    said = f"{event.what} {event.number}: its {phase} never came to {destination}"
                    breaks.append(Break("events_delivered", event.utc_s, said))
    return Checked("events_delivered", checks, tuple(breaks))


def events_once(heard: Sequence[Heard]) -> Checked:
    """No event comes as two messages. The same message again is allowed: its id says so."""
    ids: defaultdict[tuple[str, str, int, str], set[str]] = defaultdict(set)
    breaks = []
    for one in heard:
        if one.phase == "update":
            continue
        known = ids[one.destination, one.what, one.number, one.phase]
        if known and one.message not in known:
            said = f"{one.destination}: the {one.phase} of {one.what} {one.number} came as two messages"
            breaks.append(Break("events_once", one.at_s, said))
        known.add(one.message)
    return Checked("events_once", len(ids), tuple(breaks))


def sent_again(heard: Sequence[Heard]) -> int:
    """Messages that came more than once, with the same id."""
    return len(heard) - len({(h.destination, h.message) for h in heard})


def events_in_order(heard: Sequence[Heard]) -> Checked:
    """At each destination an object or alarm begins before it ends."""
    ended: set[tuple[str, str, int]] = set()
    begun: set[tuple[str, str, int]] = set()
    breaks = []
    for one in heard:
        key = (one.destination, one.what, one.number)
        if one.phase == "new" and key in ended and key not in begun:
            said = f"{one.destination}: the end of {one.what} {one.number} came before its beginning"
            breaks.append(Break("events_in_order", one.at_s, said))
        (ended if one.phase == "end" else begun).add(key)
    return Checked("events_in_order", len(begun | ended), tuple(breaks))


# -- every loss is counted

#: What must be seen of a fault while it lasts or until all is well: a counter that grows (its name begins so;
#: {camera} is the fault's), a reason of health, a complaint, or a camera's state.
TOLD: Mapping[FaultName, tuple[str, ...]] = {
    "kill_camera": ("counter magpie_worker_losses_total",),
    "kill_golden": ("counter magpie_worker_losses_total",),
    "kill_profiler": ("counter magpie_worker_losses_total",),
    "kill_retrain": ("counter magpie_worker_losses_total",),
    "kill_executor": ("counter magpie_worker_losses_total",),
    "kill_front": ("counter magpie_worker_losses_total",),
    "camera_gone": ("state {camera} reconnecting", "state {camera} stalled"),
    "camera_frozen": ("state {camera} stalled", "state {camera} reconnecting"),
    "camera_password": ("state {camera} refused",),
    "camera_damaged": ('counter magpie_camera_frames_dropped_total{{camera="{camera}",cause="damaged"',),
    "database_away": ("reason store",),
    "broker_away": ("down mqtt",),
    "receiver_away": ("down webhook",),
    "disk_full": ("reason disk", "complaint disk_full"),
}  # fmt: skip


def told(looks: Sequence[BoxSeen], faults: Sequence[FaultDone]) -> Checked:
    """The appliance tells of each fault that it can see (TOLD): one of its signs is seen."""
    breaks, checks = [], 0
    for fault in faults:
        if not fault.tried or fault.fault not in TOLD:
            continue
        until_s = fault.ended_s + KINDS[fault.fault].back_s
        before = [look for look in looks if look.at_s <= fault.began_s]
        during = [look for look in looks if fault.began_s < look.at_s <= until_s]
        if not before or not during:
            continue
        checks += 1
        signs = [sign.format(camera=fault.camera) for sign in TOLD[fault.fault]]
        if not any(_seen(sign, before[-1], during) for sign in signs):
            breaks.append(Break("told", fault.began_s, f"{fault.fault} {fault.camera}: none of {', '.join(signs)}"))
    return Checked("told", checks, tuple(breaks))


def _seen(sign: str, before: BoxSeen, during: Sequence[BoxSeen]) -> bool:
    what, _, name = sign.partition(" ")
    if what == "counter":
        return any(_sum(look, name) > _sum(before, name) for look in during if look.life == before.life)
    if what == "state":
        camera, _, state = name.partition(" ")
        return any(look.states.get(camera) == state for look in during)
    return any(f"{what} {name}" in look.reasons for look in during)


def _sum(look: BoxSeen, begins: str) -> float:
    return sum(value for name, value in look.counters.items() if name.startswith(begins))


def requests_add_up(totals: Sequence[RequestTotal]) -> Checked:
    """Of a served model's requests each was answered, dropped, rejected, failed or cancelled, or is inside."""
    breaks = []
    for t in totals:
        rest = t.arrived - t.answered - t.dropped - t.rejected - t.failed - t.cancelled
        if not -_UNDER_WAY <= rest - t.inside <= _UNDER_WAY:
            said = f"{t.model}: {rest} of {t.arrived} requests have no end, {t.inside} are inside"
            breaks.append(Break("requests_add_up", t.at_s, said))
    return Checked("requests_add_up", len(totals), tuple(breaks))


#: Losses that no fault of the schedule excuses: limits of queues are not reached, and memory bridges the time without a
#: database.
NEVER = ("magpie_journal_lost_total", "magpie_output_lost_total", "magpie_counts_lost_total")


def nothing_given_up(looks: Sequence[BoxSeen]) -> Checked:
    """Journal entries, messages and counts are never given up (NEVER)."""
    breaks = []
    worst: dict[tuple[int, str], float] = {}
    for look in looks:
        for name in NEVER:
            value = _sum(look, name)
            if value > worst.get((look.life, name), 0.0):
                worst[look.life, name] = value
                breaks.append(Break("nothing_given_up", look.at_s, f"{name} is {value:g}"))
    return Checked("nothing_given_up", len(looks) * len(NEVER), tuple(breaks))


def counters_grow(looks: Sequence[BoxSeen]) -> Checked:
    """In one life of the appliance its own counters never go back (those of workers begin anew with the worker)."""
    breaks, checks = [], 0
    for before, after in pairwise(looks):
        if before.life != after.life:
            continue
        for name in before.counters.keys() & after.counters.keys():
            if not name.startswith(("magpie_events_total", "magpie_worker_losses_total", "magpie_output_sent_total")):
                continue
            checks += 1
            if after.counters[name] < before.counters[name]:
                said = f"{name}: {before.counters[name]:g}, then {after.counters[name]:g}"
                breaks.append(Break("counters_grow", after.at_s, said))
    return Checked("counters_grow", checks, tuple(breaks))


# -- back to what it was


def well_again(looks: Sequence[BoxSeen], faults: Sequence[FaultDone], ended_s: float) -> Checked:
    """After each fault, within its bound, there is a look at which all cameras are live and health has no reason."""
    breaks, checks = [], 0
    for fault, following in zip(faults, [*faults[1:], None], strict=True):
        until_s = fault.ended_s + KINDS[fault.fault].back_s + _LOOK_S
        if not fault.tried or until_s > ended_s:
            continue
        end_s = until_s if following is None else max(until_s, following.began_s)
        checks += 1
        after = [look for look in looks if fault.ended_s < look.at_s <= end_s]
        if not any(set(look.states.values()) == {"live"} and not serious(look) for look in after):
            last = after[-1] if after else None
            said = "nothing was seen" if last is None else f"{dict(last.states)}, {sorted(last.reasons)}"
            breaks.append(Break("well_again", fault.ended_s, f"after {fault.fault} {fault.camera}: {said}"))
    return Checked("well_again", checks, tuple(breaks))


#: What health says of any box that has too much to do; no fault of the schedule is the reason.
_OF_LOAD = frozenset(("reason labels", "reason window_too_short", "reason floor_unreachable"))


def serious(look: BoxSeen) -> frozenset[str]:
    """Reasons of health that a fault leaves, and outputs that are away. Complaints are kept for a while after their
    reason is gone."""
    return frozenset(r for r in look.reasons if r.startswith(("reason ", "down "))) - _OF_LOAD


# -- flat


def disk_within(sizes: Sequence[tuple[float, float]], limit_mb: float) -> Checked:
    """The data folder stays within the limits of its settings: (seconds, MB)."""
    breaks = [
        Break("disk_within", at_s, f"{mb:.0f} MB, {limit_mb:.0f} are allowed") for at_s, mb in sizes if mb > limit_mb
    ]
    return Checked("disk_within", len(sizes), tuple(breaks))


def series(samples: Iterable[ProcessSample]) -> dict[tuple[str, int], list[ProcessSample]]:
    """The samples of each process; one that was started again is another."""
    made: defaultdict[tuple[str, int], list[ProcessSample]] = defaultdict(list)
    for sample in samples:
        made[sample.name, sample.pid].append(sample)
    return dict(made)
