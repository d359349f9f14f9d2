"""A fleet of three real appliances, each with a real RTSP camera: a box killed, the head killed, a line cut and healed.

    python -m benchmarks.bench_fleet_boxes [--only killed head cut] [--cut-s 60]

Boxes are `magpie run` processes on this machine, with agents over mutual TLS. A box is killed with -9, all of its
processes at once. A cut line loses every byte in both directions; both halves live on. Times are seen by asking each
appliance ten times a second for the answers that its cameras gave, so a gap is known to about 0.2 s (a worker reports
its counts about once a second, and that is the finest gap that is seen). Results: benchmarks/results/fleet_boxes.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.fleet_boxes import Lines, RealBox, fleet_of
from benchmarks.waiting import until
from edge.demo.cameras import serve_cameras
from edge.demo.site import scene_cameras

RESULTS = Path(__file__).parent / "results" / "fleet_boxes.json"
#: The goals of the issue, in seconds.
ELSEWHERE_S, STANDBY_S, TWO_OWNERS_S = 20.0, 20.0, 5.0


class Watch:
    """Looks at every box all the time: when each camera was seen to give new answers, and where."""

    def __init__(self, boxes: Sequence[RealBox]) -> None:
        self._boxes = boxes
        self._ending = threading.Event()
        #: (time, box, camera) of each look that saw new answers; (time, box, camera) of each camera that was there.
        self.answers: list[tuple[float, str, str]] = []
        self.there: list[tuple[float, str, str]] = []
        self._threads = [threading.Thread(target=self._look, args=(b,), daemon=True) for b in boxes]

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _look(self, box: RealBox) -> None:
        before: dict[str, int] = {}
        while not self._ending.is_set():
            found, now = box.answers(), time.monotonic()
            for camera, count in found.items():
                self.there.append((now, box.name, camera))
                if count and count != before.get(camera):
                    self.answers.append((now, box.name, camera))
            before = found
            self._ending.wait(0.1)

    def gap_s(self, camera: str, since: float, end: float, box: str | None = None) -> float:
        """The longest time without a new answer of a camera, on one box or on any."""
        times = [t for t, b, c in self.answers if c == camera and since <= t <= end and box in (None, b)]
        edges = [since, *sorted(times), end]
        return max(b - a for a, b in pairwise(edges))

    def first_s(self, camera: str, since: float, without: str) -> float:
        """When another box than `without` was seen to answer a camera first. Raises ValueError for never."""
        return min(t for t, b, c in self.answers if c == camera and t >= since and b != without)

    def both_s(self, camera: str, since: float) -> float:
        """How long after `since` two boxes were seen to have a camera last; 0: never."""
        last: dict[str, float] = {}
        both = 0.0
        for t, box, name in sorted(self.there):
            if name == camera and t >= since:
                last[box] = t
                if sum(t - seen < 0.5 for seen in last.values()) > 1:
                    both = t - since
        return both


def ready(boxes: Sequence[RealBox], cameras: Sequence[str]) -> None:
    """Every camera is answered by its own box, and the fleet has taken it up; time to copy students."""
    want = dict(zip(cameras, (b.name for b in boxes), strict=True))
    for box in boxes:
        until(lambda b=box: b.owners() == want, f"{box.name} knows all owners\n{box.log()[-3000:]}", 180)  # type: ignore[misc]
    time.sleep(5.0)


def killed(boxes: Sequence[RealBox], _: Lines, cameras: Sequence[str], _cut_s: float) -> dict[str, Any]:
    """A box that is not the head is killed with -9."""
    with Watch(boxes) as watch:
        time.sleep(3.0)
        began = time.monotonic()
        boxes[1].kill()
        until(lambda: watch.answers and any(b != "b2" and c == cameras[1] for _, b, c in watch.answers), "taken", 60)
        time.sleep(10.0)
        end = time.monotonic()
    return {
        "answered_elsewhere_s": round(watch.first_s(cameras[1], began, "b2") - began, 2),
        "others_gap_s": [round(watch.gap_s(c, began, end), 2) for c in (cameras[0], cameras[2])],
        "others_gap_before_s": [round(watch.gap_s(c, began - 3.0, began), 2) for c in (cameras[0], cameras[2])],
    }


def head(boxes: Sequence[RealBox], _: Lines, cameras: Sequence[str], _cut_s: float) -> dict[str, Any]:
    """The head is killed with -9: a standby decides, and the head's camera is answered elsewhere."""
    with Watch(boxes) as watch:
        time.sleep(3.0)
        began = time.monotonic()
        boxes[0].kill()
        until(lambda: any(b.status().get("mandate") for b in boxes[1:]), "a standby decides", 60)
        decides = time.monotonic() - began
        until(lambda: any(b != "b1" and c == cameras[0] for _, b, c in watch.answers), "its camera is taken", 60)
        time.sleep(10.0)
        end = time.monotonic()
    return {
        "standby_decides_s": round(decides, 2),
        "answered_elsewhere_s": round(watch.first_s(cameras[0], began, "b1") - began, 2),
        "others_gap_s": [round(watch.gap_s(c, began, end), 2) for c in cameras[1:]],
    }


def cut(boxes: Sequence[RealBox], lines: Lines, cameras: Sequence[str], cut_s: float) -> dict[str, Any]:
    """The line of a box is cut and healed; both halves live."""
    with Watch(boxes) as watch:
        time.sleep(3.0)
        began = time.monotonic()
        lines.cut("b3", "b1", "b2")
        time.sleep(cut_s)
        healed = time.monotonic()
        lines.heal()
        until(lambda: len({b for t, b, c in watch.there if c == cameras[2] and time.monotonic() - t < 0.5}) == 1,
              "one owner", 60)  # fmt: skip
        time.sleep(10.0)
        end = time.monotonic()
    marked = boxes[2].status()["overlaps"]
    return {
        "cut_s": cut_s,
        "answered_elsewhere_s": round(watch.first_s(cameras[2], began, "b3") - began, 2),
        "gap_of_the_cut_camera_s": round(watch.gap_s(cameras[2], began, end), 2),
        "others_gap_s": [round(watch.gap_s(c, began, end), 2) for c in cameras[:2]],
        "two_owners_after_healing_s": round(watch.both_s(cameras[2], healed), 2),
        "overlap_marked_s": [round(o["end_utc_s"] - o["start_utc_s"], 1) for o in marked if o["camera"] == cameras[2]],
    }


RUNS: dict[str, Callable[[Sequence[RealBox], Lines, Sequence[str], float], dict[str, Any]]] = {
    "killed": killed, "head": head, "cut": cut,
}  # fmt: skip


def main() -> None:
    """Run and write the results."""
    parser = argparse.ArgumentParser(description="A fleet of three real appliances.")
    parser.add_argument("--only", nargs="*", choices=RUNS, default=list(RUNS))
    parser.add_argument("--cut-s", type=float, default=60.0)
    args = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in args.only:
        with tempfile.TemporaryDirectory() as folder:
            described = [c | {"fps": 5} for c in scene_cameras(3, seed=3, cycle_s=240.0)]
            names = [c["name"] for c in described]
            with serve_cameras(described, Path(folder)) as port:
                rtsp = f"rtsp://127.0.0.1:{port}"
                boxes = [
                    RealBox(Path(folder), f"b{n + 1}", f"127.0.0.{11 + n}", [c], rtsp) for n, c in enumerate(described)
                ]
                with fleet_of(boxes) as lines:
                    ready(boxes, names)
                    found[name] = RUNS[name](boxes, lines, names, args.cut_s)
        print(name, json.dumps(found[name]), flush=True)
    found["machine"] = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
