"""REST: every route, and every way to get it wrong, over ASGI."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from appliance_double import DictAppliance, settings
from fastapi import FastAPI

from edge.appliance.answers.read import plain
from edge.core import errors as e
from edge.settings import ServingPlanning
from scheduler.tenant_admission import TenantRoom
from web.app import create_app
from web.parts import MAX_BODY


@pytest.fixture
def service() -> DictAppliance:
    return DictAppliance()


@pytest.fixture
def app(service: DictAppliance, tmp_path: Any) -> FastAPI:
    return create_app(service, static=tmp_path)


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://box/api/v1") as client:
        yield client


def problem(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 422, response.text
    problems = response.json()["error"]["problems"]
    assert len(problems) == 1, problems
    return problems[0]


@pytest.mark.parametrize(
    "path",
    ["/overview", "/doctor", "/cameras", "/cameras/north", "/retraining", "/serving", "/windows", "/windows/2",
     "/cameras/north/models", "/models/north-w2-1-2/lineage", "/events"],
)  # fmt: skip
async def test_reads_answer_what_the_service_says(client: httpx.AsyncClient, service: DictAppliance, path: str) -> None:
    service.events.note("window.opened")
    response = await client.get(path)
    assert response.status_code == 200
    said = {
        "/overview": service.state.overview(),
        "/doctor": service.state.doctor(),
        "/cameras": service.cameras.all(),
        "/cameras/north": service.cameras.one("north"),
        "/retraining": service.retraining.settings(),
        "/serving": service.served.status(),
        "/windows": service.windows.recent(50, None),
        "/windows/2": service.windows.one(2),
        "/cameras/north/models": service.models.versions("north"),
        "/models/north-w2-1-2/lineage": service.models.lineage("north-w2-1-2"),
        "/events": service.events.recent(100, None, None, None),
    }[path]
    plainly = [plain(type(s), s) for s in said] if isinstance(said, list) else plain(type(said), said)
    assert response.json() == plainly
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in response.headers["content-security-policy"]


async def test_health(client: httpx.AsyncClient, service: DictAppliance) -> None:
    assert (await client.get("http://box/livez")).json() == {"live": True}
    assert (await client.get("http://box/readyz")).status_code == 200
    service.state.ready, service.state.reasons = False, [{"code": "store", "message": "the database cannot be written"}]
    response = await client.get("http://box/readyz")
    assert response.status_code == 503
    assert response.json()["reasons"] == [service.state.reasons[0] | {"camera": None}]


async def test_camera_life(client: httpx.AsyncClient, service: DictAppliance) -> None:
    added = await client.post("/cameras", json=settings("east", name="East"))
    assert added.status_code == 201
    assert added.headers["location"] == "/api/v1/cameras/east"
    changed = await client.patch("/cameras/east", json={"retraining": {"every_kth_window": 3}})
    assert changed.json()["settings"]["retraining"]["every_kth_window"] == 3
    assert changed.json()["settings"]["name"] == "East"
    assert (await client.delete("/cameras/east")).status_code == 204
    assert (await client.get("/cameras/east")).status_code == 404
    assert [x["data"]["by"] for x in service.events.journal] == ["operator"] * 3


async def test_camera_errors(client: httpx.AsyncClient) -> None:
    again = await client.post("/cameras", json=settings("north"))
    assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
    unknown = await client.post("/cameras", json=settings("east", classes=["zebra"]))
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (422, "labels")
    assert "zebra" in unknown.json()["error"]["message"]
    extra = problem(await client.post("/cameras", json=settings("east", colour="red")))
    assert extra["path"] == "colour"
    assert "no such field" in extra["allowed"]
    several = await client.post("/cameras", json={"id": "East!", "url": "", "classes": []})
    assert {p["path"] for p in several.json()["error"]["problems"]} == {"id", "url", "classes"}
    assert (await client.patch("/cameras/west", json={})).status_code == 404
    assert problem(await client.patch("/cameras/north", json={"id": "west"}))["path"] == "id"
    assert (await client.delete("/cameras/west")).status_code == 404


async def test_a_password_in_a_url_is_refused_and_not_shown(client: httpx.AsyncClient) -> None:
    bad = settings("east") | {"url": "rtsp://viewer:s3cret-pa55@192.0.2.1/x"}
    for path in ("/cameras", "/cameras/test"):
        response = await client.post(path, json=bad)
        assert response.status_code == 422
        assert "s3cret-pa55" not in response.text
        assert response.json()["error"]["problems"][0]["given"] == "rtsp://viewer:***@192.0.2.1/x"
    key = await client.post("/cameras", json=settings("east", password="s3cret-pa55"))
    assert key.status_code == 422
    assert "s3cret-pa55" not in key.text


async def test_try_a_camera(client: httpx.AsyncClient, service: DictAppliance) -> None:
    response = await client.post("/cameras/test", json=settings("east"))
    assert response.json()["ok"] is False
    assert "east" not in service.cameras.kept


async def test_served_models_are_changed_at_run_time(client: httpx.AsyncClient, service: DictAppliance) -> None:
    patch = {"max_share": 0.5, "models": {"plates": {"slo_ms": 60, "priority": 2}}}
    changed = (await client.patch("/serving", json=patch)).json()
    assert changed["settings"]["models"]["plates"]["slo_ms"] == 60
    assert (await client.get("/serving")).json() == changed
    cleared = (await client.patch("/serving", json={"models": {"plates": None}})).json()
    assert cleared["settings"]["models"] == {}
    bad = problem(await client.patch("/serving", json={"models": {"plates": {"slo_ms": -1}}}))
    assert bad["path"] == "models.plates.slo_ms"
    assert problem(await client.patch("/serving", json={"polcy": "elastic"}))["path"] == "polcy"
    service.served.planning = None
    assert (await client.get("/serving")).status_code == 404


async def test_admission_is_answered_before_anything_is_added(client: httpx.AsyncClient) -> None:
    small = {"name": "plates", "rate": 10, "slo_ms": 100}
    fits = (await client.post("/admission", json={"model": small})).json()
    assert fits["admitted"]
    assert 0 < fits["models"][0]["after_ms"] <= 100
    assert fits["planned_rate"] > 10, "planned with head-room"
    much = (await client.post("/admission", json={"model": small | {"rate": 5000}})).json()
    assert not much["admitted"]
    assert 0 < much["most_rate"] < 5000
    assert {r["code"] for r in much["reasons"]} >= {"most_rate"}
    camera = (await client.post("/admission", json={"camera": {"id": "east"}})).json()
    assert camera["kind"] == "camera"
    assert camera["admitted"]
    for body, path in (
        ({}, "(body)"),
        ({"model": small, "camera": {"id": "east"}}, "(body)"),
        ({"model": small | {"name": "speech"}}, "model.name"),
        ({"model": small | {"slo_ms": 0}}, "model.slo_ms"),
        ({"camera": {"id": "east", "like": "west"}}, "camera.like"),
    ):
        assert problem(await client.post("/admission", json=body))["path"] == path


async def test_admission_names_the_tenants_that_would_lose(client: httpx.AsyncClient, service: DictAppliance) -> None:
    service.served.rooms = (
        TenantRoom("gate", 0.3, 0.1, 0.05, 0.3, frozenset({"plates"})),
        TenantRoom("parking", 0.3, 0.5, 0.05, 0.3),
        TenantRoom("streets", 0.1, 0.1, 0.05, 0.1, serves=False),
    )
    much = {"model": {"name": "plates", "rate": 40, "slo_ms": 100}}
    fits = (await client.post("/admission", json=much | {"tenant": "gate"})).json()
    assert fits["admitted"]
    assert fits["tenants"]["within"] == "entitlement"
    (loss,) = fits["tenants"]["losses"]
    assert loss["loses"] == pytest.approx(fits["tenants"]["share_after"] - 0.1, abs=1e-3)
    (loser,) = [r for r in fits["yields"] if r["code"] == "tenant_loses"]
    assert (loser["tenant"], loser["numbers"]["loses"]) == ("parking", pytest.approx(loss["loses"], abs=1e-3))
    assert "parking would lose" in loser["message"]
    assert (await client.post("/admission", json=much)).json() == fits, "the tenant that has it"
    service.served.rooms = (*service.served.rooms, TenantRoom("yard", 0, 0, 0.05, 0, weight=2.0, joined=False))
    new = (await client.post("/admission", json=much | {"tenant": "yard"})).json()
    assert (new["admitted"], new["tenants"]["within"], new["tenants"]["held"]) == (True, "entitlement", 0.0)
    assert new["tenants"]["entitlement"] == pytest.approx(0.7 * 2 / 5, abs=1e-4), "of weights 1, 1, 1 and its 2"
    assert {loss["tenant"] for loss in new["tenants"]["losses"]} == {"parking"}, "who has more than its right then"
    service.served.rooms = service.served.rooms[:-1]
    for tenant in ("streets", "nobody"):
        bad = problem(await client.post("/admission", json=much | {"tenant": tenant}))
        assert (bad["path"], bad["allowed"]) == ("tenant", "a tenant of served models (gate, parking)")


async def test_the_bound_of_all_models_counts_those_of_other_tenants(
    client: httpx.AsyncClient, service: DictAppliance
) -> None:
    service.served.rooms = (TenantRoom("gate", 0.3, 0.3, 0.0, 0.3), TenantRoom("parking", 0.3, 0.3, 0.0, 0.3))
    service.served.planning = ServingPlanning(max_share=0.35)
    asked = {"model": {"name": "plates", "rate": 20, "slo_ms": 100}, "tenant": "gate"}
    refused = (await client.post("/admission", json=asked)).json()
    assert (refused["admitted"], [r["code"] for r in refused["reasons"]]) == (False, ["max_share"])
    assert (refused["tenants"]["within"], refused["tenants"]["losses"]) == ("none", [])
    assert refused["reasons"][0]["numbers"]["share"] > 0.35
    service.served.planning = ServingPlanning(max_share=0.7)
    assert (await client.post("/admission", json=asked)).json()["admitted"]


async def test_retraining_settings(client: httpx.AsyncClient, service: DictAppliance) -> None:
    response = await client.patch("/retraining", json={"window_s": 120, "a_min": 0.3})
    assert response.json()["next"]["window_s"] == 120
    assert response.json()["current"]["window_s"] == 200
    assert (await client.patch("/retraining", json={"a_min": None})).json()["next"]["a_min"] is None
    bad = problem(await client.patch("/retraining", json={"window_s": 3}))
    assert bad == {"path": "window_s", "given": 3, "allowed": "greater than or equal to 10"}
    assert problem(await client.patch("/retraining", json={"space": {"epoch": [1]}}))["path"] == "space.epoch"
    assert service.retraining.next.window_s == 120


async def test_what_if(client: httpx.AsyncClient) -> None:
    assert (await client.post("/windows/2/what-if", json={"policy": "thief"})).json()["policy"] == "thief"
    bad = problem(await client.post("/windows/2/what-if", json={"policy": "best"}))
    assert bad["allowed"].startswith("one of relay, ")
    assert (await client.post("/windows/9/what-if", json={"policy": "thief"})).status_code == 404


async def test_models(client: httpx.AsyncClient, service: DictAppliance) -> None:
    version = "north-w2-1-2"
    assert (await client.post(f"/models/{version}/pin")).json()["pinned"] is True
    pinned = await client.post("/cameras/north/rollback", json={})
    assert (pinned.status_code, pinned.json()["error"]["code"]) == (409, "conflict")
    assert (await client.post(f"/models/{version}/unpin")).json()["pinned"] is False
    back = await client.post("/cameras/north/rollback", json={"reason": "worse at night"})
    assert back.json()["id"] == "north-first-1"
    assert service.events.journal[-1]["data"]["reason"] == "worse at night"
    assert (await client.post("/cameras/north/rollback", json={})).status_code == 409
    assert problem(await client.post("/cameras/north/rollback", json={"to": "x"}))["path"] == "to"
    assert (await client.get("/models/none/lineage")).status_code == 404
    assert (await client.post("/models/none/pin")).status_code == 404


async def test_pages(client: httpx.AsyncClient, service: DictAppliance) -> None:
    assert [w["id"] for w in (await client.get("/windows?limit=1&before=3")).json()] == [2]
    for n in range(5):
        service.events.note("model.promoted" if n % 2 else "plan", "north")
    assert [x["id"] for x in (await client.get("/events?limit=2&before=5")).json()] == [4, 3]
    assert [x["id"] for x in (await client.get("/events?kind=model.promoted&camera=north")).json()] == [4, 2]


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/windows?limit=0", "query.limit"),
        ("/windows?limit=many", "query.limit"),
        ("/windows?before=99999999999999999999", "query.before"),
        ("/windows?page=2", "query.page"),
        ("/windows?limit=1&limit=2", "query.limit"),
        ("/windows/minus", "path.number"),
        ("/events?camera=A B", "query.camera"),
        ("/cameras?x=1", "query.x"),
        ("/cameras/north/snapshot.jpg?width=1", "query.width"),
        ("/cameras/north/stream.mjpeg?fps=0", "query.fps"),
        ("/models/%00/lineage", "path.version"),
    ],
)
async def test_bad_parameters_are_named(client: httpx.AsyncClient, path: str, named: str) -> None:
    assert problem(await client.get(path))["path"] == named


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 422),
        (b"[1]", "application/json", 422),
        (b'{"window_s": NaN}', "application/json", 422),
        (b'{"window_s": 20, "window_s": 30}', "application/json", 422),
        (b'{"policy": "\\u0000"}', "application/json", 422),
        (b'{"policy": "\\ud800"}', "application/json", 422),
        (b'{"space": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "application/json", 422),
        (b"\xff{}", "application/json", 422),
        (b"{}", "text/plain", 422),
        (b" " * (MAX_BODY + 1), "application/json", 413),
    ],
)
async def test_bad_bodies(client: httpx.AsyncClient, body: bytes, kind: str, status: int) -> None:
    response = await client.patch("/retraining", content=body, headers={"content-type": kind})
    assert response.status_code == status
    assert response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (e.InvalidValue("a.b", 3, "2"), 422, "invalid_value"),
        (e.InvalidValues([e.InvalidValue("a", 3, "2"), e.InvalidValue("b", float("nan"), "2")]), 422, "invalid_value"),
        (e.NotFound("gone"), 404, "not_found"),
        (e.Conflict("taken"), 409, "conflict"),
        (e.Unavailable("not now"), 503, "unavailable"),
        (e.DiskFull("no space is left", "free some"), 507, "disk_full"),
        (e.StoreError("cannot be written"), 503, "store"),
        (e.WeightsError("damaged"), 422, "weights"),
        (e.MagpieError("something of ours"), 500, "error"),
    ],
)
async def test_every_error_has_its_status(
    client: httpx.AsyncClient, service: DictAppliance, error: e.MagpieError, status: int, code: str
) -> None:
    service.state.fail = error
    response = await client.patch("/retraining", json={})
    assert response.status_code == status
    found = response.json()["error"]
    assert (found["code"], found["message"]) == (code, str(error))


async def test_an_unforeseen_error_shows_a_number_only(
    client: httpx.AsyncClient, service: DictAppliance, caplog: pytest.LogCaptureFixture
) -> None:
    service.state.fail = RuntimeError("inner words")
    with caplog.at_level(logging.ERROR):
        response = await client.get("/overview")
    assert response.status_code == 500
    found = response.json()["error"]
    assert "inner words" not in response.text
    assert "Traceback" not in response.text
    assert found["id"] in caplog.text
    assert "inner words" in caplog.text


async def test_unknown_paths_and_methods_have_the_same_shape(client: httpx.AsyncClient) -> None:
    missing = await client.get("/nothing")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
    wrong = await client.put("/retraining")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
    assert "GET" in wrong.headers["allow"] or "PATCH" in wrong.headers["allow"]


async def test_other_sites_pages_change_nothing(client: httpx.AsyncClient, service: DictAppliance) -> None:
    refused = await client.post("/models/north-w2-1-2/pin", headers={"origin": "https://elsewhere.example"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert service.events.journal == []
    own = await client.post("/models/north-w2-1-2/pin", headers={"origin": "http://box"})
    assert own.status_code == 200


async def test_numbers_that_json_does_not_know_are_null(client: httpx.AsyncClient, service: DictAppliance) -> None:
    service.cameras.states["north"] = {"stream": {"delay_s": float("nan"), "fps": float("inf")}}
    state = (await client.get("/cameras/north")).json()["state"]["stream"]
    assert (state["delay_s"], state["fps"]) == (None, None)


async def test_snapshot(client: httpx.AsyncClient, service: DictAppliance) -> None:
    response = await client.get("/cameras/north/snapshot.jpg?width=64")
    assert response.headers["content-type"] == "image/jpeg"
    assert response.content.startswith(b"\xff\xd8")
    service.cameras.states["north"] = {"state": "reconnecting"}
    assert (await client.get("/cameras/north/snapshot.jpg")).status_code == 503
    assert (await client.get("/cameras/west/snapshot.jpg")).status_code == 404
    assert (await client.get("/cameras/west/stream.mjpeg")).status_code == 404


async def test_without_a_page_the_root_says_so(client: httpx.AsyncClient) -> None:
    response = await client.get("http://box/")
    assert "was not built" in response.text


async def test_the_page_is_served_with_lasting_assets(service: DictAppliance, tmp_path: Any) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<title>Magpie</title>")
    (tmp_path / "assets" / "index-abc.js").write_text("1")
    transport = httpx.ASGITransport(create_app(service, static=tmp_path))
    async with httpx.AsyncClient(transport=transport, base_url="http://box") as client:
        page = await client.get("/")
        assert (page.text, page.headers["cache-control"]) == ("<title>Magpie</title>", "no-cache")
        assert "immutable" in (await client.get("/assets/index-abc.js")).headers["cache-control"]
        assert (await client.get("/assets/../../secret")).status_code == 404
        assert (await client.get("/api/v1/nothing")).json()["error"]["code"] == "not_found"


def test_openapi_describes_bodies_examples_and_errors(app: FastAPI) -> None:
    schema = app.openapi()
    patch = schema["paths"]["/api/v1/retraining"]["patch"]
    body = patch["requestBody"]["content"]["application/json"]
    assert body["schema"]["$ref"] == "#/components/schemas/RetrainingPatch"
    assert "required" not in schema["components"]["schemas"]["CameraPatch"]
    assert schema["components"]["schemas"]["CameraSettings"]["required"] == ["id", "url", "classes"]
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            assert operation["tags"], (method, path)
            assert operation["description"], (method, path)
            good = [r for s, r in operation["responses"].items() if s.startswith("2")]
            shown = [c for r in good for c in r.get("content", {}).values()]
            assert "204" in operation["responses"] or shown, (method, path)
            assert all("example" in c or "schema" in c for c in shown), (method, path)
    # every reference leads somewhere
    text = json.dumps(schema)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in schema["components"]["schemas"], name


def test_examples_of_bodies_are_valid(app: FastAPI) -> None:
    from edge.settings import CameraSettings, RetrainingSettings, merge, parse

    paths = app.openapi()["paths"]
    camera = paths["/api/v1/cameras"]["post"]["requestBody"]["content"]["application/json"]["example"]
    parse(CameraSettings, camera)
    patch = paths["/api/v1/cameras/{camera}"]["patch"]["requestBody"]["content"]["application/json"]["example"]
    parse(CameraSettings, merge(camera, patch))
    patch = paths["/api/v1/retraining"]["patch"]["requestBody"]["content"]["application/json"]["example"]
    parse(RetrainingSettings, merge(RetrainingSettings().model_dump(mode="json"), patch))


async def test_database_calls_do_not_hold_the_loop(client: httpx.AsyncClient, service: DictAppliance) -> None:
    import threading

    inside, go = threading.Event(), threading.Event()
    real = service.windows.recent

    def slow(limit: int, before: int | None) -> list[Any]:
        inside.set()
        assert go.wait(10)
        return real(limit, before)

    service.windows.recent = slow  # type: ignore[method-assign]
    asking = asyncio.create_task(client.get("/windows"))
    assert await asyncio.to_thread(inside.wait, 10)
    assert (await client.get("http://box/livez")).status_code == 200
    assert not asking.done()
    go.set()
    assert (await asking).status_code == 200


async def test_what_the_box_can_learn_is_reported(client: httpx.AsyncClient) -> None:
    answer = await client.get("/retraining/learning")
    assert answer.status_code == 200
    body = answer.json()
    assert body["budget"]["labels"] > 0
    assert body["choice"]["window_s"] > 0
    assert set(body["fixed"]) == {"golden_share", "label_budget", "profiling_budget"}


async def test_a_budget_can_be_fixed_and_left_to_itself_again(client: httpx.AsyncClient) -> None:
    fixed = await client.patch("/retraining", json={"label_budget": 24, "golden_share": 0.2, "profiling_budget": 0.1})
    assert fixed.json()["next"]["label_budget"] == 24
    free = await client.patch(
        "/retraining", json={"label_budget": None, "golden_share": None, "profiling_budget": None}
    )
    assert free.status_code == 200
    assert [free.json()["next"][k] for k in ("label_budget", "golden_share", "profiling_budget")] == [None] * 3
    wrong = await client.patch("/retraining", json={"golden_share": 2})
    assert wrong.status_code == 422
    assert "golden_share" in wrong.text
