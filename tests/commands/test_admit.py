"""`magpie admit`: offline from a file, and of an appliance over HTTP."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_kit import QuietHandler, answering

from edge.cli import main

DEVICE = {
    "format": "gpulet-device/1",
    "name": "toy",
    "latency_ms": {"plates": {str(p): [400 / p, 500 / p] for p in range(10, 101, 10)}},
}
CAMERA = {"id": "gate", "start_accuracy": 0.5, "inference_profile": {"kind": "linear", "max_gpu": 0.2}}
WINDOW = {"format": "retrain-infer-window/1", "num_gpus": 1, "window_s": 100, "delta": 0.1, "streams": [CAMERA]}


def document(**more: Any) -> dict[str, Any]:
    return {
        "format": "admission/1",
        "capacity": 0.9,
        "device": DEVICE,
        "window": WINDOW,
        "candidate": {"model": {"name": "plates", "rate": 10, "slo_ms": 100}},
    } | more


def answer(tmp_path: Path, value: Any, *more: str) -> int:
    path = tmp_path / "admission.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return main(["admit", str(path), *more])


def test_a_model_that_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(tmp_path, document()) == 0
    said = capsys.readouterr().out
    assert said.startswith("model plates: fits")
    assert "camera gate: accuracy" in said


def test_a_model_that_does_not_fit_and_the_rate_that_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    much = document(candidate={"model": {"name": "plates", "rate": 1000, "slo_ms": 100}})
    assert answer(tmp_path, much, "--json") == 3
    said = json.loads(capsys.readouterr().out)
    assert not said["admitted"]
    assert 0 < said["most_rate"] < 1000
    fits = document(candidate={"model": {"name": "plates", "rate": said["most_rate"], "slo_ms": 100}})
    assert answer(tmp_path, fits) == 0


@pytest.mark.parametrize("candidate", [{"id": "yard"}, {"id": "yard", "like": "gate"}, CAMERA | {"id": "yard"}])
def test_a_camera(tmp_path: Path, capsys: pytest.CaptureFixture[str], candidate: dict[str, Any]) -> None:
    assert answer(tmp_path, document(candidate={"camera": candidate}), "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert {c["camera"] for c in said["cameras"]} == {"gate", "yard"}


def test_files_are_taken_from_the_folder_of_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "device.json").write_text(json.dumps(DEVICE), encoding="utf-8")
    (tmp_path / "window.json").write_text(json.dumps(WINDOW), encoding="utf-8")
    named = document(device=None, device_file="device.json", window=None, window_file="window.json")
    assert answer(tmp_path, named) == 0
    assert answer(tmp_path, named | {"device_file": "nowhere.json"}) == 1
    assert "nowhere.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "admission/2"}, "format"),
        ({"capacty": 1}, "capacty"),
        ({"capacity": 0}, "capacity"),
        ({"capacity": 10**400}, "capacity"),
        ({"device": DEVICE | {"latency_ms": {"plates": {"10": [10**400]}}}}, "latency_ms"),
        ({"candidate": {}}, "candidate"),
        ({"candidate": {"model": {"name": "plates", "rate": 1}}}, "candidate.model.slo_ms"),
        ({"candidate": {"model": {"name": "speech", "rate": 1, "slo_ms": 10}}}, "speech"),
        ({"candidate": {"camera": {"id": "gate"}}}, "no camera has"),
        ({"candidate": {"camera": {"id": "a", "like": "b"}}}, "like"),
        ({"candidate": {"camera": {"id": "a", "start_accuracy": 3}}}, "candidate.camera"),
        ({"window": None, "candidate": {"camera": {"id": "a"}}}, "no camera is there"),
        ({"policy": "best"}, "policy"),
        ({"policy": ["best"]}, "policy"),
        ({"window_policy": {}}, "window_policy"),
        ({"serving": {"format": "gpulet-problem/1", "models": [], "devices": 4}}, "serving.devices"),
        ({"device_file": "x.json"}, "either device or device_file"),
    ],
)
def test_bad_documents_are_refused_with_the_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], words: str
) -> None:
    assert answer(tmp_path, document(**change)) == 1
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


@pytest.fixture
def appliance() -> Iterator[tuple[str, list[Any]]]:
    """A server that answers as an appliance does: its address, and what it was asked."""
    asked: list[Any] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append((self.path, body, self.headers["authorization"]))
            known = body.get("model", {}).get("name") != "speech"
            within = {"tenant": "streets", "within": "spare", "entitlement": 0.3, "held": 0.3, "share_after": 0.35}
            answered = {"candidate": "plates", "kind": "model", "admitted": True, "yields": [], "models": [],
                        "reasons": [{"code": "fits", "message": "it fits"}], "cameras": [],
                        "tenants": within}  # fmt: skip
            refused = {"error": {"code": "invalid_value", "message": "model.name: got 'speech'"}}
            out = json.dumps(answered if known else refused).encode()
            self.send_response(200 if known else 422)
            self.send_header("content-length", str(len(out)))
            self.end_headers()
            self.wfile.write(out)

    with answering(Handler) as address:
        yield address, asked


def test_an_appliance_is_asked(appliance: tuple[str, list[Any]], capsys: pytest.CaptureFixture[str]) -> None:
    url, asked = appliance
    assert main(["admit", "--url", url, "--model", "plates", "--rate", "40", "--slo-ms", "80"]) == 0
    assert main(["admit", "--url", url + "/", "--camera", "east", "--like", "gate", "--tenant", "streets"]) == 0
    assert asked == [
        ("/api/v1/admission", {"model": {"name": "plates", "rate": 40.0, "slo_ms": 80.0, "priority": 0}}, None),
        ("/api/v1/admission", {"camera": {"id": "east", "like": "gate"}, "tenant": "streets"}, None),
    ]
    printed = capsys.readouterr().out
    assert "it fits" in printed
    assert "tenant streets: with what others leave beyond its 0.30 by right; share 0.30 -> 0.35" in printed
    assert main(["admit", "--url", url, "--model", "speech", "--rate", "1", "--slo-ms", "80"]) == 1
    assert "model.name: got 'speech'" in capsys.readouterr().err


def test_a_token_goes_along(appliance: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    url, asked = appliance
    monkeypatch.setenv("MAGPIE_TEST_TOKEN", "mgp_x")
    assert main(["admit", "--url", url, "--camera", "east", "--token-from", "env:MAGPIE_TEST_TOKEN"]) == 0
    assert asked[0][2] == "Bearer mgp_x"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "either a file or --url"),
        (["--url", "ftp://x", "--camera", "a"], "http"),
        (["--url", "http://127.0.0.1:9", "--camera", "a"], "no appliance answers"),
        (["--url", "http://127.0.0.1:9"], "one of the three"),
        (["--url", "http://127.0.0.1:9", "--model", "a", "--rate", "1"], "--slo-ms"),
    ],
)
def test_wrong_use_is_explained(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admit", *arguments]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "said", [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n[1]", b"HTTP/1.1 200 OK\r\n"
             b"content-length: 9\r\n\r\n{}"]
)  # fmt: skip
def test_what_is_no_appliance_is_said(said: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_once() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(said)

        threading.Thread(target=answer_once, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert main(["admit", "--url", url, "--camera", "a"]) == 1
    assert "no appliance answers" in capsys.readouterr().err


def test_an_address_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["admit", "--url", "http://127.0.0.1:port", "--camera", "a"]) == 1
    assert "no appliance answers" in capsys.readouterr().err


def test_it_starts_without_torch() -> None:
    code = "import edge.commands.admit, sys; sys.exit(bool({'torch', 'cv2', 'fastapi'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


PIPELINE = {
    "platform": "pipeline",
    "slo_ms": 200,
    "rate": 5,
    "inputs": [{"name": "picture", "datatype": "UINT8", "shape": [-1, 8, 8, 3]}],
    "outputs": [{"name": "text", "datatype": "FP32", "shape": [-1, 3], "from": "read.text"}],
    "stages": [
        {"name": "find", "model": "plates", "inputs": {"picture": "picture"}},
        {"name": "read", "model": "plates", "inputs": {"picture": "find.cut"}},
    ],
}


def with_read(**more: Any) -> dict[str, Any]:
    """`PIPELINE`, its second stage changed."""
    return PIPELINE | {"stages": [PIPELINE["stages"][0], PIPELINE["stages"][1] | more]}


def test_a_pipeline_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = document(candidate={"pipeline": {"name": "gate", "description": PIPELINE}})
    assert answer(tmp_path, asked) == 0
    said = capsys.readouterr().out
    assert said.startswith("pipeline gate: fits")
    assert "stage find (plates): " in said
    serving = {"models": [{"name": "plates", "rate": 10, "slo_ms": 200}]}
    there = [{"name": "gate", "description": PIPELINE}]
    changed = asked | {"serving": serving, "pipelines": there, "candidate": {"pipeline": there[0] | {"rate": 20}}}
    assert answer(tmp_path, changed, "--json") == 0
    assert [m["rate"] for m in json.loads(capsys.readouterr().out)["models"]] == [40]
    assert answer(tmp_path, asked | {"split": "even"}, "--json") == 0
    assert [b["budget_ms"] for b in json.loads(capsys.readouterr().out)["budgets"]] == [100.0, 100.0]
    assert answer(tmp_path, asked | {"split": "best"}) == 1
    assert "split" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pipeline", "path"),
    [
        ({"name": "gate", "description": PIPELINE, "rate": 0}, "candidate.pipeline.rate"),
        ({"name": "gate", "description": PIPELINE, "rate": 1e9}, "candidate.pipeline.rate: got 1000000000.0"),
        ({"name": "gate", "description": PIPELINE, "slo_ms": 0}, "candidate.pipeline.slo_ms: got 0.0"),
        ({"name": "gate", "description": PIPELINE, "slo_ms": 0.001}, "candidate.pipeline.slo_ms: got 0.001"),
        ({"name": "gate"}, "candidate.pipeline.description"),
        ({"name": "gate", "description": PIPELINE | {"slo_ms": "soon"}}, "candidate.pipeline.description.slo_ms"),
        ({"name": "gate", "description": PIPELINE | {"slo_ms": 3}}, "candidate.pipeline.slo_ms: got 3.0, allowed: at"),
        ({"name": "gate", "description": PIPELINE | {"stages": PIPELINE["stages"][1:]}}, "description.stages[read].in"),
        ({"name": "gate", "description": with_read(inputs={})}, "candidate.pipeline.description.stages.1.inputs"),
        ({"name": "gate", "description": with_read(inputs={"p": "read.text"})}, "description.stages: got ['read']"),
        ({"name": "gate", "description": with_read(per_request=0)}, "description.stages.1.per_request: got 0"),
        (
            {"name": "gate", "description": with_read(model="speech")},
            "candidate.pipeline.stages[1].model: got 's",
        ),
    ],
)
def test_a_bad_pipeline_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pipeline: dict[str, Any], path: str
) -> None:
    assert answer(tmp_path, document(candidate={"pipeline": pipeline})) == 1
    assert path in capsys.readouterr().err


@pytest.mark.parametrize(
    ("latencies", "path"),
    [
        ([None, 50], "latency_ms.plates.10[0]: got None"),
        ([0, 50], "latency_ms.plates.10[0]: got 0"),
        ([], "latency_ms.plates.10: got ()"),
    ],
)
def test_a_table_without_batch_1_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], latencies: list[float | None], path: str
) -> None:
    device = DEVICE | {"latency_ms": {"plates": {"10": latencies}}}
    assert (
        answer(tmp_path, document(device=device, candidate={"pipeline": {"name": "a", "description": PIPELINE}})) == 1
    )
    assert path in capsys.readouterr().err


@pytest.mark.parametrize(
    "row",
    [[50, 40, 30], [40, 40, 40]],
    ids=["larger batches are faster", "alike"],
)
def test_odd_tables_get_an_answer(tmp_path: Path, row: list[float]) -> None:
    device = DEVICE | {"latency_ms": {"plates": {str(p): [x * 10 / p for x in row] for p in (10, 50, 100)}}}
    assert (
        answer(tmp_path, document(device=device, candidate={"pipeline": {"name": "a", "description": PIPELINE}})) == 0
    )


def test_a_fan_out_of_10_000_does_not_fit_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = {"name": "gate", "description": with_read(per_request=10_000)}
    assert answer(tmp_path, document(candidate={"pipeline": pipeline})) == 3
    assert "plates: 50000 requests/s within 100 ms do not fit" in capsys.readouterr().out


def test_an_appliance_is_asked_about_a_pipeline(
    tmp_path: Path, appliance: tuple[str, list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    url, asked = appliance
    (tmp_path / "gate").mkdir()
    path = tmp_path / "gate" / "model.yaml"
    path.write_text(json.dumps(PIPELINE), encoding="utf-8")  # JSON is YAML
    main(["admit", "--url", url, "--pipeline", str(path), "--rate", "7"])
    main(["admit", "--url", url, "--pipeline", "gate", "--slo-ms", "90"])
    main(["admit", "--url", url, "--pipeline", "gate", "--policy", "squishy", "--split", "even"])
    assert [body for _, body, _ in asked] == [
        {"pipeline": {"name": "gate", "description": PIPELINE, "rate": 7.0}},
        {"pipeline": {"name": "gate", "slo_ms": 90.0}},
        {"pipeline": {"name": "gate"}, "policy": "squishy", "split": "even"},
    ]
    capsys.readouterr()
    path.write_text(json.dumps(PIPELINE | {"slo_ms": 0}), encoding="utf-8")
    assert main(["admit", "--url", url, "--pipeline", str(path)]) == 1
    assert "slo_ms" in capsys.readouterr().err
    assert len(asked) == 3, "what is wrong is not sent"
