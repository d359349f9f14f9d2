"""Served models beside cameras when something dies under load: only its own requests fail, and it is back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import numpy as np
import pytest
import pytest_asyncio
import tritonclient.http.aio as http
from appliance_kit import Watched, cameras, gone, groups_of, site_of
from serving_kit import echo, table
from tritonclient.utils import InferenceServerException

from edge.appliance.appliance import Appliance
from edge.commands.front_process import front_process
from edge.demo.cameras import serve_cameras
from edge.settings import ServingSettings

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(480)]
#: When to give up waiting: how long it takes is measured in benchmarks/bench_serving_run.py.
BACK_S = 30.0


@dataclass
class Asking:
    """Asks two models without a pause and counts what becomes of it."""

    port: int
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    stopped: bool = False

    async def ask(self, model: str) -> None:
        counts = self.outcomes.setdefault(model, Counter())
        tensor = http.InferInput("x", [1, 4], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 4), np.float32))
        client = http.InferenceServerClient(f"127.0.0.1:{self.port}")
        while not self.stopped:
            try:
                result = await client.infer(model, [tensor])
                counts["good" if result.as_numpy("x")[0, 0] == 1.0 else "wrong"] += 1
            except InferenceServerException as error:
                counts[f"error {error.status() or ''}"] += 1
                await asyncio.sleep(0.02)
            except (OSError, aiohttp.ClientError) as error:
                counts[type(error).__name__] += 1
                await asyncio.sleep(0.05)
        await client.close()

    def good(self, model: str) -> int:
        return self.outcomes.get(model, Counter())["good"]

    def bad(self, model: str) -> int:
        return sum(self.outcomes.get(model, Counter()).values()) - self.good(model)


@dataclass
class Box:
    watched: Watched
    data: Path

    @property
    def appliance(self) -> Appliance:
        return self.watched.appliance

    def executor_of(self, model: str) -> str:
        return next(str(e.id) for e in self.appliance.services.served.status().executors if model in e.models)

    def connected(self, executor: str) -> bool:
        found = next((e for e in self.appliance.services.served.status().executors if e.id == executor), None)
        return found is not None and found.state == "connected"

    async def serving(self) -> None:
        def ready() -> bool:
            status = self.appliance.services.served.status()
            return not status.reorganising and all(m.state == "serving" for m in status.models)

        await self.watched.until(ready, "both are served")

    @contextlib.asynccontextmanager
    async def asked(self) -> AsyncIterator[Asking]:
        port = self.appliance.services.served.status().front.http.port
        asking = Asking(int(port))
        tasks = [asyncio.create_task(asking.ask(m)) for m in ("left", "right")]
        try:
            yield asking
        finally:
            asking.stopped = True
            await asyncio.gather(*tasks)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Box]:
    """One camera, and two models in a partition each: their objectives are too far apart to share one."""
    data = tmp_path_factory.mktemp("appliance")
    echo(data / "models", "left", slo_ms=2000.0)
    echo(data / "models", "right", slo_ms=2000.0)
    planning = {
        "policy": "elastic", "half_life_s": 3600.0, "rise_half_life_s": 3600.0,
        "models": {"left": {"rate": 40, "min_rate": 40}, "right": {"rate": 40, "min_rate": 40}},
    }  # fmt: skip
    settings = ServingSettings.model_validate(
        {
            "folder": str(data / "models"),
            "http": {"port": 0},
            "grpc": {"port": 0},
            "tables": [str(table(data, "left", "right", work_ms=5.0))],
            "measure": False,
            "planning": planning,
        }
    )
    with serve_cameras(cameras(1), data) as port:
        site = site_of(port, data, count=1, window_s=60.0, golden_share=0.1)
        async with Appliance(site.model_copy(update={"serving": settings}), front_process) as appliance:
            watched = Watched(appliance)
            follower = asyncio.create_task(watched.follow())
            made = Box(watched, data)
            await watched.answering()
            await made.serving()
            yield made
            follower.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await follower


async def test_an_executor_that_is_killed_fails_its_own_requests_only_and_is_back(box: Box) -> None:
    left, right = box.executor_of("left"), box.executor_of("right")
    assert left != right, "each of the models has a partition of its own"
    async with box.asked() as asking:
        await box.watched.until(lambda: asking.good("left") > 5 and asking.good("right") > 5, "both answer")
        bad_before, mark = asking.bad("right"), len(box.watched.events)
        pid = box.watched.pid(left)
        os.kill(pid, signal.SIGKILL)
        await box.watched.until(
            lambda: box.watched.appliance.runtime.supervisor.pid(left) not in (None, pid) and box.connected(left),
            "it is back",
            BACK_S,
        )
        good = asking.good("left")
        await box.watched.until(lambda: asking.good("left") > good + 5, "its model answers again")
        assert asking.bad("right") == bad_before, "the other model did not notice"
    assert asking.outcomes["left"]["wrong"] == 0
    lost = box.watched.of("serving.executor_lost", mark)
    assert [e.data["executor"] for e in lost] == [left]
    assert box.watched.state("overpass") == "live", "nor did the camera"


async def test_a_front_that_is_killed_is_back_and_executors_find_it(box: Box) -> None:
    pids = {e.id: e.pid for e in box.appliance.services.served.status().executors}
    async with box.asked() as asking:
        await box.watched.until(lambda: asking.good("left") > 5, "it answers")
        os.kill(box.watched.pid("front"), signal.SIGKILL)
        await box.watched.until(lambda: asking.bad("left") > 0, "clients notice")
        good = {m: asking.good(m) for m in ("left", "right")}
        await box.watched.until(
            lambda: all(asking.good(m) > n + 5 for m, n in good.items()), "both answer again", BACK_S
        )
    now = {e.id: e.pid for e in box.appliance.services.served.status().executors}
    assert now == pids, "no executor was started again for it"


async def test_a_reorganisation_under_load_loses_nothing(box: Box) -> None:
    await box.serving()
    async with box.asked() as asking:
        await box.watched.until(lambda: asking.good("left") > 5 and asking.good("right") > 5, "both answer")
        bad = asking.bad("left") + asking.bad("right")
        for policy in ("squishy", "mosaic", "elastic"):
            await box.appliance.services.served.change({"policy": policy}, "test")
            await asyncio.sleep(0.2)
            await box.serving()
            good = asking.good("left"), asking.good("right")
            await box.watched.until(
                lambda n=good: asking.good("left") > n[0] + 5 and asking.good("right") > n[1] + 5,  # type: ignore[misc]
                "both go on",
            )
        echo(box.data / "models", "left", ("1", "2"))
        runtime = box.appliance.services.served.runtime
        assert runtime is not None
        await runtime.loader.load("left", {})
        await box.serving()
        assert asking.bad("left") + asking.bad("right") == bad, asking.outcomes


async def test_nothing_is_left_of_all_this(box: Box) -> None:
    workers = {w.pid for w in box.appliance.services.state.overview().workers if w.pid}
    assert set(gone(list(workers))) == workers, "each has one live process"
    assert not [c for c in box.appliance.runtime.complaints.recent if c["code"] == "internal"]
    counted = {m.name: m.total for m in box.appliance.services.served.status().models}
    for total in counted.values():
        ended = total.answered + total.dropped + total.rejected + total.failed
        assert ended <= total.arrived


async def test_an_appliance_that_ends_takes_front_and_executors_with_it(tmp_path: Path) -> None:
    echo(tmp_path / "models", "left")
    settings = ServingSettings.model_validate(
        {
            "folder": str(tmp_path / "models"), "http": {"port": 0}, "grpc": {"port": 0}, "measure": False,
            "tables": [str(table(tmp_path, "left"))],
        }
    )  # fmt: skip
    site = site_of(1, tmp_path, count=1).model_copy(update={"site": "ending", "cameras": (), "serving": settings})
    async with Appliance(site, front_process) as appliance:
        box = Box(Watched(appliance), tmp_path)
        await box.serving()
        pids = [w.pid for w in appliance.services.state.overview().workers if w.pid]
        assert len(pids) == 2, "a front and an executor"
    assert not gone(pids)
    assert not [g for g in groups_of(os.getpid()) if "magpie-ending" in g]
    assert not list((tmp_path / "serving").glob("*.sock"))
