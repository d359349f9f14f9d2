"""Rules at work: facts in, alarms out. Pure: the time comes in, the state goes out.

A rule looks at a condition that holds or does not hold for a key (rule, camera, subject). An alarm is new when
its condition has held for as long as the rule says, outside quiet hours and not too soon after the last one; it ends
when the condition has ended, with a margin where measured values go up and down. So between two new alarms of a key
there is always an end. A condition that holds when quiet hours are over raises its alarm then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any, Final

from edge.core.alarms import (
    AccuracyMeasured,
    Acknowledged,
    Alarm,
    CameraGone,
    CameraNow,
    DiskNow,
    Fact,
    HourCounted,
    Moved,
    ObjectsNow,
    Promoted,
    RolledBack,
    Rule,
    RuleKind,
    RulesChanged,
    ServedNow,
    StrangersNow,
    TenantGoalNow,
    TenantQuiet,
    TenantsNow,
    TimePassed,
)
from edge.core.counts import Place
from edge.core.hours import inside
from edge.core.tracks import TrackedObject
from scheduler.counts.rules import UsualCount, in_zones, objects_at, usual_count

#: A measured value must be so far above a threshold before the alarm ends.
MARGIN: Final[Mapping[str, float]] = {"accuracy": 0.02, "disk": 0.01, "slo": 0.01}
#: Updates of one alarm are at least so far apart, in seconds.
UPDATE_EVERY_S: Final = 10.0
#: An object that comes back to a zone within so many seconds of its alarm raises no further one.
SAME_OBJECT_S: Final = 30.0
#: A movement is a moment: its alarm ends after so many seconds.
MOMENT_S: Final = 10.0
#: Alarms active at once, and conditions waited for; more are not raised, and counted.
MAX_ACTIVE: Final = 1000

#: rule id, camera ("" for none), subject ("" for none).
Key = tuple[str, str, str]
#: The tenant, if any, and the list of cameras that `details` name.
Owner = tuple[Any, Any]


@dataclass(frozen=True)
class Now:
    """When a fact is looked at: `at_s` monotonic for durations, `utc_s` for people, `minute_of_day` 0-1439 local."""

    at_s: float
    utc_s: float
    minute_of_day: int


@dataclass(frozen=True)
class Condition:
    """A rule's condition for one key: it `holds`, is `over`, or neither (between a threshold and its margin). An update
    is reported when `matter` or the `owner` changes.
    """

    camera: str | None
    subject: str
    holds: bool
    over: bool
    message: str
    value: float | None = None
    object: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    wait_s: float = 0.0
    matter: tuple[Any, ...] = ()

    @property
    def owner(self) -> Owner:
        """The alarm is for those who may see it."""
        return owner_in(self.details)


@dataclass(frozen=True)
class Active:
    """An alarm that has not ended: its present state, when it was last reported, and its `matter` then (None: not
    known).
    """

    alarm: Alarm
    reported_s: float
    matter: tuple[Any, ...] | None


@dataclass(frozen=True)
class Waiting:
    """A condition that holds since `since_s` and has raised no alarm yet; `held_back`: only quiet hours or an interval
    kept it from that."""

    since_s: float
    condition: Condition
    held_back: bool = False


@dataclass(frozen=True)
class AlarmState:
    """`waiting` holds conditions that have not raised an alarm yet; `raised_s` is when a key's alarm last began or
    ended, and `raised_camera_s` when a rule last raised one on a camera; `held_back` counts by rule what quiet hours or
    the interval kept from being raised, `refused` what was too much at once. Bounded by the rules, the cameras, and
    MAX_ACTIVE."""

    next_id: int = 1
    active: Mapping[Key, Active] = field(default_factory=dict)
    waiting: Mapping[Key, Waiting] = field(default_factory=dict)
    raised_s: Mapping[Key, float] = field(default_factory=dict)
    raised_camera_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    held_back: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0


def restore(alarms: Iterable[Alarm], next_id: int, now: Now) -> AlarmState:
    """The state after a restart: of `alarms`, those that were active go on, and end when their conditions do; the
    others tell when a rule last raised one, so that its interval holds over a restart. One that is dated in the future
    (the clock was set) counts as raised now."""
    known = tuple(alarms)
    active = {key_of(a): Active(a, now.at_s, None) for a in known if a.ended_utc_s is None}
    raised: dict[tuple[str, str], float] = {}
    for a in known:
        at_s, key = now.at_s - max(0.0, now.utc_s - a.began_utc_s), (a.rule, a.camera or "")
        raised[key] = max(at_s, raised.get(key, at_s))
    return AlarmState(next_id=next_id, active=active, raised_camera_s=raised)


def key_of(alarm: Alarm) -> Key:
    """The key of one alarm among those of a rule."""
    return alarm.rule, alarm.camera or "", alarm.subject


def owner_in(details: Mapping[str, Any]) -> Owner:
    """Whose an alarm with these `details` is; an earlier version named none."""
    return details.get("tenant"), details.get("cameras") or []


def handle(rules: Sequence[Rule], state: AlarmState, fact: Fact, now: Now) -> tuple[AlarmState, tuple[Alarm, ...]]:
    """Look at one fact under all rules. Alarms come out in their order in time: ends before news."""
    evaluation = _Evaluation(rules, state, now)
    _look(fact, evaluation)
    return evaluation.result()


class _Evaluation:
    """The state while one fact is looked at."""

    def __init__(self, rules: Sequence[Rule], state: AlarmState, now: Now) -> None:
        self.rules = [r for r in rules if r.enabled]
        self.now, self._state = now, state
        self.active, self.waiting = dict(state.active), dict(state.waiting)
        self._raised, self._raised_camera = dict(state.raised_s), dict(state.raised_camera_s)
        self._held_back, self._refused, self._next = dict(state.held_back), state.refused, state.next_id
        self._ended: list[Alarm] = []
        self._reported: list[Alarm] = []

    def of(self, kind: RuleKind, camera: str | None = None) -> list[Rule]:
        """Rules that look at such a fact."""
        return [r for r in self.rules if r.kind == kind and (camera is None or not r.cameras or camera in r.cameras)]

    def see(self, rule: Rule, c: Condition) -> None:
        """A rule's condition as it is now."""
        key = (rule.id, c.camera or "", c.subject)
        known = self.active.get(key)
        if known is not None:
            if c.over:
                self.end(key, c.message, c.value)
            elif c.holds or c.owner != owner_in(known.alarm.details):
                self._update(key, known, c)
            return
        if not c.holds:
            self.waiting.pop(key, None)
            return
        before = self.waiting.get(key)
        if before is None and len(self.waiting) >= MAX_ACTIVE:
            self._refused += 1
            return
        waiting: Waiting | None
        waiting = Waiting(self.now.at_s, c) if before is None else replace(before, condition=c)
        if self.now.at_s - waiting.since_s >= c.wait_s:
            waiting = self._raise(rule, key, waiting)
        if waiting is not None:
            self.waiting[key] = waiting

    def _raise(self, rule: Rule, key: Key, waiting: Waiting) -> Waiting | None:
        """None if the alarm was raised; else what goes on waiting."""
        now, c = self.now, waiting.condition
        last = self._raised_camera.get(key[:2])
        soon = last is not None and now.at_s - last < rule.min_interval_s
        again = c.object is not None and key in self._raised and now.at_s - self._raised[key] < SAME_OBJECT_S
        if soon or again or inside(rule.quiet_hours, now.minute_of_day):
            if not waiting.held_back:
                self._held_back[rule.id] = self._held_back.get(rule.id, 0) + 1
            return replace(waiting, held_back=True)
        if len(self.active) >= MAX_ACTIVE:
            self._refused += 1
            return waiting
        alarm = Alarm(
            id=self._next, rule=rule.id, rule_name=rule.words, kind=rule.kind, severity=rule.severity,
            camera=c.camera, subject=c.subject, phase="new", began_utc_s=now.utc_s, message=c.message, value=c.value,
            object=c.object, details=c.details,
        )  # fmt: skip
        self._next += 1
        self.waiting.pop(key, None)
        self._raised[key] = self._raised_camera[key[:2]] = now.at_s
        self.active[key] = Active(alarm, now.at_s, c.matter)
        self._reported.append(alarm)
        return None

    def _update(self, key: Key, known: Active, c: Condition) -> None:
        """The value is kept up to date; only a change of `matter` or the owner is reported, and not too often. After
        a restart the owner is known, from `details`, where `matter` is not."""
        alarm = replace(known.alarm, value=c.value)
        if known.matter in (None, c.matter) and c.owner == owner_in(alarm.details):
            self.active[key] = Active(alarm, known.reported_s, c.matter)
        elif self.now.at_s - known.reported_s < UPDATE_EVERY_S:
            self.active[key] = replace(known, alarm=alarm)
        else:
            alarm = replace(alarm, phase="update", message=c.message, details=c.details)
            self.active[key] = Active(alarm, self.now.at_s, c.matter)
            self._reported.append(alarm)

    def end(self, key: Key, message: str, value: float | None = None) -> None:
        """An alarm is over; its last value stays if there is no other."""
        alarm = self.active.pop(key).alarm
        alarm = replace(
            alarm, phase="end", ended_utc_s=max(self.now.utc_s, alarm.began_utc_s), message=message,
            value=alarm.value if value is None else value,
        )  # fmt: skip
        if alarm.kind == "object":
            self._raised[key] = self.now.at_s
        self._ended.append(alarm)

    def drop(self, key: Key, message: str) -> None:
        """End the alarm, or the wait, of a key whose object or camera is gone."""
        self.waiting.pop(key, None)
        if key in self.active:
            self.end(key, message)

    def drop_others(self, rule: Rule, camera: str, subjects: Collection[str]) -> None:
        """Drop what a rule alarms or waits for on a camera, but for these subjects: it looks there no more."""
        for key in self.known():
            if key[:2] == (rule.id, camera) and key[2] not in subjects:
                self.drop(key, "the rule looks there no more")

    def known(self) -> list[Key]:
        """All that alarm or are waited for."""
        return [*self.active, *self.waiting]

    def result(self) -> tuple[AlarmState, tuple[Alarm, ...]]:
        """The next state, without the entries that are needed no more."""
        now_s = self.now.at_s
        intervals = {r.id: r.min_interval_s for r in self.rules}
        raised = {k: s for k, s in self._raised.items() if now_s - s < SAME_OBJECT_S}
        cameras = {k: s for k, s in self._raised_camera.items() if now_s - s < intervals.get(k[0], 0.0)}
        held_back = {k: n for k, n in self._held_back.items() if k in intervals}
        state = AlarmState(self._next, self.active, self.waiting, raised, cameras, held_back, self._refused)
        return state, (*self._ended, *self._reported)


