"""The pictures of docs/dashboard.md: `python -m benchmarks.make_screenshots [--out docs/images] [--windows 5]`.

A real appliance in a real browser: four drawn street cameras, three served models and an application under load that
tenants share the box for, users, rules and alarms, and a few retraining windows, which takes some minutes. Every page
at 1440 pixels, some in the dark, each at 390.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from benchmarks.headless_browser import chromium
from benchmarks.make_applications import small_game

MOST_BYTES = 200_000
HEIGHTS = {1440: 900, 390: 844}
#: Longer pages are cut there.
LONGEST = {1440: 1500, 390: 1900}
NAMES = {"overpass": "Overpass", "junction": "Junction", "residential": "Residential", "boulevard": "Boulevard"}
SETTLED = """() => document.querySelector('h1') !== null && document.querySelector(".state-loading") === null"""


@dataclass(frozen=True)
class Shot:
    """One page: the file's name, the route, who looks, and whether it is also taken in the dark."""

    name: str
    route: str
    dark: bool = False
    login: bool = True


def shots(window: int) -> tuple[Shot, ...]:
    return (
        Shot("wall", "#/wall", dark=True),
        Shot("camera", "#/camera/junction", dark=True),
        Shot("windows", "#/windows"),
        Shot("window", f"#/windows/{window}", dark=True),
        Shot("capacity", "#/capacity"),
        Shot("serving", "#/serving", dark=True),
        Shot("tenants", "#/tenants", dark=True),
        Shot("tenant", "#/tenants/entrance"),
        Shot("system", "#/system"),
        Shot("settings-cameras", "#/settings/cameras"),
        Shot("settings-retraining", "#/settings/retraining"),
        Shot("settings-rules", "#/settings/rules"),
        Shot("settings-users", "#/settings/users"),
        Shot("settings-outputs", "#/settings/outputs"),
        Shot("settings-secrets", "#/settings/secrets"),
        Shot("settings-audit", "#/settings/audit"),
        Shot("login", "#/login", dark=True, login=False),
    )


def reduced(png: bytes, most: int = MOST_BYTES) -> bytes:
    """The picture with a palette, of as many colours as fit into `most` bytes."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    out = png
    for colours in (256, 128, 64, 32, 16):
        kept = io.BytesIO()
        method, dither = Image.Quantize.MEDIANCUT, Image.Dither.NONE
        picture.quantize(colours, method, kmeans=1, dither=dither).save(kept, "PNG", optimize=True)
        out = kept.getvalue()
        if len(out) <= most:
            break
    return out


def furnish(box: Box) -> Person:
    """An administrator's settings: names, zones, people, rules, outputs."""
    admin = box.set_up()
    rest = admin.rest
    until(lambda: live(admin), "every camera answers", 120.0)
    for camera, name in NAMES.items():
        zone = {"name": "road", "polygon": [[0.05, 0.45], [0.95, 0.45], [0.95, 0.95], [0.05, 0.95]], "classes": []}
        good(rest.patch(f"/cameras/{camera}", json={"name": name, "zones": [zone]}))
    box.add_person(admin, OPERATOR, "operator")
    box.add_person(admin, GUARD, "viewer", ["overpass"])
    good(rest.post("/tokens", json={"name": "grafana", "role": "viewer"}))
    for rule in (
        {"id": "buses", "name": "Bus on the road", "kind": "object", "classes": ["bus"], "min_interval_s": 60},
        {"id": "unsure", "name": "Accuracy under 20 %", "kind": "accuracy", "below": 0.2, "severity": "warning"},
    ):
        good(rest.post("/rules", json=rule))
    good(rest.put("/secrets/pager", json={"value": "shown-to-nobody"}))
    good(rest.post("/outputs/webhooks", json={"id": "pager", "url": "http://127.0.0.1:9/alarms", "kinds": ["alarm"]}))
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


def measured(admin: Person, windows: int) -> int:
    """Wait until so many windows are measured on every camera; the number of the last."""

    def last() -> int | None:
        done = [
            w["id"] for w in good(admin.rest.get("/windows")) if all(c.get("realised") for c in w["cameras"] or [{}])
        ]
        return max(done) if len(done) >= windows else None

    found: int = until(last, f"{windows} windows are measured", 150.0 * windows)
    return found


async def take(browser: Browser, box: Box, admin: Person, shot: Shot, width: int, scheme: Any, out: Path) -> None:
    context = await browser.new_context(
        viewport={"width": width, "height": HEIGHTS[width]}, color_scheme=scheme, reduced_motion="reduce"
    )
    if shot.login:
        await context.add_cookies([{**admin.cookie, "url": box.url}])  # type: ignore[list-item]
    page = await context.new_page()
    await page.goto(f"{box.url}/{shot.route}")
    await page.wait_for_function(SETTLED, timeout=120_000)
    await page.wait_for_timeout(2500)  # live pictures and rates come in
    full = int(await page.evaluate("() => document.documentElement.scrollHeight"))
    await page.set_viewport_size({"width": width, "height": min(max(full, HEIGHTS[width]), LONGEST[width])})
    await page.wait_for_timeout(800)
    png = reduced(await page.screenshot())
    name = shot.name + ("-dark" if scheme == "dark" else "") + ("-390" if width == 390 else "")
    (out / f"{name}.png").write_bytes(png)
    print(f"{name}.png {len(png) // 1000} kB, page {full} px long", flush=True)
    await context.close()


async def take_all(box: Box, admin: Person, window: int, out: Path, only: str) -> None:
    async with chromium() as browser:
        for shot in shots(window):
            if not re.search(only, shot.name):
                continue
            await take(browser, box, admin, shot, 1440, "light", out)
            await take(browser, box, admin, shot, 390, "light", out)
            if shot.dark:
                await take(browser, box, admin, shot, 1440, "dark", out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=REPO / "docs" / "images")
    parser.add_argument("--windows", type=int, default=5, help="retraining windows to wait for")
    parser.add_argument("--window-seconds", type=float, default=45.0)
    parser.add_argument("--only", default="", help="pages whose name has this pattern")
    parser.add_argument("--again", action="store_true", help="take the set again on Enter, until end of input")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="magpie-pictures-") as text:
        folder = Path(text)
        models = make_models(folder / "models", {"game": small_game(slo_ms=400, rate=2)})
        with drawn_cameras(4, folder, day_s=1500.0) as (cameras, port):
            site = make_site(
                cameras, port, folder / "data", models, args.window_seconds, label_budget=24, golden_share=0.12,
                space={"epochs": [3, 6, 10], "layers": ["last_stage", "all"], "data_fractions": [1.0],
                       "batch_sizes": [8]},
            )  # fmt: skip
            with Box(site, folder) as box:
                admin = furnish(box)
                with load(admin):
                    share(admin)
                    began = time.monotonic()
                    window = measured(admin, args.windows)
                    print(f"{window} windows in {time.monotonic() - began:.0f} s; {box.url}", flush=True)
                    asyncio.run(take_all(box, admin, window, args.out, args.only))
                    while args.again and sys.stdin.readline():
                        asyncio.run(take_all(box, admin, measured(admin, 1), args.out, args.only))
    return 0


if __name__ == "__main__":
    sys.exit(main())
