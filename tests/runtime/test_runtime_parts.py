"""Parts of the runtime that stand alone: shares of the device, the window in force, complaints, the golden model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from edge.core.clock import ManualClock
from edge.core.shares import SMS_OF_A_WORKER, ideal_caps
from edge.core.workers import Worker
from edge.runtime import messages as m
from edge.runtime.complaints import Complaints
from edge.runtime.device_shares import DeviceShares
from edge.runtime.golden_model import GoldenModel
from edge.runtime.golden_worker import GoldenWorkerSpec
from edge.runtime.window_in_force import WindowInForce
from edge.settings import RetrainingSettings, SiteSettings, parse


class _Partitioner:
    def __init__(self, device: str = "cpu", units: float = 4.0) -> None:
        kind = "coop" if device == "cpu" or units <= 4.0 else "mps"
        self.caps = replace(ideal_caps(0.01), kind=kind, device=device, units=units)


def _shares(labelling: bool, golden: float = 0.2, device: str = "cpu", units: float = 4.0) -> DeviceShares:
    site = parse(SiteSettings, {"site": "junction", "machine": {"control_share": 0.1}})
    return DeviceShares(site, cast(Any, _Partitioner(device, units)), lambda: labelling, lambda: golden, lambda: 0.05)


def test_what_labelling_will_cost_is_kept_from_cameras_before_it_begins() -> None:
    before, after = _shares(labelling=False), _shares(labelling=True)
    assert before.camera_capacity() == after.camera_capacity() == pytest.approx(0.65)
    assert before.shared_capacity() == pytest.approx(0.9), "a site without cameras labels nothing"
    assert after.shared_capacity() == pytest.approx(0.65)


def test_served_models_and_their_front_take_from_cameras_which_never_have_nothing() -> None:
    shares = _shares(labelling=True)
    shares.front, shares.serving = 0.05, 0.3
    assert shares.shared_capacity() == pytest.approx(0.6)
    assert shares.camera_capacity() == pytest.approx(0.3)
    shares.serving = 0.9
    assert shares.camera_capacity() == 0.05


def test_device_seconds_are_shared_by_cores_and_a_gpu_in_time_counts_its_own() -> None:
    assert _shares(True).cores == 4.0
    assert _shares(True, device="GPU-1").cores == 1.0
    assert _shares(True, device="GPU-1", units=132.0).cores == 132 / SMS_OF_A_WORKER, "its SMs are shared out"
    assert _shares(True).quantized(1.7) == 1.0
    assert _shares(True).quantized(-0.2) == 0.0


def test_changed_settings_are_in_force_from_the_next_window_and_its_times_are_of_its_begin() -> None:
    clock = ManualClock(start_s=100.0, utc_offset_s=1000.0)
    window = WindowInForce(RetrainingSettings(window_s=60.0), clock)
    assert (window.start_utc_s, window.end_utc_s) == (0.0, 0.0)
    window.change(RetrainingSettings(window_s=90.0))
    assert (window.settings.window_s, window.following.window_s) == (60.0, 90.0)
    clock.advance(5.0)
    window.open(began_s=100.0)
    assert window.settings.window_s == window.following.window_s == 90.0
    assert (window.start_utc_s, window.end_utc_s) == (1100.0, 1190.0)
    window.open(began_s=105.0)
    assert window.settings.window_s == 90.0, "nothing was changed since"


def test_a_complaint_is_kept_once_the_newest_last_and_only_so_many() -> None:
    noted: list[tuple[str, str | None]] = []
    clock = ManualClock()
    complaints = Complaints(clock, lambda kind, camera, data: noted.append((kind, camera)))
    complaints.add("labels", "late", "north")
    complaints.add("disk_full", "little room")
    clock.advance(3.0)
    complaints.add("labels", "late", "north")
    assert [(c["code"], c["utc_s"] - clock.utc()) for c in complaints.recent] == [("disk_full", -3.0), ("labels", 0.0)]
    assert noted == [("complaint", "north"), ("complaint", None), ("complaint", "north")]
    for n in range(200):
        complaints.add("labels", f"late {n}")
    assert [c["message"] for c in complaints.recent][-1] == "late 199"
    assert len(complaints.recent) == 50


class Workers:
    """In the supervisor's place: keeps how the worker was started."""

    def __init__(self) -> None:
        self.started: list[tuple[str, float]] = []
        self.received: Any = None
        self.lost: Any = None

    def start(self, worker: Worker, share: float, main: Any, argument: Any, on_message: Any, on_lost: Any) -> None:
        self.started.append((worker.name, share))
        self.received, self.lost = on_message, on_lost

    def send(self, name: str, message: Any) -> bool:
        return True


def test_the_golden_model_starts_once_and_is_ready_from_its_first_word_until_it_is_lost() -> None:
    workers, noted, labelled = Workers(), [], []
    spec = GoldenWorkerSpec(Path("teacher.yaml"))
    golden = GoldenModel(cast(Any, workers), spec, lambda: 0.5, labelled.append, lambda kind: noted.append(kind))
    assert golden.start(0.3)
    assert not golden.start(0.4)
    assert workers.started == [("golden", 0.3)]
    assert not golden.ready
    workers.received("loaded")
    workers.received("and again")
    assert golden.ready
    assert noted == ["golden.ready"]
    workers.lost("killed")
    assert not golden.ready
    answer = m.Labelled("north", "north/1/1", None, 0.2)
    workers.received(answer)
    assert labelled == [answer]
    assert golden.ready
    assert noted == ["golden.ready"] * 2
