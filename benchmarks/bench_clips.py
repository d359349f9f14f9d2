"""Clips: what a ring of 20 s and the clips made of it cost a camera's worker.

    python -m benchmarks.bench_clips [--turns 3] [--seconds 40] [--cameras 4]

Turns alternate: the same cameras (720p, 25 frames a second, 2 Mbit/s, H.264 over RTSP from another process) read by a
process of their own without rings and with rings, where each camera makes a clip of 15 s every 10 s. CPU and memory are
those of that process; a consumer takes the newest picture of each camera five times a second, as inference does, and
counts the times that none had come. Results: benchmarks/results/clips.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from benchmarks.bench_ingest import FPS, HEIGHT, OUT, WIDTH, make_clip, serve
from edge.core.clips import ClipAsked, ClipMade
from edge.ingest.reader import CameraReader
from edge.ingest.source import CameraSource
from edge.runtime.clip_maker import ClipMaker
from edge.settings import CameraSettings, ClipSettings

RESULTS = Path(__file__).parent / "results" / "clips.json"
BIT_RATE, RING_S = 2_000_000, 20.0
BEFORE_S, AFTER_S, EVERY_S = 5.0, 10.0, 10.0
ANSWERS_PER_S = 5.0
#: The ring is full, and the reader settled, after so long.
SETTLE_S = RING_S + 4.0


def read_cameras(control: Connection, urls: dict[str, str], folder: str, with_rings: bool, seconds: float) -> None:
    """Child process: one turn; sends what it cost."""
    makers = {
        name: ClipMaker(
            CameraSettings(id=name, url=url, classes=("car",)), ClipSettings(ring_s=RING_S, ring_mb=16), Path(folder)
        )
        for name, url in urls.items()
    }
    readers = {
        name: CameraReader(CameraSource(name, url), tap=makers[name].ring if with_rings else None)
        for name, url in urls.items()
    }
    for reader in readers.values():
        reader.start()
    numbers = dict.fromkeys(readers, 0)
    missed = taken = 0
    ends: dict[int, float] = {}
    late, made, seconds_made = [], 0, 0.0
    due = began = time.monotonic()
    measuring = asked_at = 0.0
    cpu = decoded = 0.0
    while True:
        due += 1.0 / ANSWERS_PER_S
        time.sleep(max(0.0, due - time.monotonic()))
        now = time.monotonic()
        if not measuring and now - began >= SETTLE_S:
            measuring, cpu = now, time.process_time()
            decoded = sum(r.status().frames_decoded for r in readers.values())
            missed = taken = 0
        if measuring and now - measuring >= seconds:
            break
        for name, reader in readers.items():
            raw = reader.latest(numbers[name])
            if raw is None:
                missed += bool(measuring)
                continue
            numbers[name] = raw.number
            taken += 1
            reader.convert(raw, *OUT)
        if not with_rings:
            continue
        utc = time.time()
        if measuring and now - asked_at >= EVERY_S and now - measuring < seconds - AFTER_S - 4.0:
            asked_at = now
            for name, maker in makers.items():
                number = len(ends) + 1
                ends[number] = utc + AFTER_S
                maker.ask(ClipAsked(number, name, utc, utc - BEFORE_S, utc + AFTER_S))
        for maker in makers.values():
            for done in maker.step(utc):
                assert isinstance(done, ClipMade), done
                late.append(time.time() - ends[done.number])
                made += 1
                seconds_made += done.seconds
    spent = time.process_time() - cpu
    control.send(
        {
            "with_rings": with_rings,
            "cpu_percent_a_camera": round(100 * spent / (time.monotonic() - measuring) / len(readers), 3),
            "rss_mb": round(psutil.Process().memory_info().rss / 1e6, 2),
            "ring_mb_a_camera": round(statistics.mean(m.now().bytes for m in makers.values()) / 1e6, 3),
            "frames_decoded": sum(r.status().frames_decoded for r in readers.values()) - decoded,
            "frames_damaged": sum(r.status().frames_damaged for r in readers.values()),
            "answers": taken,
            "answers_missed": missed,
            "clips": made,
            "clip_seconds": round(seconds_made, 1),
            "ready_after_end_s": {} if not late else {"median": statistics.median(late), "most": max(late)},
        }
    )
    for reader in readers.values():
        reader.close()


def turn(urls: dict[str, str], folder: Path, with_rings: bool, seconds: float) -> dict[str, Any]:
    """One child's result."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    arguments = (theirs, urls, str(folder), with_rings, seconds)
    child = context.Process(target=read_cameras, args=arguments, daemon=True)
    child.start()
    if not ours.poll(SETTLE_S + seconds + 60.0):
        raise TimeoutError("the readers sent no result")
    result: dict[str, Any] = ours.recv()
    child.join(10.0)
    return result


def summary(turns: list[dict[str, Any]], cameras: int) -> dict[str, Any]:
    """What rings add, as medians over turns."""

    def median(key: str, with_rings: bool) -> float:
        return statistics.median(t[key] for t in turns if t["with_rings"] == with_rings)

    ready = [t["ready_after_end_s"]["most"] for t in turns if t["ready_after_end_s"]]
    return {
        "cpu_percent_a_camera": round(median("cpu_percent_a_camera", True) - median("cpu_percent_a_camera", False), 3),
        "cpu_percent_a_camera_without": median("cpu_percent_a_camera", False),
        "memory_mb_a_camera": round((median("rss_mb", True) - median("rss_mb", False)) / cameras, 2),
        "ring_mb_a_camera": median("ring_mb_a_camera", True),
        "clips": sum(t["clips"] for t in turns),
        "clip_ready_after_end_s_most": round(max(ready), 2) if ready else None,
        "answers_missed": {
            kind: sum(t["answers_missed"] for t in turns if t["with_rings"] == flag)
            for kind, flag in (("with", True), ("without", False))
        },
        "answers": {
            kind: sum(t["answers"] for t in turns if t["with_rings"] == flag)
            for kind, flag in (("with", True), ("without", False))
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--cameras", type=int, default=4)
    args = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    turns: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clip = make_clip(folder / "street.mp4", WIDTH, HEIGHT, FPS, 20, BIT_RATE)
        ours, theirs = context.Pipe()
        cameras = {f"c{n}": str(clip) for n in range(args.cameras)}
        server = context.Process(target=serve, args=(theirs, cameras), daemon=True)
        server.start()
        urls = ours.recv()
        load = os.getloadavg()[0]
        for _ in range(args.turns):
            for with_rings in (False, True):
                turns.append(turn(urls, folder, with_rings, args.seconds))
                print(json.dumps(turns[-1]), flush=True)
        ours.send(("", "stop", True))
        server.join(5.0)
        rate = 8 * clip.stat().st_size / 20 / 1e6
    found = {
        "benchmark": "clips",
        "date": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load_before": round(load, 1),
        "load_after": round(os.getloadavg()[0], 1),
        "cameras": args.cameras,
        "mbit_per_s": round(rate, 2),
        "ring_s": RING_S,
        "added": summary(turns, args.cameras),
        "turns": turns,
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["added"], indent=1))


if __name__ == "__main__":
    main()
