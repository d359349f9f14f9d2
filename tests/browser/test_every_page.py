"""Every page at both widths and in both themes: no error, nothing sideways, nothing that axe-core calls serious."""

from __future__ import annotations

import json

import pytest
from crossroads import HOSTILE, NASTY, PLAIN, Crossroads
from visits import Visit, Visits

playwright = pytest.importorskip("playwright.async_api")

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="session")]

#: Route and its heading.
PAGES = (
    ("#/wall", "Cameras"),
    (f"#/camera/{PLAIN}", "Overpass"),
    *(
        (f"#/camera/{NASTY}?tab={tab}", HOSTILE)
        for tab in ("disagreements", "truth", "models", "alarms", "clips", "settings")
    ),
    (f"#/counts/{PLAIN}", "Counts"),
    (f"#/counts/{NASTY}", "Counts"),
    ("#/find", "Find"),
    (f"#/find?cameras={NASTY}&classes=car&line=gate&way=forward&from=1000&least_s=0", "Find"),
    (f"#/day/{PLAIN}", "A camera's day"),
    (f"#/day/{NASTY}?day=2026-03-29", "A camera's day"),
    (f"#/day/{PLAIN}?day=2026-13-45", "A camera's day"),
    ("#/windows", "Retraining windows"),
    ("#/windows/2", "Retraining windows"),
    ("#/capacity", "Capacity"),
    ("#/serving", "Serving"),
    ("#/tenants", "Tenants"),
    ("#/fleet", "Fleet"),
    *((f"#/system{tab}", "System") for tab in ("", "/alarms", "/clips", "/journal", "/log", "/doctor")),
    ("#/settings/cameras", "Settings"),
    ("#/settings/cameras/new", "Settings"),
    (f"#/settings/cameras/{NASTY}", "Settings"),
    (f"#/settings/cameras/{NASTY}/zones", "Settings"),
    (f"#/settings/cameras/{NASTY}/lines", "Settings"),
    (f"#/settings/cameras/{NASTY}/masks", "Settings"),
    ("#/settings/retraining", "Settings"),
    ("#/settings/rules", "Settings"),
    ("#/settings/rules/new", "Settings"),
    ("#/settings/outputs", "Settings"),
    ("#/settings/outputs/mqtt", "Settings"),
    ("#/settings/outputs/webhook/new", "Settings"),
    *((f"#/settings/{section}", "Settings") for section in ("users", "tokens", "secrets", "audit")),
)


async def sound(visit: Visit, width: int, axe: str) -> dict[str, list[str]]:
    """Faults of the page that is shown, in both themes."""
    wrong: dict[str, list[str]] = {}
    for scheme in ("light", "dark"):
        await visit.page.emulate_media(color_scheme=scheme)
        # A theme changes colours alone.
        if found := await visit.violations(axe, ("color-contrast",) if scheme == "dark" else ()):
            wrong[f"axe, {scheme}, {width}"] = found
    if found := await visit.too_wide():
        wrong[f"wider than {width}"] = found
    if visit.complaints:
        wrong[f"console and network, {width}"] = list(visit.complaints)
    return wrong


@pytest.mark.parametrize("width", [1440, 390])
async def test_every_page_is_sound(visits: Visits, crossroads: Crossroads, axe: str, width: int) -> None:
    visit = await visits.open(crossroads.admin, width)
    await visit.settled("Cameras")
    wrong: dict[str, dict[str, list[str]]] = {}
    for route, heading in PAGES:
        visit.complaints.clear()
        try:
            await visit.go(route, heading)
        except playwright.TimeoutError as error:
            wrong[route] = {"not shown": [str(error).splitlines()[0]]}
            visit.page.set_default_timeout(5_000)  # the report on all pages shall still come
            continue
        if found := await sound(visit, width, axe):
            wrong[route] = found
    assert not wrong, json.dumps(wrong, indent=1, ensure_ascii=False)
    assert visit.hosts == {crossroads.box.url.split("//")[1]}, "something was loaded from elsewhere"


@pytest.mark.parametrize(("route", "heading"), [("#/login", "Log in"), ("#/setup?token=used-up", "Set up Magpie")])
@pytest.mark.parametrize("width", [1440, 390])
async def test_the_way_in_is_sound(visits: Visits, axe: str, route: str, heading: str, width: int) -> None:
    visit = await visits.open(None, width, route=route)
    await visit.settled(heading)
    visit.complaints = [c for c in visit.complaints if "401" not in c]  # the browser notes it itself
    assert await sound(visit, width, axe) == {}
