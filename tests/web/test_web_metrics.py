"""`/metrics`: what a scrape says, what it never says, and that the Grafana dashboard asks for what is there."""

from __future__ import annotations

import json
import math
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp.web
import httpx
import pytest
from appliance_double import DictAppliance
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from edge.appliance.answers.metrics import MetricsSnapshot
from edge.appliance.answers.read import plain, read
from edge.appliance.answers.serving import AddressAnswer, FrontAnswer, Serving
from edge.appliance.metrics import Tally, front_statistics
from edge.core.access import Principal
from edge.core.alarms import AccuracyMeasured, Promoted, RolledBack
from edge.core.facts import RetrainingStepped, StudentRejected, WorkerLost
from edge.core.roll_backs import RollBackReason
from edge.serving.statistics import VersionStatistics
from edge.settings import ServingPlanning
from edge.store.retention import RetentionReport
from web import limits
from web.app import create_app
from web.examples.serving import SERVING
from web.metrics import CONTENT_TYPE, render

REPO = Path(__file__).resolve().parents[2]


def statistics(name: str = "plates") -> list[dict[str, Any]]:
    """The front's real statistics of a version with two answered requests and a failed one."""
    version = VersionStatistics(name, "3")
    version.batch(2, 0.001, 0.02, 0.002)
    for _ in range(2):
        version.answered(0.05, 0.01, 0.001, 0.02, 0.002)
    version.fail.add(1, 0.3)
    return [version.to_json()]


ASKED_FOR = "nv_inference_request_success"
ASKED = RolledBack("south", "v1", RollBackReason.asked("I say so"))


@pytest.fixture
def service() -> DictAppliance:
    service = DictAppliance()
    service.cameras.states["north"] = {
        "connection": {"stalls": 4},
        "stream": {"frames_decoded": 8124, "freezes": 1},
        "inference": {"answers": 4060, "stale_answers": 3},
        "losses": {
            "frames_damaged": 2, "frames_replaced": 5, "packets_dropped": 7, "stalls": 4, "reconnects": 6,
            "frames_without_answer": 8, "samples_lost": 9, "frames_lost_in_swaps": 1,
        },
    }  # fmt: skip
    service.served.statistics = statistics()
    service.events.note("retraining.started", "north")
    service.events.note("model.promoted", "north")
    service.events.note("retraining.started", "north")
    service.events.note("model.rejected", "north")
    service.events.note("model.rolled_back", "south", by="operator")
    service.events.note("worker.worker_lost", "north", worker="camera-north", kind="camera", reason="killed")
    started = RetrainingStepped("north", "started")
    service.state.facts = [
        started, Promoted("north", "v2", 21.5), started, StudentRejected("north", "v3", 8.5),
        ASKED, WorkerLost("camera"),
    ]  # fmt: skip
    return service


