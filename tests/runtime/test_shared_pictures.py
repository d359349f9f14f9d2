"""Labelled pictures as another box gets them, and as they are read there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_sibling_starts import LOOK, frames

from edge.core.box_groups import MOST_SHARED, SharedCamera
from edge.core.errors import InvalidValue
from edge.core.labels import LabelledFrame, LabelledWindow
from edge.core.vision import Detections
from edge.core.ways import MovingAnswer
from edge.runtime.box_groups_folder import BoxGroupsFolder
from edge.runtime.shared_pictures import packed_pictures, read_guest

REGION = (0.0, 0.25, 1.0, 1.0)
BOX = Detections.build([[0.25, 0.25, 0.5, 0.5]], [0.75], [0])
GOING = MovingAnswer(BOX, np.zeros((len(BOX), 3), np.float32))


def labelled(folder: Path, count: int = 6) -> LabelledWindow:
    """Three pictures to train on, one to judge by, an exemplar, and one that was kept out."""
    seen = tuple(
        LabelledFrame(
            replace(f, answer=BOX, answer_version="north-w3", going=GOING), BOX, "t", 0.5, 1, None, BOX,
        )
        for f in frames(folder, count, camera="north")
    )  # fmt: skip
    for n, frame in enumerate(seen):  # no two alike
        frame.frame.path.write_bytes(frame.frame.path.read_bytes() + bytes([n]))
    return LabelledWindow("north", 2, "detection", ("car",), seen[:3], seen[3:4], seen[4:5], seen[5:])


def carried(tmp_path: Path, change: Callable[[dict[str, Any]], None] | None = None) -> tuple[Any, BoxGroupsFolder]:
    """The pictures as the agents carry them to another box; `change` is made to their description."""
    data = labelled(tmp_path)
    packed = packed_pictures(data, REGION, tmp_path / "manifests")
    content = Path(packed.paths[packed.manifest]).read_bytes()
    there = BoxGroupsFolder(tmp_path / "there")
    document = json.loads(content)
    if change is not None:
        change(document)
    for digest in document["sizes"]:
        target = there.guest_blob(packed.manifest, digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(packed.paths[digest]).read_bytes())
    (there.guest(packed.manifest) / "manifest.json").write_text(json.dumps(document))
    camera = SharedCamera("b1", "north", "a" * 64, LOOK, 2, packed.manifest, packed.pictures, packed.size)
    return camera, there


def test_what_teaches_goes_and_what_is_judged_by_stays(tmp_path: Path) -> None:
    data = labelled(tmp_path)
    packed = packed_pictures(data, REGION, tmp_path / "manifests")
    teaching = [f.frame.path for f in (*data.train, *data.exemplars)]
    digests = {hashlib.sha256(p.read_bytes()).hexdigest() for p in teaching}
    assert set(packed.paths) == digests | {packed.manifest}
    assert packed.pictures == 4
    described = Path(packed.paths[packed.manifest])
    assert hashlib.sha256(described.read_bytes()).hexdigest() == packed.manifest
    assert packed.size == described.stat().st_size + sum(p.stat().st_size for p in teaching)
    text = described.read_text()
    assert str(tmp_path) not in text, "no path of this box"
    assert "north-w3" not in text, "not what the student answered"
    assert packed_pictures(data, REGION, tmp_path / "manifests").manifest == packed.manifest


def test_another_box_reads_the_same_pictures_and_labels(tmp_path: Path) -> None:
    camera, there = carried(tmp_path)
    guest = read_guest(camera, there)
    assert guest is not None
    assert (guest.camera.name, guest.region) == ("b1/north", REGION)
    assert (len(guest.data.train), len(guest.data.exemplars)) == (3, 1)
    assert (guest.data.held_out, guest.data.kept_out, guest.data.classes) == ((), (), ("car",))
    one = guest.data.train[0]
    assert (one.labels.to_json(), one.unsure.to_json(), one.weight) == (BOX.to_json(), BOX.to_json(), 0.5)
    first = labelled(tmp_path).train[0].frame.path
    assert one.frame.path.read_bytes() == first.read_bytes()
    assert len(one.frame.answer) == 0


def test_pictures_that_are_not_all_here_are_not_used(tmp_path: Path) -> None:
    camera, there = carried(tmp_path)
    (there.guest(camera.manifest) / "manifest.json").unlink()
    assert read_guest(camera, there) is None


def test_no_more_pictures_than_a_group_trains_on_are_shared_and_none_that_are_gone(tmp_path: Path) -> None:
    data = labelled(tmp_path)
    many = replace(data, train=data.train * MOST_SHARED)
    assert packed_pictures(many, REGION, tmp_path / "manifests").pictures <= MOST_SHARED
    for frame in (*data.train, *data.exemplars):
        frame.frame.path.unlink()
    with pytest.raises(InvalidValue, match="sizes"):
        packed_pictures(data, REGION, tmp_path / "manifests")


def _other_path(document: dict[str, Any]) -> None:
    document["window"]["train"][0]["frame"]["path"] = "../../other"


def _other_class(document: dict[str, Any]) -> None:
    document["window"]["train"][0]["labels"]["classes"] = [7]


def _outside(document: dict[str, Any]) -> None:
    document["window"]["train"][0]["unsure"]["boxes"] = [[0.5, 0.5, 2.0, 0.6]]


def _weight(document: dict[str, Any]) -> None:
    document["window"]["train"][0]["weight"] = 1e9


def _region(document: dict[str, Any]) -> None:
    document["region"] = [0.5, 0.5, 0.5, 0.5]


def _no_window(document: dict[str, Any]) -> None:
    document["window"] = {"train": 3}


@pytest.mark.parametrize("change", [_other_path, _other_class, _outside, _weight, _region, _no_window])
def test_a_description_that_is_none_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    camera, there = carried(tmp_path, change)
    with pytest.raises(InvalidValue):
        read_guest(camera, there)
