"""Plays the runs of `bench_fleet_boxes` on a fleet of real appliances, and measures them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.fleet_boxes import BROKER, Lines, RealBox
from benchmarks.fleet_boxes_events import EventsHeard, check_events, seen_twice
from benchmarks.fleet_boxes_jobs import (
    job_of,
    over,
    places,
    ray_stands_still,
    runs_a_task,
    runs_on,
    submit,
    wait_for_engine,
)
from benchmarks.fleet_boxes_watch import Viewers, Watch, ended_of, kinds_of, processes_of
from benchmarks.waiting import until

#: Of every camera.
FPS: Final = 5.0
#: Looked at for so long after a box answers the lost camera.
_AFTER_S: Final = 10.0
_BACK_S: Final = 180.0
#: The tasks of a job hold for so long, in the cut and where their box is killed.
_CUT_TASK_S, _KILLED_TASK_S = 25.0, 30.0
#: A box's part of Ray stands still for so long: five seconds are enough for Ray to give it up.
_STILL_S: Final = 20.0


@dataclass(frozen=True)
class RunLengths:
    """Seconds: of the cut, of the head's absence, and of the watch before a loss."""

    cut_s: float
    away_s: float
    before_s: float


@dataclass(frozen=True)
class StartedFleet:
    """A fleet that runs: each box answers its own camera, in this order. `heard`: its events at the broker."""

    boxes: Sequence[RealBox]
    lines: Lines
    cameras: Sequence[str]
    heard: EventsHeard
    lengths: RunLengths

    @property
    def names(self) -> list[str]:
        """The boxes' names."""
        return [box.name for box in self.boxes]

    def ready(self) -> None:
        """Wait until every camera is answered by its own box and the fleet has taken it up; time to copy students."""
        want = dict(zip(self.cameras, self.names, strict=True))
        for box in self.boxes:
            until(lambda b=box: b.owners() == want, f"{box.name} knows all owners\n{box.log()[-3000:]}", _BACK_S)  # type: ignore[misc]
        time.sleep(5.0)

    def others(self, viewers: Viewers, lost: int, began: float, end: float) -> dict[str, Any]:
        """Answers of the cameras of all boxes but that number, before and after the loss."""
        return {
            camera: {
                "before": viewers.seen(camera, FPS, began - self.lengths.before_s, began),
                "after": viewers.seen(camera, FPS, began, end),
            }
            for number, camera in enumerate(self.cameras)
            if number != lost
        }

    def agreed(self) -> bool:
        """Whether all boxes answer, know the same owner of each camera, and have just the cameras that they own."""
        owners = self.boxes[0].owners()
        return len(owners) == len(self.cameras) and all(
            box.ask("/cameras") is not None
            and box.owners() == owners
            and set(box.answers()) == {camera for camera, owner in owners.items() if owner == box.name}
            for box in self.boxes
        )

    def wait_for_agreement(self) -> None:
        """Wait until `agreed`. Raises TimeoutError."""
        until(self.agreed, "all boxes answer and agree", _BACK_S, 0.5)


def killed(fleet: StartedFleet) -> dict[str, Any]:
    """A box that is not the head is killed with -9."""
    return _lost(fleet, 1)


def head(fleet: StartedFleet) -> dict[str, Any]:
    """The head is killed with -9: a standby decides, and the head's camera is answered elsewhere."""
    return _lost(fleet, 0)


def _lost(fleet: StartedFleet, number: int) -> dict[str, Any]:
    """A box is killed, its camera is answered elsewhere, and the box comes back."""
    box, camera = fleet.boxes[number], fleet.cameras[number]
    found: dict[str, Any] = {}
    with Watch(fleet.boxes) as watch, Viewers(fleet.boxes) as viewers:
        viewers.wait_for(fleet.cameras)
        time.sleep(fleet.lengths.before_s)
        began, killed_utc_s = time.monotonic(), time.time()
        box.kill()
        if number == 0:
            until(lambda: any(b.status().get("mandate") for b in fleet.boxes[1:]), "a standby decides", 60)
            found["standby_decides_s"] = round(time.monotonic() - began, 2)
        until(lambda: watch.first(camera, began, box.name), f"another box than {box.name} answers {camera}", 60)
        time.sleep(_AFTER_S)
        end = time.monotonic()
    found |= _elsewhere(watch, camera, began, box.name)
    found["longest_look_s"] = round(watch.longest_look_s(began, end, box.name), 2)
    found["others"] = fleet.others(viewers, number, began, end)
    box.start()
    fleet.wait_for_agreement()
    return found | {"events": check_events(fleet.boxes, fleet.heard, {box.name: killed_utc_s})}


