"""`magpie labels` on a data folder: out, in, and files that are none."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from truth_kit import Street, street

from edge.cli import main
from edge.store.store import Store


@pytest.fixture
def world(upgraded_data: Path) -> Street:
    found = street(upgraded_data, window=2, frames=4)
    with Store(None, upgraded_data) as store:
        store.settings.put_camera("north", {}, "test")
    return found


def _labels(world: Street, folder: Path) -> Path:
    folder.mkdir()
    (folder / "classes.txt").write_text("car\nbus\n")
    for key, truth in world.truth.items():
        rows = [
            f"{c} {(b[0] + b[2]) / 2:.6f} {(b[1] + b[3]) / 2:.6f} {b[2] - b[0]:.6f} {b[3] - b[1]:.6f}\n"
            for b, c in zip(truth.boxes, truth.classes, strict=True)
        ]
        (folder / f"w{key.window}-f{key.frame}.txt").write_text("".join(rows))
    return folder


def test_labels_of_a_folder_come_in_and_go_out_as_both_formats(
    world: Street, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--camera", "north", "--data-dir", str(tmp_path / "data")]
    given = str(_labels(world, tmp_path / "labels"))
    assert main(["labels", "import", *where, "--format", "yolo", given, "--complete"]) == 0
    assert "from 4 pictures; 0 were there already" in capsys.readouterr().out
    for form, name in (("coco", "out.json"), ("yolo", "out.zip")):
        assert main(["labels", "export", *where, "--format", form, "--out", str(tmp_path / name)]) == 0
    document = json.loads((tmp_path / "out.json").read_text())
    objects = sum(len(t) for t in world.truth.values())
    assert len(document["annotations"]) == objects, "each object once, found or missed"
    assert all(i["magpie"]["complete"] for i in document["images"])
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert archive.read("complete.txt").decode().count("\n") == 4
    capsys.readouterr()
    for form, name in (("coco", "out.json"), ("yolo", "out.zip")):
        assert main(["labels", "import", *where, "--format", form, str(tmp_path / name)]) == 0
        assert capsys.readouterr().out.startswith("0 answers added"), "what is there is not added again"


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "a COCO file"), ("[]", "a COCO file"), ("{}", "images"),
     ('{"categories": [], "images": [], "annotations": []}', "at least one")],
)  # fmt: skip
def test_a_file_that_is_none_is_refused_in_words(
    world: Street, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (tmp_path / "bad.json").write_text(text)
    assert (
        main(
            ["labels", "import", "--camera", "north", "--data-dir", str(tmp_path / "data"), str(tmp_path / "bad.json")]
        )
        == 1
    )
    said = capsys.readouterr().err
    assert words in said or "categories" in said
    assert "Traceback" not in said


def test_wrong_places_are_said(world: Street, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "x.json")]
    assert main(["labels", "export", "--camera", "north", *out]) == 1
    assert "one of the two" in capsys.readouterr().err
    assert main(["labels", "export", "--camera", "west", "--data-dir", str(tmp_path / "data"), *out]) == 1
    assert "camera west does not exist" in capsys.readouterr().err
    assert main(["labels", "export", "--camera", "north", "--url", "http://127.0.0.1:9", *out]) == 1
    assert "no appliance answers" in capsys.readouterr().err
    with Store(None, tmp_path / "data"):
        assert main(["labels", "export", "--camera", "north", "--data-dir", str(tmp_path / "data"), *out]) == 1
    assert "is in use" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()
