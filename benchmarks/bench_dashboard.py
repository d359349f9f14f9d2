"""The dashboard on loopback: `python -m benchmarks.bench_dashboard [page] [delay] [cost] [wall] [--runs 9]`.

page: from nothing (a browser context without cache, with a login) to a wall that shows every camera, and to the first
live picture. delay: how old a live picture is when the browser has drawn it, by the time of the frame itself (the
camera's own, where it tells one) on the same clock. cost: four cameras of 640 x 360 at 10 fps, answered 5 times a
second; CPU time of all processes of the appliance while a viewer takes 5 pictures a second of each, minus the same
without a viewer, in turns; and how many pictures were encoded meanwhile (none without a viewer). wall: answers a second
of 16 cameras without a viewer, with one who takes what the wall takes, and with the wall in a browser on this machine.
Results: benchmarks/results/dashboard.json; a part that is not run keeps its last result there.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from playwright.async_api import Browser, Page
from websockets.asyncio.client import connect

from benchmarks.dashboard_box import Box, Person, drawn_cameras, good, live, make_site, until
from benchmarks.headless_browser import chromium
from edge.settings import SiteSettings

RESULTS = Path(__file__).parent / "results" / "dashboard.json"
PARTS = ("page", "delay", "cost", "wall")
TARGET = {"page_s": 1.5, "delay_ms": 500.0, "cost_cores": 0.15}
#: Nothing but inference goes on: retraining would make the appliance's CPU time go up and down.
QUIET = {"enabled": False, "label_budget": 4}
WINDOW_S = 3600.0
#: Pictures a second and camera that the page takes: of a few cameras, and of sixteen on the wall (parts/live.ts).
FEW_FPS, WALL_FPS = 5.0, 20 / 16

#: Notes the age of every live picture in the frame in which it was drawn.
_NOTE_AGES = """(() => {
  const times = new Map(), drawn = new WeakMap();
  window.pictureAges = [];
  const Socket = window.WebSocket;
  window.WebSocket = class extends Socket {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => {
        if (typeof data === "string") return;
        const length = new DataView(data).getUint16(0);
        const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 2, length)));
        const key = new Uint8Array(data, 2 + length);
        times.set(`${key.length}:${key.slice(-400, -200).join()}`, header.utc_s * 1000);
        if (times.size > 200) times.delete(times.keys().next().value);
      });
    }
  };
  const make = window.createImageBitmap;
  window.createImageBitmap = async (blob, ...more) => {
    const bitmap = await make(blob, ...more);
    const key = new Uint8Array(await blob.arrayBuffer());
    const taken = times.get(`${key.length}:${key.slice(-400, -200).join()}`);
    if (taken !== undefined) drawn.set(bitmap, taken);
    return bitmap;
  };
  const draw = CanvasRenderingContext2D.prototype.drawImage;
  CanvasRenderingContext2D.prototype.drawImage = function (image, ...more) {
    draw.call(this, image, ...more);
    const taken = drawn.get(image);
    if (taken !== undefined)
      requestAnimationFrame(() => window.pictureAges.push(performance.timeOrigin + performance.now() - taken));
  };
})()"""


def spread(values: Sequence[float], digits: int = 3) -> dict[str, Any]:
    """Median, least, greatest and number."""
    return {
        "median": round(statistics.median(values), digits),
        "least": round(min(values), digits),
        "greatest": round(max(values), digits),
        "runs": len(values),
    }


@contextmanager
def running(count: int, rates: Sequence[float], **camera: Any) -> Iterator[tuple[Box, Person]]:
    """The appliance on `count` drawn cameras with these properties, answered at these rates, and an administrator."""
    with tempfile.TemporaryDirectory(prefix="magpie-dashboard-") as text:
        folder = Path(text)
        with (
            drawn_cameras(count, folder, **camera) as (described, port),
            Box(quiet_site(described, port, folder / "data", rates), folder) as box,
        ):
            admin = box.set_up()
            until(lambda: live(admin), f"{count} cameras answer", 120.0)
            yield box, admin


def quiet_site(described: list[dict[str, Any]], port: int, data: Path, rates: Sequence[float]) -> SiteSettings:
    """A site that answers at these rates (the dearest that fits is planned) and never retrains."""
    value = make_site(described, port, data, None, WINDOW_S, **QUIET).model_dump(mode="json")
    for settings in value["cameras"]:
        settings["inference"]["frame_rates"] = list(rates)
    return SiteSettings.model_validate(value)


async def opened(browser: Browser, box: Box, person: Person, script: str = "") -> Page:
    """An empty page in a context of its own, with the person's login."""
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    await context.add_cookies([{**person.cookie, "url": box.url}])  # type: ignore[list-item]
    page = await context.new_page()
    if script:
        await page.add_init_script(script)
    return page