def _elsewhere(watch: Watch, camera: str, began: float, box: str) -> dict[str, Any]:
    """When another box answered the camera first, and which one; nulls: none was seen to."""
    when, by = watch.first(camera, began, box) or (None, None)
    return {"answered_elsewhere_s": None if when is None else round(when - began, 2), "answered_by": by}


def cut(fleet: StartedFleet) -> dict[str, Any]:
    """The line of a box is cut and healed; both halves live."""
    camera = fleet.cameras[2]
    with Watch(fleet.boxes) as watch, Viewers(fleet.boxes) as viewers:
        viewers.wait_for(fleet.cameras)
        time.sleep(fleet.lengths.before_s)
        began = time.monotonic()
        fleet.lines.cut("b3", "b1", "b2", BROKER)
        time.sleep(fleet.lengths.cut_s)
        healed = time.monotonic()
        fleet.lines.heal()
        until(lambda: len(watch.owners_now(camera, healed) or ()) == 1, f"one box is seen to have {camera}", 60)
        time.sleep(_AFTER_S)
        end = time.monotonic()
    fleet.wait_for_agreement()
    marked = until(fleet.boxes[2].status, "b3 reports", 60)["overlaps"]
    both_s = watch.both_s(camera, healed, end)
    return {
        "cut_s": fleet.lengths.cut_s,
        **_elsewhere(watch, camera, began, "b3"),
        "gap_of_the_cut_camera_s": round(watch.gap_s(camera, began, end), 2),
        "others": fleet.others(viewers, 2, began, end),
        "two_owners_after_healing_s": None if both_s is None else round(both_s, 2),
        "longest_look_s": round(watch.longest_look_s(began, end), 2),
        "overlap_marked_s": [round(o["end_utc_s"] - o["start_utc_s"], 1) for o in marked if o["camera"] == camera],
        "nothing_of_the_cut_box_at_the_broker_s": round(fleet.heard.silent_s("b3", began, end), 2),
        "events": check_events(fleet.boxes, fleet.heard, {}),
        "objects_in_pairs_of_two_boxes": seen_twice(fleet.boxes, fleet.cameras),
    }


def away(fleet: StartedFleet) -> dict[str, Any]:
    """The head is killed, and no other box may decide; then it is started again. Jobs run on Ray, whose parts end
    without a head."""
    first, others = fleet.boxes[0], fleet.boxes[1:]
    wait_for_engine(first, fleet.names)
    with Viewers(fleet.boxes) as viewers:
        viewers.wait_for(fleet.cameras)
        time.sleep(fleet.lengths.before_s)
        known = {box.name: processes_of(box) for box in others}
        began = time.monotonic()
        first.kill()
        time.sleep(fleet.lengths.away_s)
        end = time.monotonic()
        ended = {box.name: ended_of(known[box.name]) for box in others}
        decided = [box.name for box in others if box.status().get("mandate")]
    found = {
        "away_s": fleet.lengths.away_s,
        "others": fleet.others(viewers, 0, began, end),
        "decided_meanwhile": decided,
        "known_processes": {name: kinds_of(processes) for name, processes in known.items()},
        "ended_processes": ended,
        "cameras_or_control_ended": sum(
            kinds.get(kind, 0) for kinds in ended.values() for kind in ("camera", "control")
        ),
    }
    again, again_utc_s = time.monotonic(), time.time()
    first.start()
    until(lambda: _decides(first, again_utc_s), f"the head decides again\n{first.log()[-3000:]}", 120)
    found["decides_again_s"] = round(time.monotonic() - again, 2)
    fleet.wait_for_agreement()
    wait_for_engine(first, fleet.names)
    found["engine_again_s"] = round(time.monotonic() - again, 2)
    submit(first, "after", 3, 1.0)
    return found | {"job_afterwards": over(first, "after", 60)}


