"""Clips: what a ring of 20 s and the clips made of it cost a camera's worker.

    python -m benchmarks.bench_clips [--turns 3] [--seconds 40] [--cameras 4]

In each turn the same cameras (720p, 25 frames a second, 2 Mbit/s, H.264 over RTSP from another process) are read by two
processes at once: one without rings, and one with rings, where each camera makes a clip of 15 s every 10 s. Both have
the same machine at the same time, so what else runs there hits both; one after the other, turns without rings alone
differed by more than rings cost. They start in turns. A consumer takes the newest picture of each camera five times a
second, as inference does, and counts the times that none had come.

`added` is the difference of the two processes, in CPU and memory; `own` is the CPU time of the code of rings and clips
itself in the process with rings: what hands packets on and the ring (in the threads that read cameras, measured call by
call), the threads that write clips (their whole CPU time: remux, hash, sync, memory given back), and the cutting. What
`added` has more than `own` is noise, or what the others pay: caches, pages of memory taken anew. `alone` is the CPU
time of the parts by themselves, in one thread: taking the packets of a file into a ring (which are also made a byte
stream, as those of RTSP need not be), and writing a clip with its hash. Results: benchmarks/results/clips.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

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
#: A turn in which a process decoded a smaller part of the pictures is not compared: it had less work.
COMPLETE = 0.99
#: The ring is full, and the reader settled, after so long.
SETTLE_S = RING_S + 4.0


class Spent:
    """CPU seconds of calls, each in the thread that made it."""

    def __init__(self) -> None:
        self._seconds: defaultdict[int, float] = defaultdict(float)  # by thread: none adds to another's

    def measured(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, with its CPU time added here."""

        def measuring(*args: Any) -> Any:
            began = time.thread_time()
            try:
                return call(*args)
            finally:
                self._seconds[threading.get_ident()] += time.thread_time() - began

        return measuring

    def seconds(self) -> float:
        """Of all threads, until now."""
        return sum(list(self._seconds.values()))


def cpu_by_threads() -> dict[str, float]:
    """CPU seconds of this process until now: of the threads that read cameras, of those that write clips, and all."""
    spent = {"reading": 0.0, "writing": 0.0, "all": time.process_time()}
    for thread in threading.enumerate():
        kind = "reading" if thread.name.endswith("-attempt") else "writing" if thread.name.startswith("clips") else ""
        if kind and thread.ident is not None:
            spent[kind] += time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return spent


class Turn:
    """The cameras of one process of a turn: their readers, what makes their clips, and what was counted. `ring` has
    what their tapped streams spend."""

    def __init__(self, urls: dict[str, str], folder: Path, with_rings: bool, ring: Spent) -> None:
        self.with_rings, self.ring, self.cutting = with_rings, ring, Spent()
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
        cpu: dict[str, float] = {}
        decoded = 0
        ask, make = self.cutting.measured(self.ask_for_clips), self.cutting.measured(self.make_clips)
        while True:
            due += 1.0 / ANSWERS_PER_S
            time.sleep(max(0.0, due - time.monotonic()))
            now = time.monotonic()
            if not measuring and now - began >= SETTLE_S:
                measuring, cpu, decoded = now, self.cpu(), self.decoded()
                self.missed = self.taken = 0
            if measuring and now - measuring >= seconds:
                break
            self.answer()
            if self.with_rings:
                if measuring and now - asked >= EVERY_S and now - measuring < seconds - AFTER_S - 4.0:
                    asked = now
                    ask()
                make()
        a_camera = 100 / (time.monotonic() - measuring) / len(self.readers)
        percent = {name: round(a_camera * (now_s - cpu[name]), 3) for name, now_s in self.cpu().items()}
        return self.result(percent, self.decoded() - decoded)

    def cpu(self) -> dict[str, float]:
        """CPU seconds until now, by their kinds: `ring` is a part of `reading`, `cutting` of the rest."""
        return cpu_by_threads() | {"ring": self.ring.seconds(), "cutting": self.cutting.seconds()}

    def result(self, percent: dict[str, float], decoded: int) -> dict[str, Any]:
        """What the turn cost; `percent` of a core, a camera."""
        return {
            "with_rings": self.with_rings,
            "cpu_percent_a_camera": percent.pop("all"),
            "of_it": percent,
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
    """Child process: one side of a turn; sends what it cost."""
    ring = Spent()
    packet, shown = ring.measured(TappedStream.packet), ring.measured(TappedStream.shown)
    with patch.object(TappedStream, "packet", packet), patch.object(TappedStream, "shown", shown):
        cameras = Turn(urls, Path(folder), with_rings, ring)
        for reader in cameras.readers.values():
            reader.start()
        control.send(cameras.run(seconds))
        for reader in cameras.readers.values():
            reader.close()


def turn(urls: dict[str, str], folder: Path, seconds: float, rings_first: bool) -> list[dict[str, Any]]:
    """The results of both processes, that without rings first."""
    context = multiprocessing.get_context("spawn")
    children = {}
    for with_rings in (rings_first, not rings_first):
        ours, theirs = context.Pipe()
        arguments = (theirs, urls, str(folder), with_rings, seconds)
        child = context.Process(target=read_cameras, args=arguments, daemon=True)
        child.start()
        children[with_rings] = ours, child
    results = []
    for with_rings in (False, True):
        ours, child = children[with_rings]
        if not ours.poll(SETTLE_S + seconds + 60.0):
            raise TimeoutError("the readers sent no result")
        results.append(ours.recv())
        child.join(10.0)
    return results


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


def summary(turns: list[dict[str, Any]], cameras: int, seconds: float) -> dict[str, Any]:
    """What rings add: the mean of the turns' differences for CPU, over those in which no pictures were skipped; medians
    for memory."""

    def values(key: str, with_rings: bool) -> list[float]:
        return [float(t[key]) for t in turns if t["with_rings"] == with_rings]

    def median(key: str, with_rings: bool) -> float:
        return statistics.median(values(key, with_rings))

    def own(kind: str) -> float:
        return round(statistics.mean(float(t["of_it"][kind]) for t in turns if t["with_rings"]), 3)

    pairs = zip(values("cpu_percent_a_camera", True), values("cpu_percent_a_camera", False), strict=True)
    decoded = zip(values("frames_decoded", True), values("frames_decoded", False), strict=True)
    complete = [min(both) >= COMPLETE * FPS * seconds * cameras for both in decoded]
    by_turn = [with_rings - without for with_rings, without in pairs]
    added = [a for a, compared in zip(by_turn, complete, strict=True) if compared]
    parts = {kind: own(kind) for kind in ("ring", "writing", "cutting")}
    ready = [t["ready_after_end_s"]["most"] for t in turns if t["ready_after_end_s"]]
    return {
        "cpu_percent_a_camera": round(statistics.mean(added), 3) if added else None,
        "standard_error": round(statistics.stdev(added) / len(added) ** 0.5, 3) if len(added) > 1 else None,
        "turns_compared": len(added),
        "by_turn": [round(a, 3) for a in by_turn],
        "own_cpu_percent_a_camera": round(sum(parts.values()), 3),
        "own": parts,
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
        for n in range(args.turns):
            turns += turn(urls, folder, args.seconds, n % 2 == 1)
            print(json.dumps(turns[-2:]), flush=True)
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
        "added": summary(turns, args.cameras, args.seconds),
        "turns": turns,
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["added"], indent=1))


if __name__ == "__main__":
    main()
