"""Fleets for tests: boxes, jobs, a fleet that does what its controller orders at once, and random scenarios."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from edge.core.fleet import FleetBox, FleetJob, FleetQueue, FleetTenant, TaskAt
from scheduler.fleet import events as ev
from scheduler.fleet.controller import FleetController


def boxes(number: int, cpu: float = 4.0, per_rack: int = 2) -> list[FleetBox]:
    """Equal boxes b0, b1, ... in racks; every second one is in the north."""
    return [
        FleetBox(f"b{n}", {"cpu": cpu}, {"rack": f"r{n // per_rack}", "site": ("north", "south")[n % 2]})
        for n in range(number)
    ]


class ObedientFleet:
    """Does at once what the controller orders. Checks after every step that no box is over-booked, that no task lives
    twice, and that gangs are whole."""

    def __init__(
        self,
        fleet: Sequence[FleetBox],
        tenants: Sequence[FleetTenant] = (),
        queues: Sequence[FleetQueue] = (),
        placement: str = "spread",
    ) -> None:
        self.controller = FleetController(tenants=tenants, queues=queues, placement=placement)  # type: ignore[arg-type]
        self.boxes = {box.name: box for box in fleet}
        self.jobs: dict[str, FleetJob] = {}
        self.running: dict[tuple[str, int], TaskAt] = {}
        self.refused: dict[str, str] = {}
        self.begun: list[str] = []
        self.choices: dict[str, int] = {}
        self.wakes: list[float] = []
        self.evictions: list[tuple[str, str]] = []
        self.now_s = 0.0
        self.send(*(ev.BoxReported(0.0, box) for box in fleet))

    def send(self, *events: ev.FleetEvent) -> None:
        """Events happen at one time, and their instructions are carried out."""
        taken: list[TaskAt] = []
        stopped: list[TaskAt] = []
        for order in self.controller.handle(*events):
            match order:
                case ev.PlaceTasks(tasks=tasks, choice=choice, confirm=confirm):
                    taken += tasks if confirm else ()
                    for task in tasks:
                        assert (task.job, task.task) not in self.running
                        self.running[(task.job, task.task)] = task
                        self.begun.append(task.job)
                        self.choices[task.job] = choice
                case ev.EvictTask(task=task, reason=reason):
                    if self.running.get((task.job, task.task)) == task:
                        stopped.append(self.running.pop((task.job, task.task)))
                    self.evictions.append((task.job, reason))
                case ev.RefuseJob(job=job, reason=reason_):
                    self.refused[job] = reason_.code
                case ev.WakeAt(at_s=at_s):
                    self.wakes.append(at_s)
        self.check()
        if taken:
            self.send(ev.TasksTaken(self.now_s, tuple(taken)))
        if stopped:
            self.send(*(ev.TaskStopped(self.now_s, task) for task in stopped))

    def check(self) -> None:
        """No box is over-booked, and a gang runs whole or not."""
        used: dict[tuple[str, str], float] = {}
        for task in self.running.values():
            for name, amount in self.jobs[task.job].demand.items():
                used[(task.box, name)] = used.get((task.box, name), 0.0) + amount
        for (box, name), amount in used.items():
            assert ":" in name or amount <= self.boxes[box].resources[name] + 1e-6

    def submit(self, *jobs: FleetJob, at_s: float | None = None) -> None:
        """Jobs come in."""
        self.now_s = self.now_s if at_s is None else at_s
        self.jobs.update((job.id, job) for job in jobs)
        self.send(*(ev.JobSubmitted(self.now_s, job) for job in jobs))

    def end(self, job: str, task: int = 0, at_s: float | None = None) -> None:
        """A task's work is done."""
        self.now_s = self.now_s if at_s is None else at_s
        self.send(ev.TaskEnded(self.now_s, self.running.pop((job, task)), 1.0))

    def pass_time(self, at_s: float) -> None:
        """Nothing happens until then."""
        self.now_s = at_s
        self.send(ev.WakeTimeCame(at_s))

    def lose(self, box: str, at_s: float) -> None:
        """A box's lease is over."""
        self.now_s = at_s
        for key in [key for key, task in self.running.items() if task.box == box]:
            del self.running[key]
        self.send(ev.BoxSilent(at_s, box), ev.LeaseEnded(at_s, box))

    def where(self, job: str) -> list[str]:
        """Boxes of a job's running tasks, in the order of the tasks."""
        return [task.box for (name, _), task in sorted(self.running.items()) if name == job]


