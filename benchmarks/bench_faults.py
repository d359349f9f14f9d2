"""Faults: time from a kill to answers again, the cost of a dead camera to the others, and the time to the first
answers.

    python -m benchmarks.bench_faults [--kills 8] [--rounds 3] [--starts 3] [--cameras 4]

The whole appliance on the demo's drawn cameras, in long windows, so that nothing is retrained meanwhile. "Answers
again" is the first fresh answer that reaches the control process. Results: benchmarks/results/faults.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from edge.appliance.appliance import Appliance
from edge.commands.front_process import front_process
from edge.demo.cameras import PASSWORD_VARIABLE, USER
from edge.demo.site import demo_site, scene_cameras
from edge.runtime import messages as m
from edge.settings import SiteSettings

RESULTS = Path(__file__).parent / "results"
#: The limits that the issue asks for, in seconds.
ANSWERS_AGAIN_S, FIRST_ANSWERS_S = 5.0, 30.0
_SPAN_S = 12.0


@contextmanager
def camera_process(cameras: list[dict[str, Any]], folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that serves these cameras, and its port. The password is the one in the environment."""
    spec = folder / f"cameras-{cameras[0]['name']}.json"
    about = {"port": 0, "user": USER, "password_env": PASSWORD_VARIABLE, "cameras": cameras}
    spec.write_text(json.dumps(about), encoding="utf-8")
    command = [sys.executable, "-m", "edge.demo.cameras", str(spec)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        word, _, rest = process.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise RuntimeError(f"the cameras did not start: {rest}")
        yield process, int(rest)
    finally:
        process.send_signal(signal.SIGCONT)
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()


def site_of(cameras: list[dict[str, Any]], ports: dict[str, int], data: Path) -> SiteSettings:
    """The demo's site with windows of an hour; each camera at its own port."""
    site = demo_site(
        cameras,
        "rtsp://127.0.0.1:1",
        USER,
        f"env:{PASSWORD_VARIABLE}",
        data,
        window_s=3600.0,
        policy="relay",
        task="mixed",
        teacher=None,
        classes=(),
        class_map={},
        port=0,
        overrides={},
    )
    placed = [c.model_copy(update={"url": f"rtsp://127.0.0.1:{ports[c.id]}/{c.id}"}) for c in site.cameras]
    return site.model_copy(update={"cameras": tuple(placed)})


class Watched(Appliance):
    """An appliance that notes when each fresh answer arrived (every frame's picture is asked for)."""

    def __init__(self, site: SiteSettings) -> None:
        super().__init__(site, front_process)
        self.fresh: dict[str, list[float]] = {c.id: [] for c in site.cameras}

    async def open(self) -> None:
        await super().open()
        live = self.services.live
        preview = live.preview

        def noted(camera: str, p: m.Preview) -> None:
            preview(camera, p)
            if not p.stale:
                self.fresh[camera].append(time.monotonic())

        live.preview = noted  # type: ignore[method-assign]

    async def until(self, condition: Callable[[], object], what: str, timeout_s: float = 90.0) -> float:
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > timeout_s:
                raise RuntimeError(f"not within {timeout_s:g} s: {what}")
            await asyncio.sleep(0.01)
        return time.monotonic() - began

    async def calm(self) -> None:
        """Every camera answers, and for some seconds has."""
        for camera in self.fresh:
            self.runtime.camera_workers.watch(camera, 30.0)
            seen = len(self.fresh[camera])
            await self.until(lambda c=camera, n=seen: len(self.fresh[c]) > n + 15, f"{camera} answers")  # type: ignore[misc]


def spread(values: list[float]) -> dict[str, float]:
    """Median, least and most, rounded to 10 ms."""
    return {
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
        "n": len(values),
    }


async def kills(box: Watched, count: int) -> dict[str, Any]:
    """Seconds from kill -9 of a worker to answers (cameras) or readiness (golden).

    The second time within a minute a worker waits 1 s before it is started again, the third time 2 s: included.
    """
    cameras = sorted(box.fresh)
    again: list[float] = []
    for n in range(count):
        camera = cameras[n % len(cameras)]
        pid = box.runtime.supervisor.pid(f"camera-{camera}")
        assert pid is not None
        seen, began = len(box.fresh[camera]), time.monotonic()
        os.kill(pid, signal.SIGKILL)
        # Messages of the dead process may still come in: only answers of the next process count.
        await box.until(lambda p=pid, c=camera: box.runtime.supervisor.pid(f"camera-{c}") not in (None, p), "restart")  # type: ignore[misc]
        seen = len(box.fresh[camera])
        await box.until(lambda c=camera, s=seen: len(box.fresh[c]) > s, f"{camera} answers again")  # type: ignore[misc]
        again.append(box.fresh[camera][seen] - began)
        await box.calm()
    golden: list[float] = []
    for _ in range(3):
        pid = box.runtime.supervisor.pid("golden")
        assert pid is not None
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        await box.until(lambda: not box.runtime.golden.ready, "the loss is seen")
        await box.until(lambda: box.runtime.golden.ready, "the golden model is back")
        golden.append(time.monotonic() - began)
    return {"camera_answers_again_s": spread(again), "golden_ready_again_s": spread(golden), "each_camera_s": again}


async def dead_camera(box: Watched, dead: str, process: subprocess.Popen[str], rounds: int) -> dict[str, Any]:
    """Answers of the other cameras while one is silent, over those before and after; per round."""
    others = [c for c in box.fresh if c != dead]

    async def answers() -> float:
        began, before = time.monotonic(), {c: len(box.fresh[c]) for c in others}
        await asyncio.sleep(_SPAN_S)
        return sum(len(box.fresh[c]) - before[c] for c in others) / (time.monotonic() - began)

    ratios, rates = [], []
    for _ in range(rounds):
        before = await answers()
        process.send_signal(signal.SIGSTOP)
        await box.until(lambda: box.runtime.cameras[dead].status().state != "live", f"{dead} is seen to be silent")
        during = await answers()
        process.send_signal(signal.SIGCONT)
        await box.calm()
        after = await answers()
        ratios.append(during / ((before + after) / 2))
        rates.append([round(before, 2), round(during, 2), round(after, 2)])
    return {"answers_ratio": spread(ratios), "answers_per_s_before_during_after": rates}


def starts(count: int, cameras: int) -> dict[str, Any]:
    """Seconds from the command `magpie demo` to the first live answer of the first and of the last camera."""
    first, last = [], []
    for _ in range(count):
        command = [sys.executable, "-m", "edge.cli", "demo", "--windows", "0", "--window-seconds", "600"]
        command += ["--cameras", str(cameras), "--plain", "--no-browser", "--port", "0"]
        began = time.monotonic()
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        assert process.stderr is not None
        times = []
        for line in process.stderr:
            if "first live answer" in line:
                times.append(time.monotonic() - began)
                if len(times) == cameras:
                    break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        if len(times) < cameras:
            raise RuntimeError(f"magpie demo ended with code {process.returncode} before all cameras answered")
        first.append(times[0])
        last.append(times[-1])
    return {"first_camera_s": spread(first), "last_camera_s": spread(last)}


async def measure(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    cameras = scene_cameras(arguments.cameras, 1, 3600.0)
    os.environ[PASSWORD_VARIABLE] = secrets.token_urlsafe(12)
    dead = cameras[-1]["name"]
    with camera_process(cameras[:-1], folder) as (_, port), camera_process(cameras[-1:], folder) as (process, alone):
        ports = {c["name"]: port for c in cameras} | {dead: alone}
        data = folder / "data"
        data.mkdir()
        async with Watched(site_of(cameras, ports, data)) as box:
            shares = box.runtime.shares.partitioner.caps.kind
            await box.calm()
            load = psutil.getloadavg()[0]
            killed = await kills(box, arguments.kills)
            print(f"kill -9 of a camera's worker: answers again after {killed['camera_answers_again_s']} s")
            print(f"kill -9 of the golden model: ready again after {killed['golden_ready_again_s']} s")
            silent = await dead_camera(box, dead, process, arguments.rounds)
            print(f"a silent camera: answers of the others, during over before and after: {silent['answers_ratio']}")
    return {"shares": shares, "load_at_start": round(load, 2), "kill": killed, "dead_camera": silent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--cameras", type=int, default=4)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = asyncio.run(measure(arguments, Path(folder)))
    start = starts(arguments.starts, arguments.cameras)
    print(
        f"magpie demo: first live answer after {start['first_camera_s']} s, of every camera {start['last_camera_s']} s"
    )
    again, slowest = measured["kill"]["camera_answers_again_s"]["max"], start["last_camera_s"]["max"]
    about = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": platform.machine(),
        "cpus": psutil.cpu_count(),
        "cameras": arguments.cameras,
    }
    reached = {
        f"answers again within {ANSWERS_AGAIN_S:g} s": again <= ANSWERS_AGAIN_S,
        f"first live answers within {FIRST_ANSWERS_S:g} s": slowest <= FIRST_ANSWERS_S,
    }
    RESULTS.mkdir(exist_ok=True)
    result = about | measured | {"start": start, "reached": reached}
    (RESULTS / "faults.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for what, good in reached.items():
        print(f"{'reached' if good else 'NOT reached'}: {what}")


if __name__ == "__main__":
    main()
