"""`magpie demo`: cameras, a teacher and the whole appliance on this machine, with a console and the page."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import tempfile
import time
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge.commands.running import RunningAppliance, run_appliance
from edge.core.errors import InvalidValue, MagpieError
from edge.demo.cameras import PASSWORD_VARIABLE, USER, serve_cameras
from edge.demo.site import demo_site, scene_cameras, video_cameras
from edge.logs import log_to_stderr
from edge.settings import SiteSettings
from scheduler.policies import DEFAULT_POLICY


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Command line of `magpie demo`."""
    parser.add_argument(
        "--windows", type=int, default=6, help="end after so many windows, or at Ctrl-C; 0: go on until Ctrl-C"
    )
    parser.add_argument("--window-seconds", type=float, default=90.0)
    parser.add_argument("--cameras", type=int, default=4)
    parser.add_argument("--task", choices=("detection", "classification", "mixed"), default="detection")
    parser.add_argument("--policy", default=DEFAULT_POLICY)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--videos", type=Path, help="folder of clips and of folders with stills, instead of the scene")
    parser.add_argument("--teacher", type=Path, help="YAML of the golden model, see configs/teachers/")
    parser.add_argument(
        "--student", default=None, metavar="NAME|FILE",
        help="published detector that students start from, see configs/students/ (with --videos: yolox_nano); "
        "drawn: the demo's own",
    )  # fmt: skip
    parser.add_argument(
        "--classes", default="", help="the cameras' classes, comma separated (car,truck,bus,bicycle,person)"
    )
    parser.add_argument("--class-map", default="", help="with --videos: class=teacher+teacher,...")
    parser.add_argument(
        "--seconds-per-picture", type=float, default=1.0, help="with --videos: how long a still is shown"
    )
    parser.add_argument("--cycle-windows", type=float, default=0.0, help="windows of one day, night and weather cycle")
    parser.add_argument("--report", type=Path, help="write a JSON report at the end")
    parser.add_argument("--data", type=Path, help="keep the appliance's data here (default: a temporary folder)")
    parser.add_argument("--port", type=int, default=8080, help="of the page; 0: any")
    parser.add_argument("--no-browser", action="store_true", help="do not open the page")
    parser.add_argument("--plain", action="store_true", help="plain lines instead of a progress bar")
    parser.add_argument(
        "--set", action="append", default=[], metavar="FIELD=JSON", help="override a retraining setting"
    )


def run(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    _check(args)
    log_to_stderr("WARNING")
    with contextlib.ExitStack() as stack:
        if args.data is None:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="magpie-demo-")))
        else:
            data = args.data
            data.mkdir(parents=True, exist_ok=True)
        if args.videos is None:
            cycle = args.cycle_windows or max(4.0 * args.windows, 24.0)
            cameras = scene_cameras(args.cameras, args.seed, cycle * args.window_seconds)
        else:
            cameras = video_cameras(args.videos, args.cameras, args.seconds_per_picture)
        port = stack.enter_context(serve_cameras(cameras, data))
        site = demo_site(
            cameras,
            f"rtsp://127.0.0.1:{port}",
            USER,
            f"env:{PASSWORD_VARIABLE}",
            data,
            window_s=args.window_seconds,
            policy=args.policy,
            task=args.task,
            teacher=args.teacher,
            student=_student(args),
            classes=_classes(args.classes),
            class_map=_class_map(args.class_map),
            port=args.port,
            overrides=_overrides(args.set),
        )
        return asyncio.run(_demo(site, args))


def _check(args: argparse.Namespace) -> None:
    if args.windows < 0:
        raise InvalidValue("--windows", args.windows, "0 or more")
    if not 10 <= args.window_seconds <= 86400:
        raise InvalidValue("--window-seconds", args.window_seconds, "10 to 86400")
    if not 1 <= args.cameras <= 64:
        raise InvalidValue("--cameras", args.cameras, "1 to 64")
    if args.videos is not None and args.teacher is None:
        raise InvalidValue(
            "--teacher", None, "a teacher's YAML file: the demo's own teacher only knows the drawn scene"
        )


def _classes(text: str) -> tuple[str, ...]:
    return tuple(c.strip() for c in text.split(",") if c.strip())


