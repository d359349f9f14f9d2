"""Facts in, alarms out: rules at work, and the alarms that have not ended."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from edge.appliance.alarm_records import AlarmRecords
from edge.appliance.alarm_rules import AlarmRules
from edge.appliance.deliver import Deliver
from edge.appliance.picture_requests import PictureRequests
from edge.core.alarms import Alarm, Fact, Phase
from edge.core.clock import Clock
from edge.core.journal_kinds import JournalKind, JournalNote
from scheduler.alarms import AlarmState, Now, handle, restore

log = logging.getLogger(__name__)

#: The entries that an alarm's phases are journaled as.
_PHASES: Mapping[Phase, JournalKind] = {"new": "alarm.new", "update": "alarm.update", "end": "alarm.end"}


class ActiveAlarms:
    """Each alarm is recorded, journaled by `note` and delivered: when it begins, when it changes and when it ends.
    `want_clip` gets new ones of rules that keep clips; `raised` has alarms by kind of rule since the start."""

    def __init__(
        self,
        clock: Clock,
        rules: AlarmRules,
        records: AlarmRecords,
        pictures: PictureRequests,
        note: JournalNote,
        deliver: Deliver,
        want_clip: Callable[[Alarm], None] = lambda _: None,
    ) -> None:
        self._want_clip = want_clip
        self._clock, self._rules, self._records, self._pictures = clock, rules, records, pictures
        self._note, self._deliver = note, deliver
        self._state = AlarmState()
        self._with_picture: set[int] = set()
        self.raised: Counter[str] = Counter()

    def restore(self, last: Iterable[Alarm], active: Iterable[Alarm], next_id: int) -> None:
        """Go on where an earlier run ended: with the `last` alarms that it raised and those that are `active`."""
        going_on = tuple(active)
        self._state = restore((*last, *going_on), next_id, self._now())
        self._with_picture = {a.id for a in going_on if a.picture}

    def alarms(self) -> list[Alarm]:
        """Alarms that have not ended."""
        return [a.alarm for a in self._state.active.values()]

    @property
    def held_back(self) -> int:
        """Alarms that quiet hours or a rule's interval kept from being raised."""
        return sum(self._state.held_back.values())

    @property
    def refused(self) -> int:
        """Alarms that were too many at once."""
        return self._state.refused

    def look(self, fact: Fact, frame: tuple[str, int] | None = None) -> None:
        """Look at a fact under all rules. `frame` (camera, number) is the one that new alarms want a picture of."""
        self._state, changed = handle(self._rules.in_force, self._state, fact, self._now())
        for alarm in changed:
            self._send(alarm)
        new = [a.id for a in changed if a.phase == "new"]
        with_clips = {r.id for r in self._rules.in_force if r.clip}
        for alarm in changed:
            if alarm.phase == "new" and alarm.rule in with_clips:
                self._want_clip(alarm)
        if frame is not None and new:
            self._pictures.ask_for_alarms(frame[0], frame[1], new)

    def pictured(self, number: int) -> None:
        """A picture of an alarm is kept; of one that has ended, nothing more is sent."""
        for key, active in self._state.active.items():
            if active.alarm.id == number:
                self._with_picture.add(number)
                # Receivers of the alarm learn that it has a picture.
                self._send(replace(active.alarm, phase="update"))
                log.debug("alarm %s of rule %s has a picture", number, key[0])
                break

    def _send(self, alarm: Alarm) -> None:
        alarm = replace(alarm, picture=alarm.id in self._with_picture)
        self._records.put_alarm(alarm)
        self.raised[alarm.kind] += alarm.phase == "new"
        if alarm.phase == "end":
            self._with_picture.discard(alarm.id)
        self._note(_PHASES[alarm.phase], camera=alarm.camera, data=alarm.to_json())
        self._deliver(alarm)

    def _now(self) -> Now:
        return Now(self._clock.monotonic(), self._clock.utc(), self._clock.local_minute())
