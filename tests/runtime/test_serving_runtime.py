"""The serving runtime with its real front, executors and clients: versions, failures, settings, cameras' shares."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from serving_kit import Served, echo, lenet, served, table
from tritonclient.utils import InferenceServerException

from edge.core.errors import Conflict, InvalidValue, MagpieError, NotFound, Unavailable
from edge.core.front_messages import BatchTraffic, ExecutorTraffic, TrafficReport
from edge.core.serving import ServingPlan, ServingProblem
from edge.runtime.serving_cameras import CamerasNow
from edge.runtime.serving_demand import Offer
from edge.runtime.serving_front import check_port
from edge.runtime.serving_status import ExecutorStatus, RequestEnds, state_of
from edge.runtime.serving_tables import read_table
from edge.serving.pipeline_files import parse_application
from edge.settings import ServingPlanning
from edge.shares.coop import BucketFolder
from edge.shares.cpu import CpuPartitioner
from scheduler.gpulets.policies import DEFAULT_SERVING_POLICY, SERVING_POLICIES, serving_policy

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """Two echoing models and a network; a fourth model cannot be loaded."""
    folder = tmp_path_factory.mktemp("serving")
    models, buckets = folder / "models", folder / "buckets"
    buckets.mkdir()
    echo(models, "left")
    echo(models, "right")
    lenet(models, "digits")
    lenet(models, "broken")
    (models / "broken" / "1" / "model.safetensors").write_bytes(b"no tensors")
    partitioner = CpuPartitioner(2.0, None, BucketFolder(buckets))
    tables = (table(folder, "left", "right"), table(folder, "digits", "broken"))
    async with served(folder, models, partitioner, tables) as made:
        await made.serving("left", "right", "digits")
        yield made
    partitioner.close()


async def test_models_are_served_and_a_bad_file_is_refused_alone(running: Served) -> None:
    async with running.client() as client:
        assert await running.ask(client, "left", 3.0) == (3.0, "1")
        assert await client.is_model_ready("right")
        index = {entry["name"]: entry for entry in await client.get_model_repository_index()}
        assert index["left"]["state"] == "READY"
        assert index["broken"]["state"] == "UNAVAILABLE"
        assert "model.safetensors" in index["broken"]["reason"]
        with pytest.raises(InferenceServerException, match="broken"):
            await running.ask(client, "broken")
    reasons = running.runtime.reasons()
    assert [r.code for r in reasons] == ["model_failed"]
    assert running.runtime.ready, "what can be served is"


async def test_cameras_yield_before_executors_get_their_share(running: Served) -> None:
    share = sum(e.share for e in running.executors())
    assert running.reserved[-1] >= share > 0
    assert running.reserved[-1] <= 0.9


async def test_plans_are_kept_so_that_they_can_be_made_again(running: Served) -> None:
    kept = [data for kind, data in running.notes if kind == "serving.plan"][-1]
    problem = ServingProblem.from_json(kept["problem"])
    again = serving_policy(kept["policy"]).plan(problem, read_table(Path(kept["problem"]["device_file"])))
    assert again.schedulable
    assert {b.model for g in again.gpulets for b in g.models} == {
        b.model for g in ServingPlan.from_json(kept["plan"]).gpulets for b in g.models
    }
    assert kept["cause"]


async def test_a_new_version_is_loaded_beside_the_old_one_and_nothing_is_lost(running: Served) -> None:
    folder = Path(running.runtime.settings.folder)
    echo(folder, "left", ("1", "2"))
    seen: list[str] = []
    stop = asyncio.Event()

    async def ask(client: Any) -> None:
        while not stop.is_set():
            seen.append((await running.ask(client, "left"))[1])

    async with running.client() as client, running.client() as other:
        asking = asyncio.create_task(ask(other))
        await client.load_model("left")
        assert (await running.ask(client, "left"))[1] == "2", "when the load is answered the new one serves"
        stop.set()
        await asking
    assert seen[0] == "1"
    assert set(seen) <= {"1", "2"}
    assert seen == sorted(seen), "switched once"
    await running.serving("left")


async def test_a_version_that_cannot_be_loaded_leaves_the_old_one_serving(running: Served) -> None:
    folder = Path(running.runtime.settings.folder)
    (folder / "digits" / "2").mkdir()
    (folder / "digits" / "2" / "model.safetensors").write_bytes(b"damaged")
    async with running.client() as client:
        with pytest.raises(InferenceServerException, match=r"digits/2"):
            await client.load_model("digits")
        assert await client.is_model_ready("digits")
        with pytest.raises(InferenceServerException, match="nowhere"):
            await client.load_model("nowhere")
    assert running.state("digits") == "serving"
    shutil.rmtree(folder / "digits" / "2")


async def test_an_unloaded_model_is_gone_and_comes_back(running: Served) -> None:
    async with running.client() as client:
        await client.unload_model("right")
        with pytest.raises(InferenceServerException, match="right"):
            await running.ask(client, "right")
        assert await running.ask(client, "left", 2.0) == (2.0, "2"), "the others go on"
        await client.load_model("right")
        assert await running.ask(client, "right", 4.0) == (4.0, "1")
        with pytest.raises(InferenceServerException, match="nowhere"):
            await client.unload_model("nowhere")
    await running.serving("left", "right")


async def test_an_executor_that_is_killed_is_back_and_the_others_do_not_notice(running: Served) -> None:
    victim = next(e for e in running.executors() if "left" in e.models)
    others = {e.id: e.pid for e in running.executors() if e.id != victim.id}
    os.kill(victim.pid, signal.SIGKILL)

    def now() -> ExecutorStatus:
        return next(e for e in running.executors() if e.id == victim.id)

    def back() -> bool:
        return now().pid not in (None, victim.pid) and now().state == "connected"

    await running.until(lambda: now().state != "connected", "the loss is seen")
    await running.until(back, "it is back")
    async with running.client() as client:
        assert (await running.ask(client, "left", 5.0))[0] == 5.0
    assert {e.id: e.pid for e in running.executors() if e.id != victim.id} == others


def _totals(running: Served, model: str) -> RequestEnds:
    return next(m for m in running.runtime.status().models if m.name == model).total


def _open(running: Served, model: str) -> int:
    report = running.runtime.front.traffic
    return sum(m.queued + m.running for m in report.models if m.model == model) if report else 0


async def test_a_front_that_is_killed_listens_again_at_the_same_port(running: Served) -> None:
    port, pid = running.url, running.supervisor.pid("front")
    assert pid is not None
    executor = next(e for e in running.executors() if "right" in e.models).pid
    before = _totals(running, "right")
    os.kill(executor, signal.SIGSTOP)
    try:
        async with running.client() as client:
            asking = asyncio.create_task(running.ask(client, "right"))
            await running.until(lambda: _open(running, "right"), "a request is open")
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(aiohttp.ClientError):
                await asking
    finally:
        os.kill(executor, signal.SIGCONT)

    def losses() -> list[int]:
        return [data["requests"] for kind, data in running.notes if kind == "serving.front_lost"]

    # The supervisor knows that the process is gone a moment before the runtime does.
    await running.until(lambda: bool(losses()), "the loss is reported")
    assert losses() == [1]
    assert _totals(running, "right").failed == before.failed + 1, "what died with the front is counted"
    assert any(r.code == "serving_front" for r in running.runtime.reasons())
    assert not running.runtime.ready
    await running.until(
        lambda: running.supervisor.pid("front") not in (None, pid) and running.runtime.front.up, "it is back"
    )
    assert running.url == port

    async def answers() -> bool:
        async with running.client() as client:
            try:
                return bool((await running.ask(client, "left", 6.0))[0] == 6.0)
            except (InferenceServerException, OSError):
                return False

    for _ in range(200):
        if await answers():
            break
        await asyncio.sleep(0.05)
    else:
        pytest.fail("no answer from the front that was started again")


async def test_more_demand_grows_the_share_at_once_and_less_gives_it_back(running: Served) -> None:
    def planned() -> float:
        return running.runtime.status().share.planned

    def asked(rate: float) -> ServingPlanning:
        return ServingPlanning.model_validate({"models": {"left": {"rate": rate, "min_rate": rate}}})

    running.runtime.change(asked(1.0))
    await running.until(lambda: planned() < 0.25, "little is needed")
    running.runtime.change(asked(150.0))
    await running.until(lambda: planned() >= 0.3, "it grows: 150 requests of 2 ms each second")
    assert running.reserved[-1] >= planned()
    running.runtime.change(asked(1.0))
    await running.until(lambda: planned() < 0.25, "it shrinks")
    await running.until(lambda: running.reserved[-1] < 0.3, "cameras get it back")


async def test_what_the_cameras_need_bounds_the_models(running: Served) -> None:
    running.cameras.append(CamerasNow(0.12))
    models = {"left": {"priority": 5, "min_rate": 15.0}, "digits": {"min_rate": 200.0}}
    running.runtime.change(ServingPlanning.model_validate({"models": models}))
    await running.until(lambda: running.state("digits") == "refused", "the lowest priority yields")
    await running.until(lambda: running.state("left") in ("serving", "capped"), "the highest is served")
    assert running.runtime.status().share.planned <= 0.12
    refused = [r for r in running.runtime.reasons() if r.code == "model_refused"]
    assert any(r.model == "digits" and "% of the device" in r.words() for r in refused)
    async with running.client() as client:
        await running.refused(client, "digits", "% of the device", (1, 1, 28, 28))
    running.cameras.append(CamerasNow(0.9))
    running.runtime.change(ServingPlanning())
    await running.serving("left", "right", "digits")


async def test_batches_planned_with_a_table_of_other_shares_are_no_drift(running: Served) -> None:
    runtime = running.runtime
    await running.until(lambda: not runtime.planner.view.in_flight, "nothing changes")
    layout = runtime.front.layout
    assert layout is not None
    route = layout.routes[0]
    model = route.gpulet.models[0].model
    other = replace(route, gpulet=replace(route.gpulet, share=0.37), batch_ms={model: 1.0})
    seen = ExecutorTraffic(route.executor, 50, 50, 1.0, True, (BatchTraffic(model, 50, 50, 1.0),))
    runtime.front.layout = replace(layout, routes=(other,))
    try:
        runtime.drift.report(1.0, TrafficReport(1.0, 1.0, layout.number, (), (seen,)))
    finally:
        runtime.front.layout = layout


async def test_an_application_is_served_when_its_models_are(running: Served) -> None:
    tensor = {"datatype": "FP32", "shape": [-1, 4]}
    runtime, offers = running.runtime, running.runtime.models.offers
    for model, state in (("left", "serving"), ("broken", "waiting"), ("nowhere", "waiting")):
        described = {
            "platform": "pipeline",
            "slo_ms": 1000,
            "inputs": [{"name": "x", **tensor}],
            "outputs": [{"name": "y", "from": "one.x", **tensor}],
            "stages": [{"name": "one", "model": model, "inputs": {"x": "x"}}],
        }
        application = parse_application("twice", described)
        found = state_of(Offer("twice", "offered", application=application), offers, runtime.planner.view)
        assert found == state
    described["stages"] = [
        {"name": "one", "model": "broken", "accuracy": 0.9, "inputs": {"x": "x"},
         "alternatives": [{"model": "left", "accuracy": 0.8}]},
    ]  # fmt: skip
    either = parse_application("either", described)
    found = state_of(Offer("either", "offered", application=either), offers, runtime.planner.view)
    assert found == "serving", "one of a stage's models is enough"
    # It asks no model but an application, which asks it in turn.
    offers["nowhere"] = Offer("nowhere", "offered", application=application)
    assert state_of(offers.pop("nowhere"), offers, runtime.planner.view) == "waiting"


async def test_settings_of_what_is_not_there_are_refused(running: Served) -> None:
    with pytest.raises(InvalidValue, match=r"models\.speech"):
        running.runtime.change(ServingPlanning.model_validate({"models": {"speech": {"rate": 1}}}))


async def test_a_model_that_failed_and_fails_again_is_failed(running: Served) -> None:
    with pytest.raises(MagpieError, match="broken"):
        await running.runtime.loader.load("broken", {})
    assert running.state("broken") == "failed"


async def test_an_unload_ends_a_load_that_is_under_way(running: Served) -> None:
    echo(Path(running.runtime.settings.folder), "fleeting")
    loading = asyncio.create_task(running.runtime.loader.load("fleeting", {}))
    await running.until(lambda: running.state("fleeting") == "checking", "it is being tried")
    await running.runtime.loader.unload("fleeting")
    with pytest.raises(Conflict, match="fleeting was unloaded"):
        await loading
    assert running.state("fleeting") == "unknown"
    with pytest.raises(NotFound, match="fleeting"):
        await running.runtime.loader.unload("fleeting")
    shutil.rmtree(Path(running.runtime.settings.folder) / "fleeting")


async def test_a_model_that_is_unloaded_before_its_turn_holds_up_no_other(running: Served) -> None:
    await running.runtime.loader.take_in(["ghost", "right"])
    await running.serving("right")


async def test_every_policy_of_the_settings_can_be_had() -> None:
    schema = ServingPlanning.model_json_schema()["properties"]["policy"]["enum"]
    assert set(schema) == set(SERVING_POLICIES)
    assert ServingPlanning().policy == DEFAULT_SERVING_POLICY


async def test_a_site_that_cannot_serve_is_reported_before_it_starts(tmp_path: Path) -> None:
    partitioner = CpuPartitioner(2.0, None, BucketFolder(tmp_path))
    models = tmp_path / "models"
    echo(models, "left")
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({"format": "gpulet-device/1", "latency_ms": {"left": {"10": ["x"]}}}))
    for more, error, words in (
        ({"folder": str(tmp_path / "nowhere")}, NotFound, "nowhere"),
        ({"load": ["left", "ghost"]}, NotFound, "ghost"),
        ({"tables": [str(bad)]}, InvalidValue, r"latency_ms\.left\.10"),
        ({"tables": [str(tmp_path / "no.json")]}, NotFound, r"no\.json"),
    ):
        with pytest.raises(error, match=words):
            async with served(tmp_path, models, partitioner, **more):
                pytest.fail("it started")
    partitioner.close()


async def test_a_port_that_is_taken_is_reported_with_its_number() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=str(port)):
            check_port("127.0.0.1", port)
    with pytest.raises(Unavailable, match=r"192\.0\.2\.1"):
        check_port("192.0.2.1", 8000)
