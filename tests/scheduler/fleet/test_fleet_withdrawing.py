"""Jobs that are withdrawn, that ended under an earlier controller, and that are forgotten."""

from __future__ import annotations

import random

from fleet_kit import ObedientFleet, boxes
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.fleet import Avoidance, FleetBox, FleetJob, FleetQueue, FleetTenant, SpatialRule
from scheduler.fleet import events as ev
from scheduler.fleet.controller import FleetController


def job(name: str, cpu: float = 1.0, **fields: object) -> FleetJob:
    """A job of one task of 10 s."""
    return FleetJob(name, {"cpu": cpu}, **({"duration_s": 10.0} | fields))  # type: ignore[arg-type]


def test_a_job_that_is_withdrawn_is_stopped_and_never_placed_again() -> None:
    fleet = ObedientFleet(boxes(1, cpu=2.0))
    fleet.submit(job("three", tasks=3), job("next", cpu=2.0))
    assert fleet.where("three") == ["b0", "b0"]
    fleet.send(ev.JobWithdrawn(0.0, "three"))
    assert fleet.evictions == [("three", "withdrawn")] * 2
    assert fleet.controller.over("three")
    assert fleet.where("three") == []
    assert fleet.where("next") == ["b0"], "it has what the other one held"
    assert fleet.controller.why("three") is None
    fleet.send(ev.JobWithdrawn(0.0, "three"), ev.JobWithdrawn(0.0, "nobody"))
    assert len(fleet.evictions) == 2


def test_a_task_that_ends_before_it_is_stopped_has_ended() -> None:
    fleet = FleetController()
    fleet.handle(ev.BoxReported(0.0, boxes(1)[0]))
    (placed,) = fleet.handle(ev.JobSubmitted(0.0, job("short")))
    assert isinstance(placed, ev.PlaceTasks)
    (stop,) = fleet.handle(ev.JobWithdrawn(1.0, "short"))
    assert isinstance(stop, ev.EvictTask)
    assert not fleet.over("short")
    assert fleet.handle(ev.TaskEnded(1.0, placed.tasks[0], 1.0)) == []
    assert fleet.over("short")


def test_what_needs_a_withdrawn_job_is_refused_and_what_runs_beside_it_goes_on() -> None:
    fleet = ObedientFleet(boxes(2))
    near = SpatialRule(near=("camera",))
    fleet.submit(job("camera", duration_s=None), job("beside", rule=near), job("late", after=("camera", "other")))
    fleet.submit(job("nowhere", cpu=4.0, tasks=9), job("waits", rule=SpatialRule(near=("unplaced",))))
    fleet.submit(job("unplaced", after=("camera",)))
    fleet.send(ev.JobWithdrawn(0.0, "camera"))
    assert fleet.refused == {
        "late": "target_withdrawn", "unplaced": "target_withdrawn", "waits": "target_refused",
    }  # fmt: skip
    assert len(fleet.where("beside")) == 1
    fleet.submit(job("new", after=("camera",)))
    assert fleet.refused["new"] == "target_withdrawn"
    assert "withdrawn" in fleet.controller.why("new").words()  # type: ignore[union-attr]


def test_a_withdrawn_gang_whose_box_is_lost_is_over_and_gives_its_queue_free() -> None:
    fleet = ObedientFleet(boxes(2), queues=[FleetQueue("one", 4)])
    fleet.submit(job("gang", cpu=4.0, tasks=2, gang=True, queue="one"), job("behind", queue="one"))
    fleet.controller.handle(ev.BoxSilent(1.0, "b1"))
    stopped = [o.task for o in fleet.controller.handle(ev.JobWithdrawn(1.0, "gang")) if isinstance(o, ev.EvictTask)]
    assert {task.box for task in stopped} == {"b0", "b1"}
    fleet.controller.handle(ev.TaskStopped(1.0, next(task for task in stopped if task.box == "b0")))
    assert not fleet.controller.over("gang")
    fleet.controller.handle(ev.LeaseEnded(9.0, "b1"))
    assert fleet.controller.over("gang")
    assert fleet.controller.owner("behind", 0) is not None


def test_tasks_that_ended_under_an_earlier_controller_are_not_done_again() -> None:
    fleet = ObedientFleet(boxes(2))
    fleet.jobs.update((j.id, j) for j in (job("first"), job("half", tasks=3)))
    fleet.send(
        ev.JobSubmitted(0.0, job("first"), {0: "b1"}),
        ev.JobSubmitted(0.0, job("half", tasks=3), {0: "b0", 2: "gone"}),
    )
    assert fleet.controller.over("first")
    assert [task for name, task in fleet.running if name == "half"] == [1]
    fleet.submit(job("reads", rule=SpatialRule(near=("first",))), job("follows", after=("first",)))
    assert fleet.where("reads") == ["b1"]
    assert len(fleet.where("follows")) == 1
    fleet.end("half", 1)
    assert fleet.controller.over("half")


def test_only_a_job_that_is_over_and_not_needed_is_forgotten() -> None:
    fleet = ObedientFleet(boxes(1, cpu=1.0))
    fleet.submit(job("first"), job("second", after=("first",)))
    fleet.send(ev.JobForgotten(0.0, "first"))
    assert fleet.controller.remembers() == ["first", "second"]
    fleet.end("first")
    fleet.send(ev.JobForgotten(0.0, "first"))
    assert fleet.controller.remembers() == ["first", "second"], "the second one begins after it"
    fleet.end("second")
    fleet.send(ev.JobForgotten(0.0, "first"), ev.JobForgotten(0.0, "second"), ev.JobForgotten(0.0, "nobody"))
    assert fleet.controller.remembers() == []
    fleet.submit(job("first"))
    assert fleet.where("first") == ["b0"], "the id is free again"


