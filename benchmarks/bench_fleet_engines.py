"""The engines of a fleet on real boxes: scenarios on real raylets, time from placed to running, cost of an idle engine.

    python -m benchmarks.bench_fleet_engines [--problems FOLDER] [--checker FILE] [--only NAME ...] [--modes pinned ...]
                                             [--logs FOLDER] [--quick]

Needs magpie-edge[ray] and openssl. Each scenario of the folder with at most four boxes is played by the fleet's
controller and driver on one raylet a box (and one for the head), with a token and TLS, in both modes. Tasks hold; a
killed box is one whose processes get SIGKILL; while the head is away nothing is decided, and the cluster's store (GCS)
is killed and started again. Cuts are not injected: `box_cut` and `box_healed` of a scenario are left out. Logs are
judged with a tolerance of 1 s, 3 s where a box is killed. Then tasks are launched turn by turn on a warm worker: from
the order to the event that the program began, against the round trip of a plain Ray task of another driver of the same
cluster at the same time. Idle costs are sums over all processes of an engine: resident memory (PSS) and CPU time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from benchmarks.machine import when_and_where
from benchmarks.ray_cluster import ADDRESS, Cluster
from benchmarks.scripts import load_script
from edge.commands.fleet import write_log
from edge.core import engine as port
from edge.core.fleet import FleetJob, FleetRules, TaskAt
from edge.engines import ray_messages as msg
from edge.engines.driver import FleetDriver
from edge.engines.ray_settings import address_environment
from edge.runtime.local_engine import LocalEngine, LocalSettings
from edge.simulation.fleet_check import check_log
from edge.simulation.fleet_scenario import FleetScenario, InjectedFault, scenario_from_json
from edge.simulation.fleet_simulation import FleetRun, FleetSimulation
from scheduler.fleet.controller import FleetController

RESULTS = Path(__file__).resolve().parent / "results" / "fleet_engines.json"
MOST_BOXES, TOLERANCE_S, TOLERANCE_KILLED_S = 4, 1.0, 3.0
#: From placed to running: at most so many times a plain task of Ray, and so much more, in ms.
MOST_TIMES, MOST_MORE_MS = 2.0, 3.0
_CUTS = ("box_cut", "box_healed")
_CHECKPOINT_S = 1.0
_SETTLE_S = 2.0
_LAST_WORDS_S = 0.05
#: A cold worker needs so long on two busy cores, at most.
_WORKER_START_S = 0.8


def main() -> int:
    """Exit code 0 if every log is accepted and every target is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=Path, help="a folder of scenarios")
    parser.add_argument("--checker", type=Path, help="an independent checker of logs")
    parser.add_argument("--only", nargs="*", default=[], help="names of scenarios; other results are kept")
    parser.add_argument("--modes", nargs="*", default=list(port.ENGINE_MODES), choices=port.ENGINE_MODES)
    parser.add_argument("--logs", type=Path, help="keep the logs in this folder")
    parser.add_argument("--quick", action="store_true", help="no measurements beside the scenarios")
    given = parser.parse_args()
    checker = load_script(given.checker) if given.checker else None
    report: dict[str, Any] = {"benchmark": "fleet_engines", "scenarios": {}}
    if given.only and RESULTS.exists():
        report |= json.loads(RESULTS.read_text(encoding="utf-8"))
    # Of results that are kept, too.
    report["checker"] = checker is not None and report.get("checker", True)
    report |= when_and_where()
    for file in sorted(given.problems.glob("*.json")) if given.problems else ():
        value = json.loads(file.read_text(encoding="utf-8"))
        if len(value["boxes"]) <= MOST_BOXES and (not given.only or file.stem in given.only):
            for mode in given.modes:
                rows = played(value, mode)
                if given.logs is not None:
                    write_log(FleetRun(tuple(rows), {}, 0), given.logs / f"{file.stem}-{mode}.jsonl")
                report["scenarios"][f"{file.stem} {mode}"] = found = judged(value, rows, checker)
                print(file.stem, mode, json.dumps(found), flush=True)
    if not given.quick:
        report |= measured()
    report["missed"] = missed(report)
    print(json.dumps(report, indent=1))
    RESULTS.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if report["missed"] else 0


