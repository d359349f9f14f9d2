"""Clips: what a ring of 20 s and the clips made of it cost a camera's worker.

    python -m benchmarks.bench_clips [--turns 3] [--seconds 40] [--cameras 4]

Turns alternate: the same cameras (720p, 25 frames a second, 2 Mbit/s, H.264 over RTSP from another process) read by a
process of their own without rings and with rings, where each camera makes a clip of 15 s every 10 s. CPU and memory are
those of that process; a consumer takes the newest picture of each camera five times a second, as inference does, and
counts the times that none had come. `alone` is the CPU time of the parts by themselves, in one thread: taking the
packets of a file into a ring (which are also made a byte stream, as those of RTSP need not be), and writing a clip with
its hash. Results: benchmarks/results/clips.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import av
import psutil

from benchmarks.bench_ingest import FPS, HEIGHT, OUT, WIDTH, make_clip, serve
from benchmarks.machine import when_and_where
from edge.clips.mp4 import write_clip
from edge.clips.ring import PacketRing
from edge.core.clips import TICKS, ClipAsked, ClipMade, Cut
from edge.ingest.reader import CameraReader
from edge.ingest.source import CameraSource
from edge.ingest.tap import TappedStream
from edge.runtime.clip_maker import ClipMaker
from edge.settings import CameraSettings, ClipSettings

RESULTS = Path(__file__).parent / "results" / "clips.json"
#: The rate asked of the encoder for a stream of 2 Mbit/s; the result has the rate that came of it.
BIT_RATE, RING_S = 1_760_000, 20.0
BEFORE_S, AFTER_S, EVERY_S = 5.0, 10.0, 10.0
ANSWERS_PER_S = 5.0
#: The ring is full, and the reader settled, after so long.
SETTLE_S = RING_S + 4.0


class Turn:
    """The cameras of one turn: their readers, what makes their clips, and what was counted."""

    def __init__(self, urls: dict[str, str], folder: Path, with_rings: bool) -> None:
        self.with_rings = with_rings
        settings = ClipSettings(ring_s=RING_S, ring_mb=16)
        self.makers = {
            name: ClipMaker(CameraSettings(id=name, url=url, classes=("car",)), settings, folder)
            for name, url in urls.items()
        }
        self.readers = {
            name: CameraReader(CameraSource(name, url), tap=self.makers[name].ring if with_rings else None)
            for name, url in urls.items()
        }
        self.numbers = dict.fromkeys(urls, 0)
        self.missed = self.taken = 0
        self.ends: dict[int, float] = {}
        self.late: list[float] = []
        self.clip_seconds = 0.0

    def answer(self) -> None:
        """Take the newest picture of each camera, as inference does."""
        for name, reader in self.readers.items():
            raw = reader.latest(self.numbers[name])
            if raw is None:
                self.missed += 1
                continue
            self.numbers[name] = raw.number
            self.taken += 1
            reader.convert(raw, *OUT)

    def ask_for_clips(self) -> None:
        """One around now of each camera."""
        utc = time.time()
        for name, maker in self.makers.items():
            number = len(self.ends) + 1
            self.ends[number] = utc + AFTER_S
            maker.ask(ClipAsked(number, name, utc, utc - BEFORE_S, utc + AFTER_S))

    def make_clips(self) -> None:
        """A step of each camera's clips."""
        for maker in self.makers.values():
            for done in maker.step():
                assert isinstance(done, ClipMade), done
                self.late.append(time.time() - self.ends[done.number])
                self.clip_seconds += done.seconds

    def decoded(self) -> int:
        """Pictures so far."""
        return sum(r.status().frames_decoded for r in self.readers.values())

    def run(self, seconds: float) -> dict[str, Any]:
        """Settle, then measure."""
        began = due = time.monotonic()
        measuring = asked = 0.0
        cpu, decoded = 0.0, 0
        while True:
            due += 1.0 / ANSWERS_PER_S
            time.sleep(max(0.0, due - time.monotonic()))
            now = time.monotonic()
            if not measuring and now - began >= SETTLE_S:
                measuring, cpu, decoded = now, time.process_time(), self.decoded()
                self.missed = self.taken = 0
            if measuring and now - measuring >= seconds:
                break
            self.answer()
            if self.with_rings:
                if measuring and now - asked >= EVERY_S and now - measuring < seconds - AFTER_S - 4.0:
                    asked = now
                    self.ask_for_clips()
                self.make_clips()
        spent = (time.process_time() - cpu) / (time.monotonic() - measuring)
        return self.result(100 * spent / len(self.readers), self.decoded() - decoded)

    def result(self, cpu_percent: float, decoded: int) -> dict[str, Any]:
        """What the turn cost."""
        return {
            "with_rings": self.with_rings,
            "cpu_percent_a_camera": round(cpu_percent, 3),
            "rss_mb": round(psutil.Process().memory_info().rss / 1e6, 2),
            "ring_mb_a_camera": round(statistics.mean(m.now().bytes for m in self.makers.values()) / 1e6, 3),
            "frames_decoded": decoded,
            "frames_damaged": sum(r.status().frames_damaged for r in self.readers.values()),
            "answers": self.taken,
            "answers_missed": self.missed,
            "clips": len(self.late),
            "clip_seconds": round(self.clip_seconds, 1),
            "ready_after_end_s": {"median": statistics.median(self.late), "most": max(self.late)} if self.late else {},
        }


