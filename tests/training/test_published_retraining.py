"""Retraining of a published detector: it learns, goes on where it was broken off, and keeps a part of the download."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from detectors.tiny_detectors import CLASSES, street_frames, tiny_distribution, tiny_grid

from edge.core.configs import RetrainingConfig
from edge.core.errors import InvalidValue, LabelError
from edge.core.labels import LabelledWindow
from edge.detectors.description import published_spec
from edge.students.published import PublishedStudent
from edge.training.kept_download import KEPT_OF_DOWNLOAD, KEPT_WITHOUT_OBJECTS, PARTS
from edge.training.progress import TrainingFailed
from edge.training.published import (
    REMEMBERED,
    PublishedExamples,
    PublishedRetraining,
    frame_counts,
    with_best_score,
)

CAMERA = ("car", "person")
MAP = {"car": ("car", "truck")}
TINY = {"grid": tiny_grid, "distribution": tiny_distribution}
SHORT = RetrainingConfig(2, 4, "all", 1.0, 0.02)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> LabelledWindow:
    folder = tmp_path_factory.mktemp("street")
    train, held_out = street_frames(folder, range(18)), street_frames(folder, range(100, 108))
    return LabelledWindow("cam", 1, "detection", CAMERA, train, held_out)


def student(kind: str = "grid", seed: int = 0) -> PublishedStudent:
    content, spec = TINY[kind](seed)
    return PublishedStudent(published_spec(spec, CAMERA, MAP), content)


def few(window: LabelledWindow) -> LabelledWindow:
    return replace(window, train=window.train[:8], held_out=window.held_out[:2])


def weights(one: PublishedStudent) -> list[torch.Tensor]:
    return [p.detach() for p in one.network().weights]


@pytest.mark.parametrize("kind", sorted(TINY))
def test_it_learns(kind: str, window: LabelledWindow) -> None:
    epochs, gain = (14, 0.3) if kind == "grid" else (36, 0.1)  # boxes as distributions take longer from random weights
    parent = student(kind)
    content = parent.content
    retraining = PublishedRetraining(
        parent, window, RetrainingConfig(epochs, 6, "all", 1.0, 0.02), held_out_every=epochs
    )
    before = retraining.held_out().value
    progress = list(retraining.steps())
    assert progress[-1].held_out is not None
    assert progress[-1].held_out > before + gain
    assert np.mean([p.loss for p in progress[-5:]]) < 0.7 * progress[0].loss
    assert [p.step for p in progress] == list(range(1, 3 * epochs + 1))
    result = retraining.result()
    assert result.info["steps"] == 3 * epochs
    assert result.info["train_frames"] == 18
    assert 0.05 <= result.info["score"] <= 0.9
    # The parent is as it was.
    assert parent.content == content
    assert parent.info == {}
    assert all(torch.equal(a, b) for a, b in zip(weights(parent), weights(student(kind)), strict=True))
    # The measured student is the one in the file.
    pairs = retraining.examples.answers(result, retraining.examples.held_out_frames)
    found = sum(int((a.scores >= result.score - 1e-6).sum()) for a, _ in pairs)
    assert found > 0


@pytest.mark.parametrize("layers", ["head", "last_stage", "all"])
def test_only_the_layers_asked_for_change(layers: str, window: LabelledWindow) -> None:
    parent = student()
    config = replace(SHORT, epochs=1, layers=layers)  # type: ignore[arg-type]
    result = PublishedRetraining(parent, few(window), config).run()
    mine = {id(p) for p in parent.network().parts(layers)}  # type: ignore[arg-type]
    for old, new in zip(parent.network().weights, weights(result), strict=True):
        assert torch.equal(old, new) == (id(old) not in mine)


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_checkpoint_goes_on_bit_for_bit(stop: int, window: LabelledWindow, tmp_path: Path) -> None:
    data, path = few(window), tmp_path / "checkpoint"
    whole = PublishedRetraining(student(), data, SHORT, 5, download=student(seed=1)).run()
    first = PublishedRetraining(student(), data, SHORT, 5, path, download=student(seed=1))
    for _ in itertools.islice(first.steps(), stop):
        pass
    first.keep_checkpoint()
    second = PublishedRetraining(student(), data, SHORT, 5, path, download=student(seed=1))
    assert second.resumed
    assert second.step == stop
    result = second.run()
    assert result.content == whole.content
    assert result.info == whole.info
    second.discard_checkpoint()
    assert not path.exists()


def test_a_checkpoint_of_something_else_is_not_used(window: LabelledWindow, tmp_path: Path) -> None:
    data, path = few(window), tmp_path / "checkpoint"
    PublishedRetraining(student(), data, SHORT, 5, path).run()
    for made in (
        PublishedRetraining(student(), data, SHORT, 6, path),
        PublishedRetraining(student(seed=3), data, SHORT, 5, path),
        PublishedRetraining(student(), data, replace(SHORT, epochs=3), 5, path),
        PublishedRetraining(student(), replace(data, train=data.train[1:]), SHORT, 5, path),
    ):
        assert not made.resumed
        assert "another" in made.checkpoint_note
    path.write_bytes(path.read_bytes()[:100])
    made = PublishedRetraining(student(), data, SHORT, 5, path)
    assert not made.resumed
    assert "damaged" in made.checkpoint_note


def test_the_checkpoint_of_an_earlier_version_is_taken_up(window: LabelledWindow, tmp_path: Path) -> None:
    data, path = few(window), tmp_path / "checkpoint"
    whole = PublishedRetraining(student(), data, SHORT, 5).run()
    next(p for p in PublishedRetraining(student(), data, SHORT, 5, path).steps() if p.epoch_over)
    kept = torch.load(path, weights_only=True)
    names = ("fingerprint", "step", "weights", "average", "optimiser")
    assert set(kept) == {"format", "seconds", "skipped", *names}
    earlier = {"format": "magpie-checkpoint/2", "seconds": 77.5, "skipped": 1}
    torch.save(earlier | {name: kept[name] for name in names}, path)
    again = PublishedRetraining(student(), data, SHORT, 5, path)
    assert (again.resumed, again.checkpoint_note) == (True, "")
    assert (again.step, again.skipped_steps, again.cpu_seconds) == (kept["step"], 1, 77.5)
    assert again.run().content == whole.content


@pytest.mark.parametrize("broken", ["average", "optimiser", "step", "shape", "one less"])
def test_nothing_of_a_checkpoint_with_a_part_missing_is_used(
    broken: str, window: LabelledWindow, tmp_path: Path
) -> None:
    data, path = few(window), tmp_path / "checkpoint"
    whole = PublishedRetraining(student(), data, SHORT, 5).run()
    next(p for p in PublishedRetraining(student(), data, SHORT, 5, path).steps() if p.epoch_over)
    kept = torch.load(path, weights_only=True)
    if broken == "shape":
        kept["weights"][-1] = torch.zeros(1, 2, 3)
    elif broken == "one less":
        kept["average"].pop()
    else:
        del kept[broken]
    torch.save(kept, path)
    made = PublishedRetraining(student(), data, SHORT, 5, path)
    assert (made.resumed, made.step) == (False, 0)
    assert "damaged" in made.checkpoint_note
    assert made.run().content == whole.content


def test_the_result_keeps_a_part_of_the_download(window: LabelledWindow) -> None:
    data = few(window)
    alone = PublishedRetraining(student(), data, SHORT, 5).run()
    mixing = PublishedRetraining(student(), data, SHORT, 5, download=student())
    mixed, part = mixing.run(), mixing.usual_part
    assert KEPT_OF_DOWNLOAD < part < KEPT_WITHOUT_OBJECTS, "few objects were labelled"
    assert mixed.info["kept_of_download"] == part
    assert "kept_of_download" not in alone.info
    for start, learnt, kept in zip(weights(student()), weights(alone), weights(mixed), strict=True):
        assert torch.allclose(kept, part * start + (1 - part) * learnt, atol=1e-6)


def test_the_next_retraining_takes_the_download_out_again(window: LabelledWindow) -> None:
    data, download = few(window), student()
    alone = PublishedRetraining(student(), data, SHORT, 5).run()
    mixed = PublishedRetraining(student(), data, SHORT, 5, download=download).run()
    later = PublishedRetraining(mixed, data, SHORT, 6, download=download)
    for went_on, learnt in zip(later._net.weights, weights(alone), strict=True):
        assert torch.allclose(went_on, learnt, atol=1e-5, rtol=1e-5)
    # And puts it in once, however many windows there are.
    last, part = later.run(), later.usual_part
    expected = PublishedRetraining(alone, data, SHORT, 6).run()
    for start, learnt, kept in zip(weights(download), weights(expected), weights(last), strict=True):
        assert torch.allclose(kept, part * start + (1 - part) * learnt, atol=2e-3)


def test_the_part_of_the_download_that_is_best_on_kept_out_pictures_is_kept(
    window: LabelledWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tiny detector as published has random weights: to keep some of them only harms."""
    config = RetrainingConfig(14, 6, "all", 1.0, 0.02)
    usual = PublishedRetraining(student(), window, config, download=student(), held_out_every=0)
    chosen = PublishedRetraining(student(), window, config, download=student(), parts=PARTS, held_out_every=0)
    before, after = usual.run(), chosen.run()
    assert before.info["kept_of_download"] == usual.usual_part
    assert after.info["kept_of_download"] == 0.0
    assert chosen.held_out().value > usual.held_out().value
    assert torch.equal(chosen._net.weights[0], usual._net.weights[0]), "trying parts changes no weight"
    # Where no kept-out picture tells anything it is the usual part.
    blind = replace(few(window), held_out=())
    alone = PublishedRetraining(student(), blind, SHORT, download=student(), parts=PARTS, held_out_every=0)
    assert alone.run().info["kept_of_download"] == alone.usual_part