def _student(args: argparse.Namespace) -> str:
    """The published detector that students start from; none on drawn streets, unless one is asked for."""
    if args.student is None:
        return "yolox_nano" if args.videos is not None else ""
    return "" if args.student == "drawn" else str(args.student)


def _class_map(text: str) -> dict[str, tuple[str, ...]]:
    out = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, sep, teachers = part.partition("=")
        if not sep or not teachers:
            raise InvalidValue("--class-map", part, "class=teacher class+teacher class,...")
        out[name.strip()] = tuple(t.strip() for t in teachers.split("+"))
    return out


def _overrides(items: list[str]) -> dict[str, Any]:
    out = {}
    for item in items:
        name, sep, value = item.partition("=")
        try:
            out[name] = json.loads(value)
        except ValueError:
            sep = ""
        if not sep:
            raise InvalidValue("--set", item, "FIELD=JSON, e.g. --set a_min=0.3 or --set policy='\"exact\"'")
    return out


async def _demo(site: SiteSettings, args: argparse.Namespace) -> int:
    began = time.monotonic()
    console = _Console(args.plain)
    console.say(
        f"Starting: {len(site.cameras)} cameras, windows of {args.window_seconds:g} s, policy {site.retraining.policy}"
    )
    async with run_appliance(site) as running:
        caps = running.appliance.runtime.shares.partitioner.caps
        # One address for people: it logs the browser that opens it first in.
        page = await running.entrance("demo")
        console.say(f"The page: {page}")
        unit = "cores" if caps.device == "cpu" else "SMs"
        console.say(f"Shares: {caps.kind} ({caps.enforced}) over {caps.units:g} {unit}. {caps.evidence}")
        if not args.no_browser and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            webbrowser.open(page)
        first = running.appliance.runtime.controller.state.window
        follower = asyncio.create_task(_follow(running, console, began))
        try:
            done = await _until_measured(running, console, first, args.windows)
        finally:
            follower.cancel()
            await asyncio.gather(follower, return_exceptions=True)
        if done:
            _finish(running, args, console, done, time.monotonic() - began)
        console.close()
    return 0


