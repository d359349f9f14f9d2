"""Every form of the settings: what is wrong is said at the field while one types, what is saved is in force."""

from __future__ import annotations

from typing import Any

import pytest
from crossroads import HOSTILE, NASTY, PLAIN, Crossroads
from discovery_kit import Device, Stream, served
from visits import Visit, Visits

from benchmarks.dashboard_box import good

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480), pytest.mark.asyncio(loop_scope="session")]

#: Two cameras of one name could not be distinguished.
THIRD = f"Third {HOSTILE}"


async def at(visits: Visits, crossroads: Crossroads, section: str) -> Visit:
    visit = await visits.open(crossroads.admin, route=f"#/settings/{section}")
    await visit.settled("Settings")
    return visit


async def press(visit: Visit, name: str, within: Any = None) -> None:
    place = within if within is not None else visit.page.get_by_role("main")
    await place.get_by_role("button", name=name, exact=True).click()


async def confirmed(visit: Visit, title: str, action: str) -> None:
    """Answer yes in the dialog, and wait for its end."""
    dialog = visit.page.get_by_role("dialog", name=title)
    await press(visit, action, dialog)
    await dialog.wait_for(state="hidden")


async def refused(visit: Visit, label: str) -> str:
    """The message at the field, once there is one."""
    field = visit.page.get_by_role("main").get_by_label(label, exact=True)
    await visit.page.wait_for_function(
        "field => field.getAttribute('aria-invalid') === 'true'", arg=await field.element_handle()
    )
    ids = (await field.get_attribute("aria-describedby") or "").split()
    return " ".join([await visit.page.locator(f"[id='{i}']").inner_text() for i in ids])


async def test_a_camera_is_tried_added_changed_and_removed(visits: Visits, crossroads: Crossroads) -> None:
    visit = await at(visits, crossroads, "cameras/new")
    page, rest = visit.page, crossroads.admin.rest
    like = good(rest.get(f"/cameras/{PLAIN}"))["settings"]
    await page.get_by_label("Id", exact=True).fill("Not An Id")
    assert "small letters" in await refused(visit, "Id")
    await page.get_by_label("Id", exact=True).fill("third")
    await page.get_by_label("Name", exact=True).fill(THIRD)
    await page.get_by_role("textbox", name="Address").fill("rtsp://somebody:password@127.0.0.1/x")
    assert "password" in await refused(visit, "Address")
    await page.get_by_role("textbox", name="Address").fill("rtsp://127.0.0.1:9/nothing")
    await press(visit, "Test the connection")
    await page.get_by_role("status").get_by_text("refused").wait_for()
    with served(Device((Stream("main", "H265", 3840, 2160, 25), Stream("sub", url=like["url"])))) as device:
        await page.get_by_label("Search at").fill(device.address)
        await press(visit, "Search the network")
        await page.get_by_text("One camera answered.").wait_for()
    proposed = page.get_by_role("row").filter(has_text="Proposed")
    assert "640 × 360" in await proposed.inner_text()
    assert not await visit.too_wide()
    await proposed.get_by_role("button", name="Use sub of Heron H-2").click()
    assert await page.get_by_role("textbox", name="Address").input_value() == like["url"]
    assert await page.get_by_label("Name", exact=True).input_value() == THIRD, "a name that was typed stays"
    await page.get_by_label("User name").fill(like["username"])
    await page.get_by_text("More", exact=True).click()
    await page.get_by_label("Password reference").fill(like["password_from"])
    await press(visit, "Test the connection")
    await page.get_by_alt_text("The picture that the camera sent").wait_for()
    await page.get_by_role("link", name="All cameras", exact=True).click()
    asked = page.get_by_role("dialog", name="Leave without saving?")
    await asked.get_by_role("button", name="Cancel").click()
    await asked.wait_for(state="hidden")
    assert await page.get_by_label("Id", exact=True).input_value() == "third", "nothing that was typed is gone"
    await page.get_by_label("Classes").fill("car, zebra")
    await press(visit, "Add the camera")
    await page.get_by_role("alert").filter(has_text="zebra").first.wait_for()
    await page.get_by_label("Classes").fill("car, person")
    await press(visit, "Add the camera")
    await page.get_by_role("button", name=f"Remove {THIRD}").wait_for()
    added = good(rest.get("/cameras/third"))["settings"]
    assert (added["name"], added["classes"], added["url"]) == (THIRD, ["car", "person"], like["url"])
    await page.get_by_role("button", name=f"Switch off {THIRD}").click()
    await page.get_by_role("button", name=f"Switch on {THIRD}").wait_for()
    await page.get_by_role("button", name=f"Remove {THIRD}").click()
    await confirmed(visit, f"Remove {THIRD}?", "Remove")
    assert "third" not in [c["id"] for c in good(rest.get("/cameras"))]


