"""The page's shell, wall, camera, log-in and set-up in a real browser, against a real server. Skipped where no Chromium
or no built page is there."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from access_kit import PASSWORD, Accounts
from appliance_double import DictAppliance

from web.app import STATIC, create_app
from web.examples.serving import SERVING
from web.server import WebServer

playwright = pytest.importorskip("playwright.async_api")
WAIT_MS = 60_000
pytestmark = [pytest.mark.timeout(240), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_browser() -> AsyncIterator[Any]:
    from benchmarks.headless_browser import chromium, chromium_path

    if chromium_path() is None:
        pytest.skip("no Chromium is installed (or name one in MAGPIE_CHROMIUM)")
    if not (STATIC / "index.html").is_file():
        pytest.skip("the page was not built: pip install . builds it")
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def browser(shared_browser: Any) -> AsyncIterator[Any]:
    """With nothing in it of another test: each page has a context of its own."""
    yield shared_browser
    for context in shared_browser.contexts:
        await context.close()


@pytest.fixture
def service() -> DictAppliance:
    return DictAppliance(utc_s=time.time())


@pytest_asyncio.fixture(loop_scope="module")
async def server(service: DictAppliance) -> AsyncIterator[WebServer]:
    server = WebServer(create_app(service), "127.0.0.1", 0)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def accounts(tmp_path: Path, sqlite_template: Path) -> Accounts:
    return Accounts(tmp_path, sqlite_template)


@pytest_asyncio.fixture(loop_scope="module")
async def guarded(service: DictAppliance, accounts: Accounts) -> AsyncIterator[WebServer]:
    """The same behind a log-in."""
    server = WebServer(create_app(service, access=accounts.access), "127.0.0.1", 0)
    await server.start()
    yield server
    await server.stop()


class Opened:
    """A page, with everything that its console complained about and every host that it asked."""

    def __init__(self, page: Any, server: WebServer) -> None:
        self.page, self.complaints, self.hosts = page, [], set()
        self.base = f"http://127.0.0.1:{server.port}/"
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: self.complaints.append(str(e)))
        page.on("request", lambda r: self.hosts.add(re.sub(r"^\w+://([^/]*).*", r"\1", r.url)))


async def opened(browser: Any, server: WebServer, at: str = "", width: int = 1440, scheme: str = "light") -> Opened:
    page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    found = Opened(page, server)
    await page.goto(found.base + at)
    return found


#: True if the canvas shows the red car of the double's pictures and the box around it.
PAINTED = """canvas => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  let car = 0, box = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] > 150 && data[i + 1] < 90 && data[i + 2] < 80) car++;
    if (Math.abs(data[i] - 61) < 12 && Math.abs(data[i + 1] - 219) < 12 && Math.abs(data[i + 2] - 184) < 12) box++;
  }
  return [car > 200, box > 50];
}"""


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
async def test_the_wall_shows_what_the_appliance_says(
    browser: Any, server: WebServer, service: DictAppliance, width: int, scheme: str
) -> None:
    service.cameras.states["south"] = {
        "state": "reconnecting",
        "message": "nothing answers there",
        "connection": {"retry_in_s": 4.0},
    }
    service.state.reasons = [{"code": "camera_reconnecting", "message": "nothing answers there", "camera": "south"}]
    found = await opened(browser, server, width=width, scheme=scheme)
    page = found.page
    north = page.get_by_role("listitem", name="north")
    await north.locator("canvas[data-painted='1']").wait_for()
    assert await north.locator("canvas").evaluate(PAINTED) == [True, True]
    text = await page.inner_text("body")
    for words in (
        "junction",
        "1 of 2 live",
        "south: nothing answers there",
        "Next try in 4 s.",
        "70\u00a0% right",
        "+20.0 pts by retraining",
        "all layers, 10 epochs",
    ):
        assert words in text, words
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    service.events.note("model.promoted", "north", scores={"held_out": 0.72, "parent_held_out": 0.55})
    await page.get_by_text("a better model is in force: 72\u00a0% instead of 55\u00a0% on held-out frames").wait_for()
    await page.get_by_label("Show boxes").click()
    while await north.locator("canvas").evaluate(PAINTED) != [True, False]:
        await page.wait_for_timeout(50)  # the next picture comes without its box
    await page.get_by_label("Sort by").select_option("state")
    assert await page.get_by_role("heading", level=2).all_inner_texts() == [
        "south",
        "north",
        "What happened",
        "Shares now",
    ]
    await page.get_by_label("Show", exact=True).select_option("live")
    await page.get_by_role("listitem", name="south").wait_for(state="detached")
    assert found.complaints == []
    assert found.hosts == {f"127.0.0.1:{server.port}"}, "something was loaded from elsewhere"
    await page.close()


async def test_only_tiles_in_view_are_watched(browser: Any, service: DictAppliance) -> None:
    service = DictAppliance(tuple(f"c{n:02d}" for n in range(16)), utc_s=time.time())
    server = WebServer(create_app(service), "127.0.0.1", 0)
    await server.start()
    found = await opened(browser, server, width=390)
    page = found.page
    await page.locator("canvas[data-painted='1']").first.wait_for()

    async def watched() -> tuple[str, ...]:
        while len(service.live.watching) != 1:
            await page.wait_for_timeout(50)
        return service.live.watching[0][0]

    first = await watched()
    assert "c00" in first
    assert len(first) < 8, "sixteen tiles do not fit on such a screen"
    await page.get_by_role("listitem", name="c15").scroll_into_view_if_needed()
    while "c15" not in await watched():
        await page.wait_for_timeout(50)
    assert "c00" not in await watched()
    await page.goto(found.base + "#/settings")
    while service.live.watching:
        await page.wait_for_timeout(50)  # where no picture is, none is encoded
    await page.close()
    await server.stop()


async def test_roll_back_by_keyboard_after_a_confirmation(
    browser: Any, server: WebServer, service: DictAppliance
) -> None:
    found = await opened(browser, server)
    page = found.page
    await page.get_by_role("link", name="north").press("Enter")
    await page.get_by_role("heading", name="north", level=1).wait_for()
    await page.get_by_role("tab", name="Accuracy", exact=True).press("ArrowRight")
    for name in ("Disagreements", "True accuracy"):
        await page.get_by_role("tab", name=name, exact=True, selected=True).wait_for()
        await page.keyboard.press("ArrowRight")
    await page.get_by_role("tab", name="Models", selected=True).wait_for()
    back = page.get_by_role("button", name="Roll back to this")
    await back.press("Enter")
    dialog = page.get_by_role("dialog", name="Roll back north")
    await dialog.get_by_label("Reason").fill("worse at night")
    assert service.cameras.in_force["north"] == "north-w2-1-2", "nothing happens before the confirmation"
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="detached")
    assert await back.evaluate("button => button === document.activeElement"), "the focus goes back"
    await back.press("Enter")
    await dialog.get_by_label("Reason").fill("worse at night")
    await dialog.get_by_role("button", name="Roll back", exact=True).press("Enter")
    await page.get_by_text("north answers with the first model again").wait_for()
    assert service.cameras.in_force["north"] == "north-first-1"
    data = service.events.journal[-1]["data"]
    assert (data["version"], data["reason"]) == ("north-first-1", "worse at night")
    assert found.complaints == []
    await page.close()


async def test_disagreements_are_walked_by_keyboard_and_enlarged(browser: Any, server: WebServer) -> None:
    found = await opened(browser, server, "#/camera/north?tab=disagreements")
    page = found.page
    pictures = page.locator(".disagreements button")
    await pictures.nth(2).wait_for()
    said = await pictures.first.locator(".said > span").all_inner_texts()
    assert said[:2] == ["The model missed: person", "The model said car, the teacher bus"]
    await pictures.first.focus()
    await page.keyboard.press("ArrowRight")
    assert await pictures.nth(1).evaluate("button => button === document.activeElement")
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_text("2 of 3").wait_for()
    assert await dialog.locator("img").evaluate("async i => { await i.decode(); return i.naturalWidth > 0 }")
    boxes = dialog.locator(".boxes g")
    assert await boxes.count() == 3
    await dialog.get_by_label("What the teacher said").click()
    assert await boxes.count() == 1
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="detached")
    assert found.complaints == []
    await page.close()


async def test_an_application_has_its_graph_its_stages_and_why_it_is_split_so(
    browser: Any, server: WebServer, service: DictAppliance
) -> None:
    now = {key: SERVING[key] for key in ("front", "share", "reorganising")}
    service.served.now = now | {"front_share": 0.05, "models": []}
    found = await opened(browser, server, "#/serving")
    article = found.page.get_by_role("article", name="gate")
    graph = article.get_by_role("img", name="Stages of gate: find, read after find")
    await graph.wait_for()
    texts = await graph.locator("text").all_text_contents()
    assert [text.replace("\u00a0", " ") for text in texts] == [
        "find", "74.1 ms, 20 % of a device", "planned 72.6 ms, p99 70.3 ms",
        "read", "44.1 ms, 20 % of a device", "planned 43.0 ms, p99 40.8 ms",
    ]  # fmt: skip
    table = article.get_by_role("table")
    heads = await table.get_by_role("columnheader").all_inner_texts()
    cells = await table.get_by_role("row").nth(2).get_by_role("cell").all_inner_texts()
    row = {head: cell.replace("\u00a0", " ") for head, cell in zip(heads[1:], cells, strict=True)}
    assert (row["Planned at most"], row["Rows/s, planned for"], row["Share"]) == ("43.0 ms", "9.2, 14.1", "20 %"), row
    await article.get_by_text("Why this split and these models").click()
    reasons = await article.get_by_role("listitem").all_inner_texts()
    assert reasons == [f"{said}." for said in SERVING["applications"][0]["reasons"]]
    assert await found.page.evaluate("document.documentElement.scrollWidth") <= 1440
    assert found.complaints == []
    await found.page.close()


async def test_settings_of_a_camera_are_checked_as_one_types_and_only_changes_are_sent(
    browser: Any, server: WebServer, service: DictAppliance
) -> None:
    found = await opened(browser, server, "#/camera/north?tab=settings")
    page = found.page
    name, lost = page.get_by_label("Name", exact=True), page.get_by_label("Lost after")
    await lost.fill("0")
    await page.get_by_text("Allowed: greater than or equal to 0.5").wait_for()
    assert await lost.get_attribute("aria-invalid") == "true"
    await lost.fill("9")
    await name.fill('<img src=x onerror="alert(1)">')
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("heading", name="<img src=x", level=1).wait_for()
    assert service.cameras.kept["north"].stall_timeout_s == 9
    assert service.events.journal[-1]["data"]["fields"] == ["name", "stall_timeout_s"]
    assert found.complaints == []
    await page.close()


async def test_an_appliance_that_goes_and_comes_back(browser: Any, service: DictAppliance) -> None:
    server = WebServer(create_app(service), "127.0.0.1", 0, drain_s=3600)
    await server.start()
    found = await opened(browser, server)
    page = found.page
    await page.locator("canvas[data-painted='1']").first.wait_for()
    port = server.port
    await server.stop()  # an open page does not hold the appliance up for the hour that requests would have
    await page.get_by_text("The appliance does not answer").wait_for()
    again = WebServer(create_app(service), "127.0.0.1", port)
    await again.start()
    await page.get_by_text("The appliance does not answer").wait_for(state="hidden")
    await page.locator(".banner").wait_for(state="hidden")  # live pictures are back too
    await page.close()
    await again.stop()


async def test_without_cameras_the_wall_leads_to_adding_one(
    browser: Any, server: WebServer, service: DictAppliance
) -> None:
    service.cameras.kept.clear()
    found = await opened(browser, server, width=390)
    await found.page.get_by_text("No camera yet").wait_for()
    await found.page.get_by_role("link", name="Add a camera").click()
    await found.page.wait_for_url("**/#/settings/cameras")
    assert found.complaints == []
    await found.page.close()


async def test_one_logs_in_and_comes_where_one_wanted_to_go(
    browser: Any, guarded: WebServer, accounts: Accounts
) -> None:
    accounts.user("root", "admin")
    accounts.user("ann", "viewer", {"north"})
    found = await opened(browser, guarded, "#/camera/north?tab=models")
    page = found.page
    await page.get_by_role("heading", name="Log in").wait_for()
    name, password = page.get_by_label("Name"), page.get_by_label("Password")
    assert await name.get_attribute("autocomplete") == "username"
    assert await password.get_attribute("autocomplete") == "current-password"
    assert await name.evaluate("field => field === document.activeElement")
    await name.fill("ann")
    await password.fill("wrong")
    await password.press("Enter")
    await page.locator(".problem").wait_for()
    assert await password.input_value() == ""
    found.complaints.clear()  # the browser notes the refusals itself
    await password.fill(PASSWORD)
    await password.press("Enter")
    await page.get_by_role("heading", name="Models", level=2).wait_for()
    assert "#/camera/north?tab=models" in page.url
    await page.get_by_text("Only an operator or an administrator may do this", exact=False).first.wait_for()
    assert await page.get_by_role("button", name="Roll back").count() == 0, "what one may not do is not offered"
    await page.get_by_role("link", name="Cameras", exact=True).first.click()
    await page.get_by_text("1 of 1 live").wait_for()
    await page.get_by_role("button", name="ann").click()
    await page.get_by_role("button", name="Log out").click()
    await page.get_by_role("heading", name="Log in").wait_for()
    await page.close()


async def test_a_password_that_another_chose_is_all_there_is(
    browser: Any, guarded: WebServer, accounts: Accounts
) -> None:
    accounts.user("root", "admin")
    accounts.access.records.add_user("eve", "viewer", None, accounts.hash, True, "test")
    found = await opened(browser, guarded, "#/login")
    page = found.page
    await page.get_by_label("Name").fill("eve")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await page.get_by_role("heading", name="Choose your password").wait_for()
    await page.reload()
    await page.get_by_role("heading", name="Choose your password").wait_for()
    assert await page.get_by_role("navigation").count() == 0
    assert found.complaints == [], "nothing is asked that would be refused"
    await page.get_by_label("Current password").fill(PASSWORD)
    for label in ("New password", "New password once more"):
        await page.get_by_label(label, exact=True).fill("quite another 1")
    await page.get_by_role("button", name="Change password").click()
    await page.get_by_role("heading", name="Cameras").wait_for()
    await page.close()


async def test_too_many_tries_are_reported_with_the_time_to_wait(
    browser: Any, guarded: WebServer, accounts: Accounts
) -> None:
    accounts.user("root", "admin")
    accounts.user("ann", "viewer")
    found = await opened(browser, guarded, "#/login")
    page = found.page
    await page.get_by_label("Name").fill("ann")
    wait = page.get_by_role("button", name=re.compile(r"^Wait \d+ s$"))
    for _ in range(30):
        if await wait.count():
            break
        await page.get_by_label("Password").fill("wrong")
        async with page.expect_response("**/api/v1/login"):
            await page.get_by_label("Password").press("Enter")
        await page.locator(".problem").first.wait_for()
    await page.get_by_text(re.compile(r"Too many tries\. Wait \d+ seconds?\.")).wait_for()
    assert await wait.is_disabled()
    await page.close()


async def test_set_up_makes_the_first_admin(browser: Any, guarded: WebServer, accounts: Accounts) -> None:
    token = await accounts.access.setup_link()
    found = await opened(browser, guarded, f"#/setup?token={token}")
    page = found.page
    await page.get_by_role("heading", name="Set up Magpie").wait_for()
    await page.get_by_label("Name").fill("root")
    await page.get_by_label("Password", exact=True).fill("short")
    await page.get_by_label("Password once more").fill("short")
    await page.get_by_role("button", name="Set up and log in").click()
    await page.locator("[aria-invalid=true]").wait_for()
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_label("Password once more").fill(PASSWORD)
    await page.get_by_role("button", name="Set up and log in").click()
    await page.get_by_role("heading", name="Cameras").wait_for()
    assert "token" not in page.url
    await page.get_by_role("button", name="root").click()
    await page.get_by_text("admin").wait_for()
    await page.close()