def played(value: dict[str, Any], mode: port.EngineMode) -> list[dict[str, Any]]:
    """Play a scenario on raylets; the log."""
    scenario = scenario_from_json(value)
    away_s = [fault.at_s for fault in scenario.faults if fault.kind.startswith("head_")]
    amounts = {box.name: dict(box.resources) for box in scenario.boxes}
    workers = most_at_once(scenario)
    cluster = Cluster(amounts, "head", workers, restart_s=away_s[1] - away_s[0] if away_s else 1.0)
    try:
        return Play(cluster, scenario, mode, workers).run()
    finally:
        cluster.close()


def judged(value: dict[str, Any], rows: list[dict[str, Any]], checker: ModuleType | None) -> dict[str, Any]:
    """The rules that a log breaks, and how long starts took."""
    scenario = scenario_from_json(value)
    killed = any(fault.kind == "box_down" for fault in scenario.faults)
    tolerance_s = TOLERANCE_KILLED_S if killed else TOLERANCE_S
    verdict = check_log(scenario, rows, tolerance_s)
    rules = dict(verdict.counts)
    if checker is not None:
        other = checker.Checker(value, tolerance_s)
        for row in rows:
            other.feed(row)
        other.expectations()
        if other.faults:
            rules["independent checker"] = len(other.faults)
    begun = starts_ms(rows)
    return {
        "broken": rules,
        "first": [f"{b.rule}: at {b.at_s:.2f} s {b.text}" for b in verdict.broken[:3]],
        "tasks": len(begun),
        "start_ms": spread(begun),
        "longest_replace_s": round(verdict.longest_replace_s, 2),
        "last_end_s": round(verdict.last_end_s, 2),
        "hfs_error": round(max(map(abs, verdict.hfs_error.values()), default=0.0), 4),
    }


def most_at_once(scenario: FleetScenario) -> int:
    """How many tasks a box runs at once at most, by simulation."""
    running: dict[str, set[tuple[str, int]]] = {box.name: set() for box in scenario.boxes}
    most = 1
    for row in FleetSimulation(scenario).run().log:
        if row["event"] == "placed":
            running[row["box"]].add((row["job"], row["task"]))
            most = max(most, len(running[row["box"]]))
        elif row["event"] in ("ended", "evicted"):
            running[row["box"]].discard((row["job"], row["task"]))
        elif row["event"] == "box_down":
            running[row["box"]].clear()
    return most


class WarmedEngine:
    """An engine, as it was just opened, whose boxes have run as many tasks at once as they have workers."""

    def __init__(self, engine: port.Engine, boxes: int, workers: int) -> None:
        self._engine = engine
        joined: list[port.EngineEvent] = []
        while len(joined) < boxes:
            joined += engine.events(60.0)
        names = [e.box.name for e in joined if isinstance(e, port.EngineBoxJoined)]
        # All of them at once: a worker that is ready first shall not do the work of another.
        hold = port.EngineWork("wait", {"seconds": _WORKER_START_S * workers * boxes})
        tasks = tuple(port.EngineTask(TaskAt("warm", n, box, 0), {}, hold) for box in names for n in range(workers))
        engine.launch(tasks)
        ended = 0
        while ended < len(tasks):
            ended += sum(isinstance(e, port.EngineTaskEnded) for e in engine.events(60.0))
        self._first: tuple[port.EngineEvent, ...] = tuple(
            port.EngineBoxJoined(0.0, e.box) for e in joined if isinstance(e, port.EngineBoxJoined)
        )
        self.kind, self.mode = engine.kind, engine.mode
        self.set_resource, self.status = engine.set_resource, engine.status
        self.launch, self.cancel, self.close = engine.launch, engine.cancel, engine.close

    def events(self, timeout_s: float) -> tuple[port.EngineEvent, ...]:
        """First the boxes, then what happens."""
        first, self._first = self._first, ()
        return first or self._engine.events(timeout_s)


def starts_ms(rows: list[dict[str, Any]]) -> list[float]:
    """From placed to started, sorted."""
    placed: dict[tuple[str, int, str], float] = {}
    found = []
    for row in rows:
        if row["event"] == "placed":
            placed[(row["job"], row["task"], row["box"])] = row["t"]
        elif row["event"] == "started":
            found.append(1000 * (row["t"] - placed[(row["job"], row["task"], row["box"])]))
    return sorted(found)