async def test_a_zone_is_drawn_by_mouse_and_moved_by_keyboard(visits: Visits, crossroads: Crossroads) -> None:
    visit = await at(visits, crossroads, f"cameras/{PLAIN}/zones")
    page, rest = visit.page, crossroads.admin.rest
    await press(visit, "Draw a zone")
    svg = page.locator(".zone-picture svg")
    await svg.scroll_into_view_if_needed()
    box = await svg.bounding_box()
    assert box is not None
    for x, y in ((0.2, 0.2), (0.6, 0.2), (0.6, 0.6)):
        await page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
    await page.mouse.click(box["x"] + 0.4 * box["width"], box["y"] + 0.1 * box["height"])
    await page.get_by_text("would cross another").wait_for()
    await press(visit, "Close the zone")
    corner = page.get_by_role("button", name="Point 1 of zone-1")
    await corner.focus()
    await page.keyboard.press("Shift+ArrowDown")
    await press(visit, "Save the zones")
    await page.get_by_text("saved").wait_for()
    zones = {z["name"]: z["polygon"] for z in good(rest.get(f"/cameras/{PLAIN}"))["settings"]["zones"]}
    assert set(zones) == {"road", "zone-1"}
    assert zones["zone-1"][0] == [pytest.approx(0.2, abs=0.02), pytest.approx(0.25, abs=0.02)]
    await page.get_by_role("region", name="Zone zone-1").get_by_label("Name").fill("road")
    await page.get_by_role("alert").first.wait_for()
    good(rest.patch(f"/cameras/{PLAIN}", json={"zones": [{"name": "road", "polygon": zones["road"]}]}))


async def test_retraining_windows(visits: Visits, crossroads: Crossroads) -> None:
    visit = await at(visits, crossroads, "retraining")
    page, rest = visit.page, crossroads.admin.rest
    length = page.get_by_label("Length", exact=False).first
    before = good(rest.get("/retraining"))["next"]
    name = await length.evaluate("field => field.labels[0].textContent.trim()")
    await length.fill("3")
    assert "10" in await refused(visit, name)
    await length.fill("21")
    await press(visit, "Save")
    await page.get_by_text("Takes effect at").first.wait_for()
    assert good(rest.get("/retraining"))["next"] == before | {"window_s": 21.0}, "only what was changed is sent"
    good(rest.patch("/retraining", json={"window_s": before["window_s"]}))


async def test_rules(visits: Visits, crossroads: Crossroads) -> None:
    visit = await at(visits, crossroads, "rules/new")
    page, rest = visit.page, crossroads.admin.rest
    await page.get_by_label("Id", exact=True).fill("left")
    await page.get_by_role("link", name="All rules").click()
    await page.get_by_role("dialog", name="Leave without saving?").get_by_role("button", name="Leave").click()
    await page.get_by_role("link", name="Add a rule").click()
    assert await page.get_by_label("Id", exact=True).input_value() == ""
    assert rest.get("/rules/left").status_code == 404, "who leaves saves nothing"
    await page.get_by_label("Id", exact=True).fill("dim")
    await page.get_by_label("Name", exact=True).fill("Dim <b>light</b>")
    await page.get_by_label("When", exact=True).select_option("accuracy")
    await press(visit, "Add the rule")
    await page.get_by_role("alert").first.wait_for()
    await page.get_by_label("Below", exact=False).first.fill("0.25")
    await press(visit, "Add the rule")
    await page.get_by_role("button", name="Delete the rule Dim <b>light</b>").wait_for()
    made = good(rest.get("/rules/dim"))
    assert (made["kind"], made["below"]) == ("accuracy", 0.25)
    await page.get_by_role("button", name="Delete the rule Dim <b>light</b>").click()
    await confirmed(visit, "Delete the rule Dim <b>light</b>?", "Delete")
    assert rest.get("/rules/dim").status_code == 404


