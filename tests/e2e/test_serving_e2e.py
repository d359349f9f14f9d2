"""A site that serves models: the whole appliance with unmodified clients; models beside real cameras."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc.aio as grpc
import tritonclient.http.aio as http
from running_kit import log_in, running, until
from serving_kit import echo, lenet, table

from edge.appliance.appliance import Appliance
from edge.commands.front_process import front_process
from edge.commands.running import run_appliance
from edge.core.errors import InvalidValue
from edge.runtime.serving_tables import read_table
from edge.settings import ServingSettings, SiteSettings

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]


def settings(folder: Path, *tables: Path, **planning: Any) -> ServingSettings:
    return ServingSettings.model_validate(
        {
            "folder": str(folder / "models"),
            "http": {"port": 0},
            "grpc": {"port": 0},
            "tables": [str(t) for t in tables],
            "measure": False,
            "planning": planning,
        }
    )


def state(appliance: Appliance, model: str) -> str:
    return next((str(m.state) for m in appliance.services.served.status().models if m.name == model), "unknown")


async def test_a_site_without_cameras_serves_models_by_both_protocols(tmp_path: Path) -> None:
    echo(tmp_path / "models", "left")
    lenet(tmp_path / "models", "digits")
    tables = (table(tmp_path, "left", "digits"),)
    site = SiteSettings(site="models", data_dir=str(tmp_path / "data")).model_copy(
        update={"serving": settings(tmp_path, *tables)}
    )
    site = site.model_copy(update={"web": site.web.model_copy(update={"port": 0})})
    async with run_appliance(site) as up, httpx.AsyncClient(base_url=up.url) as rest:
        await log_in(rest, up)
        box = up.appliance
        await until(lambda: {state(box, "left"), state(box, "digits")} == {"serving"}, "both are served")
        assert not any(w.name == "golden" for w in box.services.state.overview().workers), "labels are for cameras"
        status = (await rest.get("/api/v1/serving")).json()
        ports = status["front"]["http"]["port"], status["front"]["grpc"]["port"]
        assert (await rest.get("/readyz")).status_code == 200
        web = http.InferenceServerClient(f"127.0.0.1:{ports[0]}")
        tensor = http.InferInput("x", [1, 1, 28, 28], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 1, 28, 28), np.float32))
        by_http = (await web.infer("digits", [tensor])).as_numpy("y")
        await web.load_model("digits")
        await web.close()
        rpc = grpc.InferenceServerClient(f"127.0.0.1:{ports[1]}")
        other = grpc.InferInput("x", [1, 1, 28, 28], "FP32")
        other.set_data_from_numpy(np.ones((1, 1, 28, 28), np.float32))
        by_grpc = (await rpc.infer("digits", [other])).as_numpy("y")
        await rpc.close()
        assert by_http.shape == (1, 10)
        np.testing.assert_array_equal(by_http, by_grpc)
        await until(lambda: box.services.served.status().models[0].total.answered >= 2, "both are counted")
        records = (await rest.get("/api/v1/audit")).json()
        assert ("served model/digits", "loaded", "an inference client", "127.0.0.1") in {
            (r["subject"], r["action"], r["by"], r["from"]) for r in records
        }
        changed = await rest.patch("/api/v1/serving", json={"models": {"left": {"slo_ms": 250, "rate": 40}}})
        assert changed.status_code == 200
        await until(
            lambda: next(m for m in box.services.served.status().models if m.name == "left").slo_ms == 250,
            "in force",
        )
        refused = await rest.patch("/api/v1/serving", json={"models": {"ghost": {"rate": 1}}})
        assert refused.status_code == 422
        assert "left" in refused.json()["error"]["message"]
        answer = await rest.post("/api/v1/admission", json={"model": {"name": "left", "rate": 30, "slo_ms": 500}})
        assert answer.json()["admitted"]
        box.services.events.buffer.flush()
        plans = (await rest.get("/api/v1/events", params={"kind": "serving.plan"})).json()
        assert plans
    async with Appliance(site, front_process) as box:
        assert box.services.served.status().settings.models["left"].slo_ms == 250, "changes outlive a restart"


async def test_what_no_table_has_is_measured_first_and_the_table_is_kept(tmp_path: Path) -> None:
    echo(tmp_path / "models", "left", max_batch=2)
    measuring = settings(tmp_path).model_copy(update={"measure": True, "measure_s": 8.0})
    site = SiteSettings(site="models", data_dir=str(tmp_path / "data")).model_copy(update={"serving": measuring})
    async with Appliance(site, front_process) as box:
        await until(lambda: state(box, "left") == "measuring", "it is measured")
        assert any(r.code == "model_loading" and "measuring" in r.message for r in box.services.state.health().reasons)
        await until(lambda: state(box, "left") == "serving", "then it serves")
        assert box.services.served.status().share.measuring == 0.0
    kept = list((tmp_path / "data" / "serving").glob("table-cpu-*.json"))
    assert len(kept) == 1
    assert set(read_table(kept[0]).latency_ms) == {"left"}
    async with Appliance(site, front_process) as box:
        await until(lambda: state(box, "left") == "serving", "it serves at once")
        box.services.events.buffer.flush()
        assert len(box.services.events.recent(100, None, None, "appliance.started")) == 2
        measured = box.services.events.recent(1000, None, None, "serving.measuring")
        assert measured
        assert all(e.utc_s < box.services.events.recent(1, None, None, "appliance.started")[0].utc_s for e in measured)


async def test_models_are_served_beside_cameras_which_yield_and_get_their_share_back(
    site: Callable[..., SiteSettings], tmp_path: Path
) -> None:
    echo(tmp_path / "models", "left", slo_ms=400.0)
    made = site(window_s=30.0, a_min=0.05).model_copy(
        update={"serving": settings(tmp_path, table(tmp_path, "left"), shrink_dwell_s=3.0, half_life_s=2.0)}
    )
    async with running(made) as appliance:
        runtime = appliance.runtime
        await until(lambda: state(appliance, "left") == "serving", "it is served")
        before = runtime.controller.state.num_gpus
        answer = await appliance.services.served.admission({"model": {"name": "left", "rate": 100, "slo_ms": 400}})
        assert answer.admitted, answer.reasons
        assert {c.camera for c in answer.cameras} == {"overpass", "junction"}
        assert answer.serving_share_after > answer.serving_share_before
        for body in ({"model": {"name": "ghost", "rate": 1, "slo_ms": 9}}, {"camera": {"id": "junction"}}):
            with pytest.raises(InvalidValue):
                await appliance.services.served.admission(body)
        much = await appliance.services.served.admission({"model": {"name": "left", "rate": 100_000, "slo_ms": 400}})
        assert not much.admitted
        assert much.most_rate < 100_000

        def granted() -> float:
            workers = runtime.supervisor.workers()
            return float(sum(w["share"] for w in workers if w["name"] != "front"))

        most = [0.0]

        async def watch() -> None:
            while True:
                most[0] = max(most[0], granted())
                await asyncio.sleep(0.01)

        watching = asyncio.create_task(watch())
        await appliance.services.served.change({"models": {"left": {"rate": 100, "min_rate": 100}}}, "test")
        await until(lambda: appliance.services.served.status().share.planned >= 0.2, "it gets what it needs")
        assert runtime.controller.state.num_gpus <= before - 0.1, "the cameras' planner has less"
        shares = sum(c.share for c in runtime.cameras.values())
        assert shares + appliance.services.served.status().share.reserved <= 1.0
        await until(
            lambda: appliance.services.cameras.one("junction").state.inference.answers_per_s > 0.5, "cameras go on"
        )
        await appliance.services.served.change({"models": {"left": None}}, "test")
        await until(lambda: runtime.controller.state.num_gpus >= before - 0.06, "cameras get it back")
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        assert most[0] <= 1.0 + 1e-6, "never more than there is"
        assert not [c for c in runtime.complaints.recent if c["code"] == "internal"]
