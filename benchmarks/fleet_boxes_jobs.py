"""Jobs of a fleet of real appliances on Ray: the engine in the site file, submitting jobs, and their tasks now."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.fleet_boxes import RealBox, output_of
from benchmarks.ray_cluster import certificates
from benchmarks.waiting import free_port, until
from edge.engines.ray_engine import new_token

_TOKEN = "FLEET_RAY_TOKEN"
_ENGINE_S = 180.0


@contextmanager
def ray_settings(boxes: Mapping[str, str]) -> Iterator[dict[str, dict[str, Any]]]:
    """By box (given with its host), what its site file needs to run jobs on Ray: two cpus each. Ray's files lie in a
    folder with a short path, which is removed at the end."""
    # Ray's sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="mr", dir="/tmp", ignore_cleanup_errors=True) as short:
        folder = Path(short)
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
    """How often the head's journal says that a job is over. It looks for that every five seconds."""
    entries = box.ask("/events?kind=fleet.job_over&limit=200") or ()
    return sum(entry["data"].get("job") == job for entry in entries)


def over(box: RealBox, job: str, timeout_s: float) -> dict[str, Any]:
    """Wait until a job is over; what became of it. Raises TimeoutError."""
    until(lambda: job_of(box, job).get("phase") == "ended", f"{job} ends\n{box.log()[-3000:]}", timeout_s, 0.5)
    time.sleep(7.0)  # the journal's turn
    found = job_of(box, job)
    return {
        "tasks": found["tasks"],
        "answers": sum(t["done"] for t in found["task_states"]),
        "over_in_the_journal": times_over(box, job),
        "over_utc_s": found["over_utc_s"],
    }


@contextmanager
def ray_stands_still(box: RealBox) -> Iterator[int]:
    """Every process of a box's part of Ray stands still meanwhile, tasks too: to the cluster it is cut off. Yields how
    many they are."""
    stopped: list[psutil.Process] = []
    engine = next(p for p in box.processes() if "edge.fleet.engine_process" in p.cmdline())
    for process in engine.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
            stopped.append(process)
    try:
        yield len(stopped)
    finally:
        for process in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
