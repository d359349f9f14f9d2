"""A role is offered its rights only, and a user of one camera sees that one."""

from __future__ import annotations

import pytest
from crossroads import HOSTILE, NASTY, PLAIN, Crossroads
from visits import Visits

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480), pytest.mark.asyncio(loop_scope="session")]

PAGES = (
    "#/wall", f"#/camera/{PLAIN}", "#/windows", "#/windows/2", "#/counts", "#/serving", "#/tenants", "#/fleet",
    "#/find", f"#/day/{PLAIN}",
    "#/system", "#/system/alarms", "#/system/journal", "#/system/log", "#/settings/cameras", "#/settings/retraining",
    "#/settings/rules", "#/settings/users", "#/settings/outputs", "#/settings/secrets", "#/settings/audit",
)  # fmt: skip
#: Buttons that change something, on any page.
CHANGES = (
    "Save", "Change", "Save the zones", "Remove", "Delete", "Roll back to this", "Pin", "Unpin", "Acknowledge",
    "Compare", "Test the connection", "Remove the camera", "Draw a zone", "Ask",
    "Add a tenant",
)  # fmt: skip


async def test_a_viewer_of_one_camera_sees_that_one_and_changes_nothing(visits: Visits, crossroads: Crossroads) -> None:
    crossroads.windows()
    visit = await visits.open(crossroads.guard)
    await visit.settled("Cameras")
    page = visit.page
    await page.get_by_role("listitem", name="Overpass").wait_for()
    assert await page.locator("canvas").count() == 1
    for route in PAGES:
        await visit.go(route)
        text = await page.inner_text("body")
        assert HOSTILE[:20] not in text, route
        assert NASTY not in text, route
        main = page.get_by_role("main")
        for name in CHANGES:
            offered = main.get_by_role("button", name=name, exact=True, disabled=False)
            assert await offered.count() == 0, f"{route}: {name}"
    await visit.go(f"#/camera/{NASTY}")
    assert HOSTILE[:20] not in await page.inner_text("body")


async def test_an_operator_changes_cameras_but_no_users(visits: Visits, crossroads: Crossroads) -> None:
    visit = await visits.open(crossroads.operator, route=f"#/camera/{PLAIN}")
    await visit.settled("Overpass")
    await visit.go("#/settings/users")
    text = await visit.page.inner_text("main")
    assert "administrator" in text.lower()
    assert "gus" not in text
