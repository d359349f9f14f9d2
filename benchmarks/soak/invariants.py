"""What must hold all the time: each invariant is a function of what was seen. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from benchmarks.soak.schedule import CALM_S, KINDS, OF_THE_WHOLE, RESULTS_LATER_S, FaultName, Stopped
from benchmarks.soak.values import (
    BoxSeen,
    Break,
    Checked,
    EarlierProcess,
    FaultDone,
    Gap,
    InForce,
    ProcessSample,
    ReceivedMessage,
    RecordedEvent,
    RequestTotal,
)

#: Messages of so long before a kill of the whole appliance may be lost, as docs/outputs.md says.
UNWRITTEN_S = 1.0
#: A look and the counters behind it are of slightly different instants.
_LOOK_S = 3.0
#: Requests may be between the counters of arrivals and those of ends for so long.
_UNDER_WAY_S, _UNDER_WAY_LEAST = 2.0, 2


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
    wanted: dict[str, Stopped] = {"camera": "cameras", "model": "models", "answered": "models", "page": "page"}
    return wanted[kind] in stops or ("camera" in stops and kind == "camera" and name == fault.camera)


def later_s(subject: str) -> float:
    """So much longer than its bounds this subject may be without an answer."""
    return RESULTS_LATER_S if subject.startswith("answered ") else 0.0


def excused(gap: Gap, faults: Iterable[FaultDone]) -> tuple[float, tuple[FaultDone, ...]]:
    """How long this gap may be, and the faults that may be its reason. It may last for CALM_S; a fault that may stop
    the subject, and begins before the gap must be over, extends it to `back_s` after the fault's end. A fault that
    begins later is not the reason of the silence before it."""
    more_s = later_s(gap.subject)
    until_s, reasons = gap.from_s + CALM_S + more_s, []
    for fault in sorted(faults, key=lambda f: f.began_s):
        back_s = fault.ended_s + KINDS[fault.fault].back_s + more_s
        if not fault.tried or back_s < gap.from_s or not touches(fault, gap.subject):
            continue
        if fault.began_s > min(until_s, gap.to_s):
            break
        until_s = max(until_s, back_s)
        reasons.append(fault)
    return until_s - gap.from_s, tuple(reasons)


def bound_s(gap: Gap, faults: Iterable[FaultDone]) -> float:
    """How long this gap may be."""
    return excused(gap, faults)[0]


def answers_back(found: Sequence[Gap], faults: Sequence[FaultDone]) -> Checked:
    """No gap is longer than its bound."""
    breaks = []
    for gap in found:
        if gap.length_s <= CALM_S:
            continue
        allowed_s = bound_s(gap, faults)
        if gap.length_s > allowed_s:
            said = f"{gap.subject}: {gap.length_s:.1f} s without an answer, {allowed_s:.1f} s are allowed"
            breaks.append(Break("answers_back", gap.from_s, said))
    return Checked("answers_back", len(found), tuple(breaks))


# -- nothing promoted is lost


def models_kept(looks: Sequence[BoxSeen], entries: Sequence[InForce]) -> Checked:
    """A camera's version in force changes only to one that a journal entry put in force: never back by itself, also not
    over a restart. An entry counts once: one that is older than that of the version before it is no reason."""
    numbers: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for e in sorted(entries, key=lambda e: e.entry):
        numbers[e.camera, e.version].append(e.entry)
    used: dict[str, int] = {}
    breaks, checks = [], 0
    for before, after in pairwise(looks):
        for camera, version in after.models.items():
            if camera not in before.models:
                continue
            checks += 1
            used.setdefault(camera, min(numbers.get((camera, before.models[camera]), [-1])))
            if version == before.models[camera]:
                continue
            newer = [n for n in numbers.get((camera, version), []) if n > used[camera]]
            if newer:
                used[camera] = newer[0]
                continue
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
    kept: Sequence[RecordedEvent],
    heard: Sequence[ReceivedMessage],
    destinations: Sequence[str],
    kills_utc_s: Sequence[float],
) -> Checked:
    """Each object and alarm on record was heard at each destination: its beginning, and its end if it has ended. Left
    out are beginnings and ends of the last second before a kill of the appliance."""
    known = {(h.destination, h.what, h.number, h.phase) for h in heard}
    breaks, checks = [], 0
    for event in kept:
        for phase, utc_s in (("new", event.began_utc_s), ("end", event.ended_utc_s)):
            if utc_s is None or any(kill - UNWRITTEN_S <= utc_s <= kill for kill in kills_utc_s):
                continue
            for destination in destinations:
                checks += 1
                if (destination, event.what, event.number, phase) not in known:
                    said = f"{event.what} {event.number}: its {phase} never came to {destination}"
                    breaks.append(Break("events_delivered", utc_s, said))
    return Checked("events_delivered", checks, tuple(breaks))


def events_once(heard: Sequence[ReceivedMessage]) -> Checked:
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


def sent_again(heard: Sequence[ReceivedMessage]) -> int:
    """Messages that came more than once, with the same id."""
    return len(heard) - len({(h.destination, h.message) for h in heard})


def events_in_order(heard: Sequence[ReceivedMessage]) -> Checked:
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

#: So long after it the loss of a worker is counted, at the latest.
_NOTICED_S: Final = 3.0
#: A worker of this kind was lost (braces of the metric's labels are doubled for the second `format`).
_LOST: Final = 'counter magpie_worker_losses_total{{{{worker="{}"'
#: Signs of a fault while it lasts or until all is well: a counter that grows (its name begins so; {camera} is the
#: fault's), a reason of health, a complaint, or a camera's state. Of the other faults no sign is asked for.
SIGNS: Mapping[FaultName, tuple[str, ...]] = {
    "kill_camera": (_LOST.format("camera"),),
    "kill_golden": (_LOST.format("golden"),),
    "kill_profiler": (_LOST.format("profiler"),),
    "kill_retrain": (_LOST.format("retrain"),),
    "kill_executor": (_LOST.format("executor"),),
    "kill_front": (_LOST.format("front"),),
    "camera_gone": ("state {camera} reconnecting", "state {camera} stalled"),
    "camera_frozen": ("state {camera} stalled", "state {camera} reconnecting"),
    "camera_password": ("state {camera} refused",),
    "camera_damaged": ('counter magpie_camera_frames_dropped_total{{camera="{camera}",cause="damaged"',),
    "database_away": ("reason store",),
    "broker_away": ("down mqtt",),
    "receiver_away": ("down webhook",),
    "disk_full": ("reason disk", "complaint disk_full"),
}  # fmt: skip


def faults_visible(looks: Sequence[BoxSeen], faults: Sequence[FaultDone]) -> Checked:
    """The appliance shows each fault that has SIGNS: one of them is seen. A fault whose only signs are counters is not
    checked where they were not read after it in the same life of the appliance (`not_looked_for`)."""
    breaks, checks = [], 0
    for fault in faults:
        found = _around(looks, fault)
        if found is None:
            continue
        checks += 1
        signs = _signs(fault)
        if not any(_seen(sign, found[0], found[1]) for sign in signs):
            said = f"{fault.fault} {fault.camera}: none of {', '.join(signs)}"
            breaks.append(Break("faults_visible", fault.began_s, said))
    return Checked("faults_visible", checks, tuple(breaks))


def not_looked_for(looks: Sequence[BoxSeen], faults: Sequence[FaultDone]) -> dict[str, int]:
    """By kind, the faults that were done and have SIGNS, but that nothing can be said of."""
    return dict(Counter(f.fault for f in faults if f.tried and f.fault in SIGNS and _around(looks, f) is None))


def _signs(fault: FaultDone) -> list[str]:
    return [sign.format(camera=fault.camera) for sign in SIGNS[fault.fault]]


def _around(looks: Sequence[BoxSeen], fault: FaultDone) -> tuple[BoxSeen, list[BoxSeen]] | None:
    """The last look before a fault that has SIGNS, and those from then until all has to be well."""
    if not fault.tried or fault.fault not in SIGNS:
        return None
    until_s = fault.ended_s + KINDS[fault.fault].back_s
    before = [look for look in looks if look.at_s <= fault.began_s]
    during = [look for look in looks if fault.began_s < look.at_s <= until_s]
    if not before or not during:
        return None
    read = any(x.life == before[-1].life and x.counters_read_s > fault.ended_s + _NOTICED_S for x in during)
    return (before[-1], during) if read or any(not s.startswith("counter ") for s in _signs(fault)) else None


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


def requests_add_up(totals: Sequence[RequestTotal], rates: Mapping[str, float]) -> Checked:
    """Of a served model's requests each was answered, dropped, rejected, failed or cancelled, or is inside; those of
    two seconds at its rate (`rates`, per second by model), and two more, may be between the counters."""
    breaks = []
    for t in totals:
        under_way = math.ceil(_UNDER_WAY_S * rates.get(t.model, 0.0)) + _UNDER_WAY_LEAST
        rest = t.arrived - t.answered - t.dropped - t.rejected - t.failed - t.cancelled
        if abs(rest - t.inside) > under_way:
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


#: Reasons of health on any box that has too much to do; no fault of the schedule is the cause.
_OF_LOAD = frozenset(("reason labels", "reason window_too_short", "reason floor_unreachable"))


def serious(look: BoxSeen) -> frozenset[str]:
    """Reasons of health that a fault leaves, and outputs that are away. Complaints are kept for a while after their
    reason is gone."""
    return frozenset(r for r in look.reasons if r.startswith(("reason ", "down "))) - _OF_LOAD


def earlier_ended(earlier: Sequence[EarlierProcess], faults: Sequence[FaultDone], ended_s: float) -> Checked:
    """No process of a life that was killed runs for longer than the kill's `back_s` after the appliance is up again."""
    kills = [f for f in faults if f.fault in OF_THE_WHOLE and f.tried]
    breaks, checks = [], 0
    for process in earlier:
        kill = next((f for f in kills if f.began_s <= process.killed_s <= f.ended_s), None)
        until_s = math.inf if kill is None else kill.ended_s + KINDS[kill.fault].back_s
        if until_s > ended_s:
            continue
        checks += 1
        if process.seen_s > until_s:
            said = f"{process.name} ({process.pid}) of start {process.life} still ran at {process.seen_s:.0f} s"
            breaks.append(Break("earlier_ended", process.killed_s, said))
    return Checked("earlier_ended", checks, tuple(breaks))


# -- flat


def disk_within(sizes: Sequence[tuple[float, float]], limit_mb: float) -> Checked:
    """The data folder stays within the limit: (seconds, MB)."""
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
