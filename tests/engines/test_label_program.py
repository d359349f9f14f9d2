"""The program `label`: a folder's pictures become a COCO file, also where it is lost in between."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge.core.engine import EngineWork
from edge.core.errors import Conflict, InvalidValue, LabelError
from edge.core.vision import Detections
from edge.demo.scene import CLASSES, Scene, SceneSpec
from edge.detectors.pictures import jpeg_bytes
from edge.engines import label_program
from edge.engines.job_folders import VARIABLE, folders_text
from edge.engines.programs import check_work, run_program

WORK = {"folder": "night", "pictures": "day", "out": "labels/day.json", "teacher": "demo"}


class FakeTeacher:
    """Finds a car in each picture, and is lost at the picture `lost_at`."""

    name, classes = "fake", ("car", "truck")

    def __init__(self) -> None:
        self.asked, self.lost_at = 0, -1

    def label(self, picture: NDArray[np.uint8]) -> Detections:
        if self.asked == self.lost_at:
            raise KeyboardInterrupt
        self.asked += 1
        boxes = np.array([[0.25, 0.5, 0.5, 1.0]], np.float32)
        return Detections(boxes, np.array([0.75], np.float32), np.zeros(1, np.int64))


@pytest.fixture
def teacher(monkeypatch: pytest.MonkeyPatch) -> FakeTeacher:
    fake = FakeTeacher()
    monkeypatch.setattr(label_program, "open_teacher", lambda spec, threads: fake)
    return fake


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a box: three pictures of a day and one that is cut off, 40 x 20 pixels."""
    root = tmp_path / "night"
    monkeypatch.setenv(VARIABLE, folders_text({"night": str(root)}))
    picture = jpeg_bytes(np.full((20, 40, 3), 90, np.uint8))
    assert picture is not None
    for name in ("a.jpg", "b/c.JPG", "d.jpg"):
        path = root / "day" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture)
    (root / "day" / "cut.jpeg").write_bytes(picture[:100])
    (root / "day" / "notes.txt").write_text("no picture")
    return root


def run(**more: Any) -> Any:
    """The answer of the program as an engine runs it."""
    work: Generator[dict[str, Any], None, Any] = run_program("label", WORK | more)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def test_pictures_become_a_coco_file_and_done_work_is_not_done_again(night: Path, teacher: FakeTeacher) -> None:
    answer = run(classes=["truck", "car"])
    assert answer == {"pictures": 3, "objects": 3, "unreadable": 1, "again": 0}
    document = json.loads((night / "labels/day.json").read_text())
    assert [row["file_name"] for row in document["images"]] == ["a.jpg", "b/c.JPG", "d.jpg"]
    assert document["images"][0] == {"id": 1, "file_name": "a.jpg", "width": 40, "height": 20}
    assert document["annotations"][2] == {
        "id": 3, "image_id": 3, "category_id": 2, "bbox": [10.0, 10.0, 10.0, 10.0], "area": 100.0, "iscrowd": 0,
        "score": 0.75,
    }  # fmt: skip
    assert [row["name"] for row in document["categories"]] == ["truck", "car"]
    assert document["magpie"]["unreadable"] == ["cut.jpeg"]
    assert [path.name for path in (night / "labels").iterdir()] == ["day.json"]
    assert run(classes=["truck", "car"]) == answer | {"again": 4}, "its answer was lost, its file was not"
    assert teacher.asked == 3
    with pytest.raises(Conflict, match=r"day\.json is there already"):
        run()


def test_a_run_that_was_lost_goes_on_where_it_was(night: Path, teacher: FakeTeacher) -> None:
    run(out="whole.json")
    teacher.lost_at = teacher.asked + 2
    with pytest.raises(KeyboardInterrupt):
        run()
    so_far = night / "labels" / ".day.json.so-far"
    kept = so_far.read_bytes()
    assert kept.count(b"\n") == 4, "the work and three pictures"
    so_far.write_bytes(kept + b'{"file": "d.jpg", "wid')  # a loss cut its last line off
    teacher.lost_at = -1
    before = teacher.asked
    assert run() == {"pictures": 3, "objects": 3, "unreadable": 1, "again": 3}
    assert teacher.asked == before + 1
    whole, again = (json.loads((night / name).read_text()) for name in ("whole.json", "labels/day.json"))
    assert again == whole
    so_far.write_bytes(b'{"work": "another"}\n' + kept)
    (night / "labels/day.json").unlink()
    assert run()["again"] == 0, "lines of another work do not count"


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"folder": "a b"}, "folder"),
        ({"out": "day.txt"}, "out"),
        ({"out": "/etc/day.json"}, "out"),
        ({"out": "../day.json"}, "out"),
        ({"pictures": "day/../.."}, "pictures"),
        ({"teacher": "../demo.yaml"}, "teacher"),
        ({"teacher": 1}, "teacher"),
        ({"classes": ["car", "car"]}, "classes"),
        ({"classes": [""]}, "classes[0]"),
        ({"class_map": {"vehicle": ["car"]}}, "class_map"),
        ({"threads": 1.5}, "threads"),
        ({"threads": 0}, "threads"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_arguments_that_cannot_be_are_refused_when_the_job_is_submitted(more: dict[str, Any], path: str) -> None:
    check_work("work", EngineWork("label", WORK))
    with pytest.raises(InvalidValue) as caught:
        check_work("work", EngineWork("label", WORK | more))
    assert caught.value.path == f"work.arguments.{path}"


def test_nothing_outside_of_the_folders_is_read_or_written(night: Path, teacher: FakeTeacher, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "s.jpg").write_bytes((night / "day" / "a.jpg").read_bytes())
    (night / "link").symlink_to(tmp_path / "secret")
    (night / "day" / "s.jpg").symlink_to(tmp_path / "secret" / "s.jpg")
    for more, path in (
        ({"folder": "other"}, "folder"),
        ({"pictures": "link"}, "pictures"),
        ({"out": "link/x.json"}, "out"),
        ({"pictures": "none"}, "pictures"),
        ({"pictures": "labels"}, "pictures"),
        ({"teacher": "nobody"}, "teacher"),
    ):
        (night / "labels").mkdir(exist_ok=True)
        with pytest.raises(InvalidValue) as caught:
            run(**more)
        assert caught.value.path == f"arguments.{path}"
    with pytest.raises(LabelError, match="tree"):
        run(classes=["tree"])
    assert teacher.asked == 0
    assert run()["pictures"] == 3, "a picture that is a link is left out"


def test_a_real_teacher_finds_the_vehicles_of_a_street(night: Path) -> None:
    content = jpeg_bytes(Scene(SceneSpec(seed=5)).render(4.0)[0])
    assert content is not None
    (night / "day/b/c.JPG").write_bytes(content)
    answer = run(pictures="day/b")
    assert answer["pictures"] == 1
    assert answer["objects"] >= 2
    document = json.loads((night / WORK["out"]).read_text())
    assert {row["name"] for row in document["categories"]} <= set(CLASSES)