def test_arrivals_keep_their_order_after_jobs_were_forgotten() -> None:
    fleet = ObedientFleet(boxes(1, cpu=1.0), queues=[FleetQueue("line", 1)])
    for n in range(3):
        fleet.submit(job(f"early-{n}", queue="line"))
        fleet.end(f"early-{n}")
    fleet.submit(job("one", queue="line"), job("two", queue="line"))
    for n in range(3):
        fleet.send(ev.JobForgotten(0.0, f"early-{n}"))
    fleet.submit(job("three", queue="line"))
    fleet.end("one")
    assert fleet.where("two") == ["b0"]
    assert fleet.controller.why("three").code in ("turn", "slots")  # type: ignore[union-attr]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_a_fleet_that_forgets_everything_is_as_a_new_one(seed: int) -> None:
    rng = random.Random(seed)
    fleet = _BusyFleet(rng)
    for _ in range(rng.randint(5, 40)):
        fleet.something()
    fleet.wind_up()
    assert fleet.running == {}
    assert fleet.controller.remembers() == []
    assert all(row.used == row.wanted == 0.0 for row in fleet.controller.shares())
    assert {name.partition(":")[0] for _, name in fleet.announced} <= {"zone"}, "zones belong to the boxes"
    fleet.submit(*(job(f"after-{n}", cpu=4.0) for n in range(fleet.number)))
    assert {box for n in range(fleet.number) for box in fleet.where(f"after-{n}")} == set(fleet.boxes)


class _BusyFleet(ObedientFleet):
    """Jobs of all kinds come, end, are withdrawn and forgotten; boxes are lost and come back. `announced`: the
    ephemeral resources that boxes got and that are still there."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.number = rng, rng.randint(1, 4)
        self.announced: dict[tuple[str, str], float] = {}
        self.count = 0
        tenants = [FleetTenant("a", 1.0), FleetTenant("b", 2.0)]
        super().__init__(boxes(self.number), tenants, [FleetQueue("line", 2), FleetQueue("free", None, "priority")])

    def send(self, *events: ev.FleetEvent) -> None:
        """As it is, with the resources noted."""
        handle = self.controller.handle

        def noting(*news: ev.FleetEvent) -> list[ev.FleetInstruction]:
            orders = handle(*news)
            for order in orders:
                if isinstance(order, ev.MakeResource) and order.capacity:
                    self.announced[(order.box, order.name)] = order.capacity
                elif isinstance(order, ev.MakeResource):
                    self.announced.pop((order.box, order.name), None)
            return orders

        self.controller.handle = noting  # type: ignore[method-assign]
        try:
            super().send(*events)
        finally:
            self.controller.handle = handle  # type: ignore[method-assign]

    def something(self) -> None:
        """One thing happens."""
        self.now_s += self.rng.choice([0.0, 0.5, 12.0])
        known = self.controller.remembers()
        choice = self.rng.random()
        if choice < 0.5:
            self.submit(self._job(known))
        elif choice < 0.7 and self.running:
            self.end(*self.rng.choice(sorted(self.running)))
        elif choice < 0.85 and known:
            self.send(ev.JobWithdrawn(self.now_s, self.rng.choice(known)))
        elif choice < 0.95 and known:
            self.send(ev.JobForgotten(self.now_s, self.rng.choice(known)))
        else:
            self._lose_and_find(self.rng.choice(sorted(self.boxes)))

    def wind_up(self) -> None:
        """Everything ends or is withdrawn, then it is forgotten, in any order."""
        for name in self.controller.remembers():
            self.send(ev.JobWithdrawn(self.now_s, name))
        left = self.controller.remembers()
        self.rng.shuffle(left)
        for name in left:
            self.send(ev.JobForgotten(self.now_s, name))

    def _job(self, known: list[str]) -> FleetJob:
        rng, name = self.rng, f"j{self.count}"
        self.count += 1
        others = tuple(rng.sample(known, min(len(known), rng.choice([0, 0, 1, 2]))))
        avoid = Avoidance(f"g{rng.randint(0, 1)}", rng.choice(["box", "rack"])) if rng.random() < 0.3 else None
        zone = {"site": (rng.choice(["north", "south"]),)} if rng.random() < 0.2 else {}
        choices = (SpatialRule(zone={"site": ("north",)}), SpatialRule()) if rng.random() < 0.2 else ()
        return job(
            name, rng.choice([0.5, 1.0, 4.0, 99.0]), tasks=rng.choice([1, 1, 2, 3]), gang=rng.random() < 0.3,
            duration_s=rng.choice([None, 10.0]), tenant=rng.choice([None, "a", "b"]),
            queue=rng.choice([None, None, "line", "free"]), after=others if rng.random() < 0.5 else (),
            rule=SpatialRule(zone, others[:1] if rng.random() < 0.3 else (), avoid), choices=choices,
            relax_after_s=2.0 if choices else 0.0,
            offers={f"room:{name}": 2.0} if rng.random() < 0.2 else {},
        )  # fmt: skip

    def _lose_and_find(self, box: str) -> None:
        self.lose(box, self.now_s)
        self.announced = {place: capacity for place, capacity in self.announced.items() if place[0] != box}
        found = FleetBox(box, self.boxes[box].resources, self.boxes[box].labels)
        self.send(ev.BoxReported(self.now_s, found))