@singledispatch
def _look(fact: Fact, evaluation: _Evaluation) -> None:
    raise TypeError(f"no rule looks at {type(fact).__name__}")


@_look.register
def _(fact: ObjectsNow, evaluation: _Evaluation) -> None:
    there = {str(tracked.id): tracked for tracked in fact.objects}
    for rule in evaluation.of("object", fact.camera):
        for tracked in fact.objects:
            evaluation.see(rule, _object_condition(rule, fact.camera, tracked))
    objects = {rule.id for rule in evaluation.of("object")}
    for key in evaluation.known():
        if key[0] in objects and key[1] == fact.camera and key[2] not in there:
            active = evaluation.active.get(key)
            name = "object" if active is None else active.alarm.details.get("class", "object")
            evaluation.drop(key, f"{name} is gone")
    for rule in evaluation.of("crowd", fact.camera):
        numbers = in_zones(fact.objects, rule.zones, rule.classes)
        for zone, number in numbers.items():
            evaluation.see(rule, _crowd_condition(rule, fact.camera, zone, number))
        evaluation.drop_others(rule, fact.camera, numbers)


def _crowd_condition(rule: Rule, camera: str, zone: str, number: int) -> Condition:
    above = rule.above or 0
    objects = ", ".join(rule.classes) or "objects"
    words = f"{number} {objects}{f' in {zone}' if zone else ''}; more than {above} are too many"
    details = {"zone": zone, "objects": number}
    # One fewer than it takes: a number that goes up and down by one is one alarm.
    over = number < max(1, above)
    return Condition(camera, zone, number > above, over, words, float(number), None, details, rule.wait_s)


