"""Forms outside the settings: models of a camera, its own settings, served models, admission, what-if, alarms."""

from __future__ import annotations

import pytest
from crossroads import HOSTILE, HOSTILE_REASON, NASTY, PLAIN, Crossroads
from visits import Visits

from benchmarks.dashboard_box import good, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480), pytest.mark.asyncio(loop_scope="session")]


async def test_a_model_is_pinned_and_rolled_back(visits: Visits, crossroads: Crossroads) -> None:
    rest = crossroads.operator.rest

    def replaced() -> str | None:
        """A camera whose first model is no longer in force."""
        for camera in (NASTY, PLAIN):
            models = good(rest.get(f"/cameras/{camera}/models"))
            if len([m for m in models if m["state"] in ("promoted", "retired", "rolled_back")]) > 1:
                return camera
        return None

    crossroads.windows()
    camera = replaced()
    if camera is None:
        pytest.skip("no retrained model was promoted in these windows")
    name = good(rest.get(f"/cameras/{camera}"))["settings"]["name"]
    visit = await visits.open(crossroads.operator, route=f"#/camera/{camera}?tab=models")
    await visit.settled(name)
    page = visit.page
    await page.get_by_role("button", name="Pin", exact=True).click()
    dialog = page.get_by_role("dialog", name=f"Pin the model of {name}")
    await dialog.get_by_role("button", name="Cancel").click()
    await dialog.wait_for(state="hidden")
    assert not any(m["pinned"] for m in good(rest.get(f"/cameras/{camera}/models"))), "only when it is confirmed"
    await page.get_by_role("button", name="Pin", exact=True).click()
    await dialog.get_by_role("button", name="Pin", exact=True).click()
    await page.get_by_role("button", name="Unpin", exact=True).wait_for()
    (pinned,) = [m for m in good(rest.get(f"/cameras/{camera}/models")) if m["pinned"]]
    assert pinned["state"] == "promoted"
    await page.get_by_role("button", name="Unpin", exact=True).click()
    await page.get_by_role("dialog").get_by_role("button", name="Unpin", exact=True).click()
    await page.get_by_role("button", name="Pin", exact=True).wait_for()
    await page.get_by_role("button", name="Roll back to this").last.press("Enter")
    dialog = page.get_by_role("dialog", name=f"Roll back {name}")
    await dialog.get_by_label("Reason").fill(HOSTILE_REASON)
    await dialog.get_by_role("button", name="Roll back", exact=True).press("Enter")
    await dialog.wait_for(state="hidden")
    back = until(
        lambda: [
            e
            for e in good(rest.get("/events", params={"kind": "model.rolled_back"}))
            if e["camera"] == camera and e["data"]["by"] == crossroads.operator.name  # not one that came by itself
        ],
        "the roll-back is in the journal",
    )
    assert HOSTILE_REASON in str(back[0]["data"]["reason"])


async def test_a_cameras_own_settings(visits: Visits, crossroads: Crossroads) -> None:
    visit = await visits.open(crossroads.operator, route=f"#/camera/{PLAIN}?tab=settings")
    await visit.settled("Overpass")
    page, rest = visit.page, crossroads.operator.rest
    field = page.get_by_label("Every so many windows")
    await field.fill("0")
    await page.get_by_role("alert").filter(has_text="1").first.wait_for()
    await field.fill("2")
    await page.get_by_role("button", name="Save", exact=True).click()
    await page.get_by_text("settings saved").wait_for()
    assert good(rest.get(f"/cameras/{PLAIN}"))["settings"]["retraining"]["every_kth_window"] == 2
    good(rest.patch(f"/cameras/{PLAIN}", json={"retraining": {"every_kth_window": 1}}))


async def test_disagreements_are_walked_by_keyboard(visits: Visits, crossroads: Crossroads) -> None:
    crossroads.windows()
    found = good(crossroads.admin.rest.get(f"/cameras/{NASTY}/disagreements", params={"limit": 20}))
    assert found, "weak students and a strong teacher"
    visit = await visits.open(crossroads.admin, route=f"#/camera/{NASTY}?tab=disagreements")
    await visit.settled(HOSTILE)
    page = visit.page
    pictures = page.get_by_role("button", name="Enlarge")
    await pictures.first.focus()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("What the teacher said").wait_for()
    drawn = "() => [...document.querySelectorAll('dialog img')].some(i => i.complete && i.naturalWidth > 0)"
    await page.wait_for_function(drawn)
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="hidden")
    assert await pictures.first.evaluate("e => e === document.activeElement"), "the focus comes back"