def test_a_download_of_another_kind_is_refused(window: LabelledWindow) -> None:
    with pytest.raises(InvalidValue, match=r"download.*tiny_grid"):
        PublishedRetraining(student(), few(window), SHORT, download=student("distribution"))


def test_bad_data_is_refused(window: LabelledWindow, tmp_path: Path) -> None:
    data = few(window)
    with pytest.raises(LabelError, match="no labelled frame"):
        PublishedRetraining(student(), replace(data, train=()), SHORT)
    gone = tuple(replace(f, frame=replace(f.frame, path=tmp_path / "gone.jpg")) for f in data.train)
    with pytest.raises(LabelError, match="8 pictures missing or damaged"):
        PublishedRetraining(student(), replace(data, train=gone), SHORT)
    with pytest.raises(InvalidValue, match="last_layer_width"):
        PublishedRetraining(student(), data, replace(SHORT, last_layer_width=8))
    content, spec = tiny_grid()
    other = PublishedStudent(published_spec(spec, ("person",), {}), content)
    with pytest.raises(InvalidValue, match="classes"):
        PublishedRetraining(student(), PublishedExamples(data, other), SHORT)


def test_pictures_that_are_missing_are_counted(window: LabelledWindow, tmp_path: Path) -> None:
    data = few(window)
    gone = replace(data.train[0], frame=replace(data.train[0].frame, path=tmp_path / "gone.jpg"))
    (tmp_path / "cut.jpg").write_bytes(data.train[1].frame.path.read_bytes()[:300])
    cut = replace(data.train[1], frame=replace(data.train[1].frame, path=tmp_path / "cut.jpg"))
    examples = PublishedExamples(replace(data, train=(gone, cut, *data.train[2:])), student())
    assert examples.unreadable == 2
    assert len(examples.train_frames) == 6