class Play:
    """One run of a scenario in real time."""

    def __init__(self, cluster: Cluster, scenario: FleetScenario, mode: port.EngineMode, workers: int) -> None:
        self._cluster, self._scenario = cluster, scenario
        self._began_s = time.monotonic()
        self._rows: list[dict[str, Any]] = []
        finite = [a.job for a in scenario.jobs if a.job.duration_s is not None]
        self._left = {(job.id, n) for job in finite for n in range(job.tasks)}
        self._head = True
        self._engine = WarmedEngine(cluster.open(self._clock, mode, look_s=0.5), len(scenario.boxes), workers)
        controller = FleetController(FleetRules(), scenario.tenants, scenario.queues, scenario.placement)
        self._driver = FleetDriver(controller, self._engine, scenario.boxes, self._clock, self._note)

    def _clock(self) -> float:
        """Seconds since the scenario began."""
        return time.monotonic() - self._began_s

    def _note(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if row["event"] == "ended":
            self._left.discard((row["job"], row["task"]))
        elif row["event"] == "rejected":
            self._left = {(job, n) for job, n in self._left if job != row["job"]}

    def run(self) -> list[dict[str, Any]]:
        """Play it to its end; the log."""
        try:
            self._began_s = time.monotonic()
            self._driver.step(0.0)
            agenda: list[tuple[float, Callable[[], None]]] = [
                (arriving.at_s, partial(self._submit, arriving.job)) for arriving in self._scenario.jobs
            ]
            agenda += [(f.at_s, partial(self._strike, f)) for f in self._scenario.faults if f.kind not in _CUTS]
            for at_s, act in sorted(agenda, key=lambda entry: entry[0]):
                self._step_until(at_s)
                act()
            self._finish()
        finally:
            self._engine.close()
        self._rows.append({"t": max(self._clock(), self._rows[-1]["t"]), "event": "end"})
        return self._rows

    def _step_until(self, at_s: float) -> None:
        while (left_s := at_s - self._clock()) > 0.0:
            self._driver.step(min(left_s, 0.5), decide=self._head)

    def _submit(self, job: FleetJob) -> None:
        checkpoint_s = _CHECKPOINT_S if job.checkpoints else None
        arguments = {"seconds": job.duration_s, "checkpoint_s": checkpoint_s}
        self._driver.submit(job, port.EngineWork("wait", arguments))
        self._driver.step(0.0, decide=self._head)

    def _strike(self, fault: InjectedFault) -> None:
        self._driver.step(0.0, decide=self._head)
        if fault.kind == "drain":
            self._driver.drain(fault.box)
            return
        if fault.kind == "box_down":
            self._cluster.members[fault.box].kill()
            # Work that ended on the box before its end.
            until_s = self._clock() + _LAST_WORDS_S
            while (left_s := until_s - self._clock()) > 0.0:
                self._driver.step(left_s, decide=False)
        now_s = max(self._clock(), self._rows[-1]["t"])
        self._rows.append({"t": now_s, "event": fault.kind} | ({"box": fault.box} if fault.box else {}))
        if fault.kind == "box_up":
            self._cluster.start(fault.box)
        elif fault.kind == "head_down":
            self._head = False
            pids = self._cluster.members["head"].wait_for(msg.RayNodeUp).pids
            psutil.Process(pids["gcs_server"]).kill()
        elif fault.kind == "head_up":
            self._head = True

    def _finish(self) -> None:
        """Go on until all work is done, or far too late."""
        deadline_s = (self._scenario.expect.deadline_s or 300.0) + 60.0
        while self._left and self._clock() < deadline_s:
            self._driver.step(0.5, decide=self._head)
        self._step_until(self._clock() + _SETTLE_S)


def measured() -> dict[str, Any]:
    """Starts on a warm worker against plain tasks of Ray, and what each engine costs while it is idle."""
    idle: dict[str, Any] = {"local": cost_here(lambda: LocalEngine(LocalSettings("b0", {"cpu": 4.0})))}
    starts: dict[str, Any] = {}
    cluster = Cluster({"b0": {"cpu": 4.0}, "b1": {"cpu": 4.0}}, "b0")
    try:
        cluster.members["b1"].wait_for(msg.RayNodeUp)
        starts["plain"] = plain(cluster)
        with contextlib.ExitStack() as stack:
            for mode in port.ENGINE_MODES:
                engine = cluster.open(time.monotonic, mode, folder=cluster.folder / mode)
                stack.callback(engine.close)
                starts[f"ray {mode}"] = turn_by_turn(engine)
            starts["plain again"] = plain(cluster)
            head, member = (cluster.members[box].processes() for box in ("b0", "b1"))
            idle |= {"ray head": cost(head), "ray member": cost(member)}
            idle["ray link"] = cost([psutil.Process(engine.link_pid)])
    finally:
        cluster.close()
    local = LocalEngine(LocalSettings("b0", {"cpu": 4.0}))
    starts["local"] = turn_by_turn(local, 30)
    local.close()
    return {"start_ms": starts, "idle": idle}


def plain(cluster: Cluster) -> dict[str, float]:
    """Round trips of plain tasks of Ray in a driver of its own, in ms."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_fleet_engines_plain", cluster.head, ADDRESS],
        env=os.environ | cluster.security.environment() | address_environment("address", ADDRESS),
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def cost_here(make: Callable[[], port.Engine]) -> dict[str, float]:
    """Threads, processes and memory that an open engine adds to this process."""

    def now() -> tuple[int, int, float]:
        process = psutil.Process()
        return process.num_threads(), len(process.children(recursive=True)), process.memory_full_info().pss / 2**20

    threads, processes, pss_mb = now()
    engine = make()
    after = now()
    engine.close()
    return {
        "threads": after[0] - threads, "processes": after[1] - processes, "pss_mb": round(after[2] - pss_mb, 1)
    }  # fmt: skip


def turn_by_turn(engine: port.Engine, times: int = 200) -> dict[str, float]:
    """From the order to the event that the program began, one task after another, in ms."""
    box = ""
    while not box:
        for event in engine.events(60.0):
            if isinstance(event, port.EngineBoxJoined):
                box = event.box.name
    taken = []
    for n in range(times):
        at = TaskAt("turn", n, box, 1)
        begin_s = time.monotonic()
        engine.launch((port.EngineTask(at, {"cpu": 1.0}, port.EngineWork("wait", {"seconds": 0.0})),))
        over = False
        while not over:
            for event in engine.events(60.0):
                if isinstance(event, port.EngineTaskStarted) and event.task == at:
                    taken.append(1000 * (time.monotonic() - begin_s))
                over = over or isinstance(event, port.EngineTaskEnded)
    return spread(taken[times // 10 :])


def spread(taken: list[float]) -> dict[str, float]:
    """Percentiles of times in ms."""
    taken = sorted(taken)
    return {f"p{p}": round(taken[len(taken) * p // 100], 2) for p in (10, 50, 95)}


def cost(processes: list[psutil.Process], watched_s: float = 20.0) -> dict[str, float]:
    """What processes have and use while nothing runs. Idle workers are counted apart."""

    def busy_s(process: psutil.Process) -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    found = [p for p in processes if p.is_running()]
    before = sum(map(busy_s, found))
    time.sleep(watched_s)
    workers = [p for p in found if p.cmdline()[:1] and p.cmdline()[0].startswith("ray::")]
    pss = {p.pid: p.memory_full_info().pss / 2**20 for p in found}
    return {
        "processes": len(found) - len(workers),
        "pss_mb": round(sum(pss[p.pid] for p in found if p not in workers), 1),
        "warm_workers": len(workers),
        "warm_workers_pss_mb": round(sum(pss[p.pid] for p in workers), 1),
        "of_a_core": round((sum(map(busy_s, found)) - before) / watched_s, 4),
    }


def missed(report: dict[str, Any]) -> list[str]:
    """Targets that were not reached, in words."""
    out = [f"{name}: {found['broken']}" for name, found in report["scenarios"].items() if found["broken"]]
    if "start_ms" in report:
        plain_ms = min(report["start_ms"][name]["p50"] for name in ("plain", "plain again"))
        most_ms = MOST_TIMES * plain_ms + MOST_MORE_MS
        found = {name: report["start_ms"][name]["p50"] for name in ("ray pinned", "ray dynamic")}
        out += [f"{name}: starts after {ms} ms, not {most_ms:.1f} ms" for name, ms in found.items() if ms > most_ms]
    return out


if __name__ == "__main__":
    raise SystemExit(main())
