"""Users of some cameras: no answer names another one."""

from __future__ import annotations

import re

import httpx
import pytest
from access_kit import Accounts, browser, every_route, filled
from appliance_double import DictAppliance
from fastapi import FastAPI

from edge.appliance.answers.read import read
from edge.appliance.answers.serving import Serving
from edge.appliance.answers.state import Reason
from edge.appliance.answers.windows import WindowStory
from edge.core.access import Principal
from edge.core.plan_causes import PlanCause
from edge.serving.statistics import VersionStatistics
from edge.settings import ServingPlanning
from web import limits
from web.examples.serving import SERVING
from web.examples.windows import WINDOW, WINDOW_DETAIL


@pytest.fixture
def only_north(accounts: Accounts) -> dict[str, str]:
    return accounts.person("operator", {"north"})


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/cameras/south"), ("PATCH", "/cameras/south"), ("GET", "/cameras/south/snapshot.jpg"),
     ("GET", "/cameras/south/stream.mjpeg"), ("GET", "/cameras/south/models"), ("POST", "/cameras/south/rollback"),
     ("GET", "/models/south-first-1/lineage"), ("POST", "/models/south-first-1/pin"),
     ("GET", "/events?camera=south"), ("GET", "/cameras/south/disagreements"), ("GET", "/cameras/south/classes")],
)  # fmt: skip
async def test_a_camera_that_may_not_be_seen_is_not_there(
    app: FastAPI, only_north: dict[str, str], method: str, path: str
) -> None:
    async with browser(app) as client:
        hidden = await client.request(method, path, json={}, headers=only_north)
        absent = await client.request(method, path.replace("south", "nowhere"), json={}, headers=only_north)
    assert hidden.status_code == absent.status_code == 404, hidden.text
    assert hidden.text.replace("south", "nowhere") == absent.text


async def test_every_answer_leaves_the_hidden_camera_out(
    app: FastAPI, service: DictAppliance, only_north: dict[str, str]
) -> None:
    service.state.reasons = [
        {"code": "camera_stalled", "message": "south: silent", "camera": "south"},
        {"code": "floor", "message": "no plan keeps south above it"},
    ]
    service.state.complaints = [{"code": "x", "message": "about south", "camera": None, "utc_s": 1.0}]
    service.served.statistics = [VersionStatistics("south-plates", "1").to_json()]
    service.events.note("model.promoted", "south")
    service.events.note("plan", None, shares={"south": 0.5})
    service.events.note("model.promoted", "north", version="v2", leader="south")
    whole = {
        path for method, path in every_route() if method == "GET" and not re.search(r"stream|schema|openapi", path)
    }
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://box", headers=only_north
    ) as client:
        seen = 0
        for path in sorted(whole):
            answer = await client.get(filled(path))
            assert answer.status_code < 500, (path, answer.text)
            if answer.status_code == 200:
                seen += 1
                assert "south" not in answer.text, (path, answer.text)
        assert seen > 15
        events = (await client.get("/api/v1/events")).json()
        own = (await client.get("/api/v1/events?camera=north")).json()
    assert [(e["kind"], e["camera"], e["data"]) for e in events] == [
        ("model.promoted", "north", {"version": "v2"}), ("plan", None, {})
    ]  # fmt: skip
    assert own == events[:1]


def test_why_a_plan_was_made_names_no_hidden_camera() -> None:
    me = Principal("ann", "viewer", frozenset({"north", "dock-2"}))
    problem = {"streams": [{"id": "north"}, {"id": "south"}]}
    causes = (
        PlanCause("retraining_late", "south"), PlanCause("retraining_late", "north"),
        PlanCause.recorded("retrain-south ended"), PlanCause("prepared"),
    )  # fmt: skip
    plan = WINDOW_DETAIL["plans"][0]
    plans = [
        plan | {"id": n, "problem": problem, "plan": {"x": 1}, "basis": {"asked": 1},
                "cause": c.words, "cause_code": c.code, "cause_camera": c.camera}
        for n, c in enumerate(causes)
    ]  # fmt: skip
    row = WINDOW["cameras"][0] | {"camera": "north"}
    story = read(WindowStory, WINDOW_DETAIL | {"window": WINDOW | {"cameras": [row]}, "plans": plans, "jobs": []})
    shown = limits.whole(me, story).plans
    assert [p.cause for p in shown] == ["another camera", causes[1].words, "another camera", causes[3].words]
    assert "south" not in repr(shown)
    assert all(p.problem is p.plan is p.basis is None for p in shown), "they are of all cameras together"