def _decides(box: RealBox, since_utc_s: float) -> bool:
    """Whether a box reports since then that it is the head and hears enough boxes."""
    status = box.status()
    return bool(status.get("mandate")) and status["utc_s"] > since_utc_s


def jobs(fleet: StartedFleet) -> dict[str, Any]:
    """A box with a task is cut off and its part of Ray stands still, so that the task begins elsewhere; it goes on
    later, where Ray may have given it up, and the answer on the other box counts. Then a box with a task is killed."""
    wait_for_engine(fleet.boxes[0], fleet.names)
    found = {"cut": _job_cut_off(fleet)}
    fleet.wait_for_agreement()
    wait_for_engine(fleet.boxes[0], fleet.names)
    return found | {"killed": _job_killed(fleet)}


def _job_cut_off(fleet: StartedFleet) -> dict[str, Any]:
    first, box = fleet.boxes[0], fleet.boxes[2]
    submit(first, "cut", 3, _CUT_TASK_S)
    task = _task_on(runs_on(first, "cut", 3, 3), box.name)
    until(lambda: runs_a_task(box), f"a process on {box.name} runs its task", 60)
    began = time.monotonic()
    fleet.lines.cut(box.name, *(b.name for b in fleet.boxes if b is not box))
    with ray_stands_still(box) as still:
        until(lambda: places(job_of(first, "cut")).get(task, box.name) != box.name, "the task is elsewhere", 60, 0.25)
        elsewhere_s = time.monotonic() - began
        time.sleep(max(0.0, _STILL_S - elsewhere_s))
    fleet.lines.heal()
    done = over(first, "cut", 120)
    return {
        "task_elsewhere_s": round(elsewhere_s, 2),
        "stood_still": dict(still.kinds),
        "answer_of_another_box": done["answered_on"].get(str(task), box.name) != box.name,
        "first_task_still_runs": still.tasks_left(),
    } | done


def _job_killed(fleet: StartedFleet) -> dict[str, Any]:
    first, box = fleet.boxes[0], fleet.boxes[1]
    submit(first, "killed", 3, _KILLED_TASK_S)
    task = _task_on(runs_on(first, "killed", 3, 3), box.name)
    began, killed_utc_s = time.monotonic(), time.time()
    box.kill()
    until(lambda: places(job_of(first, "killed")).get(task, box.name) != box.name, "the task is elsewhere", 60, 0.25)
    elsewhere_s = time.monotonic() - began
    done = over(first, "killed", 120)
    # It holds for so long from its beginning on the other box.
    began_again_s = done["over_utc_s"] - _KILLED_TASK_S - killed_utc_s
    return {
        "task_elsewhere_s": round(elsewhere_s, 2),
        "began_again_by_its_end_s": round(began_again_s, 2),
        "answer_of_another_box": done["answered_on"].get(str(task), box.name) != box.name,
    } | done


def _task_on(placed: Mapping[int, str], box: str) -> int:
    found = [task for task, name in placed.items() if name == box]
    if not found:
        raise RuntimeError(f"no task runs on {box}: {dict(placed)}")
    return found[0]


@dataclass(frozen=True)
class BoxesRun:
    """A run, and the fleet that it needs: jobs on Ray, and whether boxes but the first are members that never
    decide."""

    play: Callable[[StartedFleet], dict[str, Any]]
    ray: bool = False
    members: bool = False


RUNS: Final[Mapping[str, BoxesRun]] = {
    "killed": BoxesRun(killed), "head": BoxesRun(head), "cut": BoxesRun(cut),
    "away": BoxesRun(away, ray=True, members=True), "jobs": BoxesRun(jobs, ray=True),
}  # fmt: skip
