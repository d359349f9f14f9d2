"""Retraining: it helps, it is bounded, it survives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from edge.core.configs import RetrainingConfig, StudentSpec
from edge.core.errors import DiskFull, InvalidValue, LabelError
from edge.core.labels import LabelledFrame, LabelledWindow, SampledFrame
from edge.core.vision import Detections
from edge.students import Student, build, pictures_to_tensor
from edge.training import PrefixCache, Retraining, TrainingFailed, Trials, WindowExamples, device_clock, evaluate
from edge.training.examples import make_examples, mirrored
from edge.training.retraining import held_out_accuracy

CLASSES = ("block", "bar")
DETECTOR = StudentSpec("detection", "ssdlite_mobilenet_v3", CLASSES, (80, 128), 0.35)
NAMER = StudentSpec("classification", "resnet18", CLASSES, (32, 32), 0.25)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def draw(seed: int, night: bool) -> tuple[np.ndarray, Detections]:
    """A toy street: blocks (wide) and bars (tall), bright on grey by day, outlined on black by night."""
    rng = np.random.default_rng(seed)
    picture = rng.integers(100, 120, (108, 180, 3)).astype(np.uint8)
    if night:
        picture = rng.integers(0, 25, (108, 180, 3)).astype(np.uint8)
    boxes, classes = [], []
    for n in range(3):
        klass = int(rng.integers(2))
        w, h = (34, 18) if klass == 0 else (14, 36)
        x, y = int(rng.integers(60 * n, 60 * n + 58 - w)), int(rng.integers(2, 106 - h))
        colour = tuple(int(c) for c in (rng.integers(150, 255, 3) if not night else rng.integers(60, 120, 3)))
        cv2.rectangle(picture, (x, y), (x + w - 1, y + h - 1), colour, 2 if night else -1)
        boxes.append((x / 180, y / 108, (x + w) / 180, (y + h) / 108))
        classes.append(klass)
    return picture, Detections.build(boxes, [0.9] * 3, classes)


def frames(root: Path, seeds: range, night: bool, window: int = 1) -> tuple[LabelledFrame, ...]:
    out = []
    for seed in seeds:
        picture, labels = draw(seed, night)
        path = root / f"{window}-{seed}.jpg"
        cv2.imwrite(str(path), picture[..., ::-1])
        noise = np.random.default_rng(seed).uniform(-0.01, 0.01, labels.boxes.shape)
        near = labels.boxes + noise.astype(np.float32)
        answer = Detections.build([*near, [0.0, 0.0, 0.04, 0.06]], [0.6] * 4, [*labels.classes, len(CLASSES)])
        out.append(LabelledFrame(SampledFrame("c", window, seed, 0.0, path, answer, "v0"), labels, "truth"))
    return tuple(out)


def window(root: Path, task: str, night: bool = True, train: int = 24, held_out: int = 10) -> LabelledWindow:
    return LabelledWindow(
        "c",
        1,
        task,
        CLASSES,
        frames(root, range(train), night),
        frames(root, range(500, 500 + held_out), night),  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def by_day(tmp_path_factory: pytest.TempPathFactory) -> Callable[[StudentSpec], Student]:
    """Students that have only seen the day, trained once per module."""
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("day")
    known: dict[StudentSpec, Student] = {}

    def student(spec: StudentSpec) -> Student:
        if spec not in known:
            data = window(root, spec.task, night=False, train=40 if spec.task == "detection" else 16)
            config = RetrainingConfig(10 if spec.task == "detection" else 3, 8, "all", 1.0, 5e-3)
            run = Retraining(Student(spec, build(spec, 7)), data, config, seed=1, held_out_every=0)
            known[spec] = run.run()
            assert evaluate(known[spec], data.held_out).value > 0.5
        return known[spec]

    return student


@pytest.mark.parametrize(("spec", "layers", "epochs"), [(DETECTOR, "head", 6), (DETECTOR, "all", 6), (NAMER, "all", 4)])
def test_retraining_lifts_a_stale_student_by_far(
    by_day: Callable[[StudentSpec], Student], spec: StudentSpec, layers: str, epochs: int, tmp_path: Path
) -> None:
    stale = by_day(spec)
    # Ten pictures would do on most machines, and not on one whose arithmetic rounds in another way.
    data = window(tmp_path, spec.task, train=24 if spec.task == "detection" else 8, held_out=30)
    before = evaluate(stale, data.held_out)
    weights = {k: v.clone() for k, v in stale.module.state_dict().items()}
    config = RetrainingConfig(epochs, 8, layers, 1.0, 4e-3)  # type: ignore[arg-type]
    run = Retraining(stale, data, config, seed=3, held_out_every=epochs // 2)
    seen = list(run.steps())
    after = evaluate(run.result(), data.held_out)
    assert after.value > before.value + 0.15
    # The parent is untouched, what is frozen stayed, the steps are as announced.
    assert all(torch.equal(v, weights[k]) for k, v in stale.module.state_dict().items())
    new = run.result().module.state_dict()
    if layers == "head":
        assert all(torch.equal(new[k], v) for k, v in weights.items() if k.startswith("features."))
    assert [p.step for p in seen] == list(range(1, run.total_steps + 1))
    assert [p.epoch + 1 for p in seen if p.held_out is not None] == [epochs // 2, epochs]
    assert seen[-1].held_out == pytest.approx(after.value, abs=0.1)
    assert all(a.cpu_seconds <= b.cpu_seconds for a, b in itertools.pairwise(seen))


@pytest.mark.parametrize("layers", ["head", "last_stage", "all"])
def test_each_epoch_is_judged_by_its_own_result(layers: str, tmp_path: Path) -> None:
    """Weights and the statistics of BatchNorms: what is judged is no copy of an earlier epoch."""
    data = window(tmp_path, "detection", train=8, held_out=6)
    config = RetrainingConfig(3, 4, layers, 1.0, 5e-3)  # type: ignore[arg-type]
    run = Retraining(Student(DETECTOR, build(DETECTOR, 2)), data, config, seed=5, held_out_every=1, score=0.05)
    judged = []
    for progress in run.steps():
        if progress.held_out is not None:
            anew = held_out_accuracy(run.result(), run.cache, config, 0.05)
            judged.append((progress.held_out, run.held_out(), anew))
    assert len(judged) == 3
    assert all(progress == own.value and own == anew for progress, own, anew in judged)


@pytest.mark.parametrize("layers", ["head", "last_stage"])
def test_activations_are_those_of_the_parent_channels_last(layers: str, tmp_path: Path) -> None:
    data = window(tmp_path, "detection", train=3, held_out=1)
    parent = Student(DETECTOR, build(DETECTOR, 2))
    cache = PrefixCache(parent, WindowExamples(data, DETECTOR))
    found = cache.activations(layers, [2, 0], [0, 1])  # type: ignore[arg-type]
    pictures = [cache.examples.examples[2].pictures[0], cache.examples.examples[0].pictures[1]]
    with torch.inference_mode():
        stem = parent.module.eval().run_stem(pictures_to_tensor(pictures))
        expected = stem if layers == "last_stage" else parent.module.run_last_stage(stem)
    for a, b in zip(found, expected, strict=True):
        assert a.is_contiguous(memory_format=torch.channels_last)
        assert torch.allclose(a, b, atol=1e-6 + 2e-3 * float(b.abs().max())), "kept as float16"


def test_an_interrupted_run_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    parent = Student(DETECTOR, build(DETECTOR, 2))
    data = window(tmp_path, "detection", train=8, held_out=2)
    for layers in ("head", "last_stage", "all"):
        config = RetrainingConfig(2, 4, layers, 1.0, 1e-3)  # type: ignore[arg-type]
        whole = Retraining(parent, data, config, seed=5, held_out_every=0)
        expected = whole.run().module.state_dict()
        path = tmp_path / f"{layers}.checkpoint"
        first = Retraining(parent, data, config, 5, path, held_out_every=0)
        steps = first.steps()
        for _ in range(3):  # one epoch has two steps: the process dies in the second
            next(steps)
        del steps, first
        second = Retraining(parent, data, config, 5, path, held_out_every=0)
        assert second.resumed
        assert second.step == 2
        assert second.cpu_seconds > 0
        got = second.run().module.state_dict()
        # BatchNorm counts its batches, which nothing reads.
        wrong = [k for k, v in expected.items() if "num_batches" not in k and not torch.equal(got[k], v)]
        assert wrong == []
        second.discard_checkpoint()
        assert not path.exists()


def test_checkpoints_of_others_and_damaged_ones_are_not_taken_up(tmp_path: Path) -> None:
    parent = Student(NAMER, build(NAMER, 2))
    data = window(tmp_path, "classification", train=6, held_out=2)
    path = tmp_path / "x.checkpoint"
    config = RetrainingConfig(1, 8, "head")
    Retraining(parent, data, config, 5, path, held_out_every=0).run()
    assert path.exists()
    other = Retraining(parent, data, config, 6, path)
    assert (other.resumed, other.step) == (False, 0)
    assert "another retraining" in other.checkpoint_note
    sibling = Retraining(Student(NAMER, build(NAMER, 3)), data, config, 5, path)
    assert not sibling.resumed
    path.write_bytes(path.read_bytes()[:-40])
    damaged = Retraining(parent, data, config, 5, path)
    assert (damaged.resumed, damaged.step) == (False, 0)
    assert "cannot be read" in damaged.checkpoint_note


def test_the_checkpoint_of_an_earlier_version_is_taken_up(tmp_path: Path) -> None:
    parent, config = Student(NAMER, build(NAMER, 2)), RetrainingConfig(2, 8, "all")
    data, path = window(tmp_path, "classification", train=6, held_out=2), tmp_path / "x.checkpoint"
    next(p for p in Retraining(parent, data, config, 5, path, held_out_every=0).steps() if p.epoch_over)
    kept = torch.load(path, weights_only=True)
    names = ("fingerprint", "step", "state", "average", "optimiser")
    assert set(kept) == {"format", "cpu_seconds", "skipped_steps", *names}
    earlier = {"format": "magpie-checkpoint/3", "cpu_seconds": 77.5, "skipped_steps": 1}
    torch.save(earlier | {name: kept[name] for name in names}, path)
    again = Retraining(parent, data, config, 5, path)
    assert (again.resumed, again.checkpoint_note) == (True, "")
    assert (again.step, again.skipped_steps, again.cpu_seconds) == (kept["step"], 1, 77.5)
    average = again.result().module.state_dict()
    assert all(torch.equal(average[name], value) for name, value in kept["average"].items())


@pytest.mark.parametrize("broken", ["average", "optimiser", "step", "shape"])
def test_nothing_of_a_checkpoint_with_a_part_missing_is_used(broken: str, tmp_path: Path) -> None:
    parent, config = Student(NAMER, build(NAMER, 2)), RetrainingConfig(2, 8, "all")
    data, path = window(tmp_path, "classification", train=6, held_out=2), tmp_path / "x.checkpoint"
    expected = Retraining(parent, data, config, 5, held_out_every=0).run().module.state_dict()
    next(p for p in Retraining(parent, data, config, 5, path, held_out_every=0).steps() if p.epoch_over)
    kept = torch.load(path, weights_only=True)
    if broken == "shape":
        kept["state"][list(kept["state"])[-1]] = torch.zeros(1, 2, 3)
    else:
        del kept[broken]
    torch.save(kept, path)
    made = Retraining(parent, data, config, 5, path, held_out_every=0)
    assert (made.resumed, made.step) == (False, 0)
    assert "cannot be read" in made.checkpoint_note
    got = made.run().module.state_dict()
    assert [k for k, v in expected.items() if "num_batches" not in k and not torch.equal(got[k], v)] == []


def test_the_result_may_be_taken_at_any_step(tmp_path: Path) -> None:
    parent = Student(NAMER, build(NAMER, 2))
    run = Retraining(parent, window(tmp_path, "classification", train=6, held_out=2), RetrainingConfig(2, 8, "head"))
    untouched = run.result().module.state_dict()
    assert all(torch.equal(v, untouched[k]) for k, v in parent.module.state_dict().items())
    steps = run.steps()
    next(steps)
    early = run.result()
    assert early.info["steps"] == 1
    for _ in steps:
        pass
    assert not torch.equal(early.module.state_dict()["out.weight"], run.result().module.state_dict()["out.weight"])


def test_the_prefix_is_computed_once_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = Student(DETECTOR, build(DETECTOR, 2))
    examples = WindowExamples(window(tmp_path, "detection", train=8, held_out=2), DETECTOR)
    cache = PrefixCache(parent, examples)
    seen: list[int] = []
    real = parent.module.run_stem
    monkeypatch.setattr(parent.module, "run_stem", lambda x: seen.append(len(x)) or real(x))  # type: ignore[func-returns-value]
    for rate in (1e-3, 2e-3):
        for fraction in (1.0, 0.5):
            Retraining(parent, examples, RetrainingConfig(2, 4, "head", fraction, rate), 1, cache=cache).run()
    # Eight train frames in two variants and two held-out frames, each at most once.
    assert sum(seen) <= 18
    assert cache.cpu_seconds > 0


def test_kept_activations_are_those_of_the_network_in_memory_and_on_disk(tmp_path: Path) -> None:
    parent = Student(DETECTOR, build(DETECTOR, 2))
    examples = WindowExamples(window(tmp_path, "detection", train=5, held_out=2), DETECTOR)
    in_memory, on_disk = PrefixCache(parent, examples), PrefixCache(parent, examples, ram_bytes=1000, folder=tmp_path)
    before = sorted(tmp_path.iterdir())
    for layers in ("head", "last_stage"):
        a = in_memory.activations(layers, [0, 3, 6], [1, 0, 1])  # type: ignore[arg-type]
        b = on_disk.activations(layers, [0, 3, 6], [1, 0, 1])  # type: ignore[arg-type]
        fresh = in_memory._prefix(layers, [examples.examples[n].pictures[v] for n, v in ((0, 1), (3, 0), (6, 1))])  # type: ignore[arg-type]
        for x, y, z in zip(a, b, fresh, strict=True):
            assert torch.equal(x, y)
            assert torch.allclose(x, z, rtol=2e-3, atol=1e-3)
    assert in_memory.on_disk == 0
    assert on_disk.on_disk > 10_000
    assert sorted(tmp_path.iterdir()) == before  # nothing is left to clean up


def test_a_full_disk_is_said_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    examples = WindowExamples(window(tmp_path, "detection", train=3, held_out=1), DETECTOR)
    cache = PrefixCache(Student(DETECTOR), examples, ram_bytes=0, folder=tmp_path)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(DiskFull, match="activations"):
        cache.activations("head", [0], [0])


def test_damaged_and_missing_pictures_are_left_out_and_counted(tmp_path: Path) -> None:
    data = window(tmp_path, "detection", train=5, held_out=2)
    data.train[0].frame.path.write_bytes(b"no picture")
    data.train[3].frame.path.unlink()
    data.held_out[1].frame.path.unlink()
    examples = WindowExamples(data, DETECTOR)
    assert (len(examples.train_frames), len(examples.held_out_frames), examples.unreadable) == (3, 1, 3)
    assert [examples.frame(e.frame).frame.number for e in examples.examples] == [1, 2, 4, 500]
    assert evaluate(Student(DETECTOR), data.held_out).frames == 1
    for frame in data.train:
        frame.frame.path.unlink(missing_ok=True)
    with pytest.raises(LabelError, match="no labelled frame to train on"):
        Retraining(Student(DETECTOR), data, RetrainingConfig(1))


class Activated(PrefixCache):
    """Kept activations, which the test makes something else of when they are read."""

    def __init__(self, parent: Student, examples: WindowExamples, change: Callable[[int, Any], Any]) -> None:
        super().__init__(parent, examples)
        self._change, self._read = change, 0

    def activations(self, *asked: Any) -> Any:
        self._read += 1
        return self._change(self._read, super().activations(*asked))


def test_divergence_and_lack_of_memory_are_errors_that_say_what_to_do(tmp_path: Path) -> None:
    data = window(tmp_path, "classification", train=6, held_out=2)
    parent = Student(NAMER, build(NAMER, 2))
    with torch.no_grad():
        sick = parent.copy()
        sick.module.state_dict()["out.bias"].fill_(float("nan"))
    run = Retraining(sick, data, RetrainingConfig(3, 8, "head"))
    with pytest.raises(TrainingFailed, match="smaller learning rate"):
        for _ in run.steps():
            pass
    assert run.skipped_steps == 3
    examples = WindowExamples(data, NAMER)
    for error, failure, words in (
        (MemoryError(), TrainingFailed, "smaller batch size"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), TrainingFailed, "smaller batch size"),
        (RuntimeError("a bug"), RuntimeError, "a bug"),
    ):

        def raises(read: int, kept: Any, error: Exception = error) -> Any:
            raise error

        cache = Activated(parent, examples, raises)
        with pytest.raises(failure, match=words):
            next(Retraining(parent, examples, RetrainingConfig(3, 8, "head"), cache=cache).steps())


def test_one_bad_batch_is_skipped_and_does_no_harm(tmp_path: Path) -> None:
    parent = Student(NAMER, build(NAMER, 2))
    examples = WindowExamples(window(tmp_path, "classification", train=6, held_out=2), NAMER)

    def poisoned(read: int, kept: Any) -> Any:
        return [x * float("nan") for x in kept] if read == 2 else kept

    config = RetrainingConfig(2, 8, "head")
    run = Retraining(parent, examples, config, held_out_every=0, cache=Activated(parent, examples, poisoned))
    list(run.steps())
    assert run.skipped_steps == 1
    assert all(torch.isfinite(v).all() for v in run.result().module.state_dict().values())


def test_data_fraction_and_last_layer_width(tmp_path: Path) -> None:
    data = window(tmp_path, "classification", train=10, held_out=2)
    parent = Student(NAMER, build(NAMER, 2))
    run = Retraining(parent, data, RetrainingConfig(1, 8, "head", 0.3, 1e-3, last_layer_width=20))
    assert run.train_frames == 3
    result = run.run()
    assert result.spec.last_layer_width == 20
    assert result.module.state_dict()["hidden.0.weight"].shape[0] == 20
    assert result.info["config"]["last_layer_width"] == 20
    other = StudentSpec("classification", "resnet18", ("x",), (32, 32))
    foreign = WindowExamples(LabelledWindow("c", 1, "classification", ("x",), data.train, data.held_out), other)
    with pytest.raises(InvalidValue, match="classes"):
        Retraining(parent, foreign, RetrainingConfig(1))


def test_exemplars_join_the_training_part(tmp_path: Path) -> None:
    from dataclasses import replace

    data = window(tmp_path, "detection", train=4, held_out=2)
    old = frames(tmp_path, range(900, 903), night=False, window=0)
    examples = WindowExamples(replace(data, exemplars=old), DETECTOR)
    assert [f.frame.window for f in examples.train_frames] == [1] * 4 + [0] * 3
    assert len(examples.held_out_frames) == 2


def test_cut_outs_come_from_labels_answers_and_background(tmp_path: Path) -> None:
    (frame,) = frames(tmp_path, range(1), night=False)
    examples, good, lost = make_examples(NAMER, [frame], seed=0)
    assert (good, lost) == ((frame,), 0)
    golden = [e for e in examples if e.golden]
    assert [e.klass for e in golden] == frame.labels.classes.tolist()
    background = [e for e in examples if e.klass == len(CLASSES)]
    assert len(background) == 3  # one recorded answer where nothing is, two random places
    assert len(examples) == 3 + 3 + 3  # golden, as proposals really cut them out, background
    # A background cut-out shows the street only: nearly one colour.
    assert all(float(e.pictures[0].std()) < 15 for e in background[:1])
    assert all(e.pictures[0].shape == (32, 32, 3) for e in examples)


def test_mirroring_twice_is_nothing() -> None:
    _, labels = draw(3, False)
    assert np.allclose(mirrored(mirrored(labels)).boxes, labels.boxes)
    assert not np.allclose(mirrored(labels).boxes, labels.boxes)


def test_rare_classes_weigh_more_within_bounds(tmp_path: Path) -> None:
    data = window(tmp_path, "detection", train=6, held_out=1)
    rare = [
        LabelledFrame(f.frame, Detections(f.labels.boxes, f.labels.scores, np.array([0, 0, n == 0], np.int64)), "t")
        for n, f in enumerate(data.train)
    ]
    weights = WindowExamples(LabelledWindow("c", 1, "detection", CLASSES, tuple(rare), ()), DETECTOR).weights
    assert weights[1] == 2.0
    assert weights[0] < 1


def test_held_out_and_evaluate_agree(by_day: Callable[[StudentSpec], Student], tmp_path: Path) -> None:
    for spec in (DETECTOR, NAMER):
        student = by_day(spec)
        data = window(tmp_path, spec.task, night=False, train=2, held_out=10)
        cache = PrefixCache(student, WindowExamples(data, spec))
        fresh = evaluate(student, data.held_out)
        for layers in ("head", "last_stage", "all"):
            kept = held_out_accuracy(student, cache, RetrainingConfig(1, layers=layers))  # type: ignore[arg-type]
            assert kept.value == pytest.approx(fresh.value, abs=0.05)
            assert (kept.frames, kept.objects) == (fresh.frames, fresh.objects)


@pytest.mark.parametrize("layers", ["head", "all"])
def test_trials_measure_accuracy_and_cost(tmp_path: Path, layers: str) -> None:
    now = {"s": 0.0}

    def clock() -> float:
        now["s"] += 0.25
        return now["s"]

    parent = Student(NAMER, build(NAMER, 2))
    trials = Trials(parent, window(tmp_path, "classification", train=10, held_out=3), cores=2.0, clock=clock)
    assert trials.frames == 10
    first = trials.run(RetrainingConfig(30, 8, layers), 0.5, 3, seed=4)  # type: ignore[arg-type]
    again = trials.run(RetrainingConfig(30, 8, layers), 0.5, 3, seed=4)  # type: ignore[arg-type]
    assert [e for e, _ in first.points] == [1, 2, 3]
    assert first.points == again.points
    assert (first.frames, first.held_out_objects) == (5, 9)
    assert first.start_accuracy == again.start_accuracy == trials.start_accuracy()
    assert first.device_seconds_per_epoch > 0
    assert first.evaluation_seconds > 0
    assert again.prefix_frames == 0
    assert first.prefix_frames == (5 if layers == "head" else 0)
    whole = trials.run(RetrainingConfig(30, 8, layers), 1.0, 1, seed=4)  # type: ignore[arg-type]
    assert whole.prefix_frames == (5 if layers == "head" else 0)


def test_trials_need_something_to_judge_by(tmp_path: Path) -> None:
    data = window(tmp_path, "classification", train=2, held_out=0)
    with pytest.raises(LabelError, match="held-out"):
        Trials(Student(NAMER), data)


def test_the_cost_clock_of_a_cpu_is_its_time() -> None:
    clock = device_clock("cpu")
    began = clock()
    sum(n * n for n in range(200_000))
    assert clock() > began
