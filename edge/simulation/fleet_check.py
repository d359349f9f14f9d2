"""Judges a fleet's log against its scenario: which rule was broken, when, and how (docs/fleet.md lists the rules).

Rules of one moment are asked before a row is entered into the ledger; rules of the whole run at its end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edge.core.errors import InvalidValue
from edge.core.fleet import FleetJob, is_ephemeral
from edge.simulation.fleet_ends import rules_of_the_end
from edge.simulation.fleet_ledger import FleetLedger, Key
from edge.simulation.fleet_meter import FairMeter
from edge.simulation.fleet_scenario import FleetScenario

#: A gang may hold a part of its resources for so long.
GANG_HOLD_S: Final = 2.0
#: Faults beyond this number are counted, and not listed.
MOST_LISTED: Final = 200
_ROUNDING: Final = 1e-9
_ROUNDED_AMOUNT: Final = 1e-6
_OF_TASKS: Final = frozenset({"placed", "started", "ended", "evicted"})
_OF_BOXES: Final = frozenset({"box_up", "box_down", "box_cut", "box_healed", "drain", "set_resource"})
_OTHERS: Final = frozenset({"head_down", "head_up", "submitted", "rejected", "end"})

Row = Mapping[str, Any]


@dataclass(frozen=True)
class BrokenRule:
    """One breach of a rule at `at_s`."""

    rule: str
    at_s: float
    text: str


@dataclass(frozen=True)
class LogVerdict:
    """`broken` has at most `MOST_LISTED` breaches; `counts` has all, by rule. Times in s; `hfs_error`: by tenant, parts
    of the capacity above (+) or below (-) its fair share."""

    scenario: str
    broken: tuple[BrokenRule, ...]
    counts: Mapping[str, int]
    longest_replace_s: float
    last_end_s: float
    hfs_error: Mapping[str, float]

    @property
    def accepted(self) -> bool:
        """Whether no rule was broken."""
        return not self.counts

    def to_json(self) -> dict[str, Any]:
        """The verdict with its first ten breaches."""
        return {
            "scenario": self.scenario,
            "accepted": self.accepted,
            "rules": dict(self.counts),
            "hfs_error": {name: round(error, 4) for name, error in sorted(self.hfs_error.items())},
            "longest_replace_s": round(self.longest_replace_s, 2),
            "last_end_s": round(self.last_end_s, 2),
            "first": [f"{b.rule}: at {b.at_s:.2f} s {b.text}" for b in self.broken[:10]],
        }


def read_log(path: Path) -> Iterator[Row]:
    """The rows of a log. Raises InvalidValue with the number of the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InvalidValue("LOG", str(path), f"a file that can be read ({error.strerror})") from None
    for n, line in enumerate(lines):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise InvalidValue(f"LOG line {n + 1}", line, "a JSON object") from None
        if not isinstance(row, Mapping):
            raise InvalidValue(f"LOG line {n + 1}", row, "a JSON object")
        yield row


def check_log(scenario: FleetScenario, rows: Iterable[Row], tolerance_s: float = 0.0) -> LogVerdict:
    """Judge a log. `tolerance_s`: how much later or earlier than the rules say things may happen (real boxes)."""
    judge = _Judge(scenario, tolerance_s)
    for row in rows:
        judge.read(row)
    return judge.verdict()


