"""The exemplar memory: herding as published, bounded, balanced, and there again after a restart."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edge.core.errors import DiskFull, InvalidValue
from edge.core.labels import LabelledFrame, SampledFrame
from edge.core.vision import Detections
from edge.recording import exemplars as module
from edge.recording.exemplars import Exemplar, ExemplarMemory, herd, read_exemplars


def labelled(folder: Path, window: int, number: int, classes: list[int], size: int = 200) -> LabelledFrame:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{window}-{number}.jpg"
    path.write_bytes(f"{window}-{number}-".encode().ljust(size, b"x"))
    n = len(classes)
    labels = Detections.build(np.tile([0.1, 0.1, 0.5, 0.5], (n, 1)), np.full(n, 0.9), classes)
    sample = SampledFrame("c", window, number, 100.0 * window + number, path, Detections.empty(), "v")
    return LabelledFrame(sample, labels, "t")


def row(e: Exemplar) -> tuple[Any, ...]:
    return e.klass, e.rank, e.bytes, e.frame.to_json()


def features(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 6))


@settings(max_examples=80, deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(1, 7), st.integers(1, 3)), elements=st.integers(-4, 4).map(float)))
def test_herding_takes_the_best_next_row_at_each_step(rows: np.ndarray) -> None:
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = np.where(norm > 0, rows / np.where(norm > 0, norm, 1), 0)
    order = herd(rows, len(rows))
    assert sorted(order) == list(range(len(rows)))
    for k in range(len(order)):

        def away(row: int, k: int = k) -> float:
            return float(np.linalg.norm(unit.mean(0) - unit[[*order[:k], row]].mean(0)))

        assert away(order[k]) <= min(away(r) for r in order[k:]) + 1e-9


def test_herding_comes_close_to_the_best_subset() -> None:
    rows = features(9, seed=3)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def away(subset: tuple[int, ...]) -> float:
        return float(np.linalg.norm(unit.mean(0) - unit[list(subset)].mean(0)))

    every = sorted(away(s) for s in itertools.combinations(range(9), 3))
    assert away(tuple(herd(rows, 3))) <= every[len(every) // 10]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.sets(st.integers(0, 3), max_size=3), min_size=1, max_size=8), min_size=1, max_size=5),
    st.integers(0, 12),
    st.integers(0, 4000),
)
def test_bounded_balanced_and_the_same_after_a_restart(
    tmp_path_factory: pytest.TempPathFactory, windows: list[list[set[int]]], max_frames: int, max_bytes: int
) -> None:
    root = tmp_path_factory.mktemp("e")
    memory = ExemplarMemory(root / "m", max_frames, max_bytes)
    for w, rows in enumerate(windows):
        frames = [labelled(root / "src", w, i, sorted(c)) for i, c in enumerate(rows)]
        kept = memory.update(frames, features(len(frames), w))
        assert len(kept) <= max_frames
        assert len({f.id for f in (k.frame for k in kept)}) == len(kept)
        on_disk = list((root / "m").glob("*.jpg"))
        assert set(on_disk) == {k.frame.path for k in kept}
        assert sum(p.stat().st_size for p in on_disk) <= max_bytes
        held = Counter(e.klass for e in memory.exemplars())
        if held:
            assert max(held.values()) <= -(-max_frames // len(held))
        for e in memory.exemplars():
            assert e.klass in e.frame.labels.classes
        again = ExemplarMemory(root / "m", max_frames, max_bytes)
        assert [row(e) for e in again.exemplars()] == [row(e) for e in memory.exemplars()]


def test_a_common_class_does_not_push_out_a_rare_one(tmp_path: Path) -> None:
    memory = ExemplarMemory(tmp_path / "m", 10)
    memory.update([labelled(tmp_path, 0, i, [1]) for i in range(5)], features(5))
    for w in range(1, 6):
        memory.update([labelled(tmp_path, w, i, [0]) for i in range(40)], features(40, w))
    assert Counter(e.klass for e in memory.exemplars()) == {0: 5, 1: 5}


def test_old_scenes_are_thinned_not_forgotten(tmp_path: Path) -> None:
    memory = ExemplarMemory(tmp_path / "m", 12)
    for w in range(4):
        memory.update([labelled(tmp_path, w, i, [0]) for i in range(20)], features(20, w))
    assert Counter(e.window for e in memory.exemplars()) == {0: 3, 1: 3, 2: 3, 3: 3}
    assert all(e.rank < 3 for e in memory.exemplars())  # the most typical ones of each window


def test_taking_a_window_in_again_replaces_it(tmp_path: Path) -> None:
    memory = ExemplarMemory(tmp_path / "m", 6)
    frames = [labelled(tmp_path, 1, i, [0]) for i in range(4)]
    memory.update(frames, features(4))
    memory.update(frames, features(4))
    assert len(memory.frames()) == 4


def test_frames_without_labels_or_picture_are_passed_over(tmp_path: Path) -> None:
    frames = [labelled(tmp_path, 1, 0, []), labelled(tmp_path, 1, 1, [0]), labelled(tmp_path, 1, 2, [0])]
    frames[1].frame.path.unlink()
    kept = ExemplarMemory(tmp_path / "m", 6).update(frames, features(3))
    assert [k.frame.number for k in kept] == [2]


def test_readers_see_what_is_there(tmp_path: Path) -> None:
    assert read_exemplars(tmp_path / "nothing") == ()
    memory = ExemplarMemory(tmp_path / "m", 6)
    memory.update([labelled(tmp_path, 1, i, [0]) for i in range(3)], features(3))
    assert [f.frame.id for f in read_exemplars(tmp_path / "m")] == [f.frame.id for f in memory.frames()]
    (tmp_path / "m" / "manifest.json").write_text("{broken")
    assert read_exemplars(tmp_path / "m") == ()


def test_a_full_disk_leaves_the_memory_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ExemplarMemory(tmp_path / "m", 6)
    memory.update([labelled(tmp_path, 1, i, [0]) for i in range(3)], features(3))
    before = [f.to_json() for f in memory.frames()]

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_whole", full)
    with pytest.raises(DiskFull, match="No space left"):
        memory.update([labelled(tmp_path, 2, i, [0]) for i in range(6)], features(6))
    assert [f.to_json() for f in memory.frames()] == before
    assert [f.to_json() for f in ExemplarMemory(tmp_path / "m", 6).frames()] == before


def test_features_must_fit_the_frames(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="features"):
        ExemplarMemory(tmp_path / "m", 6).update([labelled(tmp_path, 1, 0, [0])], features(2))