async def test_what_another_policy_would_have_planned(visits: Visits, crossroads: Crossroads) -> None:
    number = max(crossroads.windows())
    visit = await visits.open(crossroads.operator, route=f"#/windows/{number}")
    await visit.settled("Retraining windows")
    page = visit.page
    await page.locator(".what-if-ask select").select_option("uniform")
    await page.get_by_role("button", name="Compare", exact=True).click()
    await page.get_by_text("the plan that was made", exact=False).first.wait_for()
    await page.get_by_role("button", name="Compare with all").click()
    await page.get_by_role("table", name="What each policy would have reached").wait_for()
    assert visit.complaints == []


async def test_a_served_model_is_asked_for_anew(visits: Visits, crossroads: Crossroads) -> None:
    visit = await visits.open(crossroads.operator, route="#/serving")
    await visit.settled("Serving")
    page, rest = visit.page, crossroads.operator.rest
    before = good(rest.get("/serving"))["settings"]
    await page.get_by_role("button", name="Change lenet").click()
    dialog = page.get_by_role("dialog", name="Change lenet")
    rate = dialog.get_by_label("rate", exact=False).first
    await rate.fill("-1")
    await dialog.get_by_role("alert").first.wait_for()
    await rate.fill("7")
    await dialog.get_by_role("button", name="Change", exact=True).click()
    await dialog.wait_for(state="hidden")
    assert 7 in good(rest.get("/serving"))["settings"]["models"]["lenet"].values()
    good(rest.patch("/serving", json={"models": {"lenet": before["models"]["lenet"]}}))
    await page.get_by_label("Model", exact=True).fill("lenet")
    await page.get_by_label("Rate", exact=True).fill("1e9")
    await page.get_by_label("Objective", exact=True).fill("50")
    ask = page.locator("form.admission button[type=submit]")
    await ask.click()
    await page.locator("form.admission").get_by_role("alert").first.wait_for()
    await page.get_by_label("Rate", exact=True).fill("6")
    await ask.click()
    await page.get_by_text("fits", exact=False).first.wait_for()


async def test_an_alarm_is_acknowledged(visits: Visits, crossroads: Crossroads) -> None:
    crossroads.alarms()
    visit = await visits.open(crossroads.operator, route="#/system/alarms")
    await visit.settled("System")
    page, rest = visit.page, crossroads.operator.rest
    alarm = page.get_by_role("main").get_by_role("listitem").filter(has_text="rule unsure").last
    await alarm.get_by_role("button", name="Acknowledge").click()
    await alarm.get_by_text(f"acknowledged by {crossroads.operator.name}").wait_for()
    assert any(a["acknowledged_by"] == crossroads.operator.name for a in good(rest.get("/alarms")))


async def test_journal_log_and_doctor(visits: Visits, crossroads: Crossroads) -> None:
    visit = await visits.open(crossroads.admin, route="#/system/journal")
    await visit.settled("System")
    page = visit.page
    await page.get_by_label("Kind").fill("window.opened")
    await page.wait_for_function("() => document.querySelectorAll('ol.journal code').length > 0")
    kinds = "() => [...new Set([...document.querySelectorAll('ol.journal code')].map(e => e.textContent))]"
    await page.wait_for_function(f"() => ({kinds})().join() === 'window.opened'")
    await visit.go("#/system/log")
    await page.get_by_label("Search").fill("no record has these words")
    await page.get_by_text("No such record").wait_for()
    await visit.go("#/system/doctor")
    await page.get_by_role("heading", name="Doctor").wait_for()
    await visit.settled("System")
    assert visit.complaints == []


async def test_objects_are_found_by_the_form_and_lead_to_their_clip(visits: Visits, crossroads: Crossroads) -> None:
    crossroads.alarms()
    visit = await visits.open(crossroads.operator, route="#/find")
    await visit.settled("Find")
    page = visit.page
    await page.get_by_role("button", name="Last hour").click()
    await page.wait_for_function("() => location.hash.includes('from=')")
    await page.locator(".found-picture").first.click()
    dialog = page.get_by_role("dialog")
    await dialog.locator("video, [role=status], .actions, [role=alert]").first.wait_for()
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="hidden")
    # The same search again is asked again.
    async with page.expect_request(lambda r: "/objects/search" in r.url):
        await page.get_by_role("button", name="Find", exact=True).click()
    await page.get_by_label("Stayed at least (s)").fill("1000000")
    await page.get_by_role("button", name="Find", exact=True).click()
    await page.get_by_text("No such object").wait_for()
    assert "least_s=1000000" in page.url
