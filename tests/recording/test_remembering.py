"""A window is taken into a camera's memories: by features of its pictures, or, without time to look, by its labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_exemplars import labelled

from edge.core.labels import LabelledFrame, LabelledWindow, SampledFrame
from edge.core.vision import Detections
from edge.recording.exemplars import herd, read_exemplars
from edge.recording.kept_out import read_kept_out
from edge.recording.remembering import MemoryFolders, label_features, remember, remember_by_labels

CLASSES = ("car", "bus")


def window(folder: Path, number: int, frames: int = 6) -> LabelledWindow:
    """The last third is held out."""
    all_of_it = tuple(labelled(folder / "pictures", number, n, [n % 2]) for n in range(frames))
    split = frames - frames // 3
    return LabelledWindow("c", number, "detection", CLASSES, all_of_it[:split], all_of_it[split:])


def seen(boxes: list[tuple[float, float, float, float]], classes: list[int]) -> LabelledFrame:
    labels = Detections.build(boxes, np.full(len(boxes), 0.9), classes)
    return LabelledFrame(SampledFrame("c", 1, 0, 1.0, Path("none.jpg"), Detections.empty(), "v"), labels, "t")


@pytest.mark.parametrize("looked", [True, False])
def test_training_frames_become_exemplars_and_held_out_ones_are_kept_out(tmp_path: Path, looked: bool) -> None:
    folders = MemoryFolders(tmp_path / "exemplars", 8, tmp_path / "kept-out")
    for number in (1, 2):
        data = window(tmp_path, number)
        if looked:
            count = remember(folders, data, data.train, np.eye(len(data.train)))
        else:
            count = remember_by_labels(folders, data)
        assert count == 4 * number
    assert {f.frame.window for f in read_exemplars(folders.exemplars)} == {1, 2}
    kept_out = read_kept_out(tmp_path / "kept-out")
    assert [(f.frame.window, f.frame.number) for f in kept_out] == [(1, 4), (1, 5), (2, 4), (2, 5)]


def test_no_more_are_kept_than_there_is_room_for_and_nothing_is_kept_out_of_students_of_ours(tmp_path: Path) -> None:
    folders = MemoryFolders(tmp_path / "exemplars", 3)
    assert [remember_by_labels(folders, window(tmp_path, n)) for n in (1, 2)] == [3, 3]
    assert not (tmp_path / "kept-out").exists()


def test_a_window_of_which_nothing_is_left_to_train_on_leaves_the_memory_as_it_was(tmp_path: Path) -> None:
    folders = MemoryFolders(tmp_path / "exemplars", 8)
    remember_by_labels(folders, window(tmp_path, 1))
    assert remember_by_labels(folders, LabelledWindow("c", 2, "detection", CLASSES, (), ())) == 4


def test_frames_alike_by_their_labels_have_features_alike() -> None:
    empty, one, same, more, elsewhere, other = label_features(
        [
            seen([], []),
            seen([(0.1, 0.1, 0.3, 0.3)], [0]),
            seen([(0.1, 0.1, 0.3, 0.3)], [0]),
            seen([(0.1, 0.1, 0.3, 0.3), (0.1, 0.1, 0.3, 0.3)], [0, 0]),
            seen([(0.7, 0.7, 0.9, 0.9)], [0]),
            seen([(0.1, 0.1, 0.3, 0.3)], [1]),
        ],
        2,
    )
    assert not empty.any()
    assert np.allclose(one, [np.log(2), 0.2, 0.2, 0.2, 0, 0, *[0] * 6])
    assert np.array_equal(one, same)
    assert np.allclose(more - one, [np.log(1.5), *[0] * 11]), "only more of them"
    assert np.allclose(elsewhere - one, [0, 0.6, 0.6, *[0] * 9], atol=1e-6), "only elsewhere"
    assert np.allclose(other, np.roll(one, 6)), "the same, of another class"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), max_size=5), max_size=8), st.integers(4, 6))
def test_features_are_finite_and_can_be_herded(frames: list[list[int]], classes: int) -> None:
    found = label_features([seen([(0.0, 0.0, 1.0, 1.0)] * len(f), f) for f in frames], classes)
    assert found.shape == (len(frames), 6 * classes)
    assert np.isfinite(found).all()
    assert sorted(herd(found, len(frames))) == list(range(len(frames)))
