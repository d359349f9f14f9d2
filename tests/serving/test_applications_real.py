"""The small `traffic`: real repository, real networks (the demo's trained students), pictures of the demo's street."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_applications import Clock, Models, ask, values

from benchmarks.make_applications import FINDER, MOST, repository, write_applications
from benchmarks.make_models import STUDENT, write_repository
from edge.core.front_messages import ServedVersion
from edge.demo.scene import Scene, SceneSpec
from edge.serving.applications import ApplicationService
from edge.serving.backends import Model, load
from edge.serving.repository import Repository
from edge.students import load_student


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("models")
    models, applications = repository("small")
    write_repository(path, {name: models[name] for name in ("finder", "namer")})
    write_applications(path, {"traffic": applications["traffic"]})
    return path


def backed(version: ServedVersion, model: Model, models: Models) -> None:
    def run(given: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
        return model.run(dict(given))

    models.add(version.model, list(version.inputs), list(version.outputs), run)


def iou(a: np.ndarray, b: np.ndarray) -> float:
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    common = float(np.prod(np.maximum(high - low, 0)))
    return common / float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common)


async def test_traffic_finds_and_names_what_the_students_do(folder: Path) -> None:
    repository = Repository(folder)
    traffic = repository.application("traffic")
    models = Models(Clock())
    for name in traffic.models:
        version = repository.resolve(name)
        backed(version, load(version), models)
    service = ApplicationService(models, [traffic], models.clock)
    assert service.problems(traffic) == []

    scene = Scene(SceneSpec(seed=5, character=1))
    pictures = np.stack([scene.render(t)[0] for t in (4.0, 11.0, 20.0, 30.0)])
    got = values(await service.infer(ask("traffic", pictures)))
    assert got["boxes"].shape == (4, MOST, 4)
    assert got["vehicles"].shape == (4, 3, 6)

    finder, namer = load_student(FINDER).for_inference(), load_student(STUDENT).for_inference()
    found = finder.detect(list(pictures), score=0.4)
    assert sum(len(f.scores) for f in found) >= 4  # or the test would show nothing
    same = looked_at = 0
    for row, f in enumerate(found):
        for box, score, label in zip(f.boxes, f.scores, f.classes, strict=True):
            near = [k for k in range(MOST) if iou(got["boxes"][row, k], box) > 0.9]
            assert any(
                got["labels"][row, k] == label and got["scores"][row, k] == pytest.approx(score, abs=1e-3) for k in near
            )
        for output, classes in (("vehicles", (0, 1, 2)), ("people", (3, 4))):
            chosen = [
                k
                for k in np.argsort(-got["scores"][row], kind="stable")
                if got["scores"][row, k] >= 0.4 and got["labels"][row, k] in classes
            ][:3]
            assert got["vehicle_count" if output == "vehicles" else "person_count"][row] == len(chosen)
            if chosen:
                names, _ = namer.name(pictures[row], got["boxes"][row][chosen])
                same += int(np.sum(got[output][row, : len(chosen)].argmax(-1) == names))
                looked_at += len(chosen)
    # The product's own cut-outs repeat the picture's edge where an application's end at it: nearly always the same.
    assert looked_at >= 4
    assert same >= 0.8 * looked_at


async def test_the_small_game_fits_its_models(tmp_path: Path) -> None:
    made, applications = repository("small")
    write_repository(tmp_path, {name: made[name] for name in ("lenet", "shufflenet")})
    write_applications(tmp_path, {"game": applications["game"]})
    folder = Repository(tmp_path)
    game = folder.application("game")
    models = Models(Clock())
    for name in game.models:
        version = folder.resolve(name)
        backed(version, load(version), models)
    service = ApplicationService(models, [game], models.clock)
    assert service.problems(game) == []
    picture = np.random.default_rng(0).integers(0, 256, (2, 144, 256, 3), dtype=np.uint8)
    got = values(await service.infer(ask("game", picture)))
    assert got["digit1"].shape == (2, 10)
    assert got["scene"].shape == (2, 100)
    assert not np.allclose(got["digit1"], got["digit6"])  # other places of the picture
