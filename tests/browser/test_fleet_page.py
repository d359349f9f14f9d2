"""The page of a fleet whose answers are the examples: sound at both widths, orders with the fleet's reason, roles."""

from __future__ import annotations

import json
from typing import Any

import pytest
from crossroads import Crossroads
from visits import Visit, Visits

from web.examples import fleet as examples

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480), pytest.mark.asyncio(loop_scope="session")]

#: The end of a route's path, and its answer.
ANSWERS: dict[str, Any] = {
    "/fleet": examples.FLEET,
    "/fleet/wall": examples.WALL,
    "/fleet/boxes": examples.BOXES,
    "/fleet/alarms": examples.ALARMS,
    "/fleet/objects": examples.OBJECTS,
    "/fleet/events": examples.EVENTS,
    "/fleet/audit": examples.AUDIT,
    "/fleet/jobs": examples.JOBS,
}
FULL = "b2 does not admit the camera north"
#: One point, drawn.
PICTURE = bytes.fromhex("47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b")


async def with_a_fleet(visit: Visit) -> list[dict[str, Any]]:
    """The page asks the examples; it refuses orders and records them."""
    orders: list[dict[str, Any]] = []

    async def answer(route: Any) -> None:
        path = route.request.url.partition("/api/v1")[2].partition("?")[0]
        if path.endswith("picture.jpg"):
            await route.fulfill(body=PICTURE, content_type="image/gif")
        elif path == "/fleet/orders":
            orders.append(json.loads(route.request.post_data))
            await route.fulfill(status=409, json={"error": {"code": "conflict", "message": FULL}})
        else:
            await route.fulfill(json=ANSWERS[path])

    await visit.page.route("**/api/v1/fleet**", answer)
    return orders


@pytest.mark.parametrize("width", [1440, 390])
async def test_the_tabs_of_a_fleet_are_sound(visits: Visits, crossroads: Crossroads, axe: str, width: int) -> None:
    visit = await visits.open(crossroads.admin, width)
    await with_a_fleet(visit)
    wrong = {}
    for tab, words in (
        ("", "night-check"),  # the jobs come last
        ("/wall", "b3 does not answer"),
        ("/search", "also on b1"),
        ("/audit", "ann"),
    ):
        await visit.go(f"#/fleet{tab}", "Fleet")
        await visit.page.get_by_role("main").get_by_text(words).first.wait_for()
        if found := [*await visit.violations(axe), *await visit.too_wide(), *visit.complaints]:
            wrong[tab] = found
    assert wrong == {}


async def test_an_order_is_asked_about_and_the_reason_of_its_refusal_is_shown(
    visits: Visits, crossroads: Crossroads
) -> None:
    visit = await visits.open(crossroads.admin)
    orders = await with_a_fleet(visit)
    await visit.go("#/fleet", "Fleet")
    await visit.page.get_by_role("button", name="Move north").click()
    dialog = visit.page.get_by_role("dialog", name="Move north?")
    await dialog.get_by_label("To").select_option("b2")
    assert orders == [], "nothing is done unasked"
    await dialog.get_by_role("button", name="Move").click()
    await dialog.get_by_role("alert").get_by_text(FULL).wait_for()
    assert orders == [{"kind": "move", "camera": "north", "box": "b2"}]


async def test_others_than_administrators_are_offered_no_orders_and_no_audit(
    visits: Visits, crossroads: Crossroads
) -> None:
    visit = await visits.open(crossroads.operator)
    await with_a_fleet(visit)
    await visit.go("#/fleet", "Fleet")
    main = visit.page.get_by_role("main")
    await main.get_by_text("b1 (this box)").wait_for()
    assert await main.get_by_role("button").count() == 0
    assert await main.get_by_role("tab", name="Audit log").count() == 0
