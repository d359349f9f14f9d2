"""The demo's site configuration: scene cameras with their own characters, or clips of the user's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge.core.errors import InvalidValue, MagpieError
from edge.demo.cameras import find_clips
from edge.demo.scene import CLASSES
from edge.settings import RetrainingSettings, SiteSettings, merge, parse
from edge.shares.cgroup import available_cores

WEIGHTS = Path(__file__).parent / "weights"
_NAMES = ("overpass", "junction", "residential", "boulevard")
#: Cores that drawing and encoding one scene camera takes, measured on two cores.
_CORES_PER_SCENE_CAMERA = 0.06


#: Where in its cycle of light and weather the demo begins: the clear day that the first students know is ending.
_START_PHASE = 0.14


def scene_cameras(count: int, seed: int, cycle_s: float) -> list[dict[str, Any]]:
    """`count` scene cameras; each character has its own street, traffic and weather."""
    return [
        {
            "name": _NAMES[n % 4] + ("" if n < 4 else f"-{n // 4 + 1}"),
            "kind": "scene",
            "seed": seed * 100 + n,
            "character": n % 4,
            "width": 512,
            "height": 288,
            "fps": 8.0,
            "day_s": cycle_s,
            "start_phase": _START_PHASE,
            "bitrate": 900_000,
        }
        for n in range(count)
    ]


def video_cameras(folder: Path, count: int, seconds_per_picture: float) -> list[dict[str, Any]]:
    """Cameras that play the clips and stills of a folder."""
    cameras = find_clips(folder, count)
    for camera in cameras:
        camera["seconds_per_picture"] = seconds_per_picture
        camera["fps"] = 4.0
    return cameras


def first_weights(task: str) -> tuple[Path, dict[str, Any]]:
    """The first student that ships with the demo: weight file and its specification."""
    path = WEIGHTS / f"student_{task}.safetensors"
    try:
        about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        return path, about["spec"]
    except (OSError, ValueError, KeyError) as error:
        raise MagpieError(f"{path.with_suffix('.json')}: cannot be read: {error}") from None


def _drawn(weights: Path, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The demo's own first student."""
    return {
        "architecture": spec["architecture"],
        "width": spec["width"],
        "input_height": spec["input_size"][0],
        "input_width": spec["input_size"][1],
        "last_layer_width": spec["last_layer_width"],
        "weights": str(weights),
    }


def _camera_settings(camera: Mapping[str, Any], task: str, student: str) -> dict[str, Any]:
    """A camera's entry but for its address and classes."""
    weights, spec = first_weights(task)
    return {
        "id": camera["name"],
        "task": task,
        "student": _drawn(weights, spec) if not student or task != "detection" else {"model": student},
        # A still does not change while it is shown: only after that is the picture frozen.
        "stall_timeout_s": max(5.0, 2.0 * camera.get("seconds_per_picture", 0.0)),
        "inference": {"frame_rates": [8.0, 4.0, 2.0, 1.0]},
    }


def demo_site(
    cameras: list[dict[str, Any]],
    base_url: str,
    user: str,
    password_from: str,
    data: Path,
    *,
    window_s: float,
    policy: str,
    task: str,
    teacher: Path | None,
    student: str = "",
    classes: tuple[str, ...],
    class_map: Mapping[str, tuple[str, ...]],
    port: int,
    overrides: Mapping[str, Any],
) -> SiteSettings:
    """The site for these cameras. Raises InvalidValues."""
    if any(c["kind"] != "scene" for c in cameras) and not classes and not class_map:
        # A detector for everyday objects calls motorcycles by their name; the first student knows one class for both.
        class_map = {"bicycle": ("bicycle", "motorcycle")}
    settings = [
        _camera_settings(camera, task if task != "mixed" else ("detection", "classification")[n % 2], student)
        | {
            "url": f"{base_url}/{camera['name']}",
            "username": user,
            "password_from": password_from,
            "classes": list(classes or CLASSES),
            "class_map": {k: list(v) for k, v in class_map.items()},
        }
        for n, camera in enumerate(cameras)
    ]
    scene = sum(c["kind"] == "scene" for c in cameras)
    cores = max(0.25, available_cores() - _CORES_PER_SCENE_CAMERA * scene - 0.05)
    defaults: dict[str, Any] = {
        "window_s": window_s,
        "policy": policy,
        # With so few frames and so strong a drift, retraining the head alone rarely pays: its trials are saved.
        "space": {"layers": ["last_stage", "all"], "epochs": [5, 10, 20]},
    }
    retraining = merge(defaults, dict(overrides))
    unknown = set(retraining) - set(RetrainingSettings.model_fields)
    if unknown:
        raise InvalidValue("--set", sorted(unknown)[0], "one of " + ", ".join(RetrainingSettings.model_fields))
    return parse(
        SiteSettings,
        {
            "site": "demo",
            "data_dir": str(data),
            "machine": {"cores": round(cores, 2)},
            "teacher": str(teacher or ""),
            "demo": scene == len(cameras),
            "web": {"port": port, "access": {"secret_references": ["secret:", password_from]}},
            "retraining": retraining,
            "cameras": settings,
        },
    )
