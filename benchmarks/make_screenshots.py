"""The pictures of docs/dashboard.md: `python -m benchmarks.make_screenshots [--out docs/images] [--windows 4]`.

A real appliance in a real browser: four drawn street cameras, three served models and an application under load that
tenants share the box for, users, rules and alarms, a few retraining windows, which takes some minutes, and a second box
at the end. One camera has a made-up past (benchmarks/made_up_past.py). The pages and their looks are in
benchmarks/page_pictures.py.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from PIL import Image
from playwright.async_api import Browser

from benchmarks.dashboard_box import (
    GUARD,
    OPERATOR,
    REPO,
    Box,
    Person,
    drawn_cameras,
    good,
    live,
    make_models,
    make_site,
    until,
)
from benchmarks.fleet_boxes import Lines, RealBox, output_of
from benchmarks.headless_browser import chromium
from benchmarks.made_up_past import places, write_past
from benchmarks.make_applications import small_game
from benchmarks.page_pictures import EVERY_LOOK, PICTURES, SCREEN, TELEPHONE, PagePicture
from benchmarks.waiting import free_port
from edge.settings import SiteSettings

#: A picture with more bytes than that gets 128 colours instead of 256.
MANY_BYTES = 160_000
#: A colour of the page with so many pixels is kept as it is.
SEEN_PIXELS = 12
SOURCES = REPO / "web" / "frontend" / "src"
HEIGHTS = {SCREEN: 900, TELEPHONE: 844}
#: Longer pages are cut there.
LONGEST = {SCREEN: 1500, TELEPHONE: 1900}
NAMES = {"overpass": "Overpass", "junction": "Junction", "residential": "Residential", "boulevard": "Boulevard"}
SETTLED = """() => document.querySelector('h1') !== null && document.querySelector(".state-loading") === null
  && [...document.images].every(i => i.complete || i.getBoundingClientRect().top > innerHeight)"""
#: The camera that counts, its line and its zones.
COUNTS, LINE, FAR, NEAR = "overpass", "bridge", "far", "near"
PLACES: Final[Mapping[str, Any]] = {
    "lines": [{"name": LINE, "start": [0.95, 0.6], "end": [0.05, 0.6], "classes": []}],
    "zones": [
        {"name": FAR, "polygon": [[0.25, 0.3], [0.75, 0.3], [0.9, 0.58], [0.1, 0.58]], "classes": []},
        {"name": NEAR, "polygon": [[0.08, 0.62], [0.92, 0.62], [0.98, 0.96], [0.02, 0.96]], "classes": []},
    ],
}
ROAD: Final = {"name": "road", "polygon": [[0.05, 0.45], [0.95, 0.45], [0.95, 0.95], [0.05, 0.95]], "classes": []}
#: The agents' addresses, and the jobs of the fleet: two that run or wait, and one that is over soon.
FIRST_HOST, SECOND_HOST = "127.0.0.11", "127.0.0.12"
JOBS: Final = (("self-test", "archive", 1, 1), ("night-check", "night", 3, 1800), ("old-clips", "archive", 2, 1800))


def reduced(png: bytes, many: int = MANY_BYTES) -> bytes:
    """The picture with a palette of 256 colours, or of 128 where that is more than `many` bytes."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    out = b""
    for colours in (256, 128):
        kept = io.BytesIO()
        palette = _palette(picture, colours)
        picture.quantize(palette=palette, dither=Image.Dither.NONE).save(kept, "PNG", optimize=True)
        out = kept.getvalue()
        if len(out) <= many:
            break
    return out


def _palette(picture: Image.Image, colours: int) -> Image.Image:
    """So many colours: the first half has the page's own (each class, camera and state has one) and then the commonest,
    all as they are; the second half divides the picture."""
    found = sorted(picture.getcolors(picture.width * picture.height) or [], reverse=True)
    named = page_colours()
    own = [colour for pixels, colour in found if colour in named and pixels >= SEEN_PIXELS]
    exact = list(dict.fromkeys(own + [colour for _, colour in found]))[: colours // 2]
    divided = picture.quantize(colours - len(exact), Image.Quantize.MEDIANCUT).getpalette() or []
    divided = divided[: 3 * (colours - len(exact))]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in exact for part in colour] + divided)  # type: ignore[union-attr]
    return palette


