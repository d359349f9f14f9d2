"""Pages that are open in the browser, with everything that went wrong in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from benchmarks.dashboard_box import Box, Person
from benchmarks.waiting import PATIENCE_S

WAIT_MS = 1000 * PATIENCE_S
#: Width in pixels and colour scheme.
LOOKS = ((1440, "light"), (390, "dark"))
#: Nothing is being loaded any more.
_SETTLED = """() => document.querySelector('main h1, h1') !== null
  && document.querySelector("main .state-loading") === null"""
_WIDE = """() => {
  const most = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= most) return [];
  return [...document.querySelectorAll("body *")]
    .filter(e => e.getBoundingClientRect().right > most + 1)
    .map(e => e.tagName.toLowerCase() + "." + e.className + " " + (e.textContent || "").slice(0, 40)).slice(0, 6);
}"""


class Visit:
    """One page. `complaints` are console errors and warnings, exceptions, failed requests and answers from 400 on."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda m: self._complain(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: self._complain(f"exception: {e}"))
        page.on("dialog", lambda d: self._complain(f"dialog: {d.message}"))
        page.on("request", self._asked)
        page.on("requestfailed", self._failed)
        page.on("response", lambda r: self._complain(f"{r.status} {r.url}") if r.status >= 400 else None)

    def _asked(self, request: Any) -> None:
        where = urlsplit(request.url)
        if where.scheme not in ("blob", "data"):  # these are in the page already
            self.hosts.add(where.netloc)

    def _complain(self, text: str) -> None:
        self.complaints.append(text)

    def _failed(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page itself went on to something else
            self._complain(f"{request.failure} {request.url}")

    async def go(self, route: str, heading: str | None = None) -> None:
        """Show a route ("#/wall") and wait until it is loaded."""
        await self.page.evaluate("route => { location.hash = route; }", route)
        await self.settled(heading)

    async def settled(self, heading: str | None = None) -> None:
        """Wait for the heading (any, without one) and for the end of loading."""
        if heading is not None:
            await self.page.get_by_role("heading", level=1, name=heading, exact=True).wait_for()
        await self.page.wait_for_function(_SETTLED)

    async def too_wide(self) -> list[str]:
        """The elements that make the page scroll sideways."""
        return list(await self.page.evaluate(_WIDE))

    async def violations(self, axe: str, rules: Sequence[str] = ()) -> list[str]:
        """Serious and critical violations that axe-core finds, in words; `rules` alone are asked, or all."""
        if not await self.page.evaluate("() => 'axe' in window"):
            await self.page.evaluate(axe)
        found = await self.page.evaluate(
            """async rules => (await axe.run(document, {
              resultTypes: ['violations'], ...(rules.length ? { runOnly: rules } : {}),
            })).violations""",
            list(rules),
        )
        return [
            f"{v['id']}: {v['help']}: {' '.join(node['html'].split())[:160]}"
            for v in found
            if v["impact"] in ("serious", "critical")
            for node in v["nodes"][:3]
        ]


class Visits:
    """Opens pages of one appliance in contexts of their own."""

    def __init__(self, browser: Any, box: Box) -> None:
        self._browser, self._box = browser, box
        self._contexts: list[Any] = []

    async def open(
        self, person: Person | None = None, width: int = 1440, scheme: str = "light", route: str = ""
    ) -> Visit:
        """A page, as the person if one is given."""
        size = {"width": width, "height": 900}
        context = await self._browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
        self._contexts.append(context)
        if person is not None:
            await context.add_cookies([person.cookie | {"url": self._box.url}])
        visit = Visit(await context.new_page(), self._box.url)
        await visit.page.goto(f"{self._box.url}/{route}")
        return visit

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()
