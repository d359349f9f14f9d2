"""The state of a fleet at each moment, as its log records it: boxes, holdings, stays, losses. Judges nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from edge.core.fleet import FleetBox, FleetJob, SpatialRule
from edge.simulation.fleet_scenario import FleetScenario

#: A task: (job, number).
Key = tuple[str, int]


@dataclass(slots=True)
class LoggedBox:
    """A box by the log. Times are None where it did not happen, or is over (`drained_s` ends with a restart)."""

    box: FleetBox
    capacity: dict[str, float]
    used: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    up: bool = True
    cut: bool = False
    down_s: float | None = None
    healed_s: float | None = None
    drained_s: float | None = None


@dataclass(slots=True)
class Holding:
    """A task's resources on one box, from its placement on."""

    key: Key
    box: str
    demand: Mapping[str, float]
    choice: int
    started_s: float | None = None
    stay: TaskStay | None = None


@dataclass(slots=True)
class TaskStay:
    """A task ran on a box from `from_s` on; `to_s` is None while it does."""

    box: str
    from_s: float
    to_s: float | None = None


class FleetLedger:
    """The state after the rows that were entered, and the history that the last rules need."""

    def __init__(self, scenario: FleetScenario) -> None:
        self.jobs: dict[str, FleetJob] = {a.job.id: a.job for a in scenario.jobs}
        self.boxes = {box.name: LoggedBox(box, dict(box.resources)) for box in scenario.boxes}
        self.now_s = 0.0
        self.head = True
        self.holdings: dict[Key, dict[str, Holding]] = defaultdict(dict)
        self.of_job: dict[str, set[Key]] = defaultdict(set)
        self.last_box: dict[str, dict[int, str]] = defaultdict(dict)
        self.stays: dict[Key, list[TaskStay]] = defaultdict(list)
        self.done_s: dict[str, dict[int, float]] = defaultdict(dict)
        self.submitted_s: dict[str, float] = {}
        self.refused: set[str] = set()
        self.began: set[str] = set()
        self.evicted_s: dict[Key, float] = {}
        self.lost_s: dict[Key, float] = {}
        self.replaced_s: list[float] = []
        self.in_group: dict[str, dict[tuple[Key, str], Holding]] = defaultdict(dict)
        self.in_queue: dict[str, int] = defaultdict(int)

    # --- questions -----------------------------------------------------------------------------------------------
    def complete(self, job: str) -> bool:
        """Whether all tasks of a job have ended."""
        return len(self.done_s[job]) >= self.jobs[job].tasks

    def held(self, job: str) -> int:
        """How many tasks of a job hold resources."""
        return len(self.of_job[job])

    def rules(self, job: str, choice: int) -> tuple[SpatialRule, ...]:
        """The rules for a task of the job that was placed under a choice."""
        spec = self.jobs[job]
        return (spec.rule, *spec.choices[choice : choice + 1])

    def waits_since_s(self, key: Key) -> float:
        """Since when a task waits: its eviction, else the job's arrival or the last end that it waited for."""
        if key in self.evicted_s:
            return self.evicted_s[key]
        ends = [end for other in self.jobs[key[0]].after for end in self.done_s[other].values()]
        return max([self.submitted_s.get(key[0], self.now_s), *ends])

    def everything(self) -> Iterator[Holding]:
        """All holdings."""
        for by_box in self.holdings.values():
            yield from by_box.values()

    # --- rows ----------------------------------------------------------------------------------------------------
    def enter(self, row: Mapping[str, Any]) -> None:
        """The row happened."""
        event, box = row["event"], self.boxes.get(row.get("box", ""))
        if event == "submitted":
            self.submitted_s.setdefault(row["job"], self.now_s)
        elif event == "rejected":
            self.refused.add(row["job"])
        elif event in ("head_down", "head_up"):
            self.head = event == "head_up"
        elif box is None:
            return
        elif event == "placed":
            self._place(row)
        elif event == "started":
            self._start(row)
        elif event in ("ended", "evicted"):
            self._leave(row)
        elif event == "set_resource":
            box.capacity[row["name"]] = row["capacity"]
        else:
            self._change_box(event, box, row)

    def _change_box(self, event: str, box: LoggedBox, row: Mapping[str, Any]) -> None:
        if event == "box_down":
            box.up, box.down_s = False, self.now_s
            for holding in [h for h in self.everything() if h.box == box.box.name]:
                self._let_go(holding)
                self.lost_s[holding.key] = self.now_s
            box.capacity = dict(box.box.resources)
        elif event == "box_up":
            box.up, box.drained_s = True, None
            box.capacity = dict(row.get("resources") or box.box.resources)
        elif event == "box_cut":
            box.cut = True
        elif event == "box_healed":
            box.cut, box.healed_s = False, self.now_s
        elif event == "drain":
            box.drained_s = self.now_s

    def _place(self, row: Mapping[str, Any]) -> None:
        key, box = (row["job"], row["task"]), row["box"]
        holding = Holding(key, box, dict(row["demand"]), row.get("choice", 0))
        self.holdings[key][box] = holding
        self.of_job[key[0]].add(key)
        self.last_box[key[0]][key[1]] = box
        self.began.add(key[0])
        if key in self.lost_s:
            self.replaced_s.append(self.now_s - self.lost_s.pop(key))
        for name, amount in holding.demand.items():
            self.boxes[box].used[name] += amount
        for rule in self.rules(key[0], holding.choice):
            if rule.avoid is not None:
                self.in_group[rule.avoid.group][(key, box)] = holding
        queue = self.jobs[key[0]].queue
        if queue is not None:
            self.in_queue[queue] += 1

    def _start(self, row: Mapping[str, Any]) -> None:
        holding = self.holdings[(row["job"], row["task"])].get(row["box"])
        if holding is not None:
            holding.started_s = self.now_s
            holding.stay = TaskStay(holding.box, self.now_s)
            self.stays[holding.key].append(holding.stay)

    def _leave(self, row: Mapping[str, Any]) -> None:
        key = (row["job"], row["task"])
        holding = self.holdings[key].get(row["box"])
        if holding is not None:
            self._let_go(holding)
        if row["event"] == "ended":
            self.done_s[key[0]].setdefault(key[1], self.now_s)
        else:
            self.evicted_s[key] = self.now_s
            if holding is not None and not self.holdings[key]:
                self.lost_s.setdefault(key, self.now_s)

    def _let_go(self, holding: Holding) -> None:
        key = holding.key
        del self.holdings[key][holding.box]
        if not self.holdings[key]:
            self.of_job[key[0]].discard(key)
        if holding.stay is not None:
            holding.stay.to_s = self.now_s
        for name, amount in holding.demand.items():
            self.boxes[holding.box].used[name] -= amount
        for rule in self.rules(key[0], holding.choice):
            if rule.avoid is not None:
                self.in_group[rule.avoid.group].pop((key, holding.box), None)
        queue = self.jobs[key[0]].queue
        if queue is not None:
            self.in_queue[queue] -= 1