@pytest.mark.parametrize("rate", [0.9, 1.0])
def test_a_learning_rate_too_large_fails_or_ends_but_never_crashes(rate: float, window: LabelledWindow) -> None:
    retraining = PublishedRetraining(
        student(), few(window), RetrainingConfig(30, 4, "all", 1.0, rate), held_out_every=0
    )
    failed, result = "", None
    try:
        result = retraining.run()
    except TrainingFailed as error:
        failed = error.hint or ""
    assert "learning rate" in failed or (result and all(bool(torch.isfinite(w).all()) for w in weights(result)))


def test_numbers_that_stay_not_finite_end_it(window: LabelledWindow) -> None:
    retraining = PublishedRetraining(student(), few(window), SHORT, held_out_every=0)
    with torch.no_grad():
        retraining._net.weights[0].fill_(float("nan"))
    with pytest.raises(TrainingFailed, match="3 losses in a row were not finite") as raised:
        retraining.run()
    assert "smaller learning rate" in raised.value.hint
    assert retraining.skipped_steps == 3


class Exhausted(list[Any]):
    """Pictures for which there is no memory."""

    def __getitem__(self, place: Any) -> Any:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")


def test_memory_that_runs_out_is_reported(window: LabelledWindow) -> None:
    parent = student()
    examples = PublishedExamples(few(window), parent)
    retraining = PublishedRetraining(parent, examples, SHORT)
    examples.pictures = Exhausted(examples.pictures)
    with pytest.raises(TrainingFailed, match="out of memory"):
        retraining.run()


