"""Training of the demo's teacher on every character, light and weather of the scene."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torchvision.models.detection.image_list import ImageList

from edge.demo.scene import CLASSES
from edge.demo.training import (
    Average,
    DemoProgress,
    Pool,
    evaluate,
    learning_rate,
    samples,
    say,
    say_step,
    write_weights,
)
from golden.demo_teacher import DemoTeacher, TeacherSpec, build_network


def train_teacher(out: Path, steps: int, minutes: float | None, seed: int, pool_size: int = 5000) -> None:
    """Trains the teacher on one CPU thread in bfloat16 and writes weights, scores and the command."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    spec = TeacherSpec(classes=CLASSES, width=448, height=256)
    model = build_network(spec).train().to(memory_format=torch.channels_last)
    average = Average(model, build_network(spec))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
    stream = samples(seed, spec.width, spec.height, (0.0, 1.0))
    pool = Pool(stream, 1200, pool_size, rng)
    batch, size = 8, (spec.height, spec.width)
    scale = torch.tensor([spec.width, spec.height] * 2, dtype=torch.float32)
    progress = DemoProgress(steps, minutes)
    step, losses = 0, list[float]()
    say(f"teacher: {sum(p.numel() for p in model.parameters())} weights, {len(pool)} pictures to begin with")
    while progress.at(step) < 1.0:
        pool.renew(2)
        chosen = pool.draw(batch)
        pictures = torch.from_numpy(np.stack([s.picture for s in chosen])).permute(0, 3, 1, 2)
        pictures = pictures.float().div_(127.5).sub_(1.0).contiguous(memory_format=torch.channels_last)
        targets = [{"boxes": torch.from_numpy(s.boxes) * scale, "labels": torch.from_numpy(s.classes)} for s in chosen]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(progress.at(step), 2.5e-3)
        with torch.autocast("cpu", torch.bfloat16):
            features = list(model.backbone(pictures).values())
            raw = model.head(features)
        outputs = {name: value.float() for name, value in raw.items()}
        anchors = model.anchor_generator(ImageList(pictures, [size] * batch), features)
        cells = [f.shape[2] * f.shape[3] for f in features]
        loss = sum(model.compute_loss(targets, outputs, anchors, cells).values())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        step += 1
        average.update()
        losses.append(float(loss.detach()))
        say_step(step, progress, losses, pool)
        if step % 1500 == 0:
            scores = _store_teacher(out, average.mean, spec, {"seed": seed, "steps": step}, seeds=1, times=18)
            say(f"checkpoint at {step}: {json.dumps(scores)}")
    facts = {"seed": seed, "steps": step, "batch": batch, "seconds": round(progress.seconds)}
    say(json.dumps(_store_teacher(out, average.mean, spec, facts, seeds=3, times=36), indent=2))


def _store_teacher(
    out: Path, network: torch.nn.Module, spec: TeacherSpec, facts: dict[str, Any], seeds: int, times: int
) -> dict[str, Any]:
    path = out / "demo_teacher.safetensors"
    sidecar: dict[str, Any] = {
        "name": "demo_teacher",
        "task": "detection",
        "spec": spec.to_json(),
        "trained": {**facts, "command": f"python -m edge.demo.train_weights teacher --steps {facts['steps']}"},
    }
    write_weights(path, network.state_dict(), sidecar)
    scores = evaluate(DemoTeacher(path).label, seeds, times)
    write_weights(path, network.state_dict(), {**sidecar, "held_out": scores})
    return scores
