"""Logging in and out, a session that ends, the used-up set-up link, one's own password."""

from __future__ import annotations

import pytest
from crossroads import HOSTILE, Crossroads
from visits import Visit, Visits

from benchmarks.dashboard_box import GUARD, OPERATOR, PASSWORDS, good

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480), pytest.mark.asyncio(loop_scope="session")]


async def log_in(visit: Visit, name: str, password: str) -> None:
    await visit.page.get_by_label("Name").fill(name)
    await visit.page.get_by_label("Password").fill(password)
    await visit.page.get_by_role("button", name="Log in").click()


async def test_one_comes_back_to_where_one_wanted_to_go(visits: Visits) -> None:
    visit = await visits.open(route="#/system")
    await visit.settled("Log in")
    assert await visit.page.evaluate("() => document.activeElement.name") == "name", "one may type at once"
    for label, hint in (("Name", "username"), ("Password", "current-password")):
        assert await visit.page.get_by_label(label).get_attribute("autocomplete") == hint
    await log_in(visit, OPERATOR, "wrong-password-123")
    await visit.page.get_by_role("alert").wait_for()
    assert "wrong-password-123" not in await visit.page.content()
    await log_in(visit, OPERATOR, PASSWORDS[OPERATOR])
    await visit.settled("System")
    await visit.page.get_by_role("button", name=f"{OPERATOR}: account and appearance").click()
    await visit.page.get_by_role("button", name="Log out").click()
    await visit.settled("Log in")


async def test_a_hostile_name_is_refused_as_any_other(visits: Visits) -> None:
    visit = await visits.open(route="#/login")
    await visit.settled("Log in")
    await log_in(visit, HOSTILE[:90], "wrong-password-123")
    await visit.page.get_by_role("alert").wait_for()
    assert all("401" in c or "422" in c for c in visit.complaints), visit.complaints


async def test_a_session_that_is_ended_elsewhere(visits: Visits, crossroads: Crossroads) -> None:
    guard = crossroads.box.login(GUARD)
    visit = await visits.open(guard, route="#/windows")
    await visit.settled("Retraining windows")
    for session in good(guard.rest.get("/sessions")):
        if session.get("current"):
            good(guard.rest.delete(f"/sessions/{session['id']}"))
    await visit.settled("Log in")
    await log_in(visit, GUARD, PASSWORDS[GUARD])
    await visit.settled("Retraining windows")


async def test_the_set_up_link_works_once(visits: Visits, crossroads: Crossroads) -> None:
    assert good(crossroads.box.client().get("/setup")) == {"open": False, "logged_in": False}
    visit = await visits.open(route="#/setup?token=used-up")
    await visit.settled("Set up Magpie")
    await visit.page.get_by_text("This appliance is set up already").wait_for()
    assert await visit.page.get_by_label("Password").count() == 0


async def test_ones_own_password_is_changed(visits: Visits, crossroads: Crossroads) -> None:
    rest = crossroads.admin.rest
    good(rest.post("/users", json={"name": "newcomer", "role": "viewer", "password": "first-of-many-words-1"}))
    visit = await visits.open(crossroads.box.login("newcomer", "first-of-many-words-1"))
    await visit.settled("Choose your password")
    page = visit.page
    await page.get_by_text("chosen by another user").wait_for()
    for label, value in (
        ("Current password", "not the one"),
        ("New password", "short"),
        ("New password once", "short"),
    ):
        await page.get_by_label(label, exact=label == "New password").fill(value)
    await page.get_by_role("button", name="Change password").click()
    await page.get_by_role("alert").first.wait_for()
    await page.get_by_label("Current password").fill("first-of-many-words-1")
    for label in ("New password", "New password once more"):
        await page.get_by_label(label, exact=True).fill("another-set-of-words-2")
    await page.get_by_role("button", name="Change password").click()
    await visit.settled("Cameras")
    crossroads.box.login("newcomer", "another-set-of-words-2")
    good(rest.delete("/users/newcomer"))
    await visit.settled("Log in")