def test_unsure_objects_are_no_background(window: LabelledWindow) -> None:
    """All labels moved to `unsure`: scores must not be pushed down where the objects are."""
    data = few(window)
    unsure = tuple(
        replace(f, labels=f.labels.select(np.zeros(len(f.labels), bool)), unsure=f.labels) for f in data.train
    )
    nothing = tuple(replace(f, unsure=f.labels.select(np.zeros(len(f.labels), bool))) for f in unsure)
    config = replace(SHORT, epochs=4)
    learnt = PublishedRetraining(student(), data, replace(SHORT, epochs=20), held_out_every=0).run()

    def highest(frames: tuple) -> float:
        made = PublishedRetraining(learnt, replace(data, train=frames), config, held_out_every=0)
        best = []
        result = made.run()
        for frame, pair in zip(data.train, made.examples.answers(result, list(data.train)), strict=True):
            answer = pair[0]
            middle = (answer.boxes[:, :2] + answer.boxes[:, 2:]) / 2
            for box in frame.labels.boxes:
                inside = ((middle > box[:2]) & (middle < box[2:])).all(1)
                best.append(float(answer.scores[inside].max()) if inside.any() else 0.0)
        return float(np.mean(best))

    assert highest(unsure) > highest(nothing)


def test_a_region_is_all_that_is_looked_at(window: LabelledWindow) -> None:
    parent = student()
    examples = PublishedExamples(few(window), parent, (0.0, 0.0, 0.5, 1.0))
    assert examples.size == parent.input_shape((96, 160), region=(0.0, 0.0, 0.5, 1.0)) == (128, 128)
    assert all(p.picture.shape[1] == 80 for p in examples.pictures)
    result = PublishedRetraining(parent, examples, SHORT).run()
    found = examples.answers(result, examples.held_out_frames)
    assert all((a.boxes[:, 2] <= 0.5 + 1e-6).all() for a, _ in found)


def test_a_kept_out_picture_is_answered_once_by_the_same_weights(
    window: LabelledWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered: list[bytes] = []
    detect = PublishedStudent.detect

    def counted(self: PublishedStudent, *args: Any, **options: Any) -> Any:
        answered.append(self.content)
        return detect(self, *args, **options)

    monkeypatch.setattr(PublishedStudent, "detect", counted)
    students = [student(seed=n) for n in range(REMEMBERED + 1)]
    examples = PublishedExamples(replace(window, kept_out=window.train[:3]), students[0])
    judged, accuracy = with_best_score(students[0].copy(), examples)
    assert answered == [students[0].content] * 11
    counts = frame_counts(judged, examples)
    assert len(answered) == 11, "the least score changes what counts, not what is answered"
    assert len(counts) == 11
    assert with_best_score(students[0].copy(), examples)[1] == accuracy
    for other in students[1:]:
        with_best_score(other, examples)
    assert answered.count(students[1].content) == 11, "each student is asked itself"
    frame_counts(students[0], examples)
    assert answered.count(students[0].content) == 22, "of many students the first is forgotten"
    examples.answers(students[0], examples.train_frames[3:5])
    examples.answers(students[0], examples.train_frames[3:5])
    assert answered.count(students[0].content) == 26, "pictures to train on are not remembered"


def test_the_classes_of_a_tiny_detector_cover_the_camera() -> None:
    assert set(CAMERA) <= set(CLASSES)