def read_cameras(control: Connection, urls: dict[str, str], folder: str, with_rings: bool, seconds: float) -> None:
    """Child process: one turn; sends what it cost."""
    cameras = Turn(urls, Path(folder), with_rings)
    for reader in cameras.readers.values():
        reader.start()
    control.send(cameras.run(seconds))
    for reader in cameras.readers.values():
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


def alone(clip: Path, folder: Path) -> dict[str, float]:
    """The CPU time of a ring for a camera, and of one clip of 15 s, by themselves."""
    ring, packets, taken = PacketRing(RING_S, 16_000_000), 0, 0.0
    with av.open(str(clip)) as container:
        video = container.streams.video[0]
        tapped = TappedStream(ring, ring.attempt(), video)
    for _ in range(3):
        with av.open(str(clip)) as container:
            tapped.again(container.streams.video[0], round(packets / FPS * TICKS))
            for packet in container.demux(video=0):
                if packet.size:
                    cpu = time.thread_time()
                    tapped.packet(packet, packets / FPS, packets / FPS)
                    taken += time.thread_time() - cpu
                    packets += 1
    held = ring.stretches()[-1]
    writing = []
    for n in range(5):
        cpu = time.thread_time()
        footage = ring.footage(Cut(held.number, 0, held.keys_utc_s[0] + BEFORE_S + AFTER_S, 0.0, 0.0, "whole"))
        assert footage is not None
        write_clip(folder / f"alone-{n}.mp4", footage, {})
        writing.append(time.thread_time() - cpu)
    return {
        "ring_cpu_percent_a_camera": round(100 * FPS * taken / packets, 3),
        "clip_cpu_ms": round(1000 * statistics.median(writing), 1),
    }


def summary(turns: list[dict[str, Any]], cameras: int) -> dict[str, Any]:
    """What rings add, as medians over turns."""

    def median(key: str, with_rings: bool) -> float:
        return float(statistics.median(t[key] for t in turns if t["with_rings"] == with_rings))

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
        parts = alone(clip, folder)
        print(json.dumps(parts), flush=True)
        for _ in range(args.turns):
            for with_rings in (False, True):
                turns.append(turn(urls, folder, with_rings, args.seconds))
                print(json.dumps(turns[-1]), flush=True)
        ours.send(("", "stop", True))
        server.join(5.0)
        rate = 8 * clip.stat().st_size / 20 / 1e6
    found = {
        "benchmark": "clips",
        **when_and_where(),
        "load_before": round(load, 1),
        "load_after": round(os.getloadavg()[0], 1),
        "cameras": args.cameras,
        "mbit_per_s": round(rate, 2),
        "ring_s": RING_S,
        "alone": parts,
        "added": summary(turns, args.cameras),
        "turns": turns,
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["added"], indent=1))


if __name__ == "__main__":
    main()