@cache
def page_colours() -> frozenset[tuple[int, int, int]]:
    """The colours that the page's source names."""
    found: set[tuple[int, int, int]] = set()
    for file in SOURCES.rglob("*.*"):
        if file.suffix in (".css", ".ts", ".tsx"):
            named = re.findall(r"#([0-9a-f]{6})\b", file.read_text(encoding="utf-8"), re.IGNORECASE)
            found |= {(int(c[:2], 16), int(c[2:4], 16), int(c[4:], 16)) for c in named}
    return frozenset(found)


def in_fleet(site: SiteSettings, folder: Path) -> SiteSettings:
    """The site of a box that may found a fleet. Its agent's token comes later, into a file."""
    port = free_port(FIRST_HOST)
    fleet = {
        "name": "hall", "host": FIRST_HOST, "port": port, "address": f"https://{FIRST_HOST}:{port}",
        "token": f"file:{_token_file(folder)}", "engine": {"amounts": {"cpu": 2}},
        "jobs": {"tenants": [{"name": "night", "weight": 2}, {"name": "archive"}]},
    }  # fmt: skip
    web = site.web.model_dump(mode="json") | {"port": free_port()}
    return SiteSettings.model_validate(site.model_dump(mode="json") | {"fleet": fleet, "web": web})


def _token_file(folder: Path) -> Path:
    return folder / "agent.token"


def furnish(box: Box, hook: str) -> Person:
    """An administrator's settings: names, zones, people, rules, outputs; alarms go to the address `hook`."""
    admin = box.set_up()
    rest = admin.rest
    until(lambda: live(admin), "every camera answers", 120.0)
    for camera, name in NAMES.items():
        drawn = PLACES if camera == COUNTS else {"zones": [ROAD]}
        good(rest.patch(f"/cameras/{camera}", json={"name": name, **drawn}))
    box.add_person(admin, OPERATOR, "operator")
    box.add_person(admin, GUARD, "viewer", ["overpass"])
    good(rest.post("/tokens", json={"name": "grafana", "role": "viewer"}))
    for rule in (
        {"id": "buses", "name": "Bus on the road", "kind": "object", "classes": ["bus"], "min_interval_s": 60,
         "clip": True},
        {"id": "unsure", "name": "Accuracy under 20 %", "kind": "accuracy", "below": 0.2, "severity": "warning"},
    ):  # fmt: skip
        good(rest.post("/rules", json=rule))
    good(rest.put("/secrets/pager", json={"value": "shown-to-nobody"}))
    good(rest.post("/outputs/webhooks", json={"id": "pager", "url": hook, "kinds": ["alarm"]}))
    return admin


def share(admin: Person) -> None:
    """Two departments, one with an application and its models, beside all cameras, which have most of the box."""
    for tenant in (
        {
            "id": "entrance",
            "name": "Entrance",
            "entitlement": 2,
            "models": ["lenet"],
            "applications": ["game"],
            "objective": {"goal": 0.98},
        },
        {"id": "deliveries", "name": "Deliveries", "models": ["vehicles"], "objective": {"goal": 0.95}},
    ):
        good(admin.rest.post("/tenants", json=tenant))
    cameras = {"name": "Streets", "entitlement": 6, "objective": {"metric": "accuracy", "goal": 0.3}}
    good(admin.rest.patch("/tenants/default-cameras", json=cameras))


class _Receiver(BaseHTTPRequestHandler):
    """Takes what webhooks send."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def pager() -> Iterator[str]:
    """The address of a receiver of webhooks."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/alarms"
        server.shutdown()
        thread.join()


