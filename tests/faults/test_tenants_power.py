"""Power and tenants: what was learned of them outlives a control process that is killed, with its age."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from process_kit import Box, until
from serving_kit import echo, table

from benchmarks.waiting import PATIENCE_S
from edge.core.tenants import TENANTS_DOCUMENT
from edge.settings import SiteSettings, parse

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.timeout(480)]
BODY = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1.0, 2.0, 3.0, 4.0]}]}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Box]]:
    """Starts an appliance without cameras, whose two served models are of two tenants; again on the same data."""
    models, data = tmp_path / "models", tmp_path / "data"
    data.mkdir()
    echo(models, "plates")
    echo(models, "parked")
    site = {
        "data_dir": str(data), "web": {"port": 0, "access": {"enabled": False}},
        "serving": {
            "folder": str(models), "http": {"port": 0}, "grpc": {"port": 0}, "measure": False,
            "tables": [str(table(tmp_path, "plates", "parked"))],
        },
        "tenants": [{"id": "entrance", "models": ["plates"], "entitlement": 2}, {"id": "office", "models": ["parked"]}],
    }  # fmt: skip
    config = tmp_path / "site.json"  # JSON is YAML
    config.write_text(parse(SiteSettings, site).model_dump_json(), encoding="utf-8")
    boxes: list[Box] = []

    def run() -> Box:
        boxes.append(Box(config))
        return boxes[-1].up()

    yield run
    for box in boxes:
        if box.process.poll() is None:
            os.killpg(box.process.pid, signal.SIGKILL)
            box.process.wait()


@contextmanager
def requests(box: Box) -> Iterator[None]:
    """Some a second to both models; the answers are not looked at."""
    port, over = box.get("serving")["front"]["http"]["port"], threading.Event()

    def ask() -> None:
        while not over.wait(0.1):
            for model in ("plates", "parked"):
                url = f"http://127.0.0.1:{port}/v2/models/{model}/infer"
                asked = urllib.request.Request(url, json.dumps(BODY).encode(), {"content-type": "application/json"})
                try:
                    urllib.request.urlopen(asked, timeout=PATIENCE_S).close()
                except OSError:  # the front may end first
                    return

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join(PATIENCE_S)


def tenants(box: Box) -> dict[str, Any]:
    return {t["id"]: t for t in box.get("tenants")["tenants"]}


def kept(data: Path) -> dict[str, Any]:
    """What is on the disk, read beside the running appliance."""
    with closing(sqlite3.connect(f"file:{data / 'magpie.db'}?mode=ro", uri=True)) as database:
        rows = database.execute("select value from settings where name = ?", (TENANTS_DOCUMENT,)).fetchall()
    return dict(json.loads(rows[0][0])["tenants"]) if rows else {}


def test_what_was_learned_of_tenants_outlives_a_killed_control_process(
    start: Callable[[], Box], tmp_path: Path
) -> None:
    box = start()
    until(lambda: {m["state"] for m in box.get("serving")["models"]} == {"serving"}, "both models are served")
    with requests(box):
        both = {"entrance", "office"}
        until(lambda: {t for t, k in kept(tmp_path / "data").items() if k["recent"]} == both, "both were measured")
        before = tenants(box)
        box.kill(everything=False)
    document = kept(tmp_path / "data")
    again = start()
    until(lambda: again.get("sharing")["decided_utc_s"] is not None, "shares were decided")
    asked_s = time.time()
    after = tenants(again)
    answered_s = time.time()
    for name in ("entrance", "office"):
        last_utc_s = document[name]["recent"][-1][0]
        learned = after[name]["learned"]
        assert learned["reports"] >= 1
        assert learned["last_utc_s"] == pytest.approx(last_utc_s)
        assert asked_s - 1.0 <= last_utc_s + learned["age_s"] <= answered_s + 1.0, "with its age"
        assert learned["forgotten"] is None
        assert after[name]["share"]["held"] == pytest.approx(before[name]["share"]["held"], abs=0.05)
        assert len(again.get(f"tenants/{name}")["curve"]["reports"]) == len(document[name]["recent"])
