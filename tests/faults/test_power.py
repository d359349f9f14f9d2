"""Power: the whole appliance is killed at any instant and starts again on the same data; SIGTERM drains."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from appliance_kit import cameras, gone, groups_of, site_of
from examples_kit import tried
from process_kit import Box, until

from benchmarks.waiting import PATIENCE_S
from edge.demo.cameras import serve_cameras
from edge.settings import AccessSettings, SiteSettings
from edge.store.store import Store

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.timeout(480)]
WINDOW_S = 45.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path, SiteSettings]]:
    folder = tmp_path_factory.mktemp("power")
    data = folder / "data"
    data.mkdir()
    with serve_cameras(cameras(), folder) as port:
        settings = site_of(port, data, window_s=WINDOW_S, label_budget=24)
        web = settings.web.model_copy(update={"access": AccessSettings(enabled=False)})
        settings = settings.model_copy(update={"web": web})
        config = folder / "site.json"  # JSON is YAML
        config.write_text(settings.model_dump_json())
        yield config, data, settings


def facts(data: Path) -> tuple[dict[str, str], Any]:
    """Models in force and the open window, read from the disk while nothing runs."""
    with Store(None, data) as store:
        return {c: v.id for c, v in store.versions.all_promoted().items()}, store.windows.open_window_state()


def pictures(data: Path) -> set[Path]:
    """Sampled pictures that are whole on disk."""
    found = (data / "pictures").rglob("window-*/*.jpg")
    return {p for p in found if p.name.count(".") == 1 and p.with_suffix(".json").exists()}


@pytest.fixture
def boxes() -> Iterator[list[Box]]:
    """Those that a test started; whatever still runs at its end is ended."""
    started: list[Box] = []
    yield started
    for box in started:
        if box.process.poll() is None:
            os.killpg(box.process.pid, signal.SIGKILL)
            box.process.wait()


def test_killed_at_any_instant_it_goes_on_where_it_was(site: tuple[Path, Path, SiteSettings], boxes: list[Box]) -> None:
    config, data, _ = site
    rng = random.Random(11)

    def start() -> Box:
        boxes.append(Box(config))
        return boxes[-1].up()

    box = start()
    window = 0
    for number in range(tried(2, 3)):  # the control process alone, and everything
        shots = len(pictures(data)) + rng.randint(0, 3)
        until(lambda n=shots: len(pictures(data)) >= n, "the sample grows")  # type: ignore[misc]
        time.sleep(rng.random())  # any instant
        box.kill(everything=number == 1)
        models, found = facts(data)
        assert found is not None, "the open window is in the database"
        window = found.window.id
        kept = pictures(data)
        assert set(models) == {"overpass", "junction"}
        plan = None if found.plan is None else found.plan.plan
        ends = found.window.start_utc_s + found.window.length_s
        box = start()
        overview = box.get("overview")
        assert {c["id"]: c["state"]["model"]["version"] for c in overview["cameras"]} == models
        if time.time() < ends - 2.0:
            assert overview["window"]["number"] == window, "inside the window it goes on"
            kinds = [e["kind"] for e in box.get("events?limit=200")]
            assert "window.resumed" in kinds
            assert abs(overview["window"]["end_utc_s"] - ends) < 1.0, "and ends when it should have"
            if plan is not None:
                shares = overview["shares"]
                assert set(shares) == set(models)
                assert all(s["inference"] > 0 for s in shares.values())
        assert kept <= pictures(data), "what was sampled is still there"
    pids = box.family()
    os.kill(box.process.pid, signal.SIGTERM)
    assert box.process.wait(PATIENCE_S) == 0, "\n".join(box.lines[-20:])
    until(lambda: not gone(pids), "no process outlives it")
    assert groups_of(box.process.pid) == [], "nothing is left behind"
    assert any("drained" in line for line in box.lines)
    again, found = facts(data)
    assert set(again) == {"overpass", "junction"}
    assert found is not None
    assert found.window.id >= window
