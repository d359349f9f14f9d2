"""Submits jobs to a fleet of real appliances on Ray, and reads what became of their tasks."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil

from benchmarks.fleet_boxes import RealBox, asked, output_of
from benchmarks.fleet_boxes_watch import KnownProcess, kinds_of, process_name
from benchmarks.ray_cluster import certificates, short_folder
from benchmarks.soak.watching import runs
from benchmarks.waiting import free_port, until
from edge.engines.ray_engine import new_token

_TOKEN = "FLEET_RAY_TOKEN"
_ENGINE_S = 180.0
#: The name of a Ray worker's process while it runs a task.
_TASK = "ray::task"


@contextmanager
def ray_settings(boxes: Mapping[str, str]) -> Iterator[dict[str, dict[str, Any]]]:
    """By box (given with its host), what its site file needs to run jobs on Ray: two cpus each. Ray's files lie in a
    folder with a short path, which is removed at the end."""
    folder = short_folder()
    try:
        made = certificates(folder, list(boxes.values()))
        os.environ[_TOKEN] = new_token()
        yield {
            name: {"fleet": {"engine": {"kind": "ray", "amounts": {"cpu": 2.0}, "ray": {
                "address": host, "port": free_port(host), "token": f"env:{_TOKEN}",
                "certificate": str(made.certificate), "key": str(made.key), "authority": str(made.authority),
                "folder": str(folder / name),
            }}}}
            for name, host in boxes.items()
        }  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def engine_has(box: RealBox, names: Sequence[str]) -> bool:
    """Whether the fleet's engine is up and has these boxes, as a box reports it."""
    jobs = box.ask("/fleet/jobs")
    return jobs is not None and jobs["engine"]["phase"] == "up" and set(names) <= set(jobs["engine"]["boxes"])


def wait_for_engine(box: RealBox, names: Sequence[str]) -> None:
    """Wait until `engine_has`. Raises TimeoutError."""
    until(lambda: engine_has(box, names), f"the engine has {', '.join(names)}\n{box.log()[-3000:]}", _ENGINE_S, 0.5)


def submit(box: RealBox, job: str, tasks: int, seconds: float) -> None:
    """`magpie fleet submit`: a job whose tasks hold for so long. Raises RuntimeError where it is refused."""
    file = box.folder / f"{job}.json"
    work = {"program": "wait", "arguments": {"seconds": seconds}}
    file.write_text(json.dumps({"id": job, "demand": {"cpu": 1}, "duration_s": seconds, "tasks": tasks, "work": work}))
    output_of("fleet", "submit", box.site, str(file))


def job_of(box: RealBox, job: str) -> dict[str, Any]:
    """A job as a box reports it; empty: not known, or no answer."""
    jobs = box.ask("/fleet/jobs")
    found: dict[str, Any] = next((j for j in jobs["jobs"] if j["id"] == job), {}) if jobs else {}
    return found


def places(job: Mapping[str, Any]) -> dict[int, str]:
    """By task, the box on which it runs or ran."""
    return {t["task"]: t["box"] for t in job.get("task_states", ()) if t["box"]}


def runs_on(box: RealBox, job: str, tasks: int, boxes: int) -> dict[int, str]:
    """Wait until all tasks of a job run, on so many boxes at least; the places. Raises TimeoutError."""

    def found() -> dict[int, str] | None:
        now = places(job_of(box, job))
        return now if len(now) == tasks and len(set(now.values())) >= boxes else None

    placed: dict[int, str] = until(found, f"{job} runs\n{box.log()[-3000:]}", 60, 0.25)
    return placed


def times_over(box: RealBox, job: str) -> int:
    """How often the head's journal says that a job is over; the head writes that within five seconds. Raises
    TimeoutError where the head does not answer."""
    return sum(entry["data"].get("job") == job for entry in asked(box, "/events?kind=fleet.job_over&limit=200"))


def over(box: RealBox, job: str, timeout_s: float) -> dict[str, Any]:
    """Wait until a job is over; what became of it. `answered_on`: by task, the box whose answer counts. The head keeps
    one answer of a task and drops others, so an answer that came twice is not seen here. Raises TimeoutError."""
    until(lambda: job_of(box, job).get("phase") == "ended", f"{job} ends\n{box.log()[-3000:]}", timeout_s, 0.5)
    time.sleep(7.0)  # the journal's turn
    found = until(lambda: job_of(box, job), f"{box.name} reports {job}", 60)
    return {
        "tasks": found["tasks"],
        "tasks_without_an_answer": found["tasks"] - found["done"],
        "answered_on": {str(t["task"]): t["box"] for t in found["task_states"] if t["done"]},
        "over_in_the_journal": times_over(box, job),
        "over_utc_s": found["over_utc_s"],
    }


@dataclass(frozen=True)
class StillRay:
    """Processes of a box's part of Ray that stand still: how many of each kind, and those that run a task."""

    kinds: Mapping[str, int]
    tasks: Sequence[KnownProcess]

    def tasks_left(self) -> int:
        """How many of the tasks run now."""
        return sum(runs(p.pid, p.began) and _name(p.pid) == _TASK for p in self.tasks)


def runs_a_task(box: RealBox) -> bool:
    """Whether a process of a box's part of Ray runs a task."""
    return any(_name(process.pid) == _TASK for process in _ray(box))


@contextmanager
def ray_stands_still(box: RealBox) -> Iterator[StillRay]:
    """Every process of a box's part of Ray stands still meanwhile, tasks too: to the cluster it is cut off. Raises
    RuntimeError where the box has no part of Ray."""
    stopped: list[psutil.Process] = []
    known: list[KnownProcess] = []
    try:
        for process in _ray(box):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
                stopped.append(process)
                known.append(KnownProcess(_name(process.pid), process.pid, process.create_time()))
        yield StillRay(kinds_of(known), [p for p in known if p.kind == _TASK])
    finally:
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


def _ray(box: RealBox) -> list[psutil.Process]:
    """The processes below that of a box's engine. Raises RuntimeError where there is none."""
    for process in box.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            if "edge.fleet.engine_process" in process.cmdline():
                found: list[psutil.Process] = process.children(recursive=True)
                return found
    raise RuntimeError(f"{box.name} has no process of an engine\n{box.log()[-3000:]}")


def _name(pid: int) -> str:
    """As `process_name`; empty: it has ended."""
    try:
        return process_name(psutil.Process(pid))
    except psutil.Error:
        return ""
