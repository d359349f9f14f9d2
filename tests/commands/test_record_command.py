"""`magpie record`: a box that answers by REST, or its folder, becomes a trace without names of people's own."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_kit import QuietHandler, answering
from recorded_run_kit import keep_a_run

from edge.cli import main
from edge.commands import record
from edge.core.clock import ManualClock
from edge.core.errors import InvalidValue, MagpieError, StoreError
from edge.core.serving import DeviceTable
from edge.simulation.box_trace import read_box

SECRET = "rtsp://admin:secret@10.0.0.7/stream"
TENANT = {
    "id": "acme", "name": "Acme Ltd", "entitlement": 1.0, "floor": 0.0, "declared_demand": None, "models": ["plates"],
    "objective": {"metric": "within_slo", "goal": 0.95, "utility": "linear"}, "applications": [], "cameras": [],
    "proxy_utilisation": None,
}  # fmt: skip


class _Box(QuietHandler):
    details: list[dict[str, Any]] = []  # noqa: RUF012
    asked = 0
    ends = 3  # looks at windows after which the newest one is over
    page = 500  # windows in an answer, at most
    failing: range = range(0)  # of the looks at served models
    tenants = True

    def do_GET(self) -> None:
        path, _, query = self.path.removeprefix("/api/v1").partition("?")
        if path == "/serving":
            _Box.serving += 1
            if _Box.serving in self.failing:
                self.send_response(503)
                self.end_headers()
                return
        found = self._answer(path, {k: int(v) for k, _, v in (p.partition("=") for p in query.split("&")) if k})
        self.send_response(200 if found is not None else 404)
        self.end_headers()
        self.wfile.write(json.dumps(found if found is not None else {"error": {"message": "no"}}).encode())

    serving = -1

    def _answer(self, path: str, query: dict[str, int]) -> Any:
        if path == "/windows":
            _Box.asked += 1
            shown = self.details if _Box.asked > 2 else self.details[1:]  # a window begins at the third look
            below = query.get("before", 1 << 30)
            rows = [d["window"] | {"open": d is shown[0] and _Box.asked <= self.ends} for d in shown]
            return [w for w in rows if w["id"] < below][: min(query["limit"], self.page)]
        if path.startswith("/windows/"):
            detail = next(d for d in self.details if d["window"]["id"] == int(path.rsplit("/", 1)[1]))
            return detail | {"window": detail["window"] | {"open": False, "outcome": "completed"}}
        if path == "/serving":
            arrived = [0, 7, 19, 4][min(_Box.serving, 3)]  # the front began anew before the last
            total = {"arrived": arrived, "late": arrived // 4, "dropped": 0, "rejected": 0, "failed": 0}
            model = {"name": "plates", "kind": "model", "slo_ms": 50.0, "priority": 0, "total": total}
            model |= {"latency_ms": [3.0, 4.0, 9.0]}
            models = [model, {"name": "app", "kind": "application", "slo_ms": 80.0}]
            return {"models": models, "share": {"reserved": 0.2}, "address": SECRET}
        if not self.tenants:
            return None
        row = {"tenant": "acme", "utc_s": 1_700_000_150.0, "seconds": 10.0, "held": 0.3, "given": 0.2}
        return {
            "/tenants": {"tenants": [{"implicit": False, "settings": TENANT}, {"implicit": True, "settings": {}}]},
            "/sharing": {"settings": {"policy": "sw", "interval_s": 20.0}},
            "/tenants/history": {"rows": [row | {"performance": 0.9}, row | {"utc_s": 5.0, "performance": None}]},
        }.get(path)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    _Box.details, _Box.asked, _Box.serving = keep_a_run(tmp_path / "data"), 0, -1
    _Box.ends, _Box.page, _Box.failing, _Box.tenants = 3, 500, range(0), True
    with answering(_Box) as address:
        yield address


def run(*words: str) -> list[float]:
    """The naps that the command took."""
    parser = argparse.ArgumentParser()
    record.add_arguments(parser)
    naps: list[float] = []
    clock = ManualClock()

    def sleep(seconds: float) -> None:
        naps.append(round(seconds, 6))
        clock.advance(seconds)

    assert record.run(parser.parse_args(words), sleep, clock) == 0
    return naps


def test_the_windows_of_a_box_are_recorded(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _Box.asked, _Box.ends, _Box.page = 9, 99, 1
    out = tmp_path / "box.json"
    assert run("--url", url, "--out", str(out)) == []
    trace = read_box(out)
    assert trace.windows is not None
    assert trace.windows.windows == 2
    assert [c.id for c in trace.windows.cameras] == ["gate"]
    assert trace.sharing is not None
    assert (trace.sharing.rules.policy, trace.sharing.rules.interval_s) == ("sw", 20.0)
    assert [r.at_s for r in trace.sharing.rows] == [150.0], "rows of before the first window are left out"
    assert "2 windows of 1 camera; 1 tenant\n" in capsys.readouterr().out
    text = out.read_text()
    assert "Acme Ltd" not in text
    assert "secret" not in text


def test_requests_are_counted_from_the_next_window_on(url: str, tmp_path: Path) -> None:
    out = tmp_path / "box.json"
    naps = run("--url", url, "--out", str(out), "--minutes", "2", "--interval", "40", "--replace-names")
    assert naps == [1.0, 1.0, 40.0, 40.0, 40.0]
    trace = read_box(out)
    assert trace.windows is not None
    assert trace.windows.windows == 1, "the one that began with the counting"
    assert trace.serving is not None
    (model,) = trace.serving.models
    assert (model.name, model.arrived, model.missed) == ("model-1", (7, 12, 4), (1, 3, 1))
    assert model.p50_ms == (3.0, 3.0, 3.0)
    assert model.p99_ms == (9.0, 9.0, 9.0)
    assert trace.sharing is not None
    (tenant,) = trace.sharing.tenants
    assert (tenant.id, tenant.models) == ("tenant-1", ("model-1",))
    text = out.read_text()
    assert not any(name in text for name in ("gate", "plates", "acme", "secret"))


COUNTED = ("--minutes", "2", "--interval", "40")


def test_looks_that_fail_are_borne(url: str, tmp_path: Path) -> None:
    _Box.failing, out = range(2, 4), tmp_path / "box.json"
    naps = run("--url", url, "--out", str(out), *COUNTED)
    assert naps == [1.0, 1.0, 40.0, 40.0, 40.0, 40.0], "until a look is answered"
    serving = read_box(out).serving
    assert serving is not None
    assert serving.models[0].arrived == (7, 1, 1, 2), "4 since the restart, spread over three intervals"
    _Box.asked, _Box.serving, again = 0, -1, tmp_path / "again.json"
    _Box.failing = range(2, 4 + record.MOST_FAILED_LOOKS)
    with pytest.raises(MagpieError, match="503"):
        run("--url", url, "--out", str(again), *COUNTED)
    assert not again.exists()


def test_without_windows_time_begins_with_the_first_look(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _Box.ends, out = 0, tmp_path / "box.json"
    run("--url", url, "--out", str(out), *COUNTED)
    trace = read_box(out)
    assert trace.windows is None, "those that were over before have nothing to do with these requests"
    assert trace.sharing is not None
    assert [r.at_s for r in trace.sharing.rows] == [150.0]
    assert "no windows; 23 requests to 1 model in 120 s; no device table" in capsys.readouterr().out


def test_the_machine_that_a_table_was_measured_on_is_not_reported(url: str, tmp_path: Path) -> None:
    table, out = tmp_path / "table.json", tmp_path / "box.json"
    rows = {"plates": {"100": [2.0, 3.0]}}
    given = DeviceTable.from_json({"format": "gpulet-device/1", "name": "hall-7", "latency_ms": rows}).to_json()
    table.write_text(json.dumps(given | {"machine": "kernel 6.1 of hall-7", "notes": ["of Ann"]}))
    run("--url", url, "--out", str(out), "--table", str(table), *COUNTED)
    serving = read_box(out).serving
    assert serving is not None
    assert serving.table is not None
    assert serving.table.latency_ms == {"plates": {100: (2.0, 3.0)}}
    assert not any(word in out.read_text() for word in ("hall-7", "machine", "Ann"))


def test_a_folder_is_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep_a_run(tmp_path / "data")
    out = tmp_path / "box.json"
    data = tmp_path / "data"
    elsewhere = (data / "magpie.db").rename(tmp_path / "other.db")
    words = ["record", "--data", str(data), "--database", f"sqlite:///{elsewhere}", "--out", str(out)]
    assert main(words) == 0
    assert not (data / "magpie.db").exists()
    trace = read_box(out)
    assert trace.windows is not None
    assert trace.windows.windows == 2
    assert trace.sharing is None
    capsys.readouterr()
    compared = ["simulate", str(out), "--policy", "uniform", "--against", "no-retraining", "--seeds", "2"]
    assert main(compared) == 0
    assert "uniform less no-retraining, accuracy:" in capsys.readouterr().out
    assert main([*compared, "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["values"]) == {"uniform", "no-retraining"}
    for bad in (["--seeds", "2"], ["--policy", "relay", "--policy", "thief", "--against", "uniform"]):
        assert main(["simulate", str(out), *bad]) == 1
    assert "--policy" in capsys.readouterr().err


def test_what_cannot_be_recorded_is_said(url: str, tmp_path: Path) -> None:
    for words in (["--minutes", "1", "--data", str(tmp_path)], ["--interval", "0"], ["--windows", "0"]):
        with pytest.raises(InvalidValue, match=words[0]):
            run("--url", url, "--out", str(tmp_path / "x"), *words)
    with pytest.raises(InvalidValue, match="--out"):
        run("--url", url, "--out", str(tmp_path))
    out = ("--url", url, "--out", str(tmp_path / "x"))
    with pytest.raises(InvalidValue, match=r"--minutes.*length of a window"):
        run(*out, "--minutes", "1")
    _Box.asked, _Box.ends = 0, 99
    with pytest.raises(InvalidValue, match=r"--minutes.*is over in it"):
        run(*out, *COUNTED)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(StoreError, match="no database"):
        run("--data", str(empty), "--out", str(tmp_path / "x"))
    assert list(empty.iterdir()) == [], "nothing is made in a folder that is read"
    with pytest.raises(InvalidValue, match="--database"):
        run(*out, "--database", "sqlite:///x.db")
    assert not (tmp_path / "x").exists()


def test_a_model_that_comes_later_had_no_requests_before(tmp_path: Path) -> None:
    from edge.simulation.record_box import ServingRecorder

    def state(**arrived: int) -> dict[str, Any]:
        none = {"late": 0, "dropped": 0, "rejected": 0, "failed": 0}
        return {
            "models": [
                {"name": n, "kind": "model", "slo_ms": 5.0, "priority": 1, "total": none | {"arrived": a},
                 "latency_ms": []}
                for n, a in arrived.items()
            ]
        }  # fmt: skip

    recorder = ServingRecorder(10.0)
    recorder.look(state(a=3))
    assert recorder.trace(None) is None, "no interval is over"
    for now in (state(a=5), state(a=5, b=4), state(b=9)):
        recorder.look(now)
    trace = recorder.trace(None)
    assert trace is not None
    assert {m.name: m.arrived for m in trace.models} == {"a": (2, 0, 0), "b": (0, 4, 5)}
    assert all(math.isnan(v) for m in trace.models for v in m.p50_ms)
