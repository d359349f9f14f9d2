"""Tenants with their real front and executors: a model slower than its table says, and the share that follows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http.aio as http
import yaml
from running_kit import log_in, until
from serving_kit import Served, echo, served, table
from tritonclient.utils import InferenceServerException

from benchmarks.waiting import PATIENCE_S
from edge.appliance.appliance import Appliance
from edge.commands.running import run_appliance
from edge.core.alarms import TenantGoalNow
from edge.core.tenants import HISTORY_DOCUMENT, SharingRules, Tenant, TenantObjective
from edge.runtime.tenant_day import HistoryRow, TenantDay
from edge.runtime.tenants import TenantShares
from edge.settings import RuleSettings, ServingSettings, SiteSettings, TenantSettings
from edge.shares.coop import BucketFolder
from edge.shares.cpu import CpuPartitioner
from edge.store.store import Store
from scheduler.gpulets.tenant_fit import shares_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]
#: The box's clock runs so many times faster for the decisions: an interval is two seconds of requests.
FASTER = 5.0
RATE = 45.0
SIDE = 48


class FastClock:
    """Time for decisions."""

    def monotonic(self) -> float:
        return FASTER * time.monotonic()

    def utc(self) -> float:
        return 1_700_000_000.0 + FASTER * time.monotonic()

    def local_minute(self) -> int:
        return 0


def network(folder: Path, name: str) -> None:
    """A network that costs a few milliseconds."""
    from safetensors.torch import save_file

    from edge.serving.architectures import build_architecture

    settings = {
        "platform": "builtin", "architecture": "resnet18", "num_classes": 10, "slo_ms": 400.0, "max_batch": 4,
        "rate": RATE, "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3, SIDE, SIDE]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 10]}],
    }  # fmt: skip
    (folder / name / "1").mkdir(parents=True)
    (folder / name / "model.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    state = {k: v.contiguous() for k, v in build_architecture("resnet18", 10).state_dict().items()}
    save_file(state, folder / name / "1" / "model.safetensors")


async def ask(made: Served, model: str, shape: tuple[int, ...], rate: float) -> None:
    """Requests at an even rate until cancelled; refusals are counted by the front."""
    waiting: set[asyncio.Task[Any]] = set()

    async def one(client: Any) -> None:
        tensor = http.InferInput("x", list(shape), "FP32")
        tensor.set_data_from_numpy(np.zeros(shape, np.float32))
        with_error = (InferenceServerException, OSError)
        try:
            await client.infer(model, [tensor])
        except with_error:
            return

    async with made.client() as client:
        try:
            while True:
                if len(waiting) < 200:
                    task = asyncio.create_task(one(client))
                    waiting.add(task)
                    task.add_done_callback(waiting.discard)
                await asyncio.sleep(1.0 / rate)
        finally:
            for task in list(waiting):
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_share_moves_to_the_tenant_whose_model_is_slower_than_its_table(tmp_path: Path) -> None:
    models, buckets = tmp_path / "models", tmp_path / "buckets"
    buckets.mkdir()
    network(models, "gate")
    echo(models, "stats", rate=5.0)
    partitioner = CpuPartitioner(0.5, None, BucketFolder(buckets))
    # The table promises a millisecond of the whole device for what costs many.
    tables = (table(tmp_path, "gate", "stats", work_ms=1.0),)
    async with served(tmp_path, models, partitioner, tables) as made:
        await made.serving("gate", "stats")
        parts = SimpleNamespace(
            clock=FastClock(),
            shares=SimpleNamespace(
                shared_capacity=lambda: 0.9, camera_capacity=lambda: 0.9, serving=0.0, partitioner=partitioner
            ),
            cameras={},
            controller=SimpleNamespace(state=SimpleNamespace(num_gpus=0.0, cameras={})),
            complaints=SimpleNamespace(add=lambda *words: made.complaints.append(words)),
            window=SimpleNamespace(settings=SimpleNamespace(window_s=100.0)),
        )
        tenants = (
            Tenant("entrance", TenantObjective("within_slo", 0.95), models=("gate",)),
            Tenant("office", TenantObjective("within_slo", 0.95), models=("stats",), floor=0.15),
        )
        notes: list[tuple[str, dict[str, Any]]] = []
        shares = TenantShares(
            tenants, SharingRules(largest_step=0.15, hysteresis=0.0), parts, lambda event: None,  # type: ignore[arg-type]
            lambda kind, data: notes.append((kind, data)),  # type: ignore[arg-type,misc]
            lambda fact: None, lambda document: None, TenantDay(lambda document: None, FastClock()),
        )  # fmt: skip
        shares.serve(made.runtime)
        await shares.look()
        first = shares.shares["entrance"].held
        given = shares.given(shares.members())["entrance"]
        work = [
            asyncio.create_task(ask(made, "gate", (1, 3, SIDE, SIDE), RATE)),
            asyncio.create_task(ask(made, "stats", (1, 4), 5.0)),
        ]
        seen: list[dict[str, float]] = []
        pids = {e.pid for e in made.executors()}
        try:
            async with asyncio.timeout(PATIENCE_S):
                while shares.shares["entrance"].held <= first + 0.1:
                    await asyncio.sleep(0.5)
                    await shares.look()
                    seen.append({t: s.held for t, s in shares.shares.items()})
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
        reasons = [data["reasons"]["entrance"]["code"] for kind, data in notes if kind == "tenants.moved"]
        assert "more" in reasons
        assert min(s["office"] for s in seen) >= 0.15 - 1e-6
        assert all(abs(sum(s.values()) - shares.pool) < 0.02 for s in seen[-3:])
        await made.until(lambda: not made.runtime.planner.view.in_flight, "the plan is in force")
        assert shares.given(shares.members())["entrance"] > given + 0.05, "the executors have it"
        assert pids <= {e.pid for e in made.executors()}, "by live resizes: no process was started anew"
    partitioner.close()


def budgets_hold(box: Appliance) -> bool:
    """Budgets sum to what there is, floors hold, and what is planned for each tenant is within its budget."""
    shares, state, serving = box.services.tenants.shares, box.runtime.controller.state, box.services.served.runtime
    held, pool = {t: s.held for t, s in shares.shares.items()}, shares.pool
    if set(held) != {"entrance", "streets", "default-cameras"} or state.plan is None or serving is None:
        return False
    kept = min(1.0, pool / max(1e-9, sum(s.floor for s in shares.shares.values())))
    floors = all(s.held >= kept * s.floor - 1e-3 for s in shares.shares.values())
    served = shares_of(serving.planner.view.plan, shares.members().served)
    mine = {b.tenant: b for b in state.budgets}
    if set(served) != {"entrance"} or set(mine) != {"streets", "default-cameras"}:
        return False
    cameras = sum(b.share for b in mine.values())
    planned = {
        (tenant, segment.start_s): sum(
            segment.streams[c].inference_share + segment.streams[c].retraining_share
            for c in budget.cameras
            if c in segment.streams
        )
        for tenant, budget in mine.items()
        for segment in state.plan.segments
    }
    within = all(used <= state.num_gpus * mine[t].share / cameras + 1e-3 for (t, _), used in planned.items())
    return (
        abs(sum(held.values()) - pool) < 1e-3
        and floors
        and within
        and served["entrance"] <= held["entrance"] + 1e-3
        and state.num_gpus <= pool - served["entrance"] + 1e-3
        and all(abs(mine[t].share - held[t]) < 1e-3 for t in mine)
    )


def recorded(data: Path) -> None:
    """An hour of an earlier run, in which three tenants had what they have here."""
    ends = [time.time() - 600.0 - 300.0 * n for n in range(12)]
    rows = [
        HistoryRow(tenant, utc_s, 300.0, held, held, 0.7, 0.9, 0.8, 10.0, 3000, entitlement=0.3)
        for utc_s in ends[::-1]
        for tenant, held in (("entrance", 0.2), ("streets", 0.3), ("default-cameras", 0.4))
    ]
    with Store(None, data) as store:
        store.settings.put_settings(HISTORY_DOCUMENT, {"rows": [vars(r) for r in rows]}, "test", audited=False)


async def join(admin: httpx.AsyncClient, ann: httpx.AsyncClient) -> None:
    """The admin adds an operator who sees `entrance`, who then chooses a password and is logged in."""
    first, own = "orchid-lantern-pebble-42", "walnut-harbour-kite-77"
    user = {"name": "ann", "role": "operator", "tenants": ["entrance"], "password": first}
    assert (await admin.post("/api/v1/users", json=user)).is_success
    for password in (first, own):
        me = await ann.post("/api/v1/login", json={"name": "ann", "password": password})
        ann.headers["x-csrf-token"] = me.json()["csrf"]
        if password == first:
            assert (await ann.post("/api/v1/me/password", json={"current": first, "new": own})).is_success


async def look_as_everybody(rest: httpx.AsyncClient) -> None:
    """An admin sees all tenants, and what another policy would have given them in the hour that is recorded."""
    every = {"entrance", "streets", "default-cameras"}
    found = await rest.post("/api/v1/sharing/what-if", json={"policy": "fair"})
    assert (found.status_code, found.json()["rows"]) == (200, 12)
    assert {t["id"] for t in found.json()["tenants"]} == every
    assert {t["id"] for t in (await rest.get("/api/v1/tenants")).json()["tenants"]} == every
    assert {r["tenant"] for r in (await rest.get("/api/v1/tenants/history")).json()["rows"]} == every
    assert 'tenant="streets"' in (await rest.get("/metrics")).text


async def look_as_one_tenant(rest: httpx.AsyncClient) -> None:
    """An operator who sees `entrance` finds nothing of the others, and acknowledges that tenant's alarms only."""
    assert [t["id"] for t in (await rest.get("/api/v1/tenants")).json()["tenants"]] == ["entrance"]
    assert {r["tenant"] for r in (await rest.get("/api/v1/tenants/history")).json()["rows"]} == {"entrance"}
    assert (await rest.get("/api/v1/tenants/streets")).status_code == 404
    assert (await rest.get("/api/v1/tenants/history?tenant=streets")).status_code == 404
    assert (await rest.post("/api/v1/sharing/what-if", json={"policy": "fair"})).status_code == 403, "it is of all"
    for path in ("/metrics", "/api/v1/overview"):
        text = (await rest.get(path)).text
        assert "entrance" in text or path != "/metrics"
        assert "streets" not in text
        assert "default-cameras" not in text
    alarms = [a for a in (await rest.get("/api/v1/alarms")).json() if a["camera"] is None]
    assert {(a["kind"], a["details"]["tenant"]) for a in alarms} == {("tenant", "entrance"), ("slo", "entrance")}
    for number in range(1, max(a["id"] for a in alarms) + 3):
        answer = await rest.post(f"/api/v1/alarms/{number}/acknowledge", json={})
        mine = any(number == a["id"] for a in alarms)
        assert answer.status_code == 200 if mine else "streets" not in answer.text
        assert not mine or answer.json()["acknowledged_by"] == "ann"