async def test_outputs(visits: Visits, crossroads: Crossroads) -> None:
    visit = await at(visits, crossroads, "outputs/webhook/new")
    page, rest = visit.page, crossroads.admin.rest
    await page.get_by_label("Id", exact=True).fill("second")
    await page.get_by_role("textbox", name="Address").fill("ftp://example")
    assert "http" in await refused(visit, "Address")
    await page.get_by_role("textbox", name="Address").fill("http://127.0.0.1:9/second")
    await page.get_by_label("Signing secret").fill("secret:hook")
    await page.get_by_role("button", name="Add").or_(page.get_by_role("button", name="Save")).first.click()
    await page.get_by_role("button", name="Remove the webhook second").wait_for()
    await press(visit, "Test the webhook second")
    await page.get_by_text("Does not work").wait_for()
    await page.get_by_role("button", name="Remove the webhook second").click()
    await confirmed(visit, "Remove the webhook second?", "Remove")
    await visit.go("#/settings/outputs/mqtt")
    await page.get_by_label("Host", exact=False).first.fill("127.0.0.1")
    await page.get_by_label("Port", exact=False).first.fill("9")
    await press(visit, "Test the broker")
    await page.get_by_text("Does not work").wait_for()
    assert [w["id"] for w in good(rest.get("/outputs"))["webhooks"]] == ["pager"]
    assert good(rest.get("/outputs"))["mqtt"] is None, "a test keeps nothing"


async def test_users(visits: Visits, crossroads: Crossroads) -> None:
    visit = await at(visits, crossroads, "users")
    page, rest = visit.page, crossroads.admin.rest
    await page.get_by_role("button", name="Add a user").click()
    dialog = page.get_by_role("dialog", name="Add a user")
    await dialog.get_by_label("Name").fill("nina nana")
    await dialog.get_by_role("alert").filter(has_text="a-z 0-9").wait_for()
    await dialog.get_by_label("Name").fill("nina")
    await dialog.get_by_label("Password", exact=False).first.fill("short")
    await dialog.get_by_role("alert").filter(has_text="characters").wait_for()
    await dialog.get_by_label("Password", exact=False).first.fill("a-good-long-password-9")
    await dialog.get_by_label("Only some cameras").check()
    await dialog.get_by_label(HOSTILE).check()
    await dialog.locator("button[type=submit]").click()
    await dialog.wait_for(state="hidden")
    nina = next(u for u in good(rest.get("/users")) if u["name"] == "nina")
    assert (nina["role"], nina["cameras"]) == ("viewer", [NASTY])
    await page.get_by_role("button", name="Change nina").click()
    dialog = page.get_by_role("dialog", name="Change the user nina")
    await dialog.get_by_label("Disabled").check()
    await dialog.locator("button[type=submit]").click()
    await dialog.wait_for(state="hidden")
    assert next(u for u in good(rest.get("/users")) if u["name"] == "nina")["disabled"]
    await page.get_by_role("button", name="Delete nina").click()
    await confirmed(visit, "nina", "Delete")
    assert "nina" not in [u["name"] for u in good(rest.get("/users"))]


async def test_a_token_is_shown_once(visits: Visits, crossroads: Crossroads) -> None:
    visit = await at(visits, crossroads, "tokens")
    page, rest = visit.page, crossroads.admin.rest
    await press(visit, "Make a token")
    dialog = page.get_by_role("dialog", name="Make a token")
    await dialog.get_by_label("Name").fill("prometheus")
    await dialog.locator("button[type=submit]").click()
    shown = page.get_by_role("textbox", name="API token")
    token = await shown.input_value()
    client = crossroads.box.client()
    client.headers["authorization"] = f"Bearer {token}"
    assert good(client.get("/me"))["kind"] == "token"
    await page.keyboard.press("Escape")
    await shown.wait_for(state="hidden")
    assert token not in await page.content()
    await page.get_by_role("button", name="Delete token prometheus").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    await page.get_by_role("dialog").wait_for(state="hidden")
    assert client.get("/me").status_code == 401
    assert "prometheus" not in [t["name"] for t in good(rest.get("/tokens"))]


async def test_secrets_are_written_and_never_read(visits: Visits, crossroads: Crossroads) -> None:
    visit = await at(visits, crossroads, "secrets")
    page, rest = visit.page, crossroads.admin.rest
    await press(visit, "Add a secret")
    dialog = page.get_by_role("dialog", name="Add a secret")
    await dialog.get_by_label("Name").fill("the gate")
    await dialog.get_by_role("alert").filter(has_text="A-Z a-z 0-9").wait_for()
    await dialog.get_by_label("Name").fill("gate")
    await dialog.get_by_label("Value").fill("what-nobody-reads")
    await dialog.locator("button[type=submit]").click()
    await page.get_by_role("button", name="Replace gate").wait_for()
    assert "what-nobody-reads" not in await page.content()
    assert "what-nobody-reads" not in rest.get("/secrets").text
    await page.get_by_role("button", name="Delete gate").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    await page.get_by_role("dialog").wait_for(state="hidden")
    await visit.go("#/settings/audit")
    text = await page.inner_text("main")
    assert "gate" in text
    assert "what-nobody-reads" not in text
