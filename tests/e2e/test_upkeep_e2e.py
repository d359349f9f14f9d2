"""One real appliance with cameras and served models: scraped, saved while it runs, applied twice, restored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
import tritonclient.http.aio as http
import yaml
from prometheus_client.parser import text_string_to_metric_families
from running_kit import log_in, until
from serving_kit import echo, lenet, table

from benchmarks.waiting import PATIENCE_S
from edge.cli import main
from edge.commands.running import run_appliance
from edge.settings import ServingSettings, SiteSettings
from edge.store.store import Store

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]


def samples(text: str) -> dict[tuple[str, ...], float]:
    """By name and the values of its labels in the order of their names."""
    return {
        (s.name, *(v for _, v in sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


async def ask_three_times(port: int) -> None:
    """Three requests for `digits`."""
    client = http.InferenceServerClient(f"127.0.0.1:{port}")
    tensor = http.InferInput("x", [1, 1, 28, 28], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 1, 28, 28), np.float32))
    for _ in range(3):
        await client.infer("digits", [tensor])
    await client.close()


async def look_at_metrics(rest: httpx.AsyncClient, cameras: list[str]) -> None:
    """After three requests for `digits`, while every camera answers."""
    response = await rest.get("/metrics")
    assert response.status_code == 200
    found = samples(response.text)
    for camera in cameras:
        assert found["magpie_camera_frames_decoded_total", camera] > 0
        assert found["magpie_camera_answers_total", camera] > 0
        assert found["magpie_camera_state", camera, "live"] == 1
        assert found["magpie_camera_share_ratio", "inference", camera] > 0
    assert found["nv_inference_request_success_total", "digits", "1"] == 3  # the parser's name for a counter
    assert found["nv_inference_count_total", "digits", "1"] == 3
    assert found["nv_inference_compute_infer_duration_us_total", "digits", "1"] > 0
    assert found["magpie_serving_statistics_up",] == 1
    assert found["magpie_disk_free_bytes",] > 0
    assert any(name == "magpie_worker_share_used_ratio" for name, *_ in found)


async def test_an_appliance_is_scraped_saved_applied_and_restored(
    site: Callable[..., SiteSettings],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    echo(tmp_path / "models", "left")
    lenet(tmp_path / "models", "digits")
    served = ServingSettings.model_validate(
        {"folder": str(tmp_path / "models"), "http": {"port": 0}, "grpc": {"port": 0}, "measure": False,
         "tables": [str(table(tmp_path, "left", "digits"))], "planning": {"max_share": 0.3}}
    )  # fmt: skip
    # Two models: of one task they would be one file. No window ends in the test: a retraining would add a third.
    plain = site(window_s=3600.0, task="mixed")
    both = plain.model_copy(update={"serving": served, "web": plain.web.model_copy(update={"port": 0})})
    cameras = [c.id for c in both.cameras]
    data = Path(both.data_dir)
    async with run_appliance(both) as up, httpx.AsyncClient(base_url=up.url, timeout=PATIENCE_S) as rest:
        box = up.appliance
        await log_in(rest, up)
        await until(
            lambda: all(box.services.cameras.one(c).state.inference.answers > 0 for c in cameras),
            "every camera answers",
        )
        await until(lambda: all(m.state == "serving" for m in box.services.served.status().models), "both are served")
        await ask_three_times(box.services.served.status().front.http.port)
        await look_at_metrics(rest, cameras)

        file = tmp_path / "site.yaml"
        wanted = {
            "retraining": {**both.retraining.model_dump(mode="json"), "label_budget": 16},
            "cameras": [c.model_dump(mode="json") for c in both.cameras],
            "serving": {"folder": served.folder, "planning": {"max_share": 0.25}},
        }
        file.write_text(yaml.safe_dump(wanted), encoding="utf-8")
        made = await rest.post("/api/v1/tokens", json={"name": "upkeep", "role": "admin", "cameras": None})
        monkeypatch.setenv("UPKEEP_TOKEN", made.json()["token"])
        asked = ["apply", "-f", str(file), "--url", up.url, "--token-from", "env:UPKEEP_TOKEN", "--yes"]
        assert await asyncio.to_thread(main, asked) == 0
        said = capsys.readouterr().out
        assert "label_budget: 12 -> 16" in said
        assert "max_share: 0.3 -> 0.25" in said
        assert await asyncio.to_thread(main, asked) == 0
        assert "nothing to change" in capsys.readouterr().out

        saved = tmp_path / "magpie.tar"
        assert await asyncio.to_thread(main, ["backup", str(saved), "--data-dir", str(data)]) == 0
        assert f"{len(cameras)} models" in capsys.readouterr().out
        in_force = {c: box.services.cameras.one(c).state.model.version for c in cameras}

    there = tmp_path / "there"
    assert main(["restore", str(saved), "--data-dir", str(there)]) == 0
    with Store(None, there) as store:
        assert {c: v.id for c, v in store.recover().promoted.items()} == in_force
        kept = store.settings.get_settings("retraining")
        assert kept is not None
        assert kept["label_budget"] == 16
