"""Ten questions by keyboard in a real browser, against the real service, store and windows on disk."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "web"))

from appliance_double import DictAppliance
from truth_kit import Street, street
from visits import Visit

from benchmarks.waiting import until_async
from edge.appliance.answers.truth import QuestionAnswer
from edge.appliance.truth import Truth
from edge.core.clock import SystemClock
from edge.core.truth import FrameKey, Question
from edge.store.store import Store
from web.app import create_app
from web.server import WebServer

playwright = pytest.importorskip("playwright.async_api")

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480), pytest.mark.asyncio(loop_scope="session")]


@dataclass(frozen=True)
class Sitting:
    """A page on the tab, and what is behind it."""

    visit: Visit
    truth: Truth
    store: Store
    street: Street


@pytest_asyncio.fixture(loop_scope="session", params=[1440, 390])
async def sitting(request: pytest.FixtureRequest, browser: Any, tmp_path: Path) -> AsyncIterator[Sitting]:
    """Camera north with windows of twelve pictures; both kinds are among the newest one's first ten questions."""
    with Store(None, tmp_path) as store:
        appliance = DictAppliance()
        appliance.truth = truth = Truth(store.answers, tmp_path, SystemClock(), appliance.cameras.one, lambda _: None)
        number, kinds = 3, set[str]()
        while kinds != {"box", "missed"}:
            number += 1
            world = street(tmp_path, window=number)
            kinds = {q.kind for q in truth.questions("north", 10, "").questions}
        server = WebServer(create_app(appliance), "127.0.0.1", 0)
        await server.start()
        try:
            port = server.port
            scheme = "light" if request.param == 1440 else "dark"
            page = await browser.new_page(viewport={"width": request.param, "height": 900}, color_scheme=scheme)
            visit = Visit(page, f"http://127.0.0.1:{port}")
            await page.goto(f"http://127.0.0.1:{port}/#/camera/north?tab=truth")
            await page.locator(".truth-picture").wait_for()
            yield Sitting(visit, truth, store, world)
            await page.close()
        finally:
            await server.stop()


def _shown(questions: Sequence[QuestionAnswer], at: int, world: Street) -> tuple[str, int | None]:
    q = questions[at]
    return world.verdict(Question(FrameKey(q.window, q.frame), q.kind, q.candidate))


_KEYS = {"yes": "y", "no": "n", "student": "1", "teacher": "2"}


async def test_ten_questions_are_answered_by_keyboard_alone(sitting: Sitting, axe: str) -> None:
    page = sitting.visit.page
    asked = sitting.truth.questions("north", 10, "").questions
    for at in range(10):
        await page.get_by_text(f"Question {at + 1} of 10").wait_for()
        verdict, missed = _shown(asked, at, sitting.street)
        await page.keyboard.press(_KEYS[verdict] if missed is None else str(missed))
    assert sitting.store.answers.page() == (), "nothing is sent before Enter"
    assert await sitting.visit.violations(axe) == []
    assert await sitting.visit.too_wide() == []
    await page.keyboard.press("Enter")
    await page.locator(".truth-summary").wait_for()
    kept = sitting.store.answers.page("north")
    assert [(r.answer.question.key.frame, r.answer.question.candidate) for r in kept] == [
        (q.frame, q.candidate) for q in asked
    ]
    assert [(r.answer.verdict, r.answer.missed) for r in kept] == [
        _shown(asked, at, sitting.street) for at in range(10)
    ]
    summary = await page.locator(".truth-summary").inner_text()
    estimate = sitting.truth.estimate("north").estimate
    assert f"Student {100 * estimate.student.value:.0f} % (" in summary
    assert "more answers would halve both intervals" in summary
    await page.get_by_text("Question 1 of 10", exact=True).wait_for()
    assert await sitting.visit.violations(axe) == []
    assert sitting.visit.complaints == []


async def test_an_answer_is_undone_before_it_is_sent_and_arrows_go_back(sitting: Sitting) -> None:
    page = sitting.visit.page
    await page.keyboard.press("u")
    await page.get_by_text("Question 2 of 10").wait_for()
    await page.keyboard.press("ArrowLeft")
    await page.get_by_text("Question 1 of 10: answered").wait_for()
    await page.keyboard.press("z")
    await page.get_by_text("Question 1 of 10", exact=True).wait_for()
    assert await page.get_by_role("button", name="Send 0 answers").is_disabled()
    await page.keyboard.press("u")
    await page.keyboard.press("u")
    await page.keyboard.press("Enter")
    await page.get_by_text("Question 1 of 10", exact=True).wait_for()
    await until_async(lambda: len(sitting.store.answers.page()) == 2, "both answers are kept")
    assert [r.answer.verdict for r in sitting.store.answers.page()] == ["unsure", "unsure"]


async def test_boxes_are_drawn_around_missed_objects(sitting: Sitting) -> None:
    page = sitting.visit.page
    asked = sitting.truth.questions("north", 10, "").questions
    at = next(n for n, q in enumerate(asked) if q.kind == "missed")
    for _ in range(at):
        await page.keyboard.press("ArrowRight")
    picture = page.locator(".truth-picture.missed")
    await picture.scroll_into_view_if_needed()
    area = await picture.bounding_box()
    assert area is not None
    await page.mouse.move(area["x"] + 0.4 * area["width"], area["y"] + 0.4 * area["height"])
    await page.mouse.down()
    await page.mouse.move(area["x"] + 0.6 * area["width"], area["y"] + 0.6 * area["height"])
    await page.mouse.up()
    await page.get_by_text("1 marked").wait_for()
    await page.keyboard.press("y")
    await page.keyboard.press("Enter")
    await until_async(sitting.store.answers.page, "the answer is kept")
    (kept,) = sitting.store.answers.page()
    assert (kept.answer.missed, kept.to_json()["marked"][0]["class"]) == (1, "car")
    x1, y1, x2, y2 = kept.answer.marked[0].box
    assert (x2 - x1, y2 - y1) == (pytest.approx(0.2, abs=0.05), pytest.approx(0.2, abs=0.08))