async def test_served_models_and_cameras_share_a_whole_box_and_floors_count_at_once(
    site: Callable[..., SiteSettings], tmp_path: Path
) -> None:
    """Meanwhile its people ask by REST: each sees what is theirs."""
    models = tmp_path / "models"
    echo(models, "plates")
    made = site(window_s=60.0)
    first = made.cameras[0].id
    serving = {
        "folder": str(models), "http": {"port": 0}, "grpc": {"port": 0}, "measure": False,
        "tables": [str(table(tmp_path, "plates"))],
    }  # fmt: skip
    tenants = (
        {"id": "entrance", "models": ["plates"], "floor": 0.15},
        {"id": "streets", "objective": {"metric": "accuracy", "goal": 0.8}, "cameras": [first], "floor": 0.2},
    )
    settings = {
        "serving": ServingSettings.model_validate(serving),
        "tenants": tuple(TenantSettings.model_validate(t) for t in tenants),
        "rules": (
            RuleSettings(id="missed", name="Missed", kind="tenant"),
            RuleSettings(id="late", name="Late", kind="slo", after_s=0.0),
        ),
        "web": made.web.model_copy(update={"port": 0}),
    }
    recorded(Path(made.data_dir))
    async with (
        run_appliance(made.model_copy(update=settings)) as up,
        httpx.AsyncClient(base_url=up.url, timeout=PATIENCE_S) as admin,
        httpx.AsyncClient(base_url=up.url, timeout=PATIENCE_S) as ann,
    ):
        box = up.appliance
        await until(lambda: budgets_hold(box), "budgets are held, and planned within")
        shares = box.services.tenants.shares
        held = {t: s.held for t, s in shares.shares.items()}
        await box.services.tenants.change("entrance", {"floor": round(held["entrance"] + 0.1, 2)}, "test")
        await until(
            lambda: shares.shares["entrance"].held > held["entrance"] + 0.05 and budgets_hold(box),
            "a floor that rises counts at once, and plans follow",
        )  # fmt: skip
        assert sum(s.held for t, s in shares.shares.items() if t != "entrance") < sum(held.values()) - held["entrance"]

        await log_in(admin, up)
        await look_as_everybody(admin)
        await until(lambda: "plates" in box.services.tenants.within_objective().owners, "the model is served")
        late = replace(box.services.tenants.within_objective(), within={"plates": 0.1})
        for fact in (*(TenantGoalNow(t, t, 0.1, 0.9, 900.0) for t in ("streets", "entrance")), late):
            box.services.alarms.fact(fact)
        await box.services.alarms.records.flush()
        await join(admin, ann)
        await look_as_one_tenant(ann)
