"""`magpie run --check` on applications whose source is a camera."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from source_kit import described

from edge import cli

GATE = {"id": "gate", "url": "rtsp://192.0.2.1/g", "classes": ["car"]}


def checked(tmp_path: Path, content: dict[str, Any], **site: Any) -> int:
    """The exit code for a site with the camera `gate` and this application."""
    (tmp_path / "models" / "plates").mkdir(parents=True, exist_ok=True)
    (tmp_path / "models" / "plates" / "model.yaml").write_text(yaml.safe_dump(content))
    whole = {
        "data_dir": str(tmp_path / "data"),
        "cameras": [GATE],
        "serving": {"folder": str(tmp_path / "models")},
    } | site
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(whole))
    return cli.main(["run", "--check", str(tmp_path / "site.yaml")])


def test_a_good_source_and_bad_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(tmp_path, described(source={"camera": "gate", "classes": ["car"]})) == 0
    bad = [
        ({"camera": "yard"}, "plates/model.yaml: source.camera: got 'yard'"),
        ({"camera": "gate", "classes": ["ship"]}, "plates/model.yaml: source.classes[0]: got 'ship'"),
        ({"camera": "gate", "most": 0}, "plates/model.yaml: source.most: got 0"),
    ]
    for source, words in bad:
        capsys.readouterr()
        assert checked(tmp_path, described(source=source)) == 1
        assert words in capsys.readouterr().err
    serving = {"folder": str(tmp_path / "models"), "load": []}
    assert checked(tmp_path, described(source={"camera": "yard"}), serving=serving) == 0, "it is not loaded"


def test_a_camera_may_have_been_added_by_rest(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "magpie.db").touch()
    assert checked(tmp_path, described(source={"camera": "yard"})) == 0
    assert checked(tmp_path, described(source={"camera": "gate", "classes": ["ship"]})) == 1