def scenario(boxes_: Iterable[FleetBox], jobs: Sequence[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """A scenario file's value."""
    rows = [{"name": b.name, "resources": dict(b.resources), "labels": dict(b.labels)} for b in boxes_]
    in_order = sorted(jobs, key=lambda job: job["t"])
    return {"format": "fleet-scenario/1", "name": "test", "boxes": rows, "jobs": in_order} | fields


def random_scenario(seed: int) -> dict[str, Any]:
    """Cameras with their companions, gangs, chains, soft and separated jobs of two tenants on 4 to 8 boxes; boxes are
    killed, cut off and drained, and the head goes away. Everything can be placed with the boxes that stay."""
    rng = random.Random(seed)
    number = rng.randint(4, 8)
    jobs: list[dict[str, Any]] = []
    for n in range(number):
        camera = {"id": f"camera-{n}", "t": 0.1 * n, "demand": {"cpu": 0.5}, "duration_s": None, "overlap": "allowed"}
        jobs += [camera]
        jobs += [_work(rng, f"near-{n}", near=[f"camera-{n}"])] if rng.random() < 0.7 else []
    for n in range(rng.randint(5, 20)):
        jobs.append(_work(rng, f"plain-{n}", tenant=rng.choice(["a", "b"]), tasks=rng.randint(1, 3)))
    for n in range(rng.randint(1, 4)):
        jobs.append(_work(rng, f"gang-{n}", tasks=rng.randint(2, 6), gang=True))
        jobs.append(_work(rng, f"label-{n}", queue="teacher"))
        jobs.append(_work(rng, f"fit-{n}", after=[f"label-{n}"], queue="train", priority=rng.randint(0, 2)))
        avoid = {"group": f"g{n}", "per": rng.choice(["rack", "box"])}
        jobs.append(_work(rng, f"apart-{n}", tasks=2, avoid=avoid, gang=rng.random() < 0.5))
        choices: list[dict[str, Any]] = [{"zone": {"site": ["north"]}, "avoid": {"group": f"s{n}"}}, {}]
        jobs.append(_work(rng, f"soft-{n}", tasks=2, prefer=choices, relax_after_s=rng.choice([2, 4])))
    jobs.append(_work(rng, "too-large", demand={"cpu": 99}, infeasible=True))
    fields = {
        "tenants": [{"name": "a", "weight": 1}, {"name": "b", "weight": rng.randint(1, 3)}],
        "queues": [
            {"name": "teacher", "slots": 1, "discipline": "fifo"},
            {"name": "train", "slots": 2, "discipline": "priority"},
        ],
        "faults": _faults(rng, number),
        "expect": {"max_gap_s": 60, "detect_s": 15, "merge_s": 5, "deadline_s": 600},
    }
    return scenario(boxes(number, cpu=5.0), jobs, **fields)


def overlapping_faults(seed: int, number: int) -> list[dict[str, Any]]:
    """Boxes that are cut off, killed and drained at about one time, while the head goes away; b0 and b1 stay."""
    rng = random.Random(seed)
    at_s, boxes_ = rng.uniform(5, 25), [f"b{n}" for n in range(2, number)]
    cut, killed, drained, both = (rng.choice(boxes_) for _ in range(4))
    rows = [(at_s, "box_cut", cut), (at_s + rng.choice([2, 7, 12, 25]), "box_healed", cut)]
    if killed != cut:
        down_s = at_s + rng.uniform(-3, 10)
        rows += [(down_s, "box_down", killed), (down_s + rng.choice([2, 5, 10, 20, 40]), "box_up", killed)]
    if rng.random() < 0.6:
        away_s = at_s + rng.uniform(-4, 12)
        rows += [(away_s, "head_down", ""), (away_s + rng.choice([3, 10, 20]), "head_up", "")]
    if rng.random() < 0.4:
        rows.append((at_s + rng.uniform(30, 50), "drain", drained))
    if rng.random() < 0.4:
        late_s = at_s + 70
        rows += [(late_s, "box_cut", both), (late_s + 3, "box_down", both)]
        rows += [(late_s + rng.choice([6, 30]), "box_up", both), (late_s + 40, "box_healed", both)]
    return [{"t": t, "kind": kind} | ({"box": box} if box else {}) for t, kind, box in sorted(rows)]


def _work(rng: random.Random, name: str, **fields: Any) -> dict[str, Any]:
    begin = {"id": name, "t": round(rng.uniform(1, 60), 2), "demand": {"cpu": rng.choice([0.5, 1])}}
    return begin | {"duration_s": round(rng.uniform(0.5, 15), 1), "checkpoints": rng.random() < 0.5} | fields


def _faults(rng: random.Random, number: int) -> list[dict[str, Any]]:
    """One kind of trouble after the other, each over before the next; b0 and b1 stay."""
    rows, at_s = [], rng.uniform(5, 20)
    for _ in range(rng.randint(1, 3)):
        box, lasts_s = f"b{rng.randrange(2, number)}", rng.choice([3, 8, 20, 40])
        begin, finish = rng.choice([("box_down", "box_up"), ("box_cut", "box_healed"), ("head_down", "head_up")])
        struck = {} if begin == "head_down" else {"box": box}
        rows += [{"t": at_s, "kind": begin} | struck, {"t": at_s + lasts_s, "kind": finish} | struck]
        at_s += lasts_s + rng.uniform(25, 40)
    if rng.random() < 0.3:
        rows.append({"t": at_s, "kind": "drain", "box": f"b{rng.randrange(2, number)}"})
    return rows