class _Judge:
    """Reads rows one by one."""

    def __init__(self, scenario: FleetScenario, tolerance_s: float) -> None:
        self._scenario, self._tolerance_s = scenario, tolerance_s
        self._ledger = FleetLedger(scenario)
        self._meter = FairMeter(scenario)
        self._queues = {queue.name: queue for queue in scenario.queues}
        self._arrivals = {arriving.job.id: arriving.at_s for arriving in scenario.jobs}
        self._queued: dict[str, list[FleetJob]] = {}
        for arriving in scenario.jobs:
            if arriving.job.queue is not None:
                self._queued.setdefault(arriving.job.queue, []).append(arriving.job)
        #: Gangs that hold a part of their resources, and until when they may.
        self._partial_until_s: dict[str, float] = {}
        self._broken: list[BrokenRule] = []
        self._counts: dict[str, int] = {}
        self._placed_rules: tuple[Callable[[Row, Key], Iterator[tuple[str, str]]], ...] = (
            self._state_of_box, self._copies, self._capacity, self._places, self._choice, self._after, self._queue,
        )  # fmt: skip

    def read(self, row: Row) -> None:
        """Judge a row, then enter it."""
        ledger = self._ledger
        wrong = self._malformed(row)
        if wrong:
            self._break("log", wrong)
            return
        at_s = float(row["t"])
        if at_s < ledger.now_s - _ROUNDING:
            self._break("log", f"time runs backwards at {dict(row)}")
        self._meter.pass_time(ledger, at_s)
        ledger.now_s = max(ledger.now_s, at_s)
        for job, until_s in list(self._partial_until_s.items()):
            if ledger.now_s > until_s + self._tolerance_s:
                del self._partial_until_s[job]
                if not self._is_partial(ledger.jobs[job]):
                    continue
                self._break("gang", f"{job} holds only a part of its resources for too long")
        if self._judge(row):
            ledger.enter(row)
            self._meter.note(ledger, row)
            self._watch_gangs(row)

    def verdict(self) -> LogVerdict:
        """After the last row."""
        ledger = self._ledger
        errors = self._meter.errors()
        for rule, text in rules_of_the_end(self._scenario, ledger, errors, self._tolerance_s):
            self._break(rule, text)
        ends = [end for job in ledger.done_s.values() for end in job.values()]
        return LogVerdict(
            self._scenario.name,
            tuple(self._broken),
            dict(self._counts),
            max(ledger.replaced_s, default=0.0),
            max(ends, default=0.0),
            errors,
        )

    def _break(self, rule: str, text: str) -> None:
        self._counts[rule] = self._counts.get(rule, 0) + 1
        if len(self._broken) < MOST_LISTED:
            self._broken.append(BrokenRule(rule, self._ledger.now_s, text))

    def _malformed(self, row: Row) -> str:
        """Which field of a row is wrong; empty: none."""
        event, at_s = row.get("event"), row.get("t")
        if isinstance(at_s, bool) or not isinstance(at_s, (int, float)):
            return f"a row without a time: {dict(row)}"
        if event not in _OF_TASKS | _OF_BOXES | _OTHERS:
            return f"the event {event!r} is unknown"
        if event in _OF_TASKS | _OF_BOXES and row.get("box") not in self._ledger.boxes:
            return f"there is no box {row.get('box')!r}"
        if event in _OF_TASKS | {"submitted", "rejected"} and row.get("job") not in self._ledger.jobs:
            return f"there is no job {row.get('job')!r}"
        if event in _OF_TASKS and row.get("task") not in range(self._ledger.jobs[row["job"]].tasks):
            return f"{row['job']} has no task {row.get('task')!r}"
        if event == "placed" and not isinstance(row.get("demand"), Mapping):
            return f"{row['job']} is placed without a demand"
        if event == "set_resource" and not isinstance(row.get("capacity"), (int, float)):
            return f"{row.get('name')!r} has no capacity"
        return ""

    def _judge(self, row: Row) -> bool:
        """Rules of one moment. False: the row makes no sense, and is not entered."""
        event = row["event"]
        if event in _OF_TASKS:
            key = (row["job"], row["task"])
            holds = row["box"] in self._ledger.holdings[key]
            if event == "placed":
                if holds:
                    self._break("log", f"{_words(row)} is placed twice")
                    return False
                for rule in self._placed_rules:
                    for name, text in rule(row, key):
                        self._break(name, text)
                return True
            if not holds:
                if event != "evicted":
                    self._break("log", f"{_words(row)} {event}, and holds nothing there")
                return bool(event == "evicted")
            if event == "started":
                return self._started(row, key)
            return True if event == "evicted" else self._ended(row, key)
        if event == "submitted":
            early = self._ledger.now_s < self._arrivals[row["job"]] - self._tolerance_s - _ROUNDING
            if early or row["job"] in self._ledger.submitted_s:
                self._break("log", f"{row['job']} is submitted before its time, or twice")
        if event == "set_resource":
            box = self._ledger.boxes[row["box"]]
            if not box.up or (not is_ephemeral(row["name"]) and row["name"] in box.box.resources):
                self._break("capacity", f"{row['name']} is set on {row['box']}, which is down or has it by itself")
        return True

    # --- a task is placed ----------------------------------------------------------------------------------------
    def _state_of_box(self, row: Row, key: Key) -> Iterator[tuple[str, str]]:
        ledger, box = self._ledger, self._ledger.boxes[row["box"]]
        if not box.up and ledger.now_s - (box.down_s or 0.0) > self._scenario.expect.detect_s + self._tolerance_s:
            yield "down", f"{_words(row)} is placed on a box that is down since {box.down_s:.2f} s"
        if box.drained_s is not None and ledger.now_s > box.drained_s + self._tolerance_s:
            yield "drain", f"{_words(row)} is placed on a box that is being drained"
        if row.get("by") != "box" and (box.cut or not ledger.head):
            yield "autonomy", f"{_words(row)} is placed by a head that is away, or on a box that is cut off"
        elif not ledger.head and ledger.last_box[key[0]].get(key[1], row["box"]) != row["box"]:
            yield "autonomy", f"{_words(row)} is moved while no head is there"

    def _copies(self, row: Row, key: Key) -> Iterator[tuple[str, str]]:
        ledger, job = self._ledger, self._ledger.jobs[key[0]]
        if key[0] not in ledger.submitted_s:
            yield "log", f"{_words(row)} is placed before its job was submitted"
        if key[1] in ledger.done_s[key[0]]:
            yield "copies", f"{_words(row)} is placed after its work was done"
        for other in ledger.holdings[key].values():
            box = ledger.boxes[other.box]
            if not (job.overlap and (box.cut or box.healed_s is not None)):
                yield "copies", f"{_words(row)} is placed while it lives on {other.box}"

    def _capacity(self, row: Row, key: Key) -> Iterator[tuple[str, str]]:
        box = self._ledger.boxes[row["box"]]
        for name, amount in self._ledger.jobs[key[0]].demand.items():
            if row["demand"].get(name, 0.0) < amount - _ROUNDING:
                yield "capacity", f"{_words(row)} holds less of {name} than {amount:g}"
        if box.up:
            for name, amount in row["demand"].items():
                there, after = box.capacity.get(name, 0.0), box.used.get(name, 0.0) + amount
                if after > there + _ROUNDED_AMOUNT:
                    yield "capacity", f"{_words(row)}: {after:g} of {there:g} {name}"

    def _places(self, row: Row, key: Key) -> Iterator[tuple[str, str]]:
        ledger, box = self._ledger, self._ledger.boxes[row["box"]].box
        for rule in ledger.rules(key[0], row.get("choice", 0)):
            for label, values in rule.zone.items():
                if box.label(label) not in values:
                    yield "zone", f"{_words(row)}: {label} is {box.label(label)}, not one of {', '.join(values)}"
            for target in rule.near:
                if row["box"] not in ledger.last_box[target].values():
                    yield "near", f"{_words(row)}: {target} is not there"
            if rule.avoid is not None:
                value = box.label(rule.avoid.per)
                for other, there in ledger.in_group[rule.avoid.group]:
                    if other != key and ledger.boxes[there].box.label(rule.avoid.per) == value:
                        yield "avoid", f"{_words(row)}: {other[0]}/{other[1]} has the same {rule.avoid.per}"

    def _choice(self, row: Row, key: Key) -> Iterator[tuple[str, str]]:
        choice = row.get("choice", 0)
        waited_s = self._ledger.now_s - self._ledger.waits_since_s(key)
        due_s = choice * self._ledger.jobs[key[0]].relax_after_s
        if choice and waited_s < due_s - self._tolerance_s - _ROUNDING:
            yield "soft", f"{_words(row)} takes choice {choice} after {waited_s:.2f} s, not {due_s:g} s"

    def _after(self, row: Row, key: Key) -> Iterator[tuple[str, str]]:
        for other in self._ledger.jobs[key[0]].after:
            if not self._ledger.complete(other):
                yield "after", f"{_words(row)} is placed before {other} has ended"

    def _queue(self, row: Row, key: Key) -> Iterator[tuple[str, str]]:
        ledger, job = self._ledger, self._ledger.jobs[key[0]]
        queue = self._queues.get(job.queue or "")
        if queue is None:
            return
        if queue.slots is not None and ledger.in_queue[queue.name] >= queue.slots:
            yield "queue", f"{_words(row)}: {ledger.in_queue[queue.name] + 1} at once in {queue.name}"

        def place(other: FleetJob) -> tuple[float, float]:
            urgent = -other.priority if queue.discipline == "priority" else 0.0
            return urgent, ledger.submitted_s.get(other.id, ledger.now_s)

        for other in self._queued[queue.name] if job.id not in ledger.began else ():
            came_s = ledger.submitted_s.get(other.id)
            if came_s is None or other.id in ledger.began or other.id in ledger.refused:
                continue
            earlier = came_s < ledger.now_s - self._tolerance_s - _ROUNDING
            if earlier and place(other) < place(job) and all(map(ledger.complete, other.after)):
                yield "fifo", f"{_words(row)} overtakes {other.id} in {queue.name}"

    # --- later in its life ---------------------------------------------------------------------------------------
    def _started(self, row: Row, key: Key) -> bool:
        ledger, job = self._ledger, self._ledger.jobs[key[0]]
        if not ledger.boxes[row["box"]].up:
            self._break("down", f"{_words(row)} starts on a box that is down")
            return False
        if job.gang and ledger.held(job.id) + len(ledger.done_s[job.id]) < job.tasks:
            self._break("gang", f"{_words(row)} starts before its gang is complete")
        return True

    def _ended(self, row: Row, key: Key) -> bool:
        ledger, job = self._ledger, self._ledger.jobs[key[0]]
        started_s = ledger.holdings[key][row["box"]].started_s
        if started_s is None:
            self._break("log", f"{_words(row)} ends without a start")
            return False
        ran_s = ledger.now_s - started_s
        if job.duration_s is not None and not job.checkpoints and ran_s < job.duration_s - self._tolerance_s - 1e-6:
            self._break("log", f"{_words(row)} ends after {ran_s:.2f} s of {job.duration_s:g} s of work")
        if key[1] in ledger.done_s[job.id]:
            self._break("copies", f"{_words(row)} ends twice")
        return True

    def _watch_gangs(self, row: Row) -> None:
        """Which gangs hold a part of their resources after this row, and until when they may."""
        ledger, hold_s = self._ledger, GANG_HOLD_S
        if row["event"] == "box_down":
            names = {job.id for job in ledger.jobs.values() if job.gang and self._is_partial(job)}
            until_s = ledger.now_s + self._scenario.expect.detect_s + hold_s
            for name in names:
                self._partial_until_s[name] = max(until_s, self._partial_until_s.get(name, 0.0))
        elif row["event"] in ("placed", "evicted") and ledger.jobs[row["job"]].gang:
            if self._is_partial(ledger.jobs[row["job"]]):
                self._partial_until_s.setdefault(row["job"], ledger.now_s + hold_s)
            else:
                self._partial_until_s.pop(row["job"], None)

    def _is_partial(self, job: FleetJob) -> bool:
        held = self._ledger.held(job.id)
        return 0 < held < job.tasks - len(self._ledger.done_s[job.id])


def _words(row: Row) -> str:
    return f"{row['job']}/{row['task']} on {row['box']}"