@_look.register
def _(fact: Moved, evaluation: _Evaluation) -> None:
    for rule in evaluation.of("movement", fact.camera):
        if (
            (not rule.classes or fact.class_name in rule.classes)
            and (not rule.from_zones or fact.from_zone in rule.from_zones)
            and (not rule.zones or fact.to_zone in rule.zones)
        ):
            words = f"{fact.class_name} from {fact.from_zone} to {fact.to_zone}"
            details = {"class": fact.class_name, "from_zone": fact.from_zone, "to_zone": fact.to_zone}
            evaluation.see(
                rule,
                Condition(fact.camera, str(fact.object), True, False, words, object=fact.object, details=details),
            )
            # A movement is over: one that was held back is not raised later.
            evaluation.waiting.pop((rule.id, fact.camera, str(fact.object)), None)


@_look.register
def _(fact: HourCounted, evaluation: _Evaluation) -> None:
    for rule in evaluation.of("unusual", fact.camera):
        places = [p for p in fact.places if not rule.lines or p.name in rule.lines]
        for place in places:
            objects = objects_at(fact.now, place, rule.classes)
            usual = usual_count(objects_at(hour, place, rule.classes) for hour in fact.past)
            if objects is not None and usual is not None:
                evaluation.see(rule, _unusual_condition(rule, fact, place, objects, usual))
        evaluation.drop_others(rule, fact.camera, {_way(p) for p in places})


