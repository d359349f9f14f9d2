"""The browser that looks at the page for tests and benchmarks: Chromium without a window."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

#: The shell is Chromium without what a window needs: a page costs a fifth of the CPU time.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")


def chromium_path() -> str | None:
    """MAGPIE_CHROMIUM, or the first of `PROGRAMS` that is installed; None where there is none."""
    found = (shutil.which(program) for program in PROGRAMS)
    return os.environ.get("MAGPIE_CHROMIUM") or next((path for path in found if path), None)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """The started browser; it ends with the context."""
    async with async_playwright() as started:
        browser = await started.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        yield browser
        await browser.close()
