"""`magpie profile`: real measuring of a model that costs nothing, and what is refused before anything is measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from edge.cli import main
from edge.commands.profile import table_text
from edge.core.errors import ShareError
from edge.core.serving import DeviceTable, ModelBatch, ServedModel, ServingProblem
from edge.shares import discover
from scheduler.gpulets.policies import serving_policy

TABLES = Path(__file__).resolve().parents[2] / "configs" / "tables"
ECHO = {
    "platform": "identity",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 16]}],
    "outputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 16]}],
    "slo_ms": 100,
    "max_batch": 2,
}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A repository of one model that answers what it is sent."""
    version = tmp_path / "models" / "echo" / "1"
    version.mkdir(parents=True)
    (version.parent / "model.yaml").write_text(yaml.safe_dump(ECHO))
    return tmp_path / "models"


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edge.cli", "profile", *(str(w) for w in words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_table_of_a_repository_can_be_planned_with(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "table.json"
    done = run(
        "--models", models, "--out", out, "--quick", "--budget", "20", "--shares", "20,100", "--share-kind", "coop"
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "about" in done.stderr
    table = DeviceTable.from_json(json.loads(out.read_text()))
    assert table.shares == (20, 100)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == [], "nothing half-written is left"
    plan = serving_policy("elastic").plan(ServingProblem((ServedModel("echo", 20.0, 100.0),)), table)
    assert plan.schedulable, plan.reasons
    assert all(isinstance(part, ModelBatch) for g in plan.gpulets for part in g.models)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "SITE"),
        (("--models", "nowhere"), "nowhere"),
        (("--models", "{models}", "--only", "plates"), "no such model (it has echo)"),
        (("--models", "{models}", "--shares", "0,50"), "--shares"),
        (("--models", "{models}", "--shares", "half"), "--shares"),
        (("--models", "{models}", "--shares", "50,300"), "shares"),
        (("--models", "{models}", "--budget", "0"), "budget_s"),
        (("--models", "{models}", "--pairs", "-1"), "pairs"),
        (("--models", "{models}", "--out", "no/folder/t.json"), "--out"),
        (("--models", "{models}", "--base", "{models}/echo/model.yaml"), "JSON"),
        (("--models", "{models}", "--device", "GPU-0"), "device"),
        (("--models", "{models}", "--share-kind", "wishes"), "share_kind"),
    ],
)
def test_bad_input_is_named(
    models: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert main(["profile", *(w.format(models=models) for w in words)]) == 1
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""


def test_a_site_must_serve_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("site: gate\n")
    assert main(["profile", str(site)]) == 1
    assert "serving" in capsys.readouterr().err


def test_a_model_that_cannot_be_read_is_named(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (models / "echo" / "model.yaml").write_text("platform: pickle\n")
    assert main(["profile", "--models", str(models)]) == 1
    assert "echo/model.yaml: platform" in capsys.readouterr().err


def test_the_owner_of_profiling_loads_no_torch() -> None:
    code = "import edge.runtime.serving_profiler, edge.commands.profile, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_text_of_a_table_is_the_table() -> None:
    table = DeviceTable("t", {"a": {50: (1.0, 2.5)}}, {}, details={"notes": ["two  [words] {x}", "b"], "none": []})
    text = table_text(table)
    assert DeviceTable.from_json(json.loads(text)) == table
    assert '"50": [1.0, 2.5]' in text


@pytest.mark.parametrize("path", sorted(TABLES.glob("*.json")), ids=lambda p: p.name)
def test_shipped_tables_can_be_planned_with_and_name_their_machine(path: Path) -> None:
    table = DeviceTable.from_json(json.loads(path.read_text(encoding="utf-8")))
    assert {"name", "device", "units", "share_kind"} <= table.details["machine"].keys()
    assert {"at_utc", "quantile", "others_busy_cores"} <= table.details["measured"].keys()
    assert table.memory_mb.keys() == table.latency_ms.keys() == table.utilisation.keys()
    for model, rows in table.latency_ms.items():
        for batch in range(table.max_batch(model, table.shares[0])):
            column = [rows[share][batch] for share in table.shares]
            assert column == sorted(column, reverse=True)
        assert all(list(row) == sorted(row) for row in rows.values())
        assert table.busy_ms(model, table.shares[0], 1) <= table.solo_ms(model, table.shares[0], 1) * 1.001
    problem = ServingProblem(tuple(ServedModel(m, 5.0, 200.0) for m in table.latency_ms), 1, 0.6)
    plan = serving_policy("mosaic").plan(problem, table)
    assert plan.schedulable, plan.reasons


def test_profile_and_run_take_the_same_device_of_a_box_with_a_gpu(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are stopped when they open the device, which is noted."""
    gpu = discover.DeviceInfo("gpu", "GPU-0", "a card", None, 8 * 2**30)
    cpu = next(d for d in discover.devices() if d.kind == "cpu")
    opened: list[tuple[str, object]] = []

    def refuse(device: discover.DeviceInfo, prefer: object = None, **_: object) -> discover.Choice:
        opened.append((device.id, prefer))
        raise ShareError("noted")

    monkeypatch.setattr(discover, "open_partitioner", refuse)
    monkeypatch.setattr(discover, "devices", lambda: (gpu, cpu))
    for device, kind in (("auto", "auto"), ("cpu", "cgroup")):
        site = tmp_path / f"{device}.yaml"
        site.write_text(
            f"data_dir: {tmp_path / device}\nmachine: {{device: {device}, share_kind: {kind}}}\nweb: {{port: 0}}\n"
            f"serving: {{folder: {models}}}\n"
        )
        assert main(["profile", str(site)]) == 1
        assert main(["run", str(site)]) == 1
        assert capsys.readouterr().err.count("noted") == 2
    assert opened == [("GPU-0", None)] * 2 + [("cpu", "cgroup")] * 2