@contextmanager
def load(admin: Person) -> Iterator[None]:
    """Requests to the served models, from a process of their own."""

    def served() -> bool:
        return {m["state"] for m in good(admin.rest.get("/serving"))["models"]} == {"serving"}

    until(served, "every model is served", 300.0)
    front = good(admin.rest.get("/serving"))["front"]["http"]
    models = ("lenet:6", "vehicles:4", "game:1")
    command = [sys.executable, "-m", "edge.cli", "load", f"http://127.0.0.1:{front['port']}", "--quiet"]
    command += [part for model in models for part in ("--model", model)]
    command += ["--shape", "game:picture=96x96x3", "--duration", "3600"]
    process = subprocess.Popen(command, cwd=REPO, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measured(admin: Person, windows: int, since: int = -1) -> int:
    """Wait until so many windows after number `since` are measured on every camera; the number of the last."""

    def last() -> int | None:
        later = [w for w in good(admin.rest.get("/windows")) if w["id"] > since]
        done = [w["id"] for w in later if all(c.get("realised") for c in w["cameras"] or [{}])]
        return max(done) if len(done) >= windows else None

    found: int = until(last, f"{windows} windows are measured", 180.0 * windows)
    return found


def keep_clips(admin: Person) -> None:
    """A clip of now, of two cameras."""
    for camera in ("overpass", "residential"):
        good(admin.rest.post("/clips", json={"camera": camera}))


def forecast(admin: Person, patience_s: float) -> None:
    """Forecasts of windows half as long and of one more camera, once there are enough windows in a row that are alike:
    models that begin to be served, and cameras that are measured for the first time, make them unlike."""

    def enough() -> bool:
        found = good(admin.rest.get("/capacity"))
        return bool(found["windows"] >= found["needed"])

    try:
        until(enough, "there are enough windows for a forecast", patience_s)
    except TimeoutError as error:
        print(f"no forecast, so Capacity shows none: {error}", flush=True)
        return
    for change in ("window", "camera"):
        answer = admin.rest.post("/capacity", json={"kind": change})
        if answer.is_error:
            print(f"no forecast ({change}): {answer.text}", flush=True)
            continue
        until(lambda: good(admin.rest.get("/capacity"))["working"] is None, "the forecast is made", 240.0)


@contextmanager
def fleet(box: Box, admin: Person, cameras: Sequence[Mapping[str, Any]], port: int, folder: Path) -> Iterator[None]:
    """The box founds a fleet, which a second box with `cameras` joins; the fleet has jobs."""
    token = good(admin.rest.post("/tokens", json={"name": "agent", "role": "admin"}))["token"]
    _token_file(folder).write_text(token, encoding="utf-8")
    rtsp = f"rtsp://127.0.0.1:{port}"
    second = RealBox(folder, "gate", SECOND_HOST, [dict(c) for c in cameras], rtsp, {"task": "detection"})
    assert box.site.fleet is not None
    with Lines([second]):
        try:
            output_of("fleet", "start", str(box.file))
            second.start()
            until(lambda: good(admin.rest.get("/fleet"))["mandate"], "the box decides", 60.0)
            code = output_of("fleet", "invite", str(box.file)).splitlines()[-1]
            output_of("fleet", "join", second.site, box.site.fleet.address, "--code", code)
            for name, tenant, tasks, seconds in JOBS:
                work = {"program": "wait", "arguments": {"seconds": seconds}}
                job = {"id": name, "demand": {"cpu": 1}, "duration_s": seconds, "tasks": tasks, "tenant": tenant}
                good(admin.rest.post("/fleet/jobs", json=job | {"work": work}))
            until(lambda: _whole(admin, len(NAMES) + len(cameras)), f"a whole fleet\n{second.log()[-2000:]}", 180.0)
            yield
        finally:
            second.stop()


def _whole(admin: Person, cameras: int) -> bool:
    """Every camera is on the wall and live, and of the jobs one is over and one runs."""
    wall = good(admin.rest.get("/fleet/wall"))["cameras"]
    phases = {job["phase"] for job in good(admin.rest.get("/fleet/jobs"))["jobs"]}
    return [c["state"] for c in wall] == cameras * ["live"] and {"ended", "running"} <= phases


@dataclass(frozen=True)
class Photographer:
    """Takes pictures of a box's pages as `admin`, into the folder `out`. `every`: in every look."""

    box: Box
    admin: Person
    out: Path
    every: bool

    def take_all(self, pictures: Collection[PagePicture], window: int) -> None:
        """Take these, of the window with this number."""
        asyncio.run(self._all(pictures, window))

    async def _all(self, pictures: Collection[PagePicture], window: int) -> None:
        async with chromium() as browser:
            for login in (True, False):
                some = [p for p in pictures if p.login == login]
                for width in (SCREEN, TELEPHONE) if some else ():
                    await self._at_width(browser, some, login, width, window)

    async def _at_width(
        self, browser: Browser, pictures: Collection[PagePicture], login: bool, width: int, window: int
    ) -> None:
        """One browser window goes from page to page: on a busy machine each new one costs seconds."""
        size = {"width": width, "height": HEIGHTS[width]}
        context = await browser.new_context(viewport=size, reduced_motion="reduce")  # type: ignore[arg-type]
        if login:
            await context.add_cookies([{**self.admin.cookie, "url": self.box.url}])  # type: ignore[list-item]
        page = await context.new_page()
        page.set_default_timeout(120_000)
        for picture in pictures:
            await page.set_viewport_size(size)  # type: ignore[arg-type]
            await page.emulate_media(color_scheme="light")
            await page.goto(f"{self.box.url}/{picture.route.format(window=window)}")
            await page.wait_for_timeout(500)  # until then the page before is shown
            await page.wait_for_function(SETTLED)
            await page.wait_for_timeout(2500)  # live pictures and rates come in
            await page.wait_for_function(SETTLED)
            full = int(await page.evaluate("() => document.documentElement.scrollHeight"))
            await page.set_viewport_size({"width": width, "height": min(max(full, HEIGHTS[width]), LONGEST[width])})
            await page.wait_for_function(SETTLED)
            for look in EVERY_LOOK if self.every else picture.looks:
                if look[0] == width:
                    await page.emulate_media(color_scheme=look[1])
                    await page.wait_for_timeout(800)
                    png = reduced(await page.screenshot())
                    (self.out / picture.file(look)).write_bytes(png)
                    print(f"{picture.file(look)} {len(png) // 1000} kB, page {full} px long", flush=True)
        await context.close()


def chosen(pattern: str, fleet: bool) -> tuple[PagePicture, ...]:
    """The pictures whose name has this pattern, of the fleet's pages or of the others."""
    return tuple(p for p in PICTURES if p.fleet == fleet and re.search(pattern, p.name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=REPO / "docs" / "images")
    parser.add_argument("--windows", type=int, default=4, help="windows before tenants share the box; two more come")
    parser.add_argument("--window-seconds", type=float, default=60.0)
    parser.add_argument(
        "--forecast-windows", type=int, default=12, help="the most windows that the forecast of Capacity is waited for"
    )
    parser.add_argument("--only", default="", help="pages whose name has this pattern")
    parser.add_argument("--every-look", action="store_true", help="each page at both widths, in light and dark")
    parser.add_argument(
        "--again", action="store_true", help="take pages again whose name has the pattern on the next line of input"
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    with ExitStack() as parts:
        folder = Path(parts.enter_context(tempfile.TemporaryDirectory(prefix="magpie-pictures-")))
        models = make_models(folder / "models", {"game": small_game(slo_ms=400, rate=2)})
        cameras, port = parts.enter_context(drawn_cameras(len(NAMES) + 1, folder, day_s=1500.0))
        site = make_site(
            cameras[: len(NAMES)], port, folder / "data", models, args.window_seconds, label_budget=24,
            golden_share=0.12,
            space={"epochs": [3, 6, 10], "layers": ["last_stage", "all"], "data_fractions": [1.0], "batch_sizes": [8]},
        )  # fmt: skip
        write_past(folder / "data", COUNTS, places(LINE, FAR, NEAR), time.time())
        box = parts.enter_context(Box(in_fleet(site, folder), folder))
        admin = furnish(box, parts.enter_context(pager()))
        parts.enter_context(load(admin))
        photographer = Photographer(box, admin, args.out, args.every_look)
        began = time.monotonic()
        # A forecast needs windows that had the same share: tenants move it.
        measured(admin, args.windows)
        forecast(admin, args.forecast_windows * args.window_seconds)
        before = measured(admin, 1)
        share(admin)
        keep_clips(admin)
        window = measured(admin, 2, since=before)
        print(f"{window} windows in {time.monotonic() - began:.0f} s; {box.url}", flush=True)
        photographer.take_all(chosen(args.only, fleet=False), window)
        if chosen(args.only, fleet=True) or args.again:
            parts.enter_context(fleet(box, admin, cameras[len(NAMES) :], port, folder))
        photographer.take_all(chosen(args.only, fleet=True), window)
        while args.again and (line := sys.stdin.readline()):
            window = measured(admin, 1)
            photographer.take_all((*chosen(line.strip(), fleet=False), *chosen(line.strip(), fleet=True)), window)
    return 0


if __name__ == "__main__":
    sys.exit(main())
