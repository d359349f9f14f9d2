"""`magpie doctor`: what it says, and when it says no."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from edge.appliance import examine
from edge.appliance.answers.read import plain, read
from edge.appliance.answers.state import DeviceReport, Doctor
from edge.cli import main
from edge.core.learning import LEARNED_DOCUMENT, BudgetProblem, Cost, LearningFacts
from edge.fleet import engine_check
from edge.fleet.engine_messages import EngineCost
from edge.fleet.folder import FleetFolder
from edge.settings import FleetSettings, parse
from edge.store.store import Store


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def test_this_machine_can_run_it_and_learns_its_share_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--port", "0"]) == 0
    table = capsys.readouterr().out
    assert "The appliance can run here." in table
    assert "cpu: " in table
    assert "coop" in table
    assert "smallest 0.01" in table
    assert not Path("data").exists(), "looking must leave nothing"


def test_json_is_one_object_with_every_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "--port", "0", "--cores", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    names = {c["name"] for c in report["checks"]}
    assert names == {
        "system", "cores", "memory", "data folder", "packages", "video", "CUDA", "database", "port", "shares",
        "learning",
    }  # fmt: skip
    cpu = report["devices"][-1]
    assert cpu["device"] == "cpu"
    assert cpu["shares"]["units"] == 1.0
    assert all(t["reason"] for t in cpu["tried"])
    (*_, answered) = plain(Doctor, read(Doctor, report))["devices"]
    assert answered == {"error": None} | cpu, "REST answers the same"


def test_a_device_that_no_share_kind_suits_is_answered() -> None:
    device = {"device": "gpu-0", "kind": "gpu", "name": "a GPU", "units": None, "memory_bytes": 1}
    sick = device | {"shares": None, "error": "it does not answer", "tried": []}
    assert plain(DeviceReport, read(DeviceReport, sick)) == sick


def test_a_port_in_use_is_bad(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["doctor", "--port", str(port)]) == 1
    out = capsys.readouterr().out
    assert "BAD   port" in out
    assert "in use" in out
    assert "cannot run here" in out


@pytest.mark.parametrize(
    ("arguments", "check", "words"),
    [
        (["--data-dir", "/proc/none/x"], "data folder", "/proc/none/x"),
        (["--database", "mysql://a/b"], "database", "sqlite:///FILE"),
        (["--database", "postgresql://magpie:secret@127.0.0.1:1/none"], "database", "127.0.0.1"),
        (["--host", "203.0.113.7"], "port", "203.0.113.7"),
        (["--port", "70000"], "port", "70000"),
    ],
)
def test_what_is_wrong_is_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str], check: str, words: str
) -> None:
    assert main(["doctor", "--json", "--port", "0", *arguments]) == 1
    out = capsys.readouterr().out
    assert "secret" not in out
    bad = {c["name"]: c for c in json.loads(out)["checks"] if c["outcome"] == "bad"}
    assert check in bad
    assert words in bad[check]["said"]


def test_a_database_that_is_there_is_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["db", "upgrade", "--data-dir", "data"]) == 0
    assert main(["doctor", "--port", "0"]) == 0
    assert "writable, schema" in capsys.readouterr().out
    (tmp_path / "data/magpie.db").write_bytes(b"this is no database" * 100)
    assert main(["doctor", "--port", "0"]) == 1


def test_little_memory_or_disk_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def memory(free: int):
        return lambda: type("M", (), {"available": free, "total": 4 * 2**30})()

    for free, outcome in ((2**29, "bad"), (2 * 2**30, "warning"), (4 * 2**30, "good")):
        monkeypatch.setattr(examine.psutil, "virtual_memory", memory(free))
        assert examine._memory().outcome == outcome
    for free, outcome in ((2**27, "bad"), (2**30, "warning"), (10 * 2**30, "good")):
        monkeypatch.setattr(examine.shutil, "disk_usage", lambda at, f=free: type("D", (), {"free": f})())
        assert examine._disk(tmp_path).outcome == outcome


def test_what_the_box_can_learn_is_reported_once_it_was_measured(tmp_path: Path) -> None:
    report = examine.examine(tmp_path / "data", "", "127.0.0.1", 0)
    (check,) = [c for c in report["checks"] if c["name"] == "learning"]
    assert "not measured yet" in check["said"]
    facts = LearningFacts(label_s=Cost(0.5, 0.02, 90), visit_s=Cost(0.1, 0.01, 9), trial_s=Cost(3.0, 0.3, 9))
    problem = BudgetProblem(30.0, 4, 0.9, 0.4, facts, thread=0.5, profilers=2)
    with Store(None, tmp_path / "data") as store:
        store.settings.put_settings(LEARNED_DOCUMENT, {"problem": problem.to_json()}, "micro-profiler", audited=False)
    report = examine.examine(tmp_path / "data", "", "127.0.0.1", 0)
    (check,) = [c for c in report["checks"] if c["name"] == "learning"]
    assert check["outcome"] == "warning", "half a minute is too short for labels of half a second"
    assert "per camera and window of 30 s (4 cameras)" in check["said"]
    assert "retraining.window_s" in check["hint"]


def test_the_engine_of_a_fleet_is_reported_with_its_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fleet_check(fleet: FleetSettings) -> examine.Check:
        return examine._guarded("fleet engine", lambda: examine._engine(fleet, tmp_path))

    local = fleet_check(FleetSettings(name="b1"))
    assert (local.outcome, local.said.partition(";")[0]) == (
        "good", "local: no process and no thread while there is no job",
    )  # fmt: skip
    for name in ("c.pem", "c.key", "ca.pem"):
        (tmp_path / name).write_text("a certificate")
    files = {
        "certificate": str(tmp_path / "c.pem"),
        "key": str(tmp_path / "c.key"),
        "authority": str(tmp_path / "ca.pem"),
    }
    ray = {"address": "192.0.2.1", "token": "env:RAY_TOKEN_OF_THE_TEST", "folder": "/run/r"} | files
    fleet = parse(FleetSettings, {"name": "b1", "engine": {"kind": "ray", "ray": ray}})
    monkeypatch.setattr(engine_check, "find_spec", lambda name: None)
    missing = fleet_check(fleet)
    assert (missing.outcome, missing.hint) == ("bad", "pip install 'magpie-edge[ray]'")
    place = {"fleet": "yard", "namespace": "n", "node": "n1", "image": "i:1"}
    nodes = parse(FleetSettings, {"name": "b1", "engine": {"kind": "kubernetes", "kubernetes": place}})
    assert fleet_check(nodes).hint == "pip install 'magpie-edge[kubernetes]'"
    monkeypatch.setattr(engine_check, "find_spec", lambda name: object())
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert "fleet.engine.kubernetes.kubeconfig" in fleet_check(nodes).said
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    assert "it has not been idle as the head's for a minute" in fleet_check(nodes).said
    assert "RAY_TOKEN_OF_THE_TEST" in fleet_check(fleet).said
    monkeypatch.setenv("RAY_TOKEN_OF_THE_TEST", "0123456789abcdef")
    assert "not measured yet" in fleet_check(fleet).said
    FleetFolder(tmp_path).write_engine_cost(EngineCost(9, 611.6, 1.92))
    assert "9 processes, 612 MB of memory and 1.9 CPU s per minute" in fleet_check(fleet).said
