"""Cameras in: cost of a frame, time to come back, and memory while a camera flaps.

    python -m benchmarks.bench_ingest [--minutes 30] [--skip-flapping]

The virtual cameras run in a process of their own, so that CPU and memory are those of the readers alone.
Results: benchmarks/results/ingest.json and benchmarks/results/ingest_flapping.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import psutil

from edge.demo.rtsp_server import RtspServer
from edge.demo.video_sources import FileSource
from edge.ingest.reader import CameraReader
from edge.ingest.source import CameraSource

RESULTS = Path(__file__).parent / "results"
WIDTH, HEIGHT, FPS = 1280, 720, 25
OUT = (512, 288)


def make_clip(path: Path, width: int, height: int, fps: int, seconds: int, bit_rate: int = 3_000_000) -> Path:
    """A textured street-like picture with moving blocks and sensor noise; H.264, key frame every second."""
    rng = np.random.default_rng(1)
    ground = cv2.resize(rng.integers(40, 200, (height // 8, width // 8, 3), np.uint8), (width, height))
    noise = [rng.integers(0, 8, ground.shape, np.uint8) for _ in range(4)]
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=fps, options={"preset": "veryfast", "tune": "zerolatency"})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = width, height, "yuv420p", bit_rate
        stream.gop_size, stream.codec_context.max_b_frames = fps, 0
        stream.codec_context.time_base = Fraction(1, fps)
        for n in range(fps * seconds):
            picture = cv2.add(ground, noise[n % 4])
            for k in range(6):
                x = int((n * (k + 2) * 3 + 200 * k) % width)
                cv2.rectangle(picture, (x, 60 + 100 * k), (x + 90, 110 + 100 * k), (30 * k, 200 - 20 * k, 90), -1)
            frame = av.VideoFrame.from_ndarray(np.asarray(picture, np.uint8), format="rgb24")
            frame.pts = n
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


def serve(control: Connection, cameras: dict[str, str]) -> None:
    """Child process: one server per camera (so that faults hit one of them), with orders through `control`."""
    servers = {n: RtspServer("127.0.0.1", 0, {n: FileSource(p)}).start() for n, p in cameras.items()}
    control.send({n: s.url(n) for n, s in servers.items()})
    while True:
        name, action, on = control.recv()
        if action == "stop":
            return
        if action == "gone":
            servers[name].refuse_connections(on)
            if on:
                servers[name].kill_connections()
        else:
            servers[name].hang(on)
        control.send(time.monotonic())


@contextmanager
def virtual_cameras(cameras: dict[str, Path]) -> Iterator[tuple[dict[str, str], Callable[[str, str, bool], float]]]:
    """URLs, and a function to set a fault (camera, "gone" or "hung", on or off) that returns when it was set."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(there, {n: str(p) for n, p in cameras.items()}), daemon=True)
    process.start()
    urls = here.recv()

    def fault(name: str, kind: str, on: bool) -> float:
        here.send((name, kind, on))
        return float(here.recv())

    try:
        yield urls, fault
    finally:
        here.send(("", "stop", True))
        process.join(10)


def wait_live(reader: CameraReader, timeout_s: float = 120.0) -> float:
    """Wait for the next new frame; returns when it came (monotonic)."""
    last = reader.latest(0)
    raw = reader.latest(last.number if last else 0, timeout_s)
    if raw is None:
        raise RuntimeError(f"no frame within {timeout_s} s: {reader.status()}")
    return time.monotonic()


def plain_decode(url: str, seconds: float) -> tuple[float, int]:
    """CPU seconds and frames of a bare PyAV loop, one decoder thread."""
    with av.open(
        url, options={"rtsp_transport": "tcp", "analyzeduration": "200000", "probesize": "65536"}
    ) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count, stream.codec_context.thread_type = 1, "NONE"
        began, cpu, count = time.monotonic(), time.process_time(), 0
        for _ in container.decode(stream):
            count += 1
            if time.monotonic() - began >= seconds:
                break
        return time.process_time() - cpu, count


def reader_decode(url: str, seconds: float, convert_every: int) -> tuple[float, int]:
    """The same with a CameraReader; one of `convert_every` frames is made RGB at OUT (0: none)."""
    with CameraReader(CameraSource("bench", url)) as reader:
        wait_live(reader)
        began, cpu, first = time.monotonic(), time.process_time(), reader.status().frames_decoded
        number, taken = 0, 0
        while time.monotonic() - began < seconds:
            raw = reader.latest(number, 1.0)
            if raw is None:
                continue
            number, taken = raw.number, taken + 1
            if convert_every and taken % convert_every == 0:
                reader.convert(raw, *OUT)
        return time.process_time() - cpu, reader.status().frames_decoded - first


def bench_decode(url: str, rounds: int, seconds: float) -> dict[str, Any]:
    """CPU per frame; the variants take turns, so that the load of the machine hits all of them."""
    variants: dict[str, Callable[[], tuple[float, int]]] = {
        "plain PyAV": lambda: plain_decode(url, seconds),
        "reader": lambda: reader_decode(url, seconds, 0),
        "reader, 1 of 5 to RGB": lambda: reader_decode(url, seconds, 5),
        "reader, all to RGB": lambda: reader_decode(url, seconds, 1),
    }
    costs: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, run in variants.items():
            cpu, count = run()
            costs[name].append(1e3 * cpu / max(1, count))
    table = {}
    for name, values in costs.items():
        ratios = [v / p for v, p in zip(values, costs["plain PyAV"], strict=True)]
        table[name] = {
            "ms_cpu_per_frame": round(statistics.median(values), 3),
            "ratio": round(statistics.median(ratios), 3),
            "ratio_range": [round(min(ratios), 3), round(max(ratios), 3)],
        }
        print(f"{name:24s} {table[name]['ms_cpu_per_frame']:7.3f} ms/frame   x {table[name]['ratio']:.3f} of plain")
    return table