# -- parts


async def page_times(box: Box, admin: Person, runs: int) -> dict[str, Any]:
    """Seconds from the first request to a usable wall, and to its first live picture."""
    usable, painted, bytes_sent = [], [], []
    names = [c["settings"]["name"] or c["id"] for c in good(admin.rest.get("/cameras"))]
    async with chromium() as browser:
        for _ in range(runs):
            page = await opened(browser, box, admin)
            began = time.perf_counter()
            await page.goto(box.url + "/", wait_until="commit")
            for name in names:
                await page.get_by_role("listitem", name=name).wait_for()
            usable.append(time.perf_counter() - began)
            await page.wait_for_selector("canvas[data-painted='1']")
            painted.append(time.perf_counter() - began)
            sizes = "() => performance.getEntriesByType('resource').reduce((n, r) => n + r.transferSize, 0)"
            bytes_sent.append(float(await page.evaluate(sizes)))
            await page.context.close()
    return {"usable_s": spread(usable), "first_picture_s": spread(painted), "bytes": spread(bytes_sent, 0)}


async def picture_ages(box: Box, admin: Person, seconds: float) -> dict[str, Any]:
    """Milliseconds from the frame's own time to the animation frame in which it was drawn."""
    async with chromium() as browser:
        page = await opened(browser, box, admin, _NOTE_AGES)
        await page.goto(box.url + "/")
        await page.wait_for_selector("canvas[data-painted='1']")
        await asyncio.sleep(2.0)
        await page.evaluate("() => { window.pictureAges.length = 0; }")
        await asyncio.sleep(seconds)
        ages = sorted(float(a) for a in await page.evaluate("() => window.pictureAges"))
        await page.context.close()
    if not ages:
        raise RuntimeError("no live picture was drawn")
    return {
        "pictures": len(ages),
        "ms": {"p50": round(ages[len(ages) // 2], 1), "p99": round(ages[int(len(ages) * 0.99)], 1),
               "greatest": round(ages[-1], 1)},
    }  # fmt: skip


class Viewer:
    """A watcher of live pictures over the socket, in a process of its own."""

    def __init__(self, box: Box, admin: Person, cameras: Sequence[str], fps: float) -> None:
        self._command = [
            sys.executable, "-m", "benchmarks.bench_dashboard", "--viewer", box.url.replace("http", "ws"),
            json.dumps(admin.cookie), json.dumps({"cameras": list(cameras), "fps": fps}),
        ]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Viewer:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "watching":
            raise RuntimeError("no live picture came")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self.pictures = int(json.loads(self._process.communicate("\n", timeout=10)[0]))


async def view(url: str, cookie: dict[str, str], wanted: str) -> None:
    """The viewer's process: tells when the first picture is there, and at the end how many came."""
    headers = {"cookie": f"{cookie['name']}={cookie['value']}"}
    stop = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    pictures = 0
    async with connect(f"{url}/api/v1/live", additional_headers=headers, origin=url.replace("ws", "http")) as socket:  # type: ignore[arg-type]
        await socket.send(wanted)
        while not stop.done():
            message = asyncio.create_task(socket.recv())
            await asyncio.wait({message, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not message.done():
                message.cancel()
                break
            if isinstance(message.result(), str):
                raise RuntimeError(str(message.result()))
            if not pictures:
                print("watching", flush=True)
            pictures += 1
    print(pictures)


def cpu_s(pid: int) -> dict[int, float]:
    """CPU seconds (user and system) of the process and of all below it."""
    out = {}
    root = psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        out[process.pid] = times.user + times.system
    return out


def encoded(admin: Person) -> float:
    """Live pictures that were encoded since the start, all cameras together."""
    text = admin.rest.get(admin.rest.base_url.copy_with(path="/metrics")).text
    rows = [line for line in text.splitlines() if line.startswith("magpie_live_pictures_total{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in rows)


def stretch(box: Box, admin: Person, seconds: float) -> tuple[float, float, float]:
    """(cores, of them in the control process, pictures encoded a second) over some seconds."""
    before, pictures, began = cpu_s(box.pid), encoded(admin), time.monotonic()
    time.sleep(seconds)
    after, took = cpu_s(box.pid), time.monotonic() - began
    used = {pid: after[pid] - before[pid] for pid in after if pid in before}
    return sum(used.values()) / took, used[box.pid] / took, (encoded(admin) - pictures) / took


def live_cost(box: Box, admin: Person, turns: int, seconds: float) -> dict[str, Any]:
    """Cores with a viewer minus without, in turns; pictures encoded meanwhile."""
    cameras = [c["id"] for c in good(admin.rest.get("/cameras"))]
    time.sleep(5.0)
    rows: list[dict[str, float]] = []
    unwatched: list[float] = []
    for _ in range(turns):
        without = stretch(box, admin, seconds)
        unwatched.append(without[2])
        with Viewer(box, admin, cameras, FEW_FPS):
            time.sleep(1.0)
            watched = stretch(box, admin, seconds)
        time.sleep(1.0)  # the workers hear that the last watcher left
        rows.append({
            "cores": watched[0] - without[0], "control": watched[1] - without[1], "pictures": watched[2],
            "without": without[0],
        })  # fmt: skip
    return {
        "cores": spread([r["cores"] for r in rows]),
        "of_them_in_control": spread([r["control"] for r in rows]),
        "pictures_a_second": spread([r["pictures"] for r in rows], 2),
        "cores_without_viewer": spread([r["without"] for r in rows]),
        "pictures_encoded_without_viewer": sum(unwatched),
        "turns_s": seconds,
    }


def answers(admin: Person, seconds: float) -> dict[str, Any]:
    """Answers a second of all cameras together, and of the slowest."""

    def now() -> dict[str, int]:
        return {c["id"]: int(c["state"]["inference"]["answers"]) for c in good(admin.rest.get("/cameras"))}

    before, began = now(), time.monotonic()
    time.sleep(seconds)
    after, took = now(), time.monotonic() - began
    rates = [(after[c] - before[c]) / took for c in before]
    return {"all": sum(rates), "slowest": min(rates)}


async def wall(box: Box, admin: Person, turns: int, seconds: float) -> dict[str, Any]:
    """Answers a second without a viewer, with one over the socket, and with the wall in a browser here."""
    cameras = [c["id"] for c in good(admin.rest.get("/cameras"))]
    found: dict[str, list[dict[str, Any]]] = {"nobody": [], "viewer": [], "browser": []}
    await asyncio.sleep(8.0)
    async with chromium() as browser:
        for _ in range(turns):
            found["nobody"].append(await asyncio.to_thread(answers, admin, seconds))
            with Viewer(box, admin, cameras, WALL_FPS):
                found["viewer"].append(await asyncio.to_thread(answers, admin, seconds))
            page = await opened(browser, box, admin)
            await page.goto(box.url + "/")
            await page.wait_for_selector("canvas[data-painted='1']")
            found["browser"].append(await asyncio.to_thread(answers, admin, seconds))
            await page.context.close()
            await asyncio.sleep(2.0)
    return {
        "cameras": len(cameras),
        **{
            who: {"answers_a_second": spread([r["all"] for r in rows], 2),
                  "slowest_camera": spread([r["slowest"] for r in rows], 2)}
            for who, rows in found.items()
        },
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="|".join(PARTS), help="all, if none is named")
    parser.add_argument("--runs", type=int, default=9, help="cold page loads")
    parser.add_argument("--turns", type=int, default=6, help="turns with and without a viewer")
    parser.add_argument("--seconds", type=float, default=12.0, help="length of one turn")
    parser.add_argument("--viewer", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.viewer:
        asyncio.run(view(args.viewer[0], json.loads(args.viewer[1]), args.viewer[2]))
        return 0
    unknown = set(args.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    parts = args.parts or PARTS
    made: dict[str, Any] = {}
    if {"page", "delay", "cost"} & set(parts):
        with running(4, [5.0], width=640, height=360, fps=10.0) as (box, admin):
            if "page" in parts:
                made["page"] = asyncio.run(page_times(box, admin, args.runs))
            if "delay" in parts:
                made["delay"] = asyncio.run(picture_ages(box, admin, 20.0))
            if "cost" in parts:
                made["cost"] = live_cost(box, admin, args.turns, args.seconds)
    if "wall" in parts:
        with running(16, [1.0, 0.5], width=320, height=180, fps=4.0) as (box, admin):
            made["wall"] = asyncio.run(wall(box, admin, max(3, args.turns // 2), args.seconds))
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))["results"] if RESULTS.is_file() else {}
    about = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "load_average": round(os.getloadavg()[0], 2)}
    result = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "target": TARGET,
        "results": kept | {part: about | value for part, value in made.items()},
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(made, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
