"""Labelled windows on disk: what is read back, what retention and damage leave, and that no request becomes a path."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge.appliance import labelled_pictures as labelled
from edge.core.errors import NotFound
from edge.core.labels import LabelledFrame, LabelledWindow, SampledFrame
from edge.core.vision import Detections
from edge.recording.labelled_windows import manifest_path
from edge.recording.recorder import window_folder

CAR, PERSON = [0.1, 0.4, 0.3, 0.6], [0.6, 0.5, 0.65, 0.7]


def _frame(data: Path, window: int, number: int, answer: list[int], labels: list[int]) -> LabelledFrame:
    """One picture with the same two places; `answer` and `labels` are classes at them."""
    folder = window_folder(data / "pictures", "north", window)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:08d}.jpg"
    assert cv2.imwrite(str(path), np.full((90, 160, 3), number % 250, np.uint8))

    def objects(classes: list[int]) -> Detections:
        return Detections.build([CAR, PERSON][: len(classes)], [0.9] * len(classes), classes)

    sample = SampledFrame("north", window, number, 1000.0 * window + number, path, objects(answer), f"north-w{window}")
    return LabelledFrame(sample, objects(labels), "teacher")


def _keep(data: Path, window: int, frames: tuple[LabelledFrame, ...]) -> None:
    value = LabelledWindow("north", window, "detection", ("car", "bus", "person"), frames[:1], frames[1:])
    path = manifest_path(data, "north", window)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value.to_json()))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two windows: in the first a missed person, in the second a bus called a car and a picture they agree on."""
    _keep(tmp_path, 1, (_frame(tmp_path, 1, 5, [0], [0, 2]),))
    _keep(tmp_path, 2, (_frame(tmp_path, 2, 7, [0, 2], [1, 2]), _frame(tmp_path, 2, 9, [0, 2], [0, 2])))
    return tmp_path


def test_disagreements_come_newest_first_with_both_sides(data: Path) -> None:
    newest, oldest = labelled.disagreements(data, "north", 10)
    assert (newest["window"], newest["frame"], newest["kinds"]) == (2, 7, ["class"])
    assert newest["model_version"] == "north-w2"
    assert (newest["width"], newest["height"]) == (160, 90)
    assert [(o["class"], o["verdict"]) for o in newest["student"]] == [("car", "class"), ("person", "right")]
    assert [(o["class"], o["verdict"]) for o in newest["teacher"]] == [("bus", "class"), ("person", "right")]
    assert newest["student"][0]["box"] == CAR
    assert (oldest["window"], oldest["frame"], oldest["kinds"]) == (1, 5, ["missed"])
    assert labelled.disagreements(data, "north", 1) == [newest]


def test_the_picture_is_the_recorded_one_wherever_the_data_folder_lies_now(
    data: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    jpeg = (window_folder(data / "pictures", "north", 2) / "00000007.jpg").read_bytes()
    assert labelled.picture(data, "north", 2, 7) == jpeg
    moved = tmp_path_factory.mktemp("restored") / "data"
    data.rename(moved)
    assert labelled.picture(moved, "north", 2, 7) == jpeg
    assert len(labelled.disagreements(moved, "north", 10)) == 2


@pytest.mark.parametrize(("window", "frame"), [(2, 8), (3, 7), (1, 7)])
def test_what_no_manifest_names_is_not_there(data: Path, window: int, frame: int) -> None:
    with pytest.raises(NotFound, match=f"frame {frame} in window {window}"):
        labelled.picture(data, "north", window, frame)


def test_a_name_in_a_manifest_leads_nowhere_else(data: Path) -> None:
    secret = data / "secret.jpg"
    secret.write_bytes(b"not a picture")
    path = manifest_path(data, "north", 1)
    value = json.loads(path.read_text())
    value["train"][0]["frame"]["path"] = "../../../secret.jpg"
    path.write_text(json.dumps(value))
    with pytest.raises(NotFound):
        labelled.picture(data, "north", 1, 5)


def test_pictures_deleted_by_retention_and_damaged_manifests_are_left_out(data: Path) -> None:
    (window_folder(data / "pictures", "north", 2) / "00000007.jpg").unlink()
    assert [d["window"] for d in labelled.disagreements(data, "north", 10)] == [1]
    with pytest.raises(NotFound):
        labelled.picture(data, "north", 2, 7)
    manifest_path(data, "north", 1).write_text('{"camera": "north"')
    assert labelled.disagreements(data, "north", 10) == []
    assert [c["window"] for c in labelled.classes(data, "north", 10)] == [2]
    assert labelled.classes(data, "south", 10) == []


def test_classes_are_counted_per_window(data: Path) -> None:
    second, first = labelled.classes(data, "north", 10)
    assert (second["window"], second["frames"], second["start_utc_s"]) == (2, 2, 2007.0)
    assert second["teacher"] == {"car": 1, "bus": 1, "person": 2}
    assert second["student"] == {"car": 2, "bus": 0, "person": 2}
    assert first["teacher"] == {"car": 1, "bus": 0, "person": 1}
    assert [c["window"] for c in labelled.classes(data, "north", 1)] == [2]


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xd8", b"\xff\xd8\xff\xda\x00\x08", b"\x89PNG\r\n", b"\xff\xd8\xff\xe0\x00\x00"]
)
def test_what_is_no_jpeg_has_no_size(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "picture.jpg"
    path.write_bytes(content)
    assert labelled.jpeg_size(path) is None
    assert labelled.jpeg_size(tmp_path / "absent.jpg") is None