def _way(place: Place) -> str:
    return f"{place.name}, {place.way}"


def _unusual_condition(rule: Rule, fact: HourCounted, place: Place, objects: int, usual: UsualCount) -> Condition:
    far = usual.far(objects, rule.spreads)
    low, high = max(0.0, usual.middle - rule.spreads * usual.spread), usual.middle + rule.spreads * usual.spread
    words = f"{_way(place)}: {objects} in an hour, usually {usual.middle:.0f} ({low:.0f} to {high:.0f})"
    details = {
        "name": place.name, "way": place.way, "objects": objects, "usual": usual.middle, "low": round(low, 1),
        "high": round(high, 1), "weeks": usual.weeks, "start_utc_s": fact.start_utc_s,
    }  # fmt: skip
    matter = (fact.start_utc_s,)
    return Condition(fact.camera, _way(place), far, not far, words, float(objects), None, details, 0.0, matter)


def _object_condition(rule: Rule, camera: str, tracked: TrackedObject) -> Condition:
    stay = _stay(rule, tracked)
    if stay is None or stay < rule.dwell_s:
        place = f" {', '.join(rule.zones)}" if rule.zones else ""
        return Condition(camera, str(tracked.id), False, stay is None, f"{tracked.class_name} left{place}")
    zones = sorted(z for z in tracked.zones if not rule.zones or z in rule.zones)
    words = tracked.class_name
    if zones:
        words += f" in {', '.join(zones)}"
    if rule.dwell_s:
        words += f" for {stay:.0f} s"
    details = {"class": tracked.class_name, "zones": zones, "score": round(tracked.score, 3)}
    matter = (tracked.class_name, *zones)
    return Condition(camera, str(tracked.id), True, False, words, round(stay, 2), tracked.id, details, 0.0, matter)