@pytest.fixture
async def client(service: DictAppliance, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    app: FastAPI = create_app(service, static=tmp_path)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://box") as client:
        yield client


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample by name and labels; fails if one is there twice."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            # The parser thinks of every counter as one with _total; Triton's have none.
            name = sample.name.removesuffix("_total") if sample.name.startswith("nv_") else sample.name
            key = name, frozenset(sample.labels.items())
            assert key not in found, f"{key} twice"
            found[key] = sample.value
    return found


def value(text: str, name: str, **labels: str) -> float:
    return samples(text)[name, frozenset(labels.items())]


async def scrape(client: httpx.AsyncClient) -> str:
    response = await client.get("/metrics")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == CONTENT_TYPE
    return response.text


async def test_cameras_in_base_units(client: httpx.AsyncClient) -> None:
    text = await scrape(client)
    assert value(text, "magpie_camera_state", camera="north", state="live") == 1
    assert value(text, "magpie_camera_state", camera="north", state="stalled") == 0
    assert value(text, "magpie_camera_inference_latency_seconds", camera="north") == pytest.approx(0.020)
    assert value(text, "magpie_camera_frames_per_second", camera="north") == 10.0
    assert value(text, "magpie_camera_reconnects_total", camera="north") == 6
    assert value(text, "magpie_camera_stalls_total", camera="north") == 4
    assert value(text, "magpie_camera_freezes_total", camera="north") == 1
    assert value(text, "magpie_camera_frames_decoded_total", camera="north") == 8124
    assert value(text, "magpie_camera_frames_dropped_total", camera="north", cause="catching_up") == 7
    assert value(text, "magpie_camera_accuracy_ratio", camera="south") == pytest.approx(0.712)
    assert value(text, "magpie_camera_drift_ratio", camera="south") == pytest.approx(0.72 - 0.712)
    assert value(text, "magpie_live_pictures_total", camera="north") == 12
    assert value(text, "magpie_records_unreadable_total", kind="plan") == 2


async def test_true_accuracy_has_its_interval(client: httpx.AsyncClient) -> None:
    text = (await client.get("/metrics")).text
    for line in (
        'magpie_camera_true_accuracy_ratio{camera="north",model="teacher"} 0.78',
        'magpie_camera_true_accuracy_low_ratio{camera="north",model="student"} 0.64',
        'magpie_camera_true_accuracy_high_ratio{camera="south",model="student"} 0.78',
        'magpie_camera_true_accuracy_answers{camera="north"} 30.0',
        'magpie_camera_true_accuracy_contradictions{camera="north"} 1.0',
        'magpie_camera_teacher_worse{camera="north"} 0.0',
    ):
        assert line in text.splitlines()


async def test_what_is_not_known_is_left_out_and_not_zero(client: httpx.AsyncClient, service: DictAppliance) -> None:
    service.cameras.states["north"] = {"accuracy": {"realised": None}, "losses": {}, "stream": {"delay_s": math.nan}}
    text = await scrape(client)
    names = {(name, dict(labels).get("camera")) for name, labels in samples(text)}
    for name in ("accuracy_ratio", "drift_ratio", "delay_seconds", "reconnects_total"):
        assert (f"magpie_camera_{name}", "north") not in names
    assert ("magpie_camera_accuracy_ratio", "south") in names
    assert not re.search(r"\bnan\b", text.lower())


async def test_retraining_counts_by_outcome(client: httpx.AsyncClient) -> None:
    text = await scrape(client)
    assert value(text, "magpie_retraining_started_total", camera="north") == 2
    assert value(text, "magpie_retraining_outcomes_total", camera="north", outcome="promoted") == 1
    assert value(text, "magpie_retraining_outcomes_total", camera="north", outcome="rejected") == 1
    assert value(text, "magpie_retraining_device_seconds_total", camera="north") == pytest.approx(30.0)
    assert value(text, "magpie_model_rollbacks_total", camera="south") == 1
    assert value(text, "magpie_retraining_running", camera="north") == 1
    assert value(text, "magpie_retraining_running", camera="south") == 0
    assert value(text, "magpie_worker_losses_total", worker="camera") == 1


async def test_tenants_have_their_shares_and_what_comes_of_them(
    client: httpx.AsyncClient, service: DictAppliance
) -> None:
    text = await scrape(client)
    assert value(text, "magpie_tenant_share", tenant="gate") == 0.42
    assert value(text, "magpie_tenant_entitlement", tenant="gate") == 0.36
    assert value(text, "magpie_tenant_performance", tenant="gate") == 0.941
    assert value(text, "magpie_tenant_utility", tenant="parking") == 1.0
    bounds = [value(text, "magpie_tenant_demand_share", tenant="gate", bound=b) for b in ("low", "mean", "high")]
    assert bounds == [0.41, 0.46, 0.53]
    assert value(text, "magpie_tenant_moves_total", tenant="gate") == 17
    of_one = {name for name, labels in samples(text) if ("tenant", "default-cameras") in labels}
    assert "magpie_tenant_share" in of_one
    assert not of_one & {"magpie_tenant_performance", "magpie_tenant_utility", "magpie_tenant_demand_share"}
    service.tenants.kept.clear()
    assert "magpie_tenant" not in await scrape(client), "one tenant alone shares nothing"


async def test_the_last_minute_is_reported_raw_and_corrected(client: httpx.AsyncClient, service: DictAppliance) -> None:
    gate = {"kind": "line", "name": "gate", "way": "forward", "most": 0, "objects": 4}
    true = {"value": 4.4, "low": 3.1, "high": 5.7}
    service.counts.minutes = [
        {"camera": "north", "start_utc_s": 60, "watched": 0.9, "places": [gate | {"corrected": true}]},
        {"camera": "south", "start_utc_s": 60, "watched": 0.0, "places": [gate | {"corrected": None}]},
    ]
    text = await scrape(client)
    labels = {"camera": "north", "kind": "line", "name": "gate", "way": "forward"}
    found = samples(text)
    assert found["magpie_counted_last_minute", frozenset(labels.items())] == 4
    corrected = "magpie_counted_last_minute_corrected"
    assert {b: found[corrected, frozenset((labels | {"bound": b}).items())] for b in true} == true
    assert value(text, "magpie_counted_last_minute_watched_ratio", camera="south") == 0.0
    of_dark = {name for name, of in found if ("camera", "south") in of and "last_minute" in name}
    assert of_dark == {"magpie_counted_last_minute_watched_ratio"}, "unknown is no zero"


async def test_serving_has_tritons_names(client: httpx.AsyncClient) -> None:
    text = await scrape(client)
    labels = {"model": "plates", "version": "3"}
    assert value(text, "nv_inference_request_success", **labels) == 2
    assert value(text, "nv_inference_request_failure", **labels) == 1
    assert value(text, "nv_inference_count", **labels) == 2
    assert value(text, "nv_inference_exec_count", **labels) == 1
    assert value(text, "nv_inference_request_duration_us", **labels) == pytest.approx(100_000)
    assert value(text, "nv_inference_queue_duration_us", **labels) == pytest.approx(20_000)
    assert "# TYPE nv_inference_count counter" in text
    assert not re.search(r"nv_\w+_total", text)
    assert value(text, "magpie_serving_latency_seconds", model="plates", quantile="0.99") == pytest.approx(0.0612)
    assert value(text, "magpie_serving_requests_total", model="plates", outcome="late") == 9
    assert value(text, "magpie_serving_slo_seconds", model="plates") == pytest.approx(0.08)
    fed = {"application": "gate", "camera": "junction-north"}
    assert value(text, "magpie_serving_source_rate", **fed) == 5.0
    assert value(text, "magpie_serving_source_lost_total", **fed) == 3


async def test_each_stage_of_an_application_has_its_plan_beside_what_is_measured(client: httpx.AsyncClient) -> None:
    text = await scrape(client)
    read = {"application": "gate", "stage": "read"}
    assert value(text, "magpie_serving_stage_budget_seconds", **read) == pytest.approx(0.0441)
    assert value(text, "magpie_serving_stage_planned_seconds", **read) == pytest.approx(0.043)
    assert value(text, "magpie_serving_stage_latency_seconds", **read, quantile="0.99") == pytest.approx(0.0408)
    rates = [value(text, "magpie_serving_stage_rate", **read, of=of) for of in ("now", "planned")]
    assert rates == [9.15, 14.1]
    assert value(text, "magpie_serving_stage_share_ratio", **read) == 0.2
    assert value(text, "magpie_serving_stage_fan_out", **read, of="p99") == 5.0
    assert value(text, "magpie_serving_stage_requests_total", **read, of="over") == 2


async def test_a_front_that_is_silent_is_reported_and_the_rest_is_there(
    client: httpx.AsyncClient, service: DictAppliance
) -> None:
    service.served.statistics = None
    text = await scrape(client)
    assert value(text, "magpie_serving_statistics_up") == 0
    assert not any(name.startswith("nv_") for name, _ in samples(text))
    assert value(text, "magpie_serving_requests_total", model="plates", outcome="answered") == 8118


async def test_without_serving_nothing_of_it(client: httpx.AsyncClient, service: DictAppliance) -> None:
    service.served.planning = None
    text = await scrape(client)
    assert "magpie_serving" not in text
    assert "nv_" not in text


async def test_readiness_is_reported_with_its_reasons(client: httpx.AsyncClient, service: DictAppliance) -> None:
    service.state.ready = False
    service.state.reasons = [
        {"code": "camera_refused", "message": f"{c}: 401", "camera": c} for c in ("north", "south")
    ]
    text = await scrape(client)
    assert value(text, "magpie_ready") == 0
    assert value(text, "magpie_readiness_reasons", code="camera_refused") == 2
    assert "401" not in text


async def test_silences_of_the_control_loop(client: httpx.AsyncClient) -> None:
    text = await scrape(client)
    assert value(text, "magpie_control_silence_longest_seconds", of="start") == 72.0
    assert value(text, "magpie_control_silence_longest_seconds", of="hour") == 3.5
    assert value(text, "magpie_control_silences_total") == 4
    assert value(text, "magpie_control_silence_seconds_total") == 80.25


async def test_every_name_follows_the_rules(client: httpx.AsyncClient) -> None:
    text = await scrape(client)
    for family in text_string_to_metric_families(text):
        assert family.documentation
        if family.name.startswith("nv_inference_"):
            continue
        assert family.name.startswith("magpie_"), family.name
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter"), sample.name
            assert not re.search(r"_(ms|us|minutes|percent|mb|kb|gb)(_|$)", sample.name), sample.name
            if "_ratio" in sample.name:
                assert -1.0 <= sample.value <= 1.0, sample


async def test_the_number_of_series_follows_cameras_not_time(service: DictAppliance) -> None:
    """A day of retrainings, lost workers and executors under new names adds no series."""
    service.events.journal.clear()
    kinds = ("retraining.started", "model.promoted", "model.rolled_back", "worker.worker_lost")

    async def count() -> int:
        return len(samples(render(plain(MetricsSnapshot, await service.state.metrics())).decode()))

    for kind in kinds:
        service.events.note(kind, "north", worker="executor-0", **({"kind": "executor"} if "worker" in kind else {}))
    service.state.facts = [RetrainingStepped("north", "started"), Promoted("north", "v"), ASKED, WorkerLost("executor")]
    before = await count()
    for n in range(500):
        service.state.facts += [
            RetrainingStepped("north", "started"), Promoted("north", f"north-{n}", 2.0), ASKED, WorkerLost("executor"),
        ]  # fmt: skip
        for kind in kinds:
            service.events.note(
                kind, "north", worker=f"executor-{n}", kind="executor", version=f"north-{n}", reason=f"reason {n}"
            )
    assert await count() == before


@given(st.text(max_size=40), st.text(max_size=40))
def test_hostile_texts_stay_inside_their_labels(model: str, reason: str) -> None:
    service = DictAppliance()

    async def snapshot() -> dict[str, Any]:
        return plain(MetricsSnapshot, await service.state.metrics())

    import asyncio

    taken = asyncio.run(snapshot())
    clean = model.encode("utf-8", "replace").decode()
    taken["serving"] = json.loads(json.dumps(taken["serving"]))
    taken["serving"]["models"][0]["name"] = clean
    taken["health"] = taken["health"] | {"reasons": [{"code": "x", "message": reason}]}
    found = samples(render(taken).decode())
    same = [dict(labels)["model"] for name, labels in found if name == "magpie_serving_model_up"]
    assert same == [clean]


def test_tally_counts_facts_and_forgets_removed_cameras() -> None:
    tally = Tally()
    for camera in ("gone", "north"):
        tally.fact(Promoted(camera, "v2", 3.0))
        tally.fact(RolledBack(camera, "v1", RollBackReason("under_parent", 0.4, 0.6, 80, 0.1)))
        for step in ("started", "stopped", "failed"):
            tally.fact(RetrainingStepped(camera, step))
        tally.fact(StudentRejected(camera, "v3", 1.5))
        tally.fact(AccuracyMeasured(camera, 3, 0.7))
    tally.fact(WorkerLost("executor"))
    tally.written("plan")
    tally.forget("gone")
    counts = tally.to_json()
    outcomes = ("promoted", "rolled_back", "started", "stopped", "failed", "rejected")
    assert counts["cameras"] == {"north": dict.fromkeys(outcomes, 1)}
    assert counts["retraining_device_s"] == {"north": 4.5}
    assert counts["workers_lost"] == {"executor": 1}
    assert counts["events"] == {"plan": 1}


def test_tally_adds_up_what_retention_deleted() -> None:
    tally = Tally()
    nothing = RetentionReport(0, 0, 0, 0, 0, 0, 10, 0, ())
    some = RetentionReport(5, 1, 2, 1, 1, 4000, 6, 0, ("window 3: busy",))
    assert not tally.retained(nothing)
    assert tally.retained(some)
    assert tally.retained(some)
    retention = tally.to_json()["retention"]
    assert retention["deleted"]["events"] == 10
    assert retention["deleted"]["bytes"] == 8000
    assert retention["deleted"]["failures"] == 2
    assert retention["bytes_kept"] == 6


async def test_statistics_are_asked_of_the_front_over_its_own_protocol() -> None:
    said: Any = {"model_stats": statistics()}

    async def answer(request: aiohttp.web.Request) -> aiohttp.web.Response:
        assert request.path == "/v2/models/stats"
        return aiohttp.web.json_response(said)

    app = aiohttp.web.Application()
    app.router.add_get("/{tail:.*}", answer)
    runner = aiohttp.web.AppRunner(app)
    await runner.setup()
    try:
        site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        nowhere = AddressAnswer(host="127.0.0.1", port=None)
        http = AddressAnswer(host="0.0.0.0", port=port)
        front = FrontAnswer(up=True, http=http, grpc=nowhere, turned_away=0)
        assert await front_statistics(front) == statistics()
        said = {"error": "no"}
        assert await front_statistics(front) is None
        assert await front_statistics(replace(front, up=False)) is None
    finally:
        await runner.cleanup()
    assert await front_statistics(front) is None


async def test_who_sees_some_cameras_or_tenants_may_scrape_where_models_are_served(service: DictAppliance) -> None:
    """An application that a camera asks is for those who may see that camera, in the front's statistics, too."""
    ours, theirs = ({"name": f"{camera}-plates", "camera": camera} for camera in ("north", "south"))
    model, application = SERVING["models"][0], SERVING["applications"][0]
    now = {
        "settings": ServingPlanning(),
        "models": [model, *(model | {"kind": "application"} | one for one in (ours, theirs))],
        "applications": [application | one for one in (ours, theirs)],
    }
    service.served.status = lambda: read(Serving, SERVING | now)  # type: ignore[method-assign]
    names = ("plates", "north-plates", "south-plates", "just-gone")
    service.served.statistics = [one for name in names for one in statistics(name)]
    snapshot = await service.state.metrics()
    for reader, shown in (
        (Principal("ann", "viewer", frozenset({"north"})), names[:2]),
        (Principal("bob", "viewer", tenants=frozenset()), names[:3]),
        (Principal("eve", "viewer"), names),
    ):
        found = render(plain(MetricsSnapshot, limits.metrics(reader, snapshot))).decode()
        by_model = {dict(labels)["model"]: n for (name, labels), n in samples(found).items() if name == ASKED_FOR}
        assert by_model == dict.fromkeys(shown, 2), reader.name
        assert ("south" in found) == reader.may_see("south")


def dashboard() -> dict[str, Any]:
    return json.loads((REPO / "configs" / "grafana" / "magpie.json").read_text(encoding="utf-8"))


def expressions(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("expr", "query") and isinstance(inner, str):
                yield inner
            else:
                yield from expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)


async def test_the_grafana_dashboard_asks_for_what_is_there(service: DictAppliance) -> None:
    service.state.reasons = [{"code": "x", "message": "y"}]
    snapshot = plain(MetricsSnapshot, await service.state.metrics())
    snapshot["overview"]["workers"] = [
        {"name": "camera-north", "role": "inference", "state": "running", "camera": "north"}
    ]
    snapshot["overview"]["usage"] = [
        {"worker": "camera-north", "camera": "north", "asked": 0.2, "granted": 0.2, "used_share": 0.1}
    ]
    snapshot["counts"]["retention"]["bytes_kept"] = 1000
    snapshot["overview"]["losses"]["live_pictures"] = 0
    snapshot["overview"]["losses"]["labels"] = {"labelled": 3, "seconds": 1.0}
    there = {name for name, _ in samples(render(snapshot).decode())}
    asked = {name for query in expressions(dashboard()) for name in re.findall(r"\b(?:magpie|nv)_[a-z_]+", query)}
    assert len(asked) > 25
    assert asked <= there, sorted(asked - there)


def test_the_grafana_dashboard_can_be_imported() -> None:
    """Ids once, panels inside the grid and not over each other, a data source to choose."""
    board = dashboard()
    panels = board["panels"]
    ids = [p["id"] for p in panels]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        assert 0 <= at["x"] <= at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    assert {v["name"] for v in board["templating"]["list"]} == {"datasource", "camera", "model"}
    for panel in panels:
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


async def test_the_page_of_metrics_names_each_metric(service: DictAppliance) -> None:
    """docs/metrics.md has every name; a `*` stands for a family's rest."""
    page = (REPO / "docs" / "metrics.md").read_text(encoding="utf-8")
    patterns = [re.compile(re.escape(p).replace(r"\*", "[a-z_]+") + "$") for p in re.findall(r"`([a-z_*]+)`", page)]
    for name, _ in samples(render(plain(MetricsSnapshot, await service.state.metrics())).decode()):
        assert any(p.match(name) for p in patterns), f"{name} is not in docs/metrics.md"
