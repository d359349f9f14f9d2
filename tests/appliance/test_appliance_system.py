"""The system page's state: promises of share kinds, workers, losses in words, sizes on disk."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edge.appliance import system
from edge.appliance.answers.read import read
from edge.appliance.answers.serving import Serving
from edge.core.shares import ShareCaps
from edge.store.store import Store
from web.examples.serving import SERVING

CAPS = ShareCaps("cgroup", "cpu", "cap", "live", 0.01, None, 4.0, False, False, "worker", "measured")


def overview(**losses: Any) -> dict[str, Any]:
    return {
        "cameras": [
            {"id": "north", "state": {"losses": {"stalls": 2, "frames_replaced": 5}}},
            {"id": "new", "state": {"losses": {}}},
        ],
        "losses": {"labels": {"missed": 3}, "journal": 1, "live_pictures": 0} | losses,
        "workers": [
            {"name": "golden", "camera": None, "messages_lost": 0},
            {"name": "camera-north", "camera": "north", "messages_lost": 4},
        ],
    }


@pytest.mark.parametrize(("enforced", "said"), [("reserve", "its own"), ("cap", "holds it back"), ("coop", "by them")])
def test_each_kind_promises_what_it_keeps_and_no_more(enforced: Any, said: str) -> None:
    found = system.shares(replace(CAPS, enforced=enforced), {"control": 0.08})
    assert said in found["promise"]
    assert found["kept"] == {"control": 0.08}
    assert "the smallest share is 1 %, any size" in found["limits"]


def test_limits_of_a_gpu_kind_are_reported() -> None:
    caps = replace(CAPS, kind="mps", resize="respawn", step=0.05, memory_limit=True, fault_domain="device")
    found = system.shares(caps, {})["limits"]
    assert "the smallest share is 1 %, steps of 5 %" in found
    assert "shares change by a new process in the worker's place" in found
    assert any("every worker" in line for line in found)


def test_workers_have_their_camera_usage_and_memory() -> None:
    found = [
        {"name": "camera-north", "role": "inference", "camera": "north", "pid": 7},
        {"name": "golden", "role": "golden", "camera": None, "pid": None},
        {"name": "executor-1", "role": "inference", "camera": None, "pid": 9},
    ]
    usage = [
        {"worker": "camera-north", "asked": 0.9, "granted": 0.9, "used_share": 0.1, "running": False},
        {"worker": "camera-north", "asked": 0.2, "granted": 0.15, "used_share": 0.1, "running": True},
    ]
    north, golden, executor = system.workers(found, usage, {7: 1000})
    assert (north["camera"], north["asked"], north["granted"], north["used"]) == ("north", 0.2, 0.15, 0.1)
    assert north["memory_bytes"] == 1000
    assert (golden["camera"], golden["asked"], golden["memory_bytes"]) == (None, None, None)
    assert executor["camera"] is None


def test_a_worker_of_a_camera_that_is_being_removed_keeps_its_name() -> None:
    """Without it the worker's row would be shown to users who may not see that camera."""
    gone = {"name": "camera-gone", "role": "inference", "camera": "gone", "pid": None, "messages_lost": 2}
    (shown,) = system.workers([gone], [], {})
    assert shown["camera"] == "gone"
    found = system.losses(overview() | {"workers": [gone]}, None, 0)
    assert [x["camera"] for x in found if x["code"] == "messages"] == ["gone"]


def test_memory_of_this_process_and_none_of_one_that_is_gone() -> None:
    found = system.memory([os.getpid(), None, 2**22 + 1])
    assert set(found) == {os.getpid()}
    assert found[os.getpid()] > 1_000_000


def test_every_loss_is_listed_with_its_words() -> None:
    serving = read(Serving, SERVING)
    plates = replace(serving.models[0], name="plates", total=replace(serving.models[0].total, late=2, failed=1))
    alarms = {"records": 7, "alarms_refused": 8}
    outputs = [{"lost_by": {"too_old": 2}}, {"lost_by": {"too_old": 3, "too_many": 4}}]
    found = system.losses(overview(alarms=alarms), replace(serving, models=(plates,)), 6, outputs, 5)
    counts = {(x["code"], x["camera"], x["subject"]): x["count"] for x in found}
    assert counts["stalls", "north", ""] == 2
    assert counts["stalls", "new", ""] == 0
    assert counts["labels_missed", None, ""] == 3
    assert counts["journal", None, ""] == 1
    assert counts["retention", None, ""] == 6
    assert counts["records_unreadable", None, ""] == 5
    assert counts["records", None, ""] == 7
    assert counts["alarms_refused", None, ""] == 8
    assert counts["outputs", None, ""] == 9
    assert counts["messages", "north", "camera-north"] == 4
    assert counts["requests_failed", None, "plates"] == 1
    assert len(counts) == len(found)  # each has one row
    assert all(x["words"] and x["since"] in ("appliance", "worker") for x in found)


def test_every_counter_of_a_camera_has_words() -> None:
    """A counter that is added to cameras and not listed here would be a loss that is never seen."""
    import ast
    import inspect

    from edge.runtime.camera import CameraRuntime

    tree = ast.parse("class X:\n" + inspect.getsource(CameraRuntime.losses))
    named = {key.value for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys if key}  # type: ignore[attr-defined]
    listed = {x["code"] for x in system.losses(overview(), None, 0) if x["camera"] == "new"}
    assert named == listed


def test_versions_name_what_runs() -> None:
    found = system.versions("0.1.0", "0001", "sqlite:////data/magpie.db")
    assert found["magpie"] == "0.1.0"
    assert {"python", "numpy", "database", "schema", "system"} <= set(found)


def test_sizes_on_disk(tmp_path: Path) -> None:
    with Store(None, tmp_path) as store:
        sizes = store.retention.sizes()
        assert sizes["pictures"] == 0
        assert sizes["models"] == 0
        assert sizes["database"] >= (tmp_path / "magpie.db").stat().st_size > 0