def test_an_application_is_shown_to_those_who_may_see_its_camera() -> None:
    model, application = SERVING["models"][0], SERVING["applications"][0]
    ours = {"name": "ours", "camera": "north"}
    serving = read(
        Serving,
        SERVING
        | {
            "settings": ServingPlanning(),
            "models": [model, model | {"kind": "application"} | ours, model | {"name": "theirs", "camera": "south"}],
            "applications": [application | ours, application | {"name": "theirs", "camera": "south"}],
            "plan": SERVING["plan"] | {"reasons": ["theirs: 20.00 of 30 ms on the longest path"]},
        },
    )
    shown = limits.whole(Principal("ann", "viewer", frozenset({"north"})), serving)
    assert [m.name for m in shown.models] == ["plates", "ours"], "a model of no camera is everybody's"
    assert [(a.name, a.camera) for a in shown.applications] == [("ours", "north")]
    assert shown.applications[0].source is not None
    assert "south" not in repr(shown)
    assert "theirs" not in repr(shown)
    assert limits.whole(Principal("bob", "viewer", None), serving) == serving


@pytest.mark.parametrize(
    ("camera", "message", "shown"),
    [("dock-2", "dock-2: silent", "dock-2: silent"), ("dock", "dock: silent", None),
     (None, "worker camera-dock ended", "this concerns the whole box")],
)  # fmt: skip
def test_a_message_is_shown_by_its_camera_and_not_by_its_words(
    camera: str | None, message: str, shown: str | None
) -> None:
    me = Principal("ann", "viewer", frozenset({"dock-2"}))
    reason = Reason(code="x", message=message, camera=camera)
    assert [r.message for r in limits.rows(me, [reason])] == ([] if shown is None else [shown])
    assert limits.rows(Principal("bob", "viewer", None), [reason]) == [reason], "who sees all reads all"


@pytest.mark.parametrize(
    ("method", "path"),
    [("PATCH", "/retraining"), ("POST", "/admission"), ("POST", "/windows/2/what-if"), ("PATCH", "/serving")],
)
async def test_what_concerns_every_camera_needs_the_right_to_see_them(
    app: FastAPI, only_north: dict[str, str], method: str, path: str
) -> None:
    async with browser(app) as client:
        answer = await client.request(method, path, json={}, headers=only_north)
    assert answer.status_code == 403
    assert "every camera" in answer.json()["error"]["message"]


async def test_who_may_see_no_camera_sees_none(app: FastAPI, accounts: Accounts) -> None:
    nobody = accounts.person("viewer", set())
    async with browser(app) as client:
        assert (await client.get("/cameras", headers=nobody)).json() == []
        assert (await client.get("/overview", headers=nobody)).json()["cameras"] == []


async def test_where_the_stream_comes_from_is_an_admins_to_change(app: FastAPI, accounts: Accounts) -> None:
    async with browser(app) as client:
        ann, boss = accounts.person("operator"), accounts.person("admin")
        now = (await client.get("/cameras/north", headers=ann)).json()["settings"]
        assert (
            await client.patch("/cameras/north", json={"name": "North", "url": now["url"]}, headers=ann)
        ).status_code == 200
        for patch in (
            {"url": "rtsp://198.51.100.9/x"}, {"password_from": "file:/etc/shadow"}, {"username": "root"},
            {"masks": [{"name": "door", "polygon": [[0.1, 0.1], [0.4, 0.1], [0.4, 0.4]]}]},
            {"student": {"weights": "/etc/passwd"}}, {"student": None},
        ):  # fmt: skip
            refused = await client.patch("/cameras/north", json=patch, headers=ann)
            assert refused.status_code == 403, patch
        moved = await client.patch("/cameras/north", json={"url": "rtsp://198.51.100.9/x"}, headers=boss)
        assert moved.status_code == 200


async def test_health_says_code_words_only_to_strangers(
    app: FastAPI, service: DictAppliance, accounts: Accounts
) -> None:
    service.state.reasons = [
        {"code": "camera_stalled", "message": "south: rtsp://10.0.0.9 is silent", "camera": "south"}
    ]
    async with browser(app) as client:
        assert (await client.get("http://box/readyz")).json() == {
            "live": True, "ready": True, "reasons": [{"code": "camera_stalled"}]
        }  # fmt: skip
        body = (await client.get("http://box/readyz", headers=accounts.person("viewer"))).json()
        assert body["reasons"] == service.state.reasons
        assert (await client.get("http://box/")).status_code == 200