def _stay(rule: Rule, tracked: TrackedObject) -> float | None:
    """Seconds that an object has been where the rule looks; None if it is not there."""
    if rule.classes and tracked.class_name not in rule.classes:
        return None
    if not rule.zones:
        return tracked.age_s
    stays = [tracked.zone_s.get(zone, 0.0) for zone in tracked.zones if zone in rule.zones]
    return max(stays, default=None)


@_look.register
def _(fact: AccuracyMeasured, evaluation: _Evaluation) -> None:
    for rule in evaluation.of("accuracy", fact.camera):
        low, high = rule.threshold, min(1.0, rule.threshold + MARGIN["accuracy"])
        words = f"accuracy {fact.accuracy:.2f} in window {fact.window}, the rule's floor is {low:.2f}"
        evaluation.see(
            rule,
            Condition(
                fact.camera, "", fact.accuracy < low, fact.accuracy >= high, words, fact.accuracy,
                details={"window": fact.window}, matter=(round(fact.accuracy, 2),),
            ),
        )  # fmt: skip


@_look.register
def _(fact: CameraNow, evaluation: _Evaluation) -> None:
    for rule in evaluation.of("camera_lost", fact.camera):
        words = "pictures come again" if fact.live else f"no pictures: {fact.words or 'no reason is known'}"
        evaluation.see(rule, Condition(fact.camera, "", not fact.live, fact.live, words, wait_s=rule.wait_s))


@_look.register
def _(fact: CameraGone, evaluation: _Evaluation) -> None:
    for key in evaluation.known():
        if key[1] == fact.camera:
            evaluation.drop(key, fact.words)


@_look.register
def _(fact: DiskNow, evaluation: _Evaluation) -> None:
    free = fact.free_bytes / max(1, fact.total_bytes)
    for rule in evaluation.of("disk"):
        low, high = rule.threshold, min(1.0, rule.threshold + MARGIN["disk"])
        words = f"{100 * free:.1f} % of the disk is free ({fact.free_bytes / 1e9:.1f} GB)"
        evaluation.see(
            rule, Condition(None, "", free < low, free >= high, words, round(free, 3), matter=(round(free, 2),))
        )


@_look.register
def _(fact: RolledBack, evaluation: _Evaluation) -> None:
    for rule in evaluation.of("roll_back", fact.camera) if fact.reason.automatic else ():
        words = f"back to {fact.version}: {fact.reason.words}"
        details = {"version": fact.version}
        evaluation.see(rule, Condition(fact.camera, "", True, False, words, details=details, matter=(fact.version,)))


@_look.register
def _(fact: Promoted, evaluation: _Evaluation) -> None:
    for rule in evaluation.of("roll_back", fact.camera):
        evaluation.see(rule, Condition(fact.camera, "", False, True, f"{fact.version} is in force"))


@_look.register
def _(fact: ServedNow, evaluation: _Evaluation) -> None:
    for rule in evaluation.of("slo"):
        low, high = rule.threshold, min(1.0, rule.threshold + MARGIN["slo"])
        for model, part in fact.within.items():
            words = f"{model}: {100 * part:.1f} % of requests were answered within the objective"
            owner = fact.owners.get(model)
            details: dict[str, Any] = {"model": model, "tenant": None, "cameras": []}
            if owner is not None:
                details |= {"tenant": owner.tenant, "cameras": list(owner.cameras)}
            evaluation.see(
                rule,
                Condition(
                    None, model, part < low, part >= high, words, round(part, 3), details=details,
                    wait_s=rule.wait_s, matter=(round(part, 1),),
                ),
            )  # fmt: skip
    tenants = {rule.id for rule in evaluation.of("tenant")}
    for key in evaluation.known():
        if not key[1] and key[2] and key[2] not in fact.within and key[0] not in tenants:
            evaluation.drop(key, f"{key[2]} is not served any more")


