"""Training of the students that the demo starts with: they have seen nothing but the clear day of all characters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from edge.core.configs import StudentSpec
from edge.core.vision import Detections
from edge.demo.scene import CLASSES, Scene, SceneSpec, conditions
from edge.demo.training import (
    CYCLE_S,
    HELD_OUT_SEEDS,
    Average,
    DemoProgress,
    Pool,
    TrainingPicture,
    evaluate,
    learning_rate,
    samples,
    say,
    say_step,
    truth_arrays,
)
from edge.students import (
    DetectionNet,
    Student,
    build,
    classification_loss,
    cut_outs,
    detection_loss,
    load_drawn,
    match_targets,
    pictures_to_tensor,
    save_weights,
)

WEIGHTS_NAME = {
    "detection": "student_detection.safetensors",
    "classification": "student_classification.safetensors",
}

CLEAR_DAY = (0.0, 0.09)
"""The part of the cycle that the first students have seen."""

DETECTION = StudentSpec("detection", "ssdlite_mobilenet_v3", CLASSES, (192, 320), width=0.5)
CLASSIFICATION = StudentSpec("classification", "shufflenet_v2", CLASSES, (64, 64), width=1.0)


def _varied(picture: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The picture with other exposure, contrast, tint and saturation and noise: usual photometric variation."""
    ramp = np.linspace(0.0, 1.0, 256, dtype=np.float32) ** rng.uniform(0.7, 1.4)
    tint = rng.uniform(0.92, 1.08, 3) * rng.uniform(0.6, 1.25)
    table = np.clip(ramp[:, None] * tint * 255.0 + rng.uniform(-12.0, 24.0), 0.0, 255.0).astype(np.uint8)
    out = cv2.LUT(picture, table[:, None, :])
    grey = cv2.cvtColor(cv2.cvtColor(out, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    share = rng.uniform(0.0, 0.4)
    out = cv2.addWeighted(out, 1.0 - share, grey, share, 0.0)
    if rng.random() < 0.4:
        noise = rng.standard_normal(out.shape, np.float32) * rng.uniform(1.0, 8.0)
        out = np.clip(out + noise, 0.0, 255.0).astype(np.uint8)
    return np.asarray(out, np.uint8)


def train_detector(out: Path, steps: int, minutes: float | None, seed: int, start: Path | None = None) -> None:
    """Trains the detection student on the clear day and stores it with its scores over the whole cycle.

    `start`: a file that an earlier run wrote, to go on from.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed + 100)
    net = build(DETECTION, seed).to(memory_format=torch.channels_last)
    assert isinstance(net, DetectionNet)
    before: dict[str, Any] = {}
    if start is not None:
        begun = load_drawn(start)
        net.load_state_dict(begun.module.state_dict())
        before = {"before": begun.info}
    parameters = net.freeze_all_but("all")
    average = Average(net, build(DETECTION, seed))
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=1e-3)
    size = DETECTION.input_size
    pool = Pool(samples(seed + 100, size[1], size[0], CLEAR_DAY), 1000, 6000, rng)
    progress = DemoProgress(steps, minutes)
    step, losses = 0, list[float]()
    while progress.at(step) < 1.0:
        pool.renew(2)
        chosen = pool.draw(16)
        targets = [
            match_targets(net, size, Detections.build(s.boxes, np.ones(len(s.boxes)), s.classes)) for s in chosen
        ]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(progress.at(step), 3e-3)
        loss = detection_loss(net(pictures_to_tensor([_varied(s.picture, rng) for s in chosen])), targets)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 10.0)
        optimizer.step()
        average.update()
        step += 1
        losses.append(float(loss.detach()))
        say_step(step, progress, losses, pool)
    facts = {"seed": seed, "steps": step, "batch": 16, "seconds": round(progress.seconds), **before}
    path = out / WEIGHTS_NAME["detection"]
    save_weights(path, average.mean, DETECTION, {"made_by": "edge.demo.train_weights detection", **facts}, half=True)
    student = load_drawn(path)
    _write_sidecar(path, DETECTION, facts, evaluate(lambda picture: student.detect([picture])[0]))


def _cuts(sample: TrainingPicture, rng: np.random.Generator, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Cut-outs of a sample's objects, displaced as motion proposals are, and as many pieces of background."""
    count = len(sample.boxes)
    sides = np.concatenate([sample.boxes[:, 2:] - sample.boxes[:, :2]] * 2, 1)
    objects = sample.boxes + sides * rng.uniform(-0.14, 0.14, (count, 4)).astype(np.float32)
    pieces = []
    for _ in range(6):
        w, h = rng.uniform(0.04, 0.25), rng.uniform(0.06, 0.3)
        x, y = rng.uniform(0.0, 1.0 - w), rng.uniform(0.0, 1.0 - h)
        piece = np.array((x, y, x + w, y + h), np.float32)
        inter = np.clip(
            np.minimum(piece[2], sample.boxes[:, 2]) - np.maximum(x, sample.boxes[:, 0]), 0, None
        ) * np.clip(np.minimum(piece[3], sample.boxes[:, 3]) - np.maximum(y, sample.boxes[:, 1]), 0, None)
        if not count or float(np.max(inter / (w * h))) < 0.1:
            pieces.append(piece)
    pieces = pieces[: max(1, count // 3)]
    boxes = np.clip(np.concatenate([objects, *(p[None] for p in pieces)]), 0.0, 1.0)
    classes = np.concatenate([sample.classes, np.full(len(pieces), len(CLASSES), np.int64)])
    return cut_outs(_varied(sample.picture, rng), boxes.astype(np.float32), size), classes


def train_classifier(out: Path, steps: int, minutes: float | None, seed: int) -> None:
    """Trains the classification student on cut-outs of the clear day and stores it with its scores."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed + 200)
    net = build(CLASSIFICATION, seed)
    parameters = net.freeze_all_but("all")
    average = Average(net, build(CLASSIFICATION, seed))
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=1e-2)
    pool = Pool(samples(seed + 200, 512, 288, CLEAR_DAY), 800, 3000, rng)
    progress = DemoProgress(steps, minutes)
    step, losses = 0, list[float]()
    while progress.at(step) < 1.0:
        pool.renew(1)
        parts = [_cuts(s, rng, CLASSIFICATION.input_size) for s in pool.draw(10)]
        classes = torch.from_numpy(np.concatenate([c for _, c in parts]))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(progress.at(step), 3e-3)
        output = net(pictures_to_tensor(np.concatenate([p for p, _ in parts])))
        loss = classification_loss(output, classes, torch.ones(len(classes)))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        average.update()
        step += 1
        losses.append(float(loss.detach()))
        say_step(step, progress, losses, pool)
    facts = {"seed": seed, "steps": step, "batch": "cut-outs of 10 pictures", "seconds": round(progress.seconds)}
    path = out / WEIGHTS_NAME["classification"]
    save_weights(
        path, average.mean, CLASSIFICATION, {"made_by": "edge.demo.train_weights classification", **facts}, half=True
    )
    _write_sidecar(path, CLASSIFICATION, facts, evaluate_classifier(load_drawn(path)))


def evaluate_classifier(student: Student, seeds: int = 3, times: int = 36) -> dict[str, Any]:
    """Share of held-out objects named right (cut out at their true boxes): overall and per group as `evaluate`."""
    right: dict[tuple[str, str], list[int]] = {}
    for number in range(seeds * 4):
        spec = SceneSpec(seed=HELD_OUT_SEEDS + number, character=number % 4, day_s=CYCLE_S)
        scene = Scene(spec)
        for i in range(times):
            t_s = (i + 0.37) / times * CYCLE_S
            picture, objects = scene.render(t_s)
            boxes, classes = truth_arrays(objects)
            said, _ = student.name(picture, boxes)
            state = conditions(spec, t_s)
            for key in (
                ("", "all"),
                ("by_condition", state.label),
                ("by_character", spec.layout),
                ("by_phase", f"{int(state.phase * 10) / 10:.1f}"),
            ):
                one = right.setdefault(key, [0, 0])
                one[0] += int((said == classes).sum())
                one[1] += len(classes)
    report: dict[str, Any] = {"pictures": seeds * 4 * times}
    for (group, name), (hits, total) in sorted(right.items()):
        value = round(hits / max(total, 1), 4)
        if group:
            report.setdefault(group, {})[name] = value
        else:
            report["accuracy"] = value
    return report


def _command(spec: StudentSpec, facts: dict[str, Any]) -> str:
    command = f"python -m edge.demo.train_weights {spec.task} --steps {facts['steps']} --seed {facts['seed']}"
    if "before" in facts:
        first = f"python -m edge.demo.train_weights {spec.task} --steps {facts['before']['steps']}"
        return f"{first} && {command} --start {WEIGHTS_NAME[spec.task]}"
    return command


def _write_sidecar(path: Path, spec: StudentSpec, facts: dict[str, Any], scores: dict[str, Any]) -> None:
    content = {
        "name": path.stem,
        "task": spec.task,
        "spec": spec.to_json(),
        "trained": {**facts, "phases": CLEAR_DAY, "command": _command(spec, facts)},
        "held_out": scores,
    }
    path.with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    say(json.dumps(content["held_out"], indent=2))
