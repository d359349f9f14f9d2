"""A fleet of three real appliances, each with a real RTSP camera: a box killed, the head killed, a line cut and healed,
the head away where no other box may decide, and jobs on boxes that are cut off or killed.

    python -m benchmarks.bench_fleet_boxes [--only killed head cut away jobs] [--cut-s 60] [--away-s 180]
        [--before-s 20] [--results FILE]

Boxes are `magpie run` processes on this machine, with agents over mutual TLS. A box is killed with -9, all of its
processes at once. A cut line, to the other boxes and to the broker, loses every byte in both directions; both halves
live on. Answers are seen in two ways:

- on the live socket of each box, frame by frame: the longest time between two answers, in frame periods, as they came
  to the viewer (`came_periods`) and by the times of their frames (`frames_periods`), before the loss and after it;
- by REST, ten times a second: which box answers a camera. A worker reports its counts about once a second.

Each box sends its objects and alarms to a broker. At the end of `killed`, `head` and `cut` a killed box is started
again, and each event on record at a box has to be heard there once. `away` and `jobs` run jobs on Ray. mosquitto,
openssl and magpie-edge[ray] have to be installed. Results: benchmarks/results/fleet_boxes.json; runs that are left out
keep theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.fleet_boxes import BrokerLines, RealBox, fleet_of
from benchmarks.fleet_boxes_events import EventsHeard, outputs_of
from benchmarks.fleet_boxes_jobs import ray_settings
from benchmarks.fleet_boxes_runs import FPS, RUNS, BoxesRun, RunLengths, StartedFleet
from benchmarks.own_servers import BrokerProcess
from benchmarks.waiting import free_port
from edge.demo.cameras import serve_cameras
from edge.demo.site import scene_cameras
from edge.settings import merge

RESULTS = Path(__file__).parent / "results" / "fleet_boxes.json"
#: The goals of the issue: in seconds, in frame periods of the other cameras, and events or jobs.
GOALS = {
    "answered_elsewhere_s": 20.0, "standby_decides_s": 20.0, "two_owners_after_healing_s": 5.0, "job_elsewhere_s": 20.0,
    "others_gap_periods": 2.0, "events_lost_or_doubled": 0, "jobs_twice": 0,
}  # fmt: skip
#: By box, the loopback address from which it connects.
HOSTS = {"b1": "127.0.0.11", "b2": "127.0.0.12", "b3": "127.0.0.13"}


def played(run: BoxesRun, lengths: RunLengths) -> dict[str, Any]:
    """One run on a fleet of its own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        described = [c | {"fps": FPS} for c in scene_cameras(len(HOSTS), seed=3, cycle_s=240.0)]
        rtsp = f"rtsp://127.0.0.1:{stack.enter_context(serve_cameras(described, folder))}"
        broker = BrokerProcess(folder)
        stack.callback(broker.stop)
        broker.start()
        heard = stack.enter_context(EventsHeard(broker.port))
        lines_to = BrokerLines(broker.port, {name: free_port() for name in HOSTS})
        engines: Mapping[str, Any] = stack.enter_context(ray_settings(HOSTS)) if run.ray else {}
        boxes = []
        for number, (name, host) in enumerate(HOSTS.items()):
            more = merge(outputs_of(name, lines_to.relays[name]), engines.get(name, {}))
            if run.members and number:
                more = merge(more, {"fleet": {"role": "member"}})
            boxes.append(
                RealBox(folder, name, host, [described[number]], rtsp, learning={"task": "detection"}, more=more)
            )
        lines = stack.enter_context(fleet_of(boxes, lines_to))
        fleet = StartedFleet(boxes, lines, [c["name"] for c in described], heard, lengths)
        fleet.ready()
        return run.play(fleet)


def main() -> None:
    """Run and write the results."""
    parser = argparse.ArgumentParser(description="A fleet of three real appliances.")
    parser.add_argument("--only", nargs="*", choices=RUNS, default=list(RUNS), help="these runs (default: all)")
    parser.add_argument("--cut-s", type=float, default=60.0, help="the line is cut for so long (default 60)")
    parser.add_argument("--away-s", type=float, default=180.0, help="the head is away for so long (default 180)")
    parser.add_argument("--before-s", type=float, default=20.0, help="the watch before a loss (default 20)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file for the results")
    args = parser.parse_args()
    found = json.loads(args.results.read_text()) if args.results.exists() else {}
    for name in args.only:
        load = os.getloadavg()[0]
        found[name] = played(RUNS[name], RunLengths(args.cut_s, args.away_s, args.before_s))
        found[name]["load"] = {"before": round(load, 2), "after": round(os.getloadavg()[0], 2)}
        found["goals"] = GOALS
        found["machine"] = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
        args.results.write_text(json.dumps(found, indent=1) + "\n")
        print(name, json.dumps(found[name]), flush=True)


if __name__ == "__main__":
    main()