@_look.register
def _(fact: TenantGoalNow, evaluation: _Evaluation) -> None:
    for rule in evaluation.of("tenant"):
        most = "" if fact.best is None else f"; the whole box would bring {100 * fact.best:.0f} %"
        words = (
            f"{fact.name}: {100 * fact.performance:.1f} % where {100 * fact.goal:g} % is its goal, with the share that "
            f"is its by right{most}"
        )
        holds, over = fact.missed_s > 0, fact.performance >= fact.goal
        evaluation.see(
            rule,
            Condition(
                None, fact.tenant, holds, over, words, round(fact.performance, 3),
                details={"tenant": fact.tenant, "cameras": list(fact.cameras)}, matter=(round(fact.performance, 1),),
            ),
        )  # fmt: skip


@_look.register
def _(fact: TenantQuiet, evaluation: _Evaluation) -> None:
    words = f"{fact.name}: nothing was measured for {fact.quiet_s / 60.0:.0f} min, so how it fares is not known"
    for rule in evaluation.of("tenant"):
        evaluation.drop((rule.id, "", fact.tenant), words)


@_look.register
def _(fact: TenantsNow, evaluation: _Evaluation) -> None:
    tenants = {rule.id for rule in evaluation.of("tenant")}
    for key in evaluation.known():
        if key[0] in tenants and key[2] not in fact.tenants:
            evaluation.drop(key, f"{key[2]} is no tenant any more")


@_look.register
def _(fact: StrangersNow, evaluation: _Evaluation) -> None:
    for rule in evaluation.of("stranger"):
        refused = fact.count > 0
        words = f"refused by the fleet's agent: {fact.words}" if refused else "no stranger came again"
        evaluation.see(rule, Condition(None, "", refused, not refused, words, float(fact.count), matter=(fact.words,)))


@_look.register
def _(fact: Acknowledged, evaluation: _Evaluation) -> None:
    for key, known in list(evaluation.active.items()):
        alarm = known.alarm
        if alarm.id != fact.alarm:
            continue
        by, at = alarm.acknowledged_by or fact.by, alarm.acknowledged_utc_s or evaluation.now.utc_s
        evaluation.active[key] = replace(known, alarm=replace(alarm, acknowledged_by=by, acknowledged_utc_s=at))
        if alarm.kind == "roll_back":
            evaluation.end(key, f"seen by {by}")  # nothing else would end it but the next promotion


@_look.register
def _(fact: RulesChanged, evaluation: _Evaluation) -> None:
    rules = {r.id: r for r in evaluation.rules}
    for key in evaluation.known():
        rule, camera = rules.get(key[0]), key[1]
        if rule is None:
            evaluation.drop(key, "the rule was removed or switched off")
            continue
        elsewhere = bool(rule.cameras and camera and camera not in rule.cameras)
        if elsewhere or (key in evaluation.active and rule.kind != evaluation.active[key].alarm.kind):
            evaluation.drop(key, "the rule was changed")
        elif key in evaluation.waiting and key[0] in fact.changed:
            evaluation.waiting.pop(key)  # looked at anew, as the rule is now


@_look.register
def _(_: TimePassed, evaluation: _Evaluation) -> None:
    rules = {r.id: r for r in evaluation.rules if r.kind != "object"}  # objects are reported all the time
    for key, waiting in list(evaluation.waiting.items()):
        if key[0] in rules:
            evaluation.see(rules[key[0]], waiting.condition)
    for key, known in list(evaluation.active.items()):
        if known.alarm.kind == "movement" and evaluation.now.at_s - known.reported_s >= MOMENT_S:
            evaluation.end(key, known.alarm.message)
