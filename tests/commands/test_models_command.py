"""`magpie models` as it is typed, and `magpie run` on a site whose model files are missing."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from edge import cli

sys.path.insert(0, str(Path(__file__).parent.parent / "models"))

from lying_server import Answer, LyingServer
from models_kit import onnx_file

import configs

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def contents(tmp_path: Path) -> dict[str, bytes]:
    return {name: onnx_file(tmp_path / f"{name}.src", n).read_bytes() for n, name in enumerate(("free", "bound"))}


@pytest.fixture
def models(
    tmp_path: Path, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """`magpie models` with a catalogue of two: `free` under MIT, `bound` under the AGPL. ADDRESS is replaced."""
    monkeypatch.setenv("MAGPIE_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("no_proxy", "*")

    def run(*words: str, address: str = "http://127.0.0.1:1") -> tuple[int, str, str]:
        rows = [
            {
                "name": name, "file": f"{name}.onnx", "addresses": [f"{address}/{name}.onnx"],
                "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), "licence": licence,
                "attribution": "Ann Author", "what": f"the {name} net",
            }
            for (name, content), licence in zip(contents.items(), ("MIT", "AGPL-3.0-or-later"), strict=True)
        ]  # fmt: skip
        catalogue = tmp_path / "catalogue.yaml"
        catalogue.write_text(yaml.safe_dump({"models": rows}))
        code = cli.main(["models", words[0], "--catalogue", str(catalogue), *words[1:]])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_from_nothing_to_all(models: Run, contents: dict[str, bytes], tmp_path: Path) -> None:
    assert models("check") == (0, "0 files checked, 0 of them not as they should be\n", "")
    code, said, _ = models("list")
    assert code == 0
    assert said.splitlines()[0] == f"models folder: {tmp_path}/models"
    assert [line.split()[:2] for line in said.splitlines()[2:]] == [["free", "-"], ["bound", "-"]]
    assert "AGPL-3.0-or-later (to be accepted)" in said
    with LyingServer(contents["free"]) as server:
        code, said, errors = models("pull", "free", address=server.url(""))
        assert (code, errors) == (0, "")  # quiet without a terminal
        assert said.startswith("free: 0.0 MB, MIT, from http://")
        assert models("pull", "free", address=server.url(""))[1] == "free: 0.0 MB, MIT, was here\n"
    assert [line.split()[:2] for line in models("list")[1].splitlines()[2:]] == [["free", "here"], ["bound", "-"]]
    assert models("check")[1].startswith("good       free\n1 files checked")


def test_a_refused_licence_stops_only_its_model(models: Run, contents: dict[str, bytes], tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for name, content in contents.items():
        (mirror / f"{name}.onnx").write_bytes(content)
    code, said, errors = models("pull", "--all", "--from", str(mirror))
    assert code == 1
    assert said.startswith("free: ")
    assert "bound: its licence is AGPL-3.0-or-later: it obliges" in errors
    assert "--accept-licence AGPL-3.0-or-later" in errors
    assert not (tmp_path / "models" / "bound.onnx").exists()
    code, said, _ = models("pull", "bound", "--from", str(mirror), "--accept-licence", "AGPL-3.0")
    assert (code, "AGPL-3.0-or-later" in said) == (0, True)
    index = json.loads((tmp_path / "models" / "index.json").read_text())
    assert [(a["licence"], a["model"]) for a in index["accepted"]] == [("AGPL-3.0", "bound")]
    assert index["accepted"][0]["by"]
    assert index["accepted"][0]["at"].endswith("Z")
    (tmp_path / "models" / "bound.onnx").unlink()
    assert models("pull", "bound", "--from", str(mirror))[0] == 0  # remembered
    assert "to be accepted" not in models("list")[1]


def test_what_breaks_off_goes_on_with_the_next_pull(
    models: Run, contents: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with LyingServer(contents["free"], Answer(cut=5000), Answer(status=404, content=b"")) as server:
        code, _, errors = models("pull", "free", address=server.url(""))
    assert code == 1
    assert "broke off after 5000 of" in errors
    assert "again in 1 s" in errors
    assert "free could not be fetched" in errors
    code, said, _ = models("check")
    assert (code, said.splitlines()[0]) == (1, "HALF HERE  free: `magpie models pull free` brings the rest")
    assert "half here" in models("list")[1]
    with LyingServer(contents["free"]) as server:
        assert models("pull", "free", address=server.url(""))[0] == 0
    assert server.asked[0].range == "bytes=5000-"


def test_check_names_what_is_wrong(models: Run, contents: dict[str, bytes], tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    wrong = bytes(255 - b for b in contents["free"])
    (folder / "free.onnx").write_bytes(wrong)
    (folder / "bound.onnx").write_bytes(b"short")
    (folder / "stranger.onnx").write_bytes(b"?")
    (folder / f"{'ab' * 32}.safetensors").write_bytes(b"a camera's own model: the store's")
    code, said, _ = models("check")
    assert code == 1
    lines = said.splitlines()
    assert lines[0].startswith("SWAPPED    free: free.onnx has the SHA-256 " + hashlib.sha256(wrong).hexdigest())
    assert hashlib.sha256(contents["free"]).hexdigest() in lines[0]
    assert lines[1].startswith("SWAPPED    bound: bound.onnx")
    assert lines[2].startswith("UNKNOWN    stranger.onnx")
    (folder / "bound.onnx").unlink()
    code, said, _ = models("check", "bound")
    assert (code, said.splitlines()[0]) == (1, f"MISSING    bound: {folder}/bound.onnx is not there")
    code, _, errors = models("check", "nobody")
    assert (code, "no model 'nobody' is known" in errors) == (1, True)


def test_add(models: Run, contents: dict[str, bytes], tmp_path: Path) -> None:
    mine = onnx_file(tmp_path / "net.onnx", 7.0)
    code, said, _ = models("add", str(mine), "--name", "mine", "--licence", "LicenseRef-Ours")
    assert code == 0
    assert "${MAGPIE_MODELS}/mine.onnx" in said
    assert "mine" in models("list")[1]
    code, _, errors = models("add", str(mine), "--name", "bad", "--licence", "AGPL-3.0")
    assert (code, "bad: its licence is AGPL-3.0" in errors) == (1, True)
    assert models("add", str(mine), "--name", "bad", "--licence", "AGPL-3.0", "--accept-licence", "AGPL-3.0")[0] == 0
    code, _, errors = models("add", str(mine), "--name", "x", "--licence", "MIT", "--accept-licence", "AGPL-3.0")
    assert (code, "--accept-licence" in errors) == (1, True)
    (tmp_path / "text.onnx").write_text("hello")
    code, _, errors = models("add", str(tmp_path / "text.onnx"), "--name", "x", "--licence", "MIT")
    assert (code, "onnxruntime cannot open it" in errors) == (1, True)
    assert models("check")[0] == 0


def test_list_for_programs(models: Run, tmp_path: Path) -> None:
    value = json.loads(models("list", "--json")[1])
    assert value["folder"] == str(tmp_path / "models")
    assert [(m["name"], m["state"], m["refused"]) for m in value["models"]] == [
        ("free", "missing", False), ("bound", "missing", True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pull",), "NAME"), (("pull", "free", "--all"), "NAME"), (("pull", "nobody"), "'nobody' is neither"),
        (("pull", "free", "--from", "/absent"), "--from"), (("pull", "free", "--from", "ftp://x.example"), "--from"),
        (("pull", "free", "--accept-licence", "AGPL-3.0"), "a licence of what is pulled: MIT"),
        (("list", "--folder", "/dev/null/x"), "/dev/null/x"),
    ],
)  # fmt: skip
def test_what_is_refused(models: Run, words: tuple[str, ...], said: str) -> None:
    code, _, errors = models(*words)
    assert code == 1
    assert said in errors
    assert "Traceback" not in errors


def test_what_comes_with_magpie_is_not_fetched(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["models", "pull", "demo"]) == 0
    assert "comes with Magpie" in capsys.readouterr().out


def test_wrong_usage_is_2() -> None:
    for words in (["models"], ["models", "fetch"], ["models", "add", "x"]):
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        assert end.value.code == 2


def test_it_starts_without_torch() -> None:
    code = "import edge.commands.models, sys; heavy = {'torch', 'onnxruntime', 'cv2', 'fastapi'} & set(sys.modules); "
    out = subprocess.run([sys.executable, "-c", f"{code}sys.exit(str(heavy) if heavy else 0)"], check=False)
    assert out.returncode == 0


def test_progress_on_a_terminal(models: Run, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with LyingServer(contents["free"]) as server:
        _, said, errors = models("pull", "free", address=server.url(""))
    assert "free  0.0 of 0.0 MB" in errors
    assert errors.endswith("\r\x1b[K")
    assert "\r" not in said


# -- magpie run


def test_run_says_what_is_missing_and_the_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAGPIE_MODELS", str(tmp_path / "models"))
    site = tmp_path / "site.yaml"
    teacher = Path(configs.__file__).parent / "teachers" / "traffic_ensemble.yaml"
    site.write_text(f"teacher: {teacher}\ndata_dir: {tmp_path / 'data'}\n")
    for words in (["run", "--check", str(site)], ["run", str(site)]):
        assert cli.main(words) == 1
        errors = capsys.readouterr().err
        assert "traffic_ensemble needs 3 model files" in errors
        assert f"{tmp_path}/models/yolox_nano.onnx (not there)" in errors
        assert "magpie models pull traffic_ensemble" in errors
    assert not (tmp_path / "data").exists()  # nothing was started


def test_run_refuses_a_licence_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAGPIE_MODELS", str(tmp_path / "models"))
    onnx_file(tmp_path / "net.onnx")
    teacher = "kind: onnx\nfile: net.onnx\nlicence: AGPL-3.0\ninput: {width: 64, height: 64}\noutput: {kind: cells}\n"
    (tmp_path / "bound.yaml").write_text(teacher)
    site = tmp_path / "site.yaml"
    site.write_text("teacher: bound.yaml\n")
    assert cli.main(["run", "--check", str(site)]) == 1
    errors = capsys.readouterr().err
    assert "bound: its licence is AGPL-3.0" in errors
    command = errors[errors.index("magpie models add") :].split(" takes it")[0]
    assert cli.main(command.split()[1:]) == 0
    assert cli.main(["run", "--check", str(site)]) == 0