def bench_return(url: str, name: str, fault: Callable[[str, str, bool], float], tries: int) -> dict[str, Any]:
    """Seconds from "the camera answers again" to the first new frame, after different times away."""
    table = {}
    with CameraReader(CameraSource(name, url, stall_timeout_s=2.0)) as reader:
        for kind in ("gone", "hung"):
            seconds = []
            for n in range(tries):
                wait_live(reader)
                time.sleep(2.5)
                fault(name, kind, True)
                time.sleep(4 + 7 * n)
                back_s = fault(name, kind, False)
                seconds.append(wait_live(reader) - back_s)
            table[kind] = {
                "median_s": round(statistics.median(seconds), 2),
                "max_s": round(max(seconds), 2),
                "n": tries,
            }
            print(f"back after {kind:5s} {table[kind]['median_s']:.2f} s median, {table[kind]['max_s']:.2f} s at most")
    return table


def bench_flapping(clip: Path, minutes: float, warm_up_s: float) -> dict[str, Any]:
    """Four cameras, one of them 10 s gone and 10 s back all the time; memory of this process, state of the others."""
    names = [f"c{n}" for n in range(4)]
    process = psutil.Process()
    memory = np.full(round(minutes * 60) + 10, np.nan)  # MiB, each second; its pages are touched now
    taken = 0
    with virtual_cameras(dict.fromkeys(names, clip)) as (urls, fault):
        readers = {n: CameraReader(CameraSource(n, urls[n], stall_timeout_s=5.0)) for n in names}
        for reader in readers.values():
            reader.start()
            wait_live(reader)
        began = time.monotonic()
        gone, flaps, slowest_s, numbers = False, 0, 0.0, dict.fromkeys(names, 0)
        while (now_s := time.monotonic() - began) < minutes * 60 + warm_up_s:
            if (now_s % 20 >= 10) != gone:
                gone = not gone
                changed_s = fault(names[0], "gone", gone)
                if not gone:
                    flaps += 1
                    slowest_s = max(slowest_s, wait_live(readers[names[0]]) - changed_s)
            for name, reader in readers.items():
                raw = reader.latest(numbers[name], 0.0)
                if raw is not None:
                    numbers[name] = raw.number
                    reader.convert(raw, *OUT)
            if now_s >= warm_up_s + taken and taken < len(memory):
                memory[taken] = process.memory_info().rss / 2**20
                taken += 1
            time.sleep(0.2)
        status = {n: r.status() for n, r in readers.items()}
        threads = process.num_threads()
        files = process.num_fds()
        for reader in readers.values():
            reader.close()
    memory = memory[:taken]
    parts = [float(np.median(part)) for part in np.array_split(memory, 10)]
    first, last = parts[0], parts[-1]
    table = {
        "minutes": minutes,
        "warm_up_s": warm_up_s,
        "flaps": flaps,
        "rss_first_tenth_mib": round(first, 2),
        "rss_last_tenth_mib": round(last, 2),
        "rss_tenths_mib": [round(p, 2) for p in parts],
        "rss_growth_percent": round(100 * (last / first - 1), 2),
        "threads_at_end": threads,
        "open_files_at_end": files,
        "slowest_return_s": round(slowest_s, 2),
        "connects": {n: s.connects for n, s in status.items()},
        "stalls_of_the_others": sum(s.stalls for s in list(status.values())[1:]),
        "fps_at_end": {n: s.fps for n, s in status.items()},
    }
    print(
        f"flapping {minutes:g} min, {flaps} flaps: memory {first:.1f} -> {last:.1f} MiB "
        f"({table['rss_growth_percent']:+.2f} %), slowest return {slowest_s:.2f} s, connects {table['connects']}"
    )
    return table


def save(name: str, value: dict[str, Any]) -> None:
    """Write one result with machine and date."""
    about = {"date": time.strftime("%Y-%m-%d"), "machine": platform.machine(), "cpus": psutil.cpu_count()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / name).write_text(json.dumps(about | value, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmarks of the ingest.")
    parser.add_argument("--minutes", type=float, default=30.0, help="length of the flapping run")
    parser.add_argument("--warm-up", type=float, default=120.0, help="seconds before memory counts")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--skip-flapping", action="store_true")
    parser.add_argument("--only-flapping", action="store_true")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as folder:
        if not arguments.only_flapping:
            clip = make_clip(Path(folder) / "clip.mp4", WIDTH, HEIGHT, FPS, 4)
            with virtual_cameras({"a": clip}) as (urls, fault):
                decode = bench_decode(urls["a"], arguments.rounds, 4.0)
                back = bench_return(urls["a"], "a", fault, 4)
            size = [WIDTH, HEIGHT, FPS]
            save("ingest.json", {"stream": size, "rgb_size": list(OUT), "decode": decode, "back_after": back})
        if not arguments.skip_flapping:
            small = make_clip(Path(folder) / "small.mp4", 640, 360, 10, 4)
            save("ingest_flapping.json", bench_flapping(small, arguments.minutes, arguments.warm_up))


if __name__ == "__main__":
    main()
