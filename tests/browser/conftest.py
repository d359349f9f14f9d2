"""One running appliance and one Chromium for every browser test: real cameras, models, windows, users and alarms."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from crossroads import Crossroads, furnish
from visits import Visits

from benchmarks.dashboard_box import Box, drawn_cameras, make_models, make_site
from web.app import STATIC

AXE = STATIC.parent / "frontend" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="session")
def page_can_be_seen() -> None:
    """Asked first, so that nothing is started where there is no browser or no page."""
    pytest.importorskip("playwright.async_api")
    from benchmarks.headless_browser import chromium_path

    if chromium_path() is None:
        pytest.skip("no Chromium is installed (or name one in MAGPIE_CHROMIUM)")
    if not (STATIC / "index.html").is_file():
        pytest.skip("the page was not built: pip install . builds it")


@pytest.fixture(scope="session")
def crossroads(page_can_be_seen: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crossroads]:
    """The running appliance, furnished."""
    folder = tmp_path_factory.mktemp("crossroads")
    models = make_models(folder / "models")
    with drawn_cameras(2, folder, width=256, height=144, fps=2) as (cameras, port):
        site = make_site(cameras, port, folder / "data", models, window_s=14.0)
        with Box(site, folder) as box:
            found = furnish(box)
            # What the pages show is there: from here on the box is quiet, and leaves the machine to the browser.
            found.windows(1)
            found.rest_after_this_window()
            found.windows()
            found.alarms()
            yield found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(page_can_be_seen: None) -> AsyncIterator[Any]:
    """Chromium without a window."""
    from benchmarks.headless_browser import chromium

    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def visits(browser: Any, crossroads: Crossroads) -> AsyncIterator[Visits]:
    """Opens pages, and closes them after the test."""
    made = Visits(browser, crossroads.box)
    yield made
    await made.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which `npm ci` brings."""
    path = Path(os.environ.get("MAGPIE_AXE", AXE))
    if not path.is_file():
        pytest.skip("axe-core is absent: run `npm ci` in web/frontend (or name axe.min.js in MAGPIE_AXE)")
    return path.read_text(encoding="utf-8")