async def _until_measured(running: RunningAppliance, console: _Console, first: int, windows: int) -> list[int]:
    """Wait until `windows` windows are over and measured, or until asked to stop; returns the measured ones."""
    runtime = running.appliance.runtime
    wanted = list(range(first, first + windows)) if windows else []
    while not running.stop.is_set():
        state = runtime.controller.state
        measured = [
            n
            for n in sorted(runtime.boundary.measured)
            if {c.id for c in runtime.cameras.values()} <= runtime.boundary.measured[n]
        ]
        if wanted and measured and measured[-1] >= wanted[-1]:
            return wanted
        console.progress(
            state.window - first + 1,
            windows,
            running.appliance.clock.utc() - runtime.window.start_utc_s,
            runtime.window.settings.window_s,
            state.phase,
            [j.to_json() for j in runtime.students.retrainings.running.values()],
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await running.stop.wait()
    return [n for n in sorted(runtime.boundary.measured) if n >= first]


def _cause(data: Mapping[str, Any]) -> str:
    """A plan's cause in words, after its camera where it has one."""
    camera = data.get("cause_camera")
    return str(data["cause"]) if camera is None else f"{camera}: {data['cause']}"


_LINES = {
    "plan": lambda e: f"plan ({e.data['policy']}, {_cause(e.data)}): objective {100 * e.data['objective']:.1f} %",
    "retraining.started": lambda e: (
        f"{e.camera}: retraining {e.data['config']} on share {e.data['share']:.2f}, "
        f"expected {100 * e.data['expected_accuracy']['value']:.0f} %"
    ),
    "model.promoted": lambda e: (
        f"{e.camera}: promoted, held-out {100 * e.data['scores']['parent_held_out']:.0f} -> "
        f"{100 * e.data['scores']['held_out']:.0f} % ({e.data['device_seconds']:.1f} device-s)"
    ),
    "model.rejected": lambda e: f"{e.camera}: not promoted: {e.data['reason']}",
    "model.rolled_back": lambda e: f"{e.camera}: rolled back: {e.data['reason']}",
    "window.measured": lambda e: (
        f"{e.camera}: window {e['window']}: realised {_percent(e.data['realised'])}, "
        f"frozen student {_percent(e.data['frozen'])}"
    ),
    "worker.worker_lost": lambda e: f"worker {e.data['worker']} lost: {e.data['reason']}",
}


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


async def _follow(running: RunningAppliance, console: _Console, began: float) -> None:
    """Print events in words."""
    answered: set[str] = set()

    async def first_answers() -> None:
        runtime = running.appliance.runtime
        while len(answered) < len(runtime.cameras):
            for camera in runtime.cameras.values():
                if camera.id not in answered and camera.report is not None and camera.report.answers > 0:
                    answered.add(camera.id)
                    console.say(f"{camera.id}: first live answer {time.monotonic() - began:.1f} s after the command")
            await asyncio.sleep(0.2)

    watch = asyncio.create_task(first_answers())
    try:
        async for event in running.appliance.services.events.subscribe():
            if event.kind == "complaint":
                about = "" if event.camera is None else f"{event.camera}: "
                console.say(f"! {about}{event.data['message']}")
            elif event.kind in _LINES:
                console.say(_LINES[event.kind](event))
    finally:
        watch.cancel()


def _finish(
    running: RunningAppliance, args: argparse.Namespace, console: _Console, numbers: list[int], took_s: float
) -> None:
    from edge.demo.report import build_report

    appliance = running.appliance
    appliance.services.events.buffer.flush()
    swaps = {c.id: list(c.swaps.gaps_s) for c in appliance.runtime.cameras.values()}
    lost = {c.id: c.swaps.frames_lost for c in appliance.runtime.cameras.values()}
    about = {
        "source": "scene" if args.videos is None else "videos",
        "seed": args.seed,
        "task": args.task,
        "window_s": args.window_seconds,
        "policy": args.policy,
        "wall_s": round(took_s, 1),
        "shares": appliance.runtime.shares.partitioner.caps.to_json(),
        "swap_gaps_s": swaps,
        "frames_lost_in_swaps": lost,
    }
    report = build_report(appliance.store, numbers, about)
    table = report["summary"]
    console.say("")
    for camera, row in table["cameras"].items():
        console.say(
            f"{camera:24} realised {_percent(row['realised'])}  frozen {_percent(row['frozen'])}  "
            f"gain {row['gain_points']:+.1f} points"
        )
    if table["gain_points"] is not None:
        console.say(
            f"Mean over windows 2 to {len(numbers)}: {table['gain_points']:+.1f} points against the frozen students"
        )
    over = table["over_download"]
    if over is not None:
        for camera, row in over["cameras"].items():
            console.say(
                f"{camera:24} realised {_percent(row['realised'])}  download {_percent(row['download'])}  "
                f"gain {row['gain_points']:+.1f} points"
            )
        console.say(
            f"Mean: {over['gain_points']:+.1f} points against the download, looking and going on as the students"
        )
    if (over := table["over_download_whole"]) is not None:
        console.say(f"Mean: {over['gain_points']:+.1f} points against the download left alone, at the whole picture")
    if args.report is not None:
        try:
            args.report.parent.mkdir(parents=True, exist_ok=True)
            args.report.write_text(json.dumps(report, indent=1), encoding="utf-8")
        except OSError as error:
            raise MagpieError(f"{args.report}: cannot be written: {error.strerror}") from None
        console.say(f"Report: {args.report}")


class _Console:
    """Lines of what happens above one progress bar; plain lines where there is no terminal."""

    def __init__(self, plain: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._fancy = self._console.is_terminal and not plain
        self._began = time.monotonic()
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[words]}"),
            console=self._console,
        )
        self._task = self._progress.add_task("starting", total=1.0, words="")
        if self._fancy:
            self._progress.start()

    def say(self, text: str) -> None:
        """One line, with the seconds since the start."""
        self._console.print(f"[{time.monotonic() - self._began:6.1f} s] {text}", markup=False)

    def progress(
        self, window: int, windows: int, elapsed_s: float, length_s: float, phase: str, jobs: list[dict[str, Any]]
    ) -> None:
        """Where the run is."""
        of = f" of {windows}" if windows else ""
        words = phase + "".join(f" | {j['camera']} {100 * j['fraction']:.0f} %" for j in jobs)
        done = min(1.0, max(0.0, elapsed_s / length_s)) if math.isfinite(elapsed_s) else 0.0
        self._progress.update(self._task, description=f"window {window}{of}", completed=done, words=words)

    def close(self) -> None:
        """Take the bar away."""
        if self._fancy:
            self._progress.stop()
